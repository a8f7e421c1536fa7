"""Which model does a GGUF file, or a set of them, hold?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast, get_args

from gpuplan.errors import Problem, UnknownError, UsageError
from gpuplan.files.read import is_file
from gpuplan.models.architecture import Architecture, Block, Run, Stack
from gpuplan.models.block_types import PLAIN
from gpuplan.models.card import CardSource, Dtype, ModelCard, WeightsFormat
from gpuplan.models.checkpoint.ggml_types import FILE_TYPES
from gpuplan.models.checkpoint.gguf import GgufFile, read_gguf
from gpuplan.models.checkpoint.gguf_blocks import Layer, block_of
from gpuplan.models.checkpoint.names import place_of
from gpuplan.models.checkpoint.tensors import Tensor
from gpuplan.models.count import count
from gpuplan.models.mixers import NormKind
from gpuplan.models.stored import Placed, StoredTensors, counted_parts, stored_parts
from gpuplan.term import Source

SPLIT = re.compile(r"(?i)-(\d{5})-of-(\d{5})\.gguf$")
_BLOCK = re.compile(r"^(?:(enc|dec)\.)?blk\.(\d+)\.(.+)$")
MOST_SPLITS = 1_000
ENGINE = "llama-cpp"
"""The engine that serves GGUF files."""

PERIODS = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "cohere2": 4, "gpt-oss": 2}
"""Every so-manieth layer sees all, the others a window, where files have a window but say nothing of a pattern: as llama.cpp has it
(https://github.com/ggml-org/llama.cpp/tree/master/src/models, `swa_period` of each architecture, read 2026-11-22)."""
CHUNKED = {"llama4": (8_192, 4)}
"""Chunks of attention, and how often a layer sees all, that llama.cpp has for an architecture (src/models/llama4.cpp, `n_swa`)."""
NO_WINDOW = ("llama", "phi3", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "mistral3")
"""Architectures whose window llama.cpp does not use."""

OTHERS = {
    "adapter": ("a LoRA adapter, not a model", "name the base model, and give the adapter's rank with `--lora-rank`"),
    "imatrix": ("the importance matrix of a quantiser, not a model", "name the model's GGUF file"),
    "mmproj": ("the vision or audio part of a model (mmproj)", "name the model's own GGUF file beside it"),
    "vocab": ("a vocabulary without a model", "name the model's GGUF file"),
}


def is_mmproj(name: str) -> bool:
    """Whether a file's name is that of a part that turns images or sound into tokens."""
    return "mmproj" in name.lower()


def parts_of(path: Path) -> list[Path]:
    """The files of a model that was split, in order, or the one file.

    Raises:
        UsageError: one of them is not there.
    """
    found = SPLIT.search(path.name)
    if found is None:
        return [path]
    number, several = int(found[1]), int(found[2])
    if not 1 <= number <= several or several > MOST_SPLITS:
        raise UsageError(
            Problem("model.gguf-split", f"`{path.name}` is no part of a model that was split", "name the first part", str(path))
        )
    stem = path.name[: found.start()]
    files = [path.with_name(f"{stem}-{at:05d}-of-{found[2]}.gguf") for at in range(1, several + 1)]
    missing = [one.name for one in files if one != path and not is_file(one)]
    if missing:
        shown = ", ".join(f"`{one}`" for one in missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise UsageError(
            Problem("model.gguf-split", f"{shown} of the {several} parts is not there", "put all parts into one folder", str(path))
        )
    return files


def import_gguf(path: Path) -> ModelCard:
    """The model that a GGUF file holds, with all its parts where it was split.

    Raises:
        UsageError: a file that cannot be read, that is damaged, missing, or holds something else than a model.
        UnknownError: the architecture is not known.
    """
    return gguf_card([read_gguf(one) for one in parts_of(path)])


def gguf_card(files: Sequence[GgufFile], notes: Sequence[str] = ()) -> ModelCard:
    """The same of heads at hand; errors as `import_gguf`."""
    first = files[0]
    _is_model(first)
    _is_whole(files)
    tensors = {one.name: one for file in files for one in file.tensors}
    if len(tensors) < sum(len(file.tensors) for file in files):
        raise UsageError(
            Problem("model.gguf-split", "two parts hold the same tensor", "put the parts of one model into the folder", first.path)
        )
    reader = _Reader(first, tensors)
    arch = reader.architecture()
    name = Path(first.path).name.removesuffix(".gguf")
    name = re.sub(r"-\d{5}-of-\d{5}$", "", name)
    source = Source("user", f"GGUF file {Path(first.path).name}")
    arch = _with_rest(arch, reader, source)
    placed = [_placed(one, reader) for one in tensors.values()]
    parts, beside = stored_parts(arch, count(arch, source), placed)
    stored = StoredTensors(
        files=tuple(Path(one.path).name for one in files), tensors=len(tensors), parts=parts, beside=beside, as_is=True,
    )  # fmt: skip
    most = next(iter(stored.types))
    kind = first.whole("general.file_type")
    method = FILE_TYPES.get(kind, most) if kind is not None else most
    said = list(notes) + reader.notes
    plain = method if method in PLAIN else None
    from gpuplan.models.import_config import slug, today

    return ModelCard(
        id=slug(name),
        name=first.text("general.name") or name,
        sources={"gguf": CardSource(title=source.title, checked=today(), kind="user")},
        dtype=cast("Dtype", plain) if plain in get_args(Dtype) else "bf16",
        weights=None if plain else WeightsFormat(method=method),
        stored=stored,
        engine=ENGINE,
        notes=tuple(said),
        architecture=arch,
    )


def _split(what: str, hint: str, where: Path | str) -> UsageError:
    return UsageError(Problem("model.gguf-split", what, hint, str(where)))


def _is_model(file: GgufFile) -> None:
    kind = file.text("general.type").lower()
    arch = file.text("general.architecture")
    if arch == "clip" or any(key.startswith("clip.") for key in file.metadata):
        kind = "mmproj"
    if not kind and any(one.name.endswith((".lora_a", ".lora_b")) for one in file.tensors):
        kind = "adapter"
    if kind not in OTHERS and not file.tensors and (file.lists or arch) and not file.whole("split.count", 0):
        kind = "vocab"
    if kind in OTHERS:
        what, hint = OTHERS[kind]
        raise UsageError(Problem("model.not-a-model", f"this is {what}", hint, file.path))
    if not arch:
        raise UsageError(
            Problem("model.gguf-damaged", "`general.architecture` is missing", "download or convert it anew", file.path)
        )


def _is_whole(files: Sequence[GgufFile]) -> None:
    several, found = files[0].whole("split.count", len(files)), sum(len(one.tensors) for one in files)
    if several and several != len(files):
        what = f"the file is one of {several} parts, and {len(files)} are there"
        raise _split(what, "name the first part as it was published (-00001-of-…)", files[0].path)
    wanted = files[0].whole("split.tensors.count", found)
    if wanted != found:
        what = f"the parts hold {found:,} tensors of {wanted:,}"
        raise _split(what, "download all parts anew", files[0].path)


def _placed(tensor: Tensor, reader: _Reader) -> Placed:
    place = place_of(tensor.name)
    if place.layer is not None and place.layer >= reader.depth(place.stack):
        return Placed("multi-token prediction", tensor.type, tensor.size)
    return Placed(place.part, tensor.type, tensor.size, place.layer, place.stack)


def _with_rest(arch: Architecture, reader: _Reader, source: Source) -> Architecture:
    """The architecture with the values of the file that its parts do not come to counted beside them."""
    counted = counted_parts(arch, count(arch, source))
    held, _ = stored_parts(arch, count(arch, source), [_values(one, reader) for one in reader.tensors.values()])
    sums = {name: sum(one.values()) for name, one in held.items()}
    extra = dict(arch.extra_params)
    stacks: list[Stack] = []
    several = len(arch.stacks) > 1
    for stack in arch.stacks:
        blocks: dict[str, Block] = {}
        for name, block in stack.blocks.items():
            key = f"{stack.kind}.{name}." if several else f"{name}."
            missing = sum(size for part, size in sums.items() if part.startswith(key))
            missing -= round(sum(size for part, size in counted.items() if part.startswith(key)))
            each, left = divmod(missing, stack.counts()[name])
            blocks[name] = block
            if each > 0 and not left:
                blocks[name] = block.replaced(extra_params=each)
            elif missing:
                reader.notes.append(f"layers of the kind `{name}` hold {missing:+,} values against what their shapes come to")
        stacks.append(stack.replaced(blocks=blocks))
    for name, size in sums.items():
        if name not in counted and size:
            extra[re.sub(r"[^a-z0-9]+", "_", name)] = size
    return arch.replaced(stacks=tuple(stacks), extra_params=extra)


def _values(tensor: Tensor, reader: _Reader) -> Placed:
    return _placed(tensor._replace(size=tensor.values), reader)


class _Reader:
    """One model on its way from metadata and tensors to an architecture."""

    def __init__(self, file: GgufFile, tensors: Mapping[str, Tensor]) -> None:
        self.file, self.tensors = file, tensors
        self.arch = file.text("general.architecture")
        self.notes: list[str] = []
        self.layers: dict[str, dict[int, dict[str, tuple[int, ...]]]] = {}
        for name, one in tensors.items():
            if found := _BLOCK.match(name):
                self.layers.setdefault(found[1] or "", {}).setdefault(int(found[2]), {})[found[3]] = one.shape

    def depth(self, stack: str) -> int:
        """Layers of a stack but for those that predict further tokens."""
        short = {"encoder": "enc", "decoder": "dec"}.get(stack, "")
        held = self.layers.get(short) or self.layers.get("") or {}
        ahead = self.file.whole(f"{self.arch}.nextn_predict_layers", 0) or 0
        return max(len(held) - (0 if short else ahead), 0)

    def architecture(self) -> Architecture:
        embedding = self.tensors.get("token_embd.weight")
        if embedding is None or len(embedding.shape) != 2:
            what = f"the file has no matrix `token_embd.weight`: `{self.arch}` is no language model that gpuplan knows"
            raise self.unknown(what)
        vocab, width = embedding.shape
        hidden = self.file.whole(f"{self.arch}.embedding_length") or width
        causal = self.file.metadata.get(f"{self.arch}.attention.causal") is not False
        stacks = tuple(
            self.stack(short, kind, hidden, causal=causal and kind == "decoder")
            for short, kind in (("enc", "encoder"), ("", "decoder" if causal else "encoder"), ("dec", "decoder"))
            if self.layers.get(short)
        )
        if not stacks:
            raise UnknownError(
                Problem("model.unknown-architecture", f"`{self.arch}` has no layers that gpuplan knows", "", self.file.path)
            )
        generates = stacks[-1].kind == "decoder"
        positions = self.tensors.get("position_embd.weight")
        types = self.tensors.get("token_types.weight")
        norm = self.norm("token_embd_norm")
        return Architecture(
            hidden=hidden, vocab=vocab, tied=generates and "output.weight" not in self.tensors,
            max_context=self.file.whole(f"{self.arch}.context_length") or None, stacks=stacks, head=generates,
            head_bias=generates and "output.bias" in self.tensors,
            embedding_width=width if width != hidden else None,
            positions=positions.shape[0] if positions is not None and len(positions.shape) == 2 else 0,
            token_types=types.values // hidden if types is not None else 0, embedding_norm=norm,
        )  # fmt: skip

    def unknown(self, what: str) -> UnknownError:
        hint = "gpuplan plans language models and encoders"
        return UnknownError(Problem("model.unknown-architecture", what, hint, self.file.path))

    def norm(self, name: str) -> NormKind | None:
        if f"{name}.weight" not in self.tensors:
            return None
        return "layer" if f"{name}.bias" in self.tensors else "rms"

    def stack(self, short: str, kind: Any, hidden: int, *, causal: bool) -> Stack:
        held = self.layers[short]
        depth = self.depth("" if not short else {"enc": "encoder", "dec": "decoder"}[short])
        if sorted(held)[:depth] != [*range(depth)]:
            missing = next(at for at in range(depth) if at not in held)
            raise UsageError(
                Problem(
                    "model.gguf-damaged", f"layer {missing} of {depth} is not there", "download or convert it anew", self.file.path
                )
            )
        names: dict[str, str] = {}
        blocks: dict[str, Block] = {}
        runs: list[tuple[str, int]] = []
        for index in range(depth):
            window, chunk = self.sight(index, depth)
            layer = Layer(
                file=self.file, arch=self.arch, index=index, shapes=held[index], hidden=hidden, window=window, chunk=chunk,
                causal=causal,
            )  # fmt: skip
            block = block_of(layer)
            text = repr(block.plain())
            if text not in names:
                names[text] = name = _label(block, blocks)
                blocks[name] = block
            if runs and runs[-1][0] == names[text]:
                runs[-1] = runs[-1][0], runs[-1][1] + 1
            else:
                runs.append((names[text], 1))
        prefix = f"{short}." if short else ""
        final = self.norm(f"{prefix}output_norm")
        return Stack(
            kind=kind, blocks=blocks, layers=tuple(Run(block=name, count=several) for name, several in runs),
            final_norm=final is not None, norm=final or "rms",
        )  # fmt: skip

    def sight(self, index: int, depth: int) -> tuple[int | None, int | None]:
        """The window and the chunk of a layer; None: it sees everything."""
        if self.arch in CHUNKED:
            size, period = CHUNKED[self.arch]
            return None, size if index % period < period - 1 else None
        window = self.file.whole(f"{self.arch}.attention.sliding_window") or None
        if window is None:
            return None, None
        pattern = self.file.metadata.get(f"{self.arch}.attention.sliding_window_pattern", PERIODS.get(self.arch))
        if isinstance(pattern, list):
            return (window if pattern[index % len(pattern)] else None) if pattern else None, None
        if isinstance(pattern, int) and not isinstance(pattern, bool):
            return window if not pattern or index % pattern < pattern - 1 else None, None
        if index == 0:
            why = "llama.cpp does not use it" if self.arch in NO_WINDOW else "nothing says which layers have it"
            self.notes.append(f"the file has a window of {window:,} tokens, and every layer is taken to see all: {why}")
        return None, None


def _label(block: Block, known: Mapping[str, Block]) -> str:
    """A name for a kind of block."""
    first = block.mixers[0] if block.mixers else None
    word = "layer"
    if first is None:
        word = "channels"
    elif getattr(first, "window", None) or getattr(first, "chunk", None):
        word = "sliding"
    elif first.program() not in ("attention", "mla", "sparse_mla"):
        word = first.program().replace("_", "-")
    elif known and block.moe is None and any(one.moe for one in known.values()):
        word = "dense"
    name, number = word, 2
    while name in known:
        name, number = f"{word}-{number}", number + 1
    return name
