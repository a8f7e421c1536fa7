"""What do imported runs of vLLM or SGLang say of the estimates for that model, accelerator and engine, and where is it kept?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.calibrate.serving_fit import Factor, RunPoint, ServingFit, fit_serving, serving_section
from gpuplan.errors import GpuplanError

if TYPE_CHECKING:
    from gpuplan.accuracy.compare import Metric, Point
    from gpuplan.accuracy.rows import Row
    from gpuplan.calibrate.imports.merge import ImportedFile
    from gpuplan.estimate.result import Estimate
    from gpuplan.search.library import Library
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.quantity import Sourced

PINS: Mapping[Factor, str] = {"decode": "engine.decode_residual", "prefill": "engine.prefill_residual"}


def fit_runs(
    made: ImportedFile, runs: Path, ids: Sequence[str], accelerator: str, catalog: Catalog, out: Path
) -> dict[str, Any]:  # fmt: skip
    """Fit what the runs of a file tell of the models of those with some ids, and put it into a measured file.

    Returns what is to be said: `factors` by model, `unfitted`, `left_out` and the paths that were `written`.
    """
    kind = made.software
    from gpuplan.accuracy.model import card_of
    from gpuplan.accuracy.rows import Skip, read_rows
    from gpuplan.search.library import Library
    from gpuplan.specs.accelerator import Accelerator

    library = Library(catalog)
    engine = library.engine(kind)[0]
    groups: dict[str, list[Row]] = defaultdict(list)
    new: set[str] = set()
    said: dict[str, Any] = {"factors": {}, "unfitted": {}, "left_out": [], "written": []}
    for row in read_rows([runs]):
        if row.task != "inference" or row.engine.split()[:1] != [kind] or row.hardware.get("accelerator") != accelerator:
            continue
        if row.flag or row.fault:
            said["left_out"] += [f"{row.id}: {row.flag or row.fault}"] if row.id in ids else []
            continue
        try:
            model = library.keep(card_of(row, library.card))
        except Skip as skip:
            said["left_out"].append(f"{row.id}: {skip}; say which it is with --model")
            continue
        groups[model].append(row)
        new |= {model} if row.id in ids else set()
    serving: Any = engine.serving
    start: dict[Factor, tuple[float, float, float]] = {
        "decode": _usual(serving.decode_residual),
        "prefill": _usual(serving.prefill_residual),
    }
    for model in sorted(new):
        asked = _Runs(groups[model], library, said["left_out"], {key: middle for key, (middle, _, _) in start.items()})
        found = fit_serving(asked, start)
        said["unfitted"] |= {f"{model} {key}": why for key, why in found.unfitted.items()}
        if not found.factors:
            continue
        said["factors"][model] = {
            key: {
                "value": one.value, "low": one.low, "high": one.high, "engine": start[key][0], "runs": one.runs,
                "error_before": one.before, "error_held_back": one.held_back, "p90_held_back": one.p90,
            }
            for key, one in found.factors.items()
        }  # fmt: skip
        _write(made, engine.id, model, found, catalog.load(Accelerator, accelerator), out)
        said["written"] = [str(out)]
    return said


def _usual(factor: Sourced) -> tuple[float, float, float]:
    """A factor of an engine profile with its range."""
    low, high = factor.accept or (factor.value, factor.value)
    return factor.value, low, high


class _Runs:
    """Answers for all runs of a model with some factors in place of the engine's."""

    def __init__(self, rows: Sequence[Row], library: Library, left_out: list[str], usual: Mapping[Factor, float]) -> None:
        self.rows, self.library, self.left_out, self.usual = rows, library, left_out, usual

    def __call__(self, factors: Mapping[Factor, float]) -> list[RunPoint]:
        """The points of all runs that can be answered for; why others cannot is said once."""
        from gpuplan.accuracy.inference import inference_points, serving_ask
        from gpuplan.accuracy.rows import Skip
        from gpuplan.search.serving import answer_serving

        found: list[RunPoint] = []
        for row in self.rows:
            try:
                ask = serving_ask(row, self.library.card, self.library.keep, self.library.engine)
                # What an earlier import told counts for nothing: all of its runs are here again.
                pins = {PINS[key]: value for key, value in {**self.usual, **factors}.items()}
                made = answer_serving(ask.replaced(pins=pins), self.library)
                points = {one.metric: one for one in inference_points(row, made)}
            except (Skip, GpuplanError) as error:
                why = f"{row.id}: {error}"
                if why not in self.left_out:
                    self.left_out.append(why)
                continue
            mbu: Any = None if (term := made.figures.get("mbu")) is None else term.value
            if (step := points.get("tpot")) is not None:
                measured, expected = step.measured, step.expected
            elif (rate := points.get("throughput")) is not None:
                measured, expected = 1 / rate.measured, 1 / rate.expected
            else:
                measured = expected = 0.0
            if measured:
                # A rate over whole requests is no time of a step, of which memory would tell.
                shared = mbu if step is not None else None
                found.append(
                    RunPoint(run=row.id, factor="decode", measured=measured, expected=expected, mbu=shared, reached=mbu or 0.0)
                )
            found += _of_prompts(row, made, points)
        return found


def _of_prompts(row: Row, made: Estimate, points: Mapping[Metric, Point]) -> list[RunPoint]:
    """What a run tells of prefill: where prompts are read alone, as a time or as a speed.

    Under load the first token waits for other requests, which says nothing of how long prefill takes.
    """
    from gpuplan.accuracy.inference import CLOSED

    if row.run.get("mode") not in CLOSED and row.run.get("concurrency") != 1:
        return []
    first, rate = points.get("ttft"), points.get("prefill")
    if first is not None:
        measured, expected = first.measured, first.expected
    elif rate is not None:
        tokens = float(row.run.get("input_len") or 1) * float(row.run.get("batch") or 1)
        measured, expected = tokens / rate.measured, tokens / rate.expected
    else:
        return []
    reached: Any = None if (bound := made.bounds.get("prefill")) is None else bound.value
    return [
        RunPoint(
            run=row.id, factor="prefill", measured=measured, expected=expected, mfu=_least_share(made, expected),
            reached=reached or 0.0,
        )
    ]  # fmt: skip


def _least_share(made: Estimate, seconds: float) -> float | None:
    """Which share of the peak the products with weights of one prompt take in so many seconds; None where that is not known."""
    bound = made.bounds.get("prefill")
    if bound is None:
        return None
    share: Any = bound.value
    alone: Any = dict(bound.args)["seconds"].value
    return float(share) * float(alone) / seconds


def _write(made: ImportedFile, engine: str, model: str, found: ServingFit, spec: Accelerator, out: Path) -> None:
    from gpuplan.calibrate.imports.merge import with_serving
    from gpuplan.calibrate.measure.measured_subject import MeasuredSubject
    from gpuplan.files.write import locked, write_all

    count = None if spec.units is None else int(spec.units.count.value)
    subject = MeasuredSubject(
        spec.id, spec.name, spec.vendor, spec.family, spec, processor=spec.unit == "socket", units=count
    )  # fmt: skip
    told = replace(made, software=engine, rows=max(one.runs for one in found.factors.values()))
    with locked(out.parent):
        text = with_serving(subject, out, told, engine, model, lambda key: serving_section(found, key))
        write_all({out: text}, force=True)
