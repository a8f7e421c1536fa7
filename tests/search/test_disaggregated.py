"""Prompts and answers on different accelerators: the figures of both sides, the ratio of workers, and what cannot be kept."""

from __future__ import annotations

from typing import Any

import pytest

import gpuplan
from gpuplan.errors import InfeasibleError, PlanError, UnknownError, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered

BASE: dict[str, Any] = {
    "model": "llama-3.1-70b", "on": "4xh100", "prefill_on": "4xh100", "engine": "vllm", "tp": 4, "pp": 1, "prefill_tp": 4,
    "prefill_pp": 1,
    "prompt": 2000, "output": 400,
}  # fmt: skip
PAIR = {**BASE, "prefill_workers": 1, "decode_workers": 1}


def served(**given: Any) -> Estimate:
    return answered("serve", given, advise=False, keep=True)


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


def test_no_prompt_comes_between_answers() -> None:
    """A token takes the bare step of as many sequences; on shared accelerators prompts come between."""
    together = served(**{name: value for name, value in BASE.items() if not name.startswith("prefill")}, batch=32)
    split = served(**PAIR, batch=32)
    assert figure(split, "tpot_s") == pytest.approx(figure(together, "itl_s"))
    assert figure(split, "tpot_s") < figure(together, "tpot_s")


def test_prompts_follow_each_other_through_stages() -> None:
    """A reader's pace is that of a stage: four have four prompts on their way, which take as long as the way is."""
    stages = {**PAIR, "prefill_tp": 1, "prefill_pp": 4, "decode_workers": 16, "batch": 64, "prompt": 8192}
    made = served(**stages)
    way = float(made.breakdowns[1].total.value)
    assert figure(made, "prefill_utilization") == pytest.approx(1.0)
    assert figure(made, "requests_per_s") * way == pytest.approx(4.0, rel=0.02)


@pytest.mark.parametrize("users", [8, 64])
def test_no_division_of_readers_beats_what_was_chosen_for_users(users: int) -> None:
    asked = {**BASE, "model": "llama-3.3-70b", "on": "8xh100", "prefill_on": "8xh100", "tp": 8, "concurrency": users}
    best = served(**{**asked, "prefill_tp": None, "prefill_pp": None})
    for tp, pp in ((8, 1), (4, 2), (2, 4), (1, 8), (4, 1)):
        other = served(**{**asked, "prefill_tp": tp, "prefill_pp": pp})
        assert figure(best, "tokens_per_s_per_accelerator") >= 0.999 * figure(other, "tokens_per_s_per_accelerator")


def test_users_are_somewhere() -> None:
    """Little's law: those who wait for a first token and those who are written for are all of them."""
    made = served(**PAIR, concurrency=64)
    rate = figure(made, "requests_per_s")
    assert rate * (figure(made, "ttft_s") + 399 * figure(made, "tpot_s")) == pytest.approx(64)


def test_caches_are_what_the_prompt_left_in_them() -> None:
    """80 layers of 2 x 8 heads of 128 values in 16 bit, over four ranks: 2000 tokens are 164 MB on each."""
    made = served(**PAIR, batch=1)
    assert figure(made, "kv_transfer_bytes") == pytest.approx(2000 * 80 * 2 * 8 * 128 * 2 / 4)
    # Both workers share a node, whose switches take 450 GB/s a way; whole nodes have 50 GB/s of network for each accelerator.
    assert figure(made, "kv_transfer_bytes") / 450e9 <= figure(made, "kv_transfer_s") < figure(made, "kv_transfer_bytes") / 50e9
    apart = served(**{**PAIR, "on": "8xh100", "prefill_on": "8xh100", "tp": 8, "prefill_tp": 8}, batch=1)
    assert figure(apart, "kv_transfer_s") >= figure(apart, "kv_transfer_bytes") / 50e9


def test_long_prompts_wait_for_their_last_chunk_alone() -> None:
    made = served(**{**PAIR, "prompt": 32768}, batch=1)
    assert figure(made, "kv_transfer_waited_s") == pytest.approx(figure(made, "kv_transfer_s") / 4)


def test_the_slower_side_is_busy_all_the_time() -> None:
    short, long = (
        served(**{**PAIR, "output": 20}, concurrency=256),
        served(**{**PAIR, "prompt": 100, "output": 2000}, concurrency=256),
    )
    assert figure(short, "prefill_utilization") == pytest.approx(1.0)
    assert figure(long, "prefill_utilization") < 0.5


def test_the_ratio_that_is_left_open_is_the_best() -> None:
    chosen = served(**BASE, batch=64)
    forced = [served(**BASE, batch=64, prefill_workers=p, decode_workers=d) for p, d in ((1, 1), (1, 2), (2, 1), (1, 3), (3, 2))]
    best = max(figure(one, "tokens_per_s_per_accelerator") for one in forced)
    assert figure(chosen, "tokens_per_s_per_accelerator") >= best * (1 - 1e-6)


def test_workers_are_added_until_a_rate_is_kept() -> None:
    made = served(**BASE, rate=20)
    assert figure(made, "requests_per_s") == 20
    assert figure(made, "prefill_utilization") <= 0.9
    assert figure(made, "decode_utilization") <= 0.9
    each = served(**BASE, prefill_workers=1, decode_workers=1)
    sizes = figure(each, "accelerators")
    assert figure(made, "accelerators") == sizes / 2 * (figure(made, "prefill_workers") + figure(made, "decode_workers"))
    fewer = {"prefill_workers": int(figure(made, "prefill_workers")) - 1, "decode_workers": int(figure(made, "decode_workers"))}
    with pytest.raises(InfeasibleError, match=r"are more than the workers keep: .* at most of those that read prompts"):
        served(**BASE, **fewer, rate=20)


def test_sides_may_have_machines_of_their_own() -> None:
    made = served(**{**PAIR, "prefill_on": "4xh200"}, batch=8)
    assert made.question["prefill_on"] == "4xh200"
    assert figure(made, "ttft_s") == pytest.approx(figure(served(**PAIR, batch=8), "ttft_s"), rel=0.1)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"rate": 1e9}, InfeasibleError, "are more than the workers keep"),
        ({"rate": 1, "concurrency": 4}, UsageError, "two loads"),
        ({"dp": 2}, UsageError, "--dp: not with workers of two kinds"),
        ({"prefill_workers": 0}, UsageError, "at least 1 is wanted"),
        ({"prefill_tp": 3}, PlanError, "tp = 3|does not divide"),
        ({"prefill_on": "4xh1000"}, UnknownError, "h1000"),
        ({"prefill_on": "1xh100", "prefill_tp": 1}, PlanError, "the prefill workers need"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        served(**{**PAIR, **given})


@pytest.mark.parametrize("load", [{"rate": 5}, {"concurrency": 64}])
def test_spreads_act_on_the_queue_of_prompts_or_are_named(load: dict[str, Any]) -> None:
    even, spread = served(**PAIR, **load), served(**PAIR, **load, prompt_spread=1.0)
    assert figure(spread, "ttft_s") > figure(even, "ttft_s")
    idle = served(**PAIR, **load, output_spread=1.0)
    assert any("--output-spread: of no effect" in note.text for note in idle.notes)
    none = served(**PAIR, batch=4, prompt_spread=1.0)
    assert any("--prompt-spread: of no effect" in note.text for note in none.notes)


def test_any_rate_is_kept_by_enough_workers() -> None:
    """The fewest of each kind that are busy for nine tenths of their time at most, however many that takes."""
    made = served(**BASE, rate=400.0)
    read, written = (int(made.question[f"{name}_workers"]) for name in ("prefill", "decode"))
    assert min(read, written) > 16
    assert figure(made, "prefill_utilization") <= 0.9 < figure(made, "prefill_utilization") * read / (read - 1)
    assert figure(made, "decode_utilization") <= 0.9 < figure(made, "decode_utilization") * written / (written - 1)
    assert [one for one in made.notes if one.code == "load.narrowly"], "a tenth of the time is less than the range is wide"


def test_users_wait_for_places() -> None:
    """Where workers that write run so many at once at most, the others wait for their first token."""
    free, few = served(**PAIR, concurrency=64), served(**PAIR, concurrency=64, max_sequences=16)
    assert figure(few, "running_requests") == pytest.approx(16)
    assert figure(few, "requests_per_s") < figure(free, "requests_per_s")
    assert figure(few, "ttft_s") > 2 * figure(free, "ttft_s")


def test_a_request_passes_a_server_and_a_tokenizer() -> None:
    made = served(**{**PAIR, "engine": "tensorrt-llm"}, batch=1)
    idle = next(one for one in made.breakdowns if one.title.startswith("time to the first token"))
    assert {"request", "server", "reading", "prefill", "cache_transfer"} == set(idle.named)


def test_nothing_by_hand_answers_sooner_at_a_rate() -> None:
    """Of the divisions that keep a rate with as few accelerators those are taken that answer soonest, not those with most room."""
    asked: dict[str, Any] = {
        "model": "deepseek-v3", "on": "8xh200", "prefill_on": "8xh200", "rate": 5.0, "prompt": 1024, "output": 256,
    }  # fmt: skip
    open_, *forced = (
        served(**asked, **given)
        for given in ({}, {"tp": 8}, {"tp": 8, "prefill_tp": 8}, {"attention_dp": 8, "prefill_attention_dp": 8})
    )
    assert figure(open_, "accelerators") == 16
    for made in forced:
        assert figure(made, "accelerators") >= 16
        assert figure(made, "e2e_s") >= 0.97 * figure(open_, "e2e_s")


@pytest.mark.slow
def test_no_tensor_parallel_degree_of_either_side_beats_what_is_chosen_with_as_few_accelerators() -> None:
    asked: dict[str, Any] = {"on": "2xdgx-h200", "prefill_on": "2xdgx-h200", "rate": 50.0}
    chosen = gpuplan.serve("deepseek-v3", **asked).figures
    for forced in ({"tp": 4}, {"tp": 8}, {"tp": 16}, {"attention_dp": 2}, {"prefill_tp": 8}):
        other = gpuplan.serve("deepseek-v3", **asked, **forced).figures
        if float(other["accelerators"].value) <= float(chosen["accelerators"].value):
            assert float(other["e2e_s"].value) >= 0.98 * float(chosen["e2e_s"].value), forced


def test_workers_that_read_are_divided_as_they_read_most_by_themselves() -> None:
    """Stages, which are the fastest where answers are written beside, read a fifth of what two halves of tensor ranks do."""
    given = {"model": "llama-3.3-70b", "on": "8xh100", "prefill_on": "8xh100", "prompt": 4000, "output": 500}
    free, forced = (answered("serve", one, advise=False) for one in (given, {**given, "prefill_tp": 4}))
    each = [float(one.figures["tokens_per_s_per_accelerator"].value) for one in (free, forced)]
    assert each[0] >= each[1] / 1.01


@pytest.mark.parametrize("more", [{}, {"rate": 5.0}, {"concurrency": 8}, {"rate": 5.0, "simulate": True}])
@pytest.mark.parametrize("model", ["bge-m3", "vit-l-16"])
def test_a_model_that_only_reads_has_no_workers_that_write(model: str, more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="a model that only reads"):
        gpuplan.serve(model, on="2xh100", prefill_on="h100", **more)
