"""Drafts of new files: everything that the check says of them is what to fill in, and filled in they are right."""

import pytest

from gpuplan.check.examine import examine
from gpuplan.cli.main import run
from gpuplan.errors import UsageError
from gpuplan.specs.draft import PLACES, new_file

NAMES = {"accelerator": "nvidia/h300-sxm", "system": "nova-node", "instance": "acme/nova", "price": "acme", "model": "nova-7b"}


@pytest.mark.parametrize("kind", NAMES)
def test_a_draft_misses_nothing_but_what_is_to_be_filled_in(kind, tmp_path):
    made = new_file(kind, NAMES[kind], "2026-11-23")
    path = tmp_path / made.place
    path.parent.mkdir(parents=True)
    path.write_text(made.text, encoding="utf-8")
    found = examine([tmp_path])
    assert {one.code for one in found.findings} == {"model.fill-in" if kind == "model" else "spec.fill-in"}
    body = made.text[made.text.index("format: 1") :]
    asked = sum(line.partition("#")[0].count('"?"') for line in body.splitlines() if not line.lstrip().startswith("#"))
    assert len(found.findings) == asked


def test_a_model_filled_in_is_right(tmp_path):
    text = new_file("model", "nova-7b", "2026-11-23").text
    values = {
        'params_total: "?"': "params_total: 7241732096", 'hidden: "?"': "hidden: 4096", 'vocab: "?"': "vocab: 32000",
        'max_context: "?"': "max_context: 32768", 'kv_heads: "?"': "kv_heads: 8", 'heads: "?"': "heads: 32",
        'head_dim: "?"': "head_dim: 128", 'width: "?"': "width: 14336", 'count: "?"': "count: 32",
        'url: "?"': "url: 'https://example.com/nova'", '"?"': "Nova 7B",
    }  # fmt: skip
    for mark, value in values.items():
        text = text.replace(mark, value)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "nova-7b.yaml").write_text(text, encoding="utf-8")
    assert [one.code for one in examine([tmp_path]).findings] == []


def test_an_accelerator_filled_in_from_its_makers_page_is_right(tmp_path):
    text = new_file("accelerator", "nvidia/h300-sxm", "2026-11-23").text
    text = text[text.index("format: 1") :]
    values = {
        'name: "?"': 'name: "NVIDIA H300 SXM"', 'architecture: "?"': "architecture: Hopper", 'family: "?"': "family: hopper",
        'released: "?"': 'released: "2026-10"', 'confidence: "?"': "confidence: medium",
        'title: "?", url: "?"': 'title: "NVIDIA H300 datasheet", url: "https://www.nvidia.com/h300.pdf"',
        'capacity: "?"': "capacity: 80 GB", 'type: "?"': "type: HBM3", 'bandwidth: "?"': "bandwidth: 3.35 TB/s",
        'fp32: "?"': "fp32: 67 TFLOP/s", 'bf16: "?"': "bf16: 989 TFLOP/s", 'fp16: "?"': "fp16: 989 TFLOP/s",
        'fp8: "?"': "fp8: 1979 TFLOP/s", 'int8: "?"': "int8: 1979 TOP/s", 'power: {value: "?"': "power: {value: 700 W",
        'gen: "?"': "gen: 5", 'lanes: "?"': "lanes: 16",
        'bandwidth_per_direction: {value: "?"': "bandwidth_per_direction: {value: 63 GB/s",
    }  # fmt: skip
    for mark, value in values.items():
        assert mark in text, mark
        text = text.replace(mark, value, 1)
    path = tmp_path / "accelerators" / "nvidia" / "h300-sxm.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    assert [(one.code, one.message) for one in examine([tmp_path]).findings] == []


@pytest.mark.parametrize(
    ("kind", "name"), [("gpu", "x"), ("accelerator", "h300"), ("model", "a/b"), ("system", "Nova Node"), ("instance", "acme/")]
)
def test_what_cannot_be_drafted_is_refused(kind, name):
    with pytest.raises(UsageError):
        new_file(kind, name, "2026-11-23")


def test_the_command_prints_or_writes_and_keeps_what_is_there(tmp_path, capsys):
    assert run(["specs", "new", "price", "acme"]) == 0
    assert capsys.readouterr().out.startswith("# file: prices/acme.yaml\n")
    asked = ["specs", "new", "price", "acme", "--out", str(tmp_path)]
    assert run(asked) == 0
    path = tmp_path / PLACES["price"].format(id="acme")
    path.write_text("mine", encoding="utf-8")
    assert run(asked) == 2
    assert path.read_text(encoding="utf-8") == "mine"
    assert "--force" in capsys.readouterr().err
    assert run([*asked, "--force"]) == 0
    assert path.read_text(encoding="utf-8") != "mine"
