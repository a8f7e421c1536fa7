"""What does the place of a question say of money and power: owning, spot, commitments, credits, its site and its grid?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.errors import Note, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.estimate.money import MONTH, Money, Owned, Spot
from gpuplan.formulas import owning
from gpuplan.formulas.cost import usd_per_s_each
from gpuplan.plan.ask_money import Spending
from gpuplan.plan.common import Common
from gpuplan.plan.option import entries, grouped
from gpuplan.record import Record, replace
from gpuplan.term import DEFINITION, USER, Source, Term, total
from gpuplan.units import YEAR, UnitError, human, is_number, parse

if TYPE_CHECKING:
    from gpuplan.machine.hardware import Hardware
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.target import Target

_YEAR = Term("year", YEAR, "s", DEFINITION)
_TERMS = {"reserved_1yr": 1, "reserved_3yr": 3}
"""Years that kinds of price bind to."""
USUAL = "usual"


class Spent(Record):
    """What a place says of money, the price that its costs are told at, and what is to be said of both."""

    money: Money | None
    price: Term | None
    notes: tuple[Note, ...] = ()


def money_of(ask: Common, target: Target, hw: Hardware, catalog: Catalog, rent: Term | None) -> Spent:
    """What the place of a question says of money; `rent` is the price of an accelerator where it is rented, None if not known.

    Raises:
        UsageError: an option that means nothing without another, or a grid that is none.
        UnknownError: no grid of that name is on record.
    """
    if not isinstance(ask, Spending):
        return Spent(None, rent)
    _alone(ask)
    chips = Term("plan.accelerators", float(target.count), "1", Source("derived", f"accelerators in {target.text}"))
    pue, notes = _pue(ask, target, catalog)
    money = Money(
        accelerators=chips, pue=pue, grid=_grid(ask, catalog),
        credits=None if ask.credits is None else Term("plan.credits", ask.credits, "USD", USER),
        spot=_spot(ask, target),
    )  # fmt: skip
    if ask.own is not None:
        owned, price, more = _owned(ask, ask.own, target, hw, catalog, rent, pue)
        return Spent(money.replaced(owned=owned), price, (*notes, *more))
    years = _TERMS.get(ask.price_kind or "")
    if years is not None and rent is not None:
        source = Source("definition", f"the term of {(ask.price_kind or '').replace('_', ' ')} prices")
        money = money.replaced(commitment=Term("plan.commitment", years * YEAR, "s", source))
        told = f"{years} year{'s' if years > 1 else ''} are paid whether the machines run or not: `committed` is all of it"
        notes = (*notes, Note("price.committed", told, "cost is that of the time in use alone"))
    return Spent(money, rent, notes)


def _alone(ask: Common) -> None:
    """Refuse what means nothing without another option.

    Raises:
        UsageError: all of it together.
    """
    kind, problems = type(ask), []
    needs = [(name, "own", "--own 300k") for name in grouped(kind, "own")]
    needs += [("spot_wait", "spot_life", "--spot-life 6h")]
    for name, other, hint in needs:
        if getattr(ask, name) is not None and getattr(ask, other) is None:
            flag = entries(kind)[name].flag
            problems.append(Problem("usage.alone", f"{flag} means nothing without {entries(kind)[other].flag}", f"add {hint}"))
    life = getattr(ask, "spot_life", None)
    if life is not None and ask.price_kind != "spot" and ask.price is None:
        hint = "add --price-kind spot, or give the spot price with --price"
        problems.append(Problem("usage.alone", "--spot-life: the price is not that of spot instances", hint))
    if problems:
        raise UsageError(*problems)


def _pue(ask: Spending, target: Target, catalog: Catalog) -> tuple[Term | None, tuple[Note, ...]]:
    """What the site draws beside its computers: the user's, the provider's, or of bought machines what is usual; None: unknown."""
    if ask.pue is not None:
        return Term("site.pue", ask.pue, "1", USER), ()
    provider = None if target.instance is None else target.instance.provider
    if ask.own is not None:
        provider = USUAL
    if provider is None or provider not in catalog.paths("sites"):
        return None, ()
    from gpuplan.specs.site import Site

    site = catalog.load(Site, provider)
    return site.term("site.pue", site.pue, site.pue.accept), ()


def _spot(ask: Spending, target: Target) -> Spot | None:
    if ask.spot_life is None:
        return None
    told = Source("derived", f"what --on counts in {target.text}")
    return Spot(
        units=Term("plan.spot_units", float(target.units), "1", told),
        life=Term("plan.spot_life", ask.spot_life, "s", USER),
        wait=None if ask.spot_wait is None else Term("plan.spot_wait", ask.spot_wait, "s", USER),
    )


def _grid(ask: Spending, catalog: Catalog) -> Term | None:
    """The carbon of the electricity: an intensity, or that of a place on record."""
    if ask.grid is None:
        return None
    text = ask.grid.strip()
    if text[:1].isdigit() or text[:1] in ".-+":
        try:
            if is_number(text):
                raise UnitError(f"`{text}` has no unit")
            value = parse(text, "kg/J").value
        except UnitError as error:
            raise UsageError(Problem("usage.grid", f"--grid: {error}", "write for example `--grid 0.35kg/kWh`")) from None
        if value < 0:
            raise UsageError(Problem("usage.grid", f"--grid {text}: a grid takes no carbon out", "write zero or more"))
        return Term("site.grid", value, "kg/J", USER)
    from gpuplan.specs.grid import Grid

    wanted, known = text.lower().replace(" ", "-").replace("_", "-"), list[str]()
    tables = [catalog.load(Grid, ident) for ident in catalog.paths("grids")]
    for table in tables:
        for place in table.places:
            names = (place.name, *place.aliases)
            if wanted in names:
                term = table.term("site.grid", place.intensity)
                year = place.year or table.year
                return Term(term.name, term.value, term.unit, table.source_of(place.intensity, f"{place.name}, {year}"))
            known += names
    hint = did_you_mean(wanted, known) or "write a country, a region of Google Cloud, or what its operator publishes: `0.35kg/kWh`"
    raise UnknownError(Problem("grid.unknown", f"--grid {text}: no grid of that name is on record", hint))


def _owned(
    ask: Spending, paid: float, target: Target, hw: Hardware, catalog: Catalog, rent: Term | None, pue: Term | None
) -> tuple[Owned, Term, tuple[Note, ...]]:  # fmt: skip
    """A bought machine: each accelerator's part of what is paid once and of what runs, and the price of a second in use."""
    from gpuplan.specs.site import Site

    site = catalog.load(Site, USUAL)
    parts = Term("own.accelerators", float(target.per_unit), "1", Source("derived", f"accelerators in one of {target.text}"))
    zero = Source("definition", "nothing was said of it: not counted")

    def said(name: str, value: float | None, unit: str = "1") -> Term:
        return Term(f"own.{name}", value or 0.0, unit, USER if value is not None else zero)

    price = Term("own.price", paid, "USD", USER)
    bought = owning.bought_usd.term("own.bought", price=price, extras=said("network", ask.own_network))
    if ask.own_years is not None:
        life = Term("own.life", ask.own_years * YEAR, "s", USER)
    elif site.life is not None:
        life = site.term("own.life", site.life, site.life.accept)
    else:
        raise UnknownError(Problem("own.life", "how long machines are used is not on record", "give it with --own-years"))
    always = Source("definition", "always at work")
    use = Term("own.use", 1.0, "1", always) if ask.own_use is None else Term("own.use", ask.own_use, "1", USER)
    running = {
        "staff": owning.upkeep_usd_per_s.term("own.staff_usd_per_s", price=price, share=said("staff", ask.own_staff), year=_YEAR),
        "hosting": owning.hosting_usd_per_s.term(
            "own.hosting_usd_per_s", rent=said("hosting", ask.own_hosting, "USD"), month=MONTH
        ),
    }
    many = target.units
    machines = f" {many} at {human(paid, 'USD')} each, {human(many * paid, 'USD')} in all" if many > 1 else ""
    if many > 1 and target.per_unit == 1:  # A bill is of a machine: its sum is easily taken for the price of each card.
        machines += f" (--own {paid / many:.6g} where it is what all cost)"
    owning_costs = f"costs are those of owning{machines}; what renting costs is only compared with them"
    notes = [
        Note(
            "own.costs", owning_costs if paid else "nothing is paid for the machine any more: costs are those of running it alone"
        ),
        *_uncounted(ask),
    ]
    running_each = {name: usd_per_s_each.term(f"own.{name}_each", price=one, parts=parts) for name, one in running.items()}
    watts, told = _watts(target, hw)
    notes += told
    if watts is not None and pue is not None:
        idle = site.term("own.idle", site.idle, site.idle.accept) if site.idle is not None else said("idle", None)
        mean = owning.mean_watts.term("own.mean_watts", watts=watts, use=use, idle=idle)
        if ask.electricity is not None:
            cost = Term("own.electricity", ask.electricity, "USD/J", USER)
        elif site.electricity is not None:
            cost = site.term("own.electricity", site.electricity, site.electricity.accept)
        else:
            raise UnknownError(Problem("own.electricity", "what electricity costs is not on record", "give it with --electricity"))
        running_each["power"] = owning.electricity_usd_per_s.term("own.power_usd_per_s", watts=mean, pue=pue, price=cost)
    runs = total("own.running", running_each)
    if not paid and "power" not in running_each and runs.value == 0:
        what = f"what running {target.text} costs is not known: nothing was paid for it, and its power or its site is not on record"
        raise UnknownError(Problem("own.running", what, "say what it takes with --own-hosting, or what was paid with --own"))
    spread = owning.depreciation_usd_per_s.term(
        "own.depreciation", bought=bought, price=price, resale=said("resale", ask.own_resale), life=life
    )
    every = {"depreciation": usd_per_s_each.term("own.depreciation_each", price=spread, parts=parts), "running": runs}
    used = owning.usd_per_used_s.term("hw.price", price=total("own.usd_per_s", every), use=use)
    bought_each = owning.bought_usd_each.term("own.bought_each", bought=bought, parts=parts)
    paid_rent = None if rent is None else owning.rent_usd_per_s.term("own.rent", price=replace(rent, name="rent.price"), use=use)
    if paid_rent is not None and paid_rent.value <= runs.value:
        notes.append(
            Note("own.never", "renting costs less than running what is bought: buying never pays", "see --explain own.running")
        )
    elif paid_rent is None:
        notes.append(Note("own.no-rent", "no rent is known to compare with", "give one with --price, or name a cloud's instance"))
    return Owned(bought=bought_each, running=runs, rent=paid_rent), used, tuple(notes)


def _uncounted(ask: Spending) -> list[Note]:
    names = {"own_network": "network", "own_staff": "staff and repairs", "own_hosting": "hosting"}
    missing = [name for name in names if getattr(ask, name) is None]
    if not missing:
        return []
    what = ", ".join(names[name] for name in missing)
    flags = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
    return [Note("own.uncounted", f"the cost of owning is without {what}: there is no usual value", f"give {flags}")]


def _watts(target: Target, hw: Hardware) -> tuple[Term | None, list[Note]]:
    """Power of an accelerator's part of its node: the system's where it is on record, or the accelerator's alone."""
    system = target.system
    if system is not None and system.power is not None:
        found = system.power.typical or system.power.maximum
        if found is not None and target.units:
            whole = system.term("own.system_watts", found)
            count = Term("own.accelerators_of_system", float(system.accelerators.value), "1", Source("derived", f"of {system.id}"))
            return owning.node_watts_each.term("own.watts", watts=whole, parts=count), []
    if hw.power is None:
        return None, [Note("own.no-power", "the power of the machine is not on record, so its electricity is not counted")]
    note = Note("own.accelerators-alone", "the electricity is that of the accelerators: the power of their hosts is not on record")
    return hw.power, [note]
