"""Which question is the log of an engine's start-up the answer to, and what does the answer say beside what was printed?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast, get_args

from gpuplan.accuracy.compare import Metric, Point
from gpuplan.accuracy.inference import ENGINES, typed, weights_of
from gpuplan.accuracy.model import card_of
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.estimate.result import Estimate
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.words import KvFormat
from gpuplan.term import Term

GIB = 2.0**30
SET = ("max_context", "max_sequences", "max_batched_tokens", "page_tokens")
"""What of a row's flags are whole numbers of the question of the same name."""


def startup_ask(row: Row, find: Callable[[str], ModelCard], keep: Callable[[ModelCard], str]) -> ServeAsk:
    """The question of a start-up: one short request to the engine as it was set up.

    Where nobody says how long a sequence may be, an engine accepts as many tokens as the model does.

    Raises:
        Skip: the row says too little, or something that no plan can say.
    """
    run, card = row.run, card_of(row, find)
    kv = None if run.get("kv_cache") is None else typed(run["kv_cache"])
    if kv is not None and kv not in get_args(KvFormat):
        raise Skip(f"no plan for a cache in `{kv}`")
    name, _, release = row.engine.partition(" ")
    given: dict[str, Any] = {key: int(run[key]) for key in SET if run.get(key) is not None}
    longest = given.setdefault("max_context", card.architecture.max_context)
    if longest is None:
        raise Skip("neither the row nor the model says how long a sequence may be")
    tp, pp = int(run.get("tp") or 1), int(run.get("pp") or 1)
    return ServeAsk(
        model=keep(card), on=f"{tp * pp}x{row.hardware['accelerator']}",
        engine=ENGINES.get(name, name) + (f"@{release}" if release else ""), prompt=1, output=1, batch=1,
        weights=weights_of(row), kv_cache=cast("KvFormat | None", kv), tp=tp, pp=pp,
        ep=run.get("ep"), memory_utilization=run.get("memory_utilization"), graphs=run.get("graphs"), as_engine=True, **given,
    )  # fmt: skip


def startup_points(row: Row, made: Estimate) -> Iterator[Point]:
    """The points of a start-up: weights as loaded, and the pool of the caches, whose error is a share of the device.

    Raises:
        Skip: nothing that was printed can be compared.
    """
    printed = row.measured
    found: list[tuple[Metric, float, Term, float | None]] = []
    if printed.get("weights_gib") is not None:
        found.append(("weights", float(printed["weights_gib"]) * GIB, made.figures["weights_bytes"], None))
    if printed.get("kv_pool_gib") is not None:
        device: Any = made.figures["memory_capacity_bytes"].value
        base = float(printed["device_gib"]) * GIB if printed.get("device_gib") is not None else float(device)
        found.append(("kv_pool", float(printed["kv_pool_gib"]) * GIB, made.figures["kv_pool_bytes"], base))
    if not found and printed.get("started") is not False:
        raise Skip("nothing was printed that an estimate has")
    for metric, value, term, share in found:
        low, high = made.range_of(term)
        expected: Any = term.value
        yield Point(row=row, metric=metric, measured=value, low=low, expected=float(expected), high=high, base=share)
