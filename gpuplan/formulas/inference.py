"""How a serving request composes: prefill passes, decode steps, cache budgets, and the weights that a step reads."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, PerS, Ratio, Seconds, Watts, ceil_div, floor, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, formula

_PIPELINE = Source(
    "paper",
    "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
    "https://arxiv.org/abs/1811.06965",
    "2.3 (M micro-batches over K stages take M + K - 1 steps)",
)

_MBU = Source(
    "docs",
    "LLM Inference Performance Engineering: Best Practices",
    "https://www.databricks.com/blog/llm-inference-performance-engineering-best-practices",
    "Model Bandwidth Utilization",
)


@formula(Source("definition", "passes of at most so many tokens, as chunked prefill makes them"))
def prefill_passes(*, sequences: Count, prompt: Count, chunk: Count) -> Count:
    """Forward passes that take all prompts through the model when a pass holds at most `chunk` tokens.

    >>> prefill_passes(sequences=16, prompt=2000, chunk=8192)
    4.0
    """
    return ceil_div(sequences * prompt, chunk)


@formula(DEFINITION)
def whole_passes(*, sequences: Count, prompt: Count, chunk: Count) -> Count:
    """Forward passes of prompts that are not cut: as many of them in each as it has room for, and one at least.

    >>> whole_passes(sequences=16, prompt=2000, chunk=3500), whole_passes(sequences=16, prompt=2000, chunk=8192)
    (16.0, 4.0)
    """
    return ceil_div(sequences, maximum(floor(chunk / prompt), 1.0))


@formula(DEFINITION)
def pass_tokens(*, sequences: Count, prompt: Count, passes: Count) -> Count:
    """Tokens of each of those passes.

    >>> pass_tokens(sequences=16, prompt=2000, passes=4)
    8000.0
    """
    return sequences * prompt / passes


@formula(_PIPELINE)
def stage_rounds(*, passes: Count, pipelined: Count, pp: Count) -> Count:
    """Trips through the whole model that passes take when each pipeline stage works on another one.

    At most `pipelined` passes follow each other before the pipeline drains and must be filled anew.

    >>> stage_rounds(passes=8, pipelined=100, pp=1), stage_rounds(passes=8, pipelined=100, pp=4)
    (8.0, 2.75)
    >>> stage_rounds(passes=8, pipelined=4, pp=4)
    3.5
    """
    return (passes + ceil_div(passes, pipelined) * (pp - 1)) / pp


@formula(_PIPELINE)
def shared_out_seconds(*, whole: Seconds, slowest: Seconds, passes: Count, pipelined: Count) -> Seconds:
    """Time of passes through accelerators that hold unlike shares of the layers, each of which works on another pass.

    `whole` is the work of all of them, `slowest` that of the one that has the most to do. The others are waited for once in every
    `pipelined` passes, behind which the pipeline drains.

    >>> shared_out_seconds(whole=10.0, slowest=6.0, passes=1, pipelined=4)
    10.0
    >>> shared_out_seconds(whole=10.0, slowest=6.0, passes=8, pipelined=4)
    7.0
    """
    return slowest + ceil_div(passes, pipelined) / passes * (whole - slowest)


@formula(Source("definition", "steady load: while one sequence makes its output each of the others is replaced once"))
def interrupted_seconds(*, step: Seconds, prefill: Seconds, batch: Count, output: Count) -> Seconds:
    """Mean time of an output token under steady load: a decode step, and its share of the other sequences' prefills.

    While one sequence makes its `output` tokens, each of the others is replaced once, and its successor's prompt is processed
    between or inside the decode steps. `prefill` is that of the whole batch.

    >>> interrupted_seconds(step=0.02, prefill=1.6, batch=16, output=100)
    0.035
    """
    return step + prefill * (1 - 1 / batch) / output


@formula(Source("definition", "each token has the residual of the phase that it is in"))
def mixed_residual(*, prefill: Ratio, decode: Ratio, read: Count, tokens: Count) -> Ratio:
    """Measured over counted time of a pass of `tokens`, of which `read` are of prompts and the others decode.

    >>> mixed_residual(prefill=1.2, decode=1.0, read=512, tokens=512), mixed_residual(prefill=1.2, decode=1.0, read=0, tokens=64)
    (1.2, 1.0)
    """
    return decode + (prefill - decode) * read / tokens


@formula(DEFINITION)
def issue_wait_seconds(*, layers: Count, layer_host: Seconds, busy: Seconds) -> Seconds:
    """How long the accelerator waits in a pass because the host issues its kernels more slowly than they run.

    >>> issue_wait_seconds(layers=32, layer_host=5e-4, busy=0.01), issue_wait_seconds(layers=32, layer_host=5e-4, busy=0.02)
    (0.006, 0.0)
    """
    return maximum(layers * layer_host - busy, 0.0 * busy)


@formula(DEFINITION)
def ranks_wait_seconds(*, layers: Count, ranks: Count, each: Seconds) -> Seconds:
    """What tensor parallel ranks wait for each other in a step, at the all-reduces of each of its layers.

    >>> round(ranks_wait_seconds(layers=80, ranks=8, each=2e-5), 6), ranks_wait_seconds(layers=80, ranks=1, each=2e-5)
    (0.0112, 0.0)
    """
    return layers * (ranks - 1) * each


@formula(
    Source(
        "engine",
        "vLLM: RFC, isolate OpenAI server into separate process",
        url="https://github.com/vllm-project/vllm/issues/6797",
        section="execute_model does not block the event loop, so that time of the accelerator overlaps with the server",
    )
)
def served_issue_seconds(*, issue: Seconds, sequence: Seconds, rows: Count) -> Seconds:
    """Host time of a step that hides behind the accelerator: to issue all layers, or to hand on tokens of `rows` sequences.

    >>> served_issue_seconds(issue=0.0, sequence=90e-6, rows=100)
    0.009
    """
    return maximum(issue, sequence * rows)


@formula(DEFINITION)
def once_in_seconds(*, seconds: Seconds, steps: Count) -> Seconds:
    """Seconds a step of what is done once in so many steps.

    >>> once_in_seconds(seconds=55e-6, steps=10.0)
    5.5e-06
    """
    return seconds / steps


@formula(DEFINITION)
def joined_seconds(*, ranks: Count, each: Seconds) -> Seconds:
    """Host time of a step in which one tensor parallel rank tells the others what to do; one alone tells nobody.

    >>> joined_seconds(ranks=4, each=1e-3), joined_seconds(ranks=1, each=1e-3)
    (0.001, 0.0)
    """
    return each * where(ranks > 1, 1.0, 0.0)


@formula(DEFINITION)
def collectives_issue_seconds(*, count: Count, ranks: Count, host: Seconds) -> Seconds:
    """Host time to issue the collectives of a pass over tensor parallel ranks; there are none on one.

    >>> collectives_issue_seconds(count=160, ranks=4, host=2e-4), collectives_issue_seconds(count=160, ranks=1, host=2e-4)
    (0.032, 0.0)
    """
    return where(ranks > 1, count * host, 0.0)


@formula(
    Source(
        "engine",
        "TensorRT-LLM: PyExecutor, whose loop with pipeline stages is one of its own",
        "https://github.com/NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/_torch/pyexecutor/py_executor.py",
        "_executor_loop_pp is run wherever pp_size > 1, _executor_loop_overlap only where it is 1",
    )
)
def stage_issue_seconds(*, issue: Seconds, pp: Count, step: Seconds, sequence: Seconds, rows: Count) -> Seconds:
    """Host time of a step on the way through all stages: of each stage for each of as many micro-batches as there are stages.

    `issue` is that of all layers, `rows` are the sequences of a micro-batch. Without stages a step overlaps with the next.

    >>> round(stage_issue_seconds(issue=0.0, pp=8, step=5e-3, sequence=5e-5, rows=100), 6)
    0.08
    >>> stage_issue_seconds(issue=0.01, pp=1, step=5e-3, sequence=5e-5, rows=100)
    0.01
    """
    return maximum(issue, where(pp > 1, pp * (step + sequence * rows), 0.0))


@formula(DEFINITION)
def pool_of_free(*, utilization: Ratio, capacity: Bytes, fixed: Bytes) -> Bytes:
    """Room for caches where an engine gives them a share of what everything else leaves free.

    >>> pool_of_free(utilization=0.9, capacity=80e9, fixed=20e9)
    54000000000.0
    """
    return utilization * (capacity - fixed)


@formula(
    Source(
        "engine",
        "SGLang 0.5.3: ModelRunner.profile_max_num_token",
        "https://github.com/sgl-project/sglang/blob/v0.5.3/python/sglang/srt/model_executor/model_runner.py",
        "what is free after loading, less (1 - mem_fraction_static) of what was free before",
    )
)
def pool_of_static(*, utilization: Ratio, capacity: Bytes, before: Bytes, weights: Bytes, fixed: Bytes) -> Bytes:
    """Room for caches where weights and caches have a share of what was free before they came, and the rest must fit beside them.

    `before` is what was taken by then, which `fixed` holds too.

    >>> pool_of_static(utilization=0.9, capacity=80e9, before=0.0, weights=16e9, fixed=20e9)
    56000000000.0
    >>> pool_of_static(utilization=0.9, capacity=81e9, before=1e9, weights=16e9, fixed=31e9)
    50000000000.0
    """
    return minimum(utilization * (capacity - before) - weights, capacity - fixed)


@formula(Source("definition", "micro-batches follow each other through the stages: the fullest one works without a pause"))
def fullest_stage_wait(*, whole: Seconds, fullest: Seconds, batch: Count, pp: Count) -> Seconds:
    """Time that a decode step waits for the pipeline's fullest stage, which takes `fullest` for each of up to pp micro-batches.

    `whole` is the way of one micro-batch through all stages: even stages wait for none, and 61 layers on 4 for 3 layers more.

    >>> fullest_stage_wait(whole=60.0, fullest=15.0, batch=64, pp=4), fullest_stage_wait(whole=61.0, fullest=16.0, batch=64, pp=4)
    (0.0, 3.0)
    >>> fullest_stage_wait(whole=61.0, fullest=16.0, batch=1, pp=4)
    0.0
    """
    return maximum(minimum(batch, pp) * fullest - whole, 0.0 * whole)


@formula(DEFINITION)
def bytes_per_value(*, size: Bytes, params: Count) -> Bytes:
    """Mean bytes of a value of a part of a checkpoint, with its share of scales.

    >>> bytes_per_value(size=144.0, params=256.0)
    0.5625
    """
    return size / params


@formula(DEFINITION)
def padded_size(*, size: Count, ways: Count, multiple: Count) -> Count:
    """A dimension whose part on each of `ways` ranks is rounded up to a multiple.

    >>> padded_size(size=2880, ways=1, multiple=256), padded_size(size=2880, ways=2, multiple=128)
    (3072.0, 3072.0)
    """
    return ceil_div(size / ways, multiple) * multiple * ways


@formula(DEFINITION)
def padding_bytes(*, size: Bytes, one: Count, padded_one: Count, other: Count, padded_other: Count) -> Bytes:
    """What matrices grow by when both of their dimensions are padded.

    >>> padding_bytes(size=60.0, one=2880, padded_one=3072, other=2880, padded_other=2880)
    4.0
    """
    return size * (padded_one * padded_other / (one * other) - 1)


@formula(DEFINITION)
def decode_rows(*, batch: Count, pp: Count) -> Count:
    """Sequences that a pipeline stage decodes together: the batch is cut so that every stage has work.

    >>> decode_rows(batch=64, pp=2)
    32.0
    """
    return maximum(batch / pp, 1.0)


@formula(DEFINITION)
def middle_context(*, prompt: Count, output: Count) -> Count:
    """Tokens that a decode step sees on average: the prompt and half of the output.

    >>> middle_context(prompt=2000, output=300)
    2150.0
    """
    return prompt + output / 2


@formula(DEFINITION)
def weight_read_bytes(*, n: Count, k: Count, batch: Count, element: Bytes) -> Bytes:
    """Bytes of weights that one matmul reads.

    >>> weight_read_bytes(n=4096, k=4096, batch=1, element=2)
    33554432
    """
    return batch * n * k * element


@formula(DEFINITION)
def generation_seconds(*, prefill: Seconds, output: Count, step: Seconds) -> Seconds:
    """Time of a batch from its prompts to its last token; the prefill makes the first token.

    >>> generation_seconds(prefill=1.0, output=101, step=0.02)
    3.0
    """
    return prefill + (output - 1) * step


@formula(DEFINITION)
def batch_tokens_per_s(*, batch: Count, output: Count, seconds: Seconds, replicas: Count) -> PerS:
    """Output tokens a second of all replicas, prefill included.

    >>> batch_tokens_per_s(batch=16, output=100, seconds=4.0, replicas=2)
    800.0
    """
    return batch * output * replicas / seconds


@formula(DEFINITION)
def whole_sequences(*, pool: Bytes, each: Bytes) -> Count:
    """Sequences whose caches fit into a pool, never below zero.

    >>> whole_sequences(pool=10.0, each=3.0)
    3.0
    """
    return maximum(floor(pool / each), 0.0 * pool / each)


@formula(DEFINITION)
def sequences_of_tokens(*, room: Count, tokens: Count, context: Count) -> Count:
    """Sequences of `context` tokens in a cache that has room for `room` of them and is set to hold some tokens at most.

    >>> sequences_of_tokens(room=57.0, tokens=100_000.0, context=4096.0), sequences_of_tokens(room=57.0, tokens=1e6, context=4096.0)
    (24.0, 57.0)
    """
    return minimum(room, floor(tokens / context))


@formula(Source("definition", "what finds no room in the cache waits; one sequence is always begun"))
def sequences_at_once(*, asked: Count, room: Count) -> Count:
    """Sequences that run at once where more are asked for than the cache has room for: the others wait.

    >>> sequences_at_once(asked=256, room=57), sequences_at_once(asked=8, room=57), sequences_at_once(asked=8, room=0)
    (57, 8, 1.0)
    """
    return minimum(asked, maximum(room, 1.0))


@formula(DEFINITION)
def fleet_watts(*, chips: Count, watts: Watts) -> Watts:
    """What all accelerators draw together.

    >>> fleet_watts(chips=8, watts=700)
    5600
    """
    return chips * watts


@formula(_MBU)
def mbu(*, bytes_read: Bytes, step: Seconds, peak_bandwidth: BytesPerS) -> Ratio:
    """Memory bandwidth utilisation: bytes that a step must read, over what the memory could have moved.

    7B in 16 bits at 14 ms a token on 2 TB/s, published as 50 %:

    >>> mbu(bytes_read=14e9, step=0.014, peak_bandwidth=2e12)
    0.5
    """
    return bytes_read / (step * peak_bandwidth)


@formula(Source("definition", "the expectation when each token goes to any `top_k` of the experts alike"))
def experts_touched(*, experts: Count, top_k: Count, tokens: Count) -> Count:
    """Routed experts of a layer that so many tokens are expected to visit when routing is uniform: E·(1 - (1 - k/E)^B).

    >>> experts_touched(experts=8, top_k=2, tokens=1), experts_touched(experts=8, top_k=2, tokens=4)
    (2.0, 5.47)
    """
    return experts * (1 - (1 - top_k / experts) ** tokens)
