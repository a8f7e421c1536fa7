"""What the host adds to a first token where nothing hides it: launches of long passes, and steps that were put together before."""

from typing import Any

import pytest

import gpuplan


def _asked(**said: Any) -> Any:
    given = {"engine": "vllm", "concurrency": 1, "output": 128} | said
    return gpuplan.serve(given.pop("model", "smollm2-135m"), on=given.pop("on", "h100"), advise=False, **given).estimate


def _value(made: Any, name: str) -> float:
    term = made.figures[name] if name in made.figures else made.find(name)
    assert term is not None, name
    return float(term.value)


def test_only_passes_longer_than_any_graph_are_issued() -> None:
    """SmolLM2 135M on H100: 9 to 13 ms with 256 tokens in and 15 to 21 with 1,024, which take 1 ms more of the accelerator."""
    within, beyond = _asked(prompt=512), _asked(prompt=513)
    assert _value(within, "prompt_step.issue_wait") == 0.0
    issued = 30 * _value(beyond, "engine.prompt_host")
    assert _value(beyond, "prompt_step.issue_wait") == pytest.approx(issued - _value(beyond, "prompt_step.busy"))
    assert _value(_asked(prompt=256), "ttft_s") == pytest.approx(0.011, rel=0.25)
    assert _value(_asked(prompt=1024), "ttft_s") == pytest.approx(0.019, rel=0.25)


def test_prompts_that_keep_the_accelerator_busy_wait_for_no_launches() -> None:
    assert _value(_asked(model="llama-3.1-70b", on="4xh100", prompt=8192), "prompt_step.issue_wait") == 0.0


@pytest.mark.parametrize("simulate", [False, True])
def test_a_request_waits_for_the_step_that_was_put_together(simulate: bool) -> None:
    """vLLM puts a step together while the one before it runs, since 0.14; alone, a request waits for none."""
    hosts = {"engine.step_host": 6e-4, "engine.request_host": 7.5e-3}  # which differ between the releases too
    releases = (("vllm@0.14.0", hosts), ("vllm@0.13.0", hosts | {"engine.sequence_host": 0.0}))  # of which 0.14 has none
    said = {"model": "llama-3.1-8b", "prompt": 512, "output": 512, "output_spread": 0.3, "simulate": simulate}
    new, old = (_asked(engine=engine, concurrency=16, set=pins, **said) for engine, pins in releases)
    apart = _value(new, "ttft_s") - _value(old, "ttft_s")
    assert apart == pytest.approx(_value(new, "itl_s"), rel=0.4)
    alone = [_value(_asked(engine=engine, set=pins, **said), "ttft_s") for engine, pins in releases]
    assert alone[0] == pytest.approx(alone[1])
