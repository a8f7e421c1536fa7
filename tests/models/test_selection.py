"""`gpuplan models list` by kind, size, licence and year."""

import json

import pytest

from gpuplan.cli.main import run
from gpuplan.models.catalog import find
from gpuplan.models.selection import KINDS, kinds_of


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("llama-3.1-8b", {"dense"}), ("mixtral-8x7b", {"mixture"}), ("jamba-v0.1-52b", {"mixture", "recurrent"}),
        ("bge-m3", {"dense", "encoder"}), ("t5-11b", {"dense", "encoder-decoder"}), ("qwen2.5-vl-7b", {"dense", "vision"}),
        ("whisper-small", {"dense", "encoder-decoder", "speech"}), ("qwen3-next-80b-a3b", {"mixture", "recurrent"}),
        ("lfm2-1.2b", {"dense", "recurrent"}), ("LiquidAI/LFM2-8B-A1B", {"mixture", "recurrent"}),
    ],
)  # fmt: skip
def test_what_kind_a_model_is_of(name, kinds):
    assert kinds_of(find(name)) == kinds
    assert kinds <= set(KINDS)


def _asked(capsys, *words):
    assert run(["models", "list", "--json", *words]) == 0
    said = capsys.readouterr()
    return {one["id"]: one["params_total"] for one in json.loads(said.out)}, said.err


def test_a_list_of_a_size(capsys):
    found, _ = _asked(capsys, "--min-params", "7B", "--max-params", "9B")
    assert found
    assert all(7e9 <= params <= 9e9 for params in found.values())
    assert {"llama-3.1-8b", "mistral-7b-v0.3"} <= set(found)


def test_a_list_of_a_kind_and_a_licence_says_what_it_left_out(capsys):
    found, notes = _asked(capsys, "--kind", "mixture", "--license", "apache")
    assert "qwen3-30b-a3b" in found
    assert "llama-3.1-8b" not in found
    assert "no licence is on record" in notes
    every, _ = _asked(capsys, "--kind", "diffusion")
    assert {"sdxl", "flux.1-dev"} <= set(every)


def test_a_list_of_years(capsys):
    one, notes = _asked(capsys, "qwen3", "--year", "2025")
    assert {"qwen3-8b", "qwen3-next-80b-a3b"} <= set(one)
    assert not [name for name in one if name.startswith(("qwen3.5", "qwen3.6"))]
    assert "no day is on record" in _asked(capsys, "opt", "--year", "2022")[1] or "no day" in notes
    both, _ = _asked(capsys, "qwen3", "--year", "2025-2026")
    assert set(one) < set(both)
    assert {"qwen3.5-27b"} <= set(both)


def test_numbers_of_a_list_have_licence_and_day(capsys):
    assert run(["models", "list", "--json", "qwen3-8b"]) == 0
    found = {one["id"]: one for one in json.loads(capsys.readouterr().out)}
    assert (found["qwen3-8b"]["license"], found["qwen3-8b"]["released"]) == ("apache-2.0", "2025-04-27")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--kind", "moe"], 2, "mixture"), (["--max-params", "few"], 2, "few"),
        (["--kind", "speech", "--kind", "diffusion"], 5, "leave one of the conditions out"),
        (["--year", "26"], 2, "no year"), (["--year", "2026-2024"], 2, "no year"), (["--year", "1999"], 5, "leave one"),
    ],
)  # fmt: skip
def test_what_no_list_can_be_of(words, code, said, capsys):
    assert run(["models", "list", *words]) == code
    assert said in capsys.readouterr().err
