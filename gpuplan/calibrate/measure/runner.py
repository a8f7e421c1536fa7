"""How is a list of probes measured so that the figures can be trusted, and what is done about those that cannot?

Every probe is prepared, run once, then timed in several samples that each last some milliseconds; its figure is their median.
Probes come in a mixed order, so that heat and other drifts fall on all kinds alike, and a small anchor kernel is timed now and
then: when it has become slower or faster, what was measured since is measured again, and everything where that lasts. So is what
was measured under throttling by heat, beside other processes that made it unsteady, or while memory errors were counted. What
stays bad is marked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gpuplan.calibrate.device import Device, DeviceLostError, DeviceMemoryError, Probe, Reading, TimedLaunches
from gpuplan.calibrate.measure.anchor import Anchor
from gpuplan.calibrate.measure.journal import Journal, JournalContents
from gpuplan.calibrate.measure.probe_list import Planned
from gpuplan.calibrate.measure.sample import STEADY, Sample, Skipped, faster, quartiles, spread
from gpuplan.calibrate.measure.sample import plain as plain_of
from gpuplan.calibrate.measure.watch import Watchdog
from gpuplan.record import Record, field
from gpuplan.units import so_many

BAD = ("thermal", "power_brake", "hw_slowdown")
"""Throttle reasons under which no figure is kept; at the power limit large matmuls run normally."""
CROWDED = 0.10
"""Others that take this share of the processors make figures of them uncertain."""
BUSY = 0.35
"""Where they take more, no figure is kept."""
ANCHOR_EVERY_S = 4.0
RESTARTS = 2
"""How often all is measured again when the device has become another for good."""
SANK = 0.03
"""A device that became slower by more than this until it had settled is told: cold figures would have been better."""
RETRIES = 2
RETRY_SHARE = 0.3
COOL_S = 3.0
"""How long a retry waits at most for throttling to end."""
PREPARE_LIMIT_S = 180.0
"""Compilers may run."""
RUN_LIMIT_S = 20.0
MOST_LAUNCHES = 2000
PATIENCE = 4.0
"""A probe may take so many times what was predicted; then fewer samples of it are taken."""
LEAST_SAMPLES = 3
LATE = "no time left"
FAILURES = 12
"""So many kernels that fail in a row mean that the device is broken, not the kernels."""


class Rules(Record, kw_only=True):
    """How long and how often: samples of a probe, seconds that one lasts at least, seconds for all, and the watchdog's limits."""

    samples: int
    least_sample: float
    budget: float
    slowest: float = 2.0
    """Seconds of one launch; a probe that turns out far slower is left out."""
    run_limit: float = RUN_LIMIT_S
    prepare_limit: float = PREPARE_LIMIT_S
    cool: float = COOL_S
    busy: float = BUSY
    """No figure is kept while others take more of the processors."""
    contended: bool = False
    """Others run on the same cores, which only ever makes a kernel slower: the faster half of the samples counts."""
    soak: float = 0.0
    """Seconds of load at most, until clocks and heat have settled; 0: only as long as clocks need to come up."""
    retry_share: float = RETRY_SHARE
    """Retries may take this share of the budget."""


class ChangedError(Exception):
    """The device has become another for good: what was measured before belongs to a state that it has left."""


class TooSlowError(Exception):
    """A probe would take far more than its share of the time."""


class ProgressListener(Protocol):
    """Who is told how far it is."""

    def step(self, done: int, of: int, left_s: float, probe: Probe) -> None:
        """A probe is about to be measured."""

    def settling(self) -> None:
        """The device is put under load until its speed has settled."""

    def found(self, sample: Sample) -> None:
        """This was measured, now or by an earlier run; with marks it may be measured again."""

    def say(self, text: str) -> None:
        """Something the user should know at once."""


class ProbeRun(Record, kw_only=True):
    """What a run of the probes gave."""

    samples: Mapping[str, Sample]
    skipped: Mapping[str, Skipped]
    readings: tuple[Reading, ...] = ()
    seconds: float = 0.0
    resumed: int = 0
    """How many samples an earlier run left."""
    drift: tuple[float, ...] = ()
    """What the anchor took, as shares of what it took when the device had settled."""
    warnings: tuple[str, ...] = field(default_factory=tuple)
    changes: tuple[str, ...] = ()
    """What became of the device for good while it was measured, after which all was measured again."""


class Runner:
    """Measures probes on one device, each kept in the journal before the next."""

    def __init__(
        self,
        device: Device,
        journal: Journal,
        dog: Watchdog,
        rules: Rules,
        told: ProgressListener,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.device, self.journal, self.dog, self.rules, self.told, self.clock = device, journal, dog, rules, told, clock
        self.samples: dict[str, Sample] = {}
        self.skipped: dict[str, Skipped] = {}
        self.readings: list[Reading] = []
        self.warnings: list[str] = []
        self.drift: list[float] = []
        self._anchor: Anchor | None = None
        self._restarts = RESTARTS
        self.changes: list[str] = []
        self._anchored = 0.0
        self._since: list[Planned] = []
        self._errors: int | None = None
        self._noted: set[str] = set()
        self._failed = 0

    def run(self, planned: Sequence[Planned], anchor: Probe | None, kept: JournalContents) -> ProbeRun:
        """Measure what the journal does not hold yet.

        Raises:
            DeviceLostError: the device is gone; the journal has what was measured.
            UsageError: the journal cannot be written any more.
        """
        started = self.clock()
        wanted = {one.probe.key(): one for one in planned}
        self.samples = {key: sample for key, sample in kept.samples.items() if key in wanted and not sample.marks}
        self.skipped = {key: one for key, one in kept.skipped.items() if key in wanted}
        resumed = len(self.samples)
        for sample in self.samples.values():
            self.told.found(sample)
        for key in kept.hung:
            if key in wanted:
                self._skip(wanted[key].probe, "a kernel hung here before", keep=False)
                self.told.say(f"{key} is left out: a kernel hung in it, or the process died in it, before")
        rest = [one for one in planned if one.probe.key() not in self.samples and one.probe.key() not in self.skipped]
        self._look()
        self._start_anchor(anchor)
        while True:
            try:
                self._through(rest, len(planned), self.clock())
                break
            except ChangedError:
                rest = self._all_again(planned)
        return ProbeRun(
            samples=self.samples, skipped=self.skipped, readings=tuple(self.readings), seconds=self.clock() - started,
            resumed=resumed, drift=tuple(self.drift), warnings=tuple(self.warnings), changes=tuple(self.changes),
        )  # fmt: skip

    def _all_again(self, planned: Sequence[Planned]) -> list[Planned]:
        """Mark what was measured before the device changed, let it settle, and say that all is measured again."""
        self._restarts -= 1
        share = self.drift[-1]
        self.changes.append(f"the device became {abs(share - 1):.0%} {'slower' if share > 1 else 'faster'} and stayed so")
        self._warn(f"change {self._restarts}", f"{self.changes[-1]}: all is measured again")
        for sample in list(self.samples.values()):
            self._keep(sample.replaced(marks=tuple(dict.fromkeys((*sample.marks, "drift")))))
        self._since = []
        self._soak()
        late = {key for key, one in self.skipped.items() if one.why == LATE}
        self.skipped = {key: one for key, one in self.skipped.items() if key not in late}
        return [one for one in planned if one.probe.key() not in self.skipped]

    def _through(self, rest: Sequence[Planned], count: int, started: float) -> None:
        """Measure some probes, and again what was marked.

        Raises:
            ChangedError: the device has become another for good.
        """
        again: list[Planned] = []
        whole = left = sum(one.cost for one in rest)
        for number, one in enumerate(rest):
            if self.clock() - started > self.rules.budget:
                for late in rest[number:]:
                    self._skip(late.probe, LATE, keep=False)
                break
            self.told.step(count - len(rest) + number, count, self._time_left(started, whole, left), one.probe)
            left -= one.cost
            sample = self._measure(one)
            if sample is not None:
                self._keep(sample)
                self._since.append(one)
                if sample.marks:
                    again.append(one)
            if self.clock() - self._anchored > ANCHOR_EVERY_S:
                again += self._check_anchor()
        again += self._check_anchor()
        self._retry(again, count, started)

    def _time_left(self, started: float, whole: float, left: float) -> float:
        """Seconds that the rest should take at the pace so far, and no more than there are."""
        spent = self.clock() - started
        pace = spent / (whole - left) if whole - left > 0.1 * whole else 1.0
        return min(left * pace, max(self.rules.budget - spent, 0.0))

    def _retry(self, again: Sequence[Planned], count: int, started: float) -> None:
        """Measure again what was marked, as often as allowed; what stays bad keeps its marks."""
        pending = list({one.probe.key(): one for one in again}.values())
        end = started + self.rules.budget * (1 + self.rules.retry_share)
        for attempt in range(1, RETRIES + 1):
            if not pending:
                return
            self.told.say(f"{so_many(len(pending), 'probe', ' is', ' are')} measured again: {self._reasons(pending)}")
            self._cool()
            self._since = []
            bad: list[Planned] = []
            for at, one in enumerate(pending):
                if self.clock() > end:
                    return
                left = sum(later.cost for later in pending[at:])
                self.told.step(count - len(pending) + at, count, min(left, end - self.clock()), one.probe)
                sample = self._measure(one)
                if sample is None:
                    continue
                self._keep(sample.replaced(retries=attempt))
                self._since.append(one)
                if sample.marks:
                    bad.append(one)
                if self.clock() - self._anchored > ANCHOR_EVERY_S:
                    bad += self._check_anchor()
            bad += self._check_anchor()
            pending = list({one.probe.key(): one for one in bad}.values())

    def _reasons(self, pending: Sequence[Planned]) -> str:
        marks = [mark for one in pending if (made := self.samples.get(one.probe.key())) for mark in made.marks]
        return ", ".join(f"{mark} {marks.count(mark)}" for mark in dict.fromkeys(marks)) or "drift"

    def _measure(self, one: Planned) -> Sample | None:
        """One probe, or None where it does not fit or its kernel fails; a device on which nothing works any more is lost."""
        key = one.probe.key()
        self.journal.add(begin=key)
        try:
            with self.dog.limit(key, self.rules.prepare_limit + 20 * one.cost):
                run = self.device.prepare(one.probe)
            with self.dog.limit(key, self.rules.run_limit + 50 * one.cost):
                sample = self._timed(one, run)
        except DeviceMemoryError:
            self._skip(one.probe, "too little memory")
        except TooSlowError:
            self._skip(one.probe, "far slower than predicted")
        except RuntimeError as error:  # what frameworks raise for a kernel that does not exist or does not work
            said = str(error).strip().partition("\n")[0][:100] or type(error).__name__
            self._failed += 1
            if self._failed >= FAILURES:
                raise DeviceLostError(f"{self._failed} kernels in a row failed, the last with: {said}") from error
            self._skip(one.probe, f"its kernel failed: {said}")
        else:
            self._failed = 0
            return sample
        return None

    def _timed(self, one: Planned, run: TimedLaunches) -> Sample:
        first = run(1)
        each = min(first, run(1))
        if each > PATIENCE * max(self.rules.slowest, one.launch):
            raise TooSlowError
        launches = self._launches(each)
        # A second look: the first launches of a kernel are often slower than all others.
        each = run(launches) / launches
        launches = self._launches(each)
        allowed = PATIENCE * max(one.cost, self.rules.samples * self.rules.least_sample)
        count = max(LEAST_SAMPLES, min(self.rules.samples, int(allowed / (launches * each))))
        marks: dict[str, None] = {}
        figures: list[float] = []
        reading = None
        for _ in range(count):
            figures.append(run(launches) / launches)
            reading = self._look()
            marks |= dict.fromkeys(self._wrong(reading))
        if self.rules.contended and spread(faster(figures)) > STEADY:
            figures += [run(launches) / launches for _ in range(count)]
        low, middle, high = quartiles(faster(figures) if self.rules.contended else figures)
        sample = Sample(
            probe=one.probe, seconds=middle, low=low, high=high, samples=len(figures), launches=launches, marks=tuple(marks),
            reading=reading,
        )  # fmt: skip
        if sample.spread > STEADY:
            busy = reading is not None and (reading.other_processes or 0) > 0
            sample = sample.replaced(marks=(*sample.marks, "busy" if busy else "unsteady"))
        return sample

    def _launches(self, each: float) -> int:
        return max(1, min(MOST_LAUNCHES, math.ceil(self.rules.least_sample / max(each, 1e-9))))

    def _look(self) -> Reading | None:
        """Read the device's state; what is new and bad is said once."""
        reading = self.device.read()
        if reading is None:
            return None
        self.readings.append(reading)
        for reason in reading.throttle:
            if reason in BAD:
                self._warn(reason, f"the device is throttled ({reason}): such figures are measured again or left out")
        if reading.other_processes:
            count = f"{reading.other_processes} other process{'es' if reading.other_processes > 1 else ''}"
            self._warn("busy", f"{count} use{'' if reading.other_processes > 1 else 's'} this device: figures may be unsteady")
        if reading.others_load is not None and reading.others_load > CROWDED:
            share = f"{reading.others_load:.0%} of the processors just now"
            self._warn("load", f"other processes take {share}: figures may be off; best measure with nothing else to do")
        if self._errors is None and reading.uncorrected_errors:
            self._warn("ecc", f"the device has counted {so_many(reading.uncorrected_errors, 'uncorrected memory error')} before")
        return reading

    def _wrong(self, reading: Reading | None) -> tuple[str, ...]:
        if reading is None:
            return ()
        marks = [reason for reason in reading.throttle if reason in BAD]
        if reading.others_load is not None and reading.others_load > self.rules.busy:
            marks.append("busy")
        errors = reading.uncorrected_errors
        if errors is not None and self._errors is not None and errors > self._errors:
            marks.append("ecc")
            count = so_many(errors - self._errors, "uncorrected memory error")
            self._warn("ecc-now", f"{count} while measuring: the device needs attention")
        self._errors = errors if errors is not None else self._errors
        return tuple(marks)

    def _warn(self, key: str, text: str) -> None:
        if key not in self._noted:
            self._noted.add(key)
            self.warnings.append(text)
            self.told.say(text)

    def _cool(self) -> None:
        """Wait for throttling to end, but not for long."""
        until = self.clock() + self.rules.cool
        while self.clock() < until:
            reading = self.device.read()
            if reading is None or not set(reading.throttle) & set(BAD):
                return
            time.sleep(min(0.2, self.rules.cool / 10))

    def _start_anchor(self, probe: Probe | None) -> None:
        self._anchored = self.clock()
        if probe is None:
            return
        with self.dog.limit(probe.key(), self.rules.prepare_limit):
            try:
                kernel = self.device.prepare(probe)
            except (DeviceMemoryError, RuntimeError):
                return  # Its own turn among the probes will tell why.
            self._anchor = Anchor(kernel, self._anchor_figures, contended=self.rules.contended, clock=self.clock)
        self._soak()

    def _soak(self) -> None:
        """Let clocks and heat settle under load, and say what that did."""
        if self._anchor is None:
            return
        self.told.settling()
        with self.dog.limit("the anchor kernel", self.rules.run_limit + 2 * self.rules.soak):
            self._anchor.soak(self.rules.soak)
        reading = self._look()
        held = "" if reading is None or not reading.throttle else f" ({', '.join(reading.throttle)})"
        if self._anchor.sank > SANK:
            seconds = f"{self._anchor.soaked:.1f} s"
            self._warn(
                "soak", f"under load it became {self._anchor.sank:.0%} slower within {seconds}{held}: that is what is measured"
            )
        if not self._anchor.settled and self.rules.soak:
            self._warn("unsettled", f"its speed had not settled after {self._anchor.soaked:.0f} s of load{held}")

    def _anchor_figures(self, run: TimedLaunches) -> list[float]:
        launches = self._launches(run(1))
        figures = [run(launches) / launches for _ in range(7)]
        return faster(figures) if self.rules.contended else figures

    def _check_anchor(self) -> list[Planned]:
        """Time the anchor: what was measured since it was last right is to be measured again where it drifted.

        Raises:
            ChangedError: it has been off for so long that all is to be measured again.
        """
        since, self._since = self._since, []
        self._anchored = self.clock()
        if self._anchor is None:
            return []
        with self.dog.limit("the anchor kernel", self.rules.run_limit):
            share = self._anchor.check()
        self.drift.append(share)
        if not self._anchor.is_off():
            return []
        if self._anchor.has_changed() and self._restarts:
            raise ChangedError
        self._warn("drift", f"the device has become {abs(share - 1):.0%} {'slower' if share > 1 else 'faster'} while measuring")
        for one in since:
            sample = self.samples.get(one.probe.key())
            if sample is not None and "drift" not in sample.marks:
                self._keep(sample.replaced(marks=(*sample.marks, "drift")))
        return since

    def _keep(self, sample: Sample) -> None:
        self.samples[sample.probe.key()] = sample
        self.journal.add(sample=plain_of(sample))
        self.told.found(sample)

    def _skip(self, probe: Probe, why: str, *, keep: bool = True) -> None:
        one = Skipped(probe=probe, why=why)
        self.skipped[probe.key()] = one
        if keep:
            self.journal.add(skipped=plain_of(one))
