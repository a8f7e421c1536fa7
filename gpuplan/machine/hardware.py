"""What one machine can do, as terms: peaks, bandwidth, fabric levels, and the measured kernel parameters that apply to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuplan.errors import Note, Problem, UnknownError, did_you_mean
from gpuplan.term import Term
from gpuplan.work import Dtype

if TYPE_CHECKING:
    from gpuplan.specs.measured import Measured
    from gpuplan.specs.target import Level, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """A target as the machine layer sees it.

    `peaks` holds the dense datasheet rate of each data type, `parameters` the kernel and fabric parameters by dotted
    name without `hw.` (`matmul.bf16.efficiency`), `levels` the fabric, innermost first.
    """

    name: str
    count: int
    peaks: Mapping[str, Term]
    hbm_bandwidth: Term
    memory_capacity: Term
    parameters: Mapping[str, Term]
    levels: tuple[Level, ...] = ()
    host_link: Term | None = None
    power: Term | None = None
    sm_count: Term | None = None
    l2: Term | None = None
    notes: tuple[Note, ...] = ()

    @classmethod
    def of(cls, target: Target, measured: Measured | None = None) -> Hardware:
        """The hardware of a target; without `measured`, the shipped overlay of its accelerator or else of its family.

        Raises:
            UnknownError: neither the accelerator nor its family has measured kernel parameters.
        """
        from gpuplan.machine.build import hardware_of

        return hardware_of(target, measured)

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

    def group(self, prefix: str) -> dict[str, Term]:
        """All parameters below a dotted prefix, by their last name.

        Raises:
            UnknownError: there are none.
        """
        start = prefix + "."
        found: dict[str, Any] = {key[len(start) :]: term for key, term in self.parameters.items() if key.startswith(start)}
        return found or {prefix: self.parameter(prefix)}
