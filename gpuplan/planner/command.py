"""Which command asks about one machine of an answer alone, with all that the question said?"""

from __future__ import annotations

import shlex
from math import isclose

from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.option import entries
from gpuplan.units import HOUR


def _typed(value: float) -> str:
    """A number as people type it.

    >>> _typed(8192), _typed(15e12), _typed(2e11), _typed(1.5e9), _typed(0.25)
    ('8192', '15T', '200B', '1.5B', '0.25')
    """
    for size, letter in ((1e12, "T"), (1e9, "B")):
        if value >= 1e12 or (value >= size and float(f"{value / size:.6g}") * size == value):
            return f"{value / size:.12g}{letter}"
    return f"{value:.12g}"


def _rate(value: float) -> str:
    """So many a second as people type it: in the unit in which that takes few digits, or to six of them.

    >>> _rate(5.0), _rate(7 / 60), _rate(20 / 7)
    ('5/s', '7/min', '2.85714/s')
    """
    for unit, seconds in (("s", 1.0), ("min", 60.0), ("h", HOUR)):
        text = f"{value * seconds:.6g}"
        if isclose(float(text), value * seconds, rel_tol=1e-12):
            return f"{text}/{unit}"
    return f"{value:.6g}/s"


def command_of(run: TrainAsk | ServeAsk, on: str) -> str:
    """The command that asks the same about one machine."""
    words = ["gpuplan", "train" if isinstance(run, TrainAsk) else "serve", run.model, "--on", on]
    for name, entry in entries(type(run)).items():
        value = getattr(run, name)
        if name in ("model", "on", "pins", "specs", "emit") or value is None:
            continue
        if entry.kind == "switch":
            words.append(entry.flags[0 if value else -1])
        elif entry.option.unit == "USD/J":
            words += [entry.flag, f"{value * 3.6e6:.12g}"]
        elif entry.option.unit == "1/s":
            words += [entry.flag, _rate(value)]
        elif entry.option.reads == "price":
            words += [entry.flag, f"{value * HOUR:.12g}"]
        elif isinstance(value, (int, float)) and entry.option.unit in ("", "USD"):
            words += [entry.flag, _typed(value)]
        else:
            text = ",".join(map(str, value)) if isinstance(value, tuple) else value if isinstance(value, str) else f"{value:.12g}"
            words += [entry.flag, f"{text}{entry.option.unit.removeprefix('1')}"]
    words += [word for name, pinned in run.pins.items() for word in ("--set", f"{name}={pinned:.12g}")]
    return shlex.join([*words, *(word for folder in run.specs for word in ("--specs", str(folder)))])
