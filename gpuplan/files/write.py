"""How does a text get into a file: whole or not at all, on the disk before it counts, and one writer at a time?"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuplan.errors import Problem, UsageError
from gpuplan.files.read import exists, is_folder

LOCK = ".gpuplan.lock"
"""The file in a folder that whoever writes there holds; it is gone when nobody does."""
PATIENCE_S = 60.0
"""How long another writer may take."""
_LOOK_S = 0.02
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
_COMPONENT = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,98}[a-z0-9])?")


def component(name: str, what: str) -> str:
    """A word that becomes the name of a file or a folder, as it is.

    Raises:
        UsageError: it could lead out of its folder, or be no name on some system.

    >>> component("lambda", "--provider")
    'lambda'
    """
    if not _COMPONENT.fullmatch(name) or ".." in name:
        hint = "small letters, digits, and `-`, `_` or `.` between them, 100 at most"
        raise UsageError(Problem("file.bad-name", f"{what}: `{name}` cannot be the name of a file", hint))
    return name


def write(path: Path, data: str | bytes) -> None:
    """Write a file, folders included, in place of one that is there; errors as `write_all`."""
    write_all({path: data}, force=True)


def write_all(files: Mapping[Path, str | bytes], *, force: bool = False) -> None:
    """Write files, folders included: a reader never sees half of one, and existing ones stay unless `force` says otherwise.

    All of them are on the disk before the first is put in its place. What is no regular file, such as `/dev/stdout`, is
    written as it is.

    Raises:
        UsageError: a file is there already, or cannot be written (the disk is full, say). Nothing is written when one is
            there at the start or the disk has no room.
    """
    there = [path for path in files if exists(path)]
    if there and not force:
        raise UsageError(*(_there(path) for path in there))
    drafts: list[tuple[Path, Path]] = []
    path = Path()
    try:
        for path, data in files.items():
            raw = data.encode() if isinstance(data, str) else data
            final = path.resolve() if path.is_symlink() else path
            if is_folder(final):
                raise UsageError(Problem("file.unwritable", f"cannot write {path}: it is a folder", "name a file"))
            if exists(final) and not stat.S_ISREG(final.stat().st_mode):
                _put(os.open(final, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)), raw, keep=False)
                continue
            final.parent.mkdir(parents=True, exist_ok=True)
            draft = final.with_name(f".{final.name[:100]}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
            drafts.append((draft, final))
            _put(os.open(draft, _CREATE, 0o666), raw)
            if force and final.exists():
                os.chmod(draft, stat.S_IMODE(final.stat().st_mode))
        while drafts:
            draft, path = drafts[0]
            if force:
                os.replace(draft, path)
            else:
                try:
                    os.link(draft, path)  # unlike a rename, this fails when there is a file
                except FileExistsError:
                    raise UsageError(_there(path)) from None
                draft.unlink()
            del drafts[0]
            _settle(path.parent)
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from None
    finally:
        for draft, _ in drafts:
            with suppress(OSError, ValueError):
                draft.unlink()


def check_writable(path: Path, hint: str = "") -> None:
    """See at the start whether a file can be written at the end; its folders are made.

    Raises:
        UsageError: its folder cannot be made, or nothing can be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            os.lstat(path)  # which a name that is too long does not survive
        draft = path.with_name(f".{path.name[:100]}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
        os.close(os.open(draft, _CREATE, 0o666))
        draft.unlink()
    except (OSError, ValueError) as error:
        raise unwritable(path, error, hint) from None


def write_below(folder: Path, inside: str, data: bytes) -> None:
    """Write a file of a scratch folder, which nobody else reads and which holds no links; `inside` is its path below it.

    Raises:
        UsageError: the path leads out of the folder, or the file cannot be written.
    """
    top, whole = os.path.abspath(folder), os.path.abspath(folder / inside)
    if not whole.startswith(os.path.join(top, "")):
        raise UsageError(Problem("file.bad-name", f"`{inside}` leads out of its folder"))
    path = Path(whole)
    try:
        try:
            path.write_bytes(data)
        except FileNotFoundError:  # Its folder is not there yet: of hundreds of files this is seldom so.
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    except (OSError, ValueError) as error:
        raise unwritable(path, error) from None


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for drafts, outside every folder that anyone reads; it is gone afterwards.

    Raises:
        UsageError: it cannot be made.
    """
    import tempfile

    try:
        folder = tempfile.TemporaryDirectory(prefix="gpuplan-")
    except OSError as error:
        raise unwritable(Path(tempfile.gettempdir()), error) from None
    with folder as name:
        yield Path(name)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Have a folder for oneself, from what is read in it to what is written; it is made if need be, and gone if it stays empty.

    Others wait. On a system or a disk without locks nobody waits.

    Raises:
        UsageError: the folder cannot be written, or another writer does not end.
    """
    place = folder / LOCK
    made = [one for one in (folder, *folder.parents) if not exists(one)]
    try:
        handle = _taken(place)
    except (OSError, ValueError) as error:
        raise unwritable(folder, error) from None
    try:
        yield
    finally:
        place.unlink(missing_ok=True)  # while it is held: who waits for it sees that it is another one by then
        os.close(handle)
        with suppress(OSError):
            for one in made:
                one.rmdir()


def _taken(place: Path) -> int:
    until = time.monotonic() + PATIENCE_S
    while True:
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(place, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except FileNotFoundError:  # Another one has just removed the folder, which was empty.
            continue
        if try_lock(handle) and _is_still(handle, place):
            return handle
        os.close(handle)
        if time.monotonic() > until:
            hint = f"wait for its end; if no gpuplan runs there, remove {place}"
            raise UsageError(Problem("file.locked", f"another gpuplan has been writing in {place.parent} for a minute", hint))
        time.sleep(_LOOK_S)


def _is_still(handle: int, place: Path) -> bool:
    """Whether the file that was locked is the one that others see: its last owner may have removed it in between."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(place))
    except FileNotFoundError:
        return False


def try_lock(handle: int) -> bool:
    """Take an open file for this process alone, until it closes it; False where another has it. Without locks, all may."""
    import errno

    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


def open_for_appending(path: Path) -> int:
    """A file, folders included, whose end is written to with `append`; what is in it stays.

    Raises:
        OSError: it cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0), 0o644)


def emptied(handle: int) -> None:
    """Take away what is in an open file.

    Raises:
        OSError: it cannot be.
    """
    os.ftruncate(handle, 0)


def append(handle: int, data: bytes, *, wait: bool = True) -> None:
    """Write to the end of an open file, and `wait` until it is on the disk.

    Raises:
        OSError: the disk is full, say.
    """
    while data:
        data = data[os.write(handle, data) :]
    if wait:
        os.fsync(handle)


def unwritable(path: Path, error: OSError | ValueError, hint: str = "") -> UsageError:
    """What to say where something cannot be written."""
    said = getattr(error, "strerror", None) or error
    said = "what should be a folder is a file" if isinstance(error, FileExistsError) else said
    hint = hint or "make room, or name a place that can be written"
    return UsageError(Problem("file.unwritable", f"cannot write {path}: {said}", hint))


def _put(handle: int, data: bytes, *, keep: bool = True) -> None:
    try:
        append(handle, data, wait=keep)
    finally:
        os.close(handle)


def _settle(folder: Path) -> None:
    """Wait until the name of a new file is on the disk too, where folders can be waited for."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        return
    finally:
        os.close(handle)


def _there(path: Path) -> Problem:
    return Problem("file.exists", f"{path} is there already", "name another place, or replace it with --force")
