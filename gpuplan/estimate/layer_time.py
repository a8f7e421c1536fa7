"""How long one layer takes with one micro-batch, by kind of work, forward and backward together?"""

from __future__ import annotations

from gpuplan.estimate.attention_time import attention_seconds
from gpuplan.estimate.pricing import alone, exposed, happens, no_time, priced
from gpuplan.estimate.sharding import ShardingPricer
from gpuplan.formulas.basic import part_of_seconds, product, remaining_seconds, repeated_bytes, repeated_seconds
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.formulas.training import (
    grouped_seconds,
    paced_seconds,
)
from gpuplan.plan.precision import RECIPES
from gpuplan.plan.words import AttentionKernel
from gpuplan.term import Term, total
from gpuplan.work import Matmul, Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.program import ADAPTERS, LayerProgram, Op, Part, Role
from gpuplan.workload.training import BlockWork

QUANTISED = ("int8", "int4", "nf4", "nf4-dq")
"""How frozen weights may be stored that no matmul reads as they are."""


class LayerPricer(ShardingPricer):
    """Prices the layers of a step on one machine with one engine."""

    attention: AttentionKernel = "flash"

    def layer(self, key: str, block: BlockWork) -> dict[str, Term]:
        """Seconds of one layer and micro-batch by kind of work, forward and backward together."""
        hw, habit, profile = self.subject.hw, self.subject.habit, self.profile
        both = (("forward", block.forward), ("backward", block.backward))

        def sums(kind: str) -> dict[str, Term]:
            found = {}
            for phase, work in both:
                if kind == "matmuls":
                    found[phase] = self.scaled(f"{phase}.{key}.{kind}", work.matmuls)
                    continue
                if kind == "attention":
                    pace = "attention_backward" if phase == "backward" else kind
                    items = (
                        [item.replaced(dtype="fp8") for item in work.attentions] if self.plan.how.fp8_attention else work.attentions
                    )
                    seconds = attention_seconds(f"{phase}.{key}.{kind}", items, self.attention, hw)
                else:
                    pace, seconds = kind, priced(f"{phase}.{key}.{kind}", self.streams(work), hw)
                found[phase] = self.paced(pace, seconds)
            return found

        kinds = {kind: sums(kind) for kind in ("matmuls", "attention", "elementwise")}
        parts = {kind: total(f"layer.{key}.{kind}", found) for kind, found in kinds.items()}
        tp_overlap = habit("tp_overlap", profile.overlap.tp)
        tensor = {phase: exposed(f"{phase}.{key}.tensor_parallel", work.tensor_collectives, hw, tp_overlap) for phase, work in both}
        parts["tensor_parallel"] = total(f"layer.{key}.tensor_parallel", tensor)
        parts["context_parallel"] = self.context(key, block, kinds["attention"])
        expert = {phase: self.experts(f"{phase}.{key}", phase, work, kinds) for phase, work in both}
        parts["expert_parallel"] = total(f"layer.{key}.expert_parallel", expert)
        if self.profile.adapters.dequantise is not None and self.plan.tuning.base_weights in QUANTISED:
            parts["elementwise"] = total(
                f"layer.{key}.streams", {"elementwise": parts["elementwise"], "widening": self.widening(key, block)}
            )
        forward = {kind: found["forward"] for kind, found in kinds.items()}
        again: dict[str, Term] = {}
        if block.again is not None:
            again = self.made_again(key, block.again, exposed_share=tp_overlap)
        elif self.plan.recompute == "full":
            again = forward | {"tensor_parallel": tensor["forward"], "expert_parallel": expert["forward"]}
            again |= self.forward_context(key, block, forward["attention"])
        elif self.plan.recompute in ("mlp", "moe"):
            again = self.channel_mixer(key, block, expert["forward"])
        elif self.plan.recompute != "none":
            again = self.selected(key, block, forward)
        parts["recompute"] = total(f"layer.{key}.recompute", again) if again else no_time(f"layer.{key}.recompute")
        if self.plan.tuning.reference:
            scored = forward | {"tensor_parallel": tensor["forward"], "expert_parallel": expert["forward"]}
            scored |= self.forward_context(key, block, forward["attention"])
            parts["reference"] = total(f"layer.{key}.reference", scored)
        device = total(f"layer.{key}.device", dict(parts))
        parts["host"] = remaining_seconds.term(f"layer.{key}.host", whole=self.issue(key, block), hidden=device)
        return parts

    def issue(self, key: str, block: BlockWork) -> Term:
        """Host time to issue all passes of a layer, which the accelerator waits for where its kernels are shorter."""
        habit, profile = self.subject.habit, self.profile
        passes = count("host_passes_recomputed" if self.plan.recompute == "full" else "host_passes")
        host = habit("layer_host", profile.host.layer)
        experts = next((item.batch for item in block.forward.matmuls if item.grouped), None)
        if profile.experts.host is not None and experts is not None:
            each = habit("expert_host", profile.experts.host)
            of_experts = repeated_seconds.term(f"layer.{key}.issued_experts", count=experts, seconds=each)
            host = total(f"layer.{key}.issued", {"layer": host, "experts": of_experts})
        if profile.sharding.gather_host is not None and self.plan.parallel.zero_stage == 3 and self.replicated:
            # Its matrices, and the norms before attention and feed-forward layer.
            modules = self.leaves(f"{key}.modules", block.weights + 2)
            each = habit("gather_host", profile.sharding.gather_host)
            gathers = repeated_seconds.term(f"layer.{key}.issued_gathers", count=modules, seconds=each)
            host = total(f"layer.{key}.issued_with_gathers", {"layer": host, "gathers": gathers})
        adapted = len(block.forward.of(Role.ADAPTER_UP).ops)
        if profile.adapters.host is not None and adapted:
            each = habit("adapter_host", profile.adapters.host)
            of_adapters = repeated_seconds.term(
                f"layer.{key}.issued_adapters", count=self.leaves(f"{key}.adapted", adapted), seconds=each
            )
            host = total(f"layer.{key}.issued_with_adapters", {"layer": host, "adapters": of_adapters})
        return repeated_seconds.term(f"layer.{key}.issue", count=passes, seconds=host)

    def made_again(self, key: str, work: LayerProgram, exposed_share: Term) -> dict[str, Term]:
        """Seconds of what the backward pass runs again, by kind, where the plan names the results that it keeps."""
        at, hw = f"layer.{key}.again", self.subject.hw
        found: dict[str, Term] = {}
        if work.matmuls:
            found["matmuls"] = self.matmuls(f"{at}.matmuls", work.matmuls)
        if work.attentions:
            found["attention"] = self.paced("attention", priced(f"{at}.attention", work.attentions, hw))
        found["elementwise"] = self.paced("elementwise", priced(f"{at}.elementwise", work.streams, hw))
        if work.tensor_collectives:
            found["tensor_parallel"] = exposed(f"{at}.tensor_parallel", work.tensor_collectives, hw, exposed_share)
        if work.expert_collectives:
            window = total(f"{at}.window", {kind: found[kind] for kind in ("matmuls", "attention") if kind in found})
            comm = priced(f"{at}.expert_parallel.all", work.expert_collectives, hw)
            if happens(comm):
                overlap = self.subject.habit("ep_overlap", self.profile.overlap.ep)
                found["expert_parallel"] = self.beside(f"{at}.expert_parallel", comm, window, overlap)
        return found

    def widening(self, key: str, block: BlockWork) -> Term:
        """Stored weights of a few bits are widened before each product: forward, backward, and once more where all is run again."""
        at, each = f"layer.{key}.widening", self.profile.adapters.dequantise
        if each is None:
            return no_time(at)
        element = self.subject.habit("dequantise", each)
        widened = block.forward.having(lambda op: op.role not in ADAPTERS and op.role is not Role.ROUTER).matmuls
        sizes = [repeated_bytes.term(f"{at}.{item.name}", count=weights_of(item), size=element) for item in widened]
        once = priced(f"{at}.once", [Stream(name=f"{at}.stream", size=total(f"{at}.bytes", sizes), launches=ONE)], self.subject.hw)
        passes = count("widenings_recomputed" if self.plan.recompute == "full" else "widenings")
        return repeated_seconds.term(at, count=passes, seconds=once)

    def streams(self, work: LayerProgram) -> list[Stream]:
        """The passes over memory that run between the matmuls of a layer."""
        return work.having(lambda op: not self.with_dispatch(op, work)).streams

    def with_dispatch(self, op: Op, work: LayerProgram) -> bool:
        """Whether the dispatcher makes the copies of tokens as well, on its own stream.

        HybridEP sorts tokens by expert as it sends and receives them: `dispatch_with_permute` and `combine_with_unpermute` of
        megatron/core/transformer/moe/fused_a2a.py (Megatron-LM d98e8a64).
        """
        return self.plan.how.dispatcher == "hybridep" and op.role is Role.PERMUTE and bool(work.expert_collectives)

    def experts(self, at: str, phase: str, work: LayerProgram, kinds: dict[str, dict[str, Term]]) -> Term:
        """Tokens on their way to the experts and back, beside the computation of another micro-batch where that is on."""
        name = f"{at}.expert_parallel"
        copies = work.having(lambda op: self.with_dispatch(op, work)).streams
        comm = priced(f"{name}.all", [*work.expert_collectives, *copies], self.subject.hw)
        if not happens(comm):
            return comm
        window = total(f"{name}.window", {kind: found[phase] for kind, found in kinds.items()})
        return self.beside(name, comm, window, self.subject.habit("ep_overlap", self.profile.overlap.ep))

    def scaled(self, name: str, items: list[Matmul]) -> Term:
        """Seconds of matmuls with what finer scales than one for a tensor take."""
        each, how = self.profile.fp8.rowwise, self.plan.how
        if each is None or how.scaling != "rowwise" or RECIPES[self.plan.precision].matmul != "fp8":
            return self.matmuls(name, items)
        element = self.subject.habit("rowwise", each)
        sizes = [
            tensor_bytes.term(f"{item.name}.scaled_bytes", tokens=item.m, width=item.k, element_bytes=element) for item in items
        ]
        stream = Stream(name=f"{name}.scales", size=total(f"{name}.scaled_bytes", sizes), launches=ONE)
        scales = priced(f"{name}.scales_s", [stream], self.subject.hw)
        return total(name, {"products": self.matmuls(f"{name}.products", items), "scales": scales})

    def matmuls(self, name: str, items: list[Matmul]) -> Term:
        """Seconds of matmuls, those over several experts apart, at the engine's pace."""
        hw = self.subject.hw
        plain = [item for item in items if not item.grouped]
        grouped = [item for item in items if item.grouped]
        kind = {"fp8": "matmul_fp8", "int8": "matmul_fp8", "fp4": "matmul_fp4"}.get(RECIPES[self.plan.precision].matmul, "matmul")
        if not grouped:
            return self.paced(kind, priced(name, plain, hw))
        over_experts = self.paced(kind, priced(f"{name}.experts", grouped, hw))
        slower = self.subject.pace(self.profile, "grouped")
        if slower is not None:
            over_experts = grouped_seconds.term(f"{name}.grouped", seconds=over_experts, experts=grouped[0].batch, pace=slower)
        parts = {"dense": self.paced(kind, priced(f"{name}.dense", plain, hw)), "experts": over_experts}
        if self.profile.experts.start is not None:
            each = self.leaves(f"{name}.matmuls_of_an_expert", len(grouped))
            starts = self.leaves.times(f"{name}.expert_starts", each, grouped[0].batch)
            start = self.subject.habit("expert_start", self.profile.experts.start)
            parts["starts"] = repeated_seconds.term(f"{name}.started", count=starts, seconds=start)
        return total(name, parts)

    def paced(self, kind: str, seconds: Term) -> Term:
        """Kernels at the pace that they have inside whole steps of the engine."""
        pace = self.subject.pace(self.profile, kind)
        if pace is None or not happens(seconds):
            return seconds
        return paced_seconds.term(f"{seconds.name}.at_{kind}_pace", seconds=seconds, pace=pace)

    def selected(self, key: str, block: BlockWork, forward: dict[str, Term]) -> dict[str, Term]:
        """What selective recomputation runs again: the attention core, or the engine's own selection."""
        if self.plan.recompute == "selective-op":
            half = part_of_seconds.term(
                f"layer.{key}.recompute.every_second", seconds=forward["matmuls"], ratio=count("every_second")
            )
            return {"matmuls": half, "elementwise": forward["elementwise"]}
        if self.attention == "eager" and self.profile.recompute.selective is None:
            return {"attention": forward["attention"]}
        again = self.up_projections(key, block)
        if again:
            return again
        chosen = self.profile.recompute.selective
        if chosen is None:
            return {"attention": forward["attention"]}
        shares = {"matmuls": chosen.matmul, "attention": chosen.attention, "elementwise": chosen.elementwise}
        return {
            kind: part_of_seconds.term(
                f"layer.{key}.recompute.{kind}", seconds=forward[kind], ratio=self.subject.habit(f"recomputed_{kind}", share)
            )
            for kind, share in shares.items()
            if share.value > 0 and happens(forward[kind])
        }

    def up_projections(self, key: str, block: BlockWork) -> dict[str, Term]:
        """Of latent attention, the expansion of queries, keys and values is run again, not the attention itself."""
        items = self.expansions(block)
        return {"matmuls": self.matmuls(f"layer.{key}.recompute.up_projections", items)} if items else {}

    def expansions(self, block: BlockWork) -> list[Matmul]:
        """The products that expand latents, of layers that have latent keys and values."""
        program = block.forward
        return program.of(Role.QUERY_UP, Role.KEY_VALUE_UP).matmuls if program.of(Role.KEY_VALUE_UP).ops else []

    def channel_mixer(self, key: str, block: BlockWork, exchange: Term) -> dict[str, Term]:
        """The feed-forward layer, or the experts with their exchange, run again; attention is not."""
        # `mlp` means dense layers and shared experts, `moe` whole layers of experts.
        sparse = bool(block.forward.within((Part.EXPERTS,)).ops)
        parts = (Part.EXPERTS, Part.SHARED) if sparse else (Part.CHANNELS,)
        if self.plan.recompute == "mlp":
            parts = (Part.SHARED,) if sparse else (Part.CHANNELS,)
        elif not sparse:
            return {}
        inside = block.forward.within(parts)
        items = inside.matmuls
        if not items:
            return {}
        again = {"matmuls": self.matmuls(f"layer.{key}.recompute.mlp", items)}
        streams = self.streams(inside)
        if streams:
            priced_again = priced(f"layer.{key}.recompute.mlp_streams", streams, self.subject.hw)
            again["elementwise"] = self.paced("elementwise", priced_again)
        if self.plan.recompute == "moe" and happens(exchange):
            again["exchange"] = exchange
        return again

    def context(self, key: str, block: BlockWork, attention: dict[str, Term]) -> Term:
        """Exchange of context parallelism, forward and backward; that of a ring runs beside attention where it fits."""
        name, once = f"layer.{key}.context_parallel", self.exchange(key, block)
        if once is None:
            return no_time(name)
        passes = "head_exchanges" if self.plan.parallel.cp_kind == "ulysses" else "context_exchanges"
        comm = repeated_seconds.term(f"{name}.all", count=count(passes), seconds=once)
        return self.beside_attention(name, comm, attention)

    def forward_context(self, key: str, block: BlockWork, attention: Term) -> dict[str, Term]:
        """The same of one more forward pass; empty without context parallelism."""
        once = self.exchange(key, block)
        if once is None:
            return {}
        return {"context_parallel": self.beside_attention(f"forward.{key}.context_parallel", once, {"forward": attention})}

    def exchange(self, key: str, block: BlockWork) -> Term | None:
        """One exchange of keys and values, or of heads; None where nothing is."""
        if block.context is None or alone(block.context.group):
            return None
        return priced(f"layer.{key}.context_parallel.once", [block.context], self.subject.hw)

    def beside_attention(self, name: str, comm: Term, attention: dict[str, Term]) -> Term:
        """What the attention that it feeds does not hide; only a ring goes on while a part of the keys is there."""
        if self.plan.parallel.cp_kind != "ring":
            return comm
        return remaining_seconds.term(name, whole=comm, hidden=total(f"{name}.window", attention))


def weights_of(item: Matmul) -> Term:
    """How many weights a product multiplies with."""
    one = product.term(f"{item.name}.weights_of_one", a=item.n, b=item.k)
    return product.term(f"{item.name}.all_weights", a=item.batch, b=one)
