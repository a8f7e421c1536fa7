"""Files of llama.cpp keep experts that a checkpoint has in MXFP4, whatever type names the file."""

from __future__ import annotations

import pytest

import gpuplan
from gpuplan.models.catalog import find
from gpuplan.models.stored_parts import parts_of_file_type

MXFP4_BYTES = 4.25 / 8


@pytest.mark.parametrize("name", ["q2_k", "q4_k_m", "q8_0", "mxfp4_moe"])
def test_experts_of_gpt_oss_stay_as_published(name: str) -> None:
    parts = {(kind, part): size for kind, part, size in parts_of_file_type(find("gpt-oss-20b").architecture, name, "mxfp4")}
    assert parts["full", "experts"] == pytest.approx(MXFP4_BYTES)
    plain = {(kind, part): size for kind, part, size in parts_of_file_type(find("qwen3-30b-a3b").architecture, name, "")}
    assert name == "mxfp4_moe" or all(
        size != pytest.approx(MXFP4_BYTES, rel=1e-4) for (_, part), size in plain.items() if part == "experts"
    )


def test_a_published_file_of_gpt_oss() -> None:
    """unsloth/gpt-oss-20b-GGUF: Q4_K_M has 11,624,759,488 bytes; the table of input embeddings stays with the host."""
    made = gpuplan.serve("gpt-oss-20b", on="h100", engine="llama-cpp", weights="q4_k_m", advise=False)
    table = 201088 * 2880 * 5.5 / 8
    assert float(made["weights_bytes"].value) + table == pytest.approx(11_624_759_488, rel=0.01)
