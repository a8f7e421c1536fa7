"""The working of a figure: formula, numbers, sources, each shared term once, down to the datasheet."""

from __future__ import annotations

import re

import pytest

from gpuplan.files.stream import COLOURS
from gpuplan.render import working
from gpuplan.render.formula import formula_page
from gpuplan.render.text import Look
from gpuplan.render.tree import explain
from gpuplan.term import FORMULAS
from tests.render.render_sample import sample


def tree(*names: str, depth: int | None = None) -> str:
    estimate = sample()
    return explain([(name, estimate.figures[name]) for name in names], Look(100), depth, estimate)


def test_formula_text_numbers_and_sources() -> None:
    page = tree("mfu")
    assert "= model_flop / (seconds · chips · peak_flop_per_s)  [1]" in page
    assert "= 202 PFLOP / (28.7 s · 8 · 7.91 PFLOP/s)" in page
    assert "[1] paper, PaLM: Scaling Language Modeling with Pathways" in page
    assert "https://arxiv.org/abs/2204.02311" in page


@pytest.mark.parametrize("name", ["mfu", "step_time_s"])
def test_every_figure_of_hardware_reaches_a_dated_source(name: str) -> None:
    page = tree(name)
    assert "datasheet [" in page
    assert "checked 2026-11-20" in page
    assert "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet" in page


def test_shared_terms_are_worked_out_once() -> None:
    page = tree("step_time_s", "mfu")
    assert page.count("= 6 · params · tokens") == 1
    assert "model_flop  202 PFLOP  train.model_flop  as above" in page


def test_depth_limits_and_says_so() -> None:
    page = tree("step_time_s", depth=1)
    assert "forward_backward" in page
    assert "= 6 · params" not in page
    assert "`--explain TERM` goes down to the sources" in page


def test_a_long_working_is_cut_where_nobody_says_how_deep_and_says_how_to_see_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate, look = sample(), Look(100)
    whole = working.working(estimate, "step_time_s", look)
    assert "levels are shown" not in whole
    lines = whole.count("\n")
    monkeypatch.setattr(working, "MOST_LINES", lines - 1)
    cut = working.working(estimate, "step_time_s", look)
    assert cut.count("\n") < lines
    assert f"of a working of {lines:,} lines: `--depth all` shows all of it" in " ".join(cut.split())
    assert working.working(estimate, "step_time_s", look, working.ALL) == whole


def test_assumed_values_are_marked_on_the_way_up() -> None:
    page = tree("step_time_s")
    assert "step_time_s  28.7 s *" in page
    assert "optimizer  41.2 ms *" in page
    assert "forward_backward  25.5 s  89.1 %" in page
    assert "* rests on an assumed value" in page


def test_billions_are_not_bytes() -> None:
    assert "= 8.03 billion · 12.0 B / 8" in tree("peak_memory_bytes")


def test_a_formula_alone() -> None:
    page = formula_page(FORMULAS["mfu"], Look(80))
    assert page.startswith("mfu  [1]\n  = model_flop / (seconds · chips · peak_flop_per_s)\n")
    assert ">>> mfu(" in page
    assert "https://arxiv.org/abs/2204.02311" in page


@pytest.mark.parametrize("width", [60, 80, 200])
def test_on_a_terminal_the_same_working_has_branches(width: int) -> None:
    estimate = sample()
    roots = [("mfu", estimate.figures["mfu"]), ("step_time_s", estimate.figures["step_time_s"])]
    indented = explain(roots, Look(width), None, estimate)
    branches = explain(roots, Look(width, drawn=True), None, estimate)
    assert "├╴= model_flop / (seconds" in branches
    assert "\x1b" not in branches
    assert "".join(char for char in branches if char not in "├└│╴" and not char.isspace()) == "".join(indented.split())
    assert [line for line in branches.splitlines() if len(line) > width and "://" not in line] == []
    painted = explain(roots, Look(width, colour=True, drawn=True), None, estimate)
    assert set(re.findall("\x1b\\[[0-9;]*m", painted)) <= {*COLOURS}
