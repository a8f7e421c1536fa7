"""No value of an option that a user may leave open, forced, serves faster than the default, with the credit of what surely fits.

Where it is searched how experts are shared, the plainest of the plans that are nearly as fast is the default: that much is allowed.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered
from gpuplan.search.serving_judges import AS_PLAIN, FITS, SURELY, credit
from tests.sweeps import thinned

QUESTIONS: list[tuple[str, str, str | None]] = [
    ("llama-3.1-8b", "h100", None), ("llama-3.1-8b", "8xh100", None), ("llama-3.1-8b", "4xrtx-4090", None),
    ("llama-3.1-8b", "2xt4", None), ("llama-3.1-8b", "8xl4", "sglang"), ("llama-3.1-8b", "4xa100-pcie-80gb", "tensorrt-llm"),
    ("llama-3.1-70b", "8xh100", None), ("llama-3.1-70b", "4xh100", "tensorrt-llm"), ("llama-3.1-70b", "8xa100-sxm-80gb", "sglang"),
    ("llama-3.1-70b", "4xa100-pcie-80gb", "tensorrt-llm"), ("llama-3.1-70b", "8xl40s", None), ("llama-3.1-70b", "16xh100", None),
    ("llama-3.1-405b", "16xh100", None), ("llama-3.1-405b", "8xh200", None), ("qwen3-32b", "8xl40s", None),
    ("qwen3-32b", "4xrtx-4090", None), ("qwen3-32b", "2xh100", "sglang"), ("qwen2.5-72b", "8xmi300x", None),
    ("mixtral-8x7b", "8xa100-sxm-80gb", None), ("mixtral-8x7b", "4xh100", "tensorrt-llm"), ("deepseek-v3", "8xh200", None),
    ("deepseek-v3", "16xh100", "sglang"), ("qwen3-30b-a3b", "4xl40s", None), ("qwen3-235b-a22b", "8xh200", "sglang"),
    ("gpt-oss-120b", "4xh100", None), ("gpt-oss-20b", "2xrtx-4090", None), ("gemma-3-27b", "6xa100-sxm-80gb", None),
    ("mistral-7b-v0.3", "2xv100-sxm2-32gb", None), ("phi-4", "8xb200", None), ("mamba2-2.7b", "2xdgx-h100", None),
    ("llama-2-13b", "3xrtx-3090", "llama-cpp"), ("flan-t5-xl", "4xl4", None), ("whisper-large-v3", "2xl4", None),
    ("llama-3.1-8b", "tpu-v5e-8", None), ("qwen3-next-80b-a3b", "8xh100", None),
]  # fmt: skip
DEGREES = (1, 2, 3, 4, 6, 8, 16)


def ask(model: str, on: str, engine: str | None, **more: Any) -> Estimate | None:
    try:
        return answered("serve", {"model": model, "on": on, "engine": engine, **more}, advise=False, keep=True)
    except GpuplanError:
        return None


def fits(made: Estimate) -> bool:
    return made.verdict.fits


def sequences(made: Estimate) -> float:
    """How many all replicas run at once: with one user each, three replicas serve three users and are no faster for one."""
    return float(made.question["batch"]) * float(made.question.get("dp", 1))


def speed(made: Estimate) -> float:
    """Tokens a second, with the credit of a plan that fits beyond doubt."""
    sure = SURELY if made.verdict.fits and not made.verdict.narrowly else FITS
    return float(made.figures["tokens_per_s"].value) * float(credit(sure))  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "on", "engine"), thinned(QUESTIONS, every=9), ids=str)
def test_no_forced_option_beats_the_default(model: str, on: str, engine: str | None) -> None:
    default = ask(model, on, engine)
    assert default is not None
    batch = int(float(default.question["batch"]))
    forced: list[dict[str, Any]] = [{name: degree} for name in ("tp", "pp") for degree in DEGREES]
    forced += [{"batch": max(round(batch * share), 1)} for share in (0.125, 0.5, 0.75)]
    near = AS_PLAIN if any("the plainest" in one.reason for one in default.chosen) else 1.0
    beaten = []
    for one in forced:
        made = ask(model, on, engine, **one)
        if batch == 1 and made is not None and sequences(made) > 1:
            continue
        if made is not None and (fits(made), near * speed(made)) > (fits(default), speed(default) * 1.005):
            beaten.append((one, fits(made), speed(made), fits(default), speed(default)))
    assert beaten == []
