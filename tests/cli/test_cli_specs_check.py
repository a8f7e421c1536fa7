"""`specs check` on the command line: forms, choice of rules, exit codes, and the three messages that a reviewer must see."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuplan.check.examine import RULES
from gpuplan.errors import Exit
from gpuplan.specs.catalog import shipped_folder
from tests.cli.cli_calls import Call
from tests.cli.on_terminal import on_a_terminal

H100 = "accelerators/nvidia/h100-sxm-80gb.yaml"
AWS = "prices/aws/aws-p5.yaml"


def copied(folder: Path, file: str, old: str, new: str) -> Path:
    text = (shipped_folder() / file).read_text(encoding="utf-8")
    assert old in text
    path = folder / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def line_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("file", "old", "new", "said", "hint"),
    [
        (
            H100, "bf16: {value: 989.4 TFLOP/s", "bf16: {value: 1979 TFLOP/s",
            "bf16: `1979 TFLOP/s` is 2 times the dense rate of Hopper: it is the rate with sparsity [spec.sparse-rate]",
            "write the dense rate, `989.4 TFLOP/s`",
        ),
        (H100, "power: {value: 700 W", "power: {value: 700", "power: `700` has no unit [spec.missing-unit]", "write it as `700 W`"),
        (H100, "power: {value: 700 W", "power: {value: 700,5 W", "`5 W` is not a key of a value", "a number has no commas"),
        (
            AWS, "price: 55.04 USD/h", "price: 0 USD/h",
            "`p5.48xlarge` in us-east-1 is priced at 0: `0 USD/h` [spec.zero-price]",
            "leave out a price that is not known",
        ),
    ],
)  # fmt: skip
def test_a_pull_request_is_told_what_is_wrong(
    call: Call, tmp_path: Path, file: str, old: str, new: str, said: str, hint: str
) -> None:
    path = copied(tmp_path, file, old, new)
    told = call("specs", "check", str(tmp_path))
    assert told.code == Exit.USAGE
    assert f"error: {path}:{line_of(path, new)}: " in told.err
    assert said in told.err
    assert f"  hint: {hint}" in told.err
    assert told.err.endswith("1 error, 0 warnings in 1 file\n")
    assert told.out == ""


def test_annotations_of_a_pull_request(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = copied(tmp_path / "specs", H100, "bf16: {value: 989.4 TFLOP/s", "bf16: {value: 1979 TFLOP/s")
    monkeypatch.chdir(tmp_path)
    for place in ("specs", str(tmp_path / "specs")):
        told = call("specs", "check", place, "--format", "github")
        assert told.code == Exit.USAGE
        first, summary = told.out.splitlines()
        line = line_of(path, "1979 TFLOP/s,")
        assert first.startswith(f"::error file=specs/{H100},line={line},title=spec.sparse-rate::bf16: `1979 TFLOP/s` is 2 times")
        assert summary == "1 error, 0 warnings in 1 file"


def test_json(call: Call, tmp_path: Path) -> None:
    path = copied(tmp_path, H100, "links: {value: 18", "links: {value: 36")
    for words in (("--json",), ("--format", "json")):
        told = call("specs", "check", str(path), *words)
        record = json.loads(told.out)
        assert told.code == Exit.USAGE
        assert {name: record[name] for name in ("errors", "warnings", "files")} == {"errors": 1, "warnings": 0, "files": 1}
        found = record["findings"][0]
        assert (found["code"], found["severity"], found["file"]) == ("spec.link-generation", "error", str(path))
        assert found["line"] == line_of(path, "links: {value: 36")
        assert found["message"]
        assert found["hint"]


def test_rules_are_chosen(call: Call, tmp_path: Path) -> None:
    copied(tmp_path, H100, "links: {value: 18", "links: {value: 36")
    copied(tmp_path, AWS, "price: 55.04 USD/h", "price: 700.0 USD/h")
    both = call("specs", "check", str(tmp_path)).err
    assert "spec.link-generation" in both
    assert "spec.sentinel-price" in both
    for words in (("--select", "sentinel-price"), ("--select", "spec.sentinel-price"), ("--ignore", "link-generation,rate-ratio")):
        told = call("specs", "check", str(tmp_path), *words)
        assert told.code == Exit.USAGE
        assert "spec.sentinel-price" in told.err
        assert "spec.link-generation" not in told.err
    told = call("specs", "check", str(tmp_path), "--ignore", "link-generation", "--ignore", "sentinel-price")
    assert (told.code, told.out) == (0, "all is right in 2 files\n")


def test_warnings_do_not_fail_unless_strict(call: Call, tmp_path: Path) -> None:
    copied(tmp_path, H100, "https://glennklockwood.com", "http://glennklockwood.com")
    told = call("specs", "check", str(tmp_path))
    assert told.code == 0
    assert "warning: " in told.err
    assert "[spec.http-source]" in told.err
    assert told.err.endswith("0 errors, 1 warning in 1 file\n")
    assert call("specs", "check", str(tmp_path), "--strict").code == Exit.USAGE
    assert "::warning file=" in call("specs", "check", str(tmp_path), "--format", "github").out


def test_the_age_that_is_stale(call: Call, tmp_path: Path) -> None:
    copied(tmp_path, AWS, "date: 2026-07-20", "date: 2020-07-20")
    assert "[spec.stale-price]" in call("specs", "check", str(tmp_path)).err
    assert "[spec.stale-price]" not in call("specs", "check", str(tmp_path), "--max-age", "36500").err
    assert call("specs", "check", "--max-age", "a year").code == Exit.USAGE


def test_rules_are_listed(call: Call) -> None:
    told = call("specs", "check", "--rules")
    assert told.code == 0
    assert set(re.findall(r"^  ((?:spec\.|model\.)?[a-z-]+) ", told.out, re.M)) == set(RULES)
    listed = json.loads(call("specs", "check", "--rules", "--json").out)
    assert [one["code"] for one in listed] == list(RULES)


def test_a_users_folder_with_ours(call: Call, tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    text = (shipped_folder() / "systems/dgx-h100.yaml").read_text(encoding="utf-8")
    (mine / "systems").mkdir(parents=True)
    (mine / "systems" / "my-node.yaml").write_text(
        re.sub(r"\naliases: .*|\nclouds: .*", "", text)
        .replace("id: dgx-h100", "id: my-node")
        .replace(": h100-sxm-80gb", ": my-gpu")
    )
    gpu = (shipped_folder() / H100).read_text(encoding="utf-8")
    (other / "accelerators" / "mine").mkdir(parents=True)
    (other / "accelerators" / "mine" / "my-gpu.yaml").write_text(
        re.sub(r"\n(aliases|driver_names): .*", "", gpu)
        .replace("id: h100-sxm-80gb", "id: my-gpu")
        .replace("default_system: dgx-h100\n", "")
    )
    alone = call("specs", "check", str(mine))
    assert alone.code == Exit.USAGE
    assert "[spec.unknown-reference]" in alone.err
    together = call("specs", "check", str(mine), "--specs", str(other))
    assert (together.code, together.out) == (0, "all is right in 1 file\n")
    assert call("specs", "check", str(mine), str(other)).out == "all is right in 2 files\n"
    all_of_it = call("specs", "check", "--specs", str(mine), "--specs", str(other))
    assert all_of_it.code == 0, all_of_it.err


def test_wrong_words(call: Call) -> None:
    assert "did you mean `sparse-rate`" in call("specs", "check", "--select", "sparse-rat").err
    assert "no format `gitlab`" in call("specs", "check", "--format", "gitlab").err
    assert call("specs", "check", "--json", "--format", "github").code == Exit.USAGE


def test_findings_and_drafts_keep_to_the_width_of_a_terminal(tmp_path: Path) -> None:
    wrote, code = on_a_terminal("specs", "new", "price", "acme", "--out", str(tmp_path))
    assert code == 0
    found, code = on_a_terminal("specs", "check", str(tmp_path))
    assert code == Exit.USAGE
    for line in (wrote + found).splitlines():
        assert len(line) <= 80 or str(tmp_path) in line, line  # a long path stays whole
    assert "[spec.fill-in]" in found
