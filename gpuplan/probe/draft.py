"""What does a spec file look like whose values a human must still look up? `"?"` stands for each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from gpuplan.probe.cpu import Cpu
from gpuplan.probe.host import ReportedDevice
from gpuplan.record import Record
from gpuplan.schema import TO_FILL_IN
from gpuplan.specs.accelerator import Accelerator

ASK = json.dumps(TO_FILL_IN)
PCIE_CODED = {3: 128 / 130, 4: 128 / 130, 5: 128 / 130}
"""What encoding leaves of the line rate, by generation; later ones are coded otherwise."""
HEAD = (
    '# A draft: gpuplan refuses it until every "?" is filled in from a source,\n'
    "# or its line taken out where the key may be missing.\n"
)


class Draft(Record):
    """A spec file that may not be finished: where it belongs in a specs folder, and its text."""

    place: str
    text: str

    @property
    def left(self) -> int:
        """How many values a human must still fill in."""
        return self.text.count(f": {ASK}")


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


def accelerator(device: ReportedDevice, today: str, families: Sequence[str]) -> Draft:
    """The draft of an accelerator; `families` are those that its instruction set points to."""
    ident = id_of(device)
    said = [
        ("capacity", ASK, f"as the vendor prints it; the driver reports {device.memory or 'nothing'}"),
        ("capacity_reported", _driver(device.memory), ""),
        ("type", json.dumps(device.memory_type) if device.memory_type.upper() not in ("", "HBM") else ASK, device.memory_type),
        ("bandwidth", _driver(device.bandwidth) or ASK, "of the datasheet"),
        ("bus_bits", _driver(device.bus_bits), ""),
    ]
    lines = [
        "format: 1",
        f"id: {ident}",
        f"name: {json.dumps(device.name, ensure_ascii=False)}",
        f"driver_names: [{json.dumps(device.name, ensure_ascii=False)}]",
        f"vendor: {device.vendor}",
        _line("architecture", ASK, f"the driver says {device.architecture}" if device.architecture else ""),
        _line("family", families[0] if len(families) == 1 else ASK, _about_families(device, families)),
        f"released: {ASK}",
        f"unit: {device.unit}",
        *([f'compute_capability: "{device.compute_capability}"'] if device.compute_capability else []),
        _line("confidence", ASK, "high, medium or low"),
        "sources:",
        _source("datasheet", ASK, f", url: {ASK}", ASK),
        _source("driver", json.dumps(f"{device.said_by}, on this host"), ", kind: measured", today),
        *([_source("derived", '"line rate less encoding"', ", kind: derived", today)] if device.pcie_gen in PCIE_CODED else []),
        "memory:",
        *(_line(f"  {key}", value, about) for key, value, about in said if value),
        "compute_dense: # without sparsity, with 32-bit accumulation; take out what it does not support",
        *(
            f"  {dtype}: {ASK}"
            for dtype in (("fp32", "bf16", "int8") if device.unit == "socket" else ("fp32", "bf16", "fp16", "fp8"))
        ),
        *_units(device),
    ]
    if device.cache:
        lines.append(f"l3: {_driver(device.cache)}")
    if device.unit == "socket":
        lines.append("default_engines: {train: torch-eager, serve: llama-cpp} # the others do not run on processors")
    lines.append(_line("power", _driver(device.power) or ASK, "the limit that the vendor prints"))
    if device.links:
        lines += [
            f"scale_up: # the driver says {device.links}, before encoding",
            *(f"  {key}: {ASK}" for key in ("kind", "bandwidth_per_direction", "domain", "topology", "layout")),
        ]
    if device.pcie_gen is not None and device.pcie_lanes is not None:
        rate = _pcie_rate(device.pcie_gen, device.pcie_lanes)
        each = f"gen: {_driver(device.pcie_gen)}, lanes: {_driver(device.pcie_lanes)}"
        lines.append(f"pcie: {{{each}, bandwidth_per_direction: {rate}}} # what accelerator and host both have")
    return Draft(f"accelerators/{device.vendor}/{ident}.yaml", _text(lines))


def node(cpu: Cpu, device: ReportedDevice, count: int, ident: str, today: str, spec: Accelerator | None) -> Draft:
    """The draft of the computer around `count` accelerators of one kind, whose id is `ident`."""
    own = f"node-{count}x-{ident}"
    said_by = dict.fromkeys(name for name in (device.said_by, cpu.said_by) if name)
    lines = [
        "format: 1",
        f"id: {own}",
        f"name: {json.dumps(f'Our node with {count} x {spec.name if spec else device.name}', ensure_ascii=False)}",
        "sources:",
        _source("host", json.dumps(f"{'; '.join(said_by)}, on this host"), ", kind: measured", today),
        f"form: {'cpu-server' if device.unit == 'socket' else 'node'}",
        f"accelerator: {ident}",
        f"accelerators: {count}",
        "hosts: 1",
    ]  # fmt: skip
    if count > 1:
        about = f"the driver says {device.links} on each" if device.links else "how they reach each other, one way, for one of them"
        lines.append(f"fabric: # innermost first; {about}")
        lines.append(
            f"  - {{name: {'scale-up' if device.links else ASK}, size: {count}, topology: {ASK}, bandwidth_per_direction: {ASK}}}"
        )
    host = [f"cpu: {json.dumps(cpu.name, ensure_ascii=False)}"] if cpu.name else []
    host += [f"cpu_count: {cpu.sockets}"] if cpu.sockets else []
    host += [f"vcpus: {cpu.threads}"] if cpu.threads else []
    host += [f"memory: {cpu.memory_bytes / 2**30:.1f} GiB"] if cpu.memory_bytes else []
    if host:
        lines.append(f"host: {{{', '.join(host)}}}")
    return Draft(f"systems/{own}.yaml", _text(lines))


def _text(lines: Sequence[str]) -> str:
    text = "\n".join(lines) + "\n"
    return f"{HEAD}{text}" if f": {ASK}" in text else text


def _driver(value: object) -> str:
    return f"{{value: {value}, source: driver}}" if value not in ("", None) else ""


def _line(key: str, value: str, about: str = "") -> str:
    return f"{key}: {value}{f' # {about}' if about else ''}"


def _source(key: str, title: str, more: str, checked: str) -> str:
    return f"  {key}: {{title: {title}{more}, checked: {checked}}}"


def _units(device: ReportedDevice) -> list[str]:
    if not device.unit_name:
        return []
    # Counts and clock let `specs check` recount the rates; a rate that is sparse does not come out.
    dtypes = ", ".join(f"{dtype}: {ASK}" for dtype in ("fp32", "bf16"))
    count, clock = (_driver(value) or ASK for value in (device.units, device.clock))
    return [f"units: {{name: {device.unit_name}, count: {count}, clock: {clock}, flop_per_clock: {{{dtypes}}}}}"]


def _about_families(device: ReportedDevice, families: Sequence[str]) -> str:
    if len(families) == 1:
        return f"as other parts of compute capability {device.compute_capability}"
    return (
        f"one of {', '.join(families)}, or the file in measured/ that you write for it"
        if families
        else "whose measured kernels stand in"
    )


def _pcie_rate(gen: int, lanes: int) -> str:
    if gen not in PCIE_CODED:
        return ASK
    return f"{{value: {2**gen / 8 * lanes * PCIE_CODED[gen]:.3g} GB/s, source: derived}}"
