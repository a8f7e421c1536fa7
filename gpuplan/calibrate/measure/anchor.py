"""Is the device still what it was when it had warmed up? A kernel that is timed again and again tells it.

Before anything else is measured the kernel runs until clocks and heat have settled (the soak). What it takes then is what later
checks are compared with. A check that is off does not move it, so that a slow-down that lasts never becomes the truth: after
some checks in a row it is told as lasting, and whoever measures begins again in the new state.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from gpuplan.calibrate.device import TimedLaunches

DRIFT = 0.06
"""How far a check may be from what the kernel took; three times its own scatter where that is more."""
CONTENDED_DRIFT = 0.15
"""The same where others run on the same cores."""
WARM_UP_S = 0.5
"""How long the kernel runs at least before it is first timed, so that clocks are up."""
STEADY_WINDOWS = 4
"""So many times in a row that agree mean that the device has settled."""
STEADY = 0.01
LASTING = 3
"""So many checks in a row that are off to the same side are no passing trouble."""

Figures = Callable[[TimedLaunches], Sequence[float]]
"""Several timings of one launch."""


class Anchor:
    """The kernel, what it takes when the device has settled, and how far off the last checks were."""

    def __init__(self, kernel: TimedLaunches, figures: Figures, *, contended: bool, clock: Callable[[], float]) -> None:
        self._kernel, self._figures, self._clock = kernel, figures, clock
        self._contended = contended
        self._right: list[float] = []
        self._limit = CONTENDED_DRIFT if contended else DRIFT
        self._off: list[float] = []
        self.soaked = 0.0
        """Seconds that the device took to settle."""
        self.sank = 0.0
        """By which share it became slower in them."""
        self.settled = True

    def soak(self, most: float) -> None:
        """Run the kernel until it takes the same time again and again, or for `most` seconds."""
        begun, spent, times = self._clock(), 0.0, []
        window = WARM_UP_S / STEADY_WINDOWS
        while True:
            launches, taken, since = 0, 0.0, self._clock()
            while taken < window and self._clock() - since < window:
                taken += self._kernel(10)
                launches += 10
            spent += taken
            times.append(taken / launches)
            last = times[-STEADY_WINDOWS:]
            over = max(spent, self._clock() - begun)
            self.settled = len(last) == STEADY_WINDOWS and max(last) / min(last) - 1 <= STEADY
            if over >= WARM_UP_S and (self.settled or over >= most):
                break
        self.soaked, self.sank = over, times[-1] / min(times) - 1
        figures = sorted(self._figures(self._kernel))
        middle = statistics.median(figures)
        quarter = max(len(figures) // 4, 1)
        scatter = (figures[-quarter] - figures[quarter - 1]) / middle
        self._right, self._off = [middle], []
        self._limit = max(CONTENDED_DRIFT if self._contended else DRIFT, 3 * scatter)

    def check(self) -> float:
        """What the kernel takes now over what it took when the device had settled."""
        figure = statistics.median(self._figures(self._kernel))
        share = figure / statistics.median(self._right)
        if abs(share - 1) <= self._limit:
            self._right.append(figure)
            self._off = []
        else:
            if self._off and (self._off[-1] > 1) != (share > 1):
                self._off = []
            self._off.append(share)
        return share

    def is_off(self) -> bool:
        """Whether the last check was."""
        return bool(self._off)

    def has_changed(self) -> bool:
        """Whether checks have been off to one side for so long that the device will not come back by itself."""
        return len(self._off) >= LASTING
