"""How does a question's table of options become a command: its parameters and their help?"""

# The annotations of the output's options are read, so they are no unread text here: no `from __future__ import annotations`.

from inspect import Parameter, Signature
from typing import Annotated, Any

from typer import Argument, Context, Exit, Typer
from typer import Option as Parsed

from gpuplan.cli.help import Command
from gpuplan.cli.output import Output
from gpuplan.plan.option import Entry, by_key
from gpuplan.record import Record


def app_of(task: str, ask: type[Record], about: str) -> Typer:
    """The command of a task, with an option for each of its question's and those of the output."""

    def run(ctx: Context, **given: Any) -> None:
        from gpuplan.cli.answer import answer

        raise Exit(answer(task, given))

    made: Any = run
    unnamed = "command" in by_key(ask)  # which may name the model
    parameters = [parameter(one, unnamed=unnamed) for one in (*by_key(ask).values(), *by_key(Output).values())]
    made.__signature__ = Signature([Parameter("ctx", Parameter.POSITIONAL_OR_KEYWORD, annotation=Context), *parameters])
    made.__annotations__ = {"ctx": Context, **{one.name: one.annotation for one in parameters}}
    made.__doc__, made.__name__ = about, task
    app = Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=Command)(made)
    return app


def parameter(entry: Entry, *, unnamed: bool = False) -> Parameter:
    """An option as the parser takes it; its value stays the text, list of texts or switch that was typed."""
    option, kind = entry.option, Parameter.KEYWORD_ONLY
    if entry.positional:
        mark = Argument(metavar=option.metavar, help=option.about)
        if unnamed:
            return Parameter(entry.key, kind, default=None, annotation=Annotated[str | None, mark])
        return Parameter(entry.key, kind, annotation=Annotated[str, mark])
    hint: Any = bool | None if entry.kind == "switch" else str | None
    if entry.kind == "texts":
        hint = list[str] | None
    mark = Parsed("/".join(entry.flags), metavar=option.metavar or None, rich_help_panel=option.panel, help=option.about)
    return Parameter(entry.key, kind, default=entry.default, annotation=Annotated[hint, mark])
