"""`gpuplan specs show`: what does a spec say, value by value?"""

from __future__ import annotations

import json as jsonlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command
from gpuplan.cli.specs import SHOWN, open_catalog
from gpuplan.errors import GpuplanError, Problem, UnknownError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.specs.base import SpecFile
    from gpuplan.specs.catalog import Catalog

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def show(
    *,
    names: Annotated[
        list[str],
        Argument(
            metavar="NAME …",
            help="What a file is called, such as `h100`; `prices/aws` or `measured/h100-sxm-80gb` names the kind too",
        ),
    ],
    specs: o.SpecsDirs = None,
    json: o.Json = False,
) -> None:
    """What does a spec say, value by value, with sources and dates?

    Examples:
      gpuplan specs show h100
      gpuplan specs show aws:p5.48xlarge
      gpuplan specs show measured/h100-sxm-80gb --json
    """
    catalog = open_catalog(specs)
    made = [_load(catalog, name) for name in names]
    if json:
        from gpuplan.render.spec import spec_record

        records = [dict(spec_record(spec)) for spec, _ in made]
        print(jsonlib.dumps(records[0] if len(records) == 1 else records, indent=2, ensure_ascii=False))
        return
    from gpuplan.browse.related import related
    from gpuplan.render.spec_page import spec_page
    from gpuplan.render.text import look_of

    look = look_of(sys.stdout)
    sys.stdout.write("\n".join(spec_page(spec, path, related(spec, catalog), look) for spec, path in made))


def part_of_target(name: str, catalog: Catalog) -> str:
    """The accelerator of what `--on` takes by a name that no file has, which is said; "" where it takes none."""
    from gpuplan.specs.on import parse_target

    try:
        found = parse_target(name, catalog).accelerator.id
    except GpuplanError:
        return ""
    say(f"note: `{name}` was taken as `{found}`")
    return found


def _hint_of_target(name: str, catalog: Catalog) -> str:
    """What `--on` says of a name that it does not take, where it says more than how names are written; "" otherwise."""
    from gpuplan.specs.on import parse_target
    from gpuplan.specs.target import FORMS

    try:
        parse_target(name, catalog)
    except GpuplanError as error:
        hint = error.problems[0].hint or ""
        return "" if hint == FORMS or hint.startswith("did you mean") else hint
    return ""


def _load(catalog: Catalog, name: str) -> tuple[SpecFile, Path]:
    """The spec of that name, of the first kind that has one.

    Raises:
        UnknownError: no kind has it.
    """
    from gpuplan.specs.catalog import key, schema_of
    from gpuplan.specs.target_by_name import find_instance

    first, _, rest = name.partition("/")
    kinds = [first] if first in SHOWN and rest else list(SHOWN)
    name = rest if first in SHOWN and rest else name
    # An id or an alias goes before a name that only begins one: `aws` is a price list and not one of 17 systems.
    wanted = key(name)
    kinds.sort(key=lambda kind: wanted not in catalog.paths(kind) and wanted not in catalog.names(kind))
    for kind in kinds:
        cls = schema_of(kind)
        try:
            found = catalog.find(kind, name)
        except UnknownError:
            continue
        if cls is not None:
            for note in found.notes:
                say(f"note: {note.text}{f' ({note.hint})' if note.hint else ''}")
            return catalog.read(cls, found.path), found.path
    instance = find_instance(name, catalog)
    if instance is not None:
        path = catalog.paths("instances")[f"{instance.provider}/{instance.family.id}"]
        return instance.family, path
    # As `--on` takes names: without what shops and drivers write around them, and with what comes nearest to parts without a file.
    from gpuplan.specs.kinds_of_parts import nearest
    from gpuplan.specs.plain_names import known_as

    plain = known_as(name, catalog) or name
    exact = any(key(plain) in catalog.paths(kind) or key(plain) in catalog.names(kind) for kind in SHOWN)
    near = nearest(name) or ("" if exact else nearest(plain))
    if plain != name and not near:
        say(f"note: `{name}` was taken as `{key(plain)}`")
        return _load(catalog, plain)
    if not near and (meant := part_of_target(name, catalog)):
        return _load(catalog, meant)
    known = [name for kind in SHOWN for name in (*catalog.paths(kind), *catalog.names(kind))]
    hint = (
        nearest(name)
        or _hint_of_target(name, catalog)
        or near
        or did_you_mean(name, known)
        or "`gpuplan specs list` shows what there is"
    )
    raise UnknownError(Problem("spec.unknown", f"nothing is called `{name}`", hint))
