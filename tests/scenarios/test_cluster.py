"""Do the workers of a Dask cluster say bit for bit what this machine says; is nothing lost where one dies, or at Ctrl-C?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuplan.cli.main import run
from gpuplan.errors import UsageError
from gpuplan.files.progress import watching
from gpuplan.scenarios import cluster
from gpuplan.scenarios.cluster import answers
from gpuplan.scenarios.crew import results_of
from gpuplan.scenarios.file import Case, read_scenarios
from tests.files.watcher import Kept

pytest.importorskip("distributed", reason="Dask is not installed: pip install '.[dask]'")

ROOT = Path(__file__).parents[2]
PLANS = """format: 1
scenarios:
  a: {ask: serve, model: llama-3.1-8b, sweep: {on: [h100, l40s, t4], batch: [1, 2, 4]}, require: fits}
  b: {ask: fit, model: llama-3.1-8b, on: h1000}
  c: {ask: plan train, model: gpt2, tokens: 1B, budget: 100, on: "h100,a100"}
"""
START_S = 300


class Cluster:
    """A scheduler and workers, each a process."""

    def __init__(self, folder: Path, *, deaths: int = 3) -> None:
        self.folder, self.file = folder, folder / "scheduler.json"
        self.env = {**os.environ, "PYTHONPATH": str(ROOT), "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(deaths)}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self.start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self.file))
        self.address = ""

    def start(self, what: str, *words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words, "--no-dashboard"]
        quiet = subprocess.DEVNULL
        made = subprocess.Popen(command, cwd=self.folder, env=self.env, stdout=quiet, stderr=quiet)
        self.processes.append(made)
        return made

    def worker(self) -> subprocess.Popen[bytes]:
        where = ("--scheduler-file", str(self.file), "--nthreads", "1", "--local-directory", str(self.folder))
        return self.start("worker", *where, "--no-nanny")

    def has(self, workers: int) -> None:
        from distributed import Client

        until = time.monotonic() + START_S
        while not self.file.exists() and time.monotonic() < until:
            time.sleep(0.05)
        self.address = json.loads(self.file.read_text())["address"]
        with Client(self.address, set_as_default=False) as client:
            while len(client.scheduler_info(n_workers=-1)["workers"]) != workers and time.monotonic() < until:
                time.sleep(0.05)
            assert len(client.scheduler_info(n_workers=-1)["workers"]) == workers

    def end(self) -> None:
        for one in reversed(self.processes):
            one.kill()
            one.wait()


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("dask"), deaths=0)  # one is enough to give a chunk up
    made.worker()
    made.worker()
    try:
        made.has(2)
        yield made
    finally:
        made.end()


def test_a_cluster_says_the_same(two: Cluster, plans: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
                                 tmp_path: Path) -> None:  # fmt: skip
    monkeypatch.setenv("GPUPLAN_TODAY", "2026-11-22")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert run(["run", str(plans), "--json"]) == 4
    alone = capsys.readouterr().out
    kept = Kept()
    with watching(kept):
        assert run(["run", str(plans), "--json", "--engine-of-search", "dask", "--scheduler", two.address]) == 4
    assert capsys.readouterr().out == alone
    assert [one[1] for one in kept.done["scenarios"]] == [len(read_scenarios(plans).cases)] * len(read_scenarios(plans).cases)
    assert [one.stat().st_size for one in (tmp_path / "cache" / "gpuplan" / "runs").iterdir()] == [0]


def test_a_worker_that_is_killed_loses_nothing(plans: Path, tmp_path: Path) -> None:
    own = Cluster(tmp_path)
    first = own.worker()
    try:
        own.has(1)
        cases = read_scenarios(plans).cases
        made = answers(cases, range(len(cases)), own.address)
        found = dict([next(made)])
        first.kill()
        own.worker()
        found |= dict(made)
        assert [found[at].plain() for at in range(len(cases))] == [one.plain() for one in results_of(cases)]
    finally:
        own.end()


def test_a_question_that_kills_is_found(two: Cluster, plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.scenarios import deadly

    cases = read_scenarios(plans).cases[:4]
    monkeypatch.setattr(cluster, "answer_chunk", deadly.answer_chunk)
    monkeypatch.setattr(cluster, "chunks_of", lambda left, workers: [list(left)])
    extra = [two.worker() for _ in range(4)]
    two.has(6)  # more than there are questions: a scheduler that allows no deaths blames all that a worker had when it died
    found = dict(answers(cases, range(4), two.address))
    assert [found[at].status for at in range(4)] == ["passed", "no answer", "passed", "passed"]
    assert found[1].problems[0]["code"] == "scenarios.killed"
    two.has(4)  # one died with the four, one with the one
    assert all(one.poll() is None or one.returncode < 0 for one in extra)


INTERRUPTED = """
import os, signal
from gpuplan.cli.main import main
from gpuplan.scenarios.journal import Journal

whole, kept = Journal.keep, []

def keep(self, case, result):
    whole(self, case, result)
    kept.append(case)
    if len(kept) == 2:
        os.kill(os.getpid(), signal.SIGINT)

Journal.keep = keep
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores Ctrl-C
main()
"""
"""A run that gets its Ctrl-C as soon as two answers are kept: however busy the machine is, the others are not answered by then."""


def test_ctrl_c_keeps_what_is_done(two: Cluster, tmp_path: Path) -> None:
    path, cache = tmp_path / "plans.yaml", tmp_path / "cache"
    batches = list(range(1, 33))
    path.write_text(f"format: 1\nscenarios: {{a: {{ask: serve, model: llama-3.1-8b, on: h100, sweep: {{batch: {batches}}}}}}}\n")
    words = ["run", str(path), "--json", "--engine-of-search", "dask", "--scheduler", two.address]
    env = {**os.environ, "XDG_CACHE_HOME": str(cache)}

    def ran(*how: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, *how, *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=START_S)

    going = ran("-c", INTERRUPTED)
    assert (going.returncode, going.stdout, going.stderr.strip().splitlines()[-1]) == (130, "", "interrupted"), going.stderr
    assert "Traceback" not in going.stderr, going.stderr
    kept = sum(one.read_text().count("\n") for one in cache.glob("gpuplan/runs/*.jsonl"))
    assert kept == 2
    done = ran("-m", "gpuplan.cli.main")
    assert done.returncode == 0, done.stderr
    assert f"note: going on: {kept} of {len(batches)} were answered before" in done.stderr
    assert [one["name"] for one in json.loads(done.stdout)["results"]] == [f"a: batch {one}" for one in batches]


def test_a_worker_with_other_data_is_refused(two: Cluster, plans: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    prices = tmp_path / "home" / "gpuplan" / "prices"
    prices.mkdir(parents=True)
    (prices / "mine.yaml").write_text("format: 1\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))  # of this machine alone
    with pytest.raises(UsageError, match=r"other data files: specs 1/prices/mine\.yaml"):
        list(answers(read_scenarios(plans).cases, [0], two.address))


def test_a_worker_with_another_version_is_refused(two: Cluster, plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.Setting, "here", lambda: cluster.Setting({"gpuplan": "0.0.1"}, "2026-11-22", None, "."))
    with pytest.raises(UsageError, match=r"gpuplan .* there, 0\.0\.1 here"):
        list(answers(read_scenarios(plans).cases, [0], two.address))


def test_no_scheduler_and_no_workers_are_said(tmp_path: Path, plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "REACHED_S", 0.5)
    for address in ("tcp://127.0.0.1:1", "nowhere", "teapot://127.0.0.1:1"):
        with pytest.raises(UsageError, match="no Dask scheduler answers there"):
            list(answers(read_scenarios(plans).cases, [0], address))
    own = Cluster(tmp_path)
    try:
        own.has(0)
        with pytest.raises(UsageError, match="nobody works there"):
            list(answers(read_scenarios(plans).cases, [0], own.address))
    finally:
        own.end()


def test_a_scheduler_that_goes_away_is_said(tmp_path: Path, plans: Path) -> None:
    own = Cluster(tmp_path)
    own.worker()
    try:
        own.has(1)
        made = answers(read_scenarios(plans).cases, range(10), own.address)
        next(made)
        own.scheduler.kill()
        with pytest.raises(UsageError, match="the scheduler went away"):
            list(made)
    finally:
        own.end()


def test_what_is_about_this_machine_is_asked_here(plans: Path) -> None:
    first = read_scenarios(plans).cases[0]
    here = Case(first.name, first.scenario, first.task, {**first.given, "on": "local"}, {}, (), first.where)
    ((at, result),) = answers([here], [0], "nowhere")
    assert (at, result.status) in ((0, "no answer"), (0, "answered"), (0, "does not fit"))
