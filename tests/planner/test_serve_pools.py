"""Workers of two kinds are the fewest that keep a promise, as `gpuplan serve` tells it, and fewer than replicas that do both."""

from __future__ import annotations

import json
import shlex
from itertools import product
from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.disaggregated import paired
from gpuplan.search.library import Library
from tests.cli.cli_calls import Call

pytestmark = pytest.mark.usefixtures("asked_once")
TTFT, TPOT, RATE = 0.25, 0.01, 20.0
"""A promise that five accelerators of two kinds keep and five alike do not: a first token comes after 241 ms, of which the server
and the tokenizer take 18; it waits for prompts before it and for a step of the decode worker too."""
LOAD = ("--rate", "20/s", "--prompt", "4000", "--output", "200")
ASKED = (
    "plan", "serve", "llama-3.1-8b", "--on", "h100", "--price", "3", "--minimize", "gpus", "--lowest-bits", "16",
    *LOAD, "--ttft", "250ms", "--tpot", "10ms",
)  # fmt: skip


def answered(call: Call, *words: str) -> dict[str, Any]:
    said = call(*words, "--json")
    assert said.code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def test_fewer_accelerators_keep_the_promise_where_workers_are_of_two_kinds(call: Call) -> None:
    found = answered(call, *ASKED, "--pools")
    pools, replicas = found["best"]
    assert pools["accelerators"] < replicas["accelerators"]
    assert "read, " in pools["replicas"]
    assert pools["ttft_s"] <= TTFT
    assert pools["tpot_s"] <= TPOT
    assert pools["cost_usd_per_month"] == pytest.approx(pools["accelerators"] * 3 / 3600 * 365.25 * 86400 / 12)
    assert found["flips"] == []
    alone = answered(call, *shlex.split(found["command"])[1:])["figures"]
    assert alone["ttft_s"]["value"] == pools["ttft_s"]
    assert alone["tpot_s"]["value"] == pools["tpot_s"]
    assert answered(call, *ASKED)["best"] == [replicas]


def test_brute_force_finds_no_fewer(call: Call) -> None:
    most = int(answered(call, *ASKED, "--pools")["best"][0]["accelerators"]) - 1
    library, kept = Library.shared(), list[tuple[int, ...]]()
    for read, write in product((1, 2, 4), repeat=2):
        for reads in range(1, most // read + 1):
            for writes in range(1, (most - reads * read) // write + 1):
                asked = ServeAsk(
                    model="llama-3.1-8b", on=f"{write}xh100", prefill_on=f"{read}xh100", tp=write, prefill_tp=read, rate=RATE,
                    prompt=4000, output=200, prefill_workers=reads, decode_workers=writes,
                )  # fmt: skip
                try:
                    figures = paired(asked, library).answer.figures
                except GpuplanError:
                    continue  # More come than they keep.
                if float(figures["ttft_s"].value) <= TTFT and float(figures["tpot_s"].value) <= TPOT:
                    kept.append((reads, read, writes, write))
    assert not kept


@pytest.mark.slow
def test_spare_workers_are_of_both_kinds(call: Call) -> None:
    plain, spared = (answered(call, *ASKED, "--pools", "--spare", spare)["best"] for spare in ("0", "1"))
    pools = [one for one in spared if "read" in one["replicas"]]
    for one in pools:
        assert one["replicas"].endswith("+ 1 spare of each")
        assert one["accelerators"] > plain[0]["accelerators"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--p", "99"), "of workers of two kinds the mean is told"),
        (("--emit", "k8s"), "--emit starts replicas that do both"),
    ],
)
def test_what_is_not_told_of_them_is_refused(call: Call, more: tuple[str, ...], said: str) -> None:
    answer = call(*ASKED, "--pools", *more)
    assert answer.code == 2
    assert said in answer.err


def test_users_in_flight_are_refused(call: Call) -> None:
    answer = call("plan", "serve", "llama-3.1-8b", "--on", "h100", "--concurrency", "64", "--minimize", "gpus", "--pools")
    assert answer.code == 2
    assert "asked for a rate" in answer.err
