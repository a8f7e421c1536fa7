"""The command line runs with the garbage collector off: what an estimate makes must go when nobody holds it any more."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

from gpuplan.search.ask import answered
from tests.sweeps import thinned

MACHINE = {"model": "llama-3.1-8b", "on": "8xh100"}


@pytest.mark.parametrize(
    ("task", "more"),
    thinned(
        [("train", {"set": ["hw.memory_capacity=70 GB"]}), ("train", {}), ("serve", {"prompt": 1000, "output": 100}), ("fit", {})],
        every=4,
    ),
)
def test_no_term_waits_for_the_garbage_collector(task: str, more: dict[str, object]) -> None:
    answered(task, {**MACHINE, **more}, advise=False)  # what is kept for the next question is made
    gc.disable()
    gc.freeze()  # What other tests hold is set aside: to look through all of it took 9 s, and nothing of it is from below.
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        answered(task, {**MACHINE, **more}, advise=False)
        gc.collect()
        assert Counter(type(one).__name__ for one in gc.garbage)["Term"] == 0
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
