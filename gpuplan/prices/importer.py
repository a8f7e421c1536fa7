"""What comes of importing a price catalog: which prices are written where, and what was odd or refused?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gpuplan.errors import Problem, SpecError, UsageError
from gpuplan.prices import gcp, gpuhunt, skypilot
from gpuplan.prices.accelerator_names import AcceleratorNames
from gpuplan.prices.catalog_rows import CatalogRow, Flag, Flags
from gpuplan.prices.gather import Gathered, gather, without_repeats
from gpuplan.prices.merge_files import MergedFile, Stamp, write
from gpuplan.prices.provider_record import ProviderRecord
from gpuplan.record import Record
from gpuplan.specs.catalog import Catalog

SKYPILOT, GPUHUNT = "https://github.com/skypilot-org/skypilot-catalog", "https://github.com/dstackai/gpuhunt"

MOST_OFFERS = 50_000
"""The most prices of one provider: five hundred machines in fifty regions at two kinds of price. Each is checked against the others
of its kin, which takes a millisecond and some kB."""


class ImportRequest(Record, kw_only=True):
    """What a user asks of an import: the day on which the prices were read, and what else the files do not say.

    `regions` keeps the import to some regions; `strict` makes every flag an error; `dry` writes nothing.
    """

    date: str
    url: str = ""
    commit: str = ""
    provider: str | None = None
    regions: tuple[str, ...] = ()
    strict: bool = False
    replace: bool = False
    dry: bool = False


class ImportOutcome(Record):
    """What an import found and wrote."""

    flags: tuple[Flag, ...]
    notes: tuple[str, ...]
    gathered: tuple[Gathered, ...]
    merged: tuple[MergedFile, ...]


def import_skypilot(place: Path, folder: Path, catalog: Catalog, wanted: ImportRequest) -> ImportOutcome:
    """Import a `vms.csv` of SkyPilot, or a folder of them, into a specs folder.

    Raises:
        SpecError: a file is not of the format, no price passes, or something is odd and `strict` is asked for.
        UsageError: several providers, but one `--provider`.
    """
    flags, notes, rows = Flags(), list[str](), dict[str, list[CatalogRow]]()
    files = skypilot.files_of(place, wanted.provider)
    if wanted.provider is not None and len(files) > 1:
        hint = "give one file, or leave --provider out"
        raise UsageError(Problem("usage.provider", f"--provider {wanted.provider}: the folder has {len(files)} files", hint))
    for provider, path in files:
        rows.setdefault(provider, []).extend(skypilot.read_rows(path, provider, flags, notes))
    names = AcceleratorNames(catalog)
    made = []
    for provider, found in rows.items():
        known = ProviderRecord(catalog, provider)
        wanted_rows = _in_regions(found, wanted)
        machines = gcp.machines(without_repeats(wanted_rows, flags), known, names, flags) if provider == "gcp" else wanted_rows
        made.append((gather(machines, known, names, flags), known))
    shown = {whose: ", ".join(path.name for one, path in files if one == whose) for whose, _ in files}
    stamps = {
        provider: _stamp("skypilot", f"SkyPilot catalog: {provider}, {file}", SKYPILOT, wanted) for provider, file in shown.items()
    }
    return _finish(made, stamps, folder, flags, notes, wanted)


def import_gpuhunt(place: Path, folder: Path, catalog: Catalog, wanted: ImportRequest) -> ImportOutcome:
    """Import a catalog of gpuhunt, a CSV file or the archive with it, into a specs folder.

    Raises:
        SpecError: the file is not of the format, no price passes, or something is odd and `strict` is asked for.
    """
    flags, notes = Flags(), list[str]()
    provider, path, text = gpuhunt.file_of(place, wanted.provider)
    rows = _in_regions(gpuhunt.read_rows(path, text, provider, flags, notes), wanted)
    known = ProviderRecord(catalog, provider)
    made = [(gather(rows, known, AcceleratorNames(catalog), flags), known)]
    stamps = {provider: _stamp("gpuhunt", f"gpuhunt catalog: {provider}, {path.name}", GPUHUNT, wanted)}
    return _finish(made, stamps, folder, flags, notes, wanted)


def _in_regions(rows: list[CatalogRow], wanted: ImportRequest) -> list[CatalogRow]:
    return [row for row in rows if not wanted.regions or row.region in wanted.regions]


def _stamp(kind: str, title: str, home: str, wanted: ImportRequest) -> Stamp:
    commit = f", commit {wanted.commit}" if wanted.commit else ""
    url = wanted.url or (f"{home}/tree/{wanted.commit}" if wanted.commit else home)
    return Stamp(f"{kind}-{wanted.date}", f"{title}{commit}, read {wanted.date}", url, wanted.date)


def _finish(
    made: Sequence[tuple[Gathered, ProviderRecord]],
    stamps: dict[str, Stamp],
    folder: Path,
    flags: Flags,
    notes: list[str],
    wanted: ImportRequest,
) -> ImportOutcome:
    found = tuple(flags.all())
    _allow(found, wanted)
    full = [(one, known) for one, known in made if one.offers]
    if not full:
        problems = [flag.problem() for flag in found[:20]]
        where = f" in {', '.join(wanted.regions)}" if wanted.regions else ""
        raise SpecError(Problem("price.nothing", f"no price of an accelerator{where} could be imported"), *problems)
    for one, _ in full:
        if len(one.offers) > MOST_OFFERS:
            what = f"the catalog of {one.provider} holds {len(one.offers):,} prices of accelerators; a file holds {MOST_OFFERS:,}"
            raise SpecError(
                Problem("price.too-many", what, "import some regions at a time with --region, into folders of their own")
            )
    ready = [(one, stamps[one.provider], _region(one, known)) for one, known in full]
    merged, doubts = write(ready, folder, replace=wanted.replace, dry=wanted.dry, allow=lambda flags: _allow(flags, wanted))
    return ImportOutcome((*found, *doubts), tuple(notes), tuple(one for one, _ in full), tuple(merged))


def _allow(flags: Sequence[Flag], wanted: ImportRequest) -> None:
    if wanted.strict and flags:
        raise SpecError(*(flag.problem() for flag in flags))


def _region(made: Gathered, known: ProviderRecord) -> str:
    """The provider's usual region on record, or the one with most offers, one in the US before others."""
    usual = known.default_region()
    counted = Counter(offer.region for offer in made.offers)
    return usual or max(counted, key=lambda region: ("us" in region.lower(), counted[region]))
