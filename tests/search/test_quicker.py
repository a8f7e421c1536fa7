"""One user alone waits for all stages: an answer that chose them for their tokens a second says which division is quicker."""

import pytest

import gpuplan


def said(**asked):
    made = gpuplan.serve("llama-3.1-405b", on="8xmi300x", **asked)
    return made, [note.text for note in made.notes if note.code == "plan.quicker"]


def test_stages_that_were_chosen_are_told_beside_a_quicker_division():
    made, (text,) = said()
    assert made.question["pp"] != "1"
    alone, _ = said(tp=8, pp=1)
    assert f"{1000 * float(alone['tpot_alone_s']):.1f} ms with --tp 8 --pp 1" in text
    assert f"all get {float(alone['tokens_per_s']) / float(made['tokens_per_s']):.0%} of" in text


@pytest.mark.parametrize("asked", [{"pp": 8}, {"tp": 8}, {"concurrency": 8}, {"batch": 8}])
def test_who_says_the_division_or_the_load_has_chosen(asked):
    assert not said(**asked)[1]
