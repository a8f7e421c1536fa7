"""What does a spec file look like whose values a human must still look up? `"?"` stands for each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.probe.cpu import Cpu
from gpuplan.probe.host import ReportedDevice
from gpuplan.record import Record
from gpuplan.schema import TO_FILL_IN
from gpuplan.specs.accelerator import Accelerator
from gpuplan.yaml_text import Remarked, on_one_line, yaml_text

ASK = TO_FILL_IN
_QUOTED = on_one_line(ASK)
PCIE_CODED = {3: 128 / 130, 4: 128 / 130, 5: 128 / 130}
"""What encoding leaves of the line rate, by generation; later ones are coded otherwise."""
HEAD = (
    '# A draft: gpuplan refuses it until every "?" is filled in from a source,\n'
    "# or its line taken out where the key may be missing.\n"
)


class SpecDraft(Record):
    """A spec file that may not be finished: where it belongs in a specs folder, and its text."""

    place: str
    text: str

    @property
    def left(self) -> int:
        """How many values a human must still fill in."""
        return self.text.count(f": {_QUOTED}")


def slug(name: str) -> str:
    """An id for a driver's string.

    >>> slug("NVIDIA H300 SXM7 192GB"), slug("AMD Instinct MI500X")
    ('h300-sxm7-192gb', 'mi500x')
    """
    made = re.sub(r"[^a-z0-9.]+", "-", name.lower().replace("+", "plus")).strip("-.")
    return re.sub(r"^(nvidia|amd|intel|google|instinct|tpu)-(?=.)", "", re.sub(r"^(amd-instinct|nvidia-geforce)-(?=.)", "", made))


def id_of(device: ReportedDevice) -> str:
    """The id that a device's draft has."""
    return f"cpu-{slug(device.name)}" if device.unit == "socket" else slug(device.name)


def accelerator(device: ReportedDevice, today: str, families: Sequence[str]) -> SpecDraft:
    """The draft of an accelerator; `families` are those that its instruction set points to."""
    ident = id_of(device)
    processor = device.unit == "socket"
    named_type = device.memory_type.upper() not in ("", "HBM")
    capacity = f"as the vendor prints it; the driver reports {device.memory or 'nothing'}"
    coded = device.pcie_gen in PCIE_CODED
    dtypes = ("fp32", "bf16", "int8") if processor else ("fp32", "bf16", "fp16", "fp8")
    support = "without sparsity, with 32-bit accumulation; take out what it does not support"
    data: dict[str, Any] = {
        "format": 1, "id": ident, "name": device.name, "driver_names": [device.name], "vendor": device.vendor,
        "architecture": Remarked(ASK, f"the driver says {device.architecture}" if device.architecture else ""),
        "family": Remarked(families[0] if len(families) == 1 else ASK, _about_families(device, families)),
        "released": ASK, "unit": device.unit,
        **({"compute_capability": device.compute_capability} if device.compute_capability else {}),
        "confidence": Remarked(ASK, "high, medium or low"),
        "sources": {
            "datasheet": {"title": ASK, "url": ASK, "checked": ASK}, "driver": _driver_source(device.said_by, today),
            **({"derived": {"title": "line rate less encoding", "kind": "derived", "checked": today}} if coded else {}),
        },
        "memory": {
            "source": "datasheet", "capacity": Remarked(ASK, capacity),
            **_driver("capacity_reported", device.memory),
            "type": device.memory_type if named_type else Remarked(ASK, device.memory_type),
            "bandwidth": Remarked(_said(device.bandwidth), "of the datasheet"),
            **_driver("bus_bits", device.bus_bits),
        },
        "compute_dense": Remarked({"source": "datasheet", **{dtype: Remarked(ASK, "") for dtype in dtypes}}, support),
        **_units(device), **_driver("l3", device.cache),
    }  # fmt: skip
    if processor:
        data["default_engines"] = Remarked({"train": "torch-eager", "serve": "llama-cpp"}, "the others do not run on processors")
    power = _said(device.power) if device.power else {"value": ASK, "source": "datasheet"}
    data["power"] = Remarked(power, "the limit that the vendor prints")
    if device.links:
        keys = ("kind", "bandwidth_per_direction", "domain", "topology", "layout")
        link = {"source": "datasheet", **{key: Remarked(ASK, "") for key in keys}}
        data["scale_up"] = Remarked(link, f"the driver says {device.links}, before encoding")
    if device.pcie_gen is not None and device.pcie_lanes is not None:
        rate = _pcie_rate(device.pcie_gen, device.pcie_lanes)
        link = {**_driver("gen", device.pcie_gen), **_driver("lanes", device.pcie_lanes), "bandwidth_per_direction": rate}
        data["pcie"] = Remarked(link, "what accelerator and host both have")
    return SpecDraft(f"accelerators/{device.vendor}/{ident}.yaml", _text(data))


def node(cpu: Cpu, device: ReportedDevice, count: int, ident: str, today: str, spec: Accelerator | None) -> SpecDraft:
    """The draft of the computer around `count` accelerators of one kind, whose id is `ident`."""
    own = f"node-{count}x-{ident}"
    said_by = dict.fromkeys(name for name in (device.said_by, cpu.said_by) if name)
    data: dict[str, Any] = {
        "format": 1, "id": own, "name": f"Our node with {count} x {spec.name if spec else device.name}",
        "sources": {"host": _driver_source("; ".join(said_by), today)},
        "form": "cpu-server" if device.unit == "socket" else "node",
        "accelerator": ident, "accelerators": {"value": count, "source": "host"}, "hosts": {"value": 1, "source": "host"},
    }  # fmt: skip
    if count > 1:
        about = f"the driver says {device.links} on each" if device.links else "how they reach each other, one way, for one of them"
        level = {"name": "scale-up" if device.links else ASK, "size": count, "topology": ASK, "bandwidth_per_direction": ASK}
        data["fabric"] = Remarked([Remarked(level, "")], f"innermost first; {about}")
    memory = f"{cpu.memory_bytes / 2**30:.1f} GiB" if cpu.memory_bytes else ""
    said = {"cpu": cpu.name, "cpu_count": cpu.sockets, "vcpus": cpu.threads, "memory": memory}
    host = {key: value for key, value in said.items() if value}
    if host:
        data["host"] = {"source": "host", **host}
    return SpecDraft(f"systems/{own}.yaml", _text(data))


def _text(data: Mapping[str, Any]) -> str:
    text = yaml_text(data)
    return f"{HEAD}{text}" if f": {_QUOTED}" in text else text


def _said(value: object) -> Any:
    """What the driver says, with it as the source, or a question."""
    return {"value": value, "source": "driver"} if value not in ("", None) else ASK


def _driver(key: str, value: object) -> dict[str, Any]:
    """A key with what the driver says; no key where it says nothing."""
    return {} if value in ("", None) else {key: _said(value)}


def _driver_source(said_by: str, today: str) -> dict[str, str]:
    return {"title": f"{said_by}, on this host", "kind": "measured", "checked": today}


def _units(device: ReportedDevice) -> dict[str, Any]:
    if not device.unit_name:
        return {}
    # Counts and clock let `specs check` recount the rates; a rate that is sparse does not come out.
    rates, count, clock = dict.fromkeys(("fp32", "bf16"), ASK), _said(device.units), _said(device.clock)
    named = {"source": "datasheet", "name": device.unit_name}
    return {"units": {**named, "count": count, "clock": clock, "flop_per_clock": rates}}


def _about_families(device: ReportedDevice, families: Sequence[str]) -> str:
    if len(families) == 1:
        return f"as other parts of compute capability {device.compute_capability}"
    return (
        f"one of {', '.join(families)}, or the file in measured/ that you write for it"
        if families
        else "whose measured kernels stand in"
    )


def _pcie_rate(gen: int, lanes: int) -> Any:
    if gen not in PCIE_CODED:
        return ASK
    return {"value": f"{2**gen / 8 * lanes * PCIE_CODED[gen]:.3g} GB/s", "source": "derived"}
