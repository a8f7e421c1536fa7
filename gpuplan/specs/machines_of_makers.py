"""Which part does the name of a maker's laptop or server hold, and how many of it: `Razer Blade 16 RTX 5090`, `XE9680 8xH200`?"""

from __future__ import annotations

import re

from gpuplan.errors import Problem, UnknownError
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.kinds_of_parts import machine_of, nearest
from gpuplan.specs.read_names import Reading, reading

_MEMORY = re.compile(r"(?<![a-z0-9])(\d+)-?gb(?![a-z0-9])")
_SIZE_OF_PART = re.compile(r"-\d+gb$")


def part_of_machine(name: str, units: int, catalog: Catalog) -> str | None:
    """What to ask for in place of a maker's machine, such as `rtx-5090-laptop` or `8xh200-sxm-141gb`; None: it says no part.

    A laptop has the part that is made for laptops, whatever its maker calls it: the desktop's would be another chip.

    Raises:
        UnknownError: the part that it says has no laptop part on record, or a server does not say how many it has.
    """
    kind = machine_of(name)
    read = reading(name, catalog) if kind else None
    if read is None:
        return None
    if kind == "server" and read.accelerator.startswith("apple-"):
        return None  # `PRIMERGY GX2570 M6` is a sixth make of that server.
    if kind == "server":
        return _of_server(name, units, read, catalog)
    part = _of_laptop(name, read, catalog) if kind == "laptop" else read.accelerator
    memory = _MEMORY.search(key(name)) if kind == "board" else None
    whole = f"{part}-{memory[1]}gb" if memory is not None else part
    return f"{units}x{whole}" if units > 1 else whole


def _of_laptop(name: str, read: Reading, catalog: Catalog) -> str:
    short = _SIZE_OF_PART.sub("", read.accelerator)
    made = (read.accelerator, f"{read.accelerator}-laptop", f"{short}-laptop", f"{key(read.spelled)}-laptop")
    known = {*catalog.paths("accelerators"), *catalog.names("accelerators")}
    found = next((one for one in made if one in known and (one != read.accelerator or _is_of_laptops(one, catalog))), None)
    if found is not None:
        return found
    near = nearest(f"{short}-laptop") or nearest(f"{key(read.spelled)}-laptop") or nearest(name)
    what = f"`{name}` is a laptop by its name, and of {read.accelerator} no laptop part is on record, which is another chip"
    raise UnknownError(Problem("target.unknown-name", what, near))


def _is_of_laptops(name: str, catalog: Catalog) -> bool:
    """Whether an accelerator is soldered to laptops, or shares a chip with its processor."""
    from gpuplan.specs.accelerator import Accelerator

    part = catalog.load(Accelerator, catalog.find("accelerators", name).id)
    return part.form_factor == "laptop" or part.unit == "soc"


def _of_server(name: str, units: int, read: Reading, catalog: Catalog) -> str:
    passive = re.sub(r"-workstation$", "-server", read.accelerator)  # Of a card with an edition for servers, servers have that.
    if read.count is not None:
        return f"{units * read.count}x{passive if passive in catalog.paths('accelerators') else read.accelerator}"
    from gpuplan.specs.accelerator import Accelerator

    part = catalog.load(Accelerator, read.accelerator)
    several = f"`8x{part.id}`" + (f" or `{home}`" if (home := part.home_of(8)) is not None else "")
    what = f"no page of a server called `{name}` was read"
    hint = f"the nearest on record is `{part.id}`, which its name holds: say how many it has, such as {several}"
    raise UnknownError(Problem("target.unknown-name", what, hint))
