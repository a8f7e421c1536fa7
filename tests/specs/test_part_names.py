"""469 names of parts as people write them, listed from memory before it was looked what gpuplan makes of them."""

from pathlib import Path

from gpuplan.errors import GpuplanError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

NAMES = Path(__file__).with_name("part_names.txt").read_text("utf-8").splitlines()


def _answer(name: str, catalog: Catalog) -> str:
    """What is taken, or the hint that names what comes nearest and why; empty where neither is told."""
    try:
        return parse_target(name, catalog).accelerator.id
    except GpuplanError as error:
        hint = error.problems[0].hint
        told = ("the nearest on record is", "nearest:", "name one:")
        return hint if any(one in hint for one in told) else ""


def test_every_name_is_a_part_or_answered_with_the_nearest_and_why():
    catalog = Catalog.open(env={"HOME": "/nowhere"})
    answers = {name: _answer(name, catalog) for name in NAMES}
    unknown = [name for name, answer in answers.items() if not answer]
    assert len(unknown) <= 0.03 * len(NAMES), unknown
    assert answers["A100 80GB SXM4"] == "a100-sxm-80gb"
    assert answers["Mac Studio M4 Max 128GB"] == "apple-m4-max-40c"
    assert "--set hw.memory_capacity=48GiB" in answers["RTX 4090 48GB"]
    assert answers["5060 ti 16gb"] == "rtx-5060-ti-16gb"
    assert answers["6800 xt"] == "rx-6800-xt"
    assert answers["RTX PRO 6000 Blackwell Max-Q Workstation Edition"] == "rtx-pro-6000-blackwell-max-q"
    assert answers["NVIDIA GeForce RTX 2070 with Max-Q Design"] == "rtx-2070-max-q"


def test_names_that_two_generations_share_are_asked_back():
    catalog = Catalog.open(env={"HOME": "/nowhere"})
    for name, parts in [
        ("RTX 6000", ("rtx-6000-ada", "quadro-rtx-6000")),
        ("RTX 4000", ("rtx-4000-ada", "quadro-rtx-4000")),
        ("NVIDIA GeForce RTX 4090D 48GB", ("rtx-4090-d",)),
    ]:
        answer = _answer(name, catalog)
        assert all(part in answer for part in parts), (name, answer)


def test_graphics_of_a_processor_are_parts():
    catalog = Catalog.open(env={"HOME": "/nowhere"})
    told = {
        "AMD Radeon 890M Graphics": "radeon-890m",
        "Ryzen 7 8840U": "radeon-780m",
        "Core Ultra 7 258V": "arc-140v",
        "Arc B390": "arc-b390",
    }
    assert {name: _answer(name, catalog) for name in told} == told
