"""How do the ranks of a replica share the experts of a mixture, and caches that they would hold copies of?"""

from __future__ import annotations

from gpuplan.schema import Schema, field
from gpuplan.specs.base import Id
from gpuplan.specs.quantity import CountField, RatioField, SecondsField


class SharedExperts(Schema):
    """How ranks of attention with requests of their own share the experts of a replica."""

    source: Id
    """What says that the engine has them."""
    attention: bool = True
    """Whether ranks of attention may have requests of their own; otherwise experts are spread over tensor parallel ranks alone."""
    gathers: CountField | None = None
    """Ranks up to which all tokens are gathered, where its user says nothing; between more, copies are sent to their experts alone.
    None: all tokens are gathered, unless its user says otherwise."""
    quantised: bool = False
    """Whether tokens are gathered in the type that experts multiply, where that is a narrower one without blocks of scales."""
    summed_prompts: bool = False
    """Whether ranks of a pass with prompts, whose numbers of tokens are unlike, gather all tokens as a sum of buffers that hold
    their own, and sum what experts made for all ranks: twice what gathering and scattering move."""
    redundant: bool = False
    """Whether experts may be held twice."""
    aligned: bool = False
    """Whether ranks read prompts in the same steps; otherwise all wait whenever one does."""
    waits: CountField | None = None
    """Steps for which a rank waits at most until all have a prompt to read; None: it reads one when it comes."""
    whole: bool = False
    """Whether experts are either spread over all ranks of a replica or cut over all of them, and nothing between."""
    sends_on: tuple[Id, ...] = ()
    """Families of accelerators that it has kernels for which send copies of tokens to their experts alone."""
    overlaps: bool = False
    """Whether two micro-batches may compute and travel by turns, where copies are sent."""
    uneven_exchange: dict[str, RatioField] = field(default_factory=dict)
    """How many times as long as in equal parts tokens of a step with prompts travel, of which ranks have unlike numbers, by family
    of accelerators; none: as long."""
    rank_host: dict[str, SecondsField] = field(default_factory=dict)
    """Host time of a step in which ranks tell each other what they run, by family; none: it is hidden."""


class ContextRanks(Schema):
    """How tensor parallel ranks share caches that they would hold copies of, along the context."""

    source: Id
    """What says that the engine has it."""
    latents_alone: bool = False
    """Whether only caches of latents (MLA) are shared so."""


class WholeEncoders(Schema):
    """Encoders of whose layers every accelerator of a replica has a part: none is divided into stages."""

    source: Id
    """What says so."""
    passes: Id | None = None
    """What says that their sequences are not cut, so that a pass has room for the longest; None: they are, as those of decoders."""
