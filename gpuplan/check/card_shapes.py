"""Is a model's geometry one that models have: heads, widths, depths, windows, contexts, formats of stored weights?

The bounds hold for every model whose card is shipped, and are broken by a figure of another key, a digit too many, or a
configuration that was made for a chip with little memory. They need no published size, so that a card made for a model of
one's own is held to them too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedCard
from gpuplan.models.architecture import Block, Mlp, Moe, Stack
from gpuplan.models.card import ModelCard, WeightsFormat
from gpuplan.models.mixers import Attention, Compressed, GatedDelta, Mla, ShortConv, SparseMla, StateSpace
from gpuplan.strict_yaml import Path_

_HEAD_DIM = (32, 512)
_QUERIES = (0.45, 4.5)
"""Width of all query heads, over the hidden width."""
_WIDTH = (0.3, 10.0)
"""Width of a dense feed-forward layer, over the hidden width."""
_FUSED = 30.0
"""The most of one that has no attention before it: what was several layers is one there (Llama-Nemotron Ultra)."""
_EXPERT = (0.1, 6.0)
"""The same of one expert, and of one token's shared experts."""
_HIDDEN = (128, 32768)
_DEPTH = 256
_LEAST_CONTEXT = 2048
"""No model that writes text and takes positions as they come has seen less since 2020."""
_WHOLE_WIDTH = 64
_WINDOWS = {2**power for power in range(6, 24)}
_METHODS = {
    "fp8": (8, "float"), "nvfp4": (4, "float"), "mxfp4": (4, "float"), "awq": (4, "int"), "gptq": (None, "int"),
    "bitsandbytes": (None, None), "compressed-tensors": (None, None), "mixed_precision": (None, None),
}  # fmt: skip
"""Bits and number of what a method stores; None: several."""
_GROUPS = {"nvfp4": 16, "mxfp4": 32}
_IN_ALIAS = re.compile(r"[-_](\d+)k(?=[-_]|$)", re.IGNORECASE)


def shapes(one: LoadedCard, card: ModelCard) -> Iterator[Finding]:
    """What is odd about the geometry."""
    arch = card.architecture
    if not _HIDDEN[0] <= arch.hidden <= _HIDDEN[1] or arch.hidden % _WHOLE_WIDTH:
        message = f"a hidden width of {arch.hidden:,}: models have {_HIDDEN[0]} to {_HIDDEN[1]:,}, in whole {_WHOLE_WIDTH}s"
        yield one.bad("model.shape", ("architecture", "hidden"), message, "is a digit wrong?")
    if arch.vocab > 1_000_000 or 2_000 < arch.vocab < (5_000 if arch.frame_ms else 20_000):  # what only writes down speech has few
        message = f"a vocabulary of {arch.vocab:,}"
        yield one.bad("model.shape", ("architecture", "vocab"), message, "is it another key, or is a digit missing?")
    for place, stack in enumerate(arch.stacks):
        at: Path_ = ("architecture", "stacks", place)
        if stack.depth > _DEPTH:
            yield one.bad("model.shape", (*at, "layers"), f"{stack.depth} layers", f"models have up to {_DEPTH}")
        unused = [name for name in stack.blocks if name not in stack.counts()]
        for name in unused:
            yield one.bad("model.shape", (*at, "blocks", name), f"no layer is a `{name}`", "name it in `layers`, or take it out")
        for name, block in stack.blocks.items():
            yield from _block(one, (*at, "blocks", name), arch.hidden, block, stack)
    yield from _context(one, card)
    if card.weights is not None:
        yield from _format(one, card.weights)
    if card.mtp is not None and card.mtp.modules > 4:
        message = f"{card.mtp.modules} modules of multi-token prediction"
        yield one.bad("model.shape", ("mtp", "modules"), message, "models have one to three")


def _block(one: LoadedCard, at: Path_, hidden: int, block: Block, stack: Stack) -> Iterator[Finding]:
    for key in ("mixer", "mixer2", "cross"):
        mixer = getattr(block, key)
        where = (*at, key)
        if isinstance(mixer, Attention):
            yield from _attention(one, where, hidden, mixer, stack, cross=key == "cross")
        elif isinstance(mixer, (Mla, SparseMla)):
            yield from _latent(one, where, hidden, mixer)
        elif isinstance(mixer, Compressed):
            yield from _ratio(one, (*where, "heads"), "width of all heads", mixer.heads * mixer.head_dim / hidden, (0.5, 16))
        elif isinstance(mixer, GatedDelta):
            yield from _ratio(one, (*where, "value_dim"), "width of all values", mixer.values / hidden, (0.5, 4.5))
        elif isinstance(mixer, ShortConv):
            yield from _ratio(one, (*where, "width"), "width of the convolution", mixer.width / hidden, (0.5, 2))
        elif isinstance(mixer, StateSpace):
            yield from _ratio(one, (*where, "inner"), "width of the values", mixer.inner / hidden, (0.5, 4.5))
            if mixer.state > 512:
                yield one.bad("model.shape", (*where, "state"), f"a state of {mixer.state}", "states have up to 512 values")
    mlp = block.mlp
    if isinstance(mlp, Mlp):
        most = _WIDTH[1] if block.mixer is not None else _FUSED
        most = 70.0 if hidden <= 1024 else most  # T5-11B is 64 times as wide inside
        yield from _ratio(one, (*at, "mlp", "width"), "width of the feed-forward layer", mlp.width / hidden, (_WIDTH[0], most))
    elif isinstance(mlp, Moe):
        yield from _experts(one, (*at, "mlp"), hidden, mlp)


def _ratio(one: LoadedCard, at: Path_, what: str, share: float, bounds: tuple[float, float]) -> Iterator[Finding]:
    if not bounds[0] <= share <= bounds[1]:
        message = f"the {what} is {share:.3g} times the hidden width, where models have {bounds[0]:g} to {bounds[1]:g}"
        yield one.bad("model.shape", at, message, "is a digit wrong, or is it the figure of another key?")


def _attention(one: LoadedCard, at: Path_, hidden: int, mixer: Attention, stack: Stack, *, cross: bool) -> Iterator[Finding]:
    if not _HEAD_DIM[0] <= mixer.head_dim <= _HEAD_DIM[1] or mixer.head_dim % 4:
        message = f"heads of {mixer.head_dim}: models have {_HEAD_DIM[0]} to {_HEAD_DIM[1]}"
        yield one.bad("model.shape", (*at, "head_dim"), message, "is it the number of heads, or the hidden width?")
    most = 20.0 if hidden <= 1024 else _QUERIES[1]
    width = mixer.heads * mixer.head_dim / hidden
    yield from _ratio(one, (*at, "heads"), "width of all heads", width, (_QUERIES[0], most))
    if mixer.window is not None and not {mixer.window - 1, mixer.window, mixer.window + 1} & _WINDOWS:
        message = f"a window of {mixer.window:,} positions"
        yield one.bad("model.shape", (*at, "window"), message, "windows are powers of two: is a digit wrong?")
    if mixer.chunk is not None and (mixer.chunk < 512 or mixer.chunk & (mixer.chunk - 1)):
        message = f"chunks of {mixer.chunk:,} positions"
        yield one.bad("model.shape", (*at, "chunk"), message, "chunks are powers of two: is a digit wrong?")
    causal = stack.kind == "decoder" and not cross
    if mixer.causal != causal:
        what = "a decoder sees no later positions" if causal else "an encoder, and attention over its output, sees all positions"
        yield one.bad("model.shape", at, what, f"write `causal: {str(causal).lower()}`, or another kind of stack")


def _latent(one: LoadedCard, at: Path_, hidden: int, mixer: Mla | SparseMla) -> Iterator[Finding]:
    for name, low, high in (("kv_rank", 64, 2048), ("nope_dim", 32, 256), ("rope_dim", 16, 128), ("v_dim", 32, 512)):
        value = getattr(mixer, name)
        if not low <= value <= high and (name, value) != ("rope_dim", 0):  # GLM-5.3-Flash turns no part of its keys
            yield one.bad("model.shape", (*at, name), f"a `{name}` of {value}", f"latent attention has {low} to {high}")
    if mixer.q_rank is not None and not mixer.kv_rank <= mixer.q_rank <= hidden:
        message = f"a `q_rank` of {mixer.q_rank} beside a `kv_rank` of {mixer.kv_rank}"
        yield one.bad("model.shape", (*at, "q_rank"), message, "were the two exchanged?")
    if isinstance(mixer, SparseMla) and mixer.top_k & (mixer.top_k - 1):
        message = f"queries see {mixer.top_k:,} tokens"
        yield one.bad("model.shape", (*at, "top_k"), message, "is a digit wrong?")


def _experts(one: LoadedCard, at: Path_, hidden: int, mlp: Moe) -> Iterator[Finding]:
    width = mlp.latent or hidden
    yield from _ratio(one, (*at, "width"), "width of an expert", mlp.width / width, (_EXPERT[0], _EXPERT[1]))
    if not 2 <= mlp.experts <= 1024 or mlp.experts % 4:
        message = f"{mlp.experts} experts in a layer"
        yield one.bad("model.shape", (*at, "experts"), message, "models have 8 to 512: is it the number of another key?")
    if mlp.top_k * 3 > mlp.experts and mlp.experts > 4:
        message = f"{mlp.top_k} of {mlp.experts} experts for a token"
        yield one.bad("model.shape", (*at, "top_k"), message, "models choose a quarter at most")
    if mlp.shared_experts:
        shared = mlp.shared_experts * mlp.shared_width / hidden
        yield from _ratio(one, (*at, "shared_width"), "width of the shared experts", shared, (_EXPERT[0], _EXPERT[1]))


def _context(one: LoadedCard, card: ModelCard) -> Iterator[Finding]:
    arch, at = card.architecture, ("architecture", "max_context")
    most = arch.max_context
    if most is None:
        return
    writes = any(stack.kind == "decoder" for stack in arch.stacks)
    if arch.positions and not most <= arch.positions <= most + 8 and not _two_ends(card):
        message = f"{arch.positions:,} learned positions for a context of {most:,}"
        yield one.bad("model.context", at, message, "one of the two is wrong")
    elif writes and not arch.positions and not arch.frame_ms and most < _LEAST_CONTEXT:
        message = f"a context of {most:,} for a model that writes text with {card.architecture.hidden:,} wide layers"
        hint = "copies of a configuration that were made for a chip cut `max_position_embeddings`: look at the maker's own"
        yield one.bad("model.context", at, message, hint)
    elif writes and most % 1024 and not arch.positions:
        message = f"a context of {most:,}, which is no whole number of 1,024s"
        yield one.bad("model.context", at, message, "is a digit wrong?")
    elif most > 2**24:
        yield one.bad("model.context", at, f"a context of {most:,}", "is a digit too many in it?")
    for place, stack in enumerate(arch.stacks):
        for name, block in stack.blocks.items():
            mixer = block.mixer
            if isinstance(mixer, Attention) and mixer.window is not None and mixer.window > most:
                where = ("architecture", "stacks", place, "blocks", name, "mixer", "window")
                message = f"a window of {mixer.window:,} in a context of {most:,}"
                yield one.bad("model.context", where, message, "one of the two is wrong")
    # 4k, 32k, 128k of 1,024 or of 1,000 positions each
    for alias in (card.id, *card.aliases):
        said = _IN_ALIAS.search(alias)
        alone = alias == card.id or all(_IN_ALIAS.search(other) for other in card.aliases if "/" in other)
        if said is not None and alone and not any(abs(most / (int(said[1]) * unit) - 1) < 0.03 for unit in (1000, 1024)):
            message = f"a context of {most:,}, where the name `{alias}` says {said[1]}k"
            yield one.bad("model.context", at, message, "correct the one that is wrong")


def _two_ends(card: ModelCard) -> bool:
    """Whether an encoder has positions of its own, so that those of the embedding are of the other end."""
    return len(card.architecture.stacks) > 1


def _format(one: LoadedCard, given: WeightsFormat) -> Iterator[Finding]:
    known = _METHODS.get(given.method)
    if known is None:
        return
    bits, number = known
    if bits is not None and given.bits not in (None, bits):
        message = f"{given.method} stores {bits} bits a weight, not {given.bits}"
        yield one.bad("model.weights-format", ("weights", "bits"), message, "correct the method or the bits")
    if given.bits is not None and given.bits not in (2, 3, 4, 5, 6, 8):
        yield one.bad("model.weights-format", ("weights", "bits"), f"{given.bits} bits a weight", "formats have 2 to 8")
    if number is not None and given.number not in (None, number):
        message = f"{given.method} stores {number} numbers, not {given.number}"
        yield one.bad("model.weights-format", ("weights", "number"), message, "correct the method or the number")
    size = _GROUPS.get(given.method)
    if given.group_size is not None and (
        (size is not None and given.group_size != size) or given.group_size not in (16, 32, 64, 128, 256)
    ):
        message = f"groups of {given.group_size} weights for {given.method}" + (f", which has {size}" if size else "")
        yield one.bad("model.weights-format", ("weights", "group_size"), message, "is a digit wrong?")
    if given.block and given.block != (128, 128):
        message = f"blocks of {' x '.join(map(str, given.block))}"
        yield one.bad("model.weights-format", ("weights", "block"), message, "the kernels that there are take 128 x 128")
    if given.activation_bits is not None and given.activation_bits not in (4, 8, 16):
        message = f"{given.activation_bits} bits an activation"
        yield one.bad("model.weights-format", ("weights", "activation_bits"), message, "formats have 4, 8 or 16")
