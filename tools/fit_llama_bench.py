"""Fit the few parameters of llama.cpp's kernels by family of chips to published llama-bench tables, and judge them on unseen chips.

    python -m tools.fit_llama_bench RUNS [--family NAME ...] [--write | --check | --leave-out]

RUNS is a folder of rows as `gpuplan accuracy` reads them; those of llama.cpp on one accelerator are fitted to, and rows of sources
that are there to judge never are. Each parameter is physical and has bounds: the share of the bandwidth that products of a vector
reach, the start of a kernel, the share of the peak of products of many rows, the time of a key, the operations that widening a
weight takes. It starts at what is usual and may leave it by a few of its stated widths. `--leave-out` fits without each chip and
prints how far off the chips are then; `--write` puts the values into hardware_specs/measured/families; `--check` fails where a
value in the files is not what the fit gives.
Needs numpy and scipy.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from gpuplan.accuracy.inference import figures_of, serving_question
from gpuplan.accuracy.rows import Row, Skip, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.errors import GpuplanError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.specs.engine_era import dated, split_name
from gpuplan.term import Term

FAMILIES = Path(__file__).parent.parent / "hardware_specs" / "measured" / "families"
ENGINE = "llama-cpp"
NEAR = 0.05
"""Logarithm of measured over estimated that counts in full."""
CLOSE = 0.02
"""How near a value in a file must be to what the fit gives, as a share."""
METRICS = ("tpot", "prefill")


class Parameter(NamedTuple):
    """One number of a family: the terms that have it, where it starts, how far it may go (as a logarithm), and its bounds."""

    terms: tuple[str, ...]
    start: float
    width: float
    low: float
    high: float
    meaning: str


def _shares(kinds: Sequence[str], key: str) -> tuple[str, ...]:
    return tuple(f"hw.matmul.{kind}.{key}" for kind in kinds)


_PLAIN, _WIDENED = ("bf16", "fp16"), ("int4_wo", "int8_wo", "coded_wo")
COMMON: Mapping[str, Parameter] = {
    "bandwidth_16": Parameter(_shares(_PLAIN, "memory_efficiency"), 0.9, 0.05, 0.6, 1.0, "share of bandwidth, 16-bit weights"),
    "start_16": Parameter(_shares(_PLAIN, "start"), 6e-6, 0.5, 1e-6, 3e-5, "start of a product of 16-bit weights"),
    "peak_16": Parameter(_shares(_PLAIN, "efficiency"), 0.7, 0.3, 0.1, 1.0, "share of the peak, 16-bit weights, many rows"),
    "bandwidth": Parameter(_shares(_WIDENED, "memory_efficiency"), 0.9, 0.05, 0.6, 1.0, "share of bandwidth, quantised weights"),
    "start": Parameter(_shares(_WIDENED, "start"), 1e-5, 0.5, 1e-6, 3e-5, "start of a product of quantised weights"),
    "peak": Parameter(_shares(_WIDENED, "efficiency"), 0.2, 0.5, 0.03, 1.0, "share of the peak, quantised weights, many rows"),
    "scores": Parameter(("hw.attention.prefill.bf16.efficiency",), 0.1, 0.5, 0.01, 1.0, "share of the peak, attention of prompts"),
}  # fmt: skip
KEYS = Parameter(("hw.attention.decode.bf16.walk",), 1.3e-8, 0.4, 1e-9, 1e-7, "time of a key in decode attention")
RATE = Parameter((*_shares(_WIDENED, "unit_rate"),), 1.16e10, 0.2, 5e9, 4e10, "bytes a second that a unit has under way")
RATE_16 = Parameter((*_shares(_PLAIN, "unit_rate"),), 9.5e9, 0.2, 5e9, 4e10, "the same with 16-bit weights")
QUANTISED: Mapping[str, Parameter] = {**{name: COMMON[name] for name in ("bandwidth", "start", "peak", "scores")}, "keys": KEYS}
THEN = ".2024-06-23"
"""Behind a family: the kernels until that day, when prompts of quantised weights were multiplied in 16 bits."""
PLAN: Mapping[str, Mapping[str, Parameter]] = {
    "ampere": {**QUANTISED, "rate": RATE},
    "ampere-ga100": {**QUANTISED, "rate": RATE},
    "ada": QUANTISED,
    "hopper": {**QUANTISED, "rate": RATE},
    "turing": {**QUANTISED, "rate": RATE},
    "volta": {**QUANTISED, "rate": RATE},
    "blackwell": {**QUANTISED, "rate": RATE},
    "blackwell-rtx": {**QUANTISED, "rate": RATE},
    # Its prompts in 16 bits, to which the fit has hardly a run, start between GA100's and Ada's, the nearest by age and design.
    f"ampere{THEN}": {
        **COMMON, "peak_16": COMMON["peak_16"]._replace(start=0.537), "keys": KEYS, "rate": RATE, "rate_16": RATE_16,
    },
    f"ampere-ga100{THEN}": {**COMMON, "keys": KEYS, "rate": RATE, "rate_16": RATE_16},
    f"ada{THEN}": {**COMMON, "keys": KEYS},
    f"hopper{THEN}": {**COMMON, "keys": KEYS, "rate": RATE, "rate_16": RATE_16},
    f"apple-gpu{THEN}": {
        **COMMON,
        "peak": COMMON["peak"]._replace(start=0.6),
        "scores_kept": Parameter(("hw.attention.decode.bf16.efficiency",), 0.0175, 0.5, 0.001, 0.5, "share of the peak, decode"),
        "widen": Parameter(("hw.matmul.coded_wo.widen",), 24.0, 0.4, 4.0, 80.0, "operations that widening a K weight takes"),
    },
}  # fmt: skip
"""What is fitted of each family."""


class Case(NamedTuple):
    """A figure of a row: how its term is made of the parameters' terms, and what was measured."""

    row: Row
    family: str
    metric: str
    measured: float
    steps: tuple[Any, ...]
    leaves: Mapping[int, str]

    def value(self, given: Mapping[str, float]) -> float:
        """The figure where terms have these values."""
        held: list[Any] = []
        for place, (made_by, parts) in enumerate(self.steps):
            if place in self.leaves:
                held.append(given[self.leaves[place]])
            else:
                held.append(made_by(**{key: held[part] if own else part for key, own, part in parts}))
        return float(held[-1])


def compiled(term: Term, names: Iterable[str]) -> tuple[tuple[Any, ...], Mapping[int, str]]:
    """The terms above some leaves, parts first, and the places of these leaves."""
    wanted, places, order, leaves = set(names), dict[int, int](), list[Any](), dict[int, str]()

    def visit(one: Term) -> bool:
        if id(one) in places:
            return places[id(one)] >= 0
        if not one.args:
            places[id(one)] = len(order) if one.name in wanted else -1
            if one.name in wanted:
                leaves[len(order)] = one.name
                order.append((None, ()))
            return one.name in wanted
        moving = [visit(part) for _, part in one.args]
        if not any(moving):
            places[id(one)] = -1
            return False
        assert one.formula is not None
        parts = tuple(
            (key, own, places[id(part)] if own else part.value) for (key, part), own in zip(one.args, moving, strict=True)
        )
        places[id(one)] = len(order)
        order.append((one.formula.fn, parts))
        return True

    return (tuple(order), leaves) if visit(term) else ((), {})


def cases(rows: Iterable[Row]) -> list[Case]:
    """The figures of llama.cpp's rows on one accelerator."""
    library = Library.of(ServeAsk(model="", on=""))
    answered = answers(library)
    made: list[Case] = []
    for row in rows:
        if row.flag or row.fault or not row.engine.startswith("llama.cpp") or row.hardware.get("count") != 1:
            continue
        try:
            ask = serving_question(row.as_typed(), answered.card, answered.keep, answered.engine)
            estimate = answered.serve(ask)
            chip = library.target(ask.on).accelerator
            family = chip.silicon if chip.silicon in PLAN else chip.family
            then = known_then(answered, ask.engine or "")
            family = family + then if family + then in PLAN else family
            for metric, measured, term in figures_of(row, estimate):
                if metric not in METRICS or family not in PLAN:
                    continue
                names = {name for one in PLAN[family].values() for name in one.terms}
                steps, leaves = compiled(term, names)
                if steps:
                    made.append(Case(row, family, metric, measured, steps, leaves))
        except (Skip, GpuplanError):
            continue
    return made


def known_then(answered: Any, engine: str) -> str:
    """What stands behind a family where its kernels of the release that a question names are others than today's."""
    name, release = split_name(engine)
    profile = answered.engine(name)
    if profile is None or release is None:
        return ""
    days = profile[0].releases.days if profile[0].releases is not None else {}
    return (profile[0].dated(dated(release, days, name)[0]).kernels or "").removeprefix(ENGINE)


def fit(some: Sequence[Case], parameters: Mapping[str, Parameter]) -> dict[str, float]:
    """The values that meet the figures best, each near its start and in its bounds; groups of one chip and model count alike."""
    names = list(parameters)
    sizes: dict[tuple[Any, ...], int] = {}
    for one in some:
        key = (*one.row.group, one.row.run.get("weights"), one.metric)
        sizes[key] = sizes.get(key, 0) + 1

    def values(x: Any) -> dict[str, float]:
        return {
            name: min(max(one.start * math.exp(float(step) * one.width), one.low), one.high)
            for (name, one), step in zip(parameters.items(), x, strict=True)
        }  # fmt: skip

    def far(x: Any) -> Any:
        given = terms(values(x), parameters)
        errors = [
            _soft(math.log(one.value(given) / one.measured) / NEAR)
            / math.sqrt(sizes[(*one.row.group, one.row.run.get("weights"), one.metric)])
            for one in some
        ]
        return np.array([*errors, *x])

    found = least_squares(far, np.zeros(len(names)), max_nfev=8)
    return values(found.x)


def _soft(error: float) -> float:
    """An error that counts by its size instead of its square where it is large: a figure that is off for its own reasons."""
    return math.copysign(math.sqrt(2 * (math.sqrt(1 + error * error) - 1)), error)


def terms(values: Mapping[str, float], parameters: Mapping[str, Parameter]) -> dict[str, float]:
    """The values of terms that parameters stand for."""
    return {term: values[name] for name, one in parameters.items() for term in one.terms}


def errors_of(some: Sequence[Case], values: Mapping[str, float], parameters: Mapping[str, Parameter]) -> list[float]:
    """Estimated over measured, less one, of each figure."""
    given = terms(values, parameters)
    return [one.value(given) / one.measured - 1 for one in some]


def told(title: str, found: Sequence[float]) -> str:
    """Median, mean, and 90th percentile of the sizes of errors, and the median with its sign."""
    sizes = np.abs(found)
    return (
        f"{title:42} {len(found):4} figures  median {np.median(sizes):6.1%}  mean {np.mean(sizes):6.1%}"
        f"  p90 {np.quantile(sizes, 0.9):6.1%}  bias {np.median(found):+6.1%}"
    )


def written(family: str, values: Mapping[str, float]) -> dict[str, str]:
    """The lines of a family's file that hold fitted values, by the keys that lead to them."""
    found: dict[str, str] = {}
    for name, one in PLAN[family].items():
        for term in one.terms:
            found[term] = text_of(term, values[name])
    return found


def text_of(term: str, value: float) -> str:
    """A value as files write it.

    >>> text_of("hw.matmul.bf16.start", 5.25e-6), text_of("hw.matmul.bf16.unit_rate", 9.51e9), text_of("hw.x.efficiency", 0.81234)
    ('5.25 us', '9.51 GB/s', '0.8123')
    """
    key = term.rpartition(".")[2]
    if key in ("start", "walk"):
        return f"{value * 1e6:.4g} us"
    return f"{value / 1e9:.4g} GB/s" if key == "unit_rate" else f"{value:.4g}"


def put(family: str, values: Mapping[str, float]) -> None:
    """Put values into the family's file and leave every other line as it is."""
    path = FAMILIES / f"{family.partition('.')[0]}.yaml"
    lines = path.read_text(encoding="utf-8").split("\n")
    first, end = _section(lines, f"  {_engine(family)}:")
    lines[first:end] = _changed(lines[first:end], written(family, values))
    path.write_text("\n".join(lines), encoding="utf-8")


def _engine(family: str) -> str:
    """The section of a family's file that holds the engine's kernels."""
    return ENGINE + "".join(family.partition(".")[1:])


def _section(lines: Sequence[str], begins: str) -> tuple[int, int]:
    """The first line of the engine's section, and the one behind its last."""
    first = next(at for at, line in enumerate(lines) if line == begins)
    return first, next((at for at in range(first + 1, len(lines)) if re.match(r" {0,2}\S", lines[at])), len(lines))


def _changed(lines: Sequence[str], wanted: Mapping[str, str]) -> list[str]:
    at: list[str] = []
    made: list[str] = []
    for line in lines:
        found = re.match(r"( +)(\w+):(.*)", line)
        if found:
            depth = len(found[1]) // 2 - 2
            at = [*at[: max(depth, 0)], found[2]]
            section = ["hw", *(["matmul"] if at[0] == "matmul" else ["attention", at[0]]), *at[1:]]
            value = wanted.get(".".join(section))
            made.append(line if value is None else f"{found[1]}{found[2]}: {value}")
        else:
            made.append(line)
    return made


def in_file(family: str) -> dict[str, float]:
    """The values of a family's file, by name of the parameter."""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.measured import Measured

    own = Catalog.open().load(Measured, family.partition(".")[0]).engines[_engine(family)]
    found: dict[str, float] = {}
    for name, one in PLAN[family].items():
        _, section, *rest = one.terms[0].split(".")
        kind, key = rest[-2], rest[-1]
        table: Any = own.matmul if section == "matmul" else getattr(own, rest[0])
        found[name] = float(getattr(table[kind], key).value)
    return found


def main() -> int:
    """Fit, report, and write or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("runs", type=Path)
    parser.add_argument("--family", action="append", choices=list(PLAN))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--leave-out", action="store_true")
    asked = parser.parse_args()
    known = cases(read_rows([asked.runs]))
    wrong = 0
    out: dict[str, list[float]] = {metric: [] for metric in METRICS}
    for family in asked.family or PLAN:
        parameters, own = PLAN[family], [one for one in known if one.family == family]
        values = fit([one for one in own if one.row.fitted], parameters)
        print(f"{family}: " + ", ".join(f"{name} {value:.4g}" for name, value in values.items()))
        for metric in METRICS:
            some = [one for one in own if one.metric == metric]
            print(told(f"  {metric}, fitted", errors_of(some, values, parameters)))
        if asked.leave_out:
            for chip in sorted({str(one.row.hardware["accelerator"]) for one in own}):
                rest = [one for one in own if one.row.hardware["accelerator"] != chip and not one.row.unseen]
                unseen = fit(rest, parameters) if rest else {name: one.start for name, one in parameters.items()}
                for metric in METRICS:
                    some = [one for one in own if one.row.hardware["accelerator"] == chip and one.metric == metric]
                    found = errors_of(some, unseen, parameters)
                    out[metric] += found
                    if found:
                        print(told(f"  {metric}, without {chip}", found))
        if asked.write:
            put(family, values)
        if asked.check:
            shipped = in_file(family)
            for name, value in values.items():
                if abs(shipped[name] / value - 1) > CLOSE:
                    print(f"  {family}: {name} is {shipped[name]:.4g} in the file, and {value:.4g} by the fit")
                    wrong += 1
    for metric, found in out.items():
        if found:
            print(told(f"{metric}, chips that were left out", found))
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
