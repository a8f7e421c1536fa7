"""What does the name of a slice of a GPU mean: a card, and a profile of its multi-instance GPU (MIG) such as `1g.10gb`?"""

from __future__ import annotations

import re

from gpuplan.errors import Note, Problem, UnknownError, UsageError
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.target import Target, counted
from gpuplan.specs.target_by_name import of_accelerator

_PROFILE = re.compile(r"(?P<card>.+?)[-:/]+(?:mig-)?(?P<profile>\d+g\.\d+gb)(?P<more>[+.][a-z]+)*")
"""A card with a profile behind it, as people write it, and as the label `nvidia.com/gpu.product` of Kubernetes does."""


def target_slice(text: str, catalog: Catalog) -> Target | None:
    """The slice of a card that a name means, such as `h100-1g.10gb` or `NVIDIA-A100-SXM4-80GB-MIG-1g.10gb`; None: it names none.

    A slice has its own share of memory, of its bandwidth and of L2, and its own compute units (NVIDIA Multi-Instance GPU User
    Guide, https://docs.nvidia.com/datacenter/tesla/mig-user-guide/, "Concepts" and "Supported MIG Profiles"); the shares of each
    profile are in the card's file. Slices have no links to each other, so that one question is about one of them.

    Raises:
        UsageError: several of them, or the card's name fits several.
        UnknownError: the card has no such profile.
        SpecError: a data file is wrong.
    """
    if re.search(r"\dg\.\d", text) is None:
        return None
    units, name = counted(text)
    found = _PROFILE.fullmatch(key(name))
    if found is None:
        return None
    try:
        whole = of_accelerator(text, 1, found["card"], catalog)
    except UnknownError:
        return None  # What is told of the whole name says more.
    chip, profile = _with_profile(whole.accelerator, found["profile"], catalog), found["profile"]
    if profile not in chip.mig:
        has = f"it has {', '.join(chip.mig)}" if chip.mig else "no card of its kind can be cut into slices (MIG)"
        raise UnknownError(Problem("target.no-slice", f"{chip.id} has no slice {profile}", has))
    one = chip.mig[profile]
    if units > 1:
        what = f"{text}: slices of a card have no links to each other, so that nothing runs on several together"
        raise UsageError(Problem("target.shared-many", what, f"ask for one slice; a card holds {one.count.value:g} of it"))
    share = one.memory_share.value
    told = (
        f"{profile} of {chip.id} is a slice by MIG: {share:.4g} of its memory bandwidth and {one.compute_share.value:.3g} of its "
        f"compute units; a card holds {one.count.value:g} of it"
    )
    notes = tuple(note for note in whole.notes if note.code != "target.taken-as")
    return whole.replaced(text=text, accelerator=chip, share=float(share), mig=profile, notes=(*notes, Note("target.mig", told)))


def _with_profile(chip: Accelerator, profile: str, catalog: Catalog) -> Accelerator:
    """The card of a name: itself where it has the profile, or else the only one of its kind and family that has.

    `a100` alone is the card of 80 GB, of which nobody cuts a `1g.5gb`: the profile tells the cards of one name apart by memory.
    """
    if profile in chip.mig:
        return chip
    kin = [one for ident in sorted(catalog.paths("accelerators")) if ident.startswith(f"{chip.id.rpartition('-')[0]}-")
           for one in (catalog.load(Accelerator, ident),) if profile in one.mig]  # fmt: skip
    return kin[0] if len(kin) == 1 else chip
