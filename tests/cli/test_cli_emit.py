"""`--emit` prints a launch on standard output, and nothing else there."""

from __future__ import annotations

from tests.cli.cli_calls import Call


def test_the_command_line_prints_the_launch_alone(call: Call) -> None:
    said = call("serve", "llama-3.1-8b", "--on", "h100", "--emit", "command")
    assert said.code == 0
    assert said.out.splitlines()[-1].lstrip().startswith(("vllm", "--"))
    assert "FITS" in said.err
    assert call("serve", "llama-3.1-70b", "--on", "t4", "--emit", "command").code == 3
    assert call("serve", "llama-3.1-8b", "--on", "h100", "--emit", "command", "--json").code == 2
    assert call("serve", "llama-3.1-8b", "--on", "h100", "--emit", "helm").code == 2


def test_the_winner_of_a_plan_is_launched(call: Call) -> None:
    said = call("plan", "train", "llama-3.1-8b", "--tokens", "1B", "--on", "aws:p5.48xlarge", "--count", "8", "--emit", "slurm")
    assert said.code == 0
    assert said.out.startswith("#!/bin/bash\n#SBATCH")
    assert "--num-layers 32" in said.out
