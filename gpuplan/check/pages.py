"""Is a source the page that its title names, with a title and an address by which anyone finds it?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta

from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile
from gpuplan.check.days import days
from gpuplan.models.card import CardSource
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import NEEDS_URL, SourceEntry
from gpuplan.strict_yaml import Path_

_ADDRESS = re.compile(r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?(?:/\S*)?")
_PUBLISHERS = (
    (re.compile(r"^Hugging Face: "), ("huggingface.co",)),
    (re.compile(r"^TechPowerUp\b"), ("techpowerup.com",)),
    (re.compile(r"^Google Cloud (?:TPU )?documentation"), ("cloud.google.com",)),
)
"""How titles begin that name who published them, and the hosts of those."""
_PAPER = re.compile(r"\barXiv[: ](\d{4}\.\d{4,5})")
_FILE = re.compile(r"(?<![\w*/])(?:[\w.-]+/)+[\w-]+\.(?:py|md|json|ya?ml|txtpb|rst|csv|rs|html)\b")
_PLAIN = re.compile(r"(?<![\w*/])[\w-]+\.py\b")
_HUB = re.compile(r"^Hugging Face: (\S+/\S+)$")


def pages(one: LoadedFile | LoadedCard, listed: Mapping[str, SourceEntry] | Mapping[str, CardSource]) -> Iterator[Finding]:
    """What is wrong with the pages that a file of any kind names."""
    for name, entry in listed.items():
        yield from _page(one, ("sources", name), name, entry)
    if isinstance(one, LoadedFile):
        yield from _before(one)


def _before(one: LoadedFile) -> Iterator[Finding]:
    """A page that was looked at long before there was anything to say."""
    if not isinstance(one.spec, Accelerator):
        return
    released = days(one.spec.released)[0]
    for name, entry in one.spec.sources.items():
        if days(entry.checked)[1] + timedelta(days=366) < released:
            message = f"the source `{name}` was looked at on {entry.checked}, and {one.spec.id} came in {one.spec.released}"
            yield one.bad("spec.source-before", ("sources", name, "checked"), message, "correct one of the two days")


def _page(one: LoadedFile | LoadedCard, at: Path_, name: str, entry: SourceEntry | CardSource) -> Iterator[Finding]:
    """A page that nobody can find, or that is another one than its title says."""
    if not re.search(r"[A-Za-z]{2}", entry.title):
        yield one.bad("spec.source-title", (*at, "title"), f"the source `{name}` has no title", "write what the page calls itself")
    elif entry.title.strip().lower().startswith(("http:", "https:", "www.")):
        message = f"the source `{name}` has an address for a title"
        yield one.bad("spec.source-title", (*at, "title"), message, "write what the page calls itself")
    url = entry.url
    if not url:
        if entry.kind in NEEDS_URL and isinstance(one, LoadedCard):
            hint = "give one, or set `kind: assumed`"
            yield one.bad("spec.source-without-url", at, f"the source `{entry.title}` has no `url`", hint)
        return
    if not _ADDRESS.fullmatch(url):
        yield one.bad("spec.bad-url", (*at, "url"), f"`{url}` is not a web address", "write it as `https://…`, without spaces")
        return
    host, _, path = url.split("//", 1)[1].partition("/")
    for words, hosts in _PUBLISHERS:
        if words.search(entry.title) and not host.endswith(hosts):
            message = f"`{url}` is no page of {host_of(hosts)}, as the title `{entry.title}` says"
            yield one.bad("spec.source-host", (*at, "url"), message, "is it the address of another source?")
            return
    for form in (_PAPER, _HUB):
        said = form.search(entry.title)
        if said is not None and said[1].lower() not in f"{host}/{path}".lower():
            message = f"`{url}` is not the page of `{said[1]}`, which the title names"
            yield one.bad("spec.source-host", (*at, "url"), message, "is it the address of another source?")
            return
    files = _FILE.findall(entry.title)
    if (
        files
        and "/tree/" not in url
        and "/commit" not in url
        and not any(file in url for file in (*files, *_PLAIN.findall(entry.title)))
    ):
        message = f"`{url}` is not `{files[0]}`, which the title names"
        yield one.bad("spec.source-host", (*at, "url"), message, "is it the address of another source?")
    if entry.kind == "paper" and host.endswith(("github.com", "huggingface.co")):
        yield one.bad("spec.source-kind", (*at, "kind"), f"`kind: paper` for {host}", "write `docs` or `measured`")
    if entry.kind == "model-card" and host.endswith("arxiv.org"):
        yield one.bad("spec.source-kind", (*at, "kind"), f"`kind: model-card` for {host}", "write `kind: paper`")


def host_of(hosts: tuple[str, ...]) -> str:
    """The hosts in words."""
    return " or ".join(hosts)
