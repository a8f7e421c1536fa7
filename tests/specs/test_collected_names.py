"""Names of parts and machines that tools print and projects list mean the part, or are told what comes nearest and why."""

import re
from pathlib import Path

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.on import parse_target
from tests.sweeps import each

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
ROWS = [
    tuple(part.strip() for part in line.rpartition("|")[::2])
    for line in Path(__file__).with_name("collected_names.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
EVERY = 4
"""One name in so many is looked at by `pytest`, all others with the wide sweeps."""


def _answer(name):
    """The part and how many are taken, or the hint where none is."""
    try:
        target = parse_target(name, CATALOG)
    except GpuplanError as error:
        return "", error.problems[0].hint or ""
    return f"{target.accelerator.id} {target.count}", ""


def _look(name, wanted):
    part, hint = _answer(name)
    if wanted == "?":
        assert not part, part
        assert len(hint) > len("write for example")
    elif wanted.startswith("~"):
        assert not part, part
        assert f"`{wanted[1:]}`" in hint
    else:
        assert part == wanted, hint


@each("name, wanted", ROWS[::EVERY])
def test_a_name_means_its_part_or_says_what_comes_nearest_and_why(name, wanted):
    _look(name, wanted)


@pytest.mark.slow
@each("name, wanted", [row for at, row in enumerate(ROWS) if at % EVERY])
def test_so_does_every_other_name(name, wanted):
    _look(name, wanted)


def test_a_part_is_no_machine_of_a_cloud_that_calls_one_so():
    for name in ("NVIDIA A100", "a100 gpu", "RTX_6000Ada", "RTXPRO6000"):
        assert parse_target(name, CATALOG).instance is None, name


def test_a_part_of_the_users_own_is_of_the_maker_that_its_file_names(tmp_path):
    mine = (shipped_folder() / "accelerators" / "nvidia" / "rtx-4090.yaml").read_text("utf-8")
    mine = re.sub(r"^aliases:.*?(?=^\w)", "", mine.replace("id: rtx-4090", "id: rtx-9990-ti"), flags=re.M | re.S)
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "rtx-9990-ti.yaml").write_text(mine, "utf-8")
    catalog = Catalog.open(env={"HOME": "/nonexistent", "GPUPLAN_SPECS": str(tmp_path)})
    assert parse_target("NVIDIA RTX 9990Ti", catalog).accelerator.id == "rtx-9990-ti"
