"""Which option is meant by a word that other tools have for it: `--gpus 8`, `--max-model-len`, `--per-device-batch-size`?"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from gpuplan.plan.ask import ASKS
from gpuplan.plan.ask_goal import GOALS
from gpuplan.plan.option import by_key
from gpuplan.schema import Limits, Schema, read
from gpuplan.strict_yaml import load_yaml

TABLE = Path(__file__).parent / "other_words.yaml"


class OtherWords(Schema):
    """What others call an option, or what no option is needed for."""

    means: str = ""
    """The option, by its name in Python; "" where nothing that is told depends on it."""
    words: Annotated[tuple[str, ...], Limits(1)]
    """As they are typed, without the dashes in front and with `-` for `_`."""
    say: str = ""
    """What to type, where the option's name does not say it; `{task}` stands for the command."""
    command: str = ""
    """The only command that this holds for, such as `prices list`; "": all."""


class Table(Schema):
    """All that is known of other tools' words."""

    format: Literal[1]
    entries: Annotated[tuple[OtherWords, ...], Limits(1)]


@cache
def table() -> tuple[OtherWords, ...]:
    """The entries that are shipped; of several with one word the first whose option is known counts.

    Raises:
        SpecError: the file is not valid.
    """
    data, lines = load_yaml(TABLE)
    return read(Table, data, lines, "words", value_code="words.bad-value").entries


def meant(word: str, known: Collection[str], task: str) -> str:
    """A hint for a word that no option of a command has: the option that is meant by it, here or of which other command; "".

    `known` are the options of the command by their names in Python, `task` is the command.

    >>> meant("per_device_train_batch_size", ["micro_batch"], "train"), meant("--max-num-seqs", ["max_sequences"], "serve")
    ('here it is `--micro-batch`', 'here it is `--max-sequences`')
    >>> meant("lora-rank", ["model"], "fit"), meant("colour", ["model"], "fit")
    ('`--lora` is an option of `gpuplan train`, which says whether it fits, too', '')
    """
    asked = word.lower().lstrip("-").replace("_", "-")
    alike = [one for one in table() if asked in one.words and one.command in ("", task)]
    for entry in alike:
        if entry.means in known or not entry.means:
            return entry.say.replace("{task}", task) or _here(entry.means)
    key = asked.replace("-", "_")
    others = [(key, ""), *((one.means, one.means) for one in alike)]
    by_others = next((hint for option, named in others if (hint := elsewhere(option, task, named))), "")
    return by_others or next((_here(option) for option in _of_engines(asked) if option in known), "")


def _here(option: str) -> str:
    return f"here it is `--{option.replace('_', '-')}`"


def _of_engines(asked: str) -> Iterator[str]:
    """What the argument of a serving engine sets, by every engine that has it."""
    from gpuplan.specs.arguments import EngineArguments
    from gpuplan.specs.catalog import Catalog

    shipped = Catalog.open()
    for ident in shipped.paths("arguments"):
        for name, flag in shipped.load(EngineArguments, ident).flags().items():
            if name.lstrip("-").replace("_", "-") == asked and flag.sets:
                yield flag.sets


_INSTEAD = {
    "users": "; here say how often they ask, such as `--rate 200/min` for 200 who ask once a minute, or `--concurrency 20` for"
    " 20 answers at all times",
    "requests_per_user": "; here `--rate` says how many requests come in all",
}
"""What a question about one machine has in place of what a plan asks."""


def elsewhere(key: str, task: str, named: str = "") -> str:
    """A hint that another task, or else a plan, has the option, by its name in Python; "" where none has.

    `named`: the option, where the hint is to say it.
    """
    tasks = [other for other, ask in ASKS.items() if key in by_key(ask) and other != task]
    also = ", which says whether it fits, too" if tasks and task == "fit" else ""
    tasks = tasks or [goal for goal, ask in GOALS.items() if key in by_key(ask) and goal != task]
    if not tasks:
        return ""
    *first, last = (f"`gpuplan {one}`" for one in tasks)
    also += _INSTEAD.get(key, "") if task == "serve" else ""
    what = f"`--{named.replace('_', '-')}`" if named else "it"
    return f"{what} is an option of {' and '.join([', '.join(first), last] if first else [last])}{also}"
