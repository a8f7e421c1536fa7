"""The page of a spec says everything that its file says, fits the terminal, and names the source of every value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gpuplan.browse.related import related
from gpuplan.render.spec_page import spec_page
from gpuplan.render.text import Look
from gpuplan.schema import Schema
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SpecFile
from gpuplan.specs.catalog import KINDS, Catalog, schema_of, shipped_folder
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.quantity import Sourced
from gpuplan.specs.system import System
from tests.sweeps import each

CATALOG = Catalog([shipped_folder()])


def page(kind: str, name: str, width: int) -> str:
    cls: Any = schema_of(kind)
    path = CATALOG.paths(kind)[name]
    spec = CATALOG.read(cls, path)
    return spec_page(spec, path, related(spec, CATALOG), Look(width))


def words(text: str) -> str:
    return " ".join(text.split())


def every() -> Iterator[tuple[str, str]]:
    for kind in KINDS:
        if schema_of(kind) is not None:
            names = list(CATALOG.paths(kind))
            yield from ((kind, name) for name in names[:: max(1, len(names) // 12)])


@each("kind, name, width", [(*one, width) for one in every() for width in (80, 200)])
def test_everything_is_on_the_page(kind: str, name: str, width: int) -> None:
    text = page(kind, name, width)
    flat = words(text)
    cls: Any = schema_of(kind)
    spec: SpecFile = CATALOG.read(cls, CATALOG.paths(kind)[name])
    for path, value in spec.values():
        assert words(value.text) in flat, path
        if len(value.note) < 30:
            assert words(value.note) in flat, path
    for entry in spec.sources.values():
        assert entry.url in text
        assert entry.checked in flat
    for note in spec.notes:
        assert words(note) in flat
    # Only a URL, a path or a long name may be longer than the line.
    for line in text.splitlines():
        assert len(line) <= width or " " not in line.strip(), line
        assert line == line.rstrip()


def plain_words(record: Schema) -> Iterator[str]:
    for key in record.field_names():
        value = getattr(record, key)
        if isinstance(value, str) and key not in ("id", "name", "kind"):
            yield value
        elif isinstance(value, Schema):
            yield from plain_words(value)


def test_plain_words_of_an_accelerator_are_shown() -> None:
    spec = CATALOG.load(Accelerator, "h100-sxm-80gb")
    flat = words(page("accelerators", spec.id, 200))
    for word in plain_words(spec):
        assert words(word) in flat
    assert "kind NVLink 4" in flat


def test_mig_profiles_measured_files_and_where_it_is() -> None:
    text = page("accelerators", "h100-sxm-80gb", 80)
    assert re.search(r"^  1g\.10gb +\S+ GiB \[\d+\] ", text, re.M)
    assert "  measured/h100-sxm-80gb  its own\n  measured/hopper " in text
    assert "dgx-h100" in words(text).partition("systems ")[2]
    assert "aws:p5.48xlarge" in text
    borrowed = related(CATALOG.load(Accelerator, "h100-pcie-80gb"), CATALOG).measured
    assert borrowed
    assert borrowed[0][0] != "h100-pcie-80gb" or borrowed[0][1] == "its own"


def test_fabric_levels_of_a_system() -> None:
    text = page("systems", "dgx-h100", 80)
    assert "Fabric, innermost level first" in text
    assert re.search(r"bandwidth per direction +450 GB/s \[\d\] +50 GB/s", text)
    assert "all_reduce" in text


def test_prices_of_instances_have_dates_and_sources() -> None:
    family = CATALOG.read(InstanceFamily, CATALOG.paths("instances")["aws/p5"])
    more = related(family, CATALOG)
    assert more.prices
    text = page("instances", "aws/p5", 200)
    (line,) = [one for one in text.splitlines() if "p5.48xlarge " in one and "on demand" in one]
    assert re.search(r"USD/h +instance +[\d.]+ USD/h +on demand +us-east-1 \+\d+ +20\d\d-\d\d(-\d\d)? +\[p\d\]", line)
    prices = [one for one in more.prices if one.instance == "p5.48xlarge" and one.offer.kind == "on_demand"]
    assert all(one.each_usd_per_s == pytest.approx(float(one.offer.price.value) / 8) for one in prices if one.offer.price)
    assert all(one.offer.status == "current" for one in more.prices)


def test_a_page_of_a_chip_without_measurements_says_so(tmp_path: Any) -> None:
    folder = tmp_path / "accelerators" / "nvidia"
    folder.mkdir(parents=True)
    text = (shipped_folder() / "accelerators/nvidia/h100-sxm-80gb.yaml").read_text(encoding="utf-8")
    text = re.sub(r"^(aliases|driver_names):.*\n", "", text, flags=re.M)
    text = text.replace("id: h100-sxm-80gb", "id: mine").replace("family: hopper", "family: nothing")
    (folder / "mine.yaml").write_text(text)
    catalog = Catalog([shipped_folder(), tmp_path])
    spec = catalog.load(Accelerator, "mine")
    more = related(spec, catalog)
    assert more.measured == ()
    assert "nothing is measured" in spec_page(spec, folder / "mine.yaml", more, Look(80))


def test_a_large_count_of_bytes_is_also_said_in_gib() -> None:
    spec = CATALOG.load(Accelerator, "h100-sxm-80gb")
    reported = spec.memory.capacity_reported
    assert isinstance(reported, Sourced)
    assert f"{reported.text}" in page("accelerators", spec.id, 80)
    assert "79.11 GiB" in page("accelerators", spec.id, 80)


def test_a_system_names_the_instances_that_are_it() -> None:
    system = CATALOG.load(System, "aws-p5")
    assert "aws:p5.48xlarge" in related(system, CATALOG).instances
