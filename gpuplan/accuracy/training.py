"""Which question is a measured training run the answer to: the plan that its row states, as a user would type it?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from gpuplan.accuracy.adapters import adapters_of
from gpuplan.accuracy.layout import modules_of, stages_of
from gpuplan.accuracy.model import card_of
from gpuplan.accuracy.reinforced import METHODS, reinforced
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.models.card import ModelCard
from gpuplan.optimizers import OPTIMIZERS, OPTIMIZERS_ALSO_CALLED, Optimizer
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.remat import ALSO_CALLED, POLICIES, RESULTS
from gpuplan.plan.words import (
    AttentionKernel,
    ContextKind,
    Offload,
    Overlap,
    Precision,
    Recompute,
    RecomputeModule,
    ReduceIn,
    Scaling,
)
from gpuplan.specs.engine_defaults import TrainingDefaults

DEGREES = ("tp", "pp", "cp", "ep", "vpp")
KINDS = ("pretrain", "finetune-full", "finetune-lora", "finetune-qlora", "finetune-adapter", *METHODS)
PRECISIONS: Mapping[str, Precision] = {
    "bf16": "bf16", "fp16": "fp16", "fp32": "fp32", "tf32": "tf32", "fp8": "fp8", "mxfp8": "fp8", "fp8-cs": "fp8", "nvfp4": "nvfp4",
    "int8": "int8", "int8-or-fp8": "int8",
}  # fmt: skip
OVERLAPS: Mapping[str, Overlap] = {"tp": "tp", "grad_reduce": "dp", "param_gather": "dp", "p2p": "pp", "moe_a2a": "ep"}
CONTEXT_KINDS: Mapping[str, ContextKind] = {"p2p": "ring", "all_gather": "all-gather", "a2a": "ulysses"}
"""What Transformer Engine calls the ways in which ranks share a sequence."""
ROUNDED = 0.04
"""How far a batch may be from a multiple of what the ranks take at once and be that multiple in round figures (OPT's 2M tokens)."""
NAIVE = "naive"
"""How rows say that layers are spread over devices that work one after the other."""
FUSED_NETWORK = 200
"""Gb/s of the ports that a stated rate of a node is taken to be made of."""
ETHERNET = (1, 10, 25, 100)
"""Gb/s of the ports of plain Ethernet that there are: a node has as many of the fastest as make what its page prints."""
INFINIBAND: Mapping[int, str] = {100: "ib-edr", 200: "ib-hdr", 400: "ib-ndr", 800: "ib-xdr"}
"""The networks of nodes that have one port of InfiniBand, by its Gb/s."""
XLA = ("maxtext", "paxml")
"""Frameworks whose rows name policies of what is kept, as MaxText calls them."""


def training_ask(
    row: Row,
    find: Callable[[str], ModelCard],
    keep: Callable[[ModelCard], str],
    engine: tuple[str | None, bool] | None = None,
    defaults: TrainingDefaults | None = None,
) -> TrainAsk:
    """The question of a row, in which nothing is read of what was measured.

    `find` looks a card up, `keep` makes a card made of the row's dimensions known and names it. `engine` is the engine that the
    row is asked for and whether it stands in for another (left out: the row's own), and `defaults` is what that takes unasked.

    Raises:
        Skip: the row says too little, or something that no plan can say.
    """
    if row.kind not in KINDS:
        raise Skip(f"no plan for `{row.kind}`")
    run, chips = row.run, row.hardware.get("count")
    if not isinstance(chips, int) or chips < 1:
        raise Skip("the row does not say how many accelerators")
    card = card_of(row, find)
    planned = any(run.get(key) for key in (*DEGREES, "dp", "sharding"))
    # Whoever shares a sequence between ranks says so, even where nothing is said of how the model is divided.
    degrees: dict[str, Any] = {key: int(run.get(key) or 1) for key in DEGREES} if planned or chips == 1 else {"cp": 1}
    if row.typed and "ep" in row.elsewhere:
        # Known of the run, but not from its page: whoever types the page leaves it open, and it is found.
        degrees.pop("ep", None)
    if NAIVE in str(run.get("sharding")).lower():
        degrees["pp"] = chips
    if run.get("pp_schedule") == "interleaved" and not run.get("vpp"):
        degrees["vpp"] = 2
    if run.get("etp"):
        degrees["etp"] = int(run["etp"])
    if run.get("dp") not in (None, chips) and not any(run.get(key) for key in DEGREES):
        # Replicas of some ranks each, and no word of how these share the model: the best division is what such papers ran.
        degrees = {"dp": int(run["dp"])}
    named, stands_in = engine or (row.engine or None, False)
    batch = _batches(row, degrees, chips)
    if row.kind.startswith("finetune") and not run.get("seq_len") and batch["global_batch"] is None:
        raise Skip("the row says neither how long its sequences are nor how many make a step")
    asked = TrainAsk(
        model=keep(card), on=_machine(row, chips), engine=named,
        seq_len=int(run["seq_len"]) if run.get("seq_len") else None,
        documents=int(run["documents"]) if run.get("documents") else None,
        **batch, **degrees, **_schedule(run), **_grouped(row, _sharding(row)), **_recompute(row, card), **adapters_of(row),
        **reinforced(row),
        precision=_precision(row), optimizer=_optimizer(row), compiled=None if stands_in else run.get("compile"),
        liger=True if "liger" in str(run.get("kernels") or "").lower() else None,
        sequence_parallel=run.get("sequence_parallel") if isinstance(run.get("sequence_parallel"), bool) else None,
        overlap=_overlap(run), graphs=_graphs(run), dispatcher=_dispatcher(run), capacity_factor=_capacity(row),
        scaling=_scaling(row),
        fp8_attention=run.get("fp8_attention") if isinstance(run.get("fp8_attention"), bool) else None,
        offload=_offload(run), offload_layers=_offload_layers(run),
        reduce_in=_reduce_in(row), mtp=modules_of(run), **stages_of(run, degrees.get("pp", 1)),
        attention=_attention(row), cp_kind=CONTEXT_KINDS.get(str(run.get("cp_comm"))),
        chunked_loss=_in_pieces(run),
        step_in_backward=True if run.get("optimizer_in_bwd") else None,
    )  # fmt: skip
    return asked if defaults is None else _beside_habits(asked, row, defaults, stands_in=stands_in)


def _beside_habits(asked: TrainAsk, row: Row, known: TrainingDefaults, *, stands_in: bool) -> TrainAsk:
    """The question with what a row says by not saying it, where the engine would take a habit.

    A table that says of each run what is recomputed lists its switches one by one: those that are not there are off, but for a
    loss that the row names from elsewhere: the page is silent about it. What is known of a framework is not
    taken from the profile that stands in for it, nor a full fine-tuning from that of adapters.
    """
    given: dict[str, Any] = {}
    if row.run.get("recompute") is not None:
        silent = known.loss is not None and "loss" not in row.elsewhere and not asked.liger  # Whose own kernel is the loss.
        given |= {"chunked_loss": False} if silent else {}
        given |= {"step_in_backward": False, "optimizer": "adamw", "offload": ()} if known.alone is not None else {}
    if not row.typed and row.kind.startswith("finetune") and known.documents is not None and asked.seq_len is not None:
        given["documents"] = asked.seq_len if stands_in else min(int(known.documents.value), asked.seq_len)
    return asked.replaced(**{name: value for name, value in given.items() if getattr(asked, name) is None})


def _attention(row: Row) -> AttentionKernel | None:
    """How attention ran; papers that compare `flash` with `flash2` mean the first kernels by it."""
    said = row.run.get("attention")
    if said == "standard":
        return "eager"
    if said == "flash" and row.engine:
        return "flash"
    if said == "flash1" or (said == "flash" and not row.engine):
        return "flash1"
    return "flash2" if said == "flash2" or "NVTE_FUSED_ATTN=0" in str(said) else None


def _in_pieces(run: Mapping[str, Any]) -> bool | None:
    """Whether logits are made piece by piece, where a row says that they are or that they are whole."""
    said = str(run.get("loss") or "")
    return True if "chunked" in said else False if said == "whole" else None


def _scaling(row: Row) -> Scaling | None:
    """The scales of fp8 matmuls."""
    said = f"{row.run.get('precision')} {row.run.get('precision_mode') or ''} {row.run.get('fp8_recipe') or ''}".lower()
    if "rowwise" in said:
        return "rowwise"
    if "mxfp8" in said or "block" in said:
        return "blockwise"
    return "tensorwise" if "tensor" in said else None


def _machine(row: Row, chips: int) -> str:
    """`--on`: the accelerators, and the network where a row states a rate that is not the usual one."""
    name = str(row.hardware["accelerator"])
    parts = row.hardware.get("slices") or row.hardware.get("nodes")
    if isinstance(parts, int) and parts > 1 and chips % parts == 0:
        # `256xtpu-v5e` is one slice; several of them, and nodes that are smaller than the usual one, are joined by the network.
        return f"{parts}x{chips // parts}x{name}"
    on = f"{chips}x{name}"
    per_node, network = row.hardware.get("per_node"), str(row.hardware.get("inter_node") or "")
    plain = re.match(r"(\d+)\s*Gb(?:/s|ps)\s+Ethernet", network)
    if plain and isinstance(per_node, int) and chips > per_node and chips % per_node == 0:
        port = max(rate for rate in ETHERNET if int(plain[1]) % rate == 0)
        ports = int(plain[1]) // port
        return f"{chips // per_node}x{per_node}x{name}@{f'{ports}x' if ports > 1 else ''}ethernet-{port}"
    infiniband = re.match(r"(\d+)\s*Gb(?:/s|ps)\s+InfiniBand", network)
    if infiniband and int(infiniband[1]) in INFINIBAND and isinstance(per_node, int) and chips > per_node and chips % per_node == 0:
        return f"{chips // per_node}x{per_node}x{name}@1x{INFINIBAND[int(infiniband[1])]}"
    said = re.match(r"(\d+)\s*Gb(?:/s|ps)\s+(?:per node|node-to-node)", network)
    if said and isinstance(per_node, int) and chips > per_node:
        ports = int(said[1]) // FUSED_NETWORK
        if ports * FUSED_NETWORK == int(said[1]) and ports != per_node:
            return f"{on}@{ports}xroce-{FUSED_NETWORK}"
    return on


def _batches(row: Row, degrees: Mapping[str, int], chips: int) -> dict[str, Any]:
    """Sequences of a step and of a micro-batch, one from the other where the row states accumulation or a device's batch."""
    run = row.run
    micro = run.get("micro_batch") or run.get("batch_per_dp")
    whole, accumulated = run.get("global_batch"), run.get("grad_accum")
    ranks = max(chips // max(degrees.get("tp", 1) * degrees.get("pp", 1) * degrees.get("cp", 1), 1), 1)
    each = run.get("per_device_batch") or run.get("local_batch")
    if whole is None and each and not accumulated:
        whole = each * chips
    if whole is None and micro:
        whole = micro * ranks * (accumulated or 1)
    if micro is None and whole and accumulated and whole % (ranks * accumulated) == 0:
        micro = whole // (ranks * accumulated)
    if micro is not None and micro != int(micro):
        raise Skip("its micro-batch is no whole number of sequences")
    if whole is not None and whole != int(whole):
        raise Skip("its batch is no whole number of sequences")
    if whole is not None and whole % (least := int(micro or 1) * ranks) and len(degrees) > 1:
        nearest = max(round(whole / least), 1) * least
        whole = nearest if abs(nearest / whole - 1) <= ROUNDED else whole
    return {"global_batch": None if whole is None else int(whole), "micro_batch": None if micro is None else int(micro)}


def _grouped(row: Row, sharding: dict[str, Any]) -> dict[str, Any]:
    """The same with the group that shares states, where the row states one, or how many replicas there are, and it is not all."""
    run, chips = row.run, row.hardware.get("count")
    ranks = int(chips) // (int(run.get("tp") or 1) * int(run.get("pp") or 1)) if isinstance(chips, int) else 0
    group, replicas = run.get("shard_group") or run.get("fsdp_group"), run.get("dp_replicate")
    if not group and isinstance(replicas, int) and replicas > 1 and ranks % replicas == 0:
        group = ranks // replicas
    if sharding.get("zero_stage") and isinstance(group, int) and 0 < group < ranks:
        return sharding | {"shard_group": group}
    return sharding


def _sharding(row: Row) -> dict[str, Any]:
    said, optimizer = str(row.run.get("sharding") or "").lower(), str(row.run.get("optimizer") or "")
    if NAIVE in said:
        return {"zero_stage": 0, "schedule": "naive"}
    if "megatron-fsdp" in optimizer:
        return {"zero_stage": 3}
    stages = {"fsdp-grad-op": 2, "zero2": 2, "zero1": 1, "zero3": 3}
    if said in stages:
        return {"zero_stage": stages[said]}
    if "hsdp" in said:
        # Groups of a node, as PyTorch's HYBRID_SHARD makes them unless it is told otherwise.
        group, chips = row.hardware.get("per_node"), row.hardware.get("count")
        known = isinstance(group, int) and isinstance(chips, int) and chips % group == 0
        return {"zero_stage": 3, "shard_group": group if known else None}
    if "fsdp" in said or "zero3" in said:
        return {"zero_stage": 3}
    if said == "none" and "distributed" not in optimizer:
        return {"zero_stage": 0}
    if "distributed" in optimizer:
        return {"zero_stage": 1}
    if "replicated" in optimizer:
        return {"zero_stage": 0}
    if said == "ddp" and row.engine != "megatron-bridge":  # Its pages do not say whether the optimizer is sharded.
        return {"zero_stage": 0}
    return {"zero_stage": None}


def _schedule(run: Mapping[str, Any]) -> dict[str, Any]:
    """The pipeline's schedule, where the row names one that no engine takes unasked."""
    said = str(run.get("pp_schedule")).lower()
    return {"schedule": said} if said in ("dualpipe", "zb-h1", "zb-h2", "zb-v") else {}


def _precision(row: Row) -> Precision | None:
    """The recipe that a row names; None where it says bf16 and no more, which is what is taken unless a recipe is named."""
    said, mode = str(row.run.get("precision") or "bf16"), str(row.run.get("precision_mode") or "")
    if said == "unstated":
        return None
    if said not in PRECISIONS:
        raise Skip(f"no plan for the precision `{said}`")
    stored = str(row.run.get("params_dtype") or "")
    sharded = "zero" in str(row.run.get("sharding") or "")
    if said == "bf16" and row.kind == "finetune-full" and stored in ("bf16", "bfloat16") and not sharded:
        return "bf16-pure"
    if said == "bf16":
        return "bf16-pure" if "true" in mode or "pure" in mode.lower() else None
    return PRECISIONS[said]


def _optimizer(row: Row) -> Optimizer | None:
    said = str(row.run.get("optimizer") or "").lower()
    if "lora-fa" in said:
        return None  # AdamW on the second matrices alone; that it keeps no inputs of the first is little beside the rest.
    known = OPTIMIZERS_ALSO_CALLED.get(said.replace("-", "_"), said.replace("_", "-"))
    if known != "adamw" and known in OPTIMIZERS:
        return known  # AdamW is what engines take unasked, but for those whose habits say otherwise.
    for name in ("adafactor", "muon", "lion", "sgd"):
        if name in said:
            return name
    if "8bit" in said or "8-bit" in said:
        return "adamw-8bit"
    return None


def _recompute(row: Row, card: ModelCard) -> dict[str, Any]:
    said, detail = row.run.get("recompute"), str(row.run.get("recompute_detail") or "")
    if said is None:
        return {}
    if _policy(str(said)) is not None:
        # The policy stands where others say how much is made again.
        said, detail = "selective", f"{said} {detail}"
    if said not in ("none", "full", "selective", "custom"):
        raise Skip(f"recompute is `{said}`: none, full, selective, custom or the name of a policy is wanted")
    named = _named(row, detail)
    if named is not None:
        return named
    layers = _layers_again(row, detail, card.architecture.depth)
    if layers is not None and said != "none":
        return {"recompute": "full", "recompute_layers": layers}
    modules = tuple(one for one in get_args(RecomputeModule) if one in re.findall(r"'(\w+)'", detail))
    if modules and said == "selective":
        if len(modules) == 1 and modules[0] in ("mlp", "moe"):
            return {"recompute": modules[0]}
        return {"recompute": "selective", "recompute_modules": modules}
    kind: Recompute = "full" if said == "full" else "none" if said == "none" else "selective"
    if "selective op" in detail:
        kind = "selective-op"
    return {"recompute": kind}


EVERY: Mapping[str, int] = {"second": 2, "other": 2, "third": 3, "fourth": 4}


def _layers_again(row: Row, detail: str, depth: int) -> int | None:
    """Layers of each pipeline stage that are made again as a whole, where a row says how many; None: it does not.

    Megatron's `recompute_num_layers` counts those of a stage, as does `--recompute-layers`; `every second layer` and `10 of 40
    layers` are of the model.
    """
    said = row.run.get("recompute_layers") or row.run.get("recompute_num_layers")
    if isinstance(said, int) and not isinstance(said, bool):
        return said
    stages = int(row.run.get("pp") or 1)
    some = re.search(r"\b(\d+) (?:of|out of|/) (?:the )?(\d+) (?:layers|blocks)", detail)
    if some is not None and int(some[2]):
        return max(depth * int(some[1]) // int(some[2]) // stages, 1)
    every = re.search(r"every (second|other|third|fourth|(\d+)(?:nd|rd|th)) (?:layer|block)", detail)
    if every is None:
        return None
    return max(depth // int(every[2] or EVERY[every[1]]) // stages, 1)


def _named(row: Row, detail: str) -> dict[str, Any] | None:
    """A policy of named results: one of MaxText's, or what is kept and what waits in the host's memory; None: no such policy."""
    policy = _policy(detail)
    if policy is not None and (row.engine in XLA or "_" in policy):
        return {"recompute": policy}
    if row.engine not in XLA or row.run.get("recompute") not in ("selective", "custom"):
        return None
    listed = re.sub(r"\s*\([^)]*\)", "", detail.rpartition(": ")[2]) if ": " in detail else ""
    keep: list[str] = []
    host: list[str] = []
    for part in re.split(r"[,;]\s*", listed):
        where, names = (keep if "device" in part else host), re.sub(r"\s*(kept|offloaded|on|to|host|memory|device)\b", "", part)
        if "recompute" in part:
            continue
        where += [NAMED[one] for one in re.split(r"\s*/\s*", names.strip()) if one in NAMED]
    # Where a row names nothing, what MaxText makes of `custom` alone: everything but the layer's input is made again.
    return {"recompute": "custom", "keep": tuple(keep), "to_host": tuple(host)}


def _policy(text: str) -> Recompute | None:
    """The policy of named results that a text names, the longest of those that fit; None: none."""
    names: list[Recompute] = sorted((*POLICIES, *ALSO_CALLED), key=len, reverse=True)
    return next((one for one in names if re.search(rf"(?<![\w-]){one}(?![\w-])", text.lower())), None)


NAMED: Mapping[str, str] = {
    "decoder input": "decoder_layer_input", "q": "query_proj", "k": "key_proj", "v": "value_proj", "out": "out_proj",
    "qkv": "qkv_proj", "kv": "kv_proj", "mlp out": "mlpwo", "query": "query_proj", "key": "key_proj", "value": "value_proj",
    **{name: name for name in RESULTS},
}  # fmt: skip
"""How rows write the names of a layer's results."""


def _overlap(run: Mapping[str, Any]) -> tuple[Overlap, ...] | None:
    said = run.get("overlap")
    if isinstance(said, list):
        return tuple(sorted({OVERLAPS[name] for name in said if name in OVERLAPS}))
    if isinstance(run.get("async_tp"), bool):
        return ("dp", "tp") if run["async_tp"] else ("dp",)
    return None


def _graphs(run: Mapping[str, Any]) -> bool | None:
    said = run.get("cuda_graphs")
    return None if said is None else str(said).startswith(("full", "on", "True"))


def _dispatcher(run: Mapping[str, Any]) -> Any:
    said = run.get("moe_dispatcher")
    return None if said is None else said if said in ("deepep", "hybridep") else "alltoall"


def _capacity(row: Row) -> float | None:
    """Slots of an expert over the mean, where a row of MaxText says it: it drops the tokens beyond."""
    said = row.run.get("moe_capacity_factor", row.run.get("capacity_factor"))
    return float(said) if isinstance(said, (int, float)) and row.engine in XLA else None


def _reduce_in(row: Row) -> ReduceIn | None:
    """What the row says of its gradients."""
    said = row.run.get("grad_reduce_dtype")
    return cast("ReduceIn", said) if said in get_args(ReduceIn) else None


def _offload_layers(run: Mapping[str, Any]) -> int | None:
    """Layers of each stage whose activations are offloaded, where a row says how many (Megatron's cpu_offloading_num_layers)."""
    said = run.get("activation_offload")
    layers = said.get("layers") if isinstance(said, Mapping) else None
    return layers if isinstance(layers, int) else None


def _offload(run: Mapping[str, Any]) -> tuple[Offload, ...] | None:
    found: list[Offload] = []
    said = run.get("cpu_offload")
    if said is True:
        found += ["optimizer", "params"]
    elif said:
        found += [kind for kind in ("optimizer", "params") if kind in str(said)]
    elif "paged" in str(run.get("optimizer") or "").lower():
        found.append("optimizer")  # Managed memory, which the allocator's figures leave out.
    if run.get("activation_offload"):
        found.append("activations")
    return tuple(found) or (() if run.get("activation_offload") is False else None)
