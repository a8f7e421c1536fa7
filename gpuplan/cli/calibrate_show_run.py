"""What does `gpuplan calibrate show` look for, and what does it draw?"""

from __future__ import annotations

import json as jsonlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.calibrate.measure.sample import Sample
    from gpuplan.machine.hardware import Hardware
    from gpuplan.specs.catalog import Catalog

KINDS = (
    "matmul", "prefill", "decode", "stream", "host_to_device", "device_to_host", "collective", "transfer", "all_reduce",
    "all_gather", "reduce_scatter", "all_to_all",
)  # fmt: skip


@dataclass(frozen=True)
class ShowRequest:
    """The options as typed."""

    ident: str | None
    kind: str | None
    png: str | None
    specs: tuple[str, ...]
    json: bool


def show_fit(asked: ShowRequest) -> None:
    """Draw measured kernels beside the fitted ones.

    Raises:
        UsageError: wrong words, or a picture that cannot be written.
        UnknownError: no such accelerator, or nothing measured is kept of it.
    """
    from gpuplan.calibrate.measure.measured_subject import span_of
    from gpuplan.calibrate.show import series
    from gpuplan.cli.specs import open_catalog
    from gpuplan.render.calibration import calibration_text, save_calibration
    from gpuplan.render.text import look_of
    from gpuplan.specs.accelerator import Accelerator

    kinds = [word.strip().replace("-", "_") for word in (asked.kind or "").split(",") if word.strip()]
    for word in kinds:
        if word not in KINDS:
            hint = did_you_mean(word, KINDS) or f"there are {', '.join(KINDS)}"
            raise UsageError(Problem("usage.word", f"--kind: no kind of kernel is called `{word}`", hint))
    catalog = open_catalog(list(asked.specs))
    ident = catalog.load(Accelerator, asked.ident or _last()).id
    samples = list(_samples(ident, catalog))
    hw = _hardware(ident, span_of(samples), catalog)
    found = series(samples, hw, kinds)
    if asked.png is not None:
        save_calibration(hw.name, found, Path(asked.png))
        print(f"written to {asked.png}", file=sys.stderr)
    if asked.json:
        record = [
            {
                "name": one.name, "unit": one.unit, "median_error": one.median_error, "bias": one.bias,
                "kernels": [{"size": spot.size, "measured_s": spot.measured, "fitted_s": spot.fitted} for spot in one.spots],
            }
            for one in found
        ]  # fmt: skip
        print(jsonlib.dumps({"id": ident, "series": record}, indent=2))
    elif asked.png is None:
        sys.stdout.write(calibration_text(hw.name, found, look_of(sys.stdout).width))


def _hardware(ident: str, ranks: int, catalog: Catalog) -> Hardware:
    from gpuplan.machine.build import hardware_of
    from gpuplan.specs.on import parse_target

    try:
        target = parse_target(f"{ranks}x{ident}" if ranks > 1 else ident, catalog)
    except UnknownError:
        target = parse_target(ident, catalog)  # Of links that nobody describes there is no curve.
    return hardware_of(target.replaced(local=True), catalog=catalog)


def _samples(ident: str, catalog: Catalog) -> Iterator[Sample]:
    """What the journal and the files of points hold of an accelerator."""
    from gpuplan.calibrate.imports import points
    from gpuplan.calibrate.measure.journal import default_place, load

    layers = [path for path in catalog.layers("measured", ident) if catalog.rank(path) > 0]
    for place in (default_place(os.environ, ident), *(path.with_suffix(".jsonl") for path in layers)):
        kept = load(place)
        if kept is not None:
            yield from kept.samples.values()
            break
    for path in layers or [_own(ident)]:
        yield from (point.sample() for point in points.load(points.place(path)))


def _own(ident: str) -> Path:
    from gpuplan.specs.catalog import config_folder

    return config_folder(os.environ) / "measured" / f"{ident}.yaml"


def _last() -> str:
    """The accelerator of the newest journal or file of points.

    Raises:
        UnknownError: there is none.
    """
    from gpuplan.calibrate.measure.journal import default_place

    files = [*default_place(os.environ, "x").parent.glob("*.jsonl"), *_own("x").parent.glob("*.points.jsonl")]
    if not files:
        hint = "run `gpuplan calibrate` on the machine, or `gpuplan calibrate import`"
        raise UnknownError(Problem("show.no-points", "no measured kernels are kept here", hint))
    return max(files, key=lambda file: file.stat().st_mtime).name.removesuffix(".jsonl").removesuffix(".points")
