"""The commands of the README and of the issue, answered for real: the form of the answer, not its numbers."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from gpuplan.check.examine import check
from gpuplan.render.json import EstimateJson
from tests.cli.cli_calls import Call, python
from tests.sweeps import thinned

ANSWERED = [
    "fit llama-3.1-8b --on h100",
    "train llama-3.1-8b --on 8xh100-sxm-80gb --tokens 15T",
    "train llama-3.1-70b --on 64xaws:p5.48xlarge --tokens 2T",
    "serve llama-3.1-70b --on 4xh100 --prompt 2000 --output 300",
    "serve Qwen/Qwen3-32B --on 2xh200 --prompt 1k --output 200",
]
REFUSED = [
    ("fit llama-3.1-8b --on h100-smx", 5, "h100-smx", "h100-sxm"),
    ("fit llama-3.1-8 --on h100", 5, "llama-3.1-8", "llama-3.1-8b"),
    ("train llama-3.1-8b --on 8xh100 --tp 3", 2, "tp = 3 does not divide the 32 attention heads", "2 or 4"),
    ("fit llama-3.1-8b --on h100 --engine vlm", 5, "vlm", "vllm"),
    ("fit llama-3.1-8b --on h100 --set hw.no_such_term=3", 2, "hw.no_such_term", ""),
    ("fit llama-3.1-8b --on h100 --explain no_such_figure", 2, "no_such_figure", "figures are"),
]


def lone_url(line: str) -> bool:
    return line.strip().startswith("https://") and " " not in line.strip()


@pytest.mark.parametrize("line", ["fit llama-3.1-8b --on h100", "train llama-3.1-8b --on 8xh100", "fit llama-3.1-70b --on t4"])
@pytest.mark.parametrize("form", [("--csv",), ("--brief",), ("--explain", "peak_memory_bytes")], ids=" ".join)
def test_what_names_no_changes_looks_for_none(
    call: Call, monkeypatch: pytest.MonkeyPatch, line: str, form: tuple[str, ...], tmp_path: Path
) -> None:
    with_changes = call(*shlex.split(line), *form, "--html", str(tmp_path / "report.html"))
    for name in ("better_changes", "fitting_changes"):
        monkeypatch.setattr(f"gpuplan.search.changes.{name}", None)
    without = call(*shlex.split(line), *form)
    assert without.code in (0, 3)
    assert (without.code, without.out) == (with_changes.code, with_changes.out)
    assert "hanges that" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("line", ANSWERED)
@pytest.mark.parametrize("columns", [60, 80, 200])
def test_answers_fit_the_terminal_and_begin_with_the_verdict(call: Call, line: str, columns: int) -> None:
    said = call(*shlex.split(line), columns=columns)
    assert said.code == 0, said.err
    assert said.out.startswith("FITS  ")
    assert "low – high" in said.out
    assert "\x1b" not in said.out
    assert [row for row in said.out.splitlines() if len(row) > columns and not lone_url(row)] == []


@pytest.mark.parametrize("line", thinned(ANSWERED, every=3))
def test_answers_as_json_csv_and_markdown(call: Call, line: str) -> None:
    made = json.loads(call(*shlex.split(line), "--json").out)
    TypeAdapter(EstimateJson).validate_python(made, strict=True)
    uncertain = [figure for figure in made["figures"].values() if figure["low"] < figure["value"] < figure["high"]]
    assert uncertain
    assert "terms" not in made
    assert len(json.dumps(made)) < 20_000
    whole = json.loads(call(*shlex.split(line), "--json=full").out)
    TypeAdapter(EstimateJson).validate_python(whole, strict=True)
    assert whole["figures"] == {key: {**one, "term": whole["figures"][key]["term"]} for key, one in made["figures"].items()}
    assert {one["term"] for one in whole["figures"].values()} <= whole["terms"].keys()
    assert call(*shlex.split(line), "--csv").out.startswith("estimate,section,name,value,low,high,unit,share,assumed\n")
    assert call(*shlex.split(line), "--md").out.startswith("**FITS**")


def test_an_answer_in_one_line_in_full_and_for_a_screen_reader(call: Call) -> None:
    words = shlex.split(ANSWERED[0])
    one = call(*words, "--brief").out
    assert one.startswith("FITS  ")
    assert one.count("\n") == 1
    whole = call(*words, "--full").out
    assert "Memory of the fullest rank" in whole
    assert len(whole.splitlines()) > len(call(*words).out.splitlines())
    read = call(*words, "--plain").out
    assert read.startswith("answer: fits, ")
    assert all(": " in row for row in read.splitlines())
    assert len(call(*words, "--plain", "--full").out) > len(read)
    assert call("--brief", *words).out == one


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--json=all"], "--json=all is no form of JSON"),
        (["--full", "--brief"], "--full and --brief exclude each other"),
        (["--full", "--json"], "--full: the answer is not written in words"),
        (["--plain", "--explain"], "--plain: the answer is not written in words"),
    ],
)
def test_forms_that_exclude_each_other(call: Call, more: list[str], message: str) -> None:
    said = call(*shlex.split(ANSWERED[0]), *more)
    assert (said.code, said.out) == (2, "")
    assert message in said.err


SETTLED = "--tp 1 --pp 1 --cp 1 --zero-stage 3 --micro-batch 1 --recompute full"


@pytest.mark.parametrize("line", thinned([ANSWERED[0], f"{ANSWERED[1]} {SETTLED}", f"{ANSWERED[3]} --tp 4 --pp 1"], every=3))
def test_every_figure_explains_itself_within_80_columns(call: Call, line: str) -> None:
    words = shlex.split(line)
    figures = json.loads(call(*words, "--json").out)["figures"]
    for key in figures:
        said = call(*words, "--explain", key)
        assert said.code == 0, said.err
        assert f"\n{key}  " in said.out
        if key not in ("tokens_per_step", "longest_tokens"):  # which rest on the plan alone
            assert "checked 20" in said.out, key
            assert "https://" in said.out, key
        assert [row for row in said.out.splitlines() if len(row) > 80 and not lone_url(row)] == []


def test_explain_in_all_its_forms(call: Call) -> None:
    words = shlex.split(ANSWERED[3])
    one = call(*words, "--explain", "tpot_s")
    assert call("explain", "tpot_s", *words).out == one.out
    assert call(*words, "--explain", "TPOT").out == one.out
    every = call(*words, "--explain")
    assert every.code == 0
    assert "\nttft_s  " in every.out
    assert "\ntpot_s  " in every.out
    assert call(words[0], "--explain", *words[1:]).out == every.out
    shallow = call(*words, "--explain", "tpot_s", "--depth", "1").out
    assert len(shallow) < len(one.out)


def test_price_date_and_source_of_a_cloud_instance(call: Call) -> None:
    said = call(*shlex.split(ANSWERED[2]))
    assert re.search(r"\n  cost +[\d,]+ USD", said.out)
    assert re.search(r"price [\d.]+ USD/h for aws:p5.48xlarge in \S+, on demand,\s+20", said.out)
    assert "checked 20" in " ".join(call(*shlex.split(ANSWERED[2]), "--full").out.split())


def test_what_does_not_fit_says_what_binds_and_what_would(call: Call) -> None:
    said = call("fit", "llama-3.1-70b", "--on", "t4")
    assert said.code == 3
    assert said.out.startswith("DOES NOT FIT  ")
    assert "weights" in said.out.splitlines()[0] + said.out.splitlines()[1]
    assert "\nTo fit   --" in said.out
    assert "Smallest changes that make it fit\n  --" in call("fit", "llama-3.1-70b", "--on", "t4", "--full").out
    assert said.err == ""


def test_what_does_not_keep_up_says_what_would_and_how_much_that_keeps(call: Call) -> None:
    said = call("serve", "llama-3.1-8b", "--on", "h100", "--rate", "300")
    assert said.code == 3
    found = re.findall(r"^(?:Keeps up|        ) (--\S+ .*?\S) {2,}up to ([\d,.]+) requests/s$", said.out, re.M)
    assert found
    assert all(float(rate.replace(",", "")) > 300 for _, rate in found)
    assert len({flags.split("--on ")[-1] for flags, _ in found}) == len(found), "what is enough alone is not told with more"
    assert "Smallest changes that keep up\n  --" in call("serve", "llama-3.1-8b", "--on", "h100", "--rate", "300", "--full").out


@pytest.mark.parametrize(("line", "code", "message", "hint"), REFUSED)
def test_refusals(call: Call, line: str, code: int, message: str, hint: str) -> None:
    said = call(*shlex.split(line))
    assert said.code == code, said.err
    assert said.out == ""
    assert message in said.err
    assert hint in said.err
    assert "Traceback" not in said.err


def test_a_config_without_heads(call: Call, tmp_path: Path) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 100}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    for words in (("serve", str(path), "--on", "h100"), ("models", "import", str(path)), ("models", "show", str(path))):
        said = call(*words)
        assert said.code == 5, said.err
        assert "num_attention_heads" in said.err
        assert said.out == ""


def test_an_imported_card_can_be_read_back(call: Call, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 100,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "torch_dtype": "bfloat16",
        "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
    }  # fmt: skip
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    said = call("models", "import", str(folder))
    assert said.code == 0, said.err
    assert "parameters in all" in said.err
    home = tmp_path / "specs" / "models"
    home.mkdir(parents=True)
    (home / "tiny.yaml").write_text(said.out, encoding="utf-8")
    shown = call("models", "show", "tiny", "--specs", str(tmp_path / "specs"))
    assert shown.code == 0, shown.err
    assert shown.out.startswith("tiny  ")
    assert "4 heads of 16 over 2 KV heads" in shown.out


def test_an_empty_specs_folder_stops_a_question(call: Call, tmp_path: Path) -> None:
    said = call("fit", "llama-3.1-8b", "--on", "h100", "--specs", str(tmp_path))
    assert said.code == 2
    assert "no YAML file" in said.err


def test_compare_puts_answers_side_by_side(call: Call) -> None:
    said = call("compare", "fit", "llama-3.1-8b", "--on", "h100", "--on", "a100-sxm-80gb")
    assert said.code == 0, said.err
    assert said.out.startswith("most room: ")
    assert {*said.out.splitlines()[2].split()} == {"h100", "a100-sxm-80gb"}
    assert "a100-sxm-80gb" in said.out.partition("Why")[2]
    assert call("compare", "fit", "llama-3.1-70b", "--on", "t4", "--on", "l4").code == 3
    both = json.loads(call("compare", "fit", "llama-3.1-8b", "--on", "h100", "--on", "t4", "--json").out)
    assert [(one["name"], one["fits"]) for one in both["rows"]] == [("h100", True), ("t4", False)]


def test_doctor_is_well(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    look = cache(lambda *folders: check(folders))
    monkeypatch.setattr("gpuplan.check.examine.check", lambda folders: look(*folders))  # one look at all files for both answers
    said = call("doctor")
    assert said.code == 0, said.out
    assert "ALL WELL" in said.out
    assert "specs shipped" in said.out
    assert json.loads(call("doctor", "--json").out)["problems"] == []


def test_fit_imports_no_array_library() -> None:
    out = python(
        "import sys\nfrom gpuplan.cli.main import run\nrun(['fit', 'llama-3.1-8b', '--on', 'h100'])\n"
        "print([name for name in ('numpy', 'torch', 'scipy', 'rich') if name in sys.modules])"
    )
    assert out.endswith("\n[]\n")


def test_the_sequences_that_fit_say_of_what(call: Call) -> None:
    """With two replicas 346 run at once where 157 fit: those are of each."""
    for words, said in ((("l40s",), "at once"), (("2xl40s", "--dp", "2"), "each replica")):
        line = next(
            one
            for one in call("serve", "llama-3.1-8b", "--concurrency", "64", "--on", *words).out.splitlines()
            if one.startswith("  max sequences")
        )
        assert line.endswith(said)
    ranks = call("serve", "deepseek-v3", "--on", "8xh200", "--attention-dp", "8", "--concurrency", "64").out
    assert re.search(r"^  max sequences .* each rank$", ranks, re.MULTILINE)


def test_a_million_tokens_keep_their_digits(call: Call) -> None:
    """`context 1.04858e+06` is another number, and none that can be typed back."""
    for words in (
        ("serve", "llama-4-scout", "--on", "8xh100", "--weights", "fp8", "--context", "1048576"),
        ("train", "llama-3.1-8b", "--on", "8xh100", "--seq-len", "1048576"),
        ("serve", "llama-3.1-8b", "--on", "8xh100", "--prompt", "1048000", "--output", "576"),
    ):
        for more in ((), ("--full",)):
            said = call(*words, *more).out
            assert "1048576" in said
            assert "e+0" not in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("llama-3-8b --on h100", "8,192                        all the model allows"),
        ("llama-3.1-8b --on a100", "131,072                        all the model allows"),
        ("llama-3.1-8b --on rtx-4090", "that fit"),
    ],
)
def test_the_longest_sequence_says_what_bounds_it(call: Call, line: str, said: str) -> None:
    """It said the context that was asked for, of cards with room for ten times as long a one."""
    text = next(one for one in call("fit", *line.split()).out.splitlines() if "longest tokens" in one)
    assert text.endswith(said)
    if said == "that fit":
        tokens = int(text.split()[2].replace(",", ""))
        assert call("fit", *line.split(), "--context", str(tokens)).code == 0
        assert call("fit", *line.split(), "--context", str(tokens * 65 // 64)).code == 3


@pytest.mark.parametrize(
    ("line", "way"),
    [
        ("llama-3.3-70b --on rtx-4090", "serve --engine llama-cpp --gpu-layers 40  fits in q4_k_m"),
        ("llama-3.3-70b --on rtx-4090 --weights q4_k_m", "serve --gpu-layers 40  fits"),
    ],
)
def test_one_user_hears_of_four_bits_and_of_the_host(call: Call, line: str, way: str) -> None:
    asked = call("fit", *line.split())
    assert asked.code == 3
    assert way in asked.out
    flags = way.partition("  ")[0].removeprefix("serve ").split()
    assert call("serve", *line.split(), *flags, "--context", "8192", "--brief").code == 0


def test_memory_that_programs_can_take_is_the_same_for_training_and_serving(call: Call) -> None:
    """An A100's driver totals 80 GiB, of which CUDA tells programs 79.25: training counted the former, serving the latter."""
    for on, size in (("a100", 79.25), ("a100-sxm-40gb", 39.55), ("gb10", 121.63), ("h100", 84942979072 / 2**30)):
        for asked in (("fit", "qwen3-0.6b"), ("train", "qwen3-0.6b"), ("train", "resnet-50")):
            found = json.loads(call(*asked, "--on", on, "--json").out)["figures"]["memory_capacity_bytes"]["value"]
            assert found == pytest.approx(size * 2**30), (on, asked)
