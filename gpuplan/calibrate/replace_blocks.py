"""How are some blocks of a measured file replaced, and everything else left as it stands?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def rewritten(text: str, blocks: Mapping[str, Sequence[str]]) -> str:
    r"""The text with the block of each dotted place replaced by lines (without its indent), or added where there was none.

    >>> print(rewritten("a: 1\nmatmul:\n  bf16:\n    x: 1\n  fp8:\n    x: 2\n", {"matmul.bf16": ["x: 3"]}), end="")
    a: 1
    matmul:
      bf16:
        x: 3
      fp8:
        x: 2
    >>> print(rewritten("a: 1\n", {"engines.vllm.matmul": ["x: 3"]}), end="")
    a: 1
    engines:
      vllm:
        matmul:
          x: 3
    """
    lines = text.splitlines()
    for place, made in blocks.items():
        begin, end = 0, len(lines)
        path = place.split(".")
        for depth, key in enumerate(path):
            found = _find(lines, begin, end, depth, key)
            if found is None:
                missing = [f"{'  ' * (depth + number)}{name}:" for number, name in enumerate(path[depth:])]
                lines[end:end] = [*missing, *(f"{'  ' * len(path)}{line}" for line in made)]
                break
            begin, end = found[0] + 1, found[1]
        else:
            lines[begin:end] = [f"{'  ' * len(path)}{line}" for line in made]
    return "\n".join(lines) + "\n"


def _find(lines: Sequence[str], begin: int, end: int, depth: int, key: str) -> tuple[int, int] | None:
    """The line of a key at a depth, and where its block ends."""
    pad = "  " * depth
    for at in range(begin, end):
        if lines[at].startswith(f"{pad}{key}:"):
            last = at + 1
            while last < end and (not lines[last].strip() or lines[last].startswith(f"{pad}  ")):
                last += 1
            return at, last
    return None
