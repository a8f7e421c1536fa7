"""Which command starts what a serving answer is about, on the engine that its question names?"""

from __future__ import annotations

from gpuplan.errors import Note
from gpuplan.models.by_size import size_said
from gpuplan.models.card import ModelCard
from gpuplan.models.mixers import Attention, Compressed, Mla, SparseMla
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.launch.printed import Printed, Wanted, printed
from gpuplan.plan.serve import ServePlan
from gpuplan.search.library import Found, Library
from gpuplan.search.serving_types import stored_format
from gpuplan.specs.arguments import EngineArguments
from gpuplan.specs.catalog import key
from gpuplan.specs.engine_era import split_name

OLLAMA = "ollama"
YOURS = "${MODEL:?}"
"""Where the question has the size of a model alone: what its files are called, only the user knows."""


def start_command(ask: ServeAsk, found: Found, plan: ServePlan, library: Library) -> Printed | None:
    """The command of a plan; None where the question names no engine, or one whose arguments are not on file."""
    if ask.engine is None:
        return None
    table = arguments_of(ask.engine, found.subject.engine.id, library)
    if table is None:
        return None
    if plan.settings.max_sequences is None and plan.settings.max_context is None and _state_each(found):
        plan = plan.replaced(settings=plan.settings.replaced(max_sequences=float(plan.batch)))
    stated = tuple(name for name in ("weights", "kv_cache") if getattr(ask, name) is not None)
    own = "" if ask.commanded or found.card.quantised else stored_format(found.card, found.subject)[0]
    return printed(table, Wanted(model=_name(ask.model, found, table.id), plan=plan, named=stated, stored=own))


def arguments_of(named: str, engine: str, library: Library) -> EngineArguments | None:
    """The arguments of an engine by the name that a question gives it (`ollama`), or those of its profile; None: not on file."""
    catalog = library.catalog
    idents = catalog.paths("arguments")
    name = key(split_name(named)[0])
    ident = name if name in idents else engine
    return catalog.load(EngineArguments, ident) if ident in idents else None


def _state_each(found: Found) -> bool:
    """Whether the engine starts only with a page of recurrent state for each sequence that it may run, and the model has such."""
    serving, arch = found.subject.engine.serving, found.subject.arch
    recurrent = any(not isinstance(mixer, (Attention, Mla, SparseMla, Compressed)) for mixer in arch.mixers)
    return recurrent and serving is not None and serving.profiling is not None and serving.profiling.state_each


def _name(model: str, found: Found, engine: str) -> str:
    """What an engine knows the model as: a name on the hub, if the card has one, or as the question has it."""
    if model.startswith(("hf", "https:")):
        from gpuplan.models.hub import PREFIX

        model = PREFIX.sub("", model)
    named = model.lower() in {found.card.id, *(alias.lower() for alias in found.card.aliases)}
    if not named and found.card.engine is not None:
        from gpuplan.models.ollama import is_ollama

        # Other engines know the models of Ollama's library by their names on the hub.
        named = engine != OLLAMA and is_ollama(model)
    if "/" in model or not named:
        return model
    return hub_name(found.card, model)


def hub_name(card: ModelCard, otherwise: str) -> str:
    """What a model is called on the hub; of one that the question gave by its size, a variable that the user sets."""
    named = next((alias for alias in card.aliases if "/" in alias), None)
    return named or (YOURS if size_said(card.id) is not None else otherwise)


def command_notes(command: Printed | None) -> tuple[Note, ...]:
    """What a command does not say of its plan."""
    if command is None:
        return ()
    return tuple(
        Note("command.unsaid", f"the command says nothing of {what.replace('_', ' ')}: {why}")
        for what, why in command.unsaid.items()
    )
