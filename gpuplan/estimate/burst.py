"""How much does a run do in a second whose requests all come at once, from the first to the last of them?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.load_room import places
from gpuplan.estimate.prompts_beside import passes_of
from gpuplan.estimate.sent_back import sent_back
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.formulas import bursts as form
from gpuplan.formulas.basic import larger, share, smaller
from gpuplan.formulas.queueing import tokens_of_requests
from gpuplan.plan.load import Load
from gpuplan.term import DEFINITION, Term
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel


def of_burst(model: ServingModel, memory: ServingMemory, load: Load) -> dict[str, Term]:
    """Requests and tokens a second of a burst, by JSON key: requests of one length run in waves, of which the last may be small.

    Those of unlike lengths end one by one, and the longest of them alone.
    In the steady state that a long run comes near, a place is taken again as soon as it is free; a benchmark of some thousand
    requests on replicas with a thousand places is far from it.
    """
    subject = model.subject
    output, prompt = subject.plan("output", model.plan.output), model.prompt()
    asked = subject.plan("requests", 1.0 if load.requests is None else load.requests)
    requests = larger.term(
        "burst.requests", a=share.term("burst.share", amount=asked, ways=subject.plan("dp", model.plan.parallel.dp)), b=ONE
    )
    at_once = smaller.term("burst.at_once", a=requests, b=places(model, memory))
    last = form.last_wave.term("burst.last", requests=requests, places=at_once)
    whole, rest = _of(model, at_once), _of(model, larger.term("burst.last_rows", a=last, b=ONE))
    prefill, step = whole.prefill("burst_whole_prefill", at_once).seconds, whole.decode("burst_decode").seconds
    back = sent_back(model, memory, load, requests, requests)
    if back is not None:
        prefill = back.prefill("burst.prefill_with_again", prefill)
    beside = Term("burst.none_beside", 0.0, "s", DEFINITION)
    if model.profile.steps == "mixed":
        beside = form.steps_beside_prompts.term(
            "burst.beside", passes=passes_of(model, "burst.wave_passes", at_once), output=output,
            one=_of(model, ONE).decode("burst_one").seconds,
        )  # fmt: skip
    seconds = form.waves_seconds.term(
        "burst.seconds" if not load.output_spread else "burst.waves", requests=requests, places=at_once, last=last, output=output,
        prefill=prefill, step=step, last_step=rest.decode("burst_last").seconds, beside=beside,
    )  # fmt: skip
    if load.output_spread:
        spread = subject.plan("output_spread", load.output_spread)
        unlike = _unlike(model, requests, at_once, spread, prefill, step)
        seconds = form.burst_of_lengths.term("burst.seconds", spread=spread, alike=seconds, unlike=unlike)
    rate = form.run_rate.term("burst.requests_per_s", requests=asked, seconds=seconds)
    return {
        "requests_per_s": rate,
        "tokens_per_s": tokens_of_requests.term("tokens_per_s", rate=rate, tokens=output),
        "prompt_tokens_per_s": tokens_of_requests.term("prompt_tokens_per_s", rate=rate, tokens=prompt),
    }


def _unlike(model: ServingModel, requests: Term, at_once: Term, spread: Term, prefill: Term, step: Term) -> Term:
    """The time of a burst whose answers are of unlike lengths."""
    output = model.subject.plan("output", model.plan.output)
    left = form.left_of_answers.term("burst.left", mean=output, spread=spread, requests=requests, places=at_once)
    longest = form.longest_left.term("burst.longest", mean=output, spread=spread, left=left, requests=requests, places=at_once)
    return form.unlike_seconds.term(
        "burst.unlike", requests=requests, places=at_once, prefill=prefill, output=output, left=left, longest=longest, step=step,
        one=_of(model, ONE).decode("burst_alone").seconds,
    )  # fmt: skip


def _of(model: ServingModel, batch: Term) -> ServingModel:
    return model.replaced(serve=model.serve.replaced(batch=batch))
