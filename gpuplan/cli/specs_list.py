"""`gpuplan specs list`: which accelerators, systems, instances, prices or engines are there?"""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command
from gpuplan.cli.specs import SHOWN, open_catalog
from gpuplan.errors import Problem, UnknownError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog

app = Typer(add_completion=False, rich_markup_mode=None)
Row = tuple[list[str], dict[str, object]]


@app.command(cls=Command)
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
    catalog = open_catalog(specs)
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
