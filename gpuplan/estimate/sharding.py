"""What does data parallelism cost a step: gradients that are reduced, weights that are gathered, the optimizer's own shard?"""

from __future__ import annotations

from gpuplan.estimate.offload import updated_by_host
from gpuplan.estimate.pricing import alone, priced
from gpuplan.estimate.recipe import RecipeTerms
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import product, repeated_bytes, repeated_seconds, smaller
from gpuplan.formulas.memory import shard_bytes
from gpuplan.formulas.training import (
    contended_seconds,
    exposed_seconds,
    host_update_seconds,
    optimizer_traffic_bytes,
    owned_seconds,
    seldom_seconds,
    sliced_seconds,
)
from gpuplan.plan.precision import RECIPES
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record
from gpuplan.specs.engine import TrainingProfile
from gpuplan.term import USER, Term, total
from gpuplan.work import Collective, CollectiveKind, Stream
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.counts import count
from gpuplan.workload.stages import Stage
from gpuplan.workload.training import StageParams, StepTerms, TrainingWork


class ShardingPricer(Record, kw_only=True):
    """Prices what replicas exchange and update on one machine with one engine."""

    subject: Subject
    profile: TrainingProfile
    plan: TrainPlan
    work: TrainingWork
    step: StepTerms
    recipe: RecipeTerms
    leaves: Leaves

    @property
    def replicated(self) -> bool:
        """Whether several ranks hold the same weights: of dense layers, or of experts where ep is less than tp x cp x dp."""
        return not (alone(self.work.dense_ranks) and alone(self.work.expert_shards))

    @property
    def scattered(self) -> bool:
        """ZeRO-2: no rank has room for whole gradients, so that every micro-batch's are scattered (ZeRO, 7.2.1)."""
        apart = self.plan.parallel.sync_every is not None and self.work.replicas is None
        return self.plan.parallel.zero_stage == 2 and not apart

    @property
    def gradient_element(self) -> Term:
        """Bytes of a gradient as it travels."""
        if self.plan.how.reduce_in is not None:
            return Term("plan.reduce_in", {"fp32": 4.0, "bf16": 2.0}[self.plan.how.reduce_in], "B", USER)
        if (
            self.profile.gradients.reduced is not None
            and RECIPES[self.plan.precision].gradient is None
            and not self.plan.tuning.frozen
        ):
            return self.subject.habit("reduced", self.profile.gradients.reduced)
        if self.profile.gradients.sums is not None and self.plan.parallel.zero_stage == 3 and not self.plan.tuning.frozen:
            # What is summed is what is scattered.
            return self.subject.habit("summed_whole", self.profile.gradients.sums)
        return self.recipe.gradient

    def groups(self, held: StageParams) -> dict[str, tuple[Term, Term, Term]]:
        """Parameters of a stage by how they are shared: how many, by how many ranks, how far apart."""
        found = {"dense": (held.dense, self.work.dense_shards, self.step.tp)}
        if held.experts is not None:
            found["experts"] = (held.experts, self.work.expert_shards, self.work.expert_ways)
        return found

    def gradient_sync(self, stage: Stage) -> tuple[list[Collective], list[Collective]]:
        """What follows a backward pass: an all-reduce, or a reduce-scatter of gradients and the gather of (new) weights."""
        at, zero = f"{stage.prefix}step", self.plan.parallel.zero_stage
        trained, gathered = self.work.trained[stage.place], self.work.params[stage.place]
        element = self.gradient_element
        gradients, weights = [], []
        for name, (held, group, stride) in self.groups(trained).items():
            size = repeated_bytes.term(f"{at}.{name}.gradient_bytes", count=held, size=element)
            kind: CollectiveKind = "all_reduce" if zero == 0 else "reduce_scatter"
            gradients.append(Collective(name=f"{at}.{name}.grads", kind=kind, size=size, group=group, stride=stride))
            if self.work.replicas is not None and self.plan.parallel.sync_every is None:
                gradients.append(self.across(f"{at}.{name}", size, group, stride, self.work.replicas))
        if zero > 0:
            for name, (held, group, stride) in self.groups(gathered if zero == 3 else trained).items():
                size = repeated_bytes.term(f"{at}.{name}.weight_bytes", count=held, size=self.recipe.gathered)
                weights.append(Collective(name=f"{at}.{name}.weights", kind="all_gather", size=size, group=group, stride=stride))
        return gradients, weights

    def across(self, at: str, size: Term, group: Term, stride: Term, replicas: Term) -> Collective:
        """What each rank keeps of reduced gradients is reduced once more over the ranks with the same shard (HSDP)."""
        return Collective(
            name=f"{at}.replicas", kind="all_reduce", size=shard_bytes.term(f"{at}.shard_bytes", size=size, shards=group),
            group=replicas, stride=self.leaves.times(f"{at}.replica_stride", group, stride),
        )  # fmt: skip

    def averaging(self, stage: Stage) -> dict[str, Term]:
        """What sharded replicas that take steps on their own exchange once in so many of them, beside nothing."""
        every, replicas, at = self.plan.parallel.sync_every, self.work.replicas, f"{stage.prefix}step"
        if every is None or replicas is None:
            return {}
        items = [
            self.across(
                f"{at}.{name}", repeated_bytes.term(f"{at}.{name}.averaged_bytes", count=held, size=self.gradient_element),
                group, stride, replicas,
            )
            for name, (held, group, stride) in self.groups(self.work.trained[stage.place]).items()
        ]  # fmt: skip
        comm = priced(f"{at}.averaging.all", items, self.subject.hw)
        return {"averaging": seldom_seconds.term(f"{at}.averaging", comm=comm, steps=self.subject.plan("sync_every", every))}

    def data_parallel(self, stage: Stage, window: Term) -> Term:
        """Gradient synchronisation that the last micro-batch does not hide."""
        at = f"{stage.prefix}step"
        gradients, weights = self.gradient_sync(stage)
        if (
            self.profile.sharding.owner_hop is not None
            and self.plan.parallel.zero_stage == 1
            and self.plan.parallel.sync_every is None
        ):
            return self.owned(at, stage, gradients[0], weights, window)
        last = weights if self.scattered else [*gradients, *weights]
        comm = priced(f"{at}.data_parallel.all", last, self.subject.hw)
        if self.plan.parallel.sync_every is not None and self.work.replicas is None:
            steps = self.subject.plan("sync_every", self.plan.parallel.sync_every)
            return seldom_seconds.term(f"{at}.data_parallel", comm=comm, steps=steps)
        overlap = self.subject.habit("dp_overlap", self.profile.overlap.dp)
        if self.profile.sharding.slice_host is None or self.plan.parallel.zero_stage != 1:
            return self.beside(f"{at}.data_parallel", comm, window, overlap)
        exchange = self.beside(f"{at}.data_parallel.exposed", comm, window, overlap)
        return total(f"{at}.data_parallel", {"exchange": exchange, "slices": self.slices(at, stage)})

    def owned(self, at: str, stage: Stage, gradients: Collective, weights: list[Collective], window: Term) -> Term:
        """Gradients that are reduced for all beside the backward pass, and weights that their owners broadcast behind the step."""
        assert self.profile.sharding.owner_hop is not None
        reduced = gradients.replaced(name=f"{at}.reduced_for_all", kind="all_reduce", group=self.work.dense_ranks)
        overlap = self.subject.habit("dp_overlap", self.profile.overlap.dp)
        comm = priced(f"{at}.data_parallel.reduce", [reduced], self.subject.hw)
        hop = self.subject.habit("owner_hop", self.profile.sharding.owner_hop)
        return total(
            f"{at}.data_parallel",
            {
                "reduce": self.beside(f"{at}.data_parallel.exposed", comm, window, overlap),
                "broadcast": priced(f"{at}.data_parallel.broadcast", weights, self.subject.hw),
                "rings": owned_seconds.term(
                    f"{at}.data_parallel.rings", tensors=self.tensors(at, stage), ranks=self.work.dense_shards, hop=hop
                ),
            },
        )

    def tensors(self, at: str, stage: Stage) -> Term:
        """Tensors of the layers of a stage: a layer's matrices and its norms."""
        found = {
            key: product.term(
                f"{at}.{key}.tensors", a=stage.layers[key],
                b=self.leaves(f"{key}.modules", block.weights + 2),
            )
            for key, block in self.work.blocks.items()
        }  # fmt: skip
        return total(f"{at}.tensors", found)

    def slices(self, at: str, stage: Stage) -> Term:
        """Time for the slices of tensors that are scattered and gathered one by one."""
        assert self.profile.sharding.slice_host is not None
        each = self.subject.habit("slice_host", self.profile.sharding.slice_host)
        return sliced_seconds.term(
            f"{at}.data_parallel.slices", tensors=self.tensors(at, stage), ranks=self.work.dense_shards, each=each
        )

    def beside(self, name: str, comm: Term, window: Term, overlap: Term) -> Term:
        """What communication beside computation costs: its exposed part, and what it takes from the kernels beside it."""
        if self.profile.contention is None:
            return exposed_seconds.term(name, comm=comm, window=window, overlap=overlap)
        contention = self.subject.habit("contention", self.profile.contention)
        return contended_seconds.term(name, comm=comm, window=window, overlap=overlap, contention=contention)

    def gradients_sharded(self, stage: Stage, window: Term) -> Term:
        """ZeRO-2: gradients are scattered in every micro-batch; weights are gathered once a step."""
        at = f"{stage.prefix}step.micro"
        gradients, _ = self.gradient_sync(stage)
        overlap = self.subject.habit("dp_overlap", self.profile.overlap.dp)
        return self.beside(f"{at}.sharded_gradients", priced(f"{at}.scatter", gradients, self.subject.hw), window, overlap)

    def fully_sharded(self, stage: Stage, window: Term, *, apart: bool = False) -> Term:
        """ZeRO-3: weights are gathered forward and backward and gradients scattered, in every micro-batch.

        `apart`: a pipeline keeps weights from each backward pass to the next forward pass, and scatters behind the last one.
        """
        at = f"{stage.prefix}step.micro"
        gradients, gathered = self.gradient_sync(stage)
        if apart:
            once = priced(f"{at}.gather", gathered, self.subject.hw)
            return self.beside(
                f"{at}.sharded_data_parallel", once, window, self.subject.habit("dp_overlap", self.profile.overlap.dp)
            )
        comm = {"gradients": priced(f"{at}.scatter", gradients, self.subject.hw)}
        if self.profile.gradients.sums is not None:
            steps = self.step.micro_batches
            comm["gradients"] = seldom_seconds.term(f"{at}.scatter_of_the_last", comm=comm["gradients"], steps=steps)
        weights = priced(f"{at}.gather", gathered, self.subject.hw)
        comm["weights"] = repeated_seconds.term(f"{at}.gathers", count=count("gathers_a_pass"), seconds=weights)
        if self.work.reshard is not None:
            comm["weights"] = total(f"{at}.gathers", {"forward": weights, "backward": self.again(at, gathered, self.work.reshard)})
        overlap = self.subject.habit("dp_overlap", self.profile.overlap.dp)
        return self.beside(f"{at}.sharded_data_parallel", total(f"{at}.sharding", comm), window, overlap)

    def again(self, at: str, gathered: list[Collective], group: Term) -> Term:
        """The gather of the backward pass, over the ranks between which weights stayed after the forward pass."""
        near = [
            item.replaced(name=f"{item.name}_again", group=smaller.term(f"{item.name}_group", a=item.group, b=group))
            for item in gathered
        ]
        return priced(f"{at}.gather_again", near, self.subject.hw)

    def optimizer(self, stage: Stage) -> Term:
        """Streaming gradients and states of the local shard, on the accelerator or where its host updates what is offloaded."""
        at, params, zero = f"{stage.prefix}step", self.work.trained[stage.place], self.plan.parallel.zero_stage
        sizes: dict[str, Term] = {}
        for name, held, shards in (
            ("dense", params.dense, self.work.dense_shards),
            ("experts", params.experts, self.work.expert_shards),
        ):
            if held is None:
                continue
            local = self.leaves.split(f"{at}.{name}.local_params", held, shards if zero else ONE)
            sizes[name] = optimizer_traffic_bytes.term(
                f"{at}.{name}.optimizer_traffic", params=local, gradient=self.recipe.gradient, master=self.recipe.master,
                moments=self.recipe.moments, weight=self.recipe.weight,
            )  # fmt: skip
        size, hw = total(f"{at}.optimizer_bytes", sizes), self.subject.hw
        if self.profile.host.update is not None and hw.host_shared_by is not None and updated_by_host(self.profile, self.plan):
            rate = self.subject.habit("host_update", self.profile.host.update)
            return host_update_seconds.term(f"{at}.optimizer", size=size, bandwidth=rate, accelerators=hw.host_shared_by)
        stream = Stream(name=f"{at}.optimizer_stream", size=size, launches=count("optimizer_kernels"))
        return priced(f"{at}.optimizer", [stream], hw)
