"""Requests through workers that read prompts and workers that write answers, one by one: who waits for which of them?"""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.disaggregated import PREFIX, Side, prompts_of
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.serving import ServingModel
from gpuplan.load.service import Service
from gpuplan.load.simulate import Reading
from gpuplan.machine.hardware import Hardware
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.disaggregated import paired
from gpuplan.search.library import Library
from gpuplan.search.load import load_of
from gpuplan.search.simulated import check_pins, lengths_alone, requests_of, told, with_pace, with_trace


def answer_simulated_pair(ask: ServeAsk, library: Library) -> Estimate:
    """The answer for workers of two kinds whose requests are simulated; errors as `answer_disaggregated` and `answer_simulated`."""
    asked, trace = with_trace(ask)
    if load_of(asked) is None:
        what = "--simulate: no load comes"
        raise UsageError(Problem("load.nothing", what, "add --concurrency, --rate, --trace, or --arrival burst with --requests"))
    made = paired(_steady(asked), library)
    if not made.answer.verdict.fits:
        return made.answer
    models = {at: with_pace(side.model, made.answer, at) for at, side in (("", made.answers), (PREFIX, made.prompts))}
    check_pins(made.answer, models)
    drawn = requests_of(asked, trace, models[""], alone=lengths_alone(ask))
    services = {
        at: Service.of(model, longest=drawn.longest, longest_prompt=drawn.longest_prompt).replaced(replicas=_workers(side, model))
        for (at, model), side in zip(models.items(), (made.answers, made.prompts), strict=True)
    }
    fixed, each = transfer_of(made.prompts, made.links)
    reading = Reading(service=services[PREFIX], transfer=fixed, token_transfer=each)
    return told(ask, made.answer, drawn, services[""], trace, reading)


def transfer_of(prompts: Side, links: tuple[Hardware, ...]) -> tuple[float, float]:
    """Seconds of a transfer of caches whatever its size, and of each token of a prompt."""
    model = prompts.model
    few, many = float(model.plan.prompt), 2 * float(model.plan.prompt)
    seconds = []
    for tokens in (few, many):
        plan = model.plan.replaced(prompt=tokens, context=max(float(model.plan.context), tokens + 1))
        side = prompts.replaced(model=ServingModel.of(model.subject, plan))
        seconds.append(float(prompts_of(side, links).transfer.value))
    each = (seconds[1] - seconds[0]) / (many - few)
    return max(seconds[0] - each * few, 0.0), each


def _steady(ask: ServeAsk) -> ServeAsk:
    """The question whose steady state is the nearest to its load: of a burst, as many users as come at once."""
    simulated = dict.fromkeys(("simulate", "trace", "burstiness", "router", "seed", "cached_share", "cached_prefixes"))
    if ask.arrival == "burst":
        return ask.replaced(**simulated, arrival=None, concurrency=ask.requests)
    return ask.replaced(**simulated)


def _workers(side: Side, model: ServingModel) -> int:
    """Replicas of all workers of a kind."""
    ranks = float(model.plan.parallel.dp) / float(model.plan.parallel.attention_dp)
    return max(round(float(side.workers.value) * ranks), 1)
