"""How far is a calibration, and what has it found? A live view on a terminal, otherwise a line now and then."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from gpuplan.calibrate.measure.session import Listener
from gpuplan.units import human

if TYPE_CHECKING:
    from gpuplan.calibrate.device import Probe
    from gpuplan.calibrate.measure.achieved import FoundSoFar
    from gpuplan.calibrate.measure.sample import Sample
    from gpuplan.calibrate.measure.session import CalibrationPlan
    from gpuplan.render.live_view import LiveView
    from gpuplan.specs.catalog import Catalog

QUIET_S = 10.0
"""Where no terminal listens, progress is a line this often."""
HEADS = ("found so far", "probes", "best", "of peak")


class CalibrationProgress(Listener):
    """Says on standard error how far it is; also a `Watcher`, of the fits that follow the probes.

    The view is drawn between two probes only: while one runs, nothing else may take time of this process.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._last = 0.0
        self._view: LiveView | None = None
        self._found: FoundSoFar | None = None
        self._head, self._done, self._of, self._left = "", 0, 0, 0.0

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While the first kernels tell how fast the device is."""
        self._open()
        self._draw("the first kernels, to see how fast it is", at_once=True)
        try:
            yield
        finally:
            self.clear()

    @contextmanager
    def live(self, made: CalibrationPlan, catalog: Catalog, on: str) -> Iterator[None]:
        """While a plan is measured and fitted: the view, where a person looks."""
        from gpuplan.calibrate.measure.achieved import FoundSoFar, ground_so_far
        from gpuplan.files.progress import watching

        self._open()
        if self._view is None:
            yield
            return
        ground = ground_so_far(made.subject, made.identity.ranks, catalog, on)
        self._found = None if ground is None else FoundSoFar(ground)
        self._head, self._of, self._left = made.identity.name, len(made.planned), made.seconds
        try:
            with watching(self):
                yield
        finally:
            self.clear()

    def start(self, name: str, probes: int, seconds: float) -> None:
        """So many probes are about to be measured."""
        self.say(f"{name}: {probes} probes, about {about(seconds)}")

    def step(self, done: int, of: int, left_s: float, probe: Probe) -> None:
        """A probe is about to be measured."""
        if self._view is not None:
            from gpuplan.calibrate.measure.achieved import kernel_of

            self._done, self._of, self._left = done, of, left_s
            self._draw(f"{kernel_of(probe)}: {shape_of(probe)}")
            return
        now = time.monotonic()
        if now - self._last >= QUIET_S:
            self._last = now
            self._print(f"{done}/{of} probes, {about(left_s)} left, {probe.kind} {probe.dtype}")

    def settling(self) -> None:
        """The device is put under load until its speed has settled."""
        self._draw("load, until clocks and heat have settled", at_once=True)

    def found(self, sample: Sample) -> None:
        """This was measured."""
        if self._found is not None:
            self._found.add(sample)

    def told(self, what: str, done: float, total: float | None) -> None:
        """So much of the work that follows the probes is done."""
        if not done:
            self._done, self._left = self._of, 0.0
        self._draw(f"{what} {done:,.0f} of {total:,.0f}" if total else f"{what}: {done:,.0f}", at_once=True)

    def over(self, what: str) -> None:
        """That work is done: the next that is told takes its place."""

    def say(self, text: str) -> None:
        """Something the user should know at once; after an error nothing more is drawn, for the process may end at any moment."""
        if text.startswith("error:"):
            self.clear()
        line = text if text.startswith(("error:", "  hint:")) else f"note: {text}"
        if self._view is not None:
            self._view.say(line)
        else:
            self._print(line)

    def clear(self) -> None:
        """Take the view away."""
        view, self._view = self._view, None
        if view is not None:
            view.stop()

    def _open(self) -> None:
        """Begin the view, where a person looks at a terminal that can draw."""
        if not self._stream.isatty() or os.environ.get("TERM") == "dumb":
            return
        from gpuplan.render.live_view import LiveView

        self._view = LiveView(getattr(self._stream, "stream", self._stream))

    def _draw(self, now: str, *, at_once: bool = False) -> None:
        if self._view is None or not (at_once or self._view.due()):
            return
        left = f"{self._done} of {self._of} probes" + (f", {about(self._left)} left" if self._left else "")
        rows = self._found.rows() if self._found is not None else []
        cells = [
            (
                one.kernel, str(one.probes), "" if one.best is None else human(one.best, one.unit),
                "" if one.share is None else f"{one.share:.0%}",
            )
            for one in rows
        ]  # fmt: skip
        self._view.show(self._head, self._done, self._of, left, now, HEADS, cells)

    def _print(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


def shape_of(probe: Probe) -> str:
    """The sizes of a probe in a few words."""
    shape = {key: f"{value:.0f}" for key, value in probe.shape.items()}
    if "m" in shape:
        experts = f", {shape['batch']} experts" if probe.kind == "grouped_matmul" else ""
        return f"{shape['m']} x {shape['n']} x {shape['k']}{experts}"
    if "heads" in shape:
        return f"{shape['sequences']} x {shape['kv_len']}, {shape['heads']}/{shape['kv_heads']} heads of {shape['k_dim']}"
    if "launches" in shape:
        return f"{shape['launches']} launches"
    apart = f", every {shape['stride']}." if "stride" in shape else ""
    return human(probe.shape["size"], "B") + (f", {shape['group']} ranks{apart}" if "group" in shape else "")


def about(seconds: float) -> str:
    """A duration as rough as it is known.

    >>> about(31.6), about(200.0)
    ('32 s', '3.3 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
