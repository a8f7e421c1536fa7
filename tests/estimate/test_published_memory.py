"""Peak memory of fine-tuning recipes, flag by flag, against what their makers printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train

GIB = 2**30
ENGINES = Path(__file__).resolve().parents[2] / "hardware_specs" / "engines"
CHUNKED: dict[str, Any] = {"compiled": True, "chunked_loss": True}
CHECKPOINTED: dict[str, Any] = CHUNKED | {"recompute": "full"}
ADAPTED: dict[str, Any] = CHECKPOINTED | {"lora": 8, "lora_targets": "qv", "offload": ("activations",)}


@pytest.mark.parametrize(
    ("printed", "given"),
    [
        (60.0, {"recompute": "none", "compiled": False}),
        (51.0, {"recompute": "none", "compiled": True}),
        (42.9, {"recompute": "none", **CHUNKED}),
        (24.9, CHECKPOINTED),
        (23.1, CHECKPOINTED | {"step_in_backward": True}),
        (21.8, CHECKPOINTED | {"step_in_backward": True, "offload": ("activations",)}),
        (8.5, ADAPTED),
        (4.6, ADAPTED | {"base_weights": "nf4-dq"}),
    ],
)
def test_each_flag_of_torchtune_takes_what_its_readme_says(printed: float, given: dict[str, Any]) -> None:
    # meta-pytorch/torchtune bd2a0fc7, README, Optimization flags: Llama 3.2 3B on an A100, 2 packed sequences of 4096 in bf16,
    # peak memory active in GiB; each flag on top of the one before, LoRA and QLoRA with AdamW.
    # What its recipes switch on besides is off where the table does not name it.
    off: dict[str, Any] = {"chunked_loss": False, "step_in_backward": False, "optimizer": "adamw", "offload": ()}
    ask = TrainAsk(
        model="llama-3.2-3b", on="1xa100-sxm-80gb", engine="torchtune", precision="bf16-pure", seq_len=4096, global_batch=2,
        micro_batch=2, tp=1, pp=1, cp=1, **off | given,
    )  # fmt: skip
    tensors: Any = train(ask).figures["allocated_memory_bytes"].value
    assert float(tensors) / GIB == pytest.approx(printed, rel=0.04)


@pytest.mark.parametrize(
    ("model", "micro", "printed"), [("llama-2-7b", 2, 52092), ("llama-2-13b", 1, 64294), ("baichuan2-7b", 2, 58363)]
)
def test_paddle_copies_what_tensor_parallel_ranks_multiply(model: str, micro: int, printed: int) -> None:
    # PaddleNLP 03f3eb2a, llm/docs/pretrain.rst: 8 A100, tp2sd4_stage2, 4,096 tokens, MiB of max_memory_allocated. c_identity copies
    # the input of queries, keys, values, gate and up; one rank alone copies nothing, and keeps less of a layer than half as much.
    ask: dict[str, Any] = {
        "model": model, "on": "8xa100-sxm-80gb", "engine": "paddlenlp", "seq_len": 4096, "micro_batch": micro, "global_batch": 64,
        "pp": 1, "cp": 1, "zero_stage": 2, "recompute": "none",
    }  # fmt: skip
    cut, whole = (train(TrainAsk(**ask, tp=tp)) for tp in (2, 1))
    tensors: Any = cut.figures["allocated_memory_bytes"].value
    assert float(tensors) / 2**20 == pytest.approx(printed, rel=0.11)
    shared = train(TrainAsk(**ask | {"engine": "internevo"}, tp=1))
    kept = {name: float(parts(one)["activations"]) for name, one in (("cut", cut), ("whole", whole), ("shared", shared))}
    card = {"llama-2-7b": (32, 4096, 11008), "llama-2-13b": (40, 5120, 13824), "baichuan2-7b": (32, 4096, 11008)}[model]
    layers, hidden, inner = card
    wide = 2 * 4096 * micro * layers
    assert kept["whole"] - kept["shared"] == pytest.approx(wide * inner)  # the result of silu, and no copies
    assert kept["cut"] - kept["whole"] / 2 == pytest.approx(wide * (3 + 2) * hidden, rel=0.02)  # 4 of norms are whole on each


def test_copied_inputs_take_time_too(tmp_path: Path) -> None:
    """Five matrices read copies (4 bytes a value), and the gradients of three copies are added (6): 38 for each value and layer."""
    ask: dict[str, Any] = {
        "model": "llama-2-7b", "on": "2xa100-sxm-80gb", "seq_len": 4096, "micro_batch": 2, "global_batch": 2, "tp": 2, "pp": 1,
        "cp": 1, "recompute": "none",
    }  # fmt: skip
    profile = (ENGINES / "paddlenlp.yaml").read_text(encoding="utf-8")
    own = profile.replace("id: paddlenlp", "id: paddlenlp-shared").replace("    inputs: copied\n", "")
    own = re.sub(r"^aliases: .*\n", "", own, flags=re.MULTILINE)
    assert "inputs: copied" not in own
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "paddlenlp-shared.yaml").write_text(own, encoding="utf-8")
    copied, shared = (
        float(parts(train(TrainAsk(**ask, engine=engine, specs=(tmp_path,))), "time")["elementwise"])
        for engine in ("paddlenlp", "paddlenlp-shared")
    )
    assert copied - shared == pytest.approx(32 * 8192 * 4096 * 38 / 1.75e12, rel=0.15)


def test_nanotron_kept_whole_what_it_gathered_until_july_2024() -> None:
    # nanotron 6ad59948, tensor_parallel/functional.py, column_linear: an operation gathers, and F.linear keeps what it is given,
    # for queries, keys and values once and for gate and up projection once: 7 of 8 parts of 2 x 2 bytes a value and layer. Pull
    # request 203 (2024-08-02) gathers again.
    ask: dict[str, Any] = {
        "model": "llama-2-7b", "on": "8xh100-sxm-80gb", "seq_len": 4096, "micro_batch": 1, "global_batch": 8, "tp": 8, "pp": 1,
        "cp": 1, "recompute": "none",
    }  # fmt: skip
    then, now, alone = (
        float(parts(train(TrainAsk(**ask | more, engine=engine)))["activations"])
        for engine, more in (("nanotron@2024-07", {}), ("nanotron", {}), ("nanotron@2024-07", {"sequence_parallel": False}))
    )
    assert then - now == pytest.approx(7 / 8 * 2 * 2 * 4096 * 4096 * 32)
    assert alone == float(parts(train(TrainAsk(**ask, sequence_parallel=False, engine="nanotron")))["activations"])


def parts(made: Any, what: str = "memory") -> Any:
    """The parts of the memory of an estimate, or of its time."""
    whole = next(one for one in made.breakdowns if one.title.startswith(what))
    return {name: term.value for name, term in whole.named.items()}


@pytest.mark.parametrize(("engine", "made"), [("internevo@2023-11", 14.0), ("internevo", 6.0)])
@pytest.mark.parametrize("recompute", ["full", "none"])
def test_the_step_of_the_optimizer_is_a_moment_of_its_own(engine: str, made: float, recompute: Any) -> None:
    # InternEvo 06e8301, hybrid_zero_optim.py, _step: flat gradients in 16 and in 32 bits, and two temporaries of torch 1.13's
    # AdamW, all gone before the next forward pass, whose activations take their place or more.
    ask = TrainAsk(
        model="llama-3.1-8b", on="4xa800-sxm-80gb", engine=engine, seq_len=2048, global_batch=4, micro_batch=1, tp=1, pp=4, cp=1,
        vpp=1, recompute=recompute,
    )  # fmt: skip
    estimate = train(ask)
    whole = next(one for one in estimate.breakdowns if one.title.startswith("memory"))
    parts: Any = {name: float(term.value) for name, term in whole.named.items()}
    states = sum(parts[name] for name in ("weights", "gradients", "optimizer"))
    passing = parts["activations"] + parts.get("transient", 0.0)
    assert parts["widened_gradients"] == pytest.approx(max(made * states / 16 - passing, 0.0))


@pytest.mark.parametrize(("pp", "stage", "each"), [(1, 1, 2.0), (1, 0, 6.0), (2, 1, 6.0)])
def test_deepspeed_sums_bf16_gradients_in_fp32_for_pipelines_and_where_nothing_is_sharded(pp: int, stage: int, each: float) -> None:
    # deepspeedai/DeepSpeed pull 4713: the bf16 wrapper sums in fp32, ZeRO's own optimizer, which no pipeline can use, in 16 bits.
    # FlagPerf 1b5a0303, llama2_7b-megatron-deepspeed: 63 GiB on each of 8 A800 (bf16, one sequence at a time, nothing run again).
    asked = TrainAsk(
        model="llama-2-7b", on="8xa800-sxm-80gb", engine="megatron-deepspeed", seq_len=4096, global_batch=256, micro_batch=1, tp=1,
        pp=pp, zero_stage=stage, recompute="full", attention="flash2",
    )  # fmt: skip
    parts = _parts(asked)
    assert parts["gradients"] / parts["weights"] == pytest.approx(each / 2.0)
    if (pp, stage) == (1, 1):
        peak: Any = train(asked.replaced(recompute="none")).figures["peak_memory_bytes"].value
        assert float(peak) / GIB == pytest.approx(63.0, rel=0.08)


def _parts(ask: TrainAsk) -> dict[str, float]:
    """The parts of the memory of the most loaded rank."""
    whole: Any = next(one for one in train(ask).breakdowns if one.title.startswith("memory"))
    return {name: float(term.value) for name, term in whole.named.items()}


@pytest.mark.parametrize(("seq_len", "printed"), [(512, 73.37), (1024, 73.64), (2048, 74.26), (4096, 78.76)])
def test_a_step_over_lists_of_tensors_takes_the_place_of_what_the_allocator_keeps(seq_len: int, printed: float) -> None:
    # modelscope/ms-swift cdb169b78, Benchmark.md, Full: Qwen 7B in bf16 on an A100, PyTorch 2.1.1, reserved memory in GiB. Weights,
    # gradients, moments and the square roots of one of them are five copies of the model: 71.9 GiB, however short the samples are.
    ask = TrainAsk(
        model="qwen-7b", on="1xa100-sxm-80gb", engine="ms-swift@2023-11", precision="bf16-pure", seq_len=seq_len, global_batch=16,
        micro_batch=1, recompute="full",
    )  # fmt: skip
    reserved: Any = train(ask).figures["reserved_memory_bytes"].value
    assert float(reserved) / GIB == pytest.approx(printed, rel=0.03)
    assert _parts(ask)["update_temporaries"] > 0
    assert _parts(ask.replaced(engine="ms-swift@2025-09"))["update_temporaries"] == 0


@pytest.mark.parametrize(("zero_stage", "stepped"), [(1, 6.74e9 / 2), (2, 6.74e9 / 2), (3, 1e9)])
def test_deepspeed_widens_the_gradients_of_a_shard_or_of_a_sub_group(zero_stage: Any, stepped: float) -> None:
    # DeepSpeed edaa72212, stage_1_and_2.py and stage3.py, step: a flat copy in 16 bits, and that in fp32.
    parts = _parts(
        TrainAsk(
            model="llama-2-7b", on="2xh200", engine="deepspeed", seq_len=256, global_batch=2, micro_batch=1, recompute="full",
            zero_stage=zero_stage, tp=1, pp=1, cp=1,
        )
    )  # fmt: skip
    passing = parts["activations"] + parts["transient"]
    assert parts["widened_gradients"] + passing == pytest.approx(6 * stepped, rel=0.01)


@pytest.mark.parametrize(("pp", "ends"), [(4, (8, 8)), (5, (6, 7)), (6, (5, 6))])
def test_internevo_gives_layers_left_over_to_its_last_stages(pp: int, ends: tuple[int, int]) -> None:
    # InternEvo 06e8301, pipeline_utils.py, partition_uniform: 32 layers on 6 stages are 5, 5, 5, 5, 6, 6.
    estimate = train(TrainAsk(model="llama-3.1-8b", on=f"{pp}xa800-sxm-80gb", engine="internevo", tp=1, pp=pp, cp=1, vpp=1))
    assert tuple(term.value for name in ("first", "full") if (term := estimate.find(f"stage.{name}_layers"))) == ends
