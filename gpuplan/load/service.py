"""What serves a load: a replica's rules, room and step times, as the plan and the profile of its engine have them?"""

from __future__ import annotations

from math import ceil, floor

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.serving import ServingModel
from gpuplan.load.replica import Rules
from gpuplan.load.step_lines import StepLines
from gpuplan.load.step_times import StepTimes
from gpuplan.record import Record


class Service(Record, eq=False, kw_only=True):
    """A replica as a simulation needs it."""

    times: StepTimes
    lines: StepLines
    rules: Rules
    host: float
    """Seconds of a request that no step takes."""
    token_host: float
    """Seconds of a token of a prompt in the process that reads requests one after the other."""

    @classmethod
    def of(cls, model: ServingModel, *, longest: int, longest_prompt: int) -> Service:
        """The replica of a plan, for sequences of at most `longest` tokens with prompts of at most `longest_prompt`.

        Raises:
            UnknownError: the hardware lacks a parameter that the work needs.
            UsageError: the engine serves no stream of requests, or no table of its steps can be made.
        """
        _refuse(model)
        rules = rules_of(model, longest=longest)
        stages = max(round(float(model.serve.pp.value)), 1)
        of_pass = rules.tokens // stages if rules.cuts else max(rules.tokens // stages, longest_prompt)
        rows = ceil(rules.sequences / stages)
        times = StepTimes.of(model, most_tokens=of_pass + rows, most_rows=rows, longest=longest)
        profile, habit = model.profile, model.subject.habit
        host = float(habit("request_host", profile.request_host).value)
        host += 0.0 if profile.server_host is None else float(habit("server_host", profile.server_host).value)
        token_host = 0.0 if profile.token_host is None else float(habit("token_host", profile.token_host).value)
        lines = StepLines(times, stages=stages, pass_tokens=of_pass)
        return cls(times=times, lines=lines, rules=rules, host=host, token_host=token_host)


def _refuse(model: ServingModel) -> None:
    """Refuse plans whose steps are not those of one scheduler and one token a sequence; errors as `Service.of`."""
    if model.plan.drafting is not None:
        what = "a simulation counts one token of each sequence in a step: what drafts are accepted is not simulated"
        raise UsageError(Problem("load.drafts", what, "leave --simulate out: the steady state counts drafts; or leave --draft out"))
    if model.plan.settings.batch_wait is not None:
        what = "a wait until prompts fill a pass is not simulated"
        hint = "leave --simulate out: the steady state counts it; or leave --batch-wait out"
        raise UsageError(Problem("load.batch-wait", what, hint))
    if model.plan.parallel.attention_dp != 1:
        what = "ranks of attention that wait for each other are not simulated"
        hint = "leave --simulate out: the steady state counts them; or leave --attention-dp out"
        raise UsageError(Problem("load.attention-dp", what, hint))


def rules_of(model: ServingModel, *, longest: int) -> Rules:
    """How a replica schedules, and the pages of its caches for sequences of up to `longest` tokens.

    Raises:
        UsageError: the engine serves no stream of requests, or there is no room for any.
    """
    schedule = model.profile.schedule
    if schedule is None:
        what = f"how `{model.subject.engine.id}` schedules a stream of requests is not on record: it serves batches"
        raise UsageError(Problem("load.no-schedule", what, "name an engine that does, such as `vllm`, or leave the load out"))
    cuts = schedule.cuts if model.plan.settings.chunked_prefill is None else model.plan.settings.chunked_prefill
    stages = max(round(float(model.serve.pp.value)), 1)
    page = max(round(float(model.serve.page.value)), 1)
    # What a sequence keeps grows evenly between half of the longest and all of it: beyond windows, and with states beside it.
    low = max(ceil(longest / 2 / page), 1) * page
    pool, small = _room(model, low)
    _, large = _room(model, 2 * low)
    each = (large - small) / low
    fixed = max(small - each * low, 0.0)
    if each <= 0:
        pages, fixed_pages, page = (floor(pool / small) if small else 1 << 60), 1, 0
    else:
        pages, fixed_pages = floor(pool / (each * page)), ceil(fixed / (each * page) - 1e-6)
    tokens = model.plan.settings.cache_tokens
    if tokens is not None and page:
        pages = min(pages, floor(tokens / page))
    return Rules(
        tokens=round(float(model.setting("max_batched_tokens").value)) * stages, sequences=round(float(model.limit().value)),
        mixes=schedule.steps == "mixed", cuts=cuts, reserves_output=schedule.admits == "reserved", pages=max(pages, 0),
        page_tokens=page, fixed_pages=fixed_pages, looks=max(round(model.plan.settings.recv_interval or 1), 1),
    )  # fmt: skip


def _room(model: ServingModel, tokens: int) -> tuple[float, float]:
    """Bytes of the pool of caches, and of what a sequence of so many tokens keeps."""
    context = model.subject.plan("context", float(tokens))
    memory = model.replaced(serve=model.serve.replaced(context=context), leaves=model.subject.leaves()).memory()
    return float(memory.pool.value), float(memory.sequence.value)
