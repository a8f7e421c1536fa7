"""Do the pages say what is there: the floors of the code, and files and modules that exist?"""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def short(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250


def test_the_floors_of_the_page_are_those_that_ci_enforces() -> None:
    (contract,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    enforced = [set(layer.split(" | ")) for layer in contract["layers"] if layer != "__main__"]
    table = ARCHITECTURE[ARCHITECTURE.index("## The floors") : ARCHITECTURE.index("## From YAML")]
    told = [re.findall(r"`(\w+)`", line.split("|")[1]) for line in table.splitlines() if line.startswith("| `")]
    assert {name for layer in told for name in layer} == set().union(*enforced)
    order = {name: at for at, layer in enumerate(enforced) for name in layer}
    flat = [order[name] for layer in told for name in layer]
    assert flat == sorted(flat)


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for target, heading in re.findall(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)", page.read_text(encoding="utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{target}{heading}"
        if heading:
            heads = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
            anchors = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
            assert heading[1:] in anchors, f"{target}{heading}"


def test_the_architecture_page_names_what_is_there() -> None:
    paths = re.findall(r"`((?:gpuplan|hardware_specs|tests|tools)/[\w./-]*)`", ARCHITECTURE)
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []
    modules = set(
        re.findall(r"`((?:strict_yaml|specs|machine|workload|formulas|estimate|search|render)\.[a-z_]+)[`.]", ARCHITECTURE)
    )
    assert len(modules) > 8
    for module in modules:
        names = f"gpuplan.{module}".split(".")
        assert find_spec(".".join(names[:2])) is not None
        text = (ROOT / "/".join(names)).with_suffix(".py")
        plain = (ROOT / "/".join(names[:-1])).with_suffix(".py")
        assert text.exists() or f"def {names[-1]}(" in plain.read_text(encoding="utf-8"), module
    for module, name in re.findall(r"`((?:specs|machine|search)\.\w+)\.(\w+)`", ARCHITECTURE):
        file = (ROOT / "gpuplan" / module.replace(".", "/")).with_suffix(".py")
        assert re.search(rf"^(?:def|class) {name}\b", file.read_text(encoding="utf-8"), re.M), f"{module}.{name}"
