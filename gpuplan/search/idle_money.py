"""Which options of money and carbon change nothing in an answer, because it tells no such figure?"""

from __future__ import annotations

from gpuplan.errors import Note
from gpuplan.estimate.result import Estimate
from gpuplan.plan.common import Common
from gpuplan.plan.option import entries

_NEEDS = (
    ("grid", ("co2e_",), "no energy is told", "energy is told of a run (--tokens), or of tokens where the power is on record"),
    ("pue", ("energy_",), "no energy is told", "energy is told of a run (--tokens), or of tokens where the power is on record"),
    ("credits", ("credits_",), "no cost is told", "costs are told of a run (--tokens), or where the price is known (--price)"),
    ("spot_life", ("reclaims", "available_", "time_between_interruptions"), "no run is told, and nothing of waiting",
     "say how long the run is (--tokens), and of a service how long another is waited for (--spot-wait)"),
    ("api_price", ("api_cost_",), "no cost of what it prices is told", "give --price, and ask without other workers"),
)  # fmt: skip


def with_idle_money(ask: Common, answer: Estimate) -> Estimate:
    """The answer with a note for each option of money that nothing in it rests on."""
    told = {note.code for note in answer.notes}
    notes = [
        Note("option.idle", f"{entries(type(ask))[name].flag}: of no effect, as {why}", hint)
        for name, needed, why, hint in _NEEDS
        if getattr(ask, name, None) is not None and "api.idle" not in told
        if not any(key.startswith(needed) for key in answer.figures)
        and not (name == "pue" and getattr(ask, "own", None) is not None)  # Then it is a part of the cost.
    ]
    return answer.replaced(notes=(*answer.notes, *notes)) if notes else answer
