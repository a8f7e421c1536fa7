"""What do low-rank adapters and stored weights of few bits take between the products of a layer?"""

from __future__ import annotations

from gpuplan.estimate.pricing import priced
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import product, repeated_bytes, repeated_seconds
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.plan.precision import FROZEN, QUANTISED_IN_PLACE, RECIPES, byte
from gpuplan.term import Term, total
from gpuplan.work import Matmul, Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.program import ADAPTERS, Role
from gpuplan.workload.training import BlockWork


def adapter_seconds(pricer: StepPricer, key: str, block: BlockWork) -> dict[str, Term]:
    """Passes over the inputs and outputs of adapted matrices, by phase: dropout, scaling, sums. Empty where none is counted."""
    habits = pricer.profile.adapters
    sides = (
        ("forward", "read", habits.read), ("forward", "made", habits.made), ("backward", "read", habits.read_backward),
        ("backward", "made", habits.made_backward),
    )  # fmt: skip
    found: dict[str, Term] = {}
    for phase in ("forward", "backward"):
        at, sizes, kernels = f"{phase}.{key}.adapters", list[Term](), list[Term]()
        for of, side, each in sides:
            if of != phase or each is None:
                continue
            element = pricer.subject.habit(f"adapter_{side}_{phase}", each)
            ops = block.forward.of(Role.ADAPTER_DOWN if side == "read" else Role.ADAPTER_UP).ops
            for op in ops:
                item = op.item
                assert isinstance(item, Matmul)
                width = item.k if side == "read" else item.n
                sizes.append(tensor_bytes.term(f"{at}.{side}.{item.name}", tokens=item.m, width=width, element_bytes=element))
            if ops:
                kernels.append(pricer.leaves(f"{key}.adapters_{side}", len(ops)))
        if sizes:
            stream = Stream(name=f"{at}.stream", size=total(f"{at}.bytes", sizes), launches=total(f"{at}.kernels", kernels))
            found[phase] = priced(at, [stream], pricer.subject.hw)
    return found


def widening_traffic(pricer: StepPricer) -> Term | None:
    """Traffic that widening one frozen weight costs; None: matmuls read it as it is stored, or what it costs is not known."""
    base, habits = FROZEN.get(pricer.plan.tuning.base_weights or "bf16"), pricer.profile.adapters
    if base is None or not base.quantised or not pricer.plan.tuning.frozen:
        return None
    if base.cast:
        if RECIPES[pricer.plan.precision].matmul == "fp8":
            return None
        stored = byte("recipe.frozen_bytes", base.bytes_per_value, base.source)
        return total("recipe.cast_traffic", {"stored": stored, "widened": byte("recipe.widened_bytes", 2.0)})
    if pricer.plan.tuning.base_weights in QUANTISED_IN_PLACE and habits.dequantise_in_place is not None:
        return pricer.subject.habit("dequantise_in_place", habits.dequantise_in_place)
    return None if habits.dequantise is None else pricer.subject.habit("dequantise", habits.dequantise)


def widening_seconds(pricer: StepPricer, key: str, block: BlockWork, element: Term) -> Term:
    """Stored weights of a few bits are widened before each product: forward, backward, and once more where all is run again."""
    at = f"layer.{key}.widening"
    widened = block.forward.having(lambda op: op.role not in ADAPTERS and op.role is not Role.ROUTER).matmuls
    sizes = [repeated_bytes.term(f"{at}.{item.name}", count=weights_of(item), size=element) for item in widened]
    once = priced(f"{at}.once", [Stream(name=f"{at}.stream", size=total(f"{at}.bytes", sizes), launches=ONE)], pricer.subject.hw)
    passes = count("widenings_recomputed" if pricer.plan.recompute == "full" else "widenings")
    return repeated_seconds.term(at, count=passes, seconds=once)


def weights_of(item: Matmul) -> Term:
    """How many weights a product multiplies with."""
    one = product.term(f"{item.name}.weights_of_one", a=item.n, b=item.k)
    return product.term(f"{item.name}.all_weights", a=item.batch, b=one)
