"""`gpuplan specs schema`: which JSON Schema describes a kind of spec file, or the JSON of an estimate?"""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from gpuplan.cli.help import Command
from gpuplan.errors import Problem, UsageError, did_you_mean

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def schema(
    *,
    kind: Annotated[
        str | None,
        Argument(
            metavar="[KIND]",
            help="accelerator, system, instance, price, measured, engine, model, scenarios, estimate or question-train",
        ),
    ] = None,
    write: Annotated[str | None, Option("--write", metavar="DIR", help="Write all schema files into a folder")] = None,
) -> None:
    """Which JSON Schema describes a kind of spec file, the JSON of an estimate, or a question?

    Examples:
      gpuplan specs schema accelerator
      gpuplan specs schema --write schemas/
    """
    from gpuplan.files.write import check_writable, write_all

    if write is not None:
        check_writable(Path(write) / "estimate.schema.json")  # before seconds of work
    made = schemas()
    kinds = [name.removesuffix(".schema.json") for name in made]
    if write is not None:
        write_all({Path(write) / name: text for name, text in made.items()}, force=True)
        print(f"{len(made)} schema files are in {write}")
    elif kind is None:
        print("\n".join(kinds))
    else:
        wanted = kind if kind in kinds else kind.removesuffix("s")
        if wanted not in kinds:
            raise UsageError(
                Problem("usage.word", f"no schema of `{kind}`", did_you_mean(kind, kinds) or f"there are {', '.join(kinds)}")
            )
        sys.stdout.write(made[f"{wanted}.schema.json"])


def schemas() -> dict[str, str]:
    """The text of every schema file by its name."""
    from gpuplan.models.card import ModelCard
    from gpuplan.models.diffusion.card import DiffusionCard
    from gpuplan.models.generic import GenericCard
    from gpuplan.plan.ask import ASKS
    from gpuplan.plan.signature import schema as question_schema
    from gpuplan.render.json import schema as estimate_schema
    from gpuplan.scenarios.schema import schema as scenarios_schema
    from gpuplan.schema_json import json_schema
    from gpuplan.specs.json_schema import texts

    others = {"model": json_schema(ModelCard), "generic-model": json_schema(GenericCard), "estimate": estimate_schema()}
    others["scenarios"] = scenarios_schema()
    others["diffusion-model"] = json_schema(DiffusionCard)
    others |= {f"question-{task}": question_schema(task) for task in ASKS}
    return texts() | {
        f"{name}.schema.json": jsonlib.dumps(one, indent=1, ensure_ascii=False) + "\n" for name, one in others.items()
    }
