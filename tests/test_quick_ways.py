"""What is done by hand to start fast does what the library's slower way does."""

from __future__ import annotations

import os
import pickle
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.record import Record, replace
from gpuplan.render.text import columns_of_terminal, wrap
from gpuplan.specs.catalog import _LIST, _lists, _yaml_below, shipped_folder
from gpuplan.specs.dates import last_day
from gpuplan.term import DEFINITION, USER, Source, Stacked, Term

NAMES = (
    "aliases: [a, b]\n",
    "driver_names:\n  - x\n",
    " aliases: [c]\n",
    "my_aliases: [d]\n",
    "aliases: a\n",
    "\n",
    "driver_names: [\n e]\n",
)


@given(st.lists(st.sampled_from(NAMES)).map("".join))
def test_lists_of_names_are_found_as_by_the_expression(text: str) -> None:
    assert [one.span() for one in _lists(text)] == [one.span() for one in _LIST.finditer(text)]


def test_files_are_found_as_by_the_glob(tmp_path: Path) -> None:
    for name in ("b/x.yaml", "a-b/x.yaml", "a/x.yaml", "a/deep/y.yaml", "a/z.yml", ".hidden.yaml", "folder.yaml/inside.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for root in (tmp_path, shipped_folder(), tmp_path / "nothing", tmp_path / "b" / "x.yaml"):
        assert _yaml_below(root) == (sorted(root.rglob("*.yaml")) if root.is_dir() else [])


@given(st.text("ab -\t\n\u2003é:/", max_size=60), st.integers(20, 60), st.sampled_from(["", "  ", "note: "]))
def test_short_lines_are_wrapped_as_by_the_library(text: str, width: int, first: str) -> None:
    broken = any(len(word) > width - len(first) and not word.startswith("http") for word in text.split(" "))
    indents = {"initial_indent": first, "subsequent_indent": " " * len(first)}
    by_library = textwrap.wrap(text, width, break_long_words=broken, break_on_hyphens=False, **indents)  # type: ignore[arg-type]
    assert wrap(text, width, first) == (by_library or [first.rstrip()])


@pytest.mark.parametrize("said", [None, "100", "0", "-3", "x", ""])
@pytest.mark.parametrize("size", [None, 0, 120])
def test_the_terminal_is_as_wide_as_the_library_says(said: str | None, size: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if said is not None:
        monkeypatch.setenv("COLUMNS", said)

    def asked(_: Any) -> os.terminal_size:
        if size is None:
            raise OSError
        return os.terminal_size((size, 50))

    monkeypatch.setattr(os, "get_terminal_size", asked)
    assert columns_of_terminal() == shutil.get_terminal_size((80, 24)).columns


@pytest.mark.parametrize(("text", "day"), [("2024-02", 29), ("2026-02", 28), ("2026-12", 31), ("2026-11", 30), ("2026-11-05", 5)])
def test_the_last_day_of_a_month(text: str, day: int) -> None:
    assert last_day(text).day == day


def test_sources_and_terms_are_immutable_alike_and_survive_a_pickle() -> None:
    source = Source("paper", "A", checked="2026-11-23")
    leaf = Term("a", 2.0, "s", source, spread=(1.0, 3.0))
    stacked = Stacked("b", 1.0, "s", USER, one=len)
    for one in (source, leaf, stacked):
        again = pickle.loads(pickle.dumps(one))
        assert type(again) is type(one)
        assert repr(again) == repr(one)
        assert again.__getstate__()[-1] == one.__getstate__()[-1]
        with pytest.raises(AttributeError, match="immutable"):
            one.title = ""  # type: ignore[union-attr]
        with pytest.raises(AttributeError, match="immutable"):
            del one._fields
    assert source == replace(source)
    assert hash(source) == hash(replace(source))
    assert source != replace(source, note="b")
    assert source != "A"
    assert replace(leaf, value=4.0).value == 4.0
    assert replace(leaf, value=4.0).spread == leaf.spread
    assert replace(stacked, name="c").one is len
    with pytest.raises(TypeError):
        replace(source, nothing=1)
    assert repr(DEFINITION).startswith("Source(kind='definition', title='by definition', url=''")


class Point(Record):
    x: int
    y: int = 0

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.x)


@pytest.mark.parametrize("fields", [{"z": 1}, {"x": 1, "z": 1}])
def test_a_record_takes_no_unknown_field(fields: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="unknown field: 'z'"):
        Point(1).replaced(**fields)
    with pytest.raises(TypeError, match="unknown field: 'z'"):
        Point(**fields)


def test_a_record_checks_what_is_changed_and_takes_nothing_twice() -> None:
    with pytest.raises(ValueError, match="-1"):
        Point(1).replaced(x=-1)
    with pytest.raises(TypeError, match="twice: 'x'"):
        Point(1, x=2)  # type: ignore[misc]
