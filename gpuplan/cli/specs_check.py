"""`gpuplan specs check`: are spec files right?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command
from gpuplan.errors import Exit, Problem, UsageError, did_you_mean

app = Typer(add_completion=False, rich_markup_mode=None)
FORMATS = ("text", "github", "json")
CHOICE = "Which rules count"
_LOOKS = 5
"""How often `--fix` looks again."""


@app.command(cls=Command)
def check(
    *,
    places: Annotated[
        list[str] | None,
        Argument(metavar="PATH …", help="Files or specs folders; the shipped data and your folders when left out"),
    ] = None,
    select: Annotated[
        list[str] | None,
        Option("--select", metavar="CODE", rich_help_panel=CHOICE, help="Only this rule; several with commas, or repeated"),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        Option("--ignore", metavar="CODE", rich_help_panel=CHOICE, help="Not this rule; several with commas, or repeated"),
    ] = None,
    max_age: Annotated[
        str | None,
        Option("--max-age", metavar="DAYS", rich_help_panel=CHOICE, help="Older sources and current prices are stale (365)"),
    ] = None,
    strict: Annotated[bool, Option("--strict", rich_help_panel=CHOICE, help="Exit with 2 on warnings too")] = False,
    rules: Annotated[
        bool, Option("--rules", rich_help_panel=CHOICE, help="List the rules with what each catches, and stop")
    ] = False,
    fix: Annotated[
        bool,
        Option(
            "--fix",
            help="Mend what needs no looking up: `format`, an id unlike the file's name, unused sources, units in other spelling",
        ),
    ] = False,
    specs: o.SpecsDirs = None,
    form: Annotated[
        str | None,
        Option("--format", metavar="FORM", rich_help_panel=o.OUTPUT, help="text, github (marks lines in a pull request) or json"),
    ] = None,
    json: Annotated[bool, Option("--json", rich_help_panel=o.OUTPUT, help="The same as `--format json`")] = False,
) -> int | None:
    """Are spec files right: schema, names, sources, physics, prices?

    Every finding has its file and line, a rule, and what to do. Exits with 2 when there is an error, with 0 when there are
    only warnings.

    Examples:
      gpuplan specs check
      gpuplan specs check my-specs/ my-gpu.yaml
      gpuplan specs check my-specs/ --format github --max-age 180
      gpuplan specs check my-specs/ --fix
      gpuplan specs check --rules
    """
    from gpuplan.check.examine import MAX_AGE, RULES, examine
    from gpuplan.check.mend import mend
    from gpuplan.models.catalog import CARDS
    from gpuplan.models.generic import GENERIC
    from gpuplan.render.findings import findings_github, findings_json, findings_text, rules_json, rules_text, summary
    from gpuplan.render.text import look_of
    from gpuplan.specs.catalog import Catalog

    style = _style(form, json)
    if rules:
        sys.stdout.write(rules_json(RULES.values()) if style == "json" else rules_text(RULES.values(), look_of(sys.stdout)))
        return None
    folders = Catalog.open([Path(folder) for folder in specs or ()]).folders
    if fix and not places:
        raise UsageError(Problem("usage.missing", "`--fix` writes into files: say which", "gpuplan specs check my-specs/ --fix"))
    look = partial(
        examine,
        [Path(place) for place in places] if places else [*folders, CARDS, GENERIC],
        behind=folders[1:],
        select=_codes(select, "--select", RULES),
        ignore=_codes(ignore, "--ignore", RULES),
        max_age=MAX_AGE if max_age is None else _days(max_age),
    )
    found = look()
    for _ in range(_LOOKS if fix else 0):  # What was mended lets the next look go on to what stood behind it.
        mended = mend(found.findings)
        if not mended:
            break
        print("".join(f"mended: {one.where}: {one.message}\n" for one in mended), end="", file=sys.stderr)
        found = look()
    if style == "json":
        sys.stdout.write(findings_json(found))
    elif style == "github":
        sys.stdout.write(findings_github(found))
        print(summary(found))
    else:
        for line in findings_text(found).splitlines():
            say(line)
        print(summary(found), file=sys.stderr if found.findings else sys.stdout)
    failed = found.count("error") or (strict and found.findings)
    return int(Exit.USAGE) if failed else None


def _style(form: str | None, json: bool) -> str:
    if form is not None and form not in FORMATS:
        hint = did_you_mean(form, FORMATS) or f"there are {', '.join(FORMATS)}"
        raise UsageError(Problem("usage.word", f"no format `{form}`", hint))
    if json and form not in (None, "json"):
        raise UsageError(Problem("usage.conflict", f"`--json` and `--format {form}` exclude each other", "give one of them"))
    return "json" if json else form or "text"


def _codes(given: Sequence[str] | None, flag: str, rules: Iterable[str]) -> list[str]:
    """The codes of an option that takes several, with commas or repeated.

    Raises:
        UsageError: one of them is no rule.
    """
    words = [word.strip() for text in given or () for word in text.split(",") if word.strip()]
    short = [code.removeprefix("spec.") for code in rules]
    for word in words:
        if word.removeprefix("spec.") not in short and not word.startswith(("yaml", "model")):
            hint = did_you_mean(word.removeprefix("spec."), short) or "`gpuplan specs check --rules` lists them"
            raise UsageError(Problem("usage.word", f"{flag}: no rule is called `{word}`", hint))
    return words


def _days(text: str) -> int:
    from gpuplan.plan.read import count

    return count("max-age", text, least=0, most=36_500)
