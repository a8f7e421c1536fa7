"""`gpuplan prices`: what is on record about prices, is it right, and how do the prices of other catalogs get in?"""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command, Group
from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.units import so_many

if TYPE_CHECKING:
    from gpuplan.prices.importer import ImportOutcome, ImportRequest
    from gpuplan.specs.catalog import Catalog

app = Typer(
    cls=Group, add_completion=False, rich_markup_mode=None, no_args_is_help=True,
    help="""What is on record about prices, is it right, and how do the prices of other catalogs get in?

Examples:
  gpuplan prices list p5.48xlarge
  gpuplan prices check
  gpuplan prices status
  gpuplan prices import skypilot catalogs/v8/aws/vms.csv --date 2026-11-20""",
)  # fmt: skip
importer = Typer(
    cls=Group, add_completion=False, rich_markup_mode=None, no_args_is_help=True,
    help="""Read the price catalog of another project into your own specs folder, and say what is wrong with it.

Examples:
  gpuplan prices import skypilot catalogs/v8 --date 2026-11-20
  gpuplan prices import gpuhunt aws.csv --date 2026-11-20""",
)  # fmt: skip


Out: TypeAlias = Annotated[
    o.Text, Option("--out", metavar="DIR", help="The specs folder to write into (default: ~/.config/gpuplan)")
]
Date: TypeAlias = Annotated[o.Text, Option("--date", metavar="YYYY-MM-DD", help="When the prices were read; the files do not say")]
Url: TypeAlias = Annotated[
    o.Text, Option("--url", metavar="URL", help="Where the file comes from (default: the project's repository)")
]
Commit: TypeAlias = Annotated[o.Text, Option("--commit", metavar="HASH", help="The commit that the file is of")]
Provider: TypeAlias = Annotated[
    o.Text, Option("--provider", metavar="NAME", help="Whose prices a file has, where its name does not tell")
]
Regions: TypeAlias = Annotated[o.Texts, Option("--region", metavar="NAME", help="Only this region of the provider; repeatable")]
Strict: TypeAlias = Annotated[bool, Option("--strict", help="Whatever is odd is an error (exit 2), and nothing is written")]
Replace: TypeAlias = Annotated[bool, Option("--replace", help="Begin the provider's file anew instead of adding to it")]
_MANY = 25
_GLANCE = 20
"""Prices in a glance at more of them, each instance and kind once: the first by the order, of whichever region that is."""
"""A terminal that shows more prices has scrolled the first ones, mostly the cheapest, away."""
DryRun: TypeAlias = Annotated[bool, Option("--dry-run", help="Say what would be written, and write nothing")]


@app.command("list", cls=Command)
def list_prices(
    *,
    words: Annotated[
        list[str] | None,
        Argument(metavar="[INSTANCE|ACCELERATOR|PROVIDER …]", help="Whose prices; all when left out. Parts of names will do"),
    ] = None,
    kind: Annotated[o.Text, Option("--kind", metavar="KIND", help="Only these terms, such as `spot` or `reserved_1yr`")] = None,
    region: Annotated[o.Text, Option("--region", metavar="NAME", help="Only this region of the provider")] = None,
    sort: Annotated[
        o.Text,
        Option(
            "--sort",
            metavar="BY",
            help="By `name`, `price` (of the instance), `accelerator` (price of one) or `date`; left out, the cheapest first, of"
            " all of them by name",
        ),
    ] = None,
    limit: Annotated[
        o.Text, Option("--limit", metavar="N", help="Only the first so many of that order, or `all`; left out, text is a glance")
    ] = None,
    every: Annotated[bool, Option("--all", help="Historical, promotional and doubtful prices too")] = False,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """What does an hour of an instance cost, and of one of its accelerators, where, since when, and who says so?

    Examples:
      gpuplan prices list h100 --kind on_demand --limit 10
      gpuplan prices list aws p5.48xlarge --kind spot
      gpuplan prices list gcp --region us-central1 --csv
    """
    from gpuplan.cli.answer import form_of
    from gpuplan.plan.read import count
    from gpuplan.prices.on_record import ORDERS, glance_at, in_order, select_prices
    from gpuplan.render.prices import PRICE_ALIGNED, PRICE_HEADS, price_record, price_row

    form = form_of({"json": json, "csv": csv, "md": md})
    sort = sort or ("accelerator" if words else "name")
    if sort not in ORDERS:
        raise UsageError(Problem("usage.word", f"--sort {sort}: no such order", f"use {', '.join(ORDERS[:-1])} or {ORDERS[-1]}"))
    kind = kind_of_price(kind) if kind is not None else None
    most = None if limit in (None, "all") else count("limit", limit)
    found = in_order(select_prices(_catalog(specs), words or (), kind=kind, region=region, every_status=every), sort)
    rows = found[:most]
    glance = glance_at(found, _GLANCE) if not form and limit is None and len(found) > _MANY else rows
    if form == "json":
        print(jsonlib.dumps([price_record(row) for row in rows], indent=2, ensure_ascii=False))
    elif form == "csv":
        from gpuplan.render.csv import records_csv

        sys.stdout.write(records_csv(price_record(row) for row in rows))
    elif form == "md":
        from gpuplan.render.markdown import grid

        print(grid(PRICE_HEADS, [price_row(row) for row in rows], PRICE_ALIGNED))
    else:
        from gpuplan.render.spec import stacked
        from gpuplan.render.text import look_of

        # Without --all every price is a current one, which needs no column.
        kept = [at for at, head in enumerate(PRICE_HEADS) if every or head != "status"]
        cells = [[price_row(row)[at] for at in kept] for row in glance]
        heads, aligned = [PRICE_HEADS[at] for at in kept], "".join(PRICE_ALIGNED[at] for at in kept)
        sys.stdout.write(stacked(heads, cells, aligned, look_of(sys.stdout)))
        if len(rows) < len(found):
            say(f"note: the first {len(rows):,} of {so_many(len(found), 'price')}")
        elif len(glance) < len(rows):
            what = f"{so_many(len(glance), 'price')}, each instance and kind once, of {len(rows):,}"
            say(f"note: {what}: `--limit all` shows all, `--kind`, `--region` and `--limit 50` choose")


@app.command(cls=Command)
def check(
    *,
    places: Annotated[
        list[str] | None, Argument(metavar="[PATH …]", help="Price files or specs folders; all prices that count when left out")
    ] = None,
    max_age: Annotated[o.Text, Option("--max-age", metavar="DAYS", help="Older current prices are stale (365)")] = None,
    strict: Annotated[bool, Option("--strict", help="Exit with 2 on warnings too")] = False,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
) -> int | None:
    """Is a price zero, a placeholder, above on demand, far from its kin, a promotion, or stale?

    These are the rules of `gpuplan specs check` that are about prices. Exits with 2 when there is an error.

    Examples:
      gpuplan prices check
      gpuplan prices check my-specs/ --max-age 90
    """
    from gpuplan.check.examine import MAX_AGE, examine
    from gpuplan.errors import Exit
    from gpuplan.plan.read import count
    from gpuplan.prices.merge_files import PRICE_RULES
    from gpuplan.render.findings import findings_json, findings_text, summary

    days = MAX_AGE if max_age is None else count("max-age", max_age, least=0, most=36_500)
    given = [Path(place) for place in places or ()]
    folders = list(_catalog(specs).folders)
    files = [one / "prices" if (one / "prices").is_dir() else one for one in given or folders if (one / "prices").is_dir() or given]
    found = examine(
        files,
        behind=[*folders[1:], *(one for one in given if one.is_dir())],
        select=(*PRICE_RULES, "yaml"),
        max_age=days,
    )
    if json:
        sys.stdout.write(findings_json(found))
    else:
        for line in findings_text(found).splitlines():
            say(line)
        print(summary(found), file=sys.stderr if found.findings else sys.stdout)
    return int(Exit.USAGE) if found.count("error") or (strict and found.findings) else None


@app.command(cls=Command)
def status(
    *,
    providers: Annotated[list[str] | None, Argument(metavar="[PROVIDER …]", help="Whose prices; all when left out")] = None,
    max_age: Annotated[o.Text, Option("--max-age", metavar="DAYS", help="Older prices should be read again (90)")] = None,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """How old are the prices on record, provider by provider, and which should be read again?

    Only current prices count. What has most that is old or undated stands first.

    Examples:
      gpuplan prices status
      gpuplan prices status aws azure --max-age 180
    """
    from gpuplan.cli.answer import form_of
    from gpuplan.plan.read import count
    from gpuplan.prices.age import OLD, ages
    from gpuplan.render.prices import AGE_ALIGNED, age_heads, age_record, age_row, age_summary
    from gpuplan.specs.dates import today

    form = form_of({"json": json, "csv": csv, "md": md})
    days = OLD if max_age is None else count("max-age", max_age, least=0, most=36_500)
    found = ages(_catalog(specs), providers or (), days, today())
    if form == "json":
        print(jsonlib.dumps([age_record(one) for one in found], indent=2, ensure_ascii=False))
    elif form == "csv":
        from gpuplan.render.csv import records_csv

        sys.stdout.write(records_csv(age_record(one) for one in found))
    elif form == "md":
        from gpuplan.render.markdown import grid

        print(grid(age_heads(days), [age_row(one) for one in found], AGE_ALIGNED))
    else:
        from gpuplan.render.spec import stacked
        from gpuplan.render.text import look_of

        rows = [age_row(one) for one in found]
        sys.stdout.write(stacked(age_heads(days), rows, AGE_ALIGNED, look_of(sys.stdout)))
        say(age_summary(found, days))


app.add_typer(importer, name="import")


@importer.command("skypilot", cls=Command)
def import_skypilot(
    *,
    path: Annotated[str, Argument(metavar="FILE|DIR", help="A `vms.csv` of the SkyPilot catalog, or a folder with some")],
    date: Date = None,
    out: Out = None,
    url: Url = None,
    commit: Commit = None,
    provider: Provider = None,
    region: Regions = None,
    strict: Strict = False,
    replace: Replace = False,
    dry_run: DryRun = False,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
) -> None:
    """Which prices are in a SkyPilot catalog? Written to `prices/PROVIDER.yaml`, with what is wrong flagged or refused.

    Examples:
      gpuplan prices import skypilot catalogs/v8 --date 2026-11-20 --commit 006059e0
      gpuplan prices import skypilot vms.csv --provider aws --date 2026-11-20 --strict
    """
    from gpuplan.prices.importer import import_skypilot as importing

    wanted = _wanted(date, url, commit, provider, region, strict, replace, dry_run)
    folder = _folder(out)
    _report(importing(Path(path), folder, _with(_catalog(specs), folder), wanted), folder, wanted, json)


@importer.command("gpuhunt", cls=Command)
def import_gpuhunt(
    *,
    path: Annotated[str, Argument(metavar="FILE", help="A `PROVIDER.csv` of gpuhunt, or the `catalog.zip` that holds it")],
    date: Date = None,
    out: Out = None,
    url: Url = None,
    commit: Commit = None,
    provider: Provider = None,
    region: Regions = None,
    strict: Strict = False,
    replace: Replace = False,
    dry_run: DryRun = False,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
) -> None:
    """Which prices are in a gpuhunt catalog? Written to `prices/PROVIDER.yaml`, with what is wrong flagged or refused.

    Examples:
      gpuplan prices import gpuhunt aws.csv --date 2026-11-20
      gpuplan prices import gpuhunt catalog.zip --provider gcp --date 2026-11-20 --out my-specs/
    """
    from gpuplan.prices.importer import import_gpuhunt as importing

    wanted = _wanted(date, url, commit, provider, region, strict, replace, dry_run)
    folder = _folder(out)
    _report(importing(Path(path), folder, _with(_catalog(specs), folder), wanted), folder, wanted, json)


def kind_of_price(text: str) -> str:
    """The kind of price that a user's word means.

    Raises:
        UsageError: there is no such kind.
    """
    from typing import get_args

    from gpuplan.specs.price import PriceKind

    kinds = get_args(PriceKind)
    word = text.replace("-", "_")
    if word not in kinds:
        hint = did_you_mean(word, kinds) or f"there are {', '.join(kinds)}"
        raise UsageError(Problem("usage.word", f"--kind {text}: no such choice", hint))
    return word


def _wanted(
    date: str | None, url: str | None, commit: str | None, provider: str | None, regions: list[str] | None,
    *switches: bool,
) -> ImportRequest:  # fmt: skip
    from gpuplan.files.write import component
    from gpuplan.prices.importer import ImportRequest
    from gpuplan.specs.dates import checked_day

    if date is None:
        hint = "the catalog does not say when its prices were read: write for example `--date 2026-11-20`"
        raise UsageError(Problem("usage.missing", "--date is missing: from which day are these prices?", hint))
    if url is not None and not url.startswith(("https://", "http://")):
        raise UsageError(Problem("usage.url", f"--url {url}: that is no web address", "write it as `https://…`"))
    if provider is not None:
        component(provider, "--provider")
    strict, replace, dry = switches
    return ImportRequest(
        date=checked_day("--date", date), url=url or "", commit=commit or "", provider=provider, regions=tuple(regions or ()),
        strict=strict, replace=replace, dry=dry,
    )  # fmt: skip


def _folder(out: str | None) -> Path:
    from gpuplan.specs.catalog import config_folder

    return Path(out) if out is not None else config_folder(os.environ)


def _catalog(folders: Sequence[str] | None) -> Catalog:
    from gpuplan.specs.catalog import Catalog

    return Catalog.open([Path(folder) for folder in folders or ()])


def _with(catalog: Catalog, folder: Path) -> Catalog:
    """The catalog with the folder that is written into, where that exists."""
    known = [one.resolve() for one in catalog.folders]
    return catalog if not folder.is_dir() or folder.resolve() in known else type(catalog)([*catalog.folders, folder])


def _report(made: ImportOutcome, folder: Path, wanted: ImportRequest, json: bool) -> None:
    from gpuplan.render.prices import flag_line, import_record, import_text

    if json:
        print(jsonlib.dumps(import_record(made, wanted.dry), indent=2, ensure_ascii=False))
        return
    for flag in made.flags:
        print(flag_line(flag), file=sys.stderr)
    for note in made.notes:
        say(f"note: {note}")
    sys.stdout.write(import_text(made, folder, wanted.dry))
