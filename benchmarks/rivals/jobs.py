"""What is a rival told of a measured run: the model, the machine and the plan that gpuplan's own estimate is of?

Whatever a row leaves open and gpuplan filled in (a stage of ZeRO by the engine's habit, a micro-batch) is told to the rival as
well: both answer the same question.
"""

from __future__ import annotations

from typing import Any

from gpuplan.accuracy.inference import CLOSED, serving_ask
from gpuplan.accuracy.judge import training_question
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.cli.accuracy_run import answers
from gpuplan.estimate.result import Estimate
from gpuplan.models.architecture import Architecture, Block, Mlp, Moe
from gpuplan.models.mixers import Attention, Mla
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.search.training import answer_training
from gpuplan.specs.engine import Engine

HIDDEN = 0.5
"""An engine that hides this share of the reduction of gradients, or more, is told to rivals as hiding it: they know no shares."""


def asked(row: Row, library: Library) -> tuple[TrainAsk | ServeAsk, Estimate]:
    """The question of a row and gpuplan's answer.

    Raises:
        Skip: the row cannot be compared.
        GpuplanError: gpuplan has no answer.
    """
    if row.flag:
        raise Skip(f"marked as doubtful: {row.flag}")
    if row.task == "inference":
        serving = serving_ask(row, library.card, library.keep)
        return serving, answer_serving(serving, library)
    ask = training_question(row, answers(library))
    return ask, answer_training(ask, library)


def job_of(row: Row, ask: TrainAsk | ServeAsk, made: Estimate, library: Library) -> dict[str, Any]:
    """The job of a row, in plain data.

    Raises:
        Skip: no rival can be told this model or this machine.
    """
    found = library.look_up(ask, "train" if isinstance(ask, TrainAsk) else "serve", with_price=False)
    arch, engine = found.subject.arch, found.subject.engine
    plan = plan_of(ask, made, engine, arch.stacks[0].depth) if isinstance(ask, TrainAsk) else serving_plan(row, ask, made, engine)
    return {"id": row.id, "model": model_of(arch), "machine": machine_of(found.subject.hw), "plan": plan}


def model_of(arch: Architecture) -> dict[str, Any]:
    """The dimensions that rivals ask for: a decoder of one kind of attention, with plain or mixed feed-forward layers.

    Raises:
        Skip: the model is of another kind.
    """
    stack = arch.stacks[0]
    blocks = [(stack.blocks[name], count) for name, count in stack.counts().items()]
    mixers = [block.mixer for block, _ in blocks]
    mixer = mixers[0]
    plain = all(block.mixer2 is None and block.cross is None and block.mlp is not None for block, _ in blocks)
    if len(arch.stacks) > 1 or not plain or any(not isinstance(one, Attention | Mla) for one in mixers):
        raise Skip("no rival knows encoders, state-space layers or layers of two mixers")
    if not isinstance(mixer, Attention | Mla) or len({_width(one) for one in mixers}) > 1:
        raise Skip("no rival knows layers of unlike attention")
    dense = next((block.mlp for block, _ in blocks if isinstance(block.mlp, Mlp)), None)
    routed = next((block.mlp for block, _ in blocks if isinstance(block.mlp, Moe)), None)
    gated = (dense or routed or Mlp(width=1)).gated
    return {
        "hidden": arch.hidden, "layers": stack.depth, "vocab": arch.vocab, "tied": arch.tied, "norm": stack.norm,
        "heads": mixer.heads, "kv_heads": mixer.kv_heads if isinstance(mixer, Attention) else mixer.heads,
        "head_dim": mixer.head_dim if isinstance(mixer, Attention) else mixer.v_dim, "gated": gated,
        "ffn": dense.width if dense else None, "windowed": any(_windowed(block) for block, _ in blocks),
        "moe": None if routed is None else {
            "experts": routed.experts, "top_k": routed.top_k, "width": routed.width,
            "shared_width": routed.shared_experts * routed.shared_width,
            "dense_layers": sum(count for block, count in blocks if isinstance(block.mlp, Mlp)),
        },
        "mla": None if isinstance(mixer, Attention) else {
            "q_rank": mixer.q_rank, "kv_rank": mixer.kv_rank, "nope_dim": mixer.nope_dim, "rope_dim": mixer.rope_dim,
            "v_dim": mixer.v_dim,
        },
    }  # fmt: skip


def _width(mixer: Any) -> tuple[int, ...]:
    return (mixer.heads, mixer.kv_heads, mixer.head_dim) if isinstance(mixer, Attention) else (mixer.heads,)


def _windowed(block: Block) -> bool:
    return isinstance(block.mixer, Attention) and bool(block.mixer.window or block.mixer.chunk)


def machine_of(hw: Any) -> dict[str, Any]:
    """The datasheet of one accelerator and of its links, in the units that rivals use.

    Raises:
        Skip: no rival ships a file for anything like it.
    """
    if hw.accelerator.startswith("tpu"):
        raise Skip("no rival has TPUs")
    inside = hw.levels[0] if hw.levels and hw.levels[0].size is not None else None
    outside = next((level for level in hw.levels if level.size is None), None)
    peak = {name: float(term.value) / 1e12 for name, term in hw.peaks.items()}
    half = peak.get("bf16") or peak.get("fp16")
    if half is None:
        raise Skip("no rival knows accelerators without 16-bit matmuls")
    return {
        "accelerator": hw.accelerator, "family": hw.family, "count": hw.count,
        "per_node": int(inside.size) if inside else 1 if outside else hw.count,
        "bf16_tflops": half, "fp8_tflops": peak.get("fp8"), "fp32_tflops": peak.get("fp32"),
        "memory_gb_s": float(hw.hbm_bandwidth.value) / 1e9, "memory_gib": float(hw.memory_capacity.value) / 2**30,
        "intra_gb_s": float(inside.bandwidth_per_direction.value) / 1e9 if inside else 0.0,
        "inter_gb_s": float(outside.bandwidth_per_direction.value) / 1e9 if outside else 0.0,
        "pcie": inside is None or "pcie" in inside.name,
    }  # fmt: skip


def serving_plan(row: Row, ask: ServeAsk, made: Estimate, engine: Engine) -> dict[str, Any]:
    """The serving plan that gpuplan's figures are of; the batch only where the row states it."""
    said = made.question
    return {
        "prompt": ask.prompt, "output": row.run.get("output_len"), "batch": ask.batch,
        "weights": said["weights"], "kv_cache": said["kv_cache"],
        "tp": int(said["tp"]), "pp": int(said["pp"]), "engine": engine.id,
        "mode": "static" if row.run.get("mode") in CLOSED else "agg", "left_open": [],
    }  # fmt: skip


def selective(engine: Engine, layers_of_a_stage: int) -> tuple[str, int | None]:
    """What an engine runs again under that name: the core of attention, every so many layers, or operators of its choice."""
    if engine.training is None:
        return "attention", None
    recompute = engine.training.recompute
    if recompute.blocks is not None:
        return "full", max(round(float(recompute.blocks.value) * layers_of_a_stage), 1)
    return ("operators" if recompute.keeps == "matmuls" else "attention"), None


def plan_of(ask: TrainAsk, made: Estimate, engine: Engine, depth: int) -> dict[str, Any]:
    """The plan that gpuplan's figures are of."""
    said = made.question
    plan: dict[str, Any] = {name: int(said[name]) for name in ("seq_len", "global_batch", "micro_batch")}
    plan |= {name: int(said[name]) for name in ("tp", "pp", "dp", "cp", "ep", "vpp")}
    chosen = {one.name: one.value for one in made.chosen}
    layers = ask.recompute_layers or chosen.get("recompute_layers")
    profile = engine.training
    recompute = said["recompute"]
    if recompute == "selective":
        recompute, layers = selective(engine, layers_of_a_stage=-(-depth // plan["pp"]))
    hides = "dp" in said["overlap"] if "overlap" in said else profile is not None and profile.overlap.dp.value >= HIDDEN
    plan |= {
        "count": plan["tp"] * plan["pp"] * plan["dp"] * plan["cp"],
        "micro_batches": plan["global_batch"] // (plan["micro_batch"] * plan["dp"]),
        "zero": int(said["zero_stage"]), "sequence_parallel": said["sequence_parallel"] == "true", "engine": engine.id,
        "recompute": recompute, "recompute_layers": None if layers is None else int(layers), "precision": said["precision"],
        "attention": "eager" if ask.attention == "eager" else "flash", "packed": ask.documents is not None,
        "lora": ask.lora is not None, "offload": list(ask.offload or ()), "reduce_in": ask.reduce_in,
        "usual_states": said["optimizer"] == "adamw" and not ask.step_in_backward, "mtp": ask.mtp or 0,
        "first_stage": ask.first_stage_layers, "last_stage": ask.last_stage_layers, "schedule": ask.schedule or "1f1b",
        "hides_gradients": bool(hides),
        "left_open": sorted(set(chosen) & {"tp", "pp", "micro_batch", "global_batch", "recompute"}),
    }  # fmt: skip
    return plan
