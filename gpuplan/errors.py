"""What went wrong, for whom, and what to do: every error that a user can cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

from gpuplan.record import Record


class Exit(IntEnum):
    """The documented exit codes of the command line."""

    OK = 0
    USAGE = 2
    DOES_NOT_FIT = 3
    ASSERTION_FAILED = 4
    UNKNOWN = 5
    BUG = 70
    """EX_SOFTWARE of sysexits.h: gpuplan itself is wrong."""


class Problem(Record):
    """One thing that is wrong: a stable code, where it is, what it is, and what to do about it."""

    code: str
    message: str
    hint: str = ""
    where: str = ""

    def __str__(self) -> str:
        """The problem as one line, with the hint on the next."""
        place = f"{self.where}: " if self.where else ""
        advice = f"\n  hint: {self.hint}" if self.hint else ""
        return f"{place}{self.message}{advice}"


class Note(Record):
    """Something the reader of an estimate should know: an assumption, a choice, a limit of a formula."""

    code: str
    text: str
    hint: str = ""
    about: tuple[tuple[str, str], ...] = ()
    """What the text says, for programs: of a price its provider, instance, region, kind and date."""
    brief: str = ""
    """The same in a line, where the text is longer."""


class GpuplanError(Exception):
    """A user's error: all problems found together, and the exit code that they mean."""

    def __init__(self, problems: Sequence[Problem] = (), exit_code: Exit = Exit.USAGE) -> None:
        self.problems, self.exit_code = problems, exit_code

    def __str__(self) -> str:
        """All problems, one below the other."""
        return "\n".join(str(problem) for problem in self.problems)


class UsageError(GpuplanError):
    """A wrong flag, value or file (exit 2)."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems, Exit.USAGE)


class SpecError(GpuplanError):
    """A data file that cannot be accepted (exit 2)."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems, Exit.USAGE)


class PlanError(GpuplanError):
    """A plan that breaks rules: every broken rule is listed (exit 2)."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems, Exit.USAGE)


class InfeasibleError(GpuplanError):
    """No plan fits (exit 3)."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems, Exit.DOES_NOT_FIT)


class UnknownError(GpuplanError):
    """Needed data is not known: a name, a rate, a price, a field (exit 5)."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems, Exit.UNKNOWN)


class ImpossibleError(GpuplanError):
    """An answer that physics rules out: gpuplan itself is wrong (exit 70)."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems, Exit.BUG)


def did_you_mean(word: str, known: Iterable[str], *, most: int = 3) -> str:
    """A hint that offers the nearest known names, or an empty string when nothing is near.

    >>> did_you_mean("h100-smx", ["h100-sxm-80gb", "h100-sxm", "t4"])
    'did you mean `h100-sxm` or `h100-sxm-80gb`?'
    """
    from difflib import get_close_matches

    names = sorted(set(known))
    near = get_close_matches(word.lower(), names, n=most, cutoff=0.6)
    near += [name for name in names if word and word.lower() in name and name not in near][: most - len(near)]
    if not near:
        return ""
    quoted = [f"`{name}`" for name in near]
    return f"did you mean {' or '.join([', '.join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)}?"


def install(extra: str) -> str:
    """What to type for an extra of gpuplan, installed from a package index or from a checkout.

    >>> install("plot")
    "pip install 'gpuplan[plot]', or in a checkout pip install '.[plot]'"
    """
    return f"pip install 'gpuplan[{extra}]', or in a checkout pip install '.[{extra}]'"
