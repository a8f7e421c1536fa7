"""What the site does to a page of docs/ before it is drawn: links to files of the repository become the names of those files."""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]*)\]\(\.\./([^)\s#]+)(?:#[^)\s]*)?\)")
"""A link out of docs/, which the site has no page for."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page without links out of docs/: where the words are not the file's name, it stands behind them."""
    return OUTSIDE.sub(lambda found: found[1] if found[2] in found[1] else f"{found[1]} (`{found[2]}`)", markdown)
