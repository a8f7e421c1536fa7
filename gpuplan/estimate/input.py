"""Do storage and processors keep up: how long does a step's input take to be read and decoded?"""

from __future__ import annotations

from gpuplan.estimate.training_time import TrainingTime
from gpuplan.formulas.basic import remaining_seconds
from gpuplan.formulas.samples import decoding_seconds, read_seconds
from gpuplan.record import Record
from gpuplan.term import Term, greatest, total


class Supply(Record, kw_only=True):
    """What brings samples to the accelerators; None where it is not known, and then nothing is said of that part.

    `stored` are bytes of a sample in storage, `decoded_per_s` the samples that one of the `processors` of a node decodes,
    `bandwidth` bytes a second into one node.
    """

    nodes: Term
    stored: Term | None = None
    bandwidth: Term | None = None
    decoded_per_s: Term | None = None
    processors: Term | None = None


def input_terms(supply: Supply, samples: Term) -> dict[str, Term]:
    """The time of each part of the input of a step of `samples` samples: `read` and `decode`, as far as they are known."""
    found: dict[str, Term] = {}
    if supply.stored is not None and supply.bandwidth is not None:
        found["read"] = read_seconds.term(
            "input.read", samples=samples, stored=supply.stored, bandwidth=supply.bandwidth, nodes=supply.nodes
        )
    if supply.decoded_per_s is not None and supply.processors is not None:
        found["decode"] = decoding_seconds.term(
            "input.decode", samples=samples, decoded_per_s=supply.decoded_per_s, processors=supply.processors, nodes=supply.nodes
        )
    return found


def slowest_input(parts: dict[str, Term]) -> Term:
    """Reading and decoding run beside each other: the slower one sets the pace."""
    return greatest("input.slowest", parts)


def slowed(time: TrainingTime, parts: dict[str, Term]) -> TrainingTime:
    """A step that waits for its input: the time that input takes beyond computation is a part of it."""
    if not parts:
        return time
    wait = remaining_seconds.term("step.waiting_for_input", whole=slowest_input(parts), hidden=time.step)
    stages = {
        place: (total(f"{whole.name}_with_input", {"computed": whole, "waiting": wait}), {**held, "waiting_for_input": wait})
        for place, (whole, held) in time.stages.items()
    }
    return TrainingTime(total("step.with_input", {"computed": time.step, "waiting": wait}), stages)
