"""What do drafts cost and save: the drafter's weights, caches and passes, a step that verifies, and the tokens that it makes?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuplan.estimate.pricing import priced
from gpuplan.formulas import drafting as form
from gpuplan.formulas.basic import repeated_seconds
from gpuplan.formulas.memory import state_bytes
from gpuplan.formulas.mtp import module_projection_params
from gpuplan.num import Num, where
from gpuplan.plan.drafting import Drafting
from gpuplan.plan.precision import KV_BYTES, byte, stored_in
from gpuplan.record import Record, replace
from gpuplan.term import Source, Term, total
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, Group

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel, ServingPhase
    from gpuplan.plan.serve import ServePlan

PREFIX = "draft."
ACCEPTANCE = {
    "mtp": Term(
        "drafting.acceptance", 0.85, "1",
        Source(
            "paper", "DeepSeek-V3 Technical Report", "https://arxiv.org/abs/2412.19437",
            "5.4.3: the second token is accepted in 85 to 90 % of cases; further ones of the same module less often",
        ),
        spread=(0.65, 0.9),
    ),
    "eagle": Term(
        "drafting.acceptance", 0.68, "1",
        Source(
            "model-card", "nebius/EAGLE3-Llama-3.3-70B-Instruct", "https://huggingface.co/nebius/EAGLE3-Llama-3.3-70B-Instruct",
            "2.77 to 3.62 tokens a step of 7 drafts by two public heads on 3 tasks, 3.9 to 5.1 by the best; solved for the rate",
        ),
        spread=(0.62, 0.86),
    ),
    "model": Term(
        "drafting.acceptance", 0.65, "1",
        Source(
            "paper", "Fast Inference from Transformers via Speculative Decoding", "https://arxiv.org/abs/2211.17192",
            "table 2: 0.53 to 0.75 of T5 11B with drafts of T5 small on two tasks",
        ),
        spread=(0.5, 0.8),
    ),
}  # fmt: skip


_LOAD = re.compile(r"(?:^|_)(?:load|run)\.|(?:rough|near|nearing|closing|nearer)\.(?:rows|running|solved)$")
"""What a load comes to, and the batches that its solution tries."""
_SHARED = frozenset({"one", "plan.batch", "plan.prompt", "plan.output", "plan.context"})


def apart(term: Term, done: dict[int, Term]) -> Term:
    """The same graph with a prefix on every name but those of the machine, the engine and the load, which drafts share."""
    made = done.get(id(term))
    if made is None:
        if _LOAD.search(term.name):
            return term  # How many run is the same for both; a step that is solved for holds the steps before it.
        args = tuple((key, apart(part, done)) for key, part in term.args)
        shared = term.name in _SHARED or term.name.startswith(("hw.", "engine."))
        made = term if shared and not args else replace(term, name=term.name if shared else f"{PREFIX}{term.name}", args=args)
        done[id(term)] = made
    return made


class Drafter(Record):
    """What drafts for a plan, as a model of its own on the same machine, and what its drafts come to."""

    model: ServingModel
    drafting: Drafting
    number: Term
    expected: Term
    """Tokens that a step makes of a sequence."""
    verified: Term

    @classmethod
    def of(cls, model: ServingModel, drafting: Drafting) -> Drafter:
        """The drafter of a plan, with the plan's batch and lengths."""
        subject = model.subject
        number = subject.plan("draft_tokens", drafting.draft_tokens)
        acceptance = ACCEPTANCE[drafting.kind]
        if drafting.acceptance is not None:
            acceptance = subject.plan("acceptance", drafting.acceptance)
        own = subject.replaced(arch=drafting.arch, counts=drafting.counts, card=drafting.source, model_name=drafting.name)
        made = type(model).of(own, draft_plan(model.plan, drafting))
        made = made.replaced(serve=made.serve.replaced(batch=model.serve.batch))
        return cls(
            made, drafting, number, form.tokens_a_step.term("drafting.tokens_a_step", acceptance=acceptance, drafts=number),
            form.verified_tokens.term("drafting.verified_tokens", drafts=number),
        )  # fmt: skip

    def pass_seconds(self, phase: ServingPhase, rows: Term, name: str) -> Term:
        """One pass of the drafter: its layers and head, and the projection before a layer behind the model."""
        done: dict[int, Term] = {}
        parts = {key: apart(term, done) for key, term in phase.parts.items() if self.drafting.alone or key != "host"}
        if not self.drafting.alone:
            parts["projection"] = apart(self.projection(rows, name), done)
        return total(f"{PREFIX}{name}.drafting", parts)

    def projection(self, rows: Term, name: str) -> Term:
        """Seconds of the product of two inputs before a layer behind the model, of so many sequences."""
        leaves, types, serve = self.model.leaves, self.model.types(), self.model.serve
        hidden = leaves("hidden", self.drafting.arch.hidden)
        both = leaves.times("mtp.inputs_width", leaves("mtp.inputs", 2), hidden)
        width = leaves.split("mtp.rank_width", hidden, serve.tp)
        item = Matmul(
            name=f"{name}.projection", m=rows, n=width, k=both, batch=ONE, dtype=types.matmul, left_bytes=types.operand,
            right_bytes=types.weight, out_bytes=types.activation, blocked=types.blocked, micro=types.micro, coded=types.coded,
        )  # fmt: skip
        return priced(f"{name}.projection_s", [item], self.model.subject.hw)

    def weights(self) -> Term:
        """Bytes of its weights on the fullest rank."""
        from gpuplan.estimate.serving_memory import rank_weights

        parts = {"layers": rank_weights(self.model)}
        if not self.drafting.alone:
            plan, serve, leaves = self.model.plan, self.model.serve, self.model.leaves
            stored = stored_in(plan.weights, plan.group)
            own = module_projection_params.term("params.mtp.projection", hidden=leaves("hidden", self.drafting.arch.hidden))
            each = byte("recipe.stored_weight_bytes", stored.bytes_per_value, stored.source)
            parts["projection"] = state_bytes.term("weights.projection", params=own, bytes_per_param=each, shards=serve.tp)
        return apart(total("memory.weights_of_draft", parts), {})

    def sequence(self) -> Term:
        """Bytes of its caches of one sequence."""
        from gpuplan.workload.serving import cache_bytes

        model = self.model
        element = byte("recipe.kv_bytes", KV_BYTES[model.plan.kv_cache])
        made = cache_bytes(
            model.subject.arch, model.subject.counts, model.leaves, model.held(), element=element,
            capped=model.profile.windowed_kv,
        )  # fmt: skip
        return apart(made, {})


def draft_plan(plan: ServePlan, drafting: Drafting) -> ServePlan:
    """The plan of the drafter: a model of its own is divided like attention where its heads can be, and not otherwise.

    It sees no images: what the model made of them are tokens to it.
    """
    p = plan.parallel
    if drafting.alone:
        heads = [mixer.divided_by() for mixer in drafting.arch.mixers]
        tp: Num = p.tp
        for one in heads:
            tp = where(one % tp == 0, tp, 1.0)
        p = p.replaced(tp=tp, ep=1.0, attention_dp=1.0, redundant_experts=0.0, decode_cp=1.0)
    settings = plan.settings.replaced(gpu_layers=None, host_experts=None, host_weights=None)
    stored = {name: getattr(drafting, name) for name in ("weights", "group", "plain", "parts", "checkpoint")}
    return plan.replaced(parallel=p, drafting=None, load=None, images=None, settings=settings, **stored)


def undrafted(model: ServingModel) -> ServingModel:
    """The same without drafts."""
    return model.replaced(plan=model.plan.replaced(drafting=None))


def drafted(model: ServingModel, name: str, phase: ServingPhase, rows: Term, drafter: Drafter) -> ServingPhase:
    """A step that drafts and verifies, for each of the tokens that it makes of a sequence."""
    one = drafter.pass_seconds(drafter.model.decode(name), rows, name)
    whole = {**phase.parts, "drafting": repeated_seconds.term(f"{name}.drafting_of_step", count=drafter.number, seconds=one)}
    parts = {
        kind: form.token_seconds.term(f"{name}.per_token.{kind}", step=term, tokens=drafter.expected)
        for kind, term in whole.items()
    }
    read = form.token_bytes.term(f"{name}.weights_read_per_token", step=phase.weights_read, tokens=drafter.expected)
    step = total(f"{name}.step_s", whole)
    return phase.replaced(seconds=total(f"{name}.seconds", parts), parts=parts, weights_read=read, step=step)


def with_draft_prompt(name: str, phase: ServingPhase, drafter: Drafter, sequences: Term, *, alone: bool) -> ServingPhase:
    """A prefill in which the drafter reads the prompts too, for its caches."""
    own = drafter.model.prefill(name, sequences, alone=alone)
    parts = {**phase.parts, "drafting": drafter.pass_seconds(own, sequences, name)}
    return phase.replaced(seconds=total(f"{name}.seconds_with_draft", parts), parts=parts)


def beside_draft(name: str, phase: ServingPhase, drafter: Drafter, chunk: Group) -> ServingPhase:
    """A step with a chunk of a prompt, which the drafter reads too."""
    own = drafter.model.step(f"{name}_of_draft", (chunk,))
    parts = {**phase.parts, "drafting": drafter.pass_seconds(own, chunk.sequences, name)}
    return phase.replaced(seconds=total(f"{name}.seconds_with_draft", parts), parts=parts)


def drafted_figures(drafter: Drafter | None, decode: ServingPhase) -> dict[str, Term]:
    """What a plan with drafts tells besides: tokens of a step, and its time; nothing of a plan without."""
    if drafter is None or decode.step is None:
        return {}
    return {"tokens_per_step": drafter.expected, "step_s": decode.step}
