"""How do tools reach an assistant? The official SDK speaks the protocol over standard input and output; each call is bounded."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

import gpuplan
from gpuplan.cli.assistant.tools import ABOUT, INSTRUCTIONS, answer_schema, tools
from gpuplan.files.json_text import JsonError, parse
from gpuplan.files.write import scratch
from gpuplan.plan.ask import ASKS

AT_ONCE = 2
"""So many calls are worked on at the same time; others wait."""
_KEPT = (
    "PATH", "HOME", "USERPROFILE", "LANG", "LC_ALL", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "XDG_CONFIG_HOME", "XDG_CACHE_HOME",
    "HF_HOME", "OLLAMA_MODELS", "GPUPLAN_SPECS", "GPUPLAN_TODAY",
)  # fmt: skip
"""What a call inherits of the environment: where data of the user's own lies, and nothing that is secret."""


def serve(seconds: float) -> None:
    """Answer an assistant until it hangs up; a call may take so many seconds."""
    anyio.run(_serve, seconds)


async def _serve(seconds: float) -> None:
    free = anyio.CapacityLimiter(AT_ONCE)
    listed = _listed()

    async def list_tools(_ctx: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        async with free:
            return _result(await _answered(params.name, params.arguments or {}, seconds))

    server: Server[Any] = Server(
        "gpuplan",
        version=gpuplan.__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def _listed() -> list[types.Tool]:
    hints = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
    answers = answer_schema()
    return [
        types.Tool(
            name=name, description=ABOUT[name], input_schema=schema, annotations=hints,
            output_schema=answers if name in ASKS else None,
        )
        for name, schema in tools().items()
    ]  # fmt: skip


async def _answered(tool: str, arguments: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What `gpuplan.cli.assistant.answer` says, in a process of its own that is ended when its time is over.

    It starts in an empty folder, so that no name is a file by chance, and it is told that there is no network.
    """
    call = json.dumps({"tool": tool, "arguments": arguments}).encode()
    env = {key: os.environ[key] for key in _KEPT if key in os.environ}
    env |= {"HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1", "NO_COLOR": "1"}
    env["PYTHONPATH"] = str(Path(gpuplan.__file__).parents[1])
    words = [sys.executable, "-m", "gpuplan.cli.assistant.answer"]
    with scratch() as folder:
        try:
            with anyio.fail_after(seconds):
                done = await anyio.run_process(words, input=call, check=False, cwd=folder, env=env)
        except TimeoutError:
            return _problem(f"no answer within {seconds:g} s", "ask for less: fewer machines, a plan with `on`; or `--timeout`")
    try:
        made = parse(done.stdout.decode("utf-8", "replace"))
    except JsonError:
        made = None
    if not isinstance(made, dict):
        return _problem(f"the answer broke off (exit code {done.returncode})", "please report the question")
    return made


def _problem(message: str, hint: str) -> dict[str, Any]:
    return {"problems": [[message, hint]]}


def _result(made: dict[str, Any]) -> types.CallToolResult:
    if "answer" in made:
        text = json.dumps(made["answer"], ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=made["answer"])
    lines = [f"error: {message}" + (f"\n  hint: {hint}" if hint else "") for message, hint in made["problems"]]
    return types.CallToolResult(content=[types.TextContent(type="text", text="\n".join(lines))], is_error=True)
