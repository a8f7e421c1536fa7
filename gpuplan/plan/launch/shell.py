"""Which words does a pasted shell text hold, command by command, with the variables that it sets put in their places?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuplan.errors import Problem, UsageError
from gpuplan.record import Record
from gpuplan.units import brief

MOST = 100_000
"""Characters of a text that is read as commands: no start script is longer."""
_ASSIGNMENT = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.S)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)(?::?[-=]([^}]*))?\}|([A-Za-z_][A-Za-z0-9_]*))")
_END = frozenset(";&|\n()")
_PROMPT = re.compile(r"^\s*[$#>]\s+(?=\S)")


class Simple(Record):
    """One command: its words, and the variables that hold for it."""

    words: tuple[str, ...]
    environment: dict[str, str]


def commands(text: str) -> list[Simple]:
    r"""Every command of a shell text, quotes taken away and known variables put in; unknown ones stay as they are written.

    >>> [one.words for one in commands("export TP=4\nvllm serve m \\\n  -tp $TP  # four\n")]
    [('vllm', 'serve', 'm', '-tp', '4')]
    >>> commands("A=1 run --x '{\"a b\": 1}' > log 2>&1 &")[0]
    Simple(words=('run', '--x', '{"a b": 1}'), environment={'A': '1'})

    Raises:
        UsageError: a quote that is never closed, or more text than any start script has.
    """
    if len(text) > MOST:
        raise UsageError(Problem("command.long", f"the command has {len(text):,} characters; {MOST:,} are read at most"))
    known: dict[str, str] = {}
    made: list[Simple] = []
    for raw in _split(_unprompted(text)):
        words = [_expanded(word, quoted, known) for word, quoted in raw]
        own: dict[str, str] = {}
        while words and (found := _ASSIGNMENT.match(words[0])):
            own[found[1]] = found[2]
            del words[0]
        if words and words[0] in ("export", "declare", "set"):
            own |= {found[1]: found[2] for word in words[1:] if (found := _ASSIGNMENT.match(word))}
            words = []
        if words:
            made.append(Simple(tuple(words), {**known, **own}))
        else:
            known |= own
    return made


def _unprompted(text: str) -> str:
    """The text without the prompts that pages print before commands, and with lines joined that a backslash continues."""
    joined = re.sub(r"\\[ \t]*\r?\n", " ", text.replace("\r\n", "\n"))
    lines = joined.split("\n")
    return "\n".join(_PROMPT.sub("", line) if line.lstrip().startswith(("$ ", "> ")) else line for line in lines)


@dataclass
class _Words:
    """The words of one command as they are read."""

    made: list[tuple[str, bool]] = field(default_factory=list)
    """Each word, and whether part of it was in single quotes, inside which no variable counts."""
    parts: list[str] = field(default_factory=list)
    begun: bool = False
    single: bool = False
    skip: bool = False
    """What comes next says where something is written to, or read from."""

    def add(self, text: str, *, single: bool = False) -> None:
        """Go on with a word."""
        self.parts.append(text)
        self.begun, self.single = True, self.single or single

    def end(self) -> None:
        """End a word, if one was begun."""
        if self.begun and not self.skip:
            self.made.append(("".join(self.parts), self.single))
        self.skip = self.skip and not self.begun
        self.parts, self.begun, self.single = [], False, False

    def redirect(self) -> None:
        """What follows is no word; a number before it (`2>`) is none either."""
        if "".join(self.parts) in ("0", "1", "2", "&"):
            self.parts, self.begun = [], False
        self.end()
        self.skip = True

    def taken(self) -> list[tuple[str, bool]]:
        """The words of the command, which ends here."""
        self.end()
        self.skip = False
        made, self.made = self.made, []
        return made


def _split(text: str) -> Iterator[list[tuple[str, bool]]]:
    """The words of each command; errors as `commands`."""
    words, at = _Words(), 0
    while at < len(text):
        char, after = text[at], text[at + 1 : at + 2]
        end = at + 1
        if char in "'\"":
            end = _closing(text, at) + 1
            inside = text[at + 1 : end - 1]
            words.add(inside if char == "'" else re.sub(r'\\(["\\$`\n])', r"\1", inside), single=char == "'")
        elif char == "$" and after in ("(", "{"):
            end = _bracket(text, at + 1) + 1
            words.add(text[at:end])
        elif char == "\\" and after:
            end = at + 2
            words.add(after)
        elif char == "#" and not words.begun:
            end = (text + "\n").index("\n", at)
        elif char in "<>":
            words.redirect()
            while text[end : end + 1] in ("<", ">", "&"):
                end += 1
        elif char in _END:
            if made := words.taken():
                yield made
        elif char.isspace():
            words.end()
        else:
            words.add(char)
        at = end
    if made := words.taken():
        yield made


def _closing(text: str, at: int) -> int:
    """Where the quote that opens at a place closes.

    Raises:
        UsageError: nowhere.
    """
    quote, end = text[at], at + 1
    while end < len(text) and text[end] != quote:
        end += 2 if quote == '"' and text[end] == "\\" else 1
    if end >= len(text):
        hint = "put the whole command into single quotes, or into a file that is named as `--command @FILE`"
        raise UsageError(Problem("command.quote", f"the command has a {quote} that is never closed: `{brief(text[at:])}`", hint))
    return end


def _bracket(text: str, at: int) -> int:
    """Where the bracket that opens at a place closes; at the end of the text where it does not."""
    opening, closing = text[at], {"(": ")", "{": "}"}[text[at]]
    depth = 0
    for place in range(at, len(text)):
        depth += {opening: 1, closing: -1}.get(text[place], 0)
        if depth == 0:
            return place
    return len(text) - 1


def _expanded(word: str, quoted: bool, known: dict[str, str]) -> str:
    """A word with the variables that are known in their places; a default stands in for one that is not."""
    if quoted:
        return word

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[3]
        return known.get(name, found[2] if found[2] is not None else found[0])

    return _VARIABLE.sub(value, word)


def unset(text: str) -> str:
    """The first variable or inner command that a word still has in it; "" where it has none.

    >>> unset("$TP"), unset("${TP}x"), unset("8"), unset("$(nproc)")
    ('$TP', '${TP}', '', '$(…)')
    """
    found = _VARIABLE.search(text)
    return found[0] if found else "$(…)" if "$(" in text or "`" in text else ""
