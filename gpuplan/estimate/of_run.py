"""How long do requests of a whole run wait for their first token, of which the first come at once?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.formulas import bursts as form_of_burst
from gpuplan.formulas import queueing as queue
from gpuplan.formulas.basic import share
from gpuplan.plan.load import Load
from gpuplan.record import Record
from gpuplan.term import Parts, Term, total

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel


class Users(Record, kw_only=True):
    """Users of one replica of a closed loop."""

    all: Term
    places: Term
    """Sequences that decode at once at most."""
    at_once: Term
    """Users that have a place."""
    first: Term
    """Sequences that begin at once where all come at once."""


def requests_of_replica(model: ServingModel, load: Load) -> Term:
    """Requests of a replica in the whole run."""
    asked = model.subject.plan("requests", 1.0 if load.requests is None else load.requests)
    return share.term("load.requests_of_replica", amount=asked, ways=model.subject.plan("dp", model.plan.parallel.dp))


def first_of_run(
    model: ServingModel, load: Load, users: Users, parts: Parts, reading: Term | None, burst: Term, stay: Term
) -> Term:  # fmt: skip
    """Mean time to the first token over a run, whose first requests come at once."""
    requests = requests_of_replica(model, load)
    at_once = users.at_once
    first = {**{name: one for name, one in parts.items() if name in ("request", "server", "reading")}, "prefill": burst}
    if reading is not None:
        first["other_requests"] = queue.half_the_others.term("burst.other_requests", count=at_once, each=reading)
    steady = total("load.with_place", {name: one for name, one in parts.items() if name != "place"})
    mean = queue.run_mean_seconds.term(
        "load.run_mean", first=total("burst.first_token", first), steady=steady, at_once=at_once, requests=requests
    )  # fmt: skip
    if load.arrival == "burst" and not load.output_spread:
        before = form_of_burst.waves_before.term(
            "burst.waves_before", requests=requests, first=users.first, places=users.places
        )  # fmt: skip
        place = form_of_burst.wait_for_wave.term("load.run_place", waves=before, stay=stay)
    else:
        place = queue.run_place_seconds.term(
            "load.run_place", wait=parts["place"], users=users.all, places=users.places, requests=requests
        )
    return total("ttft", {"with_place": mean, "place": place})
