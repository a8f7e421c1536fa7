"""Which ranks of attention may share the experts of a replica, and on which engines?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Problem
from gpuplan.num import any_true, maximum
from gpuplan.plan.parallelism import Parallelism, Rule, Shape, at_least_one, divides, divisors, nearest
from gpuplan.plan.words import ExpertExchange


def attention_rules(
    p: Parallelism, shape: Shape, can: frozenset[str], *, overlaps: bool = False, exchange: ExpertExchange | None = None
) -> Iterator[Rule]:
    """What ranks of attention with requests of their own want of a model, of the other degrees and of an engine.

    `can` is what the engine knows of `attention_dp`, `redundant_experts`, `all-to-all` (on these accelerators) and
    `overlap_batches`, and `whole` where it spreads experts over all ranks or over none. Two micro-batches that take turns want
    tokens that travel, to their experts alone.
    """
    if exchange == "all-to-all":
        yield Rule(
            "all-to-all" in can,
            lambda: Problem(
                "plan.expert-exchange", f"{shape.engine} has no kernels that send tokens to their experts alone here",
                "leave --expert-exchange out, or use `gathered`",
            ),
        )  # fmt: skip
        every = p.tp * p.attention_dp
        yield Rule(
            (p.ep == every) | (p.attention_dp == 1),
            lambda: Problem(
                "plan.expert-exchange-ep",
                f"tokens are sent to whole experts, but ep {p.ep:g} cuts them over {every / p.ep:g} ranks",
                f"use ep {every:g}, or --expert-exchange gathered",
            ),
        )  # fmt: skip
    if overlaps:
        yield Rule(
            "overlap_batches" in can,
            lambda: Problem(
                "plan.overlap-engine", f"{shape.engine} does not run two micro-batches by turns", "leave --overlap-batches out",
            ),
        )  # fmt: skip
        yield Rule(
            exchange == "all-to-all",
            lambda: Problem(
                "plan.overlap-exchange", "--overlap-batches wants tokens that are sent to their experts alone",
                "use --expert-exchange all-to-all",
            ),
        )  # fmt: skip
        yield Rule(
            p.attention_dp > 1,
            lambda: Problem(
                "plan.overlap-batches", "--overlap-batches, but no tokens travel to experts", "use --attention-dp, or leave it out"
            ),
        )
    if any_true(p.redundant_experts > 0):
        yield Rule(
            (p.redundant_experts == 0) | ("redundant_experts" in can),
            lambda: Problem(
                "plan.redundant-engine",
                f"{shape.engine} holds no experts twice",
                "leave --redundant-experts out, or name vllm or sglang",
            ),
        )
        yield Rule(
            (p.ep > 1) | (p.redundant_experts == 0),
            lambda: Problem(
                "plan.redundant-ep", "--redundant-experts, but every rank holds a part of all experts (ep 1)", "use --ep 2 or more"
            ),
        )
        yield Rule(
            (shape.experts > 0) & (p.redundant_experts <= shape.experts),
            lambda: Problem(
                "plan.redundant-experts", f"{p.redundant_experts:g} experts are held twice, but the model has {shape.experts}",
                "use fewer --redundant-experts",
            ),
        )  # fmt: skip
    sharing = p.attention_dp
    if shape.experts:
        inside = maximum(p.tp, 1.0)
        yield Rule(
            (p.ep % inside == 0) | (inside % maximum(p.ep, 1.0) == 0),
            lambda: Problem(
                "plan.ep-tp", f"ep = {p.ep:g} is neither a multiple of tp = {p.tp:g} nor divides it",
                f"use ep {nearest(float(p.ep), divisors(int(p.tp * p.dp)))}",
            ),
        )  # fmt: skip
    yield at_least_one("plan.degree", "attention-dp", sharing)
    yield Rule(
        (sharing == 1) | (shape.experts > 0),
        lambda: Problem(
            "plan.attention-dp-dense", f"attention-dp = {sharing:g}, but the model has no experts to share",
            "use --dp for replicas of the whole model",
        ),
    )  # fmt: skip
    yield Rule(
        (sharing == 1) | ("attention_dp" in can),
        lambda: Problem(
            "plan.attention-dp-engine", f"{shape.engine} has no ranks of attention that share experts",
            "use --dp for replicas, or name vllm, sglang or tensorrt-llm",
        ),
    )  # fmt: skip
    whole = maximum(p.tp * sharing, 1.0)
    yield Rule(
        whole % maximum(p.ep, 1.0) == 0,
        lambda: Problem(
            "plan.attention-dp-ep", f"ep = {p.ep:g} does not divide the {whole:g} ranks of a replica (tp x attention-dp)",
            f"use ep {nearest(float(p.ep), divisors(int(whole)))}",
        ),
    )  # fmt: skip
    if "whole" in can:
        yield Rule(
            (p.ep == 1) | (p.ep == whole),
            lambda: Problem(
                "plan.ep-whole",
                f"{shape.engine} spreads experts over all {whole:g} ranks of a replica (tp x attention-dp) or over none",
                f"use ep 1 or {whole:g}",
            ),
        )  # fmt: skip
    for width in shape.expert_widths:
        yield divides(
            "plan.expert-cut", "ep", maximum(whole / maximum(p.ep, 1.0), 1.0), width, f"the expert width {width}",
            "use a larger ep, so that experts are cut fewer ways",
        )  # fmt: skip
