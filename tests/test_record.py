"""Records behave like frozen dataclasses."""

from __future__ import annotations

from typing import ClassVar

import pytest

from gpuplan.record import Record, field


class Point(Record):
    """Two coordinates."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Named(Point, kw_only=True):
    name: str = ""


class Loose(Record, eq=False):
    x: int = 0


def test_fields_defaults_and_order() -> None:
    assert Point.field_names() == ("x", "y", "tags")
    assert Point(1) == Point(1, 0, [])
    assert Point(1).tags is not Point(1).tags
    assert Named(x=1, name="a").name == "a"
    assert repr(Point(1, 2)) == "Point(x=1, y=2, tags=[])"


def test_it_is_immutable() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match="immutable"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="immutable"):
        del point.x
    assert point.replaced(x=5).x == 5
    assert point.x == 1


@pytest.mark.parametrize("args", [{}, {"x": 1, "z": 2}])
def test_wrong_fields_are_refused(args: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(**args)  # type: ignore[arg-type]


def test_keyword_only_and_identity() -> None:
    with pytest.raises(TypeError):
        Named(1)  # type: ignore[misc]
    with pytest.raises(TypeError):
        Point(1, x=2)  # type: ignore[misc]
    assert Loose() != Loose()
    assert len({Loose(), Loose()}) == 2


class Held(Record):
    sizes: dict[str, dict[str, int]]
    kept: tuple[dict[str, int], ...] = ()


def test_what_holds_mappings_can_be_a_key() -> None:
    first, again = Held({"a": {"b": 1}, "c": {}}, ({"d": 2},)), Held({"c": {}, "a": {"b": 1}}, ({"d": 2},))
    assert first == again
    assert {first: 1} == {again: 1}
    assert hash(first) != hash(Held({}))
