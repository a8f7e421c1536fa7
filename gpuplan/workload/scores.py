"""What is done where attention is not fused: two batched products forward and four backward, and kernels over the scores."""

from __future__ import annotations

from gpuplan.formulas.basic import product
from gpuplan.formulas.layers import softmax_traffic_bytes
from gpuplan.formulas.memory import attention_score_bytes
from gpuplan.record import Record
from gpuplan.term import Source, Term
from gpuplan.work import Attention, Matmul, Stream
from gpuplan.workload.context import ONE

_KERNELS = Source("definition", "what softmax and dropout read and write for each score in 16 bits, and a mask of one byte")
SCORE_TRAFFIC = {
    # Forward: softmax reads and writes 2 bytes, dropout too, and writes a mask of 1.
    False: Term("work.score_traffic", 9.0, "B", _KERNELS),
    # Backward: dropout reads 2 and the mask, writes 2; softmax reads its output and the gradient and writes 2.
    True: Term("work.score_traffic_backward", 11.0, "B", _KERNELS),
}
_APART = Source(
    "engine",
    "Megatron-LM v2.5: FusedScaleMaskSoftmax.forward, without its kernel",
    "https://github.com/NVIDIA/Megatron-LM/blob/v2.5/megatron/model/fused_softmax.py",
    "float, scale, mask, softmax, half one by one; the middle of softmax in fp32, as layer scaling has it, and in 16 bits",
)
APART_TRAFFIC = {
    # Forward, bytes read and written: in fp32 widened 6, scaled 8, masked 9, softmax 8, narrowed 6; in 16 bits masked 5, softmax 4.
    False: Term("work.apart_score_traffic", 28.0, "B", _APART, spread=(14.0, 42.0)),
    # Backward: in fp32 widened 6, softmax 12, mask 9, scale 8, narrowed 6; in 16 bits softmax 6, mask 5. Dropout 5 as above.
    True: Term("work.apart_score_traffic_backward", 31.0, "B", _APART, spread=(16.0, 46.0)),
}
SCORE_KERNELS = Term("work.score_kernels", 2.0, "1", _KERNELS)
TWO_BYTES = Term("work.score_element", 2.0, "B", Source("definition", "scores in 16 bits"))


class ScoreTraffic(Record):
    """What an engine's code says of the kernels between the products, where scores are written out."""

    fused_keys: Term | None = None
    """Keys up to which scale, mask and softmax are one kernel; one after the other beyond. None: always."""
    forward: Term | None = None
    """Bytes for each score; None: what the kernels of Megatron-LM move."""
    backward: Term | None = None


def written_out(item: Attention, said: ScoreTraffic) -> tuple[list[Matmul], Stream]:
    """The products and the traffic of an attention whose scores pass through memory; a causal mask saves nothing.

    Products are [queries, keys] for each head; with fewer key heads, these are repeated.
    """
    at, heads = item.name, product.term(f"{item.name}.products", a=item.sequences, b=item.heads)

    def batched(name: str, m: Term, n: Term, k: Term) -> Matmul:
        return Matmul(
            name=f"{at}.{name}", m=m, n=n, k=k, batch=heads, dtype=item.dtype,
            left_bytes=TWO_BYTES, right_bytes=TWO_BYTES, out_bytes=TWO_BYTES,
        )  # fmt: skip

    q, kv, dk, dv = item.q_len, item.kv_len, item.k_dim, item.v_dim
    if item.backward:
        made = [
            batched("score_gradient", q, kv, dv), batched("value_gradient", kv, dv, q), batched("query_gradient", q, dk, kv),
            batched("key_gradient", kv, dk, q),
        ]  # fmt: skip
    else:
        made = [batched("scores", q, kv, dk), batched("mixed_values", q, dv, kv)]
    traffic = (said.backward if item.backward else said.forward) or SCORE_TRAFFIC[item.backward]
    if said.fused_keys is not None:
        traffic = softmax_traffic_bytes.term(
            f"{at}.score_traffic", keys=kv, most=said.fused_keys, fused=traffic, apart=APART_TRAFFIC[item.backward]
        )
    size = attention_score_bytes.term(
        f"{at}.score_bytes", sequences=ONE, heads=heads, q_tokens=q, kv_tokens=kv, element_bytes=traffic
    )
    return made, Stream(name=f"{at}.score_kernels", size=size, launches=SCORE_KERNELS)
