"""Which type does llama.cpp's quantiser store each matrix of a model in, for a file type such as `Q4_K_M`?

A file type is a mixture: most matrices have its base type, values of attention and the products back to the hidden width have more
bits in some layers, and embedding and head have types of their own. Norms, biases and routers stay in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuplan.models.architecture import Architecture
from gpuplan.models.block_types import BLOCK_TYPES
from gpuplan.models.gguf_tensors import Category, Matrix, layers_alike
from gpuplan.models.mixers import Attention
from gpuplan.record import Record, field
from gpuplan.term import Source

QUANTISER = Source(
    "docs", "llama.cpp: the quantiser's choice of a type for each tensor",
    "https://github.com/ggml-org/llama.cpp/blob/007dbbf3fd17eefe9b47fee45f48f7ba5e62b714/src/llama-quant.cpp",
    "llama_tensor_get_type_impl, tensor_type_fallback", "2026-11-22",
)  # fmt: skip
FEW = 4
"""Query heads to a key head from which a matrix of values is small enough to be given more bits."""
EIGHT = 8
"""Experts of the models for which attention is given more bits, as it is small beside them."""
LARGE = 80
"""Layers of a model with grouped heads whose values are given more bits (the quantiser's 70B)."""


class _At(Record):
    """Where a matrix stands: its layer of how many, query heads to a key head, and experts of the model."""

    layer: int
    layers: int
    grouped: float
    experts: int

    def more(self) -> bool:
        """The first and the last eighth of the layers, and every third between them."""
        eighth = self.layers // 8
        return self.layer < eighth or self.layer >= 7 * self.layers // 8 or (self.layer - eighth) % 3 == 2


_Rule = tuple[Callable[[_At], bool], str]
"""When, and the type that is taken then."""


def _always(name: str) -> _Rule:
    return lambda at: True, name


def _first(layers: int, name: str) -> _Rule:
    return lambda at: at.layer < layers, name


def _part(ways: int, name: str) -> _Rule:
    return lambda at: at.layer < at.layers // ways, name


def _more(name: str) -> _Rule:
    return _At.more, name


def _grouped(name: str) -> _Rule:
    return lambda at: at.grouped >= FEW, name


def _many(name: str) -> _Rule:
    """Few key heads, or several experts."""
    return lambda at: at.grouped >= FEW or at.experts >= FEW, name


def _middle(name: str) -> _Rule:
    return lambda at: at.layers // 8 <= at.layer < 7 * at.layers // 8, name


def _eight(name: str) -> _Rule:
    return lambda at: at.experts == EIGHT, name


def _eight_more(name: str) -> _Rule:
    return lambda at: at.experts == EIGHT and at.more(), name


class FileType(Record, kw_only=True):
    """A mixture: its base type, those of head and embedding, and rules by category of matrix, the first that holds."""

    base: str
    head: str = "q6_k"
    """The output matrix, and an embedding that is the output matrix too."""
    embedding: str = ""
    """An embedding beside an output matrix; empty: the base type."""
    rules: Mapping[Category, tuple[_Rule, ...]] = field(default_factory=dict)
    boosted: bool = True
    """Attention's keys and values take eight bits in models of eight experts, and values five in large ones."""
    experts: str = ""
    """Matrices of experts; empty: as the others."""


_OUT8 = _eight("q5_k")
_TINY: Mapping[Category, tuple[_Rule, ...]] = {
    "value": (_many("q4_k"), _always("q2_k")), "key": (_eight("q4_k"),), "down": (_part(8, "q2_k"),), "output": (_OUT8,),
}  # fmt: skip
_TINIEST: Mapping[Category, tuple[_Rule, ...]] = {**_TINY, "output": (_OUT8, _always("iq2_xxs"))}
_TWO: Mapping[Category, tuple[_Rule, ...]] = {
    "value": (_many("q4_k"), _always("iq3_s")), "key": (_eight("q4_k"),), "down": (_part(8, "iq3_s"),),
    "output": (_OUT8, _always("iq3_s")),
}  # fmt: skip

FILE_TYPES: Mapping[str, FileType] = {
    "q4_0": FileType(base="q4_0"),
    "q4_1": FileType(base="q4_1"),
    "q5_0": FileType(base="q5_0"),
    "q5_1": FileType(base="q5_1"),
    "q8_0": FileType(base="q8_0", head="q8_0"),
    "q2_k": FileType(
        base="q2_k",
        rules={"value": (_grouped("q4_k"), _always("q3_k")), "down": (_always("q3_k"),), "output": (_OUT8, _always("q3_k"))},
    ),
    "q2_k_s": FileType(base="q2_k", rules={"value": (_grouped("q4_k"),), "down": (_part(8, "q4_k"),)}),
    "q3_k_s": FileType(base="q3_k", rules={"output": (_OUT8,)}),
    "q3_k_m": FileType(
        base="q3_k",
        rules={
            "value": (_first(2, "q5_k"), _always("q4_k")), "down": (_part(16, "q5_k"), _always("q4_k")),
            "output": (_OUT8, _always("q4_k")),
        },
    ),
    "q3_k_l": FileType(
        base="q3_k", rules={"value": (_always("q5_k"),), "down": (_always("q5_k"),), "output": (_eight("q3_k"), _always("q5_k"))}
    ),
    "q4_k_s": FileType(base="q4_k", rules={"value": (_first(4, "q5_k"),), "down": (_part(8, "q5_k"),), "output": (_OUT8,)}),
    "q4_k_m": FileType(base="q4_k", rules={"value": (_more("q6_k"),), "down": (_more("q6_k"),), "output": (_OUT8,)}),
    "q5_k_s": FileType(base="q5_k"),
    "q5_k_m": FileType(base="q5_k", rules={"value": (_more("q6_k"),), "down": (_more("q6_k"),)}),
    "q6_k": FileType(base="q6_k"),
    "iq1_s": FileType(base="iq1_s", head="q5_k", embedding="q2_k", rules=_TINIEST, boosted=False),
    "iq1_m": FileType(base="iq1_m", head="q5_k", embedding="q2_k", rules=_TINIEST, boosted=False),
    "iq2_xxs": FileType(base="iq2_xxs", head="q5_k", embedding="q2_k", rules=_TINY, boosted=False),
    "iq2_xs": FileType(base="iq2_xs", head="q5_k", embedding="q2_k", rules=_TINY, boosted=False),
    "iq2_s": FileType(base="iq2_xs", head="q5_k", embedding="iq3_s", rules=_TWO, boosted=False),
    "iq2_m": FileType(base="iq2_s", head="q5_k", embedding="iq3_s", rules=_TWO, boosted=False),
    "iq3_xxs": FileType(
        base="iq3_xxs", head="q5_k", embedding="iq3_s",
        rules={
            "value": (_grouped("q4_k"),), "key": (_always("iq2_s"),), "query": (_always("iq2_s"),),
            "output": (_OUT8, _always("iq3_s")),
        },
    ),
    "iq3_xs": FileType(
        base="iq3_s",
        rules={
            "value": (_grouped("q4_k"),), "key": (_always("iq3_xxs"),), "query": (_always("iq3_xxs"),),
            "gate": (_middle("iq3_xxs"),), "up": (_middle("iq3_xxs"),), "output": (_OUT8,),
        },
    ),
    "iq3_s": FileType(base="iq3_s", rules={"value": (_grouped("q4_k"),), "output": (_OUT8,)}),
    "iq3_m": FileType(
        base="iq3_s",
        rules={
            "value": (_always("q4_k"),), "down": (_part(8, "q4_k"), _eight_more("q4_k")), "output": (_OUT8, _always("q4_k")),
        },
    ),
    "iq4_xs": FileType(base="iq4_xs", rules={"value": (_grouped("q5_k"),), "output": (_OUT8,)}),
    "iq4_nl": FileType(base="iq4_nl", rules={"value": (_grouped("q5_k"),), "output": (_OUT8,)}),
    "tq1_0": FileType(base="tq1_0", embedding="q4_k"),
    "tq2_0": FileType(base="tq2_0", embedding="q4_k"),
    "mxfp4_moe": FileType(base="q8_0", head="q8_0", experts="mxfp4", boosted=False),
}  # fmt: skip
"""The file types of llama.cpp. Those of four bits and less whose names begin with `i` are made with an importance matrix, the
others without one, as they are published."""

_FALLBACK = {
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_xs"), "iq4_nl"),
    **dict.fromkeys(("q2_k", "q3_k", "tq1_0", "tq2_0"), "q4_0"), "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
}  # fmt: skip
"""What takes the place of a type whose blocks do not divide a row."""


def stored_as(wanted: str, row: int) -> str:
    """The type of a matrix whose rows may be no whole number of the wanted type's blocks.

    >>> stored_as("q4_k", 4096), stored_as("q4_k", 2880), stored_as("q6_k", 100)
    ('q4_k', 'q5_0', 'fp16')
    """
    if row % BLOCK_TYPES[wanted].values == 0:
        return wanted
    other = _FALLBACK.get(wanted, "fp16")
    return other if row % BLOCK_TYPES[other].values == 0 else "fp16"


class Mixture(Record, kw_only=True):
    """Bytes of a value of each part of each kind of layer, and of embedding and head."""

    parts: Mapping[tuple[str, str], float]
    embedding: float
    head: float
    """Of the matrix that makes logits; where that is the embedding, the same."""


def mixture(arch: Architecture, name: str, experts_in: str = "") -> Mixture:
    """How the file of a type stores the matrices of an architecture; `experts_in`: the type that experts keep in any file.

    >>> from gpuplan.models.catalog import find
    >>> made = mixture(find("llama-3.1-8b").architecture, "q4_k_m")
    >>> made.embedding * 8, made.head * 8, round(made.parts["layer", "mlp"] * 8, 3)
    (4.5, 6.5625, 4.844)
    """
    of = FILE_TYPES[name].replaced(experts=experts_in) if experts_in else FILE_TYPES[name]
    kinds = [mixer for mixer in arch.mixers if isinstance(mixer, Attention)]
    grouped = kinds[0].heads / kinds[0].kv_heads if kinds else 1.0
    experts = max((moe.experts for moe in arch.moes), default=0)
    held: dict[tuple[str, str], list[float]] = {}
    depth = arch.depth
    places = [_At(layer, depth, grouped, experts) for layer in range(depth)]
    # Matrices of values count for themselves: a layer may have none of them, or two.
    values_seen = 0
    for kind, layers, matrices in layers_alike(arch):
        for one in matrices:
            found = held.setdefault((kind, one.part), [0.0, 0.0])
            if one.category not in of.rules:  # It is stored alike in every layer: values of bytes / 2**k add up exactly.
                block = BLOCK_TYPES[stored_as(_type(of, one, places[0]), one.row)]
                found[0] += one.values * len(layers)
                found[1] += one.values * len(layers) * block.bytes_per_value
        varied = [one for one in matrices if one.category in of.rules]
        for layer in layers if varied else ():
            for one in varied:
                number = values_seen if one.category == "value" else layer
                at = places[number] if number < len(places) else _At(number, depth, grouped, experts)
                values_seen += one.category == "value"
                block = BLOCK_TYPES[stored_as(_type(of, one, at), one.row)]
                found = held[kind, one.part]
                found[0] += one.values
                found[1] += one.values * block.bytes_per_value
    width = arch.embedding_width or arch.hidden
    top = _top(of, width)
    own = top if arch.tied else stored_as(of.embedding or of.base, width)
    return Mixture(
        parts={key: size / values for key, (values, size) in held.items()},
        embedding=BLOCK_TYPES[own].bytes_per_value, head=BLOCK_TYPES[top].bytes_per_value,
    )  # fmt: skip


def _top(of: FileType, width: int) -> str:
    """The type of the matrix that makes logits."""
    return "q8_0" if width % BLOCK_TYPES[of.base].values else stored_as(of.head, width)


def _type(of: FileType, tensor: Matrix, at: _At) -> str:
    """The type that the mixture wants a matrix of a layer in."""
    if of.experts and tensor.experts:
        return of.experts
    found = next((name for when, name in of.rules.get(tensor.category, ()) if when(at)), of.base)
    if not of.boosted or tensor.category not in ("key", "value"):
        return found
    if at.experts == EIGHT:
        return "q8_0"
    if tensor.category == "value" and at.layers == LARGE and at.grouped > 1 and found in ("q3_k", "q4_k"):
        return "q5_k"
    return found
