"""Which share of a peak does the least work of a serving phase take, so that no doubt makes it faster than the chip?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.estimate.subject import WorkSubject
from gpuplan.formulas.basic import difference, product
from gpuplan.formulas.flop import forward_flop, mfu
from gpuplan.term import Term
from gpuplan.workload.serving import ServeTerms


def shares_of_peak(
    subject: WorkSubject, serve: ServeTerms, phases: Mapping[str, tuple[Term, Term]], *, peak: Term
) -> dict[str, Term]:  # fmt: skip
    """The share of the peak that the products with weights alone take, by phase.

    `phases` are the tokens that each passes through a replica, and its seconds: experts on all its ranks may be at one prompt, also
    where these attend each to its own. Of models with an encoder not every weight sees every token: nothing is said of these.
    Nor of a peak that is only the best rate which somebody measured: what a fit to the same samples makes of other shapes may pass
    it by their scatter.
    """
    if len(subject.arch.stacks) > 1 or peak.source.kind == "measured":
        return {}
    counts = subject.counts
    params = difference.term("model.params_multiplied", whole=counts.params_active, part=counts.embedding)
    ranks = product.term(
        "plan.ranks_of_replica", a=product.term("plan.ranks_of_attention", a=serve.tp, b=serve.pp), b=serve.sharing.attention_dp
    )
    return {
        name: mfu.term(
            f"{name}.share_of_peak", model_flop=forward_flop.term(f"{name}.least_flop", params=params, tokens=tokens),
            seconds=seconds, chips=ranks, peak_flop_per_s=peak,
        )
        for name, (tokens, seconds) in phases.items()
    }  # fmt: skip
