"""How far are gpuplan's predictions from what a real model does on this device: which cases, how are they timed, how judged?

Predictions come from the caller (`Predict`), since the questions that they answer are those of the whole estimator.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from gpuplan.calibrate.backends.load import Load
from gpuplan.calibrate.backends.torch_timing import clock_of
from gpuplan.calibrate.verify_kinds import measured_kinds
from gpuplan.calibrate.verify_model import SIZES, Model, Size, decode, prefill, train_step
from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.record import Record, field

Task: TypeAlias = Literal["train", "prefill", "decode"]
TASKS: tuple[Task, ...] = ("train", "prefill", "decode")
MOST_SIZES = 3
SHARE_OF_MEMORY = 0.85
"""No case takes more of the free memory."""
CASE_S = {"cpu": 0.6, "cuda": 5.0}
"""A default case that should take longer is left out."""
CASE_BYTES = {"cpu": 4 * 2.0**30, "cuda": math.inf}
"""So is one that needs more memory, which a processor fills slowly."""
LEAST_S = {"cpu": 0.01, "cuda": 0.002}
"""A default training step shorter than this says more of the clock than of the machine."""
SAMPLES = 5
SHARED_SAMPLES = 15
"""The same on processors, of which the faster half counts."""
SAMPLE_S = 0.1
"""Short cases run back to back for so long in each sample."""
WARM_UP_S = 0.3
PATIENCE_S = 3.0
"""No further sample is taken of a case that took so long."""


class Where(Record, kw_only=True):
    """The device that runs the cases."""

    name: str
    """As PyTorch names it: `cpu`, `cuda:0`."""
    half: str | None = None
    """The 16-bit type that it multiplies, as PyTorch names it; None: it runs in 32 bits."""
    free: float

    @property
    def kind(self) -> str:
        """`cpu` or `cuda`."""
        return self.name.partition(":")[0]


class VerifyCase(Record, kw_only=True):
    """One thing to run: a training step, the prefill of a batch of prompts, or a decode step behind a context."""

    size: Size
    task: Task
    batch: int
    length: int
    """Tokens of a sequence (train), of a prompt (prefill), or in the cache (decode)."""

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.task} {self.size.name} {self.batch} x {self.length}"


class Foretold(Record, kw_only=True):
    """What gpuplan says of a case: seconds and bytes, each low, expected and high."""

    seconds: tuple[float, float, float]
    memory: tuple[float, float, float] | None = None
    """Of tensors, as the framework's allocator counts them."""
    needed: float = 0.0
    """Bytes of everything."""
    fits: bool = True
    kinds: Mapping[str, float] = field(default_factory=dict)
    """Seconds by kind of kernel."""
    without: float | None = None
    """Seconds that would be expected without the calibration, where something else is known of the kernels."""


class VerifyRow(Record, kw_only=True):
    """One row of the table."""

    case: VerifyCase
    what: Literal["time", "memory"]
    measured: float
    low: float
    expected: float
    high: float
    parts: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Of a time the seconds of each kind of kernel, measured and foretold, where the profiler told."""
    others: float | None = None
    """The share of the processors that other processes took meanwhile, where these are what ran it."""
    spread: float = 0.0
    """How far apart the samples of a time are, as a share of it."""
    without: float | None = None
    """What would be expected without the calibration."""

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.expected / self.measured - 1

    @property
    def within(self) -> bool:
        """Whether the measured figure lies in the predicted range."""
        return self.low <= self.measured <= self.high


Predict: TypeAlias = Callable[[VerifyCase], Foretold]


def sizes_of(words: str | None) -> list[Size] | None:
    """The sizes that were named, with commas; None: nothing was.

    Raises:
        UsageError: no such size.
    """
    if words is None:
        return None
    known = {size.name: size for size in SIZES}
    names = [word.strip().lower() for word in words.split(",") if word.strip()]
    wrong = [name for name in names if name not in known]
    if wrong or not names:
        hint = did_you_mean(wrong[0], known) if wrong else ""
        raise UsageError(
            Problem("usage.word", f"--sizes: no model is called `{', '.join(wrong)}`", hint or f"there are {', '.join(known)}")
        )
    return [known[name] for name in names]


def case_of(size: Size, task: Task, where: Where) -> VerifyCase:
    """The usual batch and length of a task on a kind of device."""
    usual: Mapping[str, Mapping[str, tuple[int, int]]] = {
        "cpu": {"train": (1, 256), "prefill": (1, 256), "decode": (1, 256)},
        "cuda": {"train": (8, 2048), "prefill": (4, 2048), "decode": (16, 2048)},
    }
    batch, length = usual[where.kind][task]
    return VerifyCase(size=size, task=task, batch=batch, length=length)


def chosen(where: Where, predict: Predict, named: Sequence[Size] | None) -> tuple[list[tuple[VerifyCase, Foretold]], list[str]]:
    """The cases to run with what is foretold of each, and what was left out and why.

    Without named sizes: of each task the largest few that fit and do not take too long, and in any case one.

    Raises:
        UsageError: nothing is left.
    """
    left_out: list[str] = []
    picked: list[tuple[VerifyCase, Foretold]] = []
    for task in TASKS:
        made: list[tuple[VerifyCase, Foretold]] = []
        for size in named if named is not None else SIZES:
            case = case_of(size, task, where)
            told = predict(case)
            seconds, why = told.seconds[1], ""
            if not told.fits or told.needed > SHARE_OF_MEMORY * where.free:
                why = "too little free memory"
            elif named is None and made and seconds > CASE_S[where.kind]:
                why = f"would take {seconds:.1f} s"
            elif named is None and made and told.needed > CASE_BYTES[where.kind]:
                why = "its weights would take long to fill"
            if why:
                left_out.append(f"{case.name}{'' if named is not None else ' and larger'}: {why}")
                if named is None:
                    break
            elif named is not None or task != "train" or seconds >= LEAST_S[where.kind] or size is SIZES[-1]:
                made.append((case, told))
        picked += made if named is not None else made[-MOST_SIZES:]
    order = {size.name: at for at, size in enumerate(SIZES)}
    picked.sort(key=lambda one: (order.get(one[0].size.name, 0), TASKS.index(one[0].task)))
    if not picked:
        raise UsageError(
            Problem("verify.nothing", f"no case fits this device: {'; '.join(left_out)}", "name smaller models with --sizes")
        )
    return picked, left_out


def verify(picked: Sequence[tuple[VerifyCase, Foretold]], where: Where) -> Iterator[VerifyRow]:
    """Run the cases one by one: the lines of each as soon as it is done.

    Raises:
        UsageError: the device has too little memory after all.
    """
    for case, told in picked:
        made = measure(case, where)
        low, expected, high = told.seconds
        yield VerifyRow(
            case=case, what="time", measured=made.seconds, low=low, expected=expected, high=high,
            parts=_parts(made.kinds, told), others=made.others, spread=made.spread, without=told.without,
        )  # fmt: skip
        if made.memory is not None and told.memory is not None:
            low, expected, high = told.memory
            yield VerifyRow(case=case, what="memory", measured=made.memory, low=low, expected=expected, high=high)


def explained(lines: Sequence[VerifyRow], picked: Sequence[tuple[VerifyCase, Foretold]], where: Where) -> list[VerifyRow]:
    """The lines with the times of a GPU parted by kind of kernel, from a profile of each case.

    All cases have been timed before: a profiler that ran once may slow down the launches of all that comes after it.
    """
    told = {case.name: one for case, one in picked}
    made: list[VerifyRow] = []
    for line in lines:
        if line.what == "time" and not line.parts and where.kind == "cuda":
            run = _prepared(line.case, where)
            for _ in range(3):
                run()
            line = line.replaced(parts=_parts(measured_kinds(run, True, line.measured), told[line.case.name]))  # noqa: PLW2901
        made.append(line)
    return made


def _parts(kinds: Mapping[str, float] | None, told: Foretold) -> dict[str, tuple[float, float]]:
    """Seconds by kind of kernel, measured and foretold; nothing where the profiler does not run."""
    return {} if kinds is None else {kind: (kinds[kind], one) for kind, one in told.kinds.items()}


class Taken(Record, kw_only=True):
    """What a case took."""

    seconds: float
    """Of one repetition."""
    spread: float = 0.0
    """How far apart the samples are that it is the median of, as a share of it."""
    memory: float | None = None
    """The most bytes that tensors took, where the device counts them."""
    kinds: Mapping[str, float] | None = None
    """Seconds by kind of kernel on a processor, where the profiler runs; of GPUs `explained` tells them."""
    others: float | None = None
    """The share of the processors that other processes took meanwhile."""


def measure(case: VerifyCase, where: Where) -> Taken:
    """Run a case: the median of a few samples, or of their faster half where others run on the same processors.

    Raises:
        UsageError: the device has too little memory.
    """
    import torch

    on_gpu = where.kind == "cuda"
    if on_gpu:
        gc.collect()  # The command line does not collect garbage by itself; the last case's tensors may hang in a cycle.
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(where.name)
    before = torch.cuda.memory_allocated(where.name) if on_gpu else 0
    try:
        run = _prepared(case, where)
        load = None if on_gpu else Load()
        clock = time.perf_counter if on_gpu else clock_of(torch.get_num_threads())
        seconds, spread = _timed(run, _waiting(torch, where), clock, shared=not on_gpu)
        others = None if load is None else load.share()
        peak = float(torch.cuda.max_memory_allocated(where.name) - before) if on_gpu and case.task == "train" else None
        kinds = None if on_gpu else measured_kinds(run, False, seconds)
    except torch.OutOfMemoryError:
        what = f"{case.name} does not fit the free memory of {where.name}"
        raise UsageError(Problem("verify.memory", what, "name smaller models with --sizes, or free memory")) from None
    return Taken(seconds=seconds, spread=spread, memory=peak, kinds=kinds, others=others)


def _prepared(case: VerifyCase, where: Where) -> Callable[[], None]:
    if case.task == "train":
        model = Model(case.size, where.name, "float32", training=True)
        return train_step(model, case.batch, case.length, where.half)
    model = Model(case.size, where.name, where.half or "float32", training=False)
    return prefill(model, case.batch, case.length) if case.task == "prefill" else decode(model, case.batch, case.length)


def _waiting(torch: Any, where: Where) -> Callable[[], None]:
    return (lambda: torch.cuda.synchronize(where.name)) if where.kind == "cuda" else lambda: None


def _timed(
    run: Callable[[], None], wait: Callable[[], None], clock: Callable[[], float], *, shared: bool
) -> tuple[float, float]:  # fmt: skip
    """Seconds of one repetition, and how far apart the samples are that count, as a share of it."""

    def repeated(times: int) -> float:
        wait()
        begin = clock()
        for _ in range(times):
            run()
        wait()
        return (clock() - begin) / times

    warm = repeated(1)
    once = repeated(1)
    while warm + once < WARM_UP_S:
        warm, once = warm + once, repeated(1)
    times = max(1, int(SAMPLE_S / once))
    taken: list[float] = []
    while len(taken) < (SHARED_SAMPLES if shared else SAMPLES) and sum(taken) * times < PATIENCE_S:
        taken.append(repeated(times))
    # Whoever else runs on the same processors only ever makes it slower.
    kept = sorted(taken)[: (len(taken) + 1) // 2] if shared else sorted(taken)
    middle = statistics.median(kept)
    return middle, (kept[-1] - kept[0]) / middle


def median_error(lines: Sequence[VerifyRow], what: Literal["time", "memory"] = "time") -> float | None:
    """The median of |predicted / measured - 1|, or None where nothing of that kind was measured."""
    errors = [abs(line.error) for line in lines if line.what == what]
    return statistics.median(errors) if errors else None


def median_error_without(lines: Sequence[VerifyRow]) -> float | None:
    """The same of times as they would be expected without the calibration, or None where that is not known of them all."""
    times = [line for line in lines if line.what == "time"]
    errors = [abs(line.without / line.measured - 1) for line in times if line.without is not None]
    return statistics.median(errors) if errors and len(errors) == len(times) else None
