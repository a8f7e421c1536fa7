"""Nothing that is forced by hand beats the division of a serving question that was chosen where it was left open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.reading import served_figures
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.serving import Settled, settled
from gpuplan.search.serving_judges import AS_PLAIN, FITS, credit, held
from tests.estimate.subjects import library
from tests.sweeps import thinned

EACH = int(os.environ.get("GPUPLAN_FORCED", "2"))
"""Options that are forced of each question; a large number asks for all of them."""
MODELS = ("deepseek-v3", "gpt-oss-120b", "qwen3-235b-a22b", "mixtral-8x7b")
MACHINES = ("8xh200", "4x8xh200", "gb200-nvl72", "16xa100-sxm-80gb", "8xmi300x")
LOADS: tuple[dict[str, Any], ...] = ({"concurrency": 256}, {}, {"rate": 20.0}, {"batch": 64})
ENGINES = ("vllm", "sglang", "tensorrt-llm")


def questions() -> list[ServeAsk]:
    """Every mixture on every machine, with loads and engines in turn."""
    pairs = [(model, machine) for model in MODELS for machine in MACHINES]
    return [
        ServeAsk(model=model, on=machine, engine="vllm" if "mi" in machine else ENGINES[at % 3], **LOADS[at % len(LOADS)])
        for at, (model, machine) in enumerate(pairs)
    ]


def forced(ask: ServeAsk) -> Iterator[dict[str, Any]]:
    """Single options with a value each, and what is typed together."""
    yield from ({"tp": value} for value in (1, 2, 4, 8, 16))
    yield from ({"pp": value} for value in (1, 2, 4))
    yield from ({"dp": value} for value in (1, 2, 4, 8))
    yield from ({"attention_dp": value} for value in (1, 2, 4, 8, 16, 32, 36, 72))
    yield from ({"ep": value} for value in (1, 2, 4, 8, 16, 32, 72))
    yield from ({"decode_cp": value} for value in (1, 2, 4, 8))
    yield from ({"redundant_experts": value} for value in (0, 8, 16, 32, 64))
    yield from ({"expert_exchange": value} for value in ("gathered", "all-to-all"))
    yield from ({"overlap_batches": value} for value in (False, True))
    yield {"tp": 8, "ep": 8}
    yield {"tp": 1, "attention_dp": 8, "expert_exchange": "gathered", "redundant_experts": 0, "overlap_batches": False}


def judged(one: Settled) -> tuple[float, float, float]:
    """Whether a plan fits (less than 0), whether it keeps a rate (0), and what should be small: time or less speed, credited."""
    rank, figures = float(held(one.subject, one.plan)[1]), served_figures(one.subject, one.plan).figures
    fits, credited = max(rank, FITS), float(credit(rank))
    if one.plan.load is None or one.plan.load.rate is None:
        return fits, 0.0, -float(figures["tokens_per_s"].value) * credited
    if "e2e_s" in figures:
        return fits, 0.0, float(figures["e2e_s"].value) / credited
    return fits, 1.0, -float(figures["highest_rate_per_s"].value) * credited


def beaten(ask: ServeAsk, options: list[dict[str, Any]]) -> list[str]:
    """Which of some options make the answer better than the plan that was chosen, with no more sequences than were asked for."""
    *sure, least = judged(settled(ask, library()))
    made = []
    for option in options:
        try:
            one = settled(ask.replaced(**option), library())
        except GpuplanError:
            continue
        if ask.batch is not None and one.plan.batch * one.plan.parallel.dp > ask.batch:
            continue
        *other, value = judged(one)
        better = value < (least / AS_PLAIN if least < 0 else least * AS_PLAIN) * (1 + 1e-9)
        if other < sure or (other == sure and better):
            made.append(f"{ask.model} on {ask.on} with {ask.engine}: {option}: {value / least:.3f}")
    return made


@pytest.mark.parametrize("ask", thinned(questions(), every=7), ids=lambda ask: f"{ask.model} on {ask.on}, {ask.engine}")
def test_no_forced_value_beats_what_was_chosen(ask: ServeAsk) -> None:
    options = list(forced(ask))
    drawn = Random(f"{ask.model} {ask.on}").sample(options, min(EACH, len(options)))
    assert beaten(ask, drawn) == []


KNOWN: dict[str, tuple[ServeAsk, tuple[dict[str, Any], ...]]] = {
    "deepseek-v3, sequences sent back on one rank of attention": (
        ServeAsk(model="deepseek-v3", on="64xh100", engine="vllm", concurrency=256, prompt=900_000, output=1000),
        ({"tp": 8, "ep": 8},),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_values_that_once_beat_what_was_chosen_no_longer_do(name: str) -> None:
    ask, options = KNOWN[name]
    assert beaten(ask, list(options)) == []


@pytest.mark.parametrize("on", ["8xh200", "4x8xh200"])
def test_experts_are_shared_by_ranks_of_attention_where_nobody_says(on: str) -> None:
    """Latents that tensor parallel ranks would each hold, and many sequences: what every published deployment of the model does."""
    one = settled(ServeAsk(model="deepseek-v3", on=on, concurrency=256), library())
    p = one.plan.parallel
    assert p.attention_dp > 1
    assert p.ep == p.tp * p.attention_dp
    assert {"attention_dp", "ep"} <= {choice.name for choice in one.chosen}


def test_one_node_keeps_latents_apart_and_few_users_keep_one_group() -> None:
    few = settled(ServeAsk(model="gpt-oss-120b", on="8xh200", concurrency=8), library())
    assert few.plan.parallel.attention_dp == 1


def test_kernels_that_send_tokens_are_not_chosen_where_there_are_none() -> None:
    one = settled(ServeAsk(model="mixtral-8x7b", on="8xa100-sxm-80gb", concurrency=256), library())
    assert one.plan.expert_exchange is None
    assert not one.plan.settings.overlap_batches


def test_what_an_engine_is_told_is_not_searched_further() -> None:
    """A command starts what it says: ranks of attention and experts that it does not name are as the engine has them."""
    ask = ServeAsk(model="deepseek-v3", on="8xh200", engine="vllm", tp=8, pp=1, as_engine=True)
    p = settled(ask, library()).plan.parallel
    assert (p.attention_dp, p.ep, p.redundant_experts) == (1, 1, 0)
