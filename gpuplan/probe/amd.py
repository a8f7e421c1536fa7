"""What does amd-smi say, or the older rocm-smi?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuplan.errors import Note
from gpuplan.files.json_text import parse
from gpuplan.probe.host import CommandOutput, Host, ReportedDevice, ToolReport, failed


def ask_tools(host: Host) -> ToolReport:
    """The AMD GPUs of a host."""
    notes: list[Note] = []
    tools = (
        (("amd-smi", "static", "--json"), from_amd_smi),
        (
            ("rocm-smi", "--showproductname", "--showmeminfo", "vram", "--showmaxpower", "--showdriverversion", "--json"),
            from_rocm_smi,
        ),
    )
    for command, reader in tools:
        ran = host.run(*command)
        if ran is None:
            continue
        data = _json(ran)
        if data is None:
            notes.append(failed(command[0], ran))
        elif devices := reader(data):
            return ToolReport(tuple(devices), tuple(notes))
    return ToolReport((), tuple(notes))


def from_amd_smi(data: Any) -> list[ReportedDevice]:
    """The GPUs in what `amd-smi static --json` prints: a list, in newer releases inside `gpu_data`."""
    gpus = data.get("gpu_data", []) if isinstance(data, Mapping) else data
    made = []
    for gpu in gpus if isinstance(gpus, list) else []:
        if not isinstance(gpu, Mapping) or not (name := _text(gpu, "asic", "market_name")):
            continue
        version = _text(gpu, "driver", "version") or _text(gpu, "driver", "driver_version")
        size = _text(gpu, "vram", "size")
        made.append(
            ReportedDevice(
                name=name,
                vendor="amd",
                said_by=f"amd-smi, driver {version}".removesuffix(", driver "),
                memory=re.sub(r"\bMB$", "MiB", size),  # amd-smi prints MiB under the name of MB
                memory_type=_text(gpu, "vram", "type"),
                bus_bits=_number(_text(gpu, "vram", "bit_width") or _text(gpu, "vram", "vram_bit_width")),
                bandwidth=_text(gpu, "vram", "max_bandwidth"),
                power=_text(gpu, "limit", "max_power"),
                power_now=_text(gpu, "limit", "socket_power") or _text(gpu, "limit", "current_power"),
                pcie_gen=_number(_text(gpu, "bus", "pcie_interface_version").lower().removeprefix("gen").strip()),
                pcie_lanes=_number(_text(gpu, "bus", "max_pcie_width")),
                units=_number(_text(gpu, "asic", "num_compute_units")),
                unit_name="cu",
                architecture=_text(gpu, "asic", "target_graphics_version"),
            )
        )
    return made


def from_rocm_smi(data: Any) -> list[ReportedDevice]:
    """The GPUs in what `rocm-smi … --json` prints: one entry for each card, keys in the case of the release."""
    driver = _text(data, "system", "Driver version") if isinstance(data, Mapping) else ""
    made = []
    for card, entry in data.items() if isinstance(data, Mapping) else ():
        if not card.startswith("card") or not isinstance(entry, Mapping):
            continue
        said = {str(key).lower(): str(value).strip() for key, value in entry.items()}
        name = said.get("card series", "")
        if not name or name == "N/A":
            continue
        memory, power = said.get("vram total memory (b)", ""), said.get("max graphics package power (w)", "")
        made.append(
            ReportedDevice(
                name=name,
                vendor="amd",
                said_by=f"rocm-smi, driver {driver}".removesuffix(", driver "),
                memory=f"{memory} B" if memory.isdigit() else "",
                power=f"{float(power):g} W" if re.fullmatch(r"[\d.]+", power) else "",
                unit_name="cu",
                architecture=said.get("gfx version", ""),
            )
        )
    return made


def _json(ran: CommandOutput) -> Any:
    """The JSON in an output, which warnings may stand before; None where there is none."""
    start = re.search(r"^[\[{]", ran.out, re.M)
    try:
        return parse(ran.out[start.start() :]) if start else None
    except ValueError:
        return None


def _text(gpu: Mapping[str, Any], *path: str) -> str:
    """A value as text with its unit, however this release writes it: text, a number, or value and unit."""
    value: Any = gpu
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        number, unit = value.get("value"), value.get("unit", "")
        value = f"{number} {unit}".strip() if isinstance(number, (int, float, str)) else None
    text = str(value).strip() if isinstance(value, (str, int, float)) else ""
    return "" if text.upper().startswith("N/A") else text


def _number(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None
