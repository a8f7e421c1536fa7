"""How far are the estimates of training memory from runs of a source that no profile knew, and how wide must their range be?

    python tools/memory_sources.py [--write]

Peaks of memory are counted, not fitted, but some counts of an engine's profile were chosen on published peaks (`memory-rows`). This
says two figures: of sources that the profiles knew, and of each source with what was learnt from it taken away: a count has the
middle of what other engines have, or is left out where none has it. How far measured peaks lie from these estimates of sources left
out is the range of the residual (`memory_residual`) of every profile, one for all; a source is judged with the range of the others.
`--write` puts the range into hardware_specs/engines, with today as the day on which somebody looked at the source.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpuplan.accuracy.judge import judge_typed
from gpuplan.accuracy.rows import Row
from gpuplan.cli.accuracy_run import answers, wanted_rows
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library

ENGINES = Path(__file__).parent.parent / "hardware_specs" / "engines"
KNEW: Mapping[str, tuple[str, ...]] = {
    "accelerate": ("qwen", "qwen-sizes", "peft"), "axolotl": ("qwen", "qwen-sizes", "peft"),
    "llama-factory": ("qwen", "qwen-sizes", "peft"), "peft": ("qwen", "qwen-sizes", "peft"), "trl": ("qwen", "qwen-sizes", "peft"),
    "megatron-deepspeed": ("bigscience",), "ms-swift": ("ms-swift",), "nanotron": ("nanotron",),
    "torchtitan": ("torchtitan", "torchao"), "kempnerforge": ("torchtitan", "torchao"), "torchtune": ("torchtune",),
    "litgpt": ("litgpt",),
}  # fmt: skip
"""The sources whose peaks the counts of a profile were chosen on (its `memory-rows`)."""
LEARNT = "memory-rows"
LEFT_OUT = "left-out"
HELD = (
    "fsdp-qlora",
    "axolotl-kernels", "firefly", "llama-factory-wiki", "mi350x-bench", "mlx-lora", "universal-llm-trainer", "vertex-openllama",
    "glm4-finetune", "gx10-llama", "hf-ulysses", "ibm-finetuning-bench", "ms-amp", "ms-swift-examples", "simple-peft-recipe",
    "vocabulary-parallel", "xturing", "zero-bubble",
    "minicpm-v", "soup", "unsloth-tables",
    "liger-examples", "prime-rl",
    "atorch", "llms-from-scratch", "qwen-vl", "torchtitan-pulls", "trl-million",
)  # fmt: skip
"""Sources that no residual or range may know, whole: they judge these from outside. One of an earlier day, and those of
three days, which came in together."""
OWN = ("maxtext", "mlx-lm", "unsloth")
"""Engines whose residual says more than how far peaks spread: compilers that plan memory, and what they offload by themselves.
Their peaks say nothing of the others' residual."""
RANGE = "memory_residual"
TITLE = "published peaks of training memory, among them those of Qwen's fine-tuning profile"
URL = "https://github.com/QwenLM/Qwen/blob/2df8e8ac450fa185c421a08b0090ef81826caa6e/README.md"
ABOVE, BELOW = 0.05, 0.08
"""The shares of rows, sources counting nearly alike, that may lie above the range and below: above, less than the six hundredths
that are promised. Of those, most are ms-swift's: left out, nobody knows that lengths of samples vary (`spread_lengths`), which no
useful range would hold. With 0.04 all peaks but the six hundredths would be held, also of the sources that are held back, by a high
end of 1.33; then plans of published runs that just fit are taken for doubtful (DeepSeek-V3 on its 2,048 H800)."""
WIDEST = 1.6
STEP = 0.01


class Case(NamedTuple):
    """One peak: measured over estimated, and the ends of the estimate's range over the estimate, but for the residual."""

    source: str
    measured: float
    low: float
    high: float

    def ends(self, residual: tuple[float, float]) -> tuple[float, float]:
        """Both ends of the range with a residual, whose swings add to the others as in `gpuplan.ranges.interval`."""
        down, up = 1 - residual[0], residual[1] - 1
        return 1 - math.hypot(1 - self.low, down), 1 + math.hypot(self.high - 1, up)


def cases(rows: Sequence[Row], engines: Mapping[str, Mapping[str, Any]]) -> list[Case]:
    """The peaks of rows as one types them, with the profiles given, whose residual is left out."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "engines"
        place.mkdir()
        for ident, data in engines.items():
            (place / f"{ident}.yaml").write_text(yaml.safe_dump(without_range(data), sort_keys=False), encoding="utf-8")
        asked = answers(Library.of(TrainAsk(model="", on="", specs=(folder,))))
        points = judge_typed(rows, asked).points
    return [
        Case(one.row.set, one.measured / one.expected, one.low / one.expected, one.high / one.expected)
        for one in points
        if one.metric == "memory" and asked.knows(one.row.engine or "") not in [(name, False) for name in OWN]
    ]


def profiles() -> dict[str, dict[str, Any]]:
    """The profiles of all engines that train, as their files have them."""
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read = {path.stem: yaml.load(path.read_bytes(), fast) for path in sorted(ENGINES.glob("*.yaml"))}
    return {ident: data for ident, data in read.items() if "training" in data}


def without_range(data: Mapping[str, Any]) -> dict[str, Any]:
    """A profile whose residual has a middle and no range."""
    training = dict(data["training"])
    if RANGE in training:
        training[RANGE] = {name: value for name, value in training[RANGE].items() if name != "accept"}
    return {**data, "training": training}


def learnt(data: Mapping[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where in a profile stand counts that were chosen on peaks."""
    for key, value in data.items():
        if isinstance(value, dict) and value.get("source") == LEARNT:
            yield (*at, key)
        elif isinstance(value, dict) and key != "sources":
            yield from learnt(value, (*at, key))


def found(data: Mapping[str, Any], at: tuple[str, ...]) -> Any:
    """What stands at a place of a profile; None: nothing."""
    inside: Any = data
    for key in at:
        inside = inside.get(key) if isinstance(inside, dict) else None
    return inside


def unlearnt(engines: Mapping[str, dict[str, Any]], source: str) -> dict[str, dict[str, Any]]:
    """The profiles without what was learnt from a source: counts are those of the middle one of the engines that never saw it."""
    made: dict[str, dict[str, Any]] = {}
    others = [data for ident, data in engines.items() if source not in KNEW.get(ident, ())]
    for ident, data in engines.items():
        if source not in KNEW.get(ident, ()):
            made[ident] = data
            continue
        copy = yaml.safe_load(yaml.safe_dump(data))
        for at in learnt(data):
            values = sorted((value for one in others if (value := found(one, at)) is not None), key=number)
            holder = found(copy, at[:-1])
            if values:
                holder[at[-1]] = {**holder[at[-1]], "value": text_of(values[len(values) // 2])}
            else:
                del holder[at[-1]]
        made[ident] = copy
    return made


def text_of(value: Any) -> Any:
    """A count as its file prints it."""
    return value["value"] if isinstance(value, dict) else value


def number(value: Any) -> float:
    """A count in its unit."""
    said = re.match(r"[-\d.e]+", str(text_of(value)))
    return float(said[0]) if said else 0.0


def residual_of(known: Sequence[Case]) -> tuple[float, float]:
    """The narrowest residual with which few rows lie outside on each side.

    A source of n rows counts n / (n + 1): sources differ about as much as the rows of one, so many rows of one say little more than
    a few, and a source of a single row says half as much as one of many.
    """
    rows = Counter(one.source for one in known)
    whole = sum(often / (often + 1) for often in rows.values())
    weight = {name: 1 / (often + 1) / whole for name, often in rows.items()}
    low = high = 1.0
    while sum(weight[one.source] for one in known if one.measured > one.ends((low, high))[1]) > ABOVE:
        high += STEP
    while low > 0.5 and sum(weight[one.source] for one in known if one.measured < one.ends((low, high))[0]) > BELOW:
        low -= STEP
    return round(low, 2), round(high, 2)


def told(some: Sequence[tuple[Case, tuple[float, float]]]) -> str:
    """The errors of some rows, and how many lie outside their ranges."""
    sizes = [abs(1 / one.measured - 1) for one, _ in some]
    ends = [(one.measured, *one.ends(residual)) for one, residual in some]
    above = sum(measured > high for measured, _, high in ends) / len(some)
    below = sum(measured < low for measured, low, _ in ends) / len(some)
    widths = [high / low for _, low, high in ends]
    within = sum(width <= WIDEST for width in widths) / len(some)
    return (
        f"{len(some):4d} rows  median {statistics.median(sizes):6.1%}  mean {statistics.fmean(sizes):6.1%}  above {above:5.1%}  "
        f"below {below:5.1%}  width {statistics.median(widths):.2f} ({within:.0%} up to {WIDEST})"
    )


def left_out(rows: Sequence[Row], engines: Mapping[str, dict[str, Any]]) -> list[Case]:
    """The peaks of each source, estimated with the profiles that never saw it: those that none saw together."""
    names, taught = list(dict.fromkeys(row.set for row in rows)), {name for names in KNEW.values() for name in names}
    made = cases([row for row in rows if row.set not in taught], engines)
    for name in taught.intersection(names):
        made += cases([row for row in rows if row.set == name], unlearnt(engines, name))
    return sorted(made, key=lambda one: names.index(one.source))


def peaks() -> list[Row]:
    """The published runs with a peak of memory that are not doubtful, without those of sources that are held back whole."""
    rows = [row for row in wanted_rows(None, "training") if row.set not in HELD]
    return [row for row in rows if row.measured.get("peak_memory_gib") and not row.flag and not row.fault]


def main() -> None:
    """Say how far the estimates of memory are, of known sources and of sources left out; write the range if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    rows, engines = peaks(), profiles()
    known, apart = cases(rows, engines), left_out(rows, engines)
    residual = residual_of(apart)
    print(f"range of the residual: {residual[0]:g} to {residual[1]:g}")
    judged: list[tuple[Case, tuple[float, float]]] = []
    for name in dict.fromkeys(one.source for one in known):
        ends = residual_of([one for one in apart if one.source != name])
        mine = [one for one in apart if one.source == name]
        judged += [(one, ends) for one in mine]
        print(f"{name:18s} known    {told([(one, residual) for one in known if one.source == name])}")
        print(f"{'':18s} left out {told([(one, ends) for one in mine])}")
    print(f"{'all':18s} known    {told([(one, residual) for one in known])}")
    print(f"{'':18s} left out {told(judged)}")
    if args.write:
        note = f"{len(apart)} peaks of {len({one.source for one in apart})} sources, each left out in its turn"
        write(residual, note, datetime.now(UTC).date())


def write(residual: tuple[float, float], note: str, day: date) -> None:
    """Put the range into every profile that has no residual of its own; `day` is when the source was looked at."""
    source = (
        f'  {LEFT_OUT}: {{title: "{TITLE}", url: "{URL}", checked: {day}, kind: fitted, '
        f'note: "tools/memory_sources.py: {note}; the largest of them is linked"}}'
    )
    line = f"  {RANGE}: {{value: 1.0, source: {LEFT_OUT}, accept: [{residual[0]:g}, {residual[1]:g}]}}"
    for path in sorted(ENGINES.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if path.stem in OWN or "\ntraining:" not in text:
            continue
        text = re.sub(rf"(?m)^  (?:{RANGE}|{LEFT_OUT}): .*\n", "", text)
        text = re.sub(r"(?m)^(  residual: )", f"{line}\n\\1", text, count=1)
        text = re.sub(r"(?m)^(sources:\n)", f"\\1{source}\n", text, count=1)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
