"""What starts the plan of an answer, as a command or a file that its engine takes?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from gpuplan.errors import Problem, UnknownError
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.launch.forms import PORT, Start, emitted
from gpuplan.plan.launch.printed import Printed
from gpuplan.plan.launch.training.maxtext import maxtext
from gpuplan.plan.launch.training.megatron import megatron
from gpuplan.plan.launch.training.torchtitan import torchtitan
from gpuplan.plan.launch.training.words import Trained, Written
from gpuplan.plan.serve import ServePlan
from gpuplan.plan.train import TrainPlan
from gpuplan.search.library import Found, Library
from gpuplan.search.start_command import YOURS, hub_name, start_command
from gpuplan.specs.arguments import Container, EngineArguments
from gpuplan.specs.catalog import key
from gpuplan.specs.engine_era import split_name
from gpuplan.specs.going_rate import Shape
from gpuplan.specs.launch import Launch
from gpuplan.specs.target import Target

WRITERS: Mapping[str, Callable[[Launch, Trained], Written]] = {
    "megatron-lm": megatron, "torchtitan": torchtitan, "maxtext": maxtext,
}  # fmt: skip
"""What writes a training launch, by engine."""
_SERVER = ("--host", "0.0.0.0", "--port", str(PORT))


def emitted_training(ask: TrainAsk, found: Found, plan: TrainPlan, library: Library) -> str:
    """The launch of a training plan in the form that the question wants; "" where it wants none.

    Raises:
        UnknownError: no launch of the engine, or of the model on it, is on file.
        UsageError: the form cannot hold it.
    """
    if ask.emit is None:
        return ""
    engine, catalog = found.subject.engine.id, library.catalog
    if engine not in WRITERS or engine not in catalog.paths("launches"):
        hint = f"name one of {', '.join(WRITERS)} with --engine"
        raise UnknownError(Problem("emit.engine", f"--emit: how {found.subject.engine.name} is started is not on file", hint))
    if plan.tuning.frozen or ask.reference:
        what = f"--emit: adapters and references on {found.subject.engine.name} are not on file"
        raise UnknownError(Problem("emit.adapters", what, "leave --emit out"))
    node = node_of(found.target)
    one = Trained(
        card=found.card.id, model=hub_name(found.card, found.card.id), arch=found.card.architecture, plan=plan,
        ranks=found.target.count, node=node, tokens=ask.tokens, nodes_apart=node < found.target.count,
    )  # fmt: skip
    launch = catalog.load(Launch, engine)
    written = WRITERS[engine](launch, one)
    start = Start(
        name=_name(f"train-{found.card.id}"), words=written.words, starter=launch.starter, vendor=found.target.accelerator.vendor,
        accelerators=found.target.count, node=node, to_set={**written.to_set, **_yours(written.words)},
        remarks=_remarks(found, written.unsaid),
    )  # fmt: skip
    return emitted(ask.emit, start)


def emitted_serving(
    ask: ServeAsk, found: Found, plan: ServePlan, command: Printed | None, library: Library, *, fleet: int | None = None
) -> str:
    """The same of a serving plan, whose replicas that the engine does not start by itself are started each.

    `fleet`: so many of its replicas are started, each alone, however many the plan has.

    Raises:
        UnknownError: the arguments of the engine are not on file, or not those for a service.
        UsageError: the form cannot hold it.
    """
    if ask.emit is None:
        return ""
    engine = found.subject.engine
    table = _table(ask, found, library) if command is not None else None
    known = set() if table is None else {name for group in table.groups for name in group.silent.values}
    if command is None or table is None or not {"--host", "--port"} <= known:
        hint = "name one of vllm, sglang, tensorrt-llm, llama-cpp with --engine"
        raise UnknownError(Problem("emit.engine", f"--emit: how {engine.name} is started is not on file", hint))
    p, node = plan.parallel, node_of(found.target)
    apart = p.attention_dp == 1 and p.ep == 1 and p.tp * p.pp <= node < p.tp * p.pp * p.dp and "dp" not in command.unsaid
    if apart or fleet is not None:
        # Its replicas are on several nodes, which it would start as one process: each is started alone.
        alone = start_command(ask, found, plan.replaced(parallel=p.replaced(dp=p.attention_dp), batch=plan.batch), library)
        command = command if alone is None else alone.replaced(unsaid={**alone.unsaid, "dp": "each is started"})
    unsaid, sharing = dict(command.unsaid), int(p.attention_dp)
    replicas = int(p.dp) // sharing if unsaid.pop("dp", None) is not None else 1
    each = int(p.tp * p.pp * p.dp) // replicas
    if fleet is not None:
        replicas, each = fleet, int(p.tp * p.pp) * sharing
    start = Start(
        name=_name(f"serve-{found.card.id}"), words=(*command.words, *_SERVER), starter="server",
        vendor=found.target.accelerator.vendor, accelerators=each, node=node,
        replicas=replicas, image=_image(ask, found, table.container, library),
        starts=table.container.starts if table.container is not None else (), environment=command.environment,
        to_set=_yours(command.words), remarks=_remarks(found, unsaid),
    )  # fmt: skip
    return emitted(ask.emit, start)


def _image(ask: ServeAsk, found: Found, container: Container | None, library: Library) -> str:
    """The image of the release that is named or taken; "" where none is on file."""
    if container is None:
        return ""
    chip, (whole, _) = found.target.accelerator, library.engine(found.subject.engine.id)
    name, said = split_name(ask.engine or whole.id)
    if container.tagged is None or library.engine(name)[1]:
        return container.image  # Releases of what the engine stands in for are not its own.
    if said is None and whole.refused_by(chip.vendor, chip.family) is not None:
        said = whole.last_on(chip.vendor, chip.family)
    release = None if said is None else whole.release_of(said)
    return container.image if release is None else container.tagged.format(release)


def _table(ask: ServeAsk, found: Found, library: Library) -> EngineArguments:
    named = key(split_name(ask.engine or found.subject.engine.id)[0])
    ident = named if named in library.catalog.paths("arguments") else found.subject.engine.id
    return library.catalog.load(EngineArguments, ident)


def node_of(target: Target) -> int:
    """Accelerators that share a host: of a system or an instance as many as it has, of others as their fabric says."""
    if target.instance is not None:
        return min(max(1, int(target.instance.accelerators)), target.count)
    system = target.system
    if system is not None:
        hosts = 1.0 if system.hosts is None else system.hosts.value
        return min(max(1, int(system.accelerators.value / hosts)), target.count)
    return Shape.of(target).node or target.count


def _yours(words: Sequence[str]) -> dict[str, str]:
    """What the user has to say of a model that the question gave by its size."""
    return {"MODEL": "the model: its folder, or its name on the hub"} if YOURS in " ".join(words) else {}


def _name(text: str) -> str:
    """A name as Kubernetes takes it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:52]


def _remarks(found: Found, unsaid: Mapping[str, str]) -> tuple[str, ...]:
    made = (f"{found.card.id} on {found.target.text} with {found.subject.engine.name}, as planned by gpuplan",)
    return made + tuple(f"not said: {what.replace('_', ' ')}: {why}" for what, why in unsaid.items())
