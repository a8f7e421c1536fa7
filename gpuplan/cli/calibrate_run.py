"""What does `gpuplan calibrate` without a command do, and what does it say meanwhile?"""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.cli.calibrate_progress import CalibrationProgress, about, shape_of
from gpuplan.errors import Exit, Problem, UnknownError, UsageError, install
from gpuplan.units import so_many

if TYPE_CHECKING:
    from gpuplan.calibrate.device import Device, DeviceChoice
    from gpuplan.calibrate.measure.session import CalibrationPlan, CalibrationReport, CalibrationWish


@dataclass(frozen=True)
class CalibrateRequest:
    """The options as typed."""

    quick: bool
    full: bool
    backend: str
    device: str | None
    kinds: str | None
    out: str | None
    fresh: bool
    on: str | None
    timeout: str | None
    dry_run: bool
    specs: tuple[str, ...]
    json: bool


def measure(asked: CalibrateRequest) -> int:
    """Measure the device, write what came of it and say so; the exit code.

    Raises:
        UsageError: wrong words, no such device or backend, or a file that cannot be written.
        UnknownError: the device was lost.
    """
    from gpuplan.calibrate.device import PEER_TIMEOUT, DeviceLostError, RanksLostError
    from gpuplan.calibrate.measure.opening import open_device
    from gpuplan.calibrate.measure.watch import TERMINATED, Terminated, terminable

    wish = _wish(asked)
    if wish.hang_limit is not None:
        os.environ[PEER_TIMEOUT] = f"{wish.hang_limit:g}"
    _require_scipy()
    progress = CalibrationProgress(sys.stderr)
    try:
        with terminable():
            device = open_device(asked.backend, device_choice(asked.device))
            return _measure_on(device, asked, wish, progress)
    except RanksLostError as error:
        hint = "what was measured is kept; start all ranks again to go on"
        raise UnknownError(Problem("calibrate.ranks-lost", str(error), hint)) from None
    except DeviceLostError as error:
        hint = "see that the driver and the device are well, then call the same command again"
        raise UnknownError(Problem("calibrate.device-lost", f"the device does not answer: {error}".rstrip(": "), hint)) from None
    except Terminated:
        progress.clear()
        print("terminated", file=sys.stderr)
        return TERMINATED
    finally:
        progress.clear()


def _measure_on(device: Device, asked: CalibrateRequest, wish: CalibrationWish, progress: CalibrationProgress) -> int:
    from gpuplan.calibrate.device import DeviceLostError
    from gpuplan.calibrate.measure.session import calibrate, plan
    from gpuplan.cli.specs import open_catalog

    try:
        if device.identity().rank > 0:
            device.follow()
            return int(Exit.OK)
        catalog = open_catalog(asked.specs)
        with progress.looking():
            made = plan(device, wish, catalog, progress)
        if asked.dry_run:
            print(jsonlib.dumps(_planned(made), indent=2) if asked.json else "\n".join(_list(made)))
            return int(Exit.OK)
        with progress.live(made, catalog, wish.on):
            report = calibrate(device, made, wish, catalog, progress)
    finally:
        with suppress(DeviceLostError):
            device.close()
    print(jsonlib.dumps(_record(report), indent=2, ensure_ascii=False) if asked.json else "\n".join(_lines(report)))
    return int(Exit.OK)


def _require_scipy() -> None:
    """See before anything is measured that it can be fitted.

    Raises:
        UsageError: a library is missing.
    """
    from importlib.util import find_spec

    missing = [name for name in ("numpy", "scipy") if find_spec(name) is None]
    if missing:
        hint = f"{install('calibrate')} brings it"
        raise UsageError(Problem("calibrate.no-fit", f"fits need {' and '.join(missing)}, not installed here", hint))


def _wish(asked: CalibrateRequest) -> CalibrationWish:
    from datetime import date

    from gpuplan import __version__
    from gpuplan.calibrate.measure.session import CalibrationWish

    if asked.quick and asked.full:
        raise UsageError(Problem("usage.conflict", "`--quick` and `--full` exclude each other", "give one of them"))
    extent: Any = "quick" if asked.quick else "full" if asked.full else "default"
    kinds = [word.strip() for word in (asked.kinds or "").split(",") if word.strip()]
    return CalibrationWish(
        extent=extent, kinds=kinds, out=None if asked.out is None else Path(asked.out), fresh=asked.fresh, on=asked.on or "",
        hang_limit=None if asked.timeout is None else _seconds(asked.timeout), today=date.today().isoformat(), version=__version__,
    )  # fmt: skip


def _seconds(text: str) -> float:
    from gpuplan.units import UnitError, parse

    hint = "write it as `120` or `10min`, at least 1 second and at most 86400"
    try:
        value = parse(f"{text} s" if text[-1:].isdigit() else text, "s").value
    except UnitError as error:
        raise UsageError(Problem("usage.number", f"--timeout: {error}", hint)) from None
    if not 1 <= value <= 86_400:
        raise UsageError(Problem("usage.number", f"--timeout: `{text}` is no number of seconds", hint))
    return value


def device_choice(text: str | None) -> DeviceChoice:
    """What `--device` names: a number, or the processor.

    Raises:
        UsageError: neither.
    """
    from gpuplan.calibrate.device import PROCESSOR
    from gpuplan.plan.read import count

    return PROCESSOR if text == PROCESSOR else None if text is None else count("device", text, least=0)


def _list(made: CalibrationPlan) -> list[str]:
    """The probes in the order of their kinds, with the time that one launch and the whole probe should take."""
    from gpuplan.calibrate.measure.achieved import called
    from gpuplan.render.text import columns

    lines = [f"{made.identity.name} ({made.subject.id}): {len(made.planned)} probes, about {about(made.seconds)}", ""]
    rows = [
        [called(one.probe), one.probe.dtype, shape_of(one.probe), _short(one.launch), f"{one.cost:.2f} s"]
        for one in sorted(made.planned, key=lambda one: (one.probe.kind, one.probe.name, one.probe.dtype, one.launch))
    ]
    lines += columns([["probe", "", "", "one launch", "in all"], *rows], "lllrr")
    left = Counter(made.refused.values())
    return [*lines, *(f"left out: {so_many(count, 'probe')}: {why}" for why, count in left.items())]


def _short(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"


def _planned(made: CalibrationPlan) -> dict[str, Any]:
    probes = [{"probe": one.probe.key(), "launch_s": one.launch, "cost_s": one.cost} for one in made.planned]
    return {"device": made.identity.name, "id": made.subject.id, "seconds": made.seconds, "probes": probes, "out": str(made.out)}


def _lines(report: CalibrationReport) -> list[str]:
    run = report.run
    good = sum(not sample.marks for sample in run.samples.values())
    lines = [f"{report.plan.identity.name}: {so_many(good, 'probe')} measured in {about(run.seconds)}"]
    marks = Counter(mark for sample in run.samples.values() for mark in sample.marks)
    lines += [f"left out after retries: {so_many(count, 'probe')} ({mark})" for mark, count in marks.items()]
    skipped = Counter(one.why for one in run.skipped.values())
    lines += [f"not measured: {so_many(count, 'probe')} ({why})" for why, count in skipped.items()]
    lines += [f"not measurable here: {why}" for why in dict.fromkeys(report.plan.refused.values()) if "cannot be measured" in why]
    lines += ["", f"{'parameters':<28} {'rows':>5} {'median error':>13} {'90 % below':>11}"]
    for place, found in report.made.sets.items():
        if place in report.made.short:
            continue
        lines.append(f"{place:<28} {found.rows_fitted:>5} {found.errors.median_ape:>12.1%} {found.errors.p90_ape:>11.1%}")
    lines += [f"{place:<28} not fitted: {why}" for place, why in {**report.made.unfitted, **report.made.short}.items()]
    lines += ["", *(f"wrote {path}" for path in report.written)]
    if report.only_here:
        lines += ["true of this machine as it is now, and lent to no other:", *(f"  {why}" for why in report.only_here)]
    if report.usable_as and report.plan.subject.drafted:
        lines.append(f"estimates for --on {report.usable_as} use it")
    elif report.usable_as:
        lent = "" if report.only_here else f"; those for --on {report.usable_as} and machines with it do with --calibrated"
        lines.append(f"estimates for --on local use it{lent}")
    else:
        lines.append("no estimate finds it there: put it into a folder `measured` of your specs, named after the accelerator")
    return lines


def _record(report: CalibrationReport) -> dict[str, Any]:
    run = report.run
    return {
        "device": report.plan.identity.name,
        "id": report.plan.subject.id,
        "seconds": run.seconds,
        "measured": sum(not sample.marks for sample in run.samples.values()),
        "resumed": run.resumed,
        "left_out": {key: list(sample.marks) for key, sample in run.samples.items() if sample.marks},
        "skipped": {key: one.why for key, one in run.skipped.items()},
        "warnings": list(run.warnings),
        "fits": {
            place: {
                "rows": found.rows_fitted, "median_ape": found.errors.median_ape,
                "p90_ape": found.errors.p90_ape, "bias": found.errors.bias,
                "parameters": {
                    key: {"value": one.value, "unit": one.unit, "low": one.low, "high": one.high, "note": one.why}
                    for key, one in found.values.items()
                },
            }
            for place, found in report.made.sets.items()
        },
        "unfitted": {**report.made.unfitted, **report.made.short},
        "written": [str(path) for path in report.written],
        "only_here": list(report.only_here),
        "on": report.usable_as or None,
    }  # fmt: skip
