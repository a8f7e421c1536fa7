"""One whole calibration: device, probes, journal, measuring, fits, and the files that estimates read afterwards."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuplan.calibrate import gate
from gpuplan.calibrate.device import Device, DeviceLostError, Identity, Probe, RanksLostError
from gpuplan.calibrate.imports.merge import with_earlier
from gpuplan.calibrate.measure import probe_list
from gpuplan.calibrate.measure.journal import Journal, JournalContents, default_place, header, load
from gpuplan.calibrate.measure.measured_subject import (
    MeasuredSubject,
    can_draft,
    draft,
    ground_of,
    last_cache_of,
    levels_of,
    subject_of,
)
from gpuplan.calibrate.measure.probe_list import Extent, Planned
from gpuplan.calibrate.measure.runner import BUSY, PREPARE_LIMIT_S, RETRY_SHARE, RUN_LIMIT_S, Rules, Runner
from gpuplan.calibrate.measure.runner import ProbeRun as Run
from gpuplan.calibrate.measure.sample import Sample, plain
from gpuplan.calibrate.measure.sample_fits import NEARER, SampleFits, fit_samples
from gpuplan.calibrate.measure.speed import trial
from gpuplan.calibrate.measure.watch import Watchdog
from gpuplan.calibrate.measured_file import MeasuredHead, measured_text
from gpuplan.errors import Exit, Problem, SpecError, UnknownError, UsageError, did_you_mean
from gpuplan.files.write import check_writable, locked, write_all
from gpuplan.probe.host import Host
from gpuplan.specs.base import as_spec, load_spec
from gpuplan.specs.catalog import Catalog, config_folder
from gpuplan.specs.measured import Measured
from gpuplan.specs.measured_machine import this_host
from gpuplan.units import so_many


@dataclass(frozen=True)
class CalibrationWish:
    """What the user asked for."""

    extent: Extent = "default"
    kinds: Sequence[str] = ()
    out: Path | None = None
    fresh: bool = False
    today: str = ""
    version: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    on: str = ""
    """The machines that the devices are in, where several measure together: their links have its rates."""
    hang_limit: float | None = None
    """Seconds after which the watchdog takes a kernel for hung; None: its usual limits."""


class Listener:
    """Who is told how far it is; this one does not listen."""

    def start(self, name: str, probes: int, seconds: float) -> None:
        """So many probes of a device are about to be measured, in about so many seconds."""

    def step(self, done: int, of: int, left_s: float, probe: Probe) -> None:
        """A probe is about to be measured."""

    def settling(self) -> None:
        """The device is put under load until its speed has settled."""

    def found(self, sample: Sample) -> None:
        """This was measured, now or by an earlier run; with marks it may be measured again."""

    def say(self, text: str) -> None:
        """Something the user should know at once."""


@dataclass(frozen=True)
class CalibrationPlan:
    """What will be measured, before it is."""

    subject: MeasuredSubject
    identity: Identity
    planned: Sequence[Planned]
    refused: Mapping[str, str]
    out: Path
    journal: Path
    took: float = 0.0
    """Seconds that it took to see how fast the device is."""

    @property
    def seconds(self) -> float:
        """How long it should take."""
        return sum(one.cost for one in self.planned)


@dataclass(frozen=True)
class CalibrationReport:
    """What came of it."""

    plan: CalibrationPlan
    run: Run
    made: SampleFits
    written: Sequence[Path]
    usable_as: str
    """What `--on` takes for this device; nothing where estimates will not find the file."""
    only_here: Sequence[str] = ()
    """Why the figures are lent to no other machine."""


def plan(device: Device, wish: CalibrationWish, catalog: Catalog, told: Listener) -> CalibrationPlan:
    """Which probes are to be measured on a device, and where the results go. A few kernels run, to see how fast it is.

    Raises:
        UsageError: an unknown kind, or nothing of what was asked for can be measured.
        DeviceLostError: the device does not answer.
    """
    unknown = [kind for kind in wish.kinds if kind not in probe_list.kinds()]
    if unknown:
        hint = did_you_mean(unknown[0], probe_list.kinds()) or f"there are {', '.join(probe_list.kinds())}"
        raise UsageError(Problem("usage.word", f"--kinds: no kind of probe is called `{unknown[0]}`", hint))
    began = time.monotonic()
    identity = device.identity()
    subject = subject_of(identity, catalog, Host())
    if (know := getattr(device, "know", None)) is not None:
        know(last_cache_of(subject))
    levels_of(subject, identity.ranks, catalog, wish.on)  # What is wrong with --on is told before anything is measured.
    dtypes = tuple(one for one in probe_list.DTYPES if device.refuses(_square(one)) is None)
    if not dtypes:
        raise UsageError(Problem("calibrate.nothing", f"{identity.name} multiplies none of {', '.join(probe_list.DTYPES)}"))
    free = device.memory().get("free") or device.memory().get("total") or identity.memory_bytes or 0.0
    if not free:
        what = f"{identity.name} does not say that any memory is free"
        raise UsageError(Problem("calibrate.no-memory", what, "see what holds it"))
    dog = Watchdog(lambda what: told.say(f"error: {what} did not come back: the driver or the device hangs"), int(Exit.UNKNOWN))
    try:
        with dog.limit("the first kernel", wish.hang_limit or 3 * PREPARE_LIMIT_S):
            speed = trial(device, dtypes, identity.ranks)
    finally:
        dog.close()
    if not speed.flop_per_s and not wish.kinds:
        why = f": {speed.trouble}" if speed.trouble else ""
        raise UsageError(Problem("calibrate.nothing", f"no matmul runs on {identity.name}{why}", "is its driver well?"))
    probes = list(
        probe_list.candidates(
            list(speed.flop_per_s),
            identity.ranks,
            wanted=wish.kinds,
            near=identity.near,
            processor=subject.processor,
            served=[one for one in getattr(device, "formats", ()) if one in probe_list.LONGER or not subject.processor],
        )
    )
    planned, refused = probe_list.choose(probes, wish.extent, speed, free, device.refuses)
    if not planned:
        why = next(iter(refused.values()), "no such probes for this device")
        raise UsageError(Problem("calibrate.nothing", f"nothing can be measured: {why}", "name other --kinds, or free memory"))
    out = target(wish.out, subject.id, wish.env)
    journal = out.with_suffix(".jsonl") if wish.out is not None else default_place(wish.env, subject.id)
    return CalibrationPlan(subject, identity, planned, refused, out, journal, time.monotonic() - began)


def target(out: Path | None, ident: str, env: Mapping[str, str]) -> Path:
    """The measured file: in the user's folder, in the one that was given, or what was given.

    >>> str(target(None, "h100", {"HOME": "/me"})), str(target(Path("mine"), "h100", {})), str(target(Path("a.yaml"), "h100", {}))
    ('/me/.config/gpuplan/measured/h100.yaml', 'mine/measured/h100.yaml', 'a.yaml')
    """
    if out is None:
        return config_folder(env) / "measured" / f"{ident}.yaml"
    return out if out.suffix in (".yaml", ".yml") else out / "measured" / f"{ident}.yaml"


def calibrate(device: Device, made: CalibrationPlan, wish: CalibrationWish, catalog: Catalog, told: Listener) -> CalibrationReport:
    """Measure what is planned, fit it and write it.

    Raises:
        UsageError: a file cannot be written, nothing trustworthy was measured, or the disk is full.
        UnknownError: the device is lost, or nothing is on record that could stand in for what was not measured.
        KeyboardInterrupt: somebody stopped it; the journal has what was measured.
    """
    check_writable(made.out, "give another place with --out")
    _readable(made.out)
    head = header(made.identity, wish.version, wish.extent, wish.kinds)
    kept = None if wish.fresh else load(made.journal)
    resume = kept is not None and not kept.done and kept.header == head
    if resume and kept is not None:
        told.say(
            f"going on from {made.journal}: {so_many(len(kept.samples), 'probe', ' is', ' are')} measured (--fresh starts again)"
        )
    elif kept is not None and not kept.done:
        told.say(f"{made.journal} is of another device, software or set of probes: starting again")
    if resume and kept is not None and kept.plan:
        made = replace(made, planned=kept.plan)
    there = kept.samples if resume and kept is not None else {}
    rest = [one for one in made.planned if one.probe.key() not in there]
    told.start(made.identity.name, len(rest), sum(one.cost for one in rest))
    journal = Journal(made.journal, head, resume=resume)
    try:
        if not resume or kept is None or not kept.plan:
            journal.add(plan=[plain(one) for one in made.planned])
        run = _measure(device, made, wish, journal, kept if resume and kept is not None else JournalContents(), told)
        trusted = [sample for sample in run.samples.values() if not sample.marks]
        if not trusted:
            marks = Counter(mark for sample in run.samples.values() for mark in sample.marks)
            causes = [f"{so_many(count, 'probe')} {mark}" for mark, count in marks.items()]
            causes += dict.fromkeys(one.why for one in run.skipped.values())
            what = "nothing trustworthy was measured" + (f": {', '.join(causes)}" if causes else "")
            hint = "see the notes above; the same command measures again what was left out"
            raise UsageError(Problem("calibrate.nothing", what, hint))
        software = " ".join((made.identity.backend, made.identity.libraries.get(made.identity.backend, ""))).strip()
        fits = fit_samples(trusted, ground_of(made.subject, trusted, catalog, wish.on), software)
        if not _is_worth_a_file(made, fits, trusted):
            journal.add(done="")  # The same samples would give the same again.
            why = "; ".join(f"{place}: {reason}" for place, reason in fits.unfitted.items())
            what = f"nothing could be fitted: {why}" if why else "no parameter comes of these kinds of probes alone"
            hint = "measure more kinds, or longer, on a machine with nothing else to do"
            raise UsageError(Problem("calibrate.nothing", what, hint))
        why_here = gate.reasons(made.identity, made.subject, run, fits.whole())
        written, usable_as = _written(device, made, run, fits, wish, why_here)
        journal.add(done=str(made.out))
    finally:
        journal.close()
    return CalibrationReport(made, run, fits, written, usable_as, why_here)


def _is_worth_a_file(made: CalibrationPlan, fits: SampleFits, trusted: Sequence[Sample]) -> bool:
    """Whether files should come of it: a spec whose rates rest on a few matmuls that could not even be fitted misleads."""
    if any(one.probe.kind == "matmul" for one in made.planned) and made.subject.drafted:
        return bool(fits.sets) or any(NEARER in why for place, why in fits.unfitted.items() if place.startswith("matmul."))
    return fits.tells() or (made.subject.drafted and can_draft(made.identity, trusted) is None)


def _measure(
    device: Device, made: CalibrationPlan, wish: CalibrationWish, journal: Journal, kept: JournalContents, told: Listener
) -> Run:
    def bark(what: str) -> None:
        told.say(f"error: {what} did not come back: the kernel or the driver hangs, and this process ends")
        journal.add(hung=what)
        told.say(f"  hint: what was measured is in {made.journal}; the same command goes on from there and leaves this probe out")

    rules = Rules(
        samples=probe_list.SAMPLES[wish.extent],
        least_sample=probe_list.LEAST_SAMPLE[wish.extent],
        slowest=probe_list.SLOWEST[wish.extent],
        budget=min(1.15 * probe_list.BUDGET[wish.extent], max(probe_list.WHOLE[wish.extent] - made.took, 1.0) / (1 + RETRY_SHARE)),
        run_limit=wish.hang_limit or RUN_LIMIT_S,
        prepare_limit=wish.hang_limit or PREPARE_LIMIT_S,
        contended=made.subject.processor,
        busy=math.inf if made.identity.own_time else BUSY,
        soak=probe_list.SOAK[wish.extent],
    )
    dog = Watchdog(bark, int(Exit.UNKNOWN))
    runner = Runner(device, journal, dog, rules, told)
    try:
        return runner.run(made.planned, anchor(made.planned), kept)
    except DeviceLostError as error:
        hint = f"what was measured is in {made.journal}; when the device is back, the same command goes on from there"
        message = f"{made.identity.name} does not answer any more: {error}".rstrip(": ")
        if isinstance(error, RanksLostError):
            hint, message = f"what was measured is in {made.journal}; start all ranks again to go on from there", str(error)
        raise UnknownError(Problem("calibrate.device-lost", message, hint)) from None
    except KeyboardInterrupt:
        there = so_many(len(runner.samples), "probe", " is", " are")
        told.say(f"stopped: {there} kept in {made.journal}; the same command goes on from there")
        raise
    finally:
        dog.close()


def anchor(planned: Sequence[Planned]) -> Probe | None:
    """The matmul that is timed again and again: of those planned the one whose launch is nearest to a millisecond."""
    matmuls = [one for one in planned if one.probe.kind in ("matmul", "stream")]
    return min(matmuls, key=lambda one: abs(one.launch - 1e-3)).probe if matmuls else None


def _written(
    device: Device, made: CalibrationPlan, run: Run, fits: SampleFits, wish: CalibrationWish, why_here: Sequence[str]
) -> tuple[list[Path], str]:
    """Write the measured file, and a spec of the device where there is none: the paths, and what `--on` takes."""
    texts: dict[Path, str] = {}
    named = made.out.stem
    in_place = made.out.parent.name == "measured" and named == made.subject.id
    if made.subject.spec is None:
        trusted = [sample for sample in run.samples.values() if not sample.marks]
        if can_draft(made.identity, trusted) is None:
            folder = made.out.parent.parent / "accelerators" / made.subject.vendor if in_place else made.out.parent
            name = f"{made.subject.id}.yaml" if in_place else f"{named}-accelerator.yaml"
            texts[folder / name] = draft(made.subject, made.identity, trusted, wish.today)
        else:
            in_place = False
    identity = made.identity
    if (served_by := getattr(device, "served_by", None)) is not None:
        libraries = {**identity.libraries, **served_by(sample.probe for sample in run.samples.values())}
        identity = identity.replaced(libraries=libraries)
    head = MeasuredHead(
        named, made.subject, identity, wish.version, wish.extent, wish.today, device.memory(), this_host(), why_here
    )  # fmt: skip
    with locked(made.out.parent):
        texts[made.out] = with_earlier(measured_text(head, run, fits), made.out)
        as_spec(Measured, made.out, texts[made.out])  # What nobody could read replaces nothing.
        write_all(texts, force=True)
    return list(texts), made.subject.id if in_place else ""


def _readable(path: Path) -> None:
    """See at the start whether a file that is there is one to which results can be added.

    Raises:
        UsageError: it is something else, or edited so that nobody can read it.
    """
    if not path.is_file():
        return
    try:
        load_spec(Measured, path)
    except SpecError as error:
        hint = "name another place with --out, or move it away"
        what = f"{path} is there and is no measured file that can be added to: {error.problems[0].message}"
        raise UsageError(Problem("calibrate.unreadable", what, hint)) from None


def _square(dtype: str) -> Probe:
    return Probe(kind="matmul", dtype=dtype, shape={"m": 128.0, "n": 128.0, "k": 128.0, "batch": 1.0})
