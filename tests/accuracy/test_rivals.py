"""`benchmarks/rivals.py`: rivals are told the same plan, their answers judged on the same rows, and what they cannot take is said.

The rivals here are stand-ins with the names and the calls of the real ones; the real ones are not needed.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from gpuplan.accuracy.rows import Row, packaged
from gpuplan.cli.accuracy_run import wanted_rows
from gpuplan.cli.main import run
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "benchmarks" / "rivals.py"
ADAPTERS = ROOT / "benchmarks" / "rivals"

RUN = {
    "seq_len": 4096, "global_batch": 64, "micro_batch": 1, "precision": "bf16", "tp": 4, "pp": 2, "dp": 2, "sharding": "zero1",
    "recompute": "none", "sequence_parallel": True,
}  # fmt: skip
PLAIN = {
    "id": "plain", "kind": "pretrain", "framework": "megatron-lm", "model": {"id": "llama-3.1-8b", "name": "Llama 3.1 8B"},
    "hardware": {"accelerator": "h100-sxm-80gb", "count": 16, "per_node": 8}, "run": RUN,
    "measured": {"step_time_s": 4.0, "peak_memory_gib": 40.0, "peak_memory_kind": "allocated"},
}  # fmt: skip
ROWS = [
    PLAIN,
    PLAIN | {"id": "kept", "measured": {"peak_memory_gib": 50.0, "peak_memory_kind": "reserved"}},
    PLAIN | {"id": "adapters", "kind": "finetune-lora", "run": RUN | {"lora": {"rank": 8}}},
    PLAIN | {"id": "doubtful", "flag": "inconsistent"},
    PLAIN | {"id": "crash", "model": {"id": "llama-3-70b", "name": "Llama 3 70B"}, "run": RUN | {"recompute": "full"}},
]
MEGATRON = """
from .utils import is_hybrid_model, print_rank_0

def report_theoretical_memory(args, num_microbatches=None, verbose=False):
    print("what it prints is not its answer")
    if args.recompute_granularity == "full":
        raise ValueError("stand-in stops here\\nsecond line")
    assert not is_hybrid_model(args) and num_microbatches == 32
    assert (args.num_query_groups, args.padded_vocab_size, args.use_distributed_optimizer) == (8, 128512, True)
    return 30000.0, 2768.0, 32768.0
"""
CONFIG = """
from collections import namedtuple
ModelConfig, GPUConfig = (lambda **given: given), (lambda **given: given)
DtypeConfig, ParallelismConfig = (lambda **given: given), (lambda **given: given)
gpu_configs = {}

def populate_model_and_gpu_configs():
    gpu_configs["h100-sxm-80gb"] = "its own file"
"""
ANALYSIS = """
DSZeRO = ActivationRecomputation = int

class LLMAnalysis:
    def __init__(self, model, gpu, dtype, parallelism, flops_efficiency, hbm_memory_efficiency):
        assert gpu == "its own file" and (flops_efficiency, hbm_memory_efficiency) == (0.5, 0.9)
        self.model, self.parallelism = model, parallelism

    def training(self, **given):
        assert given["ds_zero"] == 1 and given["flash_attn"]
        steps = {"latency_per_iter_using_flops": 5.0, "latency_per_iter": 8.0}
        return {**steps, "estimated_peak_memory_per_gpu": 44 * 2**30 * given["batch_size_per_gpu"]}
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Stand-ins for two rivals, and the rows."""
    tmp_path = tmp_path_factory.mktemp("rivals")
    files = {
        "megatron/megatron/training/theoretical_memory_usage.py": MEGATRON,
        "llm-analysis/llm_analysis/__init__.py": "",
        "llm-analysis/llm_analysis/config.py": CONFIG,
        "llm-analysis/llm_analysis/analysis.py": ANALYSIS,
        "mine.yaml": yaml.safe_dump(ROWS),
    }
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return {name: tmp_path / name for name in ("megatron", "llm-analysis", "mine.yaml")}


def ask(folders: dict[str, Path], *more: str) -> subprocess.CompletedProcess[str]:
    given = ["--megatron", folders["megatron"], "--llm-analysis", folders["llm-analysis"], "--runs", folders["mine.yaml"]]
    return call(*map(str, given), *more)


@pytest.fixture(scope="module")
def asked(folders: dict[str, Path]) -> str:
    """What is said of both in JSON."""
    done = ask(folders, "--json")
    assert done.returncode == 0, done.stderr
    return done.stdout


def call(*words: str) -> subprocess.CompletedProcess[str]:
    """What the script says, called in this process; each rival has one of its own all the same."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = script().main(words)
        except SystemExit as stop:
            code = stop.code
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@cache
def script() -> ModuleType:
    """The script as a module."""
    return module_of(SCRIPT)


def in_a_process(*words: str) -> subprocess.CompletedProcess[str]:
    """The same as somebody types it."""
    command = [sys.executable, str(SCRIPT), *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=300)


def test_errors_are_those_of_the_rivals_figures_on_the_same_rows(asked: str) -> None:
    made = json.loads(asked)
    tools = {one["tool"]: one for one in made["tools"]}
    assert list(tools) == ["llm-analysis (FLOPs)", "llm-analysis (layers)", "Megatron-LM report"]
    assert made["rows"] == 5
    assert made["left_out_for_all"] == {"marked as doubtful: inconsistent": 1}

    fast = tools["llm-analysis (FLOPs)"]
    speed = {row["id"]: row for row in fast["rows"] if row["metric"] == "throughput"}
    assert set(speed) == {"plain", "crash"}
    assert speed["plain"]["measured"] == pytest.approx(64 * 4096 / 4.0 / 16)
    assert speed["plain"]["tool"] == pytest.approx(64 * 4096 / 5.0 / 16)
    assert fast["metrics"]["throughput"]["all"]["tool"]["bias"] == pytest.approx(4 / 5 - 1)
    slow = tools["llm-analysis (layers)"]["metrics"]["throughput"]["all"]["tool"]
    assert slow["median_ape"] == pytest.approx(1 - 4 / 8)
    memory = {row["id"]: row for row in fast["rows"] if row["metric"] == "memory"}
    assert memory["plain"]["tool"] / memory["plain"]["measured"] == pytest.approx(44 / 40)
    assert memory["kept"]["tool"] / memory["kept"]["measured"] == pytest.approx(44 / 50)
    assert "no_gpuplan_fit_saw" not in fast["metrics"]["memory"], "memory profiles saw all peaks"
    # A pipeline without bubbles is not the run's: no row is stated exactly.
    assert fast["metrics"]["throughput"]["stated_exactly"]["tool"]["rows"] == 0
    assert fast["skipped"]["throughput"] == {"no adapters": 1}

    megatron = tools["Megatron-LM report"]
    exact = megatron["metrics"]["memory"]["stated_exactly"]
    assert exact["tool"]["rows"] == exact["gpuplan"]["rows"] == 2
    assert exact["tool"]["mean_ape"] == pytest.approx((1 - 32 / 40 + 1 - 32 / 50) / 2)
    assert megatron["skipped"]["memory"] == {"it stops: stand-in stops here": 1, "no adapters": 1}
    assert megatron["skipped"]["throughput"]["it has no such figure"] == 1


def test_gpuplans_side_is_what_gpuplan_accuracy_reports(
    folders: dict[str, Path], asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = json.loads(asked)
    assert run(["accuracy", "--json", "--runs", str(folders["mine.yaml"])]) == 0
    own = {(row["id"], row["metric"]): row["expected"] for row in json.loads(capsys.readouterr().out)["rows"]}
    rows = made["tools"][0]["rows"]
    assert rows
    assert all(row["gpuplan"] == pytest.approx(own[row["id"], row["metric"]]) for row in rows)


def test_table_fits_a_terminal_and_says_who_could_not_answer(folders: dict[str, Path], asked: str) -> None:
    out = ask(folders).stdout
    assert max(map(len, out.splitlines())) <= 80
    assert "throughput: error against measured runs" in out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "all rows it takes 2 20.0% 20.0% 20.0% -20.0%" in lines
    assert "1 it stops: stand-in stops here" in lines
    saved = folders["mine.yaml"].with_name("saved.json")
    saved.write_text(asked, encoding="utf-8")
    assert call("--from", str(saved)).stdout == out
    marked = call("--from", str(saved), "--md").stdout
    assert "| Megatron-LM report | rows it states exactly | 2 |" in marked
    assert "- Megatron-LM report: version not known" in marked


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the folder of at least one rival"),
        (("--calculon", "nowhere"), "no such folder: nowhere"),
        (("--megatron", ".", "--runs", "nowhere.yaml"), "there is no such file or folder"),
        (("--from", "nowhere.json"), "nowhere.json is no file that --json wrote"),
    ],
)
def test_wrong_words_are_said_without_a_traceback(words: tuple[str, ...], said: str) -> None:
    done = call(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_no_checkout_says_so(folders: dict[str, Path]) -> None:
    other = folders["megatron"]
    done = in_a_process("--calculon", str(other), "--runs", str(folders["mine.yaml"]))
    assert done.returncode == 1
    assert "calculon: ModuleNotFoundError" in done.stderr
    assert f"is {other} its checkout" in done.stderr
    assert "Traceback" not in done.stderr


def adapter(name: str) -> ModuleType:
    """A module of benchmarks/rivals."""
    return module_of(ADAPTERS / f"{name}.py")


def module_of(path: Path) -> ModuleType:
    """A file of benchmarks/ as a module."""
    if str(ADAPTERS) not in sys.path:
        sys.path.append(str(ADAPTERS))
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def jobs() -> dict[str, dict[str, Any]]:
    """The jobs of a few published rows."""
    made = adapter("jobs")
    library = Library.of(TrainAsk(model="", on=""))
    wanted = {
        "bigsci-181b-h14336-n384-tp8pp6dp8-mb4-gbs2048": "bloom", "dgxc-250505-deepseek-v3-gb200-n256-bf16-gbs2048": "deepseek"
    }  # fmt: skip
    found: dict[str, dict[str, Any]] = {}
    row: Row
    for row in wanted_rows(None, "training"):
        if row.id in wanted:
            found[wanted[row.id]] = made.job_of(row, *made.asked(row, library), library)
    return found


def test_a_job_is_what_the_row_says(jobs: dict[str, dict[str, Any]]) -> None:
    plan, model = jobs["bloom"]["plan"], jobs["bloom"]["model"]
    assert [plan[name] for name in ("tp", "pp", "dp", "micro_batch", "micro_batches", "zero")] == [8, 6, 8, 4, 64, 1]
    assert (plan["recompute"], plan["attention"], plan["left_open"]) == ("full", "eager", [])
    assert [model[name] for name in ("layers", "hidden", "ffn", "gated", "moe")] == [72, 14336, 57344, False, None]
    machine = jobs["bloom"]["machine"]
    assert (machine["accelerator"], machine["per_node"], machine["bf16_tflops"]) == ("a100-sxm-80gb", 8, 312.0)
    deep = jobs["deepseek"]["model"]
    assert deep["moe"] == {"experts": 256, "top_k": 8, "width": 2048, "shared_width": 2048, "dense_layers": 3}
    assert deep["mla"] == {"q_rank": 1536, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "v_dim": 128}


def test_calculon_gets_a_plain_layer_of_as_many_weights() -> None:
    calculon = adapter("with_calculon")
    llama = {"hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128, "ffn": 14336, "gated": True}
    attention, layer = 2 * 4096 * 128 * (32 + 8), 3 * 4096 * 14336
    assert 4 * 4096 * 4096 + 2 * 4096 * calculon.plain_width(llama, tp=8) == attention + layer
    gpt = {"hidden": 12288, "heads": 96, "kv_heads": 96, "head_dim": 128, "ffn": 49152, "gated": False}
    assert calculon.plain_width(gpt, tp=8) == 49152


def test_calculon_gets_groups_inside_a_node_as_far_as_they_fit() -> None:
    networks = adapter("with_calculon").networks
    inside = {"tensor_par_net": 0, "data_par_net": 0, "pipeline_par_net": 0}
    assert networks({"tp": 2, "dp": 2, "pp": 2}, size=8) == inside
    assert networks({"tp": 8, "dp": 1, "pp": 8}, size=8) == inside | {"pipeline_par_net": 1}
    assert networks({"tp": 8, "dp": 4, "pp": 1}, size=8) == inside | {"data_par_net": 1, "pipeline_par_net": 1}


def test_simumax_gets_the_plan_and_the_datasheet(jobs: dict[str, dict[str, Any]]) -> None:
    simumax = adapter("with_simumax")
    links = {"low_intra_node": {"bandwidth": {"gbps": 900}}, "high_intra_node": {"bandwidth": {"gbps": 900}}}
    files = {
        "a100_pcie": {
            "num_per_node": 8,
            "accelerator": {"op": {"default": {"tflops": 312, "efficient_factor": 0.75}}, "bandwidth": {"default": {"gbps": 1600}}},
            "networks": {"inter_node": {"bandwidth": {"gbps": 25}}},
        },
        "b200_bf16_ceperm": {"networks": links | {"inter_node": {"bandwidth": {"gbps": 200}}}},
    }
    bloom = jobs["bloom"]
    made = simumax.system(files, bloom["machine"])
    assert made["accelerator"]["bandwidth"]["default"]["gbps"] == 2039.0
    assert made["networks"]["high_intra_node"]["bandwidth"]["gbps"] == 300.0
    assert made["networks"]["inter_node"]["bandwidth"] == {"efficient_factor": 0.5, "gbps": 200.0, "latency_us": 30}
    assert files["a100_pcie"]["networks"]["inter_node"]["bandwidth"]["gbps"] == 25, "the shipped file is copied, not changed"
    plan = simumax.strategy(bloom["model"], bloom["plan"], newest=False)
    assert plan["recompute_layer_num"] == 12
    assert plan["world_size"] == plan["tp_size"] * plan["pp_size"] * 8
    uneven = simumax.strategy(bloom["model"] | {"layers": 61}, bloom["plan"] | {"pp": 4}, newest=False)
    ends = uneven["num_layers_in_first_pipeline_stage"], uneven["num_layers_in_last_pipeline_stage"]
    assert ends == (15, 14)
    assert (61 - sum(ends)) / 2 == 16
    assert simumax.seconds("1.5 s") == 1.5
    assert simumax.seconds("250.0 ms") == 0.25


AICONFIGURATOR = """
import json
from pathlib import Path
from types import SimpleNamespace

def cli_estimate(model, system, *, mode, backend_name, isl, osl, batch_size, tp_size, pp_size, gemm_quant_mode, kvcache_quant_mode):
    config = json.loads((Path(model) / "config.json").read_text())
    assert (config["architectures"], config["num_key_value_heads"]) == (["LlamaForCausalLM"], 8)
    assert (system, mode, backend_name, gemm_quant_mode, kvcache_quant_mode) == ("h100_sxm", "static", "trtllm", "fp8", "fp8")
    assert (isl, osl, tp_size, pp_size) == (128, 2048, 1, 1)
    return SimpleNamespace(raw={"tokens/s": 50.0 * batch_size, "memory": 30.0}, ttft=40.0, tpot=8.0)
"""
SERVED = {
    "id": "served", "task": "inference", "engine": "tensorrt-llm 0.9", "model": {"id": "llama-3.1-8b", "name": "Llama 3.1 8B"},
    "hardware": {"accelerator": "h100-sxm-80gb", "count": 1},
    "run": {"weights": "fp8", "kv_cache": "fp8", "tp": 1, "batch": 64, "input_len": 128, "output_len": 2048, "mode": "fixed-batch"},
    "measured": {"output_tokens_per_s": 4000.0, "ttft_ms": 50.0},
}  # fmt: skip


def test_serving_runs_are_asked_of_a_serving_tool(tmp_path: Path) -> None:
    module = tmp_path / "aic" / "aiconfigurator" / "cli" / "api.py"
    module.parent.mkdir(parents=True)
    module.write_text(AICONFIGURATOR, encoding="utf-8")
    old = SERVED | {"id": "old", "hardware": {"accelerator": "v100-sxm-32gb", "count": 1}}
    runs = tmp_path / "served.yaml"
    runs.write_text(yaml.safe_dump([SERVED, old]), encoding="utf-8")
    done = call("--aiconfigurator", str(tmp_path / "aic"), "--runs", str(runs), "--json")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    tool = made["tools"][0]
    errors = {row["metric"]: row["tool"] / row["measured"] - 1 for row in tool["rows"]}
    assert errors == pytest.approx({"throughput": 50 * 64 / 4000 - 1, "ttft": 40 / 50 - 1})
    assert list(tool["metrics"]["throughput"]) == ["all", "stated_exactly"], "nothing was fitted to serving runs"
    told = {*made["left_out_for_all"], *tool["skipped"]["throughput"]}
    assert len(told) == 1
    assert told == {"no measured kernels of this accelerator"} or "does not run on NVIDIA Tesla V100" in told.pop()
    both = call("--aiconfigurator", str(tmp_path), "--calculon", str(tmp_path))
    assert both.returncode == 2
    assert "ask one kind at a time" in both.stderr
    trained = str(packaged() / "litgpt.yaml")
    assert "no measured run of inference" in call("--aiconfigurator", str(tmp_path), "--runs", trained).stderr
