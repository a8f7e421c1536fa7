"""Does TAB complete commands, options and names, in real shells, and soon enough?"""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuplan.cli.commands import COMMANDS
from gpuplan.cli.complete import index as kept
from gpuplan.cli.complete.commands_of import commands
from gpuplan.cli.complete.install import install, shell_named
from gpuplan.cli.complete.pick import picked
from gpuplan.cli.complete.request import answer, typed
from gpuplan.cli.complete.scripts import SHELLS, script
from gpuplan.errors import UsageError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.fabric import NoNetwork
from gpuplan.specs.on import parse_target
from tests.cli.cli_calls import Call, process

BREAKS = " \t\n\"'@><=;|&(:"
"""Where bash cuts words, unless told otherwise."""
MINE = """format: 1
id: my-own-gpu
aliases: [mogpu]
"""


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with its own home, and gpuplan first on the path."""
    home = tmp_path_factory.mktemp("home")
    made = {key: value for key, value in os.environ.items() if not key.startswith(("GPUPLAN_", "_GPUPLAN", "XDG_", "COV"))}
    return made | {
        "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "TERM": "dumb", "PS1": "> ",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip


def offered(env: dict[str, str], line: str, breaks: str = "") -> list[str]:
    """The candidates for a line, without what they mean."""
    said = answer({**env, "_GPUPLAN_LINE": line, "_GPUPLAN_BREAKS": breaks})
    return [one.partition("\t")[0] for one in said.splitlines()[1:]]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gpuplan accur", ["accuracy"]),
        ("gpuplan plan ", ["train", "finetune", "rl", "serve", "carries"]),
        ("gpuplan prices import sky", ["skypilot"]),
        ("gpuplan train --recompute se", ["selective", "selective-op"]),
        ("gpuplan train --overlap dp,p", ["dp,pp"]),
        ("gpuplan fit --weights fp8", ["fp8", "fp8-block"]),
        ("gpuplan train --checkpoint", ["--checkpoint-every"]),
        ("gpuplan plan serve m --tpo", ["--tpot"]),
        ("gpuplan serve m --engine tensorrt-l", ["tensorrt-llm"]),
        ("gpuplan plan serve m --cloud aws,runp", ["aws,runpod"]),
        ("gpuplan --json fit m --margin 0.1 --price-k", ["--price-kind"]),
        ("gpuplan compare serve m --on 8xh100 --prefill-o", ["--prefill-on"]),
        ("gpuplan explain mfu train m --global-", ["--global-batch"]),
        ("gpuplan explain kv_bytes_per_t", ["kv_bytes_per_token"]),
        ("gpuplan models show llama-3.1-40", ["llama-3.1-405b", "llama-3.1-405b-instruct"]),
        ("gpuplan specs show measured/mi300", ["measured/mi300x"]),
        ("gpuplan completion po", ["powershell"]),
        ("gpuplan no-such-command --", []),
        ("gpuplan fit m --on 8xno-such-gpu", []),
    ],
)
def test_what_could_come_next(env: dict[str, str], line: str, words: list[str]) -> None:
    assert offered(env, line) == words


def test_counts_stand_before_names(env: dict[str, str]) -> None:
    assert "--on=16xdgx-b200" in offered(env, "gpuplan fit m --on=16xdgx-b2")
    assert "2x64xtpu-v6e" in offered(env, "gpuplan fit m --on 2x64xtpu-v6")
    assert "8xh100-sxm-80gb@ib-ndr" in offered(env, "gpuplan fit m --on 8xh100-sxm-80gb@ib-n")


def test_an_option_that_was_given_is_not_offered_again(env: dict[str, str]) -> None:
    assert "--tp" in offered(env, "gpuplan serve m --tp")
    assert "--tp" not in offered(env, "gpuplan serve m --tp 2 --tp")
    assert "--specs" in offered(env, "gpuplan serve m --specs . --spec")


UNJOINED = ("epyc-9654-2s", "mi355x-rack-128", "summit", "summit-node", "xeon-8480plus-2s")
"""Machines whose own links nobody publishes: a question about the whole of one says that, and how many may be asked for."""


def test_every_place_that_is_offered_is_one(env: dict[str, str]) -> None:
    found = offered(env, "gpuplan fit llama-3.1-8b --on ")
    catalog = Catalog.open(env={})
    assert {"h100-sxm-80gb", "dgx-h100", "aws:p5.48xlarge", "tpu-v5p-256", "local"} <= set(found)
    for name in found[:: max(1, len(found) // 40)]:
        try:
            assert name == "local" or parse_target(name, catalog).count >= 1
        except NoNetwork:
            assert name in UNJOINED, name


def test_bash_gets_the_part_that_it_takes_for_the_word(env: dict[str, str]) -> None:
    assert offered(env, "gpuplan fit m --on aws:p5.4", BREAKS) == ["p5.48xlarge", "p5.4xlarge"]
    assert offered(env, "gpuplan fit m --on=aws:p5.4", BREAKS) == ["p5.48xlarge", "p5.4xlarge"]
    assert offered(env, "gpuplan fit m --engine=tensorrt-l", BREAKS) == ["tensorrt-llm"]


def test_files_are_offered_where_they_count(env: dict[str, str]) -> None:
    kinds = {line: answer({**env, "_GPUPLAN_LINE": line}).splitlines()[0] for line in (
        "gpuplan fit ./con", "gpuplan serve m --trace ", "gpuplan fit m --specs ", "gpuplan fit m --on ",
    )}  # fmt: skip
    assert list(kinds.values()) == ["files", "files", "folders", "words"]


def test_folders_of_the_user_count_and_edits_are_seen(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "accelerators" / "mine" / "my-own-gpu.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(MINE)
    assert offered(env, f"gpuplan fit m --specs {tmp_path} --on 8xmogp") == ["8xmogpu"]
    assert offered({**env, "GPUPLAN_SPECS": str(tmp_path)}, "gpuplan fit m --on my-ow") == ["my-own-gpu"]
    file.write_text(MINE.replace("mogpu", "mogpu2"))
    assert offered(env, f"gpuplan fit m --specs {tmp_path} --on 8xmogp") == ["8xmogpu2"]
    file.write_text("\tnot: [yaml")
    assert offered(env, f"gpuplan fit m --specs {tmp_path} --on my-ow") == ["my-own-gpu"]
    assert offered(env, f"gpuplan fit m --specs {tmp_path}/nowhere --on h100-n")


def test_an_index_that_is_broken_or_cannot_be_kept_is_made_anew(env: dict[str, str], tmp_path: Path) -> None:
    here = {**env, "XDG_CACHE_HOME": str(tmp_path)}
    place = kept.cache_file(kept._folders((), here), here)
    place.parent.mkdir()
    place.write_text('{"stamp": ')
    assert offered(here, "gpuplan accur") == ["accuracy"]
    assert '"accuracy"' in place.read_text()
    assert offered({**env, "XDG_CACHE_HOME": str(place)}, "gpuplan accur") == ["accuracy"]


def test_every_command_and_every_option_is_known() -> None:
    made = commands()
    assert set(made[""]["commands"]) == set(COMMANDS)
    assert {"--on", "--json", "--help"} <= made["fit"]["options"].keys()
    for path, one in made.items():
        for part in one["commands"]:
            assert f"{path} {part}".strip() in made
        if path:
            assert one["about"], path
    flags = {flag for one in made.values() for flag in one["options"]}
    assert {"--on", "--prefill-on", "--engine", "--draft", "--cloud", "--accelerator", "--system", "--vendor"} <= flags


def test_words_that_are_typed() -> None:
    assert typed("gpuplan fit 'a b' \"c") == ["gpuplan", "fit", "a b", "c"]
    assert typed("gpuplan fit a\\ b ") == ["gpuplan", "fit", "a b", ""]
    assert typed("") == [""]
    index = {"commands": {"": {"options": {}, "commands": [], "arguments": [], "about": ""}}, "names": {}}
    assert picked(["x", ""], index).words == []


def test_a_tab_is_answered_soon_and_without_the_parser(env: dict[str, str], tmp_path: Path) -> None:
    asked = {**env, "XDG_CACHE_HOME": str(tmp_path), "_GPUPLAN_COMPLETE": "fish", "_GPUPLAN_WORDS": "gpuplan\nfit\nm\n--on\n8xh10"}
    code = "import sys; from gpuplan.cli.start import main; import os; os._exit = lambda code: None; "
    code += "from gpuplan.cli.complete.request import reply; reply(os.environ); print(sorted(sys.modules), file=sys.stderr)"
    took = []
    for _ in range(4):  # the first makes the index
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-c", code], env=asked, capture_output=True, text=True, check=True, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert "8xh100-sxm-80gb" in done.stdout.split()
    loaded = {name.partition(".")[0] for name in re.findall(r"'([\w.]+)'", done.stderr)}
    assert loaded & {"typer", "click", "pydantic", "yaml", "numpy", "rich"} == set()
    # Of the processor's seconds, into which other work of this machine does not count, on a machine of any pace.
    assert min(took[1:]) < took[0] / 3, took


def test_the_old_entry_answers_too(env: dict[str, str]) -> None:
    made = process(env={**env, "_GPUPLAN_COMPLETE": "zsh", "_GPUPLAN_WORDS": "gpuplan\naccur"})
    assert made.returncode == 0
    assert made.stdout.startswith("words\naccuracy\t")


def read_until(terminal: int, wanted: str, seconds: float) -> str:
    """What a terminal shows until a text is there, or the time is over."""
    shown, end = "", time.monotonic() + seconds
    while wanted not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                shown += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # The shell has ended.
                break
            shown = re.sub(r"[\x07\r\n]|\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    return shown


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_on_a_terminal_completes(shell: str, env: dict[str, str], tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(script(shell))
    child, terminal = pty.fork()
    if child == 0:
        os.execvpe(shell, [shell, *(["--norc", "--noprofile"] if shell == "bash" else ["-f"]), "-i"], env)
    try:
        os.write(terminal, f"source {file}; echo is-'r'eady\n".encode())
        assert "is-ready" in read_until(terminal, "is-ready", 300)
        for begun, wanted in {
            "gpuplan accur": "gpuplan accuracy",
            "gpuplan fit llama-3.1-405b-i": "llama-3.1-405b-instruct",
            "gpuplan fit m --on aws:p5.48": "aws:p5.48xlarge",
            "gpuplan fit m --engine=tensorrt-l": "--engine=tensorrt-llm",
        }.items():
            os.write(terminal, f"{begun}\t".encode())
            shown = read_until(terminal, wanted, 300)
            assert wanted in shown, shown
            os.write(terminal, b"\x15")  # Ctrl-U: the line is emptied
    finally:
        os.close(terminal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("begun", "wanted"),
    [
        ("gpuplan accur", "accuracy"),
        ("gpuplan fit m --on 8xh100-sxm-8", "8xh100-sxm-80gb"),
        ("gpuplan fit --on=aws:p5.48", "--on=aws:p5.48xlarge"),
    ],
)
def test_fish_completes(begun: str, wanted: str, env: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    file = tmp_path / "gpuplan.fish"
    file.write_text(script("fish"))
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {file}; complete -C '{begun}'"],
        env=env, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    assert wanted in {line.partition("\t")[0] for line in done.stdout.splitlines()}, done.stderr


def test_powershell_s_script_is_powershell() -> None:
    # No PowerShell is to be had from the package index, its grammar is.
    grammar = pytest.importorskip("tree_sitter_powershell", reason="it is in the `test` extra")
    tree_sitter = pytest.importorskip("tree_sitter", reason="it is in the `test` extra")
    parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
    assert parser.parse(b"$a = @(1, 2").root_node.has_error
    assert not parser.parse(script("powershell").encode()).root_node.has_error
    assert "Register-ArgumentCompleter -Native -CommandName gpuplan" in script("powershell")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installing_writes_once_and_keeps_what_was_there(shell: str, tmp_path: Path) -> None:
    rc = tmp_path / f".{shell}rc"
    rc.write_text("alias mine=yours")
    made = install(shell, {"HOME": str(tmp_path)})
    assert made
    assert all(path.is_relative_to(tmp_path) for path in made)
    assert script(shell) in [path.read_text() for path in made]
    if shell != "fish":
        first, second = rc.read_text().splitlines()
        assert first == "alias mine=yours"
        assert second == f"source {made[0]}"
    before = rc.read_text()
    assert install(shell, {"HOME": str(tmp_path)}) == []
    assert rc.read_text() == before


def test_the_command(call: Call, env: dict[str, str]) -> None:
    for shell in SHELLS:
        assert call("completion", shell).out == script(shell)
    wrong = call("completion", "fsh")
    assert wrong.code == 2
    assert "fish" in wrong.err
    made = process("completion", "fish", "--install", env=env)
    assert made.returncode == 0
    assert "gpuplan.fish" in made.stdout
    assert "installed already" in process("completion", "fish", "--install", env=env).stdout
    assert shell_named("pwsh") == "powershell"
    with pytest.raises(UsageError, match="no completion"):
        shell_named("tcsh")
