"""What feeds a training run: stored bytes, bandwidth and processors for its samples, and whether they keep up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.estimate.input import Supply
from gpuplan.estimate.result import Choice
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import entries, grouped
from gpuplan.record import Record, replace
from gpuplan.search.library import Library
from gpuplan.specs.target import Target
from gpuplan.term import USER, Source, Term
from gpuplan.units import human

if TYPE_CHECKING:
    from gpuplan.models.generic import GenericCard


class SampleSupply(Record, kw_only=True):
    """What feeds a plan, and what is to be said of it."""

    supply: Supply
    notes: tuple[Note, ...]
    said: tuple[Choice, ...]


def samples_seen(ask: TrainAsk) -> float | None:
    """Samples of the whole run: those of the data, as often as they are seen; None: the question does not say.

    Raises:
        UsageError: epochs of nobody knows how many samples.
    """
    if ask.epochs is not None and ask.samples is None:
        hint = "give the number of examples with --samples, or the length of the run with --tokens alone"
        raise UsageError(Problem("run.epochs", f"--epochs {ask.epochs:g}: of how many samples?", hint))
    return None if ask.samples is None else ask.samples * (1.0 if ask.epochs is None else ask.epochs)


def sample_supply_of(ask: TrainAsk, library: Library) -> SampleSupply | None:
    """What feeds a run whose user says what a sequence takes; None: its sequences are there in time.

    Raises:
        UsageError: of a host or a run something is said that means nothing without more.
    """
    if ask.tokens is not None and ask.samples is not None:
        raise UsageError(Problem("run.twice", "--tokens and --samples both give the length of the run", "leave one out"))
    samples_seen(ask)
    if all(getattr(ask, name) is None for name in grouped(TrainAsk, "input")):
        return None
    if ask.sample_bytes is None and ask.decode_rate is None:
        what = "--cpus and --storage-bandwidth say nothing without what a sequence takes"
        raise UsageError(Problem("input.nothing-asked", what, "give --sample-bytes or --decode-rate"))
    return supplied(ask, None, library.target(ask.on))


def supplied(ask: TrainAsk, card: GenericCard | None, target: Target) -> SampleSupply:
    """Stored bytes, processors and bandwidth: the user's, the card's, the instance's; what nobody knows is said."""
    feeding = card.input if card else None
    shape = target.instance.shape if target.instance is not None else None
    host = target.system.host if target.system is not None else None
    notes: list[Note] = []
    said: list[Choice] = []

    def user(name: str, value: float | None, unit: str) -> Term | None:
        return None if value is None else Term(f"input.{name}", float(value), unit, USER)

    stored = user("stored_bytes", ask.sample_bytes, "B")
    if stored is None and card is not None and feeding is not None and feeding.stored_bytes is not None:
        stored = card.term("stored_bytes", feeding.stored_bytes, "B")
    decoded = user("decoded_per_s", ask.decode_rate, "1/s")
    if decoded is None and card is not None and feeding is not None and feeding.decoded_per_s is not None:
        decoded = replace(card.term("decoded_per_s", feeding.decoded_per_s, "1/s"), spread=feeding.decoded_range)
    cpus = user("cpus", ask.cpus, "1")
    if cpus is None and target.instance is not None and shape is not None and shape.vcpus is not None:
        cpus = Term("instance.vcpus", float(shape.vcpus), "1", target.instance.family.source_of(shape))
    if cpus is None and target.system is not None and host is not None and host.vcpus is not None:
        cpus = Term("system.vcpus", float(host.vcpus), "1", target.system.source_of(host))
    bandwidth = user("storage_bandwidth", ask.storage_bandwidth, "B/s")
    if bandwidth is None and target.instance is not None and shape is not None and shape.network.bandwidth is not None:
        bandwidth = target.instance.term("instance.network_bandwidth", shape.network.bandwidth)
        said.append(
            Choice("storage_bandwidth", human(float(bandwidth.value), "B/s"), "samples come at the full rate of the network card")
        )
    missing = [
        text
        for wanted, supply, text in (
            (stored, bandwidth, "how fast a node reads (--storage-bandwidth)"),
            (decoded, cpus, "its processors (--cpus)"),
        )
        if wanted is not None and supply is None
    ]
    if missing:
        what = f"whether input keeps up is not counted: nothing says of {target.text} {' and '.join(missing)}"
        notes.append(Note("input.unknown-host", what))
    idle = [
        entries(TrainAsk)[name].flag
        for pair, (wanted, supply) in (
            (("sample_bytes", "storage_bandwidth"), (stored, bandwidth)),
            (("decode_rate", "cpus"), (decoded, cpus)),
        )
        if (wanted is None) is not (supply is None)
        for name in pair
        if getattr(ask, name) is not None
    ]
    if idle:
        notes.append(Note("option.idle", f"{', '.join(idle)}: of no effect without what it is to be compared with"))
    if card is None and (stored is None or decoded is None):
        what = "whether input keeps up is not counted in full: give --sample-bytes and --decode-rate"
        notes.append(Note("input.unknown-sample", what))
    nodes = Term("plan.nodes", float(target.units if shape or host else 1), "1", Source("definition", "nodes that --on counts"))
    supply = Supply(nodes=nodes, stored=stored, bandwidth=bandwidth, decoded_per_s=decoded, processors=cpus)
    return SampleSupply(supply=supply, notes=tuple(notes), said=tuple(said if stored is not None else ()))


def pace_notes(figures: Mapping[str, Term], fed: SampleSupply) -> list[Note]:
    """What sets the pace, where the input is known, and what is not known of it."""
    notes = list(fed.notes)
    parts = {name: float(figures[key].value) for name in ("read", "decode") if (key := f"{name}_time_s") in figures}
    bound = max(parts, key=lambda name: parts[name], default="")
    computed = float(figures["compute_time_s"].value) if parts else 0.0
    if bound and parts[bound] > computed:
        slow, doing = parts[bound], "reading samples" if bound == "read" else "decoding samples"
        notes.append(
            Note(
                "input.binds",
                f"{doing} sets the pace: {human(slow, 's')} a step against {human(computed, 's')} of computation; "
                f"{slow / computed:.2g} times the {'bandwidth' if bound == 'read' else 'processors'} would keep up",
            )
        )
    elif parts:
        notes.append(Note("input.keeps-up", f"input keeps up: {' and '.join(parts)} take less than the computation of a step"))
    return notes
