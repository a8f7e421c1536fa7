"""One screen: the figures that matter, each once, at any width, in a line, and for a screen reader."""

from __future__ import annotations

import pytest

from gpuplan.render.plain import plain
from gpuplan.render.screen import brief, main_figures, screen
from gpuplan.render.text import Look
from gpuplan.term import USER, Term
from tests.render.render_sample import sample


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("width", [40, 60, 80, 100, 240])
def test_no_line_is_wider_than_the_terminal(width: int, fits: bool) -> None:
    page = screen(sample(fits=fits), Look(width))
    assert [line for line in page.splitlines() if len(line) > width] == []
    assert page.startswith("FITS  " if fits else "DOES NOT FIT  ")


def test_six_figures_at_most_and_none_twice() -> None:
    made = sample()
    assert 0 < len(main_figures(made)) <= 6
    again = made.replaced(figures={**made.figures, "step_again_s": made.figures["step_time_s"]})
    assert "step_again_s" not in main_figures(again)
    zeros = {name: Term(name, 0.0, "1", USER) for name in ("kv_cache_tokens", "max_sequences")}
    assert zeros.keys() <= main_figures(made.replaced(task="fit", figures={**zeros, **made.figures})).keys()


def test_degrees_of_one_are_not_told() -> None:
    made = sample()
    asked = screen(made.replaced(question={**made.question, "tp": "1", "pp": "4"}), Look(80))
    assert "TP 1" not in asked
    assert "PP 4" in asked


def test_colour_changes_no_character() -> None:
    made = sample()
    painted = screen(made, Look(80, colour=True))
    assert "\x1b[1;32mFITS" in painted
    for code in ("\x1b[1;32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"):
        painted = painted.replace(code, "")
    assert painted == screen(made, Look(80))


def test_what_binds_what_was_chosen_and_what_would_help_are_told() -> None:
    page = screen(sample(), Look(80))
    assert [page.index(f"\n{head}") for head in ("Binds", "Chosen", "Helps")] == sorted(
        page.index(f"\n{head}") for head in ("Binds", "Chosen", "Helps")
    )
    assert "\nTo fit " in screen(sample(fits=False), Look(80))


def test_one_line_and_plain_lines() -> None:
    made = sample()
    assert brief(made).count("\n") == 1
    assert len(plain(made, full=True).splitlines()) > len(plain(made).splitlines())
    assert all(": " in line for line in plain(made).splitlines())
