"""What does an answer look like on one screen: verdict, six figures, what binds, what was chosen, what would help?

`table` has the rest of it, line for line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gpuplan.errors import Note
from gpuplan.estimate.result import Breakdown, Estimate
from gpuplan.render.room import MOST_LINES
from gpuplan.render.table import flags_text, verdict_text
from gpuplan.render.text import ASSUMED, Look, amount, columns, known, label, noted, shown, span, wrap
from gpuplan.render.words import MEANINGS, goes_unsaid, heading, in_words, is_one, of_what, part_name
from gpuplan.term import Term
from gpuplan.units import so_many

_MARGIN = 9
_SIX = 6
_PARTS, _BREAKDOWNS = 3, 3
_NOTES, _BRIEFLY = 3, 4
_LEAST = 0.005
"""Smaller shares are not told."""
_SLOTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "train": (
        ("step_time_s",), ("tokens_per_s", "samples_per_s"), ("mfu", "rollout_share", "generators_idle_share"),
        ("wall_time_s", "tokens_per_s_per_accelerator", "samples_per_s_per_accelerator"),
        ("cost_usd", "generated_tokens_per_s", "hfu"), ("break_even_s", "trainers_idle_share", "headroom_bytes"),
        ("energy_joules",),
    ),
    "serve": (
        ("transcript_s", "latency_s", "ttft_p99_s", "ttft_s"),
        ("step_time_s", "tpot_p99_s", "tpot_s", "full_tpot_s", "batch_time_s"),
        ("e2e_p99_s", "e2e_s", "tpot_alone_s", "itl_s", "highest_rate_per_s"),
        ("images_per_hour", "clips_per_hour", "images_per_s", "audio_seconds_per_s", "sequences_per_s", "tokens_per_s"),
        ("cost_usd_per_audio_hour", "cost_usd_per_thousand_images", "cost_usd_per_thousand_clips",
         "cost_usd_per_million_output_tokens", "cost_usd_per_million_tokens"),
        ("available_tokens_per_s", "accelerators", "break_even_tokens_per_month", "highest_rate_per_s", "max_sequences",
         "headroom_bytes"),
        ("tokens_per_s_per_user",), ("mfu",), ("mbu",), ("headroom_bytes",),
    ),
    "fit": (
        ("headroom_bytes",), ("weights_bytes",), ("kv_cache_bytes_per_sequence",), ("kv_cache_tokens",), ("max_sequences",),
        ("price_usd_per_s", "longest_tokens"),
    ),
}  # fmt: skip
"""Of which figures the first that an answer has is shown, by task, until there are six."""
_NO_MORE = frozenset({
    "peak_memory_bytes", "memory_budget_bytes", "memory_capacity_bytes", "reserved_memory_bytes", "allocated_memory_bytes",
    "images_per_s", "clips_per_s", "max_concurrency", "kv_pool_bytes", "samples_per_step", "tokens_per_step",
})  # fmt: skip
"""Figures that the verdict names, or that are others said again."""
_OF_SENSES = ("images_per_s", "audio_seconds_per_s")
_OF_WORDS = frozenset(
    {
        "tokens_per_s",
        "sequences_per_s",
        "cost_usd_per_million_tokens",
        "cost_usd_per_million_output_tokens",
        "sequences_per_s_per_accelerator",
    }
)
"""Figures of words, of which a model that sees or hears has none to tell."""
_OF_ROOM = frozenset({"kv_cache_tokens", "max_sequences", "longest_tokens", "max_concurrency"})
"""Figures of the room that is left, of which there is none where it does not fit."""
_FIRST = (
    "command",
    "option",
    "engine.no-effect",
    "load.over",
    "load.refused",
    "target.changed",
    "plan",
    "api",
    "own",
    "input",
    "memory.wired",
)
"""Codes of notes, or what they begin with, that are shown before all others: what was asked and does not count, first of all."""
_QUIET = frozenset({
    "target.taken-as", "spec.taken-as", "engine.default", "engine.benchmarked", "serve.unloaded", "search.fixed", "price.used",
    "load.steady", "load.percentiles", "target.slice", "target.fabric", "target.assumed-system", "serve.eager",
    "diffusion.eager", "run.interruptions", "mfu.convention", "price.street",
})  # fmt: skip
"""Codes of notes that a screen says in other words, or leaves to `--full`."""


def screen(estimate: Estimate, look: Look) -> str:
    """The answer in at most `MOST_LINES` lines of 80 columns; narrower, lines are wrapped."""
    figures = main_figures(estimate)
    for breakdowns in range(_BREAKDOWNS, 0, -1):
        blocks = [
            _head(estimate, look),
            figure_lines(estimate, figures, look),
            [*_binds(estimate, look, breakdowns), *_chosen(estimate, look), *_changes(estimate, look)],
        ]
        room = MOST_LINES - sum(len(block) + 1 for block in blocks if block)
        if room > 0:
            break
    blocks.append(_foot(estimate, figures, look, room))
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def brief(estimate: Estimate) -> str:
    """The answer in one line: the verdict and its first figures."""
    word, said = verdict_text(estimate)
    facts: list[str] = []
    for key, term in main_figures(estimate).items():
        if key not in ("headroom_bytes", "weights_bytes") and len(facts) < _BRIEFLY:
            facts.append(f"{heading(key)} {shown(key, float(term.value), term.unit)}{'' if known(term) else ASSUMED.strip()}")
    return f"{word}  {said}; {', '.join(facts)}\n" if facts else f"{word}  {said}\n"


def main_figures(estimate: Estimate, beside: Sequence[Estimate] = ()) -> dict[str, Term]:
    """The six figures that matter most of an answer, or as many as there are.

    Of those that stand for each other the one is taken that most of the answers `beside` it have too: a mean where only one of
    them can tell percentiles.
    """
    wanted = [_of_slot(slot, estimate, beside) for slot in _SLOTS[estimate.task]]
    no_more = _NO_MORE if estimate.verdict.fits else _NO_MORE | _OF_ROOM
    wanted = [key for key in wanted if estimate.verdict.fits or key not in _OF_ROOM]
    no_more |= _OF_WORDS if any(key in estimate.figures for key in _OF_SENSES) else frozenset()
    rest = [key for key in estimate.figures if key not in wanted and key not in no_more]
    found: dict[str, Term] = {}
    told: set[tuple[object, ...]] = set()
    for key in (*wanted, *rest):
        if key is None or key in found or len(found) == _SIX:
            continue
        term = estimate.figures[key]
        same = (float(term.value), term.unit, *estimate.ranges[key])
        if same not in told or not same[0]:  # on one accelerator, "per accelerator" is the same once more
            found[key] = term
            told.add(same)
    return found


def _of_slot(slot: Sequence[str], estimate: Estimate, beside: Sequence[Estimate]) -> str | None:
    """The first figure of a slot that an answer has, or one of the same unit that more of the others have."""
    there = [key for key in slot if key in estimate.figures]
    alike = [key for key in there if estimate.figures[key].unit == estimate.figures[there[0]].unit]
    return max(alike, key=lambda key: sum(key in one.figures for one in beside), default=None)


def figure_lines(estimate: Estimate, figures: Mapping[str, Term], look: Look) -> list[str]:
    """Figures with their ranges and what they mean, where that fits beside them."""
    rows = []
    for key, term in figures.items():
        number, unit = amount(key, float(term.value), term.unit)
        low, high = estimate.ranges[key]
        ends = span(key, (low, high), term.unit, float(term.value)) if low != high else ("", "")
        star = "" if known(term) else ASSUMED.strip()
        tail = f"{unit}{' ' if unit and star else ''}{star}"
        rows.append([heading(key), number, tail, ends[0], "–" if ends[1] else "", ends[1]])
    lines = columns([["", "expected", "", "low", "–", "high"], *rows], "lrlrll", gap=" ")
    if max(map(len, lines)) > look.width:
        facts = [" ".join(part for part in (f"{row[0]}:", *row[1:]) if part) for row in rows]
        return [line for text in facts for line in wrap(text, look.width, "  ", "    ")]
    left = max(map(len, lines)) + 1
    for at, key in enumerate(figures, 1):
        said = meaning(estimate, key)
        if said and left + len(said) <= look.width:
            lines[at] = f"{lines[at]:<{left}}{look.dim(said)}"
    return [look.dim(lines[0]), *lines[1:]]


def meaning(estimate: Estimate, key: str) -> str:
    """What a figure is; the first token's of a machine without other requests where no load was asked for.

    The sequences that fit are those of one replica, or of one of its ranks of attention, where there are several.
    """
    if key == "ttft_s" and any(note.code == "serve.unloaded" for note in estimate.notes):
        return "first token, idle"
    if key == "max_sequences":  # Of one of them, of which the whole load fills all.
        for degree, said in (("attention_dp", "each rank"), ("dp", "each replica")):
            if estimate.question.get(degree, "1") != "1":
                return said
    if key == "longest_tokens" and estimate.task == "fit":
        return "all the model allows" if estimate.figures[key].source.kind == "model-card" else "that fit"
    return MEANINGS.get(key, "")


def _head(estimate: Estimate, look: Look) -> list[str]:
    """The verdict, and the question without what was chosen and without degrees of 1."""
    word, answer = verdict_text(estimate)
    lines = wrap(answer, look.width, f"{word}  ", "  ")
    lines[0] = (look.good if estimate.verdict.fits else look.bad)(word) + lines[0][len(word) :]
    return lines + [look.dim(line) for line in wrap(question_text(estimate), look.width, "  ")]


def question_text(estimate: Estimate) -> str:
    """What was asked, in a line of words: no degree of 1, and nothing that was chosen."""
    asked = dict(estimate.question)
    chosen = {choice.name for choice in estimate.chosen}
    one = {key for key, value in asked.items() if is_one(key, value)}
    if asked.get("tp") == "1":
        one.add("sequence_parallel")
    place, count = asked.pop("on", ""), asked.pop("accelerators", "")
    begin = f"{asked.pop('model', '')}{f' on {_place(place, count)}' if place else ''}"
    if any(note.code == "engine.default" for note in estimate.notes):
        asked["engine"] = f"{asked['engine']} (taken)"
    said = [begin, *(_asked(key, value) for key, value in asked.items() if key not in chosen | one)]
    return ", ".join(text for text in said if text)


def _place(place: str, count: str) -> str:
    """The machine and its accelerators, which may be the same."""
    name = count.partition(" x ")[2]
    own = place.partition("x")[2] if place[:1].isdigit() else place
    if name and name.startswith(own):
        return count.removeprefix("1 x ")
    return f"{place} ({count})" if count else place


def _asked(key: str, value: str) -> str:
    if value in ("true", "yes"):
        return label(key)
    return f"no {label(key)}" if value == "false" else f"{label(key)} {value}"


def _binds(estimate: Estimate, look: Look, most: int) -> list[str]:
    """The largest parts of the time and of the memory, which comes first where it does not suffice."""
    shares = list(estimate.breakdowns)
    kept = [*shares[: most - 1], shares[-1]] if len(shares) > most else shares
    kept = kept if estimate.verdict.fits else kept[::-1]
    return _block("Binds", [f"{of_what(one.title)}: {_largest(one)}" for one in kept], look)


def _largest(one: Breakdown) -> str:
    whole = float(one.total.value)
    parts = sorted(one.parts, key=lambda part: -float(part.value))[:_PARTS]
    shares = {part_name(part.name): float(part.value) / whole for part in parts} if whole else {}
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share >= _LEAST)


def _chosen(estimate: Estimate, look: Look) -> list[str]:
    """What was chosen with its reason, a line for each reason."""
    reasons: dict[str, list[str]] = {}
    for choice in estimate.chosen:
        if not goes_unsaid(choice.name, choice.value, habit=choice.habit):
            reasons.setdefault(choice.reason, []).append(_asked(choice.name, choice.value))
    room = look.width - _MARGIN
    return _block("Chosen", [first_clause(f"{', '.join(names)}: {in_words(why)}", room) for why, names in reasons.items()], look)


def first_clause(text: str, room: int) -> str:
    """A text up to the last of its clauses that ends within the room, and not within a bracket; the whole where none does.

    >>> first_clause("it needs more (weights +3 %; cache +1 %); of all", 40), first_clause("a; b, c", 5), first_clause("long", 2)
    ('it needs more', 'a', 'long')
    """
    if len(text) <= room:
        return text
    for sign in ("; ", " (", ", "):
        cut = text.rfind(sign, 0, room + 1)
        if cut > text.find(": "):
            kept = text[:cut]
            return kept[: kept.rfind(" (")] if kept.count("(") > kept.count(")") else kept
    return text


def _changes(estimate: Estimate, look: Look) -> list[str]:
    """The three smallest changes that help, or that make it fit or keep up."""
    pairs = [(flags_text(change), change.effect) for change in estimate.changes[:3]]
    size = max((len(flags) for flags, _ in pairs), default=0)
    title = {"help": "Helps", "keep up": "Keeps up", "make it fit": "To fit"}[estimate.verdict.changes]
    return _block(title, [f"{flags:<{size}}  {effect}" for flags, effect in pairs], look)


def _block(title: str, texts: Iterable[str], look: Look) -> list[str]:
    """Lines behind a heading in the margin."""
    lines = [line for text in texts for line in wrap(text, look.width, " " * _MARGIN, " " * (_MARGIN + 2))]
    if lines:
        lines[0] = look.bold(title) + lines[0][len(title) :]
    return lines


def _foot(estimate: Estimate, figures: Mapping[str, Term], look: Look, room: int) -> list[str]:
    """The notes that matter, as many as there is room for, and where the rest is."""
    paid = any("usd" in key for key in figures)
    prices = [note.brief for note in estimate.notes if note.brief and paid]
    texts = [*prices, *(in_words(noted(note)) for note in _wanted(estimate.notes))]
    most = room - 1  # the last line says where the rest is
    told: list[list[str]] = []
    for text in texts:
        if len(told) < _NOTES:
            lines = wrap(first_clause(text, 2 * (look.width - _MARGIN) - 4), look.width, " " * _MARGIN, " " * (_MARGIN + 2))
            if len(lines) + sum(map(len, told)) <= most:
                told.append(lines)
    made = [line for lines in told for line in lines]
    if made:
        made[0] = look.bold("Notes") + made[0][len("Notes") :]
    return [*made, *_rest(estimate, figures, look)]


def _rest(estimate: Estimate, figures: Mapping[str, Term], look: Look) -> list[str]:
    """Where the rest of the answer is, and what the stars mean."""
    told = [] if all(known(term) for term in figures.values()) else ["* partly assumed"]
    told += [f"--full: all {so_many(len(estimate.figures), 'figure')}", "--explain FIGURE: its working"]
    return [look.dim(line) for line in wrap("; ".join(told), look.width)]


def _wanted(notes: Sequence[Note]) -> list[Note]:
    """The notes that a screen shows: what was asked and does not count first, what a card says of its model last."""
    loud = [note for note in notes if note.code not in _QUIET]
    return sorted(loud, key=lambda note: 0 if note.code.startswith(_FIRST) else 2 if note.code == "model.note" else 1)
