"""What serves a load: a replica's rules, room and step times, as the plan and the profile of its engine have them?"""

from __future__ import annotations

from math import ceil, floor

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.drafting import undrafted
from gpuplan.estimate.images import encoded_seconds
from gpuplan.estimate.pins import with_values
from gpuplan.estimate.serving import ServingModel
from gpuplan.load.drafts import Drafts, drafting_pace
from gpuplan.load.pace import OneRank, Pace, Ranks
from gpuplan.load.rules import Rules
from gpuplan.load.step_lines import StepLines
from gpuplan.load.step_times import StepTimes, chunk_group, decoding_group
from gpuplan.record import Record
from gpuplan.term import Term, walk_of


class Service(Record, eq=False, kw_only=True):
    """Replicas of one kind as a simulation needs them."""

    pace: Pace
    rules: Rules
    """Of each of its ranks."""
    host: float = 0.0
    """Seconds of a request that no step takes."""
    token_host: float = 0.0
    """Seconds of a token of a prompt in the process that reads requests one after the other."""
    ranks: int = 1
    """Ranks of attention, each with requests of its own, that share experts."""
    waits: int = 0
    """Steps for which prompts wait until all ranks have one to read, or those of the only one fill a pass; 0: none waits."""
    hand_over: float = 0.0
    """Steps for which those wait whose prompts another worker reads, beside the one that runs when their caches come."""
    ahead: int = 0
    """Steps that are put together before the one that runs has ended, which those wait for that come meanwhile."""
    replicas: int = 1
    drafts: Drafts | None = None

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
        drafter = model.drafter()
        drafts = None if drafter is None else Drafts.of(drafter)
        growth = 1.0 if drafts is None else drafts.expected
        ranks = round(float(model.serve.sharing.attention_dp.value))
        encode = 0.0 if model.plan.images is None else _number(model, encoded_seconds(model))

        def lines_of(one: ServingModel) -> StepLines:
            times = StepTimes.of(one, most_tokens=of_pass + rows * rules.verified, most_rows=rows, longest=longest)
            return StepLines(times, stages=stages, pass_tokens=of_pass, growth=growth)

        lines = lines_of(model)
        pace: Pace = OneRank(lines, encode) if ranks == 1 else Ranks(lines, encode)
        if drafter is not None and drafts is not None:
            own = lines_of(drafter.model.replaced(subject=drafter.model.subject.replaced(pins=model.subject.pins)))
            alone = own.times.experts is None
            pace = drafting_pace(
                pace, OneRank(own) if alone else Ranks(own), drafter, drafts.number, rules.sequences, own.times.host
            )
        profile, habit = model.profile, model.subject.habit
        shared = profile.shares_experts
        waits = None if shared is None or ranks == 1 or not shared.aligned else shared.waits
        asked = model.plan.settings.batch_wait
        waited = round(asked) if asked is not None else 0 if waits is None else round(_number(model, habit("aligned_steps", waits)))
        host = _number(model, habit("request_host", profile.request_host))
        host += 0.0 if profile.server_host is None else _number(model, habit("server_host", profile.server_host))
        token_host = 0.0 if profile.token_host is None else _number(model, habit("token_host", profile.token_host))
        return cls(
            pace=pace, rules=rules, host=host, token_host=token_host, ranks=ranks, drafts=drafts,
            waits=waited, hand_over=_hand_over(model), ahead=0 if profile.schedule is None else profile.schedule.ahead,
            replicas=max(round(float(model.plan.parallel.dp) / ranks), 1),
        )  # fmt: skip


def _hand_over(model: ServingModel) -> float:
    """Steps that a request waits for beside the one that runs when its caches come, of which half is left in the mean."""
    steps = model.profile.hand_over_steps
    return 0.0 if steps is None else max(_number(model, model.subject.habit("hand_over_steps", steps)) - 0.5, 0.0)


def names_below(model: ServingModel) -> set[str]:
    """Names of the terms that the steps and the caches of a simulation are made of."""
    groups = (chunk_group(64.0, 512.0), decoding_group(8.0, 512.0))
    drafter, memory = model.drafter(), model.memory()
    roots = [undrafted(model).step("step", groups).seconds, memory.pool, memory.sequence, model.limit(), model.chunk()]
    if drafter is not None:
        roots += [drafter.expected, drafter.model.step("step", groups).seconds]
    if model.plan.images is not None:
        roots.append(encoded_seconds(model))
    profile, habit = model.profile, model.subject.habit
    hosts = {
        "request_host": profile.request_host,
        "server_host": profile.server_host,
        "token_host": profile.token_host,
        "hand_over_steps": profile.hand_over_steps,
    }
    roots += [habit(name, one) for name, one in hosts.items() if one is not None]
    return {term.name for term in walk_of(roots)}


def _number(model: ServingModel, term: Term) -> float:
    return float(with_values(term, model.subject.pins).value)


def _refuse(model: ServingModel) -> None:
    """Refuse plans whose steps are not those of one scheduler for each rank; errors as `Service.of`."""
    if model.plan.settings.overlap_batches:
        what = "two micro-batches that compute and travel by turns are not simulated"
        hint = "leave --simulate out: the steady state counts them; or leave --overlap-batches out"
        raise UsageError(Problem("load.overlap", what, hint))


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
    drafting = model.plan.drafting
    return Rules(
        tokens=round(_number(model, model.setting("max_batched_tokens"))) * stages, sequences=round(_number(model, model.limit())),
        mixes=schedule.steps == "mixed", cuts=cuts, reserves_output=schedule.admits == "reserved", pages=max(pages, 0),
        page_tokens=page, fixed_pages=fixed_pages, looks=max(round(model.plan.settings.recv_interval or 1), 1),
        verified=1 if drafting is None else 1 + round(float(drafting.draft_tokens)),
    )  # fmt: skip


def _room(model: ServingModel, tokens: int) -> tuple[float, float]:
    """Bytes of the pool of caches, and of what a sequence of so many tokens keeps."""
    context = model.subject.plan("context", float(tokens))
    memory = model.replaced(serve=model.serve.replaced(context=context), leaves=model.subject.leaves()).memory()
    return _number(model, memory.pool), _number(model, memory.sequence)
