"""Which question is a measured run the answer to whose prompts are read and whose answers are written on different accelerators?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuplan.accuracy.deployments import deployment_of
from gpuplan.accuracy.model import card_of
from gpuplan.accuracy.recipes import settings_of
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.models.architecture import Architecture
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_serving import ServeAsk


def disaggregated_ask(row: Row, ask_of: Callable[[Row], ServeAsk], find: Callable[[str], ModelCard]) -> ServeAsk:
    """The question of a row with workers of two kinds; `ask_of` makes that of a row whose requests stay where they are.

    Raises:
        Skip: the row says too little, or something that no plan can say.
    """
    arch = card_of(row, find).architecture
    made = deployment_of(row)
    if made is not None:
        sides = {"prefill": made.reads.division(), "decode": made.writes.division()}
        row = row.replaced(run={**row.run, **sides})
    reading, writing = (_division(row, phase, arch) for phase in ("prefill", "decode"))
    run = {**row.run, "disaggregated": False, "tp": 1, "pp": 1, "dp": 1, "ep": 1}
    ask = ask_of(row.replaced(run=run, hardware={**row.hardware, "count": 1}))
    name = ask.on.partition("x")[2]
    own = {
        "prefill_tp": reading["tp"], "prefill_pp": reading["pp"], "prefill_attention_dp": reading.get("attention_dp"),
        "prefill_ep": reading.get("ep"), "prefill_workers": _workers(row, "prefill"),
    }  # fmt: skip
    # Recipes of replicas that do both are not those of workers that do one.
    told = {} if made is None else {**dict.fromkeys(settings_of(row.replaced(run=run))), **made.settings()}
    told |= {} if row.run.get("kv_cache") is None else {"kv_cache": ask.kv_cache}
    return ask.replaced(
        on=f"{size_of(writing)}x{name}", prefill_on=f"{size_of(reading)}x{name}", tp=writing["tp"], pp=writing["pp"], dp=None,
        ep=writing.get("ep"), attention_dp=writing.get("attention_dp"), redundant_experts=_redundant(arch, reading, writing),
        decode_workers=_workers(row, "decode"), **own, **told,
    )  # fmt: skip


def size_of(division: Mapping[str, int]) -> int:
    """Accelerators of one worker."""
    return division["tp"] * division["pp"] * division.get("attention_dp", 1)


def _workers(row: Row, phase: str) -> int | None:
    found = row.run[phase].get("workers")
    return int(found) if found else None


def _division(row: Row, phase: str, arch: Architecture) -> dict[str, int]:
    """How a worker is divided, in the words of the options.

    A degree that no attention can be cut by counts the accelerators of a worker whose ranks attend apart and share the experts,
    some of which are held twice where the ranks do not divide them.

    Raises:
        Skip: the row does not say.
    """
    part: Any = row.run.get(phase)
    if not isinstance(part, Mapping):
        raise Skip(f"the row does not say how the accelerators for {phase} are divided")
    tp, pp, dp, ep = (int(part.get(name) or 1) for name in ("tp", "pp", "dp", "ep"))
    experts = max((moe.experts for moe in arch.moes), default=0)
    if experts and any(heads % tp for heads in (mixer.divided_by() for mixer in arch.mixers) if heads):
        tp, dp, ep = 1, tp * dp, tp * dp
    made = {"tp": tp, "pp": pp}
    if dp > 1 and experts:
        made["attention_dp"] = dp
        made["ep"] = ep
    elif ep > 1:
        made["ep"] = ep
    return made


def _redundant(arch: Architecture, *divisions: Mapping[str, int]) -> int | None:
    """The fewest experts that are held twice so that those of every worker lie evenly on its ranks; None: none need be."""
    experts = max((moe.experts for moe in arch.moes), default=0)
    degrees = [one["ep"] for one in divisions if one.get("ep", 1) > 1]
    found = next((more for more in range(experts + 1) if all((experts + more) % ep == 0 for ep in degrees)), 0)
    return found or None
