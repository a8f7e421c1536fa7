"""Which divisions of accelerators into replicas does serving choose from, and how may each share its experts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

from gpuplan.errors import PlanError, Problem
from gpuplan.estimate.subject import Subject
from gpuplan.models.architecture import Architecture
from gpuplan.models.mixers import Attention, Mla
from gpuplan.num import ceil_div, floor, maximum, where
from gpuplan.plan.drafting import Drafting
from gpuplan.plan.load import Load
from gpuplan.plan.parallelism import Parallelism, Rule, Shape, divisors, legal_tp, nearest
from gpuplan.plan.serve import Images, ServePlan, Settings, serve_rules
from gpuplan.plan.words import ExpertExchange
from gpuplan.record import Record
from gpuplan.search.serving_types import StoredTypes
from gpuplan.search.shape import shape_of
from gpuplan.search.space import Space
from gpuplan.specs.engine_sharing import ContextRanks, SharedExperts

OPEN_DRAFTS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
"""Numbers of drafts that are looked at where nobody says."""
_FLAGS = {"tp": "tp", "pp": "pp", "attention_dp": "attention-dp", "dp": "dp"}
PARTS = (1.0, 8 / 7, 4 / 3, 8 / 5, 2.0)
"""What the largest batch is divided by: kernels may leave more of the machine idle with a few sequences more."""
CUTS = (1.0, 2.0, 4.0, 8.0, 16.0)
"""Ranks that may share each expert where nobody says, besides all of them."""
MORE = (0.0, 1.0, 2.0, 4.0)
"""Experts that a rank may hold beside its share of them where nobody says."""


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
    decode_cp: int | None = None
    redundant_experts: int | None = None
    expert_exchange: ExpertExchange | None = None
    shares: bool = False
    """How replicas share their experts is open where it is not said; otherwise that is as the engine has it."""
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

    def opens(self, subject: Subject) -> bool:
        """Whether ranks of attention, spread experts and what travels to them are chosen."""
        named = self.spread_experts or (self.dp is not None and (self.ep or 1) > (self.tp or 1))
        return self.shares and not named and shares_experts(subject) is not None and subject.hw.count > 1


def shares_experts(subject: Subject) -> SharedExperts | None:
    """How the engine's ranks of attention share experts; None: it has none, or the model has no experts."""
    serving = subject.engine.serving
    return None if serving is None or not subject.arch.moes else serving.shares_experts


def sees_all(arch: Architecture, stripes: ContextRanks) -> bool:
    """Whether every layer keeps a cache of the whole context, of a kind that the engine can divide along it."""
    latents = [isinstance(mixer, Mla) for mixer in arch.mixers]
    whole = [isinstance(mixer, Attention) and not (mixer.window or mixer.chunk) for mixer in arch.mixers]
    return not arch.two_stacks and all(
        one or (other and not stripes.latents_alone) for one, other in zip(latents, whole, strict=True)
    )


def serving_space(want: Want, subject: Subject) -> Space[ServePlan]:
    """The divisions of all accelerators into replicas of tp x pp that share the batch evenly.

    Where it is open, each replica may have ranks of attention that share its experts, which are spread over them or cut, some held
    twice. Of an open batch, plans say what part of the largest one they run (`filled`). Where a batch cannot be shared evenly, the
    divisions are left whose replicas run the fewest more.
    """
    ranks = subject.hw.count
    shape = shape_of(subject.arch, ranks, subject.engine).replaced(joined=subject.hw.joined)
    tp, pp = _divisions(want, shape, subject)
    opens, can = want.opens(subject), _can(subject)
    sharing = divisors(ranks) if opens and not want.attention_dp and "attention_dp" in can else [want.attention_dp or 1]
    if want.dp:
        tp, pp = _with_replicas(want, ranks, tp, pp, sharing)
    elif sharing[0] > 1:
        tp, pp = _with_sharing(sharing[0], ranks, tp, pp)
    batch = want.batch
    apart = shape.joined  # Of machines that nothing joins each has replicas of its own, and in `fit` its own sequences.
    legal = {want.tp, *(divisors(ranks) if shape.pads else legal_tp(shape))}
    replicas = [
        ranks // (one * other)
        for one in tp for other in pp
        if one in legal and ranks % (one * other) == (apart or 0) % (one * other) == 0
    ]  # fmt: skip
    least = 0 if batch is None else min((dp * ceil_div(batch, dp) for dp in replicas), default=0)
    shared = batch is not None and want.load is None and least == batch
    odd = batch is not None and not shared and not want.dp and want.load is None
    if odd and apart is None:
        sharing = sharing[:1]
    sharing = [one for one in sharing if any(ranks % (one * first * other) == 0 for first in tp for other in pp)] or [1]

    def rules(plan: ServePlan) -> Iterator[Rule]:
        return chain(
            serve_rules(plan, shape, subject.arch.positions, generates=subject.arch.generates, can=can), _stages(plan, subject)
        )

    def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        dp = maximum(floor(ranks / (values["tp"] * values["pp"])), 1.0)
        made = {"batch": 1.0 if batch is None else ceil_div(batch, dp), **values, "dp": dp}
        return _shared(want, shape, made) if opens else {**made, **_as_said(want, values)}

    def wanted(plan: ServePlan) -> Any:
        p = plan.parallel
        fair = not odd or not want.queues
        if batch is not None and (shared or (odd and apart is None)):
            fair = p.dp * ceil_div(batch, p.dp) == least
        replicas = p.attention_dp if opens or want.attention_dp else 1.0
        whole = p.dp % replicas == 0
        kept = fair & whole if want.dp is None else fair & (p.dp == want.dp * replicas)
        return kept & _once(plan, want) if opens else kept

    plan = ServePlan(
        parallel=Parallelism(zero_stage=0, sequence_parallel=False, ep=float(want.ep or 1), expert_skew=want.expert_skew,
            attention_dp=float(want.attention_dp or 1), decode_cp=float(want.decode_cp or 1),
            redundant_experts=float(want.redundant_experts or 0)),
        expert_exchange=want.expert_exchange, drafting=want.drafting,
        batch=1.0, prompt=float(want.prompt), output=float(want.output), context=float(want.context), queues=want.queues,
        settings=want.settings, load=want.load, weights=want.types.weights, kv_cache=want.types.kv_cache, group=want.types.group,
        plain=want.types.plain, parts=want.types.parts, checkpoint=want.types.checkpoint, images=want.images, audio=want.audio,
        beams=want.beams,
    )  # fmt: skip
    axes: dict[str, Sequence[float]] = {"pp": pp, "tp": tp}
    cases: dict[str, Sequence[Any]] = {}
    if opens:
        axes["attention_dp"] = sharing
        axes |= _axes(want, can)
        if max(sharing) > 1:
            cases = _cases(want, subject, can)
    stripes = _stripes(want, shape, can, max(axes["tp"]))
    if len(stripes) > 1:
        axes["decode_cp"] = stripes
    if batch is None:
        axes["batch"] = PARTS if want.load is None else (1.0,)
    if want.drafting is not None and not want.drafting.draft_tokens:
        axes["draft_tokens"] = OPEN_DRAFTS
    return Space(plan=plan, axes=axes, cases=cases, rules=rules, completed=completed, wanted=wanted)


def _divisions(want: Want, shape: Shape, subject: Subject) -> tuple[list[int], list[int]]:
    """The degrees of tensor parallelism and of stages: the user's, or those that the engine is usually run with."""
    splits = subject.engine.serving.splits if subject.engine.serving is not None else ("tp", "pp")
    staged = "pp" in splits and not _is_whole(subject)
    all_of_them = divisors(shape.ranks)
    tp = [want.tp] if want.tp else all_of_them if "tp" in splits or want.pp else [1]
    pp = [want.pp] if want.pp else [one for one in all_of_them if one <= shape.layers] if staged else [1]
    if not shape.one_split:
        return tp, pp
    return tp if want.tp or (want.pp or 1) == 1 else [1], pp if want.pp or (want.tp or 1) == 1 else [1]


def _stripes(want: Want, shape: Shape, can: frozenset[str], tp: float) -> list[float]:
    """How many ranks may share caches along the context where nobody says: at most those that would hold copies of a head."""
    if want.decode_cp or not want.shares or "decode_cp" not in can or not (shape.latent or shape.kv_heads):
        return [1.0]
    most = tp if shape.latent else tp / max(shape.kv_heads)
    return [float(2**at) for at in range(12) if 2**at <= most] or [1.0]


def _axes(want: Want, can: frozenset[str]) -> dict[str, Sequence[float]]:
    """How experts may lie on the ranks of a replica: `cut` so many ways each (0: all ways), and `more` of them beside."""
    cuts: Sequence[float] = (0.0,) if want.ep else (0.0, 1.0) if "whole" in can else (0.0, *CUTS)
    twice = want.redundant_experts is None and "redundant_experts" in can
    return {"cut": cuts, "more": MORE if twice else (0.0,)}


def _cases(want: Want, subject: Subject, can: frozenset[str]) -> dict[str, Sequence[Any]]:
    """How tokens may travel to experts, and whether two micro-batches take turns: what the engine does unasked first."""
    own = shares_experts(subject)
    ways: list[ExpertExchange | None] = [want.expert_exchange]
    if want.expert_exchange is None and "all-to-all" in can:
        ways.append("all-to-all")
    if want.expert_exchange is None and own is not None and own.gathers is not None:
        ways.append("gathered")
    turns: list[bool | None] = [want.settings.overlap_batches]
    if want.settings.overlap_batches is None and "overlap_batches" in can and "all-to-all" in ways:
        turns.append(True)
    return {"expert_exchange": ways, "overlap_batches": turns}


def _as_said(want: Want, values: Mapping[str, Any]) -> dict[str, Any]:
    """How a replica shares its experts where that is not open: ranks of attention only where they are asked for, or follow."""
    if want.attention_dp is not None:
        return {"ep": values["tp"] * float(want.attention_dp)} if want.attention_dp > 1 and want.ep is None else {}
    # Experts that reach over replicas make these ranks of attention of one.
    ep = values["tp"] * float(want.dp or 1) if want.spread_experts else float(want.ep or 1)
    return {"ep": ep, "attention_dp": where(ep > values["tp"], ep / values["tp"], 1.0)}


def _shared(want: Want, shape: Shape, values: Mapping[str, Any]) -> dict[str, Any]:
    """The degrees that candidates stand for, without the axes that say so in other words."""
    everyone = values["tp"] * values["attention_dp"]
    cut = values["cut"]
    # Cut all ways, every rank has a part of all experts; as many ways by number is the same once more.
    spread = where(cut < everyone, everyone / maximum(cut, 1.0), 0.0)
    ep = float(want.ep) if want.ep else where(cut == 0, 1.0, spread)
    # The fewest copies with which every rank holds as many experts, and `more` on each rank beside those.
    each = ceil_div(shape.experts + 1.0, maximum(ep, 1.0)) + values["more"] - 1.0
    copies = where(values["more"] > 0, each * ep - shape.experts, 0.0)
    kept = {name: value for name, value in values.items() if name not in ("cut", "more")}
    return {**kept, "ep": ep, "redundant_experts": copies if want.redundant_experts is None else float(want.redundant_experts)}


def _once(plan: ServePlan, want: Want) -> Any:
    """Whether a candidate is none that stands for the same as another: without ranks of attention nothing travels to experts."""
    p = plan.parallel
    plain = plan.expert_exchange == want.expert_exchange and plan.settings.overlap_batches == want.settings.overlap_batches
    spread = (p.ep >= 1) & (p.ep == floor(p.ep))
    return spread & ((p.attention_dp > 1) | plain)


def _with_replicas(want: Want, ranks: int, tp: list[int], pp: list[int], sharing: list[int]) -> tuple[list[int], list[int]]:
    """The degrees with which there are as many replicas as are wanted.

    Raises:
        PlanError: there are none.
    """
    legal = [(one, other) for one in tp for other in pp for more in sharing if one * other * (want.dp or 1) * more == ranks]
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


def _stages(plan: ServePlan, subject: Subject) -> Iterator[Rule]:
    """What keeps a model from being divided into stages."""
    if _is_whole(subject):
        what = f"pp: {subject.engine.id} divides no encoder into stages, and the model is one"
        problem = Problem("plan.encoder-stages", what, "leave --pp out; --tp cuts its layers, and --dp makes replicas")
        yield Rule(plan.parallel.pp == 1, lambda: problem)


def _is_whole(subject: Subject) -> bool:
    """Whether the model is an encoder, and the engine one that divides none into stages."""
    serving = subject.engine.serving
    return serving is not None and serving.whole_encoders is not None and subject.arch.decoder.kind == "encoder"


def _can(subject: Subject) -> frozenset[str]:
    """What the engine knows besides the usual degrees, on these accelerators."""
    serving = subject.engine.serving
    stripes = None if serving is None else serving.decode_cp
    along = frozenset(("decode_cp",) if stripes is not None and sees_all(subject.arch, stripes) else ())
    own = None if serving is None else serving.shares_experts
    if own is None:
        return along
    sends = subject.hw.asked("kernels that send tokens to experts", lambda one: one.family in own.sends_on)
    said = {"attention_dp": own.attention, "redundant_experts": own.redundant, "whole": own.whole, "all-to-all": sends,
            "overlap_batches": own.overlaps and sends}  # fmt: skip
    return along | frozenset(name for name, holds in said.items() if holds)
