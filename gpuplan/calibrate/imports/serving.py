"""Which runs did a benchmark of vLLM or SGLang measure? Rows for `gpuplan accuracy --runs`, no kernel parameters.

vLLM: `vllm bench serve`, `latency` and `throughput` with `--output-json` or `--save-result`; SGLang: `bench_serving`,
`bench_offline_throughput` and `bench_one_batch` with their JSON lines. Keys that the file lacks are left out of the row.
Formats: https://docs.vllm.ai/en/latest/contributing/benchmarks.html, https://docs.sglang.ai/developer_guide/bench_serving.html
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, fault, json_of
from gpuplan.yaml_text import on_one_line

WHAT = "the JSON that a benchmark of vLLM or SGLang wrote"
LATENCIES = {"mean_ttft_ms": "ttft_ms", "mean_tpot_ms": "tpot_ms", "mean_itl_ms": "itl_ms", "mean_e2el_ms": "latency_ms",
             "mean_e2e_latency_ms": "latency_ms"}  # fmt: skip


def parse_vllm(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The runs of vLLM's benchmarks."""
    return _parse(text, name, given, "vllm")


def parse_sglang(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The runs of SGLang's benchmarks."""
    return _parse(text, name, given, "sglang")


def _parse(text: str, name: str, given: ImportHints, engine: str) -> ParsedFile:
    """The rows of a file.

    Raises:
        UsageError: it is no result of a benchmark, or nobody said which accelerator it ran on.
    """
    told_accelerator(name, given)
    data = json_of(text, name, WHAT)
    runs: list[Mapping[str, Any]] = []
    for number, result in enumerate(data if isinstance(data, list) else [data], start=1):
        if not isinstance(result, Mapping):
            raise fault(name, number, "it is no result of a benchmark", f"give {WHAT}")
        runs.append(_row(result, name, number, given, engine))
    if not runs:
        raise fault(name, 0, "it holds no result", f"give {WHAT}")
    return ParsedFile(runs=tuple(runs), software=engine)


def told_accelerator(name: str, given: ImportHints) -> None:
    """Refuse a file of runs of which nobody said what they ran on.

    Raises:
        UsageError: nobody did.
    """
    if given.accelerator is None:
        raise fault(name, 0, "it does not say on which accelerator it ran", "say it with --accelerator, such as 8xh100-sxm-80gb")


def _row(result: Mapping[str, Any], name: str, number: int, given: ImportHints, engine: str) -> dict[str, Any]:
    run, measured = _served(result) or _batched(result) or _offline(result) or ({}, {})
    if not measured:
        keys = ", ".join(sorted(map(str, result))[:6])
        raise fault(name, number, f"no throughput or latency that is known stands in it (keys: {keys} …)", f"give {WHAT}")
    said = result.get("server_info")
    server: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    model = str(result.get("model_id") or result.get("model") or result.get("model_path") or server.get("model_path") or "")
    tp = given.tp or result.get("tensor_parallel_size") or server.get("tp_size")
    failed = int(number_of(result.get("failed")) or 0)
    given = given if not tp else given.replaced(tp=int(tp))
    row = row_of(model, run, measured, name, number, given, engine)
    return row | ({"flag": f"{failed} requests failed"} if failed else {})


def row_of(
    model: Any, run: Mapping[str, Any], measured: Mapping[str, float], name: str, number: int, given: ImportHints, engine: str,
    *, splits: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """A row of one run; `splits`: the engine divides a model over all accelerators unless somebody says otherwise.

    Raises:
        UsageError: neither the file nor the user says which model ran.
    """
    model = given.model or str(model or "")
    if not model:
        raise fault(name, number, "it does not say which model ran", "say it with --model, such as llama-3.1-70b")
    tp = given.tp or (given.count if splits else None)
    made = {**run, **({"tp": tp} if tp else {}), **({"weights": given.weights} if given.weights else {})}
    figures = dict(measured)
    output = figures.get("output_tokens_per_s")
    if output is not None:
        figures["output_tokens_per_s_per_accelerator"] = output / given.count
    note = "tensor parallelism is taken as the number of accelerators, since nobody said it"
    slug = re.sub(r"[^a-z0-9.]+", "-", f"{engine}-{given.accelerator}-x{given.count}-{model}-{name}-{number}".lower()).strip("-")
    return {
        "id": slug, "task": "inference",
        "source": {"title": f"{engine} benchmark, {name}", "provenance": "read", "date": given.date},
        "engine": engine, "model": {"id": model, "name": model},
        "hardware": {"accelerator": given.accelerator, "count": given.count},
        "run": made, "measured": {key: round(value, 6) for key, value in figures.items()},
        **({} if given.tp or not splits else {"note": note}),
    }  # fmt: skip


def _served(result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]] | None:
    """A server under load."""
    throughput, done = number_of(result.get("output_throughput")), number_of(result.get("completed"))
    if throughput is None or done is None:
        return None
    completed = int(done) or 1
    rate, most = number_of(result.get("request_rate")), result.get("max_concurrency")
    lengths = _lengths(result.get("total_input_tokens"), result.get("total_output_tokens"), completed)
    run: dict[str, Any] = {"mode": "server"}
    if most:
        run |= {"concurrency": int(most)}
    elif rate:
        run |= {"request_rate": rate}
        at_once = _at_once(result, completed, lengths.get("output_len", 1))
        run |= {"concurrency": at_once} if at_once else {}
    else:
        run |= {"concurrency": completed}
    run |= lengths
    measured = {"output_tokens_per_s": throughput}
    measured |= _known(result, {"request_throughput": "requests_per_s", "input_throughput": "prompt_tokens_per_s", **LATENCIES})
    return run, measured


def _at_once(result: Mapping[str, Any], completed: int, output: int) -> int | None:
    """How many requests ran at once on average: those that arrive in a second times the seconds that each stays (Little's law)."""
    duration = number_of(result.get("duration"))
    stays = next((one for key in ("mean_e2el_ms", "mean_e2e_latency_ms") if (one := number_of(result.get(key)))), None)
    first, each = number_of(result.get("mean_ttft_ms")), number_of(result.get("mean_tpot_ms"))
    if stays is None and first is not None and each is not None:
        stays = first + (output - 1) * each
    return None if not duration or not stays else max(1, round(completed / duration * stays / 1e3))


def _batched(result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]] | None:
    """One batch: `bench_one_batch` of SGLang, `bench latency` of vLLM."""
    if "avg_latency" in result:
        measured = {"latency_ms": float(result["avg_latency"]) * 1e3}
        run = {key: int(result[key]) for key in ("batch_size", "input_len", "output_len") if result.get(key)}
    elif "batch_size" in result and "prefill_latency" in result:
        run = {key: int(result[key]) for key in ("batch_size", "input_len", "output_len") if result.get(key)}
        measured = {"ttft_ms": float(result["prefill_latency"]) * 1e3}
        measured |= _known(result, {"prefill_throughput": "prompt_tokens_per_s", "median_decode_throughput": "output_tokens_per_s"})
        if (step := number_of(result.get("median_decode_latency"))) is not None:
            measured["tpot_ms"] = step * 1e3
    else:
        return None
    batch = {"batch": run.pop("batch_size")} if "batch_size" in run else {}
    return {"mode": "fixed-batch", **batch, **run}, measured


def _offline(result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]] | None:
    """All requests at once."""
    requests = result.get("num_requests") or result.get("successful_requests")
    elapsed = number_of(result.get("elapsed_time") or result.get("total_latency"))
    if not requests or not elapsed:
        return None
    run: dict[str, Any] = {"mode": "offline-max-throughput", "requests": int(requests)}
    run |= _lengths(result.get("total_input_tokens"), result.get("total_output_tokens"), int(requests))
    measured = _known(
        result,
        {
            "output_throughput": "output_tokens_per_s", "input_throughput": "prompt_tokens_per_s",
            "tokens_per_second": "total_tokens_per_s",
            "requests_per_second": "requests_per_s", "request_throughput": "requests_per_s",
        },
    )  # fmt: skip
    return run, measured


def _lengths(given: Any, made: Any, requests: int) -> dict[str, int]:
    lengths = {"input_len": given, "output_len": made}
    return {key: round(float(value) / requests) for key, value in lengths.items() if value}


def _known(result: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    found = {ours: number_of(result.get(theirs)) for theirs, ours in names.items()}
    return {key: value for key, value in found.items() if value is not None and value > 0}


def number_of(value: Any) -> float | None:
    """A finite number, or None: it is none."""
    try:
        made = float(value)
    except (TypeError, ValueError):
        return None
    return made if math.isfinite(made) else None


def runs_text(runs: Sequence[Mapping[str, Any]], before: str) -> str:
    """A file of runs with more rows; a row of the same id takes the place of the old one."""
    ids = tuple(f"- {{id: {on_one_line(run['id'])}," for run in runs)
    kept = [line for line in before.splitlines() if not line.startswith(ids)]
    return "\n".join([*kept, *(f"- {on_one_line(run)}" for run in runs)]) + "\n"
