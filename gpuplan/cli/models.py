"""`gpuplan models`: which models are known, what are they made of, and what does a checkpoint hold?"""

from __future__ import annotations

import json as jsonlib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command, Group
from gpuplan.errors import Problem, UnknownError, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.models.card import ModelCard
    from gpuplan.models.diffusion.card import DiffusionCard
    from gpuplan.models.generic import GenericCard

Card = TypeVar("Card", bound="ModelCard | GenericCard | DiffusionCard")
_MOST = 1e16
"""More parameters than any model has."""

app = Typer(
    cls=Group, add_completion=False, rich_markup_mode=None, no_args_is_help=True,
    help="""Which models are known, what are they made of, and what does a checkpoint hold?

Examples:
  gpuplan models list qwen
  gpuplan models show Qwen/Qwen3-32B
  gpuplan models show ./Llama-3.1-8B-Q4_K_M.gguf
  gpuplan models import ./config.json > my-model.yaml""",
)  # fmt: skip


@app.command("list", cls=Command)
def list_models(
    *,
    text: Annotated[
        list[str] | None, Argument(metavar="[TEXT …]", help="Texts that must occur in the id, the name or an alias")
    ] = None,
    kind: Annotated[
        list[str] | None,
        Option(
            "--kind",
            metavar="KIND",
            help="dense, mixture, recurrent, encoder, encoder-decoder, vision, speech, diffusion or samples; repeatable",
        ),
    ] = None,
    min_params: Annotated[str | None, Option("--min-params", metavar="N", help="Parameters at least, such as 1B")] = None,
    max_params: Annotated[str | None, Option("--max-params", metavar="N", help="Parameters at most, such as 40B")] = None,
    license_: Annotated[
        str | None, Option("--license", metavar="NAME", help="How its licence begins, such as apache-2.0, mit or llama")
    ] = None,
    year: Annotated[
        str | None, Option("--year", metavar="YEAR", help="When its weights came out, such as 2026 or 2024-2026")
    ] = None,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """Which models are known, and how large are they?

    Examples:
      gpuplan models list
      gpuplan models list llama 70b
      gpuplan models list --kind mixture --max-params 40B --license apache --year 2025
      gpuplan models list --csv
    """
    from gpuplan.cli.answer import form_of
    from gpuplan.models.catalog import cards, names
    from gpuplan.models.diffusion.catalog import diffusion_cards
    from gpuplan.models.generic import generic_cards
    from gpuplan.models.selection import license_of, released_of, selected
    from gpuplan.render.model import ALIGNED, HEADS, record_of, row_of

    form = form_of({"json": json, "csv": csv, "md": md})
    folders = _folders(specs)
    words = [word.lower() for word in text or ()]
    made: list[ModelCard | GenericCard | DiffusionCard] = [*cards(folders), *generic_cards(folders), *diffusion_cards(folders)]
    made = [card for card in made if all(w in f"{card.id} {card.name} {' '.join(card.aliases)}".lower() for w in words)]
    unlicensed = sum(not license_of(card) for card in made) if license_ is not None else 0
    undated = sum(not released_of(card) for card in made) if year is not None else 0
    made = _of_size(selected(made, _kinds(kind), license_, _years(year)), min_params, max_params)
    if unlicensed:
        say(f"note: of {unlicensed} models no licence is on record: they are left out")
    if undated:
        say(f"note: of {undated} models no day is on record on which they came out: they are left out")
    if not made and (kind or license_ or min_params or max_params or year):
        raise UnknownError(Problem("model.none", "no model is all that", "leave one of the conditions out"))
    if not made:
        hint = did_you_mean(words[0], names(folders)) if words else "install gpuplan again"
        what = f"no model with `{' '.join(words)}`" if words else "there is no model card"
        raise UnknownError(Problem("model.none", what, hint or "`gpuplan models list` shows all"))
    made.sort(key=lambda card: card.id)
    records, rows = [record_of(card) for card in made], [row_of(card) for card in made]
    if form == "json":
        print(jsonlib.dumps(records, indent=2, ensure_ascii=False))
    elif form == "csv":
        from gpuplan.render.csv import records_csv

        sys.stdout.write(records_csv(records))
    elif form == "md":
        from gpuplan.render.markdown import grid

        print(grid(HEADS, rows, ALIGNED))
    else:
        from gpuplan.render.spec import stacked
        from gpuplan.render.text import look_of

        sys.stdout.write(stacked(HEADS, rows, ALIGNED, look_of(sys.stdout)))


def _kinds(given: Sequence[str] | None) -> list[str]:
    """The words of `--kind`.

    Raises:
        UsageError: one of them is no kind.
    """
    from gpuplan.models.selection import KINDS

    for word in given or ():
        if word not in KINDS:
            hint = did_you_mean(word, KINDS) or f"there are {', '.join(KINDS)}"
            raise UsageError(Problem("usage.word", f"--kind: there are no models of the kind `{word}`", hint))
    return list(given or ())


def _years(given: str | None) -> tuple[int, int] | None:
    """The first and the last year of `--year`.

    Raises:
        UsageError: it is no year, and no two with a hyphen between them.
    """
    if given is None:
        return None
    found = re.fullmatch(r"((?:19|20)\d\d)(?:-((?:19|20)\d\d))?", given.strip())
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise UsageError(Problem("usage.value", f"--year: `{given}` is no year", "write 2026, or 2024-2026 for the years from to"))
    return int(found[1]), int(found[2] or found[1])


def _of_size(cards: list[Card], smallest: str | None, largest: str | None) -> list[Card]:
    """The models that have so many parameters, in all of their parts together.

    Raises:
        UsageError: an end is no number.
    """
    if smallest is None and largest is None:
        return cards
    from gpuplan.plan.read import count
    from gpuplan.render.model import record_of

    least = count("min-params", smallest, least=0, most=_MOST) if smallest is not None else 0
    most = count("max-params", largest, least=0, most=_MOST) if largest is not None else _MOST
    return [card for card in cards if least <= float(str(record_of(card)["params_total"])) <= most]


@app.command(cls=Command)
def show(
    *,
    model: o.Model,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
) -> None:
    """What is a model made of: parameters by part, layers, sources?

    Examples:
      gpuplan models show llama-3.1-8b
      gpuplan models show ./config.json
      gpuplan models show ./Llama-3.1-8B-Q4_K_M.gguf
      gpuplan models show llama3.3:70b-instruct-q4_K_M
    """
    from gpuplan.models.catalog import CARDS, find
    from gpuplan.models.diffusion.catalog import load_diffusion
    from gpuplan.models.diffusion.glance import diffusion_path
    from gpuplan.models.generic import generic_path, load_generic

    path, pictures = generic_path(model, _folders(specs)), diffusion_path(model, _folders(specs))
    card: ModelCard | GenericCard | DiffusionCard
    if pictures is not None and not (CARDS / f"{model.lower()}.yaml").is_file():
        card = load_diffusion(pictures)
    else:
        card = find(model, _folders(specs)) if path is None else load_generic(path)
    from gpuplan.render.model import page_of, shown_record

    if json:
        print(jsonlib.dumps(shown_record(card), indent=2, ensure_ascii=False))
        return
    from gpuplan.render.text import look_of

    look = look_of(sys.stdout)
    sys.stdout.write(page_of(card, look))


@app.command("import", cls=Command)
def import_model(
    *,
    path: Annotated[
        str,
        Argument(
            metavar="PATH", help="A config.json, a safetensors or GGUF file, a folder of them, or a Hugging Face id (hf.co/…)"
        ),
    ],
    json: o.Json = False,
) -> None:
    """Which model does a checkpoint hold? Prints a card that can be kept as YAML, in `DIR/models/` for --specs DIR.

    Of files of weights only the heads are read. Exits with 5 when the architecture or a field that counts is not known.

    Examples:
      gpuplan models import ./config.json
      gpuplan models import ./my-model/ > specs/models/my-model.yaml
      gpuplan models import ./my-model-Q4_K_M.gguf > specs/models/my-model-q4_k_m.yaml
    """
    from gpuplan.models.catalog import imported

    card = imported(path)
    if json:
        print(jsonlib.dumps(card.plain(), indent=2, ensure_ascii=False))
    else:
        from gpuplan.render.model import card_yaml

        sys.stdout.write(card_yaml(card))
    size = card.count()
    print(
        f"note: {float(size.params_total.value):,.0f} parameters in all, {float(size.params_active.value):,.0f} for a token",
        file=sys.stderr,
    )
    for note in card.notes:
        say(f"note: {note}")


def _folders(specs: Sequence[str] | None) -> list[Path]:
    """The folders with the user's own cards, the first of which wins."""
    from gpuplan.specs.catalog import Catalog

    catalog = Catalog.open([Path(folder) for folder in specs or ()])
    return [folder / "models" for folder in reversed(catalog.folders) if (folder / "models").is_dir()]
