"""How many bytes does a value of each part of a model take in a checkpoint that mixes types?"""

from __future__ import annotations

from gpuplan.models.architecture import Architecture
from gpuplan.models.gguf_mixture import FILE_TYPES, mixture

StoredPart = tuple[str, str, float]
"""The name of a kind of layer (empty: of the whole model), a part of it, and the bytes that a value takes in it, with scales.

Parts of layers are those of `gpuplan.models.count` (`mixer`, `cross`, `mlp`, `experts`); those of the whole model are
`EMBEDDING` and `HEAD`.
"""
EMBEDDING = "embedding"
HEAD = "head"
"""The matrix that makes logits, and the norm before it."""


KEPT = frozenset(("mxfp4",))
"""Types of checkpoints whose experts files of llama.cpp keep as they are, also where the file is named after another type.

Unsloth's `gpt-oss-20b-Q4_K_M.gguf` has 11,624,759,488 bytes and its Q8_0 12.1 GB: every file of gpt-oss keeps the experts in MXFP4
(https://github.com/AlexsJones/llmfit/pull/1059, Problem).
"""


def parts_of_file_type(arch: Architecture, name: str, checkpoint: str = "") -> tuple[StoredPart, ...]:
    """The parts of an architecture as a file type of llama.cpp stores them; none for a format that is no file type.

    `checkpoint`: the method that its weights are published in.

    >>> from gpuplan.models.catalog import find
    >>> arch = find("llama-3.1-8b").architecture
    >>> parts_of_file_type(arch, "q4_k_m")[-2:], parts_of_file_type(arch, "bf16")
    ((('', 'embedding', 0.5625), ('', 'head', 0.8203125)), ())
    """
    if name not in FILE_TYPES:
        return ()
    made = mixture(arch, name, checkpoint if checkpoint in KEPT else "")
    layers = tuple((kind, part, size) for (kind, part), size in made.parts.items())
    return (*layers, ("", EMBEDDING, made.embedding), ("", HEAD, made.head))
