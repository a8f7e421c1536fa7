"""A report in a real browser: wide and narrow, light and dark, folded, linked, printed, and with nothing fetched or run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplan.estimate.planned import Point
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.standing import Standing, standings
from gpuplan.render.report import page
from gpuplan.render.report.answer import of_answer
from gpuplan.render.report.charts import front
from gpuplan.render.report.compared import of_comparison
from gpuplan.render.report.template import html
from gpuplan.search.ask import answered
from tests.render.browser import Window, opened

WIDTHS = (360, 390, 768, 1100, 1920)
LONG = "a-name-that-is-" + "very-" * 20 + "long"
OUTSIDE = """[...document.querySelectorAll('body *')].filter(e => !e.closest('details:not([open])')).filter(e => {
  const r = e.getBoundingClientRect();
  return r.width && !e.closest('.tip') && !e.closest('.wide') && (r.right > innerWidth + 1 || r.left < -1)
}).map(e => e.outerHTML.slice(0, 120))"""
OVERLAP = """[...document.querySelectorAll('.tiles, .legend li, .bars .row, .asked, .front .ys, .front .xs')].flatMap(box => {
  const parts = [...box.children].map(e => [e, e.getBoundingClientRect()]).filter(([e, r]) => r.width && e.textContent.trim());
  return parts.flatMap(([a, p], at) => parts.slice(at + 1).filter(([b, q]) =>
    p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1
  ).map(([b, q]) => a.textContent.trim() + ' | ' + b.textContent.trim()))
})"""
"""Texts that stand side by side and share a place."""


def serve(on: str = "4xh100") -> Estimate:
    return answered("serve", {"model": "llama-3.1-70b", "on": on, "prompt": "2000", "output": "300", "rate": "1/s"})


def order(answers: dict[str, Estimate]) -> tuple[Standing, ...]:
    return standings(answers, {name: {"on": name} for name in answers})


def pages() -> dict[str, str]:
    """A report of every kind of block, with names as long and as hostile as a user's may be."""
    one, other = serve(), serve("8xl40s")
    hostile = one.replaced(question={**one.question, "model": f"<script>document.title='run'</script>{LONG}", "on": LONG})
    points = [Point(f"{LONG}-{at}", 10.0 ** (6 - at), 1234.5 * 30**at) for at in range(7)]
    table = page.Table(
        title="Wide", head=("on", *(f"figure {at}" for at in range(9))), rows=[[LONG, *["1,234,567.89 USD/h"] * 9]] * 2,
        aligned="l" + "r" * 9,
    )  # fmt: skip
    plan = page.Report(title=LONG, word="BEST", tone="good", headline=LONG, blocks=[front(points), table])
    return {
        "answer": html(of_answer(one), ["gpuplan", "serve", "llama-3.1-70b"]),
        "hostile": html(of_answer(hostile), ["gpuplan", LONG]),
        "comparison": html(of_comparison(order({"4xh100": one, LONG: other, "third": one})), ["gpuplan", "compare"]),
        "plan": html(plan, ["gpuplan", "plan"]),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    made = {name: folder / f"{name}.html" for name in ("answer", "hostile", "comparison", "plan")}
    for name, text in pages().items():
        made[name].write_text(text, encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def window() -> Iterator[Window]:
    with opened() as made:
        yield made


@pytest.mark.parametrize("name", ["answer", "hostile", "comparison", "plan"])
def test_no_width_scrolls_sideways_and_no_values_overlap(window: Window, files: dict[str, Path], name: str) -> None:
    for width in WIDTHS:
        window.show(files[name], width)
        across, there = window.ask("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert across == there > width - 20, width  # a desktop's bar to scroll downwards takes some
        assert window.ask(OUTSIDE) == [], width
        assert window.ask(OVERLAP) == [], width


def test_the_answer_stands_on_the_first_screen_of_a_phone(window: Window, files: dict[str, Path]) -> None:
    window.show(files["answer"], 390)
    assert window.ask("document.querySelector('.tiles').getBoundingClientRect().bottom") < 900
    assert window.ask("document.querySelector('.verdict').textContent").split()[0] == "FITS"


@pytest.mark.parametrize("name", ["answer", "hostile", "comparison", "plan"])
def test_nothing_runs_is_fetched_or_complained_of(window: Window, files: dict[str, Path], name: str) -> None:
    window.said()
    window.show(files[name], 1100)
    assert window.ask("document.title") != "run"
    assert window.ask("performance.getEntriesByType('resource').map(one => one.name)") == []
    assert window.said() == []


def test_light_and_dark_each_read_well(window: Window, files: dict[str, Path]) -> None:
    luminance = """(() => { const of = (e, what) => { const [r, g, b] = getComputedStyle(e)[what].match(/[\\d.]+/g).map(Number)
      .map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return .2126*r + .7152*g + .0722*b };
      const ground = of(document.body, 'backgroundColor');
      const every = 'h1, h2, .what, .ends, td, th, .share, a, .remark, .verdict b, .star';
      return [...document.querySelectorAll(every)]
        .filter(e => !e.closest('details:not([open])')).map(e => {
        let card = e; while (getComputedStyle(card).backgroundColor == 'rgba(0, 0, 0, 0)') card = card.parentElement;
        const [a, b] = [of(e, 'color'), of(card, 'backgroundColor')].sort((x, y) => x - y);
        return [(b + .05) / (a + .05), e.className || e.tagName] })
        .filter(([ratio]) => ratio < 4.5).concat([[ground, 'ground']]) })()"""
    grounds = []
    for dark in (False, True):
        window.show(files["answer"], 1100, dark=dark)
        *faint, (ground, _) = window.ask(luminance)
        assert faint == []  # 4.5:1 is what WCAG 2.1 asks of text (https://www.w3.org/TR/WCAG21/#contrast-minimum)
        grounds.append(ground)
    assert grounds[0] > 0.9
    assert grounds[1] < 0.05


def test_the_working_folds_down_to_its_sources(window: Window, files: dict[str, Path]) -> None:
    window.show(files["answer"], 390)
    assert window.ask("document.querySelectorAll('.working details[open]').length") == 0
    assert window.ask("document.querySelector('#w-tpot_s .formula').checkVisibility({contentVisibilityAuto: true})") is False
    window.driver.find_element("css selector", "#w-tpot_s > summary").click()
    assert window.ask("document.querySelector('#w-tpot_s').open") is True
    assert window.ask("document.querySelector('#w-tpot_s .formula').getBoundingClientRect().height") > 0
    window.ask("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert window.ask("document.documentElement.scrollWidth") == 390
    assert window.ask(OUTSIDE) == []
    cites = window.ask("[...document.querySelectorAll('a.cite')].map(one => one.getAttribute('href'))")
    assert cites
    assert window.ask("[...document.querySelectorAll('a.cite')].every(a => document.querySelector(a.getAttribute('href')))") is True


def test_a_point_tells_what_it_is_when_it_is_reached(window: Window, files: dict[str, Path]) -> None:
    for width in (390, 1100):
        window.show(files["plan"], width)
        count = window.ask("document.querySelectorAll('.dot').length")
        assert count == 7
        for at in range(count):
            dot = f"document.querySelectorAll('.dot')[{at}]"
            assert window.ask(f"getComputedStyle({dot}.firstChild).display") == "none"
            window.ask(f"{dot}.focus()")
            left, right, said = window.ask(
                f"(() => {{ const r = {dot}.firstChild.getBoundingClientRect(); return [r.left, r.right, {dot}.innerText] }})()"
            )
            assert 0 <= left < right <= width, (width, at)
            assert f"{LONG}-{6 - at}" in said.replace("\n", "") or f"{LONG}-{at}" in said.replace("\n", "")


@pytest.mark.parametrize("name", ["answer", "hostile", "comparison", "plan"])
def test_it_prints_with_what_was_folded_away_but_without_the_working(window: Window, files: dict[str, Path], name: str) -> None:
    window.show(files[name], 1100)
    window.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    made = window.printed()
    assert made.startswith(b"%PDF-")
    sheets = made.count(b"/Type /Page\n")
    assert 1 <= sheets <= 14
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert window.ask("[...document.querySelectorAll('.working details')].every(e => !e.open)") is True
    if name == "answer":
        height = "document.querySelector('details.of-table tbody').getBoundingClientRect().height"
        assert window.ask(height) > 0  # what was assumed, folded away on a screen
    window.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
