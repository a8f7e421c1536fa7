"""What does the forward pass of one layer do on one rank, operation by operation?"""

from __future__ import annotations

from gpuplan.formulas.layers import layer_stream_bytes
from gpuplan.models.architecture import Block
from gpuplan.models.mixers import Attention, GatedDelta, StateSpace
from gpuplan.term import Source, Term, total
from gpuplan.workload.context import ONE
from gpuplan.workload.draft import Draft, LayerSetting
from gpuplan.workload.kinds.table import channels, kind_of, mixers
from gpuplan.workload.program import LayerProgram, Role

_MODULATION = Term(
    "work.modulation_passes", 12.0, "1",
    Source(
        "docs", "fast-DiT: models.py", "https://github.com/chuanyangjin/fast-DiT/blob/0ddbd64/models.py",
        "modulate and DiTBlock.forward: behind each of two norms a product and a sum, behind each half a gate",
    ),
)  # fmt: skip
"""Times that a layer with an adaptive layer norm reads or writes the hidden width for it."""
_STREAM = Term(
    "work.passes_of_a_stream", 6.0, "1",
    Source("assumed", "each half of a layer reads a residual stream to weigh it, again to mix it, and writes it back"),
)  # fmt: skip
"""Times that a layer reads or writes each of several residual streams."""
PRE_NORMS = 2
"""Norms of a layer that has one before each of its two halves."""
POST_NORMS = 4
"""Norms of a layer that has one behind each of its two halves as well (Gemma 2 and 3)."""


def layer_program(setting: LayerSetting, prefix: str, key: str, block: Block) -> LayerProgram:
    """The forward work of one layer of a kind of block; `prefix` begins its labels, `key` names its leaves."""
    draft = Draft(setting, prefix, key)
    inner: list[Term] = []
    for part, mixer in mixers(block):
        inside = draft.of(part)
        inner += kind_of(mixer).forward(inside, mixer)
        if not (block.joined and setting.work.joins):
            inside.summed()
    if block.mlp is not None:
        inner += channels(draft, block.mlp)
    if block.streams > 1:
        _streams(draft, block)
    for width in block.bottlenecks:
        narrow = draft.leaves(f"{key}.bottleneck_{width}", width)
        draft.product(Role.NARROWED, setting.work.tokens, narrow, setting.hidden)
        draft.product(Role.WIDENED, setting.work.tokens, setting.hidden, narrow)
    _elementwise(draft, inner, block)
    ops = draft.ops
    if block.norms >= POST_NORMS:
        # The norm behind the feed-forward layer reads what that made.
        ops = [op.replaced(needed_again=True) if op.role is Role.DOWN else op for op in ops]
    return LayerProgram(tuple(ops))


def _streams(draft: Draft, block: Block) -> None:
    """The products that say how each half of the layer mixes residual streams: all of them to a weight for each and each pair.

    In AltUp one stream says it, by a weight for each, from which small matrices make those of each pair.
    """
    leaf, key, streams = draft.leaves, draft.key, block.streams
    each = leaf(f"{key}.streams", streams)
    if block.altup:
        draft.product(Role.STREAMS, draft.setting.work.tokens, each, draft.setting.hidden, leaf(f"{key}.halves", 2))
        return
    weights = leaf(f"{key}.stream_weights", streams * (streams + 2))
    wide = leaf.times(f"{key}.all_streams", each, draft.setting.hidden)
    draft.product(Role.STREAMS, draft.setting.work.tokens, weights, wide, leaf(f"{key}.halves", 2))


def _elementwise(draft: Draft, widths: list[Term], block: Block) -> None:
    """The elementwise traffic of the layer: norms and residuals over the hidden width, the rest over inner widths."""
    rms, modulated, streams = block.norm == "rms", block.conditioning > 0, block.streams
    setting, work, at = draft.setting, draft.setting.work, draft.at
    element = setting.types.streamed or setting.types.activation
    apart = {"all": work.hidden_passes}
    if rms and work.rms_passes is not None:
        apart["rms"] = work.rms_passes
    if streams > 1:
        apart["streams"] = draft.leaves.times(f"{at}.stream_passes", _STREAM, draft.leaves(f"{draft.key}.streams", streams))
    if modulated:
        apart["modulation"] = work.modulated_passes or _MODULATION
    passes = work.hidden_passes if len(apart) == 1 else total(f"{at}.hidden_passes", apart)
    hidden = layer_stream_bytes.term(
        f"{at}.hidden_traffic", tokens=work.tokens, width=setting.hidden, passes=passes, element_bytes=element,
        ways=setting.split.sp,
    )  # fmt: skip
    parts = {"hidden": hidden}
    if widths:
        parts["inner"] = layer_stream_bytes.term(
            f"{at}.inner_traffic", tokens=work.tokens,
            width=total(f"{at}.inner_width", {f"{number}": width for number, width in enumerate(widths)}),
            passes=work.activation_passes, element_bytes=element, ways=ONE,
        )  # fmt: skip
    draft.stream(Role.ELEMENTWISE, total(f"{at}.traffic", parts), _launches(draft, block))


def _launches(draft: Draft, block: Block) -> Term:
    """The memory-bound kernels of the layer, where an engine tells of more for its kind."""
    work, own = draft.setting.work, draft.setting.work.own_kernels
    parts = {"layer": work.kernels}
    if own.state is not None and any(isinstance(mixer, GatedDelta | StateSpace) for _, mixer in mixers(block)):
        parts["state"] = own.state
    norms = max(block.norms - PRE_NORMS, 0)
    norms += sum(2 for _, mixer in mixers(block) if isinstance(mixer, Attention) and mixer.qk_norm != "none")
    if own.norm is not None and norms:
        parts["norms"] = draft.leaves.times(f"{draft.at}.norm_kernels", own.norm, draft.leaves(f"{draft.key}.further_norms", norms))
    return work.kernels if len(parts) == 1 else total(f"{draft.at}.kernels", parts)
