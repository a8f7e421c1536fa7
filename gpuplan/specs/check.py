"""Is anything in these spec files wrong: against their schema, each other, or physics?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gpuplan.errors import Problem, SpecError, did_you_mean
from gpuplan.record import Record
from gpuplan.specs.accelerator import RATE_NAMES, Accelerator
from gpuplan.specs.base import SpecFile, load_lined
from gpuplan.specs.catalog import KINDS, Catalog, key, schema_of, shipped_folder
from gpuplan.specs.price import PriceList
from gpuplan.specs.quantity import Sourced
from gpuplan.strict_yaml import LineMap

Severity: TypeAlias = Literal["error", "warning"]


class Finding(Record):
    """One thing that is wrong (`error`) or odd (`warning`) in a file; `where` is file:line."""

    code: str
    severity: Severity
    message: str
    hint: str = ""
    where: str = ""


class _Lined(Record):
    """A loaded file with the lines of its keys."""

    kind: str
    path: Path
    spec: SpecFile
    lines: LineMap

    def bad(self, code: str, path: tuple[str | int, ...], message: str, hint: str = "", severity: Severity = "error") -> Finding:
        return Finding(code, severity, message, hint, self.lines.where(path))


def check(paths: Sequence[Path] = ()) -> list[Finding]:
    """Everything that is wrong with spec files or folders of them; nothing given means all that is shipped.

    Names that a file refers to may be in the files given or in the shipped ones.
    """
    given = list(paths) or [shipped_folder()]
    findings: list[Finding] = []
    loaded: list[_Lined] = []
    for path in _files(given, findings):
        try:
            kind = _kind_of(path)
            cls = schema_of(kind)
            if cls is not None:
                loaded.append(_Lined(kind, path, *load_lined(cls, path)))
        except SpecError as error:
            findings += [_finding(problem) for problem in error.problems]
    folders = dict.fromkeys([shipped_folder(), *(_root(one) for one in loaded)])
    findings += _names(loaded, Catalog(list(folders)))
    for one in loaded:
        findings += _sources(one)
        if isinstance(one.spec, Accelerator):
            findings += _physics(one, one.spec)
    return sorted(findings, key=lambda found: _order(found.where))


def _order(where: str) -> tuple[str, int]:
    name, _, line = where.rpartition(":")
    return (name, int(line)) if line.isdigit() else (where, 0)


def _finding(problem: Problem) -> Finding:
    return Finding(problem.code, "error", problem.message, problem.hint, problem.where)


def _files(given: Sequence[Path], findings: list[Finding]) -> Iterator[Path]:
    for path in given:
        if path.is_dir():
            found = [one for one in sorted(path.rglob("*.yaml")) if not (_kind_or_none(one) is None and one.parent != path)]
            if not found:
                hint = f"a specs folder has {', '.join(KINDS)} in it"
                findings.append(Finding("spec.empty-folder", "error", "the folder holds no YAML file", hint, str(path)))
            yield from found
        elif path.is_file():
            yield path
        else:
            findings.append(Finding("spec.no-file", "error", "there is no such file or folder", where=str(path)))


def _kind_or_none(path: Path) -> str | None:
    return next((part for part in reversed(path.absolute().parts[:-1]) if part in KINDS), None)


def _kind_of(path: Path) -> str:
    kind = _kind_or_none(path)
    if kind is None:
        hint = f"put it below one of {', '.join(f'{name}/' for name in KINDS)}"
        raise SpecError(Problem("spec.unsorted-file", "the file is in no folder of a kind", hint, f"{path}:1"))
    return kind


def _root(one: _Lined) -> Path:
    parts = one.path.absolute().parts
    return Path(*parts[: len(parts) - 1 - parts[-2::-1].index(one.kind) - 1])


def _names(loaded: list[_Lined], catalog: Catalog) -> Iterator[Finding]:
    """Ids and aliases that two files claim, and names that nothing is called."""
    claimed: dict[tuple[str, str], _Lined] = {}
    for one in loaded:
        drivers = getattr(one.spec, "driver_names", ())
        own = {key(one.spec.id)} if one.kind != "instances" else set()
        for name in (*own, *map(key, one.spec.aliases), *map(key, drivers)):
            first = claimed.setdefault((one.kind, name), one)
            if first is not one and not (name in own and _root(first) != _root(one)):
                message = f"`{name}` is a name of `{one.spec.id}` and of `{first.spec.id}`"
                yield one.bad("spec.duplicate-alias", ("aliases",), message, f"take it out here or in {first.path}")
        for path, kind, name in _references(one.spec):
            if not name or name in catalog.paths(kind):
                continue
            near = did_you_mean(key(name), [*catalog.paths(kind), *catalog.names(kind)])
            yield one.bad("spec.unknown-reference", path, f"`{name}` is not the id of one of the {kind}", near)
        if isinstance(one.spec, PriceList):
            yield from _offers(one, one.spec, catalog)


def _offers(one: _Lined, prices: PriceList, catalog: Catalog) -> Iterator[Finding]:
    known = catalog.names("instances")
    for at, offer in enumerate(prices.offers):
        name = key(f"{prices.id}:{offer.instance}")
        if name not in known:
            message = f"no instance of {prices.id} is called `{offer.instance}`"
            yield one.bad("spec.unknown-reference", ("offers", at, "instance"), message, did_you_mean(name, known))


def _references(spec: SpecFile) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Every key that names another file: where, the kind it names, and the name."""
    kinds = {"default_system": "systems", "system": "systems", "accelerator": "accelerators"}
    for name, kind in kinds.items():
        if isinstance(value := getattr(spec, name, None), str):
            yield (name,), kind, value
    for at, shape in enumerate(getattr(spec, "instances", ())):
        for name, kind in kinds.items():
            if isinstance(value := getattr(shape, name, None), str):
                yield ("instances", at, name), kind, value


def _sources(one: _Lined) -> Iterator[Finding]:
    for name, entry in one.spec.sources.items():
        if entry.url.startswith("http:"):
            hint = f"write https://{entry.url[7:]} where the site has it"
            yield one.bad("spec.http-source", ("sources", name, "url"), f"the source `{name}` is not https", hint, "warning")
    for path, value in one.spec.values():
        if isinstance(value, Sourced) and value.accept is not None and not value.accept[0] <= value.value <= value.accept[1]:
            yield one.bad("spec.outside-accept", _path(path), f"{path}: `{value.text}` is outside its own `accept`")


def _path(dotted: str) -> tuple[str | int, ...]:
    return tuple(int(part) if part.isdigit() else part for part in dotted.split("."))


# The bounds below are wide on purpose: they hold for everything sold since 2014, and are broken by a slip between GB and TB,
# GFLOP and TFLOP, bits and bytes, one direction and both, or dense and sparse.
_RECOUNT = 0.03
_RIDGE = (5.0, 2000.0)
_FLOP_PER_JOULE = (5e9, 2.5e12)
_REPORTED = (0.85, 1.08)
_PCIE = (0.93, 1.0)
_CAPACITY = (1e9, 1e13)
_BANDWIDTH = (2e10, 5e13)
_RATIOS = (("fp8", "bf16", 0.95, 2.1), ("fp4", "fp8", 0.95, 4.2), ("tf32", "bf16", 0.2, 1.05), ("int8", "fp8", 0.02, 2.1))


def _physics(one: _Lined, spec: Accelerator) -> Iterator[Finding]:
    for rule in _RULES:
        yield from rule(one, spec)


def _recount_rates(one: _Lined, spec: Accelerator) -> Iterator[Finding]:
    """Units x FLOP per clock x clock is the printed rate."""
    if spec.units is None:
        return
    tolerance = spec.units.tolerance.value if spec.units.tolerance is not None else _RECOUNT
    for name, per_clock in spec.units.flop_per_clock.items():
        rate: Sourced | None = getattr(spec.compute_dense, name)
        path = ("units", "flop_per_clock", name)
        if rate is None:
            yield one.bad("spec.rate-missing", path, f"{name} has FLOP per clock, but no rate in `compute_dense`")
            continue
        vector = spec.units.tensor_clock is None or name in {"fp64", "fp64_tensor", "fp32"}
        clock = spec.units.clock if vector or spec.units.tensor_clock is None else spec.units.tensor_clock
        recount = spec.units.count.value * per_clock.value * clock.value
        if abs(recount / rate.value - 1) > tolerance:
            message = f"{name}: units x FLOP per clock x clock is {recount / 1e12:.4g}e12, not the `{rate.text}` of `compute_dense`"
            hint = "is the rate sparse, or the clock that of other units? State a `tolerance` with a note where sources disagree"
            yield one.bad("spec.rate-recount", ("compute_dense", name), message, hint)


def _recount_memory(one: _Lined, spec: Accelerator) -> Iterator[Finding]:
    """Bus width x pin rate is the bandwidth."""
    memory = spec.memory
    if memory.bus_bits is not None and memory.pin_rate is not None:
        recount = memory.bus_bits.value * memory.pin_rate.value
        if abs(recount / memory.bandwidth.value - 1) > _RECOUNT:
            message = f"bus width x pin rate is {recount / 1e9:.4g} GB/s, not `{memory.bandwidth.text}`"
            yield one.bad("spec.bandwidth-recount", ("memory", "bandwidth"), message, "are bits and bytes mixed up?")
    if memory.capacity_reported is not None:
        share = memory.capacity_reported.value / memory.capacity.value
        yield from _within(one, ("memory", "capacity_reported"), "the reported share of the capacity", share, _REPORTED)
    yield from _within(one, ("memory", "capacity"), "the capacity in bytes", memory.capacity.value, _CAPACITY)
    yield from _within(one, ("memory", "bandwidth"), "the bandwidth in bytes/s", memory.bandwidth.value, _BANDWIDTH)


def _recount_links(one: _Lined, spec: Accelerator) -> Iterator[Finding]:
    """Links x rate of one is the rate of all; PCIe carries nearly 2**generation/8 GB/s in a lane."""
    link = spec.scale_up
    if link is not None and link.bandwidth_per_direction and link.links and link.link_bandwidth_per_direction:
        recount = link.links.value * link.link_bandwidth_per_direction.value
        if abs(recount / link.bandwidth_per_direction.value - 1) > _RECOUNT:
            message = f"links x rate of one is {recount / 1e9:.4g} GB/s, not `{link.bandwidth_per_direction.text}`"
            yield one.bad("spec.link-recount", ("scale_up", "bandwidth_per_direction"), message, "is one of them both directions?")
    if spec.pcie is not None:
        share = spec.pcie.bandwidth_per_direction.value / (spec.pcie.lanes.value * 2**spec.pcie.gen.value / 8 * 1e9)
        yield from _within(one, ("pcie", "bandwidth_per_direction"), "the share of the PCIe line rate", share, _PCIE)


def _ratios(one: _Lined, spec: Accelerator) -> Iterator[Finding]:
    """Rates stand in plausible ratios to each other, to the bandwidth and to the power."""
    for name, other, low, high in _RATIOS:
        rate, base = (getattr(spec.compute_dense, dtype) for dtype in (name, other))
        if rate is not None and base is not None and not rate.note:
            yield from _within(one, ("compute_dense", name), f"{name} over {other}", rate.value / base.value, (low, high))
    rates = [rate.value for name in ("fp32", "bf16", "fp16") if (rate := getattr(spec.compute_dense, name)) is not None]
    if not rates:
        names = ", ".join(RATE_NAMES)
        yield one.bad("spec.no-rates", ("compute_dense",), "there is no fp32, bf16 or fp16 rate", f"known are {names}")
        return
    ridge = max(rates) / spec.memory.bandwidth.value
    yield from _within(one, ("memory", "bandwidth"), "peak FLOP for each byte of bandwidth", ridge, _RIDGE)
    if spec.power is not None:
        yield from _within(one, ("power",), "peak FLOP/s for each watt", max(rates) / spec.power.value, _FLOP_PER_JOULE)


def _within(one: _Lined, path: tuple[str, ...], what: str, value: float, bounds: tuple[float, float]) -> Iterator[Finding]:
    if not bounds[0] <= value <= bounds[1]:
        message = f"{what} is {value:.4g}, which is not between {bounds[0]:g} and {bounds[1]:g}"
        yield one.bad(
            "spec.implausible", path, message, "is a unit wrong, or a rate sparse? A `note` on a ratio's rate explains it"
        )


_RULES: tuple[Callable[[_Lined, Any], Iterator[Finding]], ...] = (_recount_rates, _recount_memory, _recount_links, _ratios)
