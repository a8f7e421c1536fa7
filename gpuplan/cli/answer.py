"""How does a question become output? Ask the estimator, check what was pinned, write the form that was asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.cli.output import EVERYTHING, FIGURES, FULL
from gpuplan.cli.report import put_plot, put_report, refuse
from gpuplan.errors import Exit, Problem, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from gpuplan.estimate.result import Estimate
    from gpuplan.render.report.page import Report
    from gpuplan.scenarios.expression import Assertion, Facts

FORMS = ("json", "csv", "md")


def answer(task: str, given: Mapping[str, Any]) -> int:
    """Answer one question on standard output; the exit code of its verdict, or of what `--require` asserts."""
    form_of(given)
    said = read_requirement(given)
    refuse(given)
    made = estimate(task, given)
    beside(made, given)
    if given.get("emit"):
        emit(made)
    else:
        write(made, given)
    if said is not None:
        from gpuplan.scenarios.figures import facts_of

        return judge(facts_of(made), said)
    return int(Exit.OK if made.verdict.fits else Exit.DOES_NOT_FIT)


def read_requirement(given: Mapping[str, Any]) -> Assertion | None:
    """The assertion of `--require`, read before the question is answered.

    Raises:
        UsageError: it is none.
    """
    if given.get("require") is None:
        return None
    from gpuplan.scenarios.expression import Assertion

    return Assertion.of(given["require"], "--require")


def judge(facts: Facts, said: Assertion) -> int:
    """The exit code 0 where an assertion holds, 4 where it does not, and 5 where that is not known; the last two say why."""
    from gpuplan.cli.complaint import complain
    from gpuplan.scenarios.figures import refusal

    outcome = said.judged(facts)
    wrong = refusal(said.text, outcome)
    if wrong is None:
        return int(Exit.OK)
    complain([Problem(wrong.code, wrong.message, wrong.hint, "--require")])
    return int(Exit.UNKNOWN if outcome.holds is None else Exit.ASSERTION_FAILED)


def beside(made: Estimate, given: Mapping[str, Any]) -> None:
    """Write the report and the picture that were asked for.

    Raises:
        UsageError: one of them cannot be written.
    """

    def report() -> Report:
        from gpuplan.render.report.answer import of_answer

        return of_answer(made)

    def draw(file: Path) -> None:
        from gpuplan.render.plot import draw_parts

        draw_parts(made, file)

    put_report(given, report)
    put_plot(given, draw)


def emit(made: Estimate) -> None:
    """Write what starts the plan, and the verdict with what was chosen beside it."""
    from gpuplan.render.table import headline
    from gpuplan.render.text import look_of

    put(made.launch)
    print(headline(made, look_of(sys.stderr)), file=sys.stderr)


def estimate(task: str, given: Mapping[str, Any]) -> Estimate:
    """The estimate that answers a task's options.

    Raises:
        GpuplanError: whatever is wrong with the question or unknown to the data.
    """
    from gpuplan.search.ask import answered

    return answered(task, of_question(given), advise=_shows_changes(given))


def _shows_changes(given: Mapping[str, Any]) -> bool:
    """Whether what is written names the changes that would help: looking for them takes most of the time."""
    short = form_of(given) == "csv" or given.get("explain") is not None or given.get("brief")
    return not short or given.get("html") is not None


def of_question(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that ask the question, without those that say how the answer is written."""
    from gpuplan.cli.output import Output
    from gpuplan.plan.option import by_key

    return {key: value for key, value in given.items() if key not in by_key(Output)}


def write(made: Estimate, given: Mapping[str, Any]) -> None:
    """Write an estimate as text, a tree, JSON, CSV or Markdown."""
    form = form_of(given)
    if form == "json":
        from gpuplan.render.json import estimate_json

        put(estimate_json(made, full=given["json"] == FULL))
    elif form == "csv":
        from gpuplan.cli.complaint import say
        from gpuplan.render.csv import estimate_csv

        put(estimate_csv([made]))
        for note in made.notes:
            say(f"note: {note.text}")
    elif form == "md":
        from gpuplan.render.markdown import markdown

        put(markdown(made))
    elif given.get("explain") is None:
        put(text(made, given))
    else:
        from gpuplan.render.table import headline
        from gpuplan.render.text import look_of

        put(f"{headline(made, look_of(sys.stdout))}\n\n{tree(made, given)}")


def text(made: Estimate, given: Mapping[str, Any]) -> str:
    """The answer on one screen, or in one line, in full, or as a screen reader has it."""
    from gpuplan.render.text import look_of

    if given.get("plain"):
        from gpuplan.render.plain import plain

        return plain(made, full=bool(given.get("full")))
    if given.get("full"):
        from gpuplan.render.table import table

        return table(made, look_of(sys.stdout))
    from gpuplan.render.screen import brief, screen

    return brief(made) if given.get("brief") else screen(made, look_of(sys.stdout))


def tree(made: Estimate, given: Mapping[str, Any]) -> str:
    """The working of the figure or term that `--explain` names, or of all figures."""
    from gpuplan.plan.read import count
    from gpuplan.render.text import look_of
    from gpuplan.render.working import ALL, working

    wanted = str(given["explain"])
    depth = None if given.get("depth") is None else ALL if given["depth"] == "all" else count("depth", given["depth"])
    return working(made, None if wanted == EVERYTHING else wanted, look_of(sys.stdout), depth)


def form_of(given: Mapping[str, Any], full: str = "full") -> str:
    """Which of --json, --csv and --md was asked for, or an empty string. `full` is the option that asks for all of an answer.

    Raises:
        UsageError: more than one of them, or options of output that exclude each other.
    """
    asked = [form for form in FORMS if given.get(form)]
    if len(asked) > 1:
        raise UsageError(Problem("usage.forms", f"{' and '.join(f'--{form}' for form in asked)} exclude each other"))
    if asked and given.get("explain") is not None:
        hint = "leave one out; `--json=full` has all of the working"
        raise UsageError(Problem("usage.forms", f"--explain draws a tree, which --{asked[0]} is not", hint))
    if given.get("json") not in (None, False, True, FIGURES, FULL):
        what = f"--json={given['json']} is no form of JSON"
        raise UsageError(Problem("usage.forms", what, "write `--json` for the figures, `--json=full` for all working"))
    for size in (full, "plain"):
        if given.get(size) and given.get("brief"):
            hint = "leave one out; one line has no columns and no bars"
            raise UsageError(Problem("usage.forms", f"{flag_of(size)} and --brief exclude each other", hint))
    sizes = [flag_of(size) for size in (full, "brief", "plain") if given.get(size)]
    if sizes and (asked or given.get("explain") is not None or given.get("emit")):
        hint = "leave one out" + ("; `--json=full` has all of the working" if asked == ["json"] else "")
        raise UsageError(Problem("usage.forms", f"{' and '.join(sizes)}: the answer is not written in words", hint))
    if given.get("emit") and (asked or given.get("explain") is not None):
        hint = "leave one out; the answer without --emit has the plan"
        raise UsageError(Problem("usage.forms", "--emit prints a launch and nothing else", hint))
    if given.get("depth") is not None and given.get("explain") is None:
        raise UsageError(Problem("usage.depth", "--depth means nothing without --explain", "add --explain TERM"))
    return asked[0] if asked else ""


def flag_of(key: str) -> str:
    """An option as the user types it."""
    return f"--{key.replace('_', '-')}"


def put(text: str) -> None:
    """Write payload to standard output."""
    sys.stdout.write(text)
