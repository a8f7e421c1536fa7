"""Write the accuracy budgets from today's errors: of each source of training runs, of each engine that serves.

Established sources have one of their own, and so have those that were asked blind on a day (`blind` in their files): sources that
come in are far off at first, and their errors say nothing of what was there before.

`python tools/accuracy_budget.py` rewrites benchmarks/accuracy-budget.yaml and benchmarks/serving-budget.yaml, or the one that is
named by its task (`training`, `inference`); do so only when the errors became smaller, or when a correction that is right for other
reasons moved them, and say so in the changelog.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuplan.accuracy.judge import judge
from gpuplan.accuracy.report import report
from gpuplan.cli.accuracy_run import answers, wanted_rows

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
ROOM = 1.1
"""A budget is this much above today's error, and half a percent more."""
FEWEST = 4
"""Sources of fewer rows have none of their own."""
HEAD = """# What `gpuplan accuracy --task training --budget` allows each source: errors as fractions, rows to compare, rows missed.
# Of rows as one types them who has their pages; under `informed` with what else is known of them.
# `established sources` are those that no file marks as asked blind; what is asked of them is over the same rows as ever.
# deepspeed-gist, corrected on 2026-11-29: 0.09 had been asked of a month that its page does not print.
# Moved on 2026-11-30, where a mechanism that is right elsewhere shows what had hidden it: fsdp-qlora's mean error of throughput
# from 0.133 (4-bit weights of bitsandbytes are widened by one kernel; what the fit of GPTQ's had taken hid what offloading to
# hosts of A5000, RTX 6000 Ada and H100 takes; its median is 0.06, was 0.08), and qwen's median of memory from 0.05 (segments
# that stay idle beside the loss, as fitcheck's, canifinetune's and LLaMA-Factory's peaks have them; all of qwen's stay within
# their ranges).
# Moved later on 2026-11-30: universal-llm-trainer's peaks, which its code prints in GB and were read as GiB (0.161 and 0.219 typed,
# 0.147 and 0.217 informed), and the informed median of olmo-core from 0.041 (gathers between nodes go round all ranks).
# Moved once more that afternoon: Megatron-LM makes its loss operator by operator, 52 B a logit of which 12 were counted
# (vocabulary-parallel 12 -> 5 %, oellm-jupiter 30 -> 12): flash-attention (Megatron-LM stands in for a repository whose loss
# is one kernel), nanotron's median, zero-bubble and the informed median of primus are bounded anew.
# Moved that evening: `informed`, zero-bubble (its scripts say fp16: throughput's median from 0.069, memory from 0.025 and 0.032, as
# Megatron-LM before June 2024 kept one copy of logits more) and gaudi's median from 0.09 (Megatron before September 2024 keeps
# 16-bit weights beside those of FP8, so that another plan fits); of runs that ran and were asked blind on 2026-11-29 one more is
# said not to fit (0.88: capped logits, which are kept); a row of AuroraGPT whose page prints another run's figures is doubtful.
# Written by tools/accuracy_budget.py.
# Moved on 2026-12-01: the gradients of the layer at work are counted beside its weights (torchtune, torchtitan and
# axolotl-kernels nearer; axolotl's mean of memory from 0.134 and fms-acceleration's median from 0.046 farther, the latter's QLoRA
# on one card), FSDP under Accelerate holds fp32 shards, as its code does (runs that ran and are said to fit: established informed
# from 0.99, fine-tuning of 2026-11-30 from 0.92 and 0.96, later from 0.89 and 0.91) and has none of DeepSpeed's hooks (the small
# batches of ibm-finetuning-bench come out 15 to 20 % faster: its informed throughput from 0.062, fine-tuning's from 0.078), and
# NCCL's rings between nodes go at the pace of their slowest step (deepspeed-azure, scaletorch, yafsdp nearer; olmo-core informed
# from 0.042).
# The same day, later: hf-accelerate's median from 0.067, which today's 0.06707 rounds to.
"""
SERVING_HEAD = """# What `gpuplan accuracy --task inference --by engine --budget` allows each engine: errors as fractions, rows to
# compare, rows missed.
# Rows that a `flag` calls doubtful are not compared. 60 were marked on 2026-11-23, so fewer rows are asked for: 52 first
# tokens of SGLang's runs before January 21 of 2026, which hold kernels being compiled (no warm-up until InferenceX's pull
# request 480), and 8 prompts of llama.cpp at a ninth of what the same page has for the same card in 4 bits. On 2026-11-24 five
# of workers of two kinds, at ten times what the same workers took the same day. On 2026-11-29 27: nine of gpt-oss on H100 at 512
# users, which contradict the rest of their table, and 18 of Mixtral in batches of one and the same prompt.
# `established sources` are those that no file marks as asked blind; what is asked of them is over the same rows as ever. Sixteen
# sources that were asked blind have budgets of their own below (`apart` in their files), together and each.
# Corrected on 2026-11-29: the rows of NIM had been typed with a release that their page does not print, and are below `informed`
# with it; eight of GPUStack's gpt-oss 120B on one H100 had been marked doubtful for what an estimate said, and are asked; eight of
# its GLM-4.5-Air have the figures of the page's own table in place of those copied from another page;
# vLLM's rows on TPUs are asked with the limits that their pages print, and answered with those that vLLM takes on a TPU.
# Moved on 2026-11-30: lmdeploy-a100's mean of first tokens from 0.269 (closed loops over ShareGPT are asked with its spread).
# Moved that evening: six rows of throughput of tsho-gemma-4 from 0.331 and 0.315 (steps of a burst's wave that prompts of the next
# ones share read their weights with them, which brings most bursts nearer and these, which were too fast before, not).
# Moved on 2026-12-01: SGLang's first tokens at a rate from 0.271 and 0.287 (DataCrunch's H200 are new among them, asked blind),
# oracle-mi300x from 0.053 and 0.062 (what a step of vLLM 0.8 to 0.13 takes of the host is fitted by release, which brings
# io.net and KAITO nearer) and strix-halo from 0.086 and 0.19 (what small kernels take on RDNA 3, from published runs of Radeon
# RX 7900).
# The same day, later: inference-bench's mean of first tokens from 0.337 (AWQ's own kernels, which its commands ask for: its tokens
# a second come from 87 to 10 % off in the mean, its first tokens from 28 to 20 in the median).
# Written by tools/accuracy_budget.py.
"""


def main() -> None:
    """Write the files, or the one of a task."""
    tasks = sys.argv[1:] or ["training", "inference"]
    if "training" in tasks:
        made = report(judge(wanted_rows(None, "training"), answers()))
        lines = [*_groups(made), "informed:", *(f"  {line}" for line in _groups(made["informed"]))]
        (BENCHMARKS / "accuracy-budget.yaml").write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    if "inference" in tasks:
        made = report(judge(wanted_rows(None, "inference"), answers()), "engine")
        measures = ("throughput", "prefill", "ttft", "tpot")
        lines = [*_groups(made, measures), "informed:", *(f"  {line}" for line in _groups(_moved(made), measures))]
        (BENCHMARKS / "serving-budget.yaml").write_text(SERVING_HEAD + "\n".join(lines) + "\n", encoding="utf-8")


def _groups(made: Mapping[str, Any], measures: Sequence[str] = ("throughput", "memory")) -> list[str]:
    """The budget of every group of rows that were asked in one way."""
    lines = []
    ages = [group["key"] for group in made["sources"]]
    for group in (*made["sources"], *made["groups"]):
        metrics = []
        for metric in measures:
            got = group[metric]
            if got["rows"] >= FEWEST:
                limits = [f"{what}: {_budget(got[what])}" for what in ("median_ape", "mean_ape") if got[what] is not None]
                metrics.append(f"  {metric}: {{{', '.join(limits)}, rows: {got['rows']}, missed: {got['missed']}}}")
        if group["key"] in ages and group["fits"]["ran"]:
            fits = {what: group["fits"][what] for what in ("ran_said_fits", "oom_said_not") if group["fits"][what] is not None}
            limits = [f"{what}: {math.floor(share * 100) / 100}" for what, share in fits.items()]
            metrics.append(f"  fits: {{{', '.join(limits)}}}")
        if metrics:
            lines += [f"{group['key']}:", *metrics]
    return lines


def _moved(made: Mapping[str, Any]) -> Mapping[str, Any]:
    """The informed part of a report with those groups alone that what is known beside their pages moves."""
    typed = {group["key"]: group for group in made["groups"]}
    told = made["informed"]
    return {**told, "groups": [group for group in told["groups"] if group != typed.get(group["key"])]}


def _budget(error: float) -> float:
    return math.ceil((error * ROOM + 0.005) * 1000) / 1000


if __name__ == "__main__":
    main()
