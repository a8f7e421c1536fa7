"""Words that are read without the parser mean what the parser makes of them; all others are the parser's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer import BadParameter, Exit

from gpuplan.cli.argv import normal
from gpuplan.cli.command_names import COMMANDS
from gpuplan.cli.nested_command import parsed_options
from gpuplan.cli.output import Output
from gpuplan.cli.plain_words import given_by
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import Entry, by_key
from tests.cli.cli_calls import Call

TASKS = sorted(ASKS)
REFUSED: Any = BadParameter.__base__
"""The parser's base of all usage errors, as `gpuplan.cli.parser` has it."""
TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=6)


def table(task: str) -> list[Entry]:
    return [*by_key(ASKS[task]).values(), *by_key(Output).values()]


def by_parser(task: str, words: list[str]) -> Any:
    """What the parser makes of the words, or None where it refuses them or shows its help."""
    try:
        return list(parsed_options(task, words).items())
    except (REFUSED, Exit):
        return None


def both(task: str, words: list[str]) -> bool:
    """Whether the words were plain; then both ways must give the same values in the same order, which errors are told in."""
    plain = given_by(task, words)
    if plain is None:
        return False
    assert list(plain.items()) == by_parser(task, words)
    return True


@pytest.mark.parametrize("task", TASKS)
def test_each_option_alone_means_what_the_parser_says(task: str) -> None:
    for one in table(task):
        for flag in () if one.positional else one.flags:
            if one.kind == "switch":
                assert both(task, ["m", flag])
            else:
                assert both(task, ["m", flag, "8"])
                assert both(task, [f"{flag}=8", "m"])


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A task with words that are mostly those of a command line: its flags, with and without values, and any text."""
    task = draw(st.sampled_from(TASKS))
    flags = [(flag, one.kind == "switch") for one in table(task) if not one.positional for flag in one.flags]
    words = [draw(TEXT)]
    for _ in range(draw(st.integers(0, 5))):
        flag, alone = draw(st.sampled_from(flags))
        value = draw(st.one_of(TEXT, st.sampled_from(["", "-1", "--on", "--", "-", "a=b"])))
        odd = draw(st.integers(0, 9)) == 0
        words += [flag] if alone != odd else [f"{flag}={value}"] if draw(st.booleans()) else [flag, value]
        if draw(st.integers(0, 19)) == 0:
            words.append(draw(st.one_of(TEXT, st.sampled_from(["--", "-h", "--help", "--nothing", "-", ""]))))
    return task, normal(words, COMMANDS)


@settings(max_examples=300, deadline=None)
@given(lines())
def test_plain_words_mean_what_the_parser_says(line: tuple[str, list[str]]) -> None:
    both(*line)


@pytest.mark.parametrize(
    "words",
    [
        [], ["m", "n"], [""], ["m", "--on"], ["m", "--on", "--tp"], ["m", "--on="], ["m", "--on", "a", "--on", "b"], ["m", "-h"],
        ["m", "--nothing"], ["m", "--", "n"], ["m", "-"], ["m", "--full=yes"], ["--on", "h100"], ["m", "--batch", "-1"],
        ["m", "--o", "h100"],
    ],
)  # fmt: skip
def test_what_is_odd_is_left_to_the_parser(words: list[str]) -> None:
    assert given_by("fit", words) is None


def test_what_may_be_repeated_is_gathered_in_order() -> None:
    made = given_by("fit", ["m", "--specs", "a", "--on", "h100", "--specs=b"])
    assert made is not None
    assert made["specs"] == ["a", "b"]


def test_the_answer_is_the_same_whoever_reads_the_words(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("fit", "llama-3.1-8b", "--on", "h100", "--require", "max_sequences > 1e6")
    plain = call(*words)
    monkeypatch.setattr("gpuplan.cli.plain_words.given_by", lambda *_: None)
    assert call(*words) == plain
    assert plain.code == 4
