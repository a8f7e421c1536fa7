"""How the ranks are divided, and which divisions are legal: one set of rules for a single plan and for a grid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from math import gcd, isqrt
from typing import Any

from gpuplan.errors import PlanError, Problem
from gpuplan.num import Num, all_true, any_true, is_array, maximum, where
from gpuplan.plan.words import ContextKind, Schedule
from gpuplan.record import Record


class Parallelism(Record, kw_only=True):
    """Degrees of parallelism: tp · cp · pp · dp ranks; ep divides the tp · cp · dp ranks of a stage anew.

    Each degree is a number or an array of candidates. `zero_stage` is what data parallelism shards: 1 optimizer states,
    2 and gradients, 3 and weights. `sequence_parallel` is Megatron's and shares the tensor-parallel group.
    """

    tp: Num = 1.0
    pp: Num = 1.0
    dp: Num = 1.0
    cp: Num = 1.0
    ep: Num = 1.0
    vpp: Num = 1.0
    zero_stage: int = 1
    sequence_parallel: bool = True
    schedule: Schedule = "1f1b"
    """The order of a pipeline's passes; with `vpp` above 1, `1f1b` is its interleaved form."""
    first_stage_layers: float | None = None
    """Layers of the first pipeline stage; None: the layers are divided as evenly as they can be."""
    last_stage_layers: float | None = None
    """Layers of the last one, without modules of multi-token prediction."""
    etp: float | None = None
    """How tensor parallelism cuts experts; None: as dense layers without expert parallelism, otherwise not at all."""
    sync_every: float | None = None
    """Steps that replicas take on their own before they average (local SGD, DiLoCo); None: they reduce gradients in every step."""
    shard_group: Num | None = None
    """Ranks of dp x cp that share states between them, with a replica for each group (HSDP); None: all of them share."""
    reshard_group: Num | None = None
    """Ranks between which weights stay after the forward pass under ZeRO-3 (FSDP2, ZeRO++); None: as many as share states."""
    attention_dp: Num = 1.0
    """Serving: ranks of attention inside a replica that share its experts, of the `dp` there are."""
    decode_cp: Num = 1.0
    """Serving: tensor parallel ranks that share the caches of sequences along their context."""
    redundant_experts: Num = 0.0
    """Serving: experts that are held a second time, of each layer."""
    expert_load: float | None = None
    """Tokens of the fullest rank of experts over the mean; None: the router balances them."""
    expert_skew: float | None = None
    """Tokens of the busiest expert over those of the idlest; None: as usual of the task, in training even."""
    capacity_factor: float | None = None
    """Tokens that each expert is padded to and takes at most, over the mean; None: none is dropped or padded."""
    cp_kind: ContextKind = "ring"
    """How ranks that share a sequence attend to all of it: keys and values in a ring, gathered, or heads exchanged (Ulysses)."""

    @property
    def ranks(self) -> Num:
        """How many accelerators the plan uses."""
        return self.tp * self.cp * self.pp * self.dp


class Rule(Record):
    """A legality rule: whether it holds (a truth value, or an array of them), and what to say when it does not."""

    holds: Any
    problem: Callable[[], Problem]


REST_ON_DP = ("plan.batch-divides", "plan.vpp-batches", "plan.schedule-batches", "plan.ep-ranks", "plan.etp-ranks", "plan.sync-dp")
"""Rules that say nothing while the number of replicas is not known."""


def require(rules: Iterable[Rule], without: Collection[str] = ()) -> None:
    """Raise one error that lists every broken rule of a single plan, but for those whose codes are in `without`.

    Raises:
        PlanError: at least one rule does not hold.
    """
    broken = [rule.problem() for rule in rules if not all_true(rule.holds)]
    said = [problem for problem in broken if problem.code not in without]
    if said:
        raise PlanError(*said)


def mask(rules: Iterable[Rule]) -> Any:
    """Which candidates of a grid break no rule: the conjunction of all rules, as an array of truth values.

    Rules of few axes first: what they leave none of is not looked at along the others.
    """
    legal: Any = True
    for holds in sorted((rule.holds for rule in rules), key=lambda one: getattr(one, "size", 1)):
        legal = legal & holds
        if not any_true(legal):
            return legal
    return legal


class Shape(Record, kw_only=True):
    """What the rules need to know of a model and a machine, as plain numbers.

    `heads` are the query heads that tensor parallelism splits (0: none), `kv_heads` the numbers of key and value heads,
    `widths` the feed-forward widths, `experts` the routed experts (0: none), `shared` whether every token has experts of its
    own beside them, `latent` whether keys and values come from latents, `layers` the depth, `ranks` the accelerators that the
    plan must use.
    """

    heads: int
    widths: tuple[int, ...]
    experts: int
    layers: int
    ranks: int
    kv_heads: tuple[int, ...] = ()
    expert_widths: tuple[int, ...] = ()
    shared: bool = False
    highest_stage: int = 3
    """The highest ZeRO stage that the engine has."""
    piped_stage: int = 3
    """The highest ZeRO stage that the engine combines with pipeline stages."""
    engine: str = ""
    """What the engine is called in messages."""
    latent: bool = False
    pads: bool = False
    """Whether heads and widths that tensor parallel ranks do not divide are padded until they do."""
    kv_divider: str = ""
    """The engine whose tensor parallel degree must divide the key and value heads; empty: copies of heads are as good."""
    one_split: bool = False
    """Whether a replica is divided by layers or by matrices, and never by both."""
    joined: int | None = None
    """Accelerators of a machine, where nothing is known to join machines; None: all are joined."""


_FACTOR = 1_000_000


def divisors(number: int) -> list[int]:
    """All divisors of a number in order; of one above 1e12 those up to a million, and what these leave.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [d for d in range(1, min(isqrt(number), _FACTOR) + 1) if number % d == 0]
    return small + [number // d for d in reversed(small) if d * d != number]


def nearest(wanted: float, legal: Iterable[int], most: int = 2) -> str:
    """The legal values nearest to the one wanted, as text.

    >>> nearest(3, [1, 2, 4, 8])
    '2 or 4'
    """
    best = sorted(sorted(legal, key=lambda value: (abs(value - wanted), value))[:most])
    return " or ".join(str(value) for value in best)


def legal_tp(shape: Shape) -> list[int]:
    """The tensor parallel degrees that keep every rule of a model on these accelerators.

    >>> legal_tp(Shape(heads=32, kv_heads=(8,), widths=(14336,), experts=0, layers=32, ranks=24))
    [1, 2, 4, 8]
    """
    return [
        one
        for one in divisors(gcd(shape.ranks, shape.heads, *shape.widths))
        if all(kv_heads % one == 0 or (one % kv_heads == 0 and not shape.kv_divider) for kv_heads in shape.kv_heads)
    ]


def legal_ep(shape: Shape, stage: Num) -> list[int]:
    """The expert parallel degrees that divide the experts and the ranks of a pipeline stage."""
    return divisors(gcd(shape.experts, max(int(stage), 1)))


def parallel_rules(p: Parallelism, shape: Shape) -> Iterator[Rule]:
    """The rules that serving and training share: every degree at least 1 and a divisor of what it divides."""
    for name, value in (("tp", p.tp), ("pp", p.pp), ("dp", p.dp), ("cp", p.cp), ("ep", p.ep), ("vpp", p.vpp)):
        yield at_least_one("plan.degree", name, value)
    yield Rule(p.ranks == shape.ranks, lambda: _ranks(p, shape))
    by_tp = f"use tp {nearest(float(p.tp), legal_tp(shape))}" if not is_array(p.tp) else ""
    if shape.heads and not shape.pads:
        yield divides("plan.tp-heads", "tp", p.tp, shape.heads, f"the {shape.heads} attention heads", by_tp)
    for kv_heads in shape.kv_heads:
        if kv_heads == shape.heads or shape.pads:
            continue
        if shape.kv_divider:
            yield _divides_kv_heads(p.tp, kv_heads, shape, by_tp)
        else:
            yield _shares_kv_heads(p.tp, kv_heads, by_tp)
    for width in () if shape.pads else shape.widths:
        yield divides("plan.tp-width", "tp", p.tp, width, f"the feed-forward width {width}", by_tp)
    yield Rule(p.pp <= shape.layers, lambda: _too_deep(p, shape))
    if shape.experts:
        stage = p.tp * p.cp * p.dp
        by_ep = ""
        if not is_array(p.ep) and not is_array(p.ranks):
            known = stage if p.ranks == shape.ranks else shape.ranks
            by_ep = f"use ep {nearest(float(p.ep), legal_ep(shape, known))}"
        held, what = shape.experts + p.redundant_experts, f"the {shape.experts} experts"
        if not is_array(p.redundant_experts) and p.redundant_experts:
            what = f"{what} and the {p.redundant_experts:g} that are held twice"
        yield divides("plan.ep-experts", "ep", p.ep, held, what, by_ep)
        yield divides("plan.ep-ranks", "ep", p.ep, stage, "the ranks of a pipeline stage (tp x cp x dp)", by_ep)
        if p.etp is not None:
            yield from _expert_tensor_rules(p, p.etp, shape, stage)
    else:
        yield Rule(
            p.etp in (None, 1),
            lambda: Problem("plan.etp-dense", f"etp = {p.etp:g}, but the model has no experts", "leave etp out"),
        )
        yield Rule(p.ep == 1, lambda: Problem("plan.ep-dense", f"ep = {p.ep:g}, but the model has no experts", "leave ep out"))


def _ranks(p: Parallelism, shape: Shape) -> Problem:
    """What to say of degrees whose product is not the number of accelerators."""
    inner = {name: float(value) for name, value in (("tp", p.tp), ("cp", p.cp), ("pp", p.pp)) if value != 1}
    product = float(p.tp * p.cp * p.pp)
    if product > 0 and shape.ranks % product:
        said = " x ".join(f"{name} {value:g}" for name, value in inner.items())
        if len(inner) > 1:
            hint = f"leave one out and it is chosen, or use degrees whose product is {nearest(product, divisors(shape.ranks))}"
            return Problem("plan.ranks", f"{said} = {product:g} does not divide the {shape.ranks} accelerators", hint)
        name, legal = next(iter(inner)), divisors(shape.ranks)
        if name == "tp":
            legal = legal_tp(shape)
        elif name == "pp":
            legal = [one for one in legal if one <= shape.layers]
        hint = f"use {name} {nearest(inner[name], legal)}"
        return Problem("plan.ranks", f"{said} does not divide the {shape.ranks} accelerators", hint)
    said = " x ".join(f"{name} {value:g}" for name, value in {**inner, "dp": float(p.dp)}.items())
    whole = f"{said} = {p.ranks:g}" if inner else said
    if product > 0 and 1 <= p.dp < shape.ranks / product and shape.ranks % (product * p.dp):
        hint = f"use dp {nearest(float(p.dp), divisors(int(shape.ranks / product)))}"
        return Problem("plan.ranks", f"{whole} does not divide the {shape.ranks} accelerators", hint)
    hint = "use degrees of 1 or more"
    if product > 0:
        hint = f"leave one degree out and it is chosen, or use dp {shape.ranks / product:g}"
    return Problem("plan.ranks", f"{whole} ranks, but there are {shape.ranks} accelerators", hint)


def _too_deep(p: Parallelism, shape: Shape) -> Problem:
    legal = [one for one in divisors(shape.ranks) if one <= shape.layers]
    said = f"pp = {p.pp:g} is more than the {shape.layers} layers"
    return Problem("plan.pp-layers", said, f"use pp {nearest(float(p.pp), legal)}")


def sharding_rules(p: Parallelism, shape: Shape) -> Iterator[Rule]:
    """What ZeRO wants of pipelines, and groups of ranks that share states between them (HSDP) of the ranks."""
    if p.zero_stage > shape.highest_stage:
        yield Rule(
            False,
            lambda: Problem(
                "plan.zero-stage",
                f"{shape.engine} has ZeRO {shape.highest_stage} at most, not {p.zero_stage}",
                f"use --zero-stage {shape.highest_stage}, or another engine",
            ),
        )
    elif p.zero_stage > shape.piped_stage:
        yield Rule(
            p.pp == 1,
            lambda: Problem(
                "plan.zero-pipeline",
                f"pp {p.pp:g} with ZeRO {p.zero_stage}: {shape.engine} has pipeline stages with ZeRO {shape.piped_stage} at most",
                f"use --zero-stage {shape.piped_stage}, or --pp 1",
            ),
        )
    if p.shard_group is None:
        return
    group, ranks = maximum(p.shard_group, 1.0), p.dp * p.cp
    yield at_least_one("plan.degree", "shard-group", p.shard_group)
    yield Rule(
        (ranks % group == 0) | (p.ranks != shape.ranks),
        lambda: Problem(
            "plan.shard-group",
            f"shard-group = {p.shard_group:g} does not divide the {ranks:g} ranks that share weights (dp x cp)",
            f"use shard-group {nearest(float(group), divisors(max(int(ranks), 1)))}",
        ),
    )
    yield Rule(
        p.zero_stage > 0,
        lambda: Problem("plan.shard-group-zero", "--shard-group, but nothing is sharded (ZeRO 0)", "use --zero-stage 1, 2 or 3"),
    )
    if shape.experts:
        etp = where(p.ep > 1, 1.0, p.tp) if p.etp is None else p.etp
        spread = maximum(p.ep * etp, 1.0)
        yield Rule(
            (p.tp * group % spread == 0) | (ranks % group != 0) | (shape.experts % maximum(p.ep, 1.0) != 0),
            lambda: Problem(
                "plan.shard-group-experts",
                f"tp {p.tp:g} x shard-group {p.shard_group:g} does not hold ep {p.ep:g} x etp {etp:g} "
                "a whole number of times: experts are spread inside a group",
                f"use shard-group {nearest(float(group), _groups_for(p, float(spread)))}",
            ),
        )


def reshard_rules(p: Parallelism, shape: Shape) -> Iterator[Rule]:
    """What weights that are sharded anew between forward and backward pass want."""
    if p.reshard_group is None:
        return
    group, ranks = maximum(p.reshard_group, 1.0), p.dp * p.cp if p.shard_group is None else p.shard_group
    yield at_least_one("plan.degree", "reshard-group", p.reshard_group)
    yield Rule(
        (ranks % group == 0) | (p.ranks != shape.ranks),
        lambda: Problem(
            "plan.reshard-group",
            f"reshard-group = {p.reshard_group:g} does not divide the {ranks:g} ranks that share states",
            f"use reshard-group {nearest(float(group), divisors(max(int(ranks), 1)))}",
        ),
    )
    yield Rule(
        p.zero_stage == 3,
        lambda: Problem("plan.reshard-zero", "--reshard-group, but weights are not sharded", "use --zero-stage 3"),
    )


def _groups_for(p: Parallelism, spread: float) -> list[int]:
    """Groups that hold all experts; all ranks together where no smaller group does."""
    ranks = int(p.dp * p.cp)
    return [one for one in divisors(max(ranks, 1)) if float(p.tp) * one % spread == 0] or [ranks]


def _expert_tensor_rules(p: Parallelism, etp: float, shape: Shape, stage: Num) -> Iterator[Rule]:
    yield at_least_one("plan.degree", "etp", etp)
    for width in shape.expert_widths:
        yield divides("plan.etp-width", "etp", etp, width, f"the expert width {width}")
    whole = maximum(p.ep * etp, 1.0)
    yield Rule(
        stage % whole == 0,
        lambda: Problem(
            "plan.etp-ranks",
            f"ep {p.ep:g} x etp {etp:g} does not divide the {stage:g} ranks of a pipeline stage (tp x cp x dp)",
            f"use etp {nearest(etp, [one for one in divisors(int(stage)) if int(stage) % (one * int(p.ep)) == 0] or [1])}",
        ),
    )


def at_least_one(code: str, name: str, value: Num) -> Rule:
    """The rule that a count is positive; `name` is the option without dashes."""
    return Rule(value >= 1, lambda: Problem(code, f"{name} = {value:g} is not at least 1", f"use --{name} 1 or more"))


def divides(code: str, name: str, degree: Num, number: Num, what: str, hint: str = "") -> Rule:
    """The rule that a degree divides a number; without a `hint`, it names the nearest that do."""
    return Rule(
        number % maximum(degree, 1.0) == 0,
        lambda: Problem(
            code,
            f"{name} = {degree:g} does not divide {what}",
            hint or f"use {name} {nearest(float(degree), divisors(int(number)))}",
        ),
    )


def _shares_kv_heads(tp: Num, kv_heads: int, hint: str) -> Rule:
    return Rule(
        (kv_heads % maximum(tp, 1.0) == 0) | (tp % kv_heads == 0),
        lambda: Problem(
            "plan.tp-kv-heads",
            f"tp = {tp:g} neither divides the {kv_heads} key and value heads nor is a multiple of them",
            hint,
        ),
    )


def _divides_kv_heads(tp: Num, kv_heads: int, shape: Shape, hint: str) -> Rule:
    return Rule(
        kv_heads % maximum(tp, 1.0) == 0,
        lambda: Problem(
            "plan.tp-kv-heads",
            f"tp = {tp:g} does not divide the {kv_heads} key and value heads, and {shape.kv_divider} makes no copies of them",
            f"{hint}, or an engine that does",
        ),
    )
