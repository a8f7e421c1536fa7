"""Which models of the catalog run on a machine for one user, how fast, and up to which context?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias, cast

from gpuplan.errors import GpuplanError, Problem, UsageError, did_you_mean
from gpuplan.estimate.runnable import READ, SPEED, Runs, WhatRuns
from gpuplan.estimate.serving import ServingModel
from gpuplan.files.progress import steps
from gpuplan.models.card import ModelCard
from gpuplan.models.catalog import cards
from gpuplan.models.count import PATCHES
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.what_runs import ModelKind, Order, WhatRunsAsk
from gpuplan.plan.words import WeightFormat
from gpuplan.search.library import Library
from gpuplan.search.serving import Settled, answer_of, settled
from gpuplan.search.serving_types import WITHOUT_KERNELS, stored_format
from gpuplan.search.spill import host_holds, least_on_host, whole_layers
from gpuplan.specs.engine_era import split_name

CONTEXT, PROMPT, OUTPUT = 8192, 512, 128
"""Taken where the user does not say: room for a long chat, and a short question that is timed."""
SLOWEST = 5.0
"""Tokens a second that people read: 238 words a minute (M. Brysbaert, How many words do we read per minute? A review and
meta-analysis of reading rate, Journal of Memory and Language 109, 2019), of four thirds of a token each."""
STEPS = 64
"""Contexts that are looked at between the longest power of two that fits and the next."""
LOCAL, SERVER = "llama-cpp", "vllm"
NO_ROOM, SLOW, NOT_PUBLISHED = "too large", "fewer tokens a second than is wanted", "no published weights"
NO_KERNELS = "the engine has no kernels for its weights there"
NO_LICENSE, OTHER_LICENSE = "no licence on record", "under another licence"


Placed: TypeAlias = Mapping[str, int]
"""What lies in the memory of the host, by option of `gpuplan serve`."""
NOWHERE: Placed = {}


def what_runs(ask: WhatRunsAsk, library: Library, words: Sequence[str] = ()) -> WhatRuns:
    """The models that run, each in the widest type of weights that fits, or in every one that does.

    `words` must all occur among the names of a model.

    Raises:
        GpuplanError: the machine or the engine is not known, or no model is of the kind that is wanted.
    """
    _known_licenses(ask, library)
    engine = ask.engine or usual_engine(ask.on, library)
    profile, instead = library.engine(split_name(engine)[0])
    library.target(ask.on)
    found: list[Runs] = []
    left: Counter[str] = Counter()
    for card in steps(list(_wanted(ask, library, [word.lower() for word in words])), "models"):
        made, why = _of_card(card, ask, engine, library)
        found += made
        left[why] += not made
    found.sort(key=_ORDERS[ask.sort or "size"])
    notes = {note.text: note for one in found for note in one.estimate.notes if note.code.startswith(("hw.", "target.", "spec."))}
    return WhatRuns(
        on=ask.on, engine=profile.name, runs=tuple(found), left_out={why: n for why, n in left.items() if n},
        notes=(*notes.values(), *instead),
    )  # fmt: skip


def usual_engine(on: str, library: Library) -> str:
    """What one user runs models with: the only engine of the part, a server's where memory is HBM, llama.cpp elsewhere."""
    part = library.target(on).accelerator
    own = part.default_engines.get("serve")
    if own is not None or not part.memory.type.upper().startswith("HBM"):
        return own or LOCAL
    server = library.engine(SERVER)[0]
    if server.refused_by(part.vendor, part.family) is None:
        return SERVER
    last = server.last_on(part.vendor, part.family)
    return LOCAL if last is None else f"{SERVER}@{last}"


def kind_of(card: ModelCard) -> ModelKind:
    """Which kind a model is of, by its stacks."""
    arch = card.architecture
    if not arch.generates:
        return "image" if PATCHES in arch.extra_params else "reader"
    return "encoder-decoder" if arch.two_stacks else "text"


def obtainable(card: ModelCard) -> bool:
    """Whether weights can be had: it has an id of the hub, which is an owner and a name."""
    return any(name.count("/") == 1 for name in card.aliases)


def _wanted(ask: WhatRunsAsk, library: Library, words: Sequence[str]) -> Iterator[ModelCard]:
    """The cards of the kind and size that are asked for.

    Raises:
        UsageError: there are none.
    """
    none = True
    for card in cards(library.own_cards()):
        size = float(card.count().params_total.value)
        named = all(word in f"{card.id} {card.name} {' '.join(card.aliases)}".lower() for word in words)
        if named and kind_of(card) in (ask.kind or ("text",)) and (ask.smallest or 0.0) <= size <= (ask.largest or inf):
            none = False
            yield card
    if none:
        what = "no model of the catalog is so called, of this kind and size"
        raise UsageError(Problem("what-runs.none", what, _pictures(words, ask.on) or "`gpuplan models list` shows all"))


def _pictures(words: Sequence[str], on: str) -> str:
    """What to ask where the words name a model that makes pictures or clips; nothing where they do not."""
    from gpuplan.models.diffusion.catalog import diffusion_cards

    found = (card for card in diffusion_cards() if words and all(w in f"{card.id} {card.name}".lower() for w in words))
    named = next(found, None)
    return "" if named is None else f"`gpuplan serve {named.id} --on {on}` answers for models that make pictures or clips"


def _licenses(ask: WhatRunsAsk) -> frozenset[str]:
    """The licences that are asked for, by the names of cards."""
    return frozenset(name.strip().lower() for name in (ask.license or "").split(",") if name.strip())


def _known_licenses(ask: WhatRunsAsk, library: Library) -> None:
    """See to it that some model is under each licence that is asked for.

    Raises:
        UsageError: no card names one of them, with those that there are.
    """
    if ask.license is None:
        return
    known = sorted({card.license.name for card in cards(library.own_cards()) if card.license is not None})
    for name in sorted(_licenses(ask)):
        if name not in known:
            hint = did_you_mean(name, known) or f"on record are {', '.join(known)}"
            raise UsageError(Problem("what-runs.license", f"no model of the catalog is known to be under `{name}`", hint))


def _of_card(card: ModelCard, ask: WhatRunsAsk, engine: str, library: Library) -> tuple[list[Runs], str]:
    """The types of weights in which a model runs, the widest first, or why there is none.

    Raises:
        UsageError: an option is wrong.
    """
    made: list[Runs] = []
    if not obtainable(card):
        return made, NOT_PUBLISHED
    if ask.license is not None and (card.license is None or card.license.name not in _licenses(ask)):
        return made, NO_LICENSE if card.license is None else OTHER_LICENSE
    whys = {NO_ROOM}
    for weights in _formats(card, ask, engine, library):
        try:
            one = _run(card, weights, ask, engine, library)
        except UsageError as error:
            if error.problems[0].code != WITHOUT_KERNELS:
                raise
            whys.add(NO_KERNELS)
            continue
        except GpuplanError as error:
            whys.add(error.problems[0].message)
            continue
        if one is not None and one.speed >= (SLOWEST if ask.slowest is None else ask.slowest):
            made.append(one)
            if not ask.every_type:
                break
        elif one is not None:
            whys.add(SLOW)
    if not made and ask.host_memory is not None and _places(engine, library):
        one = _with_host(card, _formats(card, ask, engine, library)[-1], ask, engine, library)
        if one is not None and one.speed >= (SLOWEST if ask.slowest is None else ask.slowest):
            made.append(one)
        elif one is not None:
            whys.add(SLOW)
    return made, max(whys, key=lambda why: (why == SLOW, why != NO_ROOM))


def _places(engine: str, library: Library) -> bool:
    """Whether the engine runs layers in the memory of the host."""
    serving = library.engine(split_name(engine)[0])[0].serving
    return serving is not None and serving.host is not None and "gpu_layers" in serving.host.places


def _formats(card: ModelCard, ask: WhatRunsAsk, engine: str, library: Library) -> tuple[WeightFormat, ...]:
    """The types to try, in order: the user's, or as the checkpoint is stored and then those that the engine's users find."""
    if ask.weights is not None:
        return ask.weights
    asked = ServeAsk(model=card.id, on=ask.on, engine=engine, memory=ask.memory)
    own, _ = stored_format(card, library.look_up(asked, "serve", with_price=False).subject)
    serving = library.engine(split_name(engine)[0])[0].serving
    ready = serving.formats.ready if serving is not None and card.weights is None else None
    return (own, *(cast("WeightFormat", one) for one in (ready.text.split() if ready is not None else ()) if one != own))


def _run(
    card: ModelCard, weights: WeightFormat, ask: WhatRunsAsk, engine: str, library: Library, placed: Placed = NOWHERE
) -> Runs | None:  # fmt: skip
    """The answer for one user of a model in one type of weights, with a part of it `placed` on the host; None: it does not fit."""
    limit = card.architecture.max_context or inf
    asked = _asked(card, weights, ask, engine, placed)
    one = settled(asked, library)
    if not one.fits:
        return None
    made = answer_of(asked, one)
    if not host_holds(made.figures):
        return None
    size = card.count()
    return Runs(
        card=card, kind=kind_of(card), params=float(size.params_total.value), active=float(size.params_active.value), estimate=made,
        speed=float(made.figures[SPEED if card.architecture.generates else READ].value),
        longest=_longest(one, limit) if card.architecture.remembers else None, placed=placed,
        command="" if one.command is None else one.command.text,
    )  # fmt: skip


def _asked(card: ModelCard, weights: WeightFormat, ask: WhatRunsAsk, engine: str, placed: Placed) -> ServeAsk:
    context = int(min(ask.context or CONTEXT, card.architecture.max_context or inf))
    output = min(ask.output or OUTPUT, context // 2) if card.architecture.generates else None
    return ServeAsk(
        model=card.id, on=ask.on, engine=engine, weights=weights, kv_cache=ask.kv_cache, batch=1, context=context,
        prompt=min(ask.prompt or PROMPT, context - (output or 0)), output=output, specs=ask.specs, calibrated=ask.calibrated,
        margin=ask.margin, memory=ask.memory, gpu_layers=placed.get("gpu_layers"), host_experts=placed.get("host_experts"),
        host_memory=ask.host_memory if placed else None, host_bandwidth=ask.host_bandwidth if placed else None,
    )  # fmt: skip


def _with_host(card: ModelCard, weights: WeightFormat, ask: WhatRunsAsk, engine: str, library: Library) -> Runs | None:
    """The same with as little in the memory of the host as fits: experts of some layers, or else whole layers."""

    def fits(name: str, count: int) -> bool:
        one = settled(_asked(card, weights, ask, engine, {name: count}), library)
        return one.fits and host_holds(ServingModel.of(one.subject, one.plan).memory().on_host)

    profile = library.engine(split_name(engine)[0])[0].id
    found = least_on_host(card, fits, whole=whole_layers(engine, profile, library))
    return _run(card, weights, ask, engine, library, found) if found else None


def _longest(one: Settled, limit: float) -> int:
    """The longest context of one sequence that fits, at most what the model was made for; of `STEPS` in the last doubling."""
    import numpy as np

    start = float(one.plan.context)

    def most(contexts: Any) -> float:
        plan = one.plan.replaced(context=contexts, queues=False)
        memory = ServingModel.of(one.subject, plan).memory()
        fits = np.broadcast_to(memory.needed.value <= memory.budget.value, contexts.shape)
        return float(contexts[fits].max()) if fits.any() else start

    doublings = start * 2.0 ** np.arange(24)
    whole = most(np.unique(np.minimum(doublings, limit)))
    if whole >= limit:
        return int(limit)
    return int(max(whole, most(np.floor(whole * (1 + np.arange(STEPS) / STEPS)))))


_ORDERS: Mapping[Order, Callable[[Runs], Any]] = {
    "size": lambda one: (-one.params, one.card.id),
    "speed": lambda one: (-one.speed, one.card.id),
    "context": lambda one: (-(one.longest or 0), -one.params, one.card.id),
    "name": lambda one: one.card.id,
}
