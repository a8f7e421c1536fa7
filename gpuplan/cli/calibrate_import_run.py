"""What does `gpuplan calibrate import` read, where does it write, and what does it say?"""

from __future__ import annotations

import json as jsonlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.cli.complaint import say
from gpuplan.errors import Problem, UnknownError, UsageError, install

if TYPE_CHECKING:
    from gpuplan.calibrate.device import Probe
    from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, TimedKernel
    from gpuplan.calibrate.imports.points import KeptPoint
    from gpuplan.calibrate.measure.measured_subject import MeasuredSubject
    from gpuplan.calibrate.measure.sample import Sample
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.catalog import Catalog

MANY = 4096
"""So many accelerators of a kind are in several machines, whatever these are."""


@dataclass(frozen=True)
class ImportFilesRequest:
    """The options as typed."""

    kind: str
    files: tuple[str, ...]
    accelerator: str | None
    dtype: str | None
    ranks: str | None
    tp: str | None
    weights: str | None
    out: str | None
    specs: tuple[str, ...]
    json: bool
    model: str | None = None
    engine: str | None = None
    concurrency: str | None = None


def import_files(asked: ImportFilesRequest) -> None:
    """Read the files, write what they say, and tell it.

    Raises:
        UsageError: wrong words or a file that cannot be read or written.
        UnknownError: nobody knows the accelerator.
    """
    from gpuplan.calibrate.imports.formats import TABLES, parsed, parser_of
    from gpuplan.cli.specs import open_catalog
    from gpuplan.files.progress import steps

    if asked.kind == TABLES:
        _tables(asked)
        return
    catalog = open_catalog(list(asked.specs))
    parser_of(asked.kind)  # A word that is none is told before anything is read.
    given = _given(asked, catalog)
    # What one file alone holds is told by who reads it.
    files = steps(asked.files, "files read") if len(asked.files) > 1 else asked.files
    found = [(Path(name), parsed(asked.kind, Path(name), given)) for name in files]
    for _, one in found:
        for text in one.left_out:
            say(f"note: left out: {text}")
    runs = [run for _, one in found for run in one.runs]
    _print_result(asked, _runs(asked, runs, given) if runs else _kernels(asked, found, given, catalog))


def _tables(asked: ImportFilesRequest) -> None:
    """Hand the installed tables to `gpuplan calibrate fit`: FILE is the name of a system in them.

    Raises:
        UsageError: the package is not installed, or several systems are named.
    """
    from importlib.util import find_spec

    from gpuplan.cli import calibrate_fit_run

    package = find_spec("aiconfigurator_core")
    places = list(package.submodule_search_locations or ()) if package is not None else []
    if not places:
        hint = f"pip install aiconfigurator-core, and {install('tables')}; or run `gpuplan calibrate fit --from DIR` on its tables"
        raise UsageError(Problem("import.tables", "aiconfigurator-core, whose tables are read, is not installed", hint))
    if len(asked.files) != 1:
        hint = "write it as `gpuplan calibrate import aiconfigurator h100_sxm`"
        raise UsageError(Problem("import.tables", "name one system as the tables call it", hint))
    data = Path(places[0]) / "systems" / "data"
    kinds = "matmul,attention,links"
    calibrate_fit_run.fit_tables(
        calibrate_fit_run.FitTablesRequest(str(data), asked.files[0], asked.accelerator, kinds, asked.out, asked.specs)
    )


def _print_result(asked: ImportFilesRequest, said: dict[str, Any]) -> None:
    if asked.json:
        print(jsonlib.dumps(said, indent=2, ensure_ascii=False))
        return
    for place, one in said.get("sets", {}).items():
        error = (
            f"{one['rows']} rows, median error {one['median_ape']:.1%}, 90 % below {one['p90_ape']:.1%}"
            if "rows" in one
            else f"{one['share']:.1%} of the link"
        )
        print(f"{place:<28} {error}")
    for place, why in said.get("unfitted", {}).items():
        print(f"{place:<28} not fitted: {why}")
    for model, factors in said.get("factors", {}).items():
        for key, one in factors.items():
            print(f"{model} {key:<8} {_told(one)}")
    print(f"wrote {said['written'][0]}: {said['rows']} row{'s' * (said['rows'] != 1)}")
    for path in said["written"][1:] if "factors" in said else ():
        print(f"wrote {path}")
    print(said["next"])


def _told(one: dict[str, Any]) -> str:
    """A factor of a user's runs in words."""
    text = f"x {one['value']:.3g} of what is counted (engine: {one['engine']:.3g}), {one['runs']} run{'s' * (one['runs'] > 1)}"
    text += f", median error {one['error_before']:.1%} before"
    if one["error_held_back"] is None:
        return text
    return f"{text}, {one['error_held_back']:.1%} on runs held back, 90 % below {one['p90_held_back']:.1%}"


def _given(asked: ImportFilesRequest, catalog: Catalog) -> ImportHints:
    from datetime import date

    from gpuplan.calibrate.imports.parsed import ImportHints
    from gpuplan.specs.on import parse_target

    target = parse_target(asked.accelerator, catalog) if asked.accelerator is not None else None
    return ImportHints(
        dtype=asked.dtype, ranks=_count("ranks", asked.ranks), tp=_count("tp", asked.tp), weights=asked.weights,
        model=asked.model, engine=asked.engine, concurrency=_count("concurrency", asked.concurrency),
        accelerator=None if target is None else target.accelerator.id, count=1 if target is None else target.count,
        date=date.today().isoformat(),
    )  # fmt: skip


def _count(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    from gpuplan.plan.read import count

    return count(option, text)


def _runs(asked: ImportFilesRequest, runs: Sequence[Any], given: ImportHints) -> dict[str, Any]:
    """Put runs into a file that `gpuplan accuracy --runs` reads, and what they tell of estimates into the measured file."""
    from gpuplan import __version__
    from gpuplan.calibrate.imports.merge import ImportedFile
    from gpuplan.calibrate.imports.serving import runs_text
    from gpuplan.calibrate.measure.session import target
    from gpuplan.cli.calibrate_import_serving import fit_runs
    from gpuplan.files.read import text_if_there
    from gpuplan.files.write import locked, write
    from gpuplan.specs.catalog import Catalog, config_folder

    out = Path(asked.out) if asked.out is not None else config_folder(os.environ) / "runs" / f"{asked.kind}.yaml"
    with locked(out.parent):
        before = text_if_there(out, code="import") or ""
        write(out, runs_text(runs, before))
    accelerator = given.accelerator or ""
    catalog = Catalog.open([Path(folder) for folder in asked.specs], calibrated=True)
    names = ", ".join(Path(name).name for name in asked.files)
    aside = target(None, accelerator, os.environ)
    engine = runs[0]["engine"].split()[0]
    made = ImportedFile(asked.kind, names, given.date, __version__, engine, len(runs), {})
    said = fit_runs(made, out, [run["id"] for run in runs], accelerator, catalog, aside)
    for text in said.pop("left_out"):
        say(f"note: left out: {text}")
    used = f"; estimates of {', '.join(said['factors'])} in {engine} for --on {accelerator} use them with --calibrated"
    return {
        **said, "rows": len(runs), "written": [str(out), *said["written"]],
        "next": f"gpuplan accuracy --runs {out} compares them" + (used if said["factors"] else ""),
    }  # fmt: skip


def _kernels(
    asked: ImportFilesRequest, found: Sequence[tuple[Path, ParsedFile]], given: ImportHints, catalog: Catalog
) -> dict[str, Any]:
    """Fit kernels into the measured file of the accelerator."""
    from gpuplan import __version__
    from gpuplan.calibrate.imports import points
    from gpuplan.calibrate.imports.merge import ImportedFile, merge
    from gpuplan.calibrate.measure.session import target
    from gpuplan.files.write import locked, write_all

    subject = _subject(given.accelerator, found, catalog)
    out = target(None if asked.out is None else Path(asked.out), subject.id, os.environ)
    aside = points.place(out)
    on = asked.accelerator if asked.accelerator is not None and given.count > 1 else ""
    near = _domain(on, subject, found, catalog)
    new = [
        points.KeptPoint(
            probe=_placed(point, near), seconds=point.seconds, kind=asked.kind, file=path.name, date=given.date, line=point.line
        )
        for path, one in found
        for point in one.points
    ]
    names = ", ".join(path.name for path, _ in found)
    rates = {way: rate for _, one in found for way, rate in one.rates.items()}
    made = ImportedFile(asked.kind, names, given.date, __version__, found[0][1].software, len(new), rates)
    wanted = {_group(point) for point in new}
    with locked(out.parent):
        every = [*points.load(aside), *new]
        kept = {point.key(): point for point in every if _group(point) in wanted}
        measured = list(_measured(out, subject.id, wanted))
        merged = merge(subject, out, made, list(kept.values()), measured, catalog, on if near else "")
        texts = {**({aside: points.text(every)} if new else {}), **({out: merged.text} if merged.text else {})}
        write_all(texts, force=True)
    sets: dict[str, Any] = {
        place: {"rows": one.rows_fitted, "median_ape": one.errors.median_ape, "p90_ape": one.errors.p90_ape}
        for place, one in merged.sets.items()
    }
    sets |= {place: {"share": share} for place, share in merged.rates.items()}
    used = catalog.layers("measured", subject.id)
    ours = target(None, subject.id, os.environ)
    there = f"estimates for --on {subject.id} use it with --calibrated"
    told = there if out in (ours, *used) else f"{there} once it lies at {ours}"
    return {
        "id": subject.id, "sets": sets, "unfitted": dict(merged.unfitted), "rows": len(new) or len(rates),
        "written": [str(path) for path in reversed(texts)],
        "next": told if merged.text else "the present parameters stay; the points are kept for `gpuplan calibrate show`",
    }  # fmt: skip


def _domain(on: str, subject: MeasuredSubject, found: Sequence[tuple[Path, ParsedFile]], catalog: Catalog) -> int:
    """How many accelerators the links of one machine join, where some collective was measured over several hosts; otherwise 0.

    Raises:
        UsageError: nobody knows the network of the machine, or the machines that were named are others.
    """
    from gpuplan.calibrate.measure.measured_subject import levels_of

    wide = [point for _, one in found for point in one.points if point.near]
    if not wide:
        return 0
    ranks = int(max(point.probe.shape["group"] for point in wide))
    hint = "say with --accelerator which machines these are, such as 2xdgx-h100"
    levels = levels_of(subject, ranks if on else MANY, catalog, on)
    size = int(levels[0].size or 1) if levels else 0
    odd = sorted({point.near for point in wide if size and size % point.near})
    if odd:
        what = f"there were {odd[0]} ranks on each host, but a machine of {subject.name} has {size}"
        raise UsageError(Problem("import.odd-hosts", what, hint))
    if len(levels) < 2 or levels[0].size is None:
        what = f"nothing is on record of a network between machines of {subject.name}"
        raise UsageError(Problem("import.no-network", what, hint))
    return size


def _placed(point: TimedKernel, near: int) -> Probe:
    """The probe with the distance of its ranks, where hosts have fewer of them than accelerators."""
    if not point.near or point.near == near:
        return point.probe
    return point.probe.replaced(shape={**point.probe.shape, "stride": near / point.near})


def _group(point: KeptPoint | Sample) -> tuple[str, str, str]:
    """Kernels that are fitted together."""
    kind = point.probe.kind
    return kind, "" if kind in ("collective", "transfer", "decode") else point.probe.dtype, point.probe.name


def _measured(out: Path, ident: str, wanted: set[tuple[str, str, str]]) -> Iterator[Sample]:
    """What `gpuplan calibrate` measured of the same kernels here, if its journal is still there."""
    from gpuplan.calibrate.measure.journal import default_place, load

    for place in dict.fromkeys((out.with_suffix(".jsonl"), default_place(os.environ, ident))):
        kept = load(place)
        if kept is not None:
            yield from (sample for sample in kept.samples.values() if not sample.marks and _group(sample) in wanted)
            return


def _subject(ident: str | None, found: Sequence[tuple[Path, ParsedFile]], catalog: Catalog) -> MeasuredSubject:
    """The accelerator that was named, or that the files name.

    Raises:
        UsageError: nobody named it, or the files name several.
        UnknownError: no spec has the device's name.
    """
    from gpuplan.calibrate.measure.measured_subject import MeasuredSubject
    from gpuplan.probe.host import ReportedDevice as HostDevice
    from gpuplan.probe.match import matching_spec
    from gpuplan.specs.accelerator import Accelerator

    names = dict.fromkeys(name for _, one in found for name in one.devices)
    spec: Accelerator | None = catalog.load(Accelerator, ident) if ident is not None else None
    if spec is None:
        if not names:
            message = "the file does not say which accelerator was measured"
            raise UsageError(Problem("import.no-device", message, "say it with --accelerator, such as h100-sxm-80gb"))
        specs = [matching_spec(HostDevice(name=name, vendor="", unit="gpu", said_by="file"), catalog) for name in names]
        spec = specs[0]
        if spec is None or any(one is None or one.id != spec.id for one in specs):
            message = f"no single spec is known for {', '.join(names)}"
            raise UnknownError(Problem("import.device", message, "say it with --accelerator, such as h100-sxm-80gb"))
    count = spec.units.count.value if spec.units is not None else None
    return MeasuredSubject(
        spec.id, spec.name, spec.vendor, spec.family, spec, spec.unit == "socket", None if count is None else int(count)
    )
