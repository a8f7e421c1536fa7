"""The tables of facts beside the checkout, for comparing samples; tests skip where they are absent."""

from pathlib import Path
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data"
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def table(name: str) -> Any:
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"no {name} beside the checkout")
    return yaml.load(path.read_text(encoding="utf-8"), Loader)
