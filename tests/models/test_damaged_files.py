"""Files that are cut, lie, or are no checkpoints end in one clear message, in little memory, whatever they claim."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.cli.main import run
from gpuplan.errors import GpuplanError
from gpuplan.models.checkpoint.folder import import_path
from tests.models.made_files import (
    LLAMA,
    LLAMA_KEYS,
    gguf,
    gguf_bytes,
    hole,
    llama_gguf,
    llama_safetensors,
    safetensors,
    text,
    value,
)

MOST_MEMORY = 200e6
TENSORS = llama_gguf("q4_k", layers=32)


def head(*, count=None, keys=None, magic=b"GGUF", version=3) -> bytes:
    return magic + struct.pack("<IQQ", version, 0 if count is None else count, 0 if keys is None else keys)


def key(name: str, raw: bytes) -> bytes:
    return head(count=0, keys=1) + text(name) + raw


def tensor(name="token_embd.weight", sides=(4096, 128256), kind=12, offset=0, dimensions=None) -> bytes:
    made = text(name) + struct.pack("<I", len(sides) if dimensions is None else dimensions)
    return made + b"".join(struct.pack("<Q", one) for one in sides) + struct.pack("<IQ", kind, offset)


def tensors(*rows: bytes, more: bytes = b"") -> bytes:
    keys = 1 if more else 0
    return head(count=len(rows), keys=keys) + more + b"".join(rows) + b"\0" * 64


def million(path: Path) -> Path:
    rows = b"".join(tensor(f"blk.{at}.ffn_norm.weight", (32,), 0, at * 128) for at in range(1000)) * 1000
    return hole(path, head(count=1_000_000) + rows, 128_000_000)


def model(path: Path, **changed) -> Path:
    return gguf(path, {**LLAMA_KEYS, **changed}, TENSORS)


GGUF = {
    "nothing": b"", "three bytes": b"GGU", "another magic": b"PK\x03\x04" + b"\0" * 100, "zeros": b"\0" * 4096,
    "the older magic": b"tjgg" + b"\0" * 100, "version 0": head(version=0), "version 4": head(version=4) + b"\0" * 64,
    "a count of tensors": head(count=1 << 60) + b"\0" * 999, "a count of keys": head(keys=1 << 60) + b"\0" * 999,
    "a key of 10 GB": head(keys=1) + struct.pack("<Q", 10**10) + b"a" * 99,
    "a text of 10 GB": key("a.b", struct.pack("<IQ", 8, 10**10) + b"a" * 99),
    "a list of 10 GB": key("a.b", struct.pack("<IIQ", 9, 4, 10**10) + b"a" * 99),
    "texts of 10 GB": key("a.b", struct.pack("<IIQ", 9, 8, 10**10) + b"a" * 99),
    "a text in a list that lies": key("a.b", struct.pack("<IIQQ", 9, 8, 2, 10**10) + b"a" * 99),
    "a list of lists": key("a.b", struct.pack("<IIQ", 9, 9, 2) + b"\0" * 99),
    "a type of values": key("a.b", struct.pack("<II", 99, 1)), "a key of nothing": head(keys=1) + struct.pack("<Q", 0) + b"\0" * 99,
    "a key twice": head(keys=2) + (text("a.b") + value(1)) * 2,
    "a key that rings": key("a\x07b", value(1)),
    "a type of tensors": tensors(tensor(kind=99)), "a type that is gone": tensors(tensor(kind=31)),
    "five dimensions": tensors(tensor(sides=(1,) * 5)), "sides beyond any": tensors(tensor(sides=(1 << 40, 1 << 40))),
    "half a block": tensors(tensor(sides=(100, 100))), "data beyond the end": tensors(tensor()),
    "an offset beyond the end": tensors(tensor(sides=(256,), offset=1 << 50)),
    "an odd offset": tensors(tensor(sides=(256,), offset=7)),
    "a tensor twice": tensors(tensor(sides=(256,)), tensor(sides=(256,), offset=160)),
    "tensors that overlap": tensors(tensor(sides=(256,)), tensor("b", sides=(256,), offset=32)),
    "an alignment of 0": tensors(tensor(sides=(256,)), more=text("general.alignment") + value(0)),
    "an alignment of NaN": tensors(tensor(sides=(256,)), more=text("general.alignment") + value(float("nan"))),
    "no architecture": tensors(tensor(sides=(256,))) + b"\0" * 999,
}  # fmt: skip


@pytest.mark.parametrize("name", GGUF)
def test_a_gguf_that_lies_ends_in_one_message(tmp_path, name):
    path = tmp_path / "x.gguf"
    path.write_bytes(GGUF[name])
    assert one_problem(path).code.startswith("model.")


@pytest.mark.parametrize("part", range(1, 40, 3))
def test_a_gguf_that_was_cut_says_where(tmp_path, part):
    raw, data = gguf_bytes({**LLAMA_KEYS, "tokenizer.ggml.tokens": [f"t{at}" for at in range(3000)]}, TENSORS)
    size = len(raw) * part // 30 if part < 30 else len(raw) + data * (part - 29) // 12
    path = hole(tmp_path / "x.gguf", raw[:size], max(size - len(raw), 0))
    problem = one_problem(path)
    assert "ends" in problem.message
    assert problem.code == "model.gguf-cut"
    assert "download" in problem.hint


@pytest.mark.parametrize(("changed", "code"), [
    ({"llama.attention.head_count": float("nan")}, "model.gguf-bad-field"), ({"llama.attention.head_count": 0},
    "model.gguf-contradiction"),
    ({"llama.attention.head_count": 7}, "model.gguf-contradiction"), ({"llama.attention.head_count_kv": [8] * 3},
    "model.gguf-bad-field"),
    ({"llama.attention.head_count": "32"}, "model.gguf-bad-field"), ({"general.type": "adapter"}, "model.not-a-model"),
    ({"general.architecture": "clip"}, "model.not-a-model"), ({"split.count": 3}, "model.gguf-split"),
    ({"split.tensors.count": 999}, "model.gguf-split"), ({"llama.embedding_length": 4096.5}, "model.gguf-bad-field"),
])  # fmt: skip
def test_metadata_that_cannot_be_are_named(tmp_path, changed, code):
    assert one_problem(model(tmp_path / "x.gguf", **changed)).code == code


@pytest.mark.parametrize("left", ["blk.7.", "token_embd", "blk.31.attn_output", "blk.0.ffn_down"])
def test_tensors_that_are_missing_are_named(tmp_path, left):
    rows = [row for row in TENSORS if not row[0].startswith(left)]
    assert one_problem(gguf(tmp_path / "x.gguf", LLAMA_KEYS, rows)).code in ("model.gguf-damaged", "model.unknown-architecture")


@pytest.mark.parametrize(("version", "order"), [(1, "<"), (2, "<"), (3, "<"), (2, ">"), (3, ">")])
def test_every_version_and_order_of_bytes_is_read(tmp_path, version, order):
    raw, data = gguf_bytes(LLAMA_KEYS, TENSORS, version=version, order=order)
    card = import_path(hole(tmp_path / "x.gguf", raw, data))
    assert card.count().params_total.value == 8030261248


def folder(tmp_path, config=LLAMA) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def stated(said: object, *, data: int = 64, length: int | None = None) -> bytes:
    raw = said if isinstance(said, bytes) else json.dumps(said).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + b"\0" * data


def entry(dtype="F32", shape=(16,), offsets=(0, 64)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


SAFETENSORS = {
    "nothing": b"", "eight bytes": b"\0" * 8, "a head of 10 GB": stated({}, length=10**10), "a head of 2^63": stated({},
    length=1 << 63),
    "a head beyond the end": stated({"a": entry()}, length=500), "no JSON": stated(b"{" * 100), "no UTF-8": stated(b'{"\xff": 1}'),
    "a list": stated([1, 2]), "a bomb of lists": stated(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a bomb of objects": lambda: stated(b"{" + b",".join(b'"%d":{}' % at for at in range(1_000_000)) + b"}"),
    "a bomb of numbers": lambda: stated(b'{"a":[' + b"1," * 7_000_000 + b"1]}"),
    "a bomb of keys": lambda: stated(b"{" + b",".join(b'"%d":1' % at for at in range(1_300_000)) + b"}"),
    "a key twice": stated(b'{"a":%s,"a":%s}' % ((json.dumps(entry()).encode(),) * 2)),
    "an entry that is none": stated({"a": 7}), "an unknown type": stated({"a": entry("F7")}),
    "a type that is none": stated({"a": entry([])}),
    "a negative side": stated({"a": entry(shape=(-16,))}),
    "a side of NaN": stated(b'{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,64]}}'),
    "a side that is true": stated({"a": entry(shape=(True,))}), "too many sides": stated({"a": entry(shape=(1,) * 30)}),
    "offsets turned": stated({"a": entry(offsets=(64, 0))}), "one offset": stated({"a": entry(offsets=(64,))}),
    "bytes that do not fit": stated({"a": entry(shape=(15,))}), "overlapping": stated({"a": entry(), "b": entry(offsets=(32,
    96))}, data=96),
    "a gap": stated({"a": entry(), "b": entry(offsets=(96, 160))}, data=160), "bytes behind": stated({"a": entry()}, data=99),
    "data cut": stated({"a": entry()}, data=10), "metadata that are none": stated({"__metadata__": 7, "a": entry()}),
}  # fmt: skip


def lie(path: Path, name: str) -> None:
    made = SAFETENSORS[name]
    (folder(path) / "model.safetensors").write_bytes(made() if callable(made) else made)  # bombs are built where they are used


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors_that_lie_end_in_one_message(tmp_path, name):
    lie(tmp_path, name)
    assert one_problem(tmp_path).code.startswith("model.")


def index(tmp_path, weight_map) -> Path:
    (folder(tmp_path) / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("weight_map", "code"), [
    ({"a": "model-00001-of-00002.safetensors"}, "model.missing-shard"), ({}, "model.bad-index"), (["a"], "model.bad-index"),
    ({"a": 7}, "model.bad-index"), ({"a": "../secret.safetensors"}, "model.bad-index"), ({"a": "/etc/passwd"}, "model.bad-index"),
])  # fmt: skip
def test_an_index_that_names_what_is_not_there(tmp_path, weight_map, code):
    assert one_problem(index(tmp_path, weight_map)).code == code


def test_a_shard_that_lacks_a_tensor_of_the_index(tmp_path):
    rows = llama_safetensors()
    safetensors(tmp_path / "model-00001-of-00001.safetensors", rows)
    index(tmp_path, dict.fromkeys([*(row[0] for row in rows), "model.layers.31.extra"], "model-00001-of-00001.safetensors"))
    assert one_problem(tmp_path).code == "model.missing-tensor"


def test_a_part_that_is_not_there(tmp_path):
    safetensors(folder(tmp_path) / "model-00001-of-00002.safetensors", llama_safetensors())
    problem = one_problem(tmp_path)
    assert problem.code == "model.missing-shard"
    assert "model-00002-of-00002.safetensors" in problem.message


def test_links_in_a_circle_and_folders_that_are_called_files(tmp_path):
    (folder(tmp_path) / "model.safetensors").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "model.safetensors")
    assert one_problem(tmp_path).code == "model.unreadable"
    (tmp_path / "x.gguf").mkdir()
    assert "no config.json" in one_problem(tmp_path / "x.gguf").message


def test_files_that_are_no_checkpoints_say_what_to_give(tmp_path):
    for name in ("pytorch_model.bin", "model.ckpt", "adapter_model.safetensors"):
        (tmp_path / name).write_bytes(b"\0" * 100)
        assert one_problem(tmp_path / name).hint
    safetensors(tmp_path / "alone.safetensors", llama_safetensors())
    assert "config.json" in one_problem(tmp_path / "alone.safetensors").message


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says what a process has taken")
def test_no_file_takes_more_memory_than_is_said(tmp_path):
    for at, raw in enumerate(GGUF.values()):
        (tmp_path / f"{at}.gguf").write_bytes(raw)
    million(tmp_path / "million.gguf")
    for at, name in enumerate(SAFETENSORS):
        (tmp_path / f"s{at}").mkdir()
        lie(tmp_path / f"s{at}", name)
    script = (
        "import re, sys; from pathlib import Path; from gpuplan.errors import GpuplanError\n"
        "from gpuplan.models.checkpoint.folder import import_path\n"
        "for one in sorted(Path(sys.argv[1]).iterdir()):\n"
        "    try: import_path(one)\n"
        "    except GpuplanError as error: assert len(error.problems) == 1\n"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * 1024 < MOST_MEMORY


def test_the_command_says_it_once_and_exits_with_2(tmp_path, capsys):
    path = tmp_path / "x.gguf"
    path.write_bytes(GGUF["a text of 10 GB"])
    for command in (["fit", str(path), "--on", "h100"], ["serve", str(path), "--on", "h100"], ["models", "show", str(path)]):
        assert run(command) == 2
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert said.err.count(os.fspath(path)) == 1, said.err
        assert not said.out


def one_problem(path: Path):
    with pytest.raises(GpuplanError) as error:
        import_path(path)
    (problem,) = error.value.problems
    assert problem.where
    assert problem.message
    return problem
