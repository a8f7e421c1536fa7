"""What is one request of a serving question: its prompt and output, what it shows or lets be heard, and the room that it needs?"""

from __future__ import annotations

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.estimate.result import Choice
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.serve import Images
from gpuplan.record import Record
from gpuplan.search.audio import SPEECH, heard_in
from gpuplan.search.images import images_of
from gpuplan.search.library import Found

PROMPT, OUTPUT = 1024, 256
"""Taken where the user names no lengths: a medium chat request."""
SOUND_MS, SECOND_MS = 30_000, 1_000
"""Milliseconds taken where the user does not say how long a recording is: as long as what Whisper hears at a time."""
TEXT = 512
"""Taken where the user does not say how long the texts are that a model embeds, ranks or scores: a page, and all that many read."""


class Requested(Record, kw_only=True):
    """A request with nothing left open, and what was chosen and is to be said of it."""

    prompt: int
    output: int
    """0 of a model that only reads."""
    context: int
    """Tokens that it must have room for."""
    images: Images | None = None
    audio: float | None = None
    """Seconds of the recording that is written down."""
    beams: float = 1.0
    """Hypotheses that a search keeps of it."""
    chosen: tuple[Choice, ...] = ()
    notes: tuple[Note, ...] = ()


def requested(ask: ServeAsk, found: Found) -> Requested:
    """The request that a question is about.

    Raises:
        UsageError: something is asked that the model does not take or make, or for which its context has no room.
        UnknownError: how the model takes images is not on record.
    """
    arch = found.card.architecture
    shown, heard = images_of(ask, found.card, ask.output or 1 if arch.generates else 1), heard_in(ask, found.card)
    chosen = [*shown.chosen, *heard.chosen]
    if arch.generates:
        room = ask.context or arch.max_context
        prompt, output = lengths_of(ask, None if room is None else max(room - shown.tokens, 2), heard.usual)
        for name, given, value in (("prompt", ask.prompt, prompt), ("output", ask.output, output)):
            if given is None:
                chosen.append(Choice(name, str(value), SPEECH if heard.usual is not None else _why(value, prompt + output, room)))
    else:
        prompt, output = _read_alone(ask, found.card, chosen), 0
    context = ask.context or prompt + shown.tokens + output
    if ask.context is None and arch.source_tokens and arch.max_context:
        # Of one piece of audio nobody knows how much text it holds: all of the text context is kept free.
        context = max(context, arch.max_context)
    return Requested(
        prompt=prompt, output=output, context=context, images=shown.images, audio=heard.audio, beams=float(ask.beams or 1),
        chosen=tuple(chosen), notes=(*shown.notes, *heard.notes),
    )  # fmt: skip


def _why(tokens: int, whole: int, room: int | None) -> str:
    """Why a prompt or an output of so many tokens was taken, of `whole` that the context has `room` for."""
    if room is not None and whole > room:
        return "a medium chat request, beside a prompt that leaves the context no room"
    return "a medium chat request, within the context" if tokens in (PROMPT, OUTPUT) else "what the context has room for"


def lengths_of(ask: ServeAsk, limit: int | None, usual: tuple[int, int] | None = None) -> tuple[int, int]:
    """Prompt and output of a request: the user's, or usual ones that fit beside each other into a context of `limit` tokens.

    `usual` is what the model is asked where that is no chat. Beside a prompt that leaves no room the usual output stays as it is.
    """
    chat = usual or (PROMPT, OUTPUT)
    prompt, output = ask.prompt or chat[0], ask.output or chat[1]
    if limit is not None:
        if ask.output is None:
            most = limit - ask.prompt if ask.prompt else limit // 4 if usual is None else limit - chat[0]
            if most > 0 or not ask.prompt:  # A prompt that is as long as all of it is too long with any output.
                output = max(min(chat[1], most), 1)
        if ask.prompt is None:
            prompt = max(min(chat[0], limit - output), 1)
    return prompt, output


def _read_alone(ask: ServeAsk, card: ModelCard, chosen: list[Choice]) -> int:
    """Tokens of a sequence of a model that only reads.

    Raises:
        UsageError: tokens are asked of it.
    """
    idle = [f"--{name}" for name in ("output", "beams") if getattr(ask, name) is not None]
    if idle:
        what = f"{card.id} only reads: it makes no tokens one after the other"
        raise UsageError(Problem("serve.no-output", what, f"leave {' and '.join(idle)} out"))
    if ask.prompt is not None:
        return ask.prompt
    limit = ask.context or card.architecture.max_context or TEXT
    whole = card.pretraining is not None and card.architecture.positions == card.pretraining.seq_len
    frame = card.architecture.frame_ms
    if frame is None:
        length, why = (limit, "all of its positions") if whole else (min(TEXT, limit), "a page of text, within the context")
    else:
        length = min(-(-SOUND_MS // frame), limit)
        why = f"frames of {frame} ms: {length * frame / SECOND_MS:.3g} s of sound"
    chosen.append(Choice("prompt", str(length), why))
    return length
