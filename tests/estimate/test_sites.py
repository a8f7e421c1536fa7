"""Several sites with lines between them, and more accelerators than anybody has published a run of."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.planned import Planned
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.ask import planned
from gpuplan.search.ask import train

GBIT = 1e9 / 8
HALVES: dict[str, Any] = {"model": "llama-3.1-8b", "on": "64xh100-sxm-80gb@roce-400", "tp": 1, "pp": 1, "cp": 1}
DILOCO = {"sync_every": 100, "shard_group": 32, "zero_stage": 1}


def asked(**given: Any) -> Estimate:
    return train(TrainAsk(**HALVES | given), advise=False)


def step(made: Estimate) -> float:
    return float(made.figures["step_time_s"].value)


def part(made: Estimate, name: str) -> float:
    return sum(float(one.value) for one in made.breakdowns[0].parts if one.name.endswith(f".{name}"))


@pytest.mark.parametrize("gbits", [10, 100, 400])
def test_averaging_over_sites_takes_what_is_published(gbits: float) -> None:
    """Appendix A of Scaling Laws for DiLoCo (arXiv 2503.09799): 2 N / W x (1 - 1 / R) a synchronisation, N in bits of bfloat16.

    The paper has lines that carry their whole rate; a collective of ours reaches the share that networks were measured at.
    """
    made = asked(sites=2, wan=gbits * GBIT, **DILOCO)
    params = 8.03e9
    published = 2 * params * 2 / (gbits * GBIT) * (1 - 1 / 2)
    assert 1.0 <= 100 * part(made, "averaging") / published <= 1.5


def test_thin_lines_cost_time_and_seldom_averages_save_it() -> None:
    one, thick, thin = asked(), asked(sites=2, wan=3200 * GBIT), asked(sites=2, wan=10 * GBIT)
    assert 0.99 * step(one) <= step(thick) < step(thin)  # in steps of a hierarchy, which overlap
    assert step(asked(sites=2, wan=10 * GBIT, **DILOCO)) < 0.5 * step(thin)
    late = asked(sites=2, wan=10 * GBIT, wan_latency=0.5, **DILOCO)
    assert step(late) > step(asked(sites=2, wan=10 * GBIT, **DILOCO))


def test_lines_as_thick_as_the_ports_are_no_narrows() -> None:
    """32 accelerators of a site have 32 ports of 400 Gbit/s."""
    assert step(asked(sites=2, wan=32 * 400 * GBIT)) == pytest.approx(step(asked()), rel=1e-3)


def test_replicas_stay_inside_of_a_site_where_that_is_faster() -> None:
    """Gemini (arXiv 2312.11805, 3) divides models inside of a superpod and averages gradients between them and their sites."""
    made = asked(sites=2, wan=100 * GBIT, tp=None, pp=None, cp=None)
    free = asked(sites=2, wan=100 * GBIT, tp=4, pp=4, cp=1, stages_inside=False)
    assert step(made) <= step(free)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sites": 3, "wan": 1e9}, "--sites 3: .* in nodes of 8"),
        ({"sites": 2}, "--wan is not said"),
        ({"wan": 1e9}, "--sites is not said"),
        ({"sites": 2, "wan": 1e9, "on": "8xh100-sxm-80gb"}, "nodes of 8"),
    ],
)
def test_what_cannot_be_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(GpuplanError, match=said):
        asked(**given)


def test_beyond_published_runs_the_range_is_wider_and_says_why() -> None:
    run = {"model": "llama-3.1-405b", "tokens": 15.6e12, "tp": 8, "pp": 16, "cp": 1, "global_batch": 2048}
    largest = asked(**run, on="16384xh100-sxm-80gb@roce-400")
    larger = asked(**run | {"global_batch": 12288}, on="98304xh100-sxm-80gb@roce-400")

    def reach(made: Estimate) -> float:
        return made.ranges["step_time_s"][1] / step(made)

    assert reach(larger) > 1.005 * reach(largest)
    assert part(larger, "beyond_measured") == 0.0, "what nobody knows makes nothing longer, but the range wider"
    notes = {note.code: note.text for note in larger.notes}
    assert "16,384 of the largest run" in notes["run.extrapolated"]
    assert "run.extrapolated" not in {note.code for note in largest.notes}
    assert "step.beyond_measured" not in {one.name for one in largest.breakdowns[0].parts}


def test_a_hundred_thousand_accelerators_are_planned_as_they_are_trained_on() -> None:
    """No powers of two alone divide 100,000 accelerators and the sequences of a step."""
    made = planned("plan train", {"model": "llama-3.1-405b", "on": "100000xh100-sxm-80gb", "tokens": "15T", "repair": "1d"})
    assert isinstance(made, Planned)
    alone = train(TrainAsk(model="llama-3.1-405b", on="100000xh100-sxm-80gb", tokens=15e12), advise=False)
    assert made.best[0].figures["wall_time_s"] == float(alone.figures["wall_time_s"].value)
    assert any("spare ones" in note.text for note in made.notes)
