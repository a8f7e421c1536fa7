"""Do the files stay small, and does data stay out of Python?"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.sweeps import each

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "gpuplan").rglob("*.py"))
MOST_LINES = 400
SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER}
BOUNDS = {"gpuplan/units.py": "units", "gpuplan/specs/check.py": "limits that a figure must lie between"}
"""Files that hold large numbers by trade."""
CHIP = re.compile(
    r"\b(?:[AHBL]\d{2,3}S?|V100|P100|K80|T4|M60|GB?[HB]\d{3}|MI\d{3}[AX]?|RTX|GeForce|Gaudi|Trainium|Inferentia|TPU|Hopper|Ampere|Blackwell)\b",
    re.IGNORECASE,
)

MAY_BE_LARGE = re.compile(r"[0-9][0-9_]{8}|[0-9.]e", re.IGNORECASE)
"""What every decimal number from 1e8 up has: nine digits, or an exponent."""


def short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def code_lines(text: str) -> int:
    """Lines that hold code, docstrings included; blank and comment lines are not counted."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    blank = {number for number, line in enumerate(text.splitlines(), 1) if not line.strip()}
    return len(lines - blank)


def numbers(text: str) -> list[tuple[int, float]]:
    """Line and value of every decimal number in code; hexadecimal ones are masks and hashes."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if (
            token.type == tokenize.NUMBER
            and not token.string.lower().startswith(("0x", "0b", "0o"))
            and token.string[-1] not in "jJ"
        ):
            found.append((token.start[0], float(token.string)))
    return found


def scale_only(value: float) -> bool:
    """Whether a large number is a power of ten or two: a unit or a bound rather than a figure of something."""
    return f"{value:e}".startswith("1.000000e") or (value == int(value) and int(value).bit_count() == 1)


@pytest.mark.parametrize(("value", "scale"), [(1e12, True), (2.0**30, True), (3.35e12, False), (80e9, False)])
def test_a_figure_differs_from_a_scale(value: float, *, scale: bool) -> None:
    assert scale_only(value) == scale


def test_the_counter_counts() -> None:
    assert code_lines('"""One.\n\nTwo."""\n\n# three\nx = (  # four\n    1,\n)\n') == 5


@each("path", FILES)
def test_no_file_is_long(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = code_lines(text) if text.count("\n") > MOST_LINES else 0  # Of fewer lines no more can hold code.
    assert lines <= MOST_LINES, f"{short(path)} has {lines} code lines: split it"


@each("path", [path for path in FILES if short(path) not in BOUNDS])
def test_no_rate_or_capacity_is_written_in_python(path: Path) -> None:
    # Bandwidths, peaks and capacities are above 1e8 in base units. Units and bounds (round powers) may be; figures live in YAML.
    text = path.read_text(encoding="utf-8")
    found = [(line, value) for line, value in numbers(text) if value >= 1e8] if MAY_BE_LARGE.search(text) else []
    figures = [f"{short(path)}:{line}: {value:g}" for line, value in found if not scale_only(value)]
    assert figures == []


@each("path", FILES)
def test_no_chip_name_stands_beside_a_figure(path: Path) -> None:
    # `{"h100": 3.35}` in code would be a spec table; docstrings and help may name chips.
    whole = path.read_text(encoding="utf-8")
    if CHIP.search(whole.replace("_", " ")) is None:
        return
    tree = ast.parse(whole)
    figures = []
    for node in ast.walk(tree):
        pairs: Iterable[tuple[ast.expr | None, ast.expr | None]]
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            pairs = [(name, node.value) for name in (node.targets if isinstance(node, ast.Assign) else [node.target])]
        else:
            continue
        for name, value in pairs:
            text = name.value if isinstance(name, ast.Constant) else name.id.replace("_", " ") if isinstance(name, ast.Name) else ""
            if isinstance(text, str) and CHIP.search(text) and value is not None and numbers(ast.unparse(value)):
                figures.append(f"{short(path)}:{node.lineno}: {text}")
    assert figures == []


@each("path", FILES)
def test_each_module_says_which_question_it_answers(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{short(path)} has no docstring"


def test_no_file_of_the_repository_names_a_machine_path() -> None:
    inside = re.compile(r"(?<![\w.])/(?:work|root|home/\w+|tmp/\w+)/")
    folders = ("gpuplan", "hardware_specs", "tests", "benchmarks", ".ci", ".github")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".yaml", ".yml", ".md", ".json"}
    ]
    files += [path for name in ("README.md", "CHANGELOG.md", "pyproject.toml") if (path := ROOT / name).exists()]
    named = [short(path) for path in files if path != Path(__file__) and inside.search(path.read_text(encoding="utf-8"))]
    assert named == []
