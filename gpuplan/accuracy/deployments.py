"""How many workers of each kind had published runs whose rows say no more than the ranks of one, and what were they told?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpuplan.accuracy.rows import Row
from gpuplan.files.read import text_of
from gpuplan.record import Record
from gpuplan.strict_yaml import parse_any

FILE = Path(__file__).with_name("deployments.yaml")
_WORKERS = re.compile(r"^(\d+)x(tp|tep|dp|dep)(\d+)$")
_NUMBER = re.compile(r"-(\d+)$")
LAST = "9"
"""Behind every day."""


class Workers(Record, kw_only=True):
    """Workers of one kind, and how the ranks of one of them are divided."""

    workers: int
    ranks: int
    apart: bool
    """Whether each rank attends for requests of its own."""
    whole: bool
    """Whether experts lie on ranks whole."""

    @classmethod
    def read(cls, text: str) -> Workers:
        """As a line of the file says it.

        >>> Workers.read("3xtep8")
        Workers(workers=3, ranks=8, apart=False, whole=True)
        """
        found = _WORKERS.match(text)
        if found is None:
            raise ValueError(f"no workers: {text}")
        kind = found[2]
        return cls(workers=int(found[1]), ranks=int(found[3]), apart=kind.startswith("d"), whole=kind.endswith("ep"))

    def division(self) -> dict[str, int]:
        """The same in the words of a row's worker; ranks that attend apart share the experts, which no plan cuts otherwise."""
        sharing = self.ranks if self.apart or self.whole else 1
        tp, dp = (1, self.ranks) if self.apart else (self.ranks, 1)
        return {"workers": self.workers, "tp": tp, "pp": 1, "dp": dp, "ep": sharing}

    def is_of(self, said: Mapping[str, Any]) -> bool:
        """Whether a row's worker may be one of these: it has as many ranks, and as many workers where it says so."""
        return int(said.get("tp") or 1) * int(said.get("dp") or 1) == self.ranks and said.get("workers") in (None, self.workers)


class Deployment(Record, kw_only=True):
    """Workers of both kinds, and the runs that were theirs."""

    engine: str
    of: Mapping[str, Any]
    """Model, beginning of the accelerator's name, weights, and the lengths of prompts and outputs."""
    reads: Workers
    writes: Workers
    users: tuple[int, ...]
    since: str
    until: str = LAST
    drafts: int = 0
    places: int | None = None
    tokens: int | None = None
    image: str = ""
    rows: tuple[tuple[int, int], ...] = ()

    def fits(self, row: Row) -> bool:
        """Whether a row's run may have been its."""
        run, of = row.run, self.of
        reads, writes = run.get("prefill"), run.get("decode")
        return (
            row.engine == self.engine
            and row.model.get("id") == of["model"]
            and str(row.hardware.get("accelerator")).startswith(of["on"])
            and (run.get("weights"), run.get("input_len"), run.get("output_len")) == (of["weights"], of["prompt"], of["output"])
            and run.get("concurrency") in self.users
            and str(run.get("measured_on") or "") >= self.since
            and isinstance(reads, Mapping) and isinstance(writes, Mapping)
            and self.reads.is_of(reads) and self.writes.is_of(writes)
            and (self.reads.whole == (int(reads.get("ep") or 1) > 1))
            and (not self.image or "image" not in run or str(run["image"]).endswith(self.image))
        )  # fmt: skip

    def names(self, row: Row) -> bool:
        """Whether the row is one of those that are told apart by their numbers."""
        found = _NUMBER.search(row.id)
        return found is not None and any(first <= int(found[1]) <= last for first, last in self.rows)

    def settings(self) -> dict[str, Any]:
        """The options of `gpuplan serve` that it set; all of them kept caches in 8 bits."""
        made: dict[str, Any] = {"kv_cache": "fp8"}
        if self.drafts:
            made |= {"draft": "mtp", "draft_tokens": self.drafts}
        return made | {
            name: value
            for name, value in (("max_sequences", self.places), ("max_batched_tokens", self.tokens))
            if value is not None
        }


def deployment_of(row: Row) -> Deployment | None:
    """The deployment that a row's run was of; None: none on record has its ranks, lengths and users.

    Of several, those that name the row come first, then those that were there on its day, then those that draft where the row's
    sweep was of drafts alone.
    """
    found = [one for one in _deployments().get(row.repo, ()) if one.fits(row)]
    day = str(row.run.get("measured_on") or "")
    return min(found, key=lambda one: (not one.names(row), bool(one.rows), one.until < day, -int(one.since <= day)), default=None)


@cache
def _deployments() -> Mapping[str, list[Deployment]]:
    """The deployments on record by the repository that their rows are read in."""
    data: Any = parse_any(text_of(FILE), str(FILE))
    made = [one for group in data["deployments"] for one in _read(group)]
    return {str(repo): made for repo in data["repos"]}


def _read(group: Mapping[str, Any]) -> Iterator[Deployment]:
    for run in group["runs"]:
        given = {name: value for name, value in run.items() if name in ("drafts", "places", "tokens", "image")}
        yield Deployment(
            engine=str(group["engine"]), of=group["of"], reads=Workers.read(run["reads"]), writes=Workers.read(run["writes"]),
            users=tuple(run["users"]), since=str(run["since"]), until=str(run.get("until", LAST)),
            rows=tuple((int(first), int(last)) for first, last in run.get("rows", ())), **given,
        )  # fmt: skip
