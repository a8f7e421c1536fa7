"""`gpuplan specs list`: which accelerators, systems, instances, prices or engines are there, and which meet some conditions?"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command
from gpuplan.cli.specs import SHOWN, open_catalog
from gpuplan.errors import GpuplanError, Problem, UnknownError, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.browse.query import Column, Condition, Row
    from gpuplan.specs.catalog import Catalog

app = Typer(add_completion=False, rich_markup_mode=None)
ACCELERATORS = "Conditions on accelerators"
INSTANCES = "Conditions on instances, systems and prices"
ANY = "Conditions on any column, order and columns"


def _condition(flag: str, metavar: str, text: str, panel: str) -> object:
    return Option(flag, metavar=metavar, help=text, rich_help_panel=panel)


@app.command(cls=Command)
def list_specs(
    *,
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="[KIND] [TEXT]", help=f"One of {', '.join(SHOWN)} (accelerators when left out), and a text that must occur"
        ),
    ] = None,
    memory: Annotated[o.Text, _condition("--memory", "'>=80GiB'", "Capacity as the vendor means it", ACCELERATORS)] = None,
    bandwidth: Annotated[o.Text, _condition("--bandwidth", "'>1TB/s'", "Memory bandwidth", ACCELERATORS)] = None,
    bf16: Annotated[o.Text, _condition("--bf16", "'>=500TFLOP/s'", "Dense bf16 rate", ACCELERATORS)] = None,
    fp16: Annotated[o.Text, _condition("--fp16", "'>=500TFLOP/s'", "Dense fp16 rate", ACCELERATORS)] = None,
    fp8: Annotated[o.Text, _condition("--fp8", "'>=1PFLOP/s'", "Dense fp8 rate", ACCELERATORS)] = None,
    fp4: Annotated[o.Text, _condition("--fp4", "'>=1PFLOP/s'", "Dense fp4 rate", ACCELERATORS)] = None,
    power: Annotated[o.Text, _condition("--power", "'<=350W'", "Power limit", ACCELERATORS)] = None,
    dtype: Annotated[
        o.Texts, _condition("--dtype", "TYPE", "Has a dense rate for the data type, such as `fp8`; repeatable", ACCELERATORS)
    ] = None,
    vendor: Annotated[o.Text, _condition("--vendor", "NAME", "Who makes it; several with commas", ACCELERATORS)] = None,
    family: Annotated[o.Text, _condition("--family", "NAME", "Architecture family, such as `hopper`", ACCELERATORS)] = None,
    since: Annotated[
        o.Text, _condition("--since", "2023[-06]", "Announced then or later; of prices: read then or later", ACCELERATORS)
    ] = None,
    provider: Annotated[o.Text, _condition("--provider", "NAME", "Who rents it out; several with commas", INSTANCES)] = None,
    accelerator: Annotated[
        o.Text, _condition("--accelerator", "NAME", "Which accelerator; `h100` means every H100", INSTANCES)
    ] = None,
    count: Annotated[o.Text, _condition("--count", "8", "How many accelerators; also `>=8`", INSTANCES)] = None,
    price: Annotated[o.Text, _condition("--price", "'<40USD/h'", "Current on-demand price of an hour", INSTANCES)] = None,
    region: Annotated[o.Text, _condition("--region", "NAME", "The provider's code of the region", INSTANCES)] = None,
    where: Annotated[
        o.Texts, _condition("--where", "'l2>=50MiB'", "Condition on any column, which need not be shown; repeatable", ANY)
    ] = None,
    sort: Annotated[o.Text, _condition("--sort", "COLUMN", "Upwards by a column; `-COLUMN` downwards", ANY)] = None,
    columns: Annotated[
        o.Text, _condition("--columns", "A,B,C", "Which columns, whatever their width; `all`; `?` explains them", ANY)
    ] = None,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """Which accelerators, systems, instances, prices or engines are there?

    Conditions have a sign and a unit, and stand in quotes. What is not on record meets none, and is named in a note.

    Examples:
      gpuplan specs list mi300
      gpuplan specs list --memory '>=80GiB' --vendor amd --dtype fp8 --sort -memory
      gpuplan specs list --where 'l2>=50MiB' --columns id,l2,bandwidth,power
      gpuplan specs list instances --accelerator h100 --count 8 --sort price_each
    """
    from gpuplan.browse.listing import LISTINGS, rows_of
    from gpuplan.browse.query import column_of, ordered, select
    from gpuplan.cli.answer import form_of

    form = form_of({"json": json, "csv": csv, "md": md})
    words = list(words or ())
    kind = words.pop(0) if words and words[0] in SHOWN else "accelerators"
    listing = LISTINGS[kind]
    if columns == "?":
        _explain(listing.columns, kind)
        return
    given = {
        "memory": memory, "bandwidth": bandwidth, "bf16": bf16, "fp16": fp16, "fp8": fp8, "fp4": fp4, "power": power,
        "vendor": vendor, "family": family, "since": since, "provider": provider, "accelerator": accelerator, "count": count,
        "price": price, "region": region,
    }  # fmt: skip
    catalog = open_catalog(specs)
    conditions = _conditions(catalog, kind, given, where or (), dtype or ())
    by = column_of(listing.columns, sort.lstrip("-+"), kind) if sort else None
    shown = _columns(kind, columns, bool(form and form != "md"), [one.column for one in conditions] + ([by] if by else []))
    rows: list[Row] = rows_of(catalog, kind, [*shown, *(one.column for one in conditions), *([by] if by else [])], words)
    none_at_all = not rows
    rows, notes = select(rows, conditions, listing.name)
    if by is not None and sort is not None:
        rows = ordered(rows, by, sort.startswith("-"))
    for note in notes:
        say(f"note: {note.text}{f' ({note.hint})' if note.hint else ''}")
    if not rows:
        raise _nothing(catalog, kind, words if none_at_all else [], conditions)
    _write(shown, rows, form, columns is not None)


def _conditions(
    catalog: Catalog, kind: str, given: Mapping[str, str | None], where: Sequence[str], dtypes: Sequence[str]
) -> list[Condition]:
    """Every condition that was asked for.

    Raises:
        UsageError: all that is wrong with them together.
    """
    from gpuplan.browse import query
    from gpuplan.browse.listing import LISTINGS

    columns = LISTINGS[kind].columns
    known = {one.name: one for one in columns}
    made: list[Condition] = []
    problems: list[Problem] = []
    for option, text in given.items():
        if text is None:
            continue
        name = next((one for one in ("released", "date", "price_date") if one in known), "") if option == "since" else option
        try:
            if name not in known:
                raise UsageError(_no_column(option, kind, list(known)))
            meant = _from(text) if option == "since" else _named(catalog, text) if option == "accelerator" else text
            made.append(query.compare(known[name], meant, f"--{option}"))
        except GpuplanError as error:
            problems += error.problems
    for text in where:
        try:
            made.append(query.where(columns, text, kind))
        except GpuplanError as error:
            problems += error.problems
    for dtype in ",".join(dtypes).split(",") if dtypes else ():
        name = dtype.strip().lower().replace("-", "_")
        if "dtypes" not in known:
            problems.append(_no_column("dtype", kind, list(known)))
        elif name not in known or not known[name].absent or name == "half":
            rates = [one.name for one in columns if one.absent and one.name != "half"]
            hint = did_you_mean(name, rates) or f"known are {', '.join(rates)}"
            problems.append(Problem("spec.unknown-dtype", f"--dtype: `{dtype}` is no data type that gpuplan has rates for", hint))
        else:
            made.append(query.compare(known[name], ">0FLOP/s", "--dtype"))
    if problems:
        raise UsageError(*problems)
    return made


def _from(text: str) -> str:
    return text if text.lstrip()[:1] in "<>=!-" else f">={text}"


def _no_column(option: str, kind: str, known: Sequence[str]) -> Problem:
    hint = f"its columns are {', '.join(known)}"
    return Problem("usage.no-such-column", f"--{option} means nothing to a list of {kind}", hint)


def _named(catalog: Catalog, text: str) -> str:
    """The ids of the accelerators that words between commas mean."""
    return text if text.lstrip()[:1] in "=!<>" else ",".join(one for word in text.split(",") for one in _ids(catalog, word))


def _ids(catalog: Catalog, word: str) -> list[str]:
    """The ids that a word means: every id that begins so, otherwise what the name means."""
    wanted = word.strip().lower()
    ids = list(catalog.paths("accelerators"))
    if wanted in ids:
        return [wanted]
    return [one for one in ids if one.startswith(f"{wanted}-")] or [catalog.find("accelerators", word).id]


def _columns(kind: str, asked: str | None, everything: bool, used: Sequence[Column]) -> list[Column]:
    """The columns to show: those asked for; otherwise the usual ones and those that the conditions are on."""
    from gpuplan.browse.listing import LISTINGS
    from gpuplan.browse.query import column_of

    listing = LISTINGS[kind]
    if asked == "all" or (asked is None and everything):
        return list(listing.columns)
    if asked is not None:
        return [column_of(listing.columns, name, kind) for name in asked.split(",")]
    usual = [column_of(listing.columns, name, kind) for name in listing.shown]
    extra = [one for one in dict.fromkeys(used) if one not in usual]
    return [usual[0], *extra, *usual[1:]] if extra else usual


def _explain(columns: Sequence[Column], kind: str) -> None:
    from gpuplan.render.text import columns as aligned

    print(f"Columns of a list of {kind}:")
    print("\n".join(aligned([[one.name, one.about] for one in columns], "ll")))


def _nothing(catalog: Catalog, kind: str, words: Sequence[str], conditions: Sequence[Condition]) -> UnknownError:
    if conditions and not words:
        texts = ", ".join(f"{one.column.name} {one.text}" for one in conditions)
        return UnknownError(Problem("specs.none", f"no {kind} with {texts}", f"`gpuplan specs list {kind}` shows all"))
    hint = did_you_mean(words[0], [*SHOWN, *catalog.paths(kind), *catalog.names(kind)]) if words else ""
    return UnknownError(
        Problem("specs.none", f"no {kind} with `{' '.join(words)}`", hint or f"`gpuplan specs list {kind}` shows all")
    )


def _write(shown: Sequence[Column], rows: Sequence[Row], form: str, all_of_them: bool) -> None:
    """Write the rows in the form that was asked for; a terminal's width hides columns only where none were asked for."""
    if form in ("json", "csv"):
        records = [{one.key: row[one.name].value for one in shown} for row in rows]
        if form == "json":
            import json as jsonlib

            print(jsonlib.dumps(records, indent=2, ensure_ascii=False))
        else:
            from gpuplan.render.csv import records_csv

            sys.stdout.write(records_csv(records))
        return
    heads = [one.title for one in shown]
    cells = [[row[one.name].text for one in shown] for row in rows]
    aligned = "".join("r" if one.unit not in ("", "date") else "l" for one in shown)
    if form == "md":
        from gpuplan.render.markdown import grid

        print(grid(heads, cells, aligned))
        return
    from gpuplan.render.spec import listing
    from gpuplan.render.text import Look, look_of

    look = look_of(sys.stdout)
    text, hidden = listing(heads, cells, aligned, Look(10**6, look.colour) if all_of_them else look)
    sys.stdout.write(text)
    if hidden:
        say(f"note: no room for {', '.join(hidden)}; `--columns` chooses, `--csv` has everything")
