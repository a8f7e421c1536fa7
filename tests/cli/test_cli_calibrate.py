"""`gpuplan calibrate`: messages, exit codes, killing it at any moment, and estimates that use what it wrote."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from os import environ
from pathlib import Path
from typing import Any

import pytest

from gpuplan.calibrate.measure import journal
from gpuplan.specs.base import load_spec
from gpuplan.specs.measured import Measured
from tests.cli.cli_calls import Call, Said
from tests.sweeps import thinned

ROOT = Path(__file__).parents[2]
FAKE = ("--backend", "tests.calibrate.fake:Fake")


def environment(folder: Path, **troubles: Any) -> dict[str, str]:
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    return {**environ, **home, "GPUPLAN_FAKE": json.dumps(troubles), "GPUPLAN_SPECS": ""}


def gpuplan(folder: Path, *words: str, **troubles: Any) -> subprocess.CompletedProcess[str]:
    """A call in a process of its own."""
    command = [sys.executable, "-m", "gpuplan.cli.main", *words]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(folder, **troubles), check=False, timeout=300, cwd=ROOT
    )


@pytest.fixture
def within(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """The same call in this process, where nothing is asked of the process itself."""

    def go(*words: str, **troubles: Any) -> Said:
        for name, value in environment(tmp_path, **troubles).items():
            monkeypatch.setenv(name, value)
        return call(*words)

    return go


def test_from_nothing_to_an_estimate(tmp_path: Path) -> None:
    made = gpuplan(tmp_path, "calibrate", "--quick", *FAKE)
    assert made.returncode == 0, made.stderr
    assert "NVIDIA H200: " in made.stdout
    assert "matmul.bf16" in made.stdout
    assert "estimates for --on local use it; those for --on h200-sxm-141gb and machines with it do with --calibrated" in made.stdout
    assert "\r" not in made.stderr
    asked = gpuplan(tmp_path, "train", "llama-3.1-8b", "--on", "8xlocal", "--tokens", "1B", "--json")
    record = json.loads(asked.stdout)
    assert any("kernel parameters measured on this machine" in note["text"] for note in record["notes"])
    checked = gpuplan(tmp_path, "specs", "check", str(tmp_path / "config" / "gpuplan"))
    assert checked.returncode == 0, checked.stderr


def test_an_unknown_device_is_usable_at_once(within: Call, tmp_path: Path) -> None:
    made = within("calibrate", "--quick", *FAKE, name="NVIDIA X9000")
    assert "estimates for --on x9000 use it" in made.out, made.err
    asked = within("train", "llama-3.2-1b", "--on", "x9000", "--tokens", "1B")
    assert "MFU" in asked.out, asked.err
    checked = within("specs", "check", str(tmp_path / "config" / "gpuplan"))
    assert checked.code == 0, checked.err


def test_json_and_out(within: Call, tmp_path: Path) -> None:
    made = within("calibrate", "--quick", *FAKE, "--json", "--kinds", "matmul,stream", "--out", str(tmp_path / "specs"))
    record = json.loads(made.out)
    assert record["id"] == "h200-sxm-141gb"
    assert set(record["fits"]) == {"matmul.bf16", "matmul.fp8", "stream"}
    assert record["written"] == [str(tmp_path / "specs" / "measured" / "h200-sxm-141gb.yaml")]
    asked = within("fit", "llama-3.1-8b", "--on", "h200-sxm-141gb", "--specs", str(tmp_path / "specs"))
    assert asked.code in (0, 3), asked.err


def test_dry_run_lists_probes_and_writes_nothing(within: Call, tmp_path: Path) -> None:
    made = within("calibrate", "--quick", *FAKE, "--dry-run")
    assert made.code == 0
    assert re.search(r"^  matmul +bf16  \d+ x \d+ x \d+ +[\d.,]+ us +[\d.]+ s$", made.out, re.M)
    assert max(map(len, made.out.splitlines())) <= 80
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--backend", "tensorflow"), 2, "no backend `tensorflow`"),
        (("--backend", "no.such:Thing"), 2, "cannot import `no.such`"),
        (("--backend", "json:Nothing"), 2, "`json` has no class `Nothing`"),
        ((*FAKE, "--device", "one"), 2, "--device: `one` is not a count"),
        ((*FAKE, "--quick", "--full"), 2, "exclude each other"),
        ((*FAKE, "--kinds", "matmuls"), 2, "no kind of probe is called `matmuls`"),
        ((*FAKE, "--out", "/proc/nothing/x.yaml"), 2, "cannot write /proc/nothing/x.yaml"),
    ],
)
def test_wrong_words(within: Call, words: tuple[str, ...], code: int, message: str) -> None:
    made = within("calibrate", *words)
    assert made.code == code
    assert message in made.err
    assert "Traceback" not in made.err


def test_without_a_framework(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['torch'] = sys.modules['jax'] = None\nimport importlib.util as u\nfind = u.find_spec\n"
    hide += "u.find_spec = lambda name, *a: None if name in ('torch', 'jax') else find(name, *a)\n"
    code = f"{hide}import os\nfrom gpuplan.cli.main import run\nos._exit(run(['calibrate', '--quick']))"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment(tmp_path), check=False)
    assert made.returncode == 2
    assert "neither PyTorch nor JAX is installed" in made.stderr
    assert "pip install 'gpuplan[calibrate]'" in made.stderr


def test_a_lost_device(tmp_path: Path) -> None:
    made = gpuplan(tmp_path, "calibrate", "--quick", *FAKE, lost_after=2000)
    assert made.returncode == 5
    assert "error: NVIDIA H200 does not answer any more: Xid 79" in made.stderr
    assert "the same command goes on from there" in made.stderr
    early = gpuplan(tmp_path, "calibrate", "--quick", *FAKE, lost_after=3)
    assert early.returncode == 5
    assert "Traceback" not in made.stderr + early.stderr


def test_a_hung_kernel_ends_the_process_and_is_left_out_next_time(tmp_path: Path) -> None:
    code = (
        "import os, sys\nsys.path[:0] = ['.']\n"
        "import gpuplan.calibrate.measure.runner as r, gpuplan.calibrate.measure.session as s\n"
        "s.RUN_LIMIT_S = s.PREPARE_LIMIT_S = 0.2\nr.Rules.run_limit = 0.2\n"
        "import gpuplan.cli.main as m\nos._exit(m.run(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", code, "calibrate", "--quick", *FAKE, "--kinds", "stream,launch"]
    env = environment(tmp_path, hang="launch")
    made = subprocess.run(words, capture_output=True, text=True, env=env, check=False, cwd=ROOT, timeout=300)
    assert made.returncode == 5
    assert "did not come back: the kernel or the driver hangs" in made.stderr
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    before = journal.load(kept)
    assert before is not None
    assert before.hung[0].startswith("launch:")
    again = gpuplan(tmp_path, "calibrate", "--quick", *FAKE, "--kinds", "stream,launch")
    assert again.returncode == 0
    assert f"{before.hung[0]} is left out: a kernel hung in it" in again.stderr
    assert "not measured: 1 probe (a kernel hung here before)" in again.stdout


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_keeps_what_was_measured(tmp_path: Path, number: signal.Signals, code: int) -> None:
    process = started(tmp_path, sleep=0.02)  # slow enough that it is not done before the signal comes
    wait_for_samples(tmp_path, 5)
    process.send_signal(number)
    _, err = process.communicate(timeout=300)
    assert process.returncode == code
    assert "probes are kept in" in err
    assert "Traceback" not in err
    assert not list((tmp_path / "config").rglob("*.yaml"))
    assert "going on from" in gpuplan(tmp_path, "calibrate", "--quick", *FAKE).stderr


@pytest.mark.parametrize("samples", thinned([7, 0, None, 60], every=2), ids=str)
def test_killing_it_at_any_moment_leaves_nothing_half_written(tmp_path: Path, samples: int | None) -> None:
    process = started(tmp_path, sleep=0.0)
    wait_for_samples(tmp_path, samples)  # None: all are measured, and it fits or writes.
    process.kill()
    process.communicate(timeout=300)
    for path in (tmp_path / "cache").rglob("*.jsonl"):
        assert path.stat().st_size == 0 or journal.load(path) is not None
    for path in (tmp_path / "config").rglob("*.yaml"):
        load_spec(Measured, path)
    again = gpuplan(tmp_path, "calibrate", "--quick", *FAKE)
    assert again.returncode == 0, again.stderr


def started(folder: Path, sleep: float = 0.002) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "gpuplan.cli.main", "calibrate", "--quick", *FAKE]
    env = environment(folder, sleep=sleep)
    # A shell lets what it runs in the background ignore Ctrl-C, and so all that it starts: not here.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=ROOT)
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_samples(folder: Path, count: int | None) -> None:
    """Until so many kernels were measured, or all that were planned."""
    until = time.monotonic() + 300
    while time.monotonic() < until:
        kept = next((folder / "cache").rglob("*.jsonl"), None)
        text = "" if kept is None else kept.read_text()
        planned = text.count('"launch":') if '"plan"' in text else None
        wanted = planned if count is None else count
        if kept is not None and wanted is not None and text.count('{"sample"') + text.count('{"skipped"') >= wanted:
            return
        time.sleep(0.005)
    raise AssertionError("nothing was measured within five minutes")


def test_a_time_limit_for_what_is_silent(within: Call, tmp_path: Path) -> None:
    made = gpuplan(tmp_path, "calibrate", "--quick", *FAKE, "--timeout", "1", "--kinds", "stream,launch", hang="launch")
    assert made.returncode == 5
    assert "did not come back" in made.stderr
    for word in ("x", "0", "-3", "1e9"):
        wrong = within("calibrate", "--timeout", word)
        assert wrong.code == 2
        assert "error: --timeout: " in wrong.err


def test_a_class_that_is_no_device_is_told(within: Call) -> None:
    for name, what in (("os:getpid", "opens no device: TypeError"), ("builtins:str", "is no device"), ("os:sep", "no class `sep`")):
        made = within("calibrate", "--backend", name)
        assert made.code == 2
        assert what in made.err, made.err
