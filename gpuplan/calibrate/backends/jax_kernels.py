"""Which JAX functions are the kernels of a probe, and which data types and shapes run where?

Each kernel is one step of a compiled loop, so that no time of the host is in it. One number of every step's result goes into the
last tensor of the next, and the whole result is kept from step to step: otherwise the compiler would take the same product out of
the loop, or compute only the part that is looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from gpuplan.calibrate.device import Probe
from gpuplan.record import Record

Step: TypeAlias = Callable[..., Any]

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32", "fp8": "float8_e4m3fn", "int8": "int8"}
"""What JAX calls a data type."""
BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp8": 1, "int8": 1}
WIDTH = 4096
"""Length of the rows that norms work on."""
TILE = 128
"""Pallas attention on TPUs wants lengths and head dimensions in multiples of this."""
SCORES = 2.0**31
"""Plain attention writes its scores to memory: above so many bytes it says nothing of kernels that do not."""
CARRIED = 1e-3
"""How much of a number of the result goes on to the next step: so little that nothing grows."""
OVER_LINKS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


class Kernel(Record, kw_only=True):
    """One step of the loop: a function of these tensors."""

    step: Step
    given: tuple[Any, ...]


def refusal(platform: str, devices: int, probe: Probe) -> str | None:
    """Why a probe cannot run on a platform of JAX (`cpu`, `gpu`, `tpu`) with so many devices, or None.

    >>> refusal("tpu", 1, Probe(kind="matmul", dtype="fp32"))
    'a TPU multiplies fp32 in passes of bf16'
    """
    shape, dtype = probe.shape, probe.dtype
    if dtype not in DTYPES:
        return f"JAX has no kernel for {dtype} here"
    if probe.kind == "graph":
        return "JAX has no graphs: it compiles loops"
    if probe.kind in ("host_to_device", "device_to_host") and platform == "cpu":
        return "there is no device beside the processor"
    if probe.kind in ("collective", "transfer"):
        if shape["group"] > devices:
            return "there is one device" if devices == 1 else f"there are only {devices} devices"
        if shape.get("stride", 1) > 1:
            return "JAX measures groups of neighbours"
        return f"JAX measures no {probe.name}" if probe.kind == "collective" and probe.name not in OVER_LINKS else None
    if dtype == "tf32" and platform != "gpu":
        return "tf32 needs an NVIDIA GPU"
    if dtype == "fp32" and platform == "tpu" and probe.kind == "matmul":
        return "a TPU multiplies fp32 in passes of bf16"
    if dtype in ("fp8", "int8") and (platform == "cpu" or probe.kind != "matmul"):
        return f"JAX runs only matmuls in {dtype}" if platform != "cpu" else f"the processor has no fast {dtype}"
    return _attention_refusal(platform, probe) if probe.kind in ("prefill", "prefill_backward", "decode") else None


def _attention_refusal(platform: str, probe: Probe) -> str | None:
    shape = probe.shape
    if shape.get("window"):
        return "attention with a window is not measured"
    if shape["k_dim"] != shape["v_dim"]:
        return "JAX's own attention wants keys as wide as values"
    if probe.kind == "decode":
        return None
    if platform == "tpu" and (shape["q_len"] % TILE or shape["k_dim"] % TILE):
        return f"splash attention wants lengths and head dimensions in multiples of {TILE}"
    if platform == "cpu" and 4 * shape["sequences"] * shape["heads"] * shape["q_len"] * shape["kv_len"] > SCORES:
        return "plain attention would hold its scores in memory"
    return None


def kernel(jax: Any, platform: str, probe: Probe) -> Kernel:
    """The step of a probe and its tensors, on JAX's default device. JAX raises what it raises when they do not fit."""
    match probe.kind:
        case "matmul":
            return _matmul(jax, platform, probe)
        case "grouped_matmul":
            return _grouped(jax, probe)
        case "prefill" | "decode":
            return Kernel(step=_attend(jax, platform, probe), given=_queries(jax, probe))
        case "prefill_backward":
            return _backward(jax, platform, probe)
        case _:
            return _stream(jax, probe)


def loop(jax: Any, step: Step) -> Step:
    """A loop of a step as a function of its tensors and how often, yet to be compiled; gives what the last step made."""

    def run(given: Any, launches: Any) -> Any:
        def body(_: Any, state: Any) -> Any:
            before, *others, last = state
            seen = sum(leaf[(0,) * leaf.ndim].astype("float32") for leaf in jax.tree.leaves(before))
            last = last.at[(0,) * last.ndim].set((seen * CARRIED).astype(last.dtype))
            return (step(*others, last), *others, last)

        made = jax.eval_shape(step, *given)
        start = jax.tree.map(lambda leaf: jax.numpy.zeros(leaf.shape, leaf.dtype), made)
        return jax.lax.fori_loop(0, launches, body, (start, *given))[0]

    return run


def tensor(jax: Any, dtype: str, *shape: int) -> Any:
    """Random numbers: zeros would draw too little power."""
    key = jax.random.key(len(shape))
    if dtype == "int8":
        return jax.random.randint(key, shape, -127, 127, dtype="int8")
    return jax.random.normal(key, shape, dtype="bfloat16" if dtype == "fp8" else DTYPES[dtype]).astype(DTYPES[dtype])


def _matmul(jax: Any, platform: str, probe: Probe) -> Kernel:
    m, n, k, batch = (int(probe.shape[name]) for name in ("m", "n", "k", "batch"))
    dtype = probe.dtype
    out = {"int8": "int32", "fp8": "bfloat16"}.get(dtype, DTYPES[dtype])
    precision = {"fp32": "highest", "tf32": "tensorfloat32"}.get(dtype) if platform == "gpu" else None
    lead = (batch,) if batch > 1 else ()
    axes = tuple(range(len(lead)))
    contract = (len(lead) + 1,)

    def step(left: Any, weight: Any) -> Any:
        dimensions = ((contract, contract), (axes, axes))
        return jax.lax.dot_general(left, weight, dimensions, precision=precision, preferred_element_type=out)

    return Kernel(step=step, given=(tensor(jax, dtype, *lead, m, k), tensor(jax, dtype, *lead, n, k)))


def _grouped(jax: Any, probe: Probe) -> Kernel:
    """The rows of all experts behind each other, as many for each, times the weights of their expert."""
    m, n, k, experts = (int(probe.shape[name]) for name in ("m", "n", "k", "batch"))
    sizes = jax.numpy.full((experts,), m, dtype="int32")

    def step(left: Any, weight: Any) -> Any:
        return jax.lax.ragged_dot(left, weight, sizes)

    return Kernel(step=step, given=(tensor(jax, probe.dtype, experts * m, k), tensor(jax, probe.dtype, experts, k, n)))


def _queries(jax: Any, probe: Probe) -> tuple[Any, Any, Any]:
    shape = {key: int(value) for key, value in probe.shape.items()}
    sequences, dim = shape["sequences"], shape["k_dim"]
    q = tensor(jax, probe.dtype, sequences, shape["q_len"], shape["heads"], dim)
    k, v = (tensor(jax, probe.dtype, sequences, shape["kv_len"], shape["kv_heads"], dim) for _ in "kv")
    return q, k, v


def _attend(jax: Any, platform: str, probe: Probe) -> Step:
    """Attention of queries, keys and values (sequences x length x heads x dimension): splash on TPUs, cuDNN on GPUs, else plain."""
    if platform == "tpu" and probe.kind != "decode":
        return splash(jax, int(probe.shape["heads"]), int(probe.shape["q_len"]))
    causal, how = probe.shape["q_len"] > 1, "cudnn" if platform == "gpu" and probe.dtype in ("bf16", "fp16") else "xla"

    def step(q: Any, k: Any, v: Any) -> Any:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal, implementation=how)

    return step


def splash(jax: Any, heads: int, length: int, *, interpret: bool = False) -> Step:
    """Causal attention in Pallas's kernel for TPUs; `interpret` runs it anywhere, for tests."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    mask = masks.MultiHeadMask([masks.CausalMask((length, length)) for _ in range(heads)])
    attend = kernels.make_splash_mha(mask, head_shards=1, q_seq_shards=1, interpret=interpret)

    def step(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (one.swapaxes(1, 2) for one in (q * q.shape[-1] ** -0.5, k, v))
        return jax.vmap(attend)(q, k, v).swapaxes(1, 2)

    return step


def _backward(jax: Any, platform: str, probe: Probe) -> Kernel:
    out, pull = jax.jit(lambda *given: jax.vjp(_attend(jax, platform, probe), *given))(*_queries(jax, probe))
    return Kernel(step=lambda pull, gradient: pull(gradient), given=(pull, tensor(jax, probe.dtype, *out.shape)))


def _stream(jax: Any, probe: Probe) -> Kernel:
    """Streams add two tensors, norms normalise rows of `WIDTH`, activations gate one tensor with another."""
    element, dtype = BYTES[probe.dtype], probe.dtype
    size = probe.shape["size"]
    if probe.kind == "norm":
        rows = max(int(size / (2 * element * WIDTH)), 1)

        def norm(x: Any, weight: Any) -> Any:
            wide = x.astype("float32")
            return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * weight

        return Kernel(step=norm, given=(tensor(jax, dtype, rows, WIDTH), tensor(jax, dtype, WIDTH)))
    # Whole rows: a TPU pads the last dimension of what is not.
    count = max(int(size / (3 * element)), 1)
    shape = (count // WIDTH, WIDTH) if count >= WIDTH else (count,)
    given = (tensor(jax, dtype, *shape), tensor(jax, dtype, *shape))
    if probe.kind == "activation":
        return Kernel(step=lambda left, right: jax.nn.silu(left) * right, given=given)
    return Kernel(step=lambda left, right: left + right, given=given)


def over_links(jax: Any, devices: list[Any], probe: Probe) -> tuple[Step, Any]:
    """The loop of a collective between devices of this process, and its tensor, spread over them (sizes as nccl-tests counts)."""
    ranks, element = len(devices), BYTES[probe.dtype]
    mesh = jax.sharding.Mesh(devices, ("link",))
    spec = jax.sharding.PartitionSpec("link")
    part = max(int(probe.shape["size"] / element / ranks), ranks)
    part += -part % ranks
    counts = {"all_gather": part, "transfer": max(int(probe.shape["size"] / element), 1)}
    count = counts.get(probe.name or probe.kind, part * ranks)
    lax, pairs = jax.lax, [(rank, (rank + 1) % ranks) for rank in range(ranks)]
    one: Step = {
        "all_reduce": lambda x: lax.psum(x, "link"),
        "all_gather": lambda x: lax.all_gather(x, "link", tiled=True),
        "reduce_scatter": lambda x: lax.psum_scatter(x, "link", tiled=True),
        "all_to_all": lambda x: lax.all_to_all(x, "link", 0, 0, tiled=True),
        "transfer": lambda x: lax.ppermute(x, "link", pairs[:1]),
    }[probe.name or probe.kind]
    given = jax.device_put(tensor(jax, probe.dtype, count * ranks), jax.sharding.NamedSharding(mesh, spec))
    everywhere = jax.sharding.PartitionSpec()
    return jax.shard_map(loop(jax, one), mesh=mesh, in_specs=((spec,), everywhere), out_specs=spec, check_vma=False), given
