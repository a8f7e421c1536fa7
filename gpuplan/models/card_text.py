"""What does a card look like as a file, such as the one that `gpuplan models import` writes?"""

from __future__ import annotations

from typing import Any

import yaml

from gpuplan.models.architecture import Part
from gpuplan.models.card import ModelCard

_INLINE = ("mixer", "mixer2", "cross", "mlp")


class _Line(dict[str, Any]):
    """A mapping that is written on one line."""


class _Row(list[Any]):
    """A list that is written on one line."""


class _Writer(yaml.SafeDumper):
    """Writes marked mappings and lists on one line."""


def _line(writer: yaml.SafeDumper, value: _Line) -> yaml.Node:
    return writer.represent_mapping("tag:yaml.org,2002:map", value, flow_style=True)


def _row(writer: yaml.SafeDumper, value: _Row) -> yaml.Node:
    return writer.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)


_Writer.add_representer(_Line, _line)
_Writer.add_representer(_Row, _row)


def card_text(card: ModelCard) -> str:
    """The YAML text of a card; fields at their defaults are left out, and the strict reader reads the same card from it."""
    data = card.model_dump(mode="json", exclude_defaults=True)
    data = {"format": card.format, **data}
    architecture = data["architecture"]
    for stack, shown in zip(card.architecture.stacks, architecture["stacks"], strict=True):
        for name, block in stack.blocks.items():
            for key in _INLINE:
                part: Part | None = getattr(block, key)
                if part is not None:
                    fields = shown["blocks"][name][key]
                    shown["blocks"][name][key] = _Line({"kind": getattr(part, "kind", None), **fields})
        shown["layers"] = [_Line(run) for run in shown["layers"]]
    for holder in (data, data.get("weights", {})):
        for key in ("aliases", "excluded", "block"):
            if key in holder:
                holder[key] = _Row(holder[key])
    order = [key for key in ModelCard.model_fields if key in data]
    return yaml.dump({key: data[key] for key in order}, Dumper=_Writer, sort_keys=False, width=128, allow_unicode=True)
