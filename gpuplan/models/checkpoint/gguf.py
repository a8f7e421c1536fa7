"""What does the head of a GGUF file say: its metadata, and its tensors with their types, shapes and places?

The format is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Nothing of a file is believed before it is compared
with the file's size, and nothing is kept but what describes the model: lists of tokens are passed over.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TypeAlias

from gpuplan.errors import Problem, UsageError
from gpuplan.files.window import Short, Window, window_of
from gpuplan.models.block_types import BY_NUMBER
from gpuplan.models.checkpoint.ggml_types import REMOVED
from gpuplan.models.checkpoint.tensors import Tensor
from gpuplan.record import Record

Value: TypeAlias = int | float | bool | str | list[int] | list[float] | list[bool]

MAGIC = b"GGUF"
OLDER = {b"lmgg": "GGML", b"fmgg": "GGMF", b"tjgg": "GGJT"}
"""What files of llama.cpp began with before 2023-08."""
HEAD_BYTES = 256 << 20
"""The longest head: tokenizers of a quarter of a million tokens take some 10 MiB."""
MOST_TENSORS = 65_536
"""The most tensors of a file: experts of a layer are one tensor, and the largest models have some 2,000."""
MOST_KEYS = 65_536
KEY_BYTES = 65_535
"""The longest key that the format allows."""
NAME_BYTES = 1_024
STRING_BYTES = 65_536
"""A longer text of the metadata is passed over: templates and licences."""
KEPT_LIST = 4_096
"""A longer list is passed over: tokens, their scores and merges."""
MOST_TEXTS = 4_000_000
"""The most texts of a list: the largest tokenizers have some 500,000 merges."""
MOST_VALUES = 1 << 50
MOST_ALIGNMENT = 1 << 20

_SCALARS: dict[int, str] = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
AGAIN = "download or convert it anew"


class GgufFile(Record, kw_only=True):
    """The head of one file: its path, metadata, lengths of the lists that were passed over, and tensors in order."""

    path: str
    size: int
    version: int
    metadata: dict[str, Value]
    lists: dict[str, int]
    tensors: tuple[Tensor, ...]

    def whole(self, key: str, default: int | None = None) -> int | None:
        """A whole number of the metadata.

        Raises:
            UsageError: it is something else.
        """
        value = self.metadata.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 40:
            shown = str(value)[:40]
            raise UsageError(Problem("model.gguf-bad-field", f"`{key}` is `{shown}`, but must be a whole number", AGAIN, self.path))
        return value

    def text(self, key: str) -> str:
        """A text of the metadata, or nothing."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""


def read_gguf(path: Path) -> GgufFile:
    """The head of a GGUF file.

    Raises:
        UsageError: it cannot be read, is no GGUF file, or its head cannot be right: what, where, and what to do.
    """
    with window_of(path, most=HEAD_BYTES, code="model") as window:
        return gguf_head(window, str(path))


def gguf_head(window: Window, where: str) -> GgufFile:
    """The same of bytes that come from anywhere; errors as `read_gguf`, which name `where`."""
    head = _Head(window, where)
    try:
        return head.read()
    except Short as short:
        ends = f"the file ends at byte {window.size:,}"
        if short.at + short.wanted <= window.size:
            raise head.wrong(f"its head is longer than {HEAD_BYTES >> 20} MiB", AGAIN) from None
        told = f"{ends}, but {head.doing} takes {short.wanted:,} bytes from {short.at:,}"
        raise head.wrong(told, "is the download whole? " + AGAIN, "cut") from None


class _Head:
    """A reader of one head that knows what it is doing, for what is said when it fails."""

    def __init__(self, window: Window, where: str) -> None:
        self.window, self.where = window, where
        self.doing = "the magic number"
        self.order, self.word = "<", "Q"
        self.metadata: dict[str, Value] = {}
        self.lists: dict[str, int] = {}

    def wrong(self, what: str, hint: str = AGAIN, code: str = "damaged") -> UsageError:
        return UsageError(Problem(f"model.gguf-{code}", what, hint, self.where))

    def read(self) -> GgufFile:
        version = self.begin()
        self.doing = "the counts of tensors and keys"
        tensors, keys = self.length(), self.length()
        for what, count, most in (("keys", keys, MOST_KEYS), ("tensors", tensors, MOST_TENSORS)):
            if count > most:
                raise self.wrong(f"the head says that it has {count:,} {what}, which cannot be: no model has more than {most:,}")
        self.doing = f"{keys:,} keys and {tensors:,} tensors"
        self.room(keys * 9 + tensors * 16)
        for _ in range(keys):
            self.pair()
        found = self.tensors(tensors)
        return GgufFile(
            path=self.where, size=self.window.size, version=version, metadata=self.metadata, lists=self.lists, tensors=found
        )

    def begin(self) -> int:
        magic = self.window.take(min(4, self.window.size))
        if magic != MAGIC:
            if magic in OLDER:
                raise self.wrong(f"it is a {OLDER[magic]} file of llama.cpp before August 2023", "convert it to GGUF", "magic")
            shown = magic.hex(" ") if magic else "nothing"
            raise self.wrong(f"it is no GGUF file: it begins with {shown}, not with `GGUF`", "name a GGUF file", "magic")
        self.doing = "the version"
        raw = self.window.take(4)
        version = int(struct.unpack("<I", raw)[0])
        if version and not version & 0xFFFF:  # As llama.cpp tells files of the other order of bytes.
            self.order = ">"
            version = int(struct.unpack(">I", raw)[0])
        if not 1 <= version <= 3:
            raise self.wrong(f"version {version} of GGUF is not known", "known are 1, 2 and 3", "version")
        self.word = "I" if version == 1 else "Q"
        return version

    def room(self, count: int) -> None:
        """Refuse what the rest of the file has no room for, before any of it is read."""
        if count > self.window.left:
            raise Short(self.window.at, count)

    def number(self, code: str) -> int:
        return int(struct.unpack(self.order + code, self.window.take(struct.calcsize(f"={code}")))[0])

    def length(self) -> int:
        return self.number(self.word)

    def text(self, most: int) -> str | None:
        """A text, or None where it is longer than `most` and was passed over."""
        size = self.length()
        if size > most:
            self.window.skip(size)
            return None
        return self.window.take(size).decode("utf-8", "replace")

    def pair(self) -> None:
        self.doing = "a key"
        at = self.window.at
        key = self.text(KEY_BYTES)
        if key is None or not key or not key.isprintable():
            raise self.wrong(f"a key at byte {at:,} is no text of {KEY_BYTES:,} bytes at most")
        if key in self.metadata or key in self.lists:
            raise self.wrong(f"the key `{_short(key)}` stands twice")
        self.doing = f"the value of `{_short(key)}`"
        kind = self.number("I")
        if kind == _LIST:
            self.list(key)
        elif kind == _TEXT:
            text = self.text(STRING_BYTES)
            self.metadata[key] = text if text is not None else ""
        else:
            self.metadata[key] = self.scalar(key, kind)

    def scalar(self, key: str, kind: int) -> int | float | bool:
        code = _SCALARS.get(kind)
        if code is None:
            raise self.wrong(f"`{_short(key)}` has a value of type {kind}, which GGUF does not have")
        value: int | float | bool = struct.unpack(self.order + code, self.window.take(struct.calcsize(f"={code}")))[0]
        return value

    def list(self, key: str) -> None:
        kind, count = self.number("I"), self.length()
        if kind == _TEXT:
            if count > MOST_TEXTS:
                raise self.wrong(f"`{_short(key)}` says that it has {count:,} texts, which cannot be")
            self.room(count * struct.calcsize(f"={self.word}"))
            for _ in range(count):
                self.window.skip(self.length())
            self.lists[key] = count
            return
        code = _SCALARS.get(kind)
        if code is None:
            raise self.wrong(f"`{_short(key)}` is a list of type {kind}, which GGUF does not have")
        size = struct.calcsize(f"={code}")
        self.room(count * size)
        if count > KEPT_LIST:
            self.window.skip(count * size)
            self.lists[key] = count
            return
        self.metadata[key] = list(struct.unpack(f"{self.order}{count}{code}", self.window.take(count * size)))

    def tensors(self, count: int) -> tuple[Tensor, ...]:
        found: dict[str, tuple[Tensor, int]] = {}
        for index in range(count):
            self.doing = f"tensor {index + 1} of {count}"
            name = self.text(NAME_BYTES)
            if not name or not name.isprintable():
                raise self.wrong(f"the name of tensor {index + 1} of {count} is no text of {NAME_BYTES:,} bytes at most")
            if name in found:
                raise self.wrong(f"the tensor `{_short(name)}` stands twice")
            found[name] = self.tensor(name)
        self.places(found)
        return tuple(tensor for tensor, _ in found.values())

    def tensor(self, name: str) -> tuple[Tensor, int]:
        dimensions = self.number("I")
        if dimensions > 4:
            raise self.wrong(f"the tensor `{_short(name)}` says that it has {dimensions} dimensions, where GGML has four at most")
        sides = tuple(self.length() for _ in range(dimensions))
        kind, offset = self.number("I"), self.number("Q")
        values = 1
        for side in sides:
            values *= side
        if values > MOST_VALUES:
            raise self.wrong(f"the tensor `{_short(name)}` says that it has {values:.3g} values, which cannot be")
        known = BY_NUMBER.get(kind)
        if known is None:
            gone = f" (`{REMOVED[kind]}`, which llama.cpp reads no longer)" if kind in REMOVED else ""
            raise self.wrong(f"the tensor `{_short(name)}` is of type {kind}{gone}, which gpuplan does not know", AGAIN, "type")
        if sides and sides[0] % known.values:
            told = f"rows of {sides[0]:,} values are no whole blocks of {known.values}"
            raise self.wrong(f"the tensor `{_short(name)}` is {known.name}, but its {told}")
        return Tensor(name, known.name, tuple(reversed(sides)), known.tensor_bytes(values)), offset

    def places(self, found: dict[str, tuple[Tensor, int]]) -> None:
        """Whether the tensors stand one behind the other within the file."""
        alignment = self.metadata.get("general.alignment", 32)
        good = isinstance(alignment, int) and not isinstance(alignment, bool) and 0 < alignment <= MOST_ALIGNMENT
        if not good or not isinstance(alignment, int) or alignment & (alignment - 1):
            raise self.wrong(f"`general.alignment` is `{str(alignment)[:40]}`, which is no power of two")
        data = -(-self.window.at // alignment) * alignment
        end = 0
        for tensor, offset in sorted(found.values(), key=lambda one: (one[1], one[0].size)):
            if offset % alignment:
                raise self.wrong(f"the tensor `{_short(tensor.name)}` begins at {offset:,}, no multiple of {alignment}")
            if offset < end:
                raise self.wrong(
                    f"the tensor `{_short(tensor.name)}` begins at {offset:,}, within the one before it, which ends at {end:,}"
                )
            end = offset + tensor.size
            if data + end > self.window.size:
                told = f"the file ends at byte {self.window.size:,}, but the tensor `{_short(tensor.name)}` at {data + end:,}"
                raise self.wrong(told, "is the download whole? " + AGAIN, "cut")


def _short(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:57]}..."
