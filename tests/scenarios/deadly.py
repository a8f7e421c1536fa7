"""A worker's answer that ends the worker, for one question: imported by workers."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

from gpuplan.scenarios import cluster
from gpuplan.scenarios.alike import Setting

answer = cluster.answer_chunk


def answer_chunk(chunk: Sequence[tuple[Any, ...]], setting: Setting, data: str) -> dict[str, Any]:
    if any("batch 2" in one[0] and "h100" in one[0] for one in chunk):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer(chunk, setting, data)
