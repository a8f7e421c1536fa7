"""Which command is meant by a question in plain words, and does it say all that was asked?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gpuplan.cli.in_words.amounts import amounts
from gpuplan.cli.in_words.names import Named, named
from gpuplan.errors import GpuplanError

_TRAIN = re.compile(r"\b(?:train|pre-?train|fine-?tun|q?lora|sft\b|full fine)")
_SERVE = re.compile(
    r"\b(?:serv|host|deploy|infer|fast|slow|speed|tok(?:en)?s?\s*(?:/|per|an?|each)\s*s|latency|concurren|throughput|generat)"
)
_PLAN = re.compile(
    r"\b(?:how many (?:gpu|card|accelerator|machine|node|chip|[a-z]*\d)|"
    r"(?:which|what|best|cheapest|right|minimum|min|minimal) (?:kind of )?"
    r"(?:gpu|card|hardware|machine|accelerator|instance|server|cloud|setup|way|option)|cheapest|should i (?:buy|rent|get|use)|"
    r"do (?:i|we) need|(?:would|will) (?:i|we) need|(?:how much|what)\b.*\bcosts?\b|cost (?:to|of))"
)
_CARRIES = re.compile(
    r"\bhow (?:many|much) (?:concurrent |simultaneous |parallel )?(?:users?|people|requests?|traffic|load|customers)\b"
)
_ADAPTED = re.compile(r"\b(?:fine-?tun|q?lora|peft|sft\b|adapters?)")
"""Words of training that most do by adapters: the largest models that people fine-tune at home fit in no other way."""
_FULL = re.compile(r"\bfull(?:y|[- ]parameter|[- ]weight)?[- ]*(?:fine-?tun|ft\b|sft)|\ball (?:the )?weights")
_QLORA = re.compile(r"\bqlora")
_ASKING = """
estimate locally local context maximum sized sizing price priced tell show capacity plan planning setup rig workstation enough
a about accelerator accelerators adapter adapters all am an and any are as at batch batches be best better between big
billion buy by can card cards chat cheap cheaper cheapest chip chips cloud compare comparison cost costs could deploy do
does each enough eventually fast faster fastest fine fine-tune fine-tuned fine-tuning finetune finetuning first fit fits for
from full fully generate generation get give given go good gpu gpus had hardware has have hello help hi home host hosting
how i if in infer inference instance instances instruct is it its just large larger latency latest least less like llm llms
long lora m machine machines many max me memory min minimal minimum model models most much my need needed needs new node
nodes now of old on one only or our out over parameter parameters params people per please pretrain pretraining qlora ram re
rent request requests run running runs s second seconds serve served server servers serving setup sft should single size
slow small so some speed t take takes tell than that the their them there they this throughput time to tok/s token tokens
tokens/s train trained training tune tuning under up us use user users using ve version versus via vram vs want way we
weight weights what whats when which will with within work works would you your
"""
_FILLER = frozenset(_ASKING.split())
"""Words that say nothing of a question but how it is asked."""
_OF = {
    "fit": ("context", "batch", "weights"),
    "serve": ("prompt", "output", "concurrency", "rate", "context", "batch", "weights", "host_memory"),
    "train": ("tokens", "lora"),
    "plan serve": ("rate", "users", "concurrency", "ttft", "tpot", "prompt", "output", "context", "budget", "weights"),
    "plan carries": ("ttft", "tpot", "prompt", "output", "context", "weights"),
    "plan train": ("tokens", "deadline", "budget"),
    "plan finetune": ("tokens", "deadline", "budget", "lora"),
    "compare serve": ("prompt", "output", "concurrency", "rate", "context", "batch", "weights"),
    "compare train": ("tokens", "lora"),
    "compare": (),
    "what-runs": ("context", "host_memory"),
}
"""The amounts that each command takes as they are said."""
_SERVED = ("host_memory", "users", "rate", "concurrency", "ttft", "tpot", "prompt", "output")
_LOADS = frozenset(("users", "rate", "concurrency"))
_OTHERWISE = {"users": "concurrency", "weights": "precision", "context": "seq_len"}
"""What an amount is called where a command has no option of its name."""
_USUAL_RANK = "16"


class Meant(NamedTuple):
    """The words behind `gpuplan` of the command that is meant, and whether they say all that was asked."""

    words: tuple[str, ...]
    whole: bool

    def __str__(self) -> str:
        return f"gpuplan {shlex.join(self.words)}" if self.words else ""


def command_meant(words: Sequence[str]) -> str:
    """The command that a question in plain words is probably about; "" where it names neither a model nor a machine.

    >>> command_meant(["Does llama 3 70B fit on my 4090?"]), command_meant(["how fast is qwen3-8b on two rtx 3090s"])
    ('gpuplan fit llama-3-70b --on 4090', 'gpuplan serve qwen3-8b --on 2xrtx-3090')
    >>> command_meant(["llama-3.1-8b"]), command_meant(["what can i run on a rtx 4090"]), command_meant(["hello"])
    ('gpuplan fit llama-3.1-8b --on h100', 'gpuplan what-runs --on rtx-4090', '')
    >>> command_meant(["finetune", "llama-3.1-8b", "--on", "rtx-4090"])
    'gpuplan train llama-3.1-8b --on rtx-4090 --lora 16'
    """
    return str(meant(" ".join(words)))


def meant(question: str) -> Meant:
    """The command of a question.

    >>> meant("how many H100s to serve llama 70b to 200 users?")
    Meant(words=('plan', 'serve', 'llama-3.3-70b', '--on', 'h100', '--users', '200'), whole=True)
    >>> meant("does llama 3.1 8b fit on a t4 with a purple fan").whole
    False
    """
    with suppress(GpuplanError):
        text = question.lower().replace("’", "'")
        given, rest = amounts(text)
        names = named(rest)
        if not names.model and not names.places:
            return Meant((), whole=False)
        return _command(text, given, names)
    return Meant((), whole=False)


def _its_own(places: Sequence[str]) -> bool:
    """Whether memory beside a machine is what its accelerator works in, as in a Mac or processors; errors as `parse_target`."""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.on import parse_target

    if len(places) != 1:
        return False
    target = parse_target(places[0], Catalog.open())
    return target.host_link is None or target.accelerator.memory.kept is not None


def _command(text: str, given: Mapping[str, str], names: Named) -> Meant:
    training = bool(_TRAIN.search(text)) or ("tokens" in given and not _SERVE.search(text) and not set(_SERVED) & set(given))
    adapted = training and bool(_ADAPTED.search(text)) and not _FULL.search(text)
    memory = given.get("host_memory")
    own = memory is not None and _its_own(names.places)
    if own:
        given = {name: value for name, value in given.items() if name != "host_memory"}
    command = _kind(text, given, names, training)
    takes, options, left = _OF[command], dict[str, str](), False
    for key, value in given.items():
        name = key if key in takes else _OTHERWISE.get(key, "")
        if training and key == "weights" and not value.startswith(("fp", "bf")):
            left = left or not adapted
        elif key in takes or (training and name in ("precision", "seq_len")) or name in takes:
            options.setdefault(name, value)
        else:
            left = True
    made = [*command.split(), *([names.model] if names.model else [])]
    made += _places(command, names)
    if names.engine:
        made += ["--engine", names.engine]
        left = left or command in ("compare",)
    if names.cloud and command.startswith("plan ") and command != "plan carries":
        made += ["--cloud", names.cloud]
    elif names.cloud:
        left = True
    if adapted and command != "plan finetune":
        options.setdefault("lora", _USUAL_RANK)
    four_bits = bool(_QLORA.search(text)) or (adapted and given.get("weights") == "int4")
    if adapted and four_bits:
        options.setdefault("lora", _USUAL_RANK)
    if command == "plan serve" and not _LOADS & set(options):
        options["users"] = "1"  # Who says nothing of others asks for oneself.
    if command == "plan finetune" and _FULL.search(text):
        made.append("--full")
    if own and memory is not None:
        made += ["--memory", memory]
    for key, value in options.items():
        made += [f"--{key.replace('_', '-')}", value]
    if adapted and four_bits:
        made.append("--qlora")
    unheard = [word for word in names.rest if word not in _FILLER and word.removesuffix("s") not in _FILLER]
    return Meant(tuple(made), whole=not left and not unheard)


def _kind(text: str, given: Mapping[str, str], names: Named, training: bool) -> str:
    """The command that answers: a plan where it is open on what, or how many of it."""
    if not names.model:
        return "compare" if len(names.places) > 1 else "what-runs"
    if len(names.places) == 1 and not training and _CARRIES.search(text):
        return "plan carries"
    served = bool(_SERVE.search(text)) or bool(set(_SERVED) & set(given))
    counted = any(re.match(r"\d+x|.*\d+x", place) for place in names.places)
    several = len(names.places) > 1
    promised = bool({"ttft", "tpot", "budget", "deadline"} & set(given))
    planned = (bool(_PLAN.search(text)) or promised or not names.places) and not (
        names.places and (counted or several) and not promised
    )
    if several and not planned:
        return "compare train" if training else "compare serve"
    if planned and (training or served or _PLAN.search(text)):
        if training:
            return "plan finetune" if _ADAPTED.search(text) or _FULL.search(text) else "plan train"
        if served or not re.search(r"\b(?:v?ram|memory)\b", text):
            return "plan serve"
    return "train" if training else "serve" if served else "fit"


def _places(command: str, names: Named) -> list[str]:
    if command == "compare":
        return list(names.places)
    if names.places:
        return ["--on", ",".join(names.places)]
    return [] if command.startswith("plan") else ["--on", "h100"]
