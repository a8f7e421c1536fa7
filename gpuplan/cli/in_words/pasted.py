"""Which command of gpuplan answers for a pasted command of an engine, or of a launcher of training?"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from gpuplan.errors import GpuplanError, Problem, UsageError
from gpuplan.optimizers import OPTIMIZERS, OPTIMIZERS_ALSO_CALLED
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.launch.shell import commands
from gpuplan.plan.option import by_key
from gpuplan.specs.target import is_counted

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
_ACCUMULATED = ("gradient-accumulation-steps", "grad-accum", "gradient-accumulation")
_SAID: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "load-in-4bit": {"": ("--qlora",)}, "qlora": {"": ("--qlora",)},
    "fp16": {"": ("--precision", "fp16")}, "bf16": {"": ("--precision", "bf16")},
    "mixed-precision": {"fp16": ("--precision", "fp16"), "bf16": ("--precision", "bf16"), "fp8": ("--precision", "fp8")},
    "gradient-checkpointing": {"": ("--recompute", "full")},
    "optim": {
        name: ("--optimizer", one)
        for name, one in (*OPTIMIZERS_ALSO_CALLED.items(), *((one.replace("-", "_"), one) for one in OPTIMIZERS))
    },
}  # fmt: skip
"""Arguments that are no whole numbers, by their values ("": a switch, or true), and the options that they are here."""
_COUNTED = re.compile(r"\d+x")
_TRUE, _FALSE = ("", "true", "yes", "1"), ("false", "no", "0")


class Pasted(NamedTuple):
    """The words behind `gpuplan` of the command that answers, and what only the user can add to it."""

    words: tuple[str, ...]
    why: str
    unread: tuple[str, ...] = ()
    """Arguments of a script of training that no option here is known for."""

    def on(self, place: str) -> tuple[str, ...]:
        """The words on another machine, with as many of it as the command says, where neither is counted."""
        at = self.words.index("--on") + 1
        counted = _COUNTED.match(self.words[at])
        there = place if counted is None or is_counted(place) or ":" in place else f"{counted[0]}{place}"
        return (*self.words[:at], there, *self.words[at + 1 :])


def answering(words: Sequence[str]) -> Sequence[str]:
    """The command that answers a pasted one with options of ours behind it, which is said; the same words where none is pasted.

    Raises:
        UsageError: it is not said what the pasted command runs on, or of which model.
    """
    command = pasted(words[0])
    if command is None:
        return words
    more = list(words[1:])
    at = more.index("--on") if "--on" in more[:-1] else None
    made = command.words if at is None else command.on(more[at + 1])
    rest = more if at is None else [*more[:at], *more[at + 2 :]]
    if at is None or command.why == SAY_MODEL:
        what = "it is not said what the command runs on" if at is None else "the command does not say its model"
        raise UsageError(Problem("usage.pasted", what, f"such as `gpuplan {shlex.join((*made, *rest))}`; {command.why}"))
    print(f"asked as: gpuplan {shlex.join((*made, *rest))}", file=sys.stderr)
    if command.unread:
        print(f"note: not read: {', '.join(command.unread)}", file=sys.stderr)
    return (*made, *rest)


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
        options, read = _options(flags, ranks)
        read |= {*_names_of("model"), *_ALL, *_EACH, *_NODES}
        unread = tuple(f"--{name}{f' {value}' if value else ''}" for name, value in flags.items() if name not in read)
        return Pasted((*words, *options), SAY_WHERE if model else SAY_MODEL, unread)
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


def _options(flags: Mapping[str, str], ranks: int) -> tuple[list[str], set[str]]:
    """What the arguments of a script of training set, as options of `gpuplan train`, and which of them were read."""
    from gpuplan.plan.other_words import table

    known, made, read = by_key(TrainAsk), dict[str, tuple[str, ...]](), set[str]()
    for name, value in flags.items():
        key = name.replace("-", "_")
        if name in _SAID:
            word = value.lower().replace("-", "_")
            said = () if word in _FALSE else _SAID[name].get("" if word in _TRUE else word)
            if said is not None:
                read.add(name)
            if said:
                made.setdefault(said[0], said)
            continue
        entry = next((one for one in table() if name in one.words and one.means in known and one.command in ("", "train")), None)
        option = key if key in known else entry.means if entry is not None and not entry.say else ""
        if option and value.isdigit() and known[option].kind == "whole" and not name.endswith(_NO_SIZE):
            read.add(name)
            flag = f"--{option.replace('_', '-')}"
            made.setdefault(flag, (flag, value))
    steps = next((name for name in _ACCUMULATED if flags.get(name, "").isdigit()), None)
    divided = {"--tp", "--pp", "--cp", "--global-batch"} & {*made}
    if steps is not None and "--micro-batch" in made and not divided:
        read.add(steps)
        made["--global-batch"] = ("--global-batch", str(int(made["--micro-batch"][1]) * int(flags[steps]) * ranks))
    if "--qlora" in made:
        made.setdefault("--lora", ("--lora", "16"))
    return [word for words in made.values() for word in words], read


def _whole(flags: dict[str, str], names: Sequence[str]) -> int:
    """The first of some arguments that is a whole number; 0 where none is."""
    return next((int(flags[name]) for name in names if flags.get(name, "").isdigit()), 0)


def _counted(count: int, name: str) -> str:
    return f"{count}x{name}" if count > 1 else name
