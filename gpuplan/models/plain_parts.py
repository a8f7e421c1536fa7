"""Which parts of which layers does a quantised checkpoint leave in its plain type?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import translate

from gpuplan.models.architecture import Architecture, Block, Moe

PlainPart = tuple[str, str, float]
"""The name of a kind of layer, a part of it (`mixer`, `cross`, `mlp`, `experts`), and the share of it that stays plain."""

_PROJECTIONS = {
    "mixer": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"),
    "cross": ("cross_attn.q_proj", "cross_attn.k_proj", "cross_attn.v_proj", "cross_attn.o_proj"),
    "mlp": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"),
    "shared": ("mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj"),
    "experts": ("mlp.experts.0.gate_proj", "mlp.experts.0.up_proj", "mlp.experts.0.down_proj"),
}
"""The matrices of a part as most checkpoints call them."""
_RANGE = re.compile(r"\\\[(\d+)\\-(\d+)\\\]|\\\[(\d+)-(\d+)\\\]")
_NUMBERS = re.compile(r"(?<=\.)\d+(?=\.)")


def plain_parts(arch: Architecture, excluded: Iterable[str]) -> tuple[PlainPart, ...]:
    """The parts of the decoder's layers that the names of excluded modules match, and how much of them.

    Names are those that quantisers write: of a module, with `*`, as an expression behind `re:`, or with a range of layers
    such as `[0-125]`. Embedding, head, norms and routers stay plain in any case, as do towers beside the text model.

    >>> from gpuplan.models.catalog import find
    >>> card = find("gpt-oss-20b")
    >>> [(part, share) for _, part, share in plain_parts(card.architecture, card.weights.excluded)]
    [('mixer', 1.0), ('mixer', 1.0)]
    """
    tests = [_test(pattern) for pattern in excluded]
    if not tests:
        return ()
    found: dict[tuple[str, str], list[bool]] = {}
    several = len(arch.stacks) > 1
    for stack in arch.stacks:
        layer = 0
        for run in stack.layers:
            key = f"{stack.kind}.{run.block}" if several else run.block
            for index in range(layer, layer + run.count):
                for part, name in _matrices(stack.blocks[run.block]):
                    path = f"model.layers.{index}.{name}"
                    found.setdefault((key, part), []).append(any(test.search(path) for test in tests))
            layer += run.count
    return tuple((key, part, sum(hits) / len(hits)) for (key, part), hits in found.items() if any(hits))


def _matrices(block: Block) -> Iterator[tuple[str, str]]:
    """The matrices of a layer, each with the part that it is counted in."""
    yield from (("mixer", name) for name in _PROJECTIONS["mixer"])
    if block.cross is not None:
        yield from (("cross", name) for name in _PROJECTIONS["cross"])
    if isinstance(block.mlp, Moe):
        yield from (("experts", name) for name in _PROJECTIONS["experts"])
        if block.mlp.shared_experts:
            yield from (("mlp", name) for name in _PROJECTIONS["shared"])
    elif block.mlp is not None:
        yield from (("mlp", name) for name in _PROJECTIONS["mlp"])


def _test(pattern: str) -> re.Pattern[str]:
    """What finds the modules that a name means: the module itself and all inside it."""
    if pattern.startswith("re:"):
        try:
            return re.compile(pattern[3:])
        except re.error:
            return re.compile(re.escape(pattern[3:]))
    if "*" in pattern and not _NUMBERS.search(pattern) and "[" not in pattern:
        return re.compile(translate(pattern).removesuffix(r"\Z").removesuffix(r"\z") + r"(\.|$)")
    text = re.escape(pattern).replace(r"\*", ".*")
    text = _RANGE.sub(lambda match: _between(*[int(one) for one in match.groups() if one is not None]), text)
    return re.compile(rf"(^|\.){text}(\.|$)")


def _between(low: int, high: int) -> str:
    return "(?:" + "|".join(str(number) for number in range(low, min(high, low + 4096) + 1)) + ")"


def folded(names: Iterable[str]) -> tuple[str, ...]:
    """Names of modules with those that differ in nothing but their layer as one, with ranges of layers.

    >>> folded(["lm_head", "model.layers.0.mlp", "model.layers.1.mlp", "model.layers.2.mlp", "model.layers.9.mlp"])
    ('lm_head', 'model.layers.[0-2].mlp', 'model.layers.9.mlp')
    """
    layers: dict[tuple[str, str], list[int]] = {}
    made: dict[str, None] = {}
    for name in names:
        found = _NUMBERS.search(name)
        if found is None or name.startswith("re:"):
            made[name] = None
        else:
            layers.setdefault((name[: found.start()], name[found.end() :]), []).append(int(found[0]))
    for (before, behind), numbers in layers.items():
        for low, high in _runs(sorted(set(numbers))):
            made[f"{before}{low if low == high else f'[{low}-{high}]'}{behind}"] = None
    return tuple(made)


def _runs(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """The first and last of each run of numbers that follow one another."""
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            yield numbers[start], numbers[at - 1]
            start = at
