"""`gpuplan specs diff`: changes by value between folders and git revisions, and what they do to estimates."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuplan.browse.diff import compare
from gpuplan.specs.catalog import shipped_folder
from tests.cli.cli_calls import Call

H100 = "accelerators/nvidia/h100-sxm-80gb.yaml"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{path} has no {old}"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(shipped_folder(), tmp_path / "specs")
    return tmp_path / "specs"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Some of the files: what git tells does not depend on how many there are, and making each takes a millisecond."""
    for inside in (H100, "prices/aws/aws-p5.yaml"):
        (tmp_path / "specs" / inside).parent.mkdir(parents=True)
        shutil.copy(shipped_folder() / inside, tmp_path / "specs" / inside)
    return tmp_path / "specs"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", "-c", "init.defaultBranch=main")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, capture_output=True)


def test_nothing_changed(call: Call, copy: Path) -> None:
    said = call("specs", "diff", str(shipped_folder()), str(copy))
    assert said.code == 0
    assert "nothing changed in " in said.out
    assert "estimates" not in said.out
    assert json.loads(call("specs", "diff", str(copy), "--json").out)["changed"] is False


def test_changes_by_value(copy: Path) -> None:
    edit(copy / H100, "value: 3.35 TB/s", "value: 3.0 TB/s")
    edit(copy / H100, "\npower: {value: 700 W", "\npower: {value: 0.7 kW")
    edit(copy / H100, "\nl2: {value: 50 MiB, source: nvidia-tuning}", "\nl2: {value: 50 MiB, source: lockwood}")
    edit(copy / H100, "\nform_factor: SXM5", "\nform_factor: SXM6")
    edit(copy / "prices/aws/aws-p5.yaml", "price: 55.04 USD/h", "price: 50 USD/h")
    (copy / "accelerators/nvidia/a16-gpu.yaml").unlink()
    (copy / "accelerators/nvidia/a2.yaml").rename(copy / "accelerators/nvidia/a3.yaml")
    found = compare(shipped_folder(), copy)
    assert found.added == (("accelerators", "nvidia/a3"),)
    assert found.removed == (("accelerators", "nvidia/a16-gpu"), ("accelerators", "nvidia/a2"))
    made = {(one.category, one.path): one for one in found.changes}
    bandwidth = made["value", "memory.bandwidth"]
    assert (bandwidth.old, bandwidth.new, bandwidth.unit) == ("3.35 TB/s", "3.0 TB/s", "B/s")
    assert bandwidth.ratio == pytest.approx(3.0 / 3.35)
    assert made["spelling", "power"].new == "0.7 kW"
    assert (made["source", "l2.source"].old, made["source", "l2.source"].new) == ("nvidia-tuning", "lockwood")
    assert made["words", "form_factor"].new == "SXM6"
    price = next(one for one in found.changes if one.file.endswith("aws-p5"))
    assert price.path.startswith("offers[p5.48xlarge us-east-1 on_demand")
    assert price.ratio == pytest.approx(50 / 55.04)
    assert len(found.changes) == 5


def test_an_inserted_offer_moves_no_other(copy: Path) -> None:
    edit(
        copy / "prices/aws/aws-p5.yaml",
        "offers:\n",
        "offers:\n  - {instance: new.xlarge, region: us-east-1, kind: spot, price: 1 USD/h}\n",
    )
    (change,) = compare(shipped_folder(), copy).changes
    assert (change.category, change.old, change.new) == ("value", None, "1 USD/h")
    assert change.path == "offers[new.xlarge us-east-1 spot]"


def test_another_source_of_a_section_is_one_change_of_source(copy: Path) -> None:
    edit(copy / H100, "\nmemory:\n  source: nvidia\n", "\nmemory:\n  source: lockwood\n")
    (change,) = compare(shipped_folder(), copy).changes
    assert (change.category, change.path, change.old, change.new) == ("source", "memory.source", "nvidia", "lockwood")


def test_broken_files_are_said_and_do_not_hide_the_rest(call: Call, copy: Path) -> None:
    edit(copy / H100, "memory:\n", "memory: [\n")
    edit(copy / "prices/aws/aws-p5.yaml", "price: 55.04 USD/h", "price: 50 USD/h")
    said = call("specs", "diff", str(shipped_folder()), str(copy), "--no-estimates")
    assert said.code == 0
    assert "Cannot be read\n  accelerators/nvidia/h100-sxm-80gb.yaml:" in said.out
    assert "55.04 USD/h → 50 USD/h" in said.out


def test_estimates_move_with_the_specs(call: Call, copy: Path) -> None:
    edit(copy / H100, "value: 3.35 TB/s", "value: 3.0 TB/s")
    words = ("specs", "diff", str(shipped_folder()), str(copy))
    record = json.loads(call(*words, "--json").out)
    questions = {one["question"]: one for one in record["estimates"]}
    assert set(questions) == {f"{task} llama-3.1-8b --on h100-sxm-80gb" for task in ("fit", "serve", "train")}
    assert questions["fit llama-3.1-8b --on h100-sxm-80gb"]["figures"] == []
    figures = {one["name"]: one for one in questions["serve llama-3.1-8b --on h100-sxm-80gb"]["figures"]}
    assert figures["itl_s"]["ratio"] > 1.01
    assert figures["tokens_per_s"]["ratio"] < 1
    text = call(*words)
    assert "memory.bandwidth  3.35 TB/s → 3.0 TB/s  -10.4 %" in text.out
    assert "  fit llama-3.1-8b --on h100-sxm-80gb  unchanged" in text.out
    assert all(len(line) <= 80 for line in text.out.splitlines()[1:])
    md = call(*words, "--md").out
    assert "| accelerators/nvidia/h100-sxm-80gb | `memory.bandwidth` | 3.35 TB/s | 3.0 TB/s | -10.4 % |" in md
    other = json.loads(call(*words, "--json", "--on", "a100-sxm-80gb").out)
    assert all(one["figures"] == [] for one in other["estimates"])


def test_scenarios_are_its_questions(call: Call, copy: Path, tmp_path: Path) -> None:
    edit(copy / H100, "value: 3.35 TB/s", "value: 3.0 TB/s")
    plans = tmp_path / "plans.yaml"
    scenarios = "{chat: {ask: serve, model: llama-3.1-8b, on: h100}, other: {ask: fit, model: llama-3.1-8b, on: l4}}"
    plans.write_text(f"format: 1\ndefaults: {{specs: [nowhere]}}\nscenarios: {scenarios}\n", encoding="utf-8")
    words = ("specs", "diff", str(shipped_folder()), str(copy), "--scenarios", str(plans))
    questions = {one["question"]: one["figures"] for one in json.loads(call(*words, "--json").out)["estimates"]}
    assert list(questions) == ["chat", "other"]
    assert {one["name"]: one["ratio"] > 1 for one in questions["chat"]}["itl_s"]
    assert questions["other"] == []
    assert call(*words, "--on", "h100").code == 2
    assert call(*words[:-1], str(tmp_path / "none.yaml")).code == 2


def test_a_removed_chip_has_no_answer_any_more(call: Call, copy: Path) -> None:
    (copy / "accelerators/nvidia/l40s.yaml").unlink()
    said = call("specs", "diff", str(shipped_folder()), str(copy), "--on", "l40s")
    assert "fits → no answer (" in said.out


def test_git_revisions(call: Call, few: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = few.parent
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "one")
    git(top, "tag", "v1")
    edit(few / H100, "value: 3.35 TB/s", "value: 3.0 TB/s")
    git(top, "commit", "-q", "-a", "-m", "two")
    edit(few / H100, "value: 3.0 TB/s", "value: 2.9 TB/s")
    for inside in (top, few, few / "accelerators"):
        monkeypatch.chdir(inside)
        assert "3.35 TB/s → 3.0 TB/s" in call("specs", "diff", "v1", "HEAD", "--no-estimates").out
        said = call("specs", "diff", "v1", "--no-estimates")
        assert said.out.splitlines()[0].endswith("→ the working tree")
        assert "3.35 TB/s → 2.9 TB/s" in said.out
        assert "nothing changed" in call("specs", "diff", "v1", "HEAD~1").out
    assert "3.0 TB/s → 2.9 TB/s" in call("specs", "diff", "HEAD", str(few), "--no-estimates").out
    status = subprocess.run(["git", "-C", str(top), "status", "--short"], check=True, capture_output=True, text=True).stdout
    assert status.split() == ["M", f"specs/{H100}"]
    (few.parent / "more" / "prices").mkdir(parents=True)
    shutil.copy(few / "prices/aws/aws-p5.yaml", few.parent / "more" / "prices")
    monkeypatch.chdir(top)
    which = call("specs", "diff", "v1")
    assert which.code == 2
    assert "2 folders of specs: more, specs" in which.err
    assert "nothing changed" in call("specs", "diff", "v1", "v1", "--specs", "specs").out


def test_a_users_folder_lies_over_what_is_shipped(call: Call, tmp_path: Path) -> None:
    for name, price in (("old", "20"), ("new", "10")):
        folder = tmp_path / name / "accelerators" / "nvidia"
        folder.mkdir(parents=True)
        text = (shipped_folder() / H100).read_text(encoding="utf-8")
        text = text.replace("id: h100-sxm-80gb", "id: mine").replace("aliases: [", "aliases: [] #").replace("driver_names: [", "#")
        (folder / "mine.yaml").write_text(
            text.replace("value: 3.35 TB/s", f"value: 3.{price} TB/s").replace("accept: [3.35", "accept: [3.1")
        )
    said = call("specs", "diff", str(tmp_path / "old"), str(tmp_path / "new"))
    assert "memory.bandwidth  3.20 TB/s → 3.10 TB/s  -3.1 %" in said.out
    assert "serve llama-3.1-8b --on mine\n" in said.out


def test_a_folder_that_the_base_did_not_have_is_all_new(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "README").write_text("empty")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "one")
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "specs" / "accelerators" / "nvidia"
    folder.mkdir(parents=True)
    assert call("specs", "diff", "HEAD", "--specs", "specs").code == 2
    text = (shipped_folder() / H100).read_text(encoding="utf-8")
    text = text.replace("id: h100-sxm-80gb", "id: mine").replace("aliases: [", "aliases: [] #").replace("driver_names: [", "#")
    (folder / "mine.yaml").write_text(text)
    said = call("specs", "diff", "HEAD", "--specs", "specs")
    assert said.code == 0
    assert "Added\n  accelerators: mine" in said.out
    assert words_of("fit llama-3.1-8b --on mine no answer (") in words_of(said.out)


def words_of(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nosuch"], "`nosuch` is neither a folder nor a git revision here"),
        (["--", "--output=x"], "`--output=x` is neither a folder nor a git revision"),
        ([".", "."], "the folder `.` holds no spec files"),
        (["a", "b", "c"], "3 places: a comparison has two sides"),
        (["HEAD", "--specs", "nosuch"], "the folder `nosuch` does not exist"),
    ],
)
def test_bad_places(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "hardware_specs" / "prices").mkdir(parents=True)
    shutil.copy(shipped_folder() / "prices/aws/aws-p5.yaml", tmp_path / "hardware_specs" / "prices")
    monkeypatch.chdir(tmp_path)
    said = call("specs", "diff", *words)
    assert said.code == 2
    assert message in said.err


def test_outside_a_repository(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    said = call("specs", "diff", "HEAD")
    assert said.code == 2
    assert "this is no git repository" in said.err
