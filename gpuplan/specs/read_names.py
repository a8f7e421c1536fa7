"""What does a name of a machine say that nothing on record has: its seller, its family, an accelerator and how many?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from gpuplan.errors import UnknownError, UsageError
from gpuplan.record import Record
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.instance import Instance, InstanceFamily

_FILLER = frozenset({"instance", "instances", "vm", "vms", "series", "gpu", "gpus", "spaces", "size", "machine", "node"})
"""Words beside a name that say nothing about which machine it is."""
_OFFERED_AS = frozenset(
    {"droplet", "droplets", "pod", "pods", "inference", "endpoint", "endpoints", "dedicated", "pro", "pro+", "cluster", "on-demand"}
)
"""Words behind a seller that say how it rents a machine out, not which."""
_TERMS = frozenset({"spot", "preemptible", "interruptible", "reserved", "secure", "community", "serverless", "cloud", "flex"})
"""Words beside a machine that say on which terms it is rented: some sellers call machines so, others have a price for each."""
_BEFORE = re.compile(r"(?:^|[^a-z0-9]|x)(\d{1,2})x?-?$")
_AFTER = re.compile(r"(?:-?x|(?<=[a-z])(?<!sxm)(?<!hbm))(\d{1,2})(?![0-9a-z])|-(\d)(?=-)|-v\d\.(\d{1,2})$")
_SOMEWHERE = re.compile(r"(?<![a-z0-9])(?:x(\d{1,2})|(\d{1,2})x)(?![a-z0-9])")
_OF_ORACLE = re.compile(r"(?:vm|bm)\.gpu\.([a-z].*?)(?:-v\d)?\.(\d{1,2})")
"""A shape of Oracle's: the part, its memory, with a letter for the processor beside it or without, and how many."""
_INCHES = re.compile(r"[a-z]-1[3-8]-$")
"""The size of a laptop before its part, which is no count: `framework-16-rx-7700s`."""
_NUMBER = re.compile(r"\d+")
_BESIDE = re.compile(r"\+(\d+)x")
"""The number of accelerators beside a machine in the name of an instance."""


class Reading(Record):
    """An accelerator that a name holds, and how many of it; None: the name does not say."""

    accelerator: str
    count: int | None
    spelled: str
    """How the name has it."""

    @property
    def target(self) -> str:
        """What to write for `--on`."""
        return f"{self.count}x{self.accelerator}" if self.count else self.accelerator


def flat(name: str) -> str:
    """A name without what separates its parts, as people leave out or change it.

    >>> flat("Standard_ND96isr_H100_v5"), flat("ND96isr H100 v5")
    ('nd96isrh100v5', 'nd96isrh100v5')
    """
    return re.sub(r"[^a-z0-9]", "", key(name)).removeprefix("standard")


def spelled_out(name: str) -> str:
    """A size that ends in `xl` as its seller writes it, every other name as it is.

    >>> spelled_out("g5.48xl"), spelled_out("aws p3.2xl"), spelled_out("7900xtxl")
    ('g5.48xlarge', 'aws p3.2xlarge', '7900xtxl')
    """
    return re.sub(r"(\.\d*xl)$", r"\1arge", name, flags=re.IGNORECASE)


def splits(name: str) -> list[tuple[str, str]]:
    """The ways in which a name may be a seller and one of its machines: (seller, rest), the longest seller first.

    >>> splits("Amazon EC2 P4d instance")[:2]
    [('amazon-ec2', 'P4d'), ('ec2-p4d', 'Amazon')]
    >>> splits("aws/p5.48xlarge")[:1], splits("aws-p5.48xlarge")
    ([('aws', 'p5.48xlarge')], [('aws', 'p5.48xlarge')])
    """
    words = [word for word in name.replace("/", " ").split() if word.lower() not in _FILLER]
    if len(words) == 1 and "-" in words[0]:
        first, _, machine = words[0].partition("-")
        return [(key(first), machine)] if machine else []
    ways = []
    for size in (3, 2, 1):
        if size < len(words):
            for seller, rest in ((words[:size], words[size:]), (words[-size:], words[:-size])):
                ways.append((key(" ".join(seller)).replace(".", "-"), " ".join(rest)))
    return [way for way in ways if way[0]]


def bare(name: str) -> str:
    """A name without the words that say nothing about which machine it is.

    >>> bare("hetzner GPU"), bare("h100 instance")
    ('hetzner', 'h100')
    """
    return " ".join(word for word in name.split() if word.lower() not in _FILLER)


def without_manner(rest: str) -> str:
    """What stands behind a seller, without the words at its beginning that say how it rents; of one word the word itself.

    >>> without_manner("inference endpoint L4 x1"), without_manner("droplet"), without_manner("rtx pro 6000")
    ('L4 x1', 'droplet', 'rtx pro 6000')
    """
    words = rest.split()
    while len(words) > 1 and words[0].lower() in _OFFERED_AS:
        words = words[1:]
    return " ".join(words)


def without_terms(rest: str) -> str:
    """What stands behind a seller, without words at both ends that say how or on which terms it rents.

    >>> without_terms("4090 secure cloud"), without_terms("community 3090"), without_terms("v6e-8 spot"), without_terms("spot")
    ('4090', '3090', 'v6e-8', 'spot')
    """
    words = rest.split()
    said = _OFFERED_AS | _TERMS
    while len(words) > 1 and (words[-1].lower() in said or words[0].lower() in said):
        words = words[:-1] if words[-1].lower() in said else words[1:]
    return " ".join(words)


def attached(name: str, catalog: Catalog) -> str | None:
    """The instance that is a machine and the accelerators beside it, `A+NxB`, of a name that says both; None: there is none.

    `n1-standard-8 with v100` is `n1-standard-8+1xnvidia-tesla-v100`.
    """
    words = name.replace("+", " ").split()
    for at, host in enumerate(words if len(words) > 1 else ()):
        made = [alias for alias in catalog.names("instances") if f":{key(host)}+" in alias]
        read = reading(" ".join(words[at + 1 :]), catalog) if made else None
        if read is None:
            continue
        told = {alias: (_BESIDE.search(alias), reading(alias.partition("+")[2], catalog)) for alias in made}
        fit = [
            alias
            for alias, (count, one) in told.items()
            if count is not None and one is not None and _same_part(one, read) and int(count[1]) == (read.count or 1)
        ]
        return fit[0] if len(fit) == 1 else None
    return None


def _same_part(one: Reading, other: Reading) -> bool:
    """Whether two readings are of one line of accelerators, whatever their form: a V100 is PCIe or SXM by where it is."""
    return one.accelerator == other.accelerator or one.accelerator.partition("-")[0] == other.accelerator.partition("-")[0]


def family_of(name: str, paths: Mapping[str, Path], catalog: Catalog) -> list[Instance]:
    """The instances of the family that a name means, or the one that has it but for separators and the first `Standard`.

    `ND H100 v5`, `NCads H100 v5`, `gpu-h200-sxm` and `ND96isr H100 v5` are a family by its id, by the letters of its sizes, by what
    stands before their presets, and one size;
    `paths` are the files of families by id. Empty: there is none.
    """
    wanted = flat(bare(name))
    if not wanted:
        return []
    found: list[Instance] = []
    for ident in sorted(_may_be_of(wanted, paths, catalog)):
        family = catalog.read(InstanceFamily, paths[ident])
        made = [Instance(family, shape) for shape in family.instances]
        one = [each for each in made if flat(each.name) == wanted]
        if one:
            return one
        letters = [each for each in made if _NUMBER.sub("", flat(each.name), count=1) == wanted]
        platform = [each for each in made if "-" in (before := each.name.partition("_")[0]) and flat(before) == wanted]
        found += made if flat(ident.partition("/")[2]) == wanted else letters or platform
    return found


def _may_be_of(wanted: str, paths: Mapping[str, Path], catalog: Catalog) -> set[str]:
    """The families among `paths` that may be or hold what is wanted, by the names that their files list first: few are parsed."""

    def listed() -> list[tuple[str, str, frozenset[str]]]:
        bare = ((flat(alias.rpartition(":")[2]), idents) for alias, idents in catalog.names("instances").items())
        return [(each, _NUMBER.sub("", each, count=1), frozenset(idents)) for each, idents in bare]

    found = {ident for ident in paths if flat(ident.partition("/")[2]) == wanted}
    for each, letters, idents in catalog.once("flat names of instances", listed):
        if wanted == letters or each.startswith(wanted):
            found |= idents & paths.keys()
    return found


def reading(name: str, catalog: Catalog) -> Reading | None:
    """The accelerator that stands in the name of a machine, with the number beside it; None: none stands there.

    Of several the longest name counts: `mi300x8` is eight of the MI300X. A processor counts where nothing else stands there:
    `8xMI325X_2xEPYC_9755` has it as the host.
    """
    host = None
    wanted = re.sub(r"rtx-?pro(?=\d)", "rtx-pro-", key(name))
    if shape := _OF_ORACLE.fullmatch(wanted):
        wanted = f"{shape[2]}x-{re.sub(r'[.]b?(?=[0-9]+gb$)', '-', re.sub(r'(?<=[0-9])g$', 'gb', shape[1]))}"
    spellings = catalog.once("names in names", lambda: _spellings(catalog))
    for said in (one for one in spellings if one in wanted):
        for found in re.finditer(re.escape(said), wanted):
            before, after = wanted[: found.start()], wanted[found.end() :]
            count = _BEFORE.search(before)
            many = _AFTER.match(wanted, found.end())
            starts = not before or not before[-1].isalnum() or count is not None
            ends = not after or not after[0].isalnum() or many is not None
            if not (starts and ends):
                continue
            try:
                ident = catalog.find("accelerators", said).id
            except (UnknownError, UsageError):
                continue
            if host is not None and _is_processor(ident, catalog):
                continue
            elsewhere = _SOMEWHERE.search(f"{before} {after}")
            if count is not None and _INCHES.search(before):
                count = None
            number = next((one for one in (count, many, elsewhere) if one is not None), None)
            digits = next((one for one in number.groups() if one), None) if number is not None else None
            read = Reading(ident, int(digits) if digits is not None and int(digits) > 0 else None, said)
            if not _is_processor(ident, catalog):
                return read
            host = read
    return host


def _is_processor(ident: str, catalog: Catalog) -> bool:
    """Whether an accelerator on record is a processor in a socket."""
    from gpuplan.specs.accelerator import Accelerator

    return catalog.load(Accelerator, ident).unit == "socket"


def _spellings(catalog: Catalog) -> list[str]:
    """The names of accelerators that can be told apart inside a longer name, the longest first."""
    every = {*catalog.paths("accelerators"), *catalog.names("accelerators")}
    telling = {one for one in every if len(one) > 1 and re.search(r"[a-z]", one) and re.search(r"\d", one)}
    return sorted(telling, key=lambda one: (-len(one), one))


__all__ = [
    "Reading", "attached", "bare", "family_of", "flat", "reading", "spelled_out", "splits", "without_manner", "without_terms",
]  # fmt: skip
