"""What do sequences cost that an engine sends back because its caches are full, and reads again later?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.estimate.attention_ranks import by_turns
from gpuplan.estimate.load_room import held, held_of, places
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.formulas import inference as form
from gpuplan.formulas import preemption as back
from gpuplan.formulas.basic import larger, smaller
from gpuplan.num import all_true, any_true, maximum, minimum, where
from gpuplan.plan.load import Load
from gpuplan.record import Record
from gpuplan.term import Source, Term, total
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

UNKNOWN = Source("definition", "nothing is known of ranks of attention that read by turns: what has a place keeps it")
EVEN = Source("definition", "all are as long unless a spread is given")


class SentBack(Record, kw_only=True):
    """What is read again of a replica's requests."""

    again: Term
    """Tokens that are read again for each token of output."""
    away: Term
    """How long a request is sent back for, over the time that its output takes."""
    prompt: Term
    """Tokens of a prompt that are read the first time."""
    output: Term
    begun: Term
    """Sequences that begin at once where all come at once."""

    def tokens(self, going: Term, of_run: Term, *, running: Term, added: Term) -> tuple[Term, Term]:
        """The mean time of a token of a load that goes on, and of a run, with it; `added` is what a prompt adds to steps."""
        of = {"again": self.again, "running": running, "added": added, "prompt": self.prompt, "away": self.away}
        return (
            back.token_with_others_again.term("load.token_sent_back", token=going, **of),
            back.token_with_others_again.term("load.token_of_run_sent_back", token=of_run, **of),
        )

    def under_way(self, name: str, places: Term) -> Term:
        """Sequences between their first and their last token, of which so many run."""
        return back.under_way.term(name, places=places, away=self.away, begun=self.begun)

    def prefill(self, name: str, prefill: Term) -> Term:
        """The time of prompts with it."""
        return back.prefill_with_again.term(
            name, prefill=prefill, again=self.again, output=self.output, prompt=self.prompt
        )  # fmt: skip


def sent_back(model: ServingModel, memory: ServingMemory, load: Load, users: Term, requests: Term | None) -> SentBack | None:
    """What is read again where `users` of a replica want a place at once, of so many requests in all (None: it never ends).

    None: all that begin have room to their ends, or the engine keeps that room from the begin, or a part of it; nothing is known of
    ranks that read by turns.
    """
    schedule = model.profile.schedule
    if schedule is None or not schedule.sends_back or model.plan.settings.cache_tokens is not None:
        return None
    ranks = model.serve.sharing.attention_dp
    if memory.max_sequences is None or (by_turns(model) and not any_true(ranks.value == 1)):
        return None
    output = model.subject.plan("output", model.plan.output)
    begin = held_of(model, "back.begin_held", model.begun(), memory.pool)
    whole = total("back.tokens", {"prompt": model.begun(), "output": output})
    end = held_of(model, "back.end_held", whole, memory.pool)

    def of(name: str, each: Term) -> Term:
        return larger.term(f"back.{name}", a=form.whole_sequences.term(f"back.{name}_room", pool=memory.pool, each=each), b=ONE)

    ends = of("ends", end)
    some = smaller.term("back.may_begin", a=users, b=smaller.term("back.limit", a=memory.limit, b=of("begins", begin)))
    begun = larger.term("back.begun", a=some, b=ONE)
    if by_turns(model):  # A mesh has plans of both kinds: those whose ranks read by turns send nothing back, as they alone do.
        one, apart = ranks.value == 1, minimum(users.value, places(model, memory).value)
        ends = Term("back.ends_of_ranks", where(one, ends.value, maximum(ends.value, begun.value)), "1", UNKNOWN)
        begun = Term("back.begun_of_ranks", where(one, begun.value, apart), "1", UNKNOWN)
    if all_true(begun.value <= ends.value):
        return None
    sizes = {"begin_size": begin, "end_size": end}
    first = back.first_wave_read_again.term("back.first_wave", begun=begun, ends=ends, **sizes)
    endless = Term("back.endless", ENDLESS_REQUESTS, "1", Source("definition", "a load that never ends has many waves"))
    again = back.read_again.term(
        "back.again", requests=endless if requests is None else requests, begun=begun, ends=ends,
        middle=of("middle", held(model, memory.pool)), first=first,
    )  # fmt: skip
    spread = model.subject.plan("output_spread", load.output_spread) if load.output_spread else Term("back.even", 0.0, "1", EVEN)
    return SentBack(
        again=again, away=back.away_share.term("back.away", begun=begun, ends=ends, spread=spread, **sizes),
        prompt=model.uncached(model.prompt()), output=output, begun=begun,
    )  # fmt: skip


ENDLESS_REQUESTS = 1e9
"""Requests of a load that never ends: so many waves that the first does not count."""
