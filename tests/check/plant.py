"""Which realistic faults can one plant in a data file: the slips that people make, in every field where they make them?

A fault changes one scalar of a file that is shipped. What is planted follows from the place and from the value there: a number
is doubled, halved, ten times as large, has two digits exchanged, is read in the wrong unit, or is a sibling's; a word is another
one that the place allows. Nothing here knows a rule of the check.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Keys = tuple[str | int, ...]


class Fault(NamedTuple):
    """One slip: the class it belongs to, where it stands, what it is called, and the text of the file with it."""

    group: str
    path: Path
    at: Keys
    slip: str
    old: str
    new: str
    text: str

    def __str__(self) -> str:
        return f"{self.group}: {self.path.name} {'.'.join(map(str, self.at))}: {self.old} -> {self.new} ({self.slip})"


class Leaf(NamedTuple):
    """A scalar of a file: its keys, its text, and where that begins and ends."""

    at: Keys
    text: str
    start: int
    end: int


def leaves(text: str) -> list[Leaf]:
    """Every scalar value of a YAML text."""
    found: list[Leaf] = []

    def walk(node: Any, at: Keys) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, (*at, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for place, value in enumerate(node.value):
                walk(value, (*at, place))
        else:
            found.append(Leaf(at, node.value, node.start_mark.index, node.end_mark.index))

    walk(yaml.compose(text, Loader=_Loader), ())
    return found


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?: ?([A-Za-z/]+))?$")
_UNITS = {
    "GiB": "GB", "MiB": "MB", "GB": "GiB", "TB/s": "GB/s", "GB/s": "TB/s", "TFLOP/s": "GFLOP/s", "TOP/s": "GOP/s",
    "Gbit/s": "GB/s", "kW": "W", "MHz": "GHz", "us": "ms", "ms": "us",
}  # fmt: skip
"""The unit that people write in place of another."""


def _shown(value: float) -> str:
    return f"{value:.6g}" if value < 1e6 else f"{value:.0f}"


def _exchanged(digits: str) -> str | None:
    """A number with two neighbouring digits exchanged, where that makes it differ by a tenth or more."""
    for place in range(len(digits) - 1):
        one, other = digits[place], digits[place + 1]
        if one != other and one.isdigit() and other.isdigit() and (other != "0" or place):
            made = digits[:place] + other + one + digits[place + 2 :]
            if abs(float(made) / float(digits) - 1) >= 0.1:
                return made
    return None


def number_slips(text: str, *, siblings: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """What a number with a unit may become by mistake."""
    found = _NUMBER.match(text)
    if found is None or float(found[1]) == 0:
        return
    value, unit = float(found[1]), found[2]
    tail = text[len(found[1]) :]
    for name, factor in (("twice", 2.0), ("half", 0.5), ("ten times", 10.0)):
        made = value * factor
        if made == int(made) or "." in found[1] or unit:
            yield name, _shown(made) + tail
    swapped = _exchanged(found[1])
    if swapped is not None:
        yield "digits exchanged", swapped + tail
    if unit in _UNITS:
        yield "unit", f"{found[1]} {_UNITS[unit]}"
    for other in siblings:
        yield "a sibling's", other


def apart(one: str, other: str) -> bool:
    """Whether two numbers differ by a tenth or more."""
    a, b = _NUMBER.match(one), _NUMBER.match(other)
    return bool(a and b and a[2] == b[2] and float(b[1]) and abs(float(a[1]) / float(b[1]) - 1) >= 0.1)


class Field(NamedTuple):
    """Places of one kind of file, by a pattern over their dotted keys: their class, and what people get wrong there."""

    kind: str
    pattern: str
    group: str
    slips: str
    """`number`, `word`, `flag`, `date`, `drop` or `name`, several with spaces between."""


FIELDS = (
    Field("accelerators", r"memory\.(capacity|capacity_reported|bandwidth|bus_bits|pin_rate)(\.value)?", "memory", "number"),
    Field("accelerators", r"memory\.type", "memory", "word"),
    Field("accelerators", r"memory\.unified", "memory", "flag"),
    Field("accelerators", r"(l2|l3|scratchpad)(\.value)?", "memory", "number"),
    Field("accelerators", r"mig\..*\.(memory|memory_share|compute_share|units|count)(\.value)?", "memory", "number"),
    Field("accelerators", r"compute_dense\.\w+(\.value)?", "rates", "number"),
    Field("accelerators", r"units\.(count|clock|tensor_clock|flop_per_clock\.\w+)(\.value)?", "rates", "number"),
    Field("accelerators", r"sparsity\.factor(\.value)?", "rates", "number"),
    Field("accelerators", r"power(\.value)?", "form", "number"),
    Field("accelerators", r"scale_up\.(bandwidth_per_direction|links|link_bandwidth_per_direction|domain)(\.value)?", "links", "number"),
    Field("accelerators", r"scale_up\.(kind|topology)", "links", "word"),
    Field("accelerators", r"pcie\.(gen|lanes|bandwidth_per_direction)(\.value)?", "links", "number"),
    Field("accelerators", r"(vendor|family|form_factor|unit|compute_capability|architecture|default_system)", "form", "word"),
    Field("accelerators", r"released", "form", "date"),
    Field("accelerators", r"aliases\.\d+|driver_names\.\d+", "names", "name"),
    Field("systems", r"(accelerators|hosts|rack_units(\.value)?)", "systems", "number"),
    Field("systems", r"(form|accelerator)", "systems", "word"),
    Field("systems", r"fabric\.\d+\.(size|bandwidth_per_direction|peer_bandwidth_per_direction)(\.value)?", "systems", "number"),
    Field("systems", r"fabric\.\d+\.latency(\.value)?", "systems", "number"),
    Field("systems", r"fabric\.\d+\.topology", "systems", "word"),
    Field("systems", r"fabric\.\d+\.measured\.\d+\.bus_bandwidth(\.value)?", "systems", "number"),
    Field("systems", r"fabric\.\d+\.dims\.\d+", "systems", "number"),
    Field("systems", r"scale_out\.(nics|bandwidth_each)(\.value)?", "systems", "number"),
    Field("systems", r"scale_out\.network", "systems", "word"),
    Field("systems", r"host\.(cpu_count|vcpus|memory|pcie_generation|pcie_lanes|bandwidth_per_direction|local_disk)(\.value)?", "systems", "number"),
    Field("systems", r"power\.(maximum|typical)(\.value)?", "systems", "number"),
    Field("systems", r"price(\.value)?", "systems", "number"),
    Field("systems", r"slices\.\d+\.(chips|dims\.\d+)", "systems", "number"),
    Field("systems", r"clouds\.\d+", "systems", "word"),
    Field("instances", r"instances\.\d+\.(accelerators|vcpus|memory|local_disk|accelerator_memory)(\.value)?", "instances", "number"),
    Field("instances", r"instances\.\d+\.(accelerator|system)", "instances", "word"),
    Field("instances", r"instances\.\d+\.network\.(bandwidth|accelerator_bandwidth)(\.value)?", "instances", "number"),
    Field("instances", r"instances\.\d+\.network\.kind", "instances", "word"),
    Field("instances", r"instances\.\d+\.scale_up\.(bandwidth_per_direction|domain)(\.value)?", "instances", "number"),
    Field("instances", r"instances\.\d+\.scale_up\.kind", "instances", "word"),
    Field("instances", r"instances\.\d+\.name", "instances", "name"),
    Field("prices", r"offers\.\d+\.(price|credits_per_hour)(\.value)?", "prices", "number"),
    Field("prices", r"offers\.\d+\.(region|kind|instance)", "prices", "word"),
    Field("prices", r"offers\.\d+\.status", "prices", "sold"),
    Field("prices", r"offers\.\d+\.per", "prices", "word"),
    Field("prices", r"offers\.\d+\.date", "prices", "date drop"),
    Field("prices", r"default_region", "prices", "word"),
    Field("measured", r".*\.(efficiency|memory_efficiency|unhidden|throttle|backward_share|pair|full)(\.value)?", "measured", "number percent"),
    Field("measured", r".*\.(start|settle|launch|eager|graph|per_doubling|ramp|per_tile|per_group)(\.value)?", "measured", "number"),
    Field("measured", r".*\.(tile_m|tile_n|rows|page|ranks|median_ape|p90_ape|low|high|tail|short_depth|whole|fine|near|reach)(\.value)?", "measured", "number"),
    Field("measured", r"units|measured", "measured", "number"),
    Field("models", r"architecture\.(hidden|vocab|max_context|positions|token_types|embedding_width)", "models", "number near"),
    Field("models", r"architecture\.stacks\.\d+\.layers\.\d+\.count", "models", "number near"),
    Field("models", r"architecture\.stacks\.\d+\.blocks\.\w+\.(mixer|mixer2|cross)\.(heads|kv_heads|head_dim|window|chunk|kv_rank|q_rank|nope_dim|rope_dim|v_dim|v_head_dim|state|inner|conv_kernel|key_heads|value_heads|key_dim|value_dim|top_k|indexer_heads|indexer_dim|groups|dt_rank)", "models", "number heads"),
    Field("models", r"architecture\.stacks\.\d+\.blocks\.\w+\.mlp\.(width|experts|top_k|shared_experts|shared_width)", "models", "number near"),
    Field("models", r"architecture\.tied", "models", "flag"),
    Field("models", r"architecture\.stacks\.\d+\.blocks\.\w+\.(mixer|mlp)\.(gated|causal|qkv_bias|bias|shared_gate)", "models", "flag"),
    Field("models", r"(published|recount)\.params_(total|active)", "models", "number"),
    Field("models", r"dtype", "models", "word"),
    Field("models", r"weights\.(bits|group_size|number|method)", "models", "number word"),
    Field("models", r"pretraining\.(seq_len|global_batch)", "models", "number"),
    Field("models", r"aliases\.\d+", "names", "name"),
    Field("networks", r"(port_bandwidth|latency|switch_latency|effective_share|oversubscription)(\.value)?", "networks", "number"),
    Field("networks", r"protocol", "networks", "word"),
    Field("clusters", r"(accelerators|levels\.\d+\.(size|bandwidth_per_direction|oversubscription))(\.value)?", "clusters", "number"),
    Field("clusters", r"(accelerator|system|levels\.\d+\.network|levels\.\d+\.layout)", "clusters", "word"),
    Field("engines", r"(context|communication|fragmentation)(\.value)?", "engines", "number"),
    Field("engines", r"serving\.\w+(\.value)?", "engines", "number"),
    Field("engines", r"training\.\w+(\.\w+)?(\.value)?", "engines", "number"),
    Field("operations", r"(accelerator_mtbf|restart|checkpoint_bandwidth)(\.value)?", "operations", "number"),
    *(
        Field(kind, pattern, "sources", slips)
        for kind in (
            "accelerators", "systems", "instances", "prices", "measured", "models", "networks", "clusters", "engines", "operations",
        )
        for pattern, slips in (
            (r"sources\.[^.]+\.url", "url"),
            (r"sources\.[^.]+\.checked", "date"),
            (r"sources\.[^.]+\.kind", "word"),
            (r"sources\.[^.]+\.title", "empty"),
            (r"(?!sources\.).*\.source", "key"),
        )
        if (kind, slips) != ("models", "key")
    ),
)  # fmt: skip
_COMPILED = [(field, re.compile(field.pattern)) for field in FIELDS]


class Planter:
    """Plants faults in the files of some folders; `kind_of` says the kind of a file."""

    def __init__(self, files: dict[Path, str], kind_of: Callable[[Path], str]) -> None:
        self.files = files
        self.kind_of = kind_of
        self.leaves = {path: leaves(text) for path, text in files.items()}
        self.values: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path, found in self.leaves.items():
            for leaf in found:
                self.values[kind_of(path), _place(leaf.at)][_kin(path)].add(leaf.text)

    def faults(self, seed: int, per_leaf: int = 1) -> Iterator[Fault]:
        """Some slips in every field of every file, the same for the same seed."""
        for path in sorted(self.files):
            draw = random.Random(f"{seed} {path.name}")
            kind = self.kind_of(path)
            for leaf in self.leaves[path]:
                dotted = ".".join(map(str, leaf.at))
                field = next((field for field, form in _COMPILED if field.kind == kind and form.fullmatch(dotted)), None)
                if field is None:
                    continue
                slips = list(self._slips(field, kind, path, leaf))
                for name, new in draw.sample(slips, min(per_leaf, len(slips))):
                    yield self._planted(field.group, path, leaf, name, new)

    def _planted(self, group: str, path: Path, leaf: Leaf, name: str, new: str) -> Fault:
        text = self.files[path]
        before, after = text[: leaf.start], text[leaf.end :]
        if name == "left out":
            begin = re.search(r",? ?[\w]+: ?$", before)
            before = before[: begin.start()] if begin is not None else before
            return Fault(group, path, leaf.at, name, leaf.text, "", before + after)
        quoted = text[leaf.start : leaf.start + 1]
        written = f"{quoted}{new}{quoted}" if quoted in "\"'" else new
        return Fault(group, path, leaf.at, name, leaf.text, new, before + written + after)

    def _slips(self, field: Field, kind: str, path: Path, leaf: Leaf) -> Iterator[tuple[str, str]]:
        kin = self.values[kind, _place(leaf.at)]
        near = tuple(sorted(value for value in kin[_kin(path)] if value != leaf.text))
        for slip in field.slips.split():
            if slip == "number":
                yield from number_slips(leaf.text, siblings=tuple(value for value in near if apart(value, leaf.text))[:3])
            elif slip == "percent":
                if _NUMBER.match(leaf.text) and float(leaf.text) > 0:
                    yield "percent", _shown(float(leaf.text) * 100)
                    yield "zero", "0"
            elif slip == "near":
                if leaf.text.isdigit() and int(leaf.text) > 8:
                    yield "off by a few", str(int(leaf.text) + 2)
                if leaf.at[-1] == "max_context":
                    yield "cut for a chip", "512"
            elif slip == "heads":
                yield from self._of_heads(path, leaf)
            elif slip == "word":
                every = sorted({value for values in kin.values() for value in values} - {leaf.text})
                yield from (("another word", value) for value in (*near[:3], *every[:6]))
            elif slip == "flag":
                yield "turned", {"true": "false", "false": "true"}[leaf.text]
            elif slip == "date":
                yield from _dates(leaf.text)
            elif slip == "sold":
                if leaf.text != "current":
                    yield "sold as current", "current"
            elif slip == "drop":
                yield "left out", ""
            elif slip == "name":
                yield from (("a name of another", value) for value in near[:4])
            elif slip == "url":
                yield "no address", leaf.text.replace("https://", "")
                yield "a typing error", leaf.text.replace("https://", "htps://")
                yield "a page of nobody", "https://example.com/"
                yield "a space in it", leaf.text.replace("/", "/ ", 4)
            elif slip == "empty":
                yield "empty", '""'
            elif slip == "key":
                yield "no such key", leaf.text[:-1] if len(leaf.text) > 3 else f"{leaf.text}2"

    def _of_heads(self, path: Path, leaf: Leaf) -> Iterator[tuple[str, str]]:
        """Key and value heads as many as queries have, a head as wide as there are heads."""
        beside = {one.at[-1]: one.text for one in self.leaves[path] if one.at[:-1] == leaf.at[:-1]}
        for own, other in (("kv_heads", "heads"), ("heads", "kv_heads"), ("head_dim", "heads")):
            if leaf.at[-1] == own and beside.get(other, leaf.text) != leaf.text:
                yield f"that of `{other}`", beside[other]


def _place(at: Keys) -> str:
    """Keys without the names of things: where values of different files can stand for each other."""
    return ".".join("#" if isinstance(part, int) else part for part in at)


def _kin(path: Path) -> str:
    """Files that one may confuse: of one folder, and with the same beginning."""
    return f"{path.parent.name} {re.split(r'[-_.]', path.stem)[0]}"


def _dates(text: str) -> Iterator[tuple[str, str]]:
    year = int(text[:4])
    yield "two years later", f"{year + 2}{text[4:]}"
    yield "ten years earlier", f"{year - 10}{text[4:]}"
    if len(text) > 7:
        yield "no such month", f"{text[:5]}13{text[7:]}"
        yield "no such day", f"{text[:5]}02-31"
