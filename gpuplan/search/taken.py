"""Which options does a kind of question not take, and what is said to somebody who gives them?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.errors import Problem, UsageError
from gpuplan.plan.common import Common
from gpuplan.plan.disaggregated import SIDES, TRIGGERS
from gpuplan.plan.option import LOADED, entries
from gpuplan.record import Record, field
from gpuplan.search.load import SIMULATED

SIMULATES = (*SIMULATED, "simulate", "trace")
HOSTED = ("gpu_layers", "host_experts", "host_weights")
DEGREES = ("tp", "pp", "dp", "ep")


class Kind(Record, kw_only=True):
    """A kind of question, and the options that it does not take."""

    code: str
    where: str
    """When they are not taken, as it is said."""
    options: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    """All options of these headings."""
    ones: tuple[str, ...] = ()
    """Degrees that may only be one."""
    pins: bool = True
    """Whether the user may set terms."""
    hint: str
    hints: Mapping[str, str] = field(default_factory=dict)
    """What to do about some of them, in place of the hint."""


KINDS: Mapping[str, Kind] = {
    "unlike": Kind(
        code="plan.unlike", where="where unlike accelerators share the layers of a model out",
        options=(
            "own", "pue", *HOSTED, "attention_dp", "decode_cp", "draft", "images", "audio", "beams", *TRIGGERS, *SIDES
        ),
        panels=(LOADED,),
        ones=DEGREES, pins=False, hint="leave it out, or name accelerators that are alike",
    ),
    "pair": Kind(
        code="disaggregated.option", where="with workers of two kinds", options=("command", "engine_args", "dp", *HOSTED),
        hint="leave it out", hints={"dp": "use --prefill-workers and --decode-workers"},
    ),
    "steady pair": Kind(
        code="disaggregated.option", where="with workers of two kinds that are not simulated",
        options=(*SIMULATES, "cached_share", "cached_prefixes"),
        hint="leave it out, or add --simulate",
    ),
    "pictures": Kind(
        code="diffusion.option", where="of a diffusion model, which is replicated and not cut", ones=("tp", "pp", "ep"),
        hint="leave it out",
    ),
}  # fmt: skip
"""By the kind of question, what it does not take."""


def refuse(ask: Common, kind: str, *, but: frozenset[str] | None = None) -> None:
    """Refuse the options that a kind of question does not take; `but`: all that are not among these are not taken either.

    Raises:
        UsageError: all of them together, by what to do about them.
    """
    made, every = KINDS[kind], entries(type(ask))
    names = {name for name, entry in every.items() if name in made.options or entry.option.panel in made.panels}
    names |= set() if but is None else {name for name in every if name not in but}
    given = {name: getattr(ask, name) for name in every if name in names | set(made.ones)}
    wrong = [name for name, value in given.items() if value is not None and not (name in made.ones and value == 1)]
    flags: dict[str, list[str]] = {}
    for name in wrong:
        flags.setdefault(made.hints.get(name, made.hint), []).append(every[name].flag)
    if ask.pins and not made.pins:
        flags.setdefault(made.hint, []).append("--set")
    problems = [Problem(made.code, f"{', '.join(some)}: not {made.where}", hint) for hint, some in flags.items()]
    if problems:
        raise UsageError(*problems)
