"""What is in memory only at one moment of a training step: at the loss, in the backward pass, as the optimizer steps?"""

from __future__ import annotations

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.recipe import RecipeTerms
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import product, repeated_bytes, share, smaller
from gpuplan.formulas.memory import (
    alone_bytes,
    chunk_gradient_bytes,
    excess_bytes,
    fused_loss_bytes,
    logits_bytes,
    pieced_loss_bytes,
    split_or_whole_bytes,
    state_bytes,
)
from gpuplan.formulas.training import between_ranks
from gpuplan.num import any_true
from gpuplan.plan.precision import QUANTISED_IN_PLACE, byte
from gpuplan.plan.train import TrainPlan
from gpuplan.specs.engine_policies import Piece
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Source, Term, greatest, total
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.stages import Stage
from gpuplan.workload.training import TrainingWork

BOTH_ENDS = Term(
    "work.dualpipe_stages", 2.0, "1",
    Source("paper", "DeepSeek-V3 Technical Report", "https://arxiv.org/abs/2412.19437", "table 2: DualPipe, parameters 2x"),
)  # fmt: skip
BOTH_BATCHES = Term("work.held_logits", 2.0, "1", Source("definition", "those of the last micro-batch and of this one"))
_EIGHTH = Term(
    "work.chunked_logits", 1 / 8, "1",
    Source("assumed", "the loss runs over eight chunks, as torchtune's does; others take pieces of some tokens or words, far less"),
    spread=(1 / 64, 1 / 8),
)  # fmt: skip


def transient_bytes(
    at: str, subject: Subject, plan: TrainPlan, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, stage: Stage,
    *, leaves: Leaves,
) -> dict[str, Term]:  # fmt: skip
    """What is alive for a moment: a layer that is made again, or the logits; never both."""
    found = layer_again(at, plan, work)
    if "recomputed_layer" in found:
        # Backwards, the feed-forward is gone before scores of attention come.
        beside = {"kept": layer_bytes(at, work), "gradients": _gradients(at, work)}
        moments = {"forward": found["recomputed_layer"], "backward": total(f"{at}.layer_and_gradients", beside)}
        attending = {key: block.attending for key, block in work.blocks.items() if block.attending is not None}
        if attending:
            moments["attention"] = greatest(f"{at}.attention_going_back", attending)
        found["recomputed_layer"] = greatest(f"{at}.layer_at_work", moments)
    if stage.head is None or not work.edge.head:
        return found
    alive, split = _alive(plan, profile, recipe), profile.loss.split
    if profile.loss.fp16 is not None and plan.precision == "fp16" and plan.tuning.base_weights == "int4":
        alive, split = profile.loss.fp16, None
    if split is None or alone(work.dense_stride):
        logits = _logits(f"{at}.logits", subject, work, alive)
    elif any_true(work.dense_stride.value == 1):
        logits = split_or_whole_bytes.term(
            f"{at}.logits_by_ranks", ranks=work.dense_stride, split=_logits(f"{at}.logits", subject, work, split),
            whole=_logits(f"{at}.unsplit_logits", subject, work, alive),
        )  # fmt: skip
    else:
        alive, logits = split, _logits(f"{at}.logits", subject, work, split)
    if beside := _beside_loss(at, subject, plan, profile, work, recipe):
        logits = total(f"{at}.loss_and_output", {"loss": logits, **beside})
    if work.edge.gather is not None and not alone(work.edge.gather.group):
        # The share of a rank, and the logits of all of them.
        every = product.term(f"{at}.gathered_vocab", a=work.vocab, b=work.dense_stride)
        element = subject.habit("logits_held", alive) if alive is not None else subject.habit("logit_bytes", profile.loss.streamed)
        parts = {
            "whole": logits_bytes.term(f"{at}.whole_logits", tokens=work.tokens, vocab=every, element_bytes=element, copies=ONE),
            "share": logits_bytes.term(
                f"{at}.share_of_logits", tokens=work.tokens, vocab=work.vocab, element_bytes=recipe.gathered, copies=ONE
            ),
        }
        gathered = total(f"{at}.gathered_logits", parts)
        logits = (
            split_or_whole_bytes.term(f"{at}.logits_of_all", ranks=work.dense_stride, split=gathered, whole=logits)
            if any_true(work.dense_stride.value == 1)
            else gathered
        )
    fused = None if subject.arch.capped_logits and profile.loss.fused_capped == "whole" else profile.loss.fused
    if fused is not None:
        logits = fused_loss_bytes.term(
            f"{at}.fused_loss", tokens=work.tokens, vocab=work.vocab, width=leaves.hidden, gradient=recipe.gathered,
            element=subject.habit("fused_logits", fused),
        )  # fmt: skip
    elif plan.saving.chunked_loss and profile.loss.piece is not None:
        logits = _piece(at, subject, profile.loss.piece, work, leaves)
    elif plan.saving.chunked_loss:
        share = _EIGHTH if profile.loss.chunk is None else subject.habit("chunked_logits", profile.loss.chunk)
        logits = repeated_bytes.term(f"{at}.logits_chunk", count=share, size=logits)
    in_pieces = fused is not None or plan.saving.chunked_loss
    if in_pieces and profile.gradients.made == "each-step" and (plan.tuning.train_edges or not plan.tuning.frozen):
        adding = chunk_gradient_bytes.term(
            f"{at}.head_gradient", params=work.largest_edge, element=recipe.gradient, ranks=work.dense_ranks
        )
        logits = total(f"{at}.logits_and_gradients", {"logits": logits, "gradients": adding})
    if plan.tuning.base_weights in QUANTISED_IN_PLACE:
        found |= _of_quantised(at, subject, profile, work, recipe, stage)
    if plan.parallel.schedule == "dualpipe":
        # The head runs for every other micro-batch, but then its logits are all there.
        logits = repeated_bytes.term(f"{at}.logits_of_one_end", count=BOTH_ENDS, size=logits)
    found["logits"] = logits if alone(stage.head) else repeated_bytes.term(f"{at}.logits_here", count=stage.head, size=logits)
    return found


def _piece(at: str, subject: Subject, held: Piece, work: TrainingWork, leaves: Leaves) -> Term:
    """What a loss holds that is made of some tokens at a time, or of some words, or of some of both."""
    vocab = work.vocab
    if held.words is not None:
        vocab = smaller.term(f"{at}.piece_of_vocabulary", a=vocab, b=subject.habit("piece_words", held.words))
    return pieced_loss_bytes.term(
        f"{at}.pieced_loss", tokens=work.tokens, vocab=vocab, width=leaves.hidden,
        piece=work.tokens if held.tokens is None else subject.habit("piece_tokens", held.tokens),
        element=subject.habit("piece_logits", held.logits), copies=subject.habit("head_copies", held.head),
    )  # fmt: skip


def _of_quantised(
    at: str, subject: Subject, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, stage: Stage
) -> dict[str, Term]:  # fmt: skip
    """As logits are made: a head that is widened for that, and what the graph of the last micro-batch holds until they are."""
    parts = {
        "logits": logits_bytes.term(
            f"{at}.logits_of_two", tokens=work.tokens, vocab=work.vocab, element_bytes=recipe.gathered, copies=BOTH_BATCHES
        )
    }
    if profile.adapters.head is not None:
        wide = subject.habit("widened_head", profile.adapters.head)
        parts["head"] = repeated_bytes.term(f"{at}.widened_head", count=work.largest_edge, size=wide)
    if profile.loss.graph == "held" and not any(block.recomputed_kept is not None for block in work.blocks.values()):
        parts |= {
            key: repeated_bytes.term(f"{at}.held_inputs.{key}", count=stage.layers[key], size=block.multiplied)
            for key, block in work.blocks.items()
            if block.multiplied is not None
        }
    return {"making_logits": total(f"{at}.making_logits", parts)} if len(parts) > 1 else {}


def _beside_loss(
    at: str, subject: Subject, plan: TrainPlan, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms
) -> dict[str, Term]:  # fmt: skip
    """Logits in the type of the model that stay beside those of the loss: its output, and what the tanh of a cap gives.

    Gemma2ForCausalLM.forward of Transformers divides logits by their cap, takes the tanh and multiplies: autograd keeps the tanh.
    """
    element = recipe.unquantised or byte("recipe.output_bytes", 2.0)
    capped = subject.arch.capped_logits and profile.loss.capped == "kept" and not plan.how.compiled
    return {
        name: logits_bytes.term(f"{at}.{name}", tokens=work.tokens, vocab=work.vocab, element_bytes=element, copies=ONE)
        for name, there in (("output", profile.loss.output == "held"), ("capped", capped))
        if there
    }


def _alive(plan: TrainPlan, profile: TrainingProfile, recipe: RecipeTerms) -> Sourced | None:
    """What is alive of a logit at the loss, with the doubt that a loop of one's own may hold less than what Transformers' makes.

    It may reduce logits itself, in the 16 bits that they have, unless autocast or a loss scale (fp16) widens them, or the head was
    cast before training beside quantised weights; and it may let go of what the model gives out, in the type of the head.
    """
    alive, own = profile.loss.alive, profile.loss.own
    if alive is None or own is None:
        return alive
    narrow = plan.precision in ("bf16", "bf16-pure") and plan.tuning.base_weights in (None, "bf16")
    given = 2.0 if recipe.unquantised is None else float(recipe.unquantised.value)
    low, high = alive.accept or (alive.value, alive.value)
    return alive.replaced(accept=(min(low, own.value if narrow else alive.value - given), high))


def _logits(name: str, subject: Subject, work: TrainingWork, alive: Sourced | None) -> Term:
    """Logits and what is made of them, as far as it is alive at once; as much as passes through where nobody says."""
    if alive is None:
        return work.logits
    held = subject.habit("logits_held", alive)
    return logits_bytes.term(name, tokens=work.tokens, vocab=work.vocab, element_bytes=held, copies=ONE)


def layer_bytes(at: str, work: TrainingWork) -> Term:
    """All that the largest layer keeps for its backward pass."""
    return greatest(f"{at}.recomputed_layer", {key: block.kept for key, block in work.blocks.items()})


def layer_again(at: str, plan: TrainPlan, work: TrainingWork) -> dict[str, Term]:
    """What the forward pass of a layer holds for a moment: all that it keeps where that is made again, and scores written out."""
    found: dict[str, Term] = {}
    working = {key: block.working for key, block in work.blocks.items() if block.working is not None}
    if any(block.recomputed_kept is not None for block in work.blocks.values()) or "activations" in plan.saving.offload:
        found["recomputed_layer"] = layer_bytes(at, work)
        if working:
            parts = {"kept": found["recomputed_layer"], "scores": greatest(f"{at}.scores_at_work", working)}
            found["recomputed_layer"] = total(f"{at}.layer_and_scores", parts)
    elif working:
        found["layer_at_work"] = greatest(f"{at}.scores_at_work", working)
    return found


def _gradients(at: str, work: TrainingWork) -> Term:
    """Gradients of activations that are there at once as the backward pass goes through the largest layer."""
    return greatest(f"{at}.gradients_of_layer", {key: block.gradients for key, block in work.blocks.items()})


def other_moments(
    at: str, subject: Subject, plan: TrainPlan, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, stage: Stage,
    *, passing: dict[str, Term], whole: Term | None = None,
) -> dict[str, Term]:  # fmt: skip
    """What other moments of a run need beyond the forward and backward pass: the optimizer's step, and loading.

    `passing` is what such a moment does not hold; `whole` the gradients of a step where they are not there at the loss.
    """
    found: dict[str, Term] = {}
    params, zero = work.params[stage.place], plan.parallel.zero_stage
    if "optimizer" not in plan.saving.offload and not plan.saving.step_in_backward:
        beside = total(f"{at}.passing_of_step", dict(passing))
        for name, made in _step(at, subject, profile, work, recipe, stage, zero=zero).items():
            size = made if whole is None else total(f"{at}.{name}_and_gradients", {"step": made, "gradients": whole})
            found[name] = excess_bytes.term(f"{at}.{name}", size=size, beside=beside)
    if profile.sharding.loaded == "whole" and zero == 3:
        size = repeated_bytes.term(f"{at}.whole_model", count=params.dense, size=recipe.frozen or recipe.weight)
        loaded = between_ranks.term(f"{at}.loaded", size=size, ranks=work.dense_shards)
        found["loading"] = excess_bytes.term(
            f"{at}.loading", size=loaded, beside=total(f"{at}.passing_of_loading", dict(passing | found))
        )
    return found


def frees_shards(profile: TrainingProfile, recipe: RecipeTerms, *, zero: int) -> bool:
    """Whether ranks share by FSDP, whose shards of gradients go after each step and which any optimizer of PyTorch steps.

    The engine says so, or is one that shares by DeepSpeed as well, which always keeps fp32 weights, and nothing is kept in fp32.
    """
    if zero != 3 or profile.gradients.shards == "each-step":
        return zero == 3
    return profile.gradients.stepped is not None and recipe.frozen is None and recipe.master.value == 0


def _step(
    at: str, subject: Subject, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, stage: Stage, *, zero: int
) -> dict[str, Term]:  # fmt: skip
    """What the optimizer's step makes of all that it steps at a time: with shards, and over lists of tensors without."""
    made: dict[str, Term] = {}
    sharded = zero > 0 and not alone(work.dense_ranks)
    if recipe.widened is not None and (sharded or recipe.listed is None):
        wide = _widened(f"{at}.widened", subject, profile, work, recipe.widened, stage, zero=zero)
        made["widened_gradients"] = (
            wide if recipe.listed is None else between_ranks.term(f"{at}.widened_shard", size=wide, ranks=work.dense_ranks)
        )
    if recipe.listed is not None and sharded and frees_shards(profile, recipe, zero=zero):
        made["update_temporaries"] = _widened(f"{at}.listed", subject, profile, work, recipe.listed, stage, zero=1)
    elif recipe.listed is not None and (not sharded or any_true(work.dense_ranks.value == 1)):
        lists = _widened(f"{at}.listed", subject, profile, work, recipe.listed, stage, zero=0)
        made["update_temporaries"] = (
            alone_bytes.term(f"{at}.listed_alone", size=lists, group=work.dense_ranks) if sharded else lists
        )
    return made


def _widened(
    at: str, subject: Subject, profile: TrainingProfile, work: TrainingWork, each: Term, stage: Stage, *, zero: int
) -> Term:
    """`each` bytes of all parameters that the optimizer steps at a time."""
    trained = work.trained[stage.place]
    kinds = {"dense": (trained.dense, work.dense_shards)}
    if trained.experts is not None:
        kinds["experts"] = (trained.experts, work.expert_shards)
    if zero == 3 and profile.gradients.stepped is not None:
        shards = {kind: share.term(f"{at}.of_{kind}", amount=held, ways=ways) for kind, (held, ways) in kinds.items()}
        most = subject.habit("stepped_at_once", profile.gradients.stepped)
        group = smaller.term(f"{at}.group", a=total(f"{at}.shard", shards), b=most)
        return repeated_bytes.term(at, count=group, size=each)
    sizes = {
        kind: state_bytes.term(f"{at}.{kind}", params=held, bytes_per_param=each, shards=ways if zero else ONE)
        for kind, (held, ways) in kinds.items()
    }
    return sizes["dense"] if len(sizes) == 1 else total(at, sizes)
