"""What does a step of a serving engine take besides the kernels of its layers: its stages, what they send, its answers?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuplan.estimate.attention_ranks import told_by_ranks
from gpuplan.estimate.pricing import alone, in_turn, priced
from gpuplan.formulas import inference as form
from gpuplan.formulas.attention_kernels import seconds_up_to
from gpuplan.formulas.basic import difference, product, remaining_seconds, repeated_bytes, repeated_seconds, share
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.mixers import Attention, Compressed, GatedDelta, Mla, SparseMla, StateSpace
from gpuplan.plan.precision import byte
from gpuplan.term import DEFINITION, Source, Term, total
from gpuplan.work import Collective, Stream, WorkItem
from gpuplan.workload.context import ONE, Group
from gpuplan.workload.program import FEED_FORWARD, MIXERS, OVER_SEQUENCES, LayerProgram, Part
from gpuplan.workload.serving import PassWork
from gpuplan.workload.stages import decoder_stage

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel
    from gpuplan.specs.engine_schedule import OwnProcessors
    from gpuplan.specs.quantity import SecondsField

_THREE_HALVES = Term("engine.layers_of_three", 1.5, "1", Source("definition", "three sub-layers where other layers have two"))
_HALF = Term("engine.layers_of_one", 0.5, "1", Source("definition", "one sub-layer where other layers have two"))


def copied(model: ServingModel, name: str, *, decodes: bool) -> dict[str, Term]:
    """What a decode step copies of its caches; nothing where the engine copies none."""
    own = on_processors(model) if decodes else None
    return {} if own is None else {"cache_copies": cache_copies(model, name, own)}


def step_host(model: ServingModel, name: str, work: PassWork, *, decodes: bool) -> Term:
    """Host time of a step that the accelerator waits for, with what ranks tell each other, and wait for at all-reduces.

    Passes of prompts alone, which do not `decodes`, are long enough for launches to be ahead of them.
    """
    each, parts = model.profile.rank_wait, {"step": model.subject.habit("step_host", model.profile.step_host)}
    parts |= told_by_ranks(model, name)
    joined = model.profile.joined_host
    if decodes and joined is not None and not alone(model.serve.tp):
        parts["joined"] = form.joined_seconds.term(
            f"{name}.joined", ranks=model.serve.tp, each=model.subject.habit("joined_host", joined)
        )
    if decodes and each is not None and not alone(model.serve.tp):
        layers = total(f"{name}.layers", dict(work.counts))
        parts["tensor_ranks"] = form.ranks_wait_seconds.term(
            f"{name}.tensor_ranks", layers=layers, ranks=model.serve.tp, each=model.subject.habit("rank_wait", each)
        )
    return parts["step"] if len(parts) == 1 else total(name, parts)


def answering(model: ServingModel, name: str, rows: Term | None, groups: Sequence[Group] = ()) -> dict[str, Term]:
    """Host time of a step for each of the sequences that get a token, and each page of those in `groups` that decode.

    Nothing where the engine has none.
    """
    each, page, parts = model.profile.sequence_host, model.profile.page_host, dict[str, Term]()
    if each is not None and rows is not None:
        waited = model.subject.habit("sequence_host", each)
        parts["sequences"] = repeated_seconds.term(f"{name}.sequences", count=rows, seconds=waited)
    decoding = {f"group_{at}": one for at, one in enumerate(groups) if one.decodes}
    if page is not None and decoding:
        cached = {key: product.term(f"{name}.{key}.cached", a=one.sequences, b=one.kv_len) for key, one in decoding.items()}
        size = model.subject.habit("page_tokens", model.profile.page_tokens)
        pages = share.term(f"{name}.cached_pages", amount=total(f"{name}.cached_tokens", cached), ways=size)
        parts["pages"] = repeated_seconds.term(f"{name}.pages", count=pages, seconds=model.subject.habit("page_host", page))
    return parts


def server_host(model: ServingModel, name: str) -> Term | None:
    """Host time of a step for each sequence in the server, which runs while the accelerator does; None: there is none, or no load.

    It has the tokens of several steps together where the engine takes so many at once.
    """
    each, steps = model.profile.server_sequence_host, model.plan.settings.recv_interval
    if each is None or model.plan.load is None:
        return None
    whole = model.subject.habit("server_sequence_host", each)
    if steps is None:
        return whole
    return form.once_in_seconds.term(f"{name}.of_server", seconds=whole, steps=model.subject.plan("recv_interval", steps))


def stage_wait(model: ServingModel, name: str, layers: Mapping[str, Sequence[tuple[str, Term]]], whole: Term) -> Term:
    """What a decode step waits for the stage with the most work, where stages hold other layers or more of them.

    `layers` are the times of the items of each kind of layer.
    """
    subject, serve = model.subject, model.serve
    held = decoder_stage(subject.arch, subject.counts, model.leaves, pp=serve.pp)
    of_stage: dict[str, Term] = {}
    for key, times in layers.items():
        one = in_turn(f"{name}.{key}.layer", times)
        of_stage[key] = repeated_seconds.term(f"{name}.{key}.of_fullest_stage", count=held[key], seconds=one)
    fullest = total(f"{name}.fullest_stage", of_stage)
    return form.fullest_stage_wait.term(f"{name}.stage_wait", whole=whole, fullest=fullest, batch=serve.batch, pp=serve.pp)


def sends(model: ServingModel, name: str, rows: Term) -> Term:
    """Hidden states of `rows` tokens handed from stage to stage."""
    hidden, serve = model.leaves("hidden", model.subject.arch.hidden), model.serve
    size = tensor_bytes.term(f"{name}.send_bytes", tokens=rows, width=hidden, element_bytes=byte("recipe.activation_bytes", 2.0))
    send = Collective(
        name=f"{name}.send", kind="broadcast", size=size, group=Term("plan.send_peers", 2.0, "1", DEFINITION), stride=serve.tp
    )
    hops = difference.term("plan.stage_boundaries", whole=serve.pp, part=ONE)
    return repeated_seconds.term(f"{name}.sends", count=hops, seconds=priced(f"{name}.one_send", [send], model.subject.hw))


def issued(name: str, work: PassWork) -> dict[str, Term]:
    """Layers by kind as the host issues them: one with attention across beside its own has three sub-layers in place of two.

    Where mixers and feed-forward parts are layers of their own, as in Nemotron-H, each has one.
    """
    return {
        key: often if part is None else product.term(f"{name}.{key}.issued", a=part, b=often)
        for key, often in work.counts.items()
        for part in [_beside_two(work.layers[key])]
    }


def issue_wait(
    model: ServingModel, name: str, at: str, work: PassWork, rows: Term, busy: Term, answered: Term | None, *, reads: bool
) -> Term:  # fmt: skip
    """What the accelerator, `busy` for so long, waits for the host to issue a pass of `rows`, which `reads` prompts or does not.

    Engines replay decode steps from graphs, unless they are told not to. Passes with prompts are of any length, and where no graph
    holds them the host issues them kernel by kernel: of latent attention there are many small ones. `at` is what the wait is
    called. Behind pipeline stages a host may do what is to do for the sequences that are `answered` before it issues the next pass.
    """
    profile, habit = model.profile, model.subject.habit
    each = habit(model.hosted_as, profile.layer_host_of.get(model.plan.weights, profile.layer_host))
    issued_alone = reads or model.plan.settings.graphs is False
    if issued_alone and (prompts := prompt_host(model)) is not None:
        each = _long_alone(model, name, rows, each, habit(*prompts))
    layers, stages, own = total(f"{name}.layers", issued(name, work)), profile.stage_host, on_processors(model)
    if own is not None:
        return repeated_seconds.term(at, count=layers, seconds=habit("processors.layer", own.layer))
    if profile.collective_host is not None and not alone(model.serve.tp):
        each_layer = {
            key: product.term(
                f"{name}.{key}.collectives", a=often, b=model.leaves(f"{key}.collectives", len(work.layers[key].tensor_collectives))
            )
            for key, often in work.counts.items()
        }
        of_collectives = form.collectives_issue_seconds.term(
            f"{name}.issue_collectives", count=total(f"{name}.collectives", each_layer), ranks=model.serve.tp,
            host=habit("collective_host", profile.collective_host),
        )  # fmt: skip
        of_layers = repeated_seconds.term(f"{name}.issue_layers", count=layers, seconds=each)
        whole = total(f"{name}.issue", {"layers": of_layers, "collectives": of_collectives})
        return remaining_seconds.term(at, whole=whole, hidden=busy)
    if answered is not None and alone(model.serve.pp) and (served := server_host(model, name)) is not None:
        of_layers = repeated_seconds.term(f"{name}.issue_layers", count=layers, seconds=each)
        whole = form.served_issue_seconds.term(f"{name}.issue", issue=of_layers, sequence=served, rows=answered)
        return remaining_seconds.term(at, whole=whole, hidden=busy)
    if stages is None or answered is None or alone(model.serve.pp):
        return form.issue_wait_seconds.term(at, layers=layers, layer_host=each, busy=busy)
    issue = form.stage_issue_seconds.term(
        f"{name}.issue", issue=repeated_seconds.term(f"{name}.issue_layers", count=layers, seconds=each), pp=model.serve.pp,
        step=habit("stage_host", stages.step), sequence=habit("stage_sequence_host", stages.sequence), rows=answered,
    )  # fmt: skip
    return remaining_seconds.term(at, whole=issue, hidden=busy)


def on_processors(model: ServingModel) -> OwnProcessors | None:
    """What the engine does otherwise on this accelerator, which is a processor; None: nothing."""
    own = model.profile.processors
    if own is None or not model.subject.hw.asked("processors", lambda one: one.family in own.families):
        return None
    return own


def cache_copies(model: ServingModel, name: str, own: OwnProcessors) -> Term:
    """What a decode step copies of its caches: of keys and values that several heads share, one for each head that reads them."""
    subject = model.subject
    each = [one for one in subject.arch.mixers if isinstance(one, Attention)]
    copies = max((one.heads // one.kv_heads for one in each if one.kv_heads > 1), default=1)
    passes = model.leaves.times(
        f"{name}.cache_passes", subject.habit("processors.cache_passes", own.cache_passes), model.leaves("heads_per_key", copies)
    )
    stream = Stream(name=f"{name}.copied_caches", size=repeated_bytes.term(
        f"{name}.copied_bytes", count=passes, size=model.cache_read(f"{name}.copied")
    ), launches=ONE)  # fmt: skip
    return priced(f"{name}.cache_copies", [stream], subject.hw)


def _long_alone(model: ServingModel, name: str, rows: Term, replayed: Term, issued: Term) -> Term:
    """Host time of a layer in a pass of `rows` with prompts, where those of a captured number of tokens are replayed."""
    captures = model.profile.captures
    if captures is None or not model.profile.replays_prompts:
        return issued
    most = model.subject.habit("captured_most", captures.most)
    return seconds_up_to.term(f"{name}.layer_host", value=rows, most=most, within=replayed, beyond=issued)


def prompt_host(model: ServingModel) -> tuple[str, SecondsField] | None:
    """The habit of what the host takes to issue a layer for prompts, and its name; None: what it takes for any pass."""
    profile = model.profile
    if model.plan.settings.graphs is False and profile.eager_host is not None:
        return "eager_host", profile.eager_host
    own = {"latent_prompt_host": latent(model), "linear_prompt_host": _linear(model), "prompt_host": True}
    return next(((name, found) for name, is_so in own.items() if is_so and (found := getattr(profile, name)) is not None), None)


def _linear(model: ServingModel) -> bool:
    """Whether some layers keep a state in place of keys and values."""
    return any(isinstance(mixer, GatedDelta | StateSpace) for mixer in model.subject.arch.mixers)


def latent(model: ServingModel) -> bool:
    """Whether attention keeps latent vectors in place of keys and values."""
    return any(isinstance(mixer, Mla | SparseMla | Compressed) for mixer in model.subject.arch.mixers)


def _beside_two(layer: LayerProgram) -> Term | None:
    """Sub-layers of a layer over the usual two, attention or what stands for it and a feed-forward part; None: it has two."""
    if layer.within([Part.CROSS]).ops and layer.within([Part.MIXER]).ops:
        return _THREE_HALVES
    return None if layer.within(MIXERS).ops and layer.within(FEED_FORWARD).ops else _HALF


def kinds_of(layer: LayerProgram) -> dict[str, list[WorkItem]]:
    """The work of a layer by kind; `attention` is all that sees sequences as a whole."""
    whole = layer.of(*OVER_SEQUENCES)
    by_pass = layer.having(lambda op: op.role not in OVER_SEQUENCES)
    return {
        "matmuls": [*by_pass.matmuls],
        "attention": [op.item for op in whole.ops],
        "elementwise": [*by_pass.streams],
        "tensor_parallel": [*layer.tensor_collectives],
        "context_parallel": [*layer.context_collectives],
        "expert_parallel": [*layer.expert_collectives],
    }
