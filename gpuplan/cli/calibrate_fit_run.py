"""What does `gpuplan calibrate fit` do: which tables, which chip, which blocks of which file?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.cli.answer import put
from gpuplan.cli.complaint import say
from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean, install
from gpuplan.record import Record

if TYPE_CHECKING:
    from gpuplan.calibrate.table_fits import Fitted
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.catalog import Catalog

KINDS = ("matmul", "grouped", "attention", "links")


class FitTablesRequest(Record):
    """The options as typed."""

    source: str
    system: str
    accelerator: str | None
    kinds: str
    out: str | None
    specs: tuple[str, ...]


def fit_tables(asked: FitTablesRequest) -> None:
    """Fit, print the report, and rewrite the blocks of the file that was named.

    Raises:
        UsageError: no such folder, table, kind or system, or scipy is not installed.
        UnknownError: the accelerator is not known.
    """
    from gpuplan.cli.specs import open_catalog

    problems = []
    place = Path(asked.source)
    if not place.is_dir():
        problems.append(Problem("calibrate.no-tables", f"--from {place}: there is no such folder", "name the folder of the tables"))
    wanted = [kind.strip() for kind in asked.kinds.split(",") if kind.strip()]
    for kind in wanted:
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS) or f"use {', '.join(KINDS)}"
            problems.append(Problem("usage.word", f"--kinds {kind}: no such kind", hint))
    if problems:
        raise UsageError(*problems)
    try:
        from gpuplan.calibrate import attention_fits, table_fits
        from gpuplan.calibrate.expert_fits import fit_experts
        from gpuplan.calibrate.trial_chip import Chip
    except ImportError as error:
        raise UsageError(Problem("calibrate.no-fit", f"fits need {error.name}", f"{install('tables')} brings it")) from None
    if asked.system not in attention_fits.KERNELS:
        hint = did_you_mean(asked.system, attention_fits.KERNELS) or f"known are {', '.join(attention_fits.KERNELS)}"
        raise UsageError(Problem("usage.word", f"--system {asked.system}: nothing says which kernels stand for it", hint))
    catalog = open_catalog(asked.specs)
    spec = _spec(asked, catalog)
    rate = None if spec.scale_up is None else spec.scale_up.bandwidth_per_direction
    link = None if rate is None else rate.value
    chip = Chip.of(spec, link, _stand_in(spec, catalog))
    made = table_fits.Fitted()
    for kind, one in (("matmul", table_fits.fit_matmuls), ("attention", table_fits.fit_attention), ("links", table_fits.fit_links)):
        if kind in wanted and (kind != "links" or link is not None):
            made.sets |= one(place, asked.system, chip).sets
    if "grouped" in wanted:
        made.sets |= fit_experts(place, asked.system, chip, _stream(spec, catalog)).sets
    put(report(spec.id, made))
    for name, why in refused(made).items():
        say(f"note: {name} is not believed{', and not written' if asked.out else ''}: {why}")
        del made.sets[name]
    if asked.out is not None:
        _write(Path(asked.out), made)


def refused(made: Fitted) -> dict[str, str]:
    """The sets that the gate of all measured figures lets by for nobody, and why."""
    from gpuplan.calibrate.gate import refusal

    return {place: why for place, one in made.sets.items() if (why := refusal(one))}


def report(ident: str, made: Fitted) -> str:
    """The errors of each set on the shapes that were held back, beside those of flat efficiencies."""
    from gpuplan.calibrate.gate import doubts

    head = ("set", "rows", "held back", "median", "p90", "bias", "flat roofline", "doubts")
    lines = [
        (
            key.removeprefix("engines."), f"{one.rows_fitted:,}", f"{one.rows_held_back:,}", f"{one.errors.median_ape:.1%}",
            f"{one.errors.p90_ape:.1%}", f"{one.errors.bias:+.1%}",
            "-" if one.flat_median_ape is None else f"{one.flat_median_ape:.1%}", "; ".join(doubts(one)),
        )
        for key, one in made.sets.items()
    ]  # fmt: skip
    widths = [max(len(row[at]) for row in (head, *lines)) for at in range(len(head))]
    text = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)), row[-1]]
        ).rstrip()
        for row in (head, *lines)
    ]
    return f"{ident}: errors on shapes that were held back\n" + "\n".join(text) + "\n"


def _spec(asked: FitTablesRequest, catalog: Catalog) -> Accelerator:
    from gpuplan.specs.accelerator import Accelerator

    if asked.accelerator is not None:
        return catalog.load(Accelerator, asked.accelerator)
    part = re.sub(r"[^a-z0-9]+", "-", asked.system.lower()).removesuffix("-sxm")
    try:
        return catalog.load(Accelerator, part)
    except UnknownError:
        hint = "name it with --accelerator"
        raise UnknownError(Problem("calibrate.no-chip", f"no accelerator is called `{part}`", hint)) from None


def _stand_in(spec: Accelerator, catalog: Catalog) -> Accelerator | None:
    """The chip that the measured file of this one names as like it."""
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.measured import Measured

    path = catalog.paths("measured").get(spec.id)
    like = None if path is None else catalog.read(Measured, path).like
    return catalog.load(Accelerator, like) if like is not None and like in catalog.paths("accelerators") else None


def _stream(spec: Accelerator, catalog: Catalog) -> dict[str, float]:
    """The efficiency and the start of streams on a chip, as an estimate takes them.

    Raises:
        UnknownError: nothing is measured of the chip.
    """
    from gpuplan.machine.overlay import chain_of, single_terms

    terms = single_terms(chain_of(catalog, spec.id, spec.family, None, silicon=spec.silicon))
    return {key: float(terms[f"stream.{key}"].value) for key in ("efficiency", "launch")}


def _table_key(text: str, file: Path) -> str:
    """The key of the source of a measured file that its sets are fitted to.

    Raises:
        UsageError: the file has no such source.
    """
    from gpuplan.strict_yaml import parse_yaml

    sources = parse_yaml(text, str(file))[0].get("sources") or {}
    key = next((str(key) for key, one in sources.items() if isinstance(one, Mapping) and one.get("kind") == "fitted"), "")
    if not key:
        hint = "name the tables under `sources`, with `kind: fitted`"
        raise UsageError(Problem("calibrate.no-table", f"{file} names no source that its sets are fitted to", hint))
    return key


def _write(file: Path, made: Fitted) -> None:
    """Replace the blocks of the file; it is written whole or not at all."""
    from gpuplan.calibrate.measured_file import table_set
    from gpuplan.calibrate.replace_blocks import rewritten
    from gpuplan.files.read import text_of
    from gpuplan.files.write import locked, write
    from gpuplan.yaml_text import yaml_lines

    with locked(file.parent):
        before = text_of(file, code="calibrate")
        table = _table_key(before, file)
        blocks = {key: list(yaml_lines(table_set(one, table))) for key, one in made.sets.items()}
        for place, (low, high) in made.engine_spreads().items():
            blocks[place] = list(yaml_lines({"source": table, "low": round(low, 3), "high": round(high, 3)}))
        after = rewritten(before, blocks)
        for kind in ("matmul", "grouped"):
            spread = made.spread(f"{kind}.")
            if spread is not None:
                line = f"  {kind}: {{source: {table}, low: {spread[0]:.3f}, high: {spread[1]:.3f}}}"
                after = re.sub(rf"^  {kind}: \{{(?:source: [^,]*, )?low: [^}}]*\}}\n", "", after, flags=re.M)
                after = re.sub(r"^residual:\n", f"residual:\n{line}\n", after, flags=re.M)
        write(file, after)
