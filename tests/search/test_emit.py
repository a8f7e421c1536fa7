"""Launches: what starts a plan means that plan, in every form, by arguments that its engine knows."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import yaml

from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.plan.launch.training.words import Writer
from gpuplan.search.ask import answered
from gpuplan.search.emitted import WRITERS
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.launch import Launch

CATALOG = Catalog.open()
TRAINED = {
    "megatron-lm": {
        "model": "llama-3.1-70b",
        "on": "8xdgx-h100",
        "tp": 4,
        "pp": 4,
        "cp": 2,
        "recompute": "full",
        "global_batch": 512,
    },
    "torchtitan": {"model": "llama-3.1-8b", "on": "2xdgx-h100", "tp": 2, "pp": 1, "zero_stage": 3, "global_batch": 64},
    "maxtext": {"model": "llama-3.1-8b", "on": "tpu-v5p-256", "zero_stage": 3, "tp": 1, "pp": 1, "global_batch": 512},
}  # fmt: skip
SERVERS = {
    "vllm": {"tp": 4, "kv_cache": "fp8"}, "sglang": {"tp": 4, "memory_utilization": 0.85}, "tensorrt-llm": {"tp": 4},
    "llama-cpp": {"model": "qwen3-8b", "weights": "q4_k_m"},
}  # fmt: skip


def made(task: str, **given):
    return answered(task, given, advise=False, keep=True)


def trained(engine: str, form: str, **more) -> str:
    return made("train", **{"tokens": "10B", "micro_batch": 1, **TRAINED[engine], "engine": engine, "emit": form, **more}).launch


def served(engine: str, form: str, **more) -> str:
    return made(
        "serve", **{"model": "llama-3.1-70b", "on": "4xh100", **SERVERS[engine], "engine": engine, "emit": form, **more}
    ).launch


@pytest.mark.parametrize(
    ("engine", "on", "tag"),
    [
        (None, "v100-sxm2-32gb", ":v0.19.1"), ("vllm@0.17", "v100-sxm2-32gb", ":v0.17.1"), ("vllm@0.8.5", "h100", ":v0.8.5"),
        ("vllm@2025-06", "h100", ":latest"), ("vllm", "h100", ":latest"),
    ],
)  # fmt: skip
def test_the_image_is_of_the_release_that_is_asked_for_or_taken(engine: str | None, on: str, tag: str) -> None:
    text = made("serve", model="llama-3.1-8b", on=on, engine=engine, emit="compose").launch
    assert re.findall(r"vllm/vllm-openai(:[\w.]+)", text) == [tag]


def words(text: str) -> list[str]:
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return shlex.split(lines[-1])


def after(text: str, flag: str) -> str:
    found = words(text)
    return found[found.index(flag) + 1]


# Training


def test_megatron_is_told_the_plan():
    text = trained("megatron-lm", "command")
    wanted = {
        "--tensor-model-parallel-size": "4", "--pipeline-model-parallel-size": "4", "--context-parallel-size": "2",
        "--global-batch-size": "512", "--micro-batch-size": "1", "--num-layers": "80", "--hidden-size": "8192",
        "--num-attention-heads": "64", "--num-query-groups": "8", "--ffn-hidden-size": "28672", "--seq-length": "8192",
        "--recompute-granularity": "full", "--nnodes": "8", "--nproc-per-node": "8",
    }  # fmt: skip
    assert {flag: after(text, flag) for flag in wanted} == wanted
    assert int(after(text, "--train-samples")) * 8192 == pytest.approx(10e9, rel=1e-3)
    assert "--untie-embeddings-and-output-weights" in words(text)


def test_megatron_is_told_latent_attention_and_experts():
    text = made(
        "train", model="deepseek-v3", on="32xdgx-h100", tokens="10B", engine="megatron-lm", tp=4, pp=16, ep=16, emit="command"
    ).launch
    assert after(text, "--num-experts") == "256"
    assert after(text, "--moe-layer-freq") == "([0]*3+[1]*58)"
    assert after(text, "--kv-lora-rank") == "512"
    assert "61 layers on 16 chunks are not even" in text


def test_megatron_is_told_which_ranks_are_neighbours():
    asked = {"model": "llama-3.1-70b", "on": "8xdgx-h100", "tokens": "10B", "engine": "megatron-lm", "tp": 8, "emit": "command"}
    flag = "--use-tp-pp-dp-mapping"
    assert flag in words(made("train", **asked, pp=4, stages_inside=True).launch)
    assert flag not in words(made("train", **asked, pp=4).launch)
    alone = made("train", **asked, pp=1, stages_inside=True)
    assert flag not in words(alone.launch)
    assert any("--stages-inside: of no effect" in note.text for note in alone.notes)


def test_torchtitan_and_maxtext_divide_all_ranks():
    text = trained("torchtitan", "command")
    degrees = [
        int(after(text, f"--parallelism.{name}_degree"))
        for name in ("data_parallel_replicate", "data_parallel_shard", "tensor_parallel", "pipeline_parallel", "context_parallel")
    ]
    assert math_prod(degrees) == 16
    assert int(after(text, "--training.num_tokens_per_train_step")) == 64 * 8192
    found = dict(word.split("=", 1) for word in words(trained("maxtext", "command")) if "=" in word)
    mesh = math_prod(int(value) for name, value in found.items() if name.startswith(("ici_", "dcn_")))
    assert mesh == 128
    assert float(found["per_device_batch_size"]) * 128 * int(found["gradient_accumulation_steps"]) == 512


def math_prod(values) -> int:
    made = 1
    for value in values:
        made *= value
    return made


def test_a_writer_says_nothing_that_its_engine_does_not_know():
    for engine in WRITERS:
        writer = Writer(CATALOG.load(Launch, engine))
        with pytest.raises(ValueError, match="knows no argument"):
            writer.say("--no-such-argument", 1.0)


@pytest.mark.parametrize("engine", WRITERS)
def test_models_of_launches_are_in_the_catalog(engine: str):
    from gpuplan.models.catalog import CARDS

    for card in CATALOG.load(Launch, engine).models:
        assert (CARDS / f"{card}.yaml").is_file()


# Serving


@pytest.mark.parametrize("engine", [one for one in SERVERS if one != "llama-cpp"])
def test_a_serving_launch_read_back_is_the_same_plan(engine: str):
    text = served(engine, "command")
    first = made("serve", **{"model": "llama-3.1-70b", "on": "4xh100", **SERVERS[engine], "engine": engine})
    again = made("serve", on="4xh100", command=shlex.join(words(text)), model="llama-3.1-70b", weights=first.question["weights"])
    for name in ("tp", "pp", "dp", "weights", "kv_cache"):
        assert again.question.get(name) == first.question.get(name)
    assert words(text)[-4:] == ["--host", "0.0.0.0", "--port", "8000"]


def test_replicas_that_an_engine_does_not_start_are_started_each():
    text = served("llama-cpp", "command", on="4xrtx-4090", dp=4)
    lines = [line for line in text.splitlines() if line.startswith("CUDA_VISIBLE_DEVICES")]
    assert [line.split()[0] for line in lines] == [f"CUDA_VISIBLE_DEVICES={at}" for at in range(4)]
    assert len({re.search(r"--port (\d+)", line)[1] for line in text.replace("\\\n", " ").splitlines() if "--port" in line}) == 4
    loaded = yaml.safe_load(served("llama-cpp", "compose", on="4xrtx-4090", dp=4))
    assert len(loaded["services"]) == 4


def test_replicas_on_several_nodes_are_an_array_of_jobs():
    text = served("vllm", "slurm", model="llama-3.1-8b", on="16xh100", tp=1)
    assert "#SBATCH --array=0-15" in text
    assert "--data-parallel-size" not in text
    loaded = list(yaml.safe_load_all(served("vllm", "k8s", model="llama-3.1-8b", on="16xh100", tp=1)))
    assert loaded[0]["spec"]["replicas"] == 16
    assert loaded[0]["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1}


# Forms


@pytest.mark.parametrize("engine", [*WRITERS, *SERVERS])
@pytest.mark.parametrize("form", ["command", "slurm"])
def test_shells_read_them(engine: str, form: str):
    text = trained(engine, form) if engine in WRITERS else served(engine, form)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    if form == "slurm":
        assert text.startswith("#!/bin/bash\n#SBATCH")


@pytest.mark.parametrize("engine", ["megatron-lm", "torchtitan", "maxtext", "vllm", "sglang", "tensorrt-llm", "llama-cpp"])
def test_kubernetes_objects_are_yaml_with_all_accelerators(engine: str):
    text = trained(engine, "k8s") if engine in WRITERS else served(engine, "k8s")
    objects = list(yaml.safe_load_all(text))
    main = next(one for one in objects if one["kind"] in ("Job", "Deployment"))
    container = main["spec"]["template"]["spec"]["containers"][0]
    each = next(iter(container["resources"]["limits"].values()))
    many = main["spec"].get("completions", main["spec"].get("replicas"))
    wanted = {"megatron-lm": 64, "torchtitan": 16, "maxtext": 128}.get(engine, 4)
    assert each * many == wanted
    assert all(isinstance(word, str) for word in container["args"])


def test_compose_has_the_words_of_the_command():
    service = next(iter(yaml.safe_load(served("vllm", "compose"))["services"].values()))
    assert [*service["entrypoint"], *service["command"]] == words(served("vllm", "command"))
    devices = service["deploy"]["resources"]["reservations"]["devices"][0]
    assert devices["device_ids"] == ["0", "1", "2", "3"]
    inside = next(iter(yaml.safe_load(served("llama-cpp", "compose"))["services"].values()))
    assert "entrypoint" not in inside
    asked = next(iter(yaml.safe_load(trained("torchtitan", "compose", on="8xh100"))["services"].values()))
    assert asked["entrypoint"][0] == "torchrun"


@pytest.mark.parametrize(
    ("task", "given", "kind", "text"),
    [
        ("train", {"model": "llama-3.1-8b", "on": "8xh100", "engine": "deepspeed", "emit": "command"}, UnknownError, "is started"),
        ("train", {"model": "qwen3-8b", "on": "8xh100", "engine": "torchtitan", "emit": "command"}, UnknownError, "configuration"),
        ("train", {"model": "bert-large", "on": "8xh100", "engine": "megatron-lm", "emit": "slurm"}, UnknownError, "no arguments"),
        ("train", {"model": "llama-3.1-8b", "on": "2xdgx-h100", "engine": "megatron-lm", "emit": "compose"}, UsageError, "host"),
        ("train", {"model": "llama-3.1-8b", "on": "h100", "engine": "megatron", "lora": 8, "emit": "slurm"}, UnknownError, "adapt"),
        ("train", {"model": "resnet-50", "on": "8xh100", "emit": "command"}, UsageError, "given by its samples"),
        ("serve", {"model": "llama-3.1-8b", "on": "h100", "engine": "ollama", "emit": "k8s"}, UnknownError, "is started"),
        ("serve", {"model": "llama-3.1-405b", "on": "16xh100", "tp": 16, "emit": "k8s"}, UsageError, "spans 2 nodes"),
        ("serve", {"model": "llama-3.1-8b", "on": "mi300x", "emit": "compose", "engine": "vllm"}, UsageError, "of amd"),
    ],
)  # fmt: skip
def test_what_has_no_launch_says_so(task: str, given: dict[str, object], kind: type[GpuplanError], text: str):
    with pytest.raises(kind, match=text):
        made(task, **given)


@pytest.mark.parametrize("form", ["command", "compose", "k8s", "slurm"])
@pytest.mark.parametrize(("task", "engine"), [("serve", "vllm"), ("train", "megatron-lm")])
def test_of_a_model_by_its_size_the_user_names_the_files(task: str, engine: str, form: str) -> None:
    text = made(task, model="13b", on="8xh100", engine=engine, emit=form).launch
    assert "set MODEL: the model: its folder, or its name on the hub" in text
    assert "${MODEL:?" in text or "name: MODEL" in text
    assert " 13b " not in text.replace("# 13b on 8xh100", "")
