"""`gpuplan specs compare`: how do accelerators differ side by side, and what does each give for a dollar and a watt?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command
from gpuplan.cli.specs import open_catalog
from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def compare(
    *,
    names: Annotated[list[str], Argument(metavar="NAME …", help="Accelerators: GPUs, TPUs, processors")],
    prices: Annotated[
        o.Texts,
        Option("--price", metavar="NAME=USD/h", rich_help_panel=o.DATA, help="Your price for an hour of one of them; repeatable"),
    ] = None,
    specs: o.SpecsDirs = None,
    brief: o.Brief = False,
    plain: o.Plain = False,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """How do accelerators differ, side by side, and what does each give for a dollar and for a watt?

    Prices are the cheapest current on-demand rate on record of one accelerator; what has none is unknown, never free.

    Examples:
      gpuplan specs compare h100 mi300x tpu-v5p
      gpuplan specs compare rtx-4090 l40s --price rtx-4090=0.40
      gpuplan specs compare h100 b200 --md
    """
    from gpuplan.cli.answer import form_of

    form = form_of({"json": json, "csv": csv, "md": md, "brief": brief, "plain": plain})
    side_by_side(names, form or ("brief" if brief else "plain" if plain else ""), specs, prices or ())


def side_by_side(
    words: Sequence[str], form: str = "", folders: Sequence[str] | None = None, prices: Sequence[str] = ()
) -> None:  # fmt: skip
    """Print accelerators beside each other (also `gpuplan compare h100 h200`)."""
    from gpuplan.browse.per_dollar_and_watt import value_figures
    from gpuplan.cli.specs_show import part_of_target
    from gpuplan.render import accelerators_compared as render
    from gpuplan.render.text import look_of
    from gpuplan.specs.accelerator import Accelerator

    odd = [word for word in words if word.startswith("-")]
    if odd:
        model = words[words.index("--model") + 1 :][:1] if "--model" in words else []
        places = words[: words.index(odd[0])]
        hint = "`gpuplan specs compare` takes options; a comparison of estimates names its command first: "
        command = f"{''.join(model) or 'MODEL'} {' '.join(f'--on {place}' for place in places or 'AB')}"
        if "--on" in words:  # The places are named: what stands before is the model.
            command = shlex.join(words)
        hint += f"`gpuplan compare serve {command}`"
        raise UsageError(Problem("usage.no-such-option", f"`{odd[0]}` means nothing between names of accelerators", hint))
    catalog = open_catalog(folders)
    words = [one for word in words for one in _apart(word, catalog)]
    made = []
    for word in dict.fromkeys(words):
        try:
            spec, notes = catalog.load_noted(Accelerator, word)
        except UnknownError:
            if not (meant := part_of_target(word, catalog)):
                raise
            spec, notes = catalog.load_noted(Accelerator, meant)
        made.append(spec)
        for note in notes:
            say(f"note: {note.text}{f' ({note.hint})' if note.hint else ''}")
    known = {word: spec.id for word, spec in zip(dict.fromkeys(words), made, strict=True)}
    own = _own_prices(prices, known)
    worths = [value_figures(spec, catalog, own.get(spec.id)) for spec in made]
    if form == "json":
        import json as jsonlib

        print(jsonlib.dumps(render.accelerators_records(made, worths), indent=2, ensure_ascii=False))
    elif form == "csv":
        from gpuplan.render.csv import records_csv

        sys.stdout.write(records_csv(render.accelerators_records(made, worths)))
    elif form == "md":
        sys.stdout.write(render.accelerators_markdown(made, worths))
    elif form == "brief":
        sys.stdout.write(render.accelerators_brief(made, worths))
    elif form == "plain":
        sys.stdout.write(render.accelerators_plain(made, worths))
    else:
        sys.stdout.write(render.accelerators_text(made, worths, look_of(sys.stdout)))


def _apart(word: str, catalog: Catalog) -> list[str]:
    """The names in a word with commas between, as `--on` takes several; a name that has commas itself stays one."""
    from gpuplan.specs.accelerator import Accelerator

    parts = [part for one in word.split(",") if (part := one.strip())]
    if len(parts) <= 1:
        return [word]
    try:
        catalog.load_noted(Accelerator, word)
    except UnknownError:
        return parts
    return [word]


def _own_prices(prices: Sequence[str], known: Mapping[str, str]) -> dict[str, float]:
    """The user's prices in USD/s by id.

    Raises:
        UsageError: no such name among those compared, or no price above zero.
    """
    from gpuplan.plan.common import Common
    from gpuplan.plan.option import entries
    from gpuplan.plan.read import read

    made: dict[str, float] = {}
    problems: list[Problem] = []
    for text in prices:
        name, _, amount = text.partition("=")
        ident = known.get(name) or (name if name in known.values() else None)
        if ident is None:
            hint = did_you_mean(name, [*known, *known.values()]) or "write `--price NAME=2.50`, NAME as in the comparison"
            problems.append(Problem("usage.price", f"--price {text}: `{name}` is not compared here", hint))
            continue
        if ident in made:
            problems.append(Problem("usage.twice", f"--price {text}: a second price of {ident}", "leave one of them out"))
        try:
            made[ident] = read(entries(Common)["price"], amount)
        except UsageError as error:
            problems += [one.replaced(where=text) for one in error.problems]
    if problems:
        raise UsageError(*problems)
    return made
