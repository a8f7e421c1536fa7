"""Keep pictures of reports: the first screen of each page of docs/pictures/pictures.yaml, as a headless Chromium shows it.

`python tools/report_picture.py` draws those that are out of date anew (`--all`: all of them), `--check` exits with 1 when one is.
Checking needs no browser: docs/pictures/reports.yaml remembers what each page said above its working.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from terminal_picture import AT_ONCE, FOLDER, ROOT, digest, listed

KEPT = FOLDER / "reports.yaml"
WIDE, HIGH = 900, 1160
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WORKING = '<section class="block of-working">'
"""Where a page goes on below what a picture shows."""


def main() -> int:
    """Draw or check; the exit code says whether all pictures were current."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = listed()["reports"]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            drawn = threads.map(lambda name: _page(wanted[name], Path(folder) / f"{name}.html"), wanted)
            pages = dict(zip(wanted, drawn, strict=True))
        now = {name: digest(page.read_text(encoding="utf-8").partition(WORKING)[0]) for name, page in pages.items()}
        before = yaml.safe_load(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
        stale = [name for name in now if "--all" in sys.argv or before.get(name) != now[name] or not _png(name).exists()]
        if "--check" in sys.argv:
            for name in stale:
                print(f"docs/pictures/{name}.png is out of date: run `python tools/report_picture.py`", file=sys.stderr)
            return int(bool(stale))
        for name in stale:
            _draw(pages[name], _png(name))
    told = "# What each report said above its working when its picture was drawn (tools/report_picture.py).\n"
    KEPT.write_text(told + yaml.safe_dump(now), encoding="utf-8")
    return 0


def _png(name: str) -> Path:
    return FOLDER / f"{name}.png"


def _page(command: str, file: Path) -> Path:
    """The report of a command, which says itself by which command it was made: the folder is none of the reader's."""
    words = [sys.executable, "-m", "gpuplan.cli.main", *shlex.split(command)[1:], "--html", file.name]
    env = {**os.environ, "GPUPLAN_TODAY": str(listed()["today"]), "PYTHONPATH": str(ROOT)}
    subprocess.run(words, cwd=file.parent, env=env, check=True, capture_output=True)
    return file


def _draw(page: Path, picture: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit("no chromium to draw reports with: apt-get install chromium")
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1")
    window = (f"--window-size={WIDE},{HIGH}", f"--screenshot={picture}", page.as_uri())
    subprocess.run([browser, *flags, *window], check=True, capture_output=True)


if __name__ == "__main__":
    raise SystemExit(main())
