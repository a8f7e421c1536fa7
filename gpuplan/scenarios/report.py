"""What do the results of a file of scenarios look like: in a terminal, as JSON, as CSV, and as JUnit XML for CI?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpuplan import __version__
from gpuplan.render.csv import csv_text
from gpuplan.render.markdown import grid
from gpuplan.render.narrow import narrow
from gpuplan.render.text import Look, label, shown, wrap
from gpuplan.scenarios.result import Result, exit_code

SCHEMA = "gpuplan/scenarios/1"
_MAIN = (
    "models",
    "rate_per_s",
    "requests_in_flight",
    "context_tokens",
    "params",
    "tokens_per_s",
    "samples_per_s",
    "ttft_s",
    "step_time_s",
    "cost_usd",
    "cost_usd_per_month",
    "cost_usd_per_million_output_tokens",
    "accelerators",
    "headroom_bytes",
)
"""The figures of the table, where an answer has them; JSON and CSV have all."""
CSV_COLUMNS = ("scenario", "case", "status", "name", "value", "low", "high", "unit", "assumed")
_GOOD = ("passed", "answered")
_FAILED = ("failed", "does not fit", "goal not met")
"""What CI calls a failure; what is neither good nor that is an error."""


def text(path: str, results: Sequence[Result], look: Look) -> str:
    """The table of results, why some are not as they should be, and a line of counts, which comes first."""
    head = f"{path}: {counts(results)}"
    first = wrap(head, look.width, "", "  ")
    table = _table(results, look)
    blocks = ["\n".join(look.good(line) if exit_code(list(results)) == 0 else look.bad(line) for line in first), table]
    lines = [
        part
        for one in results
        for problem in one.problems
        for part in (
            *wrap(f"{one.name} ({one.where}): {problem['message']}", look.width, "  ", "    "),
            *(wrap(f"hint: {problem['hint']}", look.width, "    ") if problem["hint"] else ()),
        )
    ]
    if lines:
        blocks.append("\n".join([look.bold("What is not as it should be"), *lines]))
    return "\n\n".join(blocks) + "\n"


def counts(results: Sequence[Result]) -> str:
    """How many of each outcome, in words."""
    found: dict[str, int] = {}
    for one in results:
        found[one.status] = found.get(one.status, 0) + 1
    return f"{len(results)} scenario{'' if len(results) == 1 else 's'}: " + ", ".join(f"{n} {name}" for name, n in found.items())


def _rows(results: Sequence[Result], keys: Sequence[str]) -> list[list[str]]:
    rows = []
    for one in results:
        answer = one.answer
        cells = [one.name, one.status, answer["verdict"] if answer else "–"]
        rows.append([*cells, *(_cell(answer["figures"].get(key) if answer else None, key) for key in keys)])
    return rows


def _told(row: Sequence[str], keys: Sequence[str]) -> str:
    """A row without heads: each figure beside its name."""
    figures = (f"{label(key)} {cell}" for key, cell in zip(keys, row[3:], strict=True) if cell != "–")
    return ", ".join([*(cell for cell in row[1:3] if cell != "–"), *figures])


def _cell(figure: Any, key: str) -> str:
    return "–" if figure is None or figure["value"] is None else shown(key, figure["value"], figure["unit"])


def _keys(results: Sequence[Result]) -> list[str]:
    return [key for key in _MAIN if any(one.answer and key in one.answer["figures"] for one in results)]


def _table(results: Sequence[Result], look: Look) -> str:
    """As many of the main figures as the width holds beside the names."""
    keys = _keys(results)
    rows = _rows(results, keys)
    fixed = [("", [row[0] for row in rows]), ("", [row[1] for row in rows]), ("", [row[2] for row in rows])]
    heads, lines, _ = narrow(fixed, [(label(key), [row[3 + at] for row in rows]) for at, key in enumerate(keys)], look, texts=3)
    if max(map(len, lines)) > look.width:  # long names: each on a line of its own
        return "\n".join(
            part for row in rows for part in (*wrap(row[0], look.width, "  "), *wrap(_told(row, keys), look.width, "    "))
        )
    bad = [one.status not in _GOOD for one in results]
    return "\n".join([*map(look.bold, heads), *(look.bad(line) if wrong else line for line, wrong in zip(lines, bad, strict=True))])


def markdown(path: str, results: Sequence[Result]) -> str:
    """The same for a pull request."""
    keys = _keys(results)
    table = grid(["scenario", "", "", *map(label, keys)], _rows(results, keys), "lll" + "r" * len(keys))
    lines = [f"- **{one.name}** ({one.where}): {problem['message']}" for one in results for problem in one.problems]
    return "\n".join([f"**{path}: {counts(results)}**", "", table, *([""] if lines else []), *lines]) + "\n"


def as_json(path: str, results: Sequence[Result]) -> str:
    """The results for programs; numbers are in base units."""
    made = {
        "schema": SCHEMA,
        "gpuplan": __version__,
        "file": path,
        "exit_code": exit_code(list(results)),
        "results": [one.plain() for one in results],
    }
    return json.dumps(made, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(results: Sequence[Result]) -> str:
    """A row for each figure of each answer; what has none has one row."""
    rows: list[tuple[object, ...]] = []
    for one in results:
        figures = one.answer["figures"] if one.answer else {}
        rows += [
            (
                one.scenario,
                one.name,
                one.status,
                key,
                put["value"],
                put["low"],
                put["high"],
                put["unit"],
                str(put["assumed"]).lower(),
            )
            for key, put in figures.items()
        ]
        if not figures:
            rows.append((one.scenario, one.name, one.status, "", "", "", "", "", ""))
    return csv_text(CSV_COLUMNS, rows)


def junit(path: str, results: Sequence[Result]) -> str:
    """JUnit XML as CI systems read it: a suite for each scenario, a case for each question.

    An assertion that does not hold is a `failure`, and so is an answer that does not fit where nothing is required; what cannot be
    answered, or is not known, is an `error`. Layout: testsuites/testsuite/testcase with `failure` and `error`, as the Ant task and
    Jenkins' xunit schema have it (https://github.com/testmoapp/junitxml).
    """
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    def numbers(some: Sequence[Result]) -> dict[str, str]:
        failed = sum(one.status in _FAILED for one in some)
        errors = sum(one.status in ("unknown", "no answer") for one in some)
        return {"tests": str(len(some)), "failures": str(failed), "errors": str(errors)}

    root = Element("testsuites", {"name": path, **numbers(results)})
    for name in dict.fromkeys(one.scenario for one in results):
        ones = [one for one in results if one.scenario == name]
        suite = SubElement(root, "testsuite", {"name": _clean(name), **numbers(ones), "skipped": "0"})
        for one in ones:
            file, _, line = one.where.rpartition(":")
            place = {"file": _clean(file), "line": line}
            case = SubElement(suite, "testcase", {"classname": _clean(f"{path}.{name}"), "name": _clean(one.name), **place})
            if one.status not in _GOOD:
                tag = "failure" if one.status in _FAILED else "error"
                told = ["; ".join(filter(None, (problem["message"], problem["hint"]))) for problem in one.problems]
                told = told or ([one.answer["headline"]] if one.answer else [])
                wrong = SubElement(case, tag, {"message": _clean(told[0] if told else one.status), "type": one.status})
                wrong.text = _clean("\n".join(told))
            if one.answer:
                SubElement(case, "system-out").text = _clean(one.answer["headline"])
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _clean(words: str) -> str:
    """A text without characters that XML cannot hold."""
    return "".join(letter for letter in words if letter in "\n\t" or letter.isprintable())
