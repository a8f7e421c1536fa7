"""What holds of every answer, whatever was asked?"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gpuplan.cli.main import run
from gpuplan.physics import SHARES, SIGNED, most_of

DOCUMENTED = (0, 2, 3, 4, 5)
ANSWERED = (0, 3)
SECONDS = 20
ROUNDING = 1e-6


class Said(NamedTuple):
    """What a call left behind, and how long it took."""

    code: int
    out: str
    err: str
    seconds: float


def said(words: Sequence[str]) -> Said:
    """The answer of a call in this process."""
    out, err = io.StringIO(), io.StringIO()
    gc.freeze()  # What the tests before left in memory is not looked through at the cost of this question.
    start = time.process_time()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(list(words))
        return Said(code, out.getvalue(), err.getvalue(), time.process_time() - start)
    finally:
        gc.unfreeze()


def broken(one: Said) -> list[str]:
    """Which laws an answer in JSON breaks; none where all is well."""
    wrong = []
    if one.code not in DOCUMENTED:
        wrong.append(f"exit code {one.code}")
    if "Traceback" in one.err:
        wrong.append("a traceback")
    if one.seconds > SECONDS:
        wrong.append(f"{one.seconds:.1f} s of processor time")
    if one.code not in ANSWERED:
        if not one.err.startswith("error: ") and one.code != 4:
            wrong.append("no message")
        return wrong
    if one.out:
        wrong += [*of_answer(json.loads(one.out, parse_constant=_refuse), one.code)]
    elif one.code == 0:
        wrong.append("exit 0 and no answer")
    return wrong


def _refuse(word: str) -> float:
    raise ValueError(f"{word} in JSON")


def of_answer(made: dict[str, Any], code: int) -> Iterator[str]:
    """Which laws a published document breaks."""
    figures = made["figures"]
    for key, figure in figures.items():
        endless = figure["high"] is None and bool(figure.get("unbounded"))
        ends = [figure["low"], figure["value"], math.inf if endless else figure["high"]]
        if any(end is None or not math.isfinite(end) for end in ends[: 2 if endless else 3]):
            yield f"{key} is not finite: {ends}"
            continue
        low, value, high = ends
        slack = ROUNDING * abs(value)
        if not low - slack <= value <= high + slack:
            yield f"{key} = {value:g} lies outside of its range {low:g} to {high:g}"
        if low < 0 and key not in SIGNED:
            yield f"{key} reaches {low:g}"
        if key in SHARES and high > most_of(key, figures) + ROUNDING:
            yield f"{key} reaches {high:g}"
    for breakdown in made["breakdowns"]:
        parts = [part["value"] for part in breakdown["parts"]]
        whole = breakdown["total"]["value"]
        if any(part is None or not math.isfinite(part) for part in parts):
            yield f"a part of {breakdown['title']} is not finite"
        elif abs(sum(parts) - whole) > ROUNDING * abs(whole):
            yield f"the parts of {breakdown['title']} sum to {sum(parts):g}, not {whole:g}"
        for part in breakdown["parts"]:
            if part["value"] is not None and part["value"] < 0:
                yield f"{part['name']} of {breakdown['title']} is {part['value']:g}"
    yield from _verdict(made, code)


def _verdict(made: dict[str, Any], code: int) -> Iterator[str]:
    figures, verdict = made["figures"], made["verdict"]
    spare, fits = figures["headroom_bytes"]["value"], verdict["fits"]
    places = [
        figures[f"{place}_bytes"]["value"] <= figures[f"{place}_capacity_bytes"]["value"]
        for place in ("host_memory", "disk")
        if f"{place}_capacity_bytes" in figures
    ]
    if fits != (spare >= 0 and all(places)):
        yield f"fits is {fits} with a headroom of {spare:g} B"
    if code != (0 if fits else 3):
        yield f"exit {code} where fits is {fits}"
    budget = figures.get("memory_budget_bytes", figures["memory_capacity_bytes"])["value"]
    over = fits and figures["peak_memory_bytes"]["high"] > budget
    # A server that has less room than expected runs fewer sequences at once: only where one may not fit is it narrow.
    if (verdict["narrowly"] and not over) or (over and not verdict["narrowly"] and made["task"] == "train"):
        yield f"narrowly is {verdict['narrowly']}"
    memory = made["breakdowns"][-1]["total"]["value"]
    peak = figures["peak_memory_bytes"]["value"]
    if abs(memory - peak) > ROUNDING * abs(peak):
        yield f"the breakdown is of {memory:g} B, the peak {peak:g} B"
    if verdict["binding"] not in {part["name"] for part in made["breakdowns"][-1]["parts"]} | {
        figures[key]["term"].split("#")[0] for key in ("host_memory_bytes", "disk_bytes") if key in figures
    }:
        yield f"`{verdict['binding']}` binds and is no part of the memory"
