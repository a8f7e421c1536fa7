"""The command line names the option that is meant by a word of another tool, with a machine that stands without `--on`."""

from __future__ import annotations

import pytest

from tests.cli.cli_calls import Call


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("train llama-3.1-8b --gpus 8 --on h100", "`--on 8xh100`"),
        ("serve llama-3.1-8b --on h100 --max-num-seqs 64", "here it is `--max-sequences`"),
        ("plan train llama-3.1-8b --tokens 1T --days 10", "here it is `--deadline`"),
        ("plan serve llama-3.1-8b --qps 10", "here it is `--rate`"),
        ("train llama-3.1-8b 8xh100", "`gpuplan train llama-3.1-8b --on 8xh100`"),
        (
            "serve mixtral-8x7b 2x3090",
            "`gpuplan serve mixtral-8x7b --on 2x3090 --weights q4_k_m`; in q4_k_m, as one user mostly runs it",
        ),
        ("what-runs rtx-4090", "`gpuplan what-runs --on rtx-4090`"),
    ],
)
def test_the_command_line_says_it(words: str, hint: str, call: Call) -> None:
    said = call(*words.split())
    assert (said.code, said.out) == (2, "")
    assert hint in said.err
