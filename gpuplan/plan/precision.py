"""How many bytes does a value take, and which recipes of mixed precision are there?"""

from __future__ import annotations

from typing import cast, get_args

from gpuplan.models.block_types import BLOCK_TYPES, GGML
from gpuplan.models.gguf_mixture import FILE_TYPES
from gpuplan.optimizers import Optimizer
from gpuplan.plan.words import BaseWeights, KvFormat, Precision, WeightFormat
from gpuplan.record import Record
from gpuplan.term import Source, Term
from gpuplan.work import Dtype

_ZERO = Source(
    "paper", "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", "https://arxiv.org/abs/1910.02054", "3.1"
)
_MIXED = Source("paper", "Mixed Precision Training", "https://arxiv.org/abs/1710.03740", "3.1")
_ADAM = Source("paper", "Adam: A Method for Stochastic Optimization", "https://arxiv.org/abs/1412.6980", "Algorithm 1")
_ADAM8 = Source("paper", "8-bit Optimizers via Block-wise Quantization", "https://arxiv.org/abs/2110.02861", "2")
_LION = Source("paper", "Symbolic Discovery of Optimization Algorithms", "https://arxiv.org/abs/2302.06675", "Program 1")
_FP8 = Source(
    "docs",
    "Transformer Engine, FP8 primer: an fp8 copy of the weights and its transpose are kept beside the 16-bit ones",
    "https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/examples/fp8_primer.html",
)
_AQT = Source(
    "docs",
    "MaxText: quantization int8 (AQT): both operands of a product are rounded as they are multiplied, weights stay fp32",
    "https://github.com/AI-Hypercomputer/maxtext/blob/e591f30c/src/maxtext/layers/quantizations.py",
    "_get_int8_quant_config",
)
_OCP = Source(
    "paper",
    "OCP Microscaling Formats (MX) Specification v1.0: 32 values share one 8-bit scale",
    "https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf",
    "5",
)
_NVFP4 = Source(
    "docs",
    "NVIDIA: Introducing NVFP4: 16 values share one fp8 scale",
    "https://developer.nvidia.com/blog/introducing-nvfp4-for-efficient-and-accurate-low-precision-inference/",
)
_AWQ = Source(
    "paper",
    "AWQ: groups of 128 values share a 16-bit scale and a 4-bit zero",
    "https://arxiv.org/abs/2306.00978",
    "3",
)
_DEEPSEEK = Source(
    "paper",
    "DeepSeek-V3 Technical Report: an fp32 scale for each block of 128 x 128 weights and for each 128 activations of a token",
    "https://arxiv.org/abs/2412.19437",
    "3.3.2 Fine-grained quantization",
)
_IEEE = Source("definition", "width of the number format")
_TF32 = Source(
    "docs",
    "PyTorch: CUDA semantics, TensorFloat-32 on Ampere and later: fp32 values, of which matmuls read 10 bits of the mantissa",
    "https://docs.pytorch.org/docs/stable/notes/cuda.html",
)

_NVFP4_TRAINING = Source(
    "paper",
    "Pretraining Large Language Models with NVFP4: all three products of a linear layer in 4 bits, scales for 16 values",
    "https://arxiv.org/abs/2509.25149",
    "3 and 4; Transformer Engine's NVFP4BlockScaling recipe: 4-bit weights by rows and by columns beside the 16-bit ones",
)


class TrainRecipe(Record):
    """Bytes a parameter by use, and the types that matmuls run in.

    `weight` is the copy that the forward pass reads; `master` the fp32 copy that the optimizer updates (0: none);
    `gradient` is None where the engine decides. `activation` is a stored activation's element, `gathered` a weight's as
    sharded ranks send it.
    """

    name: Precision
    matmul: Dtype
    weight: float
    master: float
    gradient: float | None
    activation: float
    gathered: float
    source: Source


RECIPES: dict[Precision, TrainRecipe] = {
    "bf16": TrainRecipe("bf16", "bf16", 2, 4, None, 2, 2, _ZERO),
    "fp16": TrainRecipe("fp16", "fp16", 2, 4, None, 2, 2, _MIXED),
    "bf16-pure": TrainRecipe("bf16-pure", "bf16", 2, 0, 2, 2, 2, _IEEE),
    "fp32": TrainRecipe("fp32", "fp32", 4, 0, 4, 4, 4, _IEEE),
    "tf32": TrainRecipe("tf32", "tf32", 4, 0, 4, 4, 4, _TF32),
    "fp8": TrainRecipe("fp8", "fp8", 4, 4, None, 2, 2, _FP8),
    "int8": TrainRecipe("int8", "int8", 2, 4, None, 2, 2, _AQT),
    "nvfp4": TrainRecipe("nvfp4", "fp4", 2 + 2 * (0.5 + 1 / 16), 4, None, 2, 2, _NVFP4_TRAINING),
}

_ADAFACTOR = Source(
    "paper", "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", "https://arxiv.org/abs/1804.04235",
    "3: row and column sums in place of the second moment, no first moment",
)  # fmt: skip
_MUON = Source(
    "paper", "Muon is Scalable for LLM Training", "https://arxiv.org/abs/2502.16982",
    "2: one momentum buffer for each matrix; embedding and head (and norms, which are small) stay with AdamW, which has two",
)  # fmt: skip

_ADEMAMIX = Source(
    "paper", "The AdEMAMix Optimizer: Better, Faster, Older", "https://arxiv.org/abs/2409.03137",
    "3: a slow average of gradients beside the two moments of Adam",
)  # fmt: skip
_ADAM_MINI = Source(
    "paper", "Adam-mini: Use Fewer Learning Rates To Gain More", "https://arxiv.org/abs/2406.16793",
    "abstract and 2: one second moment for a block of parameters, so the first moment is all that counts",
)  # fmt: skip
_ADAM4 = Source(
    "paper", "Memory Efficient Optimizers with 4-bit States", "https://arxiv.org/abs/2309.01507", "both moments in 4 bits"
)
_LOMO = Source(
    "engine", "LOMO: lomo_optim/lomo.py", "https://github.com/OpenLMLab/LOMO/blob/45d4bac16c642f101ed00db7244cacf28e5dde15/README.md",
    "gradient and update are one step: no states, and no gradient that stays",
)  # fmt: skip
_ADALOMO = Source(
    "engine", "AdaLomo: lomo_optim/adalomo.py",
    "https://github.com/OpenLMLab/LOMO/blob/45d4bac16c642f101ed00db7244cacf28e5dde15/lomo_optim/adalomo.py",
    "row and column sums in place of the second moment",
)  # fmt: skip
_MOMENTS: dict[Optimizer, tuple[float, Source]] = {
    "adamw": (2.0, _ADAM),
    "adamw-8bit": (2.0, _ADAM8),
    "adamw-4bit": (2.0, _ADAM4),
    "adafactor": (0.0, _ADAFACTOR),
    "muon": (1.0, _MUON),
    "lion": (1.0, _LION),
    "lion-8bit": (1.0, _LION),
    "sgd": (1.0, Source("definition", "one momentum buffer")),
    "adagrad": (1.0, Source("definition", "one sum of squared gradients")),
    "rmsprop": (1.0, Source("definition", "one mean of squared gradients, no momentum")),
    "rmsprop-8bit": (1.0, _ADAM8),
    "ademamix": (3.0, _ADEMAMIX),
    "ademamix-8bit": (3.0, _ADEMAMIX),
    "adam-mini": (1.0, _ADAM_MINI),
    "lomo": (0.0, _LOMO),
    "adalomo": (0.0, _ADALOMO),
}
_QUANTISED: dict[Optimizer, float] = {
    "adamw-8bit": 1.0, "adamw-4bit": 0.5, "lion-8bit": 1.0, "rmsprop-8bit": 1.0, "ademamix-8bit": 1.0,
}  # fmt: skip
"""Bytes of a moment that is quantised by blocks."""


def quantised_moment(optimizer: Optimizer) -> float | None:
    """Bytes of a moment where it is quantised by blocks, which kernels of accelerators alone update; None: it is not.

    >>> quantised_moment("lion-8bit"), quantised_moment("lion")
    (1.0, None)
    """
    return _QUANTISED.get(optimizer)


def moment_bytes(optimizer: Optimizer, recipe: TrainRecipe) -> Term:
    """Bytes of optimizer moments a parameter: as many as it has, in fp32, in few bits, or in the type of pure bf16 training."""
    count, source = _MOMENTS[optimizer]
    element = quantised_moment(optimizer) or (2.0 if recipe.name == "bf16-pure" else 4.0)
    return Term("recipe.moment_bytes", count * element, "B", source)


def edge_moment_bytes(recipe: TrainRecipe) -> Term:
    """Bytes a parameter of the second moment that Muon's AdamW keeps for embedding and head."""
    return Term("recipe.edge_moment_bytes", 2.0 if recipe.name == "bf16-pure" else 4.0, "B", _MUON)


def moment_count(optimizer: Optimizer) -> Term:
    """How many moments an optimizer keeps."""
    several, source = _MOMENTS[optimizer]
    return Term("recipe.moments", several, "1", source)


def byte(name: str, value: float, source: Source = _IEEE) -> Term:
    """A leaf term of `value` bytes."""
    return Term(name, value, "B", source)


QUANTISED_IN_PLACE: tuple[BaseWeights, ...] = ("nf4", "nf4-dq", "int8")
"""Formats that frozen weights are brought to as they are loaded (bitsandbytes), and not by whoever made the checkpoint."""


class FrozenWeights(Record):
    """How frozen weights are stored: bytes of a value with its share of scales; `quantised` ones leave embedding and head."""

    bytes_per_value: float
    quantised: bool
    source: Source
    cast: bool = False
    """One cast widens them, whatever the engine: what they take is read, and 16 bits are written."""


_QLORA = Source(
    "paper",
    "QLoRA: Efficient Finetuning of Quantized LLMs",
    "https://arxiv.org/abs/2305.14314",
    "3: 4-bit NormalFloat, fp32 constants for blocks of 64; double quantisation: 8-bit constants, fp32 for blocks of 256 of them",
)
_INT8 = Source(
    "paper", "LLM.int8(): 8-bit Matrix Multiplication for Transformers at Scale", "https://arxiv.org/abs/2208.07339", "2"
)
_GPTQ = Source(
    "paper", "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained Transformers", "https://arxiv.org/abs/2210.17323",
    "4: groups of 128 share a 16-bit scale and a 4-bit zero",
)  # fmt: skip

_FP8 = Source(
    "paper", "DeepSeek-V3 Technical Report", "https://arxiv.org/abs/2412.19437",
    "3.3.2: weights in blocks of 128 x 128 with a scale each, here of four bytes",
)  # fmt: skip

FROZEN: dict[BaseWeights, FrozenWeights] = {
    "fp32": FrozenWeights(4.0, False, _IEEE),
    "bf16": FrozenWeights(2.0, False, _IEEE),
    "fp16": FrozenWeights(2.0, False, _IEEE),
    "fp8": FrozenWeights(1.0 + 4 / 128**2, True, _FP8, cast=True),
    "int8": FrozenWeights(1.0, True, _INT8),
    "int4": FrozenWeights(0.5 + 2.5 / 128, True, _GPTQ),
    "nf4": FrozenWeights(0.5 + 4 / 64, True, _QLORA),
    "nf4-dq": FrozenWeights(0.5 + 1 / 64 + 4 / (64 * 256), True, _QLORA),
}


class StoredWeights(Record):
    """How weights are stored for serving: bytes a value with its share of group scales, and the type they multiply in.

    `multiply` None means that values are widened to the activations' 16-bit type first. Embeddings, head, norms and
    routers stay in 16 bit where `whole_model` is false, as the common quantisers leave them.
    """

    name: WeightFormat
    bytes_per_value: float
    multiply: Dtype | None
    whole_model: bool
    source: Source
    blocked: bool = False
    """Weights share a scale by blocks of 128 x 128, and activations one for each 128 along a row."""
    micro: bool = False
    """Weights of 4 bits share a scale by blocks of 32 or 16: where they are widened, it is by the same kernels."""
    coded: bool = False
    """Values are put together of several fields and scales of scales, or looked up in a table (GGUF's K and I types)."""


STORED: dict[WeightFormat, StoredWeights] = {
    "fp32": StoredWeights("fp32", 4.0, "fp32", True, _IEEE),
    "bf16": StoredWeights("bf16", 2.0, "bf16", True, _IEEE),
    "fp16": StoredWeights("fp16", 2.0, "fp16", True, _IEEE),
    "fp8": StoredWeights("fp8", 1.0, "fp8", False, _IEEE),
    "fp8-block": StoredWeights("fp8-block", 1.0 + 4 / 128**2, "fp8", False, _DEEPSEEK, blocked=True),
    "int8": StoredWeights("int8", 1.0, "int8", False, _IEEE),
    "int4": StoredWeights("int4", 0.5 + 2.5 / 128, None, False, _AWQ),
    "nvfp4": StoredWeights("nvfp4", 0.5 + 1 / 16, "fp4", False, _NVFP4, micro=True),
    "mxfp4": StoredWeights("mxfp4", 0.5 + 1 / 32, None, False, _OCP, micro=True),
}

_MLX = Source(
    "docs", "MLX: mlx.core.quantize: groups of 64 values share a scale and a bias of 16 bits each",
    "https://ml-explore.github.io/mlx/build/html/python/_autosummary/mlx.core.quantize.html", "group_size 64", "2026-11-22",
)  # fmt: skip
_EXL2 = Source(
    "docs", "ExLlamaV2: README, EXL2 quantization: an average bitrate of 2 to 8 bits a weight, group indices and scales among them",
    "https://github.com/turboderp-org/exllamav2/blob/master/README.md", "EXL2 quantization", "2026-11-22",
)  # fmt: skip
MLX_GROUP = 64
for _file, _of in FILE_TYPES.items():
    _word = cast("WeightFormat", _file)
    STORED[_word] = StoredWeights(_word, BLOCK_TYPES[_of.base].bytes_per_value, None, True, GGML, coded=BLOCK_TYPES[_of.base].coded)
STORED |= {
    "nf4": StoredWeights("nf4", 0.5 + 4 / 64, None, False, _QLORA),
    "nf4-dq": StoredWeights("nf4-dq", 0.5 + 1 / 64 + 4 / (64 * 256), None, False, _QLORA),
    "int8-bnb": StoredWeights("int8-bnb", 1.0, None, False, _INT8),
}
for _name in get_args(WeightFormat):
    if _name.startswith("mlx-"):
        STORED[_name] = StoredWeights(_name, int(_name[4]) / 8 + 4 / MLX_GROUP, None, True, _MLX)
    elif _name.startswith("exl2-"):
        STORED[_name] = StoredWeights(_name, float(_name[5:]) / 8, None, False, _EXL2)


def stored_in(name: WeightFormat, group: int = 0) -> StoredWeights:
    """How a type of weights is stored where `group` of them share a scale (and a zero); 0: as is usual.

    >>> stored_in("int4").bytes_per_value == stored_in("int4", 128).bytes_per_value
    True
    >>> stored_in("int4", 32).bytes_per_value
    0.578125
    """
    usual = STORED[name]
    if not group or name not in ("int4", "int8"):
        return usual
    scales = 2.5 if name == "int4" else 2.0
    return usual.replaced(bytes_per_value=(0.5 if name == "int4" else 1.0) + scales / group)


_BLOCKED_KV: tuple[KvFormat, ...] = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl", "nvfp4")
KV_BYTES: dict[KvFormat, float] = {
    "bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "int8": 1.0,
    **{name: BLOCK_TYPES[name].bytes_per_value for name in _BLOCKED_KV},
}  # fmt: skip
