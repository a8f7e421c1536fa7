"""Which results of a layer are run again under MaxText's policies, what is held, and where."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError
from gpuplan.estimate.training import TrainingFigures, step_pricer, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.remat import ALSO_CALLED, POLICIES, RESULTS, policy_of, remat_of
from gpuplan.plan.train import Saving, TrainPlan
from gpuplan.search.ask import train
from gpuplan.work import Matmul
from gpuplan.workload.program import Role
from gpuplan.workload.training import BlockWork
from tests.estimate.subjects import subject, train_plan

MODEL, ON = "llama-2-70b", "tpu-v5p-128"
TOKENS, LAYERS, HIDDEN, QUERY, KEY, INNER = 4 * 4096, 80, 8192, 8192, 1024, 28672


def plan(recompute: str, **given: Any) -> TrainPlan:
    """64 chips, all sharded, four sequences of 4,096 tokens each."""
    more = {key: given.pop(key) for key in ("keep", "to_host") if key in given}
    shape: dict[str, Any] = {"dp": 64.0, "zero_stage": 3, "global_batch": 256.0, "micro_batch": 4.0, "sequence_parallel": False}
    return train_plan(recompute=recompute, saving=Saving(**more), **shape | given)


def block(recompute: str, model: str = MODEL, **given: Any) -> BlockWork:
    return next(iter(step_pricer(subject(model, ON, "maxtext"), plan(recompute, **given)).work.blocks.values()))


def again(recompute: str, model: str = MODEL, **given: Any) -> dict[str, float]:
    """Widths of the products that are run again by their last name, and attention."""
    work = block(recompute, model, **given).again
    assert work is not None
    found = {op.role.value: float(op.item.n.value) for op in work.ops if isinstance(op.item, Matmul)}
    return found | ({"attention": 1.0} if work.attentions else {})


@pytest.mark.parametrize(
    ("policy", "run_again"),
    [
        ("full", {"qkv": QUERY + 2 * KEY, "attention": 1, "out": HIDDEN, "up": 2 * INNER}),
        ("save_qkv_proj", {"attention": 1, "out": HIDDEN, "up": 2 * INNER}),
        ("qkv_proj_offloaded", {"attention": 1, "out": HIDDEN, "up": 2 * INNER}),
        ("save_out_proj", {"qkv": QUERY + 2 * KEY, "attention": 1, "up": 2 * INNER}),
        ("save_dot_except_mlp", {"attention": 1, "up": 2 * INNER}),
        ("save_dot_except_mlpwi", {"attention": 1, "up": 2 * INNER}),
        ("save_dot_with_context_except_mlp", {"up": 2 * INNER}),
        ("minimal", {"attention": 1}),
        ("selective", {"attention": 1}),
        ("minimal_offloaded", {"attention": 1}),
        ("minimal_with_context", {}),
    ],
)
def test_a_policy_runs_again_what_it_does_not_keep(policy: str, run_again: dict[str, float]) -> None:
    """MaxText, layers/decoders.py (commit e591f30c), get_remat_policy; nothing reads what the down projection made."""
    assert again(policy) == run_again


def test_names_choose_single_results() -> None:
    """Queries that are kept leave keys and values of their product; one of two up projections is half of it."""
    made = again("custom", keep=("query_proj", "mlpwi_0"), to_host=("out_proj",))
    assert made == {"qkv": 2 * KEY, "attention": 1, "up": INNER}


def test_a_norm_behind_the_feed_forward_layer_reads_its_result() -> None:
    """Gemma 3 norms what both halves of a layer made: the down projection is run again."""
    assert again("full", "gemma-3-27b", dp=64.0)["down"] == 5376
    assert "down" not in again("custom", "gemma-3-27b", keep=("mlpwo",))


def test_bytes_that_are_held() -> None:
    """Tokens x width x 2 bytes of each result, on the device or in the host's memory; the input is always held somewhere."""
    held = block("qkv_proj_offloaded")
    assert held.saved.value == 2 * TOKENS * HIDDEN
    assert held.hosted is not None
    assert held.hosted.value == 2 * TOKENS * (QUERY + 2 * KEY)
    moved = block("custom", to_host=("decoder_layer_input", "mlpwi"))
    assert moved.saved.value == 0
    assert moved.hosted is not None
    assert moved.hosted.value == 2 * TOKENS * (HIDDEN + 2 * INNER)
    assert block("custom", keep=("mlpwo",)).saved.value == 2 * TOKENS * HIDDEN, "nothing reads what the down projection made"
    context = block("custom", keep=("context",))
    assert context.saved.value == 2 * TOKENS * (HIDDEN + QUERY) + 4 * TOKENS * 64


def figures(recompute: str, on: str = ON, **given: Any) -> TrainingFigures:
    return training_figures(subject(MODEL, on, "maxtext"), plan(recompute, **given))


def test_what_is_kept_is_paid_in_memory_and_what_is_not_in_time() -> None:
    """From everything run again to nothing but element-wise work, time falls and memory grows."""
    order = ("full", "save_qkv_proj", "save_dot_except_mlp", "minimal", "minimal_with_context")
    made = [figures(name).figures for name in order]
    times = [float(one["step_time_s"].value) for one in made]
    sizes = [float(one["peak_memory_bytes"].value) for one in made]
    assert times == sorted(times, reverse=True)
    assert sizes == sorted(sizes)
    assert made[0]["hfu"].value > made[-1]["hfu"].value == pytest.approx(made[-1]["mfu"].value)


def test_the_hosts_memory_spares_the_devices_and_costs_the_link() -> None:
    """What waits in the host's memory crosses its link twice for each layer: exposed where that takes longer than computing."""
    kept, hosted = figures("minimal"), figures("minimal_offloaded")
    assert hosted.figures["peak_memory_bytes"].value < 0.7 * kept.figures["peak_memory_bytes"].value
    waits = {
        part.name: float(part.value)
        for _, parts in hosted.time.stages.values()
        for part in parts.values()
        if "offload" in part.name
    }
    traffic = LAYERS * 2 * TOKENS * (QUERY + 2 * KEY + HIDDEN + 2 * INNER)
    step = float(kept.figures["step_time_s"].value)
    assert 2 * traffic / 15e9 - step < sum(waits.values()) < 2 * traffic / 15e9


def test_other_engines_take_names_too() -> None:
    """Without a compiler that drops what nobody reads, full recomputation runs all of a layer again."""
    made = subject(MODEL, "64xh100-sxm-80gb", "megatron-lm")
    assert step_pricer(made, plan("full")).work.blocks["layer"].again is None
    named = step_pricer(made, plan("save_dot_except_mlp")).work.blocks["layer"].again
    assert named is not None
    assert {op.role for op in named.ops if isinstance(op.item, Matmul)} == {Role.UP}


def test_bad_names_are_refused() -> None:
    with pytest.raises(PlanError) as error:
        train(TrainAsk(model=MODEL, on=ON, recompute="full", keep=("context",), to_host=("context",)))
    assert {one.code for one in error.value.problems} == {"plan.named-results", "plan.named-twice"}
    assert policy_of("minimal") == "minimal"


def test_every_policy_is_made_of_known_names() -> None:
    for keep, host in (*POLICIES.values(), *ALSO_CALLED.values()):
        assert {*keep, *host} <= set(RESULTS)
    assert all(remat_of(plan(name)) is not None for name in (*POLICIES, *ALSO_CALLED))


def test_policies_of_jax_and_praxis_keep_what_theirs_do() -> None:
    """praxis/layers/checkpoint_policy.py, custom_policy, and jax.checkpoint_policies, in the names that MaxText has for results."""
    assert remat_of(plan("nothing_saveable")) == remat_of(plan("full"), drops_unread=True)
    assert remat_of(plan("checkpoint_dots_with_no_batch_dims")) == remat_of(plan("minimal"))
    assert remat_of(plan("save_dot_for_mlperf_200b")) == remat_of(plan("save_dot_with_context_except_mlp"))
    less, more = (remat_of(plan(name)) for name in ("save_dot_except_logits_ffn1", "save_dot_except_logits"))
    assert less is not None
    assert more is not None
    assert more.kept - less.kept == {"gate", "up", "expert_gate", "expert_up"}


def test_int8_multiplies_twice_as_fast_and_sends_as_much() -> None:
    """On TPUs int8 runs at twice the rate of bf16; weights are rounded after they are gathered, so that as many bytes travel."""
    made = subject(MODEL, "tpu-v6e-64", "maxtext")
    wide, narrow = (training_figures(made, plan("full", precision=one)) for one in ("bf16", "int8"))
    parts = [
        {part.name: float(part.value) for _, parts in one.time.stages.values() for part in parts.values()} for one in (wide, narrow)
    ]
    assert 0.5 < parts[1]["step.matmuls"] / parts[0]["step.matmuls"] < 1
    assert parts[1]["step.attention"] == parts[0]["step.attention"]
    assert narrow.memory.peak.value == wide.memory.peak.value
