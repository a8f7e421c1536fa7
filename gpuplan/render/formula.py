"""What does one formula say: its text, units, meaning, example and source?"""

from __future__ import annotations

import inspect

from gpuplan.formula_text import formula_text
from gpuplan.render.text import Look, columns, wrap
from gpuplan.term import Formula


def formula_page(formula: Formula[...], look: Look) -> str:
    """A formula with its parameters, its docstring, its example and its source."""
    lines = [f"{look.bold(formula.name)}  [{formula.unit}]"]
    lines += wrap(formula_text(formula), look.width, "  = ", "    ")
    lines += ["", *columns([[name, f"[{unit}]"] for name, unit in formula.units.items()], "ll"), ""]
    for block in (inspect.getdoc(formula.fn) or "").split("\n\n"):
        code = block.lstrip().startswith(">>>")
        lines += [f"  {line}" for line in block.splitlines()] if code else wrap(" ".join(block.split()), look.width, "  ")
        lines.append("")
    source = formula.source
    facts = [source.kind, source.title, source.section, f"checked {source.checked}" if source.checked else "", source.note]
    lines += wrap(", ".join(fact for fact in facts if fact), look.width, "  ")
    lines += [f"  {source.url}"] if source.url else []
    return "\n".join(lines) + "\n"
