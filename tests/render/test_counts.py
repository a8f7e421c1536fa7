"""Is every count that people read told with its noun in the right number: 1 day, 2 days?"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import gpuplan
from gpuplan.units import so_many

PACKAGE = Path(gpuplan.__file__).parent
SHOWN = sorted([*PACKAGE.glob("render/**/*.py"), *PACKAGE.glob("planner/*.py")])
NOUNS = (
    "accelerator|answer|byte|chip|choice|count|day|division|expert|figure|frame|hour|instance|kernel|layer|level|line|machine|minute"
    "|model|month|node|one|other|part|plan|price|probe|question|rank|reason|replica|request|row|run|second|sequence|site|step|term"
    "|token|unit|user|week|year"
)
MANY = re.compile(rf" (?:[a-z-]+ )?(?:{NOUNS})s\b(?!/)")


def told(text: str) -> list[str]:
    """What stands before a noun in the plural in texts that are made of values: neither rounded nor a constant."""
    found = []
    for node in ast.walk(ast.parse(text)):
        for value, after in zip(node.values, node.values[1:], strict=False) if isinstance(node, ast.JoinedStr) else ():
            if not isinstance(value, ast.FormattedValue) or not isinstance(after, ast.Constant):
                continue
            count = ast.unparse(value.value)
            exact = value.format_spec is None or ast.unparse(value.format_spec) in ("f','", "f',.0f'")
            made = isinstance(value.value, ast.Call) and count.split("(")[0] in ("human", "so_many", "shown", "_count")
            if MANY.match(str(after.value)) and exact and not made and not count.split(".")[-1].isupper():
                found.append(f"{count}{after.value}")
    return found


def test_what_is_found() -> None:
    assert told('f"{days} days"') == ["days days"]
    assert told('f"{len(found):,} other plans fit"') == ["len(found) other plans fit"]
    assert told("f\"{so_many(days, 'day')}; {MOST} days; {x:.3g} requests a minute; {x} requests/s\"") == []


@pytest.mark.parametrize("path", SHOWN, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_counts_come_with_their_nouns(path: Path) -> None:
    known = (
        "months[0] months",
        "target.per_unit accelerators",
        "known.text tokens are taken, the default of TRL",
        "even requests a second in the mean",
        "count accelerators are taken as if there were so many",  # some thousands
    )
    assert [one for one in told(path.read_text()) if not one.startswith(known)] == []


@pytest.mark.parametrize(("count", "said"), [(0, "0 days are"), (1, "1 day is"), (2, "2 days are"), (1000, "1,000 days are")])
def test_one_and_many(count: int, said: str) -> None:
    assert so_many(count, "day", " is", " are") == said
