"""An engine that a question names by what it alone has is taken; types, caches and places say which."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from gpuplan.errors import PlanError
from gpuplan.estimate.reading import served_figures
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.words import SHARED_FORMATS, SHARED_KV_FORMATS, KvFormat, WeightFormat
from gpuplan.render.table import flags_text
from gpuplan.search.ask import answered
from gpuplan.search.serving import settled
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from tests.estimate.subjects import library

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("rtx-4070", {"weights": "q4_k_m"}, "llama-cpp"),
    ("rx-7900-xtx", {"weights": "iq4_xs"}, "llama-cpp"),
    ("arc-b580", {"weights": "q8_0"}, "llama-cpp"),
    ("h100", {"weights": "q4_k_m", "rate": 1.0}, "llama-cpp"),
    ("m4-max", {"weights": "mlx-4bit"}, "mlx-lm"),
    ("rtx-4090", {"weights": "mlx-4bit"}, "mlx-lm"),
    ("rtx-4090", {"weights": "exl2-4.0"}, "exllama"),
    ("rtx-4090", {"kv_cache": "q8_0"}, "llama-cpp"),
    ("rtx-4090", {"gpu_layers": 20}, "llama-cpp"),
    ("rtx-4090", {"host_memory": 96e9}, "llama-cpp"),
    ("rtx-4090", {"host_weights": 4e9}, "vllm"),
    ("rtx-4090", {"weights": "int4"}, "vllm"),
    ("rtx-4090", {"weights": "nf4", "kv_cache": "fp8"}, "vllm"),
    ("m4-max", {"weights": "int4"}, "llama-cpp"),
    ("tpu-v5e-8", {"weights": "q4_k_m"}, "vllm-tpu"),
    ("rtx-4090", {"weights": "q4_k_m", "engine": "vllm"}, "vllm"),
]


@pytest.mark.parametrize(("on", "given", "engine"), CASES)
def test_what_only_one_engine_has_names_it(on: str, given: dict[str, Any], engine: str) -> None:
    one = settled(ServeAsk(model="qwen3-8b", on=on, **given), library())
    assert one.subject.engine.id == engine


def test_a_type_in_the_name_and_one_that_is_said_mean_the_same() -> None:
    named = answered("fit", {"model": "qwen3-14b-q4_k_m", "on": "rtx-4070"}, advise=False)
    said = answered("fit", {"model": "qwen3-14b", "weights": "q4_k_m", "on": "rtx-4070"}, advise=False)
    assert named.question["engine"] == said.question["engine"] == "llama-cpp"
    assert named.figures["peak_memory_bytes"].value == said.figures["peak_memory_bytes"].value


def test_each_type_is_of_one_engine_or_of_many() -> None:
    """What words call shared no engine has alone; each of the others is in the files of exactly one."""
    lib = library()
    engines = [lib.catalog.load(Engine, name) for name in lib.catalog.paths("engines")]
    for kinds, shared, name in ((WeightFormat, SHARED_FORMATS, "files"), (KvFormat, SHARED_KV_FORMATS, "caches")):
        texts = [getattr(one.serving.formats, name) for one in engines if one.serving is not None]
        own = [word for text in texts if text is not None for word in text.text.split()]
        assert sorted(own) == sorted({*get_args(kinds)} - shared)


def test_llama_cpp_divides_layers_or_rows_and_never_both() -> None:
    ask = ServeAsk(model="gemma-3-27b", on="8xh100", engine="llama-cpp", concurrency=3)
    assert settled(ask.replaced(pp=4), library()).plan.parallel.tp == 1
    assert settled(ask.replaced(tp=2), library()).plan.parallel.pp == 1
    with pytest.raises(PlanError, match="divides layers or rows"):
        settled(ask.replaced(tp=2, pp=2), library())


@pytest.mark.parametrize(
    ("model", "on", "given", "sequences"),
    [
        ("llama-3.1-8b", "97xh100", {"batch": 4}, 97),
        ("kimi-k2", "gb200-nvl72", {"engine": "llama-cpp"}, 2),
        ("llama-3.1-70b", "11xh100", {"batch": 4, "engine": "llama-cpp"}, 4),
    ],
)
def test_a_batch_that_no_division_shares_is_run_with_the_fewest_more(
    model: str, on: str, given: dict[str, Any], sequences: int
) -> None:
    one = settled(ServeAsk(model=model, on=on, **given), library())
    assert one.plan.batch * one.plan.parallel.dp == sequences


def test_fit_has_an_answer_for_such_a_batch_too() -> None:
    assert answered("fit", {"model": "llama-3.1-8b", "on": "83xh100", "batch": 4}, advise=False).verdict.fits


def test_experts_are_spread_over_the_ranks_of_an_engine_that_has_no_ranks_of_attention() -> None:
    ask = ServeAsk(model="qwen3-30b-a3b", on="tpu-v6e-8", concurrency=100)
    free = settled(ask, library())
    assert free.plan.parallel.attention_dp == 1
    assert free.plan.parallel.ep == free.plan.parallel.tp > 1
    with pytest.raises(PlanError, match="no ranks of attention"):
        settled(ask.replaced(attention_dp=8), library())


@pytest.mark.parametrize(
    ("model", "on", "given", "other"),
    [
        ("granite-4.0-h-small", "gb200-nvl72", {"engine": "vllm", "concurrency": 16, "prompt": 8000, "output": 20}, 9),
        ("qwen3-next-80b-a3b", "8xgaudi3", {"concurrency": 200, "prompt": 8000, "output": 20, "pp": 2, "tp": 1}, 4),
        ("deepseek-v3", "8xh200", {"engine": "vllm", "concurrency": 256}, 8),
    ],
)
def test_plans_with_and_without_ranks_of_attention_on_one_mesh_are_each_as_alone(
    model: str, on: str, given: dict[str, Any], other: int
) -> None:
    """What one rank reads with others of its pass, and what passes through its stages, holds beside plans of many ranks."""
    one = settled(ServeAsk(model=model, on=on, attention_dp=1, **given), library())
    p = one.plan.parallel
    ranks = np.array([1.0, float(other)])
    beside = one.plan.replaced(parallel=p.replaced(attention_dp=ranks, ep=np.array([float(p.ep), float(p.tp * other)])))
    alone, mesh = served_figures(one.subject, one.plan).figures, served_figures(one.subject, beside).figures
    for name in ("tokens_per_s", "ttft_s", "tpot_s", "e2e_s"):
        assert float(np.broadcast_to(mesh[name].value, (2,))[0]) == pytest.approx(float(alone[name].value), rel=1e-6)


@pytest.mark.parametrize("given", [{}, {"tp": 1, "attention_dp": 16}])
def test_ranks_of_one_user_each_decode_nothing_beside_their_prompt(given: dict[str, Any]) -> None:
    """Products of no rows: kernels that widen weights have tiles of some rows all the same."""
    one = settled(ServeAsk(model="deepseek-v3", on="16xa100-sxm-80gb", concurrency=16, **given), library())
    assert np.isfinite(served_figures(one.subject, one.plan).figures["tokens_per_s"].value)


@pytest.mark.parametrize(
    ("model", "on", "flags"),
    [
        ("gpt-oss-20b", "rtx-5070-ti", {"engine"}),
        ("gpt-oss-120b", "rtx-4090", {"engine", "host-experts"}),
        ("llama-3.1-8b", "RTX 4060 laptop", {"engine"}),
    ],
)
def test_a_card_that_the_usual_engine_does_not_fit_on_is_told_the_one_of_its_users(model: str, on: str, flags: set[str]) -> None:
    made = answered("serve", {"model": model, "on": on})
    assert not made.verdict.fits
    assert next(set(change.flags) for change in made.changes if "engine" in change.flags) == flags


@pytest.mark.parametrize("given", [{"on": "rtx-4090", "rate": 1.0}, {"on": "rtx-4090", "engine": "vllm"}, {"on": "h100"}])
def test_many_users_a_named_engine_and_servers_are_not_told_it(given: dict[str, Any]) -> None:
    made = answered("serve", {"model": "llama-3.1-70b", **given})
    assert not [change for change in made.changes if "engine" in change.flags]


def test_what_to_type_is_quoted_where_a_name_has_spaces() -> None:
    made = answered("fit", {"model": "llama-3.1-8b", "on": "RTX 4060 laptop"})
    assert "--on '4xRTX 4060 laptop'" in [flags_text(change) for change in made.changes]


def test_graphics_in_a_processor_say_what_one_user_runs_on_them() -> None:
    """vLLM with weights in 16 bits was taken on the graphics of laptops, on which nobody serves many users."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in Catalog.open().paths("accelerators").items()}
    shared = {name: text for name, text in texts.items() if "\nunit: soc\n" in text and "\n  kept:" in text}
    assert {"radeon-780m", "arc-140v"} <= set(shared)
    assert [name for name, text in shared.items() if "\ndefault_engines: {" not in text] == []
