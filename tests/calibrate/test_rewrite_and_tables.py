"""Fits to tables: only the blocks that were fitted change, and the command says what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.calibrate.replace_blocks import rewritten
from gpuplan.cli.main import run

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "kernels"
ROOT = Path(__file__).parents[2]


def test_everything_else_stays_as_it_was() -> None:
    text = (ROOT / "hardware_specs" / "measured" / "h200-sxm-141gb.yaml").read_text(encoding="utf-8")
    after = rewritten(text, {"matmul.fp8": ["efficiency: 0.5"], "engines.vllm.matmul.fp8": ["efficiency: 0.6"]})
    kept = [line for line in text.splitlines() if line.startswith(("attention", "  prefill", "  decode", "collective", "residual"))]
    assert all(line in after for line in kept)
    assert after.count("efficiency: 0.5\n") == 1
    assert "matmul:\n  bf16:\n" in after
    assert "  fp8:\n    efficiency: 0.5\n" in after


@pytest.mark.skipif(not SHARED.is_dir(), reason="the tables of measured kernels are not beside the checkout")
def test_the_command_fits_a_folder_of_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("scipy")
    file = tmp_path / "h100.yaml"
    text = (ROOT / "hardware_specs" / "measured" / "h100-sxm-80gb.yaml").read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    call = ["calibrate", "fit", "--from", str(SHARED), "--system", "h100_sxm", "--kinds", "matmul", "--out", str(file)]
    assert run(call) == 0
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if line.startswith("matmul.bf16"))
    assert float(line.split()[3].rstrip("%")) < 12
    after = file.read_text(encoding="utf-8")
    assert after != text
    assert after[after.index("attention:") : after.index("residual:")] == text[text.index("attention:") : text.index("residual:")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "nowhere", "--system", "h100_sxm"], "there is no such folder"),
        (["--from", ".", "--system", "h100_sxm", "--kinds", "matmuls"], "--kinds matmuls"),
        (["--from", ".", "--system", "x9"], "--system x9"),
        (["--from", ".", "--system", "h100_sxm"], "h100_sxm-gemm.csv"),
    ],
)
def test_wrong_words_are_one_message(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    pytest.importorskip("scipy")
    assert run(["calibrate", "fit", *words]) == 2
    assert said in capsys.readouterr().err
