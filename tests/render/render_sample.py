"""A hand-made estimate with every kind of thing that an answer can show."""

from gpuplan.errors import Note
from gpuplan.estimate.result import Breakdown, Change, Choice, Estimate, Verdict
from gpuplan.formulas.cost import accelerator_seconds, run_usd
from gpuplan.formulas.flop import mfu, six_nd_flop
from gpuplan.formulas.kernels import compute_seconds, kernel_seconds, memory_seconds
from gpuplan.formulas.memory import state_bytes
from gpuplan.term import USER, Source, Term, total

SHEET = Source(
    "datasheet",
    "NVIDIA H100 Tensor Core GPU Datasheet",
    "https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet",
    "Technical Specifications",
    "2026-11-20",
    "printed as 3.35 TB/s",
)
PAPER = Source("measured", "Hazy kernels on H100", "https://example.org/kernels", "table 2", "2026-11-20")
ASSUMED = Source("assumed", "framework context of the engine")
PRICE = Source("price", "aws:p5.48xlarge on demand, us-east-1", "https://aws.amazon.com/ec2/pricing/on-demand/", "", "2026-11-20")


def sample(*, fits: bool = True) -> Estimate:
    """A training estimate made of real formulas; only the numbers matter little."""
    chips = Term("plan.accelerators", 8.0, "1", USER)
    params = Term("model.params_total", 8_030_261_248.0, "1", Source("model-card", "Llama 3.1 8B", "https://example.org/card"))
    tokens = Term("plan.tokens_per_step", 4_194_304.0, "1", Source("chosen", "global batch 512 x 8,192 tokens"))
    flop = six_nd_flop.term("train.model_flop", params=params, tokens=tokens)
    peak = Term("hw.bf16_flop_per_s", 7.91e15, "FLOP/s", SHEET)
    bandwidth = Term("hw.hbm_bytes_per_s", 26.8e12, "B/s", SHEET, spread=(24.0e12, 27.5e12))
    moved = Term("step.bytes_moved", 2.1e12, "B", Source("derived", "two reads of all weights"))
    nothing, whole = Term("kernel.none", 0.0, "1", USER), Term("kernel.efficiency", 1.0, "1", USER)
    compute = compute_seconds.term(
        "train.step.compute", flop=flop, flop_per_s=peak, efficiency=whole, depth=tokens, short_depth=nothing
    )
    memory = memory_seconds.term("train.step.memory", size=moved, bandwidth=bandwidth, efficiency=whole)
    forward = kernel_seconds.term(
        "train.step.forward_backward", compute=compute, memory=memory, start=Term("kernel.start", 0.0, "s", USER), unhidden=nothing,
        residual=whole,
    )  # fmt: skip
    comm = Term("train.step.exposed_comm", 3.1, "s", PAPER, spread=(2.5, 4.4))
    optimizer = Term("train.step.optimizer", 0.0412, "s", ASSUMED, spread=(0.03, 0.08))
    step = total("train.step", {"forward_backward": forward, "exposed_comm": comm, "optimizer": optimizer})
    weights = state_bytes.term(
        "memory.weights", params=params, bytes_per_param=Term("recipe.weight_bytes", 2.0, "B", USER), shards=chips
    )
    states = state_bytes.term(
        "memory.optimizer_state", params=params, bytes_per_param=Term("recipe.state_bytes", 12.0, "B", USER), shards=chips
    )
    context = Term("memory.framework_context", 1.1e9, "B", ASSUMED, spread=(0.8e9, 1.6e9))
    memory = total("memory.peak", [states, weights, context])
    hourly = Term("price.usd_per_s", 98.32 / 3600, "USD/s", PRICE)
    nodes = Term("plan.instances", 1.0, "1", USER)
    run = Term("train.run_time", 3.1e7, "s", Source("derived", "steps times step time"))
    headline = "61.2 GiB of 79.2 GiB on each of 8 x H100 SXM 80 GB; optimizer state binds"
    if not fits:
        headline = "does not fit: 161 GiB wanted, 79.2 GiB usable on each of 8 x H100 SXM 80 GB; optimizer state binds"
    return Estimate(
        "train",
        {"model": "llama-3.1-8b", "on": "8xh100-sxm-80gb", "tokens": "15 T", "seq_len": "8,192", "global_batch": "512"},
        Verdict(fits, headline, "memory.optimizer_state"),
        {
            "step_time_s": step,
            "mfu": mfu.term("mfu", model_flop=flop, seconds=step, chips=chips, peak_flop_per_s=peak),
            "tokens_per_s": Term("train.tokens_per_s", 127_345.0, "1/s", Source("derived", "tokens a step by step time")),
            "peak_memory_bytes": memory,
            "run_time_s": run,
            "accelerator_time_s": accelerator_seconds.term("train.accelerator_time", chips=chips, seconds=run),
            "cost_usd": run_usd.term("train.cost", chips=nodes, seconds=run, price=hourly),
        },
        (
            Breakdown(
                "Memory of the most loaded accelerator",
                memory,
                {"optimizer_state": states, "weights": weights, "framework_context": context},
            ),
            Breakdown("Time of one step", step, {"forward": forward, "exposed_comm": comm, "optimizer": optimizer}),
        ),
        (Choice("tp", "1", "fastest of 96 legal plans"), Choice("recompute", "selective", "none does not fit at micro-batch 2")),
        (Note("target.chosen", "`h100` is taken as the SXM part of 80 GB", "write `h100-pcie-80gb` for the PCIe card"),),
        advice=lambda: (
            Change({"tp": "2"}, "fits, 12 % slower"),
            Change({"on": "8xh200-sxm-141gb"}, "fits with 54 GiB free"),
            Change(
                {"zero-stage": "3", "recompute": "full"}, "fits, 31 % slower, and leaves the plan otherwise as it was asked for"
            ),
        ),
    )
