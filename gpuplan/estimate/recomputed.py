"""How many FLOP does a step run again, where the plan names the results that it keeps?"""

from __future__ import annotations

from gpuplan.estimate.model_flop import part_of_layers
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.attention_kernels import attention_flop, attention_pairs, causal_pairs
from gpuplan.formulas.basic import product, repeated_flop
from gpuplan.formulas.kernels import matmul_flop
from gpuplan.plan.train import TrainPlan
from gpuplan.term import DEFINITION, Term, total
from gpuplan.work import Matmul
from gpuplan.workload.context import Leaves
from gpuplan.workload.training import StepTerms, TrainingWork


def recomputed_flop(
    subject: Subject, plan: TrainPlan, work: TrainingWork, step: StepTerms, leaves: Leaves, mask: str = ""
) -> Term:  # fmt: skip
    """FLOP of a step, over all ranks, that the policy makes the backward pass run again.

    Attention is counted in full, or, with a `mask` that names say, without the pairs that a causal mask hides.
    """
    layers: dict[str, Term] = {}
    for one in subject.counts.blocks:
        key = one.block if one.block in work.blocks else f"{one.stack}.{one.block}"
        again = work.blocks[key].again
        if again is None or not (again.matmuls or again.attentions):
            continue
        parts = [_matmul(item) for item in again.matmuls]
        for item in again.attentions:
            seen = item.kv_len if item.window is None else item.window
            count = causal_pairs if mask and item.causal and item.window is None else attention_pairs
            kind = mask or "full_"
            pairs = count.term(f"{item.name}.{kind}pairs", q_len=item.q_len, kv_len=seen)
            parts.append(
                attention_flop.term(
                    f"{item.name}.{kind}flop", pairs=pairs, sequences=item.sequences, heads=item.heads, k_dim=item.k_dim,
                    v_dim=item.v_dim,
                )
            )  # fmt: skip
        at = f"step.{mask}recomputed.{key}"
        layers[key] = repeated_flop.term(f"{at}.layers", count=one.layers, flop=total(f"{at}.layer", parts))
    if not layers:
        return Term(f"step.{mask}recomputed_flop", 0.0, "FLOP", DEFINITION)
    ranks = product.term("plan.ranks_of_a_stage", a=product.term("plan.tp_cp", a=step.tp, b=step.cp), b=step.dp)
    often = product.term("step.rank_micro_batches", a=ranks, b=step.micro_batches)
    of_all = total(f"step.{mask}recomputed_layers", layers)
    part = part_of_layers(subject, plan, leaves, {f"{one.stack}.{one.block}": one.layers for one in subject.counts.blocks})
    if part is not None:
        of_all = repeated_flop.term(f"step.{mask}recomputed_share_of_layers", count=part, flop=of_all)
    return repeated_flop.term(f"step.{mask}recomputed_flop", count=often, flop=of_all)


def _matmul(item: Matmul) -> Term:
    return matmul_flop.term(f"{item.name}.plain_flop", m=item.m, n=item.n, k=item.k, batch=item.batch)
