"""How many FLOP does the model of a training step take, by both conventions of counting attention, and how many run again?"""

from __future__ import annotations

from gpuplan.estimate.subject import Subject
from gpuplan.formulas import flop
from gpuplan.formulas.basic import difference, product, repeated_flop
from gpuplan.models.architecture import Attention, Mla
from gpuplan.plan.train import TrainPlan
from gpuplan.term import DEFINITION, USER, Term, total
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.counts import count
from gpuplan.workload.mtp import active_params, modules_of
from gpuplan.workload.stages import block_keys


def model_flop(subject: Subject, plan: TrainPlan, leaves: Leaves, tokens: Term, seq_len: Term) -> tuple[Term, Term, Term]:
    """Model FLOP of a step with attention counted in full and halved by the mask, and the FLOP that are recomputed."""
    counts, arch = subject.counts, subject.arch
    lookups = {"embedding": counts.embedding} if counts.head is not None or not arch.head else {}
    matmul_params = counts.params_active
    for name, term in lookups.items():
        matmul_params = difference.term(f"params.without_{name}", whole=matmul_params, part=term)
    modules = None
    if plan.mtp:
        modules = modules_of(arch, leaves, Term("plan.mtp", plan.mtp, "1", subject.origins.get("mtp", USER)))
        main = {"main": matmul_params, "mtp": active_params(arch, counts, leaves, modules)}
        matmul_params = total("params.with_mtp", main)
    attention: dict[str, Term] = {}
    for key, (index, block_name) in block_keys(arch).items():
        block = arch.stacks[index].blocks[block_name]
        layers = next(one.layers for one in counts.blocks if one.block == block_name and one.stack == arch.stacks[index].kind)
        if modules is not None and key == modules.key:
            layers = total(f"{key}.layers_and_mtp", {"layers": layers, "mtp": modules.count})
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            if not isinstance(mixer, (Attention, Mla)):
                continue
            at = f"{key}.{name}"
            length = seq_len
            limit = (mixer.window or mixer.chunk) if isinstance(mixer, Attention) else None
            if limit:
                length = leaves.least(f"{at}.visible_tokens", seq_len, leaves(f"{at}.window", limit))
            width = mixer.head_dim if isinstance(mixer, Attention) else (mixer.nope_dim + mixer.rope_dim + mixer.v_dim) / 2
            attention[at] = flop.attention_training_flop_per_token.term(
                f"{at}.flop_per_token", layers=layers, heads=leaves(f"{at}.heads", mixer.heads),
                head_dim=leaves(f"{at}.score_and_value_dim", width), seq_len=length,
            )  # fmt: skip
    if plan.tuning.frozen:
        weights = flop.frozen_training_flop.term("step.weight_flop", params=matmul_params, tokens=tokens)
    else:
        weights = flop.six_nd_flop.term("step.weight_flop", params=matmul_params, tokens=tokens)
    scores = (
        repeated_flop.term("step.attention_flop", count=tokens, flop=total("attention_flop_per_token", attention))
        if attention
        else Term("step.attention_flop", 0.0, "FLOP", DEFINITION)
    )
    half = repeated_flop.term("step.causal_attention_flop", count=count("causal_share"), flop=scores)
    full = total("step.model_flop", {"weights": weights, "attention": scores})
    causal = total("step.model_flop_causal", {"weights": weights, "attention": half})
    forward = count("forward_share")
    if plan.recompute == "full":
        layers_params = matmul_params
        head = counts.head if counts.head is not None else (counts.embedding if arch.head else None)
        if head is not None and modules is not None:
            head = product.term("params.heads", a=total("model.heads", {"main": ONE, "mtp": modules.count}), b=head)
        if head is not None:
            layers_params = difference.term("params.without_head", whole=matmul_params, part=head)
        again = flop.forward_flop.term("step.recomputed_weight_flop", params=layers_params, tokens=tokens)
        scores_again = repeated_flop.term("step.recomputed_attention_flop", count=forward, flop=scores)
        return full, causal, total("step.recomputed_flop", {"weights": again, "attention": scores_again})
    if plan.recompute == "selective":
        return full, causal, repeated_flop.term("step.recomputed_flop", count=forward, flop=scores)
    return full, causal, Term("step.recomputed_flop", 0.0, "FLOP", DEFINITION)
