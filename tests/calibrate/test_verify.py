"""Does `gpuplan calibrate verify` choose cases that suit a device, run them for real, and judge them?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuplan.calibrate.backends.load import Load
from gpuplan.calibrate.verify import (
    SIZES,
    Foretold,
    VerifyCase,
    VerifyRow,
    Where,
    case_of,
    chosen,
    explained,
    median_error,
    sizes_of,
    verify,
)  # fmt: skip
from gpuplan.calibrate.verify_kinds import shared, spent
from gpuplan.calibrate.verify_model import Size
from gpuplan.cli.calibrate_verify_run import Oracle, subject_id
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
    picked = [(VerifyCase(size=TINY, task=task, batch=2, length=16), told) for task in ("train", "prefill", "decode")]
    lines = list(verify(picked, CPU))  # type: ignore[arg-type]
    assert [line.case.task for line in lines] == ["train", "prefill", "decode"]
    assert all(line.measured > 0 and line.what == "time" for line in lines)


def test_kinds_of_kernels_add_up_to_the_time_measured_and_foretold() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    oracle = Oracle("cpu-xeon-8480plus", CPU, shipped())
    case = case_of(SIZES[0], "train", CPU)
    told = oracle(case)
    assert set(told.kinds) == {"matmuls", "attention", "streams", "host"}
    assert sum(told.kinds.values()) == pytest.approx(told.seconds[1], rel=1e-6)
    assert all(one > 0 for kind, one in told.kinds.items() if kind != "host")
    assert told.kinds["host"] >= -1e-9
    (line,) = verify([(VerifyCase(size=TINY, task="train", batch=2, length=16), told)], CPU)
    assert set(line.parts) == set(told.kinds)
    assert sum(measured for measured, _ in line.parts.values()) == pytest.approx(line.measured, rel=1e-6)
    assert line.parts["matmuls"][0] > 0
    assert line.parts["attention"][0] > 0


def test_kernels_of_a_gpu_are_told_apart_by_their_names() -> None:
    def event(name: str, us: float, device: str = "DeviceType.CUDA") -> SimpleNamespace:
        span = SimpleNamespace(elapsed_us=lambda: us)
        return SimpleNamespace(name=name, time_range=span, self_cpu_time_total=us, device_type=device)

    events = [
        event("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NNT", 400.0), event("void cublasLt::splitKreduce_kernel<32, 16>", 10.0),
        event("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", 50.0),
        event("void at::native::vectorized_elementwise_kernel<4>", 30.0), event("aten::mm", 999.0, "DeviceType.CPU"),
        event("Optimizer.step#AdamW.step", 777.0),
    ]  # fmt: skip
    found = spent(events, gpu=True)
    assert found == pytest.approx({"matmuls": 410e-6, "attention": 50e-6, "streams": 30e-6})
    assert shared(found, 600e-6, gpu=True) == pytest.approx({**found, "host": 110e-6})
    assert spent(events, gpu=False)["matmuls"] == pytest.approx(999e-6)


def test_a_gpu_is_profiled_once_all_cases_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    monkeypatch.setattr("gpuplan.calibrate.verify._prepared", lambda case, where: lambda: ran.append(case.name))
    kinds = {"matmuls": 0.6, "attention": 0.1, "streams": 0.2, "host": 0.1}
    monkeypatch.setattr("gpuplan.calibrate.verify.measured_kinds", lambda run, gpu, seconds: kinds)
    case = case_of(SIZES[0], "train", H200)
    told = Foretold(seconds=(0.8, 0.9, 1.0), kinds=dict.fromkeys(kinds, 0.2))
    time = VerifyRow(case=case, what="time", measured=1.0, low=0.8, expected=0.9, high=1.0)
    lines = explained([time, time.replaced(what="memory")], [(case, told)], H200)
    assert lines[0].parts == {kind: (one, 0.2) for kind, one in kinds.items()}
    assert not lines[1].parts
    assert len(ran) == 3
    assert explained([time], [(case, told)], CPU) == [time]


def test_what_others_take_of_the_processors_is_counted() -> None:
    clock, stat, own = [0.0], ["cpu0 0 0 0 0 0 0 0 0"], Load()
    numbers = sorted(own._processors)

    def text() -> str:
        return "\n".join(f"cpu{number} {stat[0]}" for number in numbers)

    stat[0] = "0 0 0 0 0 0 0 0"
    load = Load(read=text, clock=lambda: clock[0])
    assert load.share() is None, "nothing has passed yet"
    clock[0], stat[0] = 2.0, "50 50 0 100 0 0 0 0"
    assert load.share() == pytest.approx(0.5, abs=0.1)
    assert Load(read=lambda: "").share() is None


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
    picked, left_out = chosen(CPU, oracle, None)
    assert {case.task for case, _ in picked} == {"train", "prefill", "decode"}
    assert all(told.seconds[1] < 1.0 for _, told in picked)
    assert len(left_out) == 3, "one line for each task, however many sizes are too large"
    assert all(" and larger: " in text for text in left_out)


def test_what_does_not_fit_for_training_may_well_be_decoded() -> None:
    where = Where(name="cuda:0", half="bfloat16", free=24e9)
    picked, _ = chosen(where, Oracle("rtx-4090", where, shipped()), None)
    largest = {case.task: case.size.name for case, _ in picked}
    assert largest == {"train": "150m", "prefill": "2.7b", "decode": "2.7b"}


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
        VerifyRow(case=case, what="time", measured=1.0, low=0.8, expected=0.9, high=1.2),
        VerifyRow(case=case, what="time", measured=1.0, low=1.1, expected=1.3, high=1.5),
        VerifyRow(case=case, what="memory", measured=1e9, low=0.9e9, expected=1e9, high=2e9),
    ]
    assert median_error(lines) == pytest.approx(0.2)
    text = verify_text("a chip", "chip", lines, 0.15, {"engine.step_host": 0.0})
    assert "-10.0%" in text
    assert "+30.0%" in text
    assert "outside" in text
    assert "median error 20.0%, above the tolerance of 15%; 1 of 2 within the range" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    parts = {"matmuls": (0.5, 0.5), "attention": (0.1, 0.1), "streams": (0.3, 0.1), "host": (0.1, 0.2)}
    told = [VerifyRow(case=case, what="time", measured=1.0, low=0.8, expected=0.9, high=1.2, parts=parts, others=0.4)]
    text = verify_text("a chip", "chip", told, 0.15, {"engine.step_host": 0.0})
    (row,) = (line for line in text.splitlines() if "-20.0%" in line)
    assert row.split()[-5:] == ["+0.0%", "+0.0%", "-20.0%", "+10.0%", "-10.0%"]
    assert "most of it: streams" in text
    assert [line for line in text.splitlines() if line.endswith("%  *")]
    assert "up to 40% of the processors" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_device_without_a_spec_says_what_to_run(tmp_path: Path) -> None:
    from gpuplan.calibrate.device import Identity

    unknown = Identity(name="Acme Nebula 9000", backend="torch", architecture="12.9", memory_bytes=8e9)
    with pytest.raises(UnknownError, match="gpuplan calibrate --quick"):
        subject_id(unknown, shipped())
    h200 = Identity(name="NVIDIA H200", backend="torch", architecture="9.0", memory_bytes=139.8 * 2**30, units=132)
    assert subject_id(h200, shipped()) == "h200-sxm-141gb"
