"""How the ranks are divided, and which divisions are legal: one set of rules for a single plan and for a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gpuplan.errors import PlanError, Problem
from gpuplan.num import Num, all_true


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallelism:
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

    @property
    def ranks(self) -> Num:
        """How many accelerators the plan uses."""
        return self.tp * self.cp * self.pp * self.dp


@dataclass(frozen=True, slots=True)
class Rule:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the rules need to know of a model and a machine, as plain numbers.

    `mixer_heads` are the query heads that tensor parallelism splits, `widths` the feed-forward widths, `experts` the
    routed experts (0: none), `layers` the depth, `ranks` the accelerators that the plan must use, `vocab` the rows of the head.
    """

    heads: int
    widths: tuple[int, ...]
    experts: int
    layers: int
    ranks: int


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
        yield Rule(value >= 1, _positive(name, value))
    yield Rule(
        p.ranks == shape.ranks,
        lambda: Problem(
            "plan.ranks",
            f"tp {p.tp:g} x cp {p.cp:g} x pp {p.pp:g} x dp {p.dp:g} = {p.ranks:g} ranks, but there are {shape.ranks} accelerators",
            f"leave one degree out and it is chosen, or use {_fitting_dp(p, shape)}",
        ),
    )
    if shape.heads:
        yield Rule(
            shape.heads % p.tp == 0,
            lambda: Problem(
                "plan.tp-heads",
                f"tp = {p.tp:g} does not divide the {shape.heads} attention heads",
                f"use tp {nearest(float(p.tp), divisors(shape.heads))}",
            ),
        )
    for width in shape.widths:
        yield Rule(
            width % p.tp == 0,
            lambda width=width: Problem(  # type: ignore[misc]
                "plan.tp-width",
                f"tp = {p.tp:g} does not divide the feed-forward width {width}",
                f"use tp {nearest(float(p.tp), divisors(width))}",
            ),
        )
    yield Rule(
        p.pp <= shape.layers,
        lambda: Problem("plan.pp-layers", f"pp = {p.pp:g} is more than the {shape.layers} layers", f"use pp up to {shape.layers}"),
    )
    if shape.experts:
        yield Rule(
            shape.experts % p.ep == 0,
            lambda: Problem(
                "plan.ep-experts",
                f"ep = {p.ep:g} does not divide the {shape.experts} experts",
                f"use ep {nearest(float(p.ep), divisors(shape.experts))}",
            ),
        )
        yield Rule(
            (p.tp * p.cp * p.dp) % p.ep == 0,
            lambda: Problem(
                "plan.ep-ranks",
                f"ep = {p.ep:g} does not divide the {p.tp * p.cp * p.dp:g} ranks of a pipeline stage",
                f"use ep {nearest(float(p.ep), divisors(int(p.tp * p.cp * p.dp)))}",  # type: ignore[arg-type]
            ),
        )
    else:
        yield Rule(p.ep == 1, lambda: Problem("plan.ep-dense", f"ep = {p.ep:g}, but the model has no experts", "leave ep out"))


def _positive(name: str, value: Num) -> Callable[[], Problem]:
    return lambda: Problem("plan.degree", f"{name} = {value:g} is not a whole number of at least 1", f"use {name} 1 or more")


def _fitting_dp(p: Parallelism, shape: Shape) -> str:
    inner = p.tp * p.cp * p.pp
    if all_true(inner > 0) and all_true(shape.ranks % inner == 0):
        return f"dp {shape.ranks / inner:g}"
    return f"degrees whose product is {shape.ranks}"
