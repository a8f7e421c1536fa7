"""Keep pictures of what gpuplan prints: each command of docs/pictures/pictures.yaml, in colour on a terminal of 80 columns, as SVG.

`python tools/terminal_picture.py` draws those that are out of date anew (`--all`: all of them), `--check` exits with 1 when one is.
A picture remembers what was printed, so that it is current exactly while the command prints the same, whichever version of rich
drew it. Nothing in a picture is fetched: it names fonts of the reader's.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures"
LIST = FOLDER / "pictures.yaml"
COLUMNS, ROWS = 80, 40
MARK = re.compile(r"<!-- printed ([0-9a-f]{64}) -->")
FONT = re.compile(r"\s*@font-face \{\{.*?\n    \}\}", re.S)
AT_ONCE = 2
"""Commands that run beside each other."""


def main() -> int:
    """Draw or check; the exit code says whether all pictures were current."""
    wanted = wanted_pictures()
    if "--all" in sys.argv:
        draw(wanted)
        return 0
    stale = stale_pictures(wanted)
    if "--check" not in sys.argv:
        draw(stale)
        return 0
    for name in (*stale, *left_over(wanted)):
        print(f"docs/pictures/{name}.svg is out of date: run `python tools/terminal_picture.py`", file=sys.stderr)
    return int(bool(stale or left_over(wanted)))


def wanted_pictures() -> dict[str, str]:
    """The commands to be drawn, by the name of their picture: those of the list, and the help of every command."""
    helps = {f"help-{words.replace(' ', '-')}".rstrip("-"): " ".join(["gpuplan", *words.split(), "--help"]) for words in commands()}
    return {**listed()["outputs"], **helps}


def listed() -> dict[str, Any]:
    """The list: the day from which ages are counted, and the commands."""
    made: dict[str, Any] = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return made


def commands() -> list[str]:
    """The words of every command, those below others included; "" is gpuplan itself."""
    sys.path.insert(0, str(ROOT))
    from gpuplan.cli.commands import root

    found, todo = [], [("", root())]
    while todo:
        words, command = todo.pop(0)
        found.append(words)
        names = command.list_commands(None) if hasattr(command, "list_commands") else []
        todo += [(f"{words} {name}".strip(), command.get_command(None, name)) for name in names]
    return found


def stale_pictures(wanted: dict[str, str]) -> dict[str, str]:
    """Those whose commands print something else now, or that are not there."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        now = dict(zip(wanted, pool.map(lambda command: digest(recorded(command)), wanted.values()), strict=True))
    return {name: wanted[name] for name, one in now.items() if one != kept(name)}


def left_over(wanted: dict[str, str]) -> list[str]:
    """Pictures of commands that are no longer wanted."""
    return sorted(path.stem for path in FOLDER.glob("*.svg") if path.stem not in wanted)


def kept(name: str) -> str:
    """What a picture remembers of what was printed, or nothing."""
    file = FOLDER / f"{name}.svg"
    found = MARK.search(file.read_text(encoding="utf-8")) if file.exists() else None
    return found[1] if found else ""


def draw(wanted: dict[str, str]) -> None:
    """Draw pictures anew, and take away those that nobody wants."""
    for name, command in wanted.items():
        (FOLDER / f"{name}.svg").write_text(picture(name, command, recorded(command)), encoding="utf-8")
    for name in left_over(wanted_pictures()):
        (FOLDER / f"{name}.svg").unlink()


def digest(printed: str) -> str:
    """What stands for a text in a picture."""
    return hashlib.sha256(printed.encode()).hexdigest()


def recorded(command: str) -> str:
    """What a command writes to a terminal, with its colours, and without what it tells beside the answer.

    Raises:
        RuntimeError: the command failed otherwise than by a verdict, or what it prints depends on where this checkout lies.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES", "GPUPLAN_SPECS")}
    env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "GPUPLAN_TODAY": str(listed()["today"])}
    words = [sys.executable, "-m", "gpuplan.cli.main", *shlex.split(command)[1:]]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE, env=env, cwd=ROOT) as running:
        os.close(theirs)
        parts = []
        while part := _read(ours):
            parts.append(part)
        told = running.stderr.read() if running.stderr else b""
        code = running.wait()
    os.close(ours)
    if code not in (0, 3):
        raise RuntimeError(f"{command} ended with {code}: {told.decode(errors='replace')}")
    printed = b"".join(parts).decode().replace("\r\n", "\n")
    if str(ROOT) in printed:
        raise RuntimeError(f"{command} prints {ROOT}, which is another folder on another machine")
    return printed


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except OSError:  # what Linux says when the last writer has gone
        return b""


def picture(name: str, command: str, printed: str) -> str:
    """The SVG of a terminal after a command."""
    from io import StringIO

    from rich._export_format import CONSOLE_SVG_FORMAT
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.from_ansi(f"\x1b[1m$ {command}\x1b[0m\n{printed.rstrip()}\n"), soft_wrap=False)
    form = FONT.sub("", CONSOLE_SVG_FORMAT).replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace")
    made = console.export_svg(title="gpuplan", code_format=form, unique_id=f"p-{name}")
    return made.replace("<style>", f"<!-- printed {digest(printed)} -->\n    <style>", 1).rstrip() + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
