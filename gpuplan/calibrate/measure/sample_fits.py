"""Which parameters come of the samples of a device, set by set, and which could not be fitted?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpuplan.calibrate.cross_fit import FitCase, best_cross_fit
from gpuplan.calibrate.fit import FitResult
from gpuplan.calibrate.gate import refusal
from gpuplan.calibrate.measure.cases import FABRIC, FitBasis, backward_share, cases, network_cases, of_kind
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.possible import too_fast
from gpuplan.files.progress import steps

FEWEST = 5
"""Rows of which nothing is fitted."""
MOST_IMPOSSIBLE = 0.25
"""Where more of a kind of kernels are faster than the hardware can be, none of them is taken."""
NEARER = "are nearer"
"""What is said of a set whose family's parameters meet the rows better than a fit does on rows that it has not seen."""


@dataclass
class SampleFits:
    """All that the samples tell."""

    sets: dict[str, FitResult] = field(default_factory=dict)
    unfitted: dict[str, str] = field(default_factory=dict)
    """Sets that could not be fitted, and why."""
    short: dict[str, str] = field(default_factory=dict)
    """Fitted collectives that a measured file has no place for, since other kinds on the same link are missing."""
    backward: tuple[float, int] | None = None
    chains: Mapping[str, float] = field(default_factory=dict)
    """How much longer norms and activations take than they are priced: medians."""
    launch: float | None = None
    """Seconds of one empty kernel among many, launched one by one."""
    graph: float | None = None
    """The same in a graph."""

    def tells(self) -> bool:
        """Whether anything can be written from it."""
        return bool(self.sets or self.launch or self.backward)

    def whole(self) -> dict[str, FitResult]:
        """The sets that a measured file has a place for."""
        return {place: one for place, one in self.sets.items() if place not in self.short}

    def ranges(self) -> dict[str, tuple[float, float, float]]:
        """10th percentile, median and 90th percentile of measured over predicted, by kind of work."""
        made: dict[str, tuple[float, float, float]] = {}
        for kind in dict.fromkeys(one.residual for one in self.sets.values()):
            ratios = np.concatenate([one.ratios for one in self.sets.values() if one.residual == kind])
            low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
            made[kind] = float(low), float(middle), float(high)
        return made


def fit_samples(samples: Sequence[Sample], ground: FitBasis, software: str) -> SampleFits:
    """What the samples tell; those with marks must have been left out."""
    samples, impossible = _possible(sorted(samples, key=lambda one: one.probe.key()), ground)
    made = SampleFits(backward=backward_share(samples), unfitted=impossible)
    todo = cases(samples, ground, software)
    for case in steps(todo, "fits"):
        _fitted(case, made)
    inside = {
        place.removeprefix("collective."): {key: one.value for key, one in found_.values.items()}
        for place, found_ in made.sets.items() if place.startswith("collective.")
    }  # fmt: skip
    for case in network_cases(samples, ground, software, {**ground.inside, **inside}):
        _fitted(case, made)
    _only_whole(made)
    if not ground.levels and of_kind(samples, "collective", "transfer"):
        made.unfitted["collective"] = "no spec says what the link between the devices carries"
    if ground.host is None and of_kind(samples, "host_to_device", "device_to_host"):
        made.unfitted["host"] = "no spec says what the link to the host carries"
    made.chains = chains(samples, ground, made, software)
    made.launch = _each(of_kind(samples, "launch"))
    made.graph = _each(of_kind(samples, "graph"))
    return made


def _possible(samples: Sequence[Sample], ground: FitBasis) -> tuple[list[Sample], dict[str, str]]:
    """The samples that the hardware can have given; and of the others, by kind, what is wrong with the first.

    Where too many of a kind are faster than the hardware, the rest of them cannot be believed either: the part, the clock or the
    data type is another.
    """
    kept: list[Sample] = []
    wrong: dict[str, list[str]] = {}
    there: Counter[str] = Counter()
    for one in samples:
        kind, why = _kind(one), too_fast(one.probe, one.seconds, ground)
        there[kind] += 1
        if why:
            wrong.setdefault(kind, []).append(why)
        else:
            kept.append(one)
    lost = {kind for kind, found in wrong.items() if len(found) > MOST_IMPOSSIBLE * there[kind]}
    fate = {kind: "impossible, and none is taken" if kind in lost else "left out" for kind in wrong}
    said = {kind: f"{len(found)} of {there[kind]} rows are {fate[kind]}: {found[0]}" for kind, found in wrong.items()}
    return [one for one in kept if _kind(one) not in lost], said


def _kind(one: Sample) -> str:
    probe = one.probe
    return probe.name if probe.kind == "collective" else ".".join(part for part in (probe.kind, probe.dtype, probe.name) if part)


def _fitted(case: FitCase, made: SampleFits) -> None:
    """Fit a case; what does worse than the family is left to it."""
    if len(case.rows) < FEWEST or len(set(case.shapes)) < 2:
        made.unfitted[case.place] = f"only {len(case.rows)} trustworthy rows"
        return
    one = best_cross_fit(case)
    before = case.family_error()
    if before is not None and one.errors.median_ape > before:
        made.unfitted[case.place] = f"the family's parameters {NEARER} ({before:.1%}) than the fit ({one.errors.median_ape:.1%})"
        return
    if why := refusal(one):
        made.unfitted[case.place] = f"not believed: {why}"
        return
    made.sets[case.place] = one


def _only_whole(made: SampleFits) -> None:
    """A measured file tells all kinds of collectives of a link or none."""
    for link in ("collective", "network"):
        there = [place for place in made.sets if place.startswith(f"{link}.")]
        missing = [kind for kind in FABRIC if f"{link}.{kind}" not in made.sets]
        made.short |= {place: f"{', '.join(missing)} could not be fitted" for place in there if missing}


def chains(samples: Sequence[Sample], ground: FitBasis, made: SampleFits, software: str) -> dict[str, float]:
    """Medians of measured over priced: of norms and of activations, each alone, as streams."""
    found_: dict[str, float] = {}
    for kind in ("norm", "activation"):
        ratios: list[float] = []
        for case in cases(of_kind(samples, kind), ground, software):
            fitted = made.sets.get(case.place)
            if fitted is not None and len(case.rows):
                values = {key: one.value for key, one in fitted.values.items()}
                ratios += (case.rows.seconds / case.predict(case.rows, values)).tolist()
        if ratios:
            found_[kind] = float(np.median(ratios))
    return found_


def _each(samples: Sequence[Sample]) -> float | None:
    """Seconds of one of many calls: of the probe with the most of them."""
    if not samples:
        return None
    best = max(samples, key=lambda one: one.probe.shape["launches"])
    return best.seconds / best.probe.shape["launches"]
