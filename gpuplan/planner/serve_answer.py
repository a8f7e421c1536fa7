"""What is the answer to a load with a promise: the best fleets asked about in full, what binds, and what would have to give?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, isfinite
from typing import cast

from gpuplan.errors import GpuplanError, InfeasibleError, Note, Problem, UnknownError, UsageError
from gpuplan.estimate.planned import Candidate, Flip, Limit, Looked, Offering, Planned, Relax
from gpuplan.estimate.result import Estimate
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_goal import PlanServeAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.words import WeightFormat
from gpuplan.planner.command import command_of
from gpuplan.planner.crew import Crew
from gpuplan.planner.promise import NAMES, Promise
from gpuplan.planner.refusals import refusals
from gpuplan.planner.serve import Served, ServeSearch, Wanted
from gpuplan.planner.serve_ask import unit_ask
from gpuplan.planner.serve_fleet import autoscaled, fleet_figures, fleet_words, price_each
from gpuplan.planner.serve_load import Loaded, loaded, promised, refuse_of_reader, refuse_two_stacks
from gpuplan.planner.serve_percentiles import MOST_PARTS, Percentiles
from gpuplan.planner.spending import spending
from gpuplan.planner.surer import said_of, surer
from gpuplan.planner.where import MOST, places
from gpuplan.planner.why import ALIKE, CHEAPER, said_to_beat
from gpuplan.search.library import Library
from gpuplan.search.load import rate_text
from gpuplan.search.serving import answer_serving
from gpuplan.search.serving_engine import SERVES
from gpuplan.units import human, so_many

FIGURES = {"cost": "cost_usd_per_month", "gpus": "accelerators", "energy": "fleet_power_watts"}
"""The figure of each thing that there may be least of."""
BEST = 5
"""Machines that are shown."""
BITS = {"fp8": 8, "fp8-block": 8, "int8": 8, "int4": 4, "nvfp4": 4, "mxfp4": 4}
LOWEST = 8
"""Bits that weights may be quantised to where nobody says."""
LOWEST_READ = 16
"""The same of models that only read: what other weights make of a text is not compared with what these made of the others."""
QUALITY = "https://arxiv.org/abs/2411.02355"
TOLD = {
    8: f"8-bit floating point lost nothing in the evaluations of Llama 3.1 8B to 405B (Kurtic et al. 2024, {QUALITY})",
    4: f"4-bit weights came close to 8-bit integers in the evaluations of Llama 3.1 8B to 405B (Kurtic et al. 2024, {QUALITY})",
}


def plan_serve(goal: PlanServeAsk, run: ServeAsk, library: Library) -> Planned:
    """The best fleets for a load under a promise; `run` is the question of one machine, whatever it says of `on`.

    Raises:
        GpuplanError: the question is wrong, or what is needed is not known.
    """
    form, run = run.emit, run.replaced(emit=None)
    card = library.card(run.model)
    refuse_two_stacks(run, card)
    reads = not card.architecture.generates
    if reads:
        refuse_of_reader(goal, run)
    load = loaded(goal, run)
    promise, notes = promised(goal, reads=reads)
    if goal.pools:
        from gpuplan.planner.serve_pools import refuse

        refuse(promise, load.rate, form)
    least = goal.minimize or "cost"
    where = places(goal, load.run, library, priced=least == "cost" or goal.budget is not None, training=False)
    asked = load.run
    if promise.percent is not None and asked.overlap_batches is None:
        asked = asked.replaced(overlap_batches=False)  # What is simulated in the end is looked for among what can be.
    want = Wanted(
        run=asked, promise=promise.replaced(percent=None), rate=load.rate, users=load.users, least=least, spare=goal.spare or 0,
        most=goal.count or goal.max_count, usd_per_month=goal.budget,
    )  # fmt: skip
    kinds = formats(goal.lowest_bits or lowest(card), run, library)
    search = ServeSearch(want, where.machines, library, kinds, prunes=promise.percent is None)
    shown = goal.best or BEST
    if promise.percent is None:
        search.go(shown)
        served = search.ranked()[:shown]
        if (goal.jobs or 1) > 1:
            text = "--jobs: one process does it all, as nothing is simulated"
            notes = (*notes, Note("plan.jobs", text, "with --p simulations are shared out"))
    else:
        with Crew(goal.jobs or 1, load.run) as crew:
            served = Percentiles(search, promise, crew).go(shown)[:shown]
    made = _Answer(load, promise, served, search, pools=bool(goal.pools)).planned((*load.notes, *notes, *where.notes))
    if form is not None and served:
        from gpuplan.planner.serve_launch import fleet_launch

        made = made.replaced(launch=fleet_launch(form, served[0], search))
    if not goal.front:
        return made
    from gpuplan.planner.serve_front import front

    return made.replaced(front=front(search))


def lowest(card: ModelCard) -> int:
    """Bits that weights may be quantised to where nobody says."""
    return LOWEST if card.architecture.generates else LOWEST_READ


def formats(lowest: int, run: ServeAsk, library: Library) -> tuple[WeightFormat | None, ...]:
    """The formats of weights that are tried: the user's; or as published (None), and those that users of the engine find ready."""
    if run.weights is not None:
        return (run.weights,)
    card = library.card(run.model)
    serving = library.engine(run.engine or SERVES)[0].serving
    ready = None if serving is None or card.weights is not None or card.stored is not None else serving.formats.ready
    others = () if ready is None else ready.text.split()
    return (None, *(cast("WeightFormat", one) for one in others if BITS.get(one, 0) >= lowest))


def limits_of(promise: Promise, want: Wanted | None = None) -> tuple[Limit, ...]:
    """What must be kept."""
    of = "" if promise.percent is None else f" of {promise.percent:g} in 100"
    given = ((name, getattr(promise, name)) for name in NAMES)
    made = [Limit(promise.key(name), value, f"--{name} {human(value, 's')}{of}") for name, value in given if value is not None]
    if want is not None and want.usd_per_month is not None:
        made.append(Limit("cost_usd_per_month", want.usd_per_month, f"--budget {human(want.usd_per_month, 'USD')} a month"))
    if want is not None and want.most is not None:
        made.append(Limit("accelerators", float(want.most), f"{so_many(want.most, 'accelerator')} at most"))
    return tuple(made)


class _Answer:
    """The answer to one question, of what its search found."""

    def __init__(self, load: Loaded, promise: Promise, served: Sequence[Served], search: ServeSearch, *, pools: bool) -> None:
        self.pools = pools
        self.load, self.promise, self.served, self.search = load, promise, served, search
        self.want, self.library = search.want, search.library
        self.limits = limits_of(promise, self.want)
        self.least = FIGURES[self.want.least]

    def planned(self, notes: tuple[Note, ...]) -> Planned:
        """All of it.

        Raises:
            InfeasibleError: nothing holds the model.
            UnknownError: nothing that is allowed could be estimated for, as something about each is not known.
        """
        served = self.served
        best = [self.candidate(one) for one in served]
        relax, nearest = ((), ()) if best else self.relaxed()
        unit = self.unit(served[0], served[0].fleet.parts) if served else None
        binds, flips = (self.binds(served[0], best[0]), tuple(self.flips(served))) if served else ("", ())
        if best:
            grown = autoscaled(self.load, self.want, served[0], best[0])
            notes = (*notes, *self.quality(), *self.vast(served[0]), *grown)
            replicas = best[0]
            if self.pools:
                from gpuplan.planner.serve_pools import beside, binds_of

                best, first, told = beside(served, best, self.least, self.promise, self.want, self.library)
                notes = (*notes, told)
                if first is not None:
                    unit, binds, flips = first.ask, binds_of(first, self.promise), ()
            notes = (*notes, *spending(best[0], self.load.usual, counted=served[0].option.machine.fixed))
            notes = (*notes, *(self.surely(served[0], best) if best[0] is replicas else self.narrowly(best, "")))
        one = self.search
        return Planned(
            model=self.want.run.model, task="serve", least=self.least, limits=self.limits, asked=self.asked(),
            best=said_to_beat(best, self.least, CHEAPER), binds=binds,
            looked=Looked(one.candidates, one.bounded, one.estimated, one.plans, len(one.refused)),
            command="" if unit is None else command_of(unit, unit.on),
            flips=flips, relax=relax, nearest=nearest,
            notes=tuple(dict.fromkeys((*notes, *refusals(one.refused)))),
        )  # fmt: skip

    def asked(self) -> dict[str, str]:
        """The load in words, and the figures of the times of requests."""
        of = {name: self.promise.key(name) for name in NAMES} | ({"reads": "latency_s"} if self.promise.reads else {})
        if self.want.rate is not None:
            return {"load": rate_text(self.want.rate), **of}
        return {"load": f"{so_many(self.want.users or 0, 'request')} in flight", **of}

    def unit(self, served: Served, parts: int) -> ServeAsk:
        """The question of one unit of a fleet with so many parts."""
        asked = unit_ask(self.want, served, parts, experts=bool(self.search.card.architecture.moes))
        return asked.replaced(simulate=True) if self.promise.percent is not None else asked

    def estimate(self, served: Served, parts: int) -> Estimate:
        """The whole answer for one unit of a fleet with so many parts, as `gpuplan serve` gives it."""
        return answer_serving(self.unit(served, parts), self.library)

    def candidate(self, served: Served) -> Candidate:
        """A fleet with the whole answer for one of its units."""
        fleet, option = served.fleet, served.option
        unit = self.estimate(served, fleet.parts)
        price, terms = price_each(unit), fleet_figures(unit, served, self.want)
        unit = unit.replaced(figures={**terms, **{key: term for key, term in unit.figures.items() if key not in terms}})
        figures = {key: float(term.value) for key, term in unit.figures.items()}
        broken = tuple(limit for limit in self.limits if limit.broken_by(figures.get(limit.figure, inf)))
        machine = option.machine
        count = fleet.accelerators // machine.each
        target = f"{count}x{machine.name}" if count > 1 and not machine.fixed else machine.name
        offering = Offering(target, machine.accelerator, fleet.accelerators, price, machine.offer, machine.kind)
        return Candidate(offering, unit, figures, broken, fleet=fleet_words(served, self.want.spare))

    def binds(self, served: Served, best: Candidate) -> str:
        """What would break first with one part less; or that one is all that it takes."""
        fleet = served.fleet
        name = "replica" if served.option.alone else "instance" if served.option.machine.kind == "instance" else "machine"
        if fleet.parts == 1:
            used = self._used(best)
            return f"a single {name} is all that it takes, the smallest that holds the model with its caches" + (
                f" ({used})" if used else ""
            )
        fewer = self.estimate(served, fleet.parts - 1)
        what = f"with {so_many(fleet.parts - 1, name)} in place of {fleet.parts:,}"
        if fewer.verdict.overloaded:
            return f"{what} more would come than is kept ({fewer.verdict.headline.partition(', ')[2].partition(';')[0]})"
        over = [(float(fewer.figures[key].value) / limit, key, limit) for key, limit in self.promise.limits.items()]
        _, key, limit = max(over)
        term = float(fewer.figures[key].value)
        return f"{self.promise.word(key)}: {what} it would be {human(term, 's')}, and {human(limit, 's')} is promised"

    def _used(self, best: Candidate) -> str:
        made = [f"{self.promise.word(key)} {best.figures[key] / most:.0%}" for key, most in self.promise.limits.items()]
        return f"used of the promise: {', '.join(made)}" if made else ""

    def quality(self) -> Iterator[Note]:
        """What is known of the quality of quantised weights."""
        chosen = next(iter(self.served), None)
        if chosen is None or chosen.option.weights is None or self.want.run.weights is not None:
            return
        weights = chosen.option.weights
        text = f"weights are quantised to {weights}: {TOLD[BITS[weights]]}; of {self.want.run.model} nothing is on record"
        yield Note("plan.quality", text, "--lowest-bits 16 leaves them as published")

    def vast(self, served: Served) -> Iterator[Note]:
        """That the fleet is a very large one, where nobody said how many accelerators there are."""
        count = served.fleet.accelerators
        if self.want.most is None and count > MOST:
            text = f"{count:,} accelerators are taken as if there were so many: nobody says how many can be had"
            yield Note("plan.vast", text, "--max-count does")

    def surely(self, served: Served, best: Sequence[Candidate]) -> Iterator[Note]:
        """That the high end of a promised time breaks the promise, and how many parts would keep it there too."""
        if not any(self.narrowly(best, "")):
            return
        enough = next((parts for parts in _more(served.fleet.parts) if self._keeps_high(served, parts)), None)
        hint = "not even twice as many do" if enough is None else f"{enough:,} in place of {served.fleet.parts:,} keep it there too"
        yield from self.narrowly(best, hint)

    def narrowly(self, best: Sequence[Candidate], hint: str) -> Iterator[Note]:
        """That the high end of a promised time breaks the promise, if it does, and which machine keeps it more surely."""
        times = self._times()
        broken = [limit for limit in times if best[0].estimate.ranges[limit.figure][1] > limit.most]
        ends = ", ".join(f"{limit.said}: {_end(best[0].estimate, limit.figure)}" for limit in broken)
        if broken:
            other = surer(best, self.least, times)
            hints = (hint, said_of(other, self.least, times) if other is not None else "")
            hint = "; ".join(one for one in hints if one)
            yield Note("plan.narrowly", f"kept as expected, but not at the high end of the range: {ends}", hint)

    def _keeps_high(self, served: Served, parts: int) -> bool:
        """Whether so many parts keep the promise at the high end of its range."""
        made = self.estimate(served, parts)
        return made.verdict.fits and all(made.ranges[limit.figure][1] <= limit.most for limit in self._times())

    def flips(self, served: Sequence[Served]) -> Iterator[Flip]:
        """At which price of the winner the next wins, and what is best with weights as published."""
        if not served:
            return
        first = served[0]
        tie = len(served) < 2 or served[1].figure <= first.figure * (1 + ALIKE)
        if self.want.least == "cost" and not tie and first.option.machine.price is not None:
            at = first.option.machine.price * served[1].figure / first.figure
            yield Flip(
                f"an accelerator of {first.option.machine.name} costs more than {human(at, 'USD/s')}",
                at,
                served[1].option.machine.name,
            )
        if first.option.weights is not None and self.want.run.weights is None:
            plain = [one for one in self.search.found.values() if one.option.weights is None and self.promise.percent is None]
            if plain:
                best = min(plain, key=lambda one: (one.figure, one.fleet.accelerators, one.option.target))
                more = best.figure / first.figure
                yield Flip(f"weights stay as published ({more:.2g} x)", more, best.option.machine.name)

    def relaxed(self) -> tuple[tuple[Relax, ...], tuple[Candidate, ...]]:
        """For each limit what it would have to be, all others kept.

        Raises:
            GpuplanError: nothing holds the model, whatever is promised, or nothing could be estimated for.
        """
        over, broken = self.search.over, self.search.broken
        if not over and not broken:
            raise self._nothing()
        if over:
            return self._fewer_wanted(over)
        # Of a percentile too the search knows what the mean is at least.
        means = dict(zip(self.promise.limits, self.promise.replaced(percent=None).limits, strict=True))
        made: list[Relax] = []
        for limit in self._times():
            key = means[limit.figure]
            found = min(broken, key=lambda each: each.least[key])
            if isfinite(found.least[key]):
                made.append(Relax(limit, found.least[key], found.option.target))
        if not made:  # Several at once.
            near = min(broken, key=lambda each: max(each.idle[means[limit.figure]] / limit.most for limit in self._times()))
            idle = [(limit, near.idle[means[limit.figure]]) for limit in self._times()]
            made = [Relax(limit, least, near.option.target) for limit, least in idle if least > limit.most]
        return tuple(made), ()

    def _fewer_wanted(self, over: Sequence[Served]) -> tuple[tuple[Relax, ...], tuple[Candidate, ...]]:
        """What the limits on accelerators and on dollars would have to be for fleets that keep the promise."""
        made: list[Relax] = []
        least, most = min(over, key=lambda one: one.usd_per_month), self.want.usd_per_month
        if most is not None and least.usd_per_month > most:
            limit = next(one for one in self.limits if one.figure == "cost_usd_per_month")
            made.append(Relax(limit, least.usd_per_month, least.option.machine.name))
        few = min(over, key=lambda one: (one.fleet.accelerators, one.usd_per_month))
        machine = few.option.machine
        count = machine.each if machine.fixed else self.want.most
        if count is not None and few.fleet.accelerators > count:
            said = f"--on {machine.name}" if machine.fixed else f"{so_many(count, 'accelerator')} at most"
            made.append(Relax(Limit("accelerators", float(count), said), float(few.fleet.accelerators), machine.accelerator))
        return tuple(made), (self.candidate(least if made and made[0].limit.figure == "cost_usd_per_month" else few),)

    def _times(self) -> list[Limit]:
        return [limit for limit in self.limits if limit.figure in self.promise.limits]

    def _nothing(self) -> GpuplanError:
        """Why nothing was looked at that holds the model."""
        refused, percent = self.search.refused, self.promise.percent
        if percent is not None and self.search.found:
            what = f"it is kept in the mean, but not for {percent:g} in 100 requests by up to {MOST_PARTS:g} times as many parts"
            return InfeasibleError(Problem("plan.percent", what, "promise more time, a smaller --p, or leave it out for the mean"))
        if refused and not self.search.estimated:
            name, error = next(iter(refused.items()))
            problem = error.problems[0]
            what = f"none of {so_many(len(refused), 'machine')} can be estimated for; {name}: {problem.message}"
            return (
                type(error)(Problem(problem.code, what, problem.hint)) if isinstance(error, (UnknownError, UsageError)) else error
            )
        rooms = [one.each * one.chip.memory for one in self.search.machines if one.chip.memory is not None]
        if self.search.candidates == 0 and rooms and len(rooms) == len(self.search.machines) and max(rooms) < self.search.held:
            what = f"{self.want.run.model} takes {human(self.search.held, 'B')}, and no machine that is allowed has as much"
            return InfeasibleError(
                Problem("plan.too-large", what, "name other machines with --on, or allow fewer bits, such as --lowest-bits 4")
            )
        if self.search.candidates == 0:
            what = "no machine that is allowed comes in such a number"
            return UsageError(
                Problem("plan.no-machine", what, "leave --count or --max-count out, or name other machines with --on")
            )
        for one in (each for each in self.search.machines if each.fixed):
            apart = self.library.target(one.name, apart=True).unjoined
            if apart is not None and self.search.held <= one.each * (one.chip.memory or 0.0):
                return apart.error
        looked = so_many(self.search.candidates, "machine", " that was", " that were")
        what = f"{self.want.run.model} fits on none of the {looked} looked at"
        if self.search.candidates == 1:
            what = f"{self.want.run.model} does not fit on the one machine that was looked at"
        fixed = all(one.fixed for one in self.search.machines)
        more = "name more or larger ones with --on" if fixed else "allow more with --count or --max-count"
        return InfeasibleError(Problem("plan.too-large", what, f"{more}, or fewer bits with --lowest-bits 4"))


def _more(parts: int) -> Iterator[int]:
    """Some more parts, up to twice as many.

    >>> list(_more(1)), list(_more(27))
    ([2], [34, 43, 54])
    """
    at = parts
    while at < 2 * parts:
        at = min(max(at + 1, -(-at * 5 // 4)), 2 * parts)
        yield at


def _end(made: Estimate, key: str) -> str:
    """The high end of a time."""
    return "without bound" if made.no_bound(key) else human(made.ranges[key][1], "s")
