"""Fit the few host times of serving engines to measured runs, and say how far the runs are that no fit saw.

    python -m tools.fit_serving RUNS [--engine NAME ...] [--leave-out] [--check]

RUNS is a folder of rows as `gpuplan accuracy` reads them, of which those for inference count. Each parameter of `PLAN` is one
figure of an engine's file, and stands for one thing; it is fitted on what it shows in. Two of three groups of model and accelerator
are fitted to, the third is held back whole (`gpuplan.accuracy.rows.Row.fitted`). Each parameter starts at what is known without the
runs and may leave it by a few of its stated widths; rows far from all others count little, and runs of one model on one machine
that were asked the same, on another day or once more, count as one together.

`--leave-out` fits without each group in turn and prints how far off those are: what a new model on a new machine may expect.
`--check` fails where a figure in a file is not what the fit gives. The term graphs of many runs are evaluated at once, as arrays.
Needs numpy and scipy.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import least_squares

from gpuplan.accuracy.inference import serving_question
from gpuplan.accuracy.rows import Row, Skip, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.errors import GpuplanError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving_many import Together, priced_at_once
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_era import dated, split_name
from gpuplan.term import Term
from tools.replay import parts_first

NEAR = 0.06
"""Logarithm of measured over estimated that counts in full."""
CLOSE = 0.05
"""How near a value in a file must be to what the fit gives, as a share."""


class Parameter(NamedTuple):
    """A figure of an engine's file: where it starts, by how much its logarithm may leave that, and on what it is fitted."""

    start: float
    width: float
    figure: str
    sources: tuple[str, ...]
    """Files of published runs."""
    meaning: str
    era: str | None = ""
    """The era of the engine that it is of, by the name that it has in the file; empty: today's; None: all of them."""
    dense_alone: bool = True
    """Mixtures of experts are held apart: what their kernels and exchanges miss is no host time of a decode step."""
    users: tuple[int, int] | None = None
    """Requests in flight, from the first number to the second, where it is fitted to loads: those that it shows in."""
    without: float = 0.0
    """The value at which it is as if there were none."""
    at: tuple[str, ...] = ()
    """Where the file has it below `serving`, if not by its own name."""
    family: str | None = None
    """The family of accelerators that it is of; None: of all."""


STAGE = "host time of a pass on a stage for each of its sequences"
STEP = "host time of a step, in the first releases of PyTorch's runtime"
WAIT = "what a step waits in a layer for each tensor parallel rank beyond the first"
RANKS = "host time of a step in which ranks of attention tell each other what they run"
UNEVEN = "how many times as long tokens of prompts travel between ranks with unlike numbers of them"
HOST = "what a decode step of a full engine takes longer for each of its sequences"
REQUEST = "time of a request to its first token that no pass takes"
ISSUE = "host time to issue a layer of latent attention for prompts"
LINEAR = "host time to issue a layer of a model with linear attention for prompts, kernel by kernel"
READING = "time of a token of a prompt in the process that reads requests"
_RANK_HOST, _UNEVEN = ("shares_experts", "rank_host"), ("shares_experts", "uneven_exchange")
LOADED = ("silicon",)
IDLE = ("silicon", "sparecores-vllm")
"""Of one request after another too, where nothing hides what the host does."""
WHOLE = "2026-04-04"
"""The last day of SGLang's releases that issued passes with prompts kernel by kernel."""
WHOLE_BATCHES = ("llm-inference-bench",)
"""Whole batches of one prompt's length, on NVIDIA's chips."""
RATES = ("io-net",)
"""Requests at a rate, of one server after another."""
REFERENCES = ("tenstorrent-references",)
"""One request after another, on A100 and RTX 4090, in vLLM 0.9 to 0.11."""
FIRST = "2025-04-28"
"""The last day of the first releases of vLLM's second engine, 0.8."""
WAITING = "2026-01-16"
"""The last day of vLLM's releases that put a step together after the one before it had ended."""
PYTHON = "2025-02-20"
"""The last day of vLLM's first engine, whose scheduler, inputs and sampler are Python between two steps."""
STEP_OF_V1 = "host time of a decode step"
STEP_OF_V0 = "host time of a step of the first engine"
SEQUENCE_OF_V0 = "host time of a step of the first engine for each of its sequences"
PAGE_OF_V0 = "host time of a step of the first engine for each page of its sequences' caches"
JOINED_OF_V0 = "host time of a step of several ranks in the first engine"
OFFLINE = ("tensorrt-llm-0.14-to-1.0", "tensorrt-llm-per-gpu")
BATCHES = ("tensorrt-llm-0.5-to-0.9",)
VECTOR = "products that a unit does in a clock in decode attention without matrix units, until 0.9"

PLAN: Mapping[str, Mapping[str, Parameter]] = {
    "tensorrt-llm": {
        "sequence_host": Parameter(6e-6, 1.0, "tokens_per_s", OFFLINE, HOST, dense_alone=False),
        "2025-04-16.sequence_host": Parameter(1e-5, 1.0, "tokens_per_s", OFFLINE, f"{HOST}, in the last of C++", "2025-04-16"),
        "2024-11-01.sequence_host": Parameter(1e-5, 1.0, "tokens_per_s", OFFLINE, f"{HOST}, until 0.14", "2024-11-01"),
        "2024-09-30.sequence_host": Parameter(1e-5, 1.0, "tokens_per_s", WHOLE_BATCHES, f"{HOST}, until 0.13", "2024-09-30"),
        "2025-08-04.sequence_host": Parameter(1e-5, 1.0, "tokens_per_s", OFFLINE, f"{HOST}, in PyTorch's first", "2025-08-04"),
        "2025-08-04.step_host": Parameter(1e-2, 1.0, "tokens_per_s", OFFLINE, STEP, "2025-08-04"),
        "2025-04-16.rank_wait": Parameter(2e-5, 1.0, "tokens_per_s", OFFLINE, WAIT, "2025-04-16"),
        "2024-09-30.rank_wait": Parameter(2e-5, 1.0, "tokens_per_s", WHOLE_BATCHES, f"{WAIT}, until 0.13", "2024-09-30"),
        "2024-11-01.rank_wait": Parameter(2e-5, 1.0, "tokens_per_s", OFFLINE, f"{WAIT}, until 0.14", "2024-11-01"),
        "token_host": Parameter(2e-6, 1.0, "ttft_s", LOADED, READING, None, dense_alone=False, users=(64, 1 << 30)),
        "server_host": Parameter(2e-2, 1.0, "ttft_s", LOADED, f"{REQUEST}, of its server", None, dense_alone=False, users=(1, 8)),
        "latent_prompt_host": Parameter(2e-3, 0.5, "ttft_s", LOADED, ISSUE, None, dense_alone=False, users=(1, 8)),
        "stage_sequence_host": Parameter(
            1e-4, 1.0, "tokens_per_s", OFFLINE, STAGE, dense_alone=False, at=("stage_host", "sequence")
        ),
        "rank_host": Parameter(1e-2, 0.5, "tokens_per_s", OFFLINE, RANKS, dense_alone=False, family="hopper", at=_RANK_HOST),
        "uneven_exchange": Parameter(
            3.0, 0.5, "tokens_per_s", OFFLINE, UNEVEN, dense_alone=False, without=1.0, family="hopper", at=_UNEVEN
        ),
        "2024-04-11.vector_decode": Parameter(1e1, 1.0, "tokens_per_s", BATCHES, VECTOR, "2024-04-11", without=1e6),
    },
    "sglang": {
        f"{WHOLE}.request_host": Parameter(4e-2, 0.5, "ttft_s", LOADED, REQUEST, WHOLE, dense_alone=False, users=(1, 8)),
        f"{WHOLE}.latent_prompt_host": Parameter(1e-3, 0.5, "ttft_s", LOADED, ISSUE, WHOLE, dense_alone=False, users=(1, 8)),
        f"{WHOLE}.linear_prompt_host": Parameter(2e-3, 0.5, "ttft_s", LOADED, LINEAR, WHOLE, dense_alone=False, users=(1, 8)),
    },
    "vllm": {
        "step_host": Parameter(3e-4, 1.0, "tpot_s", IDLE, STEP_OF_V1, users=(1, 8)),
        f"{FIRST}.step_host": Parameter(1e-3, 1.0, "tpot_s", RATES, f"{STEP_OF_V1}, in 0.8", FIRST),
        f"{WAITING}.step_host": Parameter(1e-3, 1.0, "tpot_s", REFERENCES, f"{STEP_OF_V1}, of 0.9 to 0.13", WAITING, users=(1, 8)),
        f"{WAITING}.request_host": Parameter(1e-2, 1.0, "ttft_s", RATES, f"{REQUEST}, until 0.13", WAITING, dense_alone=False),
        "request_host": Parameter(1e-2, 1.0, "ttft_s", IDLE, REQUEST, None, dense_alone=False, users=(1, 8)),
        "token_host": Parameter(2e-6, 0.5, "ttft_s", IDLE, READING, None, dense_alone=False, users=(1, 8)),
        f"{PYTHON}.step_host": Parameter(2e-3, 0.5, "tokens_per_s", WHOLE_BATCHES, STEP_OF_V0, PYTHON),
        f"{PYTHON}.sequence_host": Parameter(5e-5, 0.5, "tokens_per_s", WHOLE_BATCHES, SEQUENCE_OF_V0, PYTHON),
        f"{PYTHON}.page_host": Parameter(3e-7, 0.5, "tokens_per_s", WHOLE_BATCHES, PAGE_OF_V0, PYTHON),
        f"{PYTHON}.joined_host": Parameter(1e-3, 0.5, "tokens_per_s", WHOLE_BATCHES, JOINED_OF_V0, PYTHON),
    },
}  # fmt: skip
"""What is fitted of each engine."""


class Graph:
    """One figure of many runs, whose terms were made at once, as a function of leaves by name."""

    def __init__(self, root: Term, names: Sequence[str]) -> None:
        self._root, places = root, dict[int, str]()
        self._steps: list[Term] = []
        for term in parts_first(root):
            if not term.args and term.name in names:
                places[id(term)] = term.name
            elif term.formula is not None and any(id(part) in places for _, part in term.args):
                places[id(term)] = ""
                self._steps.append(term)
        self._places = places
        self.names = frozenset(name for name in places.values() if name)
        """The leaves that the figure depends on."""

    def value(self, values: Mapping[str, float]) -> Any:
        """The figure of each run with these values of the leaves."""
        held: dict[int, Any] = {key: values[name] for key, name in self._places.items() if name}
        for term in self._steps:
            assert term.formula is not None
            held[id(term)] = term.formula.fn(**{key: held.get(id(part), part.value) for key, part in term.args})
        return held.get(id(self._root), self._root.value)


class Runs(NamedTuple):
    """Runs that were priced at once: their figure as a graph, the place of each in it, what was measured, and its group."""

    graph: Graph
    places: Any
    measured: Any
    groups: tuple[tuple[str, str], ...]
    seen: Any
    """Which of them are fitted to."""
    weights: Any
    """What each counts for: the runs that answer one question count as one together."""

    def errors(self, values: Mapping[str, float]) -> Any:
        """Logarithm of estimated over measured of each."""
        found = np.asarray(self.graph.value(values), float)
        own = found[self.places] if found.ndim else np.full(len(self.places), float(found))
        return np.log(own / self.measured)


MEASURES: Mapping[str, Callable[[Row], float | None]] = {
    "tokens_per_s": lambda row: row.measured.get("output_tokens_per_s"),
    "tpot_s": lambda row: None if (step := row.measured.get("tpot_ms")) is None else step * 1e-3,
    "ttft_s": lambda row: (
        None if (first := row.measured.get("ttft_ms") or row.measured.get("ttft_p50_ms")) is None else first * 1e-3
    ),
}
"""What rows say of a figure."""


Priced: TypeAlias = dict[tuple[str, ...], list[Together]]
"""Questions that were priced together, by their texts."""


def runs_of(
    rows: Iterable[Row], engine: str, parameter: Parameter, name: str, library: Library, priced: Priced | None = None
) -> list[Runs]:  # fmt: skip
    """The runs that a parameter is fitted on, in groups that are priced at once.

    `priced` keeps them: most parameters of an engine are fitted on runs of others.
    """
    known, measure = answers(library), MEASURES[parameter.figure]
    asked: dict[str, list[tuple[Row, float]]] = {}
    asks: list[ServeAsk] = []
    for row in rows:
        measured = measure(row)
        if row.set not in parameter.sources or row.flag or row.fault or measured is None:
            continue
        try:
            ask = serving_question(row, known.card, known.keep, known.engine)
        except (Skip, GpuplanError):
            continue
        named = known.engine(ask.engine.partition("@")[0]) if ask.engine else None
        moes = known.card(ask.model).architecture.moes
        if named is None or named[0].id != engine or (parameter.dense_alone and moes) or not in_flight(ask, parameter):
            continue
        if parameter.family is not None and library.target(ask.on).accelerator.family != parameter.family:
            continue
        figure = parameter.at[0] if parameter.at else name.rpartition(".")[2]
        if parameter.era is None or era_of(named[0], ask.engine or "", figure) == parameter.era:
            asks.append(ask)
            asked.setdefault(repr(ask), []).append((row, float(measured)))
    made: list[Runs] = []
    priced, those_asked = {} if priced is None else priced, tuple(asked)
    if those_asked not in priced:
        priced[those_asked] = list(priced_at_once(asks, library))
    left = dict(asked)
    for group in priced[those_asked]:
        root = group.priced.made.figures[parameter.figure]
        if not (graph := Graph(root, [leaf(name)])).names:
            continue
        made.append(_runs(graph, [(place, row, value) for text, place in group.places.items() for row, value in left.pop(text)]))
    rates = {repr(ask): ask for ask in asks if ask.rate is not None}
    for text, ask in rates.items():
        found = known.serve(ask).figures.get(parameter.figure)
        if found is not None and (graph := Graph(found, [leaf(name)])).names:
            made.append(_runs(graph, [(0, row, value) for row, value in left[text]]))
    return made


def _runs(graph: Graph, those: Sequence[tuple[int, Row, float]]) -> Runs:
    """Runs by their place in a graph, which those share that were asked the same."""
    often = Counter((place, row.group) for place, row, _ in those)
    return Runs(
        graph, np.array([one[0] for one in those]), np.array([one[2] for one in those]),
        tuple(row.group for _, row, _ in those), np.array([row.fitted for _, row, _ in those]),
        np.array([1 / often[place, row.group] for place, row, _ in those]),
    )  # fmt: skip


def in_flight(ask: ServeAsk, parameter: Parameter) -> bool:
    """Whether a question has as many requests in flight as a parameter shows in."""
    return parameter.users is None or (ask.concurrency is not None and parameter.users[0] <= ask.concurrency <= parameter.users[1])


def fit(
    runs: Sequence[Runs], name: str, parameter: Parameter, left_out: tuple[str, str] | None = None, *, every: bool = False
) -> float:
    """The value that meets the runs best that are fitted to, or `every` one; without a group that is `left_out`."""

    def value(step: float) -> float:
        return parameter.start * math.exp(step * parameter.width)

    def far(x: Any) -> Any:
        found = [x]
        for one in runs:
            counts = np.array([group != left_out for group in one.groups]) & (one.seen | every)
            size = one.errors({leaf(name): value(float(x[0]))})[counts] / NEAR
            found.append(np.sign(size) * np.sqrt(2 * one.weights[counts] * (np.sqrt(1 + size * size) - 1)))
        return np.concatenate(found)

    return value(float(least_squares(far, [0.0], diff_step=1e-2).x[0]))


def told(errors: Any) -> str:
    """Errors in one line."""
    size = np.abs(np.exp(errors) - 1)
    if not len(size):
        return "no rows"
    return (
        f"{len(size)} rows, median {np.median(size):.1%}, mean {size.mean():.1%}, 90th percentile {np.quantile(size, 0.9):.1%}, "
        f"bias {math.exp(float(np.median(errors))) - 1:+.1%}"
    )


def errors_of(runs: Sequence[Runs], name: str, value: float, wanted: Callable[[Runs], Any]) -> Any:
    """The errors of those runs that are wanted."""
    return np.concatenate([one.errors({leaf(name): value})[wanted(one)] for one in runs])


def leaf(name: str) -> str:
    """The name of the term that a parameter is: what an era has otherwise goes by the same name."""
    return f"engine.{name.rpartition('.')[2]}"


def era_of(engine: Engine, asked: str, figure: str) -> str:
    """The era of the release that a question names; empty: today's, which is that of no release too.

    Eras that say nothing of a figure, and have no fit of it, are those that came after: the figure holds in both.
    """
    _, said = split_name(asked)
    if said is None:
        return ""
    day, _ = dated(said, engine.releases.days if engine.releases is not None else {}, engine.name)
    fitted = {one.era for name, one in PLAN.get(engine.id, {}).items() if name.rpartition(".")[2] == figure}
    told = [era for era in engine.eras if era.name in fitted or getattr(era.serving, figure, None) is not None]
    return next((era.name for era in told if day[: len(era.name)] <= era.name), "")


def in_file(engine: str, name: str, parameter: Parameter) -> float:
    """A figure as it stands in an engine's file."""
    profile, era = Catalog.open().load(Engine, engine), parameter.era
    found: Any = profile.serving if not era else next(one.serving for one in profile.eras if one.name == era)
    for key in parameter.at or (name.rpartition(".")[2],):
        found = getattr(found, key)
    found = found[parameter.family] if isinstance(found, Mapping) else getattr(found, "values", found)
    return float(getattr(found, "value", found))


def main() -> None:
    """Fit what was named, or all, and print how far fitted, held-back and left-out rows are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--engine", action="append", choices=list(PLAN))
    parser.add_argument("--leave-out", action="store_true", help="fit without each group of model and accelerator, too")
    parser.add_argument("--check", action="store_true", help="fail where a figure in the files is not what the fit gives")
    args = parser.parse_args()
    rows = [row for row in read_rows([args.runs]) if row.task == "inference"]
    library = Library.of(ServeAsk(model="", on=""))
    far: list[str] = []
    priced: Priced = {}
    for engine in args.engine or PLAN:
        for name, parameter in PLAN[engine].items():
            runs = runs_of(rows, engine, parameter, name, library, priced)
            if not runs:
                raise SystemExit(f"none of the rows of {', '.join(parameter.sources)} can be asked; gpuplan accuracy says why")
            value, shipped = fit(runs, name, parameter), in_file(engine, name, parameter)
            print(f"{engine}: {name} {value:.3g} (in its file {shipped:.3g}): {parameter.meaning}")
            print(f"  fitted     {told(errors_of(runs, name, value, lambda one: one.seen))}")
            print(f"  held back  {told(errors_of(runs, name, value, lambda one: ~one.seen))}")
            print(f"  without it {told(errors_of(runs, name, parameter.without, lambda one: ~one.seen))}")
            if args.leave_out:
                groups = sorted({group for one in runs for group in one.groups})
                out = [
                    errors_of(runs, name, fit(runs, name, parameter, group, every=True), _of(group))
                    for group in groups
                ]  # fmt: skip
                print(f"  left out   {told(np.concatenate(out))}, by {len(groups)} groups")
            if abs(shipped / value - 1) > CLOSE:
                far.append(f"{engine}: {name} is {shipped:.4g} in its file, the fit gives {value:.4g}")
    if args.check and far:
        raise SystemExit("\n".join(far))


def _of(group: tuple[str, str]) -> Callable[[Runs], Any]:
    return lambda one: np.array([own == group for own in one.groups])


if __name__ == "__main__":
    main()
