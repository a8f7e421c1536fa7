"""A serving plan on its way to figures: its leaves, and the time of a prefill and of a decode step by kind of work."""

from __future__ import annotations

from gpuplan.estimate import attention_ranks as between
from gpuplan.estimate.attention_ranks import hidden, overlaps, sharing_of, tokens_of_experts, two_batches
from gpuplan.estimate.cache_pages import unlike_windows
from gpuplan.estimate.device_limits import serving_profile
from gpuplan.estimate.drafting import Drafter, drafted, with_draft_prompt
from gpuplan.estimate.host_time import decode_parts, pass_parts
from gpuplan.estimate.host_weights import on_host
from gpuplan.estimate.images import across_positions, image_tokens, with_images
from gpuplan.estimate.in_chunks import in_chunks
from gpuplan.estimate.pricing import alone, happens, in_turn, priced, timed
from gpuplan.estimate.serving_memory import ServingMemory, rank_weights, serving_memory
from gpuplan.estimate.serving_settings import Quantity, of_longest, own_kernels, set_or_habit, skew_of
from gpuplan.estimate.step_parts import answering, copied, issue_wait, kinds_of, sends, stage_wait, step_host
from gpuplan.estimate.subject import Subject
from gpuplan.formulas import inference as form
from gpuplan.formulas.basic import (
    difference,
    larger,
    product,
    repeated_bytes,
    repeated_seconds,
    share,
)
from gpuplan.formulas.queueing import uncached_tokens, uneven_context
from gpuplan.formulas.training import unmodelled_seconds
from gpuplan.models.block_types import BLOCK_TYPES
from gpuplan.num import all_true, any_true
from gpuplan.plan.precision import KV_BYTES, byte, stored_in
from gpuplan.plan.serve import ServePlan
from gpuplan.record import Record
from gpuplan.specs.engine import ServingProfile
from gpuplan.specs.engine_memory import WindowedKv
from gpuplan.specs.engine_schedule import Steps
from gpuplan.term import Parts, Source, Term, total
from gpuplan.work import Dtype
from gpuplan.workload.checkpoint_weights import checkpoint_parts
from gpuplan.workload.context import ONE, Group, Leaves, Pass, Types
from gpuplan.workload.program import LayerProgram
from gpuplan.workload.serving import PassWork, ServeTerms, cache_bytes, expert_tokens, serving_pass
from gpuplan.workload.written_out import widened_by_blocks, written_out

PLAIN_IN_FILE = 4.0
"""Files of mixed types keep norms and routers in fp32."""
_START = Source("definition", "the decoder of an encoder-decoder begins with one token")


class ServingPhase(Record, kw_only=True):
    """A prefill or a decode step: its time and the parts that sum to it, and the bytes of weights that it reads."""

    seconds: Term
    parts: Parts
    weights_read: Term
    step: Term | None = None
    """Where tokens are drafted: the time of the step that makes several; None: a step makes one."""


class ServingModel(Record, kw_only=True):
    """A serving plan on its way to figures: the leaves that memory and time share."""

    subject: Subject
    plan: ServePlan
    activation: Dtype
    leaves: Leaves
    serve: ServeTerms
    profile: ServingProfile
    hosted_as: str = "layer_host"
    """What the host's time for a layer is called: the engine's own, or an encoder's."""

    @classmethod
    def of(cls, subject: Subject, plan: ServePlan) -> ServingModel:
        """The shared leaves of a plan.

        Raises:
            UsageError: the engine does not serve.
        """
        profile = serving_profile(subject.engine, subject.hw)
        if plan.settings.chunked_prefill is not None:
            profile = profile.replaced(whole_prompts=not plan.settings.chunked_prefill)
        whole = profile
        profile = in_chunks(whole, subject.arch, plan, lambda tokens: cls._of(subject, plan, whole).holds(tokens))
        mixed = plan.settings.mixed_chunk
        if mixed is not None and profile.schedule is not None:
            steps: Steps = "mixed" if mixed else "prefill-first"
            profile = profile.replaced(schedule=profile.schedule.replaced(steps=steps))
        if profile.unlike_windows_kept and unlike_windows(subject.arch):
            profile = profile.replaced(windowed_kv="full")
        if plan.settings.graphs is False:
            profile = profile.replaced(graphs=None, layer_graphs=None, captures=None)
        if plan.settings.uses_host and profile.host is not None and profile.host.utilization is not None:
            profile = profile.replaced(memory_utilization=profile.host.utilization)
        return cls._of(subject, plan, profile)

    @classmethod
    def _of(cls, subject: Subject, plan: ServePlan, profile: ServingProfile) -> ServingModel:
        """The shared leaves of a plan on an engine that serves so."""
        p = plan.parallel
        serve = ServeTerms(
            tp=subject.plan("tp", p.tp),
            pp=subject.plan("pp", p.pp),
            ep=subject.plan("ep", p.ep),
            batch=subject.plan("batch", plan.batch),
            context=subject.plan("context", plan.context),
            page=set_or_habit(subject, plan, "page_tokens", profile.page_tokens),
            hidden_passes=subject.habit("hidden_passes", profile.hidden_passes),
            activation_passes=subject.habit("activation_passes", profile.activation_passes),
            kernels=subject.habit("kernels_per_layer", profile.kernels_per_layer),
            own_kernels=own_kernels(subject, profile),
            kv_heads=subject.engine.kv_heads,
            host_embedding=profile.host_embedding and subject.hw.asked("own host", lambda one: one.host_link is not None),
            expert_skew=skew_of(subject, p),
            sharing=sharing_of(subject, plan, profile),
            context_ranks=subject.plan("decode_cp", p.decode_cp) if any_true(p.decode_cp != 1) else None,
        )
        activation: Dtype = "bf16" if "bf16" in subject.hw.peaks else "fp16" if "fp16" in subject.hw.peaks else "fp32"
        return cls(subject=subject, plan=plan, activation=activation, leaves=subject.leaves(), serve=serve, profile=profile)

    def memory(self) -> ServingMemory:
        """What the fullest rank holds, against the share of memory that the engine takes."""
        return serving_memory(self)

    def holds(self, tokens: float) -> bool:
        """Whether the caches of a replica hold one sequence of so many tokens, without which no engine starts that accepts it."""
        longest = self.serve.replaced(context=self.subject.plan("longest", tokens))
        memory = self.replaced(serve=longest, leaves=self.subject.leaves()).memory()
        return all_true(memory.sequence.value <= memory.pool.value)

    def source(self) -> Term | None:
        """Positions that attention across sees: of the encoder of an encoder-decoder, or of images; None: there are none."""
        arch = self.subject.arch
        if self.plan.images is not None and self.plan.images.across:
            return across_positions(self)
        if not arch.two_stacks:
            return None
        return self.leaves("source_tokens", arch.source_tokens) if arch.source_tokens else self.prompt()

    def prompt(self) -> Term:
        """Tokens of a prompt, its images included."""
        text = self.subject.plan("prompt", self.plan.prompt)
        return text if self.plan.images is None else total("prompt.tokens", {"text": text, "images": image_tokens(self)})

    def begun(self) -> Term:
        """Tokens that the decoder begins with: the prompt, or one where an encoder reads the prompt."""
        read_apart = self.subject.arch.two_stacks and not self.subject.arch.source_tokens
        return Term("decoder.start", 1.0, "1", _START) if read_apart else self.prompt()

    def held(self) -> ServeTerms:
        """The terms of what the decoder keeps: all of the context, or what it writes where an encoder reads the prompt."""
        if not self.subject.arch.two_stacks or self.subject.arch.source_tokens:
            return self.serve
        written = difference.term("decoder.tokens", whole=self.serve.context, part=self.prompt())
        return self.serve.replaced(context=written)

    def hypotheses(self, name: str, sequences: Term) -> Term:
        """What decodes for some sequences: each of them, or the hypotheses that a search keeps of it."""
        beams = self.beams()
        return sequences if beams is None else self.leaves.times(f"{name}.hypotheses", sequences, beams)

    def beams(self) -> Term | None:
        """Hypotheses that a search keeps of each sequence; None: there is no search."""
        return None if self.plan.beams == 1 else self.subject.plan("beams", self.plan.beams)

    def setting(self, name: Quantity) -> Term:
        """A quantity of the engine: what the plan sets (`plan.<name>`), or the engine's habit (`engine.<name>`)."""
        made = set_or_habit(self.subject, self.plan, name, getattr(self.profile, name))
        return of_longest(made, self) if name == "max_batched_tokens" else made

    def limit(self) -> Term:
        """Sequences that the engine runs at once at most."""
        return self.setting("max_sequences")

    def chunk(self) -> Term:
        """Tokens of one pass at most; where prompts are not cut, a whole prompt at least."""
        chunk = self.setting("max_batched_tokens")
        if self.plan.settings.chunked_prefill is False:
            return larger.term("prefill.chunk", a=chunk, b=self.prompt())
        return chunk

    def cache_read(self, name: str = "decode") -> Term:
        """What a decode step reads of the caches: the tokens that are there in the middle of the outputs, not those reserved."""
        subject = self.subject
        prompt, output = self.begun(), subject.plan("output", self.plan.output)
        each = self.cache_held(f"{name}.cache_read", self.seen(f"{name}.seen_tokens", prompt, output))
        return repeated_bytes.term(f"{name}.cache_read", count=self.serve.batch, size=each)

    def cache_held(self, name: str, tokens: Term, *, capped: WindowedKv = "capped") -> Term:
        """What a sequence of so many tokens has in its caches; `capped`: what layers with a window keep of it."""
        return cache_bytes(
            self.subject.arch, self.subject.counts, self.leaves, self.serve.replaced(context=tokens, page=ONE),
            element=byte("recipe.kv_bytes", KV_BYTES[self.plan.kv_cache]), capped=capped, at=name, source=self.source(),
            beams=self.beams(), shared=self.profile.beams_share_source,
        )  # fmt: skip

    def seen(self, name: str, prompt: Term, output: Term) -> Term:
        """Tokens that a decode step sees on average."""
        spread = 0.0 if self.plan.load is None else self.plan.load.output_spread
        if not spread:
            return form.middle_context.term(name, prompt=prompt, output=output)
        return uneven_context.term(name, prompt=prompt, output=output, spread=self.subject.plan("output_spread", spread))

    def uncached(self, prompt: Term) -> Term:
        """Tokens of a prompt that must be read: those that the prefix cache does not hold."""
        share = 0.0 if self.plan.load is None else self.plan.load.cached_share
        if not share:
            return prompt
        return uncached_tokens.term("prompt.uncached", prompt=prompt, cached=self.subject.plan("cached_share", share))

    def plain_types(self) -> Types | None:
        """What the products of parts that are not quantised multiply; None: there are no such parts."""
        if not self.plan.plain:
            return None
        width = byte("recipe.operand_bytes", 4.0 if self.activation == "fp32" else 2.0)
        return self.types().replaced(
            matmul=self.activation, operand=width, weight=byte("recipe.plain_weight_bytes", 2.0), blocked=False,
            micro=False, coded=False,
        )  # fmt: skip

    def types(self) -> Types:
        """What matmuls multiply: the stored type where the tensor cores can, otherwise weights are widened on the way."""
        stored = stored_in(self.plan.weights, self.plan.group)
        native = stored.multiply is not None and stored.multiply in self.subject.hw.peaks
        matmul: Dtype = stored.multiply if native and stored.multiply is not None else self.activation
        width = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5, "fp32": 4.0}.get(matmul, 2.0)
        if stored.multiply is None and self.profile.products == "int8" and "int8" in self.subject.hw.peaks:
            matmul, width = "int8", BLOCK_TYPES["q8_1"].bytes_per_value
        activation = byte("recipe.activation_bytes", 4.0 if self.activation == "fp32" else 2.0)
        return Types(
            matmul=matmul,
            attention=self.activation,
            activation=activation,
            operand=byte("recipe.operand_bytes", width),
            weight=byte("recipe.stored_weight_bytes", stored.bytes_per_value, stored.source),
            kv=byte("recipe.kv_bytes", KV_BYTES[self.plan.kv_cache]),
            blocked=native and stored.blocked,
            micro=stored.micro,
            coded=stored.coded,
        )

    def kept_type(self) -> Term:
        """Bytes of a value of norms, routers, and where they have no type of their own of embedding and head."""
        stored = stored_in(self.plan.weights, self.plan.group)
        if self.plan.parts:
            return byte("recipe.kept_weight_bytes", PLAIN_IN_FILE, stored.source)
        return byte("recipe.kept_weight_bytes", stored.bytes_per_value if stored.whole_model else 2.0)

    def own_parts(self) -> dict[tuple[str, str], Term]:
        """Bytes of a value of the parts that are stored in types of their own: of the checkpoint's tensors, or each a leaf."""
        if self.plan.checkpoint is not None:
            return checkpoint_parts(self.subject.arch, self.subject.counts, self.plan.checkpoint)
        source = stored_in(self.plan.weights, self.plan.group).source
        return {
            (kind, part): byte(f"recipe.{f'{kind}.' if kind else ''}{part}_weight_bytes", size, source)
            for kind, part, size in self.plan.parts
        }

    def prefill(self, name: str, sequences: Term, *, alone: bool = False) -> ServingPhase:
        """All prompts of `sequences` through the model, in passes of at most the engine's chunk.

        `alone`: other ranks of attention that share the experts have none.
        """
        serve = self.serve
        prompt, source = self.begun(), self.source()
        chunk = self.chunk()
        whole = self.uncached(prompt)
        read = source if source is not None and self.subject.arch.two_stacks else whole
        new = prompt if source is not None else whole
        passes = form.prefill_passes.term(f"{name}.passes", sequences=sequences, prompt=read, chunk=chunk)
        tokens = form.pass_tokens.term(f"{name}.pass_tokens", sequences=sequences, prompt=new, passes=passes)
        shape = Pass(
            tokens=tokens, groups=(Group(sequences=sequences, q_len=new, kv_len=prompt),),
            expert_tokens=expert_tokens(f"{name}.expert_tokens", tokens, serve, alone=alone), expert_skew=serve.expert_skew,
            hidden_passes=serve.hidden_passes, activation_passes=serve.activation_passes, kernels=serve.kernels,
            own_kernels=serve.own_kernels,
        )  # fmt: skip
        encoded = None
        if source is not None:
            rows = form.pass_tokens.term(f"{name}.source_rows", sequences=sequences, prompt=source, passes=passes)
            if self.subject.arch.two_stacks:
                encoded = shape.replaced(tokens=rows, groups=(Group(sequences=sequences, q_len=source, kv_len=source),))
            shape = shape.replaced(source=source, source_rows=rows)
        rows = share.term(f"{name}.head_rows", amount=sequences, ways=passes)
        made = hidden(self, name, self.phase(name, self._pass(name, shape, rows, encoded), tokens, passes))
        drafter = self.drafter()
        if drafter is not None:
            made = with_draft_prompt(name, made, drafter, sequences, alone=alone)
        return made if self.plan.images is None else with_images(self, name, sequences, made)

    def decode(self, name: str = "decode") -> ServingPhase:
        """One decode step of the batch in the middle of its outputs."""
        if overlaps(self):
            return two_batches(self, name)
        subject, serve = self.subject, self.serve
        prompt, output = self.begun(), subject.plan("output", self.plan.output)
        rows = form.decode_rows.term(f"{name}.rows", batch=self.hypotheses(name, serve.batch), pp=serve.pp)
        seen = self.seen(f"{name}.seen_tokens", prompt, output)
        drafter, tokens = self.drafter(), rows
        if drafter is not None:
            tokens = product.term(f"{name}.verified_rows", a=rows, b=drafter.verified)
        q_len = ONE if drafter is None else drafter.verified
        shape = Pass(
            tokens=tokens, groups=(Group(sequences=rows, q_len=q_len, kv_len=seen, decodes=True),),
            expert_tokens=expert_tokens(f"{name}.expert_tokens", tokens, serve), expert_skew=serve.expert_skew,
            hidden_passes=serve.hidden_passes, activation_passes=serve.activation_passes, kernels=serve.kernels,
            own_kernels=serve.own_kernels, source=self.source(),
            source_beams=self.beams() if self.profile.beams_share_source else None,
        )  # fmt: skip
        made = self.phase(name, self._pass(name, shape, tokens), tokens, None, answered=rows, groups=shape.groups)
        return made if drafter is None else drafted(self, name, made, rows, drafter)

    def drafter(self) -> Drafter | None:
        """What drafts tokens for this plan; None: nothing does."""
        drafting = self.plan.drafting
        return None if drafting is None else Drafter.of(self, drafting)

    def step(
        self, name: str, groups: tuple[Group, ...], tokens: Term | None = None, shared_by: Term | None = None
    ) -> ServingPhase:  # fmt: skip
        """One pass as schedulers mix it: chunks of prompts beside sequences that decode, which need a row of logits each.

        A chunk is a group of `q_len` new tokens of which the last sees `kv_len` keys. `tokens` are all of the pass, where they are
        not those of the groups: of no group, they are the work that all tokens of a pass share, whatever else it holds.
        """
        serve, subject, profile = self.serve, self.subject, self.profile
        each = {
            f"group_{at}": product.term(f"{name}.group_{at}.new_tokens", a=one.sequences, b=one.q_len)
            for at, one in enumerate(groups)
        }
        tokens = total(f"{name}.tokens", each) if tokens is None else tokens
        rows = {f"group_{at}": one.sequences for at, one in enumerate(groups)}
        shape = Pass(
            tokens=tokens, groups=groups, expert_tokens=tokens_of_experts(self, name, tokens, each, groups, shared_by),
            expert_skew=serve.expert_skew, hidden_passes=serve.hidden_passes, activation_passes=serve.activation_passes,
            kernels=serve.kernels, own_kernels=serve.own_kernels, source=self.source(),
        )  # fmt: skip
        read = {key: each[key] for key, one in zip(each, groups, strict=True) if not one.decodes}
        residual = subject.habit("decode_residual", profile.decode_residual)
        if read:
            residual = form.mixed_residual.term(
                f"{name}.residual", prefill=subject.habit("prefill_residual", profile.prefill_residual), decode=residual,
                read=total(f"{name}.read_tokens", read), tokens=tokens,
            )  # fmt: skip
        head_rows = total(f"{name}.head_rows", rows) if rows else tokens
        answered = head_rows if rows else None
        return hidden(self, name, self.phase(
            name, self._pass(name, shape, head_rows), tokens, None, residual, answered, reads=bool(read), groups=groups,
        ))  # fmt: skip

    def _pass(self, name: str, shape: Pass, head_rows: Term, encoded: Pass | None = None) -> PassWork:
        shape = shape.replaced(joins=not self.profile.sums_each_half, whole_chunks=self.profile.whole_chunks)
        work = serving_pass(
            name, self.subject.arch, self.subject.counts, self.leaves, serve=self.serve, types=self.types(), shape=shape,
            head_rows=head_rows, plain=self.plan.plain, plain_types=self.plain_types(), parts=self.own_parts(),
            encoder_shape=encoded, kept=None if self.plan.checkpoint is not None else self.kept_type(),
        )  # fmt: skip
        if self.plan.settings.awq_kernels:
            return self._by_awq(work, shape.tokens)
        return work if shape.decodes else written_out(work, shape.tokens, self.profile.written_out_above)

    def _by_awq(self, work: PassWork, tokens: Term) -> PassWork:
        """The work of a pass in the kernels that AWQ came with, which `of` has found that the engine has."""
        own, habit = self.profile.awq_kernels, self.subject.habit
        if own is None:
            return work
        rows = None if own.rows is None else habit("awq_rows", own.rows)
        return widened_by_blocks(work, tokens, rows, habit("awq_whole_from", own.whole_from))

    def programs(self, name: str) -> dict[str, LayerProgram]:
        """What each kind of layer does with one token."""
        shape = Pass(
            tokens=ONE, groups=(Group(sequences=ONE, q_len=ONE, kv_len=ONE, decodes=True),), expert_tokens=ONE,
            hidden_passes=self.serve.hidden_passes, activation_passes=self.serve.activation_passes, kernels=self.serve.kernels,
            source=self.source(),
        )  # fmt: skip
        return self._pass(name, shape, ONE).layers

    def phase(
        self, name: str, work: PassWork, rows: Term, passes: Term | None, residual: Term | None = None,
        answered: Term | None = None, *, reads: bool = False, groups: tuple[Group, ...] = (),
    ) -> ServingPhase:  # fmt: skip
        """The time of passes of `rows` tokens by kind of work; `passes` repeats all but attention, which sees each token once.

        `residual` is measured over counted time; None: that of a prefill where there are `passes`, or else of a decode step.
        `reads`: there are prompts in it, as in all passes of a prefill. `groups` are those of a step.
        `answered` are the sequences of a step that get a token; None: those of a prefill, whose requests' host time is counted.
        """
        hw = self.subject.hw
        kinds: dict[str, dict[str, Term]] = {}
        layers: dict[str, list[tuple[str, Term]]] = {}
        for key, layer in work.layers.items():
            layers[key] = []
            for kind, items in kinds_of(layer).items():
                each = timed(items, hw, custom_all_reduce=self.profile.custom_all_reduce, rack=self.profile.rack_all_reduce)
                layers[key] += each
                one = in_turn(f"{name}.{key}.{kind}", each)
                if happens(one):
                    kinds.setdefault(kind, {})[key] = repeated_seconds.term(
                        f"{name}.{key}.all_{kind}", count=work.counts[key], seconds=one
                    )
        reads = reads or passes is not None
        parts = {kind: total(f"{name}.{kind}" if passes is None else f"{name}.pass.{kind}", found) for kind, found in kinds.items()}
        parts = between.unevenly(self, parts) if reads else parts
        if passes is None and not alone(self.serve.pp):
            parts["stage_wait"] = stage_wait(self, name, layers, total(f"{name}.of_layers", dict(parts)))
        if passes is None and "attention" in parts and not alone(self.serve.sharing.attention_dp):
            parts["context_wait"] = between.context_wait(self, parts["attention"])
        parts["head"] = priced(f"{name}.head_matmul" if passes is None else f"{name}.pass.head", list(work.head), hw)
        if not alone(self.serve.pp):
            parts["pipeline_send"] = sends(self, name, rows)
        held = on_host(self, rank_weights(self)) if self.plan.settings.uses_host else None
        if held is not None:
            parts = decode_parts(self, name, work, parts, held) if passes is None else pass_parts(self, name, parts, held)
        answers = answering(self, name, answered, groups)
        parts |= {kind: answers.pop(kind) for kind in ("pages",) if kind in answers}
        waits = f"{name}.issue_wait" if passes is None else f"{name}.one_issue_wait"
        parts["issue_wait"] = issue_wait(
            self, name, waits, work, rows, total(f"{name}.busy", parts), answered, reads=reads
        )  # fmt: skip
        parts["host"] = step_host(self, f"{name}.host" if passes is None else f"{name}.pass.host", work, decodes=passes is None)
        parts |= answers | copied(self, name, decodes=not reads)
        if residual is None:
            of = "decode" if passes is None else "prefill"
            residual = self.subject.habit(f"{of}_residual", getattr(self.profile, f"{of}_residual"))
        if passes is not None:
            pipelined = self.subject.habit("pipelined_passes", self.profile.pipelined_passes)
            rounds = form.stage_rounds.term(f"{name}.rounds", passes=passes, pipelined=pipelined, pp=self.serve.pp)
            trips = {"attention": share.term(f"{name}.attention_rounds", amount=rounds, ways=passes)}
            parts = {
                kind: repeated_seconds.term(f"{name}.{kind}", count=trips.get(kind, rounds), seconds=term)
                for kind, term in parts.items()
            }
        parts["unmodelled"] = unmodelled_seconds.term(
            f"{name}.unmodelled",
            counted=total(f"{name}.counted", parts),
            residual=residual,
        )
        return ServingPhase(
            seconds=total(f"{name}.seconds", parts), parts=parts, weights_read=work.weights_read
        )  # fmt: skip
