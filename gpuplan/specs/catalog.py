"""Which file does a name mean: an id, an alias, a driver's string, a short form; shipped or the user's own?"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import gpuplan
from gpuplan.errors import Note, Problem, SpecError, UnknownError, UsageError, did_you_mean
from gpuplan.files.home import home
from gpuplan.files.unchanged import while_unchanged
from gpuplan.record import Record
from gpuplan.specs.base import Spec, SpecFile, load_spec
from gpuplan.strict_yaml import load_yaml, read_text

KINDS: Mapping[str, str] = {
    "accelerators": "gpuplan.specs.accelerator:Accelerator",
    "systems": "gpuplan.specs.system:System",
    "instances": "gpuplan.specs.instance:InstanceFamily",
    "prices": "gpuplan.specs.price:PriceList",
    "networks": "gpuplan.specs.network:Network",
    "clusters": "gpuplan.specs.cluster:Cluster",
    "measured": "gpuplan.specs.measured:Measured",
    "engines": "gpuplan.specs.engine:Engine",
    "arguments": "gpuplan.specs.arguments:EngineArguments",
    "operations": "gpuplan.specs.operations:Operations",
    "usual": "gpuplan.specs.usual_training:UsualTraining",
    "sites": "gpuplan.specs.site:Site",
    "grids": "gpuplan.specs.grid:Grid",
    "launches": "gpuplan.specs.launch:Launch",
    "models": "",
}
"""The folders of a specs folder, and the schema of their files where it lives in this layer."""
ONE = {
    "accelerators": "accelerator", "systems": "system", "instances": "instance", "prices": "price list",
    "networks": "network", "clusters": "cluster", "measured": "measurement", "engines": "engine",
    "arguments": "command line", "operations": "operation", "usual": "usual choice",
    "sites": "site", "grids": "table of grids", "launches": "launch", "models": "model",
}  # fmt: skip

Made = TypeVar("Made")

_LIST = re.compile(r"^(aliases|driver_names):[ ]*(\[[^\]]*\])?", re.M)
_SHAPE = re.compile(r"^[ ]*-[ ]+\{?[ ]*name:[ ]*[\"']?([^\s\"',}]+)", re.M)
_SHAPE_ALIASES = re.compile(r"^[ ]+aliases:[ ]*(\[[^\]]*\])", re.M)
_GAP = re.compile(r"[\s_-]+")
_MACHINE = re.compile(r"^machine:", re.M)
SIZE = re.compile(r"(\d+)(gb|gib|g)")
"""How much memory, as the last word of a name."""
_FORM = re.compile(rf"{SIZE.pattern}|sxm\d?|pcie|nvl|oam|hbm\d?e?")
"""What a name may leave out: how much memory and which form. Any other word (xt, ti, super, max-q, laptop …) is another part."""
_BOARD = re.compile(rf"{_FORM.pattern}|\d+")
"""What the name of a system may leave out: how many accelerators it has too."""
_ITEM = re.compile(r"\"([^\"]*)\"|'([^']*)'|([^,\[\]\s][^,\[\]]*)")


def schema_of(kind: str) -> type[SpecFile] | None:
    """The class that describes the files of a kind, or None where another layer owns it."""
    module, _, name = KINDS[kind].partition(":")
    found: Any = getattr(import_module(module), name) if name else None
    return found if isinstance(found, type) and issubclass(found, SpecFile) else None


def kind_of(cls: type[SpecFile]) -> str:
    """The folder that files of a schema stand in.

    >>> from gpuplan.specs.accelerator import Accelerator
    >>> kind_of(Accelerator)
    'accelerators'
    """
    return next(kind for kind, place in KINDS.items() if place == f"{cls.__module__}:{cls.__qualname__}")


def config_folder(env: Mapping[str, str]) -> Path:
    """The user's own specs folder, which need not exist: `~/.config/gpuplan`, or where XDG_CONFIG_HOME says.

    >>> str(config_folder({"HOME": "/me"}))
    '/me/.config/gpuplan'
    """
    return Path(env.get("XDG_CONFIG_HOME") or home(env) / ".config") / "gpuplan"


def shipped_folder() -> Path:
    """The folder with the data that came with gpuplan, in a wheel, an sdist and a checkout alike.

    Raises:
        SpecError: the installation has none.
    """
    package = Path(gpuplan.__file__).parent
    for folder in (package / "hardware_specs", package.parent / "hardware_specs"):
        if folder.is_dir():
            return folder
    raise SpecError(Problem("spec.no-shipped-data", "this installation has no hardware_specs folder", "install gpuplan again"))


@lru_cache(8192)
def key(name: str) -> str:
    """A name as names are compared: lower case, with one hyphen for each run of spaces, hyphens and underscores.

    >>> key("NVIDIA A100-SXM4 80GB"), key(" rtx_4090 ")
    ('nvidia-a100-sxm4-80gb', 'rtx-4090')
    """
    return _GAP.sub("-", name.strip().lower())


class FoundFile(Record):
    """The file that a name means, and what the user should hear about the choice."""

    id: str
    path: Path
    notes: tuple[Note, ...] = ()


class Catalog:
    """The spec files of several folders; a file of a later folder replaces one of the same kind and id in an earlier one."""

    def __init__(self, folders: Sequence[Path], calibrated: bool = False) -> None:
        self.folders = folders
        self.calibrated = calibrated
        """Whether what `gpuplan calibrate` wrote counts for every target that it can be lent to, and not only for `--on local`."""
        self._paths: dict[str, dict[str, Path]] = {}
        self._names: dict[str, dict[str, list[str]]] = {}
        self._specs: dict[tuple[type[SpecFile], Path], SpecFile] = {}
        self._made: dict[Hashable, Any] = {}

    @classmethod
    def open(cls, specs: Sequence[Path] = (), env: Mapping[str, str] | None = None, *, calibrated: bool = False) -> Catalog:
        """The shipped folder, then `~/.config/gpuplan`, then `GPUPLAN_SPECS`, then the folders given; later ones win.

        `calibrated`: calibrations of this or another machine count for every target that they can be lent to.

        Raises:
            UsageError: a folder that the user gave does not exist, or holds no spec file. All of them together.
        """
        env = os.environ if env is None else env
        config = config_folder(env)
        given = [Path(part) for part in env.get("GPUPLAN_SPECS", "").split(os.pathsep) if part]
        given += [Path(folder) for folder in specs]
        problems = [problem for folder in given if (problem := _unfit(folder)) is not None]
        if problems:
            raise UsageError(*problems)
        return cls([shipped_folder(), *([config] if config.is_dir() else []), *given], calibrated)

    def paths(self, kind: str) -> dict[str, Path]:
        """The file of each id of a kind, sorted by id; an instance family's id carries its provider: `aws/p5`."""
        if kind not in self._paths:
            found: dict[str, Path] = {}
            for folder in self.folders:
                root = folder / kind
                for path in _yaml_below(root):
                    found[f"{path.parent.name}/{path.stem}" if kind == "instances" else path.stem] = path
            self._paths[kind] = dict(sorted(found.items()))
        return self._paths[kind]

    def layers(self, kind: str, ident: str) -> list[Path]:
        """The files of one id in all folders, the one that wins first, then those that it hides."""
        winner = self.paths(kind).get(ident)
        if winner is None:
            return []
        below = list(self.folders)[: self.rank(winner)]
        return [winner, *(path for folder in reversed(below) for path in sorted((folder / kind).rglob(f"{ident}.yaml")))]

    def without_calibrations(self) -> Catalog:
        """The same folders, as if `gpuplan calibrate` had written no measured file into them."""
        made = Catalog(self.folders)
        measured = {
            ident: [path for path in self.layers("measured", ident) if not _MACHINE.search(read_text(path))]
            for ident in self.paths("measured")
        }
        made._paths["measured"] = {ident: paths[0] for ident, paths in measured.items() if paths}
        return made

    def names(self, kind: str) -> dict[str, list[str]]:
        """Every alias and driver string of a kind, as `key` writes it, with the ids that claim it; no YAML is parsed."""
        if kind not in self._names:
            names: dict[str, list[str]] = {}
            for ident, path in self.paths(kind).items():
                for alias in (*aliases_of(path), *(_instances_in(path) if kind == "instances" else ())):
                    claimed = names.setdefault(key(alias), [])
                    if ident not in claimed:
                        claimed.append(ident)
            self._names[kind] = names
        return self._names[kind]

    def texts(self, kind: str) -> Iterator[tuple[str, Path, str]]:
        """Id, path and text of every file of a kind, for a look before parsing."""
        for ident, path in self.paths(kind).items():
            yield ident, path, read_text(path)

    def find(self, kind: str, name: str) -> FoundFile:
        """The file that a name means: an id, alias or driver string, with the vendor or without, or an id but for size and form.

        Raises:
            UnknownError: nothing is called that; the hint offers what is near.
            UsageError: several files could be meant; the hint lists them.
        """
        paths, wanted = self.paths(kind), key(name)
        ident = wanted if wanted in paths else None
        if ident is None:
            claimed = self._claimed(kind, wanted)
            if len(claimed) > 1:
                more = f" or {len(claimed) - 8} more" if len(claimed) > 8 else ""
                hint = f"write {' or '.join(f'`{one}`' for one in claimed[:8])}{more}"
                raise UsageError(Problem("spec.ambiguous-name", f"`{name}` could be {len(claimed)} {kind}", hint))
            if not claimed:
                known = [*paths, *self.names(kind)]
                hint = (
                    did_you_mean(wanted, known) or f"`gpuplan {'models' if kind == 'models' else 'specs'} list` shows what there is"
                )
                raise UnknownError(Problem(f"spec.unknown-{ONE[kind].split()[0]}", f"no {ONE[kind]} is called `{name}`", hint))
            ident = claimed[0]
        return FoundFile(ident, paths[ident], tuple(self._notes(kind, name, ident)))

    def load(self, cls: type[Spec], name: str) -> Spec:
        """The spec that a name means; `cls` is its schema, such as `Accelerator`.

        Raises:
            UnknownError: nothing is called that.
            UsageError: several files could be meant.
            SpecError: the file is wrong.
        """
        return self.load_noted(cls, name)[0]

    def load_noted(self, cls: type[Spec], name: str) -> tuple[Spec, tuple[Note, ...]]:
        """The spec that a name means, and what the user should hear about the choice; errors as `load`."""
        found = self.find(kind_of(cls), name)
        return self.read(cls, found.path), found.notes

    def read(self, cls: type[Spec], path: Path) -> Spec:
        """The spec in a file, parsed once; errors as `load_spec`."""
        spec = self._specs.get((cls, path))
        if not isinstance(spec, cls):
            spec = self._specs[(cls, path)] = load_spec(cls, path)
        return spec

    def once(self, what: Hashable, make: Callable[[], Made]) -> Made:
        """What is made of the files, made at the first question for it; `what` says which it is, and who makes it."""
        if what not in self._made:
            self._made[what] = make()
        found: Made = self._made[what]
        return found

    def _claimed(self, kind: str, wanted: str) -> list[str]:
        paths, names = self.paths(kind), self.names(kind)
        if wanted in names:
            return self._latest(kind, names[wanted])
        for ident, path in paths.items():
            bare = wanted.removeprefix(f"{path.parent.name}-")
            if bare != wanted and (bare == ident or bare in names):
                return [ident] if bare == ident else self._latest(kind, names[bare])
        begun = [ident for ident in paths if ident.startswith(f"{wanted}-") or ident.endswith(f"/{wanted}")]
        form = _BOARD if kind == "systems" else _FORM
        alike = [ident for ident in begun if all(map(form.fullmatch, ident.removeprefix(f"{wanted}-").split("-")))]
        return alike or (begun if len(begun) > 1 or kind == "instances" else [])

    def _latest(self, kind: str, claimed: list[str]) -> list[str]:
        """Of several files that claim an alias, those in the folder that wins."""
        ranks = {ident: self.rank(self.paths(kind)[ident]) for ident in claimed}
        return [ident for ident in claimed if ranks[ident] == max(ranks.values())]

    def rank(self, path: Path) -> int:
        """Which folder a file is in: 0 for the shipped one, higher for those that win over it."""
        return max(at for at, folder in enumerate(self.folders) if path.is_relative_to(folder))

    def _notes(self, kind: str, name: str, ident: str) -> Iterator[Note]:
        wanted, path = key(name), self.paths(kind)[ident]
        others: list[str] = []
        if wanted != ident:
            sized, bare = any(map(SIZE.fullmatch, wanted.split("-"))), without_size(ident)
            others = [
                other
                for other in self.paths(kind)
                if other != ident and (other.startswith(f"{wanted}-") or (not sized and without_size(other) == bare))
            ]
        if others:
            more = f" and {len(others) - 5} more" if len(others) > 5 else ""
            yield Note("spec.taken-as", f"`{name}` was taken as `{ident}`", f"there is also {', '.join(others[:5])}{more}")
        if self.rank(path) > 0:
            within = self.folders[0] / kind
            hidden = within.is_dir() and next(within.rglob(path.name), None)
            what = "replaces the shipped file" if hidden else "is not shipped with gpuplan"
            yield Note("spec.user-file", f"`{ident}` is read from {path}, which {what}")


def _yaml_below(root: Path) -> list[Path]:
    """What `root.rglob("*.yaml")` finds, in the order of paths, in a third of its time; nothing where it is no folder."""
    found: list[tuple[tuple[str, ...], Path]] = []
    for place, inner, files in os.walk(root):
        folder = Path(place)
        parts = folder.parts
        found += [((*parts, name), folder / name) for name in (*inner, *files) if name.endswith(".yaml")]
    found.sort()
    return [path for _, path in found]


def without_size(ident: str) -> str:
    """The id of a part without how much memory it has.

    >>> without_size("rtx-4060-ti-8gb"), without_size("l4")
    ('rtx-4060-ti', 'l4')
    """
    return "-".join(word for word in ident.split("-") if not SIZE.fullmatch(word))


def aliases_of(path: Path) -> tuple[str, ...]:
    """The aliases and driver strings of a file, by a glance at its text; YAML is parsed only where they are no flow list."""
    return while_unchanged("aliases", path, lambda: tuple(_aliases_in(path)))


def _aliases_in(path: Path) -> list[str]:
    text = read_text(path)
    names: list[str] = []
    for found in _lists(text):
        if found[2] is None:
            data = load_yaml(path)[0].get(found[1])
            names += [str(name) for name in data] if isinstance(data, tuple) else []
        else:
            names += [(one[0] or one[1] or one[2]).strip() for one in _ITEM.findall(found[2])]
    return names


def _lists(text: str) -> Iterator[re.Match[str]]:
    """What `_LIST.finditer` finds. A text search for the keys comes first, which is many times faster than an expression."""
    starts = [at for key in ("aliases:", "driver_names:") for at in _occurrences(key, text)]
    for at in sorted(starts):
        if (found := _LIST.match(text, at)) is not None:
            yield found


def _occurrences(key: str, text: str) -> Iterator[int]:
    at = text.find(key)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            yield at
        at = text.find(key, at + 1)


def _instances_in(path: Path) -> tuple[str, ...]:
    """`provider:name` of the instances in a file and their other names, by a glance at its text: no list above repeats them."""

    def look() -> tuple[str, ...]:
        text = read_text(path)
        names = [found[1] for found in _SHAPE.finditer(text)]
        others = (one for found in _SHAPE_ALIASES.finditer(text) for one in _ITEM.findall(found[1]))
        return tuple([f"{path.parent.name}:{one}" for one in (*names, *((one[0] or one[1] or one[2]).strip() for one in others))])

    return while_unchanged("instances", path, look)


def _unfit(folder: Path) -> Problem | None:
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        hint = f"give a folder with {', '.join(KINDS)} in it"
        return Problem("spec.no-folder", f"the specs folder `{folder}` {what}", hint)
    if any(next((folder / kind).rglob("*.yaml"), None) for kind in KINDS if (folder / kind).is_dir()):
        return None
    # No deeper, or a folder such as `/` would be walked through whole.
    loose = next((one for below in ("*.yaml", "*/*.yaml", "*/*/*.yaml") for one in folder.glob(below)), None)
    if loose is not None:
        hint = f"put it below one of {', '.join(f'{kind}/' for kind in KINDS)}"
        return Problem("spec.unsorted-folder", f"the specs folder `{folder}` has `{loose.name}` in no folder of a kind", hint)
    hint = f"put a YAML file there, such as {folder}/accelerators/my-gpu.yaml"
    return Problem("spec.empty-folder", f"the specs folder `{folder}` holds no YAML file", hint)
