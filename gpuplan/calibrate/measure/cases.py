"""Which measured samples are fitted together, to which parameters, and what does the machine's model predict for them?

The prediction is `gpuplan.machine.price` itself, at the parameters of the accelerator's family with those under trial in their
place. So a parameter that nobody fits here still counts, with the value that an estimate would take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.cross_fit import FitCase
from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.formats import BLOCKED, ELEMENT, LATENT, PAGED, decode_place, matmul_place, stored
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.speed import moved
from gpuplan.calibrate.row_seconds import (
    attention_row_seconds,
    collective_row_seconds,
    matmul_row_seconds,
    stream_row_seconds,
    transfer_row_seconds,
    trial_hardware,
)
from gpuplan.calibrate.table_rows import Rows
from gpuplan.physics import CLOCKS, MORE
from gpuplan.specs.fabric import Level
from gpuplan.term import Term

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

FABRIC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CHAINS = ("stream", "norm", "activation")
"""Kinds of probes that tell how fast memory-bound kernels are."""
PACK = {"pack": Knob(0.5, *MORE.keeps(0, 3))}
"""What a processor's kernels for several rows do beyond those of GPUs: they copy the weights."""
SERVED_ROWS = 8
"""So many decode kernels over pages are enough to fit."""
THIN = (4.0,)
"""Rows of a tile in kernels for few rows."""


@dataclass(frozen=True)
class FitBasis:
    """What is given: rates of the datasheet or, without one, the best that were measured; and the family's parameters."""

    peaks: Mapping[str, Term]
    bandwidth: Term
    units: Term
    l2: Term | None = None
    last_cache: float = 0.0
    """Bytes of the cache nearest to memory; 0 where none is known."""
    levels: tuple[Level, ...] = ()
    """The links between devices, the innermost first, where several measured together."""
    host: float | None = None
    family: Mapping[str, Term] | None = None
    inside: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What is known of the innermost links, by kind of collective, where only those of the network beyond were measured."""
    measured_peaks: bool = False
    processor: bool = False

    def parameters(self, prefix: str) -> dict[str, tuple[float, str]]:
        """What the family says of one set of parameters, by key."""
        found = self.family or {}
        return {
            name.removeprefix(f"{prefix}."): (_float(term), term.unit)
            for name, term in found.items()
            if name.startswith(f"{prefix}.")
        }


def cases(samples: Sequence[Sample], ground: FitBasis, software: str) -> list[FitCase]:
    """Every set of parameters that the samples may tell something of."""
    made: list[FitCase] = []
    for kind in ("matmul", "grouped_matmul"):
        products = of_kind(samples, kind)
        for place in dict.fromkeys(matmul_place(one.probe) for one in products):
            picked = [one for one in products if matmul_place(one.probe) == place]
            made += _matmul(picked, place, ground, software, grouped=kind == "grouped_matmul")
    for dtype in dict.fromkeys(one.probe.dtype for one in samples if one.probe.kind == "prefill"):
        picked = [one for one in samples if one.probe.kind == "prefill" and one.probe.dtype == dtype]
        made += _attention(picked, dtype, ground, software, decode=False)
    steps = of_kind(samples, "decode")
    for place in dict.fromkeys(decode_place(one.probe) for one in steps):
        picked = [one for one in steps if decode_place(one.probe) == place]
        paged = [one for one in picked if one.probe.name == PAGED]
        # Servers keep caches in pages: where enough of such kernels were measured, PyTorch's own stand for nothing.
        made += _attention(paged if len(paged) >= SERVED_ROWS else picked, "bf16", ground, software, decode=True)
    made += _stream(of_kind(samples, *CHAINS), ground, software)
    made += _host(of_kind(samples, "host_to_device", "device_to_host"), ground, software)
    for name in (*FABRIC, "transfer"):
        made += _collective([one for one in samples if _is(one.probe, name)], name, ground, software)
    return made


def _matmul(samples: Sequence[Sample], kind: str, ground: FitBasis, software: str, *, grouped: bool = False) -> list[FitCase]:
    """The parameters of one kind of products: `kind` is their key in a measured file."""
    dtype = samples[0].probe.dtype
    if dtype not in ground.peaks:
        return []
    right, blocked = stored(samples[0].probe), samples[0].probe.name == BLOCKED
    samples = _from_memory(samples, ground)
    section = "grouped" if grouped else "matmul"
    element, prefix = ELEMENT[dtype], f"{section}.{kind}"

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        # Quantisation is not timed: the probes multiply what is quantised already. Estimates add it as the family has it.
        values = {key: value for key, value in values.items() if key != "quantise"}
        hw = _hardware(ground, prefix, values, units)
        out = max(element, 2.0)
        name: Any = dtype
        return _array(
            matmul_row_seconds(rows.columns, hw, dtype=name, left=element, right=right, out=out, grouped=grouped, blocked=blocked)
        )

    # Of the rows that begin amid a tile the probes tell nothing: every expert has as many.
    knobs, fixed, units = _knobs(ground, prefix, knob_tables.MATMUL_KNOBS, knob_tables.MATMUL_FIXED, leave=("quantise", "straddle"))
    if ground.processor and not grouped:
        knobs, units = {**knobs, **PACK}, {**units, "pack": "1"}
    rows = _rows(samples, ("m", "n", "k", "batch"), software)
    # Kernels of processors for few rows are products of vectors, which fill no tile.
    others = {"tile_m": THIN} if ground.measured_peaks else {}
    shapes = _shapes(samples, ("n", "k", "batch") if grouped else ("n", "k"))
    family = _family(ground, prefix)
    if family and "pack" in knobs:
        family = {"pack": 0.0, **family}
    return [FitCase(prefix, section, rows, knobs, fixed, family, predict, shapes, others=others)]


def _attention(samples: Sequence[Sample], dtype: str, ground: FitBasis, software: str, *, decode: bool) -> list[FitCase]:
    if not samples or dtype not in ground.peaks:
        return []
    one = samples[0].probe
    if decode:
        near = ground.last_cache
        samples = [one for one in _from_memory(samples, ground) if moved(one.probe) > near or moved(one.probe) < 2e6]
    prefix = f"attention.{decode_place(one)}" if decode else f"attention.prefill.{dtype}"
    kept, latent = stored(one), one.name == LATENT

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        kind: Any = dtype
        hw = _hardware(ground, prefix, values, units)
        return _array(attention_row_seconds(rows.columns, hw, dtype=kind, stored=kept, v_shared=latent))

    given = (
        (knob_tables.DECODE_KNOBS, knob_tables.DECODE_FIXED) if decode else (knob_tables.PREFILL_KNOBS, knob_tables.PREFILL_FIXED)
    )
    # Of replays out of a cache and of copies into pages the probes tell nothing.
    knobs, fixed, units = _knobs(ground, prefix, *given, leave=("reach", "near", "append", "per_token"))
    rows = _rows(samples, ("sequences", "q_len", "kv_len", "heads", "kv_heads", "k_dim", "v_dim"), software)
    kind = "decode" if decode else "prefill"
    return [
        FitCase(
            prefix,
            kind,
            rows,
            knobs,
            fixed,
            _family(ground, prefix),
            predict,
            _shapes(samples, ("heads", "kv_heads", "k_dim", "sequences")),
        )
    ]


def _stream(samples: Sequence[Sample], ground: FitBasis, software: str) -> list[FitCase]:
    if not samples:
        return []
    # Norms and activations are what the streams of a model are, so they have a say as much as plain additions.
    near = 2 * ground.last_cache
    kept = [one for one in _from_memory(samples, ground) if moved(one.probe) > near or moved(one.probe) < 5e6]

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        return _array(stream_row_seconds(rows.columns, _hardware(ground, "stream", values, units)))

    knobs, fixed, units = _knobs(ground, "stream", knob_tables.STREAM_KNOBS, {})
    parts = [streamed(one.probe, software) for one in kept]
    columns = {"size": np.array([size for size, _ in parts]), "launches": np.array([launches for _, launches in parts])}
    return [
        FitCase(
            "stream",
            "stream",
            Rows(columns, np.array([one.seconds for one in kept]), np.zeros(len(kept), dtype=bool), software),
            knobs,
            fixed,
            _family(ground, "stream"),
            predict,
            _shapes(kept, ("size",)),
        )
    ]


def streamed(probe: Probe, software: str) -> tuple[float, float]:
    """The bytes that a stream, norm or activation truly reads and writes, and its kernels.

    PyTorch writes what the first kernel of an activation makes and reads it again: five tensors in place of three.

    >>> streamed(Probe(kind="activation", shape={"size": 3.0}), "torch 2.9"), streamed(Probe(kind="norm", shape={"size": 3.0}), "")
    ((5.0, 2.0), (3.0, 1.0))
    """
    size = probe.shape["size"]
    return (size * 5 / 3, 2.0) if probe.kind == "activation" and not software.startswith("jax") else (size, 1.0)


def _host(samples: Sequence[Sample], ground: FitBasis, software: str) -> list[FitCase]:
    rate = ground.host
    if not samples or rate is None:
        return []
    ways = [one.probe.kind == "device_to_host" for one in samples]

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        share = np.where(rows.columns["back"] > 0, values.get("back", values["efficiency"]), values["efficiency"])
        return np.asarray(values["launch"] + rows.columns["size"] / (rate * share))

    knobs = dict(knob_tables.HOST_KNOBS)
    if all(ways) != any(ways):
        knobs["back"] = knobs["efficiency"]
    rows = _rows(samples, ("size",), software)
    rows = Rows({**rows.columns, "back": np.array(ways, dtype=float)}, rows.seconds, rows.held_back, rows.software)
    return [FitCase("host", "host", rows, knobs, {}, {}, predict, _shapes(samples, ("size",)))]


def _collective(samples: Sequence[Sample], name: str, ground: FitBasis, software: str) -> list[FitCase]:
    samples = [one for one in samples if not beyond(one.probe, ground)]
    if not samples or not ground.levels:
        return []
    return [_wired(name, samples, software, ground, ground.levels[:1], {})]


def network_cases(
    samples: Sequence[Sample], ground: FitBasis, software: str, inside: Mapping[str, Mapping[str, float]]
) -> list[FitCase]:
    """Collectives between nodes. `inside` are the parameters within a node that were fitted, by kind of collective.

    Groups with several ranks on a node tell of the network only where these are known.
    """
    made: list[FitCase] = []
    for name in (*FABRIC, "transfer"):
        wide = [one for one in samples if _is(one.probe, name) and beyond(one.probe, ground)]
        if name not in inside and ground.levels:
            near = ground.levels[0].size or math.inf
            wide = [one for one in wide if one.probe.shape.get("stride", 1.0) >= near]
        if not wide:
            continue
        known = inside.get(name) or {key: knob.start for key, knob in knob_tables.COLLECTIVE_KNOBS.items()} | {"ranks": 1.0}
        made.append(_wired(name, wide, software, ground, (ground.levels[0], ground.levels[-1]), known))
    return made


def beyond(probe: Probe, ground: FitBasis) -> bool:
    """Whether the ranks of a collective or transfer are on several nodes."""
    if len(ground.levels) < 2 or ground.levels[0].size is None:
        return False
    return probe.shape.get("group", 1.0) * probe.shape.get("stride", 1.0) > ground.levels[0].size


def _is(probe: Probe, name: str) -> bool:
    return probe.name == name or (name == "transfer" and probe.kind == "transfer")


def _links(samples: Sequence[Sample], software: str) -> Rows:
    rows = _rows(samples, ("size", "group"), software)
    strides = np.array([one.probe.shape.get("stride", 1.0) for one in samples])
    return Rows({**rows.columns, "stride": strides}, rows.seconds, rows.held_back, rows.software)


def _wired(
    name: str, samples: Sequence[Sample], software: str, ground: FitBasis, levels: tuple[Level, ...], known: Mapping[str, float]
) -> FitCase:
    """The last of `levels` is fitted, `known` are the parameters of the first where there are two."""
    rows, below = _links(samples, software), float(levels[0].size or 1.0) if len(levels) > 1 else 1.0
    reach = np.clip(below / rows.columns["stride"], 1.0, rows.columns["group"])
    most = float((rows.columns["group"] / reach).max())
    place = f"{'network' if len(levels) > 1 else 'collective'}.{name}"
    prefix = f"fabric.{levels[-1].name}.{name}"
    unit = {**{key: knob.unit for key, knob in knob_tables.COLLECTIVE_KNOBS.items()}, "ranks": "1"}
    given = {f"fabric.{levels[0].name}.{name}.{key}": (value, unit[key]) for key, value in known.items()}

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        hw = _hardware(ground, prefix, values, units, given, levels=levels)
        if name == "transfer":
            return _array(transfer_row_seconds(rows.columns, hw, path="scale_out" if len(levels) > 1 else "scale_up"))
        kind: Any = name
        return _array(collective_row_seconds(rows.columns, hw, kind=kind))

    knobs, fixed, units = _knobs(ground, prefix, knob_tables.collective_knobs(name), {"ranks": Knob(most, 1, most)})
    # Two ranks tell nothing of what more of them lose, and transfers know a rate and a start only.
    told = ("pair", "start") if name == "transfer" else [key for key in knobs if most > 2 or key != "per_doubling"]
    fixed = {
        **fixed,
        **{key: Knob(0.0 if knob.unit == "s" else knob.start, 0, 1, knob.unit) for key, knob in knobs.items() if key not in told},
    }
    knobs = {key: knob for key, knob in knobs.items() if key in told}
    starts = {"switch": knob_tables.SWITCHES} if "switch" in knobs else {}
    shapes = _shapes(samples, ("size", "group"))
    return FitCase(place, "collective", rows, knobs, fixed, {}, predict, shapes, starts)


def _knobs(
    ground: FitBasis, prefix: str, knobs: Mapping[str, Knob], fixed: Mapping[str, Knob], leave: Sequence[str] = ()
) -> tuple[dict[str, Knob], dict[str, Knob], dict[str, str]]:
    """What is fitted, what stays, and all units. What stays has the family's value; without a family the usual one."""
    family = ground.parameters(prefix)
    stay = {key: Knob(value, 0, 1, unit) for key, (value, unit) in family.items() if key not in knobs or key in leave}
    stay = {**{key: knob for key, knob in fixed.items() if key not in stay}, **stay}
    free = {key: knob for key, knob in knobs.items() if key not in stay and (not family or key in family)}
    if ground.measured_peaks:
        # The best that was measured is the peak, so that a kernel may well reach all of it.
        free = {key: knob.replaced(whole=knob.whole or key in ("efficiency", "memory_efficiency")) for key, knob in free.items()}
    return free, stay, {key: knob.unit for key, knob in {**free, **stay}.items()}


def _family(ground: FitBasis, prefix: str) -> dict[str, float]:
    return {key: value for key, (value, _) in ground.parameters(prefix).items()}


def _hardware(
    ground: FitBasis, prefix: str, values: Mapping[str, float], units: Mapping[str, str],
    given: Mapping[str, tuple[float, str]] | None = None, **more: Any,
) -> Any:  # fmt: skip
    parameters = {**(given or {}), **{f"{prefix}.{key}": (value, units[key]) for key, value in values.items()}}
    return trial_hardware(
        peaks=ground.peaks, bandwidth=ground.bandwidth, units=ground.units, parameters=parameters, l2=ground.l2, **more
    )  # fmt: skip


def _from_memory(samples: Sequence[Sample], ground: FitBasis) -> list[Sample]:
    """The samples that memory can have served: repeated launches may find their tensors in a cache."""
    rate = _float(ground.bandwidth) * (1.0 if ground.measured_peaks else CLOCKS)
    return [one for one in samples if moved(one.probe) <= one.seconds * rate * 1.0001]


def _rows(samples: Sequence[Sample], keys: Sequence[str], software: str) -> Rows:
    columns = {key: np.array([one.probe.shape[key] for one in samples]) for key in keys}
    return Rows(columns, np.array([one.seconds for one in samples]), np.zeros(len(samples), dtype=bool), software)


def _shapes(samples: Sequence[Sample], keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(",".join(f"{one.probe.shape[key]:.0f}" for key in keys) for one in samples)


def of_kind(samples: Sequence[Sample], *names: str) -> list[Sample]:
    """The samples of some kinds of probes."""
    return [one for one in samples if one.probe.kind in names]


def backward_share(samples: Sequence[Sample]) -> tuple[float, int] | None:
    """How efficient the backward pass of attention is, as a share of the forward pass, and from how many pairs.

    The median over shapes that were measured both ways and last long enough; the backward pass does 2.5 times the work.
    """
    forward = {_same(one.probe): one.seconds for one in of_kind(samples, "prefill")}
    shares = [
        2.5 * forward[_same(one.probe)] / one.seconds
        for one in of_kind(samples, "prefill_backward")
        if _same(one.probe) in forward and one.seconds > 2e-4
    ]
    return (float(np.median(shares)), len(shares)) if shares else None


def _same(probe: Probe) -> tuple[object, ...]:
    return (probe.dtype, *sorted(probe.shape.items()))


def _float(term: Term) -> float:
    value: Any = term.value
    return float(value)


def _array(seconds: Any) -> Array:
    return np.asarray(seconds, dtype=float)
