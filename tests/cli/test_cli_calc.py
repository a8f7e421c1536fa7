"""`gpuplan calc`: a formula worked out, solved, listed, and what it says when it cannot."""

from __future__ import annotations

import json

import pytest

from tests.cli.cli_calls import Call

PLAIN = """\
mfu = 0.417088
  = model_flop / (seconds · chips · peak_flop_per_s)
  = 3.3 PFLOP / (1 s · 8 · 989 TFLOP/s)

  Model FLOP utilisation: the FLOP that the model needs over what the chips
  could have done, recomputation not counted.

  paper, PaLM: Scaling Language Modeling with Pathways, Appendix B
  https://arxiv.org/abs/2204.02311
"""
MISTAKES = [
    ("no formula", ("mfuu", "seconds=1s"), 2, "no formula is called `mfuu`", "did you mean `mfu`?"),
    ("no parameter", ("mfu", "secnds=1s"), 2, "mfu has no parameter `secnds`", "did you mean `seconds`?"),
    ("no pair", ("mfu", "seconds"), 2, "`seconds` is not NAME=VALUE", "gpuplan explain mfu"),
    ("twice", ("mfu", "seconds=1s", "seconds=2s"), 2, "`seconds` is given twice", ""),
    ("no unit", ("mfu", "seconds=1"), 2, "seconds: `1` has no unit", ""),
    ("wrong unit", ("mfu", "seconds=1 GB"), 2, "seconds: `1 GB` is in B, but s is wanted", ""),
    ("no number", ("mfu", "chips=many"), 2, "chips: `many` is not a count", ""),
    ("missing", ("mfu", "chips=8"), 2, "mfu lacks model_flop [FLOP], seconds [s], peak_flop_per_s [FLOP/s]", "explain mfu"),
    ("two unknowns", ("share", "amount=?", "ways=?", "result=3"), 2, "amount and ways cannot both be solved for", "all but one"),
    ("no result", ("share", "amount=?", "ways=2"), 2, "solving for `amount` wants the result", "result=VALUE"),
    ("nothing open", ("share", "amount=6", "ways=2", "result=3"), 2, "are given", "NAME=?"),
    ("no value", ("share", "amount=6", "ways=0"), 2, "share has no value there", ""),
    ("no solution", ("remaining_seconds", "whole=1s", "result=2s"), 3, "no `hidden` of zero or above", "0 s to 999.999 ms"),
    ("nothing listed", ("list", "perpetuum"), 2, "no formula has `perpetuum` in its name or meaning", ""),
]  # fmt: skip


def test_a_formula_with_values(call: Call) -> None:
    said = call("calc", "mfu", "model_flop=3.3PFLOP", "seconds=1 s", "chips=8", "peak_flop_per_s=989 TFLOP/s")
    assert (said.code, said.out, said.err) == (0, PLAIN, "")
    apart = call("calc", "mfu", "model_flop=3.3", "PFLOP", "seconds=1", "s", "chips=8", "peak_flop_per_s=989", "TFLOP/s")
    assert apart.out == PLAIN


@pytest.mark.parametrize("unknown", [(), ("tokens=?",), ("tokens=",)])
def test_a_formula_solved_for_the_name_that_is_left_out(call: Call, unknown: tuple[str, ...]) -> None:
    said = call("calc", "six_nd_flop", "params=70B", *unknown, "result=6.3e24 FLOP")
    assert said.code == 0
    assert said.out.startswith(
        "tokens = 15 trillion\n  for six_nd_flop = 6.3e+24 FLOP\n  = 6 · params · tokens\n  = 6 · 70 billion · tokens\n"
    )


def test_rates_and_shares_are_read(call: Call) -> None:
    assert call("calc", "rate", "count=3", "result=6 1/s").out.startswith("seconds = 500 ms\n")
    assert call("calc", "rate", "count=3", "result=6/s").out.startswith("seconds = 500 ms\n")
    assert call("calc", "part_of_bytes", "size=80 GB", "ratio=90%").out.startswith("part_of_bytes = 67.0552 GiB\n")


def test_a_count_says_what_whole_numbers_give(call: Call) -> None:
    flat = call("calc", "stage_layers", "layers=61", "pp=?", "result=4").out
    assert flat.startswith("pp = 15.25 to 20.3333\n  pp = 16 gives 4\n  pp = 20 gives 4\n")
    between = call("calc", "share", "amount=61", "ways=?", "result=4").out
    assert between.startswith("ways = 15.25\n  ways = 15 gives 4.06667\n  ways = 16 gives 3.8125\n")
    whole = call("calc", "share", "amount=60", "ways=?", "result=4").out
    assert whole.startswith("ways = 15\n  for share = 4\n")


def test_a_step_over_the_result_is_said(call: Call) -> None:
    said = call("calc", "stage_layers", "layers=61", "result=4.5")
    assert said.code == 0
    assert said.out.startswith("no pp gives it exactly: below 15.25 it is 5, above 4\n  pp = 15 gives 5\n  pp = 16 gives 4\n")


def test_an_open_range_is_said(call: Call) -> None:
    said = call("calc", "remaining_seconds", "whole=2 s", "hidden=?", "result=0 s")
    assert said.out.startswith("hidden = 2 s or more\n")


def test_json(call: Call) -> None:
    made = json.loads(call("calc", "ridge_intensity", "peak_flop_per_s=2.25 PFLOP/s", "bandwidth=8 TB/s", "--json").out)
    assert made["value"] == 281.25
    assert made["unit"] == "FLOP/B"
    assert made["inputs"]["bandwidth"] == {"value": 8e12, "unit": "B/s"}
    assert made["source"]["url"].startswith("https://")
    solved = json.loads(call("calc", "stage_layers", "layers=61", "pp=?", "result=4", "--json").out)["solved"]
    (one,) = solved["solutions"]
    assert (solved["name"], one["low"], one["jumps_from_to"]) == ("pp", 15.25, None)
    assert one["whole_numbers"] == [{"value": 16.0, "gives": 4.0}, {"value": 20.0, "gives": 4.0}]
    open_end = json.loads(call("calc", "remaining_seconds", "whole=2 s", "result=0 s", "--json").out)["solved"]["solutions"]
    assert [(one["low"], one["high"]) for one in open_end] == [(2.0, None)]


def test_formulas_are_listed(call: Call) -> None:
    from gpuplan.formulas import every_formula

    every = call("calc").out
    assert call("calc", "list").out == every
    assert all(f"  {name}" in every for name in every_formula())
    some = call("calc", "list", "micro-batches", "gpipe").out
    assert some.startswith("  in_flight_gpipe")
    assert len(some) < len(every) / 50
    records = json.loads(call("calc", "list", "--json").out)
    assert {one["formula"] for one in records} == set(every_formula())


def test_a_reference_formula_says_that_no_estimate_uses_it(call: Call) -> None:
    for words in (("explain", "speculative_tokens"), ("calc", "speculative_tokens", "acceptance=0.8", "draft_tokens=5")):
        assert "no estimate uses it" in call(*words).out
    assert "no estimate uses it" not in call("explain", "mfu").out


@pytest.mark.parametrize(("words", "code", "message", "hint"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES])
def test_mistakes(call: Call, words: tuple[str, ...], code: int, message: str, hint: str) -> None:
    said = call("calc", *words)
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith("error: ")
    assert message in said.err
    assert hint in said.err


def test_all_mistakes_are_told_together(call: Call) -> None:
    said = call("calc", "mfu", "seconds=1", "chips=many", "flop=3")
    assert said.err.count("error: ") == 3
