"""The planner in Python answers what `gpuplan plan` prints."""

from __future__ import annotations

import json

import pytest

import gpuplan
from tests.cli.cli_calls import Call
from tests.cli.conftest import call

__all__ = ["call"]

ASKED = {
    "finetune": {"on": "h100,a100-80gb", "tokens": "10M"},
    "train": {"on": "8xh100", "tokens": "10B"},
    "serve": {"on": "h100,l40s", "rate": "5/s", "ttft": "1s", "tpot": "50ms"},
    "carries": {"on": "h100"},
}


@pytest.mark.parametrize("goal", sorted(ASKED))
def test_the_same_is_said_as_by_the_command(call: Call, goal: str) -> None:
    found = getattr(gpuplan, f"plan_{goal}")("llama-3.1-8b", **ASKED[goal])
    words = [word for key, value in ASKED[goal].items() for word in (f"--{key}", value)]
    assert found.to_dict() == json.loads(call("plan", goal, "llama-3.1-8b", *words, "--json").out)
    assert found.reached
    assert repr(found).startswith(f"<gpuplan plan {goal}: ")
    assert str(found).split()[0] in found._repr_html_()


def test_machines_have_figures_with_their_ranges() -> None:
    found = gpuplan.plan_serve("llama-3.1-8b", **ASKED["serve"])
    best = found.best[0]
    assert best["tpot_s"].low < best["tpot_s"].value < 0.05
    assert best.on in found.command or best.on.partition("x")[2] in found.command
    assert [note.code for note in found.notes]
    with pytest.raises(gpuplan.UsageError, match="no figure `tpot`"):
        best["tpot"]


def test_wrong_options_are_named() -> None:
    with pytest.raises(gpuplan.UsageError, match="nonsense"):
        gpuplan.plan_train("llama-3.1-8b", tokens="1B", nonsense=1)


def test_a_plan_is_made_after_other_questions() -> None:
    """Names of the package's own modules hide no function, whatever was imported before."""
    assert gpuplan.fit("llama-3.1-8b", on="h100", advise=False).fits
    assert callable(gpuplan.plan_train)
    assert {name for name in gpuplan.__all__ if not callable(getattr(gpuplan, name))} == {"__version__"}
