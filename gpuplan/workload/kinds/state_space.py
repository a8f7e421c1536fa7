"""Mixers with a recurrent state of fixed size: Mamba, Mamba-2, gated delta networks and linear attention."""

from __future__ import annotations

from gpuplan.formulas.layers import chunked_scan_bytes, layer_stream_bytes, linear_state_flop_rows
from gpuplan.formulas.memory import conv_state_bytes, ssm_state_bytes
from gpuplan.models.mixers import StateSpace
from gpuplan.term import Source, Term, total
from gpuplan.work import Matmul, Stream
from gpuplan.workload.context import ONE, STATE_BYTES, Group, Leaves
from gpuplan.workload.counts import count
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.base import Caching, MixerKind
from gpuplan.workload.program import Role

_SIZE = Source(
    "engine", "Megatron-Core: MambaMixer",
    "https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/core/ssm/mamba_mixer.py",
    "chunk_size: 128", note="256 in mamba_ssm and Transformers",
)  # fmt: skip
CHUNK = Term("work.scan_chunk", 128.0, "1", _SIZE, spread=(128.0, 256.0))
_KERNELS = Source(
    "engine", "state-spaces/mamba: mamba_ssm/ops/triton/ssd_combined.py",
    "https://github.com/state-spaces/mamba/blob/main/mamba_ssm/ops/triton/ssd_combined.py", "_mamba_chunk_scan_combined_fwd",
    note="convolution, sums of steps, states of chunks, their passing on, products of queries and keys, outputs",
)  # fmt: skip
SCAN_KERNELS = Term("work.scan_kernels", 6.0, "1", _KERNELS)
NOTHING = Term("work.scan_operand", 0.0, "B", Source("definition", "what the scan reads and writes is counted kernel by kernel"))
ADAPTED = ("qv", "attention", "all")
"""The choices of `--lora-targets` that adapt what leads into the state and out of it."""


class StateSpaceKind(MixerKind[StateSpace]):
    """A scan over the tokens of each sequence."""

    def forward(self, draft: Draft, mixer: StateSpace) -> list[Term]:
        """Input and output projections, and the scan as a product with the state a token."""
        leaf, path, hidden, work = draft.leaves, draft.path, draft.setting.hidden, draft.setting.work
        inner, shared = _inner(path, mixer, leaf, draft.setting.split.tp), _shared(path, mixer, leaf, draft.setting.split.tp)
        state, tokens = leaf(f"{path}.state", mixer.state), work.tokens
        kept = count("kept_inner_widths" if mixer.conv_kernel else "kept_inner_widths_plain")
        copies = leaf.times(f"{draft.at}.inner_widths", kept, inner)
        groups = leaf.times(f"{draft.at}.group_widths", count("kept_group_widths"), shared)
        made = (draft.tensor("scanned", total(f"{draft.at}.kept_widths", {"inner": copies, "groups": groups})),)
        parts = {"values": inner, "gate": inner, "keys": shared, "queries": shared}
        if mixer.kind == "mamba1":
            rank = leaf(f"{path}.dt_rank", mixer.dt_rank)
            steps = total(f"{path}.x_width", {"dt": rank, "b": state, "c": state})
            draft.product(Role.STATE_STEPS, tokens, steps, inner)
            draft.product(Role.STEP_SIZES, tokens, inner, rank)
            parts = {"values": inner, "gate": inner}
        width = total(f"{draft.at}.in_width", parts)
        # Adapters are beside the values' part of the projection.
        start = draft.matrix("in", hidden, inner, adapted_as=ADAPTED)
        draft.product(Role.STATE_IN, tokens, width, hidden, makes=made, matrices=(start,))
        chunked = mixer.kind == "mamba2"
        self.scan(draft, inner, state, apart=chunked)
        for group in work.groups:
            if not group.decodes:
                if chunked:
                    self.chunks(draft, group, mixer, inner, shared)
                continue
            # A step reads and writes the whole state of every sequence.
            traffic = layer_stream_bytes.term(
                f"{draft.group_name(group, Role.STATE)}_traffic", tokens=draft.tokens_of(group),
                width=leaf.times(f"{path}.state_width", inner, state), passes=count("state_passes"), element_bytes=STATE_BYTES,
                ways=ONE,
            )  # fmt: skip
            draft.stream(Role.STATE, traffic, ONE)
        end = draft.matrix("out", inner, hidden, adapted_as=ADAPTED)
        draft.product(Role.OUT, tokens, hidden, inner, makes=(draft.tensor("out", hidden),), matrices=(end,))
        # With kernels of their own for the scan, what is left is the gated norm: it reads output and gate, and writes.
        return [inner, inner, inner] if chunked else [inner, inner, inner, inner, shared, shared]

    def scan(self, draft: Draft, inner: Term, state: Term, *, apart: bool) -> None:
        """The arithmetic of the scan, in 16 bits whatever products of weights are in; `apart`: its traffic is counted elsewhere."""
        types, tokens = draft.setting.types, draft.setting.work.tokens
        each = NOTHING if apart else types.activation
        item = Matmul(
            name=draft.name(Role.SCAN), m=linear_state_flop_rows.term(f"{draft.at}.scan_rows", tokens=tokens), n=inner, k=state,
            batch=ONE, dtype=types.attention, left_bytes=each, right_bytes=each, out_bytes=each,
        )  # fmt: skip
        draft.put(Role.SCAN, item)

    def chunks(self, draft: Draft, group: Group, mixer: StateSpace, inner: Term, shared: Term) -> None:
        """What the kernels of a scan in chunks read and write; in a step of one token there are no chunks."""
        leaf, path, at = draft.leaves, draft.path, draft.group_name(group, Role.WITHIN_CHUNKS)
        size = chunked_scan_bytes.term(
            f"{at}_traffic", tokens=draft.tokens_of(group), inner=inner, shared=shared,
            groups=leaf.split(f"{path}.rank_groups", leaf(f"{path}.groups", mixer.groups), draft.setting.split.tp),
            state=leaf(f"{path}.state", mixer.state), chunk=CHUNK, element_bytes=draft.setting.types.activation,
            state_bytes=STATE_BYTES,
        )  # fmt: skip
        draft.put(Role.WITHIN_CHUNKS, Stream(name=at, size=size, launches=SCAN_KERNELS, scan=True))

    def cache(self, caching: Caching, mixer: StateSpace) -> Term:
        """The recurrent state and the last inputs of the convolution."""
        leaf, path, at = caching.leaves, caching.path, caching.at
        inner = _inner(path, mixer, leaf, caching.tp)
        states = {
            "state": ssm_state_bytes.term(
                f"{at}.state", layers=caching.layers, heads=ONE, head_dim=inner, state_size=leaf(f"{path}.state", mixer.state),
                element_bytes=STATE_BYTES,
            )
        }  # fmt: skip
        if mixer.conv_kernel:
            states["conv"] = conv_state_bytes.term(
                f"{at}.conv", layers=caching.layers, channels=_channels(path, mixer, inner, leaf, caching.tp),
                kernel=leaf(f"{path}.conv_kernel", mixer.conv_kernel), element_bytes=STATE_BYTES,
            )  # fmt: skip
        return total(at, states)


def _inner(path: str, mixer: StateSpace, leaf: Leaves, tp: Term) -> Term:
    """Width of the values on a rank."""
    return leaf.split(f"{path}.rank_inner", leaf(f"{path}.inner", mixer.inner), tp)


def _shared(path: str, mixer: StateSpace, leaf: Leaves, tp: Term) -> Term:
    """Width of the keys, and of the queries, on a rank."""
    groups = leaf.split(f"{path}.rank_groups", leaf(f"{path}.groups", mixer.groups), tp)
    return leaf.times(f"{path}.group_width", groups, leaf(f"{path}.state", mixer.state))


def _channels(path: str, mixer: StateSpace, inner: Term, leaf: Leaves, tp: Term) -> Term:
    """The channels that pass the convolution: values, and beside them keys and queries (B and C) in all kinds after Mamba-1."""
    if mixer.kind == "mamba1":
        return inner
    shared = _shared(path, mixer, leaf, tp)
    return total(f"{path}.conv_channels", {"values": inner, "keys": shared, "queries": shared})


KIND = StateSpaceKind()
