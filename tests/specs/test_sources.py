"""A source says what is cited for it: each value, or the section around it, names its own, and what has none says so."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from gpuplan.check.publishers import publishers
from gpuplan.errors import SpecError
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SpecFile, load_spec
from gpuplan.specs.catalog import KINDS, Catalog, schema_of, shipped_folder
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.price import PriceList
from gpuplan.term import NOT_ON_RECORD
from tests.specs.test_accelerators import GOOD

SHIPPED = shipped_folder()
ROOT = Path(__file__).parents[2]


@cache
def files() -> list[tuple[Path, SpecFile]]:
    paths = [path for kind in KINDS for path in sorted((SHIPPED / kind).rglob("*.yaml"))]
    made = []
    for path in paths:
        cls = schema_of(path.relative_to(SHIPPED).parts[0])
        if cls is not None:
            made.append((path, load_spec(cls, path)))
    return made


def written(folder: Path, text: str) -> Accelerator:
    path = folder / "my-gpu.yaml"
    path.write_text(text, encoding="utf-8")
    return load_spec(Accelerator, path)


def test_no_value_takes_its_source_from_the_order_of_the_sources() -> None:
    """The first source of a file once stood for every value that named none."""
    assert len(files()) > 600
    for path, spec in files():
        turned = spec.replaced(sources=dict(reversed(list(spec.sources.items()))))
        for (name, value), (_, other) in zip(spec.values(), turned.values(), strict=True):
            assert spec.source_of(value) == turned.source_of(other), (path, name)
            if not value.source:
                assert spec.source_of(value).title == NOT_ON_RECORD.title, (path, name)


def test_a_value_without_a_source_is_assumed(tmp_path: Path) -> None:
    spec = written(tmp_path, GOOD)
    told = spec.source_of(spec.memory.bandwidth)
    assert (told.kind, told.title, told.url, told.note) == ("assumed", "source not on record", "", "printed as 3 TB/s")
    assert spec.l2 is not None
    assert spec.source_of(spec.l2).title == "A sheet"


def test_a_section_names_the_source_of_its_values(tmp_path: Path) -> None:
    more = "  other: {title: Another, url: https://example.org/other, checked: 2026-11-20}\n"
    text = GOOD.replace("memory:\n", f"{more}memory:\n  source: sheet\n").replace("3 TB/s", "{value: 3 TB/s, source: other}")
    spec = written(tmp_path, text)
    memory = spec.memory
    assert [spec.source_of(one).title for one in (memory.capacity, memory.bandwidth)] == ["A sheet", "Another"]
    assert spec.peak("bf16").source == ""
    assert memory.stated()["capacity"].source == ""
    assert memory.stated()["bandwidth"].source == "other"


def test_an_unknown_source_of_a_section_is_said_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        written(tmp_path, GOOD.replace("memory:\n", "memory:\n  source: sheeet\n"))
    (problem,) = caught.value.problems
    assert problem.code == "spec.unknown-source"
    assert "`memory` names the source `sheeet`" in problem.message
    assert "sheet" in problem.hint


def test_each_source_that_values_cite_prints_such_values() -> None:
    table = publishers()
    cited: Counter[str] = Counter()
    for path, spec in files():
        for name, value in spec.values():
            if not value.source or spec.sources[value.source].kind not in ("datasheet", "docs", "price"):
                continue
            url = spec.sources[value.source].url
            publisher = table.of(url)
            if publisher is None:
                cited[re.sub(r"^https?://(www\.)?", "", url).split("/")[0]] += 1
                continue
            kind = ".".join(part for part in name.split(".") if not part.isdigit())
            assert publisher.prints(kind), (path, name, publisher.name)
    listed = sum(1 for _, spec in files() for _, value in spec.values() if value.source)
    # Those that only a few values come from need no line in the table.
    assert sum(cited.values()) < 0.1 * listed


def test_the_main_figures_of_what_is_asked_most_name_a_source() -> None:
    asked = (
        "h100-sxm-80gb h100-pcie-80gb h100-nvl-94gb h200-sxm-141gb a100-sxm-40gb a100-sxm-80gb a100-pcie-40gb a100-pcie-80gb l40s "
        "l4 l40 a10 a30 a40 t4 v100-sxm2-16gb v100-sxm2-32gb b200-sxm-180gb b300-sxm-270gb gb200-186gb gb300-279gb gh200-96gb "
        "rtx-5090 rtx-5080 rtx-4090 rtx-4080 rtx-3090 rtx-3080-10gb rtx-6000-ada rtx-pro-6000-blackwell-workstation "
        "rtx-a6000 mi300x mi325x mi355x mi250x gaudi2 gaudi3-oam arc-a770-16gb arc-b580 apple-m1 apple-m2 apple-m3 apple-m4 "
        "tpu-v4 tpu-v5e tpu-v5p tpu-v6e tpu-v7-ironwood trainium1 trainium2 inferentia2"
    )
    catalog = Catalog([SHIPPED])
    for ident in asked.split():
        spec = catalog.load(Accelerator, ident)
        rates = [rate for dtype in spec.dtypes() if (rate := getattr(spec.compute_dense, dtype)) is not None]
        for value in (spec.memory.capacity, spec.memory.bandwidth, *rates):
            assert value.source, (ident, value.text)
            assert spec.sources[value.source].kind != "assumed", (ident, value.text)
        if spec.power is not None:
            assert spec.power.source, ident


MAKERS = ("nvidia.com", "amd.com", "intel.com", "habana.ai", "google.com", "apple.com", "awsstatic.com", "aws-neuron", "ROCm/ROCm")


def test_makers_speak_for_most_of_what_is_asked_most() -> None:
    """Of the parts asked most, these had no page of their maker."""
    wanted = (
        "h100-sxm-80gb h100-pcie-80gb h200-sxm-141gb a100-sxm-80gb a100-pcie-40gb l40s l40 l4 t4 "
        "v100-sxm2-32gb v100-pcie-16gb a10 a10g a30 a40 b200-sxm-180gb b300-sxm-270gb "
        "gb200-186gb gb300-279gb gh200-96gb rtx-5090 rtx-5080 rtx-4090 rtx-3090 rtx-6000-ada rtx-pro-6000-blackwell-workstation "
        "rtx-a6000 mi300x mi325x mi355x mi250x gaudi2 gaudi3-oam arc-a770-16gb arc-b580 apple-m4-pro apple-m4-max-40c "
        "apple-m1-max apple-m2-ultra apple-m3-ultra tpu-v4 tpu-v5e tpu-v5p tpu-v6e tpu-v7-ironwood trainium1 trainium2 inferentia2"
    )
    catalog = Catalog([SHIPPED])
    for ident in wanted.split():
        spec = catalog.load(Accelerator, ident)
        used = {spec.sources[value.source].url for _, value in spec.values() if value.source}
        assert any(maker in url for maker in MAKERS for url in used), ident


def test_no_link_leads_to_a_place_that_nobody_may_cite() -> None:
    table = SHIPPED / "rules" / "publishers.yaml"
    texts = [
        path
        for folder in (SHIPPED, ROOT / "docs", ROOT / "gpuplan", ROOT / "tools", ROOT / "benchmarks")
        for path in folder.rglob("*")
    ]
    texts += [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for path in texts:
        if path.suffix not in {".yaml", ".md", ".py", ".json", ".toml"} or path == table or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8").casefold()
        for one in publishers().refused:
            assert one.url.casefold() not in text, path


def test_shapes_with_an_elastic_fabric_adapter_say_so() -> None:
    """By the resource `vpc.amazonaws.com/efa` of karpenter's instance types reference, and AWS's page of Trn2."""
    with_it = {
        "dl1": "24", "g4dn": "8 12 16 metal", "g5": "8 12 16 24 48", "g6": "8 12 16 24 48", "g6e": "8 12 16 24 48",
        "g7": "8 12 24 48", "g7e": "8 12 24 48", "inf1": "24", "p3dn": "24",
        "p4d": "24", "p4de": "24", "p5": "4 48", "p5e": "48", "p5en": "48",
        "p6-b200": "48", "p6-b300": "48", "trn1": "32", "trn1n": "32", "trn2": "3 48", "trn2u": "48",
    }  # fmt: skip
    wanted = {
        f"{family}.{size if size == 'metal' else f'{size}xlarge'}" for family, sizes in with_it.items() for size in sizes.split()
    }
    wanted |= {"p6e-gb200.36xlarge", "u-p6e-gb200x36", "u-p6e-gb200x72"}
    found = {
        shape.name
        for path, spec in files()
        if isinstance(spec, InstanceFamily) and spec.provider == "aws"
        for shape in spec.instances
        if shape.network.kind == "efa"
    }
    assert found == wanted


def test_every_price_has_a_date_or_says_that_it_is_unknown(tmp_path: Path) -> None:
    for path, spec in files():
        if isinstance(spec, PriceList):
            assert path.read_text(encoding="utf-8").count("date: ") >= len(spec.offers)
            assert all(offer.source for offer in spec.offers), path
    text = (
        "format: 1\nid: ours\nname: Ours\nsources:\n  bill: {title: our bill, checked: 2026-10-01, kind: user}\n"
        "default_region: any\noffers:\n  - {instance: box, region: any, kind: on_demand, price: 1 USD/h, source: bill}\n"
    )
    place = tmp_path / "ours.yaml"
    place.write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=r"offers\.0\.date` is missing"):
        load_spec(PriceList, place)
    place.write_text(text.replace("source: bill", "date: unknown, source: bill"), encoding="utf-8")
    (offer,) = load_spec(PriceList, place).offers
    assert offer.date is None
    assert offer.stated()["date"] == "unknown"
    place.write_text(text.replace("source: bill", "date: soon, source: bill"), encoding="utf-8")
    with pytest.raises(SpecError, match="`soon` is not a date"):
        load_spec(PriceList, place)
