"""What do an engine's habits add to the passes of a layer: slices and biases of experts, matrices that each gather their input?"""

from __future__ import annotations

from gpuplan.formulas.basic import product, repeated_bytes
from gpuplan.formulas.layers import sliced_bytes
from gpuplan.formulas.memory import copies_of_ranks, tensor_bytes
from gpuplan.models.architecture import ChannelMixer, Moe
from gpuplan.term import Source, Term, total
from gpuplan.work import Collective, CollectiveKind, Stream
from gpuplan.workload.activations import QKV, KeepingHabits
from gpuplan.workload.counts import count
from gpuplan.workload.program import LayerProgram, Op, Part, Phase, Role, label

CODE = Source("definition", "matrices of a layer that are cut by columns, and what a copy and a sum read and write")
COPIED = Term("work.copied_passes", 2.0, "1", CODE)
ADDED = Term("work.added_passes", 3.0, "1", CODE)


def with_habits(
    forward: LayerProgram, back: LayerProgram, key: str, habits: KeepingHabits, *, sequence_parallel: bool
) -> tuple[LayerProgram, LayerProgram]:  # fmt: skip
    """Both passes with what the engine adds to them.

    Where matrices each gather their input, queries, keys and values are three, gate and up projection two; a usual layer gathers
    once for all of them. Without sequence parallelism inputs are whole already and only gradients are reduced. Where a product of
    several matrices reduces but one gradient, queries, keys and values are one, and a gather serves all that read it.
    """
    slices = expert_slices(forward, key, habits)
    if not (habits.inputs_apart or (habits.sums_apart and not sequence_parallel)):
        return forward, back + slices
    more = {Part.MIXER: QKV - 1} if habits.inputs_apart else {}
    more |= {op.part: len(op.matrices) - 1 for op in forward.within((Part.CHANNELS,)).of(Role.UP).ops}
    gradients = inputs_apart(back, key, more, "reduce_scatter" if sequence_parallel else "all_reduce")
    inputs = inputs_apart(forward, key, more, "all_gather") if sequence_parallel else LayerProgram()
    if habits.inputs_copied:
        inputs, gradients = inputs + copied_inputs(forward, key, more), gradients + copied_inputs(back, key, more)
    return forward + inputs, back + slices + gradients


def expert_slices(forward: LayerProgram, key: str, habits: KeepingHabits) -> LayerProgram:
    """What the backward pass adds where experts are padded to the fullest: their slices are written one by one."""
    grouped = next((item for item in forward.matmuls if item.grouped), None)
    if habits.padded is None or grouped is None:
        return LayerProgram()
    at = label(Phase.BACKWARD, key, Part.EXPERTS, Role.SLICES)
    rows = product.term(f"{at}.rows", a=grouped.m, b=grouped.batch)
    padded = tensor_bytes.term(f"{at}.padded", tokens=rows, width=grouped.k, element_bytes=grouped.left_bytes)
    size = sliced_bytes.term(f"{at}.traffic", padded=padded, load=habits.padded, experts=grouped.batch)
    item = Stream(name=at, size=size, launches=grouped.batch)
    return LayerProgram((Op(role=Role.SLICES, part=Part.EXPERTS, phase=Phase.BACKWARD, item=item),))


def with_biases(forward: LayerProgram, key: str, channels: ChannelMixer | None, habits: KeepingHabits) -> LayerProgram:
    """The forward pass with biases of experts, where these are added behind the products, one expert after the other."""
    if not isinstance(channels, Moe) or not channels.bias:
        return forward
    at, sizes = label(Phase.FORWARD, key, Part.EXPERTS, Role.BIASES), dict[str, Term]()
    for role, each in ((Role.EXPERTS_UP, habits.up_bias), (Role.EXPERTS_DOWN, habits.down_bias)):
        if each is None:
            continue
        for item in forward.of(role).matmuls:
            rows = product.term(f"{at}.{role.value}_rows", a=item.m, b=item.batch)
            sizes[role.value] = tensor_bytes.term(f"{at}.{role.value}", tokens=rows, width=item.n, element_bytes=each)
    if not sizes:
        return forward
    experts = next(item.batch for item in forward.matmuls if item.grouped)
    kernels = product.term(f"{at}.launches", a=count("bias_kernels"), b=experts)
    stream = Stream(name=at, size=total(f"{at}.traffic", sizes), launches=kernels)
    return forward + LayerProgram((Op(role=Role.BIASES, part=Part.EXPERTS, phase=Phase.FORWARD, item=stream),))


def inputs_apart(program: LayerProgram, key: str, more: dict[Part, int], kind: CollectiveKind) -> LayerProgram:
    """What `more` matrices of a part exchange beside the one that a usual layer does."""
    found: list[Op] = []
    for op in program.of(Role.SUM).ops:
        if not isinstance(op.item, Collective):
            continue
        name = label(op.phase, key, op.part, Role.GATHERED_INPUT)
        items = [op.item.replaced(name=f"{name}.{number}", kind=kind) for number in range(2, more.get(op.part, 0) + 2)]
        found += [op.replaced(role=Role.GATHERED_INPUT, item=item) for item in items]
    return LayerProgram(tuple(found))


def copied_inputs(program: LayerProgram, key: str, more: dict[Part, int]) -> LayerProgram:
    """Each matrix that is cut by columns reads a copy of its input; going back, the gradients of all copies are added."""
    found: list[Op] = []
    for op in program.of(Role.SUM).ops:
        if not isinstance(op.item, Collective) or op.part not in more:
            continue
        at, beside = label(op.phase, key, op.part, Role.COPIED_INPUT), more[op.part]
        kernels, each = (beside, ADDED) if op.phase is Phase.BACKWARD else (beside + 1, COPIED)
        launches = copies_of_ranks.term(f"{at}.kernels", copies=Term(f"{at}.copies", float(kernels), "1", CODE), ways=op.item.group)
        size = product.term(f"{at}.passes", a=launches, b=each)
        traffic = repeated_bytes.term(f"{at}.traffic", count=size, size=op.item.size)
        found.append(op.replaced(role=Role.COPIED_INPUT, item=Stream(name=at, size=traffic, launches=launches)))
    return LayerProgram(tuple(found))
