"""Does `gpuplan calibrate verify` choose cases that suit a device, run them for real, and judge them?"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.calibrate.verify import SIZES, Case, Foretold, Line, Where, case_of, chosen, median_error, sizes_of, verify
from gpuplan.calibrate.verify_model import Size
from gpuplan.cli.verify import Oracle, subject_id
from gpuplan.errors import UnknownError, UsageError
from gpuplan.render.verify import verify_text
from gpuplan.specs.catalog import Catalog, shipped_folder

CPU = Where(name="cpu", free=8e9)
H200 = Where(name="cuda:0", half="bfloat16", free=139e9)
TINY = Size(name="tiny", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128, vocab=256)


def shipped() -> Catalog:
    return Catalog([shipped_folder()])


def test_every_task_runs_for_real() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    told = Foretold(seconds=(0.0, 1e-3, 1.0))
    picked = [(Case(size=TINY, task=task, batch=2, length=16), told) for task in ("train", "prefill", "decode")]
    lines = list(verify(picked, CPU))  # type: ignore[arg-type]
    assert [line.case.task for line in lines] == ["train", "prefill", "decode"]
    assert all(line.measured > 0 and line.what == "time" for line in lines)


def test_the_code_and_the_card_are_the_same_model() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    from gpuplan.calibrate.verify_model import Model

    held = sum(weight.numel() for weight in Model(TINY, "cpu", "float32", training=False).parameters())
    assert TINY.card().count().params_total.value == held


def test_decoding_step_by_step_says_what_a_whole_prompt_says() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from gpuplan.calibrate.verify_model import Model

    torch.manual_seed(0)
    model = Model(TINY, "cpu", "float32", training=False)
    model.positions(8)
    tokens = torch.randint(0, TINY.vocab, (2, 8))
    with torch.no_grad():
        whole = model.hidden(tokens)
        cache = model.cache(2, 8)
        model.hidden(tokens[:, :7], cache, 0)
        last = model.hidden(tokens[:, 7:], cache, 7)
    assert torch.allclose(whole[:, -1], last[:, 0], atol=1e-4)


def test_an_h200_gets_the_largest_models_and_is_foretold_with_ranges() -> None:
    oracle = Oracle("h200-sxm-141gb", H200, shipped())
    picked, left_out = chosen(H200, oracle, None)
    assert {case.size.name for case, _ in picked} == {size.name for size in SIZES[-3:]}
    assert not left_out
    for case, told in picked:
        assert told.seconds[0] < told.seconds[1] < told.seconds[2]
        assert (told.memory is not None) == (case.task == "train")


def test_a_processor_gets_small_models_in_32_bits() -> None:
    oracle = Oracle("cpu-xeon-8480plus", CPU, shipped())
    picked, _ = chosen(CPU, oracle, None)
    assert picked
    assert all(told.seconds[1] < 1.0 for _, told in picked)


def test_too_little_memory_is_said() -> None:
    oracle = Oracle("h200-sxm-141gb", H200, shipped())
    with pytest.raises(UsageError, match="no case fits this device"):
        chosen(Where(name="cuda:0", half="bfloat16", free=1e6), oracle, sizes_of("2.7b"))


def test_unknown_sizes_are_told_from_known_ones() -> None:
    assert sizes_of("20m, 2.7b") == [size for size in SIZES if size.name in ("20m", "2.7b")]
    with pytest.raises(UsageError, match="no model is called `3b`"):
        sizes_of("3b")


def test_the_table_says_errors_and_what_is_outside() -> None:
    case = case_of(SIZES[0], "train", CPU)
    lines = [
        Line(case=case, what="time", measured=1.0, low=0.8, expected=0.9, high=1.2),
        Line(case=case, what="time", measured=1.0, low=1.1, expected=1.3, high=1.5),
        Line(case=case, what="memory", measured=1e9, low=0.9e9, expected=1e9, high=2e9),
    ]
    assert median_error(lines) == pytest.approx(0.2)
    text = verify_text("a chip", "chip", lines, 0.15, {"engine.step_host": 0.0})
    assert "-10.0%" in text
    assert "+30.0%" in text
    assert "outside" in text
    assert "median error 20.0%, above the tolerance of 15%; 1 of 2 within the range" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_device_without_a_spec_says_what_to_run(tmp_path: Path) -> None:
    from gpuplan.calibrate.device import Identity

    unknown = Identity(name="Acme Nebula 9000", backend="torch", architecture="12.9", memory_bytes=8e9)
    with pytest.raises(UnknownError, match="gpuplan calibrate --quick"):
        subject_id(unknown, shipped())
    h200 = Identity(name="NVIDIA H200", backend="torch", architecture="9.0", memory_bytes=139.8 * 2**30, units=132)
    assert subject_id(h200, shipped()) == "h200-sxm-141gb"
