"""How does a replica schedule, and what has it room for?"""

from __future__ import annotations

from gpuplan.record import Record


class Rules(Record, kw_only=True):
    """How a replica schedules, and what it has room for: of each of its ranks, where attention has several."""

    tokens: int
    """Of one step at most, in all stages of a pipeline together."""
    sequences: int
    mixes: bool
    """A step holds prompts beside sequences that decode; otherwise decoding waits for prompts."""
    cuts: bool
    """Prompts are cut where a step has no room for all of one; otherwise whoever runs it lets a step hold the longest, at least."""
    reserves_output: bool
    """Room for the whole output is kept from the start; otherwise the last sequences are sent back where there is none left."""
    pages: int
    """Of the caches; a sequence has pages of its own."""
    page_tokens: int
    """Tokens of a page; 0: what a sequence keeps does not grow."""
    fixed_pages: int = 0
    """What a sequence keeps however long it is."""
    verified: int = 1
    """Tokens of a sequence that decodes in a step: more than one where drafts are verified."""
    looks: int = 1
    """Decode steps after which it looks at new requests again, which it does after each step with prompts and while it is idle."""

    def room(self, tokens: int) -> int:
        """Pages of a sequence of so many tokens."""
        return self.fixed_pages + (-(-tokens // self.page_tokens) if self.page_tokens else 0)
