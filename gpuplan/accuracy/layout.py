"""What does a row say of its pipeline: layers of the first and the last stage, and modules of multi-token prediction?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_GROUP = re.compile(r"\(([^()]*)\)\*(\d+)")
_ONE = re.compile(r"(\w)\*(\d+)")
_WORDS = re.compile(r"first stage (\d+) layers?, last stage (\d+)")


def stages_of(run: Mapping[str, Any], pp: int) -> dict[str, Any]:
    """Layers of the stages at the ends, where the row states its layout.

    >>> stages_of({"pipeline_layout": "Et*4|(t*4|)*14tmL"}, 4)
    {'first_stage_layers': 16, 'last_stage_layers': 13}
    >>> stages_of({"pipeline_layout": "first stage 7 layers, last stage 6"}, 8)
    {'first_stage_layers': 7, 'last_stage_layers': 6}
    """
    said = str(run.get("pipeline_layout") or "")
    if pp < 2:
        return {}
    if words := _WORDS.search(said):
        return {"first_stage_layers": int(words[1]), "last_stage_layers": int(words[2])}
    chunks = chunks_of(said)
    if len(chunks) < pp or len(chunks) % pp:
        return {}
    # Chunks go round the stages.
    layers = [sum(chunk.count("t") for chunk in chunks[rank::pp]) for rank in (0, pp - 1)]
    return {"first_stage_layers": layers[0], "last_stage_layers": layers[1]}


def modules_of(run: Mapping[str, Any]) -> int:
    """Modules of multi-token prediction: as the row says, else as its layout places them; otherwise none.

    >>> modules_of({"mtp": "with, depth 1"}), modules_of({"pipeline_layout": "Et|(tt|)*30mL", "mtp": "not stated"})
    (1, 1)
    >>> modules_of({"pipeline_layout": "Et|(tt|)*30mL", "mtp": "without"}), modules_of({})
    (0, 0)
    """
    said, words = run.get("mtp_layers"), str(run.get("mtp") or "")
    if said is not None:
        return int(said)
    if words.startswith("with,"):
        return 1
    return 0 if words == "without" else sum(chunk.count("m") for chunk in chunks_of(str(run.get("pipeline_layout") or "")))


def chunks_of(layout: str) -> list[str]:
    """The chunks of a layout as Megatron-Core writes it: E embedding, t layer, m module, L loss, `|` between chunks.

    >>> chunks_of("Et|(tt|)*2mL")
    ['Et', 'tt', 'tt', 'mL']
    """
    if "L" not in layout or " " in layout:
        return []
    while (grown := _GROUP.sub(lambda found: found[1] * int(found[2]), layout)) != layout:
        layout = grown
    return _ONE.sub(lambda found: found[1] * int(found[2]), layout).split("|")
