"""Whoever has one machine for themselves is answered for one user, and a full replica's answer says what one request alone has."""

from __future__ import annotations

import pytest

import gpuplan
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog

SMALL = ("dgx-spark", "strix-halo", "jetson-agx-orin-64gb")


@pytest.mark.parametrize("on", SMALL)
def test_a_small_computer_is_its_owners(on: str) -> None:
    made = gpuplan.serve("llama-3.1-8b", on=on)
    assert (made.question["engine"], made.question["batch"]) == ("llama-cpp", "1")
    assert made["tpot_alone_s"] == made["itl_s"]


@pytest.mark.parametrize("more", [{"concurrency": 16}, {"rate": 0.5}, {"batch": 8}])
def test_of_many_users_it_is_a_server(more: dict[str, float]) -> None:
    assert gpuplan.serve("llama-3.1-8b", on="dgx-spark", **more).question["engine"] == "vllm"


def test_two_of_them_are_a_server() -> None:
    assert gpuplan.serve("llama-3.1-8b", on="2xdgx-spark").question["engine"] == "vllm"


def test_a_file_names_the_engine_of_one_user_only_where_the_usual_one_runs_too() -> None:
    shipped = Catalog.open()
    named = [shipped.load(Accelerator, ident).default_engines for ident in shipped.paths("accelerators")]
    assert any("alone" in one for one in named)
    assert not any("alone" in one and "serve" in one for one in named)


@pytest.mark.parametrize(("on", "engine"), [("m3-max", "llama-cpp"), ("m3-max", "mlx-lm"), ("rtx-4090", "ollama")])
def test_an_engine_that_people_have_to_themselves_answers_one(on: str, engine: str) -> None:
    open_, one = (gpuplan.serve("llama-3.1-8b", on=on, engine=engine, **more) for more in ({}, {"batch": 1}))
    assert open_.question["batch"] == "1"
    assert open_["tpot_s"] == one["tpot_s"]


def test_a_full_replica_says_what_one_request_alone_has() -> None:
    full, one = gpuplan.serve("llama-3.1-8b", on="h100"), gpuplan.serve("llama-3.1-8b", on="h100", batch=1)
    assert float(full["tpot_alone_s"]) == pytest.approx(float(one["itl_s"]), rel=1e-9)
    assert float(full["tpot_alone_s"]) < float(full["itl_s"])
