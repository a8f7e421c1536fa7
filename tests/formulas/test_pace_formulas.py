"""Do schedules, servers, queues, failures and meshes behave as counting, simulation and limits say?"""

from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.formulas.cost import accelerator_seconds, energy_joules, joules_per_token, run_usd, usd_per_million_tokens
from gpuplan.formulas.inference import experts_touched
from gpuplan.formulas.kernels import kernel_seconds
from gpuplan.formulas.pipeline import in_flight_1f1b
from gpuplan.formulas.reference.bounds import critical_tokens, matmul_critical_m
from gpuplan.formulas.reference.checkpoints import lost_fraction
from gpuplan.formulas.reference.mesh import (
    decode_tp_limit,
    fsdp_optimal_degree,
    fsdp_tp_critical_tokens,
    mesh_all_reduce_seconds,
    mesh_gather_seconds,
)
from gpuplan.formulas.reference.servers import speculative_tokens
from gpuplan.formulas.reliability import daly_interval_seconds, daly_wall_seconds, young_interval_seconds
from gpuplan.formulas.roofline import ridge_intensity
from gpuplan.formulas.training import bubble_seconds


def _simulate_1f1b(pp: int, micro_batches: int, forward: float, backward: float) -> tuple[float, list[int]]:
    """Time of a step and the most micro-batches held by each stage, from the schedule's order and the data dependencies alone."""
    done: dict[tuple[str, int, int], float] = {}
    orders: list[list[tuple[str, int]]] = []
    for stage in range(pp):
        warm_up = min(pp - stage - 1, micro_batches)
        order = [("f", i) for i in range(warm_up)]
        for i in range(micro_batches - warm_up):
            order += [("f", warm_up + i), ("b", i)]
        orders.append(order + [("b", i) for i in range(micro_batches - warm_up, micro_batches)])
    clock, place = [0.0] * pp, [0] * pp
    while any(place[stage] < len(orders[stage]) for stage in range(pp)):
        for stage in range(pp):
            while place[stage] < len(orders[stage]):
                kind, i = orders[stage][place[stage]]
                needs = [(kind, stage - 1, i)] if kind == "f" and stage else []
                needs += [(kind, stage + 1, i)] if kind == "b" and stage < pp - 1 else []
                if any(need not in done for need in needs):
                    break
                start = max([clock[stage], *(done[need] for need in needs)])
                clock[stage] = done[kind, stage, i] = start + (forward if kind == "f" else backward)
                place[stage] += 1
    held = []
    for order in orders:
        level = most = 0
        for kind, _ in order:
            level += 1 if kind == "f" else -1
            most = max(most, level)
        held.append(most)
    return max(clock), held


@pytest.mark.parametrize(("pp", "micro_batches"), [(1, 4), (2, 2), (4, 4), (4, 16), (8, 3), (8, 32)])
def test_1f1b_simulated(pp: int, micro_batches: int) -> None:
    seconds, held = _simulate_1f1b(pp, micro_batches, 1.0, 2.0)
    idle = bubble_seconds(stage=3.0, pp=pp, vpp=1)
    assert idle == pytest.approx(seconds - 3.0 * micro_batches)
    assert [in_flight_1f1b(pp=pp, stage=stage, micro_batches=micro_batches) for stage in range(pp)] == held


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(4, 2, 1), (4, 2, 3), (5, 1, 3)])
def test_experts_touched_by_enumeration(experts: int, top_k: int, tokens: int) -> None:
    choices = list(combinations(range(experts), top_k))
    touched = [len(set().union(*picks)) for picks in product(choices, repeat=tokens)]
    assert experts_touched(experts=experts, top_k=top_k, tokens=tokens) == pytest.approx(sum(touched) / len(touched))


@given(acceptance=st.floats(0.0, 0.99), draft=st.integers(1, 16))
def test_speculation_is_a_geometric_sum(acceptance: float, draft: int) -> None:
    tokens = speculative_tokens(acceptance=acceptance, draft_tokens=draft)
    assert tokens == pytest.approx(sum(acceptance**i for i in range(draft + 1)))


@given(save=st.floats(1, 600), ratio=st.floats(20, 5000))
def test_young_interval_loses_least(save: float, ratio: float) -> None:
    mtbf = save * ratio
    best = young_interval_seconds(save=save, mtbf=mtbf)
    least = lost_fraction(save=save, interval=best, mtbf=mtbf, restart=0.0)
    for other in (0.5, 0.9, 1.1, 2.0):
        assert lost_fraction(save=save, interval=best * other, mtbf=mtbf, restart=0.0) > least
    assert daly_interval_seconds(save=save, mtbf=mtbf) == pytest.approx(best, rel=0.35)
    # to first order the exact time of a run agrees with it
    wall = daly_wall_seconds(training=1.0, save=save, interval=best, mtbf=mtbf, restart=0.0)
    assert 1.0 - 1.0 / wall == pytest.approx(least, rel=0.25)


def test_daly_where_saving_takes_longer_than_runs() -> None:
    assert daly_interval_seconds(save=300.0, mtbf=100.0) == 100.0


@given(n=st.integers(512, 65536), k=st.integers(512, 65536))
def test_critical_m_is_where_compute_meets_memory(n: int, k: int) -> None:
    peak, bandwidth = 1e15, 3e12
    m = matmul_critical_m(n=n, k=k, input_bytes=1, weight_bytes=1, output_bytes=1, peak_flop_per_s=peak, bandwidth=bandwidth)
    if m > 0:  # narrower matrices never are bound by arithmetic
        moved = m * k + k * n + m * n
        assert 2 * m * n * k / peak == pytest.approx(moved / bandwidth)
        assert m >= critical_tokens(peak_flop_per_s=peak, bandwidth=bandwidth, weight_bytes=1)
        times = {"compute": 2 * m * n * k / peak, "memory": moved / bandwidth}
        assert kernel_seconds(**times, start=0.0, unhidden=0.0, residual=1.0) == pytest.approx(moved / bandwidth)
    assert ridge_intensity(peak_flop_per_s=peak, bandwidth=bandwidth) == pytest.approx(1000 / 3)


def test_mesh_limits_agree() -> None:
    alpha = critical_tokens(peak_flop_per_s=4.59e14, bandwidth=1.8e11, weight_bytes=2)
    width, chips = 32768.0, 4096.0
    tokens = fsdp_tp_critical_tokens(axis_critical_tokens=alpha, fsdp_axes=2, tp_axes=1, width=width) * chips
    fsdp = fsdp_optimal_degree(tokens=tokens, width=width, chips=chips, fsdp_axes=2, tp_axes=1)
    # at the optimum each kind of communication takes half of the time of the arithmetic
    assert alpha / 2 * fsdp / tokens == pytest.approx(0.5)
    assert alpha * (chips / fsdp) / width == pytest.approx(0.5)
    assert decode_tp_limit(width=16384, batch=32, bandwidth_ratio=8) == 64


def test_mesh_times() -> None:
    shape = {"size": 1e6, "axis_bandwidth": 1e11, "axes": 1, "hops": 8, "hop_latency": 1e-6}
    assert mesh_gather_seconds(**shape) == 1e-5
    assert mesh_gather_seconds(**{**shape, "size": 1e3}) == 8e-6
    assert mesh_all_reduce_seconds(**shape) == 2e-5


def test_money_and_energy_are_consistent() -> None:
    price = 2 / 3600
    tokens_per_s = 1000.0
    assert usd_per_million_tokens(price=8 * price, tokens_per_s=tokens_per_s) == pytest.approx(
        run_usd(chips=8, seconds=1e6 / tokens_per_s, price=price)
    )
    joules = energy_joules(accelerator_seconds=accelerator_seconds(chips=8, seconds=1.0), watts=700, pue=1.0)
    assert joules == pytest.approx(joules_per_token(watts=8 * 700, tokens_per_s=tokens_per_s) * tokens_per_s)
