"""What the engine profile of verify's loop says is what the loop does: bytes moved, kernels and kept tensors, counted by PyTorch.

Where a processor has no fused norm, one that reads and writes what the GPU's does stands for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpuplan.calibrate.verify import VerifyCase, Where
from gpuplan.calibrate.verify_model import SIZES, Model, Size
from gpuplan.cli.calibrate_verify_run import Oracle
from gpuplan.specs.catalog import Catalog

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torch.library")

BATCH, LENGTH = 2, 256
VIEWS = {
    "_unsafe_view", "alias", "detach", "device", "expand", "select", "slice", "split", "t", "transpose", "unsqueeze", "view",
}  # fmt: skip
COUNTED_ELSEWHERE = ("mm", "scaled_dot", "embedding", "empty", "ones_like")


@torch.library.custom_op("gpuplan_tests::norm", mutates_args=())
def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A norm in one kernel."""
    return x.clone()


@torch.library.custom_op("gpuplan_tests::norm_backward", mutates_args=())
def norm_backward(gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Its pass back in one kernel."""
    return gradient.clone(), weight.clone()


norm.register_autograd(
    lambda ctx, gradient: norm_backward(gradient, *ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


class Counter(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
    """Counts the memory-bound kernels and the bytes that they read and write, those of weights apart."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens, self.kernels, self.moved = tokens, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the kernel and count it."""
        made = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in VIEWS or any(part in name for part in COUNTED_ELSEWHERE):
            return made
        tensors = [one for one in torch.utils._pytree.tree_leaves((args, kwargs, made)) if isinstance(one, torch.Tensor)]
        self.kernels += 1
        if any(one.numel() % self.tokens == 0 and one.dim() > 2 for one in tensors):
            self.moved += sum(one.numel() * one.element_size() for one in tensors)
        return made


@pytest.fixture
def fused_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "_normed", lambda self, x, weight: norm(x, weight))


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle("h200-sxm-141gb", Where(name="cuda:0", half="bfloat16", free=1e11), Catalog.open(env={}))


@pytest.fixture(scope="module")
def in_32_bits() -> Oracle:
    return Oracle("h200-sxm-141gb", Where(name="cpu", half=None, free=1e11), Catalog.open(env={}))


SMALL: list[Size] = [one for one in SIZES if one.name in ("20m", "50m")]


def foretold(oracle: Oracle, size: Size, task: Any, ends: dict[str, str]) -> dict[str, float]:
    """Terms of the estimate of a case, by the ends of their names."""
    made = oracle._asked(VerifyCase(size=size, task=task, batch=BATCH, length=LENGTH))
    roots = [one.total for one in made.breakdowns]
    terms = {term.name: term for root in roots for term in root.walk()}
    found = {}
    for key, end in ends.items():
        (value,) = {float(term.value) for name, term in terms.items() if name.endswith(end)}
        found[key] = value
    return found


@contextmanager
def autocast() -> Iterator[None]:
    with torch.autocast("cpu", torch.bfloat16):
        yield


@pytest.mark.usefixtures("fused_norm")
@pytest.mark.parametrize("size", SMALL, ids=lambda one: one.name)
def test_a_training_step_moves_and_starts_what_the_profile_says(oracle: Oracle, size: Size) -> None:
    model = Model(size, "cpu", "float32", training=True)
    model.positions(LENGTH)
    tokens = torch.randint(0, size.vocab, (BATCH, LENGTH))
    forward, backward = Counter(BATCH * LENGTH), Counter(BATCH * LENGTH)
    with forward, autocast():
        hidden = model.hidden(tokens)
    with backward:
        hidden.backward(torch.ones_like(hidden))
    told = foretold(
        oracle, size, "train", {"forward": "forward.layer.traffic", "backward": "backward.layer.elementwise.traffic",
                                "kernels": "engine.kernels_per_layer"},
    )  # fmt: skip
    assert forward.kernels / size.layers == pytest.approx(told["kernels"], abs=1)
    assert told["forward"] == pytest.approx(forward.moved / size.layers, rel=0.06)
    whole = (forward.moved + backward.moved) / size.layers
    assert told["forward"] + told["backward"] == pytest.approx(whole, rel=0.12)


@pytest.mark.usefixtures("fused_norm")
@pytest.mark.parametrize("size", SMALL, ids=lambda one: one.name)
def test_the_loss_keeps_what_the_profile_says(oracle: Oracle, size: Size) -> None:
    model = Model(size, "cpu", "float32", training=True)
    model.positions(LENGTH)
    tokens = torch.randint(0, size.vocab, (BATCH, LENGTH))
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}
    kept: dict[int, tuple[Any, float]] = {}

    def keep(one: Any) -> Any:
        storage = one.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = (storage, float(storage.nbytes()))  # Held, so that no other tensor gets its place.
        return one

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda one: one), autocast():
        model.loss(tokens)
    told = foretold(oracle, size, "train", {"activations": "memory.activations", "weights": "memory.weights"})
    log_softmax, not_cast = 4.0 * BATCH * LENGTH * size.vocab, 2.0 * size.vocab * size.hidden  # The embedding is read in fp32.
    measured = sum(size for _, size in kept.values())
    assert told["activations"] + told["weights"] - not_cast + log_softmax == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize("size", SMALL, ids=lambda one: one.name)
def test_a_training_step_in_32_bits_moves_what_the_oracle_says(in_32_bits: Oracle, size: Size) -> None:
    model = Model(size, "cpu", "float32", training=True)
    model.positions(LENGTH)
    counter = Counter(BATCH * LENGTH)
    with counter:
        model.hidden(torch.randint(0, size.vocab, (BATCH, LENGTH)))
    told = foretold(in_32_bits, size, "train", {"forward": "forward.layer.traffic", "kernels": "engine.kernels_per_layer"})
    assert counter.kernels / size.layers == pytest.approx(told["kernels"], abs=2)
    assert told["forward"] == pytest.approx(counter.moved / size.layers, rel=0.08)


@pytest.mark.usefixtures("fused_norm")
@pytest.mark.parametrize("size", SMALL, ids=lambda one: one.name)
def test_a_prefill_moves_and_starts_what_the_profile_says(oracle: Oracle, size: Size) -> None:
    model = Model(size, "cpu", "bfloat16", training=False)
    model.positions(LENGTH)
    cache = model.cache(BATCH, LENGTH)
    counter = Counter(BATCH * LENGTH)
    with counter, torch.no_grad():
        model.hidden(torch.zeros((BATCH, LENGTH), dtype=torch.long), cache, 0)
    told = foretold(oracle, size, "prefill", {"kernels": "engine.kernels_per_layer", "moved": "prefill.layer.traffic"})
    assert told["moved"] * BATCH == pytest.approx(counter.moved / size.layers, rel=0.06)  # The breakdown is of one request.
    assert counter.kernels / size.layers == pytest.approx(told["kernels"], abs=1)
