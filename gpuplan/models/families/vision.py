"""How many parameters does the vision part of a multimodal model hold, where its kind is known?

How it works on images stands in `images.py` beside this.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuplan.models.config_reader import Config

COLOURS = 3


def _layer(hidden: int, width: int) -> int:
    """A ViT layer: two layer norms, four matrices and a feed-forward layer, all with biases."""
    return 4 * hidden + 4 * (hidden * hidden + hidden) + 2 * hidden * width + width + hidden


def siglip_gemma3(v: Config, text_hidden: int) -> int:
    """SigLIP without its head, and Gemma 3's projector (a norm and one matrix)."""
    hidden, patch = v.count("hidden_size"), v.count("patch_size")
    places = (v.count("image_size") // patch) ** 2
    embed = 3 * patch * patch * hidden + hidden + places * hidden
    layers = v.count("num_hidden_layers") * _layer(hidden, v.count("intermediate_size"))
    return embed + layers + 2 * hidden + hidden + hidden * text_hidden


def llama4(v: Config, text_hidden: int) -> int:
    """Llama 4's encoder, pixel-shuffle adapter and projector."""
    hidden, patch, width = v.count("hidden_size"), v.count("patch_size"), v.count("intermediate_size")
    places = (v.count("image_size") // patch) ** 2 + 1
    embed = 3 * patch * patch * hidden + hidden + places * hidden + 4 * hidden
    layers = v.count("num_hidden_layers") * _layer(hidden, width)
    adapter = width * v.count("projector_input_dim") + v.count("projector_input_dim") * v.count("projector_output_dim")
    return embed + layers + adapter + v.count("vision_output_dim") * text_hidden


def qwen3_vl(v: Config, text_hidden: int) -> int:
    """The encoder of Qwen3-VL and Qwen3.5, its merger and the deepstack mergers."""
    hidden, patch, out = v.count("hidden_size"), v.count("patch_size"), v.count("out_hidden_size", default=text_hidden)
    merged = hidden * v.count("spatial_merge_size", default=2) ** 2
    embed = (
        v.count("in_channels", "in_chans", default=3) * v.count("temporal_patch_size", default=2) * patch * patch * hidden + hidden
    )
    embed += v.count("num_position_embeddings") * hidden
    layers = v.count("depth") * _layer(hidden, v.count("intermediate_size"))
    merge = merged * merged + merged + merged * out + out
    deep = len(v.items("deepstack_visual_indexes") or []) * (merge + 2 * merged)
    return embed + layers + merge + 2 * hidden + deep


def qwen25_vl(v: Config, text_hidden: int) -> int:
    """The encoder of Qwen2.5-VL: RMS norms and a gated feed-forward layer with biases."""
    hidden, patch, width = v.count("hidden_size"), v.count("patch_size", "spatial_patch_size"), v.count("intermediate_size")
    out = v.count("out_hidden_size", default=text_hidden)
    merged = hidden * v.count("spatial_merge_size", default=2) ** 2
    embed = 3 * v.count("temporal_patch_size", default=2) * patch * patch * hidden
    layer = 2 * hidden + 4 * (hidden * hidden + hidden) + 3 * hidden * width + 2 * width + hidden
    return embed + v.count("depth") * layer + hidden + merged * merged + merged + merged * out + out


def qwen2_vl(v: Config, text_hidden: int) -> int:
    """The encoder of Qwen2-VL, whose `hidden_size` is the text model's and whose own width is `embed_dim`."""
    why = "the library's default"
    hidden, patch = v.count("embed_dim", default=1280, why=why), v.count("patch_size", "spatial_patch_size", default=14)
    merged = hidden * v.count("spatial_merge_size", default=2) ** 2
    embed = 3 * v.count("temporal_patch_size", default=2) * patch * patch * hidden
    layers = v.count("depth", default=32, why=why) * _layer(hidden, hidden * v.count("mlp_ratio", default=4))
    v.raw("hidden_size")
    return embed + layers + 2 * hidden + merged * merged + merged + merged * text_hidden + text_hidden


def gemma4(v: Config, text_hidden: int) -> int:
    """Gemma 4's encoder: sandwich norms, norms on queries and keys, two tables of positions, one projection."""
    hidden, patch, head_dim = v.count("hidden_size"), v.count("patch_size"), v.count("head_dim")
    v.flag("use_clipped_linears", default=False)  # bounds of what goes in and out, four values a matrix
    embed = 3 * patch * patch * hidden + 2 * v.count("position_embedding_size") * hidden
    layer = 4 * hidden * hidden + 2 * head_dim + 3 * hidden * v.count("intermediate_size") + 4 * hidden
    return embed + v.count("num_hidden_layers") * layer + hidden * text_hidden


def gemma4_unified(v: Config, text_hidden: int) -> int:
    """Gemma 4 12B has no encoder: patches are projected, with a table of places for each of two directions, and once more."""
    patch, width = v.count("patch_size") * v.count("pooling_kernel_size", default=3), v.count("mm_embed_dim", default=text_hidden)
    values = COLOURS * patch * patch
    places = 2 * v.count("mm_posemb_size", default=1120) * width
    return 2 * values + values * width + width + 4 * width + places + width * text_hidden


def llava(v: Config, text_hidden: int) -> int:
    """CLIP's or Pixtral's encoder and LLaVA's projector of two matrices."""
    hidden, patch, width = v.count("hidden_size"), v.count("patch_size"), v.count("intermediate_size")
    layers = v.count("num_hidden_layers")
    projector = hidden * text_hidden + text_hidden * text_hidden
    projector += 2 * text_hidden if v.flag("multimodal_projector_bias", default=True) else 0
    if v.text("model_type") == "pixtral":
        return 3 * patch * patch * hidden + hidden + layers * (2 * hidden + 4 * hidden * hidden + 3 * hidden * width) + projector
    return _clip(v) + projector


def _clip(v: Config) -> int:
    """CLIP's encoder with both of its norms."""
    hidden, patch = v.count("hidden_size"), v.count("patch_size")
    places = (v.count("image_size") // patch) ** 2 + 1
    embed = COLOURS * patch * patch * hidden + hidden + places * hidden + 4 * hidden
    return embed + v.count("num_hidden_layers") * _layer(hidden, v.count("intermediate_size"))


def clip_tower(v: Config, text_hidden: int) -> int:
    """CLIP's encoder, and one matrix to the width that it shares with the text."""
    v.fill({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "image_size": 224, "patch_size": 32})
    return _clip(v) + v.count("hidden_size") * v.count("projection_dim", default=text_hidden)


def siglip_tower(v: Config, text_hidden: int) -> int:
    """SigLIP's encoder, and a head that reads its patches by attention of one learned query."""
    v.fill({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "image_size": 224, "patch_size": 16})
    hidden, patch, width = v.count("hidden_size"), v.count("patch_size"), v.count("intermediate_size")
    places = v.count("num_patches", default=(v.count("image_size") // patch) ** 2)
    embed = COLOURS * patch * patch * hidden + hidden + places * hidden
    head = _layer(hidden, width) - 2 * hidden + hidden
    return embed + v.count("num_hidden_layers") * _layer(hidden, width) + 2 * hidden + head


def mllama(v: Config, text_hidden: int) -> int:
    """The encoder of Llama 3.2 with its tables of positions of tiles, and one projection."""
    hidden, patch, width = v.count("hidden_size"), v.count("patch_size"), v.count("intermediate_size")
    tiles, shapes = v.count("max_num_tiles", default=4), len(v.items("supported_aspect_ratios") or []) + 1
    places = (v.count("image_size") // patch) ** 2 + 1
    embed = COLOURS * patch * patch * hidden + hidden + places * hidden + 1 + shapes * tiles * places * hidden
    embed += 2 * (shapes * tiles * hidden + 1) + 4 * hidden
    layer = 4 * hidden + 4 * hidden * hidden + 2 * hidden * width + width + hidden
    seeing_all = v.count("num_global_layers", default=8)
    out = v.count("vision_output_dim", default=7680)
    return embed + (v.count("num_hidden_layers") + seeing_all) * layer + 2 * seeing_all + out * text_hidden + text_hidden


def mistral3(v: Config, text_hidden: int) -> int:
    """Pixtral's encoder, and the norm and the matrix with which Mistral Small 3.1 merges patches."""
    hidden, merge = v.count("hidden_size"), v.count("spatial_merge_size", default=2)
    return llava(v, text_hidden) + hidden + merge**2 * hidden * hidden


def llava_next(v: Config, text_hidden: int) -> int:
    """LLaVA's, and the token at the end of a row."""
    return llava(v, text_hidden) + text_hidden


def phi3(v: Config, text_hidden: int) -> int:
    """CLIP, a projector of two matrices, and the marks behind rows and between pictures."""
    merged = 4 * v.count("hidden_size")
    projector = merged * text_hidden + text_hidden + text_hidden * text_hidden + text_hidden
    return _clip(v) + projector + 2 * merged


def internvl(v: Config, text_hidden: int) -> int:
    """InternViT, whose layers have scales, and a projector of a norm and two matrices."""
    hidden, patch, width = v.count("hidden_size"), v.count("patch_size"), v.count("intermediate_size")
    places = (v.count("image_size") // patch) ** 2 + 1
    embed = COLOURS * patch * patch * hidden + 2 * hidden + places * hidden
    merged = 4 * hidden
    projector = 2 * merged + merged * text_hidden + text_hidden + text_hidden * text_hidden + text_hidden
    return embed + v.count("num_hidden_layers") * (_layer(hidden, width) + 2 * hidden) + projector


def kimi_k3(v: Config, text_hidden: int) -> int:
    """MoonViT without biases, its heads wider than a patch, places by interpolation, and a projector with a norm behind it."""
    hidden, width, heads = v.count("vt_hidden_size"), v.count("vt_intermediate_size"), v.count("qkv_hidden_size")
    patch, merged = v.count("patch_size"), 4 * v.count("mm_hidden_size")
    places = v.count("init_pos_emb_height") * v.count("init_pos_emb_width") * hidden
    layer = 4 * heads * hidden + 2 * hidden * width + 2 * hidden
    projector = merged * merged + merged * text_hidden + text_hidden
    return COLOURS * patch * patch * hidden + places + v.count("vt_num_hidden_layers") * layer + hidden + projector


def minimax_m3(v: Config, text_hidden: int) -> int:
    """CLIP's layers over patches of two frames, places by rotation, a projector before and one after four patches are merged."""
    hidden, patch = v.count("hidden_size"), v.count("patch_size")
    out, merged = v.count("projector_hidden_size", default=text_hidden), v.count("spatial_merge_size", default=2) ** 2
    embed = COLOURS * v.count("temporal_patch_size", default=2) * patch * patch * hidden + 2 * hidden
    layers = v.count("num_hidden_layers") * _layer(hidden, v.count("intermediate_size"))
    first = hidden * out + out + out * text_hidden + text_hidden
    second = merged * text_hidden * out + out + out * text_hidden + text_hidden
    return embed + layers + first + second


TOWERS: dict[str, Callable[[Config, int], int]] = {
    "clip": clip_tower,
    "siglip": siglip_tower,
    "siglip2": siglip_tower,
    "gemma3": siglip_gemma3,
    "gemma4": gemma4,
    "gemma4_unified": gemma4_unified,
    "internvl_chat": internvl,
    "kimi_k3": kimi_k3,
    "llava": llava,
    "llava_next": llava_next,
    "minimax_m3_vl": minimax_m3,
    "mistral3": mistral3,
    "mllama": mllama,
    "phi3_v": phi3,
    "qwen2_vl": qwen2_vl,
    "llama4": llama4,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl,
    "qwen3_5": qwen3_vl,
    "qwen3_5_moe": qwen3_vl,
    "qwen2_5_vl": qwen25_vl,
}
