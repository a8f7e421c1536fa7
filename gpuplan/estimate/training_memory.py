"""How much memory the most loaded rank of a training run needs, part by part and stage by stage."""

from __future__ import annotations

from gpuplan.estimate.activations_left import left_here
from gpuplan.estimate.kept_free import KEPT_FREE, kept_free, outside_allocator
from gpuplan.estimate.moments import BOTH_ENDS, frees_shards, layer_again, layer_bytes, other_moments, transient_bytes
from gpuplan.estimate.pricing import alone
from gpuplan.estimate.recipe import RecipeTerms, training_profile
from gpuplan.estimate.share_of_layers import share_recomputed
from gpuplan.estimate.stand_ins import stand_in_bytes
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import difference, lesser_bytes, product, repeated_bytes, share, smaller
from gpuplan.formulas.memory import (
    alone_bytes,
    bucket_bytes,
    held_activation_bytes,
    new_gradient_bytes,
    partly_recomputed_bytes,
    stage_or_few_params,
    state_bytes,
    tensor_bytes,
    uncounted_bytes,
    waiting_bytes,
)
from gpuplan.formulas.pipeline import chunk_bytes
from gpuplan.formulas.training import between_ranks, summed_gradient_bytes
from gpuplan.num import all_true, any_true
from gpuplan.plan.precision import QUANTISED_IN_PLACE, byte
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record, replace
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Parts, Source, Term, greatest, total
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.stages import Place, Stage
from gpuplan.workload.training import StageParams, TrainingWork

_OUTER = Term(
    "recipe.outer_bytes", 8.0, "B",
    Source("paper", "DiLoCo", "https://arxiv.org/abs/2311.08105", "2: last exchanged parameters and Nesterov momentum, fp32"),
)  # fmt: skip
_IN_FLIGHT = Source("assumed", "one bucket is being filled while another is being sent")


class TrainingMemory(Record):
    """Peak memory, and the parts of each stage that could be the most loaded."""

    peak: Term
    stages: dict[Place, tuple[Term, Parts]]
    allocated: Term
    """Tensors alone, as `torch.cuda.max_memory_allocated` counts them."""
    reserved: Term
    """Tensors and what the allocator keeps beside them, as `torch.cuda.max_memory_reserved` counts."""

    def binding(self) -> tuple[Term, Parts]:
        """The total and the parts of the most loaded stage of a single plan."""
        return max(self.stages.values(), key=lambda stage: float(stage[0].value))


def training_memory(
    subject: Subject, plan: TrainPlan, work: TrainingWork, recipe: RecipeTerms, leaves: Leaves
) -> TrainingMemory:  # fmt: skip
    """The memory of every stage that can bind; the peak is the largest."""
    made = {stage.place: _stage(subject, plan, work, recipe, leaves, stage) for stage in work.stages}

    def most(name: str, found: list[Term]) -> Term:
        return found[0] if len(found) == 1 else greatest(name, found)

    return TrainingMemory(
        most("memory.peak", [whole for whole, _, _, _ in made.values()]),
        {place: (whole, parts) for place, (whole, parts, _, _) in made.items()},
        most("memory.allocated", [allocated for _, _, allocated, _ in made.values()]),
        most("memory.reserved", [reserved for _, _, _, reserved in made.values()]),
    )


def _stage(
    subject: Subject, plan: TrainPlan, work: TrainingWork, recipe: RecipeTerms, leaves: Leaves, stage: Stage
) -> tuple[Term, Parts, Term, Term]:
    """The total of a stage and its parts; its tensors alone, and with what the allocator keeps."""
    profile = training_profile(subject.engine)
    at = f"{stage.prefix}memory" if stage.prefix else "memory"
    parts = _states(f"{at}", profile, plan, work, recipe, stage)
    trained = work.trained[stage.place]
    zero = plan.parallel.zero_stage
    if zero == 3:
        parts |= _of_shards(at, subject, profile, work, recipe, stage)
    parts |= _summed_in_runs(at, subject, plan, profile, work, recipe, stage)
    copied = profile.gradients.buckets == "copies" and zero == 0
    if not alone(work.dense_ranks) and profile.gradients.buckets != "views":
        parts["buckets"] = (
            _copied(at, work, recipe, trained) if copied else _buckets(at, subject, profile, work, recipe, leaves, trained.dense)
        )
    if (stand_ins := stand_in_bytes(at, subject, plan, profile, work)) is not None:
        parts["gradient_stand_ins"] = stand_ins
    parts |= _copies(at, plan, work, recipe, stage)
    activations = _activations(at, subject, plan, work, leaves, stage)
    passing = {"activations": replace(activations, name=f"{at}.all_activations") if _shares_buffers(profile) else activations}
    transient = transient_bytes(at, subject, plan, profile, work, recipe, stage, leaves=leaves)
    # Shards of what is summed whole are made by the backward pass of the last micro-batch alone, as logits and sums leave.
    summed = zero == 3 and profile.gradients.sums is not None
    if summed and "buckets" in parts:
        transient["buckets"] = parts.pop("buckets")
    if transient:
        passing["transient"] = greatest(f"{at}.transient", transient)
    parts |= passing
    at_step, beside_step = dict[str, Term](), dict(passing)
    fsdp = frees_shards(profile, recipe, zero=zero)
    if fsdp and "gathered" in parts:
        beside_step["gathered"] = parts["gathered"]
    ranks = ONE if summed or fsdp or copied else work.dense_ranks
    stays = any(all_true(one.value > 1) for one in (work.micro_batches, ranks))
    if profile.gradients.made == "each-step" and "gradients" in parts and (summed or not stays):
        at_step["gradients"] = parts["gradients"]
        parts["gradients"] = beside_step["gradients"] = new_gradient_bytes.term(
            f"{at}.gradients_at_peak", gradients=at_step["gradients"], layer=layer_bytes(at, work),
            beside=total(f"{at}.passing_of_loss", dict(passing)),
            micro_batches=ONE if summed else work.micro_batches, ranks=ranks,
        )  # fmt: skip
    parts |= other_moments(at, subject, plan, profile, work, recipe, stage, passing=beside_step, whole=at_step.get("gradients"))
    counted = total(f"{at}.counted", dict(parts))
    parts |= _as_measured(at, subject, profile, parts["activations"], counted)
    allocated = total(f"{at}.tensors", dict(parts))
    outside = outside_allocator(subject, plan, profile, work)
    parts |= kept_free(at, subject, profile, parts, allocated, {**transient, **layer_again(at, plan, work)}, outside)
    kept = {name: parts[name] for name in KEPT_FREE if name in parts}
    if at_step:
        parts = {"gradients_at_peak" if name == "gradients" else name: term for name, term in parts.items()}
    return (
        total(f"{at}.peak" if stage.prefix else "memory.peak", parts, begun=allocated),
        parts,
        allocated,
        total(f"{at}.reserved", {"tensors": allocated, **kept}),
    )


def _of_shards(
    at: str, subject: Subject, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, stage: Stage
) -> dict[str, Term]:  # fmt: skip
    """ZeRO-3: weights that are gathered at once or stay with fewer ranks, and gradients that wait whole."""
    trained, parts = work.trained[stage.place], dict[str, Term]()
    parts["gathered"] = _gathered(at, subject, profile, work, recipe, stage)
    if work.reshard is not None:
        parts["resharded"] = _resharded(at, work, recipe, stage, work.reshard)
    if _stays(profile, work):
        each = recipe.gradient if profile.gradients.sums is None else subject.habit("summed_whole", profile.gradients.sums)
        whole = repeated_bytes.term(f"{at}.gradients_kept", count=trained.dense, size=each)
        parts["unsharded_gradients"] = between_ranks.term(
            f"{at}.unsharded_gradients", size=whole, ranks=work.pipeline.group
        )  # fmt: skip
    piped, pp = _stays(profile, work), work.pipeline.group
    if profile.gradients.sums is not None and (not piped or any_true(pp.value == 1)):
        held = {"dense": trained.dense} if trained.experts is None else {"dense": trained.dense, "experts": trained.experts}
        element = subject.habit("summed_whole", profile.gradients.sums)
        sums = {
            kind: summed_gradient_bytes.term(
                f"{at}.summed_gradients.{kind}", params=one, element=element, micro_batches=work.micro_batches
            )
            for kind, one in held.items()
        }
        whole = total(f"{at}.summed_gradients", sums)
        parts["summed_gradients"] = alone_bytes.term(f"{at}.summed_without_pipeline", size=whole, group=pp) if piped else whole
    return parts


def _summed_in_runs(
    at: str, subject: Subject, plan: TrainPlan, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, stage: Stage
) -> dict[str, Term]:  # fmt: skip
    """ZeRO-2: the whole gradients of the chunk of a stage that a run of micro-batches passes through, where these are summed."""
    vpp, trained = subject.plan("vpp", plan.parallel.vpp), work.trained[stage.place]
    if plan.parallel.zero_stage != 2 or profile.sharding.scatters != "each-run" or plan.parallel.schedule != "1f1b" or alone(vpp):
        return {}
    held = {"dense": trained.dense} | ({} if trained.experts is None else {"experts": trained.experts})
    count = total(f"{at}.trained_of_stage", held)
    whole = repeated_bytes.term(f"{at}.gradients_of_stage", count=count, size=recipe.gradient)
    return {"gradients_of_run": chunk_bytes.term(f"{at}.gradients_of_run", size=whole, vpp=vpp)}


def _shares_buffers(profile: TrainingProfile) -> bool:
    """Whether a compiler plans all buffers (XLA), so that activations take the place of others: runs take less than all tensors."""
    return profile.memory_residual is not None and float(profile.memory_residual.value) < 1


def _as_measured(at: str, subject: Subject, profile: TrainingProfile, activations: Term, counted: Term) -> dict[str, Term]:
    """What measured runs take beyond what the parts count, or the activations as they are held where runs take less."""
    if profile.memory_residual is None:
        return {}
    residual = subject.habit("memory_residual", profile.memory_residual)
    if _shares_buffers(profile):
        held = held_activation_bytes.term(f"{at}.activations", activations=activations, counted=counted, residual=residual)
        return {"activations": held}
    return {"uncounted": uncounted_bytes.term(f"{at}.uncounted", counted=counted, residual=residual)}


def _buckets(
    at: str, subject: Subject, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, leaves: Leaves, params: Term
) -> Term:  # fmt: skip
    """Buckets in which gradients travel."""
    limit = subject.habit("bucket", profile.gradients.bucket)
    if profile.gradients.bucket_square is not None:
        square = leaves.times("model.hidden_square", leaves.hidden, leaves.hidden)
        each = subject.habit("bucket_square", profile.gradients.bucket_square)
        limit = repeated_bytes.term(f"{at}.bucket", count=square, size=each)
    buckets = bucket_bytes.term(
        f"{at}.all_buckets",
        total_bytes=repeated_bytes.term(f"{at}.gradients_whole", count=params, size=recipe.gradient),
        bucket_limit_bytes=limit,
        in_flight=Term("buckets_in_flight", 2.0, "1", _IN_FLIGHT),
    )
    return between_ranks.term(f"{at}.buckets", size=buckets, ranks=work.dense_ranks)


def _copied(at: str, work: TrainingWork, recipe: RecipeTerms, trained: StageParams) -> Term:
    """All gradients once more, as ranks exchange them: those of experts too, where their replicas are others."""
    held = {"dense": (trained.dense, work.dense_ranks)}
    if trained.experts is not None:
        held["experts"] = (trained.experts, work.expert_shards)
    return total(
        f"{at}.buckets",
        {
            kind: between_ranks.term(
                f"{at}.buckets.{kind}", ranks=ranks,
                size=repeated_bytes.term(f"{at}.gradients_whole.{kind}", count=params, size=recipe.gradient),
            )
            for kind, (params, ranks) in held.items()
        },
    )  # fmt: skip


def _copies(at: str, plan: TrainPlan, work: TrainingWork, recipe: RecipeTerms, stage: Stage) -> dict[str, Term]:
    """Further models: a frozen reference (adapters are switched off instead), and what local steps start from and remember."""
    params, found = work.params[stage.place], dict[str, Term]()
    if plan.tuning.reference and not plan.tuning.frozen:
        kinds = {"dense": (params.dense, work.dense_shards)}
        if params.experts is not None:
            kinds["experts"] = (params.experts, work.expert_shards)
        sizes = {
            kind: state_bytes.term(
                f"{at}.reference.{kind}", params=held, bytes_per_param=recipe.gathered,
                shards=shards if plan.parallel.zero_stage == 3 else ONE,
            )
            for kind, (held, shards) in kinds.items()
        }  # fmt: skip
        found["reference"] = total(f"{at}.reference", sizes)
    if plan.parallel.sync_every is not None:
        trained = work.trained[stage.place]
        outer = {"dense": trained.dense} | ({"experts": trained.experts} if trained.experts is not None else {})
        if work.replicas is not None:
            ways = {"dense": work.dense_shards, "experts": work.expert_shards}
            outer = {kind: share.term(f"{at}.outer_{kind}", amount=held, ways=ways[kind]) for kind, held in outer.items()}
        found["outer_optimizer"] = repeated_bytes.term(
            f"{at}.outer_optimizer", count=total(f"{at}.outer_params", outer), size=_OUTER
        )  # fmt: skip
    return found


def _gathered(
    at: str, subject: Subject, profile: TrainingProfile, work: TrainingWork, recipe: RecipeTerms, stage: Stage
) -> Term:  # fmt: skip
    """Weights that are gathered at once under ZeRO-3."""
    params = work.params[stage.place]
    most = subject.habit("gathered_layers", profile.sharding.gathered_layers)
    layers = smaller.term(f"{at}.gathered_layer_count", a=most, b=total(f"{at}.stage_layers", stage.layers))
    alive = product.term(f"{at}.gathered_params", a=layers, b=work.largest_layer)
    if _stays(profile, work):
        inner = params.dense
        if params.edges is not None:
            inner = difference.term(f"{at}.stage_params", whole=params.dense, part=params.edges)
        alive = stage_or_few_params.term(f"{at}.gathered_stage_params", pp=work.pipeline.group, stage=inner, few=alive)
    # Frozen weights travel as they are stored; a matrix is widened where it is multiplied.
    stored = (
        recipe.gathered
        if recipe.frozen is None
        else lesser_bytes.term("recipe.gathered_frozen", size=recipe.gathered, most=recipe.frozen)
    )
    held = {"layers": repeated_bytes.term(f"{at}.gathered_layers", count=alive, size=stored)}
    if params.edges is not None:
        edges = (
            smaller.term(f"{at}.larger_edge", a=params.edges, b=work.largest_edge)
            if profile.sharding.edges == "in-turn"
            else params.edges
        )
        held["edges"] = repeated_bytes.term(f"{at}.gathered_edges", count=edges, size=recipe.gathered)
    return between_ranks.term(f"{at}.gathered", size=total(f"{at}.gathered_whole", held), ranks=work.dense_shards)


def _stays(profile: TrainingProfile, work: TrainingWork) -> bool:
    """Whether gathered weights and unsharded gradients of a stage stay between the micro-batches of a pipeline."""
    return profile.sharding.in_pipelines != "released" and not alone(work.pipeline.group)


def _resharded(at: str, work: TrainingWork, recipe: RecipeTerms, stage: Stage, group: Term) -> Term:
    """Weights as they wait for the backward pass where fewer ranks share them than share states; none where as many do."""
    params = work.params[stage.place]
    kinds = {"dense": (params.dense, work.dense_shards)}
    if params.experts is not None:
        kinds["experts"] = (params.experts, work.expert_shards)
    sizes = {
        kind: waiting_bytes.term(f"{at}.resharded.{kind}", params=held, element=recipe.gathered, group=group, shards=shards)
        for kind, (held, shards) in kinds.items()
    }
    return total(f"{at}.resharded", sizes)


def _states(
    at: str, profile: TrainingProfile, plan: TrainPlan, work: TrainingWork, recipe: RecipeTerms, stage: Stage
) -> dict[str, Term]:  # fmt: skip
    """Weights, gradients and optimizer states, each cut over data parallelism from its own ZeRO stage on."""
    zero = plan.parallel.zero_stage
    trained = work.trained[stage.place]
    states: dict[str, list[Term]] = {"gradients": [recipe.gradient], "optimizer": [recipe.master, recipe.moments]}
    if recipe.extra is not None:
        states["optimizer"].append(recipe.extra)
    if recipe.frozen is None and (profile.sharding.weights == "copied" or zero < 3 or recipe.master.value == 0):
        states = {"weights": [recipe.weight], **states}
    made: dict[str, Term] = {}
    if recipe.frozen is not None:
        shards = work.dense_shards if zero == 3 else ONE
        if "params" not in plan.saving.offload:
            head = profile.adapters.head is not None and plan.tuning.base_weights in QUANTISED_IN_PLACE
            made["frozen"] = _frozen(at, work, recipe, stage, shards=shards, head=head)
            kinds = _beside_edges(f"{at}.adapters", trained, recipe, recipe.weight)
            sizes = {
                kind: state_bytes.term(
                    f"{at}.adapters.{kind}" if len(kinds) > 1 else f"{at}.adapters", params=held, bytes_per_param=element,
                    shards=shards,
                )
                for kind, (held, element) in kinds.items()
            }  # fmt: skip
            made["adapters"] = total(f"{at}.adapters", sizes) if len(sizes) > 1 else sizes["dense"]
    cut_from = {"weights": 3, "gradients": 2, "optimizer": 1}
    host = {"optimizer": "optimizer", "weights": "params", "gradients": "params"}
    if profile.gradients.offloaded == "with-states" and "optimizer" in plan.saving.offload:
        host["gradients"] = "optimizer"
    for name, elements in states.items():
        if host.get(name) in plan.saving.offload:
            continue
        element = elements[0] if len(elements) == 1 else total("recipe.optimizer_bytes", elements)
        if plan.parallel.schedule == "dualpipe" and name != "optimizer":
            element = repeated_bytes.term(f"recipe.{name}_of_two_stages", count=BOTH_ENDS, size=element)
        cut = zero >= cut_from[name]
        kinds = {"dense": (trained.dense, work.dense_shards)}
        if trained.experts is not None:
            kinds["experts"] = (trained.experts, work.expert_shards)
        if name == "gradients" and plan.saving.step_in_backward:
            held_at_once = [work.largest_layer] if trained.edges is None else [work.largest_layer, trained.edges]
            kinds = {"dense": (greatest(f"{at}.stepped_at_once", held_at_once), work.dense_shards)}
        elements_of = dict.fromkeys(kinds, element)
        if name == "gradients" and not plan.saving.step_in_backward:
            apart = _beside_edges(f"{at}.gradients", trained, recipe, element)
            kinds |= {kind: (held, work.dense_shards) for kind, (held, _) in apart.items()}
            elements_of |= {kind: each for kind, (_, each) in apart.items()}
        if name == "optimizer" and recipe.edge_moment is not None and trained.edges is not None:
            kinds["edges"], elements_of["edges"] = (trained.edges, work.dense_shards), recipe.edge_moment
        several = len(kinds) > 1
        sizes = {
            kind: state_bytes.term(
                f"{at}.{name}.{kind}" if several else f"{at}.{name}",
                params=held,
                bytes_per_param=elements_of[kind],
                shards=shards if cut else ONE,
            )
            for kind, (held, shards) in kinds.items()
        }
        made[name] = total(f"{at}.{name}", sizes) if len(sizes) > 1 else sizes["dense"]
    return made


def _beside_edges(at: str, trained: StageParams, recipe: RecipeTerms, element: Term) -> dict[str, tuple[Term, Term]]:
    """Trained parameters with their bytes: all alike, or adapters and the embedding and head that are trained whole beside them."""
    if recipe.edge_weight is None or trained.edges is None:
        return {"dense": (trained.dense, element)}
    thin = difference.term(f"{at}.beside_edges", whole=trained.dense, part=trained.edges)
    return {"dense": (thin, element), "edges": (trained.edges, recipe.edge_weight)}


def _frozen(at: str, work: TrainingWork, recipe: RecipeTerms, stage: Stage, *, shards: Term, head: bool) -> Term:
    """Weights that are not trained: matrices of the layers as they are quantised, embedding and head as they are left.

    `head`: the head is quantised too.
    """
    params = work.params[stage.place]
    element, kept = recipe.frozen or recipe.weight, recipe.unquantised or recipe.weight
    layers = params.dense
    sizes: dict[str, Term] = {}
    if params.edges is not None:
        layers = difference.term(f"{at}.frozen_layers", whole=params.dense, part=params.edges)
        edges = params.edges
        if head and stage.head is not None:
            ends = product.term(f"{at}.frozen_head", a=work.largest_edge, b=stage.head)
            edges = difference.term(f"{at}.frozen_embedding", whole=edges, part=ends)
            sizes["head"] = state_bytes.term(f"{at}.frozen.head", params=ends, bytes_per_param=element, shards=shards)
        sizes["edges"] = state_bytes.term(f"{at}.frozen.edges", params=edges, bytes_per_param=kept, shards=shards)
    sizes["layers"] = state_bytes.term(f"{at}.frozen.layers", params=layers, bytes_per_param=element, shards=shards)
    if params.experts is not None:
        sizes["experts"] = state_bytes.term(f"{at}.frozen.experts", params=params.experts, bytes_per_param=element, shards=shards)
    return total(f"{at}.frozen", sizes)


def _activations(at: str, subject: Subject, plan: TrainPlan, work: TrainingWork, leaves: Leaves, stage: Stage) -> Term:
    """What the micro-batches in flight keep on a stage."""
    parts: dict[str, Term] = {}
    again = share_recomputed(f"{at}.activations", subject, plan, stage)
    for key, block in work.blocks.items():
        layers = stage.layers[key]
        if block.recomputed_kept is None or again is None:
            parts[key] = repeated_bytes.term(f"{at}.activations.{key}", count=layers, size=block.saved)
            continue
        parts[key] = partly_recomputed_bytes.term(
            f"{at}.activations.{key}", layers=layers, share=again, saved=block.recomputed_kept, kept=block.kept
        )
    if stage.has_embedding:
        width = next(iter(work.blocks.values())).norm_width
        parts["embedding"] = tensor_bytes.term(
            f"{at}.activations.embedding", tokens=work.tokens, width=width, element_bytes=byte("recipe.embedding_bytes", 2.0)
        )
    if stage.modules is not None:
        # Both inputs, and both again behind their norms, side by side for the projection.
        inputs = leaves.times("mtp.kept_width", leaves("mtp.kept", 4), leaves.hidden)
        width = leaves.times(f"{at}.activations.mtp_width", stage.modules, inputs)
        parts["mtp"] = tensor_bytes.term(
            f"{at}.activations.mtp", tokens=work.tokens, width=width, element_bytes=byte("recipe.embedding_bytes", 2.0)
        )
    one = total(f"{at}.activations.micro_batch", parts)
    hosted = {key: block.hosted for key, block in work.blocks.items() if block.hosted is not None}
    if hosted:
        # One layer's results are on their way out or back in while the next one is computed.
        one = total(f"{at}.activations.with_passing", {"kept": one, "passing": greatest(f"{at}.activations.passing", hosted)})
    if "activations" in plan.saving.offload:
        return left_here(at, subject, plan, work, stage, one)
    return repeated_bytes.term(f"{at}.activations", count=stage.in_flight, size=one)
