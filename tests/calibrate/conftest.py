"""What all tests of calibrations share."""

from __future__ import annotations

from functools import partial

import pytest

from gpuplan.calibrate.measure import session
from gpuplan.calibrate.measure.runner import Rules


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries do not wait seconds for a device that cools in no time."""
    monkeypatch.setattr(session, "Rules", partial(Rules, cool=0.02))
