"""What do many serving questions answer that name the same model on the same machine with other lengths and batches?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpuplan.errors import GpuplanError
from gpuplan.estimate.figures_at import Priced
from gpuplan.estimate.reading import served_figures
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.subject import Subject
from gpuplan.files.progress import steps
from gpuplan.num import Apart, ceil_div
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.parallelism import mask
from gpuplan.plan.serve import ServePlan
from gpuplan.record import Record
from gpuplan.search.drafting import drafting_of
from gpuplan.search.library import Found, Library
from gpuplan.search.load import load_of
from gpuplan.search.requests import Requested, requested
from gpuplan.search.serving import looked_up, wanted
from gpuplan.search.serving_judges import Judges, credit, held
from gpuplan.search.serving_space import PARTS, Want, serving_space
from gpuplan.search.space import placed

NAMED = ("model", "on", "engine", "prompt", "output", "batch", "context", "weights", "kv_cache", "tp", "pp", "dp", "ep",
         "concurrency", "arrival", "requests", "recv_interval", "cached_share", "cached_prefixes", "prompt_spread", "output_spread",
         "max_batched_tokens", "max_sequences", "batch_wait", "mixed_chunk", "draft", "draft_tokens",
         "as_engine")  # fmt: skip
"""What such a question may say; any other is answered alone."""
DIFFER = ("prompt", "output", "batch", "context", "concurrency", "requests")
"""What may differ between those that are priced at once."""


class Together(Record, kw_only=True, eq=False):
    """Questions that were priced at once: their figures as arrays, the plan of arrays, and the place of each by its text."""

    priced: Priced
    plan: ServePlan
    places: Mapping[str, int]

    def at(self, index: int) -> Estimate:
        """The answer of one of them; errors as `Priced.at`."""
        return self.priced.at(index, _question(self.plan, index))


def answers_at_once(asks: Iterable[ServeAsk], library: Library) -> dict[str, Estimate]:
    """The answers of questions by their text, each as `answer_serving` has it but for its explanation and its money.

    What months cost, tokens that are read and written, and what one request alone has, is worked out for one answer. Left out
    are those that must be asked alone: with a division to choose, or options beside the usual ones, or that cannot be
    answered, so that whoever asks them again hears why.
    """
    found: dict[str, Estimate] = {}
    for group in priced_at_once(asks, library):
        for text, index in group.places.items():
            try:
                found[text] = group.at(index)
            except GpuplanError:
                continue
    return found


def priced_at_once(asks: Iterable[ServeAsk], library: Library) -> Iterator[Together]:
    """Questions by what they share, priced as arrays; left out are those that must be asked alone."""
    groups: dict[str, dict[str, ServeAsk]] = {}
    for ask in asks:
        if ask == ServeAsk(**{name: getattr(ask, name) for name in NAMED}):
            alike = {name: None if getattr(ask, name) is None else 1 for name in DIFFER}
            groups.setdefault(repr(ask.replaced(**alike)), {})[repr(ask)] = ask
    for group in steps(list(groups.values()), "groups of questions"):
        try:
            found = _priced(list(group.values()), library)
        except (GpuplanError, Apart):
            continue  # Each is asked alone, where its own message is told.
        if found is not None:
            yield found


def _priced(asks: Sequence[ServeAsk], library: Library) -> Together | None:
    """The figures of questions that differ in numbers alone; None: they must be asked alone.

    Raises:
        GpuplanError: something about all of them is wrong or not known.
        Apart: they do not share their formulas.
    """
    first = asks[0]
    found = looked_up(first, library)
    arch = found.card.architecture
    if not arch.generates or arch.two_stacks:
        return None
    requests = [requested(ask, found) for ask in asks]
    asked, _ = wanted(first, found, requests[0])
    drafting, _ = drafting_of(first, found, library, asked.types)
    want = _divided(asked.replaced(drafting=drafting), found.subject)
    if want is None:
        return None
    with np.errstate(all="ignore"):
        plan, legal = _plans(asks, requests, want, found)
        if want.batch is None:
            plan = plan.replaced(batch=_open_batch(plan, want, found.subject))
        priced = Priced.of(served_figures(found.subject, plan))
    return Together(priced=priced, plan=plan, places={repr(ask): at for at, ask in enumerate(asks) if legal[at]})


def _divided(want: Want, subject: Subject) -> Want | None:
    """What is looked for with the only division of the accelerators that is legal; None: there are several.

    Errors as `serving_space`.
    """
    if want.opens(subject):
        return None
    found = {(plan.parallel.tp, plan.parallel.pp) for _, plan in serving_space(want.replaced(batch=None), subject).singles()}
    if len(found) != 1:
        return None
    tp, pp = (int(one) for one in found.pop())
    # Without a number of replicas, a batch decides with what division it can be shared evenly.
    return want.replaced(tp=tp, pp=pp) if want.dp or tp * pp == subject.hw.count or (want.tp and want.pp) else None


def _plans(
    asks: Sequence[ServeAsk], asked: Sequence[Requested], want: Want, found: Found
) -> tuple[ServePlan, Any]:  # fmt: skip
    """The plans of questions as one plan of arrays, and which of them are legal; errors as `serving_space`."""
    space = serving_space(want, found.subject)
    prompt, output, context = (np.array([getattr(one, name) for one in asked], float) for name in ("prompt", "output", "context"))
    values = space.completed({"tp": float(want.tp or 1), "pp": float(want.pp or 1), "batch": 1.0})
    dp = values["dp"]
    loads = [load_of(ask) for ask in asks]
    at_once = [ask.batch if load is None else load.concurrency for ask, load in zip(asks, loads, strict=True)]
    if at_once[0] is not None:
        values = {**values, "batch": ceil_div(_column(at_once), dp)}
    load = loads[0]
    if load is not None:
        requests = None if load.requests is None else _column([None if one is None else one.requests for one in loads])
        load = load.replaced(concurrency=_column(at_once), requests=requests)
    plan = placed(space.plan.replaced(prompt=prompt, output=output, context=context, load=load), values)
    given = want.dp is None or want.dp == dp
    legal = np.broadcast_to(np.asarray(mask(space.rules(plan)) & given, dtype=np.bool_), (len(asks),))
    return plan, legal


def _column(numbers: Iterable[Any]) -> Any:
    return np.array([0.0 if one is None else float(one) for one in numbers])


def _open_batch(plan: ServePlan, want: Want, subject: Subject) -> Any:
    """Of the batches that a search looks at where none is named, the best of each question."""
    judges = Judges(want, subject)
    tried = judges.plan(plan.replaced(batch=np.array(PARTS)[:, None] + 0.0 * plan.prompt))
    fits, rank, memory = held(subject, tried)
    speed = np.broadcast_to(served_figures(subject, tried).figures["tokens_per_s"].value, np.shape(tried.batch))
    needed = np.broadcast_to(memory.needed.value, np.shape(tried.batch))
    order = np.where(fits, -speed * credit(rank), np.inf)
    best = np.where(fits.any(axis=0), order, needed).argmin(axis=0)
    return np.take_along_axis(np.asarray(tried.batch), best[None, :], axis=0)[0]


def _question(plan: ServePlan, index: int) -> Mapping[str, str]:
    """The numbers of a plan in words."""

    def one(value: Any) -> str:
        return f"{float(np.asarray(value)[index]) if np.ndim(value) else float(value):.12g}"

    return {"prompt": one(plan.prompt), "output": one(plan.output), "batch": one(plan.batch * plan.parallel.dp)}
