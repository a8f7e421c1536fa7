"""Which words tell people what a figure or a part means, where its own name does not?"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuplan.render.text import label

_TIMES = {"ttft": "first token", "tpot": "each next", "itl": "token gap", "e2e": "whole request"}
_SHARES = {"p50": "half", "p90": "90 %", "p95": "95 %", "p99": "99 %"}
MEANINGS: Mapping[str, str] = {
    "ttft_s": "first token", "tpot_s": "each next token", "itl_s": "one decode step", "e2e_s": "a whole request",
    **{f"{time}_{part}_s": f"{text}, {share}" for time, text in _TIMES.items() for part, share in _SHARES.items()},
    "tpot_alone_s": "for one user alone", "batch_prefill_s": "all prompts read", "mfu": "of peak FLOP/s",
    "mfu_causal": "masked half left out", "hfu": "with recomputation", "mbu": "of peak bandwidth",
    "headroom_bytes": "memory left over", "kv_pool_bytes": "kept for KV cache",
    "kv_cache_bytes_per_sequence": "at full length", "longest_tokens": "of one sequence", "max_sequences": "at once",
    "max_concurrency": "as engines print it", "latency_s": "one request", "utilization": "of what it can do",
    "wall_time_s": "with interruptions", "run_time_s": "training alone", "rollout_share": "of a step",
    "generators_idle_share": "of a step", "trainers_idle_share": "of a step",
    "available_share": "spot machines up", "highest_rate_per_s": "that it keeps up with",
    "full_tpot_s": "all places taken",
}  # fmt: skip
"""What a figure is, in at most 21 characters that stand beside it."""
SHORTER: Mapping[str, str] = {
    "cost_usd_per_million_output_tokens": "cost of 1M output tokens",
    "cost_usd_per_million_tokens": "cost of 1M tokens",
    "tokens_per_s_per_accelerator": "tokens/s per accelerator",
    "model_flop_per_s_per_accelerator": "FLOP/s per accelerator",
    "input_cost_usd_per_million": "cost of 1M input tokens",
    "break_even_tokens_per_month": "tokens/month to break even",
    "cost_usd_per_thousand_images": "cost of 1,000 images",
    "cost_usd_per_thousand_clips": "cost of 1,000 clips",
    "kv_cache_bytes_per_sequence": "KV cache per sequence",
    "sequences_per_s_per_accelerator": "sequences/s per accel.",
    "break_even_s": "time to break even",
}
"""Names of figures that fit on one screen with what they mean."""
_PARTS: Mapping[str, str] = {
    "rollout_wait": "waiting for responses",
    "unmodelled": "not modelled", "host": "launching kernels", "step_host": "host per step", "request_host": "host per request",
    "head_matmul": "output head", "head": "output head", "head_and_loss": "output head and loss", "sends": "sends between stages",
    "pipeline_send": "sends between stages", "bubble": "pipeline bubble", "stage_wait": "waiting for stages",
    "both_ends": "embedding at both ends",
    "issue_wait": "waiting for launches", "context": "driver and framework", "outside_tensors": "outside of tensors",
    "sequences": "host per sequence", "pages": "host per page of cache",
    "graphs": "graphs", "data_parallel": "gradients between replicas", "sharded_gradients": "sharded gradients",
    "sharded_data_parallel": "sharded data parallel", "transient": "short-lived tensors", "between": "between kernels",
    "gradient_stand_ins": "stand-ins for gradients",
    "host_link": "moved from the host", "frozen": "frozen weights", "idle_blocks": "idle blocks", "elementwise": "elementwise",
    "encode_text": "reading the text", "full_decode": "full decode batches", "tail": "last long answers",
    "nearer_prefill": "prompts before it", "nearer_with_images": "prompts with images before it",
    "wave_wait": "prompts that come with it", "prefill": "its own prompt", "place": "no free place", "queue": "queue",
    "hand_over": "steps of who answers", "steps_ahead": "steps put together before",
    "unmodelled_of_loop": "not modelled", "measured_tensors": "measured tensors", "reading": "taking the request in",
}  # fmt: skip
_TITLES: Mapping[str, str] = {
    "prefill of one request": "prefill", "time to the first token, steady": "first token",
    "time to the first token, idle": "first token",
    "time of a step": "a step", "decode step": "a decode step",
}  # fmt: skip
_NAME = re.compile(r"\b[a-z0-9]+(?:_[a-z0-9]+)+\b")
_WHOSE = ("hw.", "engine.", "plan.", "run.", "model.")
"""What names of inputs begin with, where the words behind it say as much."""
_DEGREES = ("tp", "pp", "dp", "cp", "ep", "vpp", "etp")


def is_one(key: str, value: str) -> bool:
    """Whether it is a degree of parallelism that divides nothing.

    >>> is_one("rollout_tp", "1"), is_one("tp", "2"), is_one("micro_batch", "1")
    (True, False, False)
    """
    return value == "1" and key.rpartition("_")[2] in _DEGREES


def goes_unsaid(key: str, value: str, *, habit: bool) -> bool:
    """Whether a choice is a degree that divides nothing for whoever leaves it out too; engines may cut experts and stages unasked.

    >>> goes_unsaid("tp", "1", habit=False), goes_unsaid("etp", "1", habit=False), goes_unsaid("vpp", "1", habit=True)
    (True, False, True)
    """
    return is_one(key, value) and (habit or key not in ("etp", "vpp"))


def heading(key: str) -> str:
    """A figure's name on one screen.

    >>> heading("step_time_s"), heading("cost_usd_per_million_output_tokens")
    ('step time', 'cost of 1M output tokens')
    """
    return SHORTER.get(key) or label(key)


def part_name(name: str) -> str:
    """A part of a total as people say it.

    >>> part_name("decode.tensor_parallel"), part_name("memory.kv_cache"), part_name("engine.step_host")
    ('tensor parallel', 'KV cache', 'host per step')
    """
    last = name.rpartition(".")[2]
    return _PARTS.get(last) or label(last)


def part_of_phase(name: str) -> str:
    """A part of a phase as people say it, with the phase.

    >>> part_of_phase("prefill.matmuls"), part_of_phase("last_stage.step.unmodelled"), part_of_phase("the rest")
    ('prefill matmuls', 'last stage not modelled', 'the rest')
    """
    phase = ".".join(word for word in name.split(".")[:-1] if word != "step")
    return f"{label(phase.replace('.', '_'))} {part_name(name)}".strip()


def input_name(name: str) -> str:
    """A term that an answer rests on as people say it: no dots, no unit, and not whose it is.

    >>> input_name("hw.bf16_flop_per_s"), input_name("hw.matmul.bf16.short_depth"), input_name("kv_cache_bytes")
    ('bf16 FLOP/s', 'matmul bf16 short depth', 'KV cache')
    """
    said = label(name.partition(".")[2] if name.startswith(_WHOSE) else name)
    return said.replace(".", " ")


def in_words(text: str) -> str:
    """A sentence without names of the code's; what stands in backquotes is typed as it is.

    >>> in_words("one sequence; max_sequences says how many fit"), in_words("`sudo sysctl iogpu.wired_limit_mb=1`")
    ('one sequence; max sequences says how many fit', '`sudo sysctl iogpu.wired_limit_mb=1`')
    """
    # Every other part stands between backquotes.
    return "`".join(part if at % 2 else _NAME.sub(lambda found: label(found[0]), part) for at, part in enumerate(text.split("`")))


def of_what(title: str) -> str:
    """The title of a breakdown in a word or two.

    >>> of_what("memory of the fullest rank"), of_what("time of a step"), of_what("rollout")
    ('memory', 'a step', 'rollout')
    """
    return "memory" if title.startswith("memory of") else _TITLES.get(title, title)
