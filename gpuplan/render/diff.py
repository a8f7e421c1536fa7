"""What changed between two spec folders, and what it does to estimates: for a terminal, a pull request, and programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuplan.browse.diff import Diff, ValueChange
from gpuplan.estimate.result import Estimate
from gpuplan.record import Record
from gpuplan.render.markdown import grid
from gpuplan.render.text import Look, columns, label, shown, wrap

_TITLES = {
    "value": "Figures", "words": "Other fields", "source": "Sources", "note": "Notes and ranges", "spelling": "Written otherwise",
}  # fmt: skip
_MOST = 40
"""How many changes of a category are listed; `--json` has them all."""


class ReferenceAnswer(Record, eq=False):
    """One reference question, asked on both sides: an estimate, or why there is none."""

    question: str
    old: Estimate | str
    new: Estimate | str
    places: tuple[str, str] = ("", "")
    """Of a plan what it names on either side: the machine, or how much it carries; all that is said where there is no estimate."""

    def figures(self) -> list[tuple[str, str, float, float]]:
        """The figures that moved: key, unit, old and new."""
        if isinstance(self.old, str) or isinstance(self.new, str):
            return []
        made = []
        for key, term in self.new.figures.items():
            if key in self.old.figures:
                a, b = float(self.old.figures[key].value), float(term.value)
                if abs(a - b) > 1e-6 * max(abs(a), abs(b)):
                    made.append((key, term.unit, a, b))
        return made

    def turned(self) -> str:
        """What changed about whether there is an answer or whether it fits; nothing where both sides say the same."""
        old, new = self.said()
        return f"{old} → {new}" if old != new else ""

    def said(self) -> tuple[str, str]:
        """The verdict of either side, and what a plan names."""
        return _verdict(self.old, self.places[0]), _verdict(self.new, self.places[1])


def _verdict(one: Estimate | str, place: str) -> str:
    if isinstance(one, str):
        return f"no answer ({one})" if one else place
    return f"{one.verdict.words} {place}" if place else one.verdict.words


def percent(ratio: float | None) -> str:
    """A ratio as a change, such as `+12.5 %`; nothing where there is none.

    >>> percent(1.125), percent(0.5), percent(None)
    ('+12.5 %', '-50.0 %', '')
    >>> percent(1.00001), percent(40.0)
    ('+0.001 %', 'x 40')
    """
    if ratio is None:
        return ""
    if ratio >= 10 or 0 <= ratio < 0.1:
        return f"x {ratio:.3g}"
    change = (ratio - 1) * 100
    return f"{change:+.1f} %" if abs(change) >= 0.05 else f"{change:+.1g} %"


def diff_text(names: tuple[str, str], diff: Diff, answers: Sequence[ReferenceAnswer], left_out: int, look: Look) -> str:
    """The whole comparison for a terminal."""
    blocks = ["\n".join([look.bold(f"{names[0]} → {names[1]}"), *wrap(_counts(diff), look.width, "  ")])]
    if not diff:
        return blocks[0] + "\n"
    for title, files in (("Added", diff.added), ("Removed", diff.removed)):
        if files:
            blocks.append(
                "\n".join([look.bold(title), *(line for text in _by_kind(files) for line in wrap(text, look.width, "  ", "    "))])
            )
    if diff.unreadable:
        lines = [line for one in diff.unreadable for line in wrap(f"{one.where}: {one.message}", look.width, "  ", "    ")]
        blocks.append("\n".join([look.bad("Cannot be read"), *lines]))
    for category, title in _TITLES.items():
        changes = [one for one in diff.changes if one.category == category]
        if changes:
            blocks.append("\n".join([look.bold(title), *_lines(changes[:_MOST], look), *_rest(changes)]))
    if answers:
        blocks.append("\n".join([look.bold("What it does to estimates"), *_answers(answers, look), *_more(left_out)]))
    return "\n\n".join(blocks) + "\n"  # fmt: skip


def _rest(changes: Sequence[ValueChange]) -> list[str]:
    return [f"  and {len(changes) - _MOST} more (`--json` has them all)"] if len(changes) > _MOST else []


def _more(left_out: int) -> list[str]:
    return [f"  {left_out} more that changed were not asked about; name some with --on"] if left_out else []


def _lines(changes: Sequence[ValueChange], look: Look) -> Iterator[str]:
    last = ""
    for change in changes:
        file = f"{change.kind}/{change.file}"
        if file != last:
            yield f"  {file}"
        last = file
        old, new, moved = _ends(change)
        line = f"    {change.path}  {old} → {new}{f'  {moved}' if moved else ''}"
        yield from [line] if len(line) <= look.width else wrap(line.strip(), look.width, "    ", "      ")


def _ends(change: ValueChange) -> tuple[str, str, str]:
    old = "nothing" if change.old is None else change.old
    new = "nothing" if change.new is None else change.new
    return _short(old), _short(new), percent(change.ratio) if change.category == "value" else ""


def _short(text: str, most: int = 120) -> str:
    """A long remark by its beginning; figures are never as long."""
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _answers(answers: Sequence[ReferenceAnswer], look: Look) -> Iterator[str]:
    for answer in answers:
        moved, turned = answer.figures(), answer.turned()
        if not moved and not turned:
            why = f": {answer.said()[1]}" if isinstance(answer.new, str) else ""
            yield from wrap(f"{answer.question}  unchanged{why}", look.width, "  ", "    ")
            continue
        yield from wrap(answer.question, look.width, "  ", "    ")
        if turned:
            yield from wrap(turned, look.width, "    ", "      ")
        rows = [
            [label(key), shown(key, a, unit), "→", shown(key, b, unit), percent(b / a if a else None)] for key, unit, a, b in moved
        ]
        yield from columns(rows, "lrcrr".replace("c", "l"), indent="    ")  # fmt: skip


def _counts(diff: Diff) -> str:
    if not diff:
        return f"nothing changed in {_files(diff.same)}"
    parts = [f"{_files(len(files))} {word}" for files, word in ((diff.added, "added"), (diff.removed, "removed")) if files]
    changed = {(one.kind, one.file) for one in diff.changes}
    parts += [f"{_files(len(changed))} changed"] if changed else []
    for category, title in _TITLES.items():
        count = sum(one.category == category for one in diff.changes)
        parts += [f"{title.lower()} {count}"] if count else []
    return ", ".join(parts)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _by_kind(files: Sequence[tuple[str, str]]) -> Iterator[str]:
    kinds: dict[str, list[str]] = {}
    for kind, name in files:
        kinds.setdefault(kind, []).append(name.rpartition("/")[2] if kind != "instances" else name)
    for kind, names in kinds.items():
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        yield f"{kind}: {', '.join(names[:_MOST])}{more}"


def diff_markdown(names: tuple[str, str], diff: Diff, answers: Sequence[ReferenceAnswer], left_out: int) -> str:
    """The whole comparison for a pull request: figures first, the rest folded."""
    blocks = [f"### Specs: {names[0]} → {names[1]}", _counts(diff).capitalize() + "."]
    for title, files in (("Added", diff.added), ("Removed", diff.removed)):
        if files:
            blocks.append(f"**{title}**\n\n" + "\n".join(f"- {text}" for text in _by_kind(files)))
    if diff.unreadable:
        blocks.append("**Cannot be read**\n\n" + "\n".join(f"- `{one.where}`: {one.message}" for one in diff.unreadable))
    for category, title in _TITLES.items():
        changes = [one for one in diff.changes if one.category == category]
        if changes:
            rows = [[f"{one.kind}/{one.file}", f"`{one.path}`", *_ends(one)] for one in changes[:_MOST]]
            table = grid(["file", "what", "old", "new", "change"], rows, "llrrr") + "".join(
                f"\n\n{line.strip()}" for line in _rest(changes)
            )
            folded = f"<details><summary>{title} ({len(changes)})</summary>\n\n{table}\n\n</details>"
            blocks.append(f"**{title}**\n\n{table}" if category == "value" else folded)
    if answers:
        rows = [row for answer in answers for row in _answer_rows(answer)]
        table = grid(["question", "figure", "old", "new", "change"], rows, "llrrr")
        blocks.append(f"**What it does to estimates**\n\n{table}" + "".join(f"\n\n{line.strip()}" for line in _more(left_out)))
    return "\n\n".join(blocks) + "\n"  # fmt: skip


def _answer_rows(answer: ReferenceAnswer) -> Iterator[list[str]]:
    name = f"`{answer.question}`"
    if answer.turned():
        yield [name, "answer", *answer.said(), ""]
    moved = answer.figures()
    for key, unit, a, b in moved:
        yield [name, label(key), shown(key, a, unit), shown(key, b, unit), percent(b / a if a else None)]
    if not moved and not answer.turned():
        yield [name, "", "", "unchanged", ""]


def diff_record(names: tuple[str, str], diff: Diff, answers: Sequence[ReferenceAnswer], left_out: int) -> Mapping[str, object]:
    """The same as plain data; `old_value` and `new_value` are in base units."""
    changes = [
        {
            "category": one.category, "kind": one.kind, "file": one.file, "path": one.path, "old": one.old, "new": one.new,
            "unit": one.unit or None, "old_value": one.old_value, "new_value": one.new_value, "ratio": one.ratio,
        }
        for one in diff.changes
    ]  # fmt: skip
    estimates = []
    for one in answers:
        moved = [
            {"name": key, "unit": unit, "old": a, "new": b, "ratio": b / a if a else None} for key, unit, a, b in one.figures()
        ]
        estimates.append({"question": one.question, "old": one.said()[0], "new": one.said()[1], "figures": moved})
    return {
        "base": names[0], "head": names[1], "changed": bool(diff), "same_files": diff.same,
        "added": [{"kind": kind, "file": file} for kind, file in diff.added],
        "removed": [{"kind": kind, "file": file} for kind, file in diff.removed],
        "unreadable": [{"where": one.where, "message": one.message} for one in diff.unreadable],
        "changes": changes, "estimates": estimates, "not_asked": left_out,
    }  # fmt: skip
