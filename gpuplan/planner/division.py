"""How is one unit divided into replicas, and each of these over its accelerators?"""

from __future__ import annotations

from typing import Any

from gpuplan.plan.serve import ServePlan
from gpuplan.plan.words import ExpertExchange
from gpuplan.record import Record


class Division(Record, kw_only=True):
    """Degrees as in the glossary; `dp` counts replicas of a unit, each of which may have ranks of attention that share experts."""

    tp: int
    pp: int
    dp: int
    attention_dp: int = 1
    ep: int = 1
    redundant_experts: int = 0
    expert_exchange: ExpertExchange | None = None
    overlap_batches: bool | None = None
    decode_cp: int | None = None
    """Ranks that share caches along the context; None: nothing else than one was looked at."""

    @classmethod
    def of(cls, plan: ServePlan, number: Any, *, striped: bool) -> Division:
        """The division of one of the plans of arrays, whose numbers `number` reads; `striped`: some of them share caches."""
        p = plan.parallel
        sharing = number(p.attention_dp)
        return cls(
            tp=number(p.tp), pp=number(p.pp), dp=number(p.dp) // sharing, attention_dp=sharing, ep=number(p.ep),
            redundant_experts=number(p.redundant_experts), expert_exchange=plan.expert_exchange,
            overlap_batches=plan.settings.overlap_batches, decode_cp=number(p.decode_cp) if striped else None,
        )  # fmt: skip

    @property
    def ranks(self) -> int:
        """Accelerators of a replica."""
        return self.tp * self.pp * self.attention_dp

    @property
    def plainness(self) -> tuple[int, ...]:
        """What prefers one of equal divisions: the smaller replica, then fewer stages and fewer means of sharing experts."""
        return (
            self.ranks,
            self.pp,
            self.attention_dp,
            self.redundant_experts,
            self.expert_exchange is not None,
            bool(self.overlap_batches),
            self.decode_cp or 1,
        )

    def asked(self, *, experts: bool) -> dict[str, Any]:
        """The options that fix it; those of `experts` only where the model has any."""
        made: dict[str, Any] = {"tp": self.tp, "pp": self.pp, "dp": self.dp}
        if self.decode_cp is not None:
            made["decode_cp"] = self.decode_cp
        if not experts:
            return made
        made |= {"ep": self.ep, "attention_dp": self.attention_dp, "redundant_experts": self.redundant_experts}
        if self.attention_dp > 1:
            made |= {"expert_exchange": self.expert_exchange, "overlap_batches": self.overlap_batches}
        return made

    def words(self) -> str:
        """One replica in words.

        >>> Division(tp=4, pp=2, dp=1).words(), Division(tp=1, pp=1, dp=1, attention_dp=8, ep=8, redundant_experts=8).words()
        ('TP 4 PP 2', 'TP 1 DP 8 EP 8 +8')
        """
        made = [f"TP {self.tp}"]
        some = (("PP", self.pp), ("DP", self.attention_dp), ("EP", self.ep), ("CP", self.decode_cp or 1))
        made += [f"{name} {value}" for name, value in some if value > 1]
        return " ".join(made) + (f" +{self.redundant_experts}" if self.redundant_experts else "")
