"""The law of `--plain` and `--brief`: every command that answers takes both; the one draws nothing, the other is one line."""

from __future__ import annotations

import re
import shlex

import pytest

from gpuplan.cli.plan import PARTS
from tests.cli.cli_calls import Call

ANSWERED = {
    "fit": "fit gpt2 --on rtx-4090",
    "train": "train gpt2 --on rtx-4090 --tokens 1B",
    "serve": "serve gpt2 --on rtx-4090 --prompt 100 --output 100",
    "plan train": "plan train gpt2 --on lambda:gpu_8x_h100_sxm5 --tokens 1B --front",
    "plan finetune": "plan finetune gpt2 --on runpod:l40s --full",
    "plan rl": "plan rl qwen2.5-0.5b --on 2xl40s --prompts 32 --steps 10 --staleness 1",
    "plan serve": "plan serve gpt2 --on runpod:l40s --rate 1/s --prompt 100 --output 100 --front",
    "plan carries": "plan carries gpt2 --on rtx-4090",
    "what-runs": "what-runs gpt2 --on rtx-4090",
    "compare": "compare serve gpt2 --on l40s,rtx-4090 --prompt 100 --output 100",
    "compare of many": "compare fit gpt2 --on l40s,l4 --batch 1 --batch 8",
    "compare of datasheets": "compare h100-sxm-80gb tpu-v5p",
    "specs compare": "specs compare h100-sxm-80gb tpu-v5p",
}
REFUSED = {
    "fit": ("fit llama-3.1-70b --on rtx-4090", "does not fit"),
    "plan train": ("plan train gpt2 --on lambda:gpu_8x_h100_sxm5 --tokens 1T --budget 1", "nothing meets the goal"),
    "plan serve": ("plan serve gpt2 --on runpod:l40s --rate 1/s --tpot 1us", "nothing serves 1 request/s"),
    "plan carries": ("plan carries llama-3.1-405b --on rtx-4090", "nothing of llama-3.1-405b"),
    "what-runs": ("what-runs llama-3.1-405b --on rtx-4090", "0 models run"),
    "compare": ("compare fit llama-3.1-405b --on l4,rtx-4090", "none fits"),
}
DRAWN = re.compile("[\x1b\u2190-\u21ff\u2300-\u28ff\u2b00-\u2bff]|^ | {2}| $", re.MULTILINE)
"""Colour, arrows, lines, blocks, marks and dots, and columns."""


def line_of(name: str, form: str) -> list[str]:
    return [word for word in shlex.split(ANSWERED[name]) if form == "--plain" or word != "--front"]


def spoken(text: str) -> None:
    rows = text.splitlines()
    assert rows
    assert [row for row in rows if ": " not in row] == []
    assert DRAWN.search(text) is None
    assert [row for row in rows if " – " in row and not row.startswith("note: ")] == []


def test_every_goal_is_among_those_that_are_tried() -> None:
    assert {f"plan {part}" for part in PARTS} <= ANSWERED.keys()


@pytest.mark.parametrize("name", ANSWERED)
def test_plain_says_everything_in_lines_of_their_own(call: Call, name: str) -> None:
    said = call(*line_of(name, "--plain"), "--plain")
    assert said.code == 0, said.err
    spoken(said.out)
    assert call(*line_of(name, "--plain"), "--plain", columns=200).out == said.out


@pytest.mark.parametrize("name", ANSWERED)
def test_brief_is_one_line_wherever_it_stands(call: Call, name: str) -> None:
    words = line_of(name, "--brief")
    said = call(*words, "--brief", columns=40)
    assert said.code == 0, said.err
    assert said.out.count("\n") == 1
    assert said.out.strip()
    if name != "specs compare":
        assert call("--brief", *words).out == said.out


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_reached_is_said_the_same_way_with_the_same_exit_code(call: Call, name: str) -> None:
    line, verdict = REFUSED[name]
    plain, brief = (call(*shlex.split(line), form) for form in ("--plain", "--brief"))
    assert (plain.code, brief.code) == (3, 3), plain.err
    spoken(plain.out)
    assert plain.out.startswith("answer: ")
    assert brief.out.count("\n") == 1
    assert verdict in brief.out.lower()
    assert verdict in plain.out.splitlines()[0].replace(",", "")


@pytest.mark.parametrize("name", ANSWERED)
@pytest.mark.parametrize("more", ["--plain --brief", "--plain --json", "--brief --csv", "--plain --md"])
def test_forms_that_contradict_each_other_are_refused_in_one_message(call: Call, name: str, more: str) -> None:
    said = call(*line_of(name, "--brief"), *more.split())
    assert (said.code, said.out) == (2, "")
    assert said.err.count("error: ") == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("plan train gpt2 --front --brief", "--front and --brief exclude each other"),
        ("plan serve gpt2 --users 9 --full-answer --brief", "--full-answer and --brief exclude each other"),
        ("plan serve gpt2 --users 9 --full-answer --json", "--full-answer: the answer is not written in words"),
        ("plan serve gpt2 --users 9 --plain --emit k8s", "--plain: the answer is not written in words"),
        ("compare fit gpt2 --on l4,l40s --full --brief", "--full and --brief exclude each other"),
    ],
)
def test_what_else_one_line_or_none_has_no_place_for(call: Call, line: str, message: str) -> None:
    said = call(*line.split())
    assert (said.code, said.out) == (2, "")
    assert message in said.err


def test_all_weights_of_a_fine_tuning_are_no_size_of_its_answer(call: Call) -> None:
    assert call(*shlex.split(ANSWERED["plan finetune"]), "--json").code == 0


def test_all_of_a_plan_says_how_it_was_found_and_what_every_price_rests_on(call: Call) -> None:
    words = shlex.split(ANSWERED["plan train"])
    short, whole = (call(*words, "--plain", *more).out.splitlines() for more in ([], ["--full-answer"]))
    assert {*short} < {*whole}
    assert any(row.startswith("search: ") for row in whole)
    assert any(row.startswith("beaten by none in both cost and time 1: ") for row in short)
