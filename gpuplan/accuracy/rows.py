"""Which measured runs do files hold, which of them are doubtful, and which did a fit use?

A file is a YAML or JSON list, or JSON lines, of rows: `id`, `task`, `source`, `model`, `hardware`, `run`, `measured`, and for
training `kind` and `framework`, for inference `engine`. `task` beside `rows` is that of all of them. `fitted: false`, of a row
or beside `rows`, keeps it from every fit. `apart: true` beside `rows` lets reports by engine tell of the file by itself.
`blind: 2026-11-29` beside `rows` is the day on which the file was asked before anything had been changed for it: reports tell of
such sources by themselves, so that what is said of the others stays of the same rows. More of the same day have a word behind a
comma (`2026-11-29, evening`).
`measured: {ran: true}` or `{out_of_memory: true}` is of a table that says no more than which runs fitted.
`elsewhere`, of a row, of its source or beside `rows`, names what of `run` does not stand on the row's own page (read in a recipe
of the run, say); `known` of a row or of its source holds further settings of that kind, an engine's `release` among them;
`known_from` of a source says where they stand. `dated: true` of a source says that its page prints the month of its title,
`prints: [inter_node]` that it prints the network of its machines. Everything that a row leaves out is None; keys that nobody
knows are kept and not looked at.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from gpuplan.errors import Problem, SpecError, UsageError
from gpuplan.files.json_text import JsonError, parse
from gpuplan.files.read import SPEC_BYTES, TABLE_BYTES, text_of
from gpuplan.files.unchanged import while_unchanged
from gpuplan.record import Record
from gpuplan.schema import DAY
from gpuplan.strict_yaml import parse_any

Task: TypeAlias = Literal["training", "inference", "startup", "diffusion"]
"""What was run: training, requests to a serving engine, its start-up, of which its log tells, or a diffusion model."""
_TASKS: Mapping[str, Task] = {"inference": "inference", "startup": "startup", "diffusion": "diffusion"}
SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
PARTS = ("model", "hardware", "run", "measured")
NUMBERS = {
    "model": ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "params_b"),
    "hardware": ("count", "per_node"),
    "run": (
        "seq_len", "global_batch", "micro_batch", "grad_accum", "per_device_batch", "local_batch", "batch_per_dp", "tp", "pp", "dp",
        "cp", "ep", "vpp", "lora_rank", "input_len", "output_len", "concurrency", "max_context", "max_sequences",
        "max_batched_tokens", "steps", "documents", "frames", "memory_utilization", "page_tokens", "adapters", "adapter_rank",
        "request_rate", "cached_share", "cached_prefixes", "prompt_spread", "output_spread", "prompts", "group_size", "prompt_len",
        "response_len", "response_max", "rollout_tp", "rollout_gpus", "staleness", "gpu_layers", "host_experts",
    ),
    "measured": (
        "tokens_per_s_per_accelerator", "tokens_per_s_total", "step_time_s", "samples_per_s", "samples_per_s_total",
        "tflops_per_accelerator", "mfu", "hfu", "peak_memory_gib", "output_tokens_per_s", "output_tokens_per_s_per_accelerator",
        "latency_s", "ttft_ms", "ttft_p50_ms", "tpot_ms", "tpot_p50_ms", "itl_ms", "step_ms", "weights_gib", "device_gib",
        "kv_tokens", "max_concurrency",
    ),
}  # fmt: skip
"""What must be a number where a row has it."""
SHARES = ("mfu", "hfu", "cached_share")
WHOLE = ("count", "per_node", "tp", "pp", "dp", "cp", "ep", "vpp", "seq_len", "lora_rank", "documents")
SWITCHES = ("compile", "sequence_parallel", "fp8_attention", "graphs")
"""What of a run must be true or false where a row says it."""
NETWORKS = ("inter_node",)
"""What of a row's machine nobody types who takes the accelerators as they come, unless the page prints it."""
FITTED_IN_THREE = 3
"""Of three groups of model and accelerator, two were there to be fitted to; the third is held back from every fit."""


class Row(Record, kw_only=True):
    """One measured run. `set` is the name of its file."""

    id: str
    set: str
    task: Task
    model: Mapping[str, Any]
    hardware: Mapping[str, Any]
    run: Mapping[str, Any]
    measured: Mapping[str, Any]
    kind: str = "pretrain"
    engine: str = ""
    """The framework or engine, as the row names it."""
    month: str | None = None
    """The month of the software, as `YYYY-MM`, where the row's source tells it."""
    released: bool = False
    """Whether the page itself says the month: it names a release of it, or is dated by it."""
    elsewhere: tuple[str, ...] = ()
    """What of `run` does not stand on the row's own page."""
    printed: tuple[str, ...] = ()
    """What of the machine's networks the row's own page prints."""
    typed: bool = False
    """Whether the row holds what its own page says and nothing else."""
    flag: str = ""
    """Why the row is doubtful; such rows are skipped."""
    fault: str = ""
    """What is missing or wrong in the row itself; such rows are skipped too."""
    repo: str = ""
    path: str = ""
    """The page in it."""
    """The repository that the row was read in."""
    unseen: bool = False
    """Whether the row is there to judge and was kept from every fit, whatever its group."""

    apart: bool = False
    """Whether reports by engine tell of the rows of its file by themselves."""
    blind: str = ""
    """The day on which its file was asked blind, as `YYYY-MM-DD`, a word behind it where a day had several; empty: it is older."""
    kin: bool | None = None
    """Whether a fit saw published runs of the same model and accelerator; None: as the group says."""

    @property
    def group(self) -> tuple[str, str]:
        """Model and accelerator: what is held back together."""
        return str(self.model.get("name") or self.model.get("id")), str(self.hardware.get("accelerator"))

    @property
    def fitted(self) -> bool:
        """Whether a fit of engine profiles may have seen the row's group; the rule that `tools/fit_engines.py` keeps as well."""
        if self.kin is not None:
            return self.kin and not self.unseen
        return not self.unseen and zlib.crc32("|".join(self.group).encode()) % FITTED_IN_THREE != 0

    def as_typed(self) -> Row:
        """The row as one reads it who has its page: today's engine unless a release is named, no network that it does not print."""
        return self.replaced(
            typed=True, month=self.month if self.released else None,
            run={name: value for name, value in self.run.items() if name not in self.elsewhere},
            hardware={name: value for name, value in self.hardware.items() if name not in NETWORKS or name in self.printed},
        )  # fmt: skip


def marked(rows: Sequence[Row], published: Sequence[Row]) -> list[Row]:
    """The user's training runs, each with whether a fit saw published ones of its model, by name or card, and accelerator."""

    def card(row: Row) -> tuple[str, str]:
        return str(row.model.get("id") or ""), str(row.hardware.get("accelerator"))

    ours = [row for row in published if row.task == "training"]
    groups = {row.group for row in ours}
    seen = {card(row) for row in ours if row.fitted and row.model.get("id")}
    return [row.replaced(kin=card(row) in seen) if row.task == "training" and row.group not in groups else row for row in rows]


STEP_TOKENS = 2**22
"""Tokens of a step where a page of whole runs says nothing of it: as Llama 2 took (arXiv 2307.09288, 2.2)."""


def with_count(hardware: Mapping[str, Any], run: Mapping[str, Any], measured: Mapping[str, Any]) -> Mapping[str, Any]:
    """The machine of a run of which only the accelerators' hours are printed: one of them for each sequence of a step.

    Whoever asks how many hours a run takes has to ask for some number, on which the rate of one of them hardly depends.
    """
    length = run.get("seq_len")
    if "count" in hardware or not any(name.startswith("gpu_hours") for name in measured) or not isinstance(length, int):
        return hardware
    return {**hardware, "count": run.get("global_batch") or max(STEP_TOKENS // max(length, 1), 1)}


class Skip(Exception):
    """A row that cannot be compared, and why."""


def of_many_lengths(row: Row) -> bool:
    """Whether a row's sequences are of many lengths, so that only the longest, and the memory that it takes, are known."""
    return any(word in str(row.run.get("seq_len_kind") or "") for word in ("average", "longest"))


def packaged() -> Path:
    """The folder with the published runs that came with gpuplan."""
    return Path(__file__).parent / "runs"


def read_rows(paths: Sequence[Path]) -> list[Row]:
    """The rows of files, and of all files in folders; a row that says what no row can, or takes another's id, has a fault.

    Raises:
        UsageError: a file is missing, is no list, or holds nothing; all of them together.
    """
    rows: dict[str, Row] = {}
    problems: list[Problem] = []
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES) if path.is_dir() else [path]
        if path.is_dir() and not files:
            problems.append(
                Problem("accuracy.no-runs", f"{path} holds no .yaml, .json or .jsonl file", "name a file of measured runs")
            )
        for file in files:
            try:
                for number, found in enumerate(while_unchanged("measured runs", file, partial(_rows, file)), start=1):
                    row = found
                    if row.id in rows and row.replaced(set="") != rows[row.id].replaced(set=""):
                        row = row.replaced(id=f"{row.id} ({file.stem}, row {number})", fault="another row has its id")
                    rows.setdefault(row.id, row)
            except UsageError as error:
                problems += error.problems
    if not rows and not problems:
        where = ", ".join(str(path) for path in paths)
        problems.append(
            Problem("accuracy.no-runs", f"{where}: no measured run is in it", "a file of measured runs is a list of rows")
        )
    if problems:
        raise UsageError(*problems)
    return list(rows.values())


def _rows(file: Path) -> tuple[Row, ...]:
    """The rows of a file; errors as `_list`."""
    return tuple(_row(data, file, number) for number, data in enumerate(_list(file), start=1))


def _list(file: Path) -> Iterator[Any]:
    """The rows of a file, each with its source.

    Raises:
        UsageError: it cannot be read, is no YAML or JSON, or holds no list of rows or no mapping of sources.
    """
    hint = "a file of measured runs is a list of rows; the README says what a row holds"
    text = text_of(file, most=TABLE_BYTES if file.suffix.startswith(".json") else SPEC_BYTES, code="accuracy")
    try:
        if file.suffix == ".jsonl":
            yield from (parse(line) for line in text.splitlines() if line.strip())
            return
        data = parse(text) if file.suffix == ".json" else parse_any(text, str(file))
    except JsonError as error:
        where = f"{file}:{error.line}" if error.line else str(file)
        raise UsageError(Problem("accuracy.not-rows", f"the file is no JSON: {error}", hint, where)) from None
    except SpecError as error:
        raise UsageError(*error.problems) from None
    if isinstance(data, Mapping) and isinstance(data.get("rows"), (list, tuple)):
        data = _sourced(data, file, hint)
    if data is not None and not isinstance(data, (list, tuple)):
        raise UsageError(Problem("accuracy.not-rows", f"{file} holds no list", hint))
    yield from data or ()


def _sourced(data: Mapping[str, Any], file: Path, hint: str) -> list[Any]:
    """The rows of a file, each with the source that it names and with what is said of all of them."""
    sources, unseen, elsewhere = data.get("sources") or {}, data.get("fitted") is False, data.get("elsewhere") or ()
    if not isinstance(sources, Mapping):
        raise UsageError(Problem("accuracy.not-rows", "`sources` is no mapping of keys to sources", hint, str(file)))
    if not _words(elsewhere):
        raise UsageError(Problem("accuracy.not-rows", "`elsewhere` is no list of words", hint, str(file)))
    made: list[Any] = []
    for one in data["rows"]:
        if not isinstance(one, Mapping):
            made.append(one)
            continue
        key = one.get("source")
        source = sources.get(key) if isinstance(key, str) else None
        own = one.get("elsewhere") or ()
        every = [*elsewhere, *own] if _words(own) else own
        said = {"task": data["task"]} if "task" in data else {}
        apart = {"apart": True} if data.get("apart") is True else {}
        blind = {"blind": data["blind"]} if "blind" in data else {}
        unfit = {"fitted": False} if unseen else {}
        made.append({**said, **one, "source": source, **unfit, **apart, **blind, "elsewhere": every})
    return made


def _words(found: Any) -> bool:
    return isinstance(found, (list, tuple)) and all(isinstance(one, str) for one in found)


def _fault(data: Mapping[str, Any]) -> str:
    """The first value of a row that cannot be what its name says; empty where there is none."""
    for part, names in NUMBERS.items():
        for name in names:
            value = data[part].get(name)
            if value is None:
                continue
            if isinstance(value, str):
                return f"{part}: {name} is the text `{value}`, where a number is wanted"
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
                return f"{part}: {name} is `{value}`, which is no such number"
            if name in WHOLE and value != int(value):
                return f"{part}: {name} is {value:g}, where a whole number is wanted"
            if name in SHARES and value > 1:
                return f"{part}: {name} is {value:g}; write it as a fraction, such as 0.4"
    for name in SWITCHES:
        said = data["run"].get(name)
        if said is not None and not isinstance(said, bool):
            return f"run: {name} is `{said}`, where true or false is wanted"
    return "" if isinstance(data["hardware"].get("accelerator"), str) else "the row does not name its accelerator"


def _row(data: Any, file: Path, number: int) -> Row:
    if not isinstance(data, Mapping):
        nothing: dict[str, Any] = {}
        return Row(
            id=f"{file.stem}-{number}", set=file.stem, task="training", model=nothing, hardware=nothing, run=nothing,
            measured=nothing, fault="it is no row: a row has id, model, hardware, run and measured",
        )  # fmt: skip
    wrong = [part for part in PARTS if not isinstance(data.get(part), Mapping)]
    task, engine = str(data.get("task") or "training"), data.get("engine") or data.get("framework") or ""
    fault = f"the row has no {', '.join(wrong)}" if wrong else _fault(data)
    if task not in get_args(Task):
        fault = f"no task is called `{task}`"
    source = _mapping(data.get("source"))
    known = {**_mapping(source.get("known")), **_mapping(data.get("known"))}
    month, released = _month(str(source.get("title") or ""))
    released = released or (month is not None and source.get("dated") is True)
    parts = {part: {} if part in wrong else data[part] for part in PARTS}
    parts["run"] = {**known, **parts["run"]}
    parts["hardware"] = with_count(parts["hardware"], parts["run"], parts["measured"])
    named = [found for part in (data, source) if (found := part.get("elsewhere"))]
    if not all(_words(one) for one in named):
        fault, named = fault or "`elsewhere` is no list of words", []
    elsewhere = {*(word for one in named for word in one), *known}
    printed = source.get("prints") or ()
    if not _words(printed) or not set(printed) <= set(NETWORKS):
        fault, printed = fault or f"`prints` is no list of words of {', '.join(NETWORKS)}", ()
    blind = str(data.get("blind") or "")
    if blind and re.fullmatch(rf"{DAY}(, [a-z]+)?", blind) is None:
        fault, blind = fault or f"`blind` is `{blind}`, where a day such as 2026-11-29 is wanted", ""
    return Row(
        month=month, released=released, elsewhere=tuple(sorted(map(str, elsewhere))), printed=tuple(printed),
        id=str(data.get("id") or f"{file.stem}-{number}"), set=file.stem,
        task=_TASKS.get(str(task), "training"), repo=str(source.get("repo") or ""), path=str(source.get("path") or ""),
        **parts, kind=str(data.get("kind") or "pretrain"),
        engine=str(engine).lower(), flag=str(data.get("flag") or ""), fault=fault, unseen=data.get("fitted") is False,
        apart=data.get("apart") is True, blind=blind,
    )  # fmt: skip


def _mapping(data: Any) -> Mapping[str, Any]:
    return data if isinstance(data, Mapping) else {}


def _month(title: str) -> tuple[str | None, bool]:
    """The month that a source's title tells, and whether it is that of a release (`v25.04.02`, `container 26.06`), not a date.

    >>> _month("Megatron Bridge performance summary, NeMo container 26.04.01"), _month("benchmarks, 2024-12"), _month("README")
    (('2026-04', True), ('2024-12', False), (None, False))
    >>> _month("InternEvo v0.2.1dev20231121: training performance")
    ('2023-11', True)
    """
    release = re.search(r"(?:release v|container )(\d\d)\.(\d\d)", title)
    if release is not None:
        return f"20{release[1]}-{release[2]}", True
    nightly = re.search(r"\bv[\d.]+\.?(?:dev|post)(20\d\d)(\d\d)\d\d\b", title)
    if nightly is not None:
        return f"{nightly[1]}-{nightly[2]}", True
    date = re.search(r"\b(20\d\d)(?:-(\d\d))?$", title)
    return (None if date is None else f"{date[1]}-{date[2] or '12'}"), False
