"""Which tools does an assistant get, and what may each be asked? Their schemas are those of the questions' options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.plan.ask import ASKS
from gpuplan.plan.ask_goal import GOALS
from gpuplan.plan.other_words import meant
from gpuplan.plan.signature import properties, schema

LEFT_OUT = ("specs", "trace", "command", "engine_args", "emit", "front")
"""Options that read the user's files, may name some, or give no figures: no assistant has them."""
MODELS = ("model", "draft", "reward_model", "critic")
"""Options that name models, which on the command line may be files."""
OWN = ("goal", "task", "question", "by", "words", "kind", "region", "limit", "term", "depth")
"""Arguments that are no options of a question."""
MOST_COMPARED = 12
"""The most questions of one comparison."""
MOST_PRICES = 100
"""The most prices of one answer."""
DERIVATION = ("terms", "formulas", "sources")
"""What the published document of an estimate holds beside the figures: the tool `explain` shows it."""

ABOUT = {
    "fit": "Does a model fit in the memory of these accelerators, with how much room, and what would change the answer?",
    "train": "How long does a step or a whole training run take, at which utilisation, cost and energy, in how much memory?",
    "serve": "How fast is serving a model, what does it cost, and how many requests and users does the machine carry?",
    "plan": "From a goal (deadline, budget, users, promised times) to the machines, counts and plans that meet it best.",
    "compare": "One question with several models, machines, engines or formats: which is best, by how much, and why?",
    "prices": "Which prices of cloud instances are on record, by hour and by accelerator, where, since when and by which source?",
    "explain": "How is a figure of an answer made, down to datasheets and papers? Or what does one formula say?",
}
"""The tools, and the question that each answers."""
INSTRUCTIONS = """gpuplan estimates memory, speed and cost of training and serving on GPUs and TPUs, from sourced specs. Each figure
has `value`, `low` and `high` in base units (B, s, FLOP, USD). Repeat the range and the notes; where `assumed` is true say so. Text
values take units (`80 GiB`, `30ms`, `15T`, `8k`). `on` is such as `8xh100`, `2xdgx-h100`, `aws:p5.48xlarge`, `tpu-v5p-256`. Leave
out what the user did not say: gpuplan chooses it, and says so under `chosen`. `fits: false` is an answer. An unknown is an error
that names it: do not guess in its place."""


def tools() -> dict[str, dict[str, Any]]:
    """The schema of what each tool may be asked."""
    asked = {task: _without(schema(task)) for task in ASKS}
    question = {"type": "object", "description": "As the tool of that task takes it"}
    task = {"enum": list(ASKS), "description": "Which question is asked"}
    goals: dict[str, Any] = {}
    for name, ask in GOALS.items():
        for key, one in properties(ask).items():
            if key not in LEFT_OUT:
                goals.setdefault(key, {**_short(one), "description": f"{one['description']} ({name.partition(' ')[2]})"})
    fleet = "For `carries`: the machine, as the tools of the tasks take it. For the others: these offers alone"
    goals["on"] = {"type": "string", "minLength": 1, "description": fleet}
    return asked | {
        "plan": _object(
            {
                "goal": {"enum": [name.partition(" ")[2] for name in GOALS], "description": "What is planned"},
                "model": {"type": "string", "minLength": 1, "description": "The model, as the tools of the tasks take it"},
                **goals,
                "question": {"type": "object", "description": "More options of the tool `train`, or for serve and carries `serve`"},
            },
            "goal", "model",
        ),
        "compare": _object(
            {
                "task": task,
                "question": {**question, "description": f"{question['description']}; lists ask each value, {MOST_COMPARED} in all"},
                "by": {"type": "string", "description": "The figure that decides, such as `cost_usd`; the fastest if left out"},
            },
            "task", "question",
        ),
        "prices": _object(
            {
                "words": {"type": "array", "items": {"type": "string"}, "description": "Instances, accelerators, providers"},
                "kind": {"type": "string", "description": "Only these terms, such as `spot` or `reserved_1yr`"},
                "region": {"type": "string", "description": "Only this region of the provider"},
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST_PRICES, "description": "The cheapest so many; 20"},
            },
            "words",
        ),
        "explain": _object(
            {
                "term": {"type": "string", "description": "A figure or term of the answer, or a formula where no task is named"},
                "task": task,
                "question": question,
                "depth": {"type": "integer", "minimum": 1, "maximum": 20, "description": "How many levels down; 4"},
            },
            "term",
        ),
    }  # fmt: skip


def answer_schema() -> dict[str, Any]:
    """The schema of what `fit`, `train` and `serve` answer: the published one, whose derivation `explain` shows instead."""
    from gpuplan.render.json import schema as published

    made = published()
    kept = {key: one for key, one in made["properties"].items() if key not in DERIVATION}
    return {
        "type": "object",
        "properties": kept,
        "required": [key for key in made["required"] if key in kept],
        "$defs": {name: one for name, one in made["$defs"].items() if name not in ("TermJson", "FormulaJson", "SourceJson")},
        "additionalProperties": False,
    }


def check(name: str, given: Mapping[str, Any]) -> None:
    """See that a tool exists, has all that it is asked, and is asked for no file; values are read by the question itself.

    Raises:
        UsageError: all that is wrong.
    """
    known = tools()
    if name not in known:
        raise UsageError(Problem("tool.unknown", f"no tool `{name}`", f"there are {', '.join(known)}"))
    one = known[name]
    problems = [_not_taken(name, key, one["properties"]) for key in given if key not in one["properties"]]
    problems += [Problem("tool.missing", f"{name}: `{key}` is missing") for key in one.get("required", ()) if key not in given]
    own = {key: kind for key, kind in one["properties"].items() if key in OWN and name not in ASKS}
    problems += [Problem("tool.value", f"{name}: `{key}` {wrong}") for key in own if (wrong := _wrong(given.get(key), own[key]))]
    inner = given.get("question", {})
    if not isinstance(inner, Mapping):
        inner = {}
    problems += [_not_taken(name, key, {}) for key in inner if key in LEFT_OUT]
    named = [(key, one) for values in (given, inner) for key in MODELS if key in values for one in _each(values[key], name)]
    problems += [_file(key, value) for key, value in named if not isinstance(value, str) or is_path(value)]
    if problems:
        raise UsageError(*problems)


def is_path(name: str) -> bool:
    r"""Whether a text could lead to a file: no name of a model does.

    >>> [is_path(one) for one in ("llama-3.1-8b", "Qwen/Qwen3-32B", "llama3.3:70b", "./x", "a/../b", "~/x", "C:\\x", "m.gguf")]
    [False, False, False, True, True, True, True, True]
    """
    ends = (".json", ".yaml", ".yml", ".gguf", ".safetensors", "/")
    starts = name.startswith(("/", ".", "~")) or re.match(r"[A-Za-z]:[\\/]", name) is not None
    return starts or "\\" in name or ".." in name.split("/") or name.lower().endswith(ends) or not name.isprintable()


def _wrong(value: object, kind: Mapping[str, Any]) -> str:
    """What is wrong with the value of an argument that is no option of a question; "" for what is right, or not given."""
    if value is None:
        return ""
    if "enum" in kind:
        return "" if value in kind["enum"] else f"is {value!r}, and must be one of {', '.join(kind['enum'])}"
    if kind["type"] == "integer":
        least, most = kind["minimum"], kind["maximum"]
        right = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        return "" if right else f"is {value!r}, and must be a whole number from {least} to {most}"
    if kind["type"] == "array":
        right = isinstance(value, list) and all(isinstance(one, str) for one in value)
        return "" if right else f"is {value!r}, and must be a list of texts"
    wanted = {"string": str, "object": Mapping}[kind["type"]]
    return "" if isinstance(value, wanted) else f"is {value!r}, and must be {'a text' if wanted is str else 'an object'}"


def _each(value: object, tool: str) -> list[object]:
    """The values of an option, of which a comparison may have several."""
    return list(value) if tool == "compare" and isinstance(value, (list, tuple)) else [value]


def _file(key: str, value: object) -> Problem:
    return Problem(
        "tool.path", f"`{key}`: {value!r} is no name of a model", "assistants read no files: name a card or a repository"
    )


def _not_taken(tool: str, key: str, known: Mapping[str, Any]) -> Problem:
    if key in LEFT_OUT:
        return Problem("tool.left-out", f"{tool}: `{key}` is for the command line alone", "assistants read and write no files")
    return Problem("tool.option", f"{tool}: no option `{key}`", meant(key, known, tool) or did_you_mean(key, known))


_SHORTER = {
    "model": "A card, a Hugging Face id or an Ollama name",
    "on": "Accelerators, systems, cloud instances, a TPU slice or a cluster; behind an `@` the network or the cluster that joins"
    " them: `4xdgx-a100@ib-hdr`, `2048xh100@meta-24k-roce`; `local` is what this machine has, as calibrated",
}
"""What is said of an option in fewer words than its help has: assistants name no files, and `INSTRUCTIONS` has more examples."""


def _without(made: dict[str, Any]) -> dict[str, Any]:
    """The schema of a question without what assistants do not have."""
    kept = {key: _short(one) for key, one in made["properties"].items() if key not in LEFT_OUT}
    for key, about in _SHORTER.items():
        kept[key] = kept[key] | {"description": about}
    first: dict[tuple[str, ...], str] = {}
    for key, one in kept.items():
        words = tuple(one.get("items", {}).get("enum", ()))
        if words:  # They stand there: no examples are wanted.
            one["description"] = re.sub(r", such as [^;]+", "", one["description"])
        if words and (before := first.setdefault(words, key)) != key:
            kept[key] = one | {"items": {"type": "string"}, "description": f"{one['description']} (the words of `{before}`)"}
    return {"type": "object", "properties": kept, "required": ["model", "on"], "additionalProperties": False}


def _short(one: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an option in fewer words: a client sends all of them with each question. The option reads its limits.

    >>> _short({"description": "Tokens", "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "minLength": 1}]})
    {'description': 'Tokens', 'type': ['integer', 'string']}
    """
    kept = {key: value for key, value in one.items() if key not in ("anyOf", "minLength")}
    return kept | ({"type": [kind["type"] for kind in one["anyOf"]]} if "anyOf" in one else {})


def _object(made: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": made, "required": list(required), "additionalProperties": False}
