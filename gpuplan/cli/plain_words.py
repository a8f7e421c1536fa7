"""Which options do the words of a question give, where they are plain enough to be read off the table of options?

The parser alone takes a quarter of the time of a simple question. So words that can mean one thing only are read here, from the
same table that the parser is made of; whatever is odd (help, a word that no option knows, a value left out or given twice, `--`)
is the parser's, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuplan.cli.output import Output
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import by_key


def given_by(task: str, words: Sequence[str]) -> dict[str, Any] | None:
    """The options of a task by their names in Python as the parser gives them, in its order; None where it has to be asked.

    >>> given = given_by("fit", ["llama-3.1-8b", "--on=h100", "--batch", "8"])
    >>> given["model"], given["on"], given["batch"], given["context"]
    ('llama-3.1-8b', 'h100', '8', None)
    >>> given_by("fit", ["llama-3.1-8b", "--on"]) is None
    True
    """
    table = {**by_key(ASKS[task]), **by_key(Output)}
    flags = {flag: one for one in table.values() if not one.positional for flag in one.flags}
    found: dict[str, Any] = {}
    models: list[str] = []
    ahead = iter(words)
    for word in ahead:
        if not word.startswith("-"):
            models.append(word)
            continue
        name, joined, value = word.partition("=")
        one = flags.get(name)
        if one is None or (one.kind == "switch" and joined):
            return None
        if one.kind != "switch" and not joined:
            value = next(ahead, "")
            if value.startswith("-"):
                return None
        if one.kind != "switch" and not value:
            return None
        if one.kind == "texts":
            found.setdefault(one.key, []).append(value)
        elif one.key in found:
            return None
        else:
            found[one.key] = name == one.flag if one.kind == "switch" else value
    if len(models) != 1 or not models[0]:
        return None
    found["model"] = models[0]
    return found | {key: one.default for key, one in table.items() if key not in found}
