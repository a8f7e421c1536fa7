"""Rows of workers of two kinds are asked with as many of each, divided and told as their deployment was."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.accuracy.deployments import Workers, deployment_of
from gpuplan.accuracy.inference import serving_question
from gpuplan.accuracy.rows import Row, packaged, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library


def row(number: int = 1, *, engine: str = "sglang 0.5.8.post1", ranks: int = 8, **said: Any) -> Row:
    one = {"tp": ranks, "pp": 1, "dp": 1, "ep": said.pop("ep", ranks)}
    run = {
        "weights": "fp8", "disaggregated": True, "concurrency": 32, "input_len": 1024, "output_len": 1024, "mode": "server",
        "prefill": one, "decode": dict(one), "measured_on": "2026-02-07",
    } | said  # fmt: skip
    return Row(
        id=f"aic-disagg-{number}", set="runs", task="inference", model={"id": "deepseek-v3"}, run=run, measured={}, engine=engine,
        hardware={"accelerator": "b200-sxm-180gb"}, repo="ai-dynamo/aiconfigurator",
    )  # fmt: skip


def test_how_workers_are_written() -> None:
    assert Workers.read("3xtep8").division() == {"workers": 3, "tp": 8, "pp": 1, "dp": 1, "ep": 8}
    assert Workers.read("1xdep4").division() == {"workers": 1, "tp": 1, "pp": 1, "dp": 4, "ep": 4}
    assert Workers.read("2xtp2").division() == {"workers": 2, "tp": 2, "pp": 1, "dp": 1, "ep": 1}
    with pytest.raises(ValueError, match="no workers: 8"):
        Workers.read("8")


def test_ranks_lengths_users_and_day_say_which_deployment_it_was() -> None:
    found = deployment_of(row())
    assert found is not None
    assert (found.reads.workers, found.writes.workers, found.writes.apart, found.drafts) == (1, 3, False, 0)
    many = deployment_of(row(concurrency=1024))
    assert many is not None
    assert (many.reads.apart, many.writes.workers, many.settings()["max_sequences"]) == (True, 5, 128)
    assert deployment_of(row(concurrency=33)) is None
    assert deployment_of(row(measured_on="2026-01-01")) is None, "it was not there yet"
    assert deployment_of(row(engine="sglang 0.5.9")) is None


def test_runs_that_share_a_day_are_told_apart_by_their_numbers() -> None:
    drafted = deployment_of(row(537, measured_on="2026-03-18"))
    plain = deployment_of(row(543, measured_on="2026-03-18"))
    assert drafted is not None
    assert plain is not None
    assert (drafted.drafts, plain.drafts) == (2, 0)
    assert drafted.settings() == {
        "kv_cache": "fp8", "draft": "mtp", "draft_tokens": 2, "max_sequences": 512, "max_batched_tokens": 32768,
    }  # fmt: skip


def test_a_row_that_names_its_workers_keeps_them() -> None:
    one = {"workers": 2, "tp": 8, "pp": 1, "dp": 1, "ep": 8}
    assert deployment_of(row(prefill=one)) is None
    assert deployment_of(row(prefill=one | {"workers": 1})) is not None


def test_the_question_is_the_deployment() -> None:
    known = answers(Library.of(ServeAsk(model="", on="")))
    ask = serving_question(row(), known.card, known.keep, known.engine)
    assert (ask.prefill_on, ask.prefill_tp, ask.prefill_ep, ask.prefill_workers) == ("8xb200-sxm-180gb", 8, 8, 1)
    assert (ask.on, ask.tp, ask.ep, ask.decode_workers) == ("8xb200-sxm-180gb", 8, 8, 3)
    assert (ask.kv_cache, ask.max_batched_tokens, ask.max_sequences, ask.draft) == ("fp8", 32768, 512, None)


def test_published_rows_are_deployments() -> None:
    rows = [one for one in read_rows([packaged()]) if one.run.get("disaggregated")]
    assert len(rows) > 100
    assert all(deployment_of(one) is not None for one in rows)
