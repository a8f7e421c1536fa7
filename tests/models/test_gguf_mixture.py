"""Are files of llama.cpp's types as large as those that were published?"""

from __future__ import annotations

import pytest

from gpuplan.models.architecture import Architecture
from gpuplan.models.catalog import find
from gpuplan.models.gguf_mixture import FILE_TYPES, mixture, stored_as
from gpuplan.models.gguf_tensors import layer_tensors
from gpuplan.plan.precision import STORED

README = {
    "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "iq2_xs": 2.5882, "iq2_s": 2.7403, "iq2_m": 2.9294, "iq3_xxs": 3.2548,
    "iq3_xs": 3.4977, "iq3_s": 3.6606, "iq3_m": 3.7628, "q2_k_s": 2.9697, "q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_l": 4.2979,
    "q4_k_s": 4.6672, "q4_k_m": 4.8944, "q5_k_s": 5.5704, "q5_k_m": 5.7036, "q6_k": 6.5633, "q8_0": 8.5008,
    "iq4_xs": 4.4597, "iq4_nl": 4.6818,
}  # fmt: skip
"""Bits a weight of Llama 3.1 8B: llama.cpp, tools/quantize/README.md at 311c2c9f. The last two were made without the matrix of
importance that others make theirs with."""
FILES = {
    "llama-3.1-70b": {
        "q8_0": 74.98, "q6_k": 57.89, "q5_k_m": 49.95, "q5_k_s": 48.66, "q4_k_m": 42.52, "q4_k_s": 40.35, "q4_0": 40.12,
        "iq4_xs": 37.90, "q3_k_l": 37.14, "q3_k_m": 34.27, "iq3_m": 31.94, "q3_k_s": 30.91,
    },
    "mixtral-8x22b": {
        "q5_k_m": 99.96, "q5_k_s": 96.97, "q4_k_m": 85.58, "q4_k_s": 80.47, "q3_k_l": 72.57, "q3_k_m": 67.78, "iq3_m": 64.49,
        "iq3_s": 61.49, "q3_k_s": 61.49, "iq3_xs": 58.22, "q2_k": 52.10,
    },
    "qwen3-32b": {"q8_0": 34.82},
    "gemma-2-9b": {"q8_0": 9.82},
}  # fmt: skip
"""GB of files on Hugging Face, as the READMEs of bartowski/Llama-3.1-Nemotron-70B-Instruct-HF-GGUF, Mixtral-8x22B-v0.1-GGUF,
Qwen_Qwen3-32B-GGUF and gemma-2-9b-it-GGUF list them."""
CLOSE = 0.01


def _size(arch: Architecture, name: str) -> tuple[float, float]:
    """Bytes of the matrices of a file, and how many values they hold."""
    made = mixture(arch, name)
    sizes = [(one.values, one.values * made.parts[one.kind, one.part]) for one in layer_tensors(arch)]
    edge = float(arch.vocab * (arch.embedding_width or arch.hidden))
    sizes.append((edge, edge * made.embedding))
    if not arch.tied:
        sizes.append((edge, edge * made.head))
    return sum(size for _, size in sizes), sum(values for values, _ in sizes)


@pytest.mark.parametrize("name", README)
def test_bits_a_weight_of_a_model_are_as_published(name: str) -> None:
    size, values = _size(find("llama-3.1-8b").architecture, name)
    assert size * 8 / values == pytest.approx(README[name], rel=CLOSE if name.startswith("iq4") else 0.001)


@pytest.mark.parametrize(("model", "name", "gigabytes"), [(m, n, gb) for m, sizes in FILES.items() for n, gb in sizes.items()])
def test_files_are_as_large_as_published(model: str, name: str, gigabytes: float) -> None:
    size, _ = _size(find(model).architecture, name)
    assert size == pytest.approx(gigabytes * 1e9, rel=CLOSE)


@pytest.mark.parametrize("name", FILE_TYPES)
def test_every_file_type_is_a_type_of_weights_and_stores_every_part_in_no_more_than_16_bits(name: str) -> None:
    assert name in STORED
    for model in ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-20b", "gemma-3-4b"):
        made = mixture(find(model).architecture, name)
        assert made.parts
        assert all(0.19 < size <= 2.0 for size in (*made.parts.values(), made.embedding, made.head)), model


def test_rows_that_blocks_do_not_divide_are_stored_in_smaller_blocks() -> None:
    assert [stored_as("q6_k", row) for row in (4096, 2880, 100)] == ["q6_k", "q8_0", "fp16"]
