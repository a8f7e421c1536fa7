"""How do imported prices get into a user's folder: beside what is there, whole or not at all?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from gpuplan.check.examine import examine
from gpuplan.files.write import component, locked, scratch, write_all, write_below
from gpuplan.prices.catalog_rows import Flag
from gpuplan.prices.gather import Gathered, NewOffer, NewShape
from gpuplan.record import Record
from gpuplan.specs.base import SourceEntry, load_spec
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.price import OfferEntry, PriceList
from gpuplan.strict_yaml import load_yaml, read_text
from gpuplan.yaml_text import yaml_text

PRICE_RULES = (
    "no-price", "zero-price", "stale-price", "sentinel-price", "price-out-of-kin", "spot-above-on-demand", "promo-price",
    "duplicate-offer", "unknown-reference", "unknown-source", "missing-unit", "wrong-unit", "bad-unit", "out-of-range",
    "bad-quantity",
)  # fmt: skip
"""The rules of `gpuplan specs check` that are about prices, by their codes without `spec.`."""
IMPORTED = "imported"
"""The id of the instance family that holds what an import had to add."""
_HEAD = "# Written by `gpuplan prices import`, which keeps what it does not replace; comments are not kept."


class Stamp(Record):
    """Where and when an imported price was read: the key, title, address and day of its source."""

    key: str
    title: str
    url: str
    date: str


class MergedFile(Record):
    """What an import did to one file of prices."""

    path: Path
    new: int
    changed: int
    same: int
    kept: int
    """Entries that the import did not touch."""
    historical: int
    """Older prices that are kept as historical."""
    instances: int
    comments: bool
    """Whether the file had comments, which are in the copy with `.bak` only."""


class _Draft:
    """A file that is to be written: its data, and where it stands until it is put in its place."""

    def __init__(self, final: Path, temporary: Path, cls: type[PriceList] | type[InstanceFamily], data: dict[str, Any]) -> None:
        self.final, self.temporary, self.cls, self.data, self.text = final, temporary, cls, data, ""

    def offer_lines(self) -> list[int]:
        """On which line each offer of the written file begins."""
        _, lines = load_yaml(self.temporary)
        return [lines.line(("offers", at)) for at in range(len(self.data["offers"]))]

    def put(self, *, check: bool = True) -> None:
        """Write the file below the scratch folder, and read it back as a check."""
        self.text = yaml_text(self.data, _HEAD)
        write_below(self.temporary.parent, self.temporary.name, self.text.encode())
        if check:
            load_spec(self.cls, self.temporary)


def write(
    made: Sequence[tuple[Gathered, Stamp, str]],
    folder: Path,
    *,
    replace: bool = False,
    dry: bool = False,
    allow: Callable[[Sequence[Flag]], None] = lambda flags: None,
) -> tuple[list[MergedFile], list[Flag]]:
    """Write the prices of some providers into a specs folder; each with its stamp and usual region.

    Entries on record of the same instance, region and kind become historical where their price or day differs, entries from
    `user` sources stay as they are, and all others are kept; with `replace` a file begins anew. All files are written, read
    back and checked by the rules of `gpuplan specs check` before the first one is put in its place: what breaks one becomes
    doubtful and gets a flag. `allow` may raise on those; with `dry` nothing is put in its place.

    Raises:
        SpecError: a file that is there cannot be read.
    """
    for gathered, _, _ in made:
        component(gathered.provider, "--provider")
    # From what is read here to what is written nobody else may write, or the prices of one of two imports are lost.
    with nullcontext() if dry else locked(folder), scratch() as place:
        drafts, done = list[_Draft](), list[MergedFile]()
        for gathered, stamp, region in made:
            path, data = _instances(gathered, stamp, folder)
            if data:
                drafts.append(_Draft(path, place / path.relative_to(folder), InstanceFamily, data))
            for path, part in _by_file(gathered, folder):
                merged, data = _prices(path, part, stamp, region, replace)
                drafts.append(_Draft(merged.path, place / merged.path.relative_to(folder), PriceList, data))
                done.append(merged)
        for draft in drafts:
            draft.put()
        flags = _doubts(drafts, place, folder, {stamp.key for _, stamp, _ in made})
        allow(flags)
        if dry:
            return [], flags
        with_comments = [merged.path for merged in done if merged.comments]
        copies = {path.with_name(f"{path.name}.bak"): read_text(path) for path in with_comments}
        write_all({**copies, **{draft.final: draft.text for draft in drafts}}, force=True)
    return done, flags


def _doubts(drafts: Sequence[_Draft], scratch: Path, folder: Path, stamps: set[str]) -> list[Flag]:
    """Make doubtful what breaks a rule of prices, and say so; entries from elsewhere are left as they are."""
    by_path = {str(draft.temporary): draft for draft in drafts if draft.cls is PriceList}
    for kind in ("accelerators", "systems", "instances", "prices"):
        # The rest of the folder stands behind the new files, as it will when they are in their place.
        for one in (folder / kind).rglob("*.yaml") if (folder / kind).is_dir() else ():
            there = scratch / one.relative_to(folder)
            if not there.exists():
                write_below(scratch, str(one.relative_to(folder)), read_text(one).encode())
    select = [rule for rule in PRICE_RULES if rule != "stale-price"]
    flags: list[Flag] = []
    changed: dict[str, _Draft] = {}
    begins: dict[str, list[int]] = {}
    for found in examine([Path(one) for one in by_path], select=select).findings:
        path, _, line = found.where.rpartition(":")
        draft = by_path.get(path)
        if found.severity != "error" or draft is None:
            continue
        if path not in begins:
            begins[path] = draft.offer_lines()
        offers = draft.data["offers"]
        at = bisect_right(begins[path], int(line)) - 1
        if at >= 0 and offers[at]["source"] in stamps:
            offers[at]["status"] = "doubtful"
            changed[path] = draft
            code = found.code.replace("spec.", "price.", 1)
            message = f"{found.message}: kept as doubtful, and not used"
            flags.append(Flag(code, message, str(draft.final), (int(line),), False))
    for draft in changed.values():
        draft.put(check=False)  # only words that are known changed
    return flags


def _by_file(gathered: Gathered, folder: Path) -> Iterator[tuple[Path, Gathered]]:
    """Which prices go into which file: that of the provider, or of its several files the one that names the instance already."""
    main = folder / "prices" / f"{gathered.provider}.yaml"
    of_family = folder / "prices" / gathered.provider
    homes: dict[str, Path] = {}
    for path in sorted(of_family.glob("*.yaml")) if of_family.is_dir() else ():
        homes |= {entry.instance: path for entry in load_spec(PriceList, path).offers}
    parts: dict[Path, list[NewOffer]] = {}
    for offer in gathered.offers:
        parts.setdefault(homes.get(offer.instance, main), []).append(offer)
    for at, (path, offers) in enumerate((parts or {main: []}).items()):
        yield path, Gathered(gathered.provider, offers, gathered.shapes if at == 0 else {})


def _prices(path: Path, gathered: Gathered, stamp: Stamp, region: str, replace: bool) -> tuple[MergedFile, dict[str, Any]]:
    old = load_spec(PriceList, path) if path.is_file() and not replace else None
    sources: dict[str, Any] = {}
    entries: list[dict[str, Any]] = []
    counts = {"new": 0, "changed": 0, "same": 0, "kept": 0, "historical": 0}
    before: dict[tuple[str, str, str], list[OfferEntry]] = {}
    if old is not None:
        sources = {key: _source(entry) for key, entry in old.sources.items()}
        for entry in old.offers:
            before.setdefault((entry.instance, entry.region, entry.kind), []).append(entry)
    sources[stamp.key] = {"title": stamp.title, "url": stamp.url, "checked": stamp.date, "kind": "price"}
    for offer in sorted(gathered.offers, key=lambda one: (one.instance, one.region, one.kind)):
        entries += _with_old(offer, stamp, before.pop((offer.instance, offer.region, offer.kind), []), old, counts)
    for rest in before.values():
        entries += [_stated(one) for one in rest]
        counts["kept"] += len(rest)
    used = {str(entry["source"]) for entry in entries if "source" in entry}
    if old is not None and old.credit is not None:
        used |= {one.source for one in (old.credit, old.credit.low, old.credit.high)}
    data: dict[str, Any] = {
        "format": 1,
        "id": path.stem,
        "name": old.name if old is not None else f"Imported prices of {gathered.provider}",
        "sources": {key: one for key, one in sources.items() if key in used},
        "default_region": old.default_region if old is not None else region,
    }
    if path.stem != gathered.provider:
        data["provider"] = gathered.provider
    if old is not None and old.notes:
        data["notes"] = list(old.notes)
    if old is not None and old.credit is not None:
        data["credit"] = _stated(old.credit)
    data["offers"] = sorted(entries, key=lambda one: (one["instance"], one["region"], one["kind"], one.get("date", "")))
    text = read_text(path) if path.is_file() else ""
    comments = any(line.lstrip().startswith("#") and "$schema" not in line and line != _HEAD for line in text.splitlines())
    return MergedFile(path=path, instances=len(gathered.shapes), comments=comments, **counts), data


def _with_old(
    offer: NewOffer, stamp: Stamp, old: list[OfferEntry], spec: PriceList | None, counts: dict[str, int]
) -> list[dict[str, Any]]:
    """A new entry and what becomes of those that are on record for the same instance, region and kind."""
    new: dict[str, Any] = {"instance": offer.instance, "region": offer.region, "kind": offer.kind}
    new |= {"price": _usd(offer.usd_per_hour), "date": stamp.date, "source": stamp.key}
    new |= {key: value for key, value in (("status", offer.status), ("note", offer.note)) if value not in ("", "current")}
    made: list[dict[str, Any]] = []
    told = "new"
    for entry in old:
        own = spec is not None and entry.source != "" and spec.sources[entry.source].kind == "user"
        plain = _stated(entry)
        if own:
            counts["kept"] += 1
            made.append(plain)
        elif entry.date == stamp.date:
            told = "same" if plain.get("price") == new["price"] else "changed"
        elif entry.date is not None and entry.date > stamp.date:
            # What is on record is newer than what is imported: that goes to the past.
            made.append(plain)
            new["status"] = "historical" if new.get("status", "current") == "current" else new["status"]
            counts["kept"] += 1
        elif entry.status == "current":
            told = "changed" if told == "new" else told
            counts["historical"] += 1
            made.append(plain | {"status": "historical"})
        else:
            made.append(plain)
    counts[told] += 1
    return [new, *made]


def _instances(gathered: Gathered, stamp: Stamp, folder: Path) -> tuple[Path, dict[str, Any]]:
    """The file of new instances; no data where there is none that it lacks."""
    path = folder / "instances" / gathered.provider / f"{IMPORTED}.yaml"
    old = load_spec(InstanceFamily, path) if path.is_file() else None
    shapes = {shape.name: _stated(shape) for shape in old.instances} if old is not None else {}
    sources = {key: _source(entry) for key, entry in old.sources.items()} if old is not None else {}
    if all(name in shapes for name in gathered.shapes):
        return path, {}
    sources.setdefault(stamp.key, {"title": stamp.title, "url": stamp.url, "checked": stamp.date, "kind": "price"})
    for shape in gathered.shapes.values():
        shapes.setdefault(shape.name, _shape(shape, stamp))
    data: dict[str, Any] = {"format": 1, "id": IMPORTED, "name": f"Imported instances of {gathered.provider}"}
    data["aliases"] = [f"{gathered.provider}:{name}" for name in shapes]
    data |= {"sources": sources, "provider": gathered.provider, "instances": [shapes[name] for name in sorted(shapes)]}
    return path, data


def _shape(shape: NewShape, stamp: Stamp) -> dict[str, Any]:
    made: dict[str, Any] = {"name": shape.name, "source": stamp.key, "accelerator": shape.accelerator}
    made["accelerators"] = shape.accelerators
    if shape.system:
        made["system"] = shape.system
    if shape.vcpus:
        made["vcpus"] = shape.vcpus
    if shape.memory_gib:
        made["memory"] = f"{shape.memory_gib:.10g} GiB"
    return made | {"scale_up": {"kind": shape.scale_up}, "network": {"kind": "ethernet"}, "notes": [shape.note]}


def _source(entry: SourceEntry) -> dict[str, Any]:
    return _stated(entry)


def _stated(part: Any) -> dict[str, Any]:
    made: dict[str, Any] = _data(part.stated())
    return made


def _data(value: Any) -> Any:
    if hasattr(value, "stated"):
        return _data(value.stated())
    if hasattr(value, "printed"):
        return _data(value.printed())
    if isinstance(value, Mapping):
        return {key: _data(one) for key, one in value.items()}
    return [_data(one) for one in value] if isinstance(value, (tuple, list)) else value


def _usd(price: float) -> str:
    return f"{price:.10g} USD/h"
