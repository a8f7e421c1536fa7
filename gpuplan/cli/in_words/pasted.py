"""Which command of gpuplan answers for a pasted command of an engine, or of a launcher of training?"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
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
_DIVIDING = frozenset({"--tp", "--pp", "--cp"})
"""With these a step has fewer micro-batches at once than accelerators."""
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
_ADAPTERS = 16
"""The rank of adapters that is taken where a command says none."""
_COUNTED = re.compile(r"\d+x")
_TRUE, _FALSE = ("", "true", "yes", "1"), ("false", "no", "0")


class Pasted(NamedTuple):
    """The words behind `gpuplan` of the command that answers, and what only the user can add to it."""

    said: tuple[str, ...]
    """Those that the command says itself."""
    why: str
    unread: tuple[str, ...] = ()
    """Arguments of a script of training that no option here is known for."""
    ranks: int = 1
    """Accelerators that the command takes."""
    adapters: int = 0
    """The rank of adapters, of which a command that trains them says none; 0: it trains none, or says it."""
    each: int = 0
    """Sequences of one accelerator in a step, where a command says its micro-batch and how many are accumulated; 0: it does not."""
    accumulated: str = ""
    """The argument that says how many are."""

    @property
    def words(self) -> tuple[str, ...]:
        """All of them, with what follows from what is said."""
        return (*self.said, *self._implied(self.ranks, ()))

    def _implied(self, ranks: int, given: Collection[str]) -> Iterator[str]:
        """What follows on so many accelerators, but for the options that are given."""
        for name, value in (("--global-batch", self.each * ranks), ("--lora", self.adapters)):
            if value and name not in given:
                yield from (name, str(value))

    def on(self, place: str, given: Collection[str] = ()) -> Pasted:
        """The same on another machine beside given options: with as many of it as the command says, where it is not counted.

        Accumulated sequences are those of all its accelerators, unless they are divided by what is given.
        """
        at = self.said.index("--on") + 1
        counted = _COUNTED.match(self.said[at])
        there = place if counted is None or is_counted(place) or ":" in place else f"{counted[0]}{place}"
        divided = self.each and not _DIVIDING.isdisjoint(given)
        one = self._replace(each=0, unread=(*self.unread, self.accumulated)) if divided else self
        ranks = _count(there, self.ranks) if one.each and "--global-batch" not in given else self.ranks
        implied = one._implied(ranks, given)
        return one._replace(said=(*self.said[:at], there, *self.said[at + 1 :], *implied), each=0, adapters=0)


def _count(place: str, ranks: int) -> int:
    """Accelerators of a place; `ranks` where it is none, which its own answer says."""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.on import parse_target

    try:
        return parse_target(place, Catalog.open()).count
    except GpuplanError:
        return ranks


def answering(words: Sequence[str]) -> Sequence[str]:
    """The command that answers a pasted one with options of ours behind it, which is said; the same words where none is pasted.

    Raises:
        UsageError: it is not said what the pasted command runs on, or of which model.
    """
    command = pasted(words[0])
    if command is None:
        return words
    more = [part for word in words[1:] for part in (word.split("=", 1) if word.startswith("--on=") else [word])]
    at = more.index("--on") if "--on" in more[:-1] else None
    rest = more if at is None else [*more[:at], *more[at + 2 :]]
    if at is not None:
        command = command.on(more[at + 1], {word.partition("=")[0] for word in rest})
    if at is None or command.why == SAY_MODEL:
        what = "it is not said what the command runs on" if at is None else "the command does not say its model"
        raise UsageError(Problem("usage.pasted", what, f"such as `gpuplan {shlex.join((*command.words, *rest))}`; {command.why}"))
    print(f"asked as: gpuplan {shlex.join((*command.words, *rest))}", file=sys.stderr)
    if command.unread:
        print(f"note: not read: {', '.join(command.unread)}", file=sys.stderr)
    return (*command.words, *rest)


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
        options, read = _options(flags)
        steps = next((name for name in _ACCUMULATED if flags.get(name, "").isdigit()), "")
        alone = "--micro-batch" in options and not {*_DIVIDING, "--global-batch"} & {*options}
        each = int(options["--micro-batch"][1]) * int(flags[steps]) if steps and alone else 0
        read |= {*_names_of("model"), *_ALL, *_EACH, *_NODES, *((steps,) if each else ())}
        unread = tuple(_told(name, value) for name, value in flags.items() if name not in read)
        return Pasted(
            (*words, *(word for said in options.values() for word in said)), SAY_WHERE if model else SAY_MODEL, unread, ranks,
            _ADAPTERS if "--qlora" in options and "--lora" not in options else 0, each, _told(steps, flags[steps]) if each else "",
        )  # fmt: skip
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


def _told(name: str, value: str) -> str:
    return f"--{name} {value}" if value else f"--{name}"


def _options(flags: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], set[str]]:
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
    return made, read


def _whole(flags: dict[str, str], names: Sequence[str]) -> int:
    """The first of some arguments that is a whole number; 0 where none is."""
    return next((int(flags[name]) for name in names if flags.get(name, "").isdigit()), 0)


def _counted(count: int, name: str) -> str:
    return f"{count}x{name}" if count > 1 else name
