"""What do the beginnings that prompts share take of the caches, and what is left for each request's own?"""

from __future__ import annotations

import numpy as np

from gpuplan.load.requests import Numbers, Requests
from gpuplan.load.rules import Rules


def with_shared(requests: Requests, rules: Rules) -> tuple[Rules, Numbers | None]:
    """The rules of a replica beside whose sequences the shared beginnings lie, and the pages that these spare each request.

    One beginning that all have is as long as the longest; of several each is as long as they are in the mean. None: sharing
    nothing makes more room, because there are more beginnings than requests have room, or there is none.
    """
    page = rules.page_tokens
    if not requests.prefixes or not page or not len(requests):
        return rules, None
    spared = requests.cached // page
    longest = float(spared.max() if requests.prefixes == 1 else spared.mean())
    lie = int(np.ceil(longest * min(requests.prefixes, len(requests))))
    whole = rules.fixed_pages + float((-(-(requests.prompt + requests.output) // page)).mean())
    own = whole - float(spared.mean())
    if lie >= rules.pages or not lie or (rules.pages - lie) / max(own, 1.0) <= rules.pages / whole:
        return rules, None
    return rules.replaced(pages=rules.pages - lie), spared
