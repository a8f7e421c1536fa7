"""Do three runs of a user's own benchmark bring the estimates of that model, chip and engine to what was measured?"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuplan.calibrate.serving_fit import Factor, RunPoint, fit_serving
from gpuplan.cli.calibrate_import_run import ImportFilesRequest, import_files
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

pytest.importorskip("scipy", reason="imports are fitted with SciPy")

ASKED = ImportFilesRequest("vllm", (), "h100-sxm-80gb", None, None, "1", "bf16", None, (), False)
MODEL, INPUT, OUTPUT = "llama-3.1-8b", 512, 256
TRUTH = {"engine.decode_residual": 1.45, "engine.prefill_residual": 1.3}
"""What the pretended machine does, beside an engine profile of 1.0 and 1.1."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("GPUPLAN_SPECS", raising=False)
    return tmp_path


def question(batch: int | None, **more: Any) -> ServeAsk:
    return ServeAsk(
        model=MODEL, on="1xh100-sxm-80gb", engine="vllm", prompt=INPUT, output=OUTPUT, batch=batch, weights="bf16",
        tp=1, pp=1, **more,
    )  # fmt: skip


def figure(name: str, batch: int | None, **more: Any) -> float:
    ask = question(batch, **more)
    value: Any = answer_serving(ask, Library.of(ask)).figures[name].value
    return float(value)


def benchmark(
    folder: Path, batch: int, factor: float = 1.0, cached: float = 1.0, truth: Mapping[str, float] = TRUTH
) -> str:  # fmt: skip
    """What `vllm bench serve --save-result` would write on the pretended machine; prompts take the share `cached` of their time."""
    sent = {"concurrency": batch, "requests": 8 * batch, "pins": truth}
    tpot, ttft = (factor * figure(name, None, **sent) for name in ("tpot_s", "ttft_s"))
    ttft *= cached
    stays = ttft + (OUTPUT - 1) * tpot
    data = {
        "backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B-Instruct", "num_prompts": 8 * batch, "request_rate": "inf",
        "max_concurrency": batch, "duration": 8 * stays, "completed": 8 * batch, "total_input_tokens": 8 * batch * INPUT,
        "total_output_tokens": 8 * batch * OUTPUT, "request_throughput": batch / stays, "output_throughput": batch * OUTPUT / stays,
        "mean_ttft_ms": 1e3 * ttft, "mean_tpot_ms": 1e3 * tpot,
    }  # fmt: skip
    path = folder / f"bench-{batch}.json"
    path.write_text(json.dumps(data))
    return str(path)


def test_three_runs_bring_the_others_to_what_is_measured(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = tuple(benchmark(home, batch) for batch in (1, 8, 64))
    import_files(dataclasses.replace(ASKED, files=files))
    said = capsys.readouterr().out
    assert "llama-3.1-8b decode   x 1.4" in said
    assert "(engine: 1), 3 runs, median error 3" in said
    assert "for --on h100-sxm-80gb use them with --calibrated" in said
    for batch in (4, 32):
        true, plain = figure("tpot_s", batch, pins=TRUTH), figure("tpot_s", batch)
        assert abs(plain / true - 1) > 0.2, "without it the estimate is far off"
        assert figure("tpot_s", batch, calibrated=True) == pytest.approx(true, rel=0.06)
    assert figure("ttft_s", 1, calibrated=True) == pytest.approx(figure("ttft_s", 1, pins=TRUTH), rel=0.06)
    other = question(4, calibrated=True).replaced(model="llama-3.2-1b")
    assert "engine.benchmarked" not in {note.code for note in answer_serving(other, Library.of(other)).notes}
    ask = question(4, calibrated=True)
    made = answer_serving(ask, Library.of(ask))
    assert "engine.benchmarked" in {note.code for note in made.notes}
    assert "hw.measured-here" not in {note.code for note in made.notes}, "no kernel was imported"


def test_a_machine_that_is_faster_than_counted_is_met_too(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = {"engine.decode_residual": 0.85, "engine.prefill_residual": 0.9}
    files = tuple(benchmark(home, batch, truth=truth) for batch in (1, 8, 64))
    import_files(dataclasses.replace(ASKED, files=files, json=True))
    said = json.loads(capsys.readouterr().out)
    found = said["factors"][MODEL]
    assert found["decode"]["value"] == pytest.approx(0.85, rel=0.02)
    assert found["prefill"]["value"] == pytest.approx(0.9, rel=0.03)
    assert figure("tpot_s", 32, calibrated=True) == pytest.approx(figure("tpot_s", 32, pins=truth), rel=0.03)
    ask = question(32, calibrated=True)
    assert any(float(one.value) < 0 for made in answer_serving(ask, Library.of(ask)).breakdowns for one in made.parts)


def test_what_was_imported_before_counts_for_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = dataclasses.replace(ASKED, files=tuple(benchmark(home, batch) for batch in (1, 8)), json=True)
    told = []
    for _ in range(2):
        import_files(asked)
        told.append(json.loads(capsys.readouterr().out)["factors"])
    assert told[0] == told[1]
    assert told[0][MODEL]["decode"]["value"] > 1.3


def test_prompts_are_not_read_above_the_peak_to_meet_a_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server whose host answers sooner than counted would else be met by arithmetic that no chip does."""
    import_files(dataclasses.replace(ASKED, json=True, files=(benchmark(home, 1, cached=0.75),)))
    said = json.loads(capsys.readouterr().out)
    assert not any("wrong" in why for why in said["unfitted"].values())
    assert 0.5 < said["factors"][MODEL]["prefill"]["value"] < 1.1


def test_runs_of_another_machine_are_not_believed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_files(dataclasses.replace(ASKED, files=tuple(benchmark(home, batch, 0.2) for batch in (1, 8))))
    said = capsys.readouterr().out
    assert "of the memory's bandwidth: is it of another machine or model?" in said
    assert not list(home.rglob("h100-sxm-80gb.yaml"))


def test_prompts_faster_than_the_peak_say_nothing_of_prefill(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_files(dataclasses.replace(ASKED, json=True, files=tuple(benchmark(home, batch, cached=0.1) for batch in (1, 8, 64))))
    said = json.loads(capsys.readouterr().out)
    assert "of the peak: was it cached" in said["unfitted"][f"{MODEL} prefill"]
    assert list(said["factors"][MODEL]) == ["decode"]


def points(measured: Mapping[str, float], counted: float = 1.0) -> Any:
    """Runs of which only a part grows with the factor, as a client's does."""

    def ask(factors: Mapping[Factor, float]) -> list[RunPoint]:
        told = 0.2 + counted * factors.get("decode", 1.0)
        return [RunPoint(run=name, factor="decode", measured=value, expected=told) for name, value in measured.items()]

    return ask


USUAL: Mapping[Factor, tuple[float, float, float]] = {"decode": (1.0, 0.84, 1.23), "prefill": (1.1, 0.95, 2.0)}


def test_what_does_not_grow_with_the_factor_is_allowed_for() -> None:
    found = fit_serving(points({"a": 1.7, "b": 1.7, "c": 1.7}), USUAL).factors["decode"]
    assert found.value == pytest.approx(1.5, rel=0.01)
    assert (found.low, found.high) == (pytest.approx(0.95 * found.value), pytest.approx(1.05 * found.value))
    assert found.held_back == pytest.approx(0.0, abs=0.01)
    assert found.before == pytest.approx(0.5 / 1.7, rel=0.01)


def test_one_run_has_the_range_of_the_engine_and_says_no_error() -> None:
    found = fit_serving(points({"a": 1.7}), USUAL).factors["decode"]
    assert (found.held_back, found.p90) == (None, None)
    assert (found.low / found.value, found.high / found.value) == (pytest.approx(0.84), pytest.approx(1.23))


def test_runs_that_do_not_agree_are_not_believed() -> None:
    found = fit_serving(points({"a": 0.5, "b": 1.0, "c": 9.0}), USUAL)
    assert not found.factors
    assert "every tenth run is off by" in found.unfitted["decode"]
