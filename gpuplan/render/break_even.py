"""By when has renting cost more than buying? A chart of what both have cost, month by month."""

from __future__ import annotations

from gpuplan.estimate.result import Estimate
from gpuplan.render.text import Look, columns
from gpuplan.units import YEAR, human

MONTH = YEAR / 12
ROWS = 10
"""Lines of the chart."""
_MOST = 61
"""Its columns at most, of which the last is twice the time of the crossing."""


def break_even(estimate: Estimate, look: Look) -> list[str]:
    """The chart of all accelerators of an answer that has a `break_even_s`; `r` is renting, `b` buying, `x` where both are."""
    crossing = estimate.figures["break_even_s"]
    parts = dict(crossing.args)
    chips = estimate.find("plan.accelerators")
    count = float(chips.value) if chips is not None else 1.0
    bought, rent, running = (float(parts[name].value) * count for name in ("bought", "rent", "running"))
    last = 2 * float(crossing.value)
    width = max(20, min(_MOST, look.width - 20))
    top = max(rent, running + bought / last) * last
    rows = [[" "] * width for _ in range(ROWS)]
    for at in range(width):
        seconds = last * at / (width - 1)
        for mark, spent in (("r", rent * seconds), ("b", bought + running * seconds)):
            row = ROWS - 1 - round(spent / top * (ROWS - 1))
            rows[row][at] = mark if rows[row][at] == " " else "x"
    steps = [human(top * (ROWS - 1 - row) / (ROWS - 1), "USD") if row % 2 == 0 or row == ROWS - 1 else "" for row in range(ROWS)]
    drawn = columns([[step, "|" + "".join(row).rstrip()] for step, row in zip(steps, rows, strict=True)], "rl")
    indent = drawn[0].index("|")
    months = f"{float(crossing.value) / MONTH:.1f}", f"{last / MONTH:.0f}"
    half = (width - 1) // 2
    axis = f"0{months[0]:>{half}}{months[1]:>{width - 1 - half}}"
    title = f"What renting (r) and buying (b) have cost: the same after {months[0]} months"
    return [look.bold(title), *drawn, f"{'months':>{indent - 2}}   {axis}"]
