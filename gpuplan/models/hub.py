"""Which model is behind an id of the Hugging Face hub, and what do its files take?

Only configurations are downloaded; of files of weights the heads alone are read, a range of bytes each. Cache, endpoint and token
are those of the package `huggingface_hub`: HF_HOME, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from gpuplan.errors import GpuplanError, Problem, UnknownError, UsageError, install
from gpuplan.files.progress import steps
from gpuplan.files.window import Window
from gpuplan.models.card import CardSource, ModelCard
from gpuplan.models.checkpoint import folder
from gpuplan.models.checkpoint.gguf import HEAD_BYTES as GGUF_HEAD
from gpuplan.models.checkpoint.gguf import GgufFile, gguf_head
from gpuplan.models.checkpoint.gguf_model import SPLIT, gguf_card, is_mmproj
from gpuplan.models.checkpoint.safetensors import HEAD_BYTES, SafetensorsFile, read_safetensors, safetensors_head

PREFIX = re.compile(r"^(?:hf\.co/|huggingface\.co/|https://huggingface\.co/|(?:hf|huggingface)://(?:hf\.co/)?|hf:)")
_ID = re.compile(r"^([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@([\w./-]+))?(?::([\w.-]+))?$")
_PAGE = re.compile(r"/(?:tree|blob|resolve|discussions)(?:/.*)?$|[?#].*$")
"""What stands behind an id in the address of one of its pages."""
SETTINGS = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
PIECE = {"safetensors": 1 << 18, "gguf": 1 << 20}
"""Bytes that are asked for at once."""
AT_ONCE = 8
"""Heads that are read side by side."""
_SECONDS = 30.0
MOST_FILES = 20_000
AWAY = ("model.no-hub", "model.hub-away")
"""Codes of problems by which nobody knows whether the hub has a model: it could not be asked."""


class HubName(NamedTuple):
    """An id of the hub, a revision, and which of its GGUF files is meant (`Q4_K_M`)."""

    repo: str
    revision: str | None
    file_type: str | None
    asked: bool
    """The hub was named (`hf.co/…`), so that it comes before a card."""


def hub_name(name: str) -> HubName | None:
    """What a name means on the hub; None where it is no id.

    >>> hub_name("hf.co/someone/Model-GGUF:Q4_K_M")
    HubName(repo='someone/Model-GGUF', revision=None, file_type='Q4_K_M', asked=True)
    >>> hub_name("https://huggingface.co/someone/Model/tree/main").repo, hub_name("llama-3.1-8b")
    ('someone/Model', None)
    """
    prefix = PREFIX.match(name)
    found = _ID.match(_PAGE.sub("", name[prefix.end() :]).rstrip("/") if prefix else name)
    return HubName(found[1], found[2], found[3], prefix is not None) if found else None


def away(name: HubName) -> str:
    """That the hub could not be asked for a model, in a few words."""
    from importlib.util import find_spec

    why = (
        "was not reached"
        if find_spec("huggingface_hub") is not None
        else f"is not asked without `huggingface_hub` ({install('hub')})"
    )
    return f"the hub {why}, so the files of `{name.repo}` were not looked at"


def import_hub(name: HubName, near: Iterable[str] = ()) -> ModelCard:
    """The model of an id, with the bytes of its files.

    Raises:
        UnknownError: the package is not installed, the hub cannot be reached, or has no such model; with what to do.
        UsageError: files that are damaged, or several models of which none was named.
    """
    from importlib.util import find_spec

    if find_spec("huggingface_hub") is None:
        from gpuplan.models.repositories import made_from

        hint = made_from(name.repo, [*near]) or f"{install('hub')} looks it up on the hub"
        what = f"no model named `{name.repo}` is known"
        raise UnknownError(Problem("model.no-hub", what, f"{hint}; or give its config.json, GGUF file or folder"))
    return _Repo(name, near).card()


def _failures() -> tuple[type[Exception], ...]:
    """What asking the hub may raise: errors of the system, of values that are not what the hub answers, and of the package.

    The package's error of an answer is also one of its HTTP client, whichever that is: what that is made from, stands for all.
    """
    from huggingface_hub.errors import HfHubHTTPError

    bases = (one for one in HfHubHTTPError.__mro__ if issubclass(one, Exception) and one is not Exception)
    return OSError, ValueError, *bases


class _Repo:
    """A model of the hub at one commit."""

    def __init__(self, name: HubName, near: Iterable[str]) -> None:
        self.name, self.near = name, near
        self.sizes: dict[str, int] = {}
        self.commit: str | None = name.revision

    def card(self) -> ModelCard:
        local = self._listed()
        if local is not None:
            return local
        weights = [one for one in self.sizes if one.endswith(".safetensors") and "/" not in one and not folder.not_weights(one)]
        ggufs = [one for one in self.sizes if one.lower().endswith(".gguf")]
        if self.name.file_type is not None or (ggufs and "config.json" not in self.sizes):
            return self._of_ggufs(ggufs)
        if "config.json" not in self.sizes:
            what = f"`{self.name.repo}` has no config.json" + (", but an adapter" if "adapter_config.json" in self.sizes else "")
            hint = (
                "name the base model"
                if "adapter_config.json" in self.sizes
                else "name a model of Transformers, or one of GGUF files"
            )
            raise UsageError(Problem("model.no-config", what, hint, self._where()))
        from gpuplan.models.import_config import import_config

        for one in SETTINGS:
            if one in self.sizes:
                self._download(one)
        made = import_config(self._download("config.json"))
        made = folder.with_tensors(made, self._heads(weights)) if weights else made
        return self._sourced(made)

    def _listed(self) -> ModelCard | None:
        """Ask what files there are; without the hub, the model as far as its files are in the cache."""
        from huggingface_hub import HfApi

        try:
            about = HfApi().model_info(self.name.repo, revision=self.name.revision, files_metadata=True, timeout=_SECONDS)
        except _failures() as error:
            return self._cached(error)
        self.commit = about.sha or self.commit
        self.sizes = {one.rfilename: int(one.size or 0) for one in (about.siblings or [])[:MOST_FILES]}
        return None

    def _cached(self, error: Exception) -> ModelCard:
        from huggingface_hub import try_to_load_from_cache

        try:
            found = try_to_load_from_cache(self.name.repo, "config.json", revision=self.name.revision)
        except ValueError:
            found = None
        if not isinstance(found, str) or _refused(error):
            self._fail(error)
        try:
            made = folder.import_path(Path(found).parent)
        except UsageError:
            from gpuplan.models.import_config import import_config

            made = import_config(Path(found))
        said = f"the hub was not reached: `{self.name.repo}` is taken as it lies in the cache of huggingface_hub"
        return self._sourced(made.replaced(notes=(*made.notes, said)))

    def _fail(self, error: Exception) -> NoReturn:
        """Say what went wrong and what to do."""
        from huggingface_hub import constants

        repo, kind, code = self.name.repo, type(error).__name__, "model.hub"
        other = "or give its config.json, GGUF file or folder"
        from gpuplan.models.repositories import made_from

        near = made_from(repo, [*self.near])
        if kind == "GatedRepoError":
            what, hint = f"`{repo}` is gated", f"accept its terms on {constants.ENDPOINT}/{repo}, and `hf auth login`; {other}"
        elif kind == "RepositoryNotFoundError":
            what = f"{constants.ENDPOINT} has no model `{repo}`, or it is private"
            hint = f"{near or 'check the name, and `hf auth login` for private ones'}; {other}"
        elif kind in ("RevisionNotFoundError", "EntryNotFoundError", "RemoteEntryNotFoundError"):
            what, hint = f"`{repo}` has no revision `{self.name.revision}`", f"leave out `@{self.name.revision}`; {other}"
        elif kind == "HFValidationError":
            what, hint = f"`{repo}` is no id of a model", near or "ids are ORGANISATION/NAME"
        else:
            code, said = "model.hub-away", " ".join(str(error).split())[:120]
            what = f"no card has the name `{repo}`, and {constants.ENDPOINT} was not reached ({kind}: {said})"
            again = "with the network, HF_ENDPOINT and HF_HUB_OFFLINE as they should be, try again"
            alone = "its name says neither its size nor a line that is on record: give its size alone, such as `8b` or `30b-a3b`"
            hint = f"{near or f'{alone}; {again}'}; {other}"
        raise UnknownError(Problem(code, what, hint)) from None

    def _where(self, name: str = "") -> str:
        return f"{self.name.repo}@{(self.commit or 'main')[:12]}" + (f"/{name}" if name else "")

    def _download(self, name: str) -> Path:
        """A small file, from the cache or the hub."""
        from huggingface_hub import hf_hub_download

        try:
            return Path(hf_hub_download(self.name.repo, name, revision=self.name.revision))
        except _failures() as error:
            self._fail(error)

    def _local(self, name: str) -> Path | None:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(self.name.repo, name, revision=self.commit)
        return Path(found) if isinstance(found, str) else None

    def _window(self, name: str, most: int, piece: int) -> Window:
        return Window(_ranges(self.name.repo, name, self.commit, self._where(name)), self.sizes[name], most=most, piece=piece)

    def _head(self, name: str) -> SafetensorsFile:
        local = self._local(name)
        if local is not None:
            return read_safetensors(local)
        return safetensors_head(self._window(name, HEAD_BYTES + 8, PIECE["safetensors"]), self._where(name))

    def _heads(self, weights: Sequence[str]) -> Iterator[SafetensorsFile]:
        if folder.INDEX in self.sizes:
            text = folder.index_text(self._download(folder.INDEX))
            names, tensors = folder.index_of(text, self._where(folder.INDEX))
        else:
            names, tensors = folder.complete(weights, self._where()), set[str]()
        missing = [name for name in names if name not in self.sizes]
        if missing:
            what = f"`{missing[0]}` of the {len(names)} files that the index names is not there"
            raise UsageError(Problem("model.missing-shard", what, "name another revision", self._where(folder.INDEX)))
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE) as pool:
            heads = steps(pool.map(self._head, names), "files of weights read", len(names))
            yield from folder.as_indexed(heads, tensors, self._where(folder.INDEX))

    def _of_ggufs(self, ggufs: Sequence[str]) -> ModelCard:
        firsts = [one for one in ggufs if not is_mmproj(one) and (not (found := SPLIT.search(one)) or int(found[1]) == 1)]
        wanted = self.name.file_type
        chosen = firsts
        if wanted is not None:
            end = re.compile(rf"(^|[-_./]){re.escape(wanted)}([-_./]|$)", re.IGNORECASE)
            chosen = [one for one in firsts if end.search(one.removesuffix(".gguf") + ".")]
        if len(chosen) != 1:
            shown = folder.listed(chosen or firsts)
            what = (
                f"`{self.name.repo}` has {len(chosen)} GGUF models" + (f" of `{wanted}`" if wanted else "") + f": there are {shown}"
            )
            hint = f"name one, such as `hf.co/{self.name.repo}:Q4_K_M`"
            raise UsageError(Problem("model.several", what, hint, self._where()))
        found = SPLIT.search(chosen[0])
        stem = chosen[0][: found.start()] if found else chosen[0]
        names = [one for one in sorted(ggufs) if SPLIT.search(one) and one.startswith(stem)] if found else [stem]
        heads: list[GgufFile] = []
        for one in steps(names, "files of weights read"):
            local = self._local(one)
            if local is not None:
                from gpuplan.models.checkpoint.gguf import read_gguf

                heads.append(read_gguf(local))
            else:
                heads.append(gguf_head(self._window(one, GGUF_HEAD, PIECE["gguf"]), self._where(one)))
        return self._sourced(gguf_card(heads))

    def _sourced(self, made: ModelCard) -> ModelCard:
        """The card under the name of the repository, with its page as the source."""
        from huggingface_hub import constants

        from gpuplan.models.import_config import slug, today

        title = f"Hugging Face: {self._where()}"
        sources = {
            key: CardSource(title=title, url=f"{constants.ENDPOINT}/{self.name.repo}", checked=today()) for key in made.sources
        }
        name = self.name.repo.rpartition("/")[2] + (f"-{self.name.file_type}" if self.name.file_type else "")
        return made.replaced(id=slug(name), name=self.name.repo, sources=sources)


def _refused(error: Exception) -> bool:
    """Whether the hub answered, and the answer was no."""
    return type(error).__name__ in ("GatedRepoError", "RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError")


def _ranges(repo: str, name: str, revision: str | None, where: str) -> Callable[[int, int], bytes]:
    """What reads a range of bytes of a file of the hub."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    url, headers = hf_hub_url(repo, name, revision=revision), build_hf_headers()

    def fetch(at: int, count: int) -> bytes:
        session: Any = get_session()
        asked = {**headers, "Range": f"bytes={at}-{at + count - 1}", "Accept-Encoding": "identity"}
        try:
            if callable(getattr(session, "stream", None)):  # httpx from release 1 on, requests before it
                with session.stream("GET", url, headers=asked, follow_redirects=True, timeout=_SECONDS) as answer:
                    return _body(answer, answer.iter_bytes(), at, count)
            with session.get(url, headers=asked, stream=True, timeout=_SECONDS) as answer:
                return _body(answer, answer.iter_content(1 << 16), at, count)
        except GpuplanError:
            raise
        except _failures() as error:
            what = f"the file was not read ({type(error).__name__}: {' '.join(str(error).split())[:120]})"
            raise UnknownError(Problem("model.hub", what, "try again, or give its config.json", where)) from None

    def _body(answer: Any, parts: Iterable[bytes], at: int, count: int) -> bytes:
        hf_raise_for_status(answer)
        if answer.status_code != 206 and at:
            raise UnknownError(
                Problem("model.hub", "the server gives no parts of files", "download it, and give its folder", where)
            )
        read = bytearray()
        for part in parts:
            read += part
            if len(read) >= count:
                break
        return bytes(read[:count])

    return fetch
