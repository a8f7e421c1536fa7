"""What do prices look like: on record as a list, and what an import did with a catalog?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.prices.on_record import PricedOffer
from gpuplan.units import HOUR, so_many

if TYPE_CHECKING:
    from gpuplan.prices.age import ProviderAge
    from gpuplan.prices.catalog_rows import Flag
    from gpuplan.prices.importer import ImportOutcome

PRICE_HEADS = ("instance", "USD/h", "of one", "kind", "date", "accelerators", "region", "status", "source")
PRICE_ALIGNED = "lrrllllll"


def price_row(row: PricedOffer) -> list[str]:
    """A price as a line of a list, per hour; a blank is not known."""
    offer, source = row.offer, row.source
    count = f"{row.count:.4g} x {row.accelerator}" if row.count is not None else ""
    return [
        row.name, _hourly(row.usd_per_s), _hourly(row.usd_per_s_per_accelerator), offer.kind.replace("_", " "), offer.date, count,
        offer.region, offer.status, source.title if source is not None else "",
    ]  # fmt: skip


def price_record(row: PricedOffer) -> dict[str, object]:
    """The same in base units, with all that is known about the source."""
    offer, source = row.offer, row.source
    return {
        "instance": row.name, "accelerator": row.accelerator, "accelerators": row.count, "usd_per_s": row.usd_per_s,
        "usd_per_hour": _hour(row.usd_per_s), "usd_per_hour_per_accelerator": _hour(row.usd_per_s_per_accelerator),
        "kind": offer.kind, "region": offer.region, "date": offer.entry.date, "status": offer.status,
        "own": offer.rank > 0, "source": source.title if source is not None else None,
        "url": source.url if source is not None else None, "note": offer.entry.note,
    }  # fmt: skip


def _hour(value: float | None) -> float | None:
    return round(value * HOUR, 9) if value is not None else None


def _hourly(value: float | None) -> str:
    return f"{value * HOUR:,.4f}" if value is not None else ""


AGE_ALIGNED = "lrrrllrr"


def age_heads(days: int) -> tuple[str, ...]:
    """The heads of a list of ages."""
    return ("provider", "prices", "instances", "regions", "newest", "oldest", f"over {so_many(days, 'day')}", "undated")


def age_row(one: ProviderAge) -> list[str]:
    """The ages of a provider's prices as a line of a list."""
    counts = [str(number) if number else "" for number in (one.prices, one.instances, one.regions)]
    return [
        one.provider,
        *counts,
        one.newest or "",
        one.oldest or "",
        *(str(number) if number else "" for number in (one.old, one.undated)),
    ]


def age_record(one: ProviderAge) -> dict[str, object]:
    """The same for a machine to read."""
    return {
        "provider": one.provider, "prices": one.prices, "instances": one.instances, "regions": one.regions,
        "newest": one.newest, "oldest": one.oldest, "old": one.old, "undated": one.undated,
    }  # fmt: skip


def age_summary(found: Sequence[ProviderAge], days: int) -> str:
    """What all of them come to, in one line."""
    prices, old, undated = (sum(numbers) for numbers in zip(*((one.prices, one.old, one.undated) for one in found), strict=True))
    again = f"{old:,} are older than {so_many(days, 'day')} and {undated:,} have no day"
    there = f"{so_many(prices, 'current price')} of {so_many(len(found), 'provider')}"
    return f"{there}: {again}; `gpuplan prices import` brings newer ones in"


def flag_line(flag: Flag) -> str:
    """A flag on one line: where, what, and whether it kept a row out."""
    return f"{'refused' if flag.refused else 'flagged'}: {flag.where()}: {flag.message} [{flag.code}]"


def import_text(made: ImportOutcome, folder: Path, dry: bool) -> str:
    """What an import wrote, provider by provider, and how much it refused."""
    lines = []
    for one in made.gathered:
        instances = len({offer.instance for offer in one.offers})
        lines.append(f"{one.provider}: {so_many(len(one.offers), 'price')} of {so_many(instances, 'instance')}")
        if one.shapes:
            lines.append(f"  {so_many(len(one.shapes), 'instance')} not on record before: {', '.join(sorted(one.shapes)[:6])}")
        for file in made.merged:
            if file.path.stem != one.provider:
                continue
            past = f", {so_many(file.historical, 'older one')} kept as historical" if file.historical else ""
            rest = f", {so_many(file.kept, 'other')} left as before" if file.kept else ""
            lines.append(
                f"  written to {file.path}: {file.new:,} new, {file.changed:,} changed, {file.same:,} the same{past}{rest}"
            )
            if file.comments:
                lines.append(f"  its comments are in {file.path}.bak only")
    refused = sum(len(flag.lines) for flag in made.flags if flag.refused)
    flagged = sum(len(flag.lines) for flag in made.flags if not flag.refused)
    lines.append(f"{so_many(refused, 'row')} refused and {flagged:,} flagged, for {so_many(len(made.flags), 'reason')}")
    if dry:
        lines.append(f"nothing was written to {folder} (--dry-run)")
    return "\n".join(lines) + "\n"


def import_record(made: ImportOutcome, dry: bool) -> dict[str, object]:
    """The same as plain data."""
    return {
        "written": not dry,
        "providers": [
            {
                "provider": one.provider,
                "prices": [
                    {
                        "instance": offer.instance, "region": offer.region, "kind": offer.kind, "status": offer.status,
                        "usd_per_s": offer.usd_per_hour / 3600, "note": offer.note,
                    }
                    for offer in one.offers
                ],
                "new_instances": sorted(one.shapes),
            }
            for one in made.gathered
        ],
        "files": [{**file.__dict__, "path": str(file.path)} for file in made.merged],
        "flags": [
            {"code": flag.code, "message": flag.message, "file": flag.file, "lines": list(flag.lines), "refused": flag.refused}
            for flag in made.flags
        ],
        "notes": list(made.notes),
    }  # fmt: skip
