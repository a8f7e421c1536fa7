"""Commands that start engines: read as their engines read them, as published, in every spelling, and with every slip told."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpuplan.errors import GpuplanError, UsageError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.launch.arguments import Heard
from gpuplan.plan.launch.shell import commands
from gpuplan.plan.launch.started import started
from gpuplan.plan.option import by_key
from gpuplan.plan.read import question
from gpuplan.specs.arguments import EngineArguments
from gpuplan.specs.catalog import Catalog
from tests.plan.published_commands import PUBLISHED, SETTINGS_OF_R1, Published


@cache
def tables() -> tuple[EngineArguments, ...]:
    catalog = Catalog.open(())
    return tuple(catalog.load(EngineArguments, ident) for ident in catalog.paths("arguments"))


def table(ident: str) -> EngineArguments:
    return next(one for one in tables() if one.id == ident)


def heard(ident: str, *words: str, release: str = "") -> Heard:
    made = Heard(table(ident), release)
    made.words(words, model=False)
    return made


def sets(ident: str, *words: str) -> dict[str, str]:
    made = heard(ident, *words)
    assert (made.problems, made.unknown) == ([], {})
    return {name: text for name, (text, _) in made.sets.items()}


def asked(**given: Any) -> ServeAsk:
    return question(ServeAsk, {"on": "8xh100", **given})


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: one.text.split("\n")[-1][:40] or one.text[:40])
def test_published_commands_are_understood_word_for_word(one: Published, tmp_path: Path) -> None:
    settings = tmp_path / "config.yml"
    settings.write_text(SETTINGS_OF_R1, encoding="utf-8")
    text = f"EXTRA_LLM_API_FILE={settings}\n{one.text}"
    run = started(text, tables())
    assert run.table.id == one.engine
    made = Heard(run.table)
    made.words(run.words, model=run.model_first)
    if "file" in made.sets:
        made.file(made.sets.pop("file")[0], wins=run.table.file == "overwrites")
    made.environment(run.environment)
    assert (made.problems, made.unknown, made.twice) == ([], {}, [])
    assert sorted(name.removesuffix(f" in {settings}") for name in made.later) == sorted(one.later)
    from gpuplan.plan.launch.sets import options

    assert options(made.sets, lora=run.table.lora, tags=run.table.tags).given == one.sets


def test_every_argument_of_a_table_is_read_in_each_of_its_spellings() -> None:
    """An argument that the reader takes for another, or for the value of the one before, would lose what it says."""
    for one in tables():
        for group in one.groups:
            for name, flag in group.flags.items():
                if not name.startswith("-") or flag.sets == "file":
                    continue
                for spelt in (name, *flag.also):
                    text = next(iter(flag.words), {"json": "{}", "number": "1", "whole": "1"}.get(flag.takes, "1"))
                    words = [spelt] if flag.takes == "switch" else [spelt, text]
                    made = heard(one.id, *words)
                    assert (made.problems, made.unknown) == ([], {}), (one.id, spelt)
            for spelt in group.silent.switches:
                assert heard(one.id, spelt).silent == [spelt], (one.id, spelt)
            for spelt in group.silent.values:
                made = heard(one.id, spelt, "x")
                assert (made.silent, made.unknown) == ([spelt], {}), (one.id, spelt)


def test_what_a_table_sets_is_an_option_of_serve() -> None:
    beyond = {
        "file",
        "expert_parallel",
        "attention_dp",
        "key_cache",
        "value_cache",
        "slot_context",
        "tagged_model",
        "split",
        "lora",
        "draft_kind",
        "draft_model",
    }
    for one in tables():
        found = {str(flag.sets) for group in one.groups for flag in group.flags.values() if flag.sets is not None}
        assert found <= {*by_key(ServeAsk), *beyond}, one.id
        assert {"weights", "kv_cache", "max_sequences", "max_batched_tokens"} & found or one.id == "ollama", one.id


def test_vllm_spells_as_vllm_does() -> None:
    assert sets("vllm", "-tp", "4") == sets("vllm", "--tensor_parallel_size=4") == sets("vllm", "-tp4") == {"tp": "4"}
    assert sets("vllm", "--max-model-len", "32K") == {"max_context": "32768"}
    assert sets("vllm", "--max-model-len", "25.6k") == {"max_context": "25600"}
    assert sets("vllm", "--max-model-len", "-1") == sets("vllm", "--max-model-len", "auto") == {}
    assert sets("vllm", "--enforce-eager") == {"graphs": "false"}
    assert sets("vllm", "--no-enforce-eager") == {"graphs": "true"}
    assert sets("vllm", "--no-enable-chunked-prefill") == {"chunked_prefill": "false"}
    assert sets("vllm", "--compilation-config", '{"cudagraph_mode": "NONE"}') == {"graphs": "false"}
    assert (
        sets("vllm", "--compilation-config.cudagraph_mode", "NONE")
        == sets("vllm", "-cc.cudagraph_mode=NONE")
        == {"graphs": "false"}
    )
    assert sets("vllm", "-O3") == {}
    assert sets("vllm", "--kv-cache-memory-bytes", "20G") == {"cache_memory": str(20 * 2**30)}


def test_other_engines_spell_as_they_do() -> None:
    assert sets("sglang", "--chunked-prefill-size", "-1") == {"chunked_prefill": "false"}
    assert sets("sglang", "--chunked-prefill-size", "4096") == {"max_batched_tokens": "4096"}
    assert heard("sglang", "--tensor_parallel_size", "2").unknown != {}
    assert sets("tensorrt-llm", "--tensor-parallel-size", "2") == sets("tensorrt-llm", "--tp_size", "2") == {"tp": "2"}
    assert sets("llama-cpp", "-ctk", "q8_0", "-ctv", "q8_0", "-np", "4") == {
        "key_cache": "q8_0", "value_cache": "q8_0", "max_sequences": "4",
    }  # fmt: skip
    assert sets("ollama", "num_ctx=8192") == sets("ollama", "PARAMETER", "num_ctx", "8192") == {"context": "8192"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--max-num-seqs", "many"], "a whole number is wanted"), (["--max-num-seqs"], "wants a value"),
        (["--max-num-seqs", "--host", "x"], "wants a value"), (["--gpu-memory-utilization", "a lot"], "a number is wanted"),
        (["--kv-cache-dtype", "fp9"], "no such choice"), (["--speculative-config", "{"], "no JSON"),
        (["--compilation-config", "[1"], "no JSON"), (["--cpu-offload-gb", "x"], "a number is wanted"),
        (["--tensor-parallel-size", "$TP"], "`$TP` is not known"), (["--max-num-seqs", "-4"], "zero or more"),
        (["--enforce-eager=perhaps"], "true or false"),
    ],
)  # fmt: skip
def test_bad_values_are_told(words: list[str], told: str) -> None:
    made = heard("vllm", *words)
    assert len(made.problems) == 1
    assert told in made.problems[0].message


def test_what_nobody_knows_is_named_with_what_is_near() -> None:
    made = heard("vllm", "--max-num-sqs", "4", "--max-num-seqs", "8", "--quite-new=3")
    assert made.sets["max_sequences"][0] == "8"
    assert set(made.unknown) == {"--max-num-sqs 4", "--quite-new=3"}
    assert "--max-num-seqs" in made.unknown["--max-num-sqs 4"]


def test_an_argument_counts_for_the_releases_that_have_it() -> None:
    words = ("--kv-cache-memory-bytes", "20G")
    assert heard("vllm", *words, release="0.11.1").unknown == {}
    assert "came with 0.11" in heard("vllm", *words, release="0.10.2").unknown["--kv-cache-memory-bytes 20G"]
    gone = ("--speculative-model", "x")
    assert heard("vllm", *gone, release="0.8.5").unknown == {}
    assert "went after 0.8" in heard("vllm", *gone, release="0.9.0").unknown["--speculative-model x"]


def test_the_last_of_two_counts_and_both_are_told() -> None:
    made = heard("vllm", "-tp", "2", "--tensor-parallel-size", "4")
    assert made.sets["tp"][0] == "4"
    assert made.twice == ["-tp 2 and --tensor-parallel-size 4"]


def test_the_shell_around_a_command() -> None:
    text = """#!/bin/bash
set -e
export TP=4   # ranks
MODEL="Qwen/Qwen3-8B"
cd /srv && nohup numactl -N 0 vllm serve "$MODEL" -tp ${TP} \\
   --max-model-len ${LEN:-4096} --served-model-name 'a b' > log.txt 2>&1 &
"""
    run = started(text, tables())
    assert run.words == (
        "Qwen/Qwen3-8B", "-tp", "4", "--max-model-len", "4096", "--served-model-name", "a b",
    )  # fmt: skip
    inner = started("docker run -e VLLM_USE_V1=1 vllm/vllm-openai:v0.10.1 bash -c 'vllm serve m -tp 2'", tables())
    assert (inner.words, inner.release, inner.environment["VLLM_USE_V1"]) == (("m", "-tp", "2"), "0.10.1", "1")
    assert started("env A=1 /opt/bin/python3.11 -u -m sglang.launch_server --tp 2", tables()).environment["A"] == "1"
    assert commands("a; b && c | d\ne")[-1].words == ("e",)
    assert commands("echo '$A' \"$A\"")[0].words == ("echo", "$A", "$A")


@pytest.mark.parametrize("text", ["ls -l", "", "vllm bench serve", "vllm serve a\nvllm serve b", "vllm serve 'a", "x" * 200_000])
def test_texts_that_start_no_one_engine_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        started(text, tables())


def test_a_command_twice_is_one_command() -> None:
    assert started("vllm serve a -tp 2\nvllm serve a -tp 2", tables()).words == ("a", "-tp", "2")


def test_engines_words_become_options_and_contradictions_are_told() -> None:
    words = "--max-num-seqs 64 --gpu-memory-utilization 0.85 --kv-cache-dtype fp8 -tp 4 --enable-expert-parallel --host x --hots y"
    made = asked(model="qwen3-30b-a3b", engine="vllm", engine_args=words)
    assert (made.max_sequences, made.memory_utilization, made.kv_cache, made.tp) == (64, 0.85, "fp8", 4)
    assert made.spread_experts is True
    assert [note.code for note in made.heard] == ["command.unknown", "command.no-effect"]
    assert asked(model="m", engine="vllm", engine_args="-tp 4", tp=4).tp == 4
    with pytest.raises(UsageError, match="--tp 2 and -tp 4 of vLLM say different things"):
        asked(model="m", engine="vllm", engine_args="-tp 4", tp=2)
    with pytest.raises(UsageError, match="of which engine"):
        asked(model="m", engine_args="-tp 4")
    with pytest.raises(UsageError, match="not on file"):
        asked(model="m", engine="maxtext", engine_args="-tp 4")
    with pytest.raises(UsageError, match="starts vLLM"):
        asked(engine="sglang", command="vllm serve m")
    with pytest.raises(UsageError, match="two ways"):
        asked(engine="vllm", engine_args="-tp 4", command="vllm serve m")
    with pytest.raises(UsageError, match="MODEL is missing"):
        asked(command="ollama serve")


def test_a_whole_command_means_its_engines_defaults() -> None:
    made = asked(command="docker run vllm/vllm-openai:v0.10.1 --model m --max-num-seqs 8")
    assert (made.model, made.engine, made.tp, made.pp, made.dp, made.as_model) == ("m", "vllm@0.10.1", 1, 1, None, True)
    assert asked(command="vllm serve m --max-model-len 4096").as_model is None
    named = asked(model="llama-3.1-8b", command="vllm serve /models/mine")
    assert named.model == "llama-3.1-8b"
    assert "as you say" in named.heard[0].text
    assert asked(command="ollama run llama3.2").max_sequences == 1
    two = asked(command="llama-server -m m -sm row")
    assert (two.tp, two.pp, two.dp) == (None, 1, 1)


def test_places_for_adapters_are_made_where_they_are_switched_on() -> None:
    def of(words: str, engine: str = "vllm") -> tuple[Any, Any, list[str]]:
        made = asked(model="m", engine=engine, engine_args=words)
        return made.adapters, made.adapter_rank, [note.code for note in made.heard]

    assert of("--enable-lora") == (1, 16, [])
    assert of("--enable-lora --max-loras 4 --max-lora-rank 64") == (4, 64, [])
    assert of("--max-loras 4") == (None, None, ["command.no-effect"])
    assert of("--enable-lora", "sglang") == (None, None, ["command.not-counted"])
    assert of("--lora-paths a=x b=y --max-lora-rank 32", "sglang") == (8, 32, [])


def test_a_command_is_read_from_a_file(tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text("#!/bin/sh\nexec vllm serve m \\\n  -tp 2\n", encoding="utf-8")
    assert asked(command=f"@{script}").tp == 2
    with pytest.raises(GpuplanError):
        asked(command=f"@{tmp_path / 'missing.sh'}")


@pytest.mark.parametrize(
    ("engine", "wins"), [("vllm", "cli"), ("tensorrt-llm", "file")],
)  # fmt: skip
def test_a_file_of_settings_yields_or_overwrites(tmp_path: Path, engine: str, wins: str) -> None:
    """vLLM's arguments win over its file; TensorRT-LLM's file overwrites its arguments."""
    path = tmp_path / "settings.yaml"
    lines = {
        "vllm": "max-num-seqs: 8\nport: 80\nnonsense: 1\n",
        "tensorrt-llm": "max_batch_size: 8\nbackend: pytorch\nnonsense: 1\n",
    }
    path.write_text(lines[engine], encoding="utf-8")
    command = {
        "vllm": f"vllm serve m --max-num-seqs 16 --config {path}",
        "tensorrt-llm": f"trtllm-serve m --max_batch_size 16 --extra_llm_api_options {path}",
    }
    made = asked(command=command[engine])
    assert made.max_sequences == {"cli": 16, "file": 8}[wins]
    assert any("nonsense" in note.text for note in made.heard if note.code == "command.unknown")


@pytest.mark.slow
def test_no_text_breaks_the_reader() -> None:
    """Whatever is pasted, the answer is a question or a message."""
    rng = random.Random(20261122)
    pieces = [
        "vllm", "serve", "m", "python", "-m", "sglang.launch_server", "--tp", "-tp", "8", "0", "-1", "''", '"', "'",
        "\\", "\n", "\\\n",
        "$TP", "${A:-4}", "${", "$(nproc)", "`x`", ";", "&&", "|", ">", "2>&1", "#", "A=1", "export B=2", "--config", "-O3", "-O",
        "--compilation-config", "{}", '\'{"a": [1]}\'', "--compilation-config.mode", "=", "--", "-", "---", "--no-", "--=",
        "docker run", "vllm/vllm-openai:v0.10.1", "-e", "bash -c", "'vllm serve x'", "llama-server", "-c", "-np", "-ctk", "q8_0",
        "ollama run", "x:y", "trtllm-serve", "--extra_llm_api_options", "/dev/null", "--enable-dp-attention", "--dp", "3", "\u2028",
        "é", "\x00", "1e999", "9" * 40, "--max-model-len", "--kv-cache-memory-bytes", "--enable-lora", "--chunked-prefill-size",
        "nan", "inf", "--gpu-memory-utilization",
    ]  # fmt: skip
    starts = ["vllm serve m", "python -m sglang.launch_server", "trtllm-serve m", "llama-server", "ollama run m", ""]
    answered = 0
    for _ in range(400):
        words = " ".join(rng.choice(pieces) for _ in range(rng.randrange(1, 12)))
        given = rng.choice([{"command": f"{rng.choice(starts)} {words}"}, {"engine_args": words, "model": "m", "engine": "vllm"}])
        try:
            asked(**given)
            answered += 1
        except GpuplanError:
            continue
    assert answered > 10


@pytest.mark.parametrize(("words", "own"), [("vllm serve m --quantization awq", True), ("vllm serve m -q awq_marlin", None)])
def test_awq_by_name_means_its_own_kernels(words: str, own: bool | None) -> None:
    made = asked(command=words)
    assert (made.weights, made.awq_kernels) == ("int4", own)
