"""A file of scenarios, as the module of a test has it in `PLANS`."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def plans(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "plans.yaml"
    path.write_text(request.module.PLANS, encoding="utf-8")
    return path
