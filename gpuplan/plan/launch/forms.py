"""How does a launch look as a command, as a file of Docker Compose, as Kubernetes objects, or as a job of Slurm?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Literal

from gpuplan.errors import Problem, UsageError
from gpuplan.plan.words import Emit
from gpuplan.record import Record, field
from gpuplan.yaml_text import yaml_text

_VARIABLE = re.compile(r"\$\{(\w+):\?\}")
_RESOURCES = {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu", "google": "google.com/tpu", "intel": "gpu.intel.com/xe"}
"""What device plugins of Kubernetes call accelerators, by vendor."""
RENDEZVOUS = 29500
PORT = 8000
CACHE = "/cache/huggingface"
"""Where a container finds what the host has downloaded of the hub."""
WIDTH = 100
_PARTS = re.compile(r" (?=--|-m |\"?[a-z_]+=|activation-checkpoint:)")
"""Where a command may go on in another line: before an argument."""


class Start(Record, kw_only=True):
    """What is started: the same words on every node of a run, or once for each replica of a service."""

    name: str
    words: tuple[str, ...]
    starter: Literal["torchrun", "python", "server"]
    vendor: str
    accelerators: int
    """Of the whole run, or of one replica."""
    node: int
    """Accelerators in one node."""
    replicas: int = 1
    image: str = ""
    """The container; "": the user's own."""
    starts: tuple[str, ...] = ()
    """The words that the container starts by itself."""
    environment: tuple[tuple[str, str], ...] = ()
    to_set: Mapping[str, str] = field(default_factory=dict)
    """Variables that only the user can fill, and what each is."""
    remarks: tuple[str, ...] = ()
    """What a reader of the file must know."""

    @property
    def nodes(self) -> int:
        """Nodes of a run, or of one replica."""
        return -(-self.accelerators // self.node)

    @property
    def each(self) -> int:
        """Accelerators of one process tree on one node."""
        return min(self.accelerators, self.node)


def emitted(form: Emit, one: Start) -> str:
    """The text of a launch.

    Raises:
        UsageError: the form cannot hold it.
    """
    if form == "command":
        return _command(one)
    if form == "slurm":
        return _slurm(one)
    if form == "compose":
        return _compose(one)
    return _kubernetes(one)


def quoted(words: tuple[str, ...]) -> str:
    """Words as a shell reads them; variables stay variables."""
    return " ".join(f'"{word}"' if _VARIABLE.search(word) else shlex.quote(word) for word in words)


def _started(one: Start, many: tuple[str, ...]) -> tuple[str, ...]:
    """The words with what starts them; `many` says which node is which, where there are several."""
    if one.starter == "server":
        return one.words
    if one.starter == "python":
        return ("python3", *one.words)
    alone = ("--standalone",) if one.nodes == 1 else ("--nnodes", str(one.nodes), *many)
    return ("torchrun", *alone, "--nproc-per-node", str(one.each), *one.words)


def _rendezvous(where: str) -> tuple[str, ...]:
    return ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{where}:{RENDEZVOUS}")


def _broken(text: str, indent: str = "  ") -> str:
    """A command over several lines that a shell joins again, before its arguments."""
    lines = [""]
    for part in _PARTS.split(text):
        if lines[-1] and len(lines[-1]) + len(part) + 3 > WIDTH:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{part}"
    return f" \\\n{indent}".join(lines)


def _head(one: Start, mark: str = "#") -> list[str]:
    said = [f"{mark} {remark}" for remark in one.remarks]
    return said + [f"{mark} set {name}: {what}" for name, what in one.to_set.items()]


def _exports(one: Start) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in one.environment]


def _command(one: Start) -> str:
    lines = _head(one)
    if one.starter == "server" and one.nodes > 1:
        raise _spans(one)
    if one.starter != "server" and one.nodes > 1:
        first = ", with MASTER_ADDR the first of them" if one.starter == "torchrun" else ""
        lines.append(f"# on each of the {one.nodes} nodes{first}")
    lines += _exports(one)
    if one.replicas == 1:
        return "\n".join([*lines, _broken(quoted(_started(one, _rendezvous("${MASTER_ADDR:?}"))))]) + "\n"
    per_node = max(1, one.node // one.each)
    if one.replicas > per_node:
        lines.append(f"# {per_node} of these on each of {-(-one.replicas // per_node)} nodes of {one.node}")
    for replica in range(one.replicas):
        first_device = replica * one.each % one.node
        devices = ",".join(str(first_device + at) for at in range(one.each))
        words = tuple(str(PORT + replica) if word == str(PORT) else word for word in one.words)
        lines.append(f"CUDA_VISIBLE_DEVICES={devices} {_broken(quoted(words))} &")
    return "\n".join([*lines, "wait"]) + "\n"


def _slurm(one: Start) -> str:
    if one.starter == "server" and one.nodes > 1:
        raise _spans(one)
    lines = ["#!/bin/bash", f"#SBATCH --job-name={one.name}"]
    if one.replicas > 1:
        lines.append(f"#SBATCH --array=0-{one.replicas - 1}")
    lines += [f"#SBATCH --nodes={one.nodes}", "#SBATCH --ntasks-per-node=1", f"#SBATCH --gpus-per-node={one.each}"]
    if one.starter != "server" and one.each == one.node:
        lines.append("#SBATCH --exclusive")
    lines += ["", *_head(one), "set -euo pipefail", *_exports(one)]
    if one.nodes > 1 and one.starter == "torchrun":
        lines.append('export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)')
    lines += ["", "srun " + _broken(quoted(_started(one, _rendezvous("${MASTER_ADDR:?}"))))]
    return "\n".join(lines) + "\n"


def _compose(one: Start) -> str:
    if one.nodes > 1 or one.replicas * one.each > one.node:
        what = f"--emit compose: Docker Compose starts containers of one host, not {one.nodes * one.replicas} of them"
        raise UsageError(Problem("emit.compose", what, "use --emit slurm, k8s or command"))
    if one.vendor != "nvidia":
        what = f"--emit compose: how Docker Compose gives accelerators of {one.vendor} to containers is not on file"
        raise UsageError(Problem("emit.compose", what, "use --emit command, slurm or k8s"))
    services: dict[str, Any] = {}
    for replica in range(one.replicas):
        devices = [str(replica * one.each + at) for at in range(one.each)]
        reserved = [{"driver": "nvidia", "device_ids": devices, "capabilities": ["gpu"]}]
        service: dict[str, Any] = {
            "image": one.image or "${IMAGE:?an image with the engine in it}",
            **_entry(one),
            "ipc": "host",
            "deploy": {"resources": {"reservations": {"devices": reserved}}},
        }
        if one.starter == "server":
            service["environment"] = {"HF_HOME": CACHE, **service.get("environment", {})}
            service |= {"ports": [f"{PORT + replica}:{PORT}"], "volumes": [f"~/.cache/huggingface:{CACHE}"]}
        services[one.name if one.replicas == 1 else f"{one.name}-{replica}"] = service
    return yaml_text({"services": services}, "\n".join(_head(one)))


def _entry(one: Start) -> dict[str, Any]:
    """What a container runs: words alone where they hold no variable, or a shell that fills them in."""
    given = {"environment": dict(one.environment)} if one.environment else {}
    if not one.to_set:
        program, words = _contained(one, _started(one, ()))
        return ({"entrypoint": list(program)} if program else {}) | {"command": list(words)} | given
    filled = {name: f"${{{name}:?{what}}}" for name, what in one.to_set.items()}
    text = quoted(_started(one, ())).replace("${", "$${")
    return {"entrypoint": ["sh", "-c"], "command": [text], "environment": {**dict(one.environment), **filled}}


def _contained(one: Start, words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The program that a container is told to start, none where its image does so by itself, and the other words."""
    known = one.starts
    if known and words[: len(known)] == known:
        return (), words[len(known) :]
    return words[:1], words[1:]


def _kubernetes(one: Start) -> str:
    if one.vendor not in _RESOURCES:
        what = f"--emit k8s: what Kubernetes calls accelerators of {one.vendor} is not on file"
        raise UsageError(Problem("emit.k8s", what, "use --emit command or slurm"))
    if one.starter == "server" and one.nodes > 1:
        raise _spans(one)
    objects = _served(one) if one.starter == "server" else _run(one)
    head = "\n".join(_head(one))
    return (f"{head}\n" if head else "") + "---\n".join(yaml_text(each) for each in objects)


def _container(one: Start, words: tuple[str, ...]) -> dict[str, Any]:
    shell = any(_VARIABLE.search(word) or "$" in word for word in words)
    made: dict[str, Any] = {"name": one.name, "image": one.image or "REPLACE-WITH-AN-IMAGE-OF-THE-ENGINE"}
    if shell:
        made |= {"command": ["sh", "-c"], "args": [quoted(words)]}
    else:
        program, rest = _contained(one, words)
        made |= ({"command": list(program)} if program else {}) | {"args": list(rest)}
    values = [{"name": name, "value": value} for name, value in one.environment]
    values += [{"name": name, "value": ""} for name in one.to_set]
    if values:
        made["env"] = values
    made["resources"] = {"limits": {_RESOURCES[one.vendor]: one.each}}
    made["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
    return made


_SHARED = [{"name": "shm", "emptyDir": {"medium": "Memory"}}]


def _served(one: Start) -> list[dict[str, Any]]:
    labels = {"app": one.name}
    container = {**_container(one, one.words), "ports": [{"containerPort": PORT}]}
    container["readinessProbe"] = {"httpGet": {"path": "/health", "port": PORT}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "volumes": _SHARED}}
    spec = {"replicas": one.replicas, "selector": {"matchLabels": labels}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": one.name}, "spec": spec}
    ports = [{"port": PORT, "targetPort": PORT}]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": one.name}, "spec": {"selector": labels, "ports": ports}}
    return [deployment, service]


def _run(one: Start) -> list[dict[str, Any]]:
    labels = {"app": one.name}
    ranks = (
        "--node-rank",
        "${JOB_COMPLETION_INDEX:?}",
        "--master-addr",
        f"{one.name}-0.{one.name}",
        "--master-port",
        str(RENDEZVOUS),
    )
    container = _container(one, _started(one, ranks))
    pod = {"subdomain": one.name, "restartPolicy": "Never", "containers": [container], "volumes": _SHARED}
    spec = {
        "completions": one.nodes, "parallelism": one.nodes, "completionMode": "Indexed", "backoffLimit": 0,
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }  # fmt: skip
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": one.name}, "spec": spec}
    if one.nodes == 1:
        return [job]
    ports = [{"port": RENDEZVOUS}]
    found = {"clusterIP": "None", "selector": labels, "ports": ports, "publishNotReadyAddresses": True}
    return [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": one.name}, "spec": found}, job]


def _spans(one: Start) -> UsageError:
    what = f"a replica of {one.accelerators} accelerators spans {one.nodes} nodes of {one.node}"
    hint = "use replicas that fit in a node (--tp, --pp, --dp)"
    return UsageError(Problem("emit.nodes", f"--emit: {what}: how its engine starts there is not on file", hint))
