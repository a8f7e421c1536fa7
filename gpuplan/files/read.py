"""What does a file hold, read within bounds: a regular file, of a size that a person would give, unpacked no further than that?"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from gpuplan.errors import Problem, UsageError

MIB = 1 << 20
SPEC_BYTES = 16 * MIB
"""The largest YAML file: a hundred times the largest that is shipped (tests/files/test_read.py holds it to that)."""
TABLE_BYTES = 64 * MIB
"""The largest table or result of another tool, unpacked: catalogs of prices and lists of measured kernels hold some 20 MiB."""
TRACE_BYTES = 128 * MIB
"""The largest profile, unpacked: what a profiler writes of some twenty steps, and takes a GiB of memory once it is parsed."""
ARCHIVE_BYTES = 16 * MIB
"""The largest zip archive, packed: its table of contents alone may take forty times that."""
DATA_BYTES = 256 * MIB
"""The most that is copied of a folder's history at once."""

_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
_KINDS = (
    (stat.S_ISDIR, "it is a folder"),
    (stat.S_ISFIFO, "it is a pipe"),
    (stat.S_ISSOCK, "it is a socket"),
    (stat.S_ISCHR, "it is a device"),
    (stat.S_ISBLK, "it is a device"),
)


def is_file(path: Path) -> bool:
    """Whether a path is a file; a name that no file can have, such as one of 5,000 letters, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether a path is a folder; a name that no folder can have is none."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def exists(path: Path) -> bool:
    """Whether there is anything at a path; at a name that nothing can have there is not."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def opened(path: Path, code: str) -> tuple[int, int]:
    """A regular file that is open to be read, and its size in bytes; whoever asked closes it.

    Raises:
        UsageError: it does not exist, cannot be read, or is no regular file (a pipe would wait for ever).
    """
    try:
        handle = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error, code) from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            what = next((said for is_kind, said in _KINDS if is_kind(about.st_mode)), "it is no regular file")
            hint = "name a file in it" if stat.S_ISDIR(about.st_mode) else "save what it gives in a file, and name that"
            raise UsageError(Problem(f"{code}.unreadable", f"cannot read the file: {what}", hint, str(path)))
    except (OSError, UsageError) as error:
        os.close(handle)
        raise (_unreadable(path, error, code) if isinstance(error, OSError) else error) from None
    return handle, about.st_size


def bytes_of(path: Path, *, most: int, code: str = "file") -> bytes:
    """The bytes of a regular file of `most` bytes at most; `code` begins the codes of problems.

    Raises:
        UsageError: it does not exist, cannot be read, is no regular file (a pipe would wait for ever), or is larger.
    """
    handle, size = opened(path, code)
    try:
        # A file may grow while it is read, and those of /proc say that they are empty.
        parts: list[bytes] = []
        left = most + 1 if size <= most else 0
        while left and (part := os.read(handle, min(left, max(size + 1, 1 << 16)))):
            parts.append(part)
            left -= len(part)
            if len(part) == size:
                break
    except OSError as error:
        raise _unreadable(path, error, code) from None
    finally:
        os.close(handle)
    if not left:
        raise too_large(path, most, code)
    return b"".join(parts)


def text_of(path: Path, *, most: int = SPEC_BYTES, code: str = "file", errors: str = "strict") -> str:
    """The text of a regular UTF-8 file, lines ending in a line feed.

    Raises:
        UsageError: as `bytes_of`, or it is not UTF-8 text.
    """
    return decoded(bytes_of(path, most=most, code=code), str(path), code=code, errors=errors)


def text_if_there(path: Path, *, most: int = SPEC_BYTES, code: str = "file") -> str | None:
    """The same, or None where there is no such file.

    Raises:
        UsageError: there is one that cannot be read.
    """
    return text_of(path, most=most, code=code) if exists(path) or path.is_symlink() else None


def glance(path: Path, *, most: int = SPEC_BYTES) -> str:
    """The text of a file of the operating system as far as it is text, or nothing where there is none to be read."""
    try:
        return text_of(path, most=most, errors="replace")
    except UsageError:
        return ""


def unpacked_text(path: Path, *, most: int = TRACE_BYTES, code: str = "file") -> str:
    """The text of a file that may be packed with gzip; `most` bytes count once it is unpacked.

    Raises:
        UsageError: as `text_of`, or the packed data is broken.
    """
    data = bytes_of(path, most=most, code=code)
    if data[:2] == b"\x1f\x8b":
        import gzip
        import io
        import zlib

        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
                data = packed.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise UsageError(Problem(f"{code}.unreadable", f"cannot read the file: {error}", "give it whole", str(path))) from None
        if len(data) > most:
            raise too_large(path, most, code)
    return decoded(data, str(path), code=code)


def zipped_text(path: Path, suffix: str, *, most: int = TABLE_BYTES, code: str = "file") -> tuple[str, str]:
    """The name and the text of the one file in a zip archive whose name ends so; `most` bytes count once it is unpacked.

    Raises:
        UsageError: as `text_of`, there is not exactly one such file, or it is packed in another way than zip's usual one.
    """
    import io
    import zipfile
    import zlib

    data = bytes_of(path, most=min(most, ARCHIVE_BYTES), code=code)

    def wrong(what: str, hint: str = "") -> UsageError:
        return UsageError(Problem(f"{code}.unreadable", what, hint, str(path)))

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed:
            inside = [one for one in packed.infolist() if one.filename.endswith(suffix)]
            if len(inside) != 1:
                raise wrong(f"the archive holds {len(inside)} {suffix} files, not one")
            if inside[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or inside[0].flag_bits & 1:
                raise wrong("the archive is encrypted, or packed in another way than deflate", "unpack it, and name the file")
            with packed.open(inside[0]) as file:
                found = file.read(most + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError) as error:
        raise wrong(f"the archive cannot be read ({error})") from None
    if len(found) > most:
        raise too_large(path, most, code)
    return inside[0].filename.rpartition("/")[2], decoded(found, str(path), code=code)


def decoded(data: bytes, where: str, *, code: str = "file", errors: str = "strict") -> str:
    """Bytes as text, without a byte order mark, lines ending in a line feed.

    Raises:
        UsageError: they are not UTF-8.
    """
    try:
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        what = f"the file is not UTF-8 text: byte {error.start} is wrong"
        raise UsageError(Problem(f"{code}.not-utf8", what, "save it as UTF-8", f"{where}:1")) from None
    text = text.removeprefix("\ufeff")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def too_large(path: Path, most: int, code: str) -> UsageError:
    """What to say of a file that is larger than any of its kind."""
    what = f"the file holds more than {most // MIB} MiB"
    return UsageError(Problem(f"{code}.too-large", what, "is it the right file? if so, give a part of it", str(path)))


def _unreadable(path: Path, error: OSError | ValueError, code: str) -> UsageError:
    said = getattr(error, "strerror", None) or error
    return UsageError(Problem(f"{code}.unreadable", f"cannot read the file: {said}", where=str(path)))
