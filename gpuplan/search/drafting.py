"""Which drafter does a question mean: a model by name, the model's own prediction module, or a head of one layer behind it?"""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.result import Choice
from gpuplan.models.architecture import Architecture, Block, Mlp, Moe, Run
from gpuplan.models.count import ParamCount, count
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.drafting import Drafting
from gpuplan.search.library import Found, Library
from gpuplan.search.serving_types import StoredTypes, types_of
from gpuplan.term import Source, Term

_EAGLE = Source(
    "paper", "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty", "https://arxiv.org/abs/2401.15077",
    "4: one layer like those of the model behind a projection of two inputs; embedding and head are the model's",
)  # fmt: skip
_MTP = Source(
    "paper", "DeepSeek-V3 Technical Report", "https://arxiv.org/abs/2412.19437",
    "2.2: a projection, a block, the shared embedding and head",
)  # fmt: skip


def drafting_of(ask: ServeAsk, found: Found, library: Library, types: StoredTypes) -> tuple[Drafting | None, list[Choice]]:
    """The drafter of a question, and what of it was chosen; None: nothing drafts.

    Raises:
        UnknownError: a model that is not known.
        UsageError: drafts without a drafter, a model that cannot have that one, or another vocabulary.
    """
    if ask.draft is None:
        for name in ("draft_tokens", "acceptance"):
            if getattr(ask, name) is not None:
                flag = "--" + name.replace("_", "-")
                raise UsageError(
                    Problem("draft.none", f"{flag}, but nothing drafts", "name a drafter: `--draft mtp`, `eagle` or a model")
                )
        return None, []
    arch = found.card.architecture
    if not arch.generates or arch.two_stacks:
        what = f"--draft: {found.card.id} is no decoder alone, whose tokens could be drafted"
        raise UsageError(Problem("draft.no-decoder", what, "leave --draft out"))
    word = ask.draft.strip().lower()
    if word == "mtp":
        made = _module(found, types, told=ask.command is not None or ask.engine_args is not None)
    elif word in ("eagle", "eagle3"):
        made = _head(found, types)
    else:
        made = _model(ask.draft, found, library)
    number, chosen = ask.draft_tokens, list[Choice]()
    if found.card.mtp is None and word == "mtp":
        chosen.append(Choice("draft", "mtp", "the engine's words say so; its module is taken to be like the last layer"))
    if number is None and word == "mtp" and found.card.mtp is not None:
        number = found.card.mtp.modules
        chosen.append(Choice("draft_tokens", str(number), "modules of multi-token prediction in its checkpoint"))
    return made.replaced(draft_tokens=float(number or 0), acceptance=ask.acceptance), chosen


def _module(found: Found, types: StoredTypes, *, told: bool) -> Drafting:
    """The model's own module of multi-token prediction: its last block once more; an engine that is `told` to use one has it.

    Raises:
        UsageError: it has none.
    """
    if found.card.mtp is None and not told:
        what = f"--draft mtp: no module of multi-token prediction is on record of {found.card.id}"
        raise UsageError(Problem("draft.no-mtp", what, "use `--draft eagle`, or name a smaller model with its vocabulary"))
    arch = found.card.architecture
    return _layer("mtp", found, types, _one_layer(arch, arch.decoder.blocks[arch.decoder.module]), _MTP)


def _head(found: Found, types: StoredTypes) -> Drafting:
    """A dense layer behind the model; of a mixture, one with the widths that a token passes through."""
    arch = found.card.architecture
    block = arch.decoder.blocks[arch.decoder.module]
    if isinstance(block.mlp, Moe):
        moe = block.mlp
        width = moe.top_k * moe.width + moe.shared_experts * moe.shared_width
        block = block.replaced(mlp=Mlp(width=width, gated=moe.gated, bias=moe.bias))
    return _layer("eagle", found, types, _one_layer(arch, block), _EAGLE)


def _layer(kind: str, found: Found, types: StoredTypes, arch: Architecture, source: Source) -> Drafting:
    return Drafting(
        kind="mtp" if kind == "mtp" else "eagle", draft_tokens=0.0, acceptance=None, name=kind, arch=arch,
        counts=_without_ends(count(arch, source)), source=source, weights=types.weights, group=types.group,
    )  # fmt: skip


def _one_layer(arch: Architecture, block: Block) -> Architecture:
    """A decoder of a single layer between the same embedding and head."""
    stack = arch.decoder.replaced(blocks={"draft": block}, layers=(Run(block="draft", count=1),))
    return arch.replaced(stacks=(stack,), extra_params={}, vision=None)


def _without_ends(counts: ParamCount) -> ParamCount:
    """The counts without embedding, head and last norm, which are the model's."""
    none = Term("params.shared_ends", 0.0, "1", _MTP)
    return counts.replaced(embedding=none, head=None, final=None, extra={})


def _model(name: str, found: Found, library: Library) -> Drafting:
    """A model of its own.

    Raises:
        UnknownError: nobody knows it.
        UsageError: it is no decoder, or has other tokens.
    """
    card = library.card(name)
    arch = card.architecture
    if not arch.generates or arch.two_stacks:
        raise UsageError(
            Problem("draft.no-decoder", f"--draft {name}: {card.id} makes no tokens one after the other", "name a decoder")
        )
    whole = found.card.architecture.vocab
    if abs(arch.vocab - whole) > VOCAB_PADDING * whole:
        what = f"--draft {name}: it has {arch.vocab} tokens, {found.card.id} has {whole}: drafts must be of the same vocabulary"
        raise UsageError(Problem("draft.vocabulary", what, "name a smaller model of the same family"))
    types, _ = types_of(card, found.subject, None, None)
    return Drafting(
        kind="model", draft_tokens=0.0, acceptance=None, name=card.id, arch=arch, counts=card.count(), source=card.source,
        weights=types.weights, group=types.group, plain=types.plain, parts=types.parts, checkpoint=types.checkpoint,
    )  # fmt: skip


VOCAB_PADDING = 0.02
"""Rows of the embedding by which models of one vocabulary may differ, for some are padded."""
