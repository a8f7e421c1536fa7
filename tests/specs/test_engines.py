"""Is every shipped engine profile whole: sourced, dated, with ranges that hold their values, and within physical bounds?"""

from __future__ import annotations

from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest

from gpuplan.errors import SpecError
from gpuplan.specs.base import load_spec
from gpuplan.specs.engine import Engine, ServingProfile
from gpuplan.specs.engine_training import TrainingProfile

FOLDER = Path(__file__).parents[2] / "hardware_specs" / "engines"
FILES = sorted(FOLDER.glob("*.yaml"))
TRAIN = {"megatron-lm", "fsdp", "deepspeed", "torch-eager"}
SERVE = {"vllm", "tensorrt-llm", "sglang", "llama-cpp", "torch-eager"}


def engine(name: str) -> Engine:
    return load_spec(Engine, FOLDER / f"{name}.yaml")


def training(name: str) -> TrainingProfile:
    profile = engine(name).training
    assert profile is not None
    return profile


def serving(name: str) -> ServingProfile:
    profile = engine(name).serving
    assert profile is not None
    return profile


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def profile(request: pytest.FixtureRequest) -> Engine:
    return load_spec(Engine, request.param)


def test_the_engines_that_questions_name_are_there() -> None:
    assert {path.stem for path in FILES} >= TRAIN | SERVE
    assert {path.stem for path in FILES if engine(path.stem).training} >= TRAIN
    assert {path.stem for path in FILES if engine(path.stem).serving} >= SERVE


def test_names_and_aliases_are_unique() -> None:
    names = [name for path in FILES for name in (engine(path.stem).id, *engine(path.stem).aliases)]
    assert len(names) == len(set(names))


def test_the_first_line_names_the_schema(profile: Engine) -> None:
    first = (FOLDER / f"{profile.id}.yaml").read_text(encoding="utf-8").partition("\n")[0]
    assert first == "# yaml-language-server: $schema=../schema/engine.schema.json"


def test_every_value_names_its_source(profile: Engine) -> None:
    assert [path for path, value in profile.values() if not value.source] == []


def test_what_is_assumed_says_why_or_is_zero(profile: Engine) -> None:
    # A bare assumption may stand only for "it does not do that" or repeat the reason of the same key elsewhere.
    plain = ("overlap.tp", "overlap.ep", "activation_passes")
    for path, value in profile.values():
        if profile.sources[value.source].kind == "assumed" and not path.endswith(plain):
            assert value.note, f"{profile.id}: {path}"


def test_ranges_hold_their_values(profile: Engine) -> None:
    for path, value in profile.values():
        accept = getattr(value, "accept", None)
        if accept is not None:
            assert accept[0] <= value.value <= accept[1], f"{profile.id}: {path}"  # type: ignore[union-attr]


def test_sources_are_dated_and_pages_are_linked(profile: Engine) -> None:
    for key, source in profile.sources.items():
        assert date.fromisoformat(source.checked) >= date(2026, 1, 1), key
        assert source.kind in ("assumed", "definition") or source.url.startswith("https://"), key


def test_bytes_of_a_parameter_are_those_of_the_papers() -> None:
    # Megatron-Core prints 18 bytes a parameter, ZeRO 16, Transformers 18: weight, gradient, fp32 master and two moments.
    for name, published in (("megatron-lm", 18), ("deepspeed", 16), ("torch-eager", 18), ("fsdp", 16)):
        one = training(name)
        assert (2 if one.sharding.weights == "copied" else 0) + one.gradients.kept.value + 12 == published, name


def test_fusion_orders_the_engines() -> None:
    order = [training(name).hidden_passes.value for name in ("megatron-lm", "fsdp", "torch-eager")]
    assert all(low < high for low, high in pairwise(order))
    assert (
        serving("vllm").hidden_passes.value < serving("llama-cpp").hidden_passes.value < serving("torch-eager").hidden_passes.value
    )


def test_shares_are_shares(profile: Engine) -> None:
    assert 0 <= profile.fragmentation.value < 0.5
    if profile.training is not None:
        assert all(0 <= share.value <= 1 for share in (profile.training.overlap.dp, profile.training.overlap.tp))
    if profile.serving is not None:
        assert 0.5 <= profile.serving.memory_utilization.value <= 1


def test_a_policy_names_its_variants(tmp_path: Path) -> None:
    text = (FOLDER / "torchtitan.yaml").read_text(encoding="utf-8")
    assert "in_pipelines: gathered" in text
    file = tmp_path / "torchtitan.yaml"
    file.write_text(text.replace("in_pipelines: gathered", "in_pipelines: gatherd"), encoding="utf-8")
    with pytest.raises(SpecError, match=r"training\.sharding\.in_pipelines: `gatherd` is not allowed here") as told:
        load_spec(Engine, file)
    assert "gathered" in told.value.problems[0].hint
    file.write_text(text.replace("value: one-in-pipelines", "value: two-in-pipelines"), encoding="utf-8")
    with pytest.raises(SpecError, match=r"defaults\.micro_batch: `two-in-pipelines` is not allowed here"):
        load_spec(Engine, file)


def test_an_era_changes_the_part_of_a_policy_that_it_states() -> None:
    today, before = engine("torchtitan"), engine("torchtitan").dated("2024-12")
    assert today.training is not None
    assert before.training is not None
    assert (today.training.sharding.edges, before.training.sharding.edges) == ("in-turn", "together")
    assert (today.training.attention.heads, before.training.attention.heads) == ("own", "repeated")
    assert before.training.sharding.replaced(edges="in-turn") == today.training.sharding
    assert today.defaults is not None
    assert before.defaults is not None
    assert (today.defaults.micro_batch.text, before.defaults.micro_batch.text) == ("one-in-pipelines", "stages-in-pipelines")  # type: ignore[union-attr]


def test_how_an_engine_is_set_up_changes_parts_of_its_policies() -> None:
    profile = training("megatron-lm")
    set_up = profile.run(overlap=("tp",), graphs=True, dispatcher="deepep")
    assert profile.switched is not None
    assert set_up.overlap.tp == profile.switched.tp
    assert set_up.overlap.dp.value == 0
    assert set_up.host == profile.host.replaced(layer=profile.host.graph, norm=None, bare=None)
    assert (set_up.experts.host, set_up.experts.dispatch, profile.experts.dispatch) == (None, "once-a-node", "each-copy")
    eager = training("kempnerforge").run(compiled=False)
    assert (eager.tensor.inputs, eager.host.layer.value, eager.tensor.edges) == ("apart", 3e-4, "whole")
    assert training("torchtitan").run(compiled=True).loss.alive != training("torchtitan").loss.alive


def test_products_of_few_bits_come_with_modules_of_their_own() -> None:
    plain = training("torch-eager")
    narrow, compiled = plain.run(narrow=True), plain.run(narrow=True, compiled=True)
    assert narrow.hidden_passes.value == training("megatron-lm").hidden_passes.value < plain.hidden_passes.value
    assert (narrow.rms_passes.value, narrow.host.layer.value) == (0, training("megatron-lm").host.layer.value)
    assert compiled == plain.run(compiled=True)
    assert training("fsdp").run(narrow=True) == training("fsdp")


def test_engines_that_call_the_same_libraries_are_as_fast_on_cdna_3() -> None:
    paces = {
        name: training(name).pace["cdna3"] for name in ("torchtitan", "torch-eager", "torch-loop", "deepspeed", "accelerate", "trl")
    }
    values = {(one.matmul.value, one.attention.value, one.matmul_fp8.value) for one in paces.values()}
    assert len(values) == 1


def test_what_an_engine_falls_back_to_is_what_it_was() -> None:
    """vLLM 0.8 read caches in 8 bits, where they were asked for, with V0's loop, but for Hopper; 0.9 did not."""
    vllm = engine("vllm")
    plain = vllm.dated("2025-04-06")
    assert vllm.dated("2025-04-06", "fp8", "cdna3").serving == vllm.dated("2025-02-20").serving
    assert vllm.dated("2025-04-06", "fp8", "hopper") == plain
    assert vllm.dated("2025-04-06", None, "cdna3") == plain
    assert vllm.dated("2025-05-28", "fp8", "cdna3") == vllm.dated("2025-05-28")
