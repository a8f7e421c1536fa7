"""How far are training estimates from published runs? Reads files of measured runs, prints errors by source, draws a plot.

    python benchmarks/published_runs.py FOLDER [--plot FILE.png]

FOLDER holds YAML lists of runs: `model.id`, `hardware {accelerator, count}`, `framework`, `run {seq_len, global_batch,
micro_batch, precision, sharding, tp, pp, cp, ep, vpp, recompute}`, `measured {tokens_per_s_per_accelerator or step_time_s}`.
Rows that leave out what a plan needs, or are flagged as doubtful, are counted and skipped.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import yaml

from gpuplan.errors import GpuplanError
from gpuplan.estimate.training import training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Parallelism, require
from gpuplan.plan.train import TrainPlan, train_rules
from gpuplan.search.library import Library
from gpuplan.search.shape import shape_of

FSDP = ("composer-fsdp", "torchtitan", "fsdp", "torchao")
PRECISIONS = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "mxfp8": "fp8", "fp32": "fp32"}


def main() -> None:
    """Estimate every row, print the table, and draw the plot when asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    library, skipped, points = Library.of(TrainAsk(model="", on="")), Counter[str](), []
    for file in sorted(args.folder.glob("*.yaml")):
        for row in yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) or ():
            try:
                points.append((file.stem, *compared(row, library)))
            except GpuplanError as error:
                skipped[error.problems[0].message.split("`")[0].strip()[:60]] += 1
            except LookupError as error:
                skipped[f"the row has no usable {error.args[0]}"] += 1
    report(points, skipped)
    if args.plot:
        plot(points, args.plot)


def compared(row: dict[str, Any], library: Library) -> tuple[float, float]:
    """Measured and estimated tokens a second and accelerator.

    Raises:
        LookupError: the row lacks something, or says something that this comparison cannot express.
        GpuplanError: the model, the machine or the plan is not known.
    """
    if row.get("flag") or row["kind"] not in ("pretrain", "finetune-full"):
        raise LookupError("kind (flagged, or not full training)")
    run, chips, made = row["run"], row["hardware"]["count"], row["measured"]
    framework = str(row.get("framework", "")).lower()
    engine = (
        "maxtext"
        if "maxtext" in framework or "tpu" in row["hardware"]["accelerator"]
        else "fsdp"
        if any(name in framework for name in FSDP)
        else "megatron-lm"
    )
    ask = TrainAsk(model=row["model"]["id"], on=f"{chips}x{row['hardware']['accelerator']}", engine=engine)
    found = library.look_up(ask, "train", with_price=False)
    nominal = row["model"].get("params_b")
    if nominal and abs(found.subject.counts.params_total.value / 1e9 / nominal - 1) > 0.05:
        raise LookupError("model (its size is not the card's)")
    tokens_per_s = made.get("tokens_per_s_per_accelerator")
    if tokens_per_s is None:
        tokens_per_s = run["global_batch"] * run["seq_len"] / made["step_time_s"] / chips
    plan = plan_of(run, chips)
    require(train_rules(plan, shape_of(found.subject.arch, chips)))
    figures = training_figures(found.subject, plan).figures
    return float(tokens_per_s), float(figures["tokens_per_s_per_accelerator"].value)


def plan_of(run: dict[str, Any], chips: int) -> TrainPlan:
    """The plan that a row states."""
    degrees = {name: float(run.get(name) or 1) for name in ("tp", "pp", "cp", "ep", "vpp")}
    sharding = str(run.get("sharding") or "")
    full = ("fsdp" in sharding and "hybrid" not in sharding) or "zero3" in sharding
    return TrainPlan(
        parallel=Parallelism(
            **degrees,
            dp=chips / (degrees["tp"] * degrees["pp"] * degrees["cp"]),
            zero_stage=3 if full else 0 if "ddp" in sharding else 1,
            sequence_parallel=bool(run.get("sequence_parallel", degrees["tp"] > 1)),
        ),
        seq_len=float(run["seq_len"]),
        global_batch=float(run["global_batch"]),
        micro_batch=float(run["micro_batch"]),
        recompute={"none": "none", "selective": "selective", "full": "full"}[str(run.get("recompute") or "none")],  # type: ignore[arg-type]
        precision=PRECISIONS[str(run.get("precision") or "bf16")],  # type: ignore[arg-type]
    )


def report(points: list[tuple[str, float, float]], skipped: Counter[str]) -> None:
    """Print errors by source, and why rows were left out."""
    by_source: dict[str, list[float]] = defaultdict(list)
    for source, measured, estimated in points:
        by_source[source].append(estimated / measured - 1)
        by_source["all"].append(estimated / measured - 1)
    print(f"{'source':24s} {'rows':>5s} {'median error':>13s} {'mean':>7s} {'p90':>7s} {'bias':>7s}")
    for source, errors in by_source.items():
        size = sorted(abs(error) for error in errors)
        p90 = size[int(0.9 * (len(size) - 1))]
        middle, mean, bias = statistics.median(size), statistics.mean(size), statistics.median(errors)
        print(f"{source:24s} {len(size):5d} {middle:13.1%} {mean:7.1%} {p90:7.1%} {bias:+7.1%}")
    print("\nskipped")
    for reason, count in skipped.most_common():
        print(f"{count:5d}  {reason}")


def plot(points: list[tuple[str, float, float]], file: Path) -> None:
    """Draw estimated against measured throughput on logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    families = {
        "Megatron-LM, NeMo, Megatron-Bridge": ("dgxc-benchmarking", "megatron-bridge", "megatron-papers", "jax-toolbox"),
        "FSDP: llm-foundry": ("llm-foundry", "llm-foundry-2023"),
        "FSDP: torchtitan, torchao, fms": ("torchtitan", "torchao", "fms-fsdp"),
        "TPU recipes (MaxText)": ("tpu-recipes",),
    }
    figure, axes = pyplot.subplots(figsize=(7.2, 5.6), dpi=150)
    ends = [100, 3e5]
    axes.plot(ends, ends, color="#333", lw=1)
    axes.fill_between(ends, [end * 0.8 for end in ends], [end * 1.25 for end in ends], color="#bbb", alpha=0.35, lw=0)
    for (name, sources), colour, marker in zip(families.items(), ("#1f6f8b", "#d1495b", "#edae49", "#66a182"), "os^D", strict=True):
        pairs = [(measured, estimated) for source, measured, estimated in points if source in sources]
        if pairs:
            error = statistics.median(abs(estimated / measured - 1) for measured, estimated in pairs)
            label = f"{name}: {len(pairs)} runs, median error {error:.0%}"
            axes.scatter(*zip(*pairs, strict=True), s=16, c=colour, marker=marker, alpha=0.75, lw=0, label=label)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=ends, title="Published training runs against gpuplan's estimate")
    axes.set(xlabel="measured tokens/s per accelerator", ylabel="estimated tokens/s per accelerator (grey: within 1.25 x)")
    axes.grid(visible=True, color="#ddd", lw=0.6)
    axes.legend(fontsize=7.5, loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file)


if __name__ == "__main__":
    main()
