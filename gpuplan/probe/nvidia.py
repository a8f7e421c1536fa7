"""What does nvidia-smi say? Its XML log has nearly everything, its CSV query the compute capability."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from gpuplan.errors import Note
from gpuplan.files.csv_text import rows_of
from gpuplan.probe.host import Host, MigDevice, ReportedDevice, ToolReport, failed

FIELDS = (
    "index,name,memory.total,power.default_limit,power.limit,pcie.link.gen.max,pcie.link.width.max,pcie.link.width.current,"
    "clocks.max.sm,driver_version,compute_cap"
)
"""The columns of the CSV query; drivers before 2021 do not know `compute_cap`."""
_LINK = re.compile(r"^\s*Link \d+: ([\d.]+ GB/s)", re.M)


def ask_tools(host: Host) -> ToolReport:
    """The NVIDIA GPUs of a host."""
    xml = host.run("nvidia-smi", "-q", "-x")
    if xml is None:
        return ToolReport()
    table = host.run("nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv")
    rows = from_csv(table.out) if table is not None and table.code == 0 else []
    devices: tuple[ReportedDevice, ...] = ()
    notes: list[Note] = []
    if xml.code == 0:
        try:
            devices = from_xml(xml.out)
        except ElementTree.ParseError as error:
            notes.append(Note("probe.unreadable", f"the XML of nvidia-smi cannot be read: {error}"))
    elif not rows:
        notes.append(failed("nvidia-smi", xml))
    if not devices:
        devices = tuple(rows)
    elif len(rows) == len(devices):
        devices = tuple(one.replaced(compute_capability=row.compute_capability) for one, row in zip(devices, rows, strict=True))
    status = host.run("nvidia-smi", "nvlink", "-s") if len(devices) > 1 else None
    if status is not None and status.code == 0:
        devices = tuple(one.replaced(links=links) for one, links in zip(devices, _links(status.out, len(devices)), strict=True))
    return ToolReport(devices, tuple(notes))


def from_csv(text: str) -> list[ReportedDevice]:
    """The GPUs in what `nvidia-smi --query-gpu=… --format=csv` prints, with its line of heads."""
    heads, *lines = [[cell.strip() for cell in row] for _, row in rows_of(text, "nvidia-smi")] or [[]]
    keys = [head.partition(" [")[0] for head in heads]
    made = []
    for line in lines:
        row = {key: _known(cell) for key, cell in zip(keys, line, strict=False)}
        if not row.get("name"):
            continue
        made.append(
            ReportedDevice(
                name=row["name"],
                vendor="nvidia",
                said_by=f"nvidia-smi, driver {row.get('driver_version', '')}".removesuffix(", driver "),
                memory=row.get("memory.total", ""),
                power=row.get("power.default_limit", "") or row.get("power.limit", ""),
                power_now=row.get("power.limit", ""),
                pcie_gen=_number(row.get("pcie.link.gen.max", "")),
                pcie_lanes=_number(row.get("pcie.link.width.max", "")),
                pcie_lanes_now=_number(row.get("pcie.link.width.current", "")),
                unit_name="sm",
                clock=row.get("clocks.max.sm", "") or row.get("clocks.max.streaming_multiprocessor", ""),
                compute_capability=row.get("compute_cap", ""),
            )
        )
    return made


def from_xml(text: str) -> tuple[ReportedDevice, ...]:
    """The GPUs in what `nvidia-smi -q -x` prints.

    Raises:
        ElementTree.ParseError: it is no XML.
    """
    log = ElementTree.fromstring(text)
    driver = log.findtext("driver_version", "")
    return tuple(_gpu(gpu, driver) for gpu in log.iter("gpu") if gpu.findtext("product_name", "").strip())


def _gpu(gpu: ElementTree.Element, driver: str) -> ReportedDevice:
    def say(*paths: str) -> str:
        return next((known for path in paths if (known := _known(gpu.findtext(path, "")))), "")

    # The element for power was renamed twice, and so were the limits in it.
    power = [f"{place}/{{}}" for place in ("gpu_power_readings", "power_readings")]
    info = "pci/pci_gpu_link_info"
    return ReportedDevice(
        name=say("product_name"),
        vendor="nvidia",
        said_by=f"nvidia-smi, driver {driver}",
        memory=say("fb_memory_usage/total"),
        power=say(*(place.format("default_power_limit") for place in power)),
        power_now=say(
            *(place.format(name) for place in power for name in ("current_power_limit", "power_limit", "enforced_power_limit"))
        ),
        pcie_gen=_number(say(f"{info}/pcie_gen/max_link_gen")),
        pcie_lanes=_number(say(f"{info}/link_widths/max_link_width")),
        pcie_lanes_now=_number(say(f"{info}/link_widths/current_link_width")),
        unit_name="sm",
        clock=say("max_clocks/sm_clock", "max_clocks/graphics_clock"),
        architecture=say("product_architecture"),
        slices=tuple(_slices(gpu)),
    )


def _slices(gpu: ElementTree.Element) -> Iterator[MigDevice]:
    """The MIG devices of a GPU."""
    for one in gpu.iter("mig_device"):
        units = _number(_known(one.findtext("device_attributes/shared/multiprocessor_count", "")))
        yield MigDevice(units, _known(one.findtext("fb_memory_usage/total", "")))


def _links(text: str, gpus: int) -> list[str]:
    """For each GPU, how many NVLinks of which rate `nvidia-smi nvlink -s` lists; nothing where it lists none."""
    made = []
    for part in re.split(r"^GPU \d+:", text, flags=re.M)[1:]:
        rates = _LINK.findall(part)
        made.append(f"{len(rates)} links of {rates[0]}" if rates else "")
    return made if len(made) == gpus else [""] * gpus


def _known(text: str) -> str:
    """A cell, or nothing where the driver does not say."""
    text = text.strip()
    return "" if re.match(r"\[?(N/A|Not Supported|Unknown|Requested|Insufficient|GPU access|Not Active)", text, re.I) else text


def _number(text: str) -> int | None:
    found = re.match(r"\d+", text)
    return int(found[0]) if found else None
