"""Calibrations of the fake device, as tests ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuplan.calibrate.measure.session import CalibrationReport, CalibrationWish, Listener, calibrate, plan
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.on import parse_target
from gpuplan.specs.target import Target
from tests.calibrate.fake import Fake, Troubles

TODAY = "2026-11-21"
PLAIN = Catalog([shipped_folder()])
STREAMS = ("stream", "norm", "activation", "launch", "graph", "host_to_device", "device_to_host")
"""Kinds of probes whose fits take no time: for tests of what happens while something is measured."""


class Said(Listener):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def say(self, text: str) -> None:
        self.texts.append(text)


def here(on: str, catalog: Catalog) -> Target:
    """A target that is the machine which was calibrated."""
    return parse_target(on, catalog).replaced(local=True)


def run(
    folder: Path, said: Listener | None = None, *, fresh: bool = False, kinds: tuple[str, ...] = (), **troubles: Any
) -> CalibrationReport:
    """One quick calibration into a folder."""
    env = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    wish = CalibrationWish(extent="quick", today=TODAY, version="0", env=env, fresh=fresh, kinds=kinds)
    device = Fake(troubles=Troubles(**troubles))
    catalog = Catalog.open(env=env)
    listener = said or Said()
    return calibrate(device, plan(device, wish, catalog, listener), wish, catalog, listener)
