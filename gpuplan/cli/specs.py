"""`gpuplan specs`: what is on record about accelerators, systems, instances, prices and engines, and are files right?"""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command, Group
from gpuplan.errors import Problem, SpecError, UnknownError, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.specs.base import SpecFile
    from gpuplan.specs.catalog import Catalog

app = Typer(
    cls=Group, add_completion=False, rich_markup_mode=None, no_args_is_help=True,
    help="""What is on record about accelerators, systems, cloud instances, prices and engines, with sources and dates.

Examples:
  gpuplan specs list
  gpuplan specs show h100
  gpuplan specs check my-specs/""",
)  # fmt: skip
SHOWN = ("accelerators", "systems", "instances", "prices", "engines", "measured")
Row = tuple[list[str], dict[str, object]]


@app.command("list", cls=Command)
def list_specs(
    *,
    words: Annotated[
        list[str] | None,
        Argument(
            metavar="[KIND] [TEXT]", help=f"One of {', '.join(SHOWN)} (accelerators when left out), and a text that must occur"
        ),
    ] = None,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """Which accelerators, systems, instances, prices or engines are there?

    Examples:
      gpuplan specs list
      gpuplan specs list mi300
      gpuplan specs list instances p5 --csv
    """
    from gpuplan.cli.answer import form_of

    form = form_of({"json": json, "csv": csv, "md": md})
    words = list(words or ())
    kind = words.pop(0) if words and words[0] in SHOWN else "accelerators"
    catalog = _catalog(specs)
    heads, aligned, rows = _rows(catalog, kind, [word.lower() for word in words])
    if not rows:
        hint = did_you_mean(words[0], [*SHOWN, *catalog.paths(kind), *catalog.names(kind)]) if words else ""
        raise UnknownError(
            Problem("specs.none", f"no {kind} with `{' '.join(words)}`", hint or f"`gpuplan specs list {kind}` shows all")
        )
    if form == "json":
        print(jsonlib.dumps([record for _, record in rows], indent=2, ensure_ascii=False))
    elif form == "csv":
        from gpuplan.render.csv import records_csv

        sys.stdout.write(records_csv(record for _, record in rows))
    elif form == "md":
        from gpuplan.render.markdown import grid

        print(grid(heads, [cells for cells, _ in rows], aligned))
    else:
        from gpuplan.render.spec import listing
        from gpuplan.render.text import look_of

        text, hidden = listing(heads, [cells for cells, _ in rows], aligned, look_of(sys.stdout))
        sys.stdout.write(text)
        if hidden:
            print(f"note: no room for {', '.join(hidden)}; `--csv` has everything", file=sys.stderr)


@app.command(cls=Command)
def show(
    *,
    names: Annotated[list[str], Argument(metavar="NAME …", help="An accelerator, system, instance family or engine")],
    specs: o.SpecsDirs = None,
    json: o.Json = False,
) -> None:
    """What does a spec say, value by value, with sources and dates?

    Examples:
      gpuplan specs show h100
      gpuplan specs show dgx-h100 --json
    """
    catalog = _catalog(specs)
    made = [_load(catalog, name) for name in names]
    if json:
        from gpuplan.render.spec import spec_record

        records = [dict(spec_record(spec)) for spec, _ in made]
        print(jsonlib.dumps(records[0] if len(records) == 1 else records, indent=2, ensure_ascii=False))
        return
    from gpuplan.render.spec import spec_page
    from gpuplan.render.text import look_of

    look = look_of(sys.stdout)
    sys.stdout.write("\n".join(spec_page(spec, path, look) for spec, path in made))


@app.command(cls=Command)
def check(
    *,
    places: Annotated[
        list[str] | None, Argument(metavar="[PATH …]", help="Files or specs folders; the shipped data when left out")
    ] = None,
) -> None:
    """Are spec files right? Every problem with its file, its line and what to write instead; exits with 2 when there is one.

    Examples:
      gpuplan specs check
      gpuplan specs check my-specs/ my-gpu.yaml
    """
    from gpuplan.specs.check import check as findings_of

    problems = []
    for found in findings_of([Path(place) for place in places or ()]):
        if found.severity == "error":
            problems.append(Problem(found.code, found.message, found.hint, found.where))
        else:
            print(f"warning: {found.where}: {found.message}{f' ({found.hint})' if found.hint else ''}", file=sys.stderr)
    if problems:
        raise SpecError(*problems)
    print("all is right")


@app.command(cls=Command)
def schema(
    *,
    kind: Annotated[
        str | None, Argument(metavar="[KIND]", help="accelerator, system, instance, price, measured, engine, model or estimate")
    ] = None,
    write: Annotated[str | None, Option("--write", metavar="DIR", help="Write all schema files into a folder")] = None,
) -> None:
    """Which JSON Schema describes a kind of spec file, or the JSON of an estimate?

    Examples:
      gpuplan specs schema accelerator
      gpuplan specs schema --write schemas/
    """
    from gpuplan.models.card import ModelCard
    from gpuplan.render.json import schema as estimate_schema
    from gpuplan.schema_json import json_schema
    from gpuplan.specs.json_schema import texts

    others = {"model": json_schema(ModelCard), "estimate": estimate_schema()}
    made = texts() | {
        f"{name}.schema.json": jsonlib.dumps(one, indent=1, ensure_ascii=False) + "\n" for name, one in others.items()
    }
    kinds = [name.removesuffix(".schema.json") for name in made]
    if write is not None:
        folder = Path(write)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in made.items():
            (folder / name).write_text(text, encoding="utf-8")
        print(f"{len(made)} schema files are in {write}")
    elif kind is None:
        print("\n".join(kinds))
    else:
        wanted = kind if kind in kinds else kind.removesuffix("s")
        if wanted not in kinds:
            raise UsageError(
                Problem("usage.word", f"no schema of `{kind}`", did_you_mean(kind, kinds) or f"there are {', '.join(kinds)}")
            )
        sys.stdout.write(made[f"{wanted}.schema.json"])


def side_by_side(words: Sequence[str]) -> None:
    """Print the datasheets of some accelerators beside each other (`gpuplan compare h100 h200`)."""
    from gpuplan.render.compare import side_by_side_text
    from gpuplan.render.spec import chips_table
    from gpuplan.render.text import look_of
    from gpuplan.specs.accelerator import Accelerator

    odd = [word for word in words if word.startswith("-")]
    if odd:
        hint = "a comparison of estimates names its command first: `gpuplan compare serve MODEL --on A --on B`"
        raise UsageError(Problem("usage.no-such-option", f"`{odd[0]}` means nothing between names of accelerators", hint))
    catalog = _catalog(None)
    made = [catalog.load(Accelerator, word) for word in words]
    sys.stdout.write(side_by_side_text([spec.id for spec in made], chips_table(made), look_of(sys.stdout)))


def _catalog(folders: Sequence[str] | None) -> Catalog:
    from gpuplan.specs.catalog import Catalog

    return Catalog.open([Path(folder) for folder in folders or ()])


def _load(catalog: Catalog, name: str) -> tuple[SpecFile, Path]:
    """The spec of that name, of the first kind that has one.

    Raises:
        UnknownError: no kind has it.
    """
    from gpuplan.specs.catalog import schema_of
    from gpuplan.specs.target import find_instance

    for kind in SHOWN:
        cls = schema_of(kind)
        try:
            found = catalog.find(kind, name)
        except UnknownError:
            continue
        if cls is not None:
            for note in found.notes:
                print(f"note: {note.text}{f' ({note.hint})' if note.hint else ''}", file=sys.stderr)
            return catalog.read(cls, found.path), found.path
    instance = find_instance(name, catalog)
    if instance is not None:
        path = catalog.paths("instances")[f"{instance.provider}/{instance.family.id}"]
        return instance.family, path
    known = [name for kind in SHOWN for name in (*catalog.paths(kind), *catalog.names(kind))]
    raise UnknownError(
        Problem(
            "spec.unknown", f"nothing is called `{name}`", did_you_mean(name, known) or "`gpuplan specs list` shows what there is"
        )
    )


def _rows(catalog: Catalog, kind: str, words: Sequence[str]) -> tuple[tuple[str, ...], str, list[Row]]:
    """Heads, alignment and rows of a list; each row as text cells and as a record."""
    heads, aligned, make = _KINDS[kind]
    rows: list[Row] = []
    for ident, path, text in catalog.texts(kind):
        if all(word in f"{ident}\n{text}".lower() for word in words):
            rows += [row for row in make(catalog, path) if kind == "accelerators" or _has(row, words, ident)]
    return heads, aligned, rows


def _has(row: Row, words: Sequence[str], ident: str) -> bool:
    text = f"{ident} {' '.join(row[0])}".lower()
    return all(word in text for word in words)


def _accelerators(catalog: Catalog, path: Path) -> list[Row]:
    from gpuplan.render.spec import accelerator_record, accelerator_row
    from gpuplan.specs.accelerator import Accelerator

    spec = catalog.read(Accelerator, path)
    return [(accelerator_row(spec), accelerator_record(spec))]


def _systems(catalog: Catalog, path: Path) -> list[Row]:
    from gpuplan.specs.system import System

    spec = catalog.read(System, path)
    record: dict[str, object] = {
        "id": spec.id,
        "kind": spec.kind,
        "accelerator": spec.accelerator,
        "accelerators": spec.count,
        "name": spec.name,
    }
    return [([spec.id, str(spec.count), spec.accelerator, spec.form, spec.name], record)]


def _instances(catalog: Catalog, path: Path) -> list[Row]:
    from gpuplan.specs.instance import InstanceFamily

    spec = catalog.read(InstanceFamily, path)
    rows: list[Row] = []
    for shape in spec.instances:
        name, count = f"{spec.provider}:{shape.name}", shape.accelerators.value
        record: dict[str, object] = {
            "instance": name, "accelerator": shape.accelerator, "accelerators": count, "vcpus": shape.vcpus,
            "memory_bytes": shape.memory.value if shape.memory else None, "status": shape.status,
        }  # fmt: skip
        memory = shape.memory.text if shape.memory else ""
        rows.append(([name, f"{count:g}", shape.accelerator, str(shape.vcpus or ""), memory, shape.status], record))
    return rows


def _prices(catalog: Catalog, path: Path) -> list[Row]:
    from gpuplan.specs.price import PriceList

    spec = catalog.read(PriceList, path)
    rows: list[Row] = []
    for entry in spec.offers:
        amount = (
            entry.price.text if entry.price else f"{entry.credits_per_hour.text} credits/h" if entry.credits_per_hour else "free"
        )
        name = f"{spec.id}:{entry.instance}"
        record: dict[str, object] = {
            "instance": name, "region": entry.region, "kind": entry.kind, "price": amount, "per": entry.per,
            "date": entry.date, "status": entry.status,
            "usd_per_s": entry.price.value if entry.price else None,
        }  # fmt: skip
        rows.append(([name, amount, entry.per, entry.date or "undated", entry.kind, entry.status, entry.region], record))
    return rows


def _plain(kind: str) -> Callable[[Catalog, Path], list[Row]]:
    def make(catalog: Catalog, path: Path) -> list[Row]:
        from gpuplan.specs.catalog import schema_of

        cls: Any = schema_of(kind)
        spec = catalog.read(cls, path)
        return [([spec.id, spec.name], {"id": spec.id, "name": spec.name})]

    return make


_KINDS: dict[str, tuple[tuple[str, ...], str, Callable[[Any, Path], list[Row]]]] = {
    "accelerators": (("id", "memory", "bandwidth", "bf16 or fp16", "fp8", "power", "since", "name"), "lrrrrrll", _accelerators),
    "systems": (("system", "count", "accelerator", "form", "name"), "lrlll", _systems),
    "instances": (("instance", "count", "accelerator", "vcpus", "memory", "status"), "lrlrrl", _instances),
    "prices": (("instance", "price", "per", "date", "kind", "status", "region"), "lrlllll", _prices),
    "engines": (("engine", "name"), "ll", _plain("engines")),
    "measured": (("measured", "name"), "ll", _plain("measured")),
}
