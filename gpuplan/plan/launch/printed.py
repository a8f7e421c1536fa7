"""Which command starts an engine as a serving plan says, and what of the plan can no argument of it say?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuplan.plan.serve import ServePlan
from gpuplan.record import Record, field
from gpuplan.specs.arguments import EngineArguments, Flag

_SETTINGS = (
    "max_sequences", "max_batched_tokens", "memory_utilization", "page_tokens", "cache_tokens", "cache_memory", "graphs",
    "chunked_prefill", "overlap_batches", "recv_interval", "batch_wait", "mixed_chunk", "awq_kernels", "adapters", "adapter_rank",
    "gpu_layers", "host_experts", "host_weights",
)  # fmt: skip


class Wanted(Record, kw_only=True):
    """What a command is to say: the plan, and which of its types somebody named, so that the engine must be told."""

    model: str
    plan: ServePlan
    named: tuple[str, ...] = ()
    """Of `weights` and `kv_cache` those that are not what the engine takes unasked."""
    stored: str = ""
    """The type in which the model's own checkpoint is stored; "": not known."""


class Printed(Record):
    """A command, and what of its plan no argument says."""

    words: tuple[str, ...]
    unsaid: dict[str, str] = field(default_factory=dict)
    """By what it is, why, or what to do."""
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The command on one line."""
        import shlex

        before = [f"{name}={shlex.quote(value)}" for name, value in self.environment]
        return " ".join([*before, shlex.join(self.words)])


def printed(table: EngineArguments, wanted: Wanted) -> Printed:
    """The command that starts an engine as a plan says."""
    plan, said = wanted.plan, _Said(table)
    settings = plan.settings
    _degrees(said, plan)
    if said.has("slot_context") or "max_sequences" in table.unsaid:
        # The room of every sequence is kept from the start.
        settings = settings.replaced(max_sequences=settings.max_sequences or plan.batch)
        said.put("slot_context", plan.context * (settings.max_sequences or 1.0)) or said.put("context", plan.context)
    else:
        said.put("max_context", settings.max_context or plan.context)
    if settings.adapters is not None:
        said.must("lora", True)
    for name in _SETTINGS:
        if (value := getattr(settings, name)) is not None:
            said.must(name, value)
    _drafting(said, plan)
    if "kv_cache" in wanted.named and not (said.put("key_cache", plan.kv_cache) and said.put("value_cache", plan.kv_cache)):
        said.must("kv_cache", plan.kv_cache)
    return _with_model(said, wanted)


class _Said:
    """Arguments of a table, put together one by one."""

    def __init__(self, table: EngineArguments) -> None:
        self.table = table
        self.words: list[str] = []
        self.environment: list[tuple[str, str]] = []
        self.unsaid: dict[str, str] = {}

    def has(self, target: str) -> bool:
        """Whether an argument sets something."""
        return any(True for _ in self._flags(target))

    def put(self, target: str, value: Any) -> bool:
        """Say something, if an argument or a variable of the environment can."""
        for name, flag in self._flags(target):
            if not name.startswith("-"):
                continue  # A line of a file of settings, not of a command.
            text = _spelt(flag, value)
            if text is not None:
                self.words += [name] if text == "" else [name, text]
                return True
            if flag.takes == "switch" and self.table.negated:
                self.words.append(f"--no-{name[2:]}")
                return True
        for group in self.table.groups:
            for name, meaning in group.environment.items():
                if meaning.sets == target and (text := _spelt(meaning, value)) is not None:
                    self.environment.append((name, text))
                    return True
        return False

    def must(self, target: str, value: Any) -> None:
        """Say something, or keep that nothing can."""
        if not self.put(target, value):
            shown = f"{value:g}" if isinstance(value, float) else str(value).lower()
            line = next((f"{name} {_spelt(flag, value)}" for name, flag in self._flags(target) if not name.startswith("-")), "")
            if line:
                self.unsaid[target] = f"{self.table.name} takes it as a line of its settings, `{line}`"
                return
            self.unsaid[target] = f"{self.table.name} has no argument for {target.replace('_', ' ')} {shown}"

    def _flags(self, target: str) -> Iterator[tuple[str, Flag]]:
        for group in self.table.groups:
            for name, flag in group.flags.items():
                if flag.sets == target or any(word.startswith(f"{target}=") for word in flag.words.values()):
                    yield name, flag


def _spelt(meaning: Any, value: Any) -> str | None:
    """The text that sets a value; "" where the argument stands alone, None where none sets it."""
    if meaning.takes == "switch":
        on = (meaning.to != "false") == bool(value)
        return "" if on else None
    wanted = str(value).lower()
    for text, word in meaning.words.items():
        if word and (word.partition("=")[2] or word) == wanted:
            return str(text)
    if meaning.takes == "word" or isinstance(value, bool):
        return None
    if meaning.takes in ("whole", "number"):
        number = float(value) / meaning.times
        return f"{number:.0f}" if number.is_integer() else repr(number)
    return str(value)


def _degrees(said: _Said, plan: ServePlan) -> None:
    """How accelerators are divided, as the engine divides them."""
    tp, pp, dp, ep = (int(getattr(plan.parallel, name)) for name in ("tp", "pp", "dp", "ep"))
    sharing = int(plan.parallel.attention_dp)
    name, whole = said.table.name, tp * sharing
    if said.has("split"):
        _split(said, tp, pp)
        if dp > 1:
            said.unsaid["dp"] = _times(dp, tp * pp)
        return
    if said.has("attention_dp") and sharing > 1:
        said.put("tp", whole)
        said.put("dp", sharing)
        said.put("attention_dp", True)
        if ep > 1:
            said.put("ep", ep)
        if tp > 1 and not said.has("dp"):
            said.unsaid["ep"] = f"{name} has no arguments for tp {tp}, attention-dp {sharing} and ep {ep} together"
        if dp > sharing:
            said.unsaid["dp"] = _times(dp // sharing, whole * pp)
    else:
        if tp > 1 or said.has("tp"):
            said.must("tp", tp)
        alone = ep > 1 and ep == tp  # Replicas that share no experts are processes of their own.
        if sharing > 1 and said.put("dp", sharing):
            if dp > sharing:
                said.unsaid["dp"] = _times(dp // sharing, whole * pp)
        elif dp > 1 and (alone or not said.put("dp", dp)):
            said.unsaid["dp"] = _times(dp, tp * pp)
        if ep > 1 and said.has("expert_parallel"):
            said.put("expert_parallel", True)
            if ep not in (tp, whole):
                said.unsaid["ep"] = f"{name} spreads experts over all {whole} ranks, not over {ep}"
        elif ep > 1:
            said.must("ep", ep)
    if plan.parallel.decode_cp > 1:
        said.must("decode_cp", plan.parallel.decode_cp)
    if plan.parallel.redundant_experts:
        said.must("redundant_experts", plan.parallel.redundant_experts)
    if plan.expert_exchange is not None and sharing > 1:
        said.must("expert_exchange", plan.expert_exchange)
    if pp > 1 or said.has("pp"):
        said.must("pp", pp)


def _drafting(said: _Said, plan: ServePlan) -> None:
    """What drafts, which engines know by words of their own."""
    drafting = plan.drafting
    if drafting is None:
        return
    known = said.put("draft_kind", drafting.kind) or said.put("draft_kind", "layer")
    if drafting.alone:
        known = said.put("draft_model", drafting.name)
    if known:
        said.must("draft_tokens", drafting.draft_tokens)
    else:
        said.unsaid["draft"] = f"{said.table.name} is told of it in a file of settings or as JSON"


def _times(replicas: int, each: int) -> str:
    return f"start it {replicas} times, each on {each} of the accelerators"


def _split(said: _Said, tp: int, pp: int) -> None:
    """Layers or rows over all accelerators of a process."""
    if tp > 1:
        said.put("split", "rows")
    elif pp > 1:
        said.put("split", "layers")


def _with_model(said: _Said, wanted: Wanted) -> Printed:
    """The command with its model, and with the type of weights where that must be said."""
    command = said.table.commands[0]
    words, plan = list(command.words), wanted.plan
    if said.has("tagged_model") and not wanted.model.lower().endswith(".gguf"):
        name = next(name for name, _ in said._flags("tagged_model"))
        tag = next((tag for tag, stored in said.table.tags.items() if stored == plan.weights), "")
        tagged = ":" in wanted.model
        if said.has("model") and "gguf" not in wanted.model.lower():
            file = f"{wanted.model.partition(':')[0].rpartition('/')[2]}{'-' if tag else ''}{tag}.gguf"
            said.unsaid["where_the_file_is_from"] = f"`{wanted.model}` holds none that {said.table.name} reads"
            return Printed((*words, next(name for name, _ in said._flags("model")), file, *said.words), said.unsaid,
                tuple(said.environment))  # fmt: skip
        words += [name, f"{wanted.model}:{tag}" if tag and not tagged else wanted.model]
        if not tag and not tagged:
            said.unsaid["weights"] = f"{said.table.name} has no tag for {plan.weights}"
    else:
        model, made = wanted.model, said.table.on_load
        if "weights" in wanted.named and made is not None and wanted.stored and plan.weights not in (wanted.stored, *made.weights):
            why = f"`{model}` is stored in {wanted.stored}, of which {said.table.name} makes no {plan.weights} as it loads"
            said.unsaid["where_the_checkpoint_is_from"] = why
            model = f"{model.rpartition('/')[2]}-{plan.weights}"
        elif "weights" in wanted.named:
            said.must("weights", plan.weights)
        if command.model in ("first", "either"):
            words.append(model)
        else:
            words += [next(name for name, _ in said._flags("model")), model]
    return Printed((*words, *said.words), said.unsaid, tuple(said.environment))
