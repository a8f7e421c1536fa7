"""How does the encoder of a multimodal model cut and work on images, where its configuration says it?

What stands in no configuration (the most pixels, marks around an image) is of the `preprocessor_config.json` that models of the
family are published with, and of the processors in Transformers, whose addresses the rules name.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from gpuplan.models.config_reader import Config
from gpuplan.models.image_rules import AnyRes, Budget, Fixed, HighDefinition, Pinpoint, Resized, Rows, Tiles
from gpuplan.models.senses import Product, Vision

COLOURS = 3
QWEN3_PIXELS = 65_536, 4096 * 4096
"""Pixels of the smallest and the largest image that the processor of Qwen3-VL lets through as they are (`shortest_edge`,
`longest_edge` of its preprocessor_config.json, of which https://huggingface.co/hfmaster/Qwen3-VL-2B is a copy)."""
QWEN2_PIXELS = 4 * 28 * 28, 16_384 * 28 * 28
"""The same of Qwen2-VL and Qwen2.5-VL (`min_pixels`, `max_pixels` of
https://huggingface.co/Qwen/Qwen2-VL-2B/blob/258ddfbb32d06e19760700c3e472c248e164119c/preprocessor_config.json)."""
GEMMA3_TOKENS = 256
GEMMA4_TOKENS = 280
"""`max_soft_tokens` that Transformers' tests/models/gemma4/test_image_processing_gemma4.py at 0ad39698 expects of the processor."""
LLAMA4_TILES = 16
"""`max_patches` of the preprocessor_config.json of Llama 4, of which
https://huggingface.co/hf-internal-testing/tiny-processor-llama4 is a copy."""
LLAVA_LAYER = -2
"""`vision_feature_layer` where a file does not say: of CLIP the last layer but one is read."""
PHI3_TILES = 4
"""`num_crops` of Phi-3.5-vision, as vLLM's tests/models/multimodal/processing/test_phi3v.py at 4bbff31b says."""
NEXT_CANVASES = (1, 2), (2, 1), (2, 2), (3, 1), (1, 3)
"""`image_grid_pinpoints` of LLaVA-NeXT, in tiles of 336 pixels
(https://huggingface.co/llava-hf/llava-v1.6-vicuna-7b-hf/blame/main/config.json)."""


def _chain(*widths: int) -> tuple[Product, ...]:
    """Products one after the other."""
    return tuple(Product(fan_in=one, fan_out=other) for one, other in pairwise(widths))


def qwen(v: Config, text_hidden: int) -> Vision:
    """The encoder of Qwen2.5-VL, Qwen3-VL and Qwen3.5: patches are merged, some layers may see windows alone."""
    merge, gated = v.count("spatial_merge_size", default=2), v.has("fullatt_block_indexes")
    patch, frames = v.count("patch_size", "spatial_patch_size", default=14), v.count("temporal_patch_size", default=2)
    least, most = QWEN3_PIXELS if v.has("deepstack_visual_indexes") else QWEN2_PIXELS
    width, out = v.count("hidden_size"), v.count("out_hidden_size", default=text_hidden)
    whole = v.items("fullatt_block_indexes") or []
    return Vision(
        width=width, inner=v.count("intermediate_size"), gated=gated, patches_per_token=merge**2,
        tokens_per_image=most // (patch * merge) ** 2, outputs=1 + len(v.items("deepstack_visual_indexes") or []),
        layers=v.count("depth"), heads=v.count("num_heads"),
        window=(v.count("window_size") // patch) ** 2 if whole else None, global_layers=len(whole),
        patch_values=COLOURS * frames * patch**2, projector=_chain(width * merge**2, width * merge**2, out),
        rule=Resized(patch=patch, merge=merge, least_pixels=least, most_pixels=most),
    )  # fmt: skip


def qwen2(v: Config, text_hidden: int) -> Vision:
    """The encoder of Qwen2-VL, whose `hidden_size` is the text model's and whose own width is `embed_dim`."""
    why = "the library's default"
    patch, merge = v.count("patch_size", "spatial_patch_size", default=14), v.count("spatial_merge_size", default=2)
    width, frames = v.count("embed_dim", default=1280, why=why), v.count("temporal_patch_size", default=2)
    least, most = QWEN2_PIXELS
    return Vision(
        width=width, inner=width * v.count("mlp_ratio", default=4), patches_per_token=merge**2,
        tokens_per_image=most // (patch * merge) ** 2, layers=v.count("depth", default=32, why=why),
        heads=v.count("num_heads", default=16, why=why), patch_values=COLOURS * frames * patch**2,
        projector=_chain(width * merge**2, width * merge**2, text_hidden),
        rule=Resized(patch=patch, merge=merge, least_pixels=least, most_pixels=most),
    )  # fmt: skip


def gemma3(v: Config, text_hidden: int) -> Vision:
    """SigLIP: all patches of an image are pooled into 256 tokens, with a mark and two lines on each side."""
    side, patch, width = v.count("image_size"), v.count("patch_size"), v.count("hidden_size")
    tokens = v.count("mm_tokens_per_image", default=GEMMA3_TOKENS, why="the library's default")
    pooled = max((side // patch) ** 2 // tokens, 1)
    return Vision(
        width=width, inner=v.count("intermediate_size"), patches_per_token=pooled, tokens_per_image=tokens,
        layers=v.count("num_hidden_layers"), heads=v.count("num_attention_heads"), patch_values=COLOURS * patch**2,
        projector=_chain(width, text_hidden), rule=Fixed(side=side, patch=patch, pooled=pooled, marks=4),
    )  # fmt: skip


def gemma4(v: Config, text_hidden: int) -> Vision:
    """Gemma 4: as many patches of the image's own shape as a number of tokens allows."""
    patch, pooled, width = v.count("patch_size"), v.count("pooling_kernel_size", default=3), v.count("hidden_size")
    return Vision(
        width=width, inner=v.count("intermediate_size"), gated=True, patches_per_token=pooled**2, tokens_per_image=GEMMA4_TOKENS,
        layers=v.count("num_hidden_layers"), heads=v.count("num_attention_heads"), patch_values=COLOURS * patch**2,
        projector=_chain(width, text_hidden), rule=Budget(patch=patch, pooled=pooled, most_tokens=GEMMA4_TOKENS),
    )  # fmt: skip


def llama4(v: Config, text_hidden: int) -> Vision:
    """Llama 4: tiles, four patches of which become one token, with the whole image beside them."""
    side, patch = v.count("image_size"), v.count("patch_size")
    made, out = v.count("projector_input_dim"), v.count("projector_output_dim")
    rule = Tiles(
        side=side, patch=patch, class_tokens=1, most=LLAMA4_TILES, pooled=4, chosen_by="size", whole=True, marks=3,
        marks_of_tiles=True,
        where="https://github.com/huggingface/transformers/blob/main/src/transformers/models/llama4/processing_llama4.py",
    )  # fmt: skip
    return Vision(
        width=v.count("hidden_size"), inner=v.count("intermediate_size"), patches_per_token=4,
        tokens_per_image=(LLAMA4_TILES + 1) * ((side // patch) ** 2 // 4), layers=v.count("num_hidden_layers"),
        heads=v.count("num_attention_heads"), patch_values=COLOURS * patch**2,
        projector=(*_chain(v.count("intermediate_size"), made, out), *_chain(v.count("vision_output_dim"), text_hidden)), rule=rule,
    )  # fmt: skip


def mllama(v: Config, text_hidden: int) -> Vision:
    """Llama 3.2: up to four tiles that see each other; layers of attention across see what becomes of them."""
    side, patch, tiles = v.count("image_size"), v.count("patch_size"), v.count("max_num_tiles", default=4)
    rule = Tiles(
        side=side, patch=patch, class_tokens=1, most=tiles, chosen_by="size", hands_on_class=True, across=True, filled=True, marks=1
    )
    return Vision(
        width=v.count("hidden_size"), inner=v.count("intermediate_size"), patches_per_token=1,
        tokens_per_image=tiles * ((side // patch) ** 2 + 1),
        layers=v.count("num_hidden_layers") + v.count("num_global_layers", default=8), heads=v.count("attention_heads"),
        patch_values=COLOURS * patch**2, projector=_chain(v.count("vision_output_dim", default=7680), text_hidden), rule=rule,
    )  # fmt: skip


def llava(v: Config, text_hidden: int) -> Vision:
    """CLIP at one size, or Pixtral's encoder at an image's own; one patch is one token."""
    side, patch, width = v.count("image_size"), v.count("patch_size"), v.count("hidden_size")
    layers, inner, heads = v.count("num_hidden_layers"), v.count("intermediate_size"), v.count("num_attention_heads")
    projector = _chain(width, text_hidden, text_hidden)
    if v.text("model_type") == "pixtral":
        merge = v.count("spatial_merge_size", default=1)
        merged = _chain(width * merge**2, width) if merge > 1 else ()
        return Vision(
            width=width, inner=inner, gated=True, patches_per_token=merge**2, tokens_per_image=(side // (patch * merge)) ** 2,
            layers=layers, heads=heads, patch_values=COLOURS * patch**2, projector=(*merged, *projector),
            rule=Rows(patch=patch, merge=merge, longest=side),
        )  # fmt: skip
    where = "https://github.com/huggingface/transformers/blob/main/src/transformers/models/llava/processing_llava.py"
    fixed = Fixed(side=side, patch=patch, class_tokens=1, where=where)
    return _clip(v, fixed, (side // patch) ** 2, projector)


def llava_next(v: Config, text_hidden: int) -> Vision:
    """CLIP over the tiles of a canvas and over the whole image."""
    side, patch = v.count("image_size"), v.count("patch_size")
    canvases = tuple(Pinpoint(columns=one, rows=other) for one, other in NEXT_CANVASES)
    rule = AnyRes(side=side, patch=patch, class_tokens=1, canvases=canvases)
    largest = rule.seen(2 * side, 2 * side).outputs
    return _clip(v, rule, largest, _chain(v.count("hidden_size"), text_hidden, text_hidden))


def internvl(v: Config, text_hidden: int) -> Vision:
    """InternVL: tiles of the nearest shape and the whole image, four patches to a token."""
    side, patch, width = v.count("image_size"), v.count("patch_size"), v.count("hidden_size")
    most = v.count("max_dynamic_patch", default=12)
    rule = Tiles(
        side=side, patch=patch, class_tokens=1, most=most, pooled=4, chosen_by="shape", whole=True, marks=2,
        where="https://github.com/OpenGVLab/InternVL/blob/main/internvl_chat/internvl/train/dataset.py",
    )  # fmt: skip
    return Vision(
        width=width, inner=v.count("intermediate_size"), patches_per_token=4,
        tokens_per_image=(most + 1) * ((side // patch) ** 2 // 4), layers=v.count("num_hidden_layers"),
        heads=v.count("num_attention_heads"), patch_values=COLOURS * patch**2,
        projector=_chain(4 * width, text_hidden, text_hidden), rule=rule,
    )  # fmt: skip


def phi3(v: Config, text_hidden: int) -> Vision:
    """CLIP over tiles of an image's own shape and over the whole, four patches to a token."""
    side, patch = v.count("image_size"), v.count("patch_size")
    rule = HighDefinition(side=side, patch=patch, class_tokens=1, most=PHI3_TILES)
    each = (side // patch) ** 2 // rule.pooled
    made = _clip(v, rule, (PHI3_TILES + 1) * each, _chain(4 * v.count("hidden_size"), text_hidden, text_hidden))
    return made.replaced(patches_per_token=rule.pooled)


def _clip(v: Config, rule: Fixed | AnyRes | HighDefinition, tokens: int, projector: tuple[Product, ...]) -> Vision:
    """CLIP as far as the layer that is read."""
    read = v.raw("vision_feature_layer")
    layers = v.count("num_hidden_layers")
    last = layers + 1 + read if isinstance(read, int) and read < 0 else layers if read == layers else layers + 1 + LLAVA_LAYER
    return Vision(
        width=v.count("hidden_size"), inner=v.count("intermediate_size"), patches_per_token=1, tokens_per_image=tokens,
        layers=max(last, 1), heads=v.count("num_attention_heads"), patch_values=COLOURS * v.count("patch_size") ** 2,
        projector=projector, rule=rule,
    )  # fmt: skip


def two_towers(v: Config, text_hidden: int) -> Vision:
    """CLIP and SigLIP: an image of one size becomes one vector, of which a prompt takes one position."""
    side, patch, width = v.count("image_size"), v.count("patch_size"), v.count("hidden_size")
    own = v.text("model_type", default="clip_vision_model").startswith("clip")
    where = "https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/clip/modeling_clip.py"
    patches = v.count("num_patches", default=(side // patch) ** 2)
    return Vision(
        width=width, inner=v.count("intermediate_size"), patches_per_token=patches, tokens_per_image=1,
        layers=v.count("num_hidden_layers"), heads=v.count("num_attention_heads", default=12), patch_values=COLOURS * patch**2,
        projector=_chain(width, v.count("projection_dim", default=text_hidden)) if own else (),
        rule=Fixed(side=round(patches**0.5) * patch, patch=patch, class_tokens=1 if own else 0, pooled=patches, where=where),
    )  # fmt: skip


IMAGES: dict[str, Callable[[Config, int], Vision]] = {
    "clip": two_towers,
    "siglip": two_towers,
    "siglip2": two_towers,
    "gemma3": gemma3,
    "gemma4": gemma4,
    "internvl_chat": internvl,
    "llama4": llama4,
    "llava": llava,
    "llava_next": llava_next,
    "mistral3": llava,
    "mllama": mllama,
    "phi3_v": phi3,
    "qwen2_vl": qwen2,
    "qwen2_5_vl": qwen,
    "qwen3_vl": qwen,
    "qwen3_vl_moe": qwen,
    "qwen3_5": qwen,
    "qwen3_5_moe": qwen,
}
"""The encoders whose way with images is known."""
