"""Which questions is a measured serving run the answer to, and what do the answers say beside the measurement?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast, get_args

from gpuplan.accuracy.clients import client_of, spread_of
from gpuplan.accuracy.compare import Metric, Point
from gpuplan.accuracy.disaggregated import disaggregated_ask
from gpuplan.accuracy.model import card_of, known_as
from gpuplan.accuracy.pages import as_its_page_says
from gpuplan.accuracy.recipes import settings_of, with_its_size
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.errors import UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.formulas.basic import product, rate
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.words import ALSO_CALLED, NEAREST, KvFormat, WeightFormat
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_era import dated
from gpuplan.term import Source, Term

Knows: TypeAlias = Callable[[str], tuple[Engine, object] | None]
"""The profile of an engine by its name, and what is said of that; None: nobody knows it."""

_ROW = Source("user", "as the run's row says")
WEIGHTS: Mapping[str, WeightFormat] = {
    "16-bit": "bf16", "int4-awq": "int4", "int4-gptq": "int4", "int4-gptq-g128": "int4", "int4-g32": "int4",
    "int4 weight-only": "int4",
    "bnb.nf4": "nf4", "bnb.nf4-dq": "nf4-dq", "bnb-fp4": "nf4", "bnb-fp4-dq": "nf4-dq", "int4-bitsandbytes": "nf4",
    "int8-bitsandbytes": "int8-bnb",
}  # fmt: skip
"""What rows call types of weights that have other names here; `fp4` of bitsandbytes is stored as its `nf4` is."""
AROUND = "ai-dynamo"
"""A framework around engines, whose images have its own release."""
NIGHTLY = "nightly"
_RELEASE = re.compile(r"(?<![\w.])v?\d+\.\d+(?:\.\d+)?(?:[.+-]?(?:post|rc|dev)[\w.]*)?|20\d\d-\d\d(?:-\d\d)?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = re.compile(rf"\b({'|'.join(_MONTHS)})[a-z]* (20\d\d)\b")
BLOCKWISE = "fp8_block"
"""What rows call 8-bit products with a scale for each block."""
ONE_NODE = 8
ENGINES = {"tensorrt": "tensorrt-llm", "huggingface": "torch-eager"}
"""First words of engine names that are not the name of a profile."""
CLOSED = ("fixed-batch", "single-stream")
"""Ways of measuring in which the batch is what was set; under load it is what the engine makes of the demand."""
SERVED_WITH = (
    "cached_share", "cached_prefixes", "max_sequences", "max_batched_tokens", "recv_interval", "graphs", "awq_kernels",
    "memory_utilization", "max_context", "cache_memory", "prompt_spread", "output_spread", "gpu_layers", "host_experts",
    "host_memory", "host_bandwidth",
)  # fmt: skip
"""What a row may say of its server and of the prompts that it had seen before, as the options of `gpuplan serve`."""
SAME = 0.02
"""Rates this close are of the same time."""
_MEMORY_SAID = re.compile(r"(\S+) \((\d+) ?GB\b")


def serving_question(
    row: Row, find: Callable[[str], ModelCard], keep: Callable[[ModelCard], str], knows: Knows | None = None
) -> ServeAsk:
    """The question of a row, whose prompts may be read on other accelerators than those that write its answers.

    Raises:
        Skip: the row says too little, or something that no plan can say.
    """
    if row.run.get("disaggregated"):
        return disaggregated_ask(row, lambda one: serving_ask(one, find, keep, knows), find)
    return serving_ask(row, find, keep, knows)


def serving_ask(
    row: Row, find: Callable[[str], ModelCard], keep: Callable[[ModelCard], str], knows: Knows | None = None
) -> ServeAsk:  # fmt: skip
    """The question of a row whose requests run on the same accelerators from their first token to their last.

    Raises:
        Skip: the row says too little, or something that no plan can say.
    """
    if row.run.get("disaggregated"):
        raise Skip("prefill and decode ran on different accelerators")
    card = card_of(row, find)
    row = with_its_size(as_its_page_says(row, card))
    run = row.run
    prompt, output = run.get("input_len"), run.get("output_len")
    if not prompt and not output and run.get("mode") != "single-stream":
        raise Skip("the row does not say how long its requests are")
    if prompt is None and run.get("mode") != "single-stream":
        raise Skip("the row does not say how long its prompts are")
    load = load_of_row(row) or _burst(row)
    batch = None if load else _batch(row)
    kv = run.get("kv_cache")
    if kv is not None and typed(kv) not in get_args(KvFormat):
        raise Skip(f"no plan for a cache in `{kv}`")
    tp, pp, dp = run.get("tp"), run.get("pp"), run.get("dp") or 1
    chips = _chips(row)
    if tp and int(tp) * int(pp or 1) > chips:
        tp = pp = None  # it counts something else than accelerators, such as cores
    engine = _engine(row, knows)
    said: dict[str, Any] = {} if prompt is None else {"prompt": max(int(prompt), 1)}
    said |= {} if output is None else {"output": max(int(output), 1)}
    said |= {"weights": weights_of(row), "kv_cache": None if kv is None else typed(kv)}
    said |= {**load, **{name: value for name, value in settings_of(row).items() if said.get(name) is None}}
    said |= {name: run[name] for name in SERVED_WITH if run.get(name) is not None and said.get(name) is None}
    return ServeAsk(
        model=known_as(card, row, find, keep), on=_target(row, chips), engine=engine, batch=batch, tp=tp,
        pp=pp or _stages(row, chips, engine, knows), dp=dp if dp > 1 else None, ep=run["ep"] if (run.get("ep") or 1) > 1 else None,
        as_engine=True, **said,
    )  # fmt: skip


def _burst(row: Row) -> dict[str, Any]:
    """All requests at once, where a row or its page tells how many there were of as many as there is room for."""
    requests = row.run.get("num_requests")
    offline = row.run.get("mode") == "offline-max-throughput" and _batch(row) is None
    if not offline or not isinstance(requests, int):
        return {}
    spread = spread_of(str(row.run.get("dataset")))
    return {"arrival": "burst", "requests": int(requests), **({} if spread is None else {"output_spread": spread})}


def _stages(row: Row, chips: int, engine: str | None, knows: Knows | None) -> int | None:
    """Pipeline stages of a row that says nothing of them; None: the fastest division has them or not.

    Whoever serves with stages on the accelerators of one node says so, unless the engine divides a model in no other way.
    """
    found = None if knows is None or engine is None else knows(engine.partition("@")[0])
    if found is not None and found[0].serving is not None and "tp" not in found[0].serving.splits and not row.run.get("tp"):
        return max(chips // int(row.run.get("dp") or 1), 1)
    return 1 if row.run.get("tp") or chips <= ONE_NODE else None


def typed(name: object) -> str:
    """A type as it is called here."""
    word = str(name).lower()
    return ALSO_CALLED.get(word) or NEAREST.get(word, word)


def weights_of(row: Row) -> WeightFormat | None:
    """The type of a row's weights; None: it does not say.

    Raises:
        Skip: no plan has it.
    """
    said = row.run.get("weights")
    if said is None:
        return None
    found = WEIGHTS.get(str(said).lower()) or typed(said)
    if found not in get_args(WeightFormat):
        raise Skip(f"no plan for weights in `{said}`")
    if found == "fp8" and BLOCKWISE in (row.run.get("gemm_quant"), row.run.get("moe_quant")):
        return "fp8-block"
    return cast("WeightFormat", found)


def _batch(row: Row) -> int | None:
    """Requests at once; None: as many as there is room for.

    Raises:
        Skip: the row does not say.
    """
    run = row.run
    batch = run.get("batch") if run.get("mode") in CLOSED else run.get("concurrency")
    if run.get("mode") == "single-stream":
        batch = batch or 1
    if isinstance(batch, int):
        # Each beam of a search is a sequence, and what is published counts the tokens of all.
        return batch * int(run.get("num_beams") or 1)
    ranks = run.get("batch_per_dp_rank")
    if isinstance(ranks, int):
        return ranks * int(run.get("dp") or 1)
    if run.get("mode") == "offline-max-throughput" or batch == "max":
        return None
    raise Skip("the row does not say how many requests ran at once")


def _engine(row: Row, knows: Knows | None) -> str | None:
    """The engine that a row names: its first word that is one's name."""
    words = [word for word in re.split(r"[\s()/,]+", row.engine) if word]
    named = [ENGINES.get(word, word) for word in words]
    if knows is not None:
        found = next((word for word in (row.engine, *named) if word and knows(word) is not None), None)
        if found is not None:
            return _released(row, found, knows)
    return named[0] if named else None


def _released(row: Row, name: str, knows: Knows) -> str:
    """The engine with the release or the month that a row names, where its profile has such times on record.

    An image of a framework around the engine has that one's number, and one of a night has none: then the day of the run says which
    release there was. What is known of the release beside the row's page is `release` of its run.
    """
    profile = knows(name)
    if profile is None or not profile[0].eras:
        return name
    days = profile[0].releases.days if profile[0].releases is not None else {}
    said = _RELEASE.findall(row.engine.replace(name, "", 1)) if name in row.engine else []
    said += [f"{year}-{_MONTHS.index(month) + 1:02d}" for month, year in _MONTH.findall(row.engine)]
    if row.run.get("image") == AROUND or "ai-dynamo" in str(row.run.get("image")) or NIGHTLY in row.engine:
        said = [str(row.run["measured_on"])[:7]] if "measured_on" in row.run else []
    if not said and row.run.get("release"):
        said = [str(row.run["release"])]
    for one in said:
        try:
            dated(one, days, name)
        except UsageError:
            continue
        return f"{name}@{one}"
    return name


def _target(row: Row, chips: int) -> str:
    """The machine that a row's page tells of (`system` of its hardware), where all of it is asked for, or `chips` of its kind.

    >>> hardware = {"accelerator": "l4", "count": 2}
    >>> row = Row(id="a", set="b", task="inference", model={}, hardware=hardware, run={}, measured={})
    >>> _target(row, 2), _target(row.replaced(hardware={**hardware, "system": "l4-2"}), 2)
    ('2xl4', 'l4-2')
    """
    system = row.hardware.get("system")
    return str(system) if system and chips == row.hardware.get("count") else f"{chips}x{_accelerator(row)}"


def _accelerator(row: Row) -> str:
    """The accelerator, where a remark behind its name says how much memory it has by its name with that."""
    said = str(row.hardware["accelerator"])
    found = _MEMORY_SAID.match(said)
    return said if found is None else f"{found[1]}-{found[2]}gb"


def _chips(row: Row) -> int:
    """The accelerators that a question is about; where the row does not say how many there are, those of its division."""
    run = row.run
    count = row.hardware.get("count")
    ranks = int(run.get("tp") or 1) * int(run.get("pp") or 1) * int(run.get("dp") or 1)
    if run.get("tp") and (count is None or ranks <= int(count)):
        return ranks
    return int(count or ranks)


def inference_points(row: Row, made: Estimate) -> Iterator[Point]:
    """The points of a serving run.

    Raises:
        Skip: nothing that was measured can be compared.
    """
    found = list(figures_of(row, made))
    if not found:
        raise Skip("nothing was measured that an estimate has")
    for metric, value, term in found:
        low, high = made.range_of(_of_printed(made, term))
        expected: Any = term.value
        yield Point(row=row, metric=metric, measured=value, low=low, expected=float(expected), high=high)


def _of_printed(made: Estimate, term: Term) -> Term:
    """A term that a row's figure is made of, with the figures below it as leaves that are as uncertain as they are printed."""
    figures = {id(one) for one in made.figures.values()}
    if id(term) in figures or term.formula is None:
        return term
    parts = {
        key: Term(part.name, part.value, part.unit, part.source, spread=made.range_of(part)) if id(part) in figures else part
        for key, part in term.args
    }
    return term.formula.term(term.name, **parts)


def _in_flight(row: Row) -> bool:
    """Whether a row's requests come as others end, or at a rate."""
    return row.run.get("mode") not in CLOSED and not row.run.get("disaggregated")


def load_of_row(row: Row) -> dict[str, Any]:
    """The load that a row tells of, as the client of its source makes it; nothing where requests are one batch.

    Raises:
        Skip: it has no length that a client could draw from.
    """
    run, client = row.run, client_of(row)
    users, per_s = run.get("concurrency"), run.get("request_rate", run.get("request_rate_qps"))
    if not _in_flight(row) or (not isinstance(users, int) and not isinstance(per_s, (int, float))):
        return {}
    prompt, output = run.get("input_len"), run.get("output_len")
    if not prompt or not output:
        raise Skip("the row does not say how long its requests are")
    load: dict[str, Any] = {"rate": float(per_s)} if not isinstance(users, int) and per_s is not None else {"concurrency": users}
    if "rate" in load:
        load |= {} if run.get("num_requests") is None else {"requests": int(run["num_requests"])}
    else:
        requests = run.get("num_requests")
        if requests is None and client is not None and client.requests_of_user is not None and isinstance(users, int):
            requests = client.requests_of_user * users
        load |= {} if requests is None else {"requests": int(requests)}
    if client is not None:
        return load | client.load(float(prompt), float(output))
    # Users of a closed loop whose answers are of unlike lengths do not stay in step, and whoever has the page knows its data set.
    spread = spread_of(str(run.get("dataset"))) if "concurrency" in load and run.get("output_spread") is None else None
    return load if spread is None else load | {"output_spread": spread}


def figures_of(row: Row, made: Estimate) -> Iterator[tuple[Metric, float, Term]]:
    """What was measured, in base units, and the term of the estimate that says the same."""
    measured, figures = row.measured, made.figures

    def first(*names: str) -> float | None:
        return next((float(measured[name]) for name in names if measured.get(name)), None)

    step = first("tpot_ms", "tpot_p50_ms", "itl_ms")
    whole = first("output_tokens_per_s")
    each = first("output_tokens_per_s_per_accelerator")
    if whole is None and each is not None:
        whole = each * _chips(row)
    if whole is not None and not _keeps_up(row, made):
        yield "throughput", whole, _rate(row, made, whole, step)
    if (prompts := first("prompt_tokens_per_s")) is not None and "batch_prefill_s" in figures:
        yield "prefill", prompts, _prompt_rate(row, made)
    if (peak := first("peak_memory_gib")) is not None:
        yield "memory", peak * 2**30, figures["peak_memory_bytes"]
    waited = first("ttft_ms", "ttft_p50_ms")
    if waited is not None and "highest_rate_per_s" in figures and "ttft_s" not in figures:
        raise Skip("more requests come than the estimate keeps: there is no time to the first token")
    if waited is not None:
        half = first("ttft_ms") is None and "rate" in load_of_row(row) and "ttft_p50_s" in figures
        yield "ttft", waited * 1e-3, figures["ttft_p50_s"] if half else _first_token(row, made)
    bare = first("step_ms")
    if bare is not None:
        yield "tpot", bare * 1e-3, figures["itl_s"]
    if step is not None:
        # Where nothing but answers is written, no prompt comes between two tokens.
        yield "tpot", step * 1e-3, figures["itl_s" if row.run.get("mode") == "single-stream" else "tpot_s"]


def _keeps_up(row: Row, made: Estimate) -> bool:
    """Whether all requests of a rate are served as they come: then what a second brings is asked for, not estimated."""
    return "rate" in load_of_row(row) and "ttft_s" in made.figures


def _sequences(row: Row) -> Term | None:
    """Requests at once; None: as many as there is room for."""
    batch = None if "rate" in load_of_row(row) else _batch(row)
    return None if batch is None else Term("row.sequences", float(batch), "1", _ROW)


def _rate(row: Row, made: Estimate, whole: float, step: float | None) -> Term:
    """Output tokens a second: over all of the requests, or where it is what the time between two tokens gives, while writing."""
    sequences = _sequences(row)
    if step is None or sequences is None or row.run.get("mode") not in CLOSED:
        return made.figures["tokens_per_s"]
    value: Any = sequences.value
    if abs(float(value) / (step * 1e-3) / whole - 1.0) > SAME:
        return made.figures["tokens_per_s"]
    return rate.term("row.decode_tokens_per_s", count=sequences, seconds=made.figures["itl_s"])


def _first_token(row: Row, made: Estimate) -> Term:
    """The time to the first token: of a request, or of a batch that is run as one, whose tokens come when all prompts are read."""
    sequences = _sequences(row) if row.run.get("mode") in CLOSED else None
    together = sequences is not None and float(cast("float", sequences.value)) > 1 and "batch_prefill_s" in made.figures
    return made.figures["batch_prefill_s" if together else "ttft_s"]


def _prompt_rate(row: Row, made: Estimate) -> Term:
    """Tokens of prompts a second."""
    prompt = Term("row.prompt", float(made.question["prompt"]), "1", _ROW)
    sequences = _sequences(row) or Term("row.sequences", float(made.question["batch"]), "1", _ROW)
    tokens = product.term("row.prompt_tokens", a=sequences, b=prompt)
    return rate.term("row.prompt_tokens_per_s", count=tokens, seconds=made.figures["batch_prefill_s"])
