"""No answer is against physics: figures are finite, shares are shares, parts sum, and doubt stops where a peak does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpuplan.errors import ImpossibleError, UsageError
from gpuplan.estimate.result import Breakdown
from gpuplan.formulas.basic import rate
from gpuplan.physics import bounding
from gpuplan.ranges import high_end, interval
from gpuplan.search.ask import answered
from gpuplan.term import USER, Term, greatest, total
from tests.render.render_sample import sample


@pytest.mark.parametrize(
    ("key", "value"),
    [("run_time_s", math.inf), ("run_time_s", math.nan), ("step_time_s", -1.0), ("mfu", 1.77), ("cost_usd", -0.1)],
)
def test_an_estimate_with_an_impossible_figure_cannot_exist(key: str, value: float) -> None:
    made = sample()
    wrong = Term("some.term", value, "1", USER)
    with pytest.raises(ImpossibleError, match=r"some\.term"):
        made.replaced(figures={**made.figures, key: wrong})


def test_the_term_that_is_the_cause_is_named() -> None:
    made = sample()
    cause = Term("the.cause", math.inf, "s", USER)
    effect = total("the.effect", {"one": cause, "other": Term("other", 1.0, "s", USER)})
    with pytest.raises(ImpossibleError, match=r"the\.effect.*the\.cause"):
        made.replaced(figures={**made.figures, "run_time_s": effect})


def test_parts_that_do_not_sum_to_their_total_cannot_exist() -> None:
    made = sample()
    one = made.breakdowns[0]
    few = dict(list(one.named.items())[1:])
    with pytest.raises(ImpossibleError, match="sum to"):
        made.replaced(breakdowns=(Breakdown(one.title, one.total, few),))


def test_headroom_may_be_below_zero() -> None:
    made = sample()
    missing = Term("missing", -1.0, "B", USER)
    assert made.replaced(figures={**made.figures, "headroom_bytes": missing}).figures["headroom_bytes"].value == -1.0


def test_doubt_stops_at_the_peak_for_share_time_and_rate_alike() -> None:
    parts = {"kernel": Term("kernel", 0.9, "s", USER, spread=(0.3, 1.5)), "host": Term("host", 0.1, "s", USER)}
    seconds = total("step", parts)
    used = rate.term("used", count=Term("least_seconds", 0.8, "1", USER), seconds=seconds)
    made, free = (interval({"mfu": used, "step_time_s": seconds}, shares) for shares in (["mfu"], []))
    assert free["mfu"][1] > 1.5
    assert made["mfu"][1] == pytest.approx(1.0)
    assert made["step_time_s"][0] == pytest.approx(0.8)
    assert made["mfu"][0] == pytest.approx(free["mfu"][0])


def test_leaves_of_one_name_are_one_doubt() -> None:
    """Two stages share what is doubtful about their engine: at its low end neither of them holds the other up."""
    stages = [
        total(
            f"stage{n}", {"host": Term("engine.host", 1.0, "s", USER, spread=(0.5, 1.5)), "rest": Term(f"rest{n}", 1.0, "s", USER)}
        )
        for n in (1, 2)
    ]
    low, high = interval({"step": greatest("step", stages)})["step"]
    assert (low, high) == (pytest.approx(1.5), pytest.approx(2.5))


def test_the_high_end_of_memory_is_the_one_of_the_range() -> None:
    for on, more in (("8xh100", {}), ("64xh100", {"pp": 4})):
        made = answered("train", {"model": "llama-3.1-8b", "on": on, **more}, advise=False)
        memory = made.figures["peak_memory_bytes"]
        assert high_end(memory) == pytest.approx(made.ranges["peak_memory_bytes"][1], rel=1e-12)


def test_the_high_end_of_many_is_that_of_each() -> None:
    sizes = np.array([1e9, 2e9, 4e9])

    def need(size: object) -> Term:
        parts = {
            "kept": Term("kept", size, "B", USER),  # type: ignore[arg-type]
            "context": Term("engine.context", 1e9, "B", USER, spread=(0.5e9, 1.5e9)),
            "more": Term("engine.more", 2e9, "B", USER, spread=(1e9, 4e9)),
        }
        return total("memory", parts)

    assert np.array_equal(high_end(need(sizes)), [high_end(need(float(one))) for one in sizes])


@pytest.mark.parametrize("on", ["h200", "8xh100", "tpu-v5e-8", "rtx-4090"])
@pytest.mark.parametrize("task", ["serve", "train"])
def test_no_end_of_a_share_passes_100_percent(task: str, on: str) -> None:
    made = answered(task, {"model": "qwen2.5-0.5b", "on": on}, advise=False)
    for key in bounding(made.figures):
        assert made.ranges[key][1] <= 1.0


@pytest.mark.parametrize(("seq_len", "recompute"), [(8192, "full"), (131072, "none"), (131072, "full"), (1048576, "selective")])
def test_what_is_computed_passes_no_peak_however_long_the_context(seq_len: int, recompute: str) -> None:
    question = {"model": "olmo2-13b", "on": "rtx-5070-ti", "seq_len": seq_len, "recompute": recompute}
    made = answered("train", question, advise=False)
    of = {key: float(made.figures[key].value) for key in ("mfu", "mfu_causal", "hfu", "step_time_s")}
    done, seconds = float(made.bounds["hfu_causal"].value), of["step_time_s"]
    assert of["mfu_causal"] <= done <= min(1.0, of["hfu"])
    assert made.ranges["step_time_s"][0] >= done * seconds
    if seq_len > 100_000:
        assert of["mfu"] > 1.5 * of["mfu_causal"], "attention in full is what these two names count by convention"


@pytest.mark.parametrize("on", ["m3-max", "h100", "8xh200", "tpu-v6e-8"])
@pytest.mark.parametrize("model", ["nemotron-4-15b", "qwen2.5-14b", "mixtral-8x7b"])
def test_no_end_of_a_phase_is_faster_than_its_products_at_the_peak(model: str, on: str) -> None:
    question = {"model": model, "on": on, "weights": "int4", "prompt": 2000, "output": 64, "batch": 8}
    made = answered("serve", question, advise=False)
    assert made.bounds
    for name, key in (("prefill", "ttft_s"), ("decode", "itl_s")):
        used, seconds = float(made.bounds[name].value), float(made.figures[key].value)
        assert used <= 1
        assert made.ranges[key][0] >= used * seconds * (0.99 if key == "ttft_s" else 1)


@pytest.mark.parametrize(
    ("task", "question"),
    [
        ("train", {"model": "llama-3.1-70b", "on": "64xh100", "pp": 4, "set": ["last_stage.memory.activations=90 GB"]}),
        (
            "train",
            {
                "model": "mixtral-8x7b", "on": "4xaws:p5.48xlarge", "tp": 2, "pp": 2, "dp": 8, "ep": 4, "micro_batch": 1,
                "global_batch": 64, "recompute": "full", "set": ["stage.first_layers=0"],
            },
        ),
        ("serve", {"model": "llama-3.1-8b", "on": "h100", "batch": 8, "set": ["memory.kv_cache=90 GB"]}),
        ("fit", {"model": "llama-3.1-8b", "on": "h100", "set": ["hw.memory_capacity=10 GB"]}),
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_the_printed_figures_after_pins(task: str, question: dict[str, object]) -> None:
    made = answered(task, question, advise=False)
    spare = float(made.figures["headroom_bytes"].value)
    assert made.verdict.fits == (spare >= 0)
    memory = made.breakdowns[-1]
    assert float(memory.total.value) == pytest.approx(float(made.figures["peak_memory_bytes"].value))
    assert made.verdict.binding in {part.name for part in memory.parts}


@pytest.mark.parametrize("given", [{}, {"tp": 1, "pp": 1, "cp": 1, "dp": 8}, {"pp": 2}])
@pytest.mark.parametrize("name", ["memory.peak", "peak_memory_bytes"])
def test_a_sum_of_memory_is_refused_with_its_parts(name: str, given: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="it is a result") as caught:
        answered("train", {"model": "llama-3.1-8b", "on": "8xh100", "set": [f"{name}=90 GB"], **given}, advise=False)
    assert "memory." in caught.value.problems[0].hint


def test_the_step_is_that_of_the_slowest_stage_after_pins() -> None:
    question = {"model": "llama-3.1-70b", "on": "64xh100", "pp": 4, "set": ["last_stage.step.matmuls=500 s"]}
    made = answered("train", question, advise=False)
    assert float(made.breakdowns[0].total.value) == pytest.approx(float(made.figures["step_time_s"].value))
    assert float(made.figures["step_time_s"].value) > 500


def test_a_value_with_which_a_figure_is_impossible_is_refused() -> None:
    for pin in ("step.seconds=0 s", "step.seconds=1 ms", "mfu=1.7"):
        with pytest.raises(UsageError, match=r"nothing comes of|machine"):
            answered("train", {"model": "llama-3.1-8b", "on": "8xh100", "pp": 1, "tp": 1, "set": [pin]}, advise=False)


def test_a_fit_whose_high_end_does_not_fit_says_so() -> None:
    made = answered("train", {"model": "llama-3.1-8b", "on": "8xh100"}, advise=False)
    high = made.ranges["peak_memory_bytes"][1]
    between = (float(made.figures["peak_memory_bytes"].value) + high) / 2
    narrow = answered(
        "train", {"model": "llama-3.1-8b", "on": "8xh100", "set": [f"hw.memory_capacity={between:.0f} B"]}, advise=False
    )
    assert narrow.verdict.fits
    assert narrow.verdict.words == ("fits narrowly" if narrow.ranges["headroom_bytes"][0] < 0 else "fits")
