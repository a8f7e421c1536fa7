"""What can be asked of models that make pictures and clips, where memory and time depend on it? Everything left out is None."""

# The annotations are read, so they are no unread text here: no `from __future__ import annotations`.

from typing import Annotated

from gpuplan.plan.ask_money import Spending
from gpuplan.plan.common import Common
from gpuplan.plan.option import PICTURES, Option
from gpuplan.plan.shared_options import COMPILED
from gpuplan.plan.words import Guidance, OffloadComponents, WeightFormat


class PictureAsk(Common, kw_only=True):
    """What a question about a diffusion model says beside the model and the machine."""

    size: Annotated[
        str | None,
        Option("Width and height of a picture or clip in pixels, such as `1024x1024`", PICTURES, "WxH", group="pictures"),
    ] = None
    frames: Annotated[int | None, Option("Frames of a clip", PICTURES, "FRAMES", group="pictures", most=100_000)] = None
    guidance: Annotated[
        Guidance | None,
        Option(
            "Classifier-free guidance: `none` (or distilled into the model), `batched`, or `in-turn`, one pass after the other",
            PICTURES, "MANNER", group="pictures",
        ),
    ] = None  # fmt: skip
    text_tokens: Annotated[
        int | None,
        Option("Tokens of text that the denoiser is given", PICTURES, "TOKENS", group="pictures", length=True, most=100_000),
    ] = None
    encoder_weights: Annotated[
        WeightFormat | None,
        Option("Data type of the text encoders' weights, such as `int8-bnb`", PICTURES, "TYPE", group="pictures"),
    ] = None
    vae_weights: Annotated[
        WeightFormat | None, Option("Data type of the autoencoder, such as `fp16`", PICTURES, "TYPE", group="pictures")
    ] = None
    vae_slicing: Annotated[bool | None, Option("The autoencoder decodes one after the other", PICTURES, "", group="pictures")] = (
        None
    )
    vae_tiling: Annotated[bool | None, Option("The autoencoder decodes in tiles", PICTURES, "", group="pictures")] = None
    offload_components: Annotated[
        OffloadComponents | None,
        Option(
            "What waits in the memory of the host: `none`, the text `encoders` once they have run, each component but the one that"
            " runs (`model`), each layer but the one that runs (`sequential`); left out, as little as fits",
            PICTURES, "WHAT", group="pictures",
        ),
    ] = None  # fmt: skip


class GenerationAsk(Spending, PictureAsk, kw_only=True):
    """What matters for the time that a diffusion model takes."""

    steps: Annotated[int | None, Option("Denoising steps", PICTURES, "STEPS", group="pictures", most=100_000)] = None
    fps: Annotated[int | None, Option("Frames of a clip a second", PICTURES, "FPS", group="pictures", most=1000)] = None
    compiled: Annotated[bool | None, COMPILED._replace(group="pictures")] = None
