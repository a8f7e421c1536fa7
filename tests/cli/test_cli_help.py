"""Every command has a help page with an example, the page fits 80 columns, and nothing heavy is imported for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.cli.calibrate import PARTS as CALIBRATE
from gpuplan.cli.commands import COMMANDS
from gpuplan.cli.plan import PARTS as PLANS
from gpuplan.cli.specs import PARTS
from tests.cli.cli_calls import Call, process, python

NESTED = [("specs", one) for one in PARTS] + [("models", one) for one in ("list", "show", "import")]
NESTED += [("prices", one) for one in ("list", "check", "import")] + [("prices", "import", one) for one in ("skypilot", "gpuhunt")]
NESTED += [("calibrate", one) for one in CALIBRATE] + [("plan", one) for one in PLANS]
EVERY = [(name,) for name in COMMANDS] + NESTED


@pytest.mark.parametrize("path", EVERY, ids=" ".join)
def test_every_command_has_help_with_an_example(call: Call, path: tuple[str, ...]) -> None:
    said = call(*path, "--help")
    assert said.code == 0
    assert said.err == ""
    assert said.out.startswith(f"Usage: gpuplan {' '.join(path)}")
    assert "Examples:\n  gpuplan " in said.out
    examples = [line.strip() for line in said.out.splitlines() if line.startswith("  gpuplan ")]
    assert all(line.startswith(f"gpuplan {path[0]} ") or line == f"gpuplan {path[0]}" for line in examples)
    assert all(len(line) <= 80 or line.startswith("  gpuplan ") for line in said.out.splitlines())


def test_the_first_page_lists_every_command_without_importing_one(call: Call) -> None:
    said = call("--help")
    assert said.code == 0
    for name, about in COMMANDS.items():
        assert f"  {name}" in said.out
        assert about in said.out
    assert "Exit codes: 0 answered" in said.out
    assert call().out == said.out
    assert call("-h").out == said.out


def test_every_option_of_every_command_says_what_it_does(call: Call) -> None:
    for path in EVERY:
        said = call(*path, "--help", columns=100)
        lines = said.out.splitlines()
        for line, below in zip(lines, [*lines[1:], ""], strict=True):
            if line.startswith("  --"):
                assert len(line.split("  ")) > 2 or below.startswith(" " * 12), (path, line)


def test_version(call: Call) -> None:
    from gpuplan import __version__

    assert call("--version").out == f"gpuplan {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    out = python(
        "import sys\nimport typer\nown = set(sys.modules)  # old versions of typer bring rich\n"
        "from gpuplan.cli.main import run\nrun(['--help'])\n"
        "print([name for name in ('numpy', 'torch', 'yaml', 'rich', 'pydantic', 'scipy') if name in set(sys.modules) - own])\n"
        "run(['fit', '--help'])\n"
        "print([name for name in ('numpy', 'torch', 'yaml', 'rich', 'scipy') if name in set(sys.modules) - own])"
    )
    assert out.count("\n[]\n") == 2


def test_help_is_mentioned_in_the_readme() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    if len(readme) < 1000:
        pytest.skip("the README is not written yet")
    for name in COMMANDS:
        assert f"gpuplan {name}" in readme


def test_program_and_module_are_the_same() -> None:
    made = process("--help")
    assert made.returncode == 0
    assert made.stderr == ""
    assert "\x1b" not in made.stdout
