"""How many FLOP does the model of a training step take, by both conventions of counting attention, and how many more are done?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from gpuplan.estimate.attention_time import attention_remade
from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.subject import Subject
from gpuplan.formulas import flop
from gpuplan.formulas.basic import difference, product, repeated_flop, share
from gpuplan.formulas.params import dropped_expert_params, idle_expert_params
from gpuplan.formulas.stages import covered_share
from gpuplan.models.architecture import Block
from gpuplan.models.count import BlockCount
from gpuplan.plan.again import run_again
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.term import DEFINITION, USER, Term, total
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.counts import count
from gpuplan.workload.documents import seen_document
from gpuplan.workload.kinds.table import mixers
from gpuplan.workload.mtp import Modules, active_params, modules_of
from gpuplan.workload.program import Part
from gpuplan.workload.stages import block_keys


class ModelFlop(Record):
    """FLOP of a step: of the model with attention in full, of the model as its masks leave it, and done beside it."""

    full: Term
    causal: Term
    again: Term
    """What is computed again, and the forward pass of a frozen reference."""
    again_causal: Term
    """The same as masks leave it."""


class Scores(Record):
    """FLOP of attention's scores and values by one way of counting: of a step, and of a token by layer; `way` is in names."""

    of_step: Term
    of_layers: Mapping[str, Term]
    way: str


class Kind(Record):
    """One kind of layer: its key, its block, how many there are, and what one holds."""

    key: str
    stack: str
    block: Block
    layers: Term
    counts: BlockCount


def model_flop(
    subject: Subject, plan: TrainPlan, leaves: Leaves, tokens: Term, seq_len: Term, remade: tuple[Term, Term] | None = None
) -> ModelFlop:  # fmt: skip
    """Model FLOP of a step in both conventions, and the FLOP that are done beyond them.

    `remade` is what is computed again, in full and as masks leave it, where the plan says it by results; None: it is counted here.
    """
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
    kinds = list(_kinds(subject, modules))
    matmul_params = _without_dropped(plan, kinds, leaves, matmul_params)
    source = leaves("source_tokens", arch.source_tokens) if arch.two_stacks and arch.source_tokens else None
    if source is not None:
        matmul_params, kinds = _by_length(kinds, leaves, matmul_params, source, seq_len)
    whole, masked = _attention(kinds, leaves, tokens, seq_len, seen_document(plan, seq_len), source)
    weigh = flop.frozen_training_flop if plan.tuning.frozen else flop.six_nd_flop
    weights = weigh.term("step.weight_flop", params=matmul_params, tokens=tokens)
    full = total("step.model_flop", {"weights": weights, "attention": whole.of_step})
    causal = total("step.model_flop_causal", {"weights": weights, "attention": masked.of_step})
    if remade is None:
        layers_params = _without_head(subject, matmul_params, modules)
        remade = (
            _recomputed(subject, plan, leaves, kinds, layers_params, tokens, whole),
            _recomputed(subject, plan, leaves, kinds, layers_params, tokens, masked),
        )
    if plan.tuning.reference:
        read = flop.forward_flop.term("step.reference_weight_flop", params=matmul_params, tokens=tokens)
        remade = _beside(remade[0], read, whole), _beside(remade[1], read, masked)
    return ModelFlop(full, causal, *remade)


def _without_dropped(plan: TrainPlan, kinds: list[Kind], leaves: Leaves, matmul_params: Term) -> Term:
    """Parameters that a token meets in the mean, where experts take fewer tokens than are sent to them and drop the others."""
    capacity = plan.parallel.capacity_factor
    if capacity is None or capacity >= 1:
        return matmul_params
    said = Term("plan.capacity_factor", capacity, "1", USER)
    dropped: dict[str, Term] = {}
    for kind in kinds:
        at, moe = kind.key, kind.block.moe
        if moe is not None:
            dropped[at] = dropped_expert_params.term(
                f"params.{at}.dropped", layers=kind.layers, routed=kind.counts.layer["experts"],
                experts=leaves(f"{at}.mlp.experts", moe.experts), top_k=leaves(f"{at}.mlp.top_k", moe.top_k), capacity=said,
            )  # fmt: skip
    if not dropped:
        return matmul_params
    return difference.term("params.without_dropped", whole=matmul_params, part=total("params.dropped", dropped))


def _without_head(subject: Subject, matmul_params: Term, modules: Modules | None) -> Term:
    """The parameters of products that layers have: all but those of heads."""
    counts, arch = subject.counts, subject.arch
    head = counts.head if counts.head is not None else (counts.embedding if arch.head else None)
    if head is not None and modules is not None:
        head = product.term("params.heads", a=total("model.heads", {"main": ONE, "mtp": modules.count}), b=head)
    return matmul_params if head is None else difference.term("params.without_head", whole=matmul_params, part=head)


def _beside(again: Term, read: Term, scores: Scores) -> Term:
    """What is done again, and a forward pass of the reference: its weights, `read`, and its attention."""
    name = f"step.{scores.way}reference_attention_flop"
    attention = repeated_flop.term(name, count=count("forward_share"), flop=scores.of_step)
    scored = total(f"step.{scores.way}reference_flop", {"weights": read, "attention": attention})
    return total(f"step.{scores.way}flop_beside_the_model", {"recomputed": again, "reference": scored})


def _by_length(kinds: list[Kind], leaves: Leaves, params: Term, source: Term, seq_len: Term) -> tuple[Term, list[Kind]]:
    """Parameters and layers as often as a token of the decoder uses them, where the encoder reads positions of its own."""
    often = share.term("step.source_per_token", amount=source, ways=seq_len)
    own: dict[str, Term] = {}
    weighed: list[Kind] = []
    for kind in kinds:
        at, cross = kind.key, kind.block.cross
        if kind.stack == "encoder":
            own[at] = product.term(f"{at}.params", a=kind.layers, b=kind.counts.layer_total)
            weighed.append(kind.replaced(layers=product.term(f"{at}.layers_by_length", a=kind.layers, b=often)))
            continue
        if cross is not None:
            # Keys and values of attention across the stacks are made of what the encoder read.
            width = cross.kv_heads * (cross.head_dim + (cross.v_head_dim or cross.head_dim))
            each = leaves.times(f"{at}.cross_kv_params", leaves.hidden, leaves(f"{at}.cross_kv_width", width))
            own[at] = product.term(f"{at}.all_cross_kv_params", a=kind.layers, b=each)
        weighed.append(kind)
    read = total("params.of_encoder_positions", own)
    written = difference.term("params.of_decoder_tokens", whole=params, part=read)
    used = product.term("params.by_encoder_positions", a=read, b=often)
    return total("params.by_length", {"decoder": written, "encoder": used}), weighed


def _kinds(subject: Subject, modules: Modules | None) -> Iterator[Kind]:
    """The kinds of layers of a model, those in modules of multi-token prediction included."""
    for key, (index, name) in block_keys(subject.arch).items():
        stack = subject.arch.stacks[index]
        held = next(one for one in subject.counts.blocks if one.block == name and one.stack == stack.kind)
        layers = held.layers
        if modules is not None and key == modules.key:
            layers = total(f"{key}.layers_and_mtp", {"layers": layers, "mtp": modules.count})
        yield Kind(key, stack.kind, stack.blocks[name], layers, held)


def _attention(
    kinds: list[Kind], leaves: Leaves, tokens: Term, seq_len: Term, document: Term | None, source: Term | None
) -> tuple[Scores, Scores]:  # fmt: skip
    """FLOP of scores and values: all that windows and documents show, and what causal masks leave of it."""
    whole: dict[str, Term] = {}
    masked: dict[str, Term] = {}
    for kind in kinds:
        for part, mixer in mixers(kind.block):
            made = mixer.scores()
            if made is None:
                continue
            at, length = f"{kind.key}.{part.value}", seq_len
            if source is not None and (part is Part.CROSS or kind.stack == "encoder"):
                length = source
            if made.limit is not None:
                length = leaves.least(f"{at}.visible_tokens", seq_len, leaves(f"{at}.window", made.limit))
            if document is not None and part is not Part.CROSS:
                length = leaves.least(f"{at}.visible_of_document", length, document)
            sizes = {
                "layers": kind.layers,
                "heads": leaves(f"{at}.heads", made.heads),
                "head_dim": leaves(f"{at}.score_and_value_dim", made.dim),
            }
            per_token = flop.attention_training_flop_per_token
            whole[at] = masked[at] = per_token.term(f"{at}.flop_per_token", seq_len=length, **sizes)
            if made.causal:
                reach = length if made.chunked else document or seq_len
                seen = flop.causal_visible_tokens.term(f"{at}.causal_tokens", visible=length, seq_len=reach)
                masked[at] = per_token.term(f"{at}.causal_flop_per_token", seq_len=seen, **sizes)
    if not whole:
        nothing = Term("step.attention_flop", 0.0, "FLOP", DEFINITION)
        return Scores(nothing, {}, ""), Scores(nothing, {}, "causal_")
    return _of_step(whole, tokens, ""), _of_step(masked, tokens, "causal_")


def _of_step(of_layers: Mapping[str, Term], tokens: Term, way: str) -> Scores:
    """The FLOP of a token, by layer, over all tokens of a step."""
    of_token = total(f"{way}attention_flop_per_token", of_layers)
    return Scores(repeated_flop.term(f"step.{way}attention_flop", count=tokens, flop=of_token), of_layers, way)


def _recomputed(
    subject: Subject,
    plan: TrainPlan,
    leaves: Leaves,
    kinds: list[Kind],
    layers_params: Term,
    tokens: Term,
    scores: Scores,
) -> Term:
    """FLOP of the forward pass that are done once more before the backward pass."""
    way = scores.way
    name = f"step.{way}recomputed_flop"
    weights: Term | None = None
    attention = dict(scores.of_layers)
    match plan.recompute:
        case "none":
            return Term(name, 0.0, "FLOP", DEFINITION)
        case "full":
            weights = layers_params
        case "selective-op":
            remade = attention_remade(training_profile(subject.engine), subject.hw)
            weights = product.term("params.recomputed", a=count("every_second"), b=layers_params)
            attention = attention if remade else {}
        case _:
            weights, attention = _modules(plan, kinds, leaves, scores.of_layers)
    made: dict[str, Term] = {}
    if weights is not None:
        made["weights"] = flop.forward_flop.term("step.recomputed_weight_flop", params=weights, tokens=tokens)
    if attention:
        per_token = total(f"recomputed.{way}scores_per_token", attention)
        whole = repeated_flop.term(f"step.{way}scores_again", count=tokens, flop=per_token)
        made["attention"] = repeated_flop.term(f"step.{way}recomputed_attention_flop", count=count("forward_share"), flop=whole)
    if not made:
        return Term(name, 0.0, "FLOP", DEFINITION)
    part = part_of_layers(subject, plan, leaves, {kind.key: kind.layers for kind in kinds})
    if part is None:
        return total(name, made)
    return repeated_flop.term(name, count=part, flop=total(f"{name}_of_all_layers", made))


def part_of_layers(subject: Subject, plan: TrainPlan, leaves: Leaves, layers: Mapping[str, Term]) -> Term | None:
    """The share of all layers that are run again; None: all are."""
    limit = plan.saving.recompute_layers
    if limit is None:
        return plan.recompute_share
    named = leaves.times("recomputed.of_all_stages", subject.plan("recompute_layers", limit), subject.plan("pp", plan.parallel.pp))
    return covered_share.term("recomputed.share_of_layers", covered=named, stage_layers=total("model.all_layers", layers))


def _modules(
    plan: TrainPlan, kinds: list[Kind], leaves: Leaves, scores: Mapping[str, Term]
) -> tuple[Term | None, dict[str, Term]]:  # fmt: skip
    """Active parameters of the modules that run again, and the attention of the layers that run theirs again."""
    weights: dict[str, Term] = {}
    attention: dict[str, Term] = {}
    for kind in kinds:
        up = sum(mixer.expansion_params() for mixer in kind.block.mixers)
        modules = run_again(plan.recompute, plan.saving.recompute_modules, latents=up > 0, scores=plan.saving.attention == "eager")
        if "core_attn" in modules:
            attention |= {at: term for at, term in scores.items() if at.startswith(f"{kind.key}.")}
        found = _channels(kind, leaves, modules)
        if "mla_up_proj" in modules and up:
            found["up"] = leaves(f"{kind.key}.mixer.up_projections", up)
        if found:
            one = total(f"recomputed.{kind.key}.params", found)
            weights[kind.key] = product.term(f"recomputed.{kind.key}.all_params", a=kind.layers, b=one)
    return total("params.recomputed", weights) if weights else None, attention


def _channels(kind: Kind, leaves: Leaves, modules: Collection[str]) -> dict[str, Term]:
    """Active parameters of the feed-forward modules of a kind of layer that run again."""
    held, routed_to = kind.counts.layer, kind.block.moe
    found: dict[str, Term] = {}
    dense = {"shared_experts", "moe"} if routed_to is not None else {"mlp"}
    if "mlp" in held and dense & set(modules):
        found["mlp"] = held["mlp"]
    if routed_to is not None and "moe" in modules:
        at, routed = f"recomputed.{kind.key}", held["experts"]
        idle = idle_expert_params.term(
            f"{at}.idle", layers=ONE, routed=routed, experts=leaves(f"{kind.key}.mlp.experts", routed_to.experts),
            top_k=leaves(f"{kind.key}.mlp.top_k", routed_to.top_k),
        )  # fmt: skip
        found["experts"] = difference.term(f"{at}.active", whole=routed, part=idle)
    return found
