"""Which accelerators does `--on NAME+NAME` name, and may they be unlike each other?"""

from __future__ import annotations

from gpuplan.errors import GpuplanError, Problem, UsageError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.target import Target, counted, too_many
from gpuplan.specs.target_by_name import target_by_name

JOINED = "+"
MOST = 64
"""Accelerators of one host, with room to spare: layers are shared out one by one."""


def is_joined(text: str, catalog: Catalog) -> bool:
    """Whether a text names accelerators that are joined by a `+`, and is no name that has one (`n1-standard-8+1xnvidia-t4`)."""
    if JOINED not in text:
        return False
    from gpuplan.specs.kinds_of_parts import nearest  # Names of parts may end with the sign: `xeon-8592+`.

    if nearest(text):
        return False
    from gpuplan.specs.plain_names import known_as

    # As drivers and shops write, not as people join.
    written = "/" in text or "(" in text or " " in text.strip().partition(JOINED)[0]
    if written and known_as(text, catalog) is not None:
        return False
    try:
        return target_by_name(text, catalog) is None
    except GpuplanError:
        return True


def joined_accelerators(text: str, catalog: Catalog) -> tuple[Target, ...]:
    """Each single accelerator that `2xrtx-3090+rtx-3060` names, in order.

    Raises:
        UsageError: a part is no accelerator of its own, or there are more than any host has.
        UnknownError: nothing is called that.
        SpecError: a data file is wrong.
    """
    from gpuplan.specs.on import parse_target

    found: list[Target] = []
    for part in text.split(JOINED):
        if not part.strip():
            what = f"`{text}` names nothing on one side of a `+`"
            raise UsageError(Problem("target.joined", what, "join accelerators of one host, such as `rtx-4090+rtx-3090`"))
        count, name = counted(part)
        if len(found) + count > MOST:
            raise too_many(text, None)
        one = parse_target(name, catalog)
        if one.count != 1 or one.system is not None or one.instance is not None or one.share != 1.0:
            what = f"`{name}` in `{text}` is more, or less, than an accelerator of its own"
            raise UsageError(Problem("target.joined", what, "join accelerators of one host, such as `rtx-4090+rtx-3090`"))
        if one.host_link is None and JOINED in text:
            what = f"`{name}` in `{text}` shares the memory of its host: there is no place beside it for another accelerator"
            raise UsageError(Problem("target.joined", what, "join accelerators of one host, such as `rtx-4090+rtx-3090`"))
        found += [one] * count
    return tuple(found)


def refuse_joined(text: str) -> UsageError:
    """What to say where unlike accelerators cannot be taken."""
    what = f"`{text}` joins unlike accelerators, which only `gpuplan serve` takes, where the engine shares layers out"
    return UsageError(Problem("target.unlike", what, "name accelerators that are alike, such as `2xrtx-3090`"))
