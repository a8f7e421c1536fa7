"""What the user reads: the verdict first, nothing wider than the terminal, no digit cut, no colour in a pipe."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.estimate.result import Estimate
from gpuplan.estimate.standing import Standing, standings
from gpuplan.render.compare import comparison, comparison_markdown
from gpuplan.render.markdown import markdown
from gpuplan.render.table import table
from gpuplan.render.text import Look, amount, look_of, shown, span
from gpuplan.render.tree import explain
from gpuplan.units import WINDOWS
from tests.render.render_sample import sample

WIDTHS = (60, 80, 100, 120, 200)


def lone_url(line: str) -> bool:
    """A line that holds nothing but an address, which must not be broken."""
    return line.strip().startswith("https://") and " " not in line.strip()


@pytest.fixture(scope="module")
def estimate() -> Estimate:
    return sample()


def _both(one: str, other: str, first: Estimate, second: Estimate) -> tuple[Standing, ...]:
    return standings({one: first, other: second}, {one: {"on": one}, other: {"on": other}})


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal(estimate: Estimate, width: int) -> None:
    pages = [
        table(estimate, Look(width)),
        table(sample(fits=False), Look(width)),
        explain(estimate.figures.items(), Look(width), None, estimate),
    ]
    if width >= 80:
        pages.append(comparison(_both("8xh100-sxm-80gb", "8xh200-sxm-141gb", estimate, sample(fits=False)), Look(width)))
    for page in pages:
        wide = [line for line in page.splitlines() if len(line) > width and not lone_url(line)]
        assert wide == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_is_whole_at_every_width(estimate: Estimate, width: int) -> None:
    page = table(estimate, Look(width))
    for key, term in estimate.figures.items():
        assert shown(key, float(term.value), term.unit).split()[0] in page
    for breakdown in estimate.breakdowns:
        for part in breakdown.parts:
            assert shown(part.name, float(part.value), part.unit) in " ".join(page.split())


def test_the_verdict_comes_first(estimate: Estimate) -> None:
    assert table(estimate, Look(80)).startswith("FITS  61.2 GiB of 79.2 GiB")
    no = table(sample(fits=False), Look(80))
    assert no.startswith("DOES NOT FIT  161 GiB wanted")
    assert no.count("does not fit") == 1  # only the reason of a choice says it again
    assert "Smallest changes that make it fit" in no


def test_order_of_the_parts(estimate: Estimate) -> None:
    page = table(estimate, Look(80))
    marks = ["FITS", "step time", "Memory of the most", "Time of one step", "Chosen", "Smallest changes", "Notes"]
    places = [page.index(mark) for mark in marks]
    assert places == sorted(places)


def test_ranges_shares_marks_price_and_changes(estimate: Estimate) -> None:
    page = table(estimate, Look(80))
    assert "28.1 – 30.0 s" in page
    assert "79.5 %" in page
    assert "framework_context *" in page
    assert "--tp 2 " in page
    assert "--zero-stage 3 --recompute full" in page
    assert "98.32 USD/h: aws:p5.48xlarge on demand, us-east-1, checked 2026-11-20" in page
    assert "https://aws.amazon.com/ec2/pricing/on-demand/" in page
    assert "rests on assumed values: train.step.optimizer = 41.2 ms" in page


def test_wide_terminals_show_how_and_put_breakdowns_side_by_side(estimate: Estimate) -> None:
    page = table(estimate, Look(200))
    assert "= model_flop / (seconds · chips · peak_flop_per_s)" in page
    assert any("optimizer_state" in line and "forward_backward" in line for line in page.splitlines())


def test_colour_only_on_a_terminal_and_without_no_color() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert look_of(Terminal(), {}).colour
    assert not look_of(Terminal(), {"NO_COLOR": "1"}).colour
    assert not look_of(Terminal(), {"TERM": "dumb"}).colour
    assert not look_of(io.StringIO(), {}).colour


def test_colour_changes_no_character(estimate: Estimate) -> None:
    import re

    for width in (80, 200):
        plain, painted = table(estimate, Look(width)), table(estimate, Look(width, colour=True))
        assert "\x1b[1;32mFITS" in painted
        assert re.sub("\x1b\\[[0-9;]*m", "", painted) == plain


def test_markdown_has_tables_and_escapes_its_marks(estimate: Estimate) -> None:
    page = markdown(estimate)
    assert page.startswith("**FITS** 61.2 GiB")
    assert "| step time | 28.7 s \\* | 28.1 – 30.0 s |" in page
    assert "- `--tp 2`: fits, 12 % slower" in page


def test_comparison_shows_verdicts_and_what_differs(estimate: Estimate) -> None:
    page = comparison(_both("a", "b", estimate, sample(fits=False)), Look(100))
    assert "does not fit" in page
    assert "step time" in page
    assert comparison_markdown(_both("a", "b", estimate, estimate)).startswith("|  | a | b |")


@given(
    st.sampled_from(["step_time_s", "energy_joules", "peak_memory_bytes", "cost_usd", "tokens_per_s", "mfu", "max_sequences"]),
    st.sampled_from(sorted({*WINDOWS} - {"USD/J"})),
    st.floats(1e-9, 1e15),
    st.floats(0.01, 1.0),
    st.floats(1.0, 100.0),
)
def test_a_figure_and_its_range_are_in_one_unit(key: str, unit: str, value: float, down: float, up: float) -> None:
    _, shown_in = amount(key, value, unit)
    low, high = span(key, (value * down, value * up), unit, value)
    assert re.fullmatch(r"[-\d.,e+]+", low), low
    assert high.partition(" ")[2] == shown_in


def test_the_range_of_an_energy_is_in_the_unit_of_the_energy() -> None:
    assert span("energy_joules", (2.48e6, 5.27e6), "J", 3.64e6) == ("0.689", "1.46 kWh")
    assert span("max_sequences", (2.0, 4.92), "1", 2.0) == ("2", "5")
