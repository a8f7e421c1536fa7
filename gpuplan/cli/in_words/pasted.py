"""Which command of gpuplan answers for a pasted command of an engine, or of a launcher of training?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from gpuplan.errors import GpuplanError
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.launch.shell import commands
from gpuplan.plan.option import by_key

SAY_WHERE = "say with `--on` what it runs on, which the command does not"
SAY_MODEL = "say the model and what it runs on, which the command does not"
_MANY = "h100"
_OWN = "rtx-4090"
"""What an example runs on: cards of a server, or one's own where the engine runs what it does not hold on the host."""
_EXAMPLE = "llama-3.1-8b"
_LAUNCHERS = {
    "torchrun": "",
    "torch.distributed.run": "",
    "torch.distributed.launch": "",
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "axolotl": "axolotl",
    "llamafactory-cli": "llama-factory",
    "swift": "ms-swift",
    "litgpt": "litgpt",
}
"""Programs that start training, and the engine that each is, where it is one."""
_TRAINING = re.compile(r"(?:^|[_/-])(?:pre)?(?:train|finetune|fine_tune|sft|dpo|grpo|lora|qlora)\w*\.py$")
"""A script that trains, by its name: `train.py`, `run_sft.py`."""
_PYTHON = re.compile(r"python[\d.]*")
_FILES = (".py", ".yaml", ".yml", ".json")
"""Ends of scripts and settings, which programs that start training are given."""
_ALL = ("num-processes", "world-size")
_EACH = ("nproc-per-node", "num-gpus", "gpus-per-node", "num-gpus-per-node")
_NODES = ("nnodes", "num-nodes", "num-machines")
"""Arguments of launchers that say how many processes there are in all, on each machine, and how many machines."""
_NO_SIZE = ("-alpha", "-type")
"""Ends of arguments beside that of a size: `--lora_alpha 32` is no rank."""


class Pasted(NamedTuple):
    """The words behind `gpuplan` of the command that answers, and what only the user can add to it."""

    words: tuple[str, ...]
    why: str


def pasted(text: str) -> Pasted | None:
    """What answers for a command that starts an engine or training; None where the text starts neither.

    >>> pasted("vllm serve Qwen/Qwen3-32B -tp 2").words
    ('serve', '--on', '2xh100', '--command', 'vllm serve Qwen/Qwen3-32B -tp 2')
    >>> pasted("torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 2").words
    ('train', 'llama-3.1-8b', '--on', '8xh100', '--micro-batch', '2')
    >>> pasted("how fast is vllm") is None
    True
    """
    try:
        return _engine(text) or _training(text)
    except GpuplanError:  # A quote that is never closed, or an argument that the engine does not have.
        return None


def _engine(text: str) -> Pasted | None:
    from gpuplan.plan.launch.started import started
    from gpuplan.specs.arguments import EngineArguments
    from gpuplan.specs.catalog import Catalog

    catalog = Catalog.open()
    try:
        run = started(text, [catalog.load(EngineArguments, ident) for ident in catalog.paths("arguments")])
    except GpuplanError:
        return None
    named = len(run.words) == 1 and any(map(str.isdigit, run.words[0]))
    if not named and not any(word.startswith("-") or "/" in word for word in run.words):
        return None  # Words about an engine: `vllm serve speed`, `ollama run llama3.1:8b on a 3090`.
    on = _OWN if run.table.engine == "llama-cpp" else _counted(_ranks(text), _MANY)
    return Pasted(("serve", "--on", on, "--command", text), SAY_WHERE)


def _ranks(text: str) -> int:
    """Of how many accelerators a command says that it takes them; 1 where it says nothing that can be read."""
    from gpuplan.plan.launch.commanded import commanded

    try:
        made = commanded({"command": text})
    except GpuplanError:
        return 1
    ranks = 1
    for name in ("tp", "pp", "dp", "attention_dp"):
        degree = str(made.get(name) or 1)
        ranks *= int(degree) if degree.isdigit() else 1
    return ranks


def _training(text: str) -> Pasted | None:
    for one in commands(text):
        found = next((program for word in one.words if (program := _launcher(word)) is not None), None)
        if found is None or not _is_started(one.words):
            continue
        flags = dict(_flags(one.words))
        model = next((flags[name] for name in _names_of("model") if name in flags), "")
        ranks = _whole(flags, _ALL) or (_whole(flags, _EACH) or 1) * (_whole(flags, _NODES) or 1)
        words = ["train", model or _EXAMPLE, "--on", _counted(ranks, _MANY)]
        words += ["--engine", found] if found else []
        return Pasted((*words, *_options(flags)), SAY_WHERE if model else SAY_MODEL)
    return None


def _is_started(words: Sequence[str]) -> bool:
    """Whether words that name a launcher start it: `train qwen3 8b with deepspeed` is about one."""
    stands = _launcher(words[0]) is not None or _PYTHON.fullmatch(PurePosixPath(words[0]).name) is not None
    told = (stands, any(word.startswith("-") for word in words), any(word.endswith(_FILES) for word in words))
    return sum(told) > 1  # Behind `srun` or `uv run` it does not stand first.


def _launcher(word: str) -> str | None:
    """The engine of a program that starts training, "" where it starts any; None: it starts none."""
    name = PurePosixPath(word.replace("\\", "/")).name
    return _LAUNCHERS.get(name, "" if _TRAINING.search(word) else None)


def _flags(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The arguments of a command, as other tools' words are compared, with their values; "" for a switch."""
    for at, word in enumerate(words):
        name, joined, value = word.lstrip("-").partition("=")
        if not word.startswith("-") and not joined:
            continue
        after = words[at + 1] if at + 1 < len(words) else "-"
        yield name.lower().replace("_", "-"), value if joined else "" if after.startswith("-") else after


def _names_of(option: str) -> Iterator[str]:
    from gpuplan.plan.other_words import table

    for entry in table():
        if entry.means == option:
            yield from entry.words


def _options(flags: dict[str, str]) -> Iterator[str]:
    """What the arguments of a script of training set, as options of `gpuplan train`: whole numbers alone, which need no table."""
    from gpuplan.plan.other_words import table

    known, made = by_key(TrainAsk), set[str]()
    for name, value in flags.items():
        key = name.replace("-", "_")
        entry = next((one for one in table() if name in one.words and one.means in known and one.command in ("", "train")), None)
        option = key if key in known else entry.means if entry is not None and not entry.say else ""
        if option and option not in made and value.isdigit() and known[option].kind == "whole" and not name.endswith(_NO_SIZE):
            made.add(option)
            yield from (f"--{option.replace('_', '-')}", value)


def _whole(flags: dict[str, str], names: Sequence[str]) -> int:
    """The first of some arguments that is a whole number; 0 where none is."""
    return next((int(flags[name]) for name in names if flags.get(name, "").isdigit()), 0)


def _counted(count: int, name: str) -> str:
    return f"{count}x{name}" if count > 1 else name
