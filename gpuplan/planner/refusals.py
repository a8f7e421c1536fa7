"""Why could some machines not be estimated for? One sentence for each kind of reason, with how many and the first of them."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.errors import GpuplanError, Note


def refusals(refused: Mapping[str, GpuplanError]) -> tuple[Note, ...]:
    """A note for each kind of error of machines by name, the most frequent first."""
    kinds: dict[str, list[str]] = {}
    for name, error in refused.items():
        kinds.setdefault(error.problems[0].code, []).append(name)
    made: list[Note] = []
    for names in sorted(kinds.values(), key=len, reverse=True):
        more = f" (so do {len(names) - 1:,} more)" if len(names) > 1 else ""
        made.append(Note("plan.refused", f"{names[0]} lacks data{more}: {refused[names[0]].problems[0].message}"))
    return tuple(made)
