"""What does memory in the host cost: how long do its contents travel in a step?"""

from __future__ import annotations

from gpuplan.estimate.pricing import priced
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.training_memory import RecipeTerms
from gpuplan.formulas.basic import remaining_seconds, repeated_bytes, repeated_seconds
from gpuplan.formulas.memory import state_bytes
from gpuplan.plan.train import TrainPlan
from gpuplan.term import Term, total
from gpuplan.work import Transfer
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.stages import Stage
from gpuplan.workload.training import StepTerms, TrainingWork


def offload_seconds(
    subject: Subject, plan: TrainPlan, work: TrainingWork, step: StepTerms, recipe: RecipeTerms, stage: Stage,
    *, micro: Term,
) -> dict[str, Term]:  # fmt: skip
    """Time on the host link that computation does not hide, by what is offloaded.

    Optimizer states never travel: gradients go to the host once a step and new weights come back, beside nothing. Weights come
    in twice and activations go out and come back in every micro-batch, beside its computation (`micro`).

    Raises:
        UnknownError: the link to the host is not known.
    """
    at, hw, offload = f"{stage.prefix}step.offload", subject.hw, plan.saving.offload
    trained, params, zero = work.trained[stage.place], work.params[stage.place], plan.parallel.zero_stage

    def local(name: str, held: Term, element: Term, *, cut: bool) -> Term:
        return state_bytes.term(
            f"{at}.{name}_bytes", params=held, bytes_per_param=element, shards=work.dense_shards if cut else ONE
        )

    def link(name: str, size: Term, *, back: bool = False) -> Term:
        return priced(f"{at}.{name}", [Transfer(name=f"{at}.{name}", size=size, path="host", stride=ONE, back=back)], hw)

    found: dict[str, Term] = {}
    if "optimizer" in offload:
        ways = {
            "gradients": link("gradients", local("gradients", trained.dense, recipe.gathered, cut=zero >= 1), back=True),
            "weights": link("weights", local("weights", trained.dense, recipe.gathered, cut=zero >= 1)),
        }
        found["offload_optimizer"] = total(f"{at}_optimizer", ways)
    beside: dict[str, Term] = {}
    if "params" in offload:
        once = link("params", local("params", params.dense, recipe.frozen or recipe.gathered, cut=zero == 3))
        beside["params"] = repeated_seconds.term(f"{at}.params_twice", count=count("gathers_a_pass"), seconds=once)
    if "activations" in offload:
        kept = {
            key: repeated_bytes.term(f"{at}.activations.{key}", count=stage.layers[key], size=block.saved)
            for key, block in work.blocks.items()
        }
        size = total(f"{at}.activation_bytes", kept)
        beside["activations"] = total(
            f"{at}.activations", {"out": link("out", size, back=True), "in": link("in", size)}
        )  # fmt: skip
    if beside:
        exposed = remaining_seconds.term(f"{at}.exposed", whole=total(f"{at}.streams", beside), hidden=micro)
        found["offload"] = repeated_seconds.term(f"{at}.all", count=step.micro_batches, seconds=exposed)
    return found
