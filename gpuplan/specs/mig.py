"""What does a slice of a card by NVIDIA's multi-instance GPU (MIG) mean: `a100-40gb:1g.5gb`, `h100 3g.40gb`?

NVIDIA, Multi-Instance GPU User Guide, "Introduction" and "Supported MIG Profiles",
https://docs.nvidia.com/datacenter/tesla/mig-user-guide: an instance has streaming multiprocessors and slices of memory, with
their share of L2 and of bandwidth, to itself; "Application Considerations": no peer-to-peer between instances, so that each is
a GPU of its own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuplan.errors import Note, Problem, UnknownError, UsageError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.fabric import host_link_of
from gpuplan.specs.target import Cut, Target, Unjoined
from gpuplan.term import Source, Term

if TYPE_CHECKING:
    from gpuplan.specs.accelerator import Accelerator, MigProfile

_SLICE = re.compile(
    r"^(?:nvidia\.com/|(?:gres[:/=])?gpu:)?(?P<card>.*?)[\s:._-]*(?:\bmig[\s:._-]*)?(?<![0-9a-z])(?P<profile>[1-7]g\.\d{1,3}gb)(?:[.+-](?:me|gfx|all))*(?::\d{1,3})?\s*$",
    re.IGNORECASE,
)
_TOLD = 4
_MEMORY = re.compile(r"(?<![0-9a-z])\d+\s?g(?:i?b)?(?![0-9a-z])", re.IGNORECASE)
"""A memory in the name of a card."""
_MIG = re.compile(r"(?:^|[\s:._-])mig$", re.IGNORECASE)


def profile_in(name: str) -> tuple[str, str] | None:
    """The card and the profile in the name of a slice, the card empty where none is named; None: it is no slice.

    >>> profile_in("a100-40gb:1g.5gb"), profile_in("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb"), profile_in("nvidia.com/mig-1g.10gb")
    (('a100-40gb', '1g.5gb'), ('NVIDIA-A100-SXM4-80GB', '3g.40gb'), ('', '1g.10gb'))
    >>> profile_in("h100"), profile_in("g4g.40gb")
    (None, None)
    """
    found = _SLICE.match(name.strip())
    return (_MIG.sub("", found["card"]).strip(), found["profile"].lower()) if found else None


def target_of_slice(text: str, units: int, name: str, catalog: Catalog) -> Target | None:
    """So many slices of a card as `text` asks for them; None where the name is not that of a slice.

    Raises:
        UnknownError: no card is named, nothing is called what is, or no such card has the profile.
        UsageError: what is named is more than one accelerator.
        SpecError: a data file is wrong.
    """
    said = profile_in(name)
    if said is None:
        return None
    named, profile = said
    if not named:
        raise _no_card(profile, catalog)
    from gpuplan.specs.on import parse_target

    whole = parse_target(named, catalog)
    if whole.count != 1 or whole.share != 1 or whole.local:
        what = f"`{name}`: a MIG slice is of one accelerator, and `{named}` is {whole.count} x {whole.accelerator.id}"
        raise UsageError(Problem("target.mig", what, f"write `{whole.accelerator.id}:{profile}`, with how many before it"))
    chip = _with_profile(whole.accelerator, profile, catalog, sized=_MEMORY.search(named) is not None)
    return _cut_of(text, units, chip, profile)


def slice_near(chip: Accelerator, memory: float, near: float) -> str | None:
    """The slice of a card whose memory is within the share `near` of so many bytes, that which most fit; None: there is none."""
    fit = [name for name, one in chip.mig.items() if one.memory_share.value < 1 and abs(_named_bytes(name) / memory - 1) <= near]
    best = max(fit, key=lambda name: (chip.mig[name].count.value, chip.mig[name].compute_share.value), default=None)
    return f"{chip.id}:{best}" if best else None


def _named_bytes(profile: str) -> float:
    """The memory in the name of a profile, which NVIDIA prints in GB."""
    return float(profile.partition(".")[2].removesuffix("gb")) * 1e9


def _cut_of(text: str, units: int, chip: Accelerator, profile: str) -> Target:
    cut = cut_of(chip, profile)
    each = int(chip.mig[profile].count.value)
    told = (
        f"{chip.id} {profile}: {cut.compute.value:.3g} of its compute, {cut.bandwidth.value:.3g} of its memory bandwidth and L2 "
        f"and {cut.memory.value / 2**30:.4g} GiB; one card holds {each} such"
    )
    notes = [
        Note("target.mig", told, "others on the card share its power, its copy engines and its link to the host: not counted"),
    ]
    unjoined = None
    if units > 1:
        what = f"nothing joins {units} MIG slices: each is a GPU of its own"
        unjoined = Unjoined(1, UnknownError(Problem("target.mig-apart", what, "ask for one, or for replicas")))
    return Target(
        text=text, accelerator=chip, count=units, units=units, per_unit=1, host_link=host_link_of(chip, None),
        notes=tuple(notes), share=float(cut.bandwidth.value), cut=cut, unjoined=unjoined,
    )  # fmt: skip


def cut_of(chip: Accelerator, profile: str) -> Cut:
    """What an instance of a profile has of a card; the compute units as the driver counts them, otherwise NVIDIA's share of all."""
    one: MigProfile = chip.mig[profile]
    compute = chip.term("mig.compute_share", one.compute_share)
    if one.units is not None and chip.units is not None:
        said = Source("derived", f"{one.units.text} of {chip.units.count.text} compute units, as the driver lists them")
        compute = Term("mig.compute_share", one.units.value / chip.units.count.value, "1", said)
    return Cut(
        profile=profile, compute=compute, bandwidth=chip.term("mig.memory_share", one.memory_share),
        memory=chip.term("hw.memory_capacity", one.memory),
    )  # fmt: skip


def _with_profile(chip: Accelerator, profile: str, catalog: Catalog, *, sized: bool) -> Accelerator:
    """The card that has a profile: the one named, or the same with another memory, unless its own was said (`sized`).

    Raises:
        UnknownError: none has it.
    """
    if profile in chip.mig:
        return chip
    others = [one for one in _cut_cards(catalog) if one.id.split("-")[0] == chip.id.split("-")[0] and profile in one.mig]
    # An SXM of another memory goes before a PCIe card: the form of what was named counts.
    found = min(others, key=lambda one: (one.form_factor != chip.form_factor, one.id), default=None)
    if found is not None and not sized:
        return found
    has = ", ".join(f"`{one}`" for one in chip.mig)
    what = f"{chip.id} has no MIG profile `{profile}`" if has else f"{chip.id} can not be cut by MIG, as far as is on record"
    raise UnknownError(Problem("target.mig", what, f"it has {has}" if has else f"cards that have it: {_holders(profile, catalog)}"))


def _no_card(profile: str, catalog: Catalog) -> UnknownError:
    what = f"`{profile}` is a MIG slice, and its name does not say of which card"
    holders = _holders(profile, catalog)
    hint = f"name the card before it: {holders}" if holders else "no card on record has it"
    return UnknownError(Problem("target.mig", what, hint))


def _holders(profile: str, catalog: Catalog) -> str:
    """The slices of a profile on the first cards that have it, those with most memory bandwidth first."""
    having = sorted((one for one in _cut_cards(catalog) if profile in one.mig), key=lambda one: -one.memory.bandwidth.value)
    more = " (others have it too)" if len(having) > _TOLD else ""
    return " or ".join(f"`{one.id}:{profile}`" for one in having[:_TOLD]) + more


def _cut_cards(catalog: Catalog) -> list[Accelerator]:
    """The accelerators whose files have profiles, in the order of their ids."""
    from gpuplan.specs.accelerator import Accelerator

    def read() -> list[Accelerator]:
        idents = sorted(ident for ident, _, text in catalog.texts("accelerators") if "\nmig:" in text)
        return [catalog.load(Accelerator, ident) for ident in idents]

    return catalog.once("cards cut by MIG", read)
