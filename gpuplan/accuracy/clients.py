"""What does the client of a published benchmark do that its rows do not say: how many requests, and how even are they?"""

from __future__ import annotations

from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any

from gpuplan.accuracy.rows import Row
from gpuplan.files.read import text_of
from gpuplan.record import Record
from gpuplan.strict_yaml import parse_any

FILE = Path(__file__).with_name("clients.yaml")


class Client(Record, kw_only=True):
    """How the client of a source loads an engine."""

    requests_of_user: int | None = None
    """Requests of a run over those in flight at once, which the first of them come as; None: rows say it, or nobody does."""
    shortest: float = 1.0
    """Lengths are drawn evenly from this share of those that are named, up to all of it."""
    spreads: tuple[float, float] | None = None
    """Standard deviations over the means of prompts and outputs whose rows tell the means; None: what `shortest` gives."""
    lengths: tuple[tuple[int, int], ...] = ()
    """Prompt and output of the runs that are this client's, where the source holds others too; none: any."""
    engines: tuple[str, ...] = ("",)
    """Beginnings of the names of engines, with their releases, that it loaded."""

    @property
    def mean(self) -> float:
        """The mean length over the one that is named."""
        return (1 + self.shortest) / 2

    @property
    def spread(self) -> float:
        """The standard deviation of lengths over their mean, drawn between `shortest` and the named ones."""
        return round((1 - self.shortest) / sqrt(12) / self.mean, 4)

    def load(self, prompt: float, output: float) -> dict[str, float]:
        """What it makes of a row's lengths: their means, how uneven they are, and the longest of both together."""
        if self.spreads is not None:
            return dict(zip(("prompt_spread", "output_spread"), self.spreads, strict=True))
        if self.shortest >= 1:
            return {"prompt_spread": 0.0, "output_spread": 0.0}
        lengths = {"prompt": round(prompt * self.mean), "output": max(round(output * self.mean), 1)}
        return {"context": int(prompt) + int(output), **lengths, "prompt_spread": self.spread, "output_spread": self.spread}


def client_of(row: Row) -> Client | None:
    """The client of a row's source; None: it is not on record, and what the row says is all that is known."""
    asked = row.run.get("input_len"), row.run.get("output_len")
    return next(
        (
            one for one in clients().get(row.repo, ())
            if (not one.lengths or asked in one.lengths) and row.engine.startswith(one.engines)
        ),
        None,
    )  # fmt: skip


@cache
def spread_of(dataset: str) -> float | None:
    """The standard deviation over the mean of the answers of a data set; None: it is not on record."""
    found: Any = parse_any(text_of(FILE), str(FILE))["datasets"].get(dataset)
    return None if found is None else float(found["output_spread"])


@cache
def clients() -> dict[str, list[Client]]:
    """The clients on record by the repository that their rows are read in."""
    data: Any = parse_any(text_of(FILE), str(FILE))
    made: dict[str, list[Client]] = {}
    for one in data["clients"]:
        client = Client(
            requests_of_user=None if (requests := one.get("requests_of_user")) is None else int(requests),
            shortest=float(one.get("shortest", 1.0)),
            spreads=None if (spreads := one.get("spreads")) is None else (float(spreads[0]), float(spreads[1])),
            lengths=tuple((int(prompt), int(output)) for prompt, output in one.get("lengths", ())),
            engines=tuple(str(name) for name in one.get("engines", ("",))),
        )
        for repo in one["repos"]:
            made.setdefault(str(repo), []).append(client)
    return made
