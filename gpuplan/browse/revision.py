"""Which spec folder does a word mean: a folder of this machine, or a git revision of the repository around us?

A revision is copied file by file out of the object store into a temporary folder: nothing in the working tree changes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuplan.errors import Problem, SpecError, UsageError
from gpuplan.files.read import is_folder
from gpuplan.files.write import scratch, write_below
from gpuplan.record import Record
from gpuplan.specs.catalog import KINDS, shipped_folder

_HINT = "give a folder of specs, or a git revision such as `main` or `HEAD~1` inside a repository that has one"


class Side(Record):
    """One side of a comparison: what it is called, and the folder with its files."""

    name: str
    folder: Path


@contextmanager
def sides(base: str, head: str | None, inside: Path | None = None) -> Iterator[tuple[Side, Side]]:
    """The two folders to compare; revisions are exported for as long as the context lasts.

    `inside` is the spec folder of the repository (found by itself when None). Without `head` it is the folder as it is now:
    that of the working tree, or what came with gpuplan where `base` is a folder.

    Raises:
        UsageError: neither a folder nor a revision, or a repository without specs.
    """
    with scratch() as place:
        first = _side(base, inside, place / "base")
        if head is not None:
            second = _side(head, inside, place / "head")
        elif is_folder(Path(base)):
            second = Side("what came with gpuplan", shipped_folder())
        else:
            second = Side("the working tree", spec_folder(inside))
        if not is_spec_folder(first.folder) and not is_spec_folder(second.folder):
            what = f"there are no spec files at {first.name} or at {second.name}"
            raise UsageError(Problem("diff.no-specs", what, "name the folder with `--specs DIR`"))
        yield first, second


def _side(word: str, inside: Path | None, into: Path) -> Side:
    if is_folder(Path(word)):
        if not is_spec_folder(Path(word)):
            hint = f"a specs folder has {', '.join(KINDS)} in it"
            raise UsageError(Problem("diff.no-specs", f"the folder `{word}` holds no spec files", hint))
        return Side(word, Path(word))
    folder = spec_folder(inside, word)
    commit = _revision(folder, word)
    export(folder, commit, into)
    return Side(f"{word} ({commit[:9]})", into)


def is_spec_folder(folder: Path) -> bool:
    """Whether a folder has spec files in folders of their kinds."""
    return any(next((folder / kind).rglob("*.yaml"), None) is not None for kind in KINDS if (folder / kind).is_dir())


def spec_folder(inside: Path | None, word: str = "") -> Path:
    """The spec folder of the repository around us: the one named, this one, `hardware_specs`, or the only one there is.

    Raises:
        UsageError: there is no repository, none of its folders holds specs, or several do.
    """
    if inside is not None:
        if not inside.is_dir():
            raise UsageError(Problem("diff.no-folder", f"the folder `{inside}` does not exist"))
        return inside
    here = Path.cwd()
    try:
        top = Path(_git(here, "rev-parse", "--show-toplevel").decode().strip())
    except _GitError:
        what = f"`{word}` is no folder, and this is no git repository" if word else "this is no git repository"
        raise UsageError(Problem("diff.no-repository", what, _HINT)) from None
    for folder in (here, here / "hardware_specs", top, top / "hardware_specs"):
        if is_spec_folder(folder):
            return folder
    found = [one for one in sorted(top.iterdir()) if one.is_dir() and not one.name.startswith(".") and is_spec_folder(one)]
    if len(found) != 1:
        names = f": {', '.join(one.name for one in found)}" if found else ""
        what = f"the repository has {len(found) or 'no'} folders of specs{names}"
        raise UsageError(Problem("diff.which-folder", what, "name it with `--specs DIR`"))
    return found[0]


class _GitError(Exception):
    """Git ended with an error; its message."""


def _git(folder: Path, *words: str, given: bytes | None = None) -> bytes:
    try:
        made = subprocess.run(["git", "-C", str(folder), *words], input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise UsageError(Problem("diff.no-git", "git is not installed, so revisions cannot be read", _HINT)) from None
    if made.returncode:
        raise _GitError(made.stderr.decode(errors="replace").strip())
    return made.stdout


def _revision(folder: Path, word: str) -> str:
    """The commit that a word means.

    Raises:
        UsageError: there is none.
    """
    try:
        return _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}").decode().strip()
    except _GitError:
        what = f"`{word}` is neither a folder nor a git revision here"
        raise UsageError(Problem("diff.no-revision", what, _HINT)) from None


def export(folder: Path, commit: str, into: Path) -> None:
    """Copy the YAML files of a folder, as they were at a commit, into another folder; there may be none yet.

    Raises:
        SpecError: git cannot read them.
    """
    try:
        prefix = _git(folder, "rev-parse", "--show-prefix").decode().rstrip("\n")
        listed = _git(folder, "ls-tree", "-r", "-z", "--full-tree", commit, *([prefix] if prefix else [])).decode().split("\0")
        blobs = [(line.split()[2], line.partition("\t")[2]) for line in listed if line.startswith("100")]
        blobs = [(sha, name) for sha, name in blobs if name.endswith(".yaml")]
        texts = _git(folder, "cat-file", "--batch", given="".join(f"{sha}\n" for sha, _ in blobs).encode())
    except _GitError as error:
        raise SpecError(Problem("diff.git", f"git cannot read {commit[:9]}: {error}")) from None
    for name, text in zip((name for _, name in blobs), _split(texts), strict=True):
        write_below(into, name.removeprefix(prefix), text)


def _split(batch: bytes) -> Iterator[bytes]:
    """The contents that `git cat-file --batch` wrote one after the other."""
    at = 0
    while at < len(batch):
        end = batch.index(b"\n", at)
        size = int(batch[at:end].split()[2])
        yield batch[end + 1 : end + 1 + size]
        at = end + 2 + size


def folders_of(side: Side) -> Sequence[Path]:
    """The folders that a question reads for a side: a whole database stands alone, anything less lies over what is shipped."""
    whole = all(is_kind(side.folder, kind) for kind in ("accelerators", "systems", "engines", "measured"))
    return [side.folder] if whole else [shipped_folder(), side.folder]


def is_kind(folder: Path, kind: str) -> bool:
    """Whether a spec folder has files of a kind."""
    return (folder / kind).is_dir() and next((folder / kind).rglob("*.yaml"), None) is not None
