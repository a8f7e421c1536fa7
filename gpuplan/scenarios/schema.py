"""Which JSON Schema describes a file of scenarios, for editors? Made of those of the questions."""

from __future__ import annotations

from typing import Any

from gpuplan.plan.signature import described
from gpuplan.scenarios.asks import QUESTIONS, options_of
from gpuplan.scenarios.file import FORMAT

_REQUIRE = {
    "description": "What must hold of the answer, such as `fits and ttft_s < 500 ms`; one assertion or a list of them",
    "anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}}],
}
_ABOUT = {"description": "What it is for; nothing reads it", "type": "string"}


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a file of scenarios."""
    questions = {ask: described(options_of(ask)) for ask in QUESTIONS}
    every = {key: one for properties in questions.values() for key, one in properties.items()}
    shared = {key: {"description": one.get("description", "")} for key, one in every.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenarios for `gpuplan run`",
        "type": "object",
        "properties": {
            "format": {"description": "The version of the format", "const": FORMAT},
            "defaults": {
                "description": "Options of every scenario whose question has them; its own win, and `null` there takes one away",
                "type": "object",
                "properties": {
                    "ask": {"enum": list(QUESTIONS)},
                    "about": _ABOUT,
                    "require": _REQUIRE,
                    "sweep": _sweep(shared),
                    **shared,
                },
                "additionalProperties": False,
            },
            "scenarios": {
                "description": "The questions by name",
                "type": "object",
                "minProperties": 1,
                "additionalProperties": {"anyOf": [_scenario(task, one) for task, one in questions.items()]},
            },
        },
        "required": ["format", "scenarios"],
        "additionalProperties": False,
    }


def _scenario(task: str, properties: dict[str, Any]) -> dict[str, Any]:
    options = {
        key: {"anyOf": [one, {"type": "null"}], "description": one.get("description", "")} for key, one in properties.items()
    }
    return {
        "title": f"A question to `gpuplan {task}`",
        "type": "object",
        "properties": {
            "ask": {"description": "Which question: a command", "const": task},
            "about": _ABOUT,
            "sweep": _sweep(properties),
            "require": _REQUIRE,
            **options,
        },
        "additionalProperties": False,
    }


def _sweep(properties: dict[str, Any]) -> dict[str, Any]:
    lists = {
        key: {"type": "array", "minItems": 1, "items": {name: value for name, value in one.items() if name != "description"}}
        for key, one in properties.items()
    }
    return {
        "description": "Options with several values: every combination is asked",
        "type": "object",
        "properties": lists,
        "additionalProperties": False,
    }
