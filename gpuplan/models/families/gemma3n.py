"""Gemma 3n: four residual streams, an embedding of each token for each layer, and layers that see the cache of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.models.architecture import Architecture, Block, Mlp
from gpuplan.models.config_reader import Config
from gpuplan.models.families.common import Reader, attention, decoder, depth, finish
from gpuplan.models.families.moe import SLIDING

_WHY = "the library's default"


def gemma3n(c: Config) -> Architecture:
    """The text of Gemma 3n; activations of its first layers are sparse, which no engine makes use of and which is not counted."""
    layers, hidden = depth(c), c.count("hidden_size", default=2048, why=_WHY)
    window = c.count("sliding_window", default=512, why=_WHY)
    full = attention(c, kv_default=2, heads_default=8, head_dim_default=256, qk_norm="head")
    words = c.words("layer_types", layers, SLIDING) or [SLIDING[(at + 1) % 5 != 0] for at in range(layers)]
    said = c.raw("intermediate_size")
    inner = list(said) if isinstance(said, list) else [c.count("intermediate_size", default=16_384, why=_WHY)] * layers
    if len(inner) != layers or not all(isinstance(one, int) and one > 0 for one in inner):
        c.problem("model.bad-field", f"`intermediate_size` has {len(inner)} entries for {layers} layers", "one width a layer")
        inner = [1] * layers
    own = layers - c.count("num_kv_shared_layers", default=15, least=0, why=_WHY)
    streams, rank = c.count("altup_num_inputs", default=4, why=_WHY), c.count("laurel_rank", default=64, why=_WHY)
    width = c.count("hidden_size_per_layer_input", default=256, why=_WHY)
    rows = c.count("vocab_size_per_layer_input", default=262_144, why=_WHY)
    c.raw("altup_active_idx", "altup_coef_clip", "altup_correct_scale", "activation_sparsity_pattern")
    blocks, layout = {}, []
    for at in range(layers):
        kind = "sliding" if words[at] == "sliding_attention" else "full"
        name = kind + ("" if at < own else "_borrowing") + (f"_{inner[at]}" if inner[at] != inner[0] else "")
        layout.append(name)
        one = full.replaced(window=window if kind == "sliding" else None, borrowed_cache=at >= own)
        blocks[name] = Block(
            mixer=one, mlp=Mlp(width=inner[at]), norms=6, streams=streams, altup=True, bottlenecks=(rank, width)
        )  # fmt: skip
    extra = {
        "layer_embedding": rows * layers * width,
        "layer_projection": hidden * layers * width + width,
        "stream_projections": 2 * (streams - 1) * hidden * hidden,
    }
    c.note(
        "what makes four streams of one, one of four, and the embedding of each layer is counted, but its time is not", "model.note"
    )
    return finish(c, [decoder(layout, blocks)], tied=True, extra=extra, vocab_default=262_400)


READERS: Mapping[str, Reader] = {"gemma3n_text": gemma3n}
"""`model_type` to the function that reads it."""
