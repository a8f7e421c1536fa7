"""What stands on a report: everything escaped, every link inside leads somewhere, and the numbers of the answer itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.planned import Point
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.standing import Standing, standings
from gpuplan.render.report import page
from gpuplan.render.report.answer import of_answer
from gpuplan.render.report.charts import bars, front, stack
from gpuplan.render.report.compared import of_comparison
from gpuplan.render.report.template import html
from gpuplan.render.report.working import LEVELS, anchor_of, working
from gpuplan.render.text import shown
from gpuplan.search.ask import answered
from gpuplan.term import Formula, Source, Term, total, walk_of

EVIL = "<script>alert('x')</script>"
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Read(HTMLParser):
    """The tags of a page, checked to close in the order in which they opened, its ids and its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.deepest = 0
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = {key: value or "" for key, value in attrs}
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[key] for key in ("href", "src") if key in given]
        if tag not in VOID:
            self.open.append(tag)
            self.deepest = max(self.deepest, self.open.count("details"))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@cache
def made(task: str = "fit") -> Estimate:
    more = {"tokens": "1T"} if task == "train" else {"prompt": "2000", "output": "300", "rate": "1/s"} if task == "serve" else {}
    return answered(task, {"model": "llama-3.1-8b", "on": "8xh100" if task == "train" else "h100", **more})


def order(answers: dict[str, Estimate]) -> tuple[Standing, ...]:
    return standings(answers, {name: {"on": name} for name in answers})


def inside(links: list[str]) -> Iterator[str]:
    return (link.removeprefix("#") for link in links if link.startswith("#"))


@pytest.mark.parametrize("task", ["fit", "train", "serve"])
def test_a_page_is_whole_alone_and_leads_nowhere_in_vain(task: str) -> None:
    text = html(of_answer(made(task)), ["gpuplan", task, "llama-3.1-8b"])
    read = Read(text)
    assert {"script", "img", "link", "iframe"} & {*read.tags} == set()
    assert not re.search(r"@import|url\(", text)
    assert len(read.ids) == len({*read.ids})
    assert {*inside(read.links)} <= {*read.ids}
    assert all(link.startswith(("#", "https://", "http://")) for link in read.links)
    assert {anchor_of("w", key) for key in made(task).figures} <= {*read.ids}
    assert f"gpuplan {task} llama-3.1-8b" in text


@pytest.mark.parametrize("task", ["fit", "train", "serve"])
def test_every_figure_and_source_of_the_answer_stands_on_it(task: str) -> None:
    one = made(task)
    report = of_answer(one)
    rows = next(block for block in report.blocks if isinstance(block, page.Table) and block.title == "Every figure").rows
    told = [row[1].removesuffix(" *") for row in rows]
    assert told == [shown(key, float(term.value), term.unit) for key, term in one.figures.items()]
    told_working = next(block for block in report.blocks if isinstance(block, page.Working))
    leaves = {t.source.url for t in walk_of([*one.figures.values()]) if t.formula is None and t.source.url}
    assert leaves <= {source.url for source in told_working.sources}
    names = {line.term or line.name for line in told_working.lines if not line.closes}
    assert {t.name for t in walk_of([*one.figures.values()])} <= names | {*one.figures}


def test_what_the_user_named_is_escaped_wherever_it_stands() -> None:
    one = made()
    evil = one.replaced(question={"model": EVIL, "on": f'"><img src=x>{EVIL}', EVIL: EVIL})
    for text in (html(of_answer(evil), ["gpuplan", EVIL]), html(of_comparison(order({EVIL: evil, "b": one})), [EVIL])):
        assert "<script" not in text
        assert "<img" not in text
        assert "&lt;script&gt;" in text
        Read(text)


def test_a_source_that_is_no_address_is_told_and_not_linked() -> None:
    leaf = Term("x", 2.0, "1", Source("datasheet", EVIL, "javascript:alert(1)", "§1", "2026-01-01"))
    report = page.Report(
        title="t", word="fits", tone="good", headline="", blocks=[working([("x", total("y", {"a": leaf, "b": leaf}))], {})]
    )
    text = html(report)
    assert "javascript:alert(1)" in text
    assert [link for link in Read(text).links if not link.startswith("#")] == []


def test_a_working_deeper_than_a_phone_shows_goes_on_behind() -> None:
    term = Term("deepest", 1.0, "1", Source("user", "given by the user"))
    for level in range(5 * LEVELS):
        term = total(f"level{level}", {"a": term, "b": term})
    block = working([("figure", term)], {})
    text = html(page.Report(title="t", word="fits", tone="good", headline="", blocks=[block]))
    read = Read(text)
    assert read.deepest <= LEVELS + 1
    assert {*inside(read.links)} <= {*read.ids}
    assert {line.name for line in block.lines} >= {f"level{level * LEVELS - 1}" for level in range(1, 5)}
    assert sum(line.opens for line in block.lines) == 5 * LEVELS  # each once, however many paths lead to it


def test_a_formula_without_parts_closes_what_it_opens() -> None:
    term = Term("none", 0.0, "1", Source("definition", "sum"), Formula(lambda: 0.0, "sum", Source("definition", "sum"), "1", {}))
    Read(html(page.Report(title="t", word="w", tone="bad", headline="", blocks=[working([("x", term)], {})])))


@pytest.mark.parametrize("task", ["fit", "train", "serve"])
def test_the_parts_of_a_picture_fill_what_the_total_does(task: str) -> None:
    one = made(task)
    for breakdown in one.breakdowns:
        drawn = stack(one, breakdown)
        last = drawn.parts[-1]
        assert drawn.low - 1e-6 <= last.left + last.width <= drawn.high + 1e-6
        assert max([drawn.high, last.left + last.width, *(mark.at for mark in drawn.marks)]) == pytest.approx(100)
        assert all(
            before.left + before.width <= after.left + 1e-9 for before, after in zip(drawn.parts, drawn.parts[1:], strict=False)
        )
        assert sum(part.width for part in drawn.parts) == pytest.approx(last.left + last.width)
    memory = next(one for one in of_answer(one).blocks if isinstance(one, page.Stack))
    assert [mark.label for mark in memory.marks][-1] == "memory capacity"


def test_bars_say_which_is_best_among_those_that_fit() -> None:
    small, large = made(), answered("fit", {"model": "llama-3.1-70b", "on": "h100"})
    drawn = bars({"small": small, "large": large, "twice": small.replaced(question={})}, "peak_memory_bytes", greater=True)
    assert [one.best for one in drawn.bars] == [True, False, True]
    assert [one.fits for one in drawn.bars] == [True, False, True]
    assert "does not fit" in drawn.bars[1].value
    assert not any(one.best for one in bars({"small": small, "large": large}, "peak_memory_bytes").bars)


@pytest.mark.parametrize("points", [1, 2, 7])
def test_a_front_lies_within_its_picture(points: int) -> None:
    drawn = front([Point(EVIL, 10.0 ** (6 - at), 100.0 * 3**at) for at in range(points)])
    assert all(0 <= one.left <= 100 and 0 <= one.top <= 100 for one in drawn.dots)
    assert [one.left for one in drawn.dots] == sorted(one.left for one in drawn.dots)
    text = html(page.Report(title="t", word="BEST", tone="good", headline="", blocks=[drawn]))
    assert text.count("<circle") == points
    assert "<script" not in text
    Read(text)


def test_a_wrong_day_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPLAN_TODAY", "yesterday")
    with pytest.raises(UsageError, match="GPUPLAN_TODAY"):
        html(of_answer(made()))


def test_templates_are_where_the_package_is() -> None:
    folder = Path(page.__file__).parent
    assert {one.name for one in folder.iterdir() if one.suffix in (".html", ".css")} == {"page.html", "blocks.html", "style.css"}
