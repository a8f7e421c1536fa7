"""Where is the user's home, and which path is meant by one with `~` in front?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def home(env: Mapping[str, str]) -> Path:
    """The home of the user; where nobody knows one, as of a container's number without a name, a place that holds nothing.

    >>> home({"HOME": "/me"}).as_posix()
    '/me'
    """
    given = env.get("HOME")
    if given:
        return Path(given)
    try:
        return Path.home()
    except RuntimeError:  # What pathlib says where the user has no entry.
        return Path(os.devnull)


def from_home(name: str | Path) -> Path:
    """The path with a `~` in front put in full; as it is where nobody is called so, or nobody knows where the home is.

    >>> from_home("a/~b").as_posix(), from_home("~nobody-is-called-so/x").as_posix()
    ('a/~b', '~nobody-is-called-so/x')
    """
    path = Path(name)
    try:
        return path.expanduser()
    except RuntimeError:
        return path
