"""Slices of a GPU by MIG: the memory, bandwidth and units of the profile, and nothing that a slice does not have."""

from __future__ import annotations

import pytest

import gpuplan
from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.machine.build import hardware_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target
from tests.sweeps import each

CATALOG = Catalog.open()
CUT = [
    (ident, profile)
    for ident in sorted(CATALOG.paths("accelerators"))
    if "\nmig:\n" in CATALOG.paths("accelerators")[ident].read_text()
    for profile in CATALOG.load(Accelerator, ident).mig
]


@each("part", CUT)
def test_a_slice_has_the_shares_of_its_profile(part: tuple[str, str]) -> None:
    """Bandwidth by the share of memory, rates by that of compute units, memory and units as the card's file has them."""
    ident, name = part
    target = parse_target(f"{ident}-{name}", CATALOG)
    profile = target.accelerator.mig[name]
    whole, slice_ = hardware_of(parse_target(ident, CATALOG), catalog=CATALOG), hardware_of(target, catalog=CATALOG)
    assert slice_.hbm_bandwidth.value == pytest.approx(whole.hbm_bandwidth.value * profile.memory_share.value)
    assert slice_.memory_capacity.value == profile.memory.value <= whole.memory_capacity.value * 1.01
    for dtype, peak in whole.peaks.items():
        assert slice_.peaks[dtype].value == pytest.approx(peak.value * profile.compute_share.value)
    if profile.units is not None:
        assert slice_.sm_count.value == profile.units.value


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("h100-1g.10gb", "h100-sxm-80gb"), ("h100:3g.40gb", "h100-sxm-80gb"), ("a100-1g.5gb", "a100-sxm-40gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "a100-sxm-80gb"), ("h100 mig 2g.20gb", "h100-sxm-80gb"),
    ],
)  # fmt: skip
def test_a_slice_is_named_by_its_card_and_profile(name: str, card: str) -> None:
    """As people write it, and as the label of Kubernetes does; the profile tells the cards of one name apart."""
    target = parse_target(name, CATALOG)
    assert (target.accelerator.id, target.count) == (card, 1)


@pytest.mark.parametrize("name", ["h100-9g.10gb", "rtx-4090-1g.10gb"])
def test_a_profile_that_the_card_does_not_have_is_unknown(name: str) -> None:
    """What it has is told."""
    with pytest.raises(UnknownError, match="has no slice"):
        parse_target(name, CATALOG)


def test_slices_are_not_joined_nor_rented() -> None:
    """They have no links to each other, no price, and are no machine of a plan."""
    with pytest.raises(UsageError, match="no links"):
        parse_target("2xh100-1g.10gb", CATALOG)
    found = gpuplan.serve("llama-3.2-1b", on="h100-1g.10gb")
    assert "usd_per_m_output_tokens" not in found.figures
    assert any("no price of a part" in note.text for note in found.notes)
    with pytest.raises(GpuplanError, match="machines are rented whole"):
        gpuplan.plan_serve("llama-3.2-1b", on="h100-1g.10gb", rate="1/s")


def test_a_slice_is_slower_than_its_card_and_the_whole_profile_as_fast() -> None:
    """A seventh of the units and an eighth of the bandwidth; `7g.80gb` is all of it."""
    one, all_, card = (
        gpuplan.serve("llama-3.2-1b", on=on, batch=1).figures["tpot_s"].value for on in ("h100-1g.10gb", "h100-7g.80gb", "h100")
    )
    assert card == pytest.approx(all_, rel=1e-6)
    assert 4 < one / card < 8
