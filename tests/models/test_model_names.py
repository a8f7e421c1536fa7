"""369 names of models as people write them, listed from memory before it was looked what gpuplan makes of them."""

import re
from pathlib import Path

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.models.catalog import find

NAMES = Path(__file__).with_name("model_names.txt").read_text("utf-8").splitlines()
SIZE = re.compile(r"(?<![\da-zA-Z.])(\d+(?:\.\d+)?)([bBtT])(?![a-zA-Z])")


@pytest.fixture(scope="module")
def answers():
    """The card, the picture model or the hint of each name; empty where it is not known and nothing is said."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True, raising=False)
        return {name: _answer(name) for name in NAMES}


def _answer(name):
    try:
        return find(name)
    except GpuplanError as error:
        problem = error.problems[0]
        if "makes pictures or clips" in problem.message:
            return problem.message
        return problem.hint if "the nearest on record is" in problem.hint else ""


def test_every_name_is_a_model_or_answered_with_the_nearest_and_why(answers):
    unknown = [name for name, answer in answers.items() if not answer]
    assert len(unknown) <= 0.03 * len(NAMES), unknown
    assert answers["phi3:medium"].id == "phi-3-medium"
    assert answers["CLIP ViT-B/32"].id == "clip-vit-base-patch32"


SAYS_OTHER = {"laion/CLIP-ViT-bigG-14-laion2B-39B-b160k", "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8"}
"""What they were trained on, and how much of a mixture works at once."""


def test_no_name_is_taken_for_a_model_of_another_size(answers):
    checked = 0
    for name, answer in answers.items():
        said = [float(size) * (1e12 if unit in "tT" else 1e9) for size, unit in SIZE.findall(name)]
        published = None if isinstance(answer, str) else answer.published
        if not said or published is None or published.params_total is None or name in SAYS_OTHER:
            continue
        checked += 1
        assert any(abs(published.params_total / one - 1) < 0.25 for one in said), (name, answer.id)
    assert checked > 100
