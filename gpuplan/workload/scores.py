"""What is done where attention is not fused: two batched products forward and four backward, and kernels over the scores."""

from __future__ import annotations

from gpuplan.formulas.basic import product
from gpuplan.formulas.memory import attention_score_bytes
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
SCORE_KERNELS = Term("work.score_kernels", 2.0, "1", _KERNELS)
TWO_BYTES = Term("work.score_element", 2.0, "B", Source("definition", "scores in 16 bits"))


def written_out(item: Attention) -> tuple[list[Matmul], Stream]:
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
    size = attention_score_bytes.term(
        f"{at}.score_bytes", sequences=ONE, heads=heads, q_tokens=q, kv_tokens=kv, element_bytes=SCORE_TRAFFIC[item.backward]
    )
    return made, Stream(name=f"{at}.score_kernels", size=size, launches=SCORE_KERNELS)
