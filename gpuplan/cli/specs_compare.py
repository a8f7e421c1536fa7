"""Side by side: how do the datasheets of some accelerators differ?"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpuplan.cli.specs import open_catalog
from gpuplan.errors import Problem, UsageError


def side_by_side(words: Sequence[str]) -> None:
    """Print the datasheets of some accelerators beside each other (`gpuplan compare h100 h200`)."""
    from gpuplan.render.compare import side_by_side_text
    from gpuplan.render.spec import chips_table
    from gpuplan.render.text import look_of
    from gpuplan.specs.accelerator import Accelerator

    odd = [word for word in words if word.startswith("-")]
    if odd:
        hint = "a comparison of estimates names its command first: `gpuplan compare serve MODEL --on A --on B`"
        raise UsageError(Problem("usage.no-such-option", f"`{odd[0]}` means nothing between names of accelerators", hint))
    catalog = open_catalog(None)
    made = [catalog.load(Accelerator, word) for word in words]
    sys.stdout.write(side_by_side_text([spec.id for spec in made], chips_table(made), look_of(sys.stdout)))
