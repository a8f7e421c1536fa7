"""What does a new spec file look like, with `"?"` where somebody must look something up?"""

from __future__ import annotations

import re
from pathlib import Path

from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.files.read import text_of
from gpuplan.files.write import component
from gpuplan.record import Record

DRAFTS = Path(__file__).parent / "drafts"
PLACES = {
    "accelerator": "accelerators/{maker}/{id}.yaml", "system": "systems/{id}.yaml", "instance": "instances/{maker}/{id}.yaml",
    "price": "prices/{id}.yaml", "model": "models/{id}.yaml",
}  # fmt: skip
"""Where the file of a kind stands in a specs folder."""
_MADE = {"accelerator": "VENDOR", "instance": "PROVIDER"}
"""Kinds whose names carry who makes or rents them."""


class NewFile(Record):
    """A file to be filled in: where it belongs in a specs folder, and its text."""

    place: str
    text: str


def new_file(kind: str, name: str, today: str) -> NewFile:
    """The draft of a file of a kind; `name` is its id, `VENDOR/ID` for an accelerator, `PROVIDER/FAMILY` for instances.

    >>> new_file("model", "nova-7b", "2026-11-23").place
    'models/nova-7b.yaml'

    Raises:
        UsageError: no such kind, or a name that no file can have.
    """
    if kind not in PLACES:
        hint = did_you_mean(kind.removesuffix("s"), PLACES) or f"there are {', '.join(PLACES)}"
        raise UsageError(Problem("usage.word", f"no draft of a `{kind}`", hint))
    maker, slash, ident = name.rpartition("/")
    if bool(slash) != (kind in _MADE):
        form = f"{_MADE[kind]}/ID" if kind in _MADE else "ID"
        what = f"the name of a new {kind} is {form}, not `{name}`"
        raise UsageError(Problem("usage.name", what, f"gpuplan specs new {kind} {_meant(kind, name)}"))
    for part in (maker, ident) if slash else (ident,):
        try:
            component(part, f"the name of a new {kind}")
        except UsageError as error:
            (problem,) = error.problems
            hint = f"{problem.hint}: gpuplan specs new {kind} {_meant(kind, name)}"
            raise UsageError(Problem(problem.code, problem.message, hint)) from None
    text = text_of(DRAFTS / f"{kind}.yaml")
    for mark, value in (("{id}", ident), ("{maker}", maker), ("{today}", today)):
        text = text.replace(mark, value)
    return NewFile(PLACES[kind].format(id=ident, maker=maker), text)


def _meant(kind: str, name: str) -> str:
    """A name that a file can have, nearest to one that none can.

    >>> [_meant("model", "acme/My Model 7B"), _meant("instance", "acme:nova.8"), _meant("accelerator", "Nova 96GB")]
    ['my-model-7b', 'acme/nova.8', 'VENDOR/nova-96gb']
    """
    maker, _, ident = name.replace(":", "/").rpartition("/")
    maker, ident = (re.sub(r"[^a-z0-9._]+", "-", one.lower()).strip("-._") for one in (maker, ident))
    ident = ident or "nova"
    return f"{maker or _MADE[kind]}/{ident}" if kind in _MADE else ident
