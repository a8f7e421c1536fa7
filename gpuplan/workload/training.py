"""What a training step does and holds on one rank: work by block and stage, buffers by stage; no hardware."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.formulas.basic import product, share
from gpuplan.formulas.memory import logits_bytes
from gpuplan.formulas.stages import on_single_stage
from gpuplan.formulas.training import (
    expert_rank_tokens,
    expert_shards,
    expert_tensor_ways,
    rank_params,
    rank_tokens,
    sharded_params,
)
from gpuplan.models.architecture import Architecture, Block
from gpuplan.models.count import TOWERS, BlockCount, ParamCount
from gpuplan.plan.again import run_again
from gpuplan.plan.remat import Remat
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import RecomputeModule
from gpuplan.record import Record
from gpuplan.specs.engine import KvHeads
from gpuplan.term import DEFINITION, USER, Source, Term, greatest, total
from gpuplan.work import Collective
from gpuplan.workload.activations import KeepingHabits, KeptTensors
from gpuplan.workload.adapters import LowRankAdapters
from gpuplan.workload.backward import backward
from gpuplan.workload.context import ONE, Group, Leaves, Pass, Split, Types
from gpuplan.workload.documents import seen_document
from gpuplan.workload.draft import LayerSetting
from gpuplan.workload.edges import EdgeWays, EdgeWork, edge_work
from gpuplan.workload.engine_habits import with_biases, with_habits
from gpuplan.workload.exchanged_context import attending_bytes, exchanged_context
from gpuplan.workload.hand_over import hand_over, regathered
from gpuplan.workload.kv_heads import kv_copies
from gpuplan.workload.layer import layer_program
from gpuplan.workload.mtp import Modules, modules_of, with_modules, with_work
from gpuplan.workload.program import ADAPTERS, LayerProgram, Phase, Role
from gpuplan.workload.recomputation import NamedResults
from gpuplan.workload.stages import Leftover, Stage, block_keys, paired, stages


class StepTerms(Record, kw_only=True):
    """The leaves of a training step: degrees and batches (`plan.…`), bytes of the recipe (`recipe.…`), the engine's habits."""

    tp: Term
    pp: Term
    dp: Term
    cp: Term
    ep: Term
    vpp: Term
    seq_len: Term
    micro_batch: Term
    micro_batches: Term
    gradient: Term
    hidden_passes: Term
    rms_passes: Term | None = None
    modulated_passes: Term | None = None
    activation_passes: Term
    kernels: Term
    logit_bytes: Term


class BlockWork(Record, kw_only=True):
    """One kind of block: its forward and backward work, what it keeps, what is left of that where the plan recomputes."""

    forward: LayerProgram
    backward: LayerProgram
    context: Collective | None
    kept: Term
    recomputed_kept: Term | None
    """What is kept where the plan recomputes; None: nothing of the layer is recomputed, and `kept` is."""
    adapters: Term | None = None
    """Trained parameters of one layer on one rank, where the weights themselves are frozen."""
    again: LayerProgram | None = None
    """What the backward pass runs again, where the plan tells it by named results."""
    hosted: Term | None = None
    """Bytes of one layer that wait in the host's memory."""
    working: Term | None = None
    """What the layer at work holds beyond what it keeps."""
    attending: Term | None = None
    """What it holds in all while its attention goes back, where ranks gather what they attend to; None: they gather nothing."""
    gradients: Term
    """Gradients that the layer at work holds in the backward pass beside what it keeps, at most."""
    multiplied: Term | None = None
    """The part of what it keeps that quantised matmuls read."""
    of_operators: Term | None = None
    """The part of what it keeps that operators outside the engine's own modules read."""
    norms: int
    """How many norms a layer has."""
    head_norms: int = 0
    """How many norms of queries and keys are beside them."""
    norm_width: Term
    """The hidden width as norms and residuals hold it on a rank."""

    def modules_again(self, plan: TrainPlan, *, scores: bool) -> frozenset[RecomputeModule]:
        """The modules that selective recomputation runs again, where attention writes its scores out (`scores`) or does not."""
        latents = bool(self.forward.of(Role.KEY_VALUE_UP).ops)
        return run_again(plan.recompute, plan.saving.recompute_modules, latents=latents, scores=scores)

    @property
    def weights(self) -> int:
        """Products with weights of its own, adapters aside."""
        return len(self.forward.having(lambda op: op.role not in ADAPTERS).matmuls)

    @property
    def saved(self) -> Term:
        """What a layer keeps under the plan."""
        return self.kept if self.recomputed_kept is None else self.recomputed_kept


class StageParams(Record):
    """Parameters of a stage on one rank: those that tensor and data parallelism split, and the experts'."""

    dense: Term
    experts: Term | None
    edges: Term | None
    """The part of `dense` that belongs to embedding and head, and to towers that make tokens of images."""
    words: Term | None = None
    """The part of that which belongs to embedding and head alone."""


class TrainingWork(Record):
    """Everything that a step does on one rank, by kind of block and by stage."""

    blocks: dict[str, BlockWork]
    stages: tuple[Stage, ...]
    params: dict[str, StageParams]
    trained: dict[str, StageParams]
    """What has gradients and optimizer states: `params`, or the adapters beside frozen ones."""
    edge: EdgeWork
    tokens: Term
    dense_shards: Term
    """Ranks between which dense states are cut: dp x cp of them, or as many as a shard group has."""
    expert_shards: Term
    expert_ways: Term
    dense_stride: Term
    pipeline: Collective
    """What one stage sends to the next for a micro-batch."""
    regather: Collective | None
    """The gather of hidden states that ranks sent in parts; None: they are used as they come."""
    vocab: Term
    """Tokens of the vocabulary on one rank."""
    logits: Term
    micro_batches: Term
    """Micro-batches of a step on one rank."""
    largest_layer: Term
    held_twice: Term | None
    """Parameters of the embedding on one rank, where the last stage of a pipeline holds it as the first does: as the head that is
    tied to it, or to read it in modules of multi-token prediction. None: one of them holds it, or nobody trains it."""
    largest_edge: Term
    """Parameters of the embedding or of the head on one rank, before data parallelism shards them."""
    dense_ranks: Term
    """Ranks with the same dense weights before anything is sharded."""
    modules: Modules | None = None
    """Modules of multi-token prediction."""
    reshard: Term | None = None
    """Ranks between which weights stay after the forward pass; None: as between steps."""
    replicas: Term | None = None
    """Groups that each hold all states; None: there is one."""


def training_work(
    arch: Architecture, counts: ParamCount, leaves: Leaves, plan: TrainPlan, *, step: StepTerms, types: Types,
    once_a_node: bool = False, one_hot: bool = False, habits: KeepingHabits | None = None,
    stored: Term | None = None, kv_heads: KvHeads = "replicated", remat: Remat | None = None,
    mtp_from: Source = USER, leftover: Leftover = "between",
) -> TrainingWork:  # fmt: skip
    """The work and the buffers of a plan; every number is a term."""
    tokens = rank_tokens.term("step.tokens", micro_batch=step.micro_batch, seq_len=step.seq_len, cp=step.cp)
    p = plan.parallel
    etp = expert_tensor_ways.term("plan.etp", tp=step.tp, ep=step.ep) if p.etp is None else Term("plan.etp", p.etp, "1", USER)
    split = Split(
        tp=step.tp, ep=step.ep, etp=etp, sequence_parallel=plan.parallel.sequence_parallel, kv_heads=kv_heads,
        experts_apart=p.etp is not None and p.etp != 1,
    )  # fmt: skip
    work = Pass(
        tokens=tokens,
        groups=(
            Group(
                sequences=share.term("step.sequences", amount=step.micro_batch, ways=step.cp),
                q_len=step.seq_len,
                kv_len=step.seq_len,
            ),
        ),
        expert_tokens=_expert_tokens(plan, tokens, step, etp, None if habits is None else habits.padded),
        expert_skew=None if habits is not None and habits.padded is not None else _expert_skew(plan),
        hidden_passes=step.hidden_passes,
        rms_passes=step.rms_passes,
        modulated_passes=step.modulated_passes,
        activation_passes=step.activation_passes,
        kernels=step.kernels,
        document=seen_document(plan, step.seq_len),
    )
    work, encoding = _passes(arch, leaves, step, work)
    leaves("hidden", arch.hidden)
    capacity = _capacity(plan) if one_hot else None
    setting = LayerSetting(leaves=leaves, split=split, types=types, work=work, once_a_node=once_a_node, capacity=capacity)
    tuning = plan.tuning
    keeper = KeptTensors(
        leaves=leaves, split=split, work=work, habits=habits or KeepingHabits(), tuning=tuning,
        element=types.activation if habits is None or habits.stream is None else habits.stream,
        eager=plan.saving.attention == "eager", stored=stored,
    )  # fmt: skip
    settings, keepers = (setting, setting.replaced(work=encoding)), (keeper, keeper.replaced(work=encoding))
    named = None if remat is None else NamedResults(leaves=leaves, split=split, element=types.activation, remat=remat)
    blocks: dict[str, BlockWork] = {}
    for key, (index, name) in block_keys(arch).items():
        block, encodes = arch.stacks[index].blocks[name], int(arch.stacks[index].kind == "encoder")
        setting, keeper = settings[encodes], keepers[encodes]
        program = with_biases(layer_program(setting, Phase.FORWARD.value, key, block), key, block.mlp, keeper.habits)
        back = backward(program, key, step.gradient, frozen=tuning.frozen)
        forward, back = with_habits(program, back, key, keeper.habits, sequence_parallel=p.sequence_parallel)
        adapters = None
        if tuning.frozen:
            beside = LowRankAdapters(leaves=leaves, tuning=tuning)
            adapters = beside.params(key, program)
            thin = beside.program(key, program, types, setting.work)
            forward, back = forward + thin, back + backward(thin, key, step.gradient)
        kept = keeper.parts(key, block, program)
        made = BlockWork(
            forward=forward, backward=back, context=exchanged_context(key, program, plan, step, types),
            kept=total(f"activations.{key}", kept),
            recomputed_kept=keeper.saved(key, block, program, kept, plan.recompute, plan.saving.recompute_modules),
            working=keeper.working(key, program), gradients=keeper.gradients(key, program),
            attending=attending_bytes(key, program, kept, plan, step, types) if keeper.habits.gathers_context else None,
            multiplied=keeper.multiplied(key, block, program),
            of_operators=keeper.of_operators(key, program, plan.recompute, plan.saving.recompute_modules),
            norms=block.norms, adapters=adapters, norm_width=keeper.norm_width(key), head_norms=_head_norms(block),
        )  # fmt: skip
        blocks[key] = made if named is None else _named_results(made, named, key)
    setting, keeper = settings[0], keepers[0]
    modules = None
    if plan.mtp:
        number = Term("plan.mtp", plan.mtp, "1", mtp_from)
        modules = with_work(modules_of(arch, leaves, number), setting, step.gradient, frozen=tuning.frozen)
    held = stages(
        arch, counts, leaves, pp=step.pp, vpp=step.vpp, micro_batches=step.micro_batches, schedule=p.schedule,
        first=_named("first_stage_layers", p.first_stage_layers), last=_named("last_stage_layers", p.last_stage_layers),
        modules=None if modules is None else modules.count, leftover=leftover,
    )  # fmt: skip
    if modules is not None:
        held = with_modules(held, modules, step.pp)
    if p.schedule == "dualpipe":
        held = paired(held)
    ways = EdgeWays.of(keeper.habits, step.tp, sequence_parallel=p.sequence_parallel, shares_ends=p.schedule == "dualpipe")
    vocab = leaves.split("head.rank_vocab", leaves("vocab", arch.vocab), ways.head)
    ranks = shards = product.term("plan.shards", a=step.dp, b=step.cp)
    experts_cut = expert_shards.term("plan.expert_shards", tp=step.tp, cp=step.cp, dp=step.dp, ep=step.ep, etp=etp)
    replicas = None
    if p.shard_group is not None:
        shards = Term("plan.shard_group", p.shard_group, "1", USER)
        replicas = share.term("plan.replicas", amount=ranks, ways=shards)
        experts_cut = share.term("plan.expert_shard_group", amount=experts_cut, ways=replicas)
    copies = kv_copies(arch, leaves, split)
    params: dict[str, StageParams] = {
        stage.place: _params(arch, counts, step, etp, stage, copies, modules, ways=ways) for stage in held
    }
    return TrainingWork(
        blocks=blocks,
        stages=held,
        params=params,
        trained={stage.place: _adapters(blocks, stage, params[stage.place], plan) for stage in held} if tuning.frozen else params,
        edge=edge_work(
            arch, setting, step.gradient, step.logit_bytes, types, vocab, ways, frozen=tuning.frozen and not tuning.train_edges
        ),
        tokens=tokens,
        micro_batches=step.micro_batches,
        dense_shards=shards,
        expert_shards=experts_cut,
        expert_ways=product.term("plan.expert_ways", a=step.ep, b=etp),
        dense_stride=step.tp,
        pipeline=hand_over(
            leaves, split, step, types, tokens, in_parts=keeper.habits.hands_parts, inside=bool(plan.how.stages_inside)
        ),
        regather=regathered(leaves, split, step, types, tokens) if keeper.habits.hands_parts and not p.sequence_parallel else None,
        vocab=vocab,
        logits=logits_bytes.term("activations.logits", tokens=tokens, vocab=vocab, element_bytes=step.logit_bytes, copies=ONE),
        held_twice=_held_twice(arch, counts, plan, ways, modules is not None),
        largest_edge=share.term(
            "rank_params.largest_edge", amount=counts.embedding if counts.head is None else counts.head, ways=ways.embedding
        ),
        largest_layer=greatest(
            "rank_params.largest_layer", [_layer_params(one, step, etp, copies.get(_key(arch, one))) for one in counts.blocks]
        ),
        dense_ranks=ranks,
        replicas=replicas,
        reshard=None if p.reshard_group is None else Term("plan.reshard_group", p.reshard_group, "1", USER),
        modules=modules,
    )


def _head_norms(block: Block) -> int:
    """Norms of queries and keys in a layer."""
    return 2 if getattr(block.mixer, "qk_norm", "none") != "none" else 0


def _held_twice(arch: Architecture, counts: ParamCount, plan: TrainPlan, ways: EdgeWays, modules: bool) -> Term | None:
    """Parameters of an embedding that both ends of a pipeline train; schedules that put both ends on a rank hold it once."""
    trains = not plan.tuning.frozen or plan.tuning.train_edges
    if not trains or not (arch.tied or modules) or plan.parallel.schedule in ("dualpipe", "zb-v"):
        return None
    return share.term("rank_params.held_twice", amount=counts.embedding, ways=ways.embedding)


def _passes(arch: Architecture, leaves: Leaves, step: StepTerms, work: Pass) -> tuple[Pass, Pass]:
    """What the decoder and what the encoder are passed: other tokens where an encoder reads positions of its own (audio)."""
    if not arch.two_stacks or not arch.source_tokens:
        return work, work
    source = leaves("source_tokens", arch.source_tokens)
    rows = rank_tokens.term("step.source_rows", micro_batch=step.micro_batch, seq_len=source, cp=step.cp)
    groups = tuple(one.replaced(q_len=source, kv_len=source) for one in work.groups)
    return work.replaced(source=source, source_rows=rows), work.replaced(tokens=rows, groups=groups, document=None)


def _named(name: str, value: float | None) -> Term | None:
    """A number that the plan names, or None."""
    return None if value is None else Term(f"plan.{name}", value, "1", USER)


def _named_results(made: BlockWork, named: NamedResults, key: str) -> BlockWork:
    """The work of a block under a policy that names the results that are kept."""
    remat = named.remat
    return made.replaced(
        recomputed_kept=named.held(key, made.forward, remat.kept, "kept"),
        again=named.again(key, made.forward),
        hosted=named.held(key, made.forward, remat.hosted, "hosted") if remat.hosted else None,
    )


def _expert_tokens(plan: TrainPlan, tokens: Term, step: StepTerms, etp: Term, padded: Term | None) -> Term:
    """Token copies (for one a token) of the fullest rank of experts: the mean, times the load that the plan names, or padding."""
    mean = expert_rank_tokens.term("step.expert_tokens", tokens=tokens, top_k=ONE, tp=step.tp, etp=etp)
    capacity = _capacity(plan)
    if capacity is not None:
        return product.term("step.expert_slots", a=mean, b=capacity)
    if plan.parallel.expert_load is None:
        return mean if padded is None else product.term("step.padded_expert_tokens", a=mean, b=padded)
    load = Term("plan.expert_load", plan.parallel.expert_load, "1", USER)
    return product.term("step.fullest_expert_tokens", a=mean, b=load)


def _capacity(plan: TrainPlan) -> Term | None:
    """What every expert is padded to over the mean of its tokens; None: no token is dropped."""
    return _named("capacity_factor", plan.parallel.capacity_factor)


def _expert_skew(plan: TrainPlan) -> Term | None:
    """The skew of the router that the plan names; None: even."""
    skew = plan.parallel.expert_skew
    return None if skew is None or skew == 1 else Term("plan.expert_skew", skew, "1", USER)


def _key(arch: Architecture, one: BlockCount) -> str:
    """The key of a kind of block, as `block_keys` makes it."""
    return f"{one.stack}.{one.block}" if len(arch.stacks) > 1 else one.block


def _layer_params(one: BlockCount, step: StepTerms, etp: Term, copies: Term | None) -> Term:
    """Parameters of one layer on one rank before data-parallel sharding."""
    at = f"rank_params.{one.stack}.{one.block}"
    whole = {key: term for key, term in one.layer.items() if key in ("norms", "router")}
    cut = {key: term for key, term in one.layer.items() if key not in ("norms", "router", "experts")}
    parts: dict[str, Term] = {}
    if cut:
        parts["split"] = share.term(f"{at}.split", amount=total(f"{at}.tensor_parallel", dict(cut.items())), ways=step.tp)
    if whole:
        parts["whole"] = total(f"{at}.replicated", dict(whole.items()))
    if copies is not None:
        parts["kv_copies"] = copies
    if "experts" in one.layer:
        parts["experts"] = sharded_params.term(f"{at}.experts", params=one.layer["experts"], a=step.ep, b=etp)
    return total(f"{at}.layer", parts)


def _params(
    arch: Architecture, counts: ParamCount, step: StepTerms, etp: Term, stage: Stage, copies: Mapping[str, Term],
    modules: Modules | None, *, ways: EdgeWays,
) -> StageParams:  # fmt: skip
    at = f"{stage.prefix}params"
    dense: dict[str, Term] = {}
    experts: dict[str, Term] = {}
    for one in counts.blocks:
        key = _key(arch, one)
        layers = stage.layers[key]
        whole: dict[str, Term] = {name: term for name, term in one.layer.items() if name in ("norms", "router")}
        whole |= {"kv_copies": copies[key]} if key in copies else {}
        cut = {name: term for name, term in one.layer.items() if name not in ("norms", "router", "experts")}
        dense[key] = rank_params.term(
            f"{at}.{key}",
            layers=layers,
            split=total(f"params.{key}.split", dict(cut.items())) if cut else _zero(key),
            whole=total(f"params.{key}.whole", whole) if whole else _zero(key),
            tp=step.tp,
        )
        if "experts" in one.layer:
            held = product.term(f"{at}.{key}.all_experts", a=layers, b=one.layer["experts"])
            experts[key] = sharded_params.term(f"{at}.{key}.experts", params=held, a=step.ep, b=etp)
    if modules is not None and stage.modules is not None:
        dense["mtp"] = rank_params.term(
            f"{at}.mtp", layers=stage.modules, split=modules.projection, whole=modules.norms, tp=step.tp
        )
    edges: dict[str, Term] = {}
    ends = {"head": counts.head, "final": counts.final}
    if stage.has_embedding:
        edges |= {"embedding": counts.embedding, **counts.extra}
    if stage.has_head:
        edges |= {name: term for name, term in ends.items() if term is not None}
        if stage.place == "last" and arch.tied:
            edges["embedding"] = counts.embedding
    if stage.place == "first":
        edges |= {
            name: on_single_stage.term(f"{at}.{name}", amount=term, pp=step.pp) for name, term in ends.items() if term is not None
        }
    if stage.place == "last" and not arch.tied and modules is not None and not ways.paired:
        edges["embedding"] = counts.embedding
    elif stage.place == "last" and not arch.tied:
        edges["embedding"] = on_single_stage.term(f"{at}.embedding", amount=counts.embedding, pp=step.pp)
    at_edges: Term | None = None
    if edges:
        at_edges = dense["edges"] = ways.params(f"{at}.edges", edges)
    of_words = {name: term for name, term in edges.items() if name not in TOWERS}
    words = at_edges if len(of_words) == len(edges) else ways.params(f"{at}.words", of_words)
    return StageParams(total(f"{at}.dense", dense), total(f"{at}.experts", experts) if experts else None, at_edges, words)


def _adapters(blocks: dict[str, BlockWork], stage: Stage, params: StageParams, plan: TrainPlan) -> StageParams:
    """The trained parameters of a stage of frozen layers: adapters, and embedding and head where the plan trains them."""
    at = f"{stage.prefix}trained"
    parts = {
        key: product.term(f"{at}.{key}", a=stage.layers[key], b=block.adapters)
        for key, block in blocks.items()
        if block.adapters is not None
    }
    edges = params.words if plan.tuning.train_edges else None
    if edges is not None:
        parts["edges"] = edges
    return StageParams(total(f"{at}.params", parts), None, edges)


def _zero(key: str) -> Term:
    return Term(f"params.{key}.none", 0.0, "1", DEFINITION)
