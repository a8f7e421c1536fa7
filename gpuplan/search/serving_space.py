"""Which divisions of accelerators into replicas does serving choose from, and what makes one better than another?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from gpuplan.errors import PlanError, Problem
from gpuplan.estimate.reading import served_figures
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_memory import ServingMemory, at_least
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.under_load import under_load, when_full
from gpuplan.num import ceil_div, floor, maximum, minimum, where
from gpuplan.plan.drafting import Drafting
from gpuplan.plan.load import Load
from gpuplan.plan.parallelism import Parallelism, Rule, divisors, nearest
from gpuplan.plan.serve import Images, ServePlan, Settings, serve_rules
from gpuplan.plan.words import ExpertExchange
from gpuplan.ranges import high_end
from gpuplan.record import Record
from gpuplan.search.best import Judged
from gpuplan.search.serving_types import StoredTypes
from gpuplan.search.shape import shape_of
from gpuplan.search.space import Part, Space

FEW = 16
"""So many divisions are sooner looked at one by one than numpy is imported: most are dismissed by their memory."""
AS_FAST = 0.995
"""Of divisions within half a percent of the fastest the one with the fewest stages is taken, which answers sooner."""


OPEN_DRAFTS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
"""Numbers of drafts that are looked at where nobody says."""
_FLAGS = {"tp": "tp", "pp": "pp", "attention_dp": "attention-dp", "dp": "dp"}
PARTS = (1.0, 8 / 7, 4 / 3, 8 / 5, 2.0)
"""What the largest batch is divided by: kernels may leave more of the machine idle with a few sequences more."""


class Want(Record, kw_only=True):
    """A question with its lengths and formats settled; only the division of the accelerators and the batch are open."""

    prompt: int
    output: int
    context: int
    batch: int | None
    """Sequences of all replicas together; None: as many as the caches hold and the engine runs."""
    types: StoredTypes
    tp: int | None
    pp: int | None
    dp: int | None = None
    ep: int | None = None
    attention_dp: int | None = None
    redundant_experts: int = 0
    expert_exchange: ExpertExchange | None = None
    drafting: Drafting | None = None
    """What drafts; with no number of drafts, that is open."""
    spread_experts: bool = False
    """Experts are spread over the ranks of tp and of the replicas that are asked for."""
    expert_skew: float | None = None
    settings: Settings = Settings()
    load: Load | None = None
    queues: bool = True
    """Whether sequences that the caches have no room for may wait."""
    images: Images | None = None
    """What a request shows beside its prompt of text."""
    audio: float | None = None
    """Seconds of the recording that is written down."""
    beams: float = 1.0
    """Hypotheses that a search keeps of each sequence."""


def serving_space(want: Want, subject: Subject) -> Space[ServePlan]:
    """The divisions of all accelerators into replicas of tp x pp that share the batch evenly.

    Of an open batch, plans say what part of the largest one they run (`filled`). Where a batch cannot be shared evenly, the
    division that was asked for is left, or replicas of one accelerator.
    """
    ranks = subject.hw.count
    shape = shape_of(subject.arch, ranks, subject.engine)
    splits = subject.engine.serving.splits if subject.engine.serving is not None else ("tp", "pp")
    tp = [want.tp] if want.tp else divisors(ranks) if "tp" in splits or want.pp else [1]
    pp = [want.pp] if want.pp else divisors(ranks) if "pp" in splits else [1]
    sharing = want.attention_dp or 1
    if want.dp:
        tp, pp = _with_replicas(want, ranks, tp, pp)
    elif sharing > 1:
        tp, pp = _with_sharing(sharing, ranks, tp, pp)
    batch = want.batch
    replicas = [ranks // (one * other) for one in tp for other in pp if ranks % (one * other) == 0]
    shared = batch is not None and want.load is None and any(batch % dp == 0 for dp in replicas)
    if batch is not None and not shared and not want.dp and want.load is None:
        tp, pp = [want.tp or 1], [want.pp or 1]

    can = _can(subject)

    def rules(plan: ServePlan) -> Iterator[Rule]:
        return serve_rules(plan, shape, subject.arch.positions, generates=subject.arch.generates, can=can)

    def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        dp = maximum(floor(ranks / (values["tp"] * values["pp"])), 1.0)
        spread = {"ep": values["tp"] * float(want.dp or 1)} if want.spread_experts else {}
        if sharing > 1 and want.ep is None:
            spread = {"ep": values["tp"] * float(sharing)}
        if want.attention_dp is None:
            # Experts that reach over replicas make these ranks of attention of one.
            ep = spread.get("ep", float(want.ep or 1))
            spread["attention_dp"] = where(ep > values["tp"], ep / values["tp"], 1.0)
        return {"batch": 1.0 if batch is None else ceil_div(batch, dp), **values, **spread, "dp": dp}

    def wanted(plan: ServePlan) -> Any:
        fair = batch % plan.parallel.dp == 0 if batch is not None and shared else True
        whole = plan.parallel.dp % sharing == 0
        return fair & whole if want.dp is None else fair & (plan.parallel.dp == want.dp * sharing)

    plan = ServePlan(
        parallel=Parallelism(zero_stage=0, sequence_parallel=False, ep=float(want.ep or 1), expert_skew=want.expert_skew,
            attention_dp=float(sharing), redundant_experts=float(want.redundant_experts)),
        expert_exchange=want.expert_exchange, drafting=want.drafting,
        batch=1.0, prompt=float(want.prompt), output=float(want.output), context=float(want.context), queues=want.queues,
        settings=want.settings, load=want.load, weights=want.types.weights, kv_cache=want.types.kv_cache, group=want.types.group,
        plain=want.types.plain, parts=want.types.parts, checkpoint=want.types.checkpoint, images=want.images, audio=want.audio,
        beams=want.beams,
    )  # fmt: skip
    axes: dict[str, Sequence[float]] = {"pp": pp, "tp": tp}
    if batch is None:
        axes["batch"] = PARTS if want.load is None else (1.0,)
    if want.drafting is not None and not want.drafting.draft_tokens:
        axes["draft_tokens"] = OPEN_DRAFTS
    return Space(plan=plan, axes=axes, rules=rules, completed=completed, wanted=wanted)


def _with_replicas(want: Want, ranks: int, tp: list[int], pp: list[int]) -> tuple[list[int], list[int]]:
    """The degrees with which there are as many replicas as are wanted.

    Raises:
        PlanError: there are none.
    """
    sharing = want.attention_dp or 1
    legal = [(one, other) for one in tp for other in pp if one * other * (want.dp or 1) * sharing == ranks]
    if legal:
        return sorted({one for one, _ in legal}), sorted({one for _, one in legal})
    given = {_FLAGS[name]: value for name in _FLAGS if (value := getattr(want, name))}
    said, needed = " x ".join(f"{name} {value}" for name, value in given.items()), prod(given.values())
    if len(given) == 1 or ranks % needed:
        hint = f"use dp {nearest(float(want.dp or 1), divisors(ranks))}" if len(given) == 1 else "leave one of them out"
        raise PlanError(Problem("plan.ranks", f"{said} does not divide the {ranks} accelerators", hint))
    hint = f"leave dp out for replicas on all of them, or name {needed} accelerators"
    raise PlanError(Problem("plan.ranks", f"{said} = {needed} ranks, but there are {ranks} accelerators", hint))


def _with_sharing(sharing: int, ranks: int, tp: list[int], pp: list[int]) -> tuple[list[int], list[int]]:
    """The degrees that leave ranks of attention in whole replicas.

    Raises:
        PlanError: there are none.
    """
    legal = [(one, other) for one in tp for other in pp if ranks % (one * other * sharing) == 0]
    if legal:
        return sorted({one for one, _ in legal}), sorted({one for _, one in legal})
    least = min(one * other for one in tp for other in pp)
    hint = f"use attention-dp {nearest(float(sharing), divisors(max(ranks // least, 1)))}"
    what = f"attention-dp {sharing} does not divide the {ranks} accelerators" + (f" by {least} of each rank" if least > 1 else "")
    raise PlanError(Problem("plan.ranks", what, hint))


def _can(subject: Subject) -> frozenset[str]:
    """What the engine knows besides the usual degrees."""
    serving = subject.engine.serving
    own = None if serving is None else serving.shares_experts
    if own is None:
        return frozenset()
    return frozenset(("attention_dp", "redundant_experts") if own.redundant else ("attention_dp",))


def filled(plan: ServePlan, subject: Subject) -> ServePlan:
    """The plan with as many sequences as the caches of a replica hold and the engine runs, divided by its batch so far."""
    memory = ServingModel.of(subject, plan).memory()
    most, limit = memory.max_sequences, memory.limit.value
    whole = limit if most is None else minimum(most.value, limit)
    return plan.replaced(batch=maximum(floor(whole / plan.batch), 1.0))


class Judges(Record):
    """What prefers one division to another; of equals the smaller replica is taken, and of those the one of fewer stages."""

    want: Want
    subject: Subject

    def plan(self, plan: ServePlan) -> ServePlan:
        """A division with its batch."""
        return filled(plan, self.subject) if self.want.batch is None else plan

    def smallest(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers the fewest accelerators a replica that surely fit, then that fit, or else the least memory."""
        p = part.plan.parallel
        fits, rank, memory = self.held(self.plan(part.plan))
        return Judged(part, part.count(fits), (rank, where(fits, p.tp * p.pp, memory.needed.value), *_size(part)))

    def fastest(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers the most tokens a second of those that surely fit, then of those that fit, or else the least memory.

        The time of those that do not fit is not estimated.
        """
        fits, rank, memory = self.held(self.plan(part.plan))
        fitting = part.count(fits)
        if not fitting:
            return Judged(part, 0, (rank, memory.needed.value, *_size(part)))
        part = part.where(fits)
        _, rank, _ = self.held(self.plan(part.plan))
        return Judged(part, fitting, (rank, -self._speed(part), *_size(part)))

    def keeping(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers, of divisions that surely fit, those that keep the rate, by the time of a request; or else the highest rate.

        Divisions that do not keep it have no time of a request.
        """
        fits, rank, memory = self.held(self.plan(part.plan))
        fitting = part.count(fits)
        if not fitting:
            return Judged(part, 0, (rank, 0.0, memory.needed.value, *_size(part)))
        part = part.where(fits)
        model = ServingModel.of(self.subject, self.plan(part.plan))
        rate = when_full(model, model.memory()).most.value
        keeps = rate > self._rate()
        if not part.count(keeps):
            _, rank, _ = self.held(self.plan(part.plan))
            return Judged(part, fitting, (rank, 1.0 + 0.0 * rate, -rate, *_size(part)))
        part = part.where(keeps)
        _, rank, _ = self.held(self.plan(part.plan))
        model = ServingModel.of(self.subject, self.plan(part.plan))
        memory = model.memory()
        load = model.plan.load
        if load is None:
            raise TypeError("only a rate can be kept")
        time = under_load(model, memory, load, when_full(model, memory)).figures["e2e_s"].value
        return Judged(part, fitting, (rank, 0.0 * time, time, *_size(part)))

    def _rate(self) -> float:
        load = self.want.load
        return 0.0 if load is None or load.rate is None else float(load.rate)

    def fewest_stages(self, rank: float, speed: float) -> Any:
        """What prefers the fewest stages of those that are as sure and nearly as fast as the fastest, then the fastest of them."""

        def judge(part: Part[ServePlan]) -> Judged[ServePlan]:
            fits, _, memory = self.held(self.plan(part.plan))
            fitting = part.count(fits)
            if not fitting:
                return Judged(part, 0, (1.0, memory.needed.value, 0.0, *_size(part)))
            part = part.where(fits)
            _, own, _ = self.held(self.plan(part.plan))
            fast = self._speed(part)
            near = (own <= rank) & (fast >= speed * AS_FAST)
            return Judged(part, fitting, (where(near, 0.0, 1.0), part.plan.parallel.pp + 0.0 * fast, -fast, *_size(part)))

        return judge

    def _speed(self, part: Part[ServePlan]) -> Any:
        return served_figures(self.subject, self.plan(part.plan)).figures["tokens_per_s"].value

    def held(self, plan: ServePlan) -> tuple[Any, Any, ServingMemory]:
        """Which divisions, with their batch, fit, how surely (the less the surer), and what they hold."""
        memory = ServingModel.of(self.subject, plan).memory()
        fits = memory.needed.value <= memory.budget.value
        sure = high_end(at_least(memory.needed)) <= memory.budget.value
        return fits, where(sure & fits, -2.0, where(fits, -1.0, 0.0)), memory


def _size(part: Part[ServePlan]) -> tuple[Any, Any]:
    """Accelerators and stages of a replica."""
    p = part.plan.parallel
    return p.tp * p.pp, p.pp
