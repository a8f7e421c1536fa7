"""Catalogs of other projects: what is right arrives with date and source, and each known fault is flagged or refused."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpuplan.check.examine import check
from gpuplan.errors import SpecError, UsageError
from gpuplan.prices.accelerator_names import AcceleratorNames
from gpuplan.prices.importer import ImportOutcome, ImportRequest, import_gpuhunt, import_skypilot
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.offers import Terms, offers_of, price_for
from gpuplan.specs.on import parse_target
from gpuplan.specs.price import OfferEntry, PriceList
from gpuplan.specs.target_by_name import find_instance
from tests.specs.shared_data import FOLDER

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
SAMPLE = FOLDER / "skypilot-sample"
HEADS = {
    "aws": "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch",
    "gcp": "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice",
    "azure": "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,Generation",
    "lambda": "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice",
    "runpod": "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Region,SpotPrice,Price,AvailabilityZone,GpuInfo",
}
HUNT = (
    "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor,flags,cpu_arch,provider_data"
)
DAY = "2026-11-20"


def info(name: str, count: int, mib: float, total: float | None = None) -> str:
    gpu = f"{{'Name': '{name}', 'Manufacturer': 'X', 'Count': {count}, 'MemoryInfo': {{'SizeInMiB': {mib}}}}}"
    return f"\"{{'Gpus': [{gpu}], 'TotalGpuMemoryInMiB': {mib * count if total is None else total}}}\""


H100 = info("H100", 8, 81920)


def sky(
    tmp_path: Path, provider: str, *rows: str, **wanted: object
) -> tuple[ImportOutcome, dict[tuple[str, str, str], OfferEntry]]:
    """What comes of importing a small file, and the current entries that were written."""
    path = tmp_path / f"{provider}-vms.csv"
    path.write_text("\n".join([HEADS[provider], *rows]) + "\n", encoding="utf-8")
    return _done(tmp_path, provider, import_skypilot(path, tmp_path / "own", CATALOG, ImportRequest(**{"date": DAY, **wanted})))  # type: ignore[arg-type]


def hunt(tmp_path: Path, provider: str, *rows: str) -> tuple[ImportOutcome, dict[tuple[str, str, str], OfferEntry]]:
    path = tmp_path / f"{provider}.csv"
    path.write_text("\n".join([HUNT, *rows]) + "\n", encoding="utf-8")
    return _done(tmp_path, provider, import_gpuhunt(path, tmp_path / "own", CATALOG, ImportRequest(date=DAY)))


def _done(tmp_path: Path, provider: str, made: ImportOutcome) -> tuple[ImportOutcome, dict[tuple[str, str, str], OfferEntry]]:
    written = load_spec(PriceList, tmp_path / "own" / "prices" / f"{provider}.yaml")
    return made, {(one.instance, one.region, one.kind): one for one in written.offers}


def codes(made: ImportOutcome, line: int | None = None) -> set[str]:
    return {flag.code.removeprefix("price.") for flag in made.flags if line is None or line in flag.lines}


def usd(entry: OfferEntry) -> float:
    assert entry.price is not None
    return round(entry.price.value * 3600, 6)


def test_a_right_row_becomes_a_price_with_date_and_source(tmp_path: Path) -> None:
    row = f"p5.48xlarge,H100,8.0,192.0,2048.0,{H100},55.04,18.1597,us-east-1,use1-az3,x86_64"
    made, entries = sky(tmp_path, "aws", row, commit="0082b043")
    assert made.flags == ()
    assert usd(entries["p5.48xlarge", "us-east-1", "on_demand"]) == 55.04
    assert usd(entries["p5.48xlarge", "us-east-1", "spot"]) == 18.1597
    own = Catalog([*CATALOG.folders, tmp_path / "own"])
    offer = price_for(parse_target("aws:p5.48xlarge", own), own)
    assert offer.date == DAY
    assert offer.price is not None
    assert offer.price.source.title == "SkyPilot catalog: aws, aws-vms.csv, commit 0082b043, read 2026-11-20"
    assert offer.price.source.url.endswith("/tree/0082b043")
    assert check([tmp_path / "own"]) == []
    # The others of the shipped list are still there.
    assert price_for(parse_target("aws:p4d.24xlarge", own), own).date != DAY


def good(zone: str = "use1-az1", price: str = "55.04", spot: str = "", region: str = "us-east-1") -> str:
    return f"p5.48xlarge,H100,8.0,192.0,2048.0,{H100},{price},{spot},{region},{zone},x86_64"


GOOD = good(region="eu-north-1", zone="eun1-az1")
AWS_FAULTS = {
    "zero": (good(price="0"), "zero"),
    "negative": (good(price="-55.04"), "negative"),
    "nan": (good(price="NaN"), "not-a-number"),
    "infinite": (good(price="inf"), "not-a-number"),
    "word": (good(price="on request"), "not-a-number"),
    "euro": (good(price="€55.04"), "currency"),
    "blank": (good(price=""), "blank"),
    "sentinel": (good(price="700.0"), "sentinel"),
    "nines": (good(price="99999"), "sentinel"),
    "spot above": (good(spot="60.1"), "spot-above-on-demand"),
    "one of eight": (good(price="6.88"), "per-accelerator"),
    "a dedicated host": (good(price="649.1"), "far-from-record"),
    "a fifth": (good(price="20.0"), "far-from-record"),
    "local zone": (good(zone="use1-atl2-az1"), "local-zone"),
    "too few columns": ("p5.48xlarge,H100,8.0", "malformed"),
    "no count": (f"p5.48xlarge,H100,eight,192.0,2048.0,{H100},55.04,,us-east-1,use1-az1,x86_64", "malformed"),
    "unknown accelerator": ("p99.xlarge,Z900,8.0,192,2048,,55.04,,us-east-1,use1-az1,x86_64", "unknown-accelerator"),
    "ambiguous accelerator": (f"p99.xlarge,H100,8.0,192,2048,{H100},25.04,,us-east-1,use1-az1,x86_64", "ambiguous-accelerator"),
    "odd count": ("p99.xlarge,L40S,12.0,192,2048,,25.04,,us-east-1,use1-az1,x86_64", "count"),
    "a fraction": ("g99f.large,L4,0.125,2,8,,0.2,,us-east-1,use1-az1,x86_64", "fraction"),
}


@pytest.mark.parametrize("name", AWS_FAULTS)
def test_a_fault_of_a_row_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    row, code = AWS_FAULTS[name]
    made, entries = sky(tmp_path, "aws", GOOD, row)
    flags = [flag for flag in made.flags if flag.code == f"price.{code}"]
    assert [flag.lines for flag in flags] == [(3,)]
    assert flags[0].refused
    assert flags[0].where().endswith("aws-vms.csv:3")
    assert [key[1] for key in entries] == ["eu-north-1"]
    with pytest.raises(SpecError, match=r".") as caught:
        import_skypilot(tmp_path / "aws-vms.csv", tmp_path / "strict", CATALOG, ImportRequest(date=DAY, strict=True))
    assert f"price.{code}" in {problem.code for problem in caught.value.problems}
    assert not (tmp_path / "strict").exists()


def test_zones_give_the_middle_of_spot_and_must_agree_on_demand(tmp_path: Path) -> None:
    rows = [good(zone=f"use1-az{at}", spot=spot) for at, spot in enumerate(("18.0", "17.0", "55.04", "25.0"))]
    rows += [good(zone="usw2-az1", region="us-west-2"), good(zone="usw2-az2", region="us-west-2", price="57")]
    made, entries = sky(tmp_path, "aws", *rows)
    spot = entries["p5.48xlarge", "us-east-1", "spot"]
    assert usd(spot) == 18.0
    assert "17 to 25 USD/h" in spot.note
    assert codes(made, 4) == {"spot-is-on-demand"}
    assert codes(made, 6) == codes(made, 7) == {"zones-disagree"}
    assert {key[1] for key in entries} == {"us-east-1"}


def test_duplicates_count_once(tmp_path: Path) -> None:
    made, entries = sky(tmp_path, "aws", GOOD, GOOD)
    assert codes(made, 3) == {"duplicate"}
    assert len(entries) == 1


def part(name: str, count: int, zone: str, price: str, spot: str = "", mib: int = 81920) -> str:
    region = zone.rpartition("-")[0]
    return f",,,{name},{count},{{'Gpus': [{{'MemoryInfo': {{'SizeInMiB': {mib}}}}}]}},{region},{zone},{price},{spot}"


def host(name: str, zone: str, price: str, spot: str = "") -> str:
    return f"{name},96.0,1360.0,,,,{zone.rpartition('-')[0]},{zone},{price},{spot}"


def test_google_hosts_and_accelerators_are_added_in_their_zone(tmp_path: Path) -> None:
    zone = "us-central1-a"
    made, entries = sky(
        tmp_path, "gcp", host("a2-megagpu-16g", zone, "8.79698", "4.39824"), part("A100", 16, zone, "46.94253", "22.9456", 40960)
    )
    assert made.flags == ()
    entry = entries["a2-megagpu-16g", "us-central1", "on_demand"]
    assert usd(entry) == 55.73951
    assert "local SSD is not included" in entry.note
    assert usd(entries["a2-megagpu-16g", "us-central1", "spot"]) == 27.34384


def test_google_parts_alone_and_prices_of_other_products_are_refused(tmp_path: Path) -> None:
    rows = [
        host("a2-ultragpu-1g", "us-east5-a", "1.09962", "0.31"),  # 2
        part("A100-80GB", 1, "us-east5-a", "4.4242", "1.3356"),  # 3
        host("a2-ultragpu-1g", "us-central1-a", "1.09962"),  # 4: its accelerators follow, with spot above on demand
        part("A100-80GB", 1, "us-central1-a", "1.8462", "1.964"),  # 5
        part("H100", 1, "us-central1-a", "4.20076", "2.9926"),  # 6: the first SKU whose text fits
        host("a3-highgpu-1g", "us-east4-a", "1.18251", "0.36117"),  # 7
        part("H100", 1, "us-east4-a", "9.79655", "2.2356"),  # 8
        part("B200", 8, "us-central1-b", "90.216", "32.6064", 183359),  # 9: not sold on demand
        part("B200", 8, "us-east4-b", "64.44", "32.6064", 183359),  # 10: 90.216 / 1.4
        part("V100", 8, "us-central1-a", "19.84", "8.708", 16384),  # 11: no host
        host("g2-standard-4", "us-central1-a", "0.15"),  # 12: no accelerator
    ]
    made, entries = sky(tmp_path, "gcp", *rows)
    assert codes(made, 2) == codes(made, 3) == set()
    assert codes(made, 4) == {"host-only"}
    assert codes(made, 5) == {"spot-above-on-demand"}
    assert codes(made, 6) == {"first-sku"}
    assert codes(made, 8) == codes(made, 9) == {"not-on-demand"}
    assert codes(made, 10) == {"reduced-rate"}
    assert codes(made, 11) == {"part-only"}
    assert codes(made, 12) == {"host-only"}
    assert {key[:2] for key in entries} == {
        ("a2-ultragpu-1g", "us-east5"), ("a3-highgpu-1g", "us-east4"), ("a4-highgpu-8g", "us-central1"),
    }  # fmt: skip
    assert entries["a4-highgpu-8g", "us-central1", "on_demand"].status == "doubtful"
    assert entries["a4-highgpu-8g", "us-central1", "spot"].status == "current"


def test_tpu_rows_are_whole_slices(tmp_path: Path) -> None:
    def tpu(name: str, zone: str, price: str, spot: str, count: int = 1) -> str:
        return f",,,tpu-{name},{count},tpu-{name},{zone.rpartition('-')[0]},{zone},{price},{spot}"

    rows = [
        tpu("v5litepod-8", "us-central1-a", "9.6", "1.95941"),
        tpu("v6e-256", "us-central1-a", "691.2", "139.31725"),
        tpu("v6e-1", "asia-east1-c", "700.0", "700.0"),
        tpu("v6e-1", "southamerica-west1-a", "2.7", "700.0"),
        tpu("v4-1664", "us-central2-b", "2679.04", "766.688"),
        tpu("v4-8", "us-central2-b", "12.88", "3.686"),
        tpu("v4-8", "us-central2-b", "12.88", "3.686"),
        tpu("v5p-8", "us-east5-a", "16.8", "", 4),
    ]
    made, entries = sky(tmp_path, "gcp", *rows)
    assert usd(entries["v6e-256", "us-central1", "on_demand"]) == 691.2
    assert codes(made, 4) == codes(made, 5) == {"sentinel"}
    assert usd(entries["v6e-1", "southamerica-west1", "on_demand"]) == 2.7
    assert ("v6e-1", "southamerica-west1", "spot") not in entries
    assert not any(key[1] == "asia-east1" for key in entries)
    assert codes(made, 6) == {"unknown-slice"}
    assert codes(made, 8) == {"duplicate"}
    assert codes(made, 9) == {"count"}
    assert usd(entries["v5p-8", "us-east5", "on_demand"]) == 16.8


def test_azure_counts_promotions_blanks_and_retired_sizes(tmp_path: Path) -> None:
    rows = [
        "Standard_ND96isr_H100_v5,H100,12,96.0,1900,H100,98.32,98.32,eastus,V2",
        "Standard_NC6_Promo,K80,1,6.0,56,K80,0.18,,westus2,V1",
        'Standard_NC16ads_A10_v4,,,16.0,200,,,,eastus,"V1,V2"',
        "Standard_NC6,K80,1,6.0,56,K80,0.9,0.099,westus2,V1",
        "Standard_NC40ads_H100_v5,H100,1,40.0,320,H100,6.98,1.5,eastus,V2",
        "Standard_D4s_v5,,,4.0,16,,0.192,0.02,eastus,V2",
    ]
    made, entries = sky(tmp_path, "azure", *rows)
    assert codes(made, 2) == {"count", "spot-is-on-demand"}
    assert usd(entries["Standard_ND96isr_H100_v5", "eastus", "on_demand"]) == 98.32
    assert codes(made, 3) == {"promo"}
    assert codes(made, 4) == {"no-accelerator-name", "blank"}
    assert codes(made, 5) == {"retired"}
    assert entries["Standard_NC6", "westus2", "on_demand"].status == "historical"
    assert codes(made, 6) == {"accelerator-differs"}
    assert codes(made, 7) == set()
    assert not any("Promo" in key[0] or "D4s" in key[0] for key in entries)


def test_units_of_memory_and_new_instances(tmp_path: Path) -> None:
    gib = info("A100 PCIe", 2, 80)
    made, entries = sky(
        tmp_path, "runpod",
        f"1x_A100-80GB_TIER3,A100-80GB,1.0,8.0,117.0,US,1.39,1.39,US-CA-1,{info('A100 PCIe', 1, 80)}",
        f"2x_A100-80GB_TIER3,A100-80GB,2.0,16.0,234.0,US,2.78,2.78,US-CA-1,{gib}",
    )  # fmt: skip
    assert {"memory-unit", "spot-is-on-demand"} == codes(made, 2) == codes(made, 3)
    family = load_spec(InstanceFamily, tmp_path / "own" / "instances" / "runpod" / "imported.yaml")
    one, two = family.instances
    assert (one.accelerator, one.accelerators.value, one.vcpus) == ("a100-pcie-80gb", 1.0, 8)
    assert two.accelerators.value == 2
    assert "assumed" in two.notes[0]
    assert usd(next(iter(entries.values()))) in (1.39, 2.78)
    assert check([tmp_path / "own"]) == []
    own = Catalog([*CATALOG.folders, tmp_path / "own"])
    assert find_instance("runpod:2x_A100-80GB_TIER3", own) is not None


def test_an_instance_that_is_shipped_later_is_not_ambiguous(tmp_path: Path) -> None:
    sky(tmp_path, "runpod", f"1x_A100-80GB_TIER3,A100-80GB,1.0,8.0,117.0,US,,1.39,US-CA-1,{info('A100 PCIe', 1, 80)}")
    place = tmp_path / "shipped" / "instances" / "runpod"
    place.mkdir(parents=True)
    text = (tmp_path / "own" / "instances" / "runpod" / "imported.yaml").read_text(encoding="utf-8")
    (place / "pods.yaml").write_text(text.replace("id: imported", "id: pods"), encoding="utf-8")
    found = find_instance("runpod:1x_A100-80GB_TIER3", Catalog([*CATALOG.folders, tmp_path / "shipped", tmp_path / "own"]))
    assert found is not None
    assert found.family.id == "imported"


def test_lambda_totals_and_one_price_for_all_regions(tmp_path: Path) -> None:
    rows = [
        f"gpu_8x_b200_sxm6,B200,8.0,208.0,2900.0,53.52,{region},{info('B200', 8, 184320, 184320)},"
        for region in ("us-east-1", "europe-central-1")
    ]
    made, entries = sky(tmp_path, "lambda", *rows)
    assert codes(made, 2) == {"total-memory"}
    assert [key[1] for key in entries] == ["any"]


def test_host_memory_in_gb_as_gib(tmp_path: Path) -> None:
    memory = 2048 * 1e9 / 2**30
    made, _ = sky(tmp_path, "aws", f"p5.48xlarge,H100,8.0,192.0,{memory},{H100},55.04,,us-east-1,use1-az3,x86_64")
    assert codes(made) == {"host-memory"}


def test_a_region_far_from_all_others(tmp_path: Path) -> None:
    def row(region: str, price: str) -> str:
        return f"gpu_1x_z,A10,1.0,30.0,200.0,{price},{region},{info('A10', 1, 24576)},"

    made, _ = sky(tmp_path, "lambda", row("a", "0.75"), row("b", "0.76"), row("c", "0.77"), row("d", "2.4"))
    assert codes(made, 5) & {"far-from-kin", "far-from-record"}


def test_strange_files_are_refused_whole(tmp_path: Path) -> None:
    other = tmp_path / "aws-vms.csv"
    other.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(SpecError, match="columns InstanceType"):
        import_skypilot(other, tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    with pytest.raises(SpecError, match="columns instance_name"):
        import_gpuhunt(other, tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    (tmp_path / "empty").mkdir()
    with pytest.raises(SpecError, match="has no"):
        import_skypilot(tmp_path / "empty", tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    other.write_text(f"{HEADS['aws']}\nm5.large,,,2,8,,0.096,,us-east-1,use1-az1,x86_64\n", encoding="utf-8")
    with pytest.raises(SpecError, match="no price of an accelerator"):
        import_skypilot(other, tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    assert not (tmp_path / "own").exists()


def test_marks_and_line_ends_of_spreadsheets(tmp_path: Path) -> None:
    path = tmp_path / "aws-vms.csv"
    path.write_bytes(f"\ufeff{HEADS['aws']}\r\n{good(price='$55.04')}\r\n".encode())
    made = import_skypilot(path, tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    assert [offer.usd_per_hour for offer in made.gathered[0].offers] == [55.04]


def test_a_folder_takes_the_newest_version_of_a_provider(tmp_path: Path) -> None:
    for version, price in (("v7", "60"), ("v8", "55.04")):
        place = tmp_path / "catalogs" / version / "aws"
        place.mkdir(parents=True)
        (place / "vms.csv").write_text(f"{HEADS['aws']}\n{good(price=price)}\n", encoding="utf-8")
    made = import_skypilot(tmp_path / "catalogs", tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    assert [offer.usd_per_hour for one in made.gathered for offer in one.offers] == [55.04]


def test_what_is_on_record_is_kept_and_said(tmp_path: Path) -> None:
    place = tmp_path / "own" / "prices" / "aws.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(
        "# my own notes\nformat: 1\nid: aws\nname: Ours\nsources:\n"
        "  contract: {title: our contract, checked: 2026-10-01, kind: user}\n"
        "  web: {title: AWS, url: 'https://aws.amazon.com/ec2/pricing', checked: 2026-10-01, kind: price}\n"
        "default_region: us-west-2\noffers:\n"
        "  - {instance: p5.48xlarge, region: us-east-1, kind: on_demand, price: 40 USD/h, date: 2026-10-01, source: contract}\n"
        "  - {instance: p5.48xlarge, region: us-west-2, kind: on_demand, price: 60 USD/h, date: 2026-10-20, source: web}\n"
        "  - {instance: p4d.24xlarge, region: us-west-2, kind: on_demand, price: 22 USD/h, date: 2026-10-01, source: web}\n",
        encoding="utf-8",
    )
    made, _ = sky(tmp_path, "aws", good(), good(zone="usw2-az1", region="us-west-2"))
    (merged,) = made.merged
    assert (merged.new, merged.changed, merged.historical, merged.kept, merged.comments) == (1, 1, 1, 2, True)
    assert "# my own notes" in place.with_name("aws.yaml.bak").read_text(encoding="utf-8")
    written = load_spec(PriceList, place)
    assert written.default_region == "us-west-2"
    assert [(usd(one), one.region, one.status) for one in written.offers] == [
        (22, "us-west-2", "current"), (40, "us-east-1", "current"), (55.04, "us-east-1", "current"),
        (60, "us-west-2", "historical"), (55.04, "us-west-2", "current"),
    ]  # fmt: skip
    again = import_skypilot(tmp_path / "aws-vms.csv", tmp_path / "own", CATALOG, ImportRequest(date=DAY)).merged[0]
    assert (again.new, again.changed, again.same, again.historical) == (0, 0, 2, 0)
    own = Catalog([*CATALOG.folders, tmp_path / "own"])
    instance = find_instance("aws:p5.48xlarge", own)
    assert instance is not None
    assert {offer.rank for offer in offers_of(instance, own)} == {0, 1}
    target = parse_target("aws:p5.48xlarge", own)
    from datetime import date

    before = price_for(target, own, Terms(region="us-west-2", on=date(2026, 11, 1)))
    assert usd(before.entry) == 60


def test_nothing_is_left_behind_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuplan.files import write

    sky(tmp_path, "aws", good())
    place = tmp_path / "own" / "prices" / "aws.yaml"
    before = place.read_bytes()

    def fails(source: object, target: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(write.os, "replace", fails)
    with pytest.raises(UsageError, match="disk full"):
        import_skypilot(tmp_path / "aws-vms.csv", tmp_path / "own", CATALOG, ImportRequest(date="2026-11-21"))
    assert place.read_bytes() == before
    assert [one.name for one in (tmp_path / "own").iterdir()] == ["prices"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "aws-vms.csv"
    path.write_text(f"{HEADS['aws']}\n{good()}\n", encoding="utf-8")
    made = import_skypilot(path, tmp_path / "own", CATALOG, ImportRequest(date=DAY, dry=True))
    assert made.merged == ()
    assert made.gathered[0].offers
    assert not (tmp_path / "own").exists()


GPUHUNT_FAULTS = {
    "p5.48xlarge,us-west-2,6.88,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}": "per-accelerator",
    "p5.48xlarge,us-west-2,0,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}": "zero",
    "p5.48xlarge,us-west-2,,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}": "blank",
    "p5.48xlarge,us-west-2,nan,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}": "not-a-number",
    "p5.48xlarge,us-west-2,55 EUR,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}": "currency",
    "p5.48xlarge,us-west-2,700.0,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}": "sentinel",
    "p5.48xlarge,us-west-2,55.04,192,2048.0,8,H100,80.0,perhaps,,nvidia,,x86,{}": "malformed",
    "p5.48xlarge,us-west-2,55.04,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{not json": "malformed",
    "p5.48xlarge,us-west-2": "malformed",
    "new.large,us-west-2,3.1,26,225,1,H100,80,False,,nvidia,,x86,{}": "ambiguous-accelerator",
    "new.large,us-west-2,3.1,26,225,1,ZZ100,80,False,,nvidia,,x86,{}": "unknown-accelerator",
}


@pytest.mark.parametrize("row", GPUHUNT_FAULTS)
def test_gpuhunt_faults_are_refused_with_their_line(tmp_path: Path, row: str) -> None:
    right = "p5.48xlarge,us-east-1,55.04,192,2048.0,8,H100,80.0,False,,nvidia,,x86,{}"
    made, entries = hunt(tmp_path, "aws", right, row)
    assert codes(made, 3) == {GPUHUNT_FAULTS[row]}
    assert [key[1] for key in entries] == ["us-east-1"]


def test_gpuhunt_offers_are_whole_and_spot_has_rows_of_its_own(tmp_path: Path) -> None:
    made, entries = hunt(
        tmp_path, "gcp",
        "a2-ultragpu-1g,us-central1-a,5.0688,12,170.0,1,A100,80.0,False,375.0,nvidia,,x86,{}",
        "a2-ultragpu-1g,us-central1-a,2.75955,12,170.0,1,A100,80.0,True,375.0,nvidia,,x86,{}",
        "v5litepod-8,us-central1-a,9.6,224,384.0,1,v5litepod,128.0,False,,google,,x86,{}",
        "v4-8,us-central2-b,12.88,224,384.0,1,v4,128.0,False,,google,,x86,{}",
        "v4-8,us-central2-b,14.744,224,384.0,1,v4,128.0,True,,google,,x86,{}",
        "v5p-8,us-east5-a,16.8,224,384.0,1,v5p,95.0,False,,google,,x86,{}",
        'a4-highgpu-8g,us-east4-b,64.44,224,3968,8,B200,180,False,,nvidia,gcp-a4,x86,"{""is_dws_calendar_mode"": true}"',
        "g2-standard-4,us-central1-a,0.70683,4,16,1,L4,22888,False,,nvidia,,x86,{}",
    )  # fmt: skip
    assert usd(entries["a2-ultragpu-1g", "us-central1", "on_demand"]) == 5.0688
    assert usd(entries["a2-ultragpu-1g", "us-central1", "spot"]) == 2.75955
    assert usd(entries["v5litepod-8", "us-central1", "on_demand"]) == 9.6
    assert codes(made, 5) == codes(made, 6) == {"spot-above-on-demand"}
    assert not any(key[0] == "v4-8" for key in entries)
    assert codes(made, 7) == {"total-memory"}
    assert codes(made, 8) == {"reduced-rate"}
    assert ("a4-highgpu-8g", "us-east4", "capacity_block") in entries
    assert codes(made, 9) == {"memory-unit"}


def test_gpuhunt_archives_and_names_of_providers(tmp_path: Path) -> None:
    place = tmp_path / "catalog.zip"
    with zipfile.ZipFile(place, "w") as packed:
        packed.writestr("lambdalabs.csv", f"{HUNT}\ngpu_1x_a10,us-east-1,0.75,30,200,1,A10,24,False,,nvidia,,x86,{{}}\n")
    made = import_gpuhunt(place, tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    assert [one.provider for one in made.gathered] == ["lambda"]
    (tmp_path / "vms.csv").write_text(f"{HUNT}\n", encoding="utf-8")
    with pytest.raises(SpecError, match="whose prices"):
        import_gpuhunt(tmp_path / "vms.csv", tmp_path / "own", CATALOG, ImportRequest(date=DAY))


@pytest.mark.parametrize(
    ("name", "gib", "hints", "ids"),
    [
        ("H100", 80, "gpu_1x_h100_pcie", ["h100-pcie-80gb"]),
        ("H100", 80, "", ["h100-pcie-80gb", "h100-sxm-80gb"]),
        ("H100NVL", 94, "", ["h100-nvl-94gb"]),
        ("A100", 40, "sxm4", ["a100-sxm-40gb"]),
        ("A100-80GB", None, "A100 PCIe", ["a100-pcie-80gb"]),
        ("V100", 16, "", ["v100-pcie-16gb", "v100-sxm2-16gb"]),
        ("K80", 12, "", ["k80-die"]),
        ("L4", 22888 / 1024, "", ["l4"]),
        ("L40S", 48, "", ["l40s"]),
        ("A10G", 22888 / 1024, "", ["a10g"]),
        ("B200", 180, "", ["b200-sxm-180gb"]),
        ("GH200", 96, "", ["gh200-96gb"]),
        ("Z900", 80, "", []),
    ],
)
def test_names_of_accelerators(name: str, gib: float | None, hints: str, ids: Sequence[str]) -> None:
    assert sorted(AcceleratorNames(CATALOG).candidates(name, gib * 2**30 if gib else None, hints)) == ids


def test_thousands_of_rows_come_to_one_offer_a_region_and_kind(tmp_path: Path) -> None:
    rows = []
    for at in range(5_000):
        zone, region = f"use1-az{at}", f"us-east-{at // 5 % 20}"
        rows.append(
            good(zone=zone, region=region, spot="18.1") if at % 5 == 0 else f"m5.large,,,2,8,,0.096,0.03,{region},{zone},x86_64"
        )
    path = tmp_path / "aws-vms.csv"
    path.write_text("\n".join([HEADS["aws"], *rows]) + "\n", encoding="utf-8")
    made = import_skypilot(path, tmp_path / "own", CATALOG, ImportRequest(date=DAY))
    assert len(made.gathered[0].offers) == 40


# What is known to be wrong in the sample, by the code meant for it: file, code, and one of its lines.
PLANTED = [
    ("aws-vms.csv", "spot-is-on-demand", 21), ("aws-vms.csv", "local-zone", 20),
    ("azure-vms.csv", "promo", 28), ("azure-vms.csv", "blank", 7), ("azure-vms.csv", "no-accelerator-name", 32),
    ("azure-vms.csv", "no-accelerator-name", 42), ("azure-vms.csv", "count", 37), ("azure-vms.csv", "accelerator-differs", 20),
    ("azure-vms.csv", "fraction", 54), ("azure-vms.csv", "spot-is-on-demand", 38), ("azure-vms.csv", "retired", 25),
    ("azure-vms.csv", "blank", 47), ("azure-vms.csv", "blank", 34),
    ("gcp-vms.csv", "host-only", 2), ("gcp-vms.csv", "host-only", 36), ("gcp-vms.csv", "part-only", 94),
    ("gcp-vms.csv", "first-sku", 47), ("gcp-vms.csv", "first-sku", 66), ("gcp-vms.csv", "spot-above-on-demand", 48),
    ("gcp-vms.csv", "spot-above-on-demand", 54), ("gcp-vms.csv", "reduced-rate", 65), ("gcp-vms.csv", "not-on-demand", 64),
    ("gcp-vms.csv", "duplicate", 129), ("gcp-vms.csv", "duplicate", 157), ("gcp-vms.csv", "sentinel", 174),
    ("gcp-vms.csv", "sentinel", 175), ("gcp-vms.csv", "sentinel", 176), ("gcp-vms.csv", "unknown-slice", 138),
    ("lambda-vms.csv", "total-memory", 10), ("lambda-vms.csv", "ambiguous-accelerator", 3),
    ("runpod-vms.csv", "memory-unit", 2), ("runpod-vms.csv", "spot-is-on-demand", 2),
]  # fmt: skip


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> tuple[ImportOutcome, Path]:
    if not SAMPLE.is_dir():
        pytest.skip("no sample of the catalogs beside the checkout")
    folder = tmp_path_factory.mktemp("sample")
    return import_skypilot(SAMPLE, folder, CATALOG, ImportRequest(date=DAY)), folder


@pytest.mark.parametrize(("file", "code", "line"), PLANTED)
def test_the_faults_of_the_sample_are_flagged(sample: tuple[ImportOutcome, Path], file: str, code: str, line: int) -> None:
    found = {flag.code for flag in sample[0].flags if flag.file.endswith(f"/{file}") and line in flag.lines}
    assert f"price.{code}" in found


def test_the_sample_is_read_and_no_fault_gets_into_a_price(sample: tuple[ImportOutcome, Path]) -> None:
    made, folder = sample
    assert {one.provider for one in made.gathered} == {"aws", "azure", "gcp", "lambda", "nebius", "oci", "runpod"}
    assert [found for found in check([folder]) if found.severity == "error"] == []
    lists = {one.provider: load_spec(PriceList, folder / "prices" / f"{one.provider}.yaml") for one in made.gathered}
    prices = {(name, one.instance, one.region, one.kind): one for name, listed in lists.items() for one in listed.offers}
    assert usd(prices["gcp", "a2-megagpu-16g", "us-central1", "on_demand"]) == 55.73951
    assert usd(prices["gcp", "v5p-12288", "us-central1", "on_demand"]) == 25804.8
    assert usd(prices["aws", "p5.48xlarge", "us-east-1", "on_demand"]) == 55.04
    assert usd(prices["nebius", "gpu-h100-sxm_8gpu-128vcpu-1600gb", "eu-north1", "spot"]) == 10
    assert usd(prices["oci", "BM.GPU.H100.8", "any", "on_demand"]) == 80
    for key, entry in prices.items():
        assert entry.date == DAY, key
        assert usd(entry) not in (0, 700.0), key
        assert "Promo" not in entry.instance
    google = {(instance, region) for whose, instance, region, _ in prices if whose == "gcp"}
    assert not any(instance.startswith("a3-") for instance, _ in google)
    assert {region for instance, region in google if instance.startswith("a2-ultra")} == {"us-east5"}


def test_prices_go_into_the_file_that_has_the_instance(tmp_path: Path) -> None:
    place = tmp_path / "own" / "prices" / "aws"
    place.mkdir(parents=True)
    head = "format: 1\nid: aws-p5\nname: P5\nprovider: aws\ndefault_region: us-east-1\nsources:\n"
    source = "  a: {title: AWS, url: https://aws.amazon.com/ec2/pricing/on-demand/, checked: 2026-06-01, kind: price}\n"
    offer = "{instance: p5.48xlarge, region: us-east-1, kind: on_demand, price: 60 USD/h, date: 2026-06-01, source: a}"
    (place / "aws-p5.yaml").write_text(f"{head}{source}offers:\n  - {offer}\n", encoding="utf-8")
    other = "g6.xlarge,L4,1.0,4.0,16.0,,0.8048,,us-east-1,use1-az1,x86_64"
    made, entries = sky(tmp_path, "aws", good(), other)
    assert sorted(file.path.name for file in made.merged) == ["aws-p5.yaml", "aws.yaml"]
    assert {key[0] for key in entries} == {"g6.xlarge"}
    family = load_spec(PriceList, place / "aws-p5.yaml")
    assert (family.seller, family.id) == ("aws", "aws-p5")
    assert [(one.status, usd(one)) for one in family.offers] == [("historical", 60.0), ("current", 55.04)]
    assert check([tmp_path / "own"]) == []
