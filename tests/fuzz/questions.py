"""Which questions could anybody ask? Words of the command line made from the table of options, sensible ones and odd ones."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from gpuplan.models.catalog import CARDS
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import Entry, entries
from gpuplan.specs.catalog import Catalog

TASKS = ("fit", "train", "serve")
MODELS = sorted(path.stem for path in CARDS.glob("*.yaml"))
CATALOG = Catalog.open([])
ACCELERATORS = sorted(CATALOG.paths("accelerators"))
SYSTEMS = sorted(CATALOG.paths("systems"))
ENGINES = sorted(CATALOG.paths("engines"))
INSTANCES = ("aws:p5.48xlarge", "aws:g5.xlarge", "gcp:a3-highgpu-8g", "azure:Standard_ND96isr_H100_v5", "lambda:gpu_1x_a100")
SLICES = ("tpu-v5e-8", "tpu-v5p-256", "tpu-v6e-64", "tpu-v7-cube")
COUNTS = (1, 2, 4, 8, 16, 64, 256, 1000, 4096)
LENGTHS = ("1", "17", "128", "512", "2k", "4096", "8k", "32k", "128k", "1M")
DEGREES = ("1", "2", "3", "4", "5", "8", "16", "32")
SIZES = ("1", "2", "7", "8", "64", "512", "1536", "100000")
AMOUNTS = ("0.001", "0.5", "1", "1.5", "10", "1e3", "1e9", "300B", "15T")
TIMES = ("1 us", "1 s", "5min", "1h", "50000h", "1e9 s")
ODD_NUMBERS = (
    "0", "-1", "-0", "1e309", "-1e309", "1e308", "1e-308", "5e-324", "nan", "inf", "9" * 40, "9" * 400, "1,5", "3,5", "1_000",
    "0x10",    "1e", "--", "", " ", "½", "٣", "1/0", "1e300 s", "1e-300 s", "10 GB", "8 parrots", "1e15", "2**31", "2147483648",
    "1.5", "0.1",
)  # fmt: skip
ODD_WORDS = (
    "", " ", "none", "None", "null", "true", "NO", "../../etc/passwd", "/dev/null", "a" * 300, "\x1b[31m", "\x00", "h100\n", "🦜",
    "%s", "{0}", "$HOME", "--json", "-", "h100x8", "0xh100", "-1xh100", "1e9xh100", "8xh100@", "8xh100@nothing", "x", "*",
)  # fmt: skip
PINS = (
    "engine.fragmentation", "engine.context", "engine.memory_residual", "engine.residual", "engine.step_host", "engine.overlap",
    "engine.memory_utilization", "engine.decode_residual", "engine.max_sequences", "engine.layer_host", "hw.hbm_bandwidth",
    "hw.memory_capacity", "hw.bf16_flop_per_s", "hw.matmul.bf16.efficiency", "hw.matmul.bf16.start", "hw.stream.efficiency",
    "hw.matmul_residual", "hw.price", "hw.power", "hw.sm_count", "memory.peak", "memory.activations", "memory.weights",
    "memory.kv_cache", "last_stage.memory.activations", "stage.first_layers", "step.seconds", "step.matmuls", "mfu", "tokens_per_s",
    "run.mtbf", "run.restart", "run.seconds", "run.wall_seconds", "decode.seconds", "prefill.seconds", "model.hidden",
    "model.layers",    "plan.tp", "nothing.of.that.name",
)  # fmt: skip
PINNED = (
    "0",
    "0.5",
    "1",
    "2",
    "100",
    "1e6",
    "1e12",
    "1e300",
    "1e309",
    "-1",
    "10 GB",
    "90 GB",
    "1 us",
    "1 s",
    "3 TB/s",
    "1e400 s",
    "",
)

SETTLED = (
    "train llama-3.1-8b --on 8xh100 --tp 2 --pp 2 --micro-batch 1 --global-batch 64 --recompute full --tokens 1T --price 2",
    "train deepseek-v2-lite --on 16xh100 --tp 1 --pp 2 --ep 4 --micro-batch 1 --global-batch 64 --zero-stage 1",
    "train qwen2.5-0.5b --on rtx-4090 --engine trl --qlora --lora 16 --micro-batch 1 --global-batch 16",
    "train llama-3.1-8b --on 4xh100 --zero-stage 3 --offload optimizer --tp 1 --pp 1 --micro-batch 1 --global-batch 16",
    "train qwen2.5-7b --on 8xh100 --rl grpo --tp 2 --pp 1 --micro-batch 1",
    "train resnet-50 --on 8xa100",
    "serve llama-3.1-8b --on h100 --batch 8 --prompt 500 --output 100 --price 2",
    "serve mixtral-8x7b --on 4xh100 --tp 4 --engine tensorrt-llm",
    "fit gemma-3-27b --on rtx-4090 --weights int4 --context 4096",
)
"""Questions that leave little to choose, for values of any of their terms."""
VALUES = ("0", "1e-300", "1e-12", "0.5", "1", "3", "1e3", "1e9", "1e15", "1e40", "1e300", "1e308")

sensible_on = st.one_of(
    st.tuples(st.sampled_from(COUNTS), st.sampled_from(ACCELERATORS)).map(lambda one: f"{one[0]}x{one[1]}"),
    st.sampled_from(ACCELERATORS),
    st.tuples(st.sampled_from((1, 2, 4)), st.sampled_from([*SYSTEMS, *INSTANCES, *SLICES])).map(lambda one: f"{one[0]}x{one[1]}"),
)
odd_text = st.one_of(st.sampled_from(ODD_WORDS), st.text(max_size=12))
odd_value = st.one_of(st.sampled_from(ODD_NUMBERS), odd_text, st.floats().map(str), st.integers().map(str))
pin = st.tuples(st.sampled_from(PINS), st.sampled_from(PINNED)).map("=".join)


def sensible(entry: Entry) -> st.SearchStrategy[list[str]]:
    """An option with a value that it is made for."""
    kind, option = entry.kind, entry.option
    if kind == "switch":
        return st.sampled_from(entry.flags).map(lambda flag: [flag])
    if entry.flag == "--set":
        return pin.map(lambda one: [entry.flag, one])
    if entry.words:
        values: Sequence[str] = entry.words
    elif entry.name == "engine":
        values = ENGINES
    elif option.unit == "s":
        values = TIMES
    elif option.length:
        values = LENGTHS
    elif kind == "whole":
        values = DEGREES if "degree" in option.about else SIZES
    elif kind == "number":
        values = AMOUNTS
    else:
        values = (entry.example or "us-east-1", "us-east-1", "2026-11-01")
    return st.sampled_from(values).map(lambda value: [entry.flag, value])


@st.composite
def question(draw: st.DrawFn, *, odd: bool) -> list[str]:
    """The words of a question, with one odd value or more where `odd`."""
    task = draw(st.sampled_from(TASKS))
    free = [one for one in entries(ASKS[task]).values() if not one.positional and one.name not in ("on", "specs", "task")]
    model, on = draw(st.sampled_from(MODELS)), draw(sensible_on)
    options = [draw(sensible(entry)) for entry in draw(st.lists(st.sampled_from(free), max_size=4, unique_by=lambda one: one.name))]
    if odd:
        wrong = draw(st.sampled_from([None, None, None, "model", "on"]))
        model = draw(odd_text) if wrong == "model" else model
        on = draw(odd_text) if wrong == "on" else on
        if wrong is None:
            entry = draw(st.sampled_from(free))
            options.append([entry.flag, draw(odd_value)])
    return [task, model, "--on", on, *(word for one in options for word in one)]
