"""A GGUF file of every kind of model has the architecture of its card: the same values, keys, states and experts."""

import pytest

from gpuplan.models.architecture import Moe
from gpuplan.models.catalog import find
from gpuplan.models.checkpoint.gguf_model import import_gguf
from gpuplan.models.mixers import Attention
from tests.models.gguf_of import metadata, tensors
from tests.models.made_files import gguf

CARDS = (
    "qwen3-8b", "qwen2.5-7b", "gemma-3-27b", "gemma-2-9b", "gpt-oss-20b", "mixtral-8x7b", "deepseek-v2-lite", "deepseek-v3",
    "deepseek-v3.2", "qwen3-30b-a3b", "falcon-7b", "falcon-40b", "bert-base", "gpt2", "nemotron-h-56b", "falcon-h1-34b",
    "jamba-v0.1-52b", "qwen3-next-80b-a3b", "mamba2-2.7b", "falcon-mamba-7b", "glm-4.5-air", "phi-4", "command-r-35b", "t5-11b",
    "olmo2-7b", "pythia-6.9b", "nemotron-3-nano-30b-a3b", "starcoder2-7b", "minimax-m2",
)  # fmt: skip


@pytest.mark.parametrize("name", CARDS)
def test_shapes_and_metadata_make_the_architecture_of_the_card(tmp_path, name):
    card = find(name)
    arch = card.architecture.replaced(extra_params={})
    rows = list(tensors(arch))
    made = import_gguf(gguf(tmp_path / f"{name}.gguf", metadata(arch, "made"), rows))
    held = sum(_values(row[2]) for row in rows)
    assert made.count().params_total.value == held
    assert held == pytest.approx(card.replaced(architecture=arch).count().params_total.value, rel=1e-3)
    ours, theirs = _layers(made.architecture), _layers(arch)
    assert len(ours) == len(theirs)
    for mine, block in zip(ours, theirs, strict=True):
        assert [_seen(one) for one in mine.mixers] == [_seen(one) for one in block.mixers]
        assert mine.parallel == block.parallel
        if isinstance(block.mlp, Moe):
            assert isinstance(mine.mlp, Moe)
            same = ("experts", "top_k", "width", "gated", "shared_experts", "shared_width")
            assert [getattr(mine.mlp, key) for key in same] == [getattr(block.mlp, key) for key in same]
    assert made.architecture.head == arch.head
    assert made.architecture.tied == (arch.tied and arch.head)
    assert made.stored is not None
    plain = sum(_values(row[2]) * (4 if row[1] == "f32" else 2) for row in rows)
    assert made.stored.total == plain
    assert not made.notes


def _values(shape) -> int:
    made = 1
    for one in shape:
        made *= one
    return made


def _layers(arch):
    return [stack.blocks[run.block] for stack in arch.stacks for run in stack.layers for _ in range(run.count)]


def _seen(mixer):
    said = mixer.plain()
    if isinstance(mixer, Attention):
        said.pop("relative_bias_buckets")
    return {key: one for key, one in said.items() if key not in ("bias", "inner_norms", "gated_norm", "dt_rank", "conv_bias")}
