"""How fast is speech turned into text, and at what cost? An encoder hears pieces, and a decoder writes what was said in each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.formulas import inference as form
from gpuplan.formulas import speech
from gpuplan.formulas.basic import product, smaller
from gpuplan.formulas.cost import usd_per_s_of_all
from gpuplan.term import DEFINITION, USER, Term
from gpuplan.units import HOUR

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

AN_HOUR = Term("audio.hour", HOUR, "s", DEFINITION)


def speech_figures(model: ServingModel, time: Term) -> dict[str, Term]:
    """What there is to say of a recording, where `time` is what a batch of pieces takes; nothing of other models."""
    subject, heard = model.subject, model.subject.arch.audio
    if heard is None or model.plan.audio is None:
        return {}
    audio = Term("plan.audio", float(model.plan.audio), "s", subject.origins.get("audio", USER))
    pieces = speech.audio_pieces.term(
        "audio.pieces", audio=audio, piece=Term("model.audio_piece", float(heard.seconds), "s", subject.card)
    )
    each = speech.piece_seconds.term("audio.of_piece", audio=audio, pieces=pieces)
    all_of_them = product.term("audio.sequences", a=model.serve.batch, b=subject.plan("dp", model.plan.parallel.dp))
    rate = speech.audio_rate.term("audio_seconds_per_s", sequences=all_of_them, each=each, seconds=time)
    found = {"audio_seconds_per_s": rate, "transcript_s": _transcript(model, pieces)}
    if subject.price is not None:
        fleet = usd_per_s_of_all.term("audio.price", units=subject.accelerators(), price=subject.price)
        found["cost_usd_per_audio_hour"] = speech.usd_per_audio_hour.term("cost.audio_hour", price=fleet, hour=AN_HOUR, rate=rate)
    return found


def _transcript(model: ServingModel, pieces: Term) -> Term:
    """Time until one recording is text on an idle replica, its pieces side by side as far as the batch goes."""
    at_once = smaller.term("transcript.at_once", a=pieces, b=model.serve.batch)
    some = model.replaced(serve=model.serve.replaced(batch=at_once))
    seconds = form.generation_seconds.term(
        "transcript.seconds", prefill=some.prefill("transcript.prefill", at_once).seconds,
        output=model.subject.plan("output", model.plan.output), step=some.decode("transcript.decode").seconds,
    )  # fmt: skip
    request = model.subject.habit("request_host", model.profile.request_host)
    return speech.transcript_seconds.term("transcript", pieces=pieces, at_once=at_once, seconds=seconds, request=request)
