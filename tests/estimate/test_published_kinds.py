"""More kinds of plans against what was published of them: schedules, exchanges of sequences, encoders, energy, states."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train
from tests.estimate.subjects import all_terms, subject, train_plan

SCHEDULES = ("1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe")


def made(model: str, on: str, engine: str = "megatron-lm", **given: Any) -> TrainingFigures:
    return training_figures(subject(model, on, engine), train_plan(**given))


def value(figures: TrainingFigures, name: str) -> float:
    """A term below the step time or the peak memory."""
    found = figures.time.step.find(name) or figures.memory.peak.find(name)
    assert found is not None, name
    return float(found.value)  # type: ignore[arg-type]


@pytest.mark.parametrize(("pp", "batch"), [(4, 12), (8, 24), (16, 48)])
def test_bubbles_of_schedules_are_the_published_shares(pp: int, batch: int) -> None:
    # sail-sg/zero-bubble-pipeline-parallelism 39f2c186, README, comparison of schedules, forward = input = weight gradient:
    # 1F1B (p-1)/(m+p-1) = B, ZB1P B/3, ZB2P and ZBV 0. deepseek-ai/DualPipe 3da1bbea, README: (PP/2-1)(F&B+B-3W), ZB1P
    # (PP-1)(F+B-2W); with F = W = 1, B = 2 and F&B = 3 that is PP - 2 and PP - 1 thirds of a micro-batch.
    idle = {}
    for schedule in SCHEDULES:
        found = made("opt-30b", f"{pp}xa100-sxm-80gb", pp=float(pp), global_batch=float(batch), schedule=schedule)
        # A stage waits while the others are passed, which take longer where they hold embedding or head.
        passed = "other_stages" if schedule in ("1f1b", "gpipe") else "micro"
        idle[schedule] = value(found, "middle_stage.step.bubble") / value(found, f"middle_stage.step.{passed}")
    assert idle["1f1b"] == idle["gpipe"] == pytest.approx(pp - 1)
    assert idle["1f1b"] / (batch + idle["1f1b"]) == pytest.approx((pp - 1) / (batch + pp - 1))
    assert idle["zb-h1"] == pytest.approx((pp - 1) / 3)
    assert idle["zb-h2"] == idle["zb-v"] == 0
    assert idle["dualpipe"] == pytest.approx((pp - 2) / 3)


def test_schedules_send_as_much_as_published() -> None:
    # The same README: pipeline communication 1 x of 1F1B for ZB1P and ZB2P, 2 x for ZBV.
    sent = {name: value(made("opt-30b", "16xa100-sxm-80gb", tp=2.0, pp=8.0, schedule=name), "middle_stage.step.pipeline_send")
            for name in SCHEDULES}  # fmt: skip
    assert sent["zb-v"] == pytest.approx(2 * sent["1f1b"])
    assert {sent[name] for name in SCHEDULES if name not in ("zb-v", "dualpipe")} == {sent["1f1b"]}
    # arXiv 2412.19437, 3.2.1: DualPipe sends as much and hides it beside another micro-batch.
    assert sent["dualpipe"] < sent["1f1b"]


def test_zero_bubble_gains_what_its_paper_measured() -> None:
    # arXiv 2401.10241, abstract: up to 23 % more than 1F1B in the same memory, 31 % where memory is relaxed; its models have as
    # many stages as GPUs, three micro-batches for each, and a layer less on the first and the last stage (5.1), as 48 on 10 have.
    times = {name: float(made(
        "opt-30b", "10xa100-sxm-80gb", pp=10.0, global_batch=30.0, seq_len=1024.0, schedule=name
    ).time.step.value) for name in SCHEDULES}  # fmt: skip
    gain = {name: times["1f1b"] / seconds - 1 for name, seconds in times.items()}
    assert gain["gpipe"] == 0
    assert 0.12 < gain["zb-h1"] < gain["zb-v"] <= 0.33
    assert gain["zb-h2"] == pytest.approx(0.31, abs=0.04)


def test_interleaving_divides_the_bubble_and_multiplies_the_hand_overs() -> None:
    # arXiv 2104.04473, 2.2.2: the bubble is 1/v of that of 1F1B, communication v times as much.
    plain, cut = (made("gpt-3-175b", "64xa100-sxm-80gb", tp=8.0, pp=8.0, vpp=v) for v in (1.0, 3.0))
    for found, idle in ((plain, 7), (cut, 7 / 3)):
        passed = value(found, "middle_stage.step.other_stages")
        assert value(found, "middle_stage.step.bubble") / passed == pytest.approx(idle)
    assert value(cut, "middle_stage.step.pipeline_send") == pytest.approx(3 * value(plain, "middle_stage.step.pipeline_send"))


def test_only_interleaved_stages_overlap_their_hand_overs_unasked() -> None:
    # Megatron Bridge 0685ff5d, training/comm_overlap.py: overlap_p2p_comm where vp_size > 1, batch_p2p_comm where it is not.
    def exposed(vpp: float) -> float:
        found = made("gpt-3-175b", "64xa100-sxm-80gb", "nemo", tp=8.0, pp=8.0, vpp=vpp)
        whole = found.time.step.find("middle_stage.step.micro.pipeline_send.all")
        sent = found.time.step.find("middle_stage.step.micro.pipeline_send")
        assert whole is not None
        assert sent is not None
        return float(sent.value) / float(whole.value)  # type: ignore[arg-type]

    assert exposed(1.0) == 1
    assert exposed(3.0) == pytest.approx(0.2)


def test_a_head_delays_each_micro_batch_of_its_stage_and_fills_the_pipeline_no_longer() -> None:
    # Stages of 1F1B, one after the other: p - 1 stages are filled and drained once, the slowest works on all m micro-batches.
    found = made("gpt-3-175b", "64xa100-sxm-80gb", tp=8.0, pp=8.0, global_batch=64.0)
    first, middle, last = (value(found, f"{place}_stage.step.micro") for place in ("first", "middle", "last"))
    assert last > middle
    assert value(found, "last_stage.step.bubble") == pytest.approx(first + 6 * middle)
    assert value(found, "middle_stage.step.bubble") == pytest.approx(first + 5 * middle + last)


def test_scores_of_many_keys_pass_softmax_in_kernels_of_their_own() -> None:
    # Megatron-LM v2.5, FusedScaleMaskSoftmax: one kernel up to 2,048 keys; beyond, 14 bytes a score in 16 bits, 42 in fp32, and
    # 16 and 46 backward.
    def scores(seq_len: int) -> float:
        found = made("gpt-neo-1.3b", "8xa100-sxm-80gb", engine="megatron-2021", seq_len=float(seq_len))
        return (
            sum(float(one.value) for one in all_terms({"step": found.time.step}) if one.name.endswith("score_bytes")) / seq_len**2
        )

    assert scores(4096) / scores(2048) == pytest.approx((28 + 31) / (9 + 11))


def test_gpt_3_takes_as_long_as_in_the_paper_on_recomputation() -> None:
    # arXiv 2205.05198, table 5: GPT-3 175B on 64 A100, tp 8, pp 8 in 3 chunks, batch 64: 13.75 s with selective recomputation
    # and sequence parallelism; its own row of the runs has the fit's 22B.
    ask = TrainAsk(
        model="gpt-3-175b", on="8xdgx-a100", engine="megatron-2021", tp=8, pp=8, vpp=3, micro_batch=1, global_batch=64,
        seq_len=2048, recompute="selective", attention="eager", precision="fp16", sequence_parallel=True,
    )  # fmt: skip
    found = train(ask)
    low, high = found.ranges["step_time_s"]
    assert float(found.figures["step_time_s"].value) == pytest.approx(13.75, rel=0.15)  # type: ignore[arg-type]
    assert low <= 13.75 <= high


@pytest.mark.parametrize("cp", [2, 4, 8])
def test_ulysses_sends_four_activations_of_its_part_of_the_sequence(cp: int) -> None:
    # arXiv 2309.14509, 3.2: each layer's all-to-alls send 4 N h / P elements a link, falling with P as N grows with it.
    found = made("llama-2-7b", f"{cp}xh100-sxm-80gb", cp=float(cp), cp_kind="ulysses", seq_len=32768.0, global_batch=1.0)
    exchange = found.time.step.find("step.layer.exchanged_bytes")
    assert exchange is not None
    assert float(exchange.value) == 4 * 32768 * 4096 / cp * 2  # type: ignore[arg-type]


def test_gathered_and_ring_exchange_the_keys_and_values_of_the_whole_sequence() -> None:
    # Ring Attention (arXiv 2310.01889, 3): blocks of keys and values go around, 2 h elements a token, whatever the ring's size.
    sizes = set()
    for cp in (2, 4, 8):
        for kind in ("ring", "all-gather"):
            found = made("llama-2-7b", f"{cp}xh100-sxm-80gb", cp=float(cp), cp_kind=kind, seq_len=32768.0, global_batch=1.0)
            sizes.add(value(found, "step.layer.kv_bytes"))
    assert sizes == {2 * 32768 * 4096 * 2}


def test_a_long_enough_ring_is_hidden_and_a_gather_is_not() -> None:
    # The same paper: where a block has more tokens than FLOP/s over bandwidth, its journey hides behind its attention.
    shown = {(kind, length): value(made(
        "llama-2-7b", "16xh100-sxm-80gb", cp=16.0, cp_kind=kind, seq_len=length, global_batch=1.0
    ), "step.context_parallel") for kind in ("ring", "all-gather") for length in (2048.0, 524288.0)}  # fmt: skip
    assert shown["ring", 524288.0] == 0
    assert shown["ring", 2048.0] > 0
    assert shown["all-gather", 524288.0] > 0


def test_what_is_run_again_is_exchanged_again() -> None:
    base: dict[str, Any] = {"cp": 16.0, "cp_kind": "all-gather", "seq_len": 65536.0, "global_batch": 1.0}
    none, full = (made("llama-2-7b", "16xh100-sxm-80gb", **base, recompute=kind) for kind in ("none", "full"))
    once = value(none, "layer.layer.context_parallel.once")
    assert full.time.step.find("layer.layer.recompute").find("layer.layer.context_parallel.once") is not None  # type: ignore[union-attr]
    assert value(none, "step.context_parallel") == pytest.approx(32 * 3 * once)
    assert value(full, "step.recompute") > 32 * once


def test_training_flop_of_t5_and_bert_as_the_paper_on_gpt_3_counts_them() -> None:
    # arXiv 2005.14165, table D.1: T5-11B takes 3 FLOP a parameter and token, as each token passes one of two halves (a token here
    # is one of each); BERT-Large takes 6, 5.33e20 for 355 M parameters and 250 B tokens.
    for model, params, each in (("t5-11b", 11.3e9, 3), ("bert-large", 303.3e6, 6)):
        found = made(model, "8xa100-sxm-80gb", dp=8.0, seq_len=512.0)
        weights = found.figures["mfu"].find("step.weight_flop")
        assert weights is not None
        tokens = 64.0 * 512 * (2 if each == 3 else 1)
        assert float(weights.value) / tokens / params == pytest.approx(each, rel=0.02)  # type: ignore[arg-type]


def test_bert_large_pretrains_about_as_fast_as_published() -> None:
    # NVIDIA/DeepLearningExamples 729963dd, PyTorch BERT, README: 8 A100 80 GB, fp16, sequences of 128, 256 a GPU, 32 accumulated:
    # 4,591 sequences/s. (Its sequences of 512 are binned by length.) Replicas of plain PyTorch, attention written out; TorchScript
    # fuses parts of it, so neither eager nor compiled is stated.
    ask = TrainAsk(
        model="bert-large", on="dgx-a100", dp=8, seq_len=128, global_batch=65536, micro_batch=256, precision="fp16", zero_stage=0,
        recompute="none", engine="fsdp", attention="eager",
    )  # fmt: skip
    found = train(ask)
    measured = 4591 * 128 / 8
    low, high = found.ranges["tokens_per_s_per_accelerator"]
    assert float(found.figures["tokens_per_s_per_accelerator"].value) == pytest.approx(measured, rel=0.1)  # type: ignore[arg-type]
    assert low <= measured <= high


@pytest.mark.parametrize(("length", "cp", "measured"), [(65536, 2, 4021), (262144, 8, 1214), (1048576, 32, 318)])
def test_nemo_of_early_2024_ran_long_sequences_by_flash_attention_2(length: int, cp: int, measured: float) -> None:
    # NVIDIA/NeMo 35029a0c, performance_summary.md: Llama 2 7B in fp8 on DGX-H100, container 24.03.01, tokens/s a GPU; the launcher
    # of that time switched cuDNN's attention off. No run with these kernels was fitted to.
    tp = 8 if length > 262144 else 4
    ask = TrainAsk(
        model="llama-2-7b", on=f"{length // 1024}xh100-sxm-80gb", engine="nemo@24.03", seq_len=length, micro_batch=1, tp=tp, cp=cp,
        pp=1, global_batch=4194304 // length, precision="fp8", zero_stage=1, sequence_parallel=True, overlap=("dp", "tp"),
        recompute="none",
    )  # fmt: skip
    then, now = (
        float(train(one).figures["tokens_per_s_per_accelerator"].value)  # type: ignore[arg-type]
        for one in (ask, ask.replaced(engine="nemo@25.04"))
    )
    assert then == pytest.approx(measured, rel=0.1)
    assert now > 1.3 * then


def test_energy_is_accelerator_time_at_rated_power_as_for_bloom() -> None:
    # arXiv 2211.02001, 4.2: 1,082,990 hours of A100 SXM at 400 W are 433,196 kWh.
    found = train(TrainAsk(model="bloom-176b", on="384xa100-sxm-80gb", tp=4, pp=12, dp=8, tokens=366e9, global_batch=2048)).figures
    hours = float(found["accelerator_time_s"].value) / 3600  # type: ignore[arg-type]
    assert float(found["energy_joules"].value) / 3.6e6 == pytest.approx(hours * 433196 / 1082990, rel=1e-6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("optimizer", "precision", "element"),
    [
        # ZeRO (arXiv 1910.02054, 3.1): fp32 weights, momentum and variance, K = 12. 8-bit Adam (2110.02861, 2): a byte for each
        # of two moments. Muon (2502.16982, 2.3) and Lion (2302.06675, 3): one moment. SGD with momentum: one. Adafactor
        # (1804.04235, 3): rows and columns in place of all.
        ("adamw", "bf16", 12.0),
        ("adamw", "fp16", 12.0),
        ("adamw-8bit", "bf16", 6.0),
        ("muon", "bf16", 8.0),
        ("lion", "bf16", 8.0),
        ("sgd", "bf16", 8.0),
        ("adafactor", "bf16", 4.0),
        # AdEMAMix (2409.03137, 3): three moments. Adam-mini (2406.16793): one. 4-bit states (2309.01507): half a byte for each of
        # two. LOMO (2306.09782): none, and AdaLomo (2310.10195) rows and columns of one. AdaGrad and RMSprop: one.
        ("adamw-4bit", "bf16", 5.0),
        ("lion-8bit", "bf16", 5.0),
        ("adagrad", "bf16", 8.0),
        ("rmsprop", "bf16", 8.0),
        ("rmsprop-8bit", "bf16", 5.0),
        ("ademamix", "bf16", 16.0),
        ("ademamix-8bit", "bf16", 7.0),
        ("adam-mini", "bf16", 8.0),
        ("lomo", "bf16-pure", 0.0),
        ("adalomo", "bf16-pure", 0.0),
        ("adamw", "fp32", 8.0),
        ("adamw", "bf16-pure", 4.0),
        ("sgd", "bf16-pure", 2.0),
    ],
)
def test_optimizers_keep_as_many_bytes_as_published(optimizer: Any, precision: Any, element: float) -> None:
    found = made("llama-3.1-8b", "8xh100-sxm-80gb", dp=8.0, optimizer=optimizer, precision=precision, zero_stage=0)
    params = float(subject("llama-3.1-8b").counts.params_total.value)
    _, parts = found.memory.binding()
    held = sum(float(one.value) for name, one in parts.items() if name == "optimizer")
    if optimizer == "muon":  # Embedding and head stay with AdamW, whose second moment is four bytes more.
        element += 4 * 2 * 128256 * 4096 / params
    assert held / params == pytest.approx(element, rel=1e-6)
