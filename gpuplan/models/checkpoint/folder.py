"""Which model does a path mean: a configuration, a checkpoint's file, or a folder with either?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from gpuplan.errors import GpuplanError, Problem, UnknownError, UsageError
from gpuplan.files.json_text import JsonError, parse
from gpuplan.files.progress import steps
from gpuplan.files.read import bytes_of, decoded, is_file, is_folder
from gpuplan.files.window import entries, window_of
from gpuplan.models.card import ModelCard
from gpuplan.models.checkpoint.gguf import MAGIC, read_gguf
from gpuplan.models.checkpoint.gguf_model import SPLIT, import_gguf, is_mmproj
from gpuplan.models.checkpoint.gguf_projector import with_vision
from gpuplan.models.checkpoint.names import Place, merged
from gpuplan.models.checkpoint.safetensors import SafetensorsFile, read_safetensors
from gpuplan.models.import_config import import_config
from gpuplan.models.stored import Placed, StoredTensors, stored_parts

INDEX = "model.safetensors.index.json"
INDEX_BYTES = 48 << 20
"""The largest index: it names every tensor, a quarter of a million of them in the largest checkpoints."""
MOST_SHARDS = 2_000
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})\.safetensors$")
_NOT_WEIGHTS = re.compile(r"adapter_model|optimizer|training_args|scheduler|rng_state|\.onnx")
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5", ".onnx", ".nemo", ".tflite", ".mlmodel")


def import_path(path: Path) -> ModelCard:
    """The model at a path: a `config.json`, a GGUF or safetensors file, or a folder.

    Raises:
        UsageError: a file that cannot be read, is damaged or incomplete, or describes something else than a model.
        UnknownError: the architecture is not known.
    """
    if is_folder(path):
        return _folder(path)
    name = path.name.lower()
    if name.endswith(".gguf") or _begins(path, MAGIC):
        card = import_gguf(path)
        return _with_projector(card, path)
    if name.endswith(".safetensors.index.json"):
        return _with_config(path.parent, indexed(path), path)
    if name.endswith(".safetensors"):
        return _of_file(path)
    if name.endswith(PICKLED):
        hint = "give the folder with its config.json, a safetensors file or a GGUF file"
        raise UsageError(Problem("model.not-read", "gpuplan reads no files of this kind: they may run code", hint, str(path)))
    return import_config(path)


def _begins(path: Path, magic: bytes) -> bool:
    if not is_file(path) or path.suffix.lower() in (".json", ".yaml", ".yml"):
        return False
    with window_of(path, most=len(magic), code="model") as window:
        return window.size >= len(magic) and window.take(len(magic)) == magic


def _folder(folder: Path) -> ModelCard:
    names = entries(folder, code="model")
    weights = [name for name in names if name.endswith(".safetensors") and not _NOT_WEIGHTS.search(name)]
    if "config.json" in names and (INDEX in names or weights):
        files = indexed(folder / INDEX) if INDEX in names else _unindexed(folder, weights)
        return _with_config(folder, files, folder)
    ggufs = [name for name in names if name.lower().endswith(".gguf") and not is_folder(folder / name)]
    if "config.json" in names or not (ggufs or weights):
        return import_config(folder)
    if not ggufs:
        raise _no_config(folder)
    return _of_ggufs(folder, ggufs)


def _of_ggufs(folder: Path, names: Sequence[str]) -> ModelCard:
    """The model of a folder of GGUF files, if there is one."""
    firsts = [name for name in names if not (found := SPLIT.search(name)) or int(found[1]) == 1]
    models = [name for name in firsts if not is_mmproj(name)]
    if len(models) == 1:
        return _with_projector(import_gguf(folder / models[0]), folder / models[0])
    if not models:
        what = f"the folder holds no model but {listed(names)}"
        raise UsageError(Problem("model.no-config", what, "give the folder that has the model's own GGUF file", str(folder)))
    hint = f"name one of them, such as `{folder / models[0]}`"
    raise UsageError(Problem("model.several", f"the folder holds {len(models)} models: {listed(models)}", hint, str(folder)))


def _with_projector(card: ModelCard, path: Path) -> ModelCard:
    """The card with the encoder of images that lies beside the file, or a note of what lies there."""
    try:
        beside = [name for name in entries(path.parent, code="model") if name.lower().endswith(".gguf") and is_mmproj(name)]
    except GpuplanError:
        return card
    if not beside:
        return card
    if len(beside) == 1:
        seeing = with_vision(card, read_gguf(path.parent / beside[0]))
        if seeing is not None:
            return seeing
    text = f"{listed(beside)} lies beside the model: what turns images or sound into tokens is not counted with it"
    return card.replaced(notes=(*card.notes, text))


def listed(names: Iterable[str]) -> str:
    """Names of files for people, the first of them where there are many."""
    listed = [f"`{name}`" for name in names]
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")


def _of_file(path: Path) -> ModelCard:
    """The model that a safetensors file, or the set that it is a part of, holds."""
    if _NOT_WEIGHTS.search(path.name):
        what = "this is an adapter or the state of a run, not a model"
        raise UsageError(Problem("model.not-a-model", what, "name the model's own file or folder", str(path)))
    index = path.parent / INDEX
    found = _SHARD.search(path.name)
    if found is not None and is_file(index):
        return _with_config(path.parent, indexed(index), path)
    names = [path.name] if found is None else [one for one in entries(path.parent, code="model") if _SHARD.search(one)]
    return _with_config(path.parent, _unindexed(path.parent, names), path)


def indexed(index: Path) -> Iterator[SafetensorsFile]:
    """The heads of the files that an index names, one after the other.

    Raises:
        UsageError: the index cannot be read or is none, or files or tensors that it names are not there.
    """
    names, tensors = index_of(index_text(index), str(index))
    missing = [name for name in names if not is_file(index.parent / name)]
    if missing:
        what = f"{listed(missing)} of the {len(names)} files that the index names {'is' if len(missing) == 1 else 'are'} not there"
        raise UsageError(Problem("model.missing-shard", what, "download the whole folder", str(index)))
    yield from as_indexed(
        (read_safetensors(index.parent / name) for name in steps(names, "files of weights read")), tensors, str(index)
    )


def as_indexed(files: Iterable[SafetensorsFile], tensors: set[str], where: str) -> Iterator[SafetensorsFile]:
    """Files whose tensors are crossed out of those that their index names.

    Raises:
        UsageError: some are left at the end.
    """
    for file in files:
        tensors.difference_update(one.name for one in file.tensors)
        yield file
    if tensors:
        what = f"the index names {len(tensors):,} tensors that its files do not hold, such as `{min(tensors)[:80]}`"
        raise UsageError(Problem("model.missing-tensor", what, "download the whole folder anew", where))


def index_text(index: Path) -> str:
    """The text of an index; errors as `bytes_of`."""
    return decoded(bytes_of(index, most=INDEX_BYTES, code="model"), str(index), code="model")


def not_weights(name: str) -> bool:
    """Whether a file of tensors is none of a model's: an adapter, the state of a run."""
    return _NOT_WEIGHTS.search(name) is not None


def index_of(text: str, where: str) -> tuple[list[str], set[str]]:
    """The files and the tensors that an index names.

    Raises:
        UsageError: it is none, or names files elsewhere.
    """

    def wrong(what: str) -> UsageError:
        return UsageError(Problem("model.bad-index", what, "download the index anew", where))

    try:
        data = parse(text)
    except JsonError as error:
        raise wrong(f"not valid JSON: {error}") from None
    named = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(named, dict) or not named or not all(isinstance(one, str) for one in named.values()):
        raise wrong("the index has no `weight_map` of tensors and files")
    names = sorted(set(named.values()))
    odd = next((name for name in names if Path(name).name != name or not name.endswith(".safetensors")), None)
    if odd is not None:
        raise wrong(f"the index names `{odd[:80]}`, which is no safetensors file of its folder")
    if len(names) > MOST_SHARDS:
        raise wrong(f"the index names {len(names):,} files")
    return names, set(named)


def _unindexed(folder: Path, names: Sequence[str]) -> Iterator[SafetensorsFile]:
    """The heads of the files of a folder without an index: one, or all parts of one set."""
    for name in steps(complete(names, str(folder)), "files of weights read"):
        yield read_safetensors(folder / name)


def complete(names: Sequence[str], where: str) -> list[str]:
    """The files of one model among those of a folder.

    Raises:
        UsageError: it cannot be told which, or parts are not there.
    """
    if "model.safetensors" in names:
        return ["model.safetensors"]
    sets: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if found := _SHARD.search(name):
            sets.setdefault((name[: found.start()], found[2]), set()).add(int(found[1]))
    if len(sets) == 1:
        (stem, several), numbers = next(iter(sets.items()))
        missing = sorted(set(range(1, min(int(several), MOST_SHARDS) + 1)) - numbers)
        if missing:
            shown = listed(f"{stem}-{one:05d}-of-{several}.safetensors" for one in missing)
            raise UsageError(Problem("model.missing-shard", f"{shown} is not there", "download the whole folder", where))
        return [f"{stem}-{one:05d}-of-{several}.safetensors" for one in sorted(numbers)]
    plain = [name for name in names if not _SHARD.search(name)]
    if not sets and len(plain) == 1:
        return plain
    hint = "name one of them, or keep the files of one model and their index in the folder"
    raise UsageError(Problem("model.several", f"the folder holds several sets of weights: {listed(names)}", hint, where))


def _no_config(folder: Path) -> UsageError:
    hint = "put the model's config.json beside it: how many heads there are does not follow from shapes"
    return UsageError(Problem("model.no-config", "there is no config.json beside the safetensors", hint, str(folder)))


def _with_config(folder: Path, files: Iterable[SafetensorsFile], asked: Path) -> ModelCard:
    """The model of the configuration in a folder, with the bytes of its files."""
    if not is_file(folder / "config.json"):
        raise _no_config(asked)
    return with_tensors(import_config(folder), files)


def with_tensors(card: ModelCard, files: Iterable[SafetensorsFile]) -> ModelCard:
    """A card with the bytes of its checkpoint's files.

    Raises:
        UnknownError: the files hold another model.
    """
    sums: dict[tuple[Place, str], int] = {}
    several, paths = 0, list[str]()
    for file in files:
        several += len(file.tensors)
        paths.append(file.path)
        for key, size in merged(file.tensors).items():
            sums[key] = sums.get(key, 0) + size
    placed = [Placed(place.part, kind, size, place.layer, place.stack) for (place, kind), size in sums.items()]
    parts, beside = stored_parts(card.architecture, card.count(), placed)
    if not any("." in name for name in parts):
        where = paths[0] if paths else ""
        what = "the files hold no tensor of a layer of the model that config.json describes"
        raise UnknownError(Problem("model.other-tensors", what, "do config.json and files belong together?", where))
    stored = StoredTensors(
        files=tuple(Path(one).name for one in paths), tensors=several, parts=parts, beside=beside
    )  # fmt: skip
    return card.replaced(stored=stored)
