"""How are the findings of a check written: for people, for the annotations of a pull request, for other programs?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby

from gpuplan.check.examine import Examination, Finding
from gpuplan.check.rules import CheckRule
from gpuplan.render.place import place_of
from gpuplan.render.text import Look, pairs


def findings_text(found: Examination) -> str:
    """One finding after the other with its place, code and advice, or an empty text."""
    lines: list[str] = []
    for one in found.findings:
        lines.append(f"{one.severity}: {one.where}: {one.message} [{one.code}]")
        lines += [f"  hint: {one.hint}"] if one.hint else []
    return "".join(f"{line}\n" for line in lines)


def summary(found: Examination) -> str:
    """How many errors and warnings there are in how many files, or that all is right."""
    files = _counted(found.files, "file")
    if not found.findings:
        return f"all is right in {files}"
    return f"{_counted(found.count('error'), 'error')}, {_counted(found.count('warning'), 'warning')} in {files}"


def findings_github(found: Examination) -> str:
    """Workflow commands that mark the lines in a pull request; files relative to the working folder, which is the checkout."""
    return "".join(f"{_annotation(one)}\n" for one in found.findings)


def findings_json(found: Examination) -> str:
    """All findings as one JSON object."""
    record = {
        "errors": found.count("error"),
        "warnings": found.count("warning"),
        "files": found.files,
        "findings": [
            {
                "code": one.code, "severity": one.severity, "file": one.file, "line": one.line,
                "message": one.message, "hint": one.hint,
            }
            for one in found.findings
        ],
    }  # fmt: skip
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def rules_text(rules: Iterable[CheckRule], look: Look) -> str:
    """Every rule under its heading: code, severity, what it catches."""
    rules = list(rules)
    left = max(len(rule.code) for rule in rules)
    blocks = []
    for group, members in groupby(rules, lambda rule: rule.group):
        about = [(f"{rule.code:<{left}}  {rule.severity:<7}", rule.catches) for rule in members]
        lines = pairs(about, look.width, look.width - 20)
        blocks.append("\n".join([f"{group}:", *lines]))
    return "\n\n".join(blocks) + "\n"


def rules_json(rules: Iterable[CheckRule]) -> str:
    """Every rule as a JSON list."""
    records = [{name: getattr(rule, name) for name in CheckRule.field_names()} for rule in rules]
    return json.dumps(records, indent=2, ensure_ascii=False) + "\n"


def _annotation(one: Finding) -> str:
    text = f"{one.message} ({one.hint})" if one.hint else one.message
    file = _property(place_of(one.file))
    return f"::{one.severity} file={file},line={one.line},title={_property(one.code)}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
