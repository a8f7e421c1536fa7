"""Which divisions of the accelerators does a serving search look at, and what makes one better than another?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuplan.estimate.serving import ServingModel, serving_figures
from gpuplan.estimate.subject import Subject
from gpuplan.num import ceil_div, floor, maximum, minimum, where
from gpuplan.plan.parallelism import Parallelism, Rule, divisors
from gpuplan.plan.serve import ServePlan, serve_rules
from gpuplan.plan.words import KvFormat, WeightFormat
from gpuplan.record import Record
from gpuplan.search.best import Judged
from gpuplan.search.shape import shape_of
from gpuplan.search.space import Part, Space

FEW = 16
"""So many divisions are sooner looked at one by one than numpy is imported: most are dismissed by their memory."""


class Want(Record, kw_only=True):
    """A question with its lengths and formats settled; only the division of the accelerators and the batch are open."""

    prompt: int
    output: int
    context: int
    batch: int | None
    """Sequences of all replicas together; None: as many as the caches hold and the engine runs."""
    weights: WeightFormat
    kv_cache: KvFormat
    tp: int | None
    pp: int | None


def serving_space(want: Want, subject: Subject) -> Space[ServePlan]:
    """The divisions of all accelerators into replicas of tp x pp that share the batch evenly.

    Where the batch cannot be shared evenly, the division that was asked for is left, or replicas of one accelerator.
    """
    ranks = subject.hw.count
    domain = int(subject.hw.levels[0].size or ranks) if subject.hw.levels else 1
    shape = shape_of(subject.arch, ranks, subject.engine)
    tp = [want.tp] if want.tp else [one for one in divisors(ranks) if one <= domain]
    pp = [want.pp] if want.pp else divisors(ranks)
    batch = want.batch
    replicas = [ranks // (one * other) for one in tp for other in pp if ranks % (one * other) == 0]
    shared = batch is not None and any(batch % dp == 0 for dp in replicas)
    if batch is not None and not shared:
        tp, pp = [want.tp or 1], [want.pp or 1]

    def rules(plan: ServePlan) -> Iterator[Rule]:
        return serve_rules(plan, shape, subject.arch.max_context)

    def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        dp = maximum(floor(ranks / (values["tp"] * values["pp"])), 1.0)
        return {**values, "dp": dp, "batch": 1.0 if batch is None else ceil_div(batch, dp)}

    def wanted(plan: ServePlan) -> Any:
        return batch % plan.parallel.dp == 0 if batch is not None and shared else True

    plan = ServePlan(
        parallel=Parallelism(zero_stage=0, sequence_parallel=False), batch=1.0, prompt=float(want.prompt),
        output=float(want.output), context=float(want.context), weights=want.weights, kv_cache=want.kv_cache,
    )  # fmt: skip
    return Space(plan=plan, axes={"pp": pp, "tp": tp}, rules=rules, completed=completed, wanted=wanted)


def filled(plan: ServePlan, subject: Subject) -> ServePlan:
    """The plan with as many sequences as the caches of a replica hold and the engine runs."""
    memory = ServingModel.of(subject, plan).memory()
    most, limit = memory.max_sequences, memory.limit.value
    return plan.replaced(batch=maximum(limit if most is None else minimum(most.value, limit), 1.0))


class Judges(Record):
    """What prefers one division to another; of equals the smaller replica is taken, and of those the one of fewer stages."""

    want: Want
    subject: Subject

    def plan(self, plan: ServePlan) -> ServePlan:
        """A division with its batch."""
        return filled(plan, self.subject) if self.want.batch is None else plan

    def smallest(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers the fewest accelerators a replica that fit, or else the least memory."""
        p = part.plan.parallel
        return self._held(part, p.tp * p.pp)

    def fewest_stages(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers the fewest stages that fit, or else the least memory."""
        return self._held(part, part.plan.parallel.pp)

    def _held(self, part: Part[ServePlan], worth: Any) -> Judged[ServePlan]:
        memory = ServingModel.of(self.subject, self.plan(part.plan)).memory()
        fits = memory.needed.value <= memory.budget.value
        return Judged(part, part.count(fits), (where(fits, 0.0, 1.0), where(fits, worth, memory.needed.value), *_size(part)))

    def fastest(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers the most tokens a second of those that fit; the time of others is not estimated."""
        memory = ServingModel.of(self.subject, self.plan(part.plan)).memory()
        fits = memory.needed.value <= memory.budget.value
        fitting = part.count(fits)
        if not fitting:
            return Judged(part, 0, (1.0, 0.0, *_size(part)))
        part = part.where(fits)
        made = serving_figures(self.subject, self.plan(part.plan)).figures
        return Judged(part, fitting, (0.0, -made["tokens_per_s"].value, *_size(part)))


def _size(part: Part[ServePlan]) -> tuple[Any, Any]:
    """Accelerators and stages of a replica."""
    p = part.plan.parallel
    return p.tp * p.pp, p.pp
