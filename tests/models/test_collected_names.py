"""Names of models that other projects list mean the model, or are told what comes nearest; each class of slip has its names."""

import os
import pwd
import re
from pathlib import Path

import pytest

from gpuplan.errors import GpuplanError, UsageError
from gpuplan.models.catalog import find, names
from gpuplan.models.diffusion.glance import diffusion_path
from gpuplan.models.repositories import of_its_family
from tests.sweeps import each

ROWS = [
    tuple(part.strip() for part in line.split("|"))
    for line in Path(__file__).with_name("collected_names.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
EVERY = 4
"""One name in so many is looked at by `pytest`, all others with the wide sweeps."""


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True, raising=False)


def _answer(name):
    """The id of what is taken, or the hint where nothing is."""
    try:
        return find(name).id, ""
    except GpuplanError as error:
        path = diffusion_path(name)
        return (path.stem, "") if path is not None else ("", error.problems[0].hint or "")


def _look(name, wanted):
    card, hint = _answer(name)
    if wanted.startswith("~"):
        assert not card, card
        assert f"`{wanted[1:]}`" in hint
        assert "nearest on record is" in hint or "name one:" in hint, hint
    else:
        assert card == wanted, hint


@each("name, wanted", ROWS[::EVERY])
def test_a_name_means_its_model_or_says_what_comes_nearest_and_why(name, wanted):
    _look(name, wanted)


@pytest.mark.slow
@each("name, wanted", [row for at, row in enumerate(ROWS) if at % EVERY])
def test_so_does_every_other_name(name, wanted):
    _look(name, wanted)


def test_a_path_from_the_home_of_a_user_that_there_is_is_no_name_of_a_model():
    with pytest.raises(UsageError, match="cannot read the file"):
        find(f"~{pwd.getpwuid(os.getuid()).pw_name}/no-such-folder")


@pytest.mark.parametrize("family", ["canary", "glm-4", "olmoe", "nemotron-nano", "qwen3", "stablelm"])
def test_each_size_that_is_told_can_be_typed(family):
    told = re.findall(r"`([^`]+)`", of_its_family(family, names()))
    assert told
    assert all(find(one) for one in told)
