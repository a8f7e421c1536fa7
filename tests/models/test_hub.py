"""An id of the Hugging Face hub, against a server that answers as the hub does; cache, endpoint, token and offline hold."""

import json
import os
import subprocess
import sys
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.models.made_files import LLAMA, LLAMA_KEYS, gguf, llama_gguf, llama_safetensors, safetensors

pytest.importorskip("huggingface_hub")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PLAIN = 2 * 8030261248


class Hub(ThreadingHTTPServer):
    """Repositories by id, each a folder; those in `gated` want the token."""

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.gated: dict[str, str] = {}
        self.asked: list[tuple[str, str, str | None, str | None]] = []
        self.sent = 0


class Handler(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        token = self.headers.get("Authorization")
        self.server.asked.append((self.command, self.path, self.headers.get("Range"), token))
        words = self.path.partition("?")[0].strip("/").split("/")
        if words[:2] == ["api", "models"]:
            repo = "/".join(words[2:4])
            if self.refused(repo, token):
                return
            files = [one for one in sorted((self.server.root / repo).rglob("*")) if one.is_file()]
            listed = [{"rfilename": str(one.relative_to(self.server.root / repo)), "size": one.stat().st_size} for one in files]
            self.send(200, json.dumps({"id": repo, "modelId": repo, "sha": COMMIT, "siblings": listed}).encode(), body=body)
            return
        repo, name = "/".join(words[:2]), "/".join(words[4:])
        path = self.server.root / repo / name
        if self.refused(repo, token):
            return
        if words[2:3] != ["resolve"] or not path.is_file():
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"}, body=body)
            return
        size = path.stat().st_size
        about = {"ETag": f'"{sha256(name.encode()).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        start, end = 0, size - 1
        given = self.headers.get("Range")
        if given:
            first, _, last = given.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or end), end)
            about["Content-Range"] = f"bytes {start}-{end}/{size}"
        if not body:
            self.send(200, b"", {**about, "Content-Length": str(size)}, body=False)
            return
        with path.open("rb") as file:
            file.seek(start)
            self.send(206 if given else 200, file.read(end - start + 1), about, body=True)

    def refused(self, repo: str, token: str | None) -> bool:
        if not (self.server.root / repo).is_dir():
            self.send(401, b"", {"X-Error-Code": "RepoNotFound"}, body=True)
            return True
        if repo in self.server.gated and token != f"Bearer {self.server.gated[repo]}":
            self.send(403, b"", {"X-Error-Code": "GatedRepo"}, body=True)
            return True
        return False

    def send(self, status: int, raw: bytes, headers: dict[str, str] | None = None, *, body: bool) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(raw)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.server.sent += len(raw)
            self.wfile.write(raw)


@pytest.fixture
def hub(tmp_path):
    server = Hub(tmp_path / "hub")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def repo(hub: Hub, name: str) -> Path:
    place = hub.root / name
    place.mkdir(parents=True)
    return place


def sharded(hub: Hub, name: str = "someone/Llama-Sharded") -> None:
    place, mapped = repo(hub, name), {}
    (place / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    for at in range(4):
        file = f"model-{at + 1:05d}-of-00004.safetensors"
        rows = llama_safetensors(layers=range(8 * at, 8 * at + 8), edges=at == 0)
        safetensors(place / file, rows)
        mapped |= {row[0]: file for row in rows}
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": mapped}), encoding="utf-8")


def environment(hub: Hub, tmp_path: Path, **env: str) -> dict[str, str]:
    """The hub's address, and `env` besides: the hub's package reads them once, so each needs a process of its own."""
    clean = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy") and not key.startswith("HF_")}
    return {
        **clean, "HF_ENDPOINT": f"http://127.0.0.1:{hub.server_address[1]}", "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1", **env,
    }  # fmt: skip


def asked(hub: Hub, tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """The answer of the command with the hub's address; `env` besides."""
    command, given = [sys.executable, "-m", "gpuplan", *words], environment(hub, tmp_path, **env)
    return subprocess.run(command, capture_output=True, text=True, env=given, check=False, timeout=300)


ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
from gpuplan.cli.main import run
made = []
for words in json.load(sys.stdin):
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    made.append([code, *(one.buffer.getvalue().decode() for one in (out, err))])
print(json.dumps(made))
"""


def asked_offline(hub: Hub, tmp_path: Path, lines: list[list[str]]) -> list[subprocess.CompletedProcess[str]]:
    """The answers of one process, which asks no hub, to several commands."""
    command, given = [sys.executable, "-c", ONE_AFTER_THE_OTHER], environment(hub, tmp_path, HF_HUB_OFFLINE="1")
    done = subprocess.run(command, capture_output=True, text=True, env=given, check=True, timeout=300, input=json.dumps(lines))
    return [subprocess.CompletedProcess(line, *made) for line, made in zip(lines, json.loads(done.stdout), strict=True)]


def weights(done: subprocess.CompletedProcess[str]) -> float:
    assert done.returncode in (0, 3), done.stderr
    (memory,) = json.loads(done.stdout)["breakdowns"]
    return float(next(part["value"] for part in memory["parts"] if part["name"] == "memory.weights"))


def test_an_id_is_counted_by_the_heads_of_its_files_alone(hub, tmp_path):
    sharded(hub)
    done = asked(hub, tmp_path, "fit", "someone/Llama-Sharded", "--on", "h100", "--json")
    assert weights(done) == PLAIN
    assert hub.sent < 8 * (1 << 18)  # of 16 GB
    assert all(given for kind, path, given, _ in hub.asked if path.endswith(".safetensors") and kind == "GET")
    assert all(COMMIT in path for _, path, given, _ in hub.asked if given)  # all of one commit


def test_without_the_network_the_cache_answers_or_it_is_said_what_to_do(hub, tmp_path):
    sharded(hub)
    assert asked(hub, tmp_path, "fit", "someone/Llama-Sharded", "--on", "h100").returncode == 0
    hub.asked.clear()
    lines = [
        ["fit", "someone/Llama-Sharded", "--on", "h100", "--json"],
        ["fit", "someone/Nothing", "--on", "h100"],
        ["fit", "hf.co/meta-llama/Llama-3.1-8B", "--on", "h100"],
    ]
    kept, nothing, card = asked_offline(hub, tmp_path, lines)
    assert weights(kept) == PLAIN
    assert "cache" in kept.stdout + kept.stderr
    assert nothing.returncode == 5
    assert "HF_HUB_OFFLINE" in nothing.stderr
    assert "Traceback" not in nothing.stderr
    assert card.returncode == 0, card.stderr
    assert "the card of that name is taken" in " ".join(card.stdout.split())
    assert not hub.asked


KNOWN = {
    "unsloth/Qwen3-8B-GGUF:Q4_K_M": ("qwen3-8b", "q4_k_m"),
    "hf.co/unsloth/Qwen3-8B-GGUF:Q8_0": ("qwen3-8b", "q8_0"),
    "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF": ("llama-3.1-8b", "q4_k_m"),
    "bartowski/google_gemma-3-27b-it-GGUF:Q5_K_M": ("gemma-3-27b", "q5_k_m"),
    "ggml-org/gpt-oss-20b-GGUF": ("gpt-oss-20b", "mxfp4_moe"),
    "mradermacher/Qwen3-32B-i1-GGUF:IQ4_XS": ("qwen3-32b", "iq4_xs"),
}


def test_a_gguf_repository_is_known_by_its_name_where_the_hub_is_not_reached(hub, tmp_path):
    every = asked_offline(hub, tmp_path, [["fit", name, "--on", "h200", "--json"] for name in KNOWN])
    for (name, (card, stored)), done in zip(KNOWN.items(), every, strict=True):
        assert done.returncode == 0, (name, done.stderr)
        made = json.loads(done.stdout)
        assert (made["question"]["model"], made["question"]["weights"]) == (card, stored), name
        said = " ".join(note["text"] for note in made["notes"])
        assert f"taken for {card} in {stored}" in said, name
        assert "was not reached" in said, name


def test_other_ids_are_no_cards_where_the_hub_is_not_reached_and_a_repository_that_it_does_not_have_is_none(hub, tmp_path):
    wrong = {
        "someone/Nothing-GGUF:Q4_K_M": "HF_HUB_OFFLINE", "someone/Qwen3-8B-finetuned": "was not reached",
        "someone/Qwen3-8B-GGUF:Q9_Z": "`Q9_Z` of `someone/Qwen3-8B-GGUF` is no type",
    }  # fmt: skip
    every = asked_offline(hub, tmp_path, [["fit", name, "--on", "h200"] for name in wrong])
    for words, done in zip(wrong.values(), every, strict=True):
        assert done.returncode == 5
        assert words in done.stderr
    done = asked(hub, tmp_path, "fit", "someone/Qwen3-8B-GGUF:Q4_K_M", "--on", "h200")
    assert done.returncode == 5
    assert "has no model" in done.stderr


def test_a_card_of_the_name_needs_no_network(hub, tmp_path):
    assert asked(hub, tmp_path, "fit", "meta-llama/Llama-3.1-8B", "--on", "h100").returncode == 0
    assert not hub.asked


def test_gguf_files_of_a_repository(hub, tmp_path):
    place = repo(hub, "someone/Llama-GGUF")
    more = {"tokenizer.ggml.tokens": [f"token {at}" for at in range(120_000)]}
    for kind, number in (("q8_0", 7), ("q4_k", 15)):
        name = "Q8_0" if kind == "q8_0" else "Q4_K_M"
        gguf(place / f"Llama-{name}.gguf", {**LLAMA_KEYS, **more, "general.file_type": number}, llama_gguf(kind))
    gguf(place / "mmproj-F16.gguf", {"general.architecture": "clip"}, [("v.a", "f16", (32, 32))])
    done = asked(hub, tmp_path, "fit", "someone/Llama-GGUF:q8_0", "--on", "apple-m3-ultra", "--json")
    assert weights(done) == pytest.approx(8.53e9, rel=1e-3)
    assert hub.sent < 6 << 20
    done = asked(hub, tmp_path, "fit", "someone/Llama-GGUF", "--on", "h100")
    assert done.returncode == 2
    assert "Llama-Q4_K_M.gguf" in done.stderr
    assert "mmproj" not in done.stderr


def test_a_gated_repository_wants_the_token(hub, tmp_path):
    sharded(hub, "someone/Gated")
    hub.gated["someone/Gated"] = "hf_secret"
    done = asked(hub, tmp_path, "fit", "someone/Gated", "--on", "h100")
    assert done.returncode == 5
    assert "gated" in done.stderr
    assert "hf auth login" in done.stderr
    assert asked(hub, tmp_path, "fit", "someone/Gated", "--on", "h100", HF_TOKEN="hf_secret").returncode == 0


def test_what_the_hub_does_not_have_is_said_once(hub, tmp_path):
    hub.root.mkdir()
    done = asked(hub, tmp_path, "fit", "meta-llama/Llama-3.1-8C", "--on", "h100")
    assert done.returncode == 5
    assert "did you mean" in done.stderr
    assert done.stderr.count("error:") == 1
    place = repo(hub, "someone/adapter")
    (place / "adapter_config.json").write_text("{}", encoding="utf-8")
    done = asked(hub, tmp_path, "fit", "someone/adapter", "--on", "h100")
    assert done.returncode == 2
    assert "base model" in done.stderr


def test_files_that_lie_on_the_hub(hub, tmp_path):
    place = repo(hub, "someone/liar")
    (place / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    (place / "model.safetensors").write_bytes((10**10).to_bytes(8, "little") + b"{}")
    done = asked(hub, tmp_path, "fit", "someone/liar", "--on", "h100")
    assert done.returncode == 2
    assert "someone/liar@" in done.stderr
    assert "Traceback" not in done.stderr
