"""How do tokens reach the slots of experts of a fixed capacity, and come back, where products with one-hot masks take them?

GShard's way (arXiv 2006.16668, algorithm 2), and MaxText's with a capacity factor: `BSM,BSEC -> EBCM` before the experts and
`EBCM,BSEC -> BSM` behind them (dense_matmul of layers/moe.py, linked below). Both are dense: every token of a sequence is
multiplied with every slot, so that they grow with the square of the length and may take longer than the experts.
"""

from __future__ import annotations

from gpuplan.formulas.basic import product
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.term import Source, Term
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, Group
from gpuplan.workload.draft import Draft
from gpuplan.workload.program import Role

CODE = Source(
    "engine", "MaxText: layers/moe.py, generate_masks and dense_matmul",
    "https://github.com/AI-Hypercomputer/maxtext/blob/e591f30cbbf217ed67ef71263ec0538239f9c3b8/src/maxtext/layers/moe.py",
    note="the mask of weights in the type of activations, and the same as truth values, which a product wants in that type",
)  # fmt: skip
WRITTEN = Term("work.masks_written", 4.0, "B", CODE)
"""Of both masks, as products read them."""
KEPT = Term("work.masks_kept", 3.0, "B", CODE)
"""Of both, as the backward pass finds them."""


def one_hot_exchange(draft: Draft, *, top_k: Term, width: Term) -> None:
    """The masks of each group of sequences, and the products that take tokens of a width to slots and back, where masks do.

    Slots are written with the experts outermost and products work sequence by sequence, so that copies are permuted all the same.
    """
    leaf, at, work, capacity = draft.leaves, draft.at, draft.setting.work, draft.setting.capacity
    if capacity is None:
        return
    part = leaf.split(f"{at}.masked_width", width, draft.setting.split.tp)
    slots_a_token = leaf.times(f"{at}.slots_a_token", top_k, capacity)
    for group in work.groups:
        name = draft.group_name(group, Role.SLOTTED)
        slots = product.term(f"{name}.slots", a=slots_a_token, b=group.q_len)
        masks = tensor_bytes.term(f"{name}.masks", tokens=draft.tokens_of(group), width=slots, element_bytes=WRITTEN)
        draft.stream(Role.MASKS, masks, ONE)
        kept = draft.tensor("masks", slots, draft.tokens_of(group), element=KEPT)
        draft.put(Role.SLOTTED, _dense(draft, name, group, rows=slots, inner=group.q_len, width=part), reads=(kept,))
        back = draft.group_name(group, Role.UNSLOTTED)
        # Nothing reads the sum that comes back but what is behind the layer.
        item = _dense(draft, back, group, rows=group.q_len, inner=slots, width=part)
        draft.put(Role.UNSLOTTED, item, needed_again=False)


def _dense(draft: Draft, name: str, group: Group, *, rows: Term, inner: Term, width: Term) -> Matmul:
    """The mask of a sequence by its tokens or slots: a product of activations alone for each sequence."""
    types = draft.setting.types_of(draft.part)
    return Matmul(
        name=name, m=rows, n=width, k=inner, batch=group.sequences, dtype=types.matmul, left_bytes=types.operand,
        right_bytes=types.operand, out_bytes=types.activation, by_heads=group.sequences is not ONE, blocked=types.blocked,
    )  # fmt: skip
