"""How the ranks are divided, and which divisions are legal: one set of rules for a single plan and for a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gpuplan.errors import PlanError, Problem
from gpuplan.num import Num, all_true, maximum
from gpuplan.plan.ask import ContextKind, Schedule
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
    etp: float | None = None
    """How tensor parallelism cuts experts; None: as dense layers without expert parallelism, otherwise not at all."""
    sync_every: float | None = None
    """Steps that replicas take on their own before they average (local SGD, DiLoCo); None: they reduce gradients in every step."""
    expert_load: float | None = None
    """Tokens of the fullest rank of experts over the mean, such as the capacity factor; None: the router balances them."""
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


def require(rules: Iterable[Rule]) -> None:
    """Raise one error that lists every broken rule of a single plan.

    Raises:
        PlanError: at least one rule does not hold.
    """
    broken = [rule.problem() for rule in rules if not all_true(rule.holds)]
    if broken:
        raise PlanError(*broken)


def mask(rules: Iterable[Rule]) -> Any:
    """Which candidates of a grid break no rule: the conjunction of all rules, as an array of truth values."""
    legal: Any = True
    for rule in rules:
        legal = legal & rule.holds
    return legal


class Shape(Record, kw_only=True):
    """What the rules need to know of a model and a machine, as plain numbers.

    `heads` are the query heads that tensor parallelism splits (0: none), `kv_heads` the numbers of key and value heads,
    `widths` the feed-forward widths, `experts` the routed experts (0: none), `layers` the depth, `ranks` the accelerators
    that the plan must use.
    """

    heads: int
    widths: tuple[int, ...]
    experts: int
    layers: int
    ranks: int
    kv_heads: tuple[int, ...] = ()
    expert_widths: tuple[int, ...] = ()
    kv_divider: str = ""
    """The engine whose tensor parallel degree must divide the key and value heads; empty: copies of heads are as good."""


def divisors(number: int) -> list[int]:
    """All divisors of a number in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    return [d for d in range(1, number + 1) if number % d == 0]


def nearest(wanted: float, legal: Iterable[int], most: int = 2) -> str:
    """The legal values nearest to the one wanted, as text.

    >>> nearest(3, [1, 2, 4, 8])
    '2 or 4'
    """
    best = sorted(sorted(legal, key=lambda value: (abs(value - wanted), value))[:most])
    return " or ".join(str(value) for value in best)


def parallel_rules(p: Parallelism, shape: Shape) -> Iterator[Rule]:
    """The rules that serving and training share: every degree at least 1 and a divisor of what it divides."""
    for name, value in (("tp", p.tp), ("pp", p.pp), ("dp", p.dp), ("cp", p.cp), ("ep", p.ep), ("vpp", p.vpp)):
        yield at_least_one("plan.degree", name, value)
    yield Rule(
        p.ranks == shape.ranks,
        lambda: Problem(
            "plan.ranks",
            f"tp {p.tp:g} x cp {p.cp:g} x pp {p.pp:g} x dp {p.dp:g} = {p.ranks:g} ranks, but there are {shape.ranks} accelerators",
            f"leave one degree out and it is chosen, or use {_fitting_dp(p, shape)}",
        ),
    )
    if shape.heads:
        yield divides("plan.tp-heads", "tp", p.tp, shape.heads, f"the {shape.heads} attention heads")
    for kv_heads in shape.kv_heads:
        yield _divides_kv_heads(p.tp, kv_heads, shape) if shape.kv_divider else _shares_kv_heads(p.tp, kv_heads, shape.heads)
    for width in shape.widths:
        yield divides("plan.tp-width", "tp", p.tp, width, f"the feed-forward width {width}")
    yield Rule(
        p.pp <= shape.layers,
        lambda: Problem("plan.pp-layers", f"pp = {p.pp:g} is more than the {shape.layers} layers", f"use pp up to {shape.layers}"),
    )
    if shape.experts:
        stage = p.tp * p.cp * p.dp
        yield divides("plan.ep-experts", "ep", p.ep, shape.experts, f"the {shape.experts} experts")
        yield divides("plan.ep-ranks", "ep", p.ep, stage, "the ranks of a pipeline stage (tp x cp x dp)")
        if p.etp is not None:
            yield from _expert_tensor_rules(p, p.etp, shape, stage)
    else:
        yield Rule(
            p.etp in (None, 1),
            lambda: Problem("plan.etp-dense", f"etp = {p.etp:g}, but the model has no experts", "leave etp out"),
        )
        yield Rule(p.ep == 1, lambda: Problem("plan.ep-dense", f"ep = {p.ep:g}, but the model has no experts", "leave ep out"))


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


def divides(code: str, name: str, degree: Num, number: Num, what: str) -> Rule:
    """The rule that a degree divides a number; the hint names the nearest that do."""
    return Rule(
        number % maximum(degree, 1.0) == 0,
        lambda: Problem(
            code, f"{name} = {degree:g} does not divide {what}", f"use {name} {nearest(float(degree), divisors(int(number)))}"
        ),
    )


def _shares_kv_heads(tp: Num, kv_heads: int, heads: int) -> Rule:
    legal = [one for one in divisors(heads) if kv_heads % one == 0 or one % kv_heads == 0]
    return Rule(
        (kv_heads % maximum(tp, 1.0) == 0) | (tp % kv_heads == 0),
        lambda: Problem(
            "plan.tp-kv-heads",
            f"tp = {tp:g} neither divides the {kv_heads} key and value heads nor is a multiple of them",
            f"use tp {nearest(float(tp), legal)}",
        ),
    )


def _divides_kv_heads(tp: Num, kv_heads: int, shape: Shape) -> Rule:
    legal = [one for one in divisors(shape.heads) if kv_heads % one == 0]
    return Rule(
        kv_heads % maximum(tp, 1.0) == 0,
        lambda: Problem(
            "plan.tp-kv-heads",
            f"tp = {tp:g} does not divide the {kv_heads} key and value heads, and {shape.kv_divider} makes no copies of them",
            f"use tp {nearest(float(tp), legal)}, or an engine that does",
        ),
    )


def _fitting_dp(p: Parallelism, shape: Shape) -> str:
    inner = p.tp * p.cp * p.pp
    if all_true(inner > 0) and all_true(shape.ranks % inner == 0):
        return f"dp {shape.ranks / inner:g}"
    return f"degrees whose product is {shape.ranks}"
