"""`gpuplan specs list`: conditions with units, order, columns, and what is said of values that are not on record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuplan.browse.listing import LISTINGS, rows_of
from gpuplan.browse.partial_read import blocks, read_keys
from gpuplan.cli.specs import SHOWN
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, shipped_folder
from tests.cli.cli_calls import Call

MINIMAL = """format: 1
id: {id}
name: {id}
sources: {{mine: {{title: mine, checked: 2026-11-20, kind: user}}}}
vendor: nvidia
architecture: X
family: x
released: "2026"
unit: gpu
confidence: low
memory: {{capacity: {memory}, type: HBM3, bandwidth: 1 TB/s}}
compute_dense: {{bf16: 100 TFLOP/s}}
{more}
"""


def ids(out: str) -> list[str]:
    return [record["id"] for record in json.loads(out)]


def test_conditions_are_met_by_what_is_listed(call: Call) -> None:
    said = call("specs", "list", "--memory", ">=80GiB", "--vendor", "amd", "--dtype", "fp8", "--sort", "-memory", "--json")
    assert said.code == 0
    records = json.loads(said.out)
    memory = [record["memory_bytes"] for record in records]
    assert memory == sorted(memory, reverse=True)
    assert min(memory) >= 80 * 2**30
    assert {record["vendor"] for record in records} == {"amd"}
    assert all(record["fp8_flop_per_s"] for record in records)
    assert {"mi300x", "mi355x"} <= {record["id"] for record in records}
    assert "mi250x" not in ids(said.out)


def test_every_listed_value_is_what_the_file_says() -> None:
    catalog = Catalog([shipped_folder()])
    rows = rows_of(catalog, "accelerators", LISTINGS["accelerators"].columns)
    assert len(rows) == len(catalog.paths("accelerators"))
    for row in rows:
        spec = catalog.load(Accelerator, row["id"].text)
        assert row["memory"].value == spec.memory.capacity.value
        assert row["bandwidth"].text == spec.memory.bandwidth.text
        assert row["power"].value == (spec.power.value if spec.power is not None else None)
        assert row["dtypes"].text.split() == list(spec.dtypes())
        assert row["released"].value == spec.released


@pytest.mark.parametrize("kind", ["accelerators", "systems", "instances", "prices"])
def test_a_part_of_a_file_is_read_as_in_the_whole_file(kind: str) -> None:
    for _, path, text in Catalog([shipped_folder()]).texts(kind):
        part = read_keys(path, [("id",), ("memory", "capacity"), ("compute_dense", "fp8"), ("fabric",), ("l2",)], text)
        full = read_keys(path, [(key,) for key in ("id", "memory", "compute_dense", "fabric", "l2")], text)
        for at in (("id",), ("memory", "capacity"), ("compute_dense", "fp8"), ("fabric",), ("l2",)):
            assert part.at(*at) == full.at(*at)
            assert part.lines.line(at) == full.lines.line(at)


@pytest.mark.parametrize(
    "text",
    ["{id: a, memory: {capacity: 80 GB}}\n", "id: a\n'memory':\n  capacity: 80 GB\n", "memory:\n    capacity: 80 GB\nid: a\n"],
)
def test_what_is_not_written_in_blocks_is_read_whole(text: str) -> None:
    assert read_keys(Path("a.yaml"), [("id",), ("memory", "capacity")], text).at("memory", "capacity") == "80 GB"


def test_lines_keep_their_numbers() -> None:
    text = "id: a\nnotes:\n- x\n-  y\n\n# memory: no\nmemory:\n  type: HBM\n  capacity:\n    value: 80 GB\n"
    kept = blocks(text, [("memory", "capacity")])
    assert kept.count("\n") == text.count("\n")
    assert "HBM" not in kept
    assert read_keys(Path("a.yaml"), [("memory", "capacity")], text).lines.line(("memory", "capacity", "value")) == 10


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--memory", "80"], "does not say whether more or less", "`--memory '>=80GiB'`"),
        (["--memory", "80GiB"], "does not say whether more or less", "`--memory '>=80GiB'`"),
        (["--memory", ">=80"], "`80` has no unit", "`>=80GiB` (2**30 each) or `>=80GB` (1e9 each)"),
        (["--memory", ">=80gb"], "`gb` in `80gb` is not a unit", "GB or GiB"),
        (["--memory", ">=80GB/s"], "is in B/s, but B is wanted", ">=80GiB"),
        (["--memory", "--vendor"], "is no comparison", "a shell takes a bare `>` for a file"),
        (["--bf16", ">=500TFLOPS"], "is not a unit", "TFLOP/s"),
        (["--bf16", ">=500"], "`500` has no unit", "`--bf16 '>=500TFLOP/s'`"),
        (["--power", "<=350"], "`350` has no unit", "`--power '<=350W'`"),
        (["--power", "350"], "does not say whether", "`--power '>=350W'`"),
        (["--since", "23"], "is no date", "2023-06"),
        (["--dtype", "fp9"], "is no data type", "`fp8`"),
        (["--vendor", ">amd"], "is no word to compare with", "`--vendor WORD`"),
        (["--sort", "memry"], "has no column `memry`", "`memory`"),
        (["--columns", "id,bandwith"], "has no column `bandwith`", "`bandwidth`"),
        (["--where", "l2"], "is no condition", "`l2>=50MiB`"),
        (["--where", "l3>=50MiB"], "has no column `l3`", "l2"),
        (["--provider", "aws"], "--provider means nothing to a list of accelerators", "its columns are id,"),
        (["instances", "--memory", ">=3GB"], "--memory means nothing to a list of instances", "host_memory"),
        (["instances", "--price", "<40USD"], "is in USD, but USD/s is wanted", "USD/h"),
        (["instances", "--price", "40"], "does not say whether", "`--price '>=40USD/h'`"),
    ],
)
def test_bad_conditions(call: Call, words: list[str], message: str, hint: str) -> None:
    said = call("specs", "list", *words)
    assert said.code == 2
    assert said.out == ""
    assert message in said.err
    assert hint in said.err


def test_all_mistakes_are_said_together(call: Call) -> None:
    said = call("specs", "list", "--memory", ">80", "--power", "350W", "--dtype", "fp9", "--where", "x>1")
    assert said.code == 2
    assert said.err.count("error: ") == 4


def test_unknown_values_meet_no_condition_and_are_named(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "accelerators" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "zz-unknown.yaml").write_text(MINIMAL.format(id="zz-unknown", memory="80 GiB", more=""))
    (folder / "zz-known.yaml").write_text(MINIMAL.format(id="zz-known", memory="80 GB", more="power: 300 W"))
    words = ("specs", "list", "zz-", "--specs", str(tmp_path))
    both = call(*words, "--json")
    assert ids(both.out) == ["zz-known", "zz-unknown"]
    assert json.loads(both.out)[1]["power_watts"] is None
    for wanted in ("<=350W", ">=0W", "!=1W"):
        said = call(*words, "--power", wanted, "--json")
        assert ids(said.out) == ["zz-known"]
        assert "left out, as power is not on record: zz-unknown" in said.err
    for way in ("power", "-power"):
        assert ids(call(*words, "--sort", way, "--json").out) == ["zz-known", "zz-unknown"]
    near = call(*words, "--memory", ">=80GiB", "--json")
    assert ids(near.out) == ["zz-unknown"]
    assert "left out, as GB are less than GiB: zz-known (write `>=80GB` to have them)" in near.err
    # No fp8 rate is no fp8: nothing is unknown about it.
    none = call(*words, "--dtype", "fp8")
    assert none.code == 5
    assert "left out" not in none.err
    assert "no accelerators with fp8" in none.err


def test_a_wrong_value_is_an_error_with_its_line(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "accelerators" / "nvidia"
    folder.mkdir(parents=True)
    (folder / "zz-bad.yaml").write_text(MINIMAL.format(id="zz-bad", memory="80", more=""))
    said = call("specs", "list", "zz-", "--specs", str(tmp_path))
    assert said.code == 2
    assert "zz-bad.yaml:11: memory.capacity: `80` has no unit" in said.err


def test_ranges_words_and_dates(call: Call) -> None:
    between = json.loads(call("specs", "list", "--memory", ">=24GiB,<=48GiB", "--json").out)
    assert all(24 * 2**30 <= one["memory_bytes"] <= 48 * 2**30 for one in between)
    two = json.loads(call("specs", "list", "--vendor", "AMD,intel", "--json").out)
    assert {one["vendor"] for one in two} == {"amd", "intel"}
    rest = json.loads(call("specs", "list", "--where", "vendor!=amd,nvidia", "--json").out)
    assert not {"amd", "nvidia"} & {one["vendor"] for one in rest}
    new = json.loads(call("specs", "list", "--since", "2024-06", "--json").out)
    assert all(one["released"] >= "2024-06" or one["released"] == "2024" for one in new)
    assert len(new) > 5


def test_instances_with_prices(call: Call) -> None:
    words = ("specs", "list", "instances", "--accelerator", "h100", "--count", "8", "--sort", "price_each", "--json")
    records = json.loads(call(*words).out)
    assert {one["accelerator"][:5] for one in records} == {"h100-"}
    assert {one["count"] for one in records} == {8.0}
    known = [one["price_each_usd_per_s"] for one in records if one["price_each_usd_per_s"] is not None]
    assert known == sorted(known)
    assert 0 not in known
    assert all(one["price_usd_per_s"] == pytest.approx(one["price_each_usd_per_s"] * 8) for one in records[: len(known)])
    cheap = call(*words[:-1], "--price", "<40USD/h", "--json")
    assert all(one["price_usd_per_s"] * 3600 < 40 for one in json.loads(cheap.out))
    p5 = json.loads(call("specs", "list", "instances", "p5.48xlarge", "--provider", "aws", "--json").out)
    assert [one["instance"] for one in p5] == ["aws:p5.48xlarge"]
    assert p5[0]["price_date"]
    assert p5[0]["region"]


def test_forms_and_columns(call: Call) -> None:
    words = ("specs", "list", "h100-sxm", "--columns", "id,l2,name")
    assert call(*words).out.splitlines()[0].split() == ["id", "L2", "name"]
    assert call(*words, "--csv").out.splitlines()[0] == "id,l2_bytes,name"
    assert call(*words, "--md").out.startswith("| id | L2 | name |\n|---|--:|---|\n")
    assert list(json.loads(call(*words, "--json").out)[0]) == ["id", "l2_bytes", "name"]
    for kind in SHOWN:
        page = call("specs", "list", kind, "--columns", "?")
        assert page.code == 0
        assert all(f"  {column.name} " in page.out for column in LISTINGS[kind].columns)
        assert all(len(line) <= 80 for line in page.out.splitlines())
        assert call("specs", "list", kind, "--columns", "all").code == 0
    narrow = call("specs", "list")
    assert all(len(line) <= 80 for line in narrow.out.splitlines())
    assert "note: no room for" in narrow.err


def test_a_part_is_shown_by_the_names_that_questions_take(call: Call) -> None:
    shown = call("specs", "show", "Zotac RTX 5080")
    assert shown.code == 0
    assert shown.out.startswith("rtx-5080  NVIDIA GeForce RTX 5080")
    assert "`Zotac RTX 5080` was taken as `rtx-5080`" in shown.err
    unknown = call("specs", "show", "TPU 8t")
    assert unknown.code == 5
    assert "the nearest on record is `tpu-v7-ironwood`" in unknown.err
