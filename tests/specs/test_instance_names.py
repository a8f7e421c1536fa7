"""Names of cloud instances as people write them mean the machine, or are told what comes nearest."""

from pathlib import Path

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
ROWS = [
    [part.strip() for part in line.split("|")]
    for line in Path(__file__).with_name("instance_names.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]

TOLD = [
    tuple(part.strip() for part in line.rpartition("|")[::2])
    for line in Path(__file__).with_name("told_instance_names.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


def _taken_or_told(name):
    """What is taken, or the hint where nothing is."""
    try:
        target = parse_target(name, CATALOG)
    except GpuplanError as error:
        return "", error.problems[0].hint or ""
    return f"{target.accelerator.id} {target.count}", ""


@pytest.mark.parametrize(("name", "wanted"), TOLD)
def test_a_name_means_its_machine_or_is_told_what_to_name_instead(name, wanted):
    taken, hint = _taken_or_told(name)
    if wanted.startswith("~"):
        assert not taken, taken
        assert f"`{wanted[1:]}`" in hint
    else:
        assert taken == wanted, hint


def test_terms_in_a_name_are_told_how_to_be_asked_for():
    notes = parse_target("gcp v6e-8 spot", CATALOG).notes
    assert any("--price-kind spot" in note.hint for note in notes)


def test_names_mean_the_machine_or_say_what_comes_nearest():
    odd = []
    for name, wanted in ROWS:
        try:
            target = parse_target(name, CATALOG)
        except GpuplanError as error:
            if wanted != "?" or "`" not in (error.problems[0].hint or ""):
                odd.append(f"{name}: {error}")
        else:
            if wanted not in ("?", found := f"{target.accelerator.id} {target.count}"):
                odd.append(f"{name}: {found}, where {wanted} is meant")
    assert not odd, "\n".join(odd)
    assert len(ROWS) > 300
    assert sum(wanted != "?" for _, wanted in ROWS) >= 0.7 * len(ROWS)
