"""Which accelerator of the catalog is the device that is measured? And what stands in where none is?

An accelerator that nobody described gets a file of its own, whose peaks are the best rates that were measured: marked as such,
and good for estimates at once. So does a part of a processor, such as the cores that a virtual machine was given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuplan.calibrate.device import Identity
from gpuplan.calibrate.measure.cases import FitBasis, of_kind
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.speed import flop, moved
from gpuplan.errors import Problem, UnknownError, UsageError
from gpuplan.machine import overlay
from gpuplan.machine.build import distinct
from gpuplan.probe import cpu
from gpuplan.probe.host import Host
from gpuplan.probe.host import ReportedDevice as HostDevice
from gpuplan.probe.match import matching_spec
from gpuplan.probe.spec_draft import slug
from gpuplan.specs.accelerator import RATE_NAMES, Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.fabric import Level, host_link_of
from gpuplan.specs.measured_machine import WRITTEN
from gpuplan.specs.on import parse_target
from gpuplan.specs.system import System
from gpuplan.term import Source, Term
from gpuplan.yaml_text import yaml_text

WIRE = {"all_reduce": 2.0}
"""How often a byte of the buffer travels, in units of (ranks - 1) / ranks."""
PROCESSORS = ("", "x86_64", "amd64", "aarch64", "arm64")
"""What stands for the architecture where the device is the processor itself."""
MEASURED_HERE = Source("measured", "gpuplan calibrate on this machine: the best rate of all probes, no datasheet")


@dataclass(frozen=True)
class MeasuredSubject:
    """What is measured: the id of its files, its spec where there is one, and the family that lends what is not measured."""

    id: str
    name: str
    vendor: str
    family: str
    spec: Accelerator | None
    processor: bool
    units: int | None

    @property
    def drafted(self) -> bool:
        """Whether its spec is yet to be written, or was written by an earlier calibration."""
        return self.spec is None


def subject_of(identity: Identity, catalog: Catalog, host: Host) -> MeasuredSubject:
    """What a device is called in the catalog, and what is known of it."""
    processor = identity.architecture in PROCESSORS
    asked = cpu.ask_host(host) if processor else None
    name = cpu.bare(identity.name) if processor else identity.name
    if asked is not None and asked.name and name.lower() in ("", "cpu"):
        name = asked.name
    device = HostDevice(
        name=name, vendor=_vendor(name, asked), unit="socket" if processor else "gpu", said_by=identity.backend,
        memory="" if identity.memory_bytes is None else f"{identity.memory_bytes / 2**30:.2f} GiB", units=identity.units,
    )  # fmt: skip
    spec = _die(matching_spec(device, catalog), identity, catalog)
    family = spec.family if spec is not None else _family(identity, device.vendor, asked, catalog)
    part = spec is not None and not _whole(identity, spec)
    if spec is not None and not part and not overlay.drafted(catalog, spec.id):
        return MeasuredSubject(spec.id, spec.name, spec.vendor, family, spec, processor, identity.units)
    ident = slug(name) or "device"
    if processor:
        ident = f"cpu-{ident}-{identity.units}c" if identity.units else f"cpu-{ident}"
        name = f"{name} ({identity.units} cores)" if identity.units else name
    elif part:
        ident, name = f"{ident}-{identity.units}u", f"{name} ({identity.units} units)"
    return MeasuredSubject(ident, name, device.vendor, family, None, processor, identity.units)


def _die(spec: Accelerator | None, identity: Identity, catalog: Catalog) -> Accelerator | None:
    """The spec of one die where a board of several reports the board's name, as MI250X do."""
    if spec is None or spec.devices is None or spec.devices.value < 2:
        return spec
    for ident in catalog.paths("accelerators"):
        if ident.startswith(f"{spec.id}-"):
            die = catalog.load(Accelerator, ident)
            if die.devices is None and die.units is not None and die.units.count.value == identity.units:
                return die
    return spec


def _whole(identity: Identity, spec: Accelerator) -> bool:
    """Whether all units are there: virtual machines have some of the cores of a processor, partitions some of a GPU's."""
    if identity.units is None or spec.units is None:
        return True
    devices = spec.devices.value if spec.devices is not None else 1.0
    return identity.units >= 0.9 * spec.units.count.value / devices


def _vendor(name: str, asked: cpu.Cpu | None) -> str:
    if asked is not None and asked.vendor:
        return asked.vendor
    first = re.sub(r"[^a-z0-9]+", "-", name.partition(" ")[0].partition("(")[0].lower()).strip("-")
    return first or "unknown"


def _family(identity: Identity, vendor: str, asked: cpu.Cpu | None, catalog: Catalog) -> str:
    """The family that lends its parameters: of other parts with the same instruction set, or that of all processors of a kind."""
    if asked is not None:
        return "arm" if identity.architecture in ("aarch64", "arm64") or vendor in ("arm", "apple") else "x86"
    major = identity.architecture.partition(".")[0]
    for wanted in (f'compute_capability: "{identity.architecture}"', f'compute_capability: "{major}.'):
        for _, _, text in catalog.texts("accelerators"):
            if wanted in text and (found := re.search(r"^family: *(\S+)", text, re.M)):
                return found[1]
    return "generic"


def levels_of(subject: MeasuredSubject, span: int, catalog: Catalog, on: str = "") -> tuple[Level, ...]:
    """The links between so many accelerators as estimates see them: those of `on`, or of the usual machine of the accelerator.

    Raises:
        UsageError: `on` is another accelerator, or not so many of them.
        UnknownError: nobody knows what `on` is.
    """
    if subject.spec is None or span < 2:
        return ()
    try:
        target = parse_target(on or f"{span}x{subject.id}", catalog)
    except UnknownError:
        if on:
            raise
        own = subject.spec.scale_up
        rate = None if own is None else own.bandwidth_per_direction
        return () if rate is None else (Level("link", None, "switched", subject.spec.term("hw.link", rate)),)
    if target.accelerator.id != subject.id or target.count < span:
        what = f"--on {on}: it is {target.count} x {target.accelerator.id}, and {span} x {subject.id} measure together"
        raise UsageError(Problem("calibrate.other-machine", what, "name the machines that these devices are in"))
    return distinct(target.levels)


def span_of(samples: Sequence[Sample]) -> int:
    """How many devices the widest group reached over."""
    wired = of_kind(samples, "collective", "transfer")
    return max((int(one.probe.shape["group"] * one.probe.shape.get("stride", 1)) for one in wired), default=1)


def best_link(samples: Sequence[Sample]) -> float | None:
    """The best rate at which one device sent to the others of a group, in B/s."""
    rates = [
        one.probe.shape["size"] * WIRE.get(one.probe.name, 1.0) * (group - 1) / group / one.seconds
        if one.probe.kind == "collective" else one.probe.shape["size"] / one.seconds
        for one in of_kind(samples, "collective", "transfer") if (group := one.probe.shape["group"]) > 1
    ]  # fmt: skip
    return max(rates, default=None)


def ground_of(subject: MeasuredSubject, samples: Sequence[Sample], catalog: Catalog, on: str = "") -> FitBasis:
    """What the fits take as given; `on` names the machines whose links the devices have.

    Raises:
        UnknownError: nothing at all is on record of the family.
    """
    family = _family_parameters(subject, catalog)
    spec = subject.spec
    if spec is None:
        rates = best_rates(samples).items()
        return FitBasis(
            peaks={dtype: Term(f"hw.{dtype}_flop_per_s", rate, "FLOP/s", MEASURED_HERE) for dtype, rate in rates},
            bandwidth=Term("hw.hbm_bandwidth", best_stream(samples) or 1e10, "B/s", MEASURED_HERE),
            units=Term("hw.sm_count", float(subject.units or 1), "1", MEASURED_HERE),
            host=best_copy(samples),
            levels=()
            if (link := best_link(samples)) is None
            else (Level("scale_up", None, "switched", Term("hw.link", link, "B/s", MEASURED_HERE)),),
            family=family,
            measured_peaks=True,
            processor=subject.processor,
        )
    system = catalog.load(System, spec.default_system) if spec.default_system is not None else None
    host_link = host_link_of(spec, system)
    count = spec.units.count if spec.units is not None else None
    units = Term("hw.sm_count", float(subject.units or 1), "1", MEASURED_HERE) if count is None else spec.term("hw.sm_count", count)
    return FitBasis(
        peaks={dtype: spec.term(f"hw.{dtype}_flop_per_s", spec.peak(dtype)) for dtype in spec.dtypes()},
        bandwidth=spec.term("hw.hbm_bandwidth", spec.memory.bandwidth),
        units=units,
        l2=None if spec.l2 is None else spec.term("hw.l2", spec.l2),
        last_cache=last_cache_of(subject),
        levels=levels_of(subject, span_of(samples), catalog, on),
        host=None if host_link is None else float(host_link.value),
        family=family,
        processor=subject.processor,
    )


def last_cache_of(subject: MeasuredSubject) -> float:
    """Bytes of the cache nearest to memory, as the datasheet has it; 0 where it does not say."""
    spec = subject.spec
    return 0.0 if spec is None else max((float(one.value) for one in (spec.l2, spec.l3) if one is not None), default=0.0)


def _family_parameters(subject: MeasuredSubject, catalog: Catalog) -> Mapping[str, Term]:
    """The parameters that count where nothing is measured: of what is shipped, not of an earlier calibration."""
    chain = [
        link for link in overlay.chain_of(catalog, subject.id, subject.family, None)
        if link.file.machine is None or link.file.id != subject.id
    ]  # fmt: skip
    dtypes = subject.spec.dtypes() if subject.spec is not None else ("bf16", "fp16", "fp32")
    dtypes = tuple(one for one in dtypes if one in overlay.MATMUL_LIKE)
    return {
        **overlay.matmul_terms(chain, dtypes, None)[0],
        **overlay.grouped_terms(chain, dtypes, None),
        **overlay.attention_terms(chain, dtypes, None),
        **overlay.single_terms(chain),
    }


def best_rates(samples: Sequence[Sample]) -> dict[str, float]:
    """The best rate of a matmul in each data type, in FLOP/s."""
    made: dict[str, float] = {}
    for one in of_kind(samples, "matmul"):
        made[one.probe.dtype] = max(made.get(one.probe.dtype, 0.0), flop(one.probe) / one.seconds)
    return made


def best_stream(samples: Sequence[Sample]) -> float | None:
    """The best rate of memory traffic in B/s, of streams or of matmuls that read large weights: small ones run in caches."""
    streams = of_kind(samples, "stream")
    if not streams:
        return None
    large = max(moved(one.probe) for one in streams) / 2
    return max(moved(one.probe) / one.seconds for one in of_kind(samples, "stream", "matmul") if moved(one.probe) >= large)


def best_copy(samples: Sequence[Sample]) -> float | None:
    """The best rate of a copy to or from the host, in B/s."""
    return max((moved(one.probe) / one.seconds for one in of_kind(samples, "host_to_device", "device_to_host")), default=None)


def draft(subject: MeasuredSubject, identity: Identity, samples: Sequence[Sample], today: str) -> str:
    """The text of an accelerator file whose peaks are what was measured."""
    rates = {dtype: rate for dtype, rate in best_rates(samples).items() if dtype in RATE_NAMES}
    stream = best_stream(samples)
    how = f"gpuplan calibrate, {identity.backend} on this machine"
    fastest = "the fastest matmul that was measured"
    head = f"{WRITTEN} Rates are the best that was measured, no datasheet: better figures and sources are welcome in a copy."
    source = {"kind": "measured", "checked": today}
    bandwidth = {
        "value": f"{(stream or 0) / 1e9:.4g} GB/s",
        "source": "measured",
        "note": "the best of the largest streams and matmuls",
    }
    data = {
        "format": 1, "id": subject.id, "name": subject.name, "driver_names": [identity.name], "vendor": subject.vendor,
        "architecture": identity.architecture or "not told by the driver", "family": subject.family, "released": today[:7],
        "unit": "socket" if subject.processor else "gpu", "confidence": "low",
        "sources": {"measured": {"title": how, **source}, "driver": {"title": f"{identity.backend}, on this host", **source}},
        "memory": {
            "capacity": {"value": f"{(identity.memory_bytes or 0) / 2**30:.2f} GiB", "source": "driver"},
            "type": "not told by the driver", "bandwidth": bandwidth,
        },
        "compute_dense": {
            "source": "measured",
            **{dtype: {"value": f"{rate / 1e12:.4g} TFLOP/s", "note": fastest} for dtype, rate in rates.items()},
        },
        **_links(identity, samples),
        **({"default_engines": {"train": "torch-eager", "serve": "llama-cpp"}} if subject.processor else {}),
        "notes": [
            "`released` is the month in which it was measured: the driver does not say when it came out.",
            "Rates and bandwidth are the best that gpuplan calibrate measured, so that efficiencies are shares of these.",
        ],
    }  # fmt: skip
    return yaml_text(data, head)


def _links(identity: Identity, samples: Sequence[Sample]) -> dict[str, Any]:
    """What several devices in one machine sent each other; of networks between machines a spec of one accelerator says nothing."""
    rate = best_link(samples)
    if rate is None or identity.near:
        return {}
    note = "the best of the collectives that were measured"
    links = {
        "source": "measured", "kind": "not told by the driver",
        "bandwidth_per_direction": {"value": f"{rate / 1e9:.4g} GB/s", "note": note},
        "domain": identity.ranks, "topology": "switched",
        "layout": "not told by the driver: taken as a switch between the devices that measured together",
    }  # fmt: skip
    return {"scale_up": links}


def can_draft(identity: Identity, samples: Sequence[Sample]) -> str | None:
    """Why no usable accelerator file can be written from these samples, or None."""
    if not best_rates(samples):
        return "no matmul was measured"
    if best_stream(samples) is None:
        return "no memory stream was measured"
    return "the device does not tell its memory" if not identity.memory_bytes else None
