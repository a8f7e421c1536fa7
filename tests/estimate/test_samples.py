"""Models that are given by their samples: published speeds of CNNs, and whether input keeps up."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.models.generic import generic_cards
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train
from gpuplan.term import NOT_ON_RECORD


def asked(**given: Any) -> Estimate:
    return train(TrainAsk(**given))


def figure(made: Estimate, key: str) -> float:
    return float(made.figures[key].value)


# NVIDIA DeepLearningExamples, PyTorch ResNet50 v1.5 (291f0d02) and ResNeXt101-32x4d (46ff3707), training performance of one GPU:
# `passes` and `residual` of the engine torch-eager were fitted to these six.
FITTED = [
    ("resnet-50", "a100-sxm-80gb", "fp16", 256, 2470.0),
    ("resnet-50", "v100-sxm2-16gb", "fp16", 256, 1200.0),
    ("resnet-50", "v100-sxm2-16gb", "fp32", 128, 367.0),
    ("resnext-101-32x4d", "a100-sxm-40gb", "fp16", 128, 908.4),
    ("resnext-101-32x4d", "v100-sxm2-16gb", "fp16", 128, 534.91),
    ("resnext-101-32x4d", "v100-sxm2-16gb", "fp32", 64, 150.05),
]
# Held back: the same on 8 GPUs, and ResNet-50 in MXNet (134510b4) on 1, 8 and 16.
HELD_BACK = [
    ("resnet-50", "dgx-a100-640gb", "fp16", 256, 16621.0),
    ("resnet-50", "dgx-1-v100-16gb", "fp16", 256, 8322.0),
    ("resnet-50", "dgx-1-v100-16gb", "fp32", 128, 2855.0),
    ("resnext-101-32x4d", "dgx-a100-320gb", "fp16", 128, 6887.59),
    ("resnext-101-32x4d", "dgx-1-v100-16gb", "fp16", 128, 4000.79),
    ("resnext-101-32x4d", "dgx-1-v100-16gb", "fp32", 64, 1151.01),
    ("resnet-50", "a100-sxm-80gb", "fp16", 256, 2180.0),
    ("resnet-50", "dgx-a100-640gb", "fp16", 256, 16925.0),
    ("resnet-50", "v100-sxm2-16gb", "fp16", 192, 1376.0),
    ("resnet-50", "dgx-1-v100-16gb", "fp16", 192, 10723.0),
    ("resnet-50", "dgx-1-v100-16gb", "fp32", 96, 3005.0),
    ("resnet-50", "dgx-2", "fp16", 256, 21484.0),
    ("resnet-50", "dgx-2", "fp32", 128, 6338.0),
]


@pytest.mark.parametrize(("model", "on", "precision", "batch", "published"), FITTED + HELD_BACK)
def test_images_a_second_as_nvidia_measured_them(model: str, on: str, precision: Any, batch: int, published: float) -> None:
    made = asked(model=model, on=on, precision=precision, micro_batch=batch)
    assert figure(made, "samples_per_s") == pytest.approx(published, rel=0.25)


def test_the_median_and_the_range_of_what_was_held_back() -> None:
    errors, inside = [], 0
    for model, on, precision, batch, published in HELD_BACK:
        made = asked(model=model, on=on, precision=precision, micro_batch=batch)
        low, high = made.ranges["samples_per_s"]
        inside += low <= published <= high
        errors.append(abs(figure(made, "samples_per_s") / published - 1))
    assert sorted(errors)[len(errors) // 2] < 0.18
    assert inside >= 0.9 * len(HELD_BACK)


# The same repository (729963dd), DLRM for PyTorch, records a second; nothing was fitted to these.
@pytest.mark.parametrize(
    ("model", "on", "precision", "batch", "published"),
    [
        ("dlrm-small", "a100-sxm-80gb", "fp16", 65536, 4.02e6),
        ("dlrm-small", "v100-sxm2-32gb", "fp16", 65536, 2.09e6),
        ("dlrm-small", "v100-sxm2-32gb", "fp32", 65536, 0.672e6),
        ("dlrm-small", "v100-sxm3-32gb", "fp16", 65536, 2.25e6),
        ("dlrm-large", "dgx-1-v100-32gb", "fp16", 8192, 6.92e6),
        ("dlrm-large", "dgx-1-v100-32gb", "fp32", 8192, 2.88e6),
        ("dlrm-large", "dgx-2", "fp16", 4096, 10.8e6),
        ("dlrm-large", "dgx-2", "fp32", 4096, 4.74e6),
        pytest.param(
            "dlrm-large", "dgx-a100-640gb", "fp16", 8192, 16.5e6,
            marks=pytest.mark.xfail(reason="a step of 4 ms from CUDA graphs; the 5 ms of the host are an assumption"),
        ),
    ],
)  # fmt: skip
def test_clicks_a_second_as_nvidia_measured_them(model: str, on: str, precision: Any, batch: int, published: float) -> None:
    made = asked(model=model, on=on, precision=precision, micro_batch=batch)
    low, high = made.ranges["samples_per_s"]
    assert low <= published <= high
    assert figure(made, "samples_per_s") == pytest.approx(published, rel=0.2)


def test_tables_are_cut_over_all_accelerators() -> None:
    one, eight = asked(model="dlrm-small", on="h100-sxm-80gb"), asked(model="dlrm-small", on="8xh100-sxm-80gb")
    held = [
        {part.name: float(part.value) for part in made.breakdowns[-1].parts}["memory.tables"] for made in (one, eight)
    ]  # fmt: skip
    # 15.6 GiB, as NVIDIA prints it.
    assert held[0] / 2**30 == pytest.approx(15.6, rel=0.01)
    assert held[1] == held[0] / 8
    assert not [part for part in one.breakdowns[0].parts if part.name == "step.table_exchange"]
    assert [part for part in eight.breakdowns[0].parts if part.name == "step.table_exchange"]


def test_time_to_train_as_nvidia_measured_it() -> None:
    # The same README: 90 epochs on one A100 in mixed precision take some 14 hours.
    made = asked(model="resnet-50", on="a100-sxm-80gb", precision="fp16", samples=1.281e6 * 90)
    assert figure(made, "run_time_s") / 3600 == pytest.approx(14.0, rel=0.15)


def test_a_described_model_is_the_card_it_describes() -> None:
    card = asked(model="resnet-50", on="8xh100-sxm-80gb", precision="bf16", micro_batch=256, optimizer="sgd")
    said = asked(
        model="mine", on="8xh100-sxm-80gb", precision="bf16", micro_batch=256, optimizer="sgd", params=25557032.0,
        flop_per_sample=8.18e9, activation_bytes=44.4e6,
    )  # fmt: skip
    assert figure(said, "peak_memory_bytes") == figure(card, "peak_memory_bytes")
    # The card also knows how many kernels there are.
    assert figure(said, "step_time_s") == pytest.approx(figure(card, "step_time_s"), rel=0.05)
    assert figure(said, "step_time_s") < figure(card, "step_time_s")


INSTANCE = {"model": "resnet-50", "on": "aws:p4d.24xlarge", "micro_batch": 256}


def test_the_slower_of_computation_and_input_sets_the_pace() -> None:
    made = asked(**INSTANCE)
    parts = [figure(made, f"{name}_time_s") for name in ("compute", "read", "decode")]
    assert figure(made, "step_time_s") == pytest.approx(max(parts), rel=1e-12)
    assert figure(made, "decode_time_s") == pytest.approx(8 * 256 / (104 * 96), rel=1e-12)
    assert figure(made, "read_time_s") == pytest.approx(8 * 256 * 114660 / 50e9, rel=1e-12)
    assert any(note.code == "input.binds" and "decoding" in note.text for note in made.notes)


def test_input_without_end_leaves_computation_alone() -> None:
    fast = asked(**INSTANCE, decode_rate=1e9, storage_bandwidth=1e15)
    alone = asked(**INSTANCE | {"on": "8xa100-sxm-40gb"})
    assert figure(fast, "step_time_s") == figure(fast, "compute_time_s")
    assert any(note.code == "input.keeps-up" for note in fast.notes)
    assert "decode_time_s" not in alone.figures
    assert any(note.code == "input.unknown-host" for note in alone.notes)


def test_slow_storage_binds_by_name() -> None:
    made = asked(**INSTANCE, decode_rate=1e9, storage_bandwidth=100e6)
    assert figure(made, "step_time_s") == pytest.approx(8 * 256 * 114660 / 100e6, rel=1e-12)
    assert any(note.code == "input.binds" and "reading" in note.text for note in made.notes)


def test_the_parts_are_the_step_and_the_memory() -> None:
    made = asked(**INSTANCE)
    for breakdown in made.breakdowns:
        assert sum(float(one.value) for one in breakdown.parts) == pytest.approx(float(breakdown.total.value), rel=1e-9)


def test_sharding_never_costs_memory_and_twice_the_nodes_feed_twice_as_fast() -> None:
    sizes = [figure(asked(**INSTANCE, zero_stage=stage), "peak_memory_bytes") for stage in (0, 1, 2, 3)]
    assert sizes == sorted(sizes, reverse=True)
    one, two = asked(**INSTANCE), asked(**INSTANCE | {"on": "2xaws:p4d.24xlarge"})
    assert figure(two, "samples_per_s") == pytest.approx(2 * figure(one, "samples_per_s"), rel=1e-9)


def test_images_of_a_transformer_are_decoded_too() -> None:
    given = {"model": "vit-b-16", "on": "aws:p4d.24xlarge", "engine": "nemo", "micro_batch": 64, "global_batch": 4096}
    free, fed = asked(**given), asked(**given, sample_bytes=115e3, decode_rate=10.0)
    assert figure(fed, "decode_time_s") == pytest.approx(4096 / (10 * 96), rel=1e-12)
    assert figure(fed, "step_time_s") == pytest.approx(figure(fed, "decode_time_s"), rel=1e-9)
    assert figure(fed, "compute_time_s") == figure(free, "step_time_s")
    assert sum(float(one.value) for one in fed.breakdowns[0].parts) == pytest.approx(figure(fed, "step_time_s"), rel=1e-9)
    run = asked(**given, samples=1e9)
    assert figure(run, "run_time_s") == pytest.approx(1e9 / 4096 * figure(free, "step_time_s"), rel=1e-9)


def test_cards_name_the_source_of_each_figure() -> None:
    for card in generic_cards():
        names = {"params", "forward_flop", "kept_values"} | ({"kernels"} if card.kernels else set())
        names |= {"tables", "looked_up"} if card.tables else set()
        names |= {name for name in ("stored_bytes", "decoded_per_s", "samples") if card.input and getattr(card.input, name)}
        for name in names:
            assert card.term(name, 1.0).source.url.startswith("https://"), (card.id, name)
        unsaid = card.replaced(said_by={}, sources=dict(reversed(list(card.sources.items()))))
        assert unsaid.term("params", 1.0).source == NOT_ON_RECORD


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"model": "resnet-50", "tp": 2}, "samples.degree"),
        ({"model": "resnet-50", "seq_len": 128}, "samples.option"),
        ({"model": "resnet-50", "precision": "fp8"}, "samples.precision"),
        ({"model": "resnet-50", "engine": "nemo"}, "engine.no-samples"),
        ({"model": "resnet-50", "global_batch": 100, "micro_batch": 64}, "plan.batch-divides"),
        ({"model": "mine", "params": 1e6}, "samples.incomplete"),
        ({"model": "llama-3.1-8b", "cpus": 8}, "input.nothing-asked"),
        ({"model": "llama-3.1-8b", "tokens": 1e9, "samples": 1e6}, "run.twice"),
    ],
)
def test_what_cannot_be_is_said(given: dict[str, Any], code: str) -> None:
    with pytest.raises(GpuplanError) as error:
        asked(**{"on": "8xh100-sxm-80gb"} | given)
    assert code in {one.code for one in error.value.problems}
