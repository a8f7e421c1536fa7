"""Which measured samples are fitted together, to which parameters, and what does the machine's model predict for them?

The prediction is `gpuplan.machine.price` itself, at the parameters of the accelerator's family with those under trial in their
place. So a parameter that nobody fits here still counts, with the value that an estimate would take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpuplan.calibrate import kinds
from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.fit import FITTED, Knob, machine
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.speed import ELEMENT, moved
from gpuplan.calibrate.rows import Rows
from gpuplan.machine.price import attention_seconds, matmul_seconds, stream_seconds
from gpuplan.machine.wire import collective_seconds, transfer_seconds
from gpuplan.specs.fabric import Level
from gpuplan.term import Term
from gpuplan.work import Attention, Collective, Matmul, Stream, Transfer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.float64]

FABRIC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
CHAINS = ("stream", "norm", "activation")
"""Kinds of probes that tell how fast memory-bound kernels are."""
OVER_DATASHEET = 1.02
"""Traffic this much faster than memory is came out of a cache."""
THIN = (4.0,)
"""Rows of a tile in kernels for few rows."""
ABOVE_BEST = 1.3
"""Where a peak is only the best that was measured, efficiencies may come out above it."""


@dataclass(frozen=True)
class Ground:
    """What is given: rates of the datasheet or, without one, the best that were measured; and the family's parameters."""

    peaks: Mapping[str, Term]
    bandwidth: Term
    units: Term
    l2: Term | None = None
    levels: tuple[Level, ...] = ()
    """The links between devices, the innermost first, where several measured together."""
    host: float | None = None
    family: Mapping[str, Term] | None = None
    inside: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What is known of the innermost links, by kind of collective, where only those of the network beyond were measured."""
    measured_peaks: bool = False

    def parameters(self, prefix: str) -> dict[str, tuple[float, str]]:
        """What the family says of one set of parameters, by key."""
        found = self.family or {}
        return {
            name.removeprefix(f"{prefix}."): (_float(term), term.unit)
            for name, term in found.items()
            if name.startswith(f"{prefix}.")
        }


@dataclass(frozen=True)
class Case:
    """Samples that one set of parameters must meet."""

    place: str
    """Where the parameters stand in a measured file."""
    residual: str
    """The kind of work whose range these samples tell."""
    rows: Rows
    knobs: Mapping[str, Knob]
    """What is fitted."""
    fixed: Mapping[str, Knob]
    """What stays as the family has it, or as all chips have it."""
    stay: Mapping[str, float]
    """The family's values of what is fitted, where there is a family: what is not determined stays there."""
    predict: Callable[[Rows, Mapping[str, float]], Array]
    shapes: tuple[str, ...]
    """Of each row what makes it another shape: rows of one shape are held back together."""
    starts: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values of a knob from which the fit starts too."""
    others: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Values of a fixed parameter that may stand in place of the family's, where the rows are nearer to them."""


def cases(samples: Sequence[Sample], ground: Ground, software: str) -> list[Case]:
    """Every set of parameters that the samples may tell something of."""
    made: list[Case] = []
    for dtype in dict.fromkeys(one.probe.dtype for one in samples if one.probe.kind == "matmul"):
        made += _matmul(
            [one for one in samples if one.probe.kind == "matmul" and one.probe.dtype == dtype], dtype, ground, software
        )
    for dtype in dict.fromkeys(one.probe.dtype for one in samples if one.probe.kind == "grouped_matmul"):
        picked = [one for one in samples if one.probe.kind == "grouped_matmul" and one.probe.dtype == dtype]
        made += _matmul(picked, dtype, ground, software, grouped=True)
    for dtype in dict.fromkeys(one.probe.dtype for one in samples if one.probe.kind == "prefill"):
        picked = [one for one in samples if one.probe.kind == "prefill" and one.probe.dtype == dtype]
        made += _attention(picked, dtype, ground, software, decode=False)
    made += _attention([one for one in samples if one.probe.kind == "decode"], "bf16", ground, software, decode=True)
    made += _stream(of_kind(samples, *CHAINS), ground, software)
    made += _host(of_kind(samples, "host_to_device", "device_to_host"), ground, software)
    for name in (*FABRIC, "transfer"):
        made += _collective([one for one in samples if _is(one.probe, name)], name, ground, software)
    return made


def _matmul(samples: Sequence[Sample], dtype: str, ground: Ground, software: str, *, grouped: bool = False) -> list[Case]:
    if dtype not in ground.peaks:
        return []
    samples = _from_memory(samples, ground)
    section = "grouped" if grouped else "matmul"
    element, prefix = ELEMENT[dtype], f"{section}.{dtype}"

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        cols = rows.columns
        # Quantisation is not timed: the probes multiply what is quantised already. Estimates add it as the family has it.
        values = {key: value for key, value in values.items() if key != "quantise"}
        item = Matmul(
            name="row", m=_given("m", cols["m"]), n=_given("n", cols["n"]), k=_given("k", cols["k"]),
            batch=_given("batch", cols["batch"]), dtype=dtype, left_bytes=_given("left", element, "B"),  # type: ignore[arg-type]
            right_bytes=_given("right", element, "B"), out_bytes=_given("out", max(element, 2.0), "B"), grouped=grouped,
        )  # fmt: skip
        return _array(matmul_seconds(item, _hardware(ground, prefix, values, units)))

    # Of the rows that begin amid a tile the probes tell nothing: every expert has as many.
    knobs, fixed, units = _knobs(ground, prefix, kinds.MATMUL_KNOBS, kinds.MATMUL_FIXED, leave=("quantise", "straddle"))
    rows = _rows(samples, ("m", "n", "k", "batch"), software)
    # Kernels of processors for few rows are products of vectors, which fill no tile.
    others = {"tile_m": THIN} if ground.measured_peaks else {}
    shapes = _shapes(samples, ("n", "k", "batch") if grouped else ("n", "k"))
    return [Case(prefix, section, rows, knobs, fixed, _stay(ground, prefix), predict, shapes, others=others)]


def _attention(samples: Sequence[Sample], dtype: str, ground: Ground, software: str, *, decode: bool) -> list[Case]:
    if not samples or dtype not in ground.peaks:
        return []
    if decode:
        near = 0.0 if ground.l2 is None else _float(ground.l2)
        samples = [one for one in _from_memory(samples, ground) if moved(one.probe) > near or moved(one.probe) < 2e6]
    prefix = "attention.decode.bf16" if decode else f"attention.prefill.{dtype}"

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        cols = {key: _given(key, column) for key, column in rows.columns.items()}
        item = Attention(
            name="row", **cols, kv_element_bytes=_given("kv", ELEMENT[dtype], "B"), dtype=dtype, causal=True  # type: ignore[arg-type]
        )  # fmt: skip
        return _array(attention_seconds(item, _hardware(ground, prefix, values, units)))

    given = (kinds.DECODE_KNOBS, kinds.DECODE_FIXED) if decode else (kinds.PREFILL_KNOBS, kinds.PREFILL_FIXED)
    # Of replays out of a cache and of copies into pages the probes tell nothing.
    knobs, fixed, units = _knobs(ground, prefix, *given, leave=("reach", "near", "append", "per_token"))
    rows = _rows(samples, ("sequences", "q_len", "kv_len", "heads", "kv_heads", "k_dim", "v_dim"), software)
    kind = "decode" if decode else "prefill"
    return [
        Case(
            prefix,
            kind,
            rows,
            knobs,
            fixed,
            _stay(ground, prefix),
            predict,
            _shapes(samples, ("heads", "kv_heads", "k_dim", "sequences")),
        )
    ]


def _stream(samples: Sequence[Sample], ground: Ground, software: str) -> list[Case]:
    if not samples:
        return []
    # Norms and activations are what the streams of a model are, so they have a say as much as plain additions.
    near = 0.0 if ground.l2 is None else 2 * _float(ground.l2)
    kept = [one for one in _from_memory(samples, ground) if moved(one.probe) > near or moved(one.probe) < 5e6]

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        launches = _given("launches", rows.columns["launches"])
        item = Stream(name="row", size=_given("size", rows.columns["size"], "B"), launches=launches)
        return _array(stream_seconds(item, _hardware(ground, "stream", values, units)))

    knobs, fixed, units = _knobs(ground, "stream", kinds.STREAM_KNOBS, {})
    parts = [streamed(one.probe, software) for one in kept]
    columns = {"size": np.array([size for size, _ in parts]), "launches": np.array([launches for _, launches in parts])}
    return [
        Case(
            "stream",
            "stream",
            Rows(columns, np.array([one.seconds for one in kept]), np.zeros(len(kept), dtype=bool), software),
            knobs,
            fixed,
            _stay(ground, "stream"),
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


def _host(samples: Sequence[Sample], ground: Ground, software: str) -> list[Case]:
    rate = ground.host
    if not samples or rate is None:
        return []
    ways = [one.probe.kind == "device_to_host" for one in samples]

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        share = np.where(rows.columns["back"] > 0, values.get("back", values["efficiency"]), values["efficiency"])
        return np.asarray(values["launch"] + rows.columns["size"] / (rate * share))

    knobs = {"efficiency": Knob(0.8, 0.01, ABOVE_BEST), "launch": Knob(1e-5, 0, 1e-2, "s")}
    if all(ways) != any(ways):
        knobs["back"] = knobs["efficiency"]
    rows = _rows(samples, ("size",), software)
    rows = Rows({**rows.columns, "back": np.array(ways, dtype=float)}, rows.seconds, rows.held_back, rows.backend)
    return [Case("host", "host", rows, knobs, {}, {}, predict, _shapes(samples, ("size",)))]


def _collective(samples: Sequence[Sample], name: str, ground: Ground, software: str) -> list[Case]:
    samples = [one for one in samples if not beyond(one.probe, ground)]
    if not samples or not ground.levels:
        return []
    return [_wired(name, samples, software, ground, ground.levels[:1], {})]


def network_cases(
    samples: Sequence[Sample], ground: Ground, software: str, inside: Mapping[str, Mapping[str, float]]
) -> list[Case]:
    """Collectives between nodes. `inside` are the parameters within a node that were fitted, by kind of collective.

    Groups with several ranks on a node tell of the network only where these are known.
    """
    made: list[Case] = []
    for name in (*FABRIC, "transfer"):
        wide = [one for one in samples if _is(one.probe, name) and beyond(one.probe, ground)]
        if name not in inside and ground.levels:
            near = ground.levels[0].size or math.inf
            wide = [one for one in wide if one.probe.shape.get("stride", 1.0) >= near]
        if not wide:
            continue
        known = inside.get(name) or {key: knob.start for key, knob in kinds.COLLECTIVE_KNOBS.items()} | {"ranks": 1.0}
        made.append(_wired(name, wide, software, ground, (ground.levels[0], ground.levels[-1]), known))
    return made


def beyond(probe: Probe, ground: Ground) -> bool:
    """Whether the ranks of a collective or transfer are on several nodes."""
    if len(ground.levels) < 2 or ground.levels[0].size is None:
        return False
    return probe.shape.get("group", 1.0) * probe.shape.get("stride", 1.0) > ground.levels[0].size


def _is(probe: Probe, name: str) -> bool:
    return probe.name == name or (name == "transfer" and probe.kind == "transfer")


def _links(samples: Sequence[Sample], software: str) -> Rows:
    rows = _rows(samples, ("size", "group"), software)
    strides = np.array([one.probe.shape.get("stride", 1.0) for one in samples])
    return Rows({**rows.columns, "stride": strides}, rows.seconds, rows.held_back, rows.backend)


def _wired(
    name: str, samples: Sequence[Sample], software: str, ground: Ground, levels: tuple[Level, ...], known: Mapping[str, float]
) -> Case:
    """The last of `levels` is fitted, `known` are the parameters of the first where there are two."""
    rows, below = _links(samples, software), float(levels[0].size or 1.0) if len(levels) > 1 else 1.0
    reach = np.clip(below / rows.columns["stride"], 1.0, rows.columns["group"])
    most = float((rows.columns["group"] / reach).max())
    place = f"{'network' if len(levels) > 1 else 'collective'}.{name}"
    prefix = f"fabric.{levels[-1].name}.{name}"
    unit = {**{key: knob.unit for key, knob in kinds.COLLECTIVE_KNOBS.items()}, "ranks": "1"}
    given = {f"fabric.{levels[0].name}.{name}.{key}": (value, unit[key]) for key, value in known.items()}

    def predict(rows: Rows, values: Mapping[str, float]) -> Array:
        hw = _hardware(ground, prefix, values, units, given, levels=levels)
        size, stride = _given("size", rows.columns["size"], "B"), _given("stride", rows.columns["stride"])
        if name == "transfer":
            path: Any = "scale_out" if len(levels) > 1 else "scale_up"
            return _array(transfer_seconds(Transfer(name="row", size=size, path=path, stride=stride), hw))
        kind: Any = name
        group = _given("group", rows.columns["group"])
        return _array(collective_seconds(Collective(name="row", kind=kind, size=size, group=group, stride=stride), hw))

    knobs, fixed, units = _knobs(ground, prefix, kinds.COLLECTIVE_KNOBS, {"ranks": Knob(most, 1, most)})
    # Two ranks tell nothing of what more of them lose, and transfers know a rate and a start only.
    told = ("pair", "start") if name == "transfer" else [key for key in knobs if most > 2 or key != "per_doubling"]
    fixed = {
        **fixed,
        **{key: Knob(0.0 if knob.unit == "s" else knob.start, 0, 1, knob.unit) for key, knob in knobs.items() if key not in told},
    }
    knobs = {key: knob for key, knob in knobs.items() if key in told}
    starts = {"switch": kinds.SWITCHES} if "switch" in knobs else {}
    shapes = _shapes(samples, ("size", "group"))
    return Case(place, "collective", rows, knobs, fixed, {}, predict, shapes, starts)


def _knobs(
    ground: Ground, prefix: str, knobs: Mapping[str, Knob], fixed: Mapping[str, Knob], leave: Sequence[str] = ()
) -> tuple[dict[str, Knob], dict[str, Knob], dict[str, str]]:
    """What is fitted, what stays, and all units. What stays has the family's value; without a family the usual one."""
    family = ground.parameters(prefix)
    stay = {key: Knob(value, 0, 1, unit) for key, (value, unit) in family.items() if key not in knobs or key in leave}
    stay = {**{key: knob for key, knob in fixed.items() if key not in stay}, **stay}
    free = {key: knob for key, knob in knobs.items() if key not in stay and (not family or key in family)}
    if ground.measured_peaks:
        free = {
            key: Knob(knob.start, knob.low, max(knob.high, ABOVE_BEST), knob.unit) if "efficiency" in key else knob
            for key, knob in free.items()
        }
    return free, stay, {key: knob.unit for key, knob in {**free, **stay}.items()}


def _stay(ground: Ground, prefix: str) -> dict[str, float]:
    return {key: value for key, (value, _) in ground.parameters(prefix).items()}


def _hardware(
    ground: Ground, prefix: str, values: Mapping[str, float], units: Mapping[str, str],
    given: Mapping[str, tuple[float, str]] | None = None, **more: Any,
) -> Any:  # fmt: skip
    parameters = {**(given or {}), **{f"{prefix}.{key}": (value, units[key]) for key, value in values.items()}}
    return machine(
        peaks=ground.peaks, bandwidth=ground.bandwidth, units=ground.units, parameters=parameters, l2=ground.l2, **more
    )  # fmt: skip


def _from_memory(samples: Sequence[Sample], ground: Ground) -> list[Sample]:
    """The samples that memory can have served: repeated launches may find their tensors in a cache."""
    rate = _float(ground.bandwidth) * (1.0 if ground.measured_peaks else OVER_DATASHEET)
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


def _given(name: str, value: Any, unit: str = "1") -> Term:
    return Term(name, value, unit, FITTED)


def _float(term: Term) -> float:
    value: Any = term.value
    return float(value)


def _array(term: Term) -> Array:
    value: Any = term.value
    return np.asarray(value, dtype=float)
