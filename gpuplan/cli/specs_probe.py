"""`gpuplan specs probe`: which accelerators does this machine have, and what would their spec files look like?"""

from __future__ import annotations

import json as jsonlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command
from gpuplan.errors import Problem, UsageError

if TYPE_CHECKING:
    from gpuplan.probe.survey import Survey

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def probe(
    *,
    out: Annotated[
        str | None, Option("--out", metavar="PATH", help="Write into a specs folder, or one draft into a file that ends in .yaml")
    ] = None,
    force: Annotated[bool, Option("--force", help="Replace files that are there")] = False,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
) -> None:
    """Which accelerators does this machine have, and what would their spec files look like?

    Asks nvidia-smi, amd-smi or rocm-smi, the variables of a TPU, and otherwise the processor. Parts that are on record are
    named, with what differs here; of others, and of the machine, a draft is printed or written. What no driver says is "?" in
    it, and refused by `gpuplan specs check` until you fill it in.

    Examples:
      gpuplan specs probe
      gpuplan specs probe --out my-specs/
      gpuplan specs probe --out my-specs/accelerators/nvidia/new-gpu.yaml
    """
    from datetime import date

    from gpuplan.cli.specs import open_catalog
    from gpuplan.probe.host import Host
    from gpuplan.probe.survey import survey

    made = survey(Host(), open_catalog(specs), date.today().isoformat())
    if json:
        print(jsonlib.dumps(_record(made), indent=2, ensure_ascii=False))
    for note in made.notes if not json else ():
        say(f"note: {note.text}{f' ({note.hint})' if note.hint else ''}")
    if out is not None:
        _write(made, Path(out), force, quiet=json)
    elif not json:
        print("\n".join(f"# {line}" for line in _found(made)))
        print("".join(f"---\n# file: {draft.place}\n{draft.text}" for draft in made.drafts), end="")


def _found(made: Survey) -> list[str]:
    """One line for each kind of device, and how to ask for it."""
    lines = [
        f"{count} x {device.name}: {f'on record as {ident}' if there else f'not on record, drafted as {ident}'}"
        for device, count, ident, there in made.found
    ]
    return [*lines, *([f"ask with --on {made.on}"] if made.on else [])]


def _record(made: Survey) -> dict[str, object]:
    from gpuplan.probe.match import size

    accelerators = [
        {
            "name": device.name, "count": count, "id": ident, "on_record": there, "said_by": device.said_by,
            "memory_bytes": size(device.memory, "B"), "power_limit_w": size(device.power_now or device.power, "W"),
            "pcie_generation": device.pcie_gen, "pcie_lanes": device.pcie_lanes,
            "mig": [{"units": part.units, "memory_bytes": size(part.memory, "B")} for part in device.slices],
        }
        for device, count, ident, there in made.found
    ]  # fmt: skip
    notes = [{"code": note.code, "text": note.text, "hint": note.hint} for note in made.notes]
    drafts = [{"path": draft.place, "text": draft.text} for draft in made.drafts]
    return {"accelerators": accelerators, "on": made.on or None, "notes": notes, "drafts": drafts}


def _write(made: Survey, out: Path, force: bool, *, quiet: bool) -> None:
    """Write the drafts and say where they are and how much is left to do.

    Raises:
        UsageError: a file is there already or cannot be written, or its name cannot be an id.
    """
    from gpuplan.files.write import write_all
    from gpuplan.probe.spec_draft import SpecDraft

    drafts = list(made.drafts)
    if out.suffix in (".yaml", ".yml"):
        places = {out: _renamed(drafts[0].text, out)} if drafts else {}
        if len(drafts) > 1:
            say(f"note: {drafts[1].place} is not written: give a folder to have both")
    else:
        places = {out / draft.place: draft.text for draft in drafts}
    write_all(places, force=force)
    if quiet:
        return
    print("\n".join(_found(made)))
    for path, text in places.items():
        left = SpecDraft("", text).left
        what = f"a draft with {left} values to fill in; `gpuplan specs check {out}` says which" if left else "nothing to fill in"
        print(f"{path}: {what}")


def _renamed(text: str, path: Path) -> str:
    """The draft with the id that the file's name asks for."""
    if path.suffix != ".yaml" or not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", path.stem):
        hint = "small letters, digits, hyphens and dots, and `.yaml` behind"
        raise UsageError(Problem("probe.bad-name", f"`{path.name}` is no name of a spec file", hint))
    return re.sub(r"^id: .*$", f"id: {path.stem}", text, count=1, flags=re.M)
