"""Every option of the table stands in the help, is read, is refused when it is wrong, is echoed, and is used."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import jsonschema
import numpy as np
import pytest
from typer.main import get_command

import gpuplan
from gpuplan.cli.answer import of_question
from gpuplan.cli.argv import normal
from gpuplan.cli.commands import COMMANDS
from gpuplan.cli.nested_command import parsed_options
from gpuplan.cli.output import Output
from gpuplan.cli.tasks import app_of
from gpuplan.plan.ask import ASKS, TrainAsk
from gpuplan.plan.ask_serving import FitAsk
from gpuplan.plan.common import Common
from gpuplan.plan.option import RUN, Entry, Option, by_key, entries
from gpuplan.plan.read import echo, question, read, said
from gpuplan.plan.remat import RESULTS
from gpuplan.plan.signature import page, schema, typed
from gpuplan.search.ask import estimated
from tests.cli.cli_calls import Call, process
from tests.sweeps import each, thinned

ROOT = Path(__file__).parents[2]
EVERY = [(task, key) for task, ask in ASKS.items() for key in by_key(ask) if key != "model"]
QUESTION = ("llama-3.1-8b", "--on", "8xh100")
UNITS = {"1": 0.05, "s": 900.0, "B": 4e9, "B/s": 4e9, "FLOP": 4e9, "1/s": 0.5, "USD": 300e3, "USD/J": 0.09 / 3.6e6}
TEXTS = {
    "1": "5%",
    "s": "15min",
    "B": "4 GB",
    "B/s": "4 GB/s",
    "FLOP": "4G",
    "1/s": "30/min",
    "USD": "300k",
    "USD/J": "0.09 USD/kWh",
}


def example(one: Entry) -> tuple[str, Any]:
    """A text that an option takes, and the value that it means."""
    if one.kind == "word":
        return one.words[-1], one.words[-1]
    if one.kind == "words":
        return ",".join(one.words[:2]), one.words[:2]
    made: dict[str, tuple[str, Any]] = {
        "price": ("3.60", 0.001),
        "day": ("2026-08-31", "2026-08-31"),
        "product": ("2k*3", 6000.0),
        "pixels": ("1024 X 768", "1024x768"),
        "capacity": ("64GB", 64.0 * 2**30),
        "pins": ("a.b=2 s", {"a.b": 2.0}),
    }
    if one.option.reads in made:
        return made[one.option.reads]
    if one.option.unit:
        value = 4.0 * 2**30 if one.option.reads == "capacity" else UNITS[one.option.unit]
        return TEXTS[one.option.unit], value
    if one.kind == "whole" and one.window[1] < 2000:
        return f"{one.window[1]:g}", int(one.window[1])
    if one.window[1] < 4000:
        return "9", 9.0
    plain: dict[str, tuple[str, Any]] = {
        "whole": ("2k", 2048 if one.option.length else 2000), "number": ("4k", 4000.0), "text": ("mine", "mine"),
        "texts": ("here", (Path("here"),)),
    }  # fmt: skip
    return plain[one.kind]


BAD_NUMBERS = (
    "3,5", "1,500", "1.000,5", "1.000.000", "1_00", "1e309", "-1e309", "1e-400", "9" * 400, "inf", "nan", "infinity", "0x10",
    "1e3e3", "--5", "٣", "½", "²", "1 000", "1;5", "$5", "NaN", "None", "", " ", "5 5", "1e999999999", "𝟙",
)  # fmt: skip
"""Texts that no option takes for a number: another country's manner, beyond what a float holds, and none at all."""


def wrong(one: Entry) -> list[str]:
    """Texts that an option refuses."""
    made = {"word": ["nonsense"], "words": ["nonsense", f"{one.words[0]},nonsense"] if one.words else []}
    made |= {"whole": ["-3", "0.5", "many", *BAD_NUMBERS], "number": ["-3", "many", *BAD_NUMBERS]}
    if one.option.reads in ("day", "pins"):
        return ["yesterday"]
    if one.option.unit in ("s", "B", "B/s") and not one.option.reads:
        return [*made["number"], "5 parsec", "5 W"]
    return made.get(one.kind, [])


@cache
def entry(task: str, key: str) -> Entry:
    return by_key(ASKS[task])[key]


@cache
def help_words(task: str) -> list[str]:
    return process(task, "--help").stdout.split()


@each("task, key", EVERY)
def test_every_option_stands_in_the_help(task: str, key: str) -> None:
    one, words = entry(task, key), help_words(task)
    assert set(one.flags) <= {word.strip(",") for word in words}
    assert all(word in words for word in one.option.about.split()[:3])
    assert one.option.about == one.option.about.strip()
    assert not one.option.about.endswith(".")


@each("task, key", EVERY)
def test_every_option_is_read_from_the_command_line(task: str, key: str) -> None:
    one = entry(task, key)
    flags = [*QUESTION[:1], *(() if key == "on" else QUESTION[1:])]
    if one.kind == "switch":
        for flag, value in zip(one.flags, (True, False), strict=False):
            assert getattr(question(ASKS[task], of_question(parsed_options(task, [*flags, flag]))), one.name) is value
        return
    if one.option.reads == "words":
        return  # Which stand for other options: tests/plan/test_launch.py.
    text, value = example(one)
    asked = question(ASKS[task], of_question(parsed_options(task, [*flags, one.flag, text])))
    assert getattr(asked, one.name) == value
    others = {name for name in ASKS[task].field_names() if getattr(asked, name) not in (None, {}, ())}
    assert others == {"model", "on", one.name} | ({"task"} if task == "fit" else set())


@pytest.mark.parametrize(("task", "key"), thinned(EVERY, every=3))
def test_every_option_refuses_what_it_does_not_take(call: Call, task: str, key: str) -> None:
    one = entry(task, key)
    flags = [f"{flag}=maybe" for flag in one.flags] if one.kind == "switch" else [f"{one.flag}={text}" for text in wrong(one)]
    for flag in flags:
        made = call(task, *QUESTION, flag)
        assert made.code == 2, flag
        assert one.flag.removeprefix("--") in made.err
        assert made.err.count("error: ") == 1
    assert flags or one.kind in ("text", "texts")


TEXT_OPTIONS = [(task, key, entry(task, key).option.group) for task, key in EVERY if entry(task, key).kind in ("text", "texts")]


@pytest.mark.parametrize(
    ("task", "key", "group"), [row for row in TEXT_OPTIONS if row[1] not in ("price_date", "region", "set", "engine_args")]
)
def test_names_that_nothing_has_are_refused(call: Call, task: str, key: str, group: str) -> None:
    with_it = ["--rl", "ppo"] if group == "rl" else []
    made = call(task, QUESTION[0], *with_it, *(() if key == "on" else QUESTION[1:]), entry(task, key).flag, "no-such-name")
    assert made.code in (2, 5)
    assert "no-such-name" in made.err


@each("task, key", EVERY)
def test_a_value_in_python_means_what_the_text_means(task: str, key: str) -> None:
    one = entry(task, key)
    bad = [object(), *([] if one.kind == "text" else [1j]), *([1, "yes"] if one.kind == "switch" else [True, [1.5]])]
    if one.kind == "switch":
        assert [read(one, given) for given in (True, np.bool_(False))] == [True, False]
    else:
        text, value = example(one)
        alike = [text, 3.6 if one.option.reads == "price" else value]
        alike += [np.float64(alike[1]), np.int64(alike[1])] if one.kind in ("whole", "number") and alike[1] == int(alike[1]) else []
        assert [read(one, given) for given in alike] == [value] * len(alike)
    for given in bad:
        with pytest.raises(gpuplan.UsageError, match=one.flag):
            read(one, given)


@each("task, key", [row for row in EVERY if row[1] not in ("set", "specs")])
def test_every_option_is_echoed(task: str, key: str) -> None:
    one = entry(task, key)
    value = False if one.kind == "switch" else example(one)[1]
    given: dict[str, Any] = {"model": "m", "on": "h100", one.name: value}
    assert said(ASKS[task](**given))[one.name] == echo(one, value)
    assert echo(one, value)


@pytest.mark.parametrize("task", ASKS)
def test_the_terms_of_a_price_are_echoed_in_answers(task: str) -> None:
    terms = {"price_kind": "on_demand", "region": "us-east-1", "price_date": "2026-11-01", "max_price_age": 4000}
    made = estimated(ASKS[task](model="llama-3.1-8b", on="aws:p5.48xlarge", **terms), advise=False)
    assert {name: made.question[name] for name in terms} == {name: str(value) for name, value in terms.items()}


LOOK_AT_ALL = {"said", "_refuse"}
"""Functions that read every field, whether or not it is used."""
SEEN: set[str] = set()


def watched(task: str, /, **given: Any) -> Any:
    """A question that remembers in `SEEN` which of its fields were looked at, and not only in passing."""

    class Watched(ASKS[task], kw_only=True):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            frame = sys._getframe(1)
            while frame.f_code.co_name.startswith("<") and frame.f_back is not None:
                frame = frame.f_back
            if frame.f_code.co_name not in LOOK_AT_ALL:
                SEEN.add(name)
            return super().__getattribute__(name)

    return Watched(**given)


PLAIN: dict[str, Any] = {"model": "llama-3.1-8b", "on": "8xh100", "tp": 2, "pp": 1}
TRAIN = PLAIN | {"micro_batch": 1, "recompute": "none", "tokens": 1e9}
RL = TRAIN | {"rl": "ppo", "rollout_tp": 2, "global_batch": 64, "prompts": 64, "idle": "device"}
SAMPLED: dict[str, Any] = {
    "model": "mine", "on": "8xh100", "params": 5e6, "flop_per_sample": 1e9, "activation_bytes": 1e6, "micro_batch": 8,
    "global_batch": 64, "samples": 1e6,
}  # fmt: skip
ASKED: dict[str, list[dict[str, Any]]] = {
    "fit": [PLAIN, PLAIN | {"task": "train"}], "serve": [PLAIN], "train": [TRAIN, RL, SAMPLED],
}  # fmt: skip


@pytest.mark.parametrize("task", ASKS)
def test_every_option_is_used(task: str) -> None:
    SEEN.clear()
    for given in ASKED[task]:
        estimated(watched(task, **given), advise=False)
    known = entries(ASKS[task])
    assert {name for name in known if known[name].option.reads != "words"} - SEEN == set()


class Mine(FitAsk, kw_only=True):
    """A question with an option more."""

    warp: Annotated[int | None, Option("Warp factor, such as `9`", RUN, "W", least=2)] = None


def test_a_new_option_is_one_entry(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(ASKS, "fit", Mine)  # type: ignore[arg-type]
    command: Any = get_command(app_of("fit", Mine, "Fit.\n\nExamples:\n  gpuplan fit m --on h100"))
    context = command.make_context("fit", ["llama-3.1-8b", "--on", "h100", "--warp", "1k"])
    assert of_question(context.params)["warp"] == "1k"
    assert "--warp W" in command.get_help(context)
    assert gpuplan.fit("llama-3.1-8b", on="h100", advise=False, warp=9).question["warp"] == "9"  # type: ignore[call-arg]
    with pytest.raises(gpuplan.UsageError, match="--warp 1: a whole number of at least 2"):
        gpuplan.fit("llama-3.1-8b", on="h100", warp=1)  # type: ignore[call-arg]
    with pytest.raises(gpuplan.UsageError, match="did you mean `warp`"):
        gpuplan.fit("llama-3.1-8b", on="h100", wrap=2)  # type: ignore[call-arg]
    assert "    warp: Whole\n" in typed("fit")
    assert "| `--warp` | fit | `warp` | a whole number of at least 2 | Warp factor, such as `9` |" in page()
    assert schema("fit")["properties"]["warp"]["anyOf"][0] == {"type": "integer", "minimum": 2, "maximum": 10**9}


def test_what_is_made_of_the_code_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but schemas.md, which takes as long as all others ten times over: `.ci/run` looks at it in its first minutes."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    made: dict[Path, Callable[[], str]] = import_module("options").FILES
    slow = ROOT / "docs" / "schemas.md"
    assert slow in made
    stale = [path.name for path, text in made.items() if path != slow and path.read_text(encoding="utf-8") != text()]
    assert not stale, "run `python tools/options.py`"


@pytest.mark.parametrize("task", ASKS)
def test_the_schema_of_a_question_takes_what_is_read(task: str) -> None:
    validator = jsonschema.Draft202012Validator(schema(task))
    for key, one in by_key(ASKS[task]).items():
        value: Any = True if one.kind == "switch" else example(one)[1]
        value = (
            {"a.b": "2 s"} if key == "set" else ["here"] if key == "specs" else list(value) if isinstance(value, tuple) else value
        )
        asked = {"model": "m", "on": "h100", key: value}
        assert list(validator.iter_errors(asked)) == []
        assert list(validator.iter_errors({**asked, key: None}))
        if one.option.reads == "words":
            continue
        assert question(ASKS[task], asked)
    assert list(validator.iter_errors({"model": "m", "on": "h100", "tpp": 4}))


SWITCHES = {flag for ask in (*ASKS.values(), Output) for one in by_key(ask).values() if one.kind == "switch" for flag in one.flags}


@pytest.mark.parametrize("flag", sorted(SWITCHES))
def test_a_switch_before_the_model_is_no_option_with_a_value(flag: str) -> None:
    words = ["train", flag, "m", "--on", "8xh100", "--explain", "mfu"]
    assert normal(words, COMMANDS) == words


def test_options_without_a_value_that_drifted(call: Call) -> None:
    made = call(*shlex.split("train --padded llama-3.1-8b --on 8xh100 --documents 1k --explain mfu"))
    assert made.code == 0, made.err
    assert "\nmfu  " in made.out


def test_names_of_results_are_those_that_are_known() -> None:
    assert entries(TrainAsk)["keep"].words == entries(TrainAsk)["to_host"].words == tuple(RESULTS)


def test_options_that_several_questions_have_are_the_same() -> None:
    def alone(one: Entry) -> Entry:
        return one.replaced(option=one.option._replace(group=""))

    for ask in ASKS.values():
        for other in ASKS.values():
            both = entries(ask).keys() & entries(other).keys()
            assert {name: alone(entries(ask)[name]) for name in both} == {name: alone(entries(other)[name]) for name in both}
    assert set(Common.field_names()) == set(entries(Common))
