"""Is the site of docs/ whole: every page in its menu, and a check that finds dead links and what would be fetched?"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
CONFIG = ROOT / "mkdocs.yml"


def tool(name: str) -> ModuleType:
    """A module of tools/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


class Settings:
    """What a hook is given of mkdocs' settings."""

    def __init__(self, nav: list[Any], docs: Path) -> None:
        self.nav, self.docs_dir = nav, str(docs)


def test_every_page_is_in_the_menu_once() -> None:
    hooks = tool("site_hooks")
    made = hooks.on_config(Settings(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["nav"], ROOT / "docs"))
    assert sorted(hooks.listed(made.nav)) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_a_page_that_nobody_put_into_the_menu_stands_at_its_end(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.md").touch()
    made = tool("site_hooks").on_config(Settings([{"Start": ["b.md"]}], tmp_path))
    assert made.nav == [{"Start": ["b.md"]}, {"More": ["a.md", "c.md"]}]


def test_the_first_page_leads_to_every_person_s_page() -> None:
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((for-[\w-]+\.md)\)", first)) == {path.name for path in (ROOT / "docs").glob("for-*.md")}


def test_links_out_of_docs_become_names() -> None:
    hook = tool("site_hooks").on_page_markdown
    assert hook("see [the file](../tests/a.py#x) and [`b/c.yaml`](../b/c.yaml), [here](d.md#e)") == (
        "see the file (`tests/a.py`) and `b/c.yaml`, [here](d.md#e)"
    )


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="b.html#there">x</a><a href="https://x.org">x</a><img src="p.png"><h1 id="q"></h1><a href="#q">x</a>', ""),
        ('<a href="gone.html">x</a>', "no file gone.html"),
        ('<a href="b.html#nowhere">x</a>', "no heading b.html#nowhere"),
        ('<img src="gone.png">', "no file gone.png"),
        ('<script src="https://x.org/a.js"></script>', "fetches https://x.org/a.js"),
        ('<link rel="stylesheet" href="//x.org/a.css">', "fetches //x.org/a.css"),
        ('<link rel="canonical" href="https://x.org/">', ""),
    ],
)
def test_the_check_finds_what_it_is_for(body: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<html><body>{body}</body></html>")
    (tmp_path / "b.html").write_text('<h2 id="there">x</h2>')
    (tmp_path / "p.png").write_bytes(b"")
    assert list(tool("site").faults_of(tmp_path)) == ([f"a.html: {fault}"] if fault else [])


def test_a_style_that_fetches_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("body { background: url(https://x.org/a.png) }")
    assert list(tool("site").faults_of(tmp_path)) == ["a.css: fetches from elsewhere"]


def test_every_formula_has_its_text_its_source_and_its_example_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuplan.formulas import every_formula

    page = tool("reference_pages").formulas_page()
    heads = re.findall(r"^### (\w+)$", page, re.M)
    assert sorted(heads) == sorted(every_formula())
    for part in page.split("\n### ")[1:]:
        name = part.split("\n", 1)[0]
        assert "Source: " in part, name
        assert ">>> " in part, name


def test_every_command_is_on_the_page() -> None:
    from gpuplan.cli.complete.commands_of import commands

    page = tool("reference_pages").commands_page()
    assert set(re.findall(r"^## gpuplan ?(.*)$", page, re.M)) == set(commands())
    assert "--max-age DAYS" in page
    train = page[page.index("## gpuplan train") : page.index("## gpuplan serve")]
    assert "--json" in train
    assert "\n  --tokens" not in train


def test_every_schema_is_on_the_page() -> None:
    page = tool("reference_pages").schemas_page()
    heads = set(re.findall(r"^## ([\w-]+)$", page, re.M))
    assert heads == {path.name.removesuffix(".schema.json") for path in (ROOT / "hardware_specs" / "schema").glob("*.json")}


def test_the_cells_of_the_notebook_page_run() -> None:
    pytest.importorskip("pandas", reason="pandas is in the `test` extra")
    text = (ROOT / "docs" / "for-notebooks.md").read_text(encoding="utf-8")
    cells = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(cells) > 1
    space: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "for-notebooks.md", "exec"), space)
    assert len(space["pd"].DataFrame(space["grid"])) == 6


def test_the_tool_says_how_it_is_used(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["site.py"])
    assert tool("site").main() == 2
    assert "usage" in capsys.readouterr().err
