"""With which settings did the published benchmarks run, whose recipes stand beside their results and not in their rows?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from math import floor, isqrt
from pathlib import Path
from typing import Any

from gpuplan.accuracy.rows import Row
from gpuplan.files.read import text_of
from gpuplan.record import Record
from gpuplan.strict_yaml import parse_any

FILE = Path(__file__).with_name("recipes.yaml")
RANKS = 8
"""Accelerators of a server of these benchmarks at most."""


class PassTokens(Record, kw_only=True):
    """Tokens of a pass at most, as a recipe counts them from its requests."""

    users: float = 0.0
    """Tokens for each request in flight."""
    prompts: float = 1.0
    """Longest prompts."""
    more: int = 0
    multiple: int = 1
    least: int = 0

    def of(self, users: int, prompt: int) -> int:
        """The tokens, for prompts of at most so many.

        >>> PassTokens(users=1, more=127, multiple=64).of(64, 1024), PassTokens(prompts=2).of(64, 1024)
        (1152, 2048)
        """
        return max(floor((self.users * users + self.prompts * prompt + self.more) / self.multiple) * self.multiple, self.least)


class Recipe(Record, kw_only=True):
    """Settings of the runs that a recipe made: those of whom all that is said here is true."""

    engine: str
    """Beginning of its name and release."""
    models: tuple[str, ...]
    on: tuple[str, ...] = ("",)
    """Beginnings of the names of accelerators."""
    weights: tuple[str, ...] = ()
    since: str = ""
    until: str = "9"
    """The last day that it is true of."""
    users: tuple[int, int] = (0, 1 << 30)
    """Requests in flight, from the first number up to below the second."""
    lengths: tuple[tuple[int, int], ...] = ()
    tp: tuple[int, ...] = ()
    ep: tuple[int, ...] = ()
    shares: bool | None = None
    """Whether ranks of attention share the experts; None: either."""
    ids: str = ""
    """Beginning of the rows' names."""
    takes: Mapping[str, Any] = {}
    """Options by name."""
    pass_tokens: PassTokens | None = None
    sequences_of_users: bool = False
    """As many sequences at once as there are users, at most."""

    def fits(self, row: Row) -> bool:
        """Whether it made a row's run."""
        run, users = row.run, row.run.get("concurrency")
        day = str(run.get("measured_on") or "")
        return (
            row.engine.startswith(self.engine)
            and row.model.get("id") in self.models
            and str(row.hardware.get("accelerator")).startswith(self.on)
            and (not self.weights or run.get("weights") in self.weights)
            and (not self.since or self.since <= day <= self.until)
            and isinstance(users, int) and self.users[0] <= users < self.users[1]
            and (not self.lengths or (run.get("input_len"), run.get("output_len")) in self.lengths)
            and (not self.tp or run.get("tp") in self.tp)
            and (not self.ep or (run.get("ep") or 1) in self.ep)
            and (self.shares is None or self.shares == ((run.get("dp") or 1) > 1))
            and row.id.startswith(self.ids)
        )  # fmt: skip

    def of(self, row: Row) -> dict[str, Any]:
        """The options of a run that it made."""
        made = dict(self.takes)
        if self.pass_tokens is not None:
            made["max_batched_tokens"] = self.pass_tokens.of(row.run["concurrency"], row.run["input_len"])
        if self.sequences_of_users:
            made["max_sequences"] = row.run["concurrency"]
        return made


def settings_of(row: Row) -> dict[str, Any]:
    """The options of `gpuplan serve` that the recipes of a row's source say: of two that say the same one, the later."""
    made: dict[str, Any] = {}
    for recipe in _recipes().get(row.repo, ()):
        if recipe.fits(row):
            made |= recipe.of(row)
    return made


def with_its_size(row: Row) -> Row:
    """The row with the ranks of its server, where its source multiplied them with themselves.

    AIConfigurator's sample has N ranks with experts or attention of each rank's own as `tp` or `dp` of N x N, or as N in both, and
    no number of accelerators beside: InferenceX ran each of them on one server.
    """
    run = row.run
    tp, dp = int(run.get("tp") or 1), int(run.get("dp") or 1)
    ranks = isqrt(tp * dp)
    if row.repo not in _recipes() or row.hardware.get("count") or ranks * ranks != tp * dp or not 1 < ranks <= RANKS:
        return row
    if dp == 1 and int(run.get("ep") or 1) == ranks:
        return row.replaced(run={**run, "tp": ranks})
    if dp > 1 and tp in (1, dp):
        return row.replaced(run={**run, "tp": 1, "dp": ranks, "ep": ranks})
    return row


@cache
def _recipes() -> Mapping[str, list[Recipe]]:
    """The recipes on record by the repository that their rows are read in."""
    data: Any = parse_any(text_of(FILE), str(FILE))
    made: dict[str, list[Recipe]] = {}
    for one in data["sources"]:
        for repo in one["repos"]:
            made.setdefault(repo, []).extend(_read(one["recipes"]))
    return made


def _read(entries: Iterable[Mapping[str, Any]]) -> Iterable[Recipe]:
    for entry in entries:
        given = {name: value for name, value in entry.items() if name != "source"}
        for name in ("models", "on", "weights", "users", "tp", "ep"):
            if name in given:
                given[name] = tuple(given[name])
        if "lengths" in given:
            given["lengths"] = tuple((int(prompt), int(output)) for prompt, output in given["lengths"])
        if "pass_tokens" in given:
            given["pass_tokens"] = PassTokens(**given["pass_tokens"])
        yield Recipe(**given)
