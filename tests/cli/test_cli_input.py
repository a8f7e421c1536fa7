"""Input is never quietly changed: numbers, options that are given twice, places and names, over all commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuplan import accuracy
from gpuplan.cli.commands import COMMANDS, root
from tests.cli.cli_calls import Call
from tests.cli.test_cli_options import BAD_NUMBERS
from tests.sweeps import each


def single(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, bool]]:
    """Every option that takes one value, or none, with the words that lead to its command."""
    for one in command.params:
        if one.param_type_name == "option" and not one.multiple and not one.is_eager:
            for flag in (*one.opts, *one.secondary_opts):
                yield path, flag, one.is_flag
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from single(command.get_command(None, name), (*path, name))


SINGLE = [found for name in COMMANDS for found in single(root().get_command(None, name), (name,))]


@each("path, flag, switch", SINGLE)
def test_an_option_of_one_value_is_given_once(call: Call, path: tuple[str, ...], flag: str, switch: bool) -> None:
    task = path[0] in ("fit", "train", "serve")
    words = [*path, *(["llama-3.1-8b"] if task else []), *([flag, flag] if switch else [flag, "1", f"{flag}=1"])]
    made = call(*words)
    assert made.code == 2
    assert flag in made.err
    assert "is given twice" in made.err
    assert "Traceback" not in made.err
    assert made.out == ""


def test_every_command_was_looked_at() -> None:
    assert {path[0] for path, _, _ in SINGLE} == {*COMMANDS} - {"explain", "compare"}
    assert len(SINGLE) > 150


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fit llama-3.1-8b --on h100 --on l4", "--on is given twice"),
        ("fit llama-3.1-8b --on h100 --set engine.graphs=0 --set engine.graphs=1GiB", "engine.graphs is given twice"),
        ("train llama-3.1-8b --on h100 --compile --no-compile", "--compile/--no-compile is given twice"),
        ("explain mfu train llama-3.1-8b --on h100 --on l4", "--on is given twice"),
        ("explain mfu train llama-3.1-8b --on h100 --explain hfu", "--explain means nothing inside"),
        ("compare serve llama-3.1-8b --on h100 --on h100", "--on h100 is given twice"),
        ("compare serve llama-3.1-8b --on h100 --on l4 --batch 1 --batch 1", "--batch 1 is given twice"),
        ("compare serve llama-3.1-8b --on h100 --on l4 --explain mbu", "--explain means nothing to a comparison"),
        ("specs compare h100 l4 --price h100=2 --price h100=3", "a second price of h100-sxm-80gb"),
        ("train llama-3.1-8b --on h100 --overlap none,dp", "none, and something too"),
        ("fit llama-3.1-8b --on h100 --depth 3", "--depth means nothing without --explain"),
        ("fit llama-3.1-8b --on h100 --explain --json", "--explain draws a tree"),
    ],
)
def test_what_would_have_been_dropped(call: Call, words: str, said: str) -> None:
    made = call(*shlex.split(words))
    assert made.code == 2
    assert said in made.err


NUMBERS = {
    "fit llama-3.1-8b --on h100 --explain --depth": "depth",
    "specs check --max-age": "max-age", "prices check --max-age": "max-age",
    "accuracy --worst": "worst", "calibrate --timeout": "timeout", "specs compare h100 l4 --price": "price",
    "specs list --memory": "memory", "specs list instances --count": "count", "specs list instances --price": "price",
    "calc mfu model_flop=3PFLOP seconds=1s peak_flop_per_s=989TFLOP/s": "chips", "fit llama-3.1-8b --on h100 --set": "hw.x",
}  # fmt: skip
BEFORE = {
    "specs compare h100 l4 --price": "h100=",
    "specs list --memory": ">=",
    "specs list instances --count": ">=",
    "specs list instances --price": "<",
} | {words: f"{name}=" for words, name in NUMBERS.items() if words.startswith("calc") or words.endswith("--set")}


@each("text, words", [(text, words) for text in BAD_NUMBERS if text.strip() for words in NUMBERS])
def test_one_rule_for_numbers_in_all_commands(call: Call, words: str, text: str) -> None:
    option = [] if words.startswith("calc") else [words.rsplit(maxsplit=1)[-1]]
    before = words.split()[: len(words.split()) - len(option)]
    value = f"{BEFORE.get(words, '')}{text}"
    made = call(*before, f"{option[0]}={value}" if option else value)
    assert made.code == 2, made.out
    assert NUMBERS[words] in made.err
    assert "Traceback" not in made.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train llama-3.1-8b --on 8xh100 --tokens 1T --price 3,5", "write `3.5`"),
        ("train llama-3.1-8b --on 8xh100 --tokens 1,5T", "write `1.5`"),
        ("train llama-3.1-8b --on 8xh100 --tokens 1,500", "write `1.500` or `1500`"),
        ("train llama-3.1-8b --on 8xh100 --tokens 1e309", "--tokens: `1e309` is out of range"),
        ("serve llama-3.1-8b --on h100 --rate 1 --cached-share 1.1", "--cached-share 1.1: 0.999 at most"),
        ("fit llama-3.1-8b --on h100 --margin 200%", "--margin 200%: 1 at most"),
        ("train llama-3.1-8b --on 8xh100 --tokens 1e19", "--tokens 1e19: 1e+18 at most"),
        ("fit llama-3.1-8b --on h100 --batch 1e308", "--batch: `1e308` is out of range"),
        ("fit llama-3.1-8b --on h100 --max-price-age 800000", "--max-price-age 800000: 36,500 at most"),
        ("train llama-3.1-8b --on 8xh100 --mtbf '1e300 s'", "--mtbf: `1e300 s` is out of range"),
        ("train llama-3.1-8b --on 8xh100 --checkpoint-every 1ms", "--checkpoint-every 1ms: a time"),
        ("train pythia-70m --on h100 --samples 1e-300*1e-300", "--samples"),
        ("fit llama-3.1-8b --on h100 --price 1e12", "--price 1e12: 1e+09 USD/h at most"),
        ("fit llama-3.1-8b --on h100 --context 32kk", "--context: `32k`: that is no number"),
        ("train llama-3.1-8b --on h100 --tokens 0", "--tokens 0: a number of at least 1 is wanted"),
        ("train llama-3.1-8b --on h100 --checkpoint-every 0.5s", "--checkpoint-every 0.5s: a time of at least 1 s is wanted"),
        ("fit llama-3.1-8b --on h100 --engine ''", "--engine '': nothing is named"),
        ("fit '' --on h100", "'': nothing is named"),
        ("specs list --since 2023-13", "is no date"),
    ],
)
def test_numbers_beyond_what_can_be_meant(call: Call, words: str, said: str) -> None:
    made = call(*shlex.split(words))
    assert made.code == 2
    assert said in made.err


@pytest.mark.parametrize("text", ["1,000,000", "1_000_000", "1000000", "1e6", "1M", "1,000,000.0", "+1000000"])
def test_numbers_that_mean_one_thing_are_read(call: Call, text: str) -> None:
    made = call("train", "gpt2", "--on", "h100", "--tokens", text, "--micro-batch", "1", "--json")
    assert made.code == 0
    assert '"tokens": "1.00 M"' in made.out


@pytest.mark.parametrize("task", ["fit", "serve", "train"])
@pytest.mark.parametrize("on", ["h100", "aws:p5.48xlarge", "mi300x"])
def test_a_place_that_nobody_has_is_refused_with_those_there_are(call: Call, task: str, on: str) -> None:
    made = call(task, "llama-3.1-8b", "--on", on, "--region", "mars")
    assert made.code == 5
    assert "in a region `mars`" in made.err
    assert "us-east-1" in made.err


def test_a_region_is_of_its_provider(call: Call) -> None:
    made = call("fit", "llama-3.1-8b", "--on", "aws:p5.48xlarge", "--region", "us-central1")
    assert made.code == 5
    assert "which is of gcp" in made.err
    made = call("train", "llama-3.1-8b", "--on", "8xh100", "--region", "us-east-1", "--tokens", "1T")
    assert "for aws:" in made.out
    assert "any region" not in made.out
    made = call("prices", "list", "--region", "mars")
    assert (made.code, made.out) == (5, "")


def test_a_name_of_another_part_is_unknown(call: Call) -> None:
    for name, near in (
        ("rx-6950", "rx-6950-xt"),
        ("rx-6650", "rx-6650-xt"),
    ):
        made = call("fit", "llama-3.2-1b", "--on", name)
        assert made.code == 5
        assert near in made.err
    several = call("fit", "llama-3.2-1b", "--on", "rx-6750")
    assert several.code == 2
    assert "rx-6750-gre-10gb" in several.err
    assert "rx-6750-xt" in several.err
    assert "rtx-4060-ti-8gb" in call("fit", "llama-3.2-1b", "--on", "rtx-4060-ti").out


def test_all_prices_of_what_is_named_are_listed(call: Call) -> None:
    import json

    rows = json.loads(call("prices", "list", "a100", "--json").out)
    every = json.loads(call("prices", "list", "--json").out)
    assert len(rows) > 20
    assert [row for row in rows if row not in every] == []
    assert {row["accelerator"] for row in every if row["accelerator"].startswith("a100-")} == {row["accelerator"] for row in rows}


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 250])
def test_a_list_of_prices_is_whole_at_every_width(call: Call, columns: int) -> None:
    out = call("prices", "list", "h100", "--limit", "all", columns=columns).out
    said = " ".join(out.split())
    for cell in ("on demand", "spot", "date unknown", "us-east-1", "2026-10-10", "AWS: prices of the page of on-demand prices"):
        assert cell in said
    assert all(len(line) <= columns for line in out.splitlines() if "://" not in line)


def test_a_comparison_names_who_is_best(call: Call) -> None:
    words = ("compare", "serve", "llama-3.1-8b", "--on", "h100", "--on", "l4")
    first, second, *_ = call(*words).out.splitlines()
    assert first.startswith("fastest: h100, ")
    assert second.startswith("cheapest: ")
    assert "price of one accelerator" in call(*words).out
    assert "- fastest: h100, " in call(*words, "--md").out
    carried = call("compare", "serve", "llama-3.1-8b", "--on", "8xa100-sxm-80gb", "--on", "8xh100", "--rate", "5").out.splitlines()
    assert carried[0] in ("equally fast: 8xh100 and 8xa100-sxm-80gb", "equally fast: 8xa100-sxm-80gb and 8xh100")
    assert carried[1].startswith("quickest: 8xh100, ")
    assert "times as quick as 8xa100-sxm-80gb" in carried[1]
    assert "most room: h100" in call("compare", "fit", "llama-3.1-8b", "--on", "l4", "--on", "h100").out
    alone = call("compare", "fit", "llama-3.1-70b", "--on", "l4", "--on", "8xh100").out
    assert "most room" not in alone


def test_values_of_a_formula_are_for_calc(call: Call) -> None:
    made = call("explain", "mfu", "model_flop=1PFLOP")
    assert made.code == 2
    assert "gpuplan calc mfu model_flop=1PFLOP" in made.err


def test_a_card_in_json_says_how_large_it_is(call: Call) -> None:
    import json

    for model in ("llama-3.1-8b", "qwen3-30b-a3b"):
        made = json.loads(call("models", "show", model, "--json").out)
        assert made["params_total"] == sum(made["params_by_part"].values())
        assert made["params_active"] <= made["params_total"]


def test_no_run_to_compare_with_is_an_error(call: Call) -> None:
    made = call("accuracy", "--task", "inference", "--runs", str(Path(accuracy.__file__).parent / "runs" / "colossalai.yaml"))
    assert (made.code, made.out) == (5, "")
    assert "no measured run of inference" in made.err
