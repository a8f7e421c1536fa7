"""Which named results of a layer are kept, which wait in the host's memory, and which are made again in the backward pass?

The names are those that MaxText gives to what a decoder layer makes, so that a policy of a run can be typed as it was run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gpuplan.errors import Problem, SpecError
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import Recompute
from gpuplan.record import Record

Result: TypeAlias = Literal[
    "input", "latent_query", "latent_kv", "query", "key", "value", "attention_gate", "context", "log_sum_exp", "out",
    "scanned", "gate", "up", "inner", "down", "routing", "masks", "dispatched", "expert_gate", "expert_up", "expert_inner",
    "expert_down",
]  # fmt: skip
"""What a layer makes that its backward pass may read; some of it has a name that a policy can say."""

RESULTS: Mapping[str, tuple[Result, ...]] = {
    "decoder_layer_input": ("input",),
    "query_wa_proj": ("latent_query",),
    "mla_q": ("latent_query",),
    "kv_wa_proj": ("latent_kv",),
    "mla_kv": ("latent_kv",),
    "query_proj": ("query",),
    "key_proj": ("key",),
    "value_proj": ("value",),
    "kv_proj": ("key", "value"),
    "qkv_proj": ("query", "key", "value"),
    "context": ("context",),
    "out_proj": ("out",),
    "mlpwi": ("gate", "up"),
    "mlpwi_0": ("gate", "expert_gate"),
    "mlpwi_1": ("up", "expert_up"),
    "mlpwo": ("down", "expert_down"),
    "moe_mlpwi_0": ("expert_gate",),
    "moe_mlpwi_1": ("expert_up",),
    "moe_mlpwo": ("expert_down",),
}
"""What each name stands for (MaxText, configs/base.yml and layers/decoders.py, commit e591f30c)."""

_QKV = ("query_proj", "key_proj", "value_proj")
_DOTS = (*_QKV, "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo")
POLICIES: Mapping[Recompute, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "minimal_with_context": ((*_DOTS, "context"), ()),
    "minimal": (_DOTS, ()),
    "save_dot_with_context_except_mlp": ((*_QKV, "context", "out_proj"), ()),
    "save_dot_except_mlpwi": ((*_QKV, "out_proj", "mlpwo"), ()),
    "save_dot_except_mlp": ((*_QKV, "out_proj"), ()),
    "save_qkv_proj": (_QKV, ()),
    "save_out_proj": (("out_proj",), ()),
    "qkv_proj_offloaded": ((), _QKV),
    "minimal_offloaded": ((), _DOTS),
}
"""MaxText's named policies: what is kept on the device, and what in the host's memory (layers/decoders.py, get_remat_policy)."""

_ATTENDED = (*_QKV, "context", "out_proj")
ALSO_CALLED: Mapping[Recompute, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "minimal_flash": POLICIES["minimal_with_context"],
    **dict.fromkeys(("nothing_saveable", "save_nothing"), ((), ())),
    **dict.fromkeys(
        (
            "dots_saveable", "checkpoint_dots", "dots_with_no_batch_dims_saveable", "checkpoint_dots_with_no_batch_dims",
            "save_dot_only", "save_dot_with_no_batch_dims",
        ),
        POLICIES["minimal"],
    ),
    "offload_dot_with_no_batch_dims": POLICIES["minimal_offloaded"],
    "save_qkv_out_proj": POLICIES["save_dot_except_mlp"],
    "save_qkv_out_proj_separate": POLICIES["save_dot_except_mlp"],
    "save_context": (("context",), ()),
    "save_encoded_and_out_proj": (("context", "out_proj"), ()),
    "save_dot_for_mlperf_200b": (_ATTENDED, ()),
    "save_dot_except_logits_ffn1": ((*_ATTENDED, "mlpwo"), ()),
    "save_dot_except_logits": POLICIES["minimal_with_context"],
}  # fmt: skip
"""Policies of MaxText's older releases, of JAX (jax.checkpoint_policies) and of Praxis (layers/checkpoint_policy.py, commit
feeaff19), which no search tries: what they keep has a name of MaxText's, or is kept by hand. `dots` are products; the scores of
attention are none where it is a fused kernel."""


class Remat(Record):
    """What of a layer is kept on the device and what in the host's memory; the rest is made again where it is read."""

    kept: frozenset[Result]
    hosted: frozenset[Result]

    @property
    def held(self) -> frozenset[Result]:
        """What need not be made again."""
        return self.kept | self.hosted


def remat_of(plan: TrainPlan, *, drops_unread: bool = False, selective: Recompute | None = None) -> Remat | None:
    """The named results that a plan keeps; None: its recomputation is not told by names.

    `drops_unread`: the engine's compiler makes nothing again that nobody reads, so that full recomputation is a policy that
    keeps the layer's input alone. `selective` is the policy that the engine's selective recomputation means.
    """
    chosen = plan.recompute == "selective" and not plan.saving.recompute_modules
    name: Recompute = selective if chosen and selective is not None else plan.recompute
    if name == "full" and drops_unread:
        return Remat(frozenset(("input",)), frozenset())
    if name in POLICIES or name in ALSO_CALLED:
        keep, host = POLICIES.get(name) or ALSO_CALLED[name]
    elif name == "custom":
        keep, host = plan.saving.keep, plan.saving.to_host
    else:
        return None
    hosted = frozenset(result for one in host for result in RESULTS[one])
    kept = frozenset(result for one in keep for result in RESULTS[one])
    # The layer's input cannot be made again: it stays on the device unless it goes to the host.
    always: frozenset[Result] = frozenset(("input",))
    return Remat((kept | always) - hosted, hosted)


def policy_of(name: str | None) -> Recompute | None:
    """The policy of that name in an engine's profile, None where it names none.

    Raises:
        SpecError: no policy has that name.
    """
    if name is None:
        return None
    found = next((one for one in POLICIES if one == name), None)
    if found is None:
        raise SpecError(
            Problem("spec.unknown-policy", f"no policy of named results is called `{name}`", f"use {', '.join(POLICIES)}")
        )
    return found
