"""One question to several machines, as `gpuplan compare` asks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.search.variants import Axis, answers, variants


def compared(
    task: str, given: Mapping[str, Any], places: Sequence[str], *, advise: bool = False
) -> dict[str, Estimate | GpuplanError]:
    """The answer or the error of each machine."""
    return answers(task, variants(given, [Axis.of(task, "on", places)]), advise=advise)
