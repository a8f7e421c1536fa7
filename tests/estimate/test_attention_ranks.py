"""Ranks of attention that share the experts of a replica: what they hold, what travels between them, and what they wait for."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError
from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered

ONE_NODE: dict[str, Any] = {
    "on": "8xh200", "engine": "vllm", "prompt": 1000, "output": 1000, "batch": 256, "pp": 1, "expert_exchange": "gathered",
    "redundant_experts": 0, "overlap_batches": False,
}  # fmt: skip
FOUR_NODES: dict[str, Any] = {**ONE_NODE, "on": "4x8xh200", "engine": "sglang", "batch": 1024, "tp": 1, "attention_dp": 32}


def served(model: str = "deepseek-v3", **given: Any) -> Estimate:
    made = answered("serve", {"model": model, **given}, advise=False, keep=True)
    assert isinstance(made, Estimate)
    return made


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


def part(made: Estimate, name: str) -> float:
    found = made.find(name)
    return 0.0 if found is None else float(found.value)


def test_latents_are_held_once_where_attention_has_ranks_of_its_own() -> None:
    """Under tensor parallelism every rank holds the latents of all requests; ranks of attention hold those of their own."""
    whole, apart = served(**ONE_NODE, tp=8, ep=8), served(**ONE_NODE, tp=1, attention_dp=8)
    each = figure(whole, "kv_cache_bytes_per_sequence")
    assert figure(apart, "kv_cache_bytes_per_sequence") == pytest.approx(each)
    assert part(whole, "memory.kv_cache") == pytest.approx(8 * part(apart, "memory.kv_cache"))
    # What it costs: the weights of attention are whole on every rank.
    assert figure(apart, "weights_bytes") > figure(whole, "weights_bytes")


def test_replicas_that_name_ep_over_all_of_them_are_ranks_of_attention() -> None:
    named, spread = served(**ONE_NODE, tp=1, attention_dp=8), served(**ONE_NODE, tp=1, dp=8, ep=8)
    for name in ("tpot_s", "itl_s", "ttft_s", "tokens_per_s", "weights_bytes", "max_sequences"):
        assert figure(named, name) == figure(spread, name), name


def test_prompts_are_summed_where_the_engine_has_no_gather_for_uneven_ranks() -> None:
    """SGLang gathers prompts by all-reduces, which move twice as much; vLLM gathers and scatters, as both do in decode steps."""
    ranks = {**ONE_NODE, "tp": 1, "attention_dp": 8, "ep": 8, "prompt": 4096}
    summed, gathered = served(**{**ranks, "engine": "sglang"}), served(**ranks)
    ratio = part(summed, "prefill.expert_parallel") / part(gathered, "prefill.expert_parallel")
    assert 1.6 < ratio < 2.4
    assert part(summed, "decode.expert_parallel") == pytest.approx(part(gathered, "decode.expert_parallel"), rel=0.05)


def test_nothing_travels_to_experts_where_every_rank_has_every_token() -> None:
    made = served(**ONE_NODE, tp=8, ep=8)
    assert part(made, "decode.tensor_parallel") > 0.0
    assert part(made, "decode.expert_parallel") == 0.0


@pytest.mark.parametrize(("ep", "ways"), [(8, 1), (4, 2), (2, 4), (1, 8)])
def test_experts_are_cut_over_the_ranks_that_hold_no_others(ep: int, ways: int) -> None:
    made = served(**{**ONE_NODE, "engine": "sglang"}, tp=1, attention_dp=8, ep=ep)
    assert part(made, "plan.etp") == ways
    # However they are cut, a rank holds an eighth of all experts.
    assert figure(made, "weights_bytes") == pytest.approx(
        figure(served(**{**ONE_NODE, "engine": "sglang"}, tp=1, attention_dp=8, ep=8), "weights_bytes"), rel=1e-3
    )


def test_redundant_experts_take_their_memory_and_even_the_load() -> None:
    # Where few rows come to an expert its weights take the time, and one more of them costs more than even ranks save.
    apart = {**FOUR_NODES, "ep": 32, "batch": 8192, "expert_exchange": "all-to-all"}
    plain, doubled = served(**apart), served(**{**apart, "redundant_experts": 32})
    # 58 layers of 3 matrices of 7168 x 2048 in fp8: 44 MB an expert, of which each of 32 ranks holds one more.
    more = figure(doubled, "weights_bytes") - figure(plain, "weights_bytes")
    assert more == pytest.approx(58 * 3 * 7168 * 2048, rel=0.01)
    assert figure(doubled, "itl_s") < figure(plain, "itl_s")


def test_a_count_of_ranks_that_divides_experts_only_with_their_copies() -> None:
    """256 experts and 32 that are held twice lie on 72 ranks, four each, as in SGLang's deployment on 96 H100."""
    wide = {**FOUR_NODES, "on": "9x8xh100", "attention_dp": 72, "batch": 4608, "ep": 72}
    assert part(served(**{**wide, "redundant_experts": 32}), "plan.ep") == 72
    with pytest.raises(PlanError, match="ep = 72 does not divide the 256 experts"):
        served(**wide)


def test_copies_are_sent_in_the_type_that_is_multiplied_and_come_back_in_16_bits() -> None:
    made = served(**{**FOUR_NODES, "expert_exchange": "all-to-all"})
    sent, back = made.find("decode.moe.experts.sent_bytes"), made.find("decode.moe.experts.returned_bytes")
    assert sent is not None
    assert back is not None
    assert float(back.value) == pytest.approx(2 * float(sent.value), rel=0.05)


def test_gathering_grows_with_the_ranks_and_sending_does_not() -> None:
    """All tokens to all is twice as much between twice the ranks; the copies that a rank sends are those of its own tokens."""
    twice = {**FOUR_NODES, "on": "8x8xh200", "attention_dp": 64, "batch": 2048}
    for way, name, growth in (("gathered", "gathered_tokens", 2.0), ("all-to-all", "own_copies", 1.0)):
        few, many = served(**{**FOUR_NODES, "expert_exchange": way}), served(**{**twice, "expert_exchange": way})
        assert part(many, f"decode.moe.experts.{name}") == pytest.approx(growth * part(few, f"decode.moe.experts.{name}"))


def test_one_request_has_the_experts_of_all_ranks_for_itself() -> None:
    """Other ranks of attention are idle: its experts see its tokens, and no more of them than those of one rank."""
    made = served(**{**FOUR_NODES, "expert_exchange": "all-to-all"})
    assert part(made, "prefill.expert_tokens_of_one") == pytest.approx(1000 / 32)


def test_ranks_wait_for_the_prompts_of_others_unless_the_engine_aligns_them() -> None:
    alone = served(**{**ONE_NODE, "engine": "vllm"}, tp=8, ep=8)
    shared = served(**{**ONE_NODE, "engine": "vllm"}, tp=1, attention_dp=8)
    aligned = served(**{**ONE_NODE, "engine": "tensorrt-llm"}, tp=1, attention_dp=8)
    assert part(alone, "decode.passes_waited_for") == 0.0
    # 32 requests of 1000 tokens on each of 8 ranks: one begins in 3.2 % of the steps of each, in 22.9 % of all together.
    assert part(shared, "decode.passes_waited_for") == pytest.approx((1 - 0.968**8) / 0.032)
    assert part(aligned, "decode.passes_waited_for") == 0.0


def test_ranks_with_unlike_numbers_of_prompt_tokens_gather_them_more_slowly_and_tell_each_other_on_their_hosts() -> None:
    """No switch serves a broadcast of each rank's tokens; a step that only decodes has as many of each, in a graph."""
    given = {**ONE_NODE, "engine": "tensorrt-llm", "tp": 1, "attention_dp": 8}
    made, alone = served(**given), served(**{**given, "attention_dp": 1, "tp": 8, "ep": 8})
    ratio, host, step = (part(made, f"engine.{name}") for name in ("uneven_exchange", "rank_host", "step_host"))
    assert ratio > 1.0
    assert host > 0.0
    even, uneven = (part(made, f"prefill.pass.expert_parallel{end}") for end in ("", ".uneven"))
    assert uneven == pytest.approx(ratio * even)
    assert part(made, "decode.expert_parallel.uneven") == 0.0
    assert part(made, "decode.host") == pytest.approx(step + host)
    assert part(alone, "engine.rank_host") == 0.0
    other = served(**{**given, "on": "8xb200"})
    assert part(other, "engine.uneven_exchange") == part(other, "engine.rank_host") == 0.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"attention_dp": 3}, "attention-dp 3 does not divide the 8 accelerators"),
        ({"attention_dp": 8, "engine": "llama-cpp"}, "has no ranks of attention that share experts"),
        ({"attention_dp": 8, "model": "llama-3.1-8b"}, "has no experts to share"),
        ({"redundant_experts": 8, "engine": "llama-cpp", "tp": 1}, "holds no experts twice"),
        ({"attention_dp": 8, "redundant_experts": 512}, "512 experts are held twice, but the model has 256"),
        ({"attention_dp": 8, "tp": 1, "dp": 2}, "accelerators"),
        ({"attention_dp": 4, "tp": 2, "ep": 3}, "ep = 3 does not divide"),
    ],
)  # fmt: skip
def test_what_no_engine_can_do_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        served(**{"model": "deepseek-v3", **ONE_NODE, **given})


LARGE: dict[str, Any] = {
    "model": "deepseek-v3", "on": "9x8xh100", "prefill_on": "4x8xh100", "engine": "sglang", "tp": 1, "attention_dp": 72,
    "redundant_experts": 32, "expert_exchange": "all-to-all", "prefill_tp": 1, "prefill_attention_dp": 32, "prompt": 2000,
    "output": 100, "prefill_workers": 1, "decode_workers": 1, "batch": 72 * 256,
}  # fmt: skip


def test_sglang_on_96_h100_is_met_with_two_batches_by_turns() -> None:
    """22.3k output tokens a second for a node of 9 that decode, 256 requests on each GPU; 52.3k of prompts for one of 4 that read.

    SGLang, "Deploying DeepSeek with PD disaggregation and large-scale expert parallelism on 96 H100 GPUs", May 2025: nothing was
    fitted to it.
    """
    made = answered("serve", {**LARGE, "overlap_batches": True}, advise=False, keep=True)
    assert 72 * 256 / figure(made, "tpot_s") / 9 == pytest.approx(22.3e3, rel=0.1)
    # Prompts set the pace of one worker each.
    assert figure(made, "prefill_utilization") == pytest.approx(1.0)
    assert figure(made, "requests_per_s") * 2000 / 4 == pytest.approx(52.3e3, rel=0.2)


def test_batches_by_turns_hide_what_travels_and_read_weights_twice() -> None:
    plain, turns = (answered("serve", {**LARGE, "overlap_batches": on}, advise=False, keep=True) for on in (False, True))
    assert figure(turns, "tpot_s") < figure(plain, "tpot_s")
    few = {**LARGE, "batch": 72 * 2}
    plain, turns = (answered("serve", {**few, "overlap_batches": on}, advise=False, keep=True) for on in (False, True))
    assert part(turns, "decode.both.matmuls") > part(plain, "decode.matmuls")


def test_there_is_nothing_to_overlap_without_ranks_of_attention() -> None:
    with pytest.raises(PlanError, match="no tokens travel to experts"):
        served(**{**ONE_NODE, "overlap_batches": True, "expert_exchange": "all-to-all"}, tp=8, ep=8)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"overlap_batches": True}, "wants tokens that are sent"),
        ({"overlap_batches": True, "expert_exchange": "all-to-all", "engine": "tensorrt-llm"}, "does not run two micro-batches"),
        ({"expert_exchange": "all-to-all", "on": "8xa100-sxm-80gb"}, "no kernels that send tokens"),
        ({"expert_exchange": "all-to-all", "engine": "sglang", "ep": 4}, "cuts them over 2 ranks"),
        ({"ep": 4}, "over all 8 ranks of a replica"),
        ({"redundant_experts": 8, "ep": 1}, "use --ep 2 or more"),
    ],
)  # fmt: skip
def test_what_an_engine_cannot_do_with_ranks_of_attention_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as error:
        served(**{"model": "deepseek-v3", **ONE_NODE, "tp": 1, "attention_dp": 8, **given})
    assert any(said in problem.message or said in problem.hint for problem in error.value.problems)


def test_replicas_that_would_keep_a_rate_have_all_their_ranks() -> None:
    made = answered(
        "serve", {"model": "deepseek-v3", **ONE_NODE, "batch": None, "tp": 1, "attention_dp": 8, "rate": 1e9}, advise=False
    )
    most = figure(made, "highest_rate_per_s")
    needed = int(1e9 / most) + 1
    assert "by 1 replica, whose caches hold" in made.verdict.headline
    assert f"{needed:,} replicas keep it, {8 * needed:,} accelerators" in made.verdict.headline


def test_prompts_that_add_nothing_to_a_step_are_no_error() -> None:
    """Two micro-batches that each read all weights may take longer than a step with a prompt."""
    given = {"model": "deepseek-v3", "on": "128xh200", "rate": 500.0, "tp": 2, "attention_dp": 32, "overlap_batches": True}
    made = answered("serve", {**given, "redundant_experts": 0, "decode_cp": 1}, advise=False)
    assert figure(made, "ttft_s") > 0.0


def test_a_pipeline_waits_for_the_prompts_of_each_of_its_passes() -> None:
    """Four stages run four parts of a batch, which read their prompts at unlike times: ranks wait as those of four replicas do."""
    rate: dict[str, Any] = {
        "on": "gb200-nvl72", "engine": "vllm", "prompt": 1024, "output": 256, "rate": 500.0, "attention_dp": 18,
        "overlap_batches": False, "redundant_experts": 16,
    }  # fmt: skip
    staged, apart = served("gpt-oss-120b", **rate, pp=4), served("gpt-oss-120b", **rate, pp=1)
    assert figure(staged, "itl_s") == pytest.approx(figure(apart, "itl_s"), rel=0.15)
    assert figure(staged, "tpot_s") == pytest.approx(figure(apart, "tpot_s"), rel=0.15)
