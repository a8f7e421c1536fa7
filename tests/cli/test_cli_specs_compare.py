"""`gpuplan specs compare` and `specs roofline`: side by side, what a dollar and a watt give, and where the ridge is."""

from __future__ import annotations

import builtins
import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuplan.browse.per_dollar_and_watt import value_figures
from gpuplan.browse.roofline import roof
from gpuplan.render.accelerators_compared import accelerators_text
from gpuplan.render.roofline import roofline_text
from gpuplan.render.text import Look
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.offers import street_price
from tests.cli.cli_calls import Call


def test_what_a_dollar_and_a_watt_give(call: Call) -> None:
    catalog = Catalog([shipped_folder()])
    spec = catalog.load(Accelerator, "h100-sxm-80gb")
    per_h = float(street_price(spec.id, catalog).price.value) * 3600
    (record,) = json.loads(call("specs", "compare", "h100-sxm-80gb", "--json").out)
    assert record["price_usd_per_h"] == pytest.approx(per_h)
    assert record["price_per_half_usd_per_pflop_per_s_h"] == pytest.approx(per_h / 0.9894)
    assert record["price_per_eight_bit_usd_per_pflop_per_s_h"] == pytest.approx(per_h / 1.9789)
    assert record["price_per_memory_usd_per_gib_h"] == pytest.approx(per_h / (spec.memory.capacity.value / 2**30))
    assert record["price_per_bandwidth_usd_per_tb_per_s_h"] == pytest.approx(per_h / 3.35)
    assert record["half_flop_per_joule"] == pytest.approx(989.4e12 / 700)
    assert record["bandwidth_bytes_per_joule"] == pytest.approx(3.35e12 / 700)
    assert record["half_ridge_flop_per_byte"] == pytest.approx(989.4 / 3.35)
    assert record["price_date"]
    assert record["price_instance"]


def test_an_unknown_price_is_unknown_and_never_zero(call: Call) -> None:
    words = ("specs", "compare", "h100", "cpu-xeon-8480plus")
    said = call(*words)
    assert said.code == 0
    prices = [line for line in said.out.splitlines() if line.startswith("  price ")]
    assert prices[-1].split()[-1] == "unknown"
    for record in json.loads(call(*words, "--json").out)[1:]:
        assert all(value is None for key, value in record.items() if key.startswith("price"))
    rows = list(csv.DictReader(io.StringIO(call(*words, "--csv").out)))
    assert rows[1]["price_usd_per_h"] == ""
    both = json.loads(call(*words, "--price", "cpu-xeon-8480plus=1.50", "--json").out)
    assert both[1]["price_usd_per_h"] == pytest.approx(1.5)
    assert both[1]["price_instance"] == "your own price"


def test_the_best_of_a_row_is_marked() -> None:
    catalog = Catalog([shipped_folder()])
    specs = [catalog.load(Accelerator, name) for name in ("h100-sxm-80gb", "rtx-4090")]
    worths = [value_figures(spec, catalog, price / 3600) for spec, price in zip(specs, (4.0, 0.4), strict=True)]
    lines = {line[:26].strip(): line for line in accelerators_text(specs, worths, Look(120)).splitlines()}
    assert lines["USD for a TB/s·h"].endswith("0.40 ◂")
    assert "TFLOP/s ◂ " in lines["bf16 for a watt"]
    assert "◂" not in lines["memory"]
    for width in (40, 80, 200):
        assert all(len(line) <= max(width, 60) for line in accelerators_text(specs, worths, Look(width)).splitlines())


def test_compare_is_the_same_from_both_commands(call: Call) -> None:
    assert call("compare", "h100", "mi300x").out == call("specs", "compare", "h100", "mi300x").out
    md = call("specs", "compare", "h100", "mi300x", "--md").out
    assert md.startswith("|  | h100-sxm-80gb | mi300x |\n")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["h1000"], 5, "no accelerator is called `h1000`"),
        (["h100", "--price", "b200=2"], 2, "`b200` is not compared here"),
        (["h100", "--price", "h100=0"], 2, "a price is above zero"),
        (["h100", "--price", "h100=two"], 2, "is not a number with a unit"),
    ],
)
def test_bad_comparisons(call: Call, words: list[str], code: int, message: str) -> None:
    said = call("specs", "compare", *words)
    assert said.code == code
    assert message in said.err


def test_rooflines_are_peaks_over_bandwidths(call: Call) -> None:
    records = json.loads(call("specs", "roofline", "h100-sxm-80gb", "--dtype", "bf16,fp8", "--json").out)
    assert [one["dtype"] for one in records] == ["bf16", "fp8"]
    assert [one["ridge_flop_per_byte"] for one in records] == [pytest.approx(989.4 / 3.35), pytest.approx(1978.9 / 3.35)]
    assert call("specs", "roofline", "h100-sxm-80gb", "--csv").out.startswith("id,dtype,peak_flop_per_s,")
    assert json.loads(call("specs", "roofline", "v100-sxm2-16gb", "--json").out)[0]["dtype"] == "fp16"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_plot_in_a_terminal(width: int) -> None:
    catalog = Catalog([shipped_folder()])
    roofs = [roof(catalog.load(Accelerator, name)) for name in ("h100-sxm-80gb", "tpu-v5e", "cpu-xeon-8480plus", "apple-m1")]
    text = roofline_text(roofs, Look(width))
    lines = text.splitlines()
    assert all(len(line) <= width for line in lines)
    plot = "\n".join(line for line in lines if "│" in line or "┤" in line)
    for letter, one in zip("ABCD", roofs, strict=True):
        assert letter in plot
        assert f"{one.ridge_flop_per_byte:,.0f} FLOP/B" in text
    assert "295" in plot
    # Flat to the right of the ridge: the highest line reaches the edge.
    assert any(line.endswith("•••") for line in lines)


def test_one_line_and_many(call: Call) -> None:
    assert call("specs", "roofline", "h100").code == 0
    every = list(Catalog([shipped_folder()]).paths("accelerators"))
    many = call("specs", "roofline", *every[:40])
    assert many.code in (2, 5)


def test_pictures(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, begins in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        said = call("specs", "roofline", "h100", "b200", "tpu-v5p", "--out", str(tmp_path / name))
        assert said.code == 0
        assert said.out == ""
        assert (tmp_path / name).read_bytes().startswith(begins)
    again = tmp_path / "again.svg"
    call("specs", "roofline", "h100", "b200", "tpu-v5p", "--out", str(again))
    assert again.read_bytes() == (tmp_path / "a.svg").read_bytes()


def test_pictures_without_matplotlib(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    said = call("specs", "roofline", "h100", "--out", str(tmp_path / "a.png"))
    assert said.code == 2
    assert "pip install 'gpuplan[plot]'" in said.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["h100", "--dtype", "fp9"], 5, "is not a data type"),
        (["a100", "v100", "--dtype", "fp8"], 5, "has no fp8 rate"),
        (["h100", "--out", "x.pdf"], 2, "neither a PNG nor an SVG"),
        (["h100", "--out", "nosuch/x.png"], 2, "the folder `nosuch` does not exist"),
    ],
)
def test_bad_rooflines(call: Call, words: list[str], code: int, message: str) -> None:
    said = call("specs", "roofline", *words)
    assert said.code == code
    assert message in said.err


def test_names_with_commas_between_are_several(call: Call) -> None:
    assert (
        call("specs", "compare", "h100-sxm-80gb,h200-sxm-141gb").out
        == call("specs", "compare", "h100-sxm-80gb", "h200-sxm-141gb").out
    )
    assert call("compare", "l4, t4").out == call("compare", "l4", "t4").out
    wrong = call("specs", "compare", "l4,no-such-part")
    assert wrong.code == 5
    assert "no accelerator is called `no-such-part`" in wrong.err
