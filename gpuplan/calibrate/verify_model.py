"""Which real model does `gpuplan calibrate verify` run? A plain decoder of the Llama kind, in as few lines as show what it does.

RMS norms, rotary positions, grouped-query attention by PyTorch's fused kernel, a gated MLP, an untied head. Weights are random:
only time and memory count. PyTorch is imported where it is used, so that everything else works without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from gpuplan.calibrate.backends.torch_kernels import attention_backend
from gpuplan.models.architecture import Architecture, Block, Mlp, Run, Stack
from gpuplan.models.card import CardSource, ModelCard
from gpuplan.models.mixers import Attention
from gpuplan.record import Record

LAUNCHES = 30
"""Kernels that one layer starts in the forward pass: 2 norms, 7 matmuls, 12 for rotary positions, attention, 2 for gating,
2 additions, 2 to append to the cache or to cast, and casts."""
ROPE_BASE = 10_000.0


class Size(Record, kw_only=True):
    """The dimensions of one model."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int

    def card(self) -> ModelCard:
        """What gpuplan knows of the same model, made in memory."""
        mixer = Attention(heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim)
        block = Block(mixer=mixer, mlp=Mlp(width=self.ffn))
        architecture = Architecture(
            hidden=self.hidden, vocab=self.vocab, tied=False,
            stacks=(Stack(kind="decoder", blocks={"layer": block}, layers=(Run(block="layer", count=self.layers),)),),
        )  # fmt: skip
        source = CardSource(title="gpuplan/calibrate/verify_model.py", checked="2026-11-21", kind="definition")
        return ModelCard(
            id=f"verify-{self.name}", name=f"verify {self.name}", sources={"code": source}, architecture=architecture
        )  # fmt: skip


SIZES = (
    Size(name="5m", layers=4, hidden=256, heads=4, kv_heads=2, head_dim=64, ffn=704, vocab=4096),
    Size(name="20m", layers=4, hidden=512, heads=8, kv_heads=2, head_dim=64, ffn=1408, vocab=8192),
    Size(name="50m", layers=6, hidden=768, heads=12, kv_heads=4, head_dim=64, ffn=2048, vocab=8192),
    Size(name="150m", layers=12, hidden=1024, heads=16, kv_heads=4, head_dim=64, ffn=2816, vocab=8192),
    Size(name="850m", layers=16, hidden=2048, heads=32, kv_heads=8, head_dim=64, ffn=5632, vocab=32768),
    Size(name="1.5b", layers=20, hidden=2560, heads=20, kv_heads=4, head_dim=128, ffn=6912, vocab=32768),
    Size(name="2.7b", layers=24, hidden=3072, heads=24, kv_heads=8, head_dim=128, ffn=8192, vocab=32768),
)


class Model:
    """The model with its weights on a device."""

    def __init__(self, size: Size, device: str, dtype: str, *, training: bool) -> None:
        import torch

        self.size, self.device = size, device
        self._torch, self._dtype = torch, getattr(torch, dtype)
        q, kv = size.heads * size.head_dim, size.kv_heads * size.head_dim
        shapes = {"q": (q, size.hidden), "k": (kv, size.hidden), "v": (kv, size.hidden), "o": (size.hidden, q),
                  "gate": (size.ffn, size.hidden), "up": (size.ffn, size.hidden), "down": (size.hidden, size.ffn)}  # fmt: skip
        self.layers = [
            {name: self._weight(shape, training) for name, shape in shapes.items()}
            | {name: self._weight((size.hidden,), training) for name in ("norm1", "norm2")}
            for _ in range(size.layers)
        ]
        self.embedding = self._weight((size.vocab, size.hidden), training)
        self.norm = self._weight((size.hidden,), training)
        self.head = self._weight((size.vocab, size.hidden), training)
        self.rope: tuple[Any, Any] = (None, None)

    def _weight(self, shape: tuple[int, ...], training: bool) -> Any:
        made = self._torch.empty(shape, device=self.device, dtype=self._dtype)
        made.fill_(1.0) if len(shape) == 1 else made.normal_(0.0, 0.02)
        return made.requires_grad_(training)

    def parameters(self) -> list[Any]:
        """All weights."""
        return [weight for layer in self.layers for weight in layer.values()] + [self.embedding, self.norm, self.head]

    def positions(self, length: int) -> None:
        """Make the rotary tables of so many positions, once."""
        torch, half = self._torch, self.size.head_dim // 2
        frequency = torch.exp(torch.arange(half, device=self.device) * (-math.log(ROPE_BASE) / half))
        angle = torch.arange(length, device=self.device)[:, None] * frequency[None, :]
        self.rope = angle.cos().to(self._dtype), angle.sin().to(self._dtype)

    def loss(self, tokens: Any) -> Any:
        """The mean cross entropy of the next token, over sequences of tokens."""
        hidden = self.hidden(tokens)
        logits = self._torch.nn.functional.linear(hidden, self.head)
        targets = tokens.roll(-1, dims=1).reshape(-1)
        return self._torch.nn.functional.cross_entropy(logits.reshape(len(targets), -1), targets)

    def next_token(self, tokens: Any, cache: Any, start: int) -> Any:
        """The likeliest token after each sequence, whose last tokens are given and stand at `start`; the cache grows by them."""
        hidden = self.hidden(tokens, cache, start)[:, -1:]
        return self._torch.nn.functional.linear(hidden, self.head).argmax(dim=-1)

    def cache(self, sequences: int, length: int) -> Any:
        """Room for the keys and values of all layers: layers x 2 x sequences x key heads x positions x head width."""
        size = self.size
        shape = (size.layers, 2, sequences, size.kv_heads, length, size.head_dim)
        return self._torch.zeros(shape, device=self.device, dtype=self._dtype)

    def hidden(self, tokens: Any, cache: Any = None, start: int = 0) -> Any:
        """The hidden states behind the last norm."""
        functional = self._torch.nn.functional
        x = functional.embedding(tokens, self.embedding)
        for number, layer in enumerate(self.layers):
            own = None if cache is None else cache[number]
            x = x + self._attention(layer, self._normed(x, layer["norm1"]), own, start)
            y = self._normed(x, layer["norm2"])
            gated = functional.silu(functional.linear(y, layer["gate"])) * functional.linear(y, layer["up"])
            x = x + functional.linear(gated, layer["down"])
        return self._normed(x, self.norm)

    def _attention(self, layer: dict[str, Any], x: Any, cache: Any, start: int) -> Any:
        functional, size = self._torch.nn.functional, self.size
        sequences, length = x.shape[:2]

        def heads(name: str, count: int) -> Any:
            return functional.linear(x, layer[name]).view(sequences, length, count, size.head_dim).transpose(1, 2)

        q, k = self._turned(heads("q", size.heads), start), self._turned(heads("k", size.kv_heads), start)
        v = heads("v", size.kv_heads)
        if cache is not None:
            cache[0, :, :, start : start + length] = k
            cache[1, :, :, start : start + length] = v
            k, v = cache[0, :, :, : start + length], cache[1, :, :, : start + length]
        made = functional.scaled_dot_product_attention(q, k, v, is_causal=length > 1, enable_gqa=size.kv_heads < size.heads)
        return functional.linear(made.transpose(1, 2).reshape(sequences, length, -1), layer["o"])

    def _turned(self, x: Any, start: int) -> Any:
        """Queries or keys turned by their position."""
        cos, sin = (table[start : start + x.shape[2]].to(x.dtype) for table in self.rope)
        left, right = x.chunk(2, dim=-1)
        return self._torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)

    def _normed(self, x: Any, weight: Any) -> Any:
        return self._torch.nn.functional.rms_norm(x, (self.size.hidden,), weight, 1e-5)


def _kernels(torch: Any, device: str, *, decode: bool = False, backward: bool = False) -> AbstractContextManager[Any]:
    """Attention by the kernels that `gpuplan calibrate` measures on this device, which need not be PyTorch's own choice."""
    name = attention_backend(torch, torch.device(device), decode=decode, backward=backward)
    return torch.nn.attention.sdpa_kernel([getattr(torch.nn.attention.SDPBackend, name)]) if name else nullcontext()


def train_step(model: Model, batch: int, seq_len: int, autocast: str | None) -> Callable[[], None]:
    """One whole step of training: forward, backward, AdamW; under autocast to a 16-bit type where one is named."""
    import torch

    kind = "cuda" if model.device.startswith("cuda") else "cpu"
    model.positions(seq_len)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=kind == "cuda")
    tokens = torch.randint(0, model.size.vocab, (batch, seq_len), device=model.device)

    def step() -> None:
        half = torch.autocast(kind, getattr(torch, autocast or "bfloat16"), enabled=autocast is not None)
        with half, _kernels(torch, model.device, backward=True):
            loss = model.loss(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def prefill(model: Model, batch: int, prompt: int) -> Callable[[], None]:
    """Prompts of all sequences into an empty cache, and their first tokens."""
    import torch

    model.positions(prompt)
    cache = model.cache(batch, prompt)
    tokens = torch.randint(0, model.size.vocab, (batch, prompt), device=model.device)

    def run() -> None:
        with torch.no_grad(), _kernels(torch, model.device):
            model.next_token(tokens, cache, 0)

    return run


def decode(model: Model, batch: int, context: int) -> Callable[[], None]:
    """One token for each sequence after `context` tokens in the cache: as a CUDA graph where there are any, as engines do."""
    import torch

    model.positions(context + 1)
    cache = model.cache(batch, context + 1)
    token = torch.zeros((batch, 1), dtype=torch.long, device=model.device)

    def run() -> None:
        with torch.no_grad(), _kernels(torch, model.device, decode=True):
            token.copy_(model.next_token(token, cache, context))

    if not model.device.startswith("cuda"):
        return run
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    replay: Callable[[], None] = graph.replay
    return replay
