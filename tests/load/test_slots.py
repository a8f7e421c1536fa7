"""llama.cpp and MLX LM under a load: a request that finds no slot free waits for one, and few users share what one has."""

from __future__ import annotations

import pytest

import gpuplan

ASKED = {"prompt": 1024, "output": 256}


def test_users_beyond_the_slots_wait() -> None:
    few = gpuplan.serve("llama-3.1-8b", on="rtx-3090", engine="llama-cpp", concurrency=4, **ASKED).figures
    many = gpuplan.serve("llama-3.1-8b", on="rtx-3090", engine="llama-cpp", concurrency=16, **ASKED).figures
    assert many["tpot_s"].value == pytest.approx(few["tpot_s"].value, rel=0.05)
    assert many["tokens_per_s"].value == pytest.approx(few["tokens_per_s"].value, rel=0.05)
    # Twelve of sixteen wait; each waits for three rounds of four.
    assert many["ttft_s"].value > 2.5 * few["e2e_s"].value
    more = gpuplan.serve("llama-3.1-8b", on="rtx-3090", engine="llama-cpp", concurrency=16, max_sequences=16, **ASKED).figures
    assert more["ttft_s"].value < many["ttft_s"].value / 3


@pytest.mark.parametrize(("engine", "on"), [("llama-cpp", "rtx-3090"), ("mlx-lm", "m4-max")])
def test_one_user_at_a_time_has_what_an_idle_replica_gives(engine: str, on: str) -> None:
    idle = gpuplan.serve("llama-3.1-8b", on=on, engine=engine, batch=1, **ASKED).figures
    alone = gpuplan.serve("llama-3.1-8b", on=on, engine=engine, concurrency=1, **ASKED).figures
    assert alone["ttft_s"].value == pytest.approx(idle["ttft_s"].value, rel=0.1)
    assert alone["tpot_s"].value == pytest.approx(idle["tpot_s"].value, rel=0.1)


@pytest.mark.parametrize(("engine", "on"), [("llama-cpp", "rtx-3090"), ("mlx-lm", "m4-max")])
def test_the_formulas_agree_with_the_simulation(engine: str, on: str) -> None:
    asked = {**ASKED, "on": on, "engine": engine, "concurrency": 4, "requests": 200}
    said, simulated = (gpuplan.serve("llama-3.1-8b", **asked, simulate=one).figures for one in (None, True))
    assert said["tokens_per_s"].value == pytest.approx(simulated["tokens_per_s"].value, rel=0.12)
