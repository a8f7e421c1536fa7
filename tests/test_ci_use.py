"""A team's own specs folder: the files in the README work as printed, and CI refuses what a pull request must not bring in."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.check.examine import check
from gpuplan.cli.specs import PARTS
from gpuplan.models.catalog import CARDS
from gpuplan.specs.catalog import KINDS, shipped_folder

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "team-specs"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.S)
SECTION = re.compile(r"^## Your own chips.*?(?=^## Where the rest stands)", re.M | re.S)
PAGE = ROOT / "docs" / "own-specs.md"
CHIP, NODE, INSTANCE, PRICES = (
    "accelerators/example/nova-96gb.yaml", "systems/nova-node.yaml", "instances/acme/nova.yaml", "prices/acme.yaml",
)  # fmt: skip


def section() -> str:
    found = SECTION.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert found is not None
    return found[0]


def spec_blocks(text: str) -> dict[str, str]:
    """The YAML blocks that begin with the name of a file in my-specs/."""
    blocks = [body for language, body in BLOCK.findall(text) if language == "yaml" and body.startswith("# my-specs/")]
    return {body.partition("\n")[0].removeprefix("# my-specs/"): body.partition("\n")[2] for body in blocks}


def environment(home: Path) -> dict[str, str]:
    """No settings of this machine, and the gpuplan under test first on the path, as `gpuplan`."""
    bin_folder = home / "bin"
    if not bin_folder.exists():
        bin_folder.mkdir(parents=True)
        script = bin_folder / "gpuplan"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gpuplan.cli.main "$@"\n')
        script.chmod(0o755)
    left_out = {"GPUPLAN_SPECS", "XDG_CONFIG_HOME", "GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out and not name.startswith("GIT_")}
    git = {f"GIT_{who}_{what}": "a@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    return {**kept, **git, "HOME": str(home), "PATH": f"{bin_folder}{os.pathsep}{kept['PATH']}", "PYTHONPATH": str(ROOT)}


def ask(line: str, cwd: Path, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", line]
    env = {**environment(home), **more}
    return subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)


def git(cwd: Path, home: Path, *words: str) -> str:
    done = ask(shlex.join(["git", "-c", "init.defaultBranch=main", *words]), cwd, home)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# The README, literally.


def test_the_files_and_questions_of_the_readme_work_as_printed(tmp_path: Path) -> None:
    text = section()
    assert set(spec_blocks(text)) == {CHIP, PRICES}
    beside = spec_blocks(PAGE.read_text(encoding="utf-8"))
    files = {**spec_blocks(text), **{name: beside[name] for name in (NODE, INSTANCE)}}
    work = tmp_path / "fresh"
    for name, body in files.items():
        path = work / "my-specs" / name
        path.parent.mkdir(parents=True)
        path.write_text(f"# my-specs/{name}\n{body}")
    lines = [line for language, body in BLOCK.findall(text) if language == "sh" for line in body.splitlines()]
    assert [line.split()[1] for line in lines] == ["specs", "fit", "train", "serve"]
    for line in lines:
        done = ask(line, work, tmp_path / "home")
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        if "--specs" in line:
            assert done.stdout.startswith("FITS ")
        if line.split()[1] == "serve":
            assert "price 26.40 USD/h for acme:nova.8 in" in " ".join(done.stdout.split())
            assert "cost of 1M output tokens" in done.stdout


def test_the_example_folder_is_what_the_texts_print() -> None:
    printed = spec_blocks(section()) | spec_blocks(PAGE.read_text(encoding="utf-8"))
    kept = {str(path.relative_to(EXAMPLE)): path.read_text(encoding="utf-8") for path in EXAMPLE.rglob("*.yaml")}
    assert printed == kept


def test_a_part_of_an_architecture_that_nobody_measured(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (likeness,) = [body for _, body in BLOCK.findall(page) if body.startswith("format: 1")]
    home, work = tmp_path / "home", tmp_path / "work"
    shutil.copytree(EXAMPLE, work / "my-specs", ignore=shutil.ignore_patterns("measured"))
    chip = work / "my-specs" / CHIP
    chip.write_text(chip.read_text().replace("family: hopper", "family: newton"))
    done = ask("gpuplan fit llama-3.1-8b --on nova --specs my-specs", work, home)
    assert done.returncode == 5
    assert "nothing is measured of nova-96gb or of its family `newton`" in done.stderr
    path = work / "my-specs" / "measured" / "nova-96gb.yaml"
    path.parent.mkdir()
    path.write_text(likeness)
    assert ask("gpuplan specs check my-specs", work, home).returncode == 0
    assert ask("gpuplan fit llama-3.1-8b --on nova --specs my-specs", work, home).returncode == 0


def test_the_page_names_all_kinds_of_files() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^  ([a-z]+)/<", page, re.M) == sorted(KINDS, key=lambda kind: page.index(f"\n  {kind}/<"))


def test_the_page_names_rules_that_there_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "gpuplan").rglob("*.py"))
    rules = re.findall(r"`((?:spec|yaml)\.[a-z-]+)`", page)
    assert len(rules) > 8
    for rule in rules:
        family, _, word = rule.partition(".")
        assert f'"{rule}"' in code or (family == "spec" and f'"{word}"' in code), rule


# What a pull request must not bring in.


def test_the_example_folder_is_clean() -> None:
    # Warnings may come with the years: prices and sources grow old.
    assert [found for found in check([EXAMPLE]) if found.severity == "error"] == []


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        (CHIP, "bf16: 1121 TFLOP/s", "bf16: 2242 TFLOP/s", ["bf16", "sparse"]),
        (CHIP, "fp8: 2241 TFLOP/s", "fp8: 4482 TFLOP/s", ["fp8", "sparse"]),
        (CHIP, "bandwidth: 4.9 TB/s", "bandwidth: 4.9", ["memory.bandwidth", "has no unit"]),
        (CHIP, "capacity: 96 GiB", "capacity: 96", ["memory.capacity", "has no unit"]),
        (PRICES, "26.40 USD/h", "0 USD/h", ["price", "`0 USD/h`", "zero"]),
        (PRICES, "26.40 USD/h", "0.00 USD/h", ["price", "`0.00 USD/h`", "zero"]),
        (PRICES, "26.40 USD/h", "26.40", ["price", "has no unit"]),
        (INSTANCE, "accelerator: nova-96gb", "accelerator: nova-90gb", ["`nova-90gb`", "did you mean"]),
        (NODE, "accelerators: {value: 8, source: order}", 'accelerators: "?"', ["fill this in: `accelerators`"]),
    ],
)  # fmt: skip
def test_a_fault_in_a_pull_request_fails_with_a_message_that_says_so(
    tmp_path: Path, name: str, old: str, new: str, says: list[str]
) -> None:
    work = tmp_path / "repository"
    shutil.copytree(EXAMPLE, work / "specs")
    path = work / "specs" / name
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    line = next(at for at, one in enumerate(path.read_text().splitlines(), 1) if new in one)
    done = ask("gpuplan specs check --format github specs", work, tmp_path / "home")
    assert done.returncode == 2, done.stderr
    errors = [one for one in done.stdout.splitlines() if one.startswith("::error ")]
    hit = [one for one in errors if all(word in one for word in says)]
    assert hit, done.stdout
    assert f"file=specs/{name}," in hit[0]
    assert f"line={line}," in hit[0]


# The pre-commit hook.


def hook(name: str = "gpuplan-specs-check") -> dict[str, Any]:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (made,) = [one for one in hooks if one["id"] == name]
    assert isinstance(made, dict)
    return made


def test_the_hook_is_shaped_as_pre_commit_wants_it() -> None:
    made = hook()
    assert {"id", "name", "entry", "language", "files"} <= set(made)
    assert (made["id"], made["language"]) == ("gpuplan-specs-check", "python")
    scripts = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\n{made["entry"].split()[0]} = "gpuplan.cli.start:main"' in scripts
    wanted = re.compile(made["files"])
    assert all(wanted.search(f"my-specs/{name}") and wanted.search(name) for name in (CHIP, NODE, INSTANCE, PRICES))
    assert all(wanted.search(f"{kind}/some/file.yaml") for kind in KINDS)
    for other in (".github/workflows/ci.yml", "README.md", "accelerators/notes.txt", "my-systems.yaml"):
        assert not wanted.search(other)
    page = PAGE.read_text(encoding="utf-8")
    (config,) = [yaml.safe_load(body) for _, body in BLOCK.findall(page) if body.startswith("# .pre-commit-config.yaml")]
    assert [one["id"] for one in config["repos"][0]["hooks"]] == [made["id"]]


def test_the_hook_and_the_action_open_model_cards_and_measured_files(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "repository"
    shutil.copytree(EXAMPLE, work / "specs")
    card = work / "specs" / "models" / "our-7b.yaml"
    card.parent.mkdir(exist_ok=True)
    shipped = CARDS / "mistral-7b-v0.1.yaml"
    text = shipped.read_text(encoding="utf-8").replace("id: mistral-7b-v0.1\n", "id: our-7b\n")
    card.write_text(text, encoding="utf-8")
    assert ask(f"{hook()['entry']} specs/models/our-7b.yaml", work, home).returncode == 0
    for old, new, said in (
        ("kv_heads: 8", "kv_heads: eight", "is not a whole number"),
        ("kv_heads: 8", "kv_heads: 32", "parameters"),
        ("max_context: 32768", "max_context: 512", "a context of 512"),
        ("format: 1", "garbage: [", "not valid YAML"),
    ):
        assert old in text
        card.write_text(text.replace(old, new), encoding="utf-8")
        told = ask(f"{hook()['entry']} specs/models/our-7b.yaml", work, home)
        assert (told.returncode, said in told.stderr) == (2, True), told.stderr
        told = ask(step("check")["run"], work, home, SPECS="specs", STRICT="false")
        assert (told.returncode, said in told.stdout) == (2, True), told.stdout
    card.unlink()
    measured = work / "specs" / "measured" / "h100-sxm-80gb.yaml"
    measured.parent.mkdir(exist_ok=True)
    text = (shipped_folder() / "measured" / "h100-sxm-80gb.yaml").read_text(encoding="utf-8")
    measured.write_text(text.replace("efficiency: 0.8987", "efficiency: 0.9887", 1), encoding="utf-8")
    told = ask(f"{hook()['entry']} specs/measured/h100-sxm-80gb.yaml", work, home)
    assert (told.returncode, "`0.9887`, where the shipped h100-sxm-80gb has `0.8987`" in told.stderr) == (2, True), told.stderr


def test_the_hooks_entry_in_a_repository(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "repository"
    shutil.copytree(EXAMPLE, work / "specs")
    git(work, home, "init", "--quiet")
    git(work, home, "add", ".")
    staged = [one for one in git(work, home, "diff", "--cached", "--name-only").splitlines() if re.search(hook()["files"], one)]
    assert len(staged) == 7
    entry = shlex.join([*shlex.split(hook()["entry"]), *staged])
    assert ask(entry, work, home).returncode == 0
    path = work / "specs" / PRICES
    path.write_text(path.read_text().replace("26.40 USD/h", "0 USD/h"))
    # As pre-commit does, with the files of this commit alone: names in the others are still found.
    done = ask(shlex.join([*shlex.split(hook()["entry"]), f"specs/{PRICES}"]), work, home)
    assert done.returncode == 2
    assert "zero" in done.stderr


PLANS = "format: 1\nscenarios: {a: {ask: fit, model: llama-3.1-8b, on: h100, require: fits}}\n"


def test_the_hook_for_scenarios(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "repository"
    work.mkdir()
    made = hook("gpuplan-run")
    (work / "plans.yaml").write_text(PLANS)
    (work / "team.plans.yaml").write_text(PLANS.replace("require: fits", "require: not fits"))
    assert [bool(re.search(made["files"], one)) for one in ("plans.yaml", "a/team.plans.yaml", "my-plans.yaml")] == [
        True,
        True,
        False,
    ]
    assert ask(f"{made['entry']} plans.yaml", work, home).returncode == 0
    assert ask(f"{made['entry']} plans.yaml team.plans.yaml", work, home).returncode == 4


def test_the_action_asks_scenarios(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "repository"
    work.mkdir()
    (work / "plans.yaml").write_text(PLANS)
    (work / "worse.yaml").write_text(PLANS.replace("require: fits", "require: not fits"))
    summary = tmp_path / "summary.md"
    script = step("run")["run"]
    assert ask(script, work, home, SCENARIOS="plans.yaml", GITHUB_STEP_SUMMARY=str(summary)).returncode == 0
    assert "1 passed" in summary.read_text()
    assert ask(script, work, home, SCENARIOS="worse.yaml plans.yaml", GITHUB_STEP_SUMMARY=str(summary)).returncode == 4
    assert "`not fits` does not hold" in summary.read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pre-commit") is None, reason="pre-commit is not installed")
def test_pre_commit_itself(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "repository"
    shutil.copytree(EXAMPLE, work / "specs")
    git(work, home, "init", "--quiet")
    git(work, home, "add", ".")
    line = f"pre-commit try-repo {shlex.quote(str(ROOT))} {hook()['id']} --all-files"
    done = ask(line, work, home, PYTHONPATH="")
    if "No matching distribution" in done.stdout or "Connection" in done.stdout:
        pytest.skip("no package index to install the hook's environment from")
    assert done.returncode == 0, done.stdout
    path = work / "specs" / PRICES
    path.write_text(path.read_text().replace("26.40 USD/h", "0 USD/h"))
    done = ask(line, work, home, PYTHONPATH="")
    assert done.returncode == 1
    assert "zero" in done.stdout


# The action.


def action() -> dict[str, Any]:
    made = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert isinstance(made, dict)
    return made


def step(name: str) -> dict[str, Any]:
    (made,) = [one for one in action()["runs"]["steps"] if one.get("id") == name]
    assert isinstance(made, dict)
    return made


def test_the_action_is_shaped_as_github_wants_it() -> None:
    made = action()
    assert {"name", "description", "inputs", "runs"} <= set(made)
    assert set(made["inputs"]) == {"path", "version", "strict", "scenarios", "python-version"}
    assert all({"description", "default"} <= set(one) and isinstance(one["default"], str) for one in made["inputs"].values())
    assert made["runs"]["using"] == "composite"
    for one in made["runs"]["steps"]:
        assert ("uses" in one) != ("run" in one)
        if "run" in one:
            assert one["shell"] == "bash"
            # What others write (a branch's name, an input) reaches scripts through the environment only.
            assert "${{" not in one["run"]
            given = set(re.findall(r"\$\{?([A-Z_]+)", one["run"]))
            assert given <= {*one["env"], "RUNNER_TEMP", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"}
    page = PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.M)) == set(made["inputs"])
    (workflow,) = [
        yaml.safe_load(body)
        for _, body in BLOCK.findall(PAGE.read_text(encoding="utf-8"))
        if body.startswith("# .github/workflows/")
    ]
    assert set(workflow["jobs"]["specs"]["steps"][1]["with"]) <= set(made["inputs"])


def test_what_others_publish_is_pinned_to_a_commit() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "action.yml", PAGE, *(ROOT / ".github").rglob("*.yml"))]
    used = [found for text in texts for found in re.findall(r"^ *(?:- )?uses: (\S+)", text, re.M)]
    used = [one for one in used if not one.startswith(("./", "OWNER/"))]
    assert len(used) >= 4
    assert [one for one in used if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one)] == []


def test_no_script_of_a_workflow_holds_what_others_write() -> None:
    for path in (ROOT / ".github").rglob("*.yml"):
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            assert all("${{" not in one.get("run", "") for one in job["steps"])


def test_an_option_is_no_version(tmp_path: Path) -> None:
    more = {"VERSION": "--index-url=https://example.com", "ACTION": "/the/action", "RUNNER_TEMP": str(tmp_path)}
    done = ask(step("install")["run"], tmp_path, tmp_path / "home", PYTHON="false", GITHUB_PATH=str(tmp_path / "p"), **more)
    assert done.returncode == 2
    assert "is an option" in done.stdout


@pytest.mark.parametrize(
    ("version", "installs"), [("", "/the/action"), ("0.1.0", "gpuplan==0.1.0"), ("./wheel.whl", "./wheel.whl")]
)
def test_what_the_action_installs(tmp_path: Path, version: str, installs: str) -> None:
    script = step("install")["run"].replace('"$bin/python" -m pip install', 'echo "installs"')
    script = script.replace('"$PYTHON" -m venv "$RUNNER_TEMP/gpuplan"', 'mkdir -p "$RUNNER_TEMP/gpuplan/bin"')
    paths = tmp_path / "paths"
    more = {"VERSION": version, "ACTION": "/the/action", "RUNNER_TEMP": str(tmp_path), "GITHUB_PATH": str(paths)}
    done = ask(script, tmp_path, tmp_path / "home", **more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == installs
    assert paths.read_text() == f"{tmp_path}/gpuplan/bin\n"


def test_the_actions_check(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "repository"
    shutil.copytree(EXAMPLE, work / "specs")
    shutil.copytree(EXAMPLE, work / "more of it")
    script = step("check")["run"]
    assert ask(script, work, home, SPECS="specs", STRICT="false").returncode == 0
    assert ask(script, work, home, SPECS="specs\n", STRICT="false").returncode == 0
    assert ask(script, work, home, SPECS="specs absent", STRICT="false").returncode == 2
    assert ask(script, work, home, SPECS="--rules", STRICT="false").returncode == 2
    path = work / "specs" / PRICES
    path.write_text(path.read_text().replace("2026-11-20", "2021-11-20"))
    assert ask(script, work, home, SPECS="specs", STRICT="false").returncode == 0
    assert ask(script, work, home, SPECS="specs", STRICT="true").returncode == 2


@pytest.mark.skipif("diff" not in PARTS, reason="`specs diff` is not there yet")
def test_the_actions_comparison(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "repository"
    shutil.copytree(EXAMPLE, work / "specs")
    git(work, home, "init", "--quiet")
    git(work, home, "add", ".")
    git(work, home, "commit", "--quiet", "-m", "before")
    base = git(work, home, "rev-parse", "HEAD")
    path = work / "specs" / PRICES
    path.write_text(path.read_text().replace("26.40 USD/h", "20.00 USD/h"))
    git(work, home, "commit", "--quiet", "-am", "cheaper")
    summary = tmp_path / "summary.md"
    done = ask(step("diff")["run"], work, home, SPECS="specs", BASE=base, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    text = summary.read_text()
    assert "26.40 USD/h" in text
    assert "20.00 USD/h" in text
    shutil.copytree(EXAMPLE, work / "team" / "more")
    git(work, home, "add", ".")
    git(work, home, "commit", "--quiet", "-m", "more")
    done = ask(step("diff")["run"], work, home, SPECS="team/more", BASE=base, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 0, done.stderr
    assert summary.read_text() == f"{text}The specs folder `team/more` is new.\n"
    assert step("diff")["if"] == "github.event_name == 'pull_request'"
