"""How long does a whole run take, what does it cost and draw, when it is interrupted and saves its state?"""

from __future__ import annotations

from gpuplan.estimate.money import Spot
from gpuplan.estimate.recipe import RecipeTerms
from gpuplan.estimate.subject import Setting
from gpuplan.formulas import cost, reliability
from gpuplan.formulas import spot as reclaiming
from gpuplan.formulas.rl import moved_seconds
from gpuplan.formulas.training import run_seconds
from gpuplan.num import agreed
from gpuplan.record import Record
from gpuplan.specs.operations import Operations
from gpuplan.term import USER, Source, Term, total

_ENERGY = Source("assumed", "the accelerators draw their rated power; no site overhead is counted (PUE 1)")


class Run(Record, kw_only=True):
    """A whole run: its tokens, and what the user says of interruptions and checkpoints (seconds; None: usual and best)."""

    tokens: float
    """Or samples, where these are counted."""
    counted: str = "tokens"
    accelerator_mtbf: float | None = None
    checkpoint_interval: float | None = None


NEVER = "time_between_interruptions_s"
"""The figure of a run that does not get on."""


def run_figures(
    subject: Setting, run: Run, per_step: Term, step: Term, recipe: RecipeTerms, *, params: Term
) -> dict[str, Term]:  # fmt: skip
    """Duration with and without interruptions, accelerator time, cost and energy of a run of a model of `params` parameters.

    Cost and energy are those of the wall-clock time. Without operations data there are no interruptions in it. A run that is
    interrupted more often than it could restart and write a checkpoint has no end: the figure `NEVER` is in the place of all those.
    """
    length = subject.plan(run.counted, run.tokens)
    chips = subject.accelerators()
    training = run_seconds.term("run.seconds", tokens=length, tokens_per_step=per_step, step=step)
    found = {"run_time_s": training}
    wall = training
    if subject.operations is not None:
        found |= _interrupted(subject, subject.operations, run, training=training, chips=chips, recipe=recipe, params=params)
        if NEVER in found:
            return found
        wall = found["wall_time_s"]
    used = cost.accelerator_seconds.term("run.accelerator_seconds", chips=chips, seconds=wall)
    found["accelerator_time_s"] = used
    if subject.price is not None:
        found["cost_usd"] = cost.run_usd.term("run.cost", chips=chips, seconds=wall, price=subject.price)
    if subject.hw.power is not None:
        pue = Term("site.pue", 1.0, "1", _ENERGY) if subject.money is None or subject.money.pue is None else subject.money.pue
        found["energy_joules"] = cost.energy_joules.term("run.energy", accelerator_seconds=used, watts=subject.hw.power, pue=pue)
    return found


def _interrupted(
    subject: Setting, usual: Operations, run: Run, *, training: Term, chips: Term, recipe: RecipeTerms, params: Term
) -> dict[str, Term]:  # fmt: skip
    """Wall-clock time with checkpoints every `interval` and an interruption every `mtbf`, and what it is made of."""
    part = usual.term("run.accelerator_mtbf", usual.accelerator_mtbf, usual.accelerator_mtbf.accept)
    if run.accelerator_mtbf is not None:
        part = Term("run.accelerator_mtbf", run.accelerator_mtbf, "s", USER)
    spot = None if subject.money is None else subject.money.spot
    mtbf = reliability.job_mtbf_seconds.term("run.mtbf" if spot is None else "run.failures_mtbf", part_mtbf=part, parts=chips)
    size = reliability.checkpoint_bytes.term(
        "run.checkpoint_bytes",
        params=params,
        bytes_per_param=total(
            "recipe.checkpoint_bytes", {"weights": recipe.weight, "master": recipe.master, "moments": recipe.moments}
        ),
    )
    written = usual.term("run.accelerator_checkpoint_bandwidth", usual.checkpoint_bandwidth, usual.checkpoint_bandwidth.accept)
    save = moved_seconds.term(
        "run.checkpoint_seconds",
        size=size,
        bandwidth=reliability.job_bandwidth.term("run.checkpoint_bandwidth", part_bandwidth=written, parts=chips),
    )
    restart = usual.term("run.restart", usual.restart, usual.restart.accept)
    if spot is not None:
        mtbf, restart = _reclaimed(spot, mtbf, restart)
    if agreed(mtbf.value < restart.value + save.value):
        return {NEVER: mtbf, "checkpoint_bytes": size}
    if run.checkpoint_interval is not None:
        interval = Term("run.checkpoint_interval", run.checkpoint_interval, "s", USER)
    else:
        interval = reliability.daly_interval_seconds.term("run.checkpoint_interval", save=save, mtbf=mtbf)
    wall = reliability.daly_wall_seconds.term(
        "run.wall_seconds", training=training, save=save, interval=interval, mtbf=mtbf, restart=restart
    )
    return {
        "wall_time_s": wall,
        "effective_training_share": reliability.effective_share.term("run.effective_share", training=training, wall=wall),
        "interruptions": reliability.interruptions.term("run.interruptions", wall=wall, mtbf=mtbf),
        **({} if spot is None else {"reclaims": reliability.interruptions.term("run.reclaims", wall=wall, mtbf=_reclaims(spot))}),
        "checkpoint_interval_s": interval,
        "checkpoint_bytes": size,
    }


def _reclaims(spot: Spot) -> Term:
    """Time between reclaims of any instance of a job."""
    return reliability.job_mtbf_seconds.term("run.reclaims_mtbf", part_mtbf=spot.life, parts=spot.units)


def _reclaimed(spot: Spot, failures: Term, restart: Term) -> tuple[Term, Term]:
    """Time between interruptions of a job whose instances are taken back too, and the mean time until it goes on."""
    reclaims = _reclaims(spot)
    mtbf = reclaiming.mtbf_of_two.term("run.mtbf", failures=failures, reclaims=reclaims)
    if spot.wait is None:
        return mtbf, restart
    mean = reclaiming.mean_restart_seconds.term("run.mean_restart", restart=restart, wait=spot.wait, mtbf=mtbf, reclaims=reclaims)
    return mtbf, mean
