"""Which tensors does a layer keep for its backward pass, and how large are they on one rank?

A fold over what the operations of the layer make: queries, keys and values, the inputs of products, what an activation read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from gpuplan.formulas.memory import attention_score_bytes, copies_of_ranks, parts_of_others, tensor_bytes
from gpuplan.models.architecture import Block
from gpuplan.num import all_true
from gpuplan.plan.again import run_again
from gpuplan.plan.precision import QUANTISED_IN_PLACE
from gpuplan.plan.remat import Result
from gpuplan.plan.train import Tuning
from gpuplan.plan.words import Recompute, RecomputeModule
from gpuplan.record import Record
from gpuplan.term import Source, Term, greatest, total
from gpuplan.workload.context import ONE, Group, Leaves, Pass, Split
from gpuplan.workload.counts import count
from gpuplan.workload.program import FEED_FORWARD, MIXERS, LayerProgram, Part, Role, Tensor

_SCORES = Source(
    "paper",
    "Reducing Activation Recomputation in Large Transformer Models",
    "https://arxiv.org/abs/2205.05198",
    "4.1: softmax output 2, dropout mask 1, dropped scores 2 bytes a score",
)

QKV = 3
"""Matrices that read the input of attention."""
UNREAD: frozenset[Result] = frozenset(("out", "down", "expert_down"))
"""What leads back to the hidden width: the residual sum alone reads it (a copy's weight is multiplied in before `expert_down`)."""
RUN_AGAIN: Mapping[RecomputeModule, frozenset[Part]] = {
    "mlp": frozenset((Part.CHANNELS,)),
    "shared_experts": frozenset((Part.SHARED,)),
    "moe": frozenset((Part.EXPERTS, Part.SHARED)),
}
"""The parts of a layer that modules of selective recomputation run again as a whole."""
ROUTED: frozenset[Result] = frozenset(("routing",))
"""What is kept although the experts are run again: the choice of experts must be the same."""


class KeepingHabits(Record, kw_only=True):
    """What the engine keeps beyond what mathematics needs; None: nothing (bytes, or widths)."""

    norm: Term | None = None
    gate: Term | None = None
    attention: Term | None = None
    normed: Term | None = None
    """Widths of queries and keys that a norm reads, in multiples: what it read is kept beside what attention keeps."""
    score: Term = Term("recipe.score_bytes", 5.0, "B", _SCORES)
    working: Term | None = None
    """Bytes of a score that only the layer at work holds."""
    stream: Term | None = None
    """One element of hidden states and what matmuls make of them, where it is not the recipe's."""
    layer_input: Term | None = None
    """One element of the input that is kept of a layer that is run again, where it is wider than other activations."""
    gathers_context: bool = False
    """Context parallel ranks gather the keys and values of whole sequences at once."""
    repeats_heads: bool = False
    """Keys and values are kept for every head of the queries."""
    remakes_attention: bool = False
    """Selective recomputation by operators runs attention again."""
    product_stays: bool = False
    """Values are a part of what one product made, which stays beside turned queries and keys."""
    inputs_apart: bool = False
    """Each matrix cut by columns gathers its own input."""
    sums_apart: bool = False
    """Without sequence parallelism each product behind a norm reduces the gradient of its own input."""
    inputs_copied: bool = False
    """Each of them also keeps a copy of it where tensor parallel ranks share a layer."""
    gathered_kept: bool = False
    """What is gathered along the sequence for the products behind a norm is kept whole."""
    padded: Term | None = None
    """The fullest expert over the mean, where the others are padded to it; None: they are not."""
    up_bias: Term | None = None
    """Traffic for each element that the up projection of experts makes, where their biases are no part of it."""
    down_bias: Term | None = None
    """The same of the down projection."""
    gradients_in_place: bool = False
    """Gradients of what gate and up projection made are written over these."""
    hands_parts: bool = False
    """Each tensor parallel rank sends the next pipeline stage its part of the hidden states."""
    dropout: Term | None = None
    """Bytes of an element of an adapted matrix's input that dropout before the adapter keeps; None: a copy of what norms make."""
    adapters_at_once: bool = False
    """Adapters keep the input that they share with their matrices, and no copy of it."""
    whole_edges: bool = False
    """The embedding, and the head without sequence parallelism, are whole on each tensor parallel rank; logits are gathered."""
    gathered_logits: bool = False
    """Tensor parallel ranks share embedding and head, and all of them gather the logits."""


class KeptTensors(Record, kw_only=True):
    """Sums up the tensors that one layer keeps of one micro-batch; every name starts with `activations`."""

    leaves: Leaves
    split: Split
    work: Pass
    element: Term
    stored: Term | None = None
    """One element of a matmul's kept input where that is not `element`: fp8 recipes that keep what they multiplied."""
    habits: KeepingHabits = KeepingHabits()
    tuning: Tuning = Tuning()
    eager: bool = False
    """Attention writes its scores."""

    def parts(self, key: str, block: Block, program: LayerProgram) -> dict[str, Term]:
        """Bytes that one layer keeps when nothing is recomputed, by part."""
        at = f"activations.{key}"
        found: dict[str, Term] = {"norms": self.norms(key, block)}
        if block.streams > 1:  # Of each half of the layer, what the mixture that its norm keeps was made from.
            width = self.leaves.times(
                f"{at}.streams_of_halves", self.leaves(f"{key}.streams_kept", 2 * block.streams), self.norm_width(key)
            )
            found["streams"] = self.bytes(f"{at}.streams", width)
        if self.habits.inputs_copied:
            found["copied_inputs"] = self.copied_inputs(at, key, program)
        if self.habits.gathered_kept:
            found["gathered_inputs"] = self.gathered_inputs(at, key, program)
        if self.tuning.scales and (made := [(op, one) for op in program.ops for one in op.matrices]):
            outputs = {one.name: self.leaves.times(f"{at}.{one.name}.outputs", one.fan_out, one.copies) for _, one in made}
            found["scaled"] = self.bytes(f"{at}.scaled", total(f"{at}.scaled_widths", outputs))
        if (dropped := self.dropped(at, program)) is not None:
            found["dropped"] = dropped
        for part in MIXERS:
            inside = program.within((part,))
            tensors = [one for one in inside.tensors if one.result not in UNREAD]
            if not tensors:
                continue
            found[part.value] = self.mixer(f"{at}.{part.value}", tensors, plain=bool(inside.of(Role.QKV).ops))
            if self.eager and inside.of(Role.ATTENTION).ops:
                found[f"{part.value}_scores"] = self.scores(f"{at}.{part.value}", inside)
        for part in FEED_FORWARD:
            tensors = [one for one in program.within((part,)).tensors if one.result not in UNREAD]
            if not tensors:
                continue
            if part is not Part.EXPERTS:
                found[part.value] = self.feed_forward(f"{at}.{part.value}", tensors)
                continue
            found["router"] = total(f"{at}.router", [self.tensor(f"{at}.router.scores", one) for one in _of(tensors, ROUTED)])
            found["experts"] = self.experts(f"{at}.experts", [one for one in tensors if one.result not in ROUTED])
        return found

    def mixer(self, at: str, tensors: list[Tensor], *, plain: bool) -> Term:
        """What a token mixer keeps; `plain`: one product makes its queries, keys and values."""
        narrow = [one for one in tensors if one.element is None]
        widths = {
            str(one.result): one.repeated if self.habits.repeats_heads and one.repeated is not None else one.width for one in narrow
        }
        if plain and self.tuning.frozen and self.keeps_inputs:
            widths["multiplied"] = next(one.width for one in tensors if one.result == "context")
        if plain and self.habits.attention is not None:
            qkv = total(f"{at}.qkv", {name: widths[name] for name in ("query", "key", "value")})
            widths["again"] = self.leaves.times(f"{at}.copies", self.habits.attention, qkv)
        read = {str(one.result): one.width for one in narrow if one.normed}
        if plain and self.habits.normed is not None and read:
            widths["normed"] = self.leaves.times(f"{at}.normed", self.habits.normed, total(f"{at}.read_by_norms", read))
        if plain and self.habits.product_stays and all(_own_heads(one) for one in narrow):
            widths["product"] = total(f"{at}.product", {name: widths[name] for name in ("query", "key")})
        kept = {"tensors": self.bytes(f"{at}.tensors", total(f"{at}.widths", widths), narrow[0].rows)}
        kept |= {str(one.result): self.tensor(f"{at}.{one.result}", one) for one in tensors if one.element is not None}
        return total(at, kept)

    def feed_forward(self, at: str, tensors: list[Tensor]) -> Term:
        """The up (and gate) projections and, where the down projection is trained or adapted, its input."""
        made = [one for one in tensors if not one.multiplied]
        widths = {str(one.result): one.width for one in made}
        if "gate" in widths and self.habits.gate is not None:
            widths["gate_copies"] = self.leaves.times(f"{at}.gate_copies", self.habits.gate, widths["gate"])
        kept = {"made": self.bytes(f"{at}.made", total(f"{at}.widths", widths), made[0].rows)}
        adapted = self.tuning.lora_targets in ("mlp", "all") and not self.tuning.scales and self.habits.dropout is None
        if self.keeps_inputs or not self.tuning.frozen or adapted:
            kept |= {str(one.result): self.tensor(f"{at}.{one.result}", one) for one in tensors if one.multiplied}
        return total(at, kept)

    def experts(self, at: str, tensors: list[Tensor]) -> Term:
        """Dispatched inputs and expert widths for every token copy."""
        return total(at, {str(one.result): self.tensor(f"{at}.{one.result}", one) for one in tensors})

    def saved(
        self, key: str, block: Block, program: LayerProgram, parts: Mapping[str, Term], recompute: Recompute,
        named: Collection[str] = (),
    ) -> Term | None:  # fmt: skip
        """Bytes that one layer keeps under a kind of recomputation, of `named` modules; None: as much as without."""
        at = f"activations.{key}.{recompute}"
        if recompute == "full":
            return self.layer_input(key, block.streams)
        if recompute == "selective-op":
            return self.every_other_matmul(key, program, parts, block.streams)
        modules = run_again(recompute, named, latents=bool(program.of(Role.KEY_VALUE_UP).ops), scores=self.eager)
        again = {part.value for module in modules for part in RUN_AGAIN.get(module, ())}
        if "core_attn" in modules:
            again |= {f"{part.value}_scores" for part in MIXERS}
        left = {name: term for name, term in parts.items() if name not in again}
        if "mla_up_proj" in modules:
            left |= self.latents(key, program)
        if "layernorm" in modules and not self.tuning.frozen:  # Adapters keep what norms make as their own input.
            left["norms"] = self.norm_inputs(key, block)
        if "moe_act" in modules and Part.EXPERTS.value in left:
            inside = [one for one in program.within((Part.EXPERTS,)).tensors if one.result not in ROUTED | UNREAD]
            left[Part.EXPERTS.value] = self.experts(f"{at}.experts", [one for one in inside if one.result != "expert_inner"])
        return total(at, left) if any(left.get(name) is not term for name, term in parts.items()) else None

    def latents(self, key: str, program: LayerProgram) -> dict[str, Term]:
        """What latent attention keeps where its up-projections are run again: the latents and the output (DeepSeek-V3, 3.2.3)."""
        found: dict[str, Term] = {}
        for part in (Part.MIXER, Part.MIXER2):
            inside = program.within((part,))
            tensors = inside.tensors
            if not inside.of(Role.KEY_VALUE_UP).ops:
                continue
            at = f"activations.{key}.{part.value}.latents"
            kept = _of(tensors, ("context", "latent_kv", "latent_query"))
            widths = {str(one.result): one.width if one.columns is None else one.columns for one in kept}
            found[part.value] = self.bytes(at, total(f"{at}.widths", widths), kept[0].rows)
        return found

    def every_other_matmul(self, key: str, program: LayerProgram, parts: Mapping[str, Term], streams: int) -> Term:
        """The layer's input, the first, third … matmul's result, and what fused attention and scans keep (their inputs are remade).

        Queries, values, the up projection and the result of the down projection are kept in a gated layer.
        """
        at = f"activations.{key}.op"
        kept = {"input": self.layer_input(key, streams)}
        widths: dict[str, Term] = {}
        for part in (*MIXERS, Part.CHANNELS):
            tensors = program.within((part,)).tensors
            stay = [one for one in tensors if one.alternate]
            if not stay and part.value in parts:
                kept[part.value] = parts[part.value]
            for one in stay:
                if one.result == "context" and self.habits.remakes_attention:
                    continue
                # The residual sum is cut over tensor parallel ranks with the norms.
                widths[f"{part.value}.{one.result}"] = self.norm_width(key) if one.result == "down" else one.width
        kept |= {name: parts[name] for name in ("experts", "router", "shared") if name in parts}
        if widths:
            kept["matmuls"] = self.bytes(f"{at}.matmuls", total(f"{at}.widths", widths))
        return total(at, kept)

    def norms(self, key: str, block: Block) -> Term:
        """The input of each norm, and its output where a matrix behind it is trained or adapted."""
        leaf, at = self.leaves, f"activations.{key}"
        per_norm = self.norm_width(key)
        held = leaf(f"{key}.norms", block.norms)
        copies = leaf.times(f"{at}.norm_tensors", count("kept_per_norm"), held)
        groups = {"qv": 1, "attention": 1, "mlp": 1, "all": 2}[self.tuning.lora_targets]
        if self.tuning.frozen and self.habits.dropout is not None:
            copies = copies if self.keeps_inputs else held
        elif self.tuning.frozen and self.keeps_inputs:
            copies = total(f"{at}.norm_tensors_quantised", {"ends": copies, "dropped": count(f"adapted_{groups}")})
        elif self.tuning.scales:
            copies = held
        elif self.tuning.frozen:
            each = ONE if self.habits.adapters_at_once else count("kept_by_adapters")
            adapted = leaf.times(f"{at}.adapted_inputs", each, count(f"adapted_{groups}"))
            copies = total(f"{at}.norm_tensors_frozen", {"inputs": held, "adapters": adapted})
        kept = self.bytes(f"{at}.norms", leaf.times(f"{at}.norm_widths", copies, per_norm))
        if self.stored is not None and not self.tuning.frozen:
            once = leaf.times(f"{at}.each_norm", held, per_norm)
            outputs = self.bytes(f"{at}.norm_outputs", once, element=self.stored)
            kept = total(f"{at}.norm_ends", {"inputs": self.bytes(f"{at}.norm_inputs", once), "outputs": outputs})
        if self.habits.norm is None or block.norm != "rms":
            return kept
        width = leaf.times(f"{at}.all_norms_width", held, per_norm)
        return total(f"{at}.all_norms", {"kept": kept, "wide": self.bytes(f"{at}.norms_wide", width, element=self.habits.norm)})

    def dropped(self, at: str, program: LayerProgram) -> Term | None:
        """What dropout before adapters keeps: of each input of a matrix, queries, keys and values being one; None: nothing."""
        if self.habits.dropout is None or not self.tuning.frozen or self.tuning.scales:
            return None
        found: dict[str, Term] = {}
        for op in program.within((*MIXERS, *FEED_FORWARD)).ops:
            adapted = [one for one in op.matrices if op.part is not Part.EXPERTS and self.tuning.lora_targets in one.adapted_as]
            for one in adapted[:1] if op.role is Role.QKV else adapted:
                found[one.name.removeprefix("params.")] = one.fan_in
        return self.bytes(f"{at}.dropped", total(f"{at}.dropped_widths", found), element=self.habits.dropout) if found else None

    def multiplied(self, key: str, block: Block, program: LayerProgram) -> Term | None:
        """Inputs that quantised matmuls of one layer keep; None: they keep none."""
        if not self.tuning.frozen or not self.keeps_inputs:
            return None
        at = f"activations.{key}.multiplied"
        halves = self.leaves(f"{key}.halves", min(block.norms, 2))
        widths = {"normed": self.leaves.times(f"{at}.normed", halves, self.norm_width(key))}
        tensors = program.within((*MIXERS, *FEED_FORWARD)).tensors
        widths |= {str(one.result): one.width for one in _of(tensors, ("context", "inner"))}
        return self.bytes(at, total(f"{at}.widths", widths))

    def of_operators(self, key: str, program: LayerProgram, recompute: Recompute, named: Collection[str] = ()) -> Term | None:
        """What operators keep that are no part of the engine's modules, under a kind of recomputation; None: nothing.

        Of activation and gating apart that is what they read, the activation's result among it; norms of heads keep their input.
        """
        if recompute not in ("none", "selective"):
            return None
        at, widths = f"activations.{key}.of_operators", dict[str, Term]()
        if self.habits.normed is not None:
            for one in (one for one in program.within(MIXERS).tensors if one.normed):
                name = f"{one.part.value}.{one.result}"
                widths[name] = self.leaves.times(f"{at}.{name}", self.habits.normed, one.width)
        modules = run_again(recompute, named, latents=bool(program.of(Role.KEY_VALUE_UP).ops), scores=self.eager)
        if self.habits.gate is not None and "mlp" not in modules:
            for one in (one for one in program.within((Part.CHANNELS,)).tensors if not one.multiplied and one.result not in UNREAD):
                widths[str(one.result)] = self.leaves.times(f"{at}.{one.result}", self.habits.gate, one.width)
                if one.result == "gate":
                    widths["activated"] = self.leaves.times(f"{at}.activated", self.habits.gate, one.width)
        return self.bytes(at, total(f"{at}.widths", widths)) if widths else None

    def norm_inputs(self, key: str, block: Block) -> Term:
        """The input of each norm alone: what it makes is made again."""
        at = f"activations.{key}"
        held = self.leaves(f"{key}.norms", block.norms)
        return self.bytes(f"{at}.norm_inputs_alone", self.leaves.times(f"{at}.norm_inputs_width", held, self.norm_width(key)))

    def copied_inputs(self, at: str, key: str, program: LayerProgram) -> Term:
        """What matrices that are cut by columns keep of the input that they share, beyond the first of queries, gate and up."""
        more = (QKV - 1) * bool(program.within(MIXERS).of(Role.QKV).ops)
        more += sum(len(op.matrices) - 1 for op in program.within((Part.CHANNELS,)).of(Role.UP).ops)
        copies = copies_of_ranks.term(f"{at}.input_copies", copies=self.leaves(f"{key}.copied_inputs", more), ways=self.split.tp)
        return self.bytes(f"{at}.copied_inputs", self.leaves.times(f"{at}.copied_widths", copies, self.norm_width(key)))

    def gathered_inputs(self, at: str, key: str, program: LayerProgram) -> Term:
        """What products keep of the parts that other ranks gave of their input, which queries, gate and up projection share."""
        gathers = bool(program.within(MIXERS).of(Role.QKV).ops) + bool(program.within((Part.CHANNELS,)).of(Role.UP).ops)
        parts = parts_of_others.term(f"{at}.parts_of_others", tensors=self.leaves(f"{key}.gathers", gathers), ways=self.split.sp)
        return self.bytes(f"{at}.gathered_inputs", self.leaves.times(f"{at}.gathered_widths", parts, self.norm_width(key)))

    def norm_width(self, key: str) -> Term:
        """The hidden width as norms and residuals hold it on a rank."""
        return self.leaves.split(f"activations.{key}.norm_width", self.leaves.hidden, self.split.sp)

    def scores(self, at: str, inside: LayerProgram, element: Term | None = None) -> Term:
        """Scores of one layer that are written out: those that are kept, or `element` bytes of each."""
        group: Group = self.work.groups[0]
        return attention_score_bytes.term(
            f"{at}.scores", sequences=group.sequences, heads=inside.attentions[0].heads, q_tokens=group.q_len,
            kv_tokens=group.kv_len, element_bytes=self.habits.score if element is None else element,
        )  # fmt: skip

    def working(self, key: str, program: LayerProgram) -> Term | None:
        """What one layer holds of its scores while it is at work, beyond what it keeps; None: nothing."""
        inside = program.within(MIXERS)
        if not self.eager or self.habits.working is None or not inside.of(Role.ATTENTION).ops:
            return None
        return self.scores(f"activations.{key}.working", inside, self.habits.working)

    def gradients(self, key: str, program: LayerProgram) -> Term:
        """Gradients that the layer at work holds beside what it kept, when it holds most: in the backward pass of the feed-forward.

        That of the layer's result comes in. The down projection takes its input for the gradient of its weights, lets it go and
        makes as large a gradient; the activation makes one of each projection that it read, while these are still there. So as
        many are there beyond what was kept as up and gate projections made, and, of experts, that of the copies that they gave out.
        Kernels that write gradients over what gate and up made need none of these.
        """
        at, found = f"activations.{key}.gradients", dict[str, Term]()
        for part in FEED_FORWARD:
            tensors = [one for one in program.within((part,)).tensors if one.result not in UNREAD | ROUTED]
            made = {str(one.result): self.tensor(f"{at}.{part.value}.{one.result}", one) for one in tensors if not one.multiplied}
            if self.habits.gradients_in_place and len(made) > 1:
                made = {}
            if part is Part.EXPERTS:
                given = next((one for one in tensors if one.result == "dispatched"), None)
                made |= {} if given is None else {"copies": self.tensor(f"{at}.{part.value}.copies", given)}
            if made:
                found[part.value] = total(f"{at}.{part.value}", made)
        incoming = {"incoming": self.bytes(f"{at}.incoming", self.norm_width(key))}
        return total(at, incoming | ({"feed_forward": greatest(f"{at}.feed_forward", found)} if found else {}))

    def layer_input(self, key: str, streams: int = 1) -> Term:
        """Bytes that one layer keeps when all of it is recomputed: its input."""
        width = self.norm_width(key)
        if streams > 1:
            width = self.leaves.times(f"activations.{key}.streams_width", self.leaves(f"{key}.streams", streams), width)
        return self.bytes(f"activations.{key}.input", width, element=None if self.tuning.frozen else self.habits.layer_input)

    def tensor(self, name: str, one: Tensor) -> Term:
        """Bytes of one kept tensor, in the type in which it is kept."""
        element = one.element
        if element is None:
            element = self.stored if one.multiplied and self.stored is not None else self.element
        return self.bytes(name, one.width, one.rows, element)

    def bytes(self, name: str, width: Term, rows: Term | None = None, element: Term | None = None) -> Term:
        """Bytes of rows of a width, one for each token unless `rows` says otherwise."""
        return tensor_bytes.term(
            name, tokens=self.work.tokens if rows is None else rows, width=width,
            element_bytes=self.element if element is None else element,
        )  # fmt: skip

    @property
    def keeps_inputs(self) -> bool:
        """Quantised matmuls keep their inputs although nothing behind them is trained, as those of bitsandbytes do.

        Functions that compute a matrix and its adapters at once widen the weights themselves.
        """
        return self.tuning.base_weights in QUANTISED_IN_PLACE and not self.habits.adapters_at_once


def _own_heads(one: Tensor) -> bool:
    """Keys or values are there for every head of the queries as they are made."""
    return one.repeated is None or all_true(one.width.value == one.repeated.value)


def _of(tensors: list[Tensor], results: Collection[str]) -> list[Tensor]:
    """The tensors that are some results."""
    return [one for one in tensors if one.result in results]
