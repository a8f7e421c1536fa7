"""Where does a shell look for its scripts? Put ours there, with a line in the shell's own file where it needs one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from gpuplan.cli.complete.scripts import SHELLS, script
from gpuplan.errors import Problem, UsageError, did_you_mean

_NAMES = {"pwsh": "powershell"}
_OF_RC = 1_000_000
"""The largest file of a shell's settings that is touched."""


def shell_named(name: str | None) -> str:
    """The shell of a name, or the one that this runs in.

    Raises:
        UsageError: gpuplan has no script for it, or none can be made out.
    """
    if name is None:
        from shellingham import ShellDetectionFailure, detect_shell

        try:
            name = detect_shell()[0]
        except ShellDetectionFailure:
            hint = f"name it: {', '.join(SHELLS)}"
            raise UsageError(Problem("completion.which", "cannot tell which shell this is", hint)) from None
    wanted = _NAMES.get(name.lower(), name.lower())
    if wanted not in SHELLS:
        hint = did_you_mean(wanted, SHELLS) or f"one of {', '.join(SHELLS)}"
        raise UsageError(Problem("completion.shell", f"no completion for the shell `{name}`", hint))
    return wanted


def install(shell: str, env: Mapping[str, str] = os.environ) -> list[Path]:
    """Write the script of a shell, and the line that loads it where the shell does not look by itself; both once.

    Returns:
        The files that say something new; none where all was there.

    Raises:
        UsageError: a file cannot be read or written, or PowerShell does not say where its profile is.
    """
    from gpuplan.files.home import home
    from gpuplan.files.read import text_if_there
    from gpuplan.files.write import write

    at_home = home(env)
    data = Path(env.get("XDG_DATA_HOME") or at_home / ".local" / "share") / "gpuplan"
    made: list[Path] = []

    def put(path: Path, text: str) -> None:
        if text_if_there(path, most=_OF_RC) != text:
            write(path, text)
            made.append(path)

    if shell == "fish":
        put(Path(env.get("XDG_CONFIG_HOME") or at_home / ".config") / "fish" / "completions" / "gpuplan.fish", script(shell))
        return made
    file = data / f"completion.{'ps1' if shell == 'powershell' else shell}"
    if shell == "powershell":
        rc, line = _profile(), f". '{str(file).replace(chr(39), chr(39) * 2)}'"
    elif shell == "zsh":
        rc, line = Path(env.get("ZDOTDIR") or at_home) / ".zshrc", f"source {shlex.quote(str(file))}"
    else:
        rc, line = at_home / ".bashrc", f"source {shlex.quote(str(file))}"
    before = text_if_there(rc, most=_OF_RC) or ""
    put(file, script(shell))
    if line not in before.splitlines():
        put(rc, f"{before}{'' if before.endswith(chr(10)) or not before else chr(10)}{line}\n")
    return made


def _profile() -> Path:
    """The file that PowerShell reads at its start.

    Raises:
        UsageError: there is no PowerShell, or it does not say.
    """
    import shutil
    import subprocess

    program = next((found for name in ("pwsh", "powershell") if (found := shutil.which(name))), None)
    said = ""
    if program is not None:
        command = [program, "-NoProfile", "-NonInteractive", "-Command", "$PROFILE"]
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout.strip()
    if not said:
        hint = "add what `gpuplan completion powershell` prints to the file that $PROFILE names"
        raise UsageError(Problem("completion.profile", "PowerShell does not say where its profile is", hint))
    return Path(said)
