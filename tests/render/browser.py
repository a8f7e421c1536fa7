"""A headless Chromium, where there is one; continuous integration says that there is."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

REQUIRED = "GPUPLAN_TEST_BROWSER"
"""Set to 1, a missing browser is an error and no reason to skip."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Window:
    """A page of a browser, as wide and as bright as a test wants it."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def show(self, file: Path, width: int, *, dark: bool = False) -> None:
        """Open a file; below 500 pixels as a phone does."""
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        self.driver.get(file.as_uri())

    def ask(self, script: str) -> Any:
        """What a script on the page returns; the page's own rules forbid it scripts, the driver's stand outside them."""
        return self.driver.execute_script(f"return {script}")

    def printed(self) -> bytes:
        """The page as PDF on A4."""
        paper = {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69}
        return base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", paper)["data"])

    def said(self) -> list[str]:
        """What the browser has complained of since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def opened() -> Iterator[Window]:
    """A window of a headless browser."""
    selenium = pytest.importorskip if os.environ.get(REQUIRED) != "1" else __import__
    selenium("selenium")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if browser is None or driver is None:
        why = "no chromium with its chromedriver: apt-get install chromium chromium-driver"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(why)
        pytest.skip(why)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # Offline for good: a proxy that nothing listens on.
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--proxy-server=127.0.0.1:9"):
        options.add_argument(word)
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield Window(made)
    finally:
        made.quit()
