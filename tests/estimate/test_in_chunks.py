"""When an engine cuts prompts that it usually reads whole."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered

LOAD: dict[str, Any] = {"on": "h100-sxm-80gb", "prompt": 10_000, "output": 200, "concurrency": 16}


def passes(model: str, **given: Any) -> tuple[float, float]:
    """Passes of a prompt, and tokens of a pass at most."""
    made = answered("serve", {"model": model, **LOAD, **given}, advise=False, keep=True)
    assert isinstance(made, Estimate)
    count, most = made.find("load.passes"), made.find("engine.max_batched_tokens")
    assert count is not None
    assert most is not None
    return float(count.value), float(most.value)


@pytest.mark.parametrize(
    ("engine", "given", "tokens", "cut"),
    [
        ("vllm@0.5.3", {"max_context": 131_072}, 2048, False),
        ("vllm@0.6.3", {"max_context": 131_072}, 512, True),
        ("vllm@0.6.3", {"prompt": 40_000}, 512, True),
        ("vllm@0.6.6", {"max_context": 131_072}, 2048, True),
        ("vllm@0.6.6", {"max_context": 32_768}, 2048, False),
        ("vllm@0.6.6", {}, 2048, True),  # the model's own 131,072, where nobody says another
        ("vllm@0.6.6", {"on": "l4"}, 2048, False),  # whose caches hold no such sequence: it must have been made shorter
        ("vllm@0.6.6", {"chunked_prefill": True}, 2048, True),
        ("vllm@0.6.6", {"max_context": 131_072, "chunked_prefill": False}, 2048, False),
        ("vllm@0.6.6", {"max_context": 131_072, "recv_interval": 10}, 2048, False),
    ],
)
def test_long_limits_are_read_in_chunks(engine: str, given: dict[str, Any], tokens: int, *, cut: bool) -> None:
    """V0 cuts prompts where a sequence may have more than 32,768 tokens, since 0.5.4: 512 a pass at most, 2,048 since 0.6.5."""
    count, room = passes("llama-3.1-8b", engine=engine, **given)
    assert room == tokens
    assert (count > 1) is cut
