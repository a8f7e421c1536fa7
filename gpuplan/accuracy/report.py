"""How large are the errors, of all rows and by group: medians, means, bias, and how often a range held?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gpuplan.accuracy.compare import METRICS, Metric, Point
from gpuplan.accuracy.judge import Judged, Judgement, Ran
from gpuplan.accuracy.rows import Row, Task

RATES = ("request_rate", "request_rate_qps")
"""What rows call the requests that come a second."""


def engine_of(row: Row) -> str:
    """The engine that a row names; apart with accelerators of their own for answers, at a rate, or in a source of its own."""
    if row.apart:
        return row.set
    name = row.engine.split()[0] if row.engine else "not said"
    if row.run.get("disaggregated"):
        return f"{name} (disaggregated)"
    at_rate = row.task == "inference" and not row.run.get("concurrency") and any(row.run.get(key) for key in RATES)
    return f"{name} (at a rate)" if at_rate else name


KEYS: Mapping[str, Callable[[Row], str]] = {
    "source": lambda row: row.set,
    "engine": engine_of,
    "accelerator": lambda row: str(row.hardware.get("accelerator")),
    "model": lambda row: str(row.model.get("id") or row.model.get("name")),
    "precision": lambda row: str(row.run.get("precision") or row.run.get("weights") or "not said"),
}
"""What rows can be grouped by, alone or several together."""
MEASURES: Mapping[Metric, tuple[str, ...]] = {
    "throughput": (
        "tokens_per_s_per_accelerator", "tokens_per_s_total", "step_time_s", "samples_per_s", "samples_per_s_total",
        "tflops_per_accelerator", "mfu", "hfu", "output_tokens_per_s", "output_tokens_per_s_per_accelerator",
        "requests_per_s",
    ),
    "prefill": ("prompt_tokens_per_s",),
    "memory": ("peak_memory_gib",),
    "ttft": ("ttft_ms", "ttft_p50_ms"),
    "tpot": ("tpot_ms", "tpot_p50_ms", "itl_ms", "step_ms"),
    "weights": ("weights_gib",),
    "kv_pool": ("kv_pool_gib",),
}  # fmt: skip
"""What rows call the figures of each metric."""


ESTABLISHED = "established sources"
"""How reports and budgets call the rows of all files that are not marked as asked blind."""


def acquainted(row: Row) -> str:
    """How a report calls the sources that a row is of: those of before, or those that were asked blind on a day.

    >>> row = Row(id="a", set="b", task="training", model={}, hardware={}, run={}, measured={})
    >>> acquainted(row), acquainted(row.replaced(blind="2026-11-29"))
    ('established sources', 'sources asked blind on 2026-11-29')
    """
    return f"sources asked blind on {row.blind}" if row.blind else ESTABLISHED


def keys_of(by: str) -> tuple[str, ...]:
    """The keys that a text names, such as `engine,accelerator`.

    >>> keys_of("engine, accelerator")
    ('engine', 'accelerator')
    """
    return tuple(one.strip() for one in by.split(","))


def grouped_by(by: str) -> Callable[[Row], str]:
    """What the group of a row is called: its value of each key, one after the other."""
    keys = [KEYS[name] for name in keys_of(by)]
    return lambda row: ", ".join(key(row) for key in keys)


def report(judgement: Judgement, by: str = "source") -> dict[str, Any]:
    """The report as plain data: `metrics` over all rows, `groups` with the same for each group, `skipped`, `stood_in`, `rows`.

    `sources` has the same for the established sources and for those that were asked blind on a day, which came in later.

    These are of rows as one types them; under `informed` stands the same with what else is known of the rows. Errors are
    fractions. Rows of groups that a fit may have seen, rows of its sources that were held back, and rows of sources that are
    only there to judge are told apart in each metric under `fitted`, `held_back` and `unseen`.
    """
    return {"by": by, **told(judgement.typed, by), "informed": told(judgement.informed, by)}


def told(judged: Judged, by: str) -> dict[str, Any]:
    """The report of rows that were asked in one way."""
    return {
        "metrics": metrics(judged),
        "sources": _grouped(judged, acquainted),
        "groups": _grouped(judged, grouped_by(by)),
        "skipped": [{"id": row.id, "reason": why, "missed": counts(row)} for row, why in judged.skipped],
        "stood_in": [{"id": row.id, "framework": row.engine, "asked_as": engine} for row, engine in judged.stood_in],
        "rows": [_plain(point) for point in judged.points],
    }


def _grouped(judged: Judged, key: Callable[[Row], str]) -> list[dict[str, Any]]:
    """The errors of each group of rows."""
    names = dict.fromkeys(key(row) for row in _rows(judged))
    return [{"key": name, **metrics(_of(judged, lambda row, name=name: key(row) == name))} for name in names]  # type: ignore[misc]


def metrics(judged: Judged) -> dict[str, Any]:
    """The errors of each metric, and how often the verdict was right."""
    made: dict[str, Any] = {}
    missed = [row for row, _ in judged.skipped if counts(row)]
    for metric in METRICS:
        points = [point for point in judged.points if point.metric == metric]
        misses = [row for row in missed if _measures(row, metric)]
        made[metric] = errors(points, len(misses)) | {"skipped": sum(_measures(row, metric) for row, _ in judged.skipped)}
        for name in ("fitted", "held_back", "unseen"):
            made[metric][name] = errors(
                [point for point in points if _seen(point.row) == name], sum(_seen(row) == name for row in misses)
            )
    return made | {"fits": verdicts(judged.fits)}


def counts(row: Row) -> bool:
    """Whether a row that was skipped is a miss: it is, unless the row itself is doubtful or broken."""
    return not row.flag and not row.fault


def _measures(row: Row, metric: Metric) -> bool:
    """Whether a row that was skipped says something of a metric; one that says nothing that can be read may say all of its task."""
    said = [name for name, keys in MEASURES.items() if any(row.measured.get(key) is not None for key in keys)]
    if said or row.measured.get("out_of_memory") or row.measured.get("ran"):
        return metric in said
    return metric in _ALL_OF[row.task]


_ALL_OF: Mapping[Task, tuple[Metric, ...]] = {
    "training": ("throughput", "memory"), "inference": ("throughput", "prefill", "ttft", "tpot"), "startup": ("weights", "kv_pool"),
    "diffusion": ("throughput", "memory"),
}  # fmt: skip


def _seen(row: Row) -> str:
    return "unseen" if row.unseen else "fitted" if row.fitted else "held_back"


def errors(points: Sequence[Point], missed: int = 0) -> dict[str, Any]:
    """Errors of some points; without any, all are None.

    Rows that were missed have no estimate: in the median, the 90th percentile and the share inside the range they are worse than
    any that has one (None where such a row would be the figure). The mean and what follows is of estimates alone: `bias` is the
    median error with its sign, `width` the median of high over low, `width_p90` its 90th percentile, `spread` that of the
    measurements around the estimates: 90th over 10th percentile of measured over estimated.
    """
    made: dict[str, Any] = {"rows": len(points), "missed": missed}
    if not points:
        return made | dict.fromkeys(("median_ape", "mean_ape", "p90_ape", "bias", "inside_range", "width", "width_p90", "spread"))
    sizes = sorted(abs(point.error) for point in points)
    ratios = sorted(point.ratio for point in points)
    ranked = [*sizes, *[math.inf] * missed]
    wide = sorted(_width(point) for point in points)
    return made | {
        "median_ape": _known(quantile(ranked, 0.5)),
        "mean_ape": statistics.fmean(sizes),
        "p90_ape": _known(quantile(ranked, 0.9)),
        "bias": statistics.median(point.error for point in points),
        "inside_range": sum(point.inside for point in points) / len(ranked),
        "width": statistics.median(wide),
        "width_p90": _known(quantile(wide, 0.9)),
        "spread": quantile(ratios, 0.9) / quantile(ratios, 0.1),
    }


def _width(point: Point) -> float:
    """High over low; of a difference, how far apart they are as a share of the same."""
    if point.base is not None:
        return 1.0 + (point.high - point.low) / point.base
    return point.high / max(point.low, 1e-12)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def verdicts(fits: Iterable[Ran]) -> dict[str, Any]:
    """Of the runs that ran, the share said to fit; of those that ran out of memory, the share said not to."""
    ran = [one.said_fits for one in fits if one.ran]
    failed = [not one.said_fits for one in fits if not one.ran]
    return {
        "ran": len(ran), "ran_said_fits": sum(ran) / len(ran) if ran else None,
        "oom": len(failed), "oom_said_not": sum(failed) / len(failed) if failed else None,
    }  # fmt: skip


def quantile(ordered: Sequence[float], share: float) -> float:
    """A quantile of ordered numbers, between neighbours in proportion.

    >>> quantile([0.0, 1.0, 2.0, 3.0, 4.0], 0.9)
    3.6
    """
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    if at == low or ordered[low] == ordered[high]:
        return ordered[low]
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def _rows(judged: Judged) -> list[Row]:
    return [*(point.row for point in judged.points), *(row for row, _ in judged.skipped), *(ran.row for ran in judged.fits)]


def _of(judged: Judged, wanted: Callable[[Row], bool]) -> Judged:
    return Judged(
        tuple(point for point in judged.points if wanted(point.row)),
        tuple(one for one in judged.skipped if wanted(one[0])),
        tuple(ran for ran in judged.fits if wanted(ran.row)),
    )


def _plain(point: Point) -> dict[str, Any]:
    row = point.row
    return {
        "id": row.id, "metric": point.metric, "measured": point.measured, "low": point.low, "expected": point.expected,
        "high": point.high if math.isfinite(point.high) else None,
        "fitted": row.fitted, "unseen": row.unseen, **{name: key(row) for name, key in KEYS.items()},
    }  # fmt: skip
