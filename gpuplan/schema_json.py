"""Which JSON Schema describes a record of a data file? Made by pydantic of models that say the same as the record's annotations."""

from __future__ import annotations

import inspect
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model
from pydantic.json_schema import GenerateJsonSchema

from gpuplan.schema import Limits, Pattern, Schema, annotation, default_of, docs, required

_ANY_OF: Any = Union
_GENERIC: dict[Any, Any] = {tuple: tuple, dict: dict}


class _Plain(GenerateJsonSchema):
    def get_title_from_name(self, name: str) -> str:
        return name


def json_schema(cls: type[Schema]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a kind of file; the docstring below an attribute describes its key."""
    models: dict[type[Schema], type[BaseModel]] = {}
    made = _model(cls, models).model_json_schema(schema_generator=_Plain)
    for one in models:
        keys = (made if one is cls else made["$defs"][one.__name__])["properties"]
        for name, text in docs(one).items():
            keys[name] = dict(sorted({**keys[name], "description": text}.items()))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _model(cls: type[Schema], done: dict[type[Schema], type[BaseModel]], tag: str = "") -> type[BaseModel]:
    """The same as a pydantic model; `tag` is the key that tells it from the others of a union, and cannot be left out."""
    if cls not in done:
        fields: dict[str, Any] = {}
        for name in cls.field_names():
            default = ... if name == tag or required(cls, name) else default_of(cls, name)
            about = Field(default_factory=dict) if default == {} or isinstance(default, Schema) else Field(default)
            fields[name] = (_kind(annotation(cls, name), done), about)
        config = ConfigDict(extra="forbid")
        done[cls] = create_model(cls.__name__, __config__=config, __doc__=inspect.getdoc(cls), **fields)
    return done[cls]


def _kind(kind: Any, done: dict[type[Schema], type[BaseModel]]) -> Any:
    """The annotation with pydantic's models and constraints in place of ours."""
    args, origin = get_args(kind), get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, Schema):
        return _model(kind, done)
    if origin is Annotated:
        return _marked(_kind(args[0], done), args[1:]) if not hasattr(args[1], "json_schema") else _own(args[1])
    if origin in (Union, UnionType):
        some = [one for one in args if one is not type(None)]
        if len(some) == 1:
            either = _kind(some[0], done)
        else:
            either = Annotated[_ANY_OF[tuple(_model(one, done, "kind") for one in some)], Field(discriminator="kind")]
        return _ANY_OF[either, None] if len(some) < len(args) else either
    if origin in (tuple, dict):
        return _GENERIC[origin][tuple(one if one is ... else _kind(one, done) for one in args)]
    return kind


def _own(mark: Any) -> Any:
    return Annotated[Any, WithJsonSchema(mark.json_schema())]


def _marked(kind: Any, marks: tuple[Any, ...]) -> Any:
    for mark in marks:
        if isinstance(mark, Pattern):
            kind = Annotated[kind, Field(pattern=mark.regex)]
        elif isinstance(mark, Limits) and kind is int:
            kind = Annotated[kind, Field(ge=mark.least, le=mark.most)]
        elif isinstance(mark, Limits):
            kind = Annotated[kind, Field(min_length=mark.least, max_length=mark.most)]
    return kind
