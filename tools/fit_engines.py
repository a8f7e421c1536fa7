"""Fit the few parameters of each training engine to measured runs, and say how far the runs that no fit saw are.

    python tools/fit_engines.py RUNS [--engine NAME ...] [--write | --leave-out]

RUNS is a folder of rows as `gpuplan accuracy` reads them. Two of three groups of model and accelerator are fitted to, the
third is held back (`gpuplan.accuracy.rows.Row.fitted`). Each parameter starts at what is known without the runs and may leave
it by a few of its stated widths; rows far from all others count little. `--write` puts the values into hardware_specs/engines.
`--leave-out` fits without each source, and without each accelerator, and prints how far off those are: what a new site may expect.
Needs numpy and scipy.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from gpuplan.accuracy.compare import _speed
from gpuplan.accuracy.judge import training_question
from gpuplan.accuracy.rows import Row, Skip, of_many_lengths, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.errors import GpuplanError
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training import training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import TrainPlan
from gpuplan.search.habits import looked_up
from gpuplan.search.library import Library
from gpuplan.search.training import chosen_with
from gpuplan.specs.engine import Fusion, Overlaps, TrainingProfile
from gpuplan.specs.engine_policies import Adapters, Experts, Fp8, Host, Overlap, Sharding
from gpuplan.specs.quantity import Sourced
from gpuplan.specs.training_habits import Pace

ENGINES = Path(__file__).parent.parent / "hardware_specs" / "engines"
NEAR = 0.04
"""Logarithm of measured over estimated that counts in full."""
BORROWED = 1.05
"""How much wider the range of an engine is that takes the values of another, and had no row in the fit."""
SITES = (0.9, 1.38)
"""The ends that a range has at least where fewer than three sources were seen: other clusters run the same plan so much faster or
slower, from the best rows to the slowest of one engine in published runs (bigscience beside the Megatron papers)."""
FEW_SOURCES = 3
SECTIONS: Mapping[str, type] = {
    "compiled": Fusion, "eager": Fusion, "switched": Overlaps, "overlap": Overlap, "host": Host, "sharding": Sharding,
    "experts": Experts, "adapters": Adapters, "fp8": Fp8,
}  # fmt: skip
UNITS = {"us": 1e-6, "ms": 1e-3, "B": 1.0}
UNIT_OF = {
    **dict.fromkeys(("host.layer", "host.graph", "host.tensor", "layer_host"), "us"),
    **dict.fromkeys(("experts.host", "experts.start", "adapters.host"), "us"),
    **dict.fromkeys(("sharding.gather_host", "sharding.slice_host"), "us"),
    "host.step": "ms", "adapters.dequantise": "B", "fp8.rowwise": "B",
}  # fmt: skip
KERNELS = ("matmul", "attention", "attention_backward")
WIDTHS = {
    "matmul": 0.08,
    "matmul_fp8": 0.12,
    "attention": 0.15,
    "attention_backward": 0.15,
    "elementwise": 0.2,
    "grouped": 0.25,
    "matmul_fp4": 0.2,
}

Start = tuple[float, float]
"""Where a parameter starts, and the width of its prior in logarithms."""


def paces(families: Sequence[str], kinds: Sequence[str]) -> dict[str, Start]:
    """Pace of kinds of work by family: as fast as the measured kernels, within the width of each kind."""
    return {f"pace.{family}.{kind}": (1.2 if kind == "grouped" else 1.0, WIDTHS[kind]) for family in families for kind in kinds}


class Fitted(NamedTuple):
    """What is fitted of an engine, to which sets of rows, and which profiles take the values."""

    engines: tuple[str, ...]
    sets: tuple[str, ...]
    parameters: dict[str, Start]
    takes: Callable[[Row], bool] = lambda row: True
    spread: str = "residual"
    """Which range takes the spread of the rows that were held back."""


SPREAD = {"contention": (0.3, 0.5), "straggle": (0.005, 0.7)}
PLAN: dict[str, Fitted] = {
    "composer": Fitted(
        ("composer",),
        ("llm-foundry", "llm-foundry-2023"),
        paces(("ampere", "hopper"), KERNELS)
        | paces(("hopper",), ("matmul_fp8",))
        | SPREAD
        | {"hidden_passes": (18, 0.3), "host.step": (0.025, 0.5), "pace.ampere.attention_depth": (60, 0.5)},
    ),
    "fsdp": Fitted(
        ("fsdp", "torchtune", "litgpt"),
        ("fms-fsdp",),
        paces(("ampere", "hopper"), KERNELS)
        | SPREAD
        | {"compiled.hidden_passes": (11, 0.25), "eager.hidden_passes": (24, 0.25), "hidden_passes": (16, 0.25)},
    ),
    "torchtitan": Fitted(
        ("torchtitan",),
        ("torchtitan", "torchao"),
        paces(("ampere", "hopper"), KERNELS)
        | {f"pace.cdna3.{kind}": (1.2, 0.2) for kind in (*KERNELS, "matmul_fp8")}
        | paces(("hopper",), ("matmul_fp8",))
        | SPREAD
        | {"fp8.rowwise": (18, 0.3)}
        | {"compiled.hidden_passes": (11, 0.25), "eager.hidden_passes": (24, 0.25), "hidden_passes": (16, 0.25)},
    ),
    "megatron-lm": Fitted(
        ("megatron-lm", "nemo"),
        ("dgxc-benchmarking", "megatron-bridge"),
        paces(("hopper", "blackwell"), (*KERNELS, "matmul_fp8"))
        # Its attention is cuDNN's, which was measured; two norms and two residual additions pass over the hidden width 10 times.
        | {f"pace.{family}.{kind}": (1.0, 0.05) for family in ("hopper", "blackwell") for kind in KERNELS if kind != "matmul"}
        # Communication beside computation takes 20 of 132 multiprocessors (DeepSeek-V3, 3.2.2).
        | {"contention": (0.15, 0.2), "straggle": (0.005, 0.7), "hidden_passes": (11, 0.2)}
        | {"switched.tp": (0.6, 0.3), "pace.blackwell.matmul_fp4": (1.0, 0.15)}
        # Clocks of siblings are pooled: what is left of a chip by itself is little.
        | {f"pace.{chip}.matmul_fp8": (1.0, 0.03) for chip in ("gb200-186gb", "gb300-279gb")},
        lambda row: not (row.model.get("moe") or row.model.get("hybrid")),
    ),
    "megatron-experts": Fitted(
        ("megatron-lm", "nemo"),
        ("dgxc-benchmarking", "megatron-bridge"),
        {f"pace.{family}.grouped": (1.15, 0.12) for family in ("hopper", "blackwell")}
        | {"experts.host": (6e-5, 0.5), "switched.ep": (0.8, 0.2), "experts.start": (1.5e-5, 0.5)}
        | {"era.2026-05.pace.blackwell.grouped": (1.25, 0.12), "era.2026-05.experts.start": (2e-5, 0.5)},
        lambda row: bool(row.model.get("moe") or row.model.get("hybrid")),
        "residual_experts",
    ),
    "nanotron": Fitted(
        ("nanotron",),
        ("nanotron",),
        paces(("hopper",), KERNELS)
        | {"contention": (0.3, 0.4), "straggle": (0.02, 0.3), "overlap.dp": (0.7, 0.3), "hidden_passes": (14, 0.15)}
        | {"sharding.slice_host": (5e-6, 0.4)},
    ),
    "megatron-deepspeed": Fitted(
        ("megatron-deepspeed",),
        ("bigscience",),
        # All else is counted from its code; what is left is the nodes of the one site with published runs.
        {"pace.ampere.matmul": (1.0, 0.3)},
    ),
    "maxtext": Fitted(
        ("maxtext",),
        ("maxtext", "tpu-recipes", "jax-toolbox"),
        paces(("tpu",), (*KERNELS, "elementwise", "grouped"))
        | paces(("any",), (*KERNELS, "matmul_fp8"))
        | {"pace.tpu-v5e.matmul": (1.0, 0.15), "pace.tpu-v6e.matmul": (1.1, 0.15), "pace.tpu-v7-ironwood.matmul": (1.1, 0.15)}
        | {"pace.tpu-v6e.matmul_fp8": (1.3, 0.2), "pace.tpu-v7-ironwood.matmul_fp8": (1.3, 0.2)}
        | {"contention": (0.2, 0.7), "straggle": (0.02, 0.5), "overlap.tp": (0.5, 0.3)},
    ),
    "accelerate": Fitted(
        ("accelerate", "ms-swift", "axolotl"),
        ("qwen", "ml-engineering"),
        # Its matmuls lose as much on every chip; attention is the kernels that were measured.
        {"pace.any.matmul": (1.0, 0.15), "hidden_passes": (28, 0.25), "host.layer": (4e-4, 0.4)}
        | {"adapters.host": (8e-5, 0.5), "adapters.dequantise": (25, 0.5)}
        | {"host.tensor": (1.2e-4, 0.5), "sharding.gather_host": (4e-4, 0.5)},
        lambda row: "multinode" not in row.id,
    ),
}


class Case(NamedTuple):
    """A row with the plan that it means and the figure that was measured."""

    row: Row
    subject: Subject
    plan: TrainPlan
    figure: str
    measured: float

    def error(self, subject: Subject) -> float:
        """Logarithm of estimated over measured."""
        value: Any = training_figures(subject, self.plan).figures[self.figure].value
        return math.log(float(value) / self.measured)


def cases(rows: Sequence[Row]) -> list[Case]:
    """The rows that can be compared by speed."""
    library = Library.of(TrainAsk(model="", on=""))
    told = answers(library)
    made: list[Case] = []
    for row in rows:
        try:
            if row.flag or row.measured.get("out_of_memory") or of_many_lengths(row):
                continue

            ask = training_question(row, told)
            speed = _speed(row)
            if speed is None:
                continue
            found, habits = looked_up(ask, library, with_price=False)
            plan = chosen_with(habits, found)[2].plan
            made.append(Case(row, found.subject, plan, *speed))
        except (Skip, GpuplanError):
            continue
    return made


def changed(profile: TrainingProfile, values: Mapping[str, float]) -> TrainingProfile:
    """A profile with other values; keys with dots go into its sections."""
    given: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {}
    pace = {name: {key: getattr(one, key) for key in Pace.field_names()} for name, one in profile.pace.items()}
    for name, value in values.items():
        first, _, rest = name.partition(".")
        if first == "pace":
            who, _, kind = rest.rpartition(".")
            pace.setdefault(who, {})[kind] = Sourced(value, "1", "")
        elif rest:
            sections.setdefault(first, {})[rest] = _sourced(name, bounded(name, value))
        else:
            given[name] = _sourced(name, bounded(name, value))
    for name, keys in sections.items():
        old = getattr(profile, name)
        base = {key: getattr(old, key) for key in SECTIONS[name].field_names()} if old is not None else {}  # type: ignore[attr-defined]
        given[name] = SECTIONS[name](**(base | keys))
    given["pace"] = {name: Pace(**{key: one for key, one in keys.items() if one is not None}) for name, keys in pace.items()}
    return profile.replaced(**given)


def bounded(name: str, value: float) -> float:
    """A value as it may be: not all of a communication is hidden, and kernels lose no more to it than what is hidden.

    >>> bounded("switched.tp", 1.2), bounded("contention", 1.2), bounded("host.step", 1.2)
    (0.95, 1.0, 1.2)
    """
    if name.startswith("switched."):
        return min(value, 0.95)
    return min(value, 1.0) if name == "contention" else value


def _sourced(name: str, value: float) -> Sourced:
    return Sourced(value, {"us": "s", "ms": "s", "B": "B"}.get(UNIT_OF.get(name, ""), "1"), "")


def of_month(values: Mapping[str, float], month: str | None) -> dict[str, float]:
    """The values that hold in a month: `era.2026-05.…` up to May 2026, in place of what holds today.

    >>> of_month({"a": 1.0, "era.2026-05.a": 2.0}, "2026-04"), of_month({"a": 1.0, "era.2026-05.a": 2.0}, None)
    ({'a': 2.0}, {'a': 1.0})
    """
    found = {name: value for name, value in values.items() if not name.startswith("era.")}
    for name, value in values.items():
        era, _, rest = name.removeprefix("era.").partition(".")
        if name.startswith("era.") and month is not None and month <= era:
            found[rest] = value
    return found


def errors(some: Sequence[Case], values: Mapping[str, float]) -> Any:
    """The error of each case with these values."""
    engines: dict[tuple[str, str | None], Any] = {}
    for case in some:
        engine = case.subject.engine
        state = (engine.id, case.row.month)
        if state not in engines and engine.training is not None:
            even = engine.training.residual.replaced(value=1.0)
            profile = changed(engine.training, of_month(values, case.row.month)).replaced(residual=even, residual_experts=even)
            engines[state] = engine.replaced(training=profile)
    return np.array([case.error(case.subject.replaced(engine=engines[case.subject.engine.id, case.row.month])) for case in some])


def fit(some: Sequence[Case], parameters: Mapping[str, Start]) -> dict[str, float]:
    """The values that meet the cases best, each held near where it started."""
    names = list(parameters)

    def values(x: Any) -> dict[str, float]:
        return {name: parameters[name][0] * math.exp(step * parameters[name][1]) for name, step in zip(names, x, strict=True)}

    def misses(x: Any) -> Any:
        far = errors(some, values(x)) / NEAR
        # Beyond NEAR an error counts by its size instead of its square: a run that is off for its own reasons decides nothing.
        return np.concatenate([np.sign(far) * np.sqrt(2 * (np.sqrt(1 + far * far) - 1)), x])

    return values(least_squares(misses, np.zeros(len(names)), diff_step=1e-2, max_nfev=12).x)


def told(found: Any) -> str:
    """Errors in one line."""
    size = np.abs(np.exp(found) - 1)
    return f"median {np.median(size):.1%}, mean {size.mean():.1%}, 90th percentile {np.quantile(size, 0.9):.1%}"


def write(engine: str, values: Mapping[str, float], note: str, ends: tuple[float, float], spread: str = "residual") -> None:
    """Put values into an engine's file and leave every other line as it is; `spread` names the range that takes the ends."""
    path = ENGINES / f"{engine}.yaml"
    lines = path.read_text(encoding="utf-8").split("\n")
    first = lines.index("training:") + 1
    last = next((at for at in range(first, len(lines)) if lines[at] and not lines[at].startswith(" ")), len(lines))
    blocks: dict[str, list[str]] = {}
    for line in lines[first:last]:
        if re.match(r"  [\w#]", line):
            blocks[line.strip().partition(":")[0]] = [line]
        else:
            blocks[list(blocks)[-1]].append(line)
    families: dict[str, list[str]] = {}
    for name, value in values.items():
        section, _, rest = name.partition(".")
        key = rest or name
        text = f"{{value: {_printed(name, bounded(name, value))}, source: fitted"
        if section == "pace":
            who, _, kind = rest.rpartition(".")
            families.setdefault(who, []).append(f"{kind}: {text}}}")
        elif rest:
            block = blocks.setdefault(section, [f"  {section}:"])
            at = next((at for at, line in enumerate(block) if line.strip().startswith(f"{key}:")), None)
            line = f"    {key}: {text}{_kept(block[at]) if at is not None else ''}}}"
            if at is None:
                block.append(line)
            else:
                block[at] = line
        else:
            old = blocks.get(name, [""])[0]
            blocks[name] = [f"  {name}: {text}{_kept(old) if 'nobody says' in old else ''}}}"]
    if families:
        lines_of = {line.strip().partition(":")[0]: line for line in blocks.get("pace", [])[1:]}
        for who, kinds in families.items():
            old_kinds = dict(re.findall(r"(\w+): (\{value[^}]*\})", lines_of.get(who, "")))
            both = old_kinds | {kind.partition(":")[0]: kind.partition(": ")[2] for kind in kinds}
            lines_of[who] = f"    {who}: {{{', '.join(f'{kind}: {one}' for kind, one in both.items())}}}"
        blocks["pace"] = ["  pace:", *lines_of.values()]
    middle = "measured over counted step time: 5th and 95th percentile of the rows that were held back"
    note_of_ends = f"{middle}, and what sites differ by at least"
    residual = f'  {spread}: {{value: 1.0, source: fitted, note: "{note_of_ends}", accept: [{ends[0]:.3g}, {ends[1]:.3g}]}}'
    blocks.pop(spread, None)
    lines[first:last] = [line for block in blocks.values() for line in block] + [residual]
    text_of_file = "\n".join(lines)
    if spread == "residual":
        text_of_file = re.sub(r'(?m)^(  fitted: .*note: )".*"\}$', lambda m: f'{m[1]}"{note}"}}', text_of_file)
    path.write_text(text_of_file, encoding="utf-8")


def _kept(line: str) -> str:
    """The note and range of a line that is rewritten."""
    found = [re.search(pattern, line) for pattern in (r'note: ("[^"]*"|[^,}]*)', r"accept: \[[^\]]*\]")]
    return "".join(f", {one[0]}" for one in found if one)


def _printed(key: str, value: float) -> str:
    unit = UNIT_OF.get(key)
    number = f"{value / UNITS[unit] if unit else value:.3g}"
    number = f"{float(number):g}" if "e" not in number else f"{float(number):f}".rstrip("0")
    return f"{number} {unit}" if unit else number


def ends_of(judged: Any, sources: int) -> tuple[float, float]:
    """Measured over counted time, from the 5th to the 95th percentile of rows; no narrower than sites differ where few are known.

    >>> ends_of(np.zeros(9), 1), ends_of(np.zeros(9), 3)
    ((0.9, 1.38), (0.98, 1.02))
    """
    # Estimated over measured throughput is measured over counted time.
    low, high = (float(end) for end in np.exp(np.quantile(judged, (0.05, 0.95))))
    least = SITES if sources < FEW_SOURCES else (0.98, 1.02)
    return min(low, least[0]), max(high, least[1])


def source_of(case: Case) -> str:
    """The file of published runs that a row is of."""
    return case.row.set


def chip_of(case: Case) -> str:
    """The accelerator that a row ran on."""
    return str(case.row.hardware.get("accelerator"))


def left_out(
    some: Sequence[Case], parameters: Mapping[str, Start], key: Callable[[Case], str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The errors on the rows of each source, or chip, of a fit to all others, and of no fit at all, where all starts are kept."""
    starts = {name: start for name, (start, _) in parameters.items()}
    fitted: dict[str, Any] = {}
    unfitted: dict[str, Any] = {}
    for name in sorted({key(one) for one in some}):
        out, rest = [one for one in some if key(one) == name], [one for one in some if key(one) != name]
        fitted[name] = errors(out, fit(rest, parameters) if rest else starts)
        unfitted[name] = errors(out, starts)
    return fitted, unfitted


def print_left_out(some: Sequence[Case], parameters: Mapping[str, Start]) -> Any:
    """Print how far a fit to the other sources, and to the other chips, is from each; the errors where sources were left out."""
    of_sources: list[Any] = []
    for what, key in (("source", source_of), ("chip", chip_of)):
        fitted, unfitted = left_out(some, parameters, key)
        for name, found in fitted.items():
            print(f"  without the {what} {name}: {len(found)} rows, {told(found)}; with no fit {told(unfitted[name])}")
        if what == "source":
            of_sources = list(fitted.values())
    return np.concatenate(of_sources)


def main() -> None:
    """Fit the engines that were named, or all, and print how far fitted and held-back rows are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--engine", action="append", choices=list(PLAN))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--leave-out", action="store_true", help="fit without each source, and without each chip, instead")
    args = parser.parse_args()
    rows = read_rows([args.runs])
    known: list[Any] = []
    unknown: list[Any] = []
    for name in args.engine or PLAN:
        wanted = PLAN[name]
        some = [
            one
            for one in cases([row for row in rows if row.set in wanted.sets and wanted.takes(row)])
            if one.subject.engine.id in wanted.engines
        ]
        if not some:
            raise SystemExit(f"{name}: none of its rows ({', '.join(wanted.sets)}) can be asked; gpuplan accuracy says why")
        seen, unseen = [one for one in some if one.row.fitted], [one for one in some if not one.row.fitted]
        print(f"\n{name}: {len(wanted.parameters)} parameters, {len(seen)} rows fitted, {len(unseen)} held back", flush=True)
        values = fit(seen, wanted.parameters)
        after = {"fitted": errors(seen, values)} | ({"held back": errors(unseen, values)} if unseen else {})
        for key, found in after.items():
            print(f"  {key:10s} {told(found)}")
        print("  " + ", ".join(f"{key} {value:.4g}" for key, value in values.items()), flush=True)
        if args.leave_out:
            known.append(after.get("held back", after["fitted"]))
            unknown.append(print_left_out(some, wanted.parameters))
        elif args.write:
            judged = after.get("held back", after["fitted"])
            if len(judged) < 8:
                judged = np.concatenate(list(after.values()))
            ends = ends_of(judged, len({source_of(one) for one in some}))
            groups = len({one.row.group for one in unseen})
            note = f"tools/fit_engines.py: {len(seen)} rows fitted, {len(unseen)} rows of {groups} groups held back: {told(judged)}"
            for engine in wanted.engines:
                today = {name: value for name, value in values.items() if not name.startswith("era.")}
                wide = 1.0 if any(one.subject.engine.id == engine for one in some) else BORROWED
                write(engine, today, note, (ends[0] / wide, ends[1] * wide), wanted.spread)
    if known:
        print(f"\nheld back, of sources that the fit knew: {told(np.concatenate(known))}")
        print(f"of sources left out whole: {told(np.concatenate(unknown))}")


if __name__ == "__main__":
    main()
