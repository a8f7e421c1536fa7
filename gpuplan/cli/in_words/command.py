"""Which command is meant by a question in plain words, and does it say all that was asked?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from gpuplan.cli.in_words.amounts import amounts
from gpuplan.cli.in_words.fillers import FILLER, makers, unheard
from gpuplan.cli.in_words.losses import by_loss, without_loss
from gpuplan.cli.in_words.money import EITHER, of_money, paid_once, terms_of
from gpuplan.cli.in_words.names import Named, is_family, is_pictures, named, only_reads
from gpuplan.cli.in_words.pasted import pasted
from gpuplan.cli.in_words.spoken import plainer
from gpuplan.cli.in_words.unnamed import memory_alone, unnamed, without_host
from gpuplan.errors import GpuplanError

_TRAIN = re.compile(r"\b(?:train|pre-?train|fine[- ]?tun|q?lora|sft\b|full fine|(?:dpo|kto|grpo|ppo)\b)")
_SERVE = re.compile(
    r"\b(?:serv|host|deploy|infer|(?:images?|videos?|clips?) (?:per|an?|each) (?:hour|minute|day)|"
    r"(?:per|each|for an?|generate an?) (?:image|picture|video|clip)\b|t/s\b|tps\b|"
    r"(?:costs?|prices?|usd|dollars|energy|electricity)\b[a-z ]*(?:per|an?|each|/) ?tok|"
    r"fast|slow|speed|tok(?:en)?s?\s*(?:/|per|an?|each)\s*s|latency|concurren|throughput|generat)"
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
_LONGEST = re.compile(r"\b(?:max(?:imum)?|longest|largest|biggest)\b[a-z ]{0,12}\bcontext\b")
"""Questions of how long a context may be: the verdict of one length does not answer them."""
_ADAPTED = re.compile(r"\b(?:fine[- ]?tun|q?lora|peft|sft\b|adapters?)")
"""Words of training that most do by adapters: the largest models that people fine-tune at home fit in no other way."""
_FULL = re.compile(r"\bfull(?:y|[- ]parameter|[- ]weight)?[- ]*(?:fine[- ]?tun|ft\b|sft)|\ball (?:the )?weights")
_QLORA = re.compile(r"\bqlora")
_PRICED = re.compile(r"\b(?:pric(?:e|es|ing)|rent|rental|hourly|per hour|an hour|cheapest|cheap|costs?)\b")
_ABOUT = re.compile(
    r"\b(?:v?ram|memory|bandwidth|specs?|specifications?|datasheet|tdp|watts?|wattage|power|tflops|teraflops|flops|cores|nvlink)\b"
)
"""Words about a part itself, where no model is named: what its datasheet says."""
_MEMORY_ALONE = re.compile(r"^(?!.*\b(?:how many|which|what gpu|best)\b).*\b(?:v?ram|memory)\b")
"""Questions of how much memory something takes, and not of what to run it on."""
_BOUGHT = re.compile(r"\b(?:buy|buying|purchase|own|owning)\b")
_RUNS = re.compile(r"\b(?:run|runs|models?|llms?|llamas?|need|fits?|load|handle|enough|train|serve|host)\b")
_ANSWERED = {
    "fit": ("kv", "cache", "kvcache", "length"),
    "serve": ("kv", "cache", "kvcache", "length", "concurrency", "offload", "offloading", "energy", "electricity"),
    "train": ("sequence", "length", "energy", "electricity"),
    "specs show": ("draw", "draws", "consume", "consumes", "consumption", "use", "uses"),
    "prices list": (
        "spot",
        "preemptible",
        "interruptible",
        "hour",
        "hourly",
        "gpu-hour",
        "month",
        "monthly",
        "provider",
        "providers",
        "clouds",
    ),
    "plan serve": ("month", "monthly"),
    "plan carries": ("length", "window", "kv", "cache", "concurrent", "simultaneous", "parallel", "concurrently"),
}
"""Words that say what a command answers anyway."""
_OF_PICTURES = ("image", "images", "picture", "pictures", "video", "videos", "clip", "clips", "hour", "workflow", "comfyui", "dev")
_WHICH = re.compile(r"\b(?:which|what|best|largest|biggest)\b.*\bmodels?\b")
_READS = re.compile(r"\b(?:embedd?ings?|embedders?|re-?rank(?:er|ers|ing)?|encoders?|classifiers?)\b")
"""What is said of models that make no tokens, where the question is which of them run."""
_LAYERS = re.compile(r"\blayers\b|\bngl\b|\boffload")
_OF = {
    "fit": ("context", "batch", "weights", "kv_cache"),
    "serve": ("prompt", "output", "concurrency", "rate", "context", "batch", "weights", "host_memory", "kv_cache"),
    "train": ("tokens", "samples", "epochs", "lora"),
    "plan serve": ("p", "rate", "users", "concurrency", "ttft", "tpot", "prompt", "output", "context", "budget", "weights"),
    "plan carries": ("p", "ttft", "tpot", "prompt", "output", "context", "weights"),
    "plan train": ("tokens", "samples", "epochs", "deadline", "budget"),
    "plan finetune": ("tokens", "samples", "epochs", "deadline", "budget", "lora"),
    "plan rl": ("deadline", "budget"),
    "compare serve": ("prompt", "output", "concurrency", "rate", "context", "batch", "weights"),
    "compare train": ("tokens", "samples", "epochs", "lora"),
    "compare": (),
    "what-runs": ("context", "host_memory"),
    "specs show": (),
    "prices list": (),
}
"""The amounts that each command takes as they are said."""
_BY_MEMORY = ("fit", "what-runs")
"""Commands whose verdict hangs on the memory alone."""
_SERVED = ("host_memory", "users", "rate", "concurrency", "ttft", "tpot", "prompt", "output")
_LENGTHS = frozenset(("tokens", "samples", "epochs"))
"""Amounts that say how long a run of training is."""
_LOADS = frozenset(("users", "rate", "concurrency"))
_OTHERWISE = {"users": "concurrency", "weights": "precision", "context": "seq_len"}
"""What an amount is called where a command has no option of its name."""
_USUAL_RANK = "16"
_FOR_READERS = ("l4", "a10g", "h100")
"""Whose rates are compared where a question about an embedder or reranker names no machine."""
_EXAMPLE = "llama-3.1-8b"


class Meant(NamedTuple):
    """The words behind `gpuplan` of the command that is meant, and whether they say all that was asked.

    `why`: what they leave open or take for granted; `unheard`: the words of the question that were not understood.
    """

    words: tuple[str, ...]
    whole: bool
    why: str = ""
    unheard: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"gpuplan {shlex.join(self.words)}" if self.words else ""

    @property
    def hint(self) -> str:
        """The command with what it leaves out or takes for granted; "" where there is nothing to say."""
        said = f"such as `{self}`" if self.words else ""
        left = f"not understood: {', '.join(f'`{word}`' for word in self.unheard)}" if self.words and self.unheard else ""
        return "; ".join(filter(None, (said, self.why, left)))


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

    >>> meant("how many H100s to serve llama 70b to 200 users?").words
    ('plan', 'serve', 'llama-3.3-70b', '--on', 'h100', '--users', '200')
    >>> meant("does llama 3.1 8b fit on a t4 with a purple fan").unheard
    ('purple', 'fan')
    >>> meant("is 24gb vram enough for qwen3 32b").words
    ('fit', 'qwen3-32b', '--on', 'rtx-4090', '--weights', 'q4_k_m')
    """
    with suppress(GpuplanError):
        if (command := pasted(question)) is not None:
            return Meant(command.words, whole=False, why=command.why)
        text = plainer(question)
        said, rest = amounts(text)
        given, once = paid_once(text, said)
        names = named(without_loss(rest))
        size, names = memory_alone(_of_family(text, names))
        names, beside = without_host(text, given, names)
        money = of_money(text, once)
        if not names.model and not names.places:
            return Meant((), whole=False, why=money or unnamed(names.rest))
        made = _command(text, given, names, size)
        return made._replace(whole=made.whole and not money, why="; ".join(filter(None, (beside, money, made.why))))
    return Meant((), whole=False)


def _of_family(text: str, names: Named) -> Named:
    """The names where the model is a family of which the question asks which (`which qwen3 model fits`)."""
    asked = names.model and not re.search(r"\d[bm]\b|-", names.model) and _WHICH.search(text) and is_family(names.model)
    return names._replace(model="", rest=(*names.rest, names.model)) if asked else names


def _its_own(places: Sequence[str]) -> bool:
    """Whether memory beside a machine is what its accelerator works in, as in a Mac or processors; errors as `parse_target`."""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.on import parse_target

    if len(places) != 1:
        return False
    target = parse_target(places[0], Catalog.open())
    return target.host_link is None or target.accelerator.memory.kept is not None


def _command(text: str, given: Mapping[str, str], names: Named, size: int) -> Meant:
    """The command, where `size` is the memory in GB that stands for a card; 0: none does."""
    training = bool(_TRAIN.search(text)) or (
        bool(_LENGTHS & set(given)) and not _SERVE.search(text) and not set(_SERVED) & set(given)
    )
    training = training or bool(names.engine and not is_pictures(names.model) and _only_trains(names.engine))
    adapted = training and bool(_ADAPTED.search(text)) and not _FULL.search(text)
    memory = given.get("host_memory")
    own = memory is not None and _its_own(names.places)
    if own:
        given = {name: value for name, value in given.items() if name != "host_memory"}
    command, loss, odd = by_loss(_kind(text, given, names, training), text)
    if command in ("plan serve", "plan carries") and only_reads(names.model):
        # Fleets are compared for models that make tokens; of others a machine says how many replicas keep what comes.
        command = "serve" if len(names.places) == 1 else "compare serve"
        names = names if names.places else names._replace(places=_FOR_READERS)
    options, left = _options(command, given, training=training, adapted=adapted)
    names, options, narrow = _held(command, names, options)
    family, words = _family(command, names)
    of = names.model or (_EXAMPLE if command == "compare serve" else "")
    made = [*command.split(), *([of] if of else []), *family, *_places(command, names)]
    if names.engine:
        made += ["--engine", names.engine]
        left = left or command in ("compare", "specs show", "prices list")
    if names.cloud and command.startswith("plan ") and command != "plan carries":
        made += ["--cloud", names.cloud]
    elif names.cloud and command == "prices list":
        made.append(names.cloud)
    elif names.cloud:
        words.append(names.cloud)
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
    if command == "what-runs" and _READS.search(text):
        made += ["--kind", "reader"]
    for key, value in options.items():
        made += [f"--{key.replace('_', '-')}", value]
    if adapted and four_bits:
        made.append("--qlora")
    loss += terms_of(text) if command == "prices list" else []
    more, why = _left_open(command, text, given, names, size)
    pictures = bool(names.model) and is_pictures(names.model)
    not_heard = tuple(
        word
        for word in unheard([*words, *odd], beside=makers(() if size else names.places))
        if not _heard(word, command, text, pictures=pictures)
    )
    taken = command == "compare serve" and not names.model  # An example of a model compares parts as well as another.
    told = why and not taken and not (size and command in _BY_MEMORY)
    whole = not left and not not_heard and not more and not told
    why = why or (unnamed(not_heard) if not_heard else "")
    return Meant((*made, *loss, *more), whole, "; ".join(filter(None, (narrow, why))), not_heard)


def _held(command: str, names: Named, options: dict[str, str]) -> tuple[Named, dict[str, str], str]:
    """Places and options with which a model is held where the question leaves open how, and what is to be said of it."""
    if not _writes(names.model) or command not in ("compare serve", "fit", "serve"):
        return names, options, ""
    from gpuplan.cli.in_words.enough import OF_ONE_USER, enough, in_four_bits

    if command == "compare serve":
        places, options = enough(names.model, names.places, options) if len(names.places) > 1 else (names.places, options)
        return names._replace(places=tuple(places)), options, ""
    if names.engine or len(names.places) != 1 or not in_four_bits(names.model, names.places[0], options):
        return names, options, ""
    return (
        names,
        {**options, "weights": OF_ONE_USER},
        f"in {OF_ONE_USER}, as one user mostly runs it: as published it does not fit",
    )


def _writes(model: str) -> bool:
    """Whether a model is one of words, which writes them."""
    return bool(model) and not is_pictures(model) and not only_reads(model)


def _only_trains(engine: str) -> bool:
    """Whether an engine trains and serves nothing, so that who names it trains."""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.engine import Engine

    try:
        return Catalog.open().load(Engine, engine).serving is None
    except GpuplanError:
        return False


def _options(command: str, given: Mapping[str, str], *, training: bool, adapted: bool) -> tuple[dict[str, str], bool]:
    """The amounts that a command takes, as its options, and whether some were said that it does not take."""
    takes, options, left = _OF[command], dict[str, str](), False
    for key, value in given.items():
        name = key if key in takes else _OTHERWISE.get(key, "")
        if training and key == "weights" and not value.startswith(("fp", "bf")):
            left = left or not adapted
        elif key == "weights" and command in ("specs show", "compare"):
            continue  # A datasheet has the rates of all types.
        elif key == "p" and command == "serve" and value == "99" and {"rate", "concurrency"} & set(given):
            continue  # Which is what it tells.
        elif key in takes or (training and name in ("precision", "seq_len")) or name in takes:
            options.setdefault(name, value)
        else:
            left = True
    return options, left


def _left_open(command: str, text: str, given: Mapping[str, str], names: Named, size: int) -> tuple[tuple[str, ...], str]:
    """What an example adds that the question leaves open, and what is said of that or taken for granted."""
    if command == "compare serve" and not names.model:
        return (), f"no model is said: {_EXAMPLE} is taken, of which each serves as many users as it can; name yours"
    if command == "fit" and names.places and _LAYERS.search(text) and "host_memory" not in given:
        return ("--host-memory", "64GB"), "how many layers a card holds is said with the memory beside it"
    if size:
        same = "what fits is the same on all of them, how fast it runs is not" if command in _BY_MEMORY else "say which of them"
        return (), f"{size} GB is the memory of several cards, such as `{names.places[0]}`: {same}"
    return (), ""


def _heard(word: str, command: str, text: str, *, pictures: bool) -> bool:
    """Whether a word says what the command answers anyway: the price of a list, the cache of a fit."""
    of = {"specs show": _ABOUT, "prices list": _PRICED, "plan carries": _CARRIES, "what-runs": _READS}.get(command)
    if pictures and word in _OF_PICTURES and command in ("fit", "serve", "compare serve"):
        return True
    return word in _ANSWERED.get(command, ()) or (of is not None and any(word in found[0].split() for found in of.finditer(text)))


def _family(command: str, names: Named) -> tuple[list[str], list[str]]:
    """The words by which a list of models is narrowed (`qwen3`), and the others that a question has."""
    if command != "what-runs":
        return [], list(names.rest)
    family = [word for word in names.rest if word not in FILLER and is_family(word)]
    return family, [word for word in names.rest if word not in family]


def _kind(text: str, given: Mapping[str, str], names: Named, training: bool) -> str:
    """The command that answers: a plan where it is open on what, or how many of it."""
    several = len(names.places) > 1
    counted = any(re.match(r"\d+x", place) for place in names.places)
    if not names.model:
        if several:
            return "compare serve" if counted else "compare"
        if _PRICED.search(text) and not _RUNS.search(text) and not _BOUGHT.search(text):
            return "prices list"
        return "specs show" if _ABOUT.search(text) and not _RUNS.search(text) and not _READS.search(text) else "what-runs"
    if "," in given.get("weights", "") or "," in names.engine:
        return "compare train" if training else "compare serve"
    longest = _LONGEST.search(text) is not None and "context" not in given
    if len(names.places) == 1 and not training and (_CARRIES.search(text) or longest):
        return "plan carries"
    served = bool(_SERVE.search(text) or EITHER.search(text)) or bool(set(_SERVED) & set(given))
    promised = bool({"ttft", "tpot", "budget", "deadline"} & set(given))
    planned = (bool(_PLAN.search(text)) or promised or not names.places) and not (
        names.places and (counted or several) and not promised
    )
    if several and not planned:
        return "compare train" if training else "compare serve"
    if planned and (training or served or _PLAN.search(text)):
        if training and not (_MEMORY_ALONE.search(text) and not names.places and not promised and not _PRICED.search(text)):
            return "plan finetune" if _ADAPTED.search(text) or _FULL.search(text) else "plan train"
        if not training and (served or not re.search(r"\b(?:v?ram|memory)\b", text)):
            return "plan serve"
    return "train" if training else "serve" if served else "fit"


def _priced(place: str) -> list[str]:
    """A place as a list of prices takes it: a family of instances behind its provider (`aws-p5`) is two words."""
    from gpuplan.specs.catalog import Catalog

    seller, _, family = place.partition("-")
    return [seller, family] if family and seller in Catalog.open().paths("prices") else [place]


def _places(command: str, names: Named) -> list[str]:
    if command == "specs show":
        return [re.sub(r"^\d+x", "", place) for place in names.places]
    if command == "prices list":
        return [word for place in names.places for word in _priced(re.sub(r"^\d+x", "", place))]
    if command == "compare":
        return list(names.places)
    if names.places:
        return ["--on", ",".join(names.places)]
    return [] if command.startswith("plan") else ["--on", "h100"]
