"""The fit of llama.cpp's kernels: it finds what made the rows, keeps its bounds, and its values are those of the files."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gpuplan.accuracy.rows import Row
from tools.fit_llama_bench import FAMILIES, PLAN, THEN, Case, cases, errors_of, fit, in_file, put, terms, text_of, written

CHIPS = {f"ada{THEN}": ("rtx-4090", "rtx-4070-ti"), f"apple-gpu{THEN}": ("apple-m2-ultra", "apple-m3-max-40c")}


@cache
def asked(family: str) -> list[Case]:
    """Rows of two chips of a family, of which nothing but the question counts."""
    rows = [
        Row(
            id=f"{chip}-{weights}-{prompt}-{output}", set="made", task="inference", engine="llama.cpp (may 2024)",
            model={"id": "llama-3-8b", "name": "Llama-3-8B", "params_b": 8}, hardware={"accelerator": chip, "count": 1},
            run={"weights": weights, "batch": 1, "mode": "single-stream", "input_len": prompt, "output_len": output},
            measured={"tpot_ms": 10.0} if output else {"prompt_tokens_per_s": 1000.0},
        )
        for chip in CHIPS[family]
        for weights in ("q4_k_m", "fp16")
        for prompt, output in ((0, 512), (0, 8192), (512, 0), (8192, 0))
    ]  # fmt: skip
    return cases(row for row in rows if not (row.hardware["accelerator"] == "rtx-4070-ti" and row.run["weights"] == "fp16"))


@pytest.mark.parametrize("family", CHIPS)
def test_the_fit_finds_the_parameters_that_made_the_rows(family: str) -> None:
    parameters = PLAN[family]
    hidden = {name: min(one.start * (0.85 if at % 2 else 1.15), one.high) for at, (name, one) in enumerate(parameters.items())}
    given = terms(hidden, parameters)
    made = [one._replace(measured=one.value(given)) for one in asked(family)]
    assert len(made) >= 12
    found = fit(made, parameters)
    before = np.abs(errors_of(made, {name: one.start for name, one in parameters.items()}, parameters))
    after = np.abs(errors_of(made, found, parameters))
    # What is known without the runs holds the parameters back a little.
    assert float(after.mean()) < float(before.mean()) / 3
    assert float(after.max()) < float(before.max()) / 2
    assert all(one.low <= found[name] <= one.high for name, one in parameters.items())


def test_a_run_that_is_off_for_its_own_reasons_decides_nothing() -> None:
    parameters = PLAN[f"ada{THEN}"]
    starts = {name: one.start for name, one in parameters.items()}
    given = terms(starts, parameters)
    made = [one._replace(measured=one.value(given)) for one in asked(f"ada{THEN}")]
    spoiled = [one._replace(measured=one.measured * 20) if one.row.id.endswith("fp16-512-0") else one for one in made]
    assert len(spoiled) == len(made)
    whole = [one for one in made if one.metric == "tpot"]
    assert max(map(abs, errors_of(whole, fit(spoiled, parameters), parameters))) < 0.05


@pytest.mark.parametrize("family", PLAN)
def test_files_hold_the_parameters_within_their_bounds(family: str) -> None:
    held = in_file(family)
    assert held.keys() == PLAN[family].keys()
    assert all(PLAN[family][name].low <= value <= PLAN[family][name].high for name, value in held.items())


def test_writing_what_a_file_holds_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    files = {family: f"{family.removesuffix(THEN)}.yaml" for family in PLAN}
    for name in files.values():
        (folder / name).write_text((FAMILIES / name).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr("tools.fit_llama_bench.FAMILIES", folder)
    for family in PLAN:
        held = in_file(family)
        put(family, held)
        assert (folder / files[family]).read_text(encoding="utf-8") == (FAMILIES / files[family]).read_text(encoding="utf-8")
        put(family, {**held, "bandwidth": 0.777})
        kept = (FAMILIES / files[family]).read_text(encoding="utf-8").count("memory_efficiency:")
        changed = (folder / files[family]).read_text(encoding="utf-8")
        assert changed.count("memory_efficiency: 0.777") in (2, 3), "those of its quantised weights, and of no other engine"
        assert changed.count("memory_efficiency:") == kept
        put(family, held)
        assert written(family, held)["hw.matmul.int4_wo.start"] == text_of("x.start", held["start"])


def test_parameters_are_few_and_say_what_they_mean() -> None:
    assert all(len(one) <= 10 for one in PLAN.values())
    assert all(
        one.meaning and one.low < one.start < one.high and one.width > 0 for group in PLAN.values() for one in group.values()
    )
