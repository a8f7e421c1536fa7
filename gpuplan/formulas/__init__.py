"""Pure functions of numbers, each with units, a source and a worked example."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any


@cache
def every_formula() -> Mapping[str, Any]:
    """All formulas by name: every module below is imported, where a question imports only those that it uses."""
    from importlib import import_module
    from pkgutil import walk_packages

    from gpuplan.term import FORMULAS

    for module in walk_packages(__path__, f"{__name__}."):
        import_module(module.name)
    return FORMULAS
