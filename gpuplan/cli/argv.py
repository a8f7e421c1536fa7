"""What did the user mean by the words on the command line, before any option is parsed?

Three manners that an option parser does not offer: `--explain` with or without a term, `--json` with or without `=full`, and
output and data options in front of the command (`gpuplan --json fit …`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gpuplan.cli.output import EVERYTHING, FIGURES

TASKS = ("fit", "train", "serve")
"""The commands that ask one question."""
_MOVABLE = {
    **dict.fromkeys(("--json", "--csv", "--md", "--full", "--brief", "--plain"), 0),
    **dict.fromkeys(("--html", "--plot", "--specs", "--set"), 1),
}


def normal(words: Sequence[str], commands: Collection[str]) -> list[str]:
    """The same words with movable options behind the command, and a value for every `--explain`.

    >>> normal(["--json", "fit", "m", "--explain", "--on", "h100"], ["fit"])
    ['fit', '--json=figures', 'm', '--explain=*', '--on', 'h100']
    >>> normal(["fit", "--explain", "m", "--on", "h100"], ["fit"])
    ['fit', '--explain=*', 'm', '--on', 'h100']
    >>> normal(["fit", "m", "--explain", "mfu"], ["fit"])
    ['fit', 'm', '--explain', 'mfu']
    """
    return _explained(_formed(_moved(list(words), commands)))


def _moved(words: list[str], commands: Collection[str]) -> list[str]:
    front: list[str] = []
    at = 0
    while at < len(words) and (name := words[at].split("=")[0]) in _MOVABLE:
        take = 1 + (_MOVABLE[name] if "=" not in words[at] else 0)
        front += words[at : at + take]
        at += take
    rest = words[at:]
    if not front or not rest or rest[0] not in commands:
        return words
    # What these take is another command line, which the options belong to.
    return [*rest, *front] if rest[0] in ("explain", "compare", "plan") else [rest[0], *front, *rest[1:]]


def _formed(words: list[str]) -> list[str]:
    """The words with a value for every `--json` of an answer; other commands have none."""
    inner = words[1:3] if words[:1] in (["explain"], ["compare"]) else words[:1]
    if not set(inner) & set(TASKS):
        return words
    end = words.index("--") if "--" in words else len(words)
    return [f"--json={FIGURES}" if word == "--json" and at < end else word for at, word in enumerate(words)]


def _explained(words: list[str]) -> list[str]:
    """The words with `--explain` told apart from the word after it, which may be its term, an option, or the MODEL."""
    made: list[str] = []
    for at, word in enumerate(words):
        if word == "--":
            return made + words[at:]
        after = words[at + 1] if at + 1 < len(words) else "-"
        alone = after.startswith("-") or (word == "--explain" and words[0] in TASKS and not _model(words, at))
        made.append(f"--explain={EVERYTHING}" if word == "--explain" and alone else word)
    return made


def _model(words: list[str], explain: int) -> bool:
    """Whether the words name a MODEL without the one after `--explain`."""
    from gpuplan.cli.output import switches
    from gpuplan.plan.ask import TrainAsk
    from gpuplan.plan.ask_serving import FitAsk, ServeAsk

    alone = {*switches((FitAsk, TrainAsk, ServeAsk)), "--help", "-h"}
    at = 1
    while at < len(words):
        if at == explain:
            at += 2
        elif not words[at].startswith("-"):
            return True
        else:
            at += 1 if "=" in words[at] or words[at] in alone else 2
    return False
