"""What does communication beside computation cost: what does not fit there, and what it takes from the kernels beside it?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuplan.estimate.pricing import alone, happens, no_time, priced
from gpuplan.estimate.subject import Setting
from gpuplan.formulas import lanes
from gpuplan.formulas.basic import remaining_seconds, repeated_bytes
from gpuplan.formulas.training import between_ranks
from gpuplan.machine.hardware import Hardware
from gpuplan.record import Record
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import DEFINITION, Term, greatest, numbered, total
from gpuplan.work import Collective
from gpuplan.workload.counts import count


class Window(Record):
    """The work beside which something travels."""

    whole: Term
    """How long it takes."""
    products: Term
    """What of it keeps the compute units busy."""
    streams: Term
    """What of it keeps the memory busy."""
    waits: Term
    """What of it keeps neither busy: other communication, and waiting for the host."""

    forward: Term
    """What of it is a forward pass."""

    def lasting(self, whole: Term, forward: Term) -> Window:
        """A window of another length with work of the same kinds."""
        return self.replaced(whole=whole, forward=forward)

    def of_forward(self) -> Window:
        """The forward pass of it."""
        return self.replaced(whole=self.forward)

    def of_backward(self) -> Window:
        """The backward pass, with what is run again for it, the head and the loss."""
        backward = remaining_seconds.term(f"{self.whole.name}.backward", whole=self.whole, hidden=self.forward)
        return self.replaced(whole=backward)


PRODUCTS = ("matmuls", "attention", "head_and_loss", "head", "mtp_inputs", "arithmetic")
STREAMS = ("elementwise", "embedding", "accumulation", "memory_traffic", "lookups")
WAITS = ("tensor_parallel", "context_parallel", "expert_parallel", "pipeline_send", "host", "table_exchange")


def window_of(name: str, parts: Mapping[str, Term], forward: Term) -> Window:
    """A window of the parts of a micro-batch; what is run again is of the same kinds as what was run before."""

    def of(what: str, names: tuple[str, ...]) -> Term:
        found = {part: parts[part] for part in names if part in parts}
        return total(f"{name}.{what}", found) if found else no_time(f"{name}.{what}")

    return Window(total(name, dict(parts)), of("products", PRODUCTS), of("streams", STREAMS), of("waits", WAITS), forward)


def window_within(name: str, parts: Mapping[str, Term]) -> Window:
    """A window inside one pass."""
    return window_of(name, parts, total(f"{name}.one_pass", dict(parts)))


def beside_seconds(
    setting: Setting, profile: TrainingProfile, name: str, items: Iterable[Collective], window: Window, overlap: Term,
    comm: Term | None = None,
) -> Term:  # fmt: skip
    """Seconds that collectives add to the kernels beside them; `comm`: how long they take, where that is not once one by one."""
    items = list(items)
    if comm is None:
        comm = priced(f"{name}.all", items, setting.hw)
    if not happens(comm):
        return comm
    lost = lost_share(setting, profile, name, items, window)
    return lanes.contended_seconds.term(name, comm=comm, window=window.whole, overlap=overlap, lost=lost)


def lost_share(setting: Setting, profile: TrainingProfile, name: str, items: Iterable[Collective], window: Window) -> Term:
    """The share of the time beside collectives that kernels lose to them.

    Their compute units by the channels of the library, their memory bandwidth by the bytes that the collectives move. Where the
    links work without compute units and the engine's profile says what computation loses all the same, that counts.
    """
    hw, items = setting.hw, [item for item in items if not alone(item.group)]
    if hw.parameters.get("beside.channels") is None and profile.contention is not None:
        return setting.habit("contention", profile.contention)
    taken, units = bandwidth_taken(hw, name, items), no_units(f"{name}.units_taken")
    if items:
        units = greatest(f"{name}.units_taken", [units_taken(hw, f"{item.name}.units_taken", item) for item in items])
    return lanes.lost_beside.term(
        f"{name}.lost",
        products=window.products,
        streams=window.streams,
        waits=window.waits,
        units=units,
        bandwidth=taken,
        start=hw.parameter("stream.launch"),
    )


def bandwidth_taken(hw: Hardware, name: str, items: list[Collective]) -> Term:
    """The share of the memory bandwidth that collectives take while they run."""
    if not items:
        return Term(f"{name}.bandwidth_taken", 0.0, "1", DEFINITION)
    moved = numbered(
        (
            item.name,
            repeated_bytes.term(
                f"{item.name}.moved_bytes", count=count(f"moved_{item.kind}"),
                size=between_ranks.term(f"{item.name}.travelling_bytes", size=item.size, ranks=item.group),
            ),
        )
        for item in items
    )  # fmt: skip
    return lanes.bandwidth_taken.term(
        f"{name}.bandwidth_taken", moved=total(f"{name}.moved_bytes", moved), bandwidth=hw.hbm_bandwidth,
        seconds=priced(f"{name}.once", items, hw), start=hw.parameter("stream.launch"),
    )  # fmt: skip


def no_units(name: str) -> Term:
    """Nothing is taken of the compute units."""
    return Term(name, 0.0, "1", DEFINITION)


def units_taken(hw: Hardware, name: str, item: Collective) -> Term:
    """The share of the compute units that products lose to one collective; none where links work by themselves."""
    inside = hw.parameters.get("beside.channels")
    if inside is None:
        return no_units(name)
    channels = lanes.channels_of_group.term(
        f"{item.name}.channels", group=item.group, stride=item.stride, inside=node_size(hw), channels=inside,
        channels_between=hw.parameter("beside.channels_between"),
    )  # fmt: skip
    waves = hw.parameters.get("beside.waves")
    if waves is None:
        return lanes.units_taken.term(name, channels=channels, units=hw.sm_count)
    return lanes.units_waited_for.term(name, channels=channels, units=hw.sm_count, waves=waves)


def node_size(hw: Hardware) -> Term:
    """Accelerators on the innermost level of the fabric."""

    def of(one: Hardware) -> Term:
        level = one.levels[0]
        size = level.size if len(one.levels) > 1 else None
        return Term(f"hw.fabric.{level.name}.size", float(size or one.count), "1", level.bandwidth_per_direction.source)

    return hw.termed("levels.0.size_or_all", of) or of(hw)
