"""Which small changes of a question would make it fit, or make it better? Each is tried with the same estimator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Change, Estimate
from gpuplan.plan.ask import PRICE_FIELDS, Common, FitAsk, ServeAsk, TrainAsk
from gpuplan.record import Record
from gpuplan.units import human

MOST = 3
"""Changes that an answer shows."""
_COUNTED = re.compile(r"^\s*(\d+)\s*[xX]\s*(.+)$")
_BIGGER = (
    "l40s", "a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x", "8xh100-sxm-80gb", "8xh200-sxm-141gb",
)  # fmt: skip
"""Accelerators that are widely rented, in order of price; tried where more of the same does not help."""

Question = TypeVar("Question", bound=Common)


class Trial(Record):
    """A changed question and the flags that change it; one success of a `group` is enough ("": all are of interest)."""

    ask: Common
    flags: dict[str, str]
    group: str = ""


def fitting_changes(ask: Question, answer: Callable[[Question], Estimate]) -> tuple[Change, ...]:
    """The smallest changes that make a question fit: formats and lengths first, then more of the same, then other accelerators."""
    found: list[Change] = []
    done: set[str] = set()
    for trial in _trials(ask):
        if trial.group in done:
            continue
        made = _tried(trial.ask, answer)  # type: ignore[arg-type]
        if made is None or not made.verdict.fits:
            continue
        spare = float(made.figures["headroom_bytes"].value)
        found.append(Change(trial.flags, f"fits with {human(spare, 'B')} to spare"))
        done |= {trial.group} - {""}
        if len(found) == MOST:
            break
    return tuple(found)


def better_changes(ask: Question, before: Estimate, answer: Callable[[Question], Estimate], figure: str) -> tuple[Change, ...]:
    """Changes of a question that fits which raise a figure most: narrower formats and more accelerators."""
    if figure not in before.figures:
        return ()
    now = float(before.figures[figure].value)
    gains: list[tuple[float, Change]] = []
    for trial in _improvements(ask, before):
        made = _tried(trial.ask, answer)  # type: ignore[arg-type]
        if made is None or not made.verdict.fits:
            continue
        gain = float(made.figures[figure].value) / now - 1 if now else 0.0
        if gain > 0.02:
            name = figure.replace("_per_s", "/s").replace("_", " ")
            gains.append((gain, Change(trial.flags, f"{name} +{gain:.0%}")))
    gains.sort(key=lambda one: -one[0])
    return tuple(change for _, change in gains[:MOST])


def _tried(ask: Question, answer: Callable[[Question], Estimate]) -> Estimate | None:
    """The answer to a changed question, or None where it cannot be asked."""
    try:
        return answer(ask)
    except GpuplanError:
        return None


def _trials(ask: Common) -> Iterator[Trial]:
    yield from _narrower(ask)
    yield from _shorter(ask)
    yield from _more(ask, {})
    if isinstance(ask, (ServeAsk, FitAsk)) and ask.weights is None:
        yield from _more(ask.replaced(weights="int4"), {"weights": "int4"})
    for name in _BIGGER:
        yield Trial(_free(ask, name), {"on": name}, "other")


def _narrower(ask: Common) -> Iterator[Trial]:
    if isinstance(ask, (ServeAsk, FitAsk)):
        if ask.kv_cache is None:
            yield Trial(ask.replaced(kv_cache="fp8"), {"kv-cache": "fp8"})
        if ask.weights is None:
            yield Trial(ask.replaced(weights="fp8"), {"weights": "fp8"})
            yield Trial(ask.replaced(weights="int4"), {"weights": "int4"})
    if isinstance(ask, (TrainAsk, FitAsk)) and ask.optimizer is None:
        yield Trial(ask.replaced(optimizer="adamw-8bit"), {"optimizer": "adamw-8bit"})
    if isinstance(ask, TrainAsk) and ask.zero_stage is None:
        yield Trial(ask.replaced(zero_stage=3), {"zero-stage": "3"})
    if isinstance(ask, TrainAsk) and ask.offload_to is None and {*(ask.offload or ())} & {"optimizer", "params"}:
        yield Trial(ask.replaced(offload_to="nvme"), {"offload-to": "nvme"})
    if isinstance(ask, TrainAsk) and ask.precision is None:
        yield Trial(ask.replaced(precision="bf16-pure"), {"precision": "bf16-pure"})


def _shorter(ask: Common) -> Iterator[Trial]:
    if isinstance(ask, (ServeAsk, FitAsk)):
        if ask.batch is not None and ask.batch > 1:
            yield Trial(ask.replaced(batch=ask.batch // 2), {"batch": str(ask.batch // 2)})
        if ask.context is not None and ask.context > 1024 and (isinstance(ask, FitAsk) or not ask.prompt):
            yield Trial(ask.replaced(context=ask.context // 2), {"context": str(ask.context // 2)})
    if isinstance(ask, TrainAsk):
        for name, flag in (("micro_batch", "micro-batch"), ("seq_len", "seq-len")):
            value = getattr(ask, name)
            if value is not None and value > 1:
                half = {name: value // 2}
                yield Trial(ask.replaced(**half), {flag: str(value // 2)})


def _more(ask: Common, flags: dict[str, str]) -> Iterator[Trial]:
    """More of the same accelerators; degrees that the user set are left to be chosen anew."""
    counted = _COUNTED.match(ask.on)
    count, name = (int(counted[1]), counted[2]) if counted else (1, ask.on)
    if name.lower().startswith(("tpu-v", "v2-", "v3-", "v4-", "v5", "v6")):
        return
    for factor in (2, 4, 8, 16, 32):
        if count * factor <= 4096:
            on = f"{count * factor}x{name}"
            yield Trial(_free(ask, on), {**flags, "on": on}, f"more {' '.join(flags)}")


def _free(ask: Common, on: str) -> Common:
    """The question on other accelerators: degrees, pinned terms and prices belonged to the old ones."""
    ask = ask.replaced(**dict.fromkeys(PRICE_FIELDS))
    if isinstance(ask, TrainAsk):
        return ask.replaced(on=on, pins={}, tp=None, pp=None, dp=None, cp=None, ep=None, vpp=None)
    if isinstance(ask, (ServeAsk, FitAsk)):
        return ask.replaced(on=on, pins={}, tp=None, pp=None)
    raise TypeError(f"{type(ask).__name__} is no question")


def _improvements(ask: Common, before: Estimate) -> Iterator[Trial]:
    chosen = {choice.name for choice in before.chosen}
    if isinstance(ask, (ServeAsk, FitAsk)):
        if "weights" in chosen and before.question.get("weights") in ("bf16", "fp16"):
            yield Trial(ask.replaced(weights="fp8"), {"weights": "fp8"})
            yield Trial(ask.replaced(weights="int4"), {"weights": "int4"})
        if "kv_cache" in chosen:
            yield Trial(ask.replaced(kv_cache="fp8"), {"kv-cache": "fp8"})
        if isinstance(ask, ServeAsk) and ask.batch is not None:
            yield Trial(ask.replaced(batch=ask.batch * 2), {"batch": str(ask.batch * 2)})
    if isinstance(ask, TrainAsk):
        if "precision" in chosen:
            yield Trial(ask.replaced(precision="fp8"), {"precision": "fp8"})
        if ask.recompute not in (None, "none"):
            yield Trial(ask.replaced(recompute="none"), {"recompute": "none"})
        if ask.micro_batch is not None:
            yield Trial(ask.replaced(micro_batch=ask.micro_batch * 2), {"micro-batch": str(ask.micro_batch * 2)})
        if ask.tp is not None and ask.tp > 1:
            yield Trial(ask.replaced(tp=ask.tp // 2, dp=None), {"tp": str(ask.tp // 2)})
