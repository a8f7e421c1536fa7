"""Nothing but `gpuplan.files` reads or writes files, so that its bounds hold everywhere; the exceptions are named."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "gpuplan"
MODULES = sorted(path for path in ROOT.rglob("*.py") if (ROOT / "files") not in path.parents)

WHOLE = {
    "gzip",
    "zipfile",
    "bz2",
    "lzma",
    "tarfile",
    "tempfile",
    "fcntl",
    "mmap",
    "csv",
    "fileinput",
    "linecache",
    "pickle",
    "shelve",
}
"""Modules of which nothing is needed elsewhere."""
FROM = {"yaml": ROOT / "strict_yaml.py"}
"""Modules that only one of ours may import."""
OS = {
    "open", "fdopen", "read", "write", "replace", "rename", "renames", "remove", "unlink", "mkdir", "makedirs", "rmdir", "link",
    "symlink", "truncate", "ftruncate", "chmod", "mkfifo", "sendfile",
}  # fmt: skip
SHUTIL = {"which", "get_terminal_size"}
METHODS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "mkdir", "unlink", "rmdir", "touch", "rename", "symlink_to",
    "hardlink_to", "chmod", "tofile", "fromfile", "savetxt", "loadtxt", "genfromtxt",
}  # fmt: skip
OPENS = {"Catalog.open", "block.open"}
"""Functions of ours that open no file."""


def faults(tree: ast.AST, path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
            names = [module] if module else [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = (name or "").partition(".")[0]
                if top in WHOLE or (top in FROM and path != FROM[top]):
                    found.append(f"{node.lineno}: imports {name}")
            if module in ("json", "os", "shutil"):
                found += [
                    f"{node.lineno}: from {module} import {alias.name}"
                    for alias in node.names
                    if alias.name not in ("PathLike", "fspath", "dumps")
                ]
        elif isinstance(node, ast.Call):
            said = ast.unparse(node.func)
            owner, _, method = said.rpartition(".")
            bad = (
                said == "open" or (method == "open" and said not in OPENS) or (owner == "os" and method in OS)
                or (owner == "shutil" and method not in SHUTIL) or (owner and method in METHODS)
                or (owner.startswith("json") and method in ("load", "loads", "dump"))
                or (method == "replace" and owner and len(node.args) == 1 and not node.keywords)
                or (method == "savefig" and ast.unparse(node.args[0]) != "picture")
                or (method in ("read_table", "read_metadata") and not ast.unparse(node.args[0]).startswith("_bytes("))
            )  # fmt: skip
            if bad:
                found.append(f"{node.lineno}: {said}(…)")
    return found


@pytest.mark.parametrize("code", [
    "open('x')", "Path('x').read_text()", "p.open('w')", "os.replace(a, b)", "import gzip", "from yaml import load",
    "json.loads(t)", "jsonlib.load(f)", "p.replace(q)", "shutil.copy(a, b)", "figure.savefig(path)", "from os import open",
    "p.parent.mkdir()",
])  # fmt: skip
def test_the_rule_finds_what_it_is_for(code: str) -> None:
    assert faults(ast.parse(code), ROOT / "x.py")


def test_only_the_files_package_reads_and_writes() -> None:
    assert len(MODULES) > 300
    found = {str(path.relative_to(ROOT)): made for path in MODULES if (made := faults(ast.parse(path.read_text()), path))}
    assert found == {}
