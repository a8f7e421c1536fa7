"""What one machine can do, as terms: peaks, bandwidth, fabric levels, and the measured kernel parameters that apply to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from gpuplan.errors import Note, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.formulas.basic import lesser_bytes
from gpuplan.record import Record, field, replace
from gpuplan.term import Source, Term
from gpuplan.work import Dtype

if TYPE_CHECKING:
    from gpuplan.specs.fabric import Level

T = TypeVar("T")

UNSEEN_S = 0.02
"""The longest time to settle that a fit looks at: what is found there was not seen."""
_PLAIN_SETTLE = re.compile(r"matmul\.[a-z]+\d+\.settle")
"""Of a data type, not of a kind of kernel."""
_SETTLED = Source("derived", "a busy step leaves no pause in which the clock could recover: it has settled")
_UNSEEN = Source("derived", "the clock was not seen to settle with this type; no lower than with the others")


def settled(parameters: Mapping[str, Term]) -> dict[str, Term]:
    """The parameters that are otherwise where kernels follow each other without a pause."""
    busy = {
        name: Term(term.name, 1e-12, term.unit, _SETTLED, spread=term.spread)
        for name, term in parameters.items()
        if name.endswith(".settle")
    }
    return busy | _least_clocks({name: parameters[name] for name in busy if _PLAIN_SETTLE.fullmatch(name)}, parameters)


def _least_clocks(times: Mapping[str, Term], parameters: Mapping[str, Term]) -> dict[str, Term]:
    """How far clocks fall in matmuls whose settled clock no measurement saw: no further than in the chip's other matmuls.

    Where the time to settle came out longer than any kernel that was measured, only the beginning of the fall is known.
    """
    falls = {name: parameters[name.replace(".settle", ".throttle")] for name in times}
    seen = [float(falls[name].value) for name, time in times.items() if float(time.value) < UNSEEN_S]
    return {
        name.replace(".settle", ".throttle"): replace(falls[name], value=max(seen), source=_UNSEEN)
        for name, time in times.items()
        if seen and float(time.value) >= UNSEEN_S and float(falls[name].value) > max(seen)
    }


def _figures(value: Any) -> Hashable:
    """The figures of a field of a machine, whoever says so."""
    if isinstance(value, Term):
        return value.value, value.spread
    if isinstance(value, Mapping):
        return frozenset((name, _figures(one)) for name, one in value.items())
    if isinstance(value, tuple):
        return tuple(_figures(one) for one in value)
    return tuple(_figures(one) for one in value._values()) if isinstance(value, Record) else value


class Hardware(Record, kw_only=True):
    """A target as the machine layer sees it.

    `peaks` holds the dense datasheet rate of each data type, `parameters` the kernel and fabric parameters by dotted
    name without `hw.` (`matmul.bf16.efficiency`), `levels` the fabric, innermost first. `notes` hold for every estimate on it,
    `dtype_notes` for those that multiply in that data type.
    """

    name: str
    accelerator: str = ""
    family: str = ""
    count: int
    peaks: Mapping[str, Term]
    hbm_bandwidth: Term
    memory_capacity: Term
    sm_count: Term
    parameters: Mapping[str, Term]
    settled: Mapping[str, Term] | None = None
    """Those that are otherwise under load; None: they are made when that is asked."""
    levels: tuple[Level, ...] = ()
    joined: int | None = None
    """Accelerators that the levels join, where nothing is known to join all."""
    visible_memory: Term | None = None
    """What programs are told is there, where that is known to be less than `memory_capacity`."""
    switches_add: bool = False
    """All-reduces between nodes are added by the switches that can (SHARP)."""
    host_link: Term | None = None
    disk_read: Term | None = None
    """What the local disks of a host read for each accelerator."""
    disk_write: Term | None = None
    host_shared_by: Term | None = None
    """Accelerators that share the processors of a host."""
    host_memory: Term | None = None
    """An accelerator's share of the main memory."""
    disk_size: Term | None = None
    """Its share of the local disks."""
    power: Term | None = None
    l2: Term | None = None
    notes: tuple[Note, ...] = ()
    dtype_notes: Mapping[str, Note] = field(default_factory=dict)

    def adding(self) -> Hardware:
        """The same with a network between nodes whose switches add (SHARP).

        Raises:
            UsageError: no level outside the innermost can.
        """
        if not any(level.in_network_reduction for level in self.levels[1:]):
            said = f"no network between the nodes of {self.name} is known to add on its way"
            raise UsageError(Problem("hw.no-sharp", said, "leave --sharp out, or name a network that does, such as `@ib-ndr`"))
        return self.replaced(switches_add=True)

    def asked(self, key: str, of: Callable[[Hardware], T]) -> T:
        """What formulas are chosen by, of the machine or of each of several; `key` says what it is.

        Raises:
            Apart: it does not say the same of all.
        """
        return of(self)

    def termed(self, key: str, of: Callable[[Hardware], Term | None]) -> Term | None:
        """A leaf that is made for the machine, or for each of several; `key` says what it is, under whichever name.

        Raises:
            Apart: there is none for some of them only.
        """
        return of(self)

    def seen_memory(self) -> Term:
        """What programs can take of the memory: what they are told is there, or the capacity where nobody has printed that.

        Raises:
            Apart: it is known of some of several machines only.
        """
        visible = self.termed("visible memory", lambda one: one.visible_memory)
        if visible is None:
            return self.memory_capacity
        return lesser_bytes.term("memory.seen", size=self.memory_capacity, most=visible)

    def mapped(self, of: Callable[[Hardware], Hardware]) -> Hardware:
        """The machine otherwise, or each of several."""
        return of(self)

    def thins_out(self) -> bool:
        """Whether nodes are joined the slower the farther apart they are, so that it matters which ranks are neighbours."""

        def farther(one: Hardware) -> bool:
            rates = [float(level.bandwidth_per_direction.value) / level.oversubscription for level in one.levels[1:]]
            return any(outer < inner for inner, outer in pairwise(rates))

        return self.asked("thins out", farther)

    def several(self) -> bool:
        """Whether there is more than one accelerator."""
        return self.asked("several", lambda one: one.count > 1)

    def replaced(self, **changes: Any) -> Hardware:
        """The same with some fields changed."""
        if "parameters" in changes:
            changes = {"settled": None, **changes}
        return super().replaced(**changes)

    def under_load(self) -> Hardware:
        """The same hardware where kernels follow each other without a pause: its clock has settled under the power limit."""
        changes = settled(self.parameters) if self.settled is None else self.settled
        return self.replaced(parameters={**self.parameters, **changes})

    def as_plans_see(self, *, hosts: bool) -> Hashable:
        """What tells machines apart on which a plan takes other time or memory; with `hosts` also what their hosts hold."""
        told = ("name", "notes", "dtype_notes", *(() if hosts else ("host_memory", "disk_size")))
        return tuple(_figures(getattr(self, name)) for name in self.field_names() if name not in told)

    def peak(self, dtype: Dtype) -> Term:
        """The dense datasheet rate for a data type, in FLOP/s.

        Raises:
            UnknownError: the accelerator has no rate for that type.
        """
        if dtype not in self.peaks:
            known = ", ".join(self.peaks)
            raise UnknownError(
                Problem(
                    "hw.no-peak", f"{self.name} has no {dtype} rate", hint=f"it has {known}; choose one of these", where=self.name
                )
            )
        return self.peaks[dtype]

    def parameter(self, name: str) -> Term:
        """A kernel or fabric parameter by its dotted name without `hw.`.

        Raises:
            UnknownError: no such parameter is known for this hardware.
        """
        found = self.parameters.get(name)
        if found is None:
            raise UnknownError(
                Problem(
                    "hw.no-parameter",
                    f"no `{name}` is known for {self.name}",
                    hint=did_you_mean(name, self.parameters) or "run `gpuplan calibrate` on the machine",
                    where=self.name,
                )
            )
        return found
