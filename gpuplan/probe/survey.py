"""The whole answer of `gpuplan specs probe`: which accelerators this host has, which are known, and drafts of what is not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuplan.errors import Note, Problem, UnknownError
from gpuplan.probe import amd, cpu, nvidia, spec_draft, tpu
from gpuplan.probe.host import Host, ReportedDevice
from gpuplan.probe.match import differences, matching_spec
from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog


class Survey(Record):
    """What a host has: devices by name with the id of their spec, drafts of missing files, notes, and how to ask for it."""

    found: tuple[tuple[ReportedDevice, int, str, bool], ...]
    """Each kind of device: what its driver says, how many, the id of its spec, and whether there is such a spec."""
    drafts: tuple[spec_draft.SpecDraft, ...] = ()
    """Files that are not there yet."""
    notes: tuple[Note, ...] = ()
    """What differs from the specs, and what went wrong."""
    on: str = ""
    """What to write after `--on`, where nothing must be filled in first."""


def survey(host: Host, catalog: Catalog, today: str) -> Survey:
    """What a host reports; `today` is the date that drafts carry.

    Raises:
        UnknownError: the host says nothing about any accelerator or processor.
    """
    notes: list[Note] = []
    devices: list[ReportedDevice] = []
    for ask in (nvidia.ask_tools, amd.ask_tools, tpu.ask_host):
        report = ask(host)
        devices += report.devices
        notes += report.notes
    processor = cpu.ask_host(host)
    if not devices and processor.name:
        one = cpu.as_device(processor)
        devices = [one] * (processor.sockets or 1)
        if "hypervisor" in processor.flags:
            notes.append(Note("probe.virtual", "this is a virtual machine: cores and memory are those that it was given"))
        notes.append(Note("probe.cpu-only", "no accelerator answered: nvidia-smi, amd-smi, rocm-smi and TPU devices were tried"))
    if not devices:
        hint = "run it on the machine itself, where nvidia-smi, amd-smi, rocm-smi or lscpu can be called"
        raise UnknownError(Problem("probe.nothing", "this host says nothing about accelerators or processors", hint), *_told(notes))
    if devices[0].vendor == "google":
        return _of_slice(devices, processor, notes, catalog, today)
    return _of_devices(devices, processor, notes, catalog, today)


def _of_devices(devices: Sequence[ReportedDevice], processor: cpu.Cpu, notes: list[Note], catalog: Catalog, today: str) -> Survey:
    kinds: dict[str, list[ReportedDevice]] = {}
    for device in devices:
        kinds.setdefault(device.name, []).append(device)
    found: list[tuple[ReportedDevice, int, str, bool]] = []
    drafts: list[spec_draft.SpecDraft] = []
    homes: list[str] = []
    for same in kinds.values():
        first, spec = same[0], matching_spec(same[0], catalog)
        ident = spec.id if spec is not None else spec_draft.id_of(first)
        found.append((first, len(same), ident, spec is not None))
        if spec is None:
            drafts.append(spec_draft.accelerator(first, today, _families(first, catalog)))
        else:
            notes += {note.text: note for device in same for note in differences(device, spec)}.values()
            homes.append(f"{len(same)}x{ident}" if len(same) > 1 else ident)
            if len(same) > 1 and spec.default_system is not None:
                what = f"`--on {homes[-1]}` takes their links to be those of {spec.default_system}"
                notes.append(Note("probe.home", what, "a file for the node is only needed where its links or its host differ"))
    if len(found) > 1:
        what = f"there are {len(found)} kinds of accelerators, and a system has one: no draft of the node is made"
        notes.append(Note("probe.mixed", what))
    else:
        first, count, ident, there = found[0]
        drafts.append(spec_draft.node(processor, first, count, ident, today, catalog.load(Accelerator, ident) if there else None))
    return Survey(tuple(found), tuple(drafts), tuple(notes), homes[0] if len(found) == 1 and homes else "")


def _of_slice(chips: Sequence[ReportedDevice], processor: cpu.Cpu, notes: list[Note], catalog: Catalog, today: str) -> Survey:
    """A host of a TPU slice: where the pod is on record there is nothing to draft."""
    from gpuplan.specs.on import parse_target

    name = chips[0].name
    word = name if name.startswith("tpu") else f"tpu-{name}"
    try:
        target = parse_target(word, catalog)
    except UnknownError:
        notes.append(Note("probe.unknown-slice", f"no slice `{name}` is on record"))
        return _of_devices(chips, processor, notes, catalog, today)
    what = f"{word} has {target.count} chips, of which this host has {len(chips)}"
    device = chips[0].replaced(name=target.accelerator.name)
    return Survey(
        ((device, target.count, target.accelerator.id, True),), (), (*notes, *target.notes, Note("probe.slice", what)), word
    )


def _families(device: ReportedDevice, catalog: Catalog) -> list[str]:
    """The families of the parts on record with the same compute capability; all that were measured where it has none."""
    if not device.compute_capability:
        return []
    wanted = f'compute_capability: "{device.compute_capability}"'
    texts = (text for _, _, text in catalog.texts("accelerators") if wanted in text)
    return sorted({found[1] for text in texts if (found := re.search(r"^family: *(\S+)", text, re.M))})


def _told(notes: Sequence[Note]) -> Iterator[Problem]:
    return (Problem(note.code, note.text, note.hint) for note in notes)
