"""Which engine's profile answers for the framework that a row names, where that framework has none of its own?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from gpuplan.accuracy.rows import Row

USUAL = "megatron-lm"
"""What pipelines and tensor parallel ranks of a framework that nobody knows are most like."""
DIVIDED = ("tp", "pp", "cp", "ep", "vpp")


Knows: TypeAlias = Callable[[str], tuple[str, bool] | None]
"""The id of the profile that answers for a name, and whether it stands in for another framework; None: nobody knows the name."""


def engine_of(row: Row, knows: Knows) -> tuple[str | None, bool]:
    """The engine that a row is asked for, with its month, and whether its profile stands in for another framework.

    As one types it, the name is the row's, or left out where nobody knows it. With what else is known, Megatron-LM that still
    wrote out the scores of attention is of another era, and a framework that nobody knows is what its plan is most like. What an
    engine did otherwise before says nothing of frameworks that it stands in for: those are asked without a month.
    """
    named, stands_in = _named(row, knows)
    if named is None or row.month is None or stands_in:
        return named, stands_in
    return f"{named}@{row.month}", stands_in


def _named(row: Row, knows: Knows) -> tuple[str | None, bool]:
    words = row.engine.split()
    said = next((one for one in (row.engine, *words[:1]) if one and knows(one) is not None), None)
    ident, stands_in = (knows(said) if said is not None else None) or (None, bool(row.engine))
    if row.typed:
        return said, stands_in
    if said is None and not row.engine and row.run.get("attention") != "standard":
        return None, False
    if said is None:
        ident = said = _by_plan(row) if row.engine else USUAL
    if ident == USUAL and row.run.get("attention") == "standard":
        return "megatron-2021", stands_in
    return (ident if stands_in else said), stands_in


def _by_plan(row: Row) -> str:
    """The profile of a framework of which only the plan is known."""
    sharding = str(row.run.get("sharding") or "").lower()
    if str(row.hardware["accelerator"]).startswith("tpu"):
        return "maxtext"
    if "zero" in sharding:
        return "deepspeed"
    if "fsdp" in sharding or "hsdp" in sharding:
        return "fsdp"
    if any((row.run.get(degree) or 1) > 1 for degree in DIVIDED):
        return USUAL
    return "accelerate" if row.kind.startswith("finetune") else "fsdp"
