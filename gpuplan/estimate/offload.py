"""What does memory in the host cost: how long do its contents travel in a step?"""

from __future__ import annotations

from collections.abc import Callable, Collection

from gpuplan.estimate.pricing import priced
from gpuplan.estimate.recipe import RecipeTerms, training_profile
from gpuplan.estimate.share_of_layers import share_of_layers
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import remaining_seconds, repeated_bytes, repeated_seconds
from gpuplan.formulas.memory import state_bytes
from gpuplan.plan.precision import quantised_moment
from gpuplan.plan.train import TrainPlan
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Source, Term, greatest, total
from gpuplan.work import Transfer
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.stages import Stage
from gpuplan.workload.training import StageParams, StepTerms, TrainingWork


def offload_seconds(
    subject: Subject, plan: TrainPlan, work: TrainingWork, step: StepTerms, recipe: RecipeTerms, stage: Stage,
    *, micro: Term,
) -> dict[str, Term]:  # fmt: skip
    """Time on the host link that computation does not hide, by what is offloaded.

    Where the host updates them, optimizer states never travel: gradients go to the host once a step and new weights come back,
    beside nothing; otherwise states come in and go out. Weights come in twice, and activations or the results that the plan
    names go out and come back, in every micro-batch, beside its computation (`micro`). What lives on disks is read and written
    there besides: states and gradients once a step each way (ZeRO-Infinity, arXiv 2104.07857, 4.1: 2 x 16 bytes a parameter),
    weights twice a micro-batch.

    Raises:
        UnknownError: the link to the host, or how fast its disks are, is not known.
    """
    at, hw, offload = f"{stage.prefix}step.offload", subject.hw, plan.saving.offload
    trained, params, zero = work.trained[stage.place], work.params[stage.place], plan.parallel.zero_stage

    def local(name: str, held: StageParams, element: Term, *, cut: bool) -> Term:
        return rank_bytes(f"{at}.{name}_bytes", work, held, element, cut=cut)

    def link(name: str, size: Term, *, back: bool = False) -> Term:
        return priced(f"{at}.{name}", [Transfer(name=f"{at}.{name}", size=size, path="host", stride=ONE, back=back)], hw)

    on_disk = plan.saving.on_disk

    def disk(name: str, size: Term, *, back: bool = False) -> Term:
        return priced(f"{at}.{name}", [Transfer(name=f"{at}.{name}", size=size, path="disk", stride=ONE, back=back)], hw)

    found: dict[str, Term] = {}
    if on_disk:
        found["offload_disk"] = total(f"{at}_disk", _updated(on_disk, recipe, trained, local, disk, cut=zero >= 1))
    if "optimizer" in offload:
        if updated_by_host(training_profile(subject.engine), plan):
            ways = {
                "gradients": link("gradients", local("gradients", trained, recipe.gathered, cut=zero >= 1), back=True),
                "weights": link("weights", local("weights", trained, recipe.gathered, cut=zero >= 1)),
            }
        else:
            states = total("recipe.travelling_bytes", {"master": recipe.master, "moments": recipe.moments})
            size = local("states_there", trained, states, cut=zero >= 1)
            ways = {"in": link("states_in", size), "out": link("states_out", size, back=True)}
        found["offload_optimizer"] = total(f"{at}_optimizer", ways)
    beside: dict[str, Term] = {}
    if "params" in offload:
        once = link("params", local("params", params, recipe.frozen or recipe.gathered, cut=zero == 3))
        beside["params"] = repeated_seconds.term(f"{at}.params_twice", count=count("gathers_a_pass"), seconds=once)
    if "activations" in offload:
        kept = {
            key: repeated_bytes.term(f"{at}.activations.{key}", count=stage.layers[key], size=block.saved)
            for key, block in work.blocks.items()
        }
        size = total(f"{at}.activation_bytes", kept)
        if plan.saving.offload_layers is not None:
            share = share_of_layers(at, subject, "offload_layers", plan.saving.offload_layers, stage)
            size = repeated_bytes.term(f"{at}.some_activation_bytes", count=share, size=size)
        beside["activations"] = total(
            f"{at}.activations", {"out": link("out", size, back=True), "in": link("in", size)}
        )  # fmt: skip
    hosted = {
        key: repeated_bytes.term(f"{at}.named.{key}", count=stage.layers[key], size=block.hosted)
        for key, block in work.blocks.items()
        if block.hosted is not None
    }
    if hosted:
        size = total(f"{at}.named_bytes", hosted)
        beside["named"] = total(
            f"{at}.named", {"out": link("named_out", size, back=True), "in": link("named_in", size)}
        )  # fmt: skip
    if beside:
        whole = total(f"{at}.streams", beside)
        if "params" in on_disk:
            read = disk("params_read", local("params_on_disk", params, recipe.frozen or recipe.gathered, cut=zero == 3))
            twice = repeated_seconds.term(f"{at}.params_read_twice", count=count("gathers_a_pass"), seconds=read)
            whole = greatest(f"{at}.slowest_stream", {"link": whole, "disk": twice})
        exposed = remaining_seconds.term(f"{at}.exposed", whole=whole, hidden=micro)
        found["offload"] = repeated_seconds.term(f"{at}_streams", count=step.micro_batches, seconds=exposed)
    return found


def updated_by_host(profile: TrainingProfile, plan: TrainPlan) -> bool:
    """Whether processors update the optimizer's states; 8-bit ones, whose kernels run on accelerators only, they do not."""
    return "optimizer" in plan.saving.offload and profile.host.update is not None and quantised_moment(plan.optimizer) is None


_HOST_GRADIENT = Term(
    "recipe.host_gradient_bytes", 4.0, "B",
    Source(
        "docs", "DeepSpeed: memory requirements, ZeRO-3 with parameters and optimizer offloaded",
        "https://deepspeed.readthedocs.io/en/latest/memory.html",
        note="18 bytes a parameter: weights in 16 bits, and fp32 weights, gradients and both moments",
    ),
)  # fmt: skip


def offloaded_states(recipe: RecipeTerms) -> Term:
    """Bytes of a parameter that the optimizer keeps away from the accelerator: its states, and a gradient as wide as they are."""
    gradient = _HOST_GRADIENT if recipe.master.value > 0 else recipe.gradient
    return total("recipe.offloaded_bytes", {"master": recipe.master, "moments": recipe.moments, "gradient": gradient})


def rank_bytes(name: str, work: TrainingWork, held: StageParams, element: Term, *, cut: bool) -> Term:
    """Bytes of one element for each parameter of a rank, or of its shard of them (`cut`)."""
    dense = state_bytes.term(name, params=held.dense, bytes_per_param=element, shards=work.dense_shards if cut else ONE)
    if held.experts is None:
        return dense
    experts = state_bytes.term(
        f"{name}.experts", params=held.experts, bytes_per_param=element, shards=work.expert_shards if cut else ONE
    )
    return total(f"{name}.all", {"dense": dense, "experts": experts})


def _updated(
    on_disk: Collection[str], recipe: RecipeTerms, trained: StageParams, local: Callable[..., Term], disk: Callable[..., Term],
    *, cut: bool,
) -> dict[str, Term]:  # fmt: skip
    """What a step reads and writes on disks after its backward pass."""
    found: dict[str, Term] = {}
    if "optimizer" in on_disk:
        size = local("states", trained, offloaded_states(recipe), cut=cut)
        found = {"read": disk("states_read", size), "written": disk("states_written", size, back=True)}
    if "params" in on_disk:
        found["weights"] = disk("weights_written", local("new_weights", trained, recipe.gathered, cut=cut), back=True)
    return found
