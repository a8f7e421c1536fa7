"""What do modules of multi-token prediction add to a step: each a layer, a projection of two inputs, and the head once more?"""

from __future__ import annotations

from gpuplan.formulas.basic import difference, product
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.formulas.mtp import module_norm_params, module_projection_params
from gpuplan.formulas.params import idle_expert_params
from gpuplan.formulas.stages import on_single_stage
from gpuplan.models.architecture import Architecture
from gpuplan.models.count import BlockCount, ParamCount
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.work import Collective, Matmul
from gpuplan.workload.backward import product_gradients
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.draft import LayerSetting
from gpuplan.workload.stages import Stage, block_keys


class Modules(Record):
    """Prediction modules: how many, the key of the block that each holds, and the parameters of one beside it."""

    count: Term
    key: str
    projection: Term
    norms: Term
    matmuls: tuple[Matmul, ...] = ()
    """The projection of one module on one rank, forward and backward."""
    gathers: tuple[Collective, ...] = ()
    """What it makes is gathered over the tensor parallel ranks, and its gradient scattered."""


def module_key(arch: Architecture) -> str:
    """The key of the block that a module holds."""
    own = arch.decoder.module
    return next(key for key, (index, name) in block_keys(arch).items() if name == own and arch.stacks[index] is arch.decoder)


def modules_of(arch: Architecture, leaves: Leaves, number: Term) -> Modules:
    """The modules of a plan, without their work."""
    hidden = leaves("hidden", arch.hidden)
    return Modules(
        number, module_key(arch), module_projection_params.term("params.mtp.projection", hidden=hidden),
        module_norm_params.term("params.mtp.norms", hidden=hidden),
    )  # fmt: skip


def with_work(modules: Modules, setting: LayerSetting, gradient: Term, *, frozen: bool) -> Modules:
    """The same with the projection's matmuls, cut by columns as Megatron-Core does."""
    leaves, hidden, types, tokens = setting.leaves, setting.hidden, setting.types, setting.work.tokens
    both = leaves.times("mtp.inputs_width", leaves("mtp.inputs", 2), hidden)
    width = leaves.split("mtp.rank_width", hidden, setting.split.tp)
    forward = Matmul(
        name="forward.mtp.projection", m=tokens, n=width, k=both, batch=ONE, dtype=types.matmul, left_bytes=types.operand,
        right_bytes=types.weight, out_bytes=types.activation, blocked=types.blocked, micro=types.micro, coded=types.coded,
    )  # fmt: skip
    back = product_gradients(forward, "backward.mtp.projection", gradient, frozen=frozen)
    size = tensor_bytes.term("mtp.projected_bytes", tokens=tokens, width=hidden, element_bytes=types.activation)
    gathers = (
        Collective(name="forward.mtp.gather", kind="all_gather", size=size, group=setting.split.tp, stride=ONE),
        Collective(name="backward.mtp.scatter", kind="reduce_scatter", size=size, group=setting.split.tp, stride=ONE),
    )
    return modules.replaced(matmuls=(forward, *back), gathers=gathers)


def with_modules(stages: tuple[Stage, ...], modules: Modules, pp: Term) -> tuple[Stage, ...]:
    """The stages with the modules on the last one, where the head is."""
    found = []
    for stage in stages:
        if stage.head is None:
            found.append(stage)
            continue
        here = modules.count
        if stage.place == "first":
            here = on_single_stage.term("first_stage.mtp", amount=modules.count, pp=pp)
        layers = total(f"{stage.prefix}layers_and_mtp", {"layers": stage.layers[modules.key], "mtp": here})
        heads = total(f"{stage.prefix}heads", {"head": stage.head, "mtp": here})
        found.append(stage.replaced(layers=stage.layers | {modules.key: layers}, head=heads, modules=here))
    return tuple(found)


def own_params(counts: ParamCount, modules: Modules, *, several: bool) -> Term:
    """Parameters of all modules, embedding and head, which they share with the model, not counted."""
    layer = next(one.layer_total for one in counts.blocks if modules.key == (f"{one.stack}.{one.block}" if several else one.block))
    module = total("params.mtp.own", {"layer": layer, "projection": modules.projection, "norms": modules.norms})
    return product.term("params.mtp.all", a=modules.count, b=module)


def active_params(arch: Architecture, counts: ParamCount, leaves: Leaves, modules: Modules) -> Term:
    """Parameters of all modules that a token passes through, the shared head counted once for each."""
    index, name = block_keys(arch)[modules.key]
    block = arch.stacks[index].blocks[name]
    one: BlockCount = next(one for one in counts.blocks if one.block == name and one.stack == arch.stacks[index].kind)
    layer = one.layer_total
    if block.moe is not None:
        idle = idle_expert_params.term(
            "params.mtp.idle", layers=ONE, routed=one.layer["experts"],
            experts=leaves(f"{modules.key}.experts.count", block.moe.experts),
            top_k=leaves(f"{modules.key}.experts.top_k", block.moe.top_k),
        )  # fmt: skip
        layer = difference.term("params.mtp.active_layer", whole=layer, part=idle)
    head = counts.head if counts.head is not None else counts.embedding
    module = total("params.mtp.active", {"layer": layer, "projection": modules.projection, "norms": modules.norms, "head": head})
    return product.term("params.mtp.all_active", a=modules.count, b=module)
