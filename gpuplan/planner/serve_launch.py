"""What starts a whole fleet: every replica of it, each alone, as its engine takes it?"""

from __future__ import annotations

from gpuplan.plan.words import Emit
from gpuplan.planner.serve import Served, ServeSearch
from gpuplan.planner.serve_ask import unit_ask
from gpuplan.search.emitted import emitted_serving
from gpuplan.search.serving import settled
from gpuplan.search.start_command import start_command


def fleet_launch(form: Emit, served: Served, search: ServeSearch) -> str:
    """The launch of the replicas of a fleet, spares included; a router in front of them is the user's.

    Raises:
        UnknownError: the arguments of the engine are not on file, or not those for a service.
        UsageError: the form cannot hold it.
    """
    fleet, want = served.fleet, search.want
    asked = unit_ask(want, served, fleet.parts, experts=bool(search.card.architecture.moes))
    one = settled(asked, search.library)
    named = asked.replaced(emit=form, engine=asked.engine or one.subject.engine.id)
    command = start_command(named, one.found, one.plan, search.library)
    replicas = (fleet.parts + want.spare) * (1 if served.option.alone else fleet.division.dp)
    return emitted_serving(named, one.found, one.plan, command, search.library, fleet=replicas)
