"""Which fitted values do the files of engines hold, and how are others put in their place?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_era import POLICIES
from gpuplan.strict_yaml import load_yaml
from tools.replay import UNIT_OF, UNITS, bounded

ENGINES = Path(__file__).parent.parent / "hardware_specs" / "engines"


def in_files(engine: str) -> dict[str, float]:
    """The fitted values of an engine's file by path, in base units."""
    found: dict[str, float] = {}
    profile = Catalog.open().load(Engine, engine)
    data: Any = load_yaml(ENGINES / f"{engine}.yaml")[0]

    def walk(at: str, told_of: Any, read: Any) -> None:
        if isinstance(told_of, Mapping):
            if told_of.get("source") == "fitted" and "value" in told_of:
                found[at] = float(read.value)
            for key, part in told_of.items():
                below = read.get(key) if isinstance(read, Mapping) else getattr(read, key, None)
                walk(f"{at}.{key}" if at else str(key), part, below)

    walk("", data.get("training") or {}, profile.training)
    for told_of, era in zip(data.get("eras") or (), profile.eras, strict=True):
        walk(f"era.{era.name}", told_of, era)
    renamed = {f"{key}": ".".join(place) for key, place in POLICIES.items()}
    return {
        ".".join([*path.split(".")[:-1], renamed.get(path.rsplit(".", 1)[-1], path.rsplit(".", 1)[-1])])
        if path.startswith("era.")
        else path: value
        for path, value in found.items()
        if not path.startswith("residual")
    }


def write(engine: str, values: Mapping[str, float], note: str, ends: tuple[float, float], spread: str = "residual") -> None:
    """Put values into an engine's file and leave every other line as it is; `spread` names the range that takes the ends."""
    path = ENGINES / f"{engine}.yaml"
    lines = path.read_text(encoding="utf-8").split("\n")
    first = lines.index("training:") + 1
    last = next((at for at in range(first, len(lines)) if lines[at] and not lines[at].startswith(" ")), len(lines))
    blocks: dict[str, list[str]] = {}
    for line in lines[first:last]:
        if re.match(r"  [\w#]", line):
            blocks[line.strip().partition(":")[0]] = [line]
        else:
            blocks[list(blocks)[-1]].append(line)
    families: dict[str, list[str]] = {}
    for name, value in values.items():
        section, _, rest = name.partition(".")
        key = rest or name
        text = f"{{value: {_printed(name, bounded(name, value))}, source: fitted"
        if section == "pace":
            who, _, kind = rest.rpartition(".")
            families.setdefault(who, []).append(f"{kind}: {text}}}")
        elif rest:
            block = blocks.setdefault(section, [f"  {section}:"])
            at = next((at for at, line in enumerate(block) if line.strip().startswith(f"{key}:")), None)
            line = f"    {key}: {text}{_kept(block[at]) if at is not None else ''}}}"
            if at is None:
                block.append(line)
            else:
                block[at] = line
        else:
            old = blocks.get(name, [""])[0]
            blocks[name] = [f"  {name}: {text}{_kept(old) if 'nobody says' in old else ''}}}"]
    if families:
        lines_of = {line.strip().partition(":")[0]: line for line in blocks.get("pace", [])[1:]}
        for who, kinds in families.items():
            old_kinds = dict(re.findall(r"(\w+): (\{value[^}]*\})", lines_of.get(who, "")))
            both = old_kinds | {kind.partition(":")[0]: kind.partition(": ")[2] for kind in kinds}
            lines_of[who] = f"    {who}: {{{', '.join(f'{kind}: {one}' for kind, one in both.items())}}}"
        blocks["pace"] = ["  pace:", *lines_of.values()]
    old = "".join(blocks.get(spread, [f"  {spread}: {{source: fitted}}"]))
    if "source: fitted" in old:  # What was assumed is no spread of rows that were seen.
        note_of_ends = (
            "measured over counted step time: 3rd and 97th percentile of the rows of sources that were left out of the fit"
        )
        text = f'  {spread}: {{value: 1.0, source: fitted, note: "{note_of_ends}", accept: [{ends[0]:.3g}, {ends[1]:.3g}]}}'
        blocks.pop(spread, None)
        blocks[spread] = [text]
    lines[first:last] = [line for block in blocks.values() for line in block]
    text_of_file = "\n".join(lines)
    if spread == "residual":
        text_of_file = re.sub(r'(?m)^(  fitted: .*note: )".*"\}$', lambda m: f'{m[1]}"{note}"}}', text_of_file)
    path.write_text(text_of_file, encoding="utf-8")


def _kept(line: str) -> str:
    """The note and range of a line that is rewritten."""
    found = [re.search(pattern, line) for pattern in (r'note: ("[^"]*"|[^,}]*)', r"accept: \[[^\]]*\]")]
    return "".join(f", {one[0]}" for one in found if one)


def _printed(key: str, value: float) -> str:
    unit = UNIT_OF.get(key)
    number = f"{value / UNITS[unit] if unit else value:.3g}"
    number = f"{float(number):g}" if "e" not in number else f"{float(number):f}".rstrip("0")
    return f"{number} {unit}" if unit else number


def write_eras(engine: str, values: Mapping[str, float]) -> None:
    """Put the values of an engine's eras into its file."""
    path = ENGINES / f"{engine}.yaml"
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        if not name.startswith("era."):
            continue
        month, _, rest = name.removeprefix("era.").partition(".")
        key = next((key for key, place in POLICIES.items() if ".".join(place) == rest), rest.rpartition(".")[2])
        line = next(one for one in text.split("\n") if one.startswith(f"  - {{name: {month},"))
        new = re.sub(rf"\b{key}: \{{value: [^,]*, source: fitted", f"{key}: {{value: {_printed(rest, value)}, source: fitted", line)
        text = text.replace(line, new)
    path.write_text(text, encoding="utf-8")
