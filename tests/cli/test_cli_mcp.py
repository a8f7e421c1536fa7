"""Do assistants get gpuplan's answers, bounded, without a file or the network? Asked by the SDK's own client over stdio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import gpuplan
from gpuplan.cli.assistant import answer as answers
from gpuplan.cli.assistant.tools import ABOUT, LEFT_OUT, MODELS, answer_schema, tools
from gpuplan.plan.ask import ASKS
from tests.cli.cli_calls import process

anyio = pytest.importorskip("anyio", reason="the SDK is in the `mcp` extra")
mcp = pytest.importorskip("mcp", reason="the SDK is in the `mcp` extra")


def session(steps: Callable[[Any], Awaitable[None]], *options: str) -> None:
    """Start the server as an assistant does, and work through some steps with a client."""
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def whole() -> None:
        words = ["-m", "gpuplan", "mcp", *options]
        started = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))
        async with mcp.Client(stdio_client(started)) as client:
            await steps(client)

    anyio.run(whole)


def reply(tool: str, **given: Any) -> dict[str, Any]:
    """What the process of a call answers, asked in this one."""
    return answers.reply(json.dumps({"tool": tool, "arguments": given}))


def problem(tool: str, **given: Any) -> str:
    """The problems of a call as text."""
    return "\n".join(" ".join(one) for one in reply(tool, **given)["problems"])


def test_an_assistant_lists_the_tools_and_asks_them() -> None:
    async def steps(client: Any) -> None:
        assert client.server_info.name == "gpuplan"
        listed = {one.name: one for one in (await client.list_tools()).tools}
        assert listed.keys() == ABOUT.keys() == tools().keys()
        assert all(one.annotations.read_only_hint for one in listed.values())

        fits = await client.call_tool("fit", {"model": "llama-3.1-8b", "on": "h100"})
        assert not fits.is_error
        whole = gpuplan.fit("llama-3.1-8b", on="h100").to_dict()
        assert fits.structured_content["figures"] == json.loads(json.dumps(whole["figures"]))
        assert json.loads(fits.content[0].text) == fits.structured_content
        jsonschema.validate(fits.structured_content, answer_schema())

        small = await client.call_tool("fit", {"model": "llama-3.1-405b", "on": "t4"})
        assert not small.is_error
        assert small.structured_content["verdict"]["fits"] is False

        wrong = await client.call_tool("fit", {"model": "llama-3.1-8b", "on": "h1000"})
        assert wrong.is_error
        assert "did you mean `h100`" in wrong.content[0].text
        away = await client.call_tool("fit", {"model": "acme/some-model", "on": "h100"})
        assert away.is_error
        assert "acme/some-model" in away.content[0].text
        assert "Traceback" not in away.content[0].text

    session(steps)


def test_a_call_that_takes_too_long_is_ended_and_the_server_goes_on() -> None:
    async def steps(client: Any) -> None:
        goal = {"goal": "train", "model": "llama-3.1-405b", "deadline": "30d", "question": {"tokens": "15T"}}
        late = await client.call_tool("plan", goal)
        assert late.is_error
        assert "no answer within 1 s" in late.content[0].text
        assert len((await client.list_tools()).tools) == len(ABOUT)

    session(steps, "--timeout", "1")


def test_the_user_s_folders_count(tmp_path: Path) -> None:
    mine = tmp_path / "accelerators" / "acme" / "broken.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("format: 1\nid: broken\n")

    async def steps(client: Any) -> None:
        found = await client.call_tool("fit", {"model": "llama-3.1-8b", "on": "broken"})
        assert found.is_error
        assert "broken.yaml" in found.content[0].text

    session(steps, "--specs", str(tmp_path))


def test_every_task_answers_as_the_command_does() -> None:
    served = reply("serve", model="llama-3.1-8b", on="h100", prompt=2000, output=300)["answer"]
    asked = gpuplan.serve("llama-3.1-8b", on="h100", prompt=2000, output=300).to_dict()
    assert served == {key: json.loads(json.dumps(one)) for key, one in asked.items() if key not in ("terms", "formulas", "sources")}
    jsonschema.validate(served, answer_schema())
    text = reply("train", model="llama-3.1-8b", on="8xh100", tokens="1T")["answer"]
    assert text["figures"]["wall_time_s"]["value"] > 0


def test_machines_and_formats_are_compared_and_one_without_an_answer_says_why() -> None:
    question = {"model": "llama-3.1-8b", "on": ["h100", "no-such-gpu"], "weights": ["bf16", "fp8"]}
    made = reply("compare", task="serve", question=question)["answer"]
    assert [one["answered"] for one in made["rows"]] == [True, True, False, False]
    assert made["winner"][0]["name"] == made["rows"][0]["name"]
    assert "no-such-gpu" in made["rows"][-1]["problems"][0]["message"]
    assert "1 questions" in problem("compare", task="fit", question={"model": "llama-3.1-8b", "on": ["h100"]})
    assert "no on" in problem("compare", task="fit", question={"model": "llama-3.1-8b"})
    many = {"model": "llama-3.1-8b", "on": ["h100", "t4"], "batch": [1, 2, 3, 4, 5, 6, 7]}
    assert "14 questions" in problem("compare", task="fit", question=many)
    assert "name of a model" in problem("compare", task="fit", question={"model": ["llama-3.1-8b", "./x"], "on": "h100"})


def test_goals_are_planned() -> None:
    made = reply("plan", goal="carries", model="llama-3.1-8b", on="rtx-4090", tpot="50ms", question={"prompt": 500})["answer"]
    assert made["reached"] is True
    assert "one of train, finetune" in problem("plan", goal="dream", model="m")
    assert "takes no users" in problem("plan", goal="train", model="llama-3.1-8b", users=3)
    assert "model stands in `question` too" in problem("plan", goal="serve", model="m", question={"model": "m"})


def test_prices_have_their_source_and_their_number_is_bounded() -> None:
    made = reply("prices", words=["h100"], limit=3)["answer"]
    assert len(made["prices"]) == 3 < made["found"]
    assert all(one["usd_per_hour"] > 0 and one["source"] for one in made["prices"])
    assert "from 1 to 100" in problem("prices", words=["h100"], limit=1000)
    assert "kind" in problem("prices", words=["h100"], kind="sport")


def test_figures_and_formulas_are_explained() -> None:
    assert "kv_heads" in reply("explain", term="kv_bytes_per_token")["answer"]["working"]
    made = reply("explain", term="peak_memory_bytes", task="fit", question={"model": "llama-3.1-8b", "on": "h100"}, depth=2)
    assert "weights" in made["answer"]["working"]
    assert "formula" in problem("explain", term="no_such_formula")
    assert "one of fit, train" in problem("explain", term="mfu", task="dream")
    assert "from 1 to 20" in problem("explain", term="mfu", task="train", depth=99)


@pytest.mark.parametrize("key", LEFT_OUT)
def test_what_reads_or_writes_files_is_refused_everywhere(key: str) -> None:
    for name, schema in tools().items():
        assert key not in schema["properties"]
        assert key in problem(name, **{key: "x"})
    assert key in problem("compare", task="serve", question={"model": "llama-3.1-8b", "on": ["h100", "t4"], key: "x"})


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "./model", "../x/config.json", "~/model", "a\\b", "C:/x", "m.gguf", "a/../../b", "", 7]
)
@pytest.mark.parametrize("key", MODELS)
def test_a_model_is_no_file(key: str, name: object) -> None:
    expected = "name of a model" if name != "" else ""
    assert expected in problem("serve", **{"model": "llama-3.1-8b", "on": "h100", key: name})
    assert expected in problem("explain", term="mfu", task="train", question={"model": "llama-3.1-8b", "on": "h100", key: name})


def test_a_wrong_call_says_all_that_is_wrong() -> None:
    said = problem("fit", modell="m", on="h100")
    assert "did you mean `model`" in said
    assert "`model` is missing" in said
    assert "there are fit, train" in problem("dream")
    assert "must be an object" in problem("compare", task="fit", question="m")
    assert "no JSON" in answers.reply("{")["problems"][0][0]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("explain", {"term": 5}),
        ("explain", {"term": "mfu", "task": ["train"]}),
        ("explain", {"term": "mfu", "task": "train", "question": [1]}),
        ("prices", {"words": 5}),
        ("prices", {"words": [1]}),
        ("prices", {"words": ["h100"], "limit": True}),
        ("plan", {"goal": {}, "model": "m"}),
        ("compare", {"task": "fit", "question": {"model": "m", "on": ["a", "b"]}, "by": 3}),
    ],
)
def test_values_of_a_wrong_type_are_no_fault_of_ours(tool: str, given: dict[str, Any]) -> None:
    assert "must be" in problem(tool, **given)


@pytest.mark.parametrize("value", [[1], {"a": 1}, None, True, -1, "", "x" * 100_000, 10**400, "\x00"])
@pytest.mark.parametrize("key", ["batch", "on", "weights", "price", "set"])
def test_values_of_options_are_no_fault_of_ours(key: str, value: object) -> None:
    made = reply("fit", **{"model": "llama-3.1-8b", "on": "h100", key: value})
    assert "answer" in made or not any("has a bug" in " ".join(one) for one in made["problems"])


def test_an_answer_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST_CHARACTERS", 100)
    assert "more than 100" in problem("fit", model="llama-3.1-8b", on="h100")


def test_a_fault_of_ours_is_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "answer", lambda tool, given: 1 / 0)
    assert "has a bug: ZeroDivisionError" in problem("fit", model="llama-3.1-8b", on="h100")


def test_the_schemas_are_those_of_the_options() -> None:
    for task, schema in tools().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert task not in ASKS or {"model", "on"} == set(schema["required"])
        assert len(json.dumps(schema)) < 16_500  # A client sends it along with every question.
    jsonschema.Draft202012Validator.check_schema(answer_schema())
    jsonschema.validate(
        {"model": "m", "on": "h100", "ttft": "1s"} | {"set": {"hw.x": "1"}}, {**tools()["serve"], "additionalProperties": True}
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_a_call_cannot_write_a_file(tmp_path: Path) -> None:
    code = "from gpuplan.cli.assistant.answer import _write_no_file\n_write_no_file()\nwith open('made', 'w') as f: f.write('x')"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode != 0
    assert not (tmp_path / "made").exists() or (tmp_path / "made").stat().st_size == 0


def test_wrong_options_of_the_command() -> None:
    made = process("mcp", "--timeout", "0")
    assert made.returncode == 2
    assert "timeout" in made.stderr
    made = process("mcp", "--specs", "no-such-folder")
    assert made.returncode == 2
    assert "does not exist" in made.stderr
    hidden = "import sys; sys.modules['mcp'] = None; from gpuplan.cli.main import run; sys.exit(run(['mcp']))"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2, done.stderr
    assert "gpuplan[mcp]" in done.stderr


def test_an_option_of_a_plan_is_named_with_it() -> None:
    assert "`gpuplan plan train`" in problem("train", model="gpt2", on="h100", budget=3)
