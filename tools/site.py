"""Build the site of docs/ into a folder, and see that it is whole: no dead link, and nothing that a reader's browser would fetch.

`python tools/site.py DIR`; needs the extra `docs`. Exits with 1 and what is wrong.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parent.parent
FETCHED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src", "object": "data"}
"""What a browser loads by itself: the element, and the attribute that says from where."""


class Page(HTMLParser):
    """What a page points to, loads, and can be pointed at."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        said = {key: value or "" for key, value in attrs}
        self.ids |= {said[key] for key in ("id", "name") if key in said}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        if tag in FETCHED and said.get(FETCHED[tag]) and said.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(said[FETCHED[tag]])


def main() -> int:
    """Build and check; the exit code says whether the site is whole."""
    if len(sys.argv) != 2:
        print("usage: python tools/site.py DIR", file=sys.stderr)
        return 2
    folder = Path(sys.argv[1]).absolute()
    # A proxy that nothing listens on: a build that reached for the network would fail.
    closed = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(words, cwd=ROOT, env={**os.environ, **closed, "NO_MKDOCS_2_WARNING": "1"}, check=False)
    faults = [*faults_of(folder)] if built.returncode == 0 else ["mkdocs build failed"]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(f"{len(list(folder.rglob('*.html')))} pages are in {folder}; no dead link, nothing fetched from elsewhere")
    return int(bool(faults))


def faults_of(folder: Path) -> Iterator[str]:
    """Links that lead nowhere, and what is fetched from elsewhere."""
    pages = {path: Page() for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        page.feed(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        if path.name == "404.html":  # Its links are from the root of a server.
            continue
        name = path.relative_to(folder)
        yield from (f"{name}: fetches {load}" for load in page.loads if _is_elsewhere(load))
        for link in (*page.links, *(load for load in page.loads if not _is_elsewhere(load))):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name}: no file {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].ids:
                yield f"{name}: no heading {link}"
    for path in sorted(folder.rglob("*.css")):
        if "url(http" in (text := path.read_text(encoding="utf-8")) or "@import" in text:
            yield f"{path.relative_to(folder)}: fetches from elsewhere"


def _is_elsewhere(link: str) -> bool:
    return link.startswith(("http:", "https:", "//"))


if __name__ == "__main__":
    raise SystemExit(main())
