"""Which runs did a client of any engine, or llama.cpp's own benchmark, measure? Rows for `gpuplan accuracy --runs`.

GenAI-Perf and AIPerf write one run a file, as JSON or CSV with a line for each metric; neither says which engine answered.
llama-bench writes a list (`-o json`) or a line a test (`-o jsonl`): the speed of a prompt, or of an answer behind a context.
Formats: https://github.com/triton-inference-server/perf_analyzer/tree/main/genai-perf, https://github.com/ai-dynamo/aiperf,
https://github.com/ggml-org/llama.cpp/tree/master/tools/llama-bench
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, fault, json_of
from gpuplan.calibrate.imports.serving import number_of, row_of, told_accelerator
from gpuplan.files.csv_text import rows_of

CLIENT = "the JSON or CSV that GenAI-Perf or AIPerf exports of a whole run"
BENCH = "what `llama-bench -o json` printed"
ENGINE = "llama.cpp"
METRICS: Mapping[str, tuple[str, float]] = {
    "time_to_first_token": ("ttft_ms", 1.0), "inter_token_latency": ("tpot_ms", 1.0), "request_latency": ("latency_ms", 1.0),
    "output_token_throughput": ("output_tokens_per_s", 1.0), "request_throughput": ("requests_per_s", 1.0),
}  # fmt: skip
"""What the exports call the figures of a run; times are in ms. Their latency between tokens is the mean of a request."""
LENGTHS = {"input_sequence_length": "input_len", "output_sequence_length": "output_len"}
UNITS = {"ms": 1.0, "us": 1e-3, "ns": 1e-6, "s": 1e3, "sec": 1e3, "seconds": 1e3}
"""Milliseconds of a unit of time."""
_BEHIND = re.compile(r"\s*\(([^)]*)\)\s*$")


def parse_client(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The run of a file of GenAI-Perf or AIPerf.

    Raises:
        UsageError: it is none, or nobody said which engine answered, on what, or under which load.
    """
    told_accelerator(name, given)
    if given.engine is None:
        raise fault(name, 0, "it does not say which engine answered", "say it with --engine, such as vllm or sglang")
    if text.lstrip()[:1] in ("{", "["):
        data = json_of(text, name, CLIENT)
        metrics, about = _of_json(data if isinstance(data, Mapping) else {})
    else:
        metrics, about = _of_csv(text, name), {}
    measured = {ours: metrics[theirs] * scale for theirs, (ours, scale) in METRICS.items() if metrics.get(theirs, 0.0) > 0}
    if not measured:
        raise fault(name, 0, "no throughput or latency that is known stands in it", f"give {CLIENT}")
    run: dict[str, Any] = {"mode": "server"}
    run |= {ours: round(metrics[theirs]) for theirs, ours in LENGTHS.items() if metrics.get(theirs, 0.0) > 0}
    users, rate = given.concurrency or _whole(about.get("concurrency")), number_of(about.get("request_rate"))
    if users:
        run["concurrency"] = users
    elif rate:
        run["request_rate"] = rate
    else:
        hint = "say it with --concurrency N, as the client was told"
        raise fault(name, 0, "it does not say how many requests were in flight", hint)
    return ParsedFile(runs=(row_of(about.get("model"), run, measured, name, 1, given, given.engine),), software=given.engine)


def _of_json(data: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """The mean of each metric, and what the client was asked for: wherever its settings say so."""
    metrics: dict[str, float] = {}
    for name, one in data.items():
        if isinstance(one, Mapping) and (value := number_of(one.get("avg"))) is not None:
            metrics[name] = value * UNITS.get(str(one.get("unit")).lower(), 1.0)
    about: dict[str, Any] = {}
    for key, value in _leaves(data.get("input_config") or data.get("config") or {}):
        if key in ("concurrency", "request_rate") and about.get(key) is None:
            about[key] = value
        elif key in ("model", "model_names") and not about.get("model"):
            about["model"] = value
    return metrics, about


def _leaves(data: Any, key: str = "") -> Iterable[tuple[str, Any]]:
    """All values of nested mappings with the last of their keys; of a list the first."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _leaves(value, str(name))
    elif isinstance(data, list):
        yield from ((key, value) for value in data[:1])
    elif data is not None:
        yield key, data


def _of_csv(text: str, name: str) -> dict[str, float]:
    """The mean of each metric; blocks are a metric a line, some with statistics and some with a value alone."""
    metrics: dict[str, float] = {}
    column = 1
    for _, cells in rows_of(text, name, code="import", most=10_000):
        first = cells[0].strip() if cells else ""
        if first == "Metric":
            column = cells.index("avg") if "avg" in cells else 1
            continue
        unit = _BEHIND.search(first)
        value = number_of(cells[column].replace(",", "")) if len(cells) > column else None
        if value is not None:
            key = "_".join(_BEHIND.sub("", first).lower().split())
            metrics[key] = value * UNITS.get(unit[1].lower() if unit else "", 1.0)
    return metrics


def parse_llama_bench(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The tests of a file of llama-bench.

    Raises:
        UsageError: it is none, or nobody said which accelerator or model it was of.
    """
    told_accelerator(name, given)
    data = json_of(text, name, BENCH)
    runs: list[Mapping[str, Any]] = []
    left_out: list[str] = []
    for number, one in enumerate(data if isinstance(data, list) else [data], start=1):
        if not isinstance(one, Mapping) or number_of(one.get("avg_ts")) is None:
            raise fault(name, number, "it is no test of llama-bench: it has no `avg_ts`", f"give {BENCH}")
        speed, prompt, answer = number_of(one["avg_ts"]) or 0.0, _whole(one.get("n_prompt")), _whole(one.get("n_gen"))
        if speed <= 0 or bool(prompt) == bool(answer):
            left_out.append(f"{name}:{number}: it times a prompt and an answer together, or nothing")
            continue
        run: dict[str, Any] = {"mode": "single-stream", "batch": 1}
        run |= {"input_len": prompt, "output_len": 0} if prompt else {"input_len": _whole(one.get("n_depth")), "output_len": answer}
        measured = {"prompt_tokens_per_s": speed} if prompt else {"output_tokens_per_s": speed, "tpot_ms": 1e3 / speed}
        model, weights = _of_gguf(str(one.get("model_filename") or ""))
        said = given if given.weights or weights is None else given.replaced(weights=weights)
        build = _whole(one.get("build_number"))
        row = row_of(model, run, measured, name, number, said, ENGINE, splits=False)
        runs.append(row | ({"note": f"build {build}"} if build else {}))
    if not runs:
        raise fault(name, 0, "it holds no test of a prompt or of an answer alone", f"give {BENCH}")
    return ParsedFile(runs=tuple(runs), software=ENGINE, left_out=tuple(left_out))


def _of_gguf(path: str) -> tuple[str, str | None]:
    """A model and its type of weights by the name of its file, where that ends as such files do.

    >>> _of_gguf("models/Meta-Llama-3-8B-Instruct.Q4_K_M.gguf"), _of_gguf("own.gguf")
    (('Meta-Llama-3-8B-Instruct', 'q4_k_m'), ('own', None))
    """
    stem = re.sub(r"\.gguf$", "", re.split(r"[/\\]", path)[-1], flags=re.IGNORECASE)
    found = re.search(r"[.-]((?:I?Q\d\w*|TQ\d\w*|MXFP4\w*|BF16|F16|F32))$", stem, flags=re.IGNORECASE)
    return (stem, None) if found is None else (stem[: found.start()], found[1].lower())


def _whole(value: Any) -> int:
    found = number_of(value)
    return 0 if found is None else int(found)
