"""Which names does the catalog have, by what they can stand for? Aliases stand apart, in kinds that end in `+`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpuplan.cli.complete.pick import TASKS
from gpuplan.errors import GpuplanError
from gpuplan.specs.catalog import Catalog


def names(folders: Sequence[Path]) -> dict[str, list[str]]:
    """Every name by kind; a file that cannot be read has none."""
    catalog = Catalog(list(folders))
    made: dict[str, list[str]] = {}
    for kind in ("accelerators", "systems", "engines", "networks", "clusters", "prices", "measured"):
        made[kind] = list(catalog.paths(kind))
        made[f"{kind}+"] = _aliases(kind, catalog)
    made["instances"] = [name for name in _aliases("instances", catalog) if ":" in name]
    made["families"] = list(catalog.paths("instances"))
    made["providers"] = sorted({*(name.partition(":")[0] for name in made["instances"]), *made["prices"]})
    made["vendors"] = sorted({path.parent.name for path in catalog.paths("accelerators").values()})
    slices, several = _slices(catalog)
    made["places"] = [
        *(name for name in made["accelerators"] if name not in several),
        *made["systems"],
        *made["instances"],
        *slices,
        *_whole_clusters(catalog),
        "local",
    ]
    made["places+"] = [name for kind in ("accelerators", "systems", "clusters") for name in made[f"{kind}+"]]
    made["fabrics"] = [*made["networks"], *made["clusters"]]
    made["fabrics+"] = [*made["networks+"], *made["clusters+"]]
    made["specs"] = [
        *(name for kind in ("accelerators", "systems", "instances", "families", "engines", "networks", "clusters")
          for name in made[kind]),
        *(f"prices/{name}" for name in made["prices"]), *(f"measured/{name}" for name in made["measured"]),
    ]  # fmt: skip
    made["specs+"] = [*made["places+"], *made["engines+"], *made["networks+"]]
    made["priced"] = [*made["accelerators"], *made["instances"], *made["providers"]]
    made["priced+"] = made["accelerators+"]
    made |= _models([folder / "models" for folder in folders[1:]])
    made["formulas"] = _formulas()
    made["explained"] = [*TASKS, *made["formulas"]]
    made["compared"], made["compared+"] = [*TASKS, *made["accelerators"]], made["accelerators+"]
    return made


def _aliases(kind: str, catalog: Catalog) -> list[str]:
    with suppress(GpuplanError):
        return list(catalog.names(kind))
    return list(Catalog(catalog.folders[:1]).names(kind))  # A file of the user's is wrong: theirs are offered by id alone.


def _whole_clusters(catalog: Catalog) -> list[str]:
    """The clusters whose number of accelerators is known: only these are a place by themselves."""
    from gpuplan.specs.cluster import Cluster

    found: list[str] = []
    for name in catalog.paths("clusters"):
        with suppress(GpuplanError):
            found += [name] if catalog.load(Cluster, name).accelerators is not None else []
    return found


def _slices(catalog: Catalog) -> tuple[list[str], set[str]]:
    """The TPU slices that can be rented, as `--on` takes them: `tpu-v5p-256`; and the chips that nobody has one of."""
    from gpuplan.specs.system import System

    found, several = list[str](), set[str]()
    with suppress(GpuplanError):
        for _, path, text in catalog.texts("systems"):
            if "slice_prefix" in text:
                pod = catalog.read(System, path)
                found += [part.name if part.name.startswith("tpu") else f"tpu-{part.name}" for part in pod.slices]
                several |= {pod.accelerator} if pod.slices and pod.slice_of(1) is None else set()
    return sorted(set(found)), several


def _models(folders: Sequence[Path]) -> dict[str, list[str]]:
    """Ids of cards, and their aliases with the names of Ollama's library."""
    from gpuplan.models import catalog, ollama
    from gpuplan.models.diffusion.catalog import diffusion_names
    from gpuplan.models.generic import generic_names

    cards = sorted({path.stem for path in catalog.paths(folders)})
    pictures, samples = diffusion_names(), generic_names()
    aliases: list[str] = []
    with suppress(GpuplanError):
        aliases = catalog.names(folders)
    more = {*aliases, *pictures, *samples, *ollama.names()} - set(cards)
    return {"models": cards, "models+": sorted(more)}


def _formulas() -> list[str]:
    from gpuplan.formulas import every_formula

    return sorted(every_formula())
