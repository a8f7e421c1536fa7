"""How often does a pass touch, keep or send something? Counts of the work itself, each with what says so."""

from __future__ import annotations

from gpuplan.term import Source, Term

_ARXIV = "https://arxiv.org/abs/"
_KEPT = Source("paper", "Reducing Activation Recomputation in Large Transformer Models", f"{_ARXIV}2205.05198", "4.1")
_CAUSAL = Source("paper", "FlashAttention-2: Faster Attention with Better Parallelism", f"{_ARXIV}2307.08691", "4.1")
_BACKWARD = Source("paper", "Training Compute-Optimal Large Language Models", f"{_ARXIV}2203.15556", "Appendix F")
_ZERO3 = Source("paper", "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", f"{_ARXIV}1910.02054", "7.2.2")
_SLICED = Source(
    "engine",
    "Transformer Engine 2.17: attention/dot_product_attention/context_parallel.py",
    "https://github.com/NVIDIA/TransformerEngine/blob/2e559f062497bef768dfbe9d7e45548fadeca80a/transformer_engine/pytorch/attention/"
    "dot_product_attention/context_parallel.py",
    "AttnFuncWithCPAndQKVOA2A: queries, keys, values and outputs forward, the gradients of each backward;"
    " reorder_seq_chunks_before_a2a_after_attn_thd: two slices of each document for each rank",
)
_ULYSSES = Source(
    "paper", "DeepSpeed Ulysses: System Optimizations for Extreme Long Sequence Transformers", f"{_ARXIV}2309.14509",
    "3.2: four all-to-alls of a layer's activations forward, and as many of their gradients backward",
)  # fmt: skip
_RING = Source("definition", "keys and values go round forward, and both again with their gradients backward")
_TITAN = Source(
    "docs",
    "torchtitan: activation checkpointing, selective by operator (every second matmul is run again)",
    "https://github.com/pytorch/torchtitan/blob/b5bcd76c/torchtitan/models/llama/parallelize_llama.py",
)
_DUALPIPE = Source("paper", "DeepSeek-V3 Technical Report", f"{_ARXIV}2412.19437", "3.2.1, table 2; zero-bubble: 2401.10241")
_ZERO_BUBBLE = Source(
    "docs",
    "sail-sg/zero-bubble-pipeline-parallelism, README: ZBV sends twice as much between stages as 1F1B",
    "https://github.com/sail-sg/zero-bubble-pipeline-parallelism/blob/39f2c186a27580b7051eb51e0f651e1efd0a8170/README.md",
    "Comparision of Schedules",
)
_PIPELINE = Source("definition", "activations go to the next stage, their gradients come back")
_PRIMITIVES = Source(
    "paper",
    "Demystifying NCCL: An In-depth Analysis of GPU Communication Protocols and Algorithms",
    f"{_ARXIV}2507.04786",
    "rings: what is gathered is written as it comes and read as it goes on; to be reduced, a rank's own part is read beside it",
)
_MEAN = Source("definition", "the mean of a length that grows evenly from nothing")


_UNEVEN = Source(
    "assumed",
    "routers are as uneven as in AIConfigurator's uneven rows of experts: a power law between 0.01 and 2 for steps of few tokens,"
    " and between 1 and 0.8 of the tokens, which is as much at 256 tokens",
    "https://github.com/ai-dynamo/aiconfigurator",
    "collector/helper.py, _generate_power_law_distribution; exponents 1.01 and 1.2",
)


def _assumed(why: str) -> Source:
    return Source("assumed", why)


COUNTS: dict[str, tuple[float, Source]] = {
    "kept_per_norm": (2, _KEPT),
    "kept_by_adapters": (2, _assumed("the input of an adapted matrix and its copy after dropout")),
    "adapted_1": (1, Source("definition", "one input is shared by the adapted matrices behind a norm")),
    "adapted_2": (2, Source("definition", "two inputs, of attention and of the feed-forward layer")),
    "kept_inner_widths": (4, _assumed("a state-space layer keeps values before and after the convolution, gate and scan output")),
    "kept_inner_widths_plain": (3, _assumed("a linear-attention layer keeps values, gate and output")),
    "kept_group_widths": (4, _assumed("a state-space layer keeps keys and queries before and after the convolution")),
    "backward_scans": (
        3,
        Source(
            "engine",
            "state-spaces/mamba: mamba_ssm/ops/triton/ssd_combined.py",
            "https://github.com/state-spaces/mamba/blob/main/mamba_ssm/ops/triton/ssd_combined.py",
            "_mamba_chunk_scan_combined_bwd",
            note="convolution and states are made again, gradients of values, keys, queries, steps and states take a kernel each;"
            " what they read and write, counted",
        ),
    ),
    "backward_streams": (
        2,
        _assumed("backward, an elementwise kernel also reads the gradient"),
    ),
    "passes_of_a_norm": (2, Source("definition", "what a norm reads and what it writes")),
    "expert_skew": (200, _UNEVEN),
    "permute_passes": (4, _assumed("token copies are read and written on their way to the experts and back")),
    "bias_kernels": (
        4,
        Source("definition", "for each expert: bias times weights, a sum behind each product, a copy"),
    ),
    "permute_kernels": (4, _assumed("sort, permute, unpermute and weighted sum")),
    "state_passes": (2, _assumed("a decode step reads and writes the recurrent state")),
    "loss_passes": (2, _assumed("logits and what is kept beside them are written once and read once at the loss")),
    "loss_kernels": (6, _assumed("maximum, exponent, sum, log, gradient and cast")),
    "embedding_passes": (4, _assumed("rows are read and written forward, their gradients backward")),
    "optimizer_kernels": (10, _assumed("norm, clipping and the fused updates of a few buckets")),
    "host_passes": (3, _assumed("the backward pass issues about twice the kernels of the forward pass")),
    "host_passes_recomputed": (4, _assumed("as `host_passes`, and the forward pass once more")),
    "hooked_passes": (2, Source("definition", "hooks run around each module in the forward and in the backward pass")),
    "hooked_passes_recomputed": (3, Source("definition", "as `hooked_passes`, and in the forward pass that is run once more")),
    "holding_modules": (4, Source("definition", "the layer, its attention, its feed-forward layer and its activation are modules")),
    "adapter_modules": (4, Source("definition", "an adapter puts a module around a matrix, and dropout, down and up beside it")),
    "adapter_matrices": (2, Source("definition", "down and up")),
    "widenings": (2, _assumed("frozen weights are widened forward and backward")),
    "widenings_recomputed": (3, _assumed("as `widenings`, and once more where the forward pass is run again")),
    **{
        name: (value, Source("paper", "LLaMA-Adapter V2", "https://arxiv.org/abs/2304.15010", "3.1: s (Wx + b)"))
        for name, value in (("bias_and_scale", 2), ("scale_passes", 4), ("scale_kernels", 2))
    },
    "every_second": (0.5, _TITAN),
    **{
        f"{what}_{schedule}": (value, _DUALPIPE)
        for schedule, ends, share in (("zb-h1", 1, 1 / 3), ("zb-h2", 1, 0.0), ("zb-v", 1, 0.0), ("dualpipe", 2, 1 / 3))
        for what, value in (("pipeline_ends", ends), ("idle_share", share))
    },
    "chunks_zb_v": (2, _ZERO_BUBBLE),
    "sliced_tensors": (8, _SLICED),
    "sliced_tensors_recomputed": (12, _SLICED),
    "slices_a_rank": (2, _SLICED),
    "context_exchanges": (3, _RING),
    "head_exchanges": (2, _ULYSSES),
    "sends_a_chunk": (2, _PIPELINE),
    "gathers_a_pass": (2, _ZERO3),
    "moved_all_gather": (2, _PRIMITIVES),
    "moved_broadcast": (2, _PRIMITIVES),
    "moved_reduce_scatter": (3, _PRIMITIVES),
    "moved_all_reduce": (5, _PRIMITIVES),
    "moved_all_to_all": (2, _PRIMITIVES),
    "table_passes": (3, Source("definition", "a row is read forward, read again and written by the update")),
    "exchanges_of_rows": (2, Source("definition", "rows forward, their gradients backward")),
    "causal_share": (0.5, _CAUSAL),
    "forward_share": (1 / 3, _BACKWARD),
    "node": (8, Source("definition", "the usual node of eight accelerators")),
    "none": (0, Source("definition", "nothing before it")),
}


def count(name: str) -> Term:
    """The leaf `work.<name>`."""
    value, source = COUNTS[name]
    return Term(f"work.{name}", float(value), "1", source)
