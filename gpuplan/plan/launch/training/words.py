"""What is a training launch made of: a plan, its model and machine, and the words put together one by one?"""

from __future__ import annotations

from gpuplan.errors import Problem, UnknownError
from gpuplan.models.architecture import Architecture
from gpuplan.plan.train import TrainPlan
from gpuplan.record import Record, field
from gpuplan.specs.launch import Launch


class Trained(Record, kw_only=True):
    """A plan to be launched: its model by the catalog's id and by its name elsewhere, the ranks, and how many are in a node."""

    card: str
    model: str
    arch: Architecture
    plan: TrainPlan
    ranks: int
    node: int
    tokens: float | None = None
    """Of the whole run."""
    nodes_apart: bool = False
    """Ranks reach beyond one domain of fast links."""

    @property
    def steps(self) -> int | None:
        """Optimizer steps of the run; None: nobody says how long it is."""
        if self.tokens is None:
            return None
        return max(1, round(self.tokens / float(self.plan.seq_len * self.plan.global_batch)))

    @property
    def micro_batches(self) -> int:
        """Micro-batches of a replica in a step."""
        plan = self.plan
        return max(1, int(float(plan.global_batch / (plan.micro_batch * plan.parallel.dp))))


class Written(Record):
    """The words behind the starter, the variables that only the user can fill, and what of the plan they do not say."""

    words: tuple[str, ...]
    to_set: dict[str, str] = field(default_factory=dict)
    """What each variable of the words is."""
    unsaid: dict[str, str] = field(default_factory=dict)
    """By what it is, why, or what to do."""


class Writer:
    """Words of a launch; an argument that the engine does not know is a bug."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.words: list[str] = []
        self.to_set: dict[str, str] = {}
        self.unsaid: dict[str, str] = {}

    def configure(self, card: str) -> None:
        """The words that name the engine's own configuration of a model, by the model's id in the catalog.

        Raises:
            UnknownError: it has none.
        """
        named = self.launch.models.get(card)
        if named is None:
            hint = f"it has {', '.join(self.launch.models)}"
            raise UnknownError(Problem("launch.model", f"{self.launch.name} has no configuration of {card} on file", hint))
        self.words += named

    def say(self, name: str, *values: object) -> None:
        """An argument with its values, numbers without a point.

        Raises:
            ValueError: the engine knows no such argument.
        """
        if name not in self.launch.known.names:
            raise ValueError(f"{self.launch.name} knows no argument `{name}`")
        texts = [_text(one) for one in values]
        self.words += [name, *texts] if name.startswith("-") or not texts else [f"{name}={texts[0]}"]

    def ask(self, name: str, variable: str, what: str) -> None:
        """An argument whose value only the user knows: a variable of the shell."""
        self.say(name, f"${{{variable}:?}}")
        self.to_set[variable] = what

    def leave(self, what: str, why: str) -> None:
        """Something of the plan that no argument says."""
        self.unsaid[what] = why

    def written(self) -> Written:
        """What was put together."""
        return Written((*self.launch.program, *self.words), self.to_set, self.unsaid)


def _text(value: object) -> str:
    if not isinstance(value, float):
        return str(value)
    return str(int(value)) if value.is_integer() else f"{value:g}"
