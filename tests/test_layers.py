"""Do the layers hold, and does the command line start without what it does not need?"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ("numpy", "torch", "jax", "scipy", "matplotlib", "pandas")
MODULES = "import sys; print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
ASK = "import sys; from gpuplan.cli.main import run; code = run(sys.argv[1:]); assert code == 0, code; "


def python(*words: str) -> subprocess.CompletedProcess[str]:
    # Colour codes or a user's own specs must not change what is imported.
    env = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPLAN_", "COVERAGE_", "COV_CORE"))}
    return subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def imported(code: str, *words: str) -> set[str]:
    """Top-level names of all modules that a program has imported when it ends."""
    done = python("-c", code + MODULES, *words)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def test_the_layers_hold() -> None:
    pytest.importorskip("importlinter", reason="import-linter is in the `test` extra")
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = python("-c", code)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_entry_point_imports_no_arrays_and_no_yaml() -> None:
    found = imported("import gpuplan.cli.main; ")
    # The parser too is imported only where words are not plain: it takes as long as all that `fit` computes.
    assert found & {*HEAVY, "yaml", "rich", "typer"} == set()


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("fit", "--help")])
def test_help_imports_no_arrays_and_no_yaml(words: tuple[str, ...]) -> None:
    assert imported(ASK, *words) & {*HEAVY, "yaml"} == set()


@pytest.mark.parametrize("words", [("--help",), ("fit", "llama-3.1-8b", "--on", "h100"), ("serve", "llama-3.1-8b", "--on", "h100")])
def test_a_simple_question_imports_no_arrays_and_no_pydantic(words: tuple[str, ...]) -> None:
    assert imported(ASK, *words) & {*HEAVY, "pydantic", "pydantic_core"} == set()


@pytest.mark.parametrize("words", [("fit", "llama-3.1-8b", "--on", "h100"), ("serve", "llama-3.1-8b", "--on=h100", "--full")])
def test_a_plain_question_imports_no_parser(words: tuple[str, ...]) -> None:
    assert imported(ASK, *words) & {"typer", "click", "subprocess", "inspect", "rich"} == set()


@pytest.mark.parametrize("module", ["gpuplan", "gpuplan.formulas", "gpuplan.term", "gpuplan.errors", "gpuplan.units"])
def test_the_lower_layers_import_only_the_standard_library(module: str) -> None:
    assert imported(f"import {module}; ") & {*HEAVY, "yaml", "rich", "typer", "pydantic", "click"} == set()


ALLOWED = {"yaml": {"strict_yaml.py", "specs", "models", "accuracy"}, "typer": {"cli"}, "rich": {"render"}}


@pytest.mark.parametrize("library", ALLOWED)
def test_each_library_stays_in_its_layer(library: str) -> None:
    package = ROOT / "gpuplan"
    strays = []
    for path in sorted(package.rglob("*.py")):
        top = path.relative_to(package).parts[0]
        lines = path.read_text(encoding="utf-8").splitlines()
        if top not in ALLOWED[library] and any(
            line.strip().startswith((f"import {library}", f"from {library} ", f"from {library}.")) for line in lines
        ):
            strays.append(str(path.relative_to(ROOT)))
    assert strays == []
