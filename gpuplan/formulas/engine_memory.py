"""How do serving engines share out the memory of an accelerator: what their profiling pass takes, and what is left for caches?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, formula

_RUN = Source(
    "engine",
    "vLLM 0.10.2: GPUModelRunner.profile_run and _dummy_sampler_run",
    "https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/v1/worker/gpu_model_runner.py",
    "profile_run: the pass of most tokens, then the sampler for most sequences with what the pass made",
)
_EXPERTS = Source(
    "engine",
    "vLLM 0.11.2: TritonExperts.workspace_shapes",
    "https://github.com/vllm-project/vllm/blob/v0.11.2/vllm/model_executor/layers/fused_moe/fused_moe.py",
    "workspace1 (M, topk, max(N // 2, K)), workspace2 (M, topk, max(N, K))",
)
_WORKER = Source(
    "engine",
    "vLLM 0.10.2: Worker.determine_available_memory",
    "https://github.com/vllm-project/vllm/blob/v0.10.2/vllm/v1/worker/gpu_worker.py",
    "requested memory less what is no cache; the snapshot before it holds the driver's context",
)


@formula(Source("definition", "what a program is told of an accelerator's memory is no more than there is"))
def seen_bytes(*, capacity: Bytes, visible: Bytes) -> Bytes:
    """Memory that a program can take a share of.

    >>> seen_bytes(capacity=80e9, visible=79e9)
    79000000000.0
    """
    return minimum(capacity, visible)


@formula(_EXPERTS)
def expert_workspace_width(*, top_k: Count, made: Count, width: Count, hidden: Count) -> Count:
    """Values alive for a token in a layer of fused experts: two workspaces of all its experts.

    `made` values come of an expert's first product (twice its `width` where it has a gate). Qwen3 30B-A3B on one rank:

    >>> expert_workspace_width(top_k=8, made=2 * 768, width=768, hidden=2048)
    32768
    """
    return top_k * (maximum(made, hidden) + maximum(width, hidden))


@formula(_RUN)
def layer_peak_bytes(*, tokens: Count, inner: Count, copies: Count, hidden: Count, element: Bytes) -> Bytes:
    """What the widest layer of a pass keeps alive: the widths inside it, and copies of the hidden states.

    Llama 3.1 8B with 29,000 tokens, of which vLLM 0.6.4 prints 2.99 GiB (github.com/vllm-project/vllm/issues/10517):

    >>> round(layer_peak_bytes(tokens=29_000, inner=3 * 14_336, copies=3, hidden=4096, element=2) / 2**30, 2)
    2.99
    """
    return tokens * (inner + copies * hidden) * element


@formula(_RUN)
def sampler_bytes(*, sequences: Count, vocab: Count, each: Bytes) -> Bytes:
    """What sampling one token for each of so many sequences keeps alive; every rank has the logits of the whole vocabulary.

    >>> round(sampler_bytes(sequences=1024, vocab=201_088, each=38) / 2**30, 2)
    7.29
    """
    return sequences * vocab * each


@formula(_RUN)
def profiled_bytes(*, layer: Bytes, sampler: Bytes, made: Bytes) -> Bytes:
    """The peak of a profiling pass: its widest layer, or sampling beside the hidden states that the pass `made`.

    >>> profiled_bytes(layer=8.0, sampler=5.0, made=1.0), profiled_bytes(layer=8.0, sampler=9.0, made=1.0)
    (8.0, 10.0)
    """
    return maximum(layer, sampler + made)


@formula(DEFINITION)
def joint_bytes(*, ranks: Count, each: Bytes) -> Bytes:
    """What a library for several ranks takes on each of them: nothing where there is only one.

    >>> joint_bytes(ranks=1, each=5.0), joint_bytes(ranks=4, each=5.0)
    (0.0, 5.0)
    """
    return where(ranks > 1, each, 0.0 * each)


@formula(_WORKER)
def shared_budget_bytes(*, share: Bytes, beside: Bytes, seen: Bytes) -> Bytes:
    """What an engine and all that is made beside its share of memory may take together, of what there is.

    >>> shared_budget_bytes(share=72.0, beside=1.0, seen=80.0), shared_budget_bytes(share=79.5, beside=1.0, seen=80.0)
    (73.0, 80.0)
    """
    return minimum(share + beside, seen)
