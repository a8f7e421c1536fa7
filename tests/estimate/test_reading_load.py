"""Requests of a model that only reads: is their time what a queue of passes takes, drawn request by request?"""

from __future__ import annotations

import random

import pytest

import gpuplan
from gpuplan.errors import PlanError
from gpuplan.formulas.batch_service import latency_at_rate, latency_in_turns, later_stages, usual_pass

MODEL, ON = "bge-m3", "l4"
STAGED = "qwen3-embedding-0.6b"
"""Built as a decoder, which every engine divides into stages."""


def drawn(rate: float, each: float, start: float, most: int, pp: int = 1, requests: int = 120_000) -> float:
    """The mean time of a request at a server that takes what waits, up to `most`, through a pass of start + each x number.

    A pass takes as long on each of the `pp` stages, one behind the other.
    """
    draw = random.Random(5)
    comes, now = [], 0.0
    for _ in range(requests):
        now += draw.expovariate(rate)
        comes.append(now)
    done, spent = 0, 0.0
    free = [0.0] * pp
    while done < requests:
        begin = max(free[0], comes[done])
        last = done
        while last < requests and last - done < most and comes[last] <= begin:
            last += 1
        for stage in range(pp):
            begin = free[stage] = max(begin, free[stage]) + start + each * (last - done)
        spent += sum(begin - one for one in comes[done:last])
        done = last
    return spent / requests


@pytest.mark.parametrize(("busy", "ms"), [(0.3, 4.226), (0.5, 5.902), (0.7, 9.818), (0.8, 14.715), (0.9, 29.408)])
def test_passes_without_a_limit_take_what_is_published_of_a_v100(busy: float, ms: float) -> None:
    """Inoue's own fit to a V100, 0.1438 ms an image and 1.8874 ms a batch, as Concourse's manual works it out ("A batch-service
    model of a GPU inference server with dynamic batching", bound phi); its exact chain has the same from a half on."""
    found = latency_at_rate(rate=busy / 0.1438, each=0.1438, start=1.8874, most=1e6)
    assert found == pytest.approx(ms, abs=0.0006)


@pytest.mark.parametrize("most", [1, 4, 16, 64])
@pytest.mark.parametrize("start", [0.0, 0.5, 10.0])
def test_a_rate_is_the_queue_that_is_drawn(start: float, most: int) -> None:
    """Within an eighth until three quarters of what is kept, and within a quarter until nine tenths."""
    for busy, near in ((0.1, 0.1), (0.5, 0.13), (0.75, 0.15), (0.9, 0.25)):
        full = start + most
        rate = busy * most / full
        # One that is alone has a pass of its own, whatever it begins with.
        each, begin = (full, 0.0) if most == 1 else (1.0, start)
        found = latency_at_rate(rate=rate, each=each, start=begin, most=float(most))
        assert found == pytest.approx(drawn(rate, each, begin, most), rel=near), (busy, start, most)


@pytest.mark.parametrize("pp", [2, 4, 8])
@pytest.mark.parametrize(("most", "start"), [(1, 0.5), (4, 0.0), (16, 0.5), (64, 3.0), (64, 10.0)])
def test_stages_are_the_queues_that_are_drawn(most: int, start: float, pp: int) -> None:
    """Within a third, and nearer where there is less to do: each stage waits for the large passes of the one before."""
    for busy, near in ((0.1, 0.1), (0.5, 0.2), (0.75, 0.3), (0.9, 0.35)):
        full = start + most
        rate = busy * most / full
        each, begin = (full, 0.0) if most == 1 else (1.0, start)
        read = latency_at_rate(rate=rate, each=each, start=begin, most=float(most))
        usual = usual_pass(rate=rate, each=each, start=begin, most=float(most))
        found = read + later_stages(read=read, usual=usual, full=full, busy=busy, pp=pp)
        assert found == pytest.approx(drawn(rate, each, begin, most, pp, 40_000), rel=near), (busy, start, most)


@pytest.mark.parametrize(("model", "on", "cut"), [("bge-m3", "l4", False), ("modernbert-base", "a10", False), (STAGED, "l4", True)])
def test_an_encoder_is_read_whole(model: str, on: str, *, cut: bool) -> None:
    """vLLM cuts no sequence that sees to both sides: a pass has room for the longest, whatever the card."""
    answer = gpuplan.serve(model, on=on, prompt=8000)
    passes = answer.estimate.find("batch_prefill.passes") or answer.estimate.find("prefill.passes")
    room = answer.estimate.find("pass.tokens")
    assert (room is None) is cut
    if room is not None:
        assert float(room.value) >= 8192
    limited = gpuplan.serve(model, on=on, prompt=8000, max_batched_tokens=2048)
    assert (float(answer.figures["latency_s"].value) < float(limited.figures["latency_s"].value)) is not cut
    assert passes is not None


def test_users_who_ask_again_are_read_by_turns() -> None:
    """Two groups of ten: while one is read the other waits, so that nobody waits for less than a pass."""
    in_pass, each, start = 10.0, 0.01, 0.1
    read = latency_in_turns(users=20.0, each=each, start=start, in_pass=in_pass, pp=1, full=start + 32 * each, most=32.0)
    assert read == pytest.approx(2 * (start + 10 * each))


def test_a_request_waits_the_longer_the_more_come() -> None:
    alone = gpuplan.serve(MODEL, on=ON, batch=1, advise=False)["latency_s"].value
    times = []
    for rate in (0.001, 20, 60, 90, 110):
        made = gpuplan.serve(MODEL, on=ON, rate=rate, advise=False)
        assert made.fits
        assert 0 < made["utilization"].value < 1
        assert made["sequences_per_s"].value == rate
        times.append(made["latency_s"].value)
    assert times == sorted(times)
    assert times[0] == pytest.approx(alone, rel=0.01)
    assert times[-1] > 3 * alone


def test_what_is_kept_is_what_whole_batches_are_read_at() -> None:
    whole = gpuplan.serve(MODEL, on=ON, batch=64, advise=False)["sequences_per_s"].value
    kept = gpuplan.serve(MODEL, on=ON, rate=1, advise=False)["highest_rate_per_s"].value
    assert kept == pytest.approx(whole, rel=0.1)
    many = gpuplan.serve(MODEL, on=ON, concurrency=512, advise=False)
    assert many["sequences_per_s"].value == pytest.approx(kept, rel=0.05)
    assert many["latency_s"].value == pytest.approx(512 / many["sequences_per_s"].value)


def test_more_than_is_kept_does_not_keep_up() -> None:
    made = gpuplan.serve(MODEL, on=ON, rate=1e6, advise=False)
    assert made.estimate.verdict.words == "does not keep up"
    assert "latency_s" not in made.figures
    assert not [note for note in made.notes if "latency_s" in note.text]
    assert "replicas keep it" in made.headline
    needed = int(made.headline.split(" replicas keep it")[0].split()[-1].replace(",", ""))
    most = made["highest_rate_per_s"].value
    assert (needed - 1) * most < 1e6 <= needed * most


def test_two_replicas_keep_twice_as_much_and_stages_take_longer() -> None:
    one = gpuplan.serve(STAGED, on=ON, rate=10, advise=False)["highest_rate_per_s"].value
    apart = gpuplan.serve(STAGED, on=f"2x{ON}", rate=10, pp=1, tp=1, advise=False)
    assert apart["highest_rate_per_s"].value == pytest.approx(2 * one, rel=0.01)
    staged = gpuplan.serve(STAGED, on=f"2x{ON}", rate=10, pp=2, tp=1, advise=False)
    assert staged["latency_s"].value > 0.95 * apart["latency_s"].value  # a stage has half of the layers, and there are two


@pytest.mark.parametrize("prompt", [1400, 3000, 8000])
def test_a_prompt_of_several_passes_has_all_of_them(prompt: int) -> None:
    whole = gpuplan.serve(MODEL, on=ON, prompt=prompt, batch=64, advise=False)["sequences_per_s"].value
    kept = gpuplan.serve(MODEL, on=ON, prompt=prompt, rate=0.01, advise=False)
    assert kept["highest_rate_per_s"].value == pytest.approx(whole, rel=0.05)
    alone = gpuplan.serve(MODEL, on=ON, prompt=prompt, batch=1, advise=False)["latency_s"].value
    assert kept["latency_s"].value == pytest.approx(alone, rel=0.02)
    busy = gpuplan.serve(MODEL, on=ON, prompt=prompt, rate=0.9 * whole, advise=False)
    assert alone < busy["latency_s"].value < 12 * alone


@pytest.mark.parametrize("engine", ["vllm", "llama.cpp", "mlx-lm"])
@pytest.mark.parametrize("pp", [1, 2])
def test_users_are_read_no_faster_than_what_is_kept(engine: str, pp: int) -> None:
    """Also by engines whose pipeline drains behind a few passes, or behind each."""
    kept = gpuplan.serve(STAGED, on=f"2x{ON}", rate=1, pp=pp, tp=1, engine=engine, advise=False)["highest_rate_per_s"].value
    done = gpuplan.serve(STAGED, on=f"2x{ON}", concurrency=600, pp=pp, tp=1, engine=engine, advise=False)["sequences_per_s"].value
    assert 0.9 * kept < done <= kept * (1 + 1e-9)


def test_an_endless_row_of_passes_does_not_drain_a_pipeline() -> None:
    one = gpuplan.serve(STAGED, on=ON, rate=1, prompt=128, advise=False)["highest_rate_per_s"].value
    four = gpuplan.serve(STAGED, on=f"4x{ON}", rate=1, prompt=128, pp=4, tp=1, advise=False)["highest_rate_per_s"].value
    batch = gpuplan.serve(STAGED, on=f"4x{ON}", batch=256, prompt=128, pp=4, tp=1, advise=False)["sequences_per_s"].value
    assert batch < four < 4 * one


def test_vllm_divides_no_encoder_into_stages() -> None:
    """Its table of models has no pipelines for BERT and its kin; embedders that are built as decoders have them."""
    made = gpuplan.serve(MODEL, on=f"2x{ON}", rate=200, advise=False)
    assert (made.question["pp"], made.question["dp"]) == ("1", "2")
    with pytest.raises(PlanError) as caught:
        gpuplan.serve(MODEL, on=f"2x{ON}", rate=200, pp=2, advise=False)
    assert [problem.code for problem in caught.value.problems] == ["plan.encoder-stages"]
    assert gpuplan.serve("qwen3-embedding-8b", on=f"2x{ON}", pp=2, advise=False).fits
    assert gpuplan.serve(MODEL, on=f"2x{ON}", engine="llama-cpp", pp=2, advise=False).fits


@pytest.mark.parametrize("pp", [1, 2, 4])
def test_stages_do_not_share_the_encoder_of_images(pp: int) -> None:
    """It stands before the first of them: no more are kept than it encodes, however many stages read what it made."""
    asked: dict[str, object] = {"on": f"{pp}xl4", "engine": "sglang", "tp": 1, "pp": pp, "dp": 1, "images": 1, "prompt": 1}
    idle = gpuplan.serve("clip-vit-large-patch14", **asked)
    few, alone = (gpuplan.serve("clip-vit-large-patch14", **asked, **load) for load in ({"rate": 0.1}, {"concurrency": 1}))
    batch = next(one for one in idle.estimate.breakdowns if one.title == "a batch of sequences")
    encoded = float(idle.question["batch"]) / float(batch.named["images"].value)
    assert float(few.figures["highest_rate_per_s"].value) <= encoded
    for one in (few, alone):
        assert float(one.figures["latency_s"].value) == pytest.approx(float(idle.figures["latency_s"].value), rel=0.01)
