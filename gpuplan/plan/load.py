"""What load is a serving plan under: requests that are in flight all the time, that come at a rate, or that come at once?"""

from __future__ import annotations

from gpuplan.num import Num
from gpuplan.plan.words import Arrival
from gpuplan.record import Record


class Load(Record, kw_only=True):
    """Requests as they come, of all replicas together; each replica gets its even share of them."""

    arrival: Arrival
    """`closed`: a new request for each that is done; `poisson`: at random at a mean rate; `burst`: all of them at once."""
    concurrency: Num | None = None
    """Requests in flight at all times, or all of a burst."""
    rate: Num | None = None
    """Requests a second."""
    requests: Num | None = None
    """Requests of the whole run, of which the first come at once where they are in flight all the time; None: it never ends."""
    cached_share: float = 0.0
    """The part of each prompt that the prefix cache holds."""
    cached_prefixes: float | None = None
    """How many different beginnings that part is of all prompts; None: nobody says."""
    prompt_spread: float = 0.0
    """Standard deviation of the prompts' lengths over their mean."""
    output_spread: float = 0.0
    evenness_said: bool = True
    """Whether the question says how unlike outputs are; else they are taken as of one length, which is a doubt."""
