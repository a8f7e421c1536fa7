"""How long does an engine's all-reduce take that is called by itself, as benchmarks without a graph do?"""

from __future__ import annotations

from gpuplan.formulas import collectives as fabric
from gpuplan.formulas.basic import repeated_bytes
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import collective_seconds, stream_seconds
from gpuplan.term import DEFINITION, Term, greatest, total
from gpuplan.work import Collective, Stream

ONE = Term("one_copy", 1.0, "1", DEFINITION)
NO_TIME = Term("no_time", 0.0, "s", DEFINITION)
READ_AND_WRITTEN = Term("read_and_written", 2.0, "1", DEFINITION)


def called_all_reduce_seconds(item: Collective, hw: Hardware) -> Term:
    """The time of one call, in seconds: it copies its input first, and nothing hides what the host needs for it.

    In a step the host runs ahead, and graphs spare the copy. Where nobody measured such calls, they take what the sum does.

    Raises:
        UnknownError: as `collective_seconds`.
    """
    name, issue = item.name, hw.parameters.get(f"fabric.{hw.levels[0].name}.custom_all_reduce.issue")
    if issue is None:
        return collective_seconds(item, hw, custom_all_reduce=True)
    copied = repeated_bytes.term(f"{name}.copied_bytes", count=READ_AND_WRITTEN, size=item.size)
    device = {
        "copy": stream_seconds(Stream(name=f"{name}.copy", size=copied, launches=ONE), hw),
        "sum": collective_seconds(item, hw, custom_all_reduce=True),
    }
    host = fabric.collective_seconds.term(
        f"{name}.host_s", transfer=NO_TIME, latency=issue, residual=hw.parameter("all_reduce_residual")
    )
    return greatest(f"{name}.called_s", {"host": host, "device": total(f"{name}.device_s", device)})
