"""Which question do the typed words ask? Texts become numbers and names here, and every wrong one is reported together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from gpuplan.errors import GpuplanError, Problem, UsageError, did_you_mean
from gpuplan.plan import ask
from gpuplan.plan.remat import RESULTS
from gpuplan.units import HOUR, UnitError, parse, parse_count

Ask = TypeVar("Ask", bound=ask.Common)

COUNTS = {
    "seq_len", "global_batch", "micro_batch", "tp", "pp", "dp", "cp", "ep", "vpp", "zero_stage", "prompt", "output", "batch",
    "context", "max_price_age", "lora", "recompute_layers", "offload_layers", "etp", "sync_every", "shard_group", "reshard_group",
    "mtp", "first_stage_layers", "last_stage_layers", "documents",
}  # fmt: skip
COUNTS |= {"prompts", "group_size", "prompt_len", "response_len", "response_max", "ppo_epochs", "rollout_tp", "cpus"}
SIZES = {"activation_bytes": "B", "sample_bytes": "B", "storage_bandwidth": "B/s"}
"""The options that take a quantity with its unit."""
AMOUNTS = {"params", "decode_rate", "flop_per_sample"}
"""The options that take any number above zero."""
FROM_ZERO = {"zero_stage", "mtp", "first_stage_layers", "last_stage_layers"}
WORDS: Mapping[str, tuple[str, ...]] = {
    "recompute": get_args(ask.Recompute),
    "precision": get_args(ask.Precision),
    "optimizer": get_args(ask.Optimizer),
    "weights": get_args(ask.WeightFormat),
    "kv_cache": get_args(ask.KvFormat),
    "dispatcher": get_args(ask.Dispatcher),
    "offload_to": get_args(ask.OffloadTo),
    "reduce_in": get_args(ask.ReduceIn),
    "scaling": get_args(ask.Scaling),
    "schedule": get_args(ask.Schedule),
    "cp_kind": get_args(ask.ContextKind),
    "attention": get_args(ask.AttentionKernel),
    "lora_targets": get_args(ask.LoraTargets),
    "base_weights": get_args(ask.BaseWeights),
    "task": ("serve", "train"),
    "price_kind": get_args(ask.SoldAs),
    "rl": get_args(ask.RlMethod),
    "idle": get_args(ask.Idle),
}
"""The options that take one of a few words."""
LISTS: Mapping[str, tuple[str, ...]] = {
    "overlap": get_args(ask.Overlap), "offload": get_args(ask.Offload), "keep": tuple(RESULTS), "to_host": tuple(RESULTS),
}  # fmt: skip
"""The options that take several of them."""
LENGTHS = {"seq_len", "documents", "prompt", "output", "context", "prompt_len", "response_len", "response_max"}
"""Lengths of sequences, where the field's `k` is 1024: an 8k context has 8192 tokens."""
DURATIONS = {"mtbf", "checkpoint_every"}
ASKS: Mapping[str, type[ask.Common]] = {"fit": ask.FitAsk, "train": ask.TrainAsk, "serve": ask.ServeAsk}


def question(task: str, given: Mapping[str, Any]) -> ask.Common:
    """The question that the options of a command ask; `given` maps option names to what the parser found.

    Raises:
        UsageError: every value that is wrong.
    """
    kind = ASKS[task]
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name in kind.field_names():
        typed = given.get(name)
        if name in ("pins", "specs") or typed is None:
            continue
        try:
            values[name] = _value(name, typed)
        except GpuplanError as error:
            problems += error.problems
    if not given.get("on"):
        hint = "such as `--on h100`, `--on 8xh100` or `--on aws:p5.48xlarge`; `gpuplan specs list` shows them all"
        problems.insert(0, Problem("usage.missing", "--on is missing: what should it run on?", hint))
    try:
        values["pins"] = {name: quantity for name, quantity, _ in pins(given.get("sets") or ())}
    except GpuplanError as error:
        problems += error.problems
    if problems:
        raise UsageError(*problems)
    values["specs"] = tuple(Path(folder) for folder in given.get("specs") or ())
    return kind(**values)


def pins(texts: Iterable[str]) -> list[tuple[str, float, str]]:
    """The term, the value in base units and its base unit of every `--set TERM=VALUE`; zero may stand without a unit.

    >>> pins(["hw.hbm_bandwidth=3 TB/s", "step.comm=0"])
    [('hw.hbm_bandwidth', 3000000000000.0, 'B/s'), ('step.comm', 0.0, '')]

    Raises:
        UsageError: no `=`, or a value that is no number with a known unit.
    """
    made: list[tuple[str, float, str]] = []
    problems: list[Problem] = []
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            problems.append(
                Problem("usage.set", f"`--set {text}` is not TERM=VALUE", "write for example `--set hw.hbm_bandwidth='3 TB/s'`")
            )
            continue
        try:
            found = parse(value)
        except UnitError as error:
            try:
                made.append((name, parse_count(value), "1"))
            except UnitError:
                problems.append(Problem("usage.set", f"--set {name}: {error}"))
            continue
        made.append((name, found.value, "" if found.value == 0 and found.unit == "1" else found.unit))
    if problems:
        raise UsageError(*problems)
    return made


def count(flag: str, text: str) -> int:
    """A whole number of at least 1 (or 0 where `FROM_ZERO` has it); `4k` is understood, and is 4096 for the length of a sequence.

    >>> count("seq_len", "4k"), count("global_batch", "4k")
    (4096, 4000)

    Raises:
        UsageError: no number, not whole, or too small.
    """
    binary = flag in LENGTHS and text.strip()[-1:] in ("k", "K")
    number = _number(flag, text.strip()[:-1]) * 1024 if binary else _number(flag, text)
    least = 0 if flag in FROM_ZERO else 1
    if number != int(number) or number < least:
        raise UsageError(Problem("usage.count", f"{dashed(flag)} {text}: a whole number of at least {least} is wanted"))
    return int(number)


def dashed(name: str) -> str:
    """The option of a glossary name.

    >>> dashed("global_batch")
    '--global-batch'
    """
    return f"--{name.replace('_', '-')}"


def _value(name: str, typed: Any) -> Any:
    if not isinstance(typed, str):
        return typed
    if name in COUNTS:
        return count(name, typed)
    if name == "tokens":
        tokens = _number(name, typed)
        if tokens <= 0:
            raise UsageError(Problem("usage.count", f"--tokens {typed}: a number above zero is wanted"))
        return tokens
    if name == "samples":
        return samples(typed)
    if name in AMOUNTS:
        return above_zero(name, typed)
    if name in SIZES:
        return quantity(name, typed, SIZES[name])
    if name == "expert_load":
        load = _number(name, typed)
        if load < 1:
            raise UsageError(Problem("usage.count", f"{dashed(name)} {typed}: the fullest rank has no less than the mean, 1"))
        return load
    if name == "document_spread":
        spread = _number(name, typed)
        if spread < 0:
            raise UsageError(Problem("usage.count", f"{dashed(name)} {typed}: a number of zero or more is wanted"))
        return spread
    if name in DURATIONS:
        return _duration(name, typed)
    if name == "nvme_bandwidth":
        return _rate(name, typed)
    if name == "price":
        return _price(typed)
    if name == "price_date":
        from gpuplan.specs.dates import checked_day

        return checked_day("--price-date", typed)
    if name in LISTS:
        return listed(name, typed)
    if name == "price_kind":
        typed = typed.replace("-", "_")
    if name in WORDS and typed not in WORDS[name]:
        known = WORDS[name]
        hint = did_you_mean(typed, known) or f"use {', '.join(known[:-1])} or {known[-1]}"
        raise UsageError(Problem("usage.word", f"{dashed(name)} {typed}: no such choice", hint))
    return typed


def listed(name: str, typed: str) -> tuple[str, ...]:
    """The words of a list such as `dp,pp`; `none` is an empty one.

    >>> listed("overlap", "dp, pp"), listed("overlap", "none")
    (('dp', 'pp'), ())

    Raises:
        UsageError: a word that is not known.
    """
    words = tuple(word for word in typed.replace(",", " ").split() if word != "none")
    known = LISTS[name]
    wrong = [word for word in words if word not in known]
    if wrong:
        raise UsageError(Problem("usage.word", f"{dashed(name)} {typed}: no such choice", f"use {', '.join(known)} or none"))
    return words


def samples(text: str) -> float:
    """A number of samples, or images by epochs.

    >>> samples("1.28M*90")
    115200000.0

    Raises:
        UsageError: no number, or none above zero.
    """
    made = 1.0
    for factor in text.replace("x", "*").replace("×", "*").split("*"):
        made *= above_zero("samples", factor)
    return made


def above_zero(flag: str, text: str) -> float:
    """A number above zero; FLOP may be written behind it.

    >>> above_zero("flop_per_sample", "8.2 GFLOP"), above_zero("flop_per_sample", "8.2G")
    (8200000000.0, 8200000000.0)

    Raises:
        UsageError: no number, or none above zero.
    """
    number = _number(flag, text.strip().removesuffix("FLOP").strip() if flag == "flop_per_sample" else text)
    if number <= 0:
        raise UsageError(Problem("usage.count", f"{dashed(flag)} {text}: a number above zero is wanted"))
    return number


def quantity(flag: str, text: str, unit: str) -> float:
    """A quantity above zero in base units.

    >>> quantity("sample_bytes", "115 kB", "B")
    115000.0

    Raises:
        UsageError: no number with such a unit, or none above zero.
    """
    try:
        value = parse(text, unit).value
    except UnitError as error:
        raise UsageError(Problem("usage.quantity", f"{dashed(flag)}: {error}")) from None
    if value <= 0:
        raise UsageError(Problem("usage.quantity", f"{dashed(flag)} {text}: more than zero is wanted"))
    return value


def _number(flag: str, text: str) -> float:
    try:
        return parse_count(text)
    except UnitError as error:
        raise UsageError(Problem("usage.count", f"{dashed(flag)}: {error}")) from None


def _duration(flag: str, text: str) -> float:
    """Seconds from a text with its unit."""
    try:
        seconds = parse(text, "s").value
    except UnitError as error:
        hint = f"write it with its unit, such as `{dashed(flag)} 3h`"
        raise UsageError(Problem("usage.duration", f"{dashed(flag)}: {error}", hint)) from None
    if seconds <= 0:
        raise UsageError(Problem("usage.duration", f"{dashed(flag)} {text}: a time above zero is wanted"))
    return seconds


def _rate(flag: str, text: str) -> float:
    """Bytes a second from a text with its unit."""
    try:
        rate = parse(text, "B/s").value
    except UnitError as error:
        hint = f"write it with its unit, such as `{dashed(flag)} 1.6GB/s`"
        raise UsageError(Problem("usage.rate", f"{dashed(flag)}: {error}", hint)) from None
    if rate <= 0:
        raise UsageError(Problem("usage.rate", f"{dashed(flag)} {text}: a rate above zero is wanted"))
    return rate


def _price(text: str) -> float:
    """USD a second from `2.50` (USD an hour) or a text with its unit."""
    try:
        number = parse_count(text) / HOUR
    except UnitError:
        try:
            number = parse(text, "USD/s").value
        except UnitError as error:
            raise UsageError(Problem("usage.price", f"--price: {error}", "write USD an hour, such as `--price 2.50`")) from None
    if number <= 0:
        hint = "leave --price out where it is not known"
        raise UsageError(Problem("usage.price", f"--price {text}: a price is above zero", hint))
    return number
