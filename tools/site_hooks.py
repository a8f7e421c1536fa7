"""What the site does beyond its settings: links to files of the repository become names, and every page is in the menu."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)\s#]+)(?:#[^)\s]*)?\)")
"""A link out of docs/, which the site has no page for."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page without links out of docs/: where the words are not the file's name, it stands behind them."""
    return OUTSIDE.sub(lambda found: found[1] if found[2] in found[1] else f"{found[1]} (`{found[2]}`)", markdown)


def on_config(config: Any) -> Any:
    """The settings with every page of docs/ in the menu: those that `nav` does not name stand at its end."""
    named = set(listed(config.nav))
    rest = sorted(path.name for path in Path(config.docs_dir).glob("*.md") if path.name not in named)
    if rest:
        config.nav = [*config.nav, {"More": rest}]
    return config


def listed(menu: list[Any]) -> Iterator[str]:
    """The files that a menu names."""
    for one in menu:
        if isinstance(one, str):
            yield one
        else:
            for part in one.values():
                yield from listed([part] if isinstance(part, str) else part)
