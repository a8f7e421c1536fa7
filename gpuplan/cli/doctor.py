"""`gpuplan doctor`: is this installation whole, and where does it read from?"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option, Typer

from gpuplan.cli.help import Command
from gpuplan.errors import Exit as Code
from gpuplan.errors import GpuplanError, install

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog

app = Typer(add_completion=False, rich_markup_mode=None)

EXTRAS = {"calibrate": ("scipy", "torch"), "plot": ("matplotlib",), "hub": ("huggingface_hub",)}
"""The optional extras of pyproject.toml and what they bring."""
NEEDED = ("typer", "pydantic", "pyyaml", "numpy")


@app.command(cls=Command)
def doctor(*, json: Annotated[bool, Option("--json", help="The same as JSON, for a bug report")] = False) -> None:
    """Is gpuplan installed whole? Versions, where specs are read from, optional extras, and a check of the shipped data.

    Exits with 5 when something that an estimate needs is missing or wrong.

    Examples:
      gpuplan doctor
      gpuplan doctor --json
    """
    facts, problems = examine()
    if json:
        import json as jsonlib

        print(jsonlib.dumps({**dict(facts), "problems": problems}, indent=2, ensure_ascii=False))
    else:
        from gpuplan.render.text import look_of, wrap

        look = look_of(sys.stdout)
        left = max(len(name) for name, _ in facts)
        for name, value in facts:
            print("\n".join(wrap(value, look.width, f"{name:<{left}}  ")))
        print()
        print(look.bad("PROBLEMS") if problems else look.good("ALL WELL"))
        for problem in problems:
            print("\n".join(wrap(problem, look.width, "  - ", "    ")))
    raise Exit(int(Code.UNKNOWN if problems else Code.OK))


def examine() -> tuple[list[tuple[str, str]], list[str]]:
    """What there is, as pairs of name and text, and what is wrong."""
    import platform

    from gpuplan import __version__

    facts = [("gpuplan", __version__), ("python", f"{platform.python_version()} on {platform.platform(terse=True)}")]
    problems: list[str] = []
    for name in NEEDED:
        version = _version(name)
        facts.append((name, version or "missing"))
        if not version:
            problems.append(f"{name} is not installed: install gpuplan again")
    for extra, modules in EXTRAS.items():
        found = [f"{name} {_version(name)}" for name in modules if _version(name)]
        missing = [name for name in modules if not _version(name)]
        ask = f"; for {', '.join(missing)}: {install(extra)}" if missing else ""
        facts.append((f"extra {extra}", f"{', '.join(found) or 'not installed'}{ask}"))
    try:
        _specs(facts, problems)
    except GpuplanError as error:
        problems += [str(one) for one in error.problems]
    return facts, problems


def _specs(facts: list[tuple[str, str]], problems: list[str]) -> None:
    from gpuplan.check.examine import check
    from gpuplan.specs.catalog import KINDS, Catalog, shipped_folder

    facts.append(("specs shipped", str(shipped_folder())))
    facts.append(("GPUPLAN_SPECS", os.environ.get("GPUPLAN_SPECS") or "not set"))
    catalog = Catalog.open()
    for folder in catalog.folders[1:]:
        facts.append(("specs of yours", str(folder)))
    counts = [f"{len(catalog.paths(kind))} {kind}" for kind in KINDS if catalog.paths(kind)]
    facts.append(("on record", ", ".join(counts) or "nothing"))
    facts.append(("newest look", _newest(catalog)))
    config = _config()
    facts.append(("your folder", f"{config} ({'there' if config.is_dir() else 'not there yet'}, {_writable(config)})"))
    findings = check(list(catalog.folders))
    wrong = [found for found in findings if found.severity == "error"]
    facts.append(("spec check", f"{len(wrong)} errors, {len(findings) - len(wrong)} warnings (`gpuplan specs check` shows them)"))
    problems += [f"{found.where}: {found.message}" for found in wrong]


def _newest(catalog: Catalog) -> str:
    """The latest day on which someone checked a source of an accelerator, by a glance at the files' text."""
    import re

    days = [day for _, _, text in catalog.texts("accelerators") for day in re.findall(r"checked: (20\d\d-\d\d-\d\d)", text)]
    return f"accelerators checked against their sources up to {max(days)}" if days else "no source has a date"


def _config() -> Path:
    from gpuplan.files.home import home

    return Path(os.environ.get("XDG_CONFIG_HOME") or home(os.environ) / ".config") / "gpuplan"


def _writable(folder: Path) -> str:
    """Whether files can be put into a folder, which need not exist yet."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    return "writable" if os.access(there, os.W_OK) else "not writable"


def _version(name: str) -> str:
    """The installed version of a distribution, or an empty text."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return ""
