"""Data files: what the annotations of a schema allow, how everything else is refused, and what the JSON Schema says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import pytest

from gpuplan.errors import SpecError
from gpuplan.schema import Fault, Limits, Pattern, PositiveInt, Schema, docs, field, read
from gpuplan.schema_json import json_schema
from gpuplan.strict_yaml import LineMap, parse_yaml


class Upper:
    """Reads text as capitals."""

    def read(self, given: Any) -> str:
        if not isinstance(given, str):
            raise Fault("own.code", "no text", "write text", ("deep",))
        return given.upper()

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}


class Round(Schema):
    """A round part."""

    kind: Literal["round"] = "round"
    radius: PositiveInt


class Flat(Schema):
    """A flat part."""

    kind: Literal["flat", "thin"]
    sides: tuple[int, ...] = ()


class Thing(Schema):
    """All that an annotation can say."""

    ignored: ClassVar[str] = "class"
    name: str
    """What it is called."""
    loud: Annotated[str, Upper()] = ""
    code: Annotated[str, Pattern(r"^[a-z]+$")] = "x"
    size: Annotated[int, Limits(1, 9)] | None = None
    open: bool = False
    colour: Literal["red", "blue", 3] = "red"
    few: Annotated[tuple[int, ...], Limits(1, 2)] = (1,)
    by_code: dict[Annotated[str, Pattern(r"[a-z]")], int] = field(default_factory=dict)
    part: Round | Flat | None = None
    inner: Thing | None = None

    def faults(self) -> Iterator[Fault]:
        if self.open and self.size is None:
            yield Fault("thing.open", "an open thing has no size", at=("open",))
        if self.name == "bad":
            yield Fault("thing.name", "a bad name")


LINES = LineMap("a.yaml")


def refused(data: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as caught:
        read(Thing, data, LINES)
    return [(problem.code, problem.message) for problem in caught.value.problems]


def test_everything_that_may_be_said() -> None:
    data = {
        "name": "a", "loud": "b", "code": "c", "size": 9, "open": True, "colour": 3, "few": (1, 2), "by_code": {"d": 4},
        "part": {"kind": "thin", "sides": (1,)}, "inner": {"name": "e", "part": {"kind": "round", "radius": 2}},
    }  # fmt: skip
    made = read(Thing, data, LINES)
    assert made == Thing(
        name="a", loud="B", code="c", size=9, open=True, colour=3, few=(1, 2), by_code={"d": 4},
        part=Flat(kind="thin", sides=(1,)), inner=Thing(name="e", part=Round(radius=2)),
    )  # fmt: skip
    assert made.plain()["inner"]["part"] == {"kind": "round", "radius": 2}
    assert Thing(name="a", few=(1,), open=False).stated() == {"name": "a"}
    assert read(Thing, {"name": "a", "size": None}, LINES).by_code == {}


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        ({"name": 7}, "spec.wrong-type", "name: `7` is not text"),
        ({"name": None}, "spec.wrong-type", "name: nothing is not text"),
        ({"loud": 1}, "own.code", "loud.deep: no text"),
        ({"code": "X"}, "spec.bad-format", "code: `X` is not written as it must be"),
        ({"code": "x\n"}, "spec.bad-format", "code: `x\n` is not written as it must be"),
        ({"size": 0}, "spec.invalid", "size: `0` is less than 1"),
        ({"size": 10}, "spec.invalid", "size: `10` is more than 9"),
        ({"size": True}, "spec.wrong-type", "size: `True` is not a whole number"),
        ({"size": 1.0}, "spec.wrong-type", "size: `1.0` is not a whole number"),
        ({"open": 1}, "spec.wrong-type", "open: `1` is not true or false"),
        ({"colour": "bleu"}, "spec.unknown-value", "colour: `bleu` is not allowed here"),
        ({"colour": 3.0}, "spec.unknown-value", "colour: `3.0` is not allowed here"),
        ({"few": ()}, "spec.invalid", "few: a number of 0 entries is less than 1"),
        ({"few": (1, 2, 3)}, "spec.invalid", "few: a number of 3 entries is more than 2"),
        ({"few": "1"}, "spec.wrong-type", "few: `1` is not a list"),
        ({"few": ("1",)}, "spec.wrong-type", "few.0: `1` is not a whole number"),
        ({"by_code": ()}, "spec.wrong-type", "by_code: this is not a mapping"),
        ({"by_code": {"D": 1}}, "spec.bad-format", "by_code.D: `D` is not written as it must be"),
        ({"part": {"radius": 1}}, "spec.unknown-value", "part: `kind` is missing"),
        ({"part": {"kind": "rond", "radius": 1}}, "spec.unknown-value", "part: the kind `rond` is not known"),
        ({"part": {"kind": ()}}, "spec.unknown-value", "part: the kind `()` is not known"),
        ({"part": "round"}, "spec.wrong-type", "part: `round` is not a mapping"),
        ({"part": {"kind": "round", "radius": 0}}, "spec.invalid", "part.radius: `0` is less than 1"),
        ({"part": {"kind": "round", "sides": ()}}, "spec.missing-key", "`part.radius` is missing"),
        ({"inner": {}}, "spec.missing-key", "`inner.name` is missing"),
        ({"inner": {"name": "a", "nmae": 1}}, "spec.unknown-key", "`inner.nmae` is not a key gpuplan knows"),
        ({"ignored": "x"}, "spec.unknown-key", "`ignored` is not a key gpuplan knows"),
        ({"open": True}, "thing.open", "open: an open thing has no size"),
        ({"inner": {"name": "bad"}}, "thing.name", "inner: a bad name"),
    ],
)
def test_everything_else_is_refused(given: dict[str, Any], code: str, message: str) -> None:
    assert (code, message) in refused({"name": "a", **given})


def test_all_problems_come_together_also_those_between_fields() -> None:
    found = refused({"name": "bad", "open": True, "inner": {"name": "bad"}})
    assert [code for code, _ in found] == ["thing.name", "thing.open", "thing.name"]
    found = refused({"nmae": "a", "size": 0, "inner": {"size": "1", "colour": "x"}})
    assert len(found) == 6


def test_lines_hints_and_codes_of_a_family() -> None:
    data, lines = parse_yaml("name: a\ninner:\n  sise: 1\n  colour: ted\n", "a.yaml")
    with pytest.raises(SpecError) as caught:
        read(Thing, data, lines, "model", value_code="model.bad-value")
    found = {problem.code: problem for problem in caught.value.problems}
    assert found["model.missing-key"].where == "a.yaml:2"
    assert found["model.missing-key"].hint == "it says: What it is called."
    assert found["model.unknown-key"].where == "a.yaml:3"
    assert found["model.unknown-key"].hint == "did you mean `size`?"
    assert found["model.bad-value"].where == "a.yaml:4"
    assert found["model.bad-value"].hint == "did you mean `red`?"


def test_an_annotation_that_no_file_can_hold_is_a_bug() -> None:
    class Odd(Schema):
        value: complex

    with pytest.raises(TypeError, match="cannot hold"):
        read(Odd, {"value": 1}, LINES)


def test_docs_and_json_schema() -> None:
    assert docs(Thing) == {"name": "What it is called."}
    made = json_schema(Round)
    assert made["additionalProperties"] is False
    assert made["properties"]["radius"] == {"minimum": 1, "title": "radius", "type": "integer"}
    whole = json_schema(Block)
    assert whole["$defs"]["Round"]["required"] == ["kind", "radius"]
    assert whole["properties"]["part"]["description"] == "Round or flat."
    assert whole["properties"]["part"]["discriminator"]["mapping"]["thin"] == "#/$defs/Flat"
    assert "loud" not in whole.get("required", ())


class Block(Schema):
    """A part, and words."""

    part: Round | Flat
    """Round or flat."""
    loud: Annotated[str, Upper()] = ""
