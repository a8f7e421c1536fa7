"""How is a tree drawn on a terminal: with branches, names that stand out, formulas that step back?"""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from gpuplan.render.text import Look

_NARROW = ("  ", "│ ", "├╴", "└╴")


class _Narrow(Tree):
    """A tree whose branches take two columns a level: workings are deep."""

    def __init__(self, label: Text) -> None:
        super().__init__(label, guide_style="dim")
        self.TREE_GUIDES = [_NARROW, _NARROW, _NARROW]


def drawn(entries: Sequence[tuple[int, str]], look: Look, tie: str) -> str:
    """Texts by their level as one tree; `tie` holds words together while lines are wrapped, and is a space.

    Raises:
        IndexError: the first is not of level 0, or one is deeper than the one before it by more than a level.
    """
    root = _Narrow(_text(entries[0][1], 0, tie))
    stack: list[Tree] = [root]
    for level, text in entries[1:]:
        del stack[level:]
        stack.append(stack[level - 1].add(_text(text, level, tie)))
    out = StringIO()
    console = Console(
        file=out, width=look.width, force_terminal=look.colour, color_system="standard" if look.colour else None,
        no_color=not look.colour, highlight=False, markup=False, legacy_windows=False,
    )  # fmt: skip
    console.print(root)
    return "\n".join(line.rstrip().replace(tie, " ") for line in out.getvalue().splitlines())


def _text(text: str, level: int, tie: str) -> Text:
    """A formula steps back; a name before two spaces stands out."""
    made = Text(text, overflow="fold")
    name, found, _ = text.partition("  ")
    if text.startswith("= "):
        made.stylize("dim")
    elif found and tie not in name:
        made.stylize("bold", 0, len(name))
    return made
