"""What may be typed: every command with its options, and every name of the catalog; kept between calls.

Making it imports each command and looks at each data file, which takes a second. It is kept in the user's cache folder with a
stamp of what it was made of, so that a new file, an edited one and another version are seen at the next TAB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

KINDS = ("accelerators", "systems", "instances", "engines", "networks", "clusters", "prices", "measured", "models")
"""The folders of a specs folder that give names."""
BYTES = 8_000_000
"""The largest index that is read; ours has a tenth of it."""
_PACKAGE = Path(__file__).parents[2]
_CODE = ("cli", "plan", "formulas", "models")
"""The folders of the package that commands, options and names are made of."""


def opened(specs: Sequence[str], env: Mapping[str, str]) -> Mapping[str, Any]:
    """The index for the shipped specs and the user's own folders, of which those that cannot be read are left out."""
    from gpuplan.errors import GpuplanError
    from gpuplan.files.json_text import JsonError, parse
    from gpuplan.files.read import text_if_there
    from gpuplan.files.write import write

    folders = _folders(specs, env)
    made_of = stamp(folders)
    place = cache_file(folders, env)
    try:
        kept = parse(text_if_there(place, most=BYTES) or "null")
    except (GpuplanError, JsonError):
        kept = None
    if isinstance(kept, dict) and kept.get("stamp") == made_of:
        return kept
    from json import dumps

    made = {"stamp": made_of, **_made(folders)}
    with suppress(GpuplanError):  # Where no cache can be kept each TAB is slower, and still right.
        write(place, dumps(made, ensure_ascii=False, separators=(",", ":")))
    return made


def cache_file(folders: Sequence[Path], env: Mapping[str, str]) -> Path:
    """Where the index of these folders is kept: below `~/.cache/gpuplan`, or where XDG_CACHE_HOME says."""
    from zlib import crc32

    from gpuplan.files.home import home

    root = Path(env.get("XDG_CACHE_HOME") or home(env) / ".cache")
    name = crc32("\n".join(map(str, (_PACKAGE, *folders))).encode(errors="surrogateescape"))
    return root / "gpuplan" / f"completion-{name:08x}.json"


def stamp(folders: Sequence[Path]) -> str:
    """What the index is made of: how many files, of how many bytes, and when the last of them and all of them changed."""
    from gpuplan import __version__

    roots = [*(_PACKAGE / part for part in _CODE), *(folder / kind for folder in folders for kind in KINDS)]
    files = [one for root in roots for one in _files(root)]
    last, size, times = 0, 0, 0
    for when, length in files:
        last, size, times = max(last, when), size + length, (times + when) % 2**61
    return f"{__version__} {len(files)} {size} {last} {times}"


def _files(folder: Path | str) -> Iterator[tuple[int, int]]:
    """When each file below a folder changed, and how long it is."""
    try:
        inside = list(os.scandir(folder))
    except OSError:
        return
    for one in inside:
        if one.name.startswith((".", "__pycache__")):
            continue
        if one.is_dir(follow_symlinks=False):
            yield from _files(one.path)
        elif one.name.endswith((".py", ".yaml")):
            try:
                about = one.stat()
            except OSError:
                continue
            yield about.st_mtime_ns, about.st_size


def _folders(specs: Sequence[str], env: Mapping[str, str]) -> list[Path]:
    """The folders that names come from: the shipped one, then the user's as `Catalog.open` orders them."""
    from gpuplan.files.home import from_home, home

    root = next(folder for folder in (_PACKAGE / "hardware_specs", _PACKAGE.parent / "hardware_specs") if folder.is_dir())
    config = Path(env.get("XDG_CONFIG_HOME") or home(env) / ".config") / "gpuplan"
    given = [str(config), *env.get("GPUPLAN_SPECS", "").split(os.pathsep), *specs]
    return [root, *(from_home(one).absolute() for one in given if one and from_home(one).is_dir())]


def _made(folders: Sequence[Path]) -> dict[str, Any]:
    from gpuplan.cli.complete.commands_of import commands
    from gpuplan.cli.complete.names_of import names

    return {"commands": commands(), "names": names(folders)}
