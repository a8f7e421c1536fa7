"""What are the rows and columns of a list of accelerators, systems, instances, prices, engines or measurements?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.browse.partial_read import NOTHING, Cell, PartialSpec, read_keys
from gpuplan.browse.query import DATE, TEXT, Column, Row
from gpuplan.record import Record
from gpuplan.specs.accelerator import RATE_NAMES
from gpuplan.specs.catalog import KINDS, ONE
from gpuplan.strict_yaml import Path_, read_text
from gpuplan.units import human

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.price import Offer, PriceKind


class Listing(Record, eq=False):
    """The columns of a kind, those that are shown when none are asked for, and how a file becomes rows.

    `words` are the top-level keys in which a text is looked for, next to the row itself. Where a file has several entries,
    `split` gives them, and `keys` are what it reads.
    """

    columns: tuple[Column, ...]
    shown: tuple[str, ...]
    words: tuple[str, ...] = ()
    split: Callable[[PartialSpec], Iterator[PartialSpec]] | None = None
    keys: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The column that names a row: the first one."""
        return self.columns[0].name


def rows_of(catalog: Catalog, kind: str, wanted: Collection[Column], words: Sequence[str] = ()) -> list[Row]:
    """The rows of a kind with the wanted columns, in the order of their ids; only those in which every word occurs.

    Raises:
        SpecError: a file is wrong in what was read of it.
    """
    listing = LISTINGS[kind]
    columns = list(dict.fromkeys([listing.columns[0], *wanted]))
    low = [word.lower() for word in words]
    keys: set[Path_] = {(key,) for key in listing.keys} or {key for column in columns for key in column.keys}
    keys |= {(key,) for key in (listing.words if low else ())}
    priced = any(column.name in _PRICED for column in columns) if kind == "instances" else False
    prices = _Prices(catalog) if priced else None
    rows: list[Row] = []
    for ident, path, text in _texts(catalog, kind):
        if not all(word in f"{ident}\n{text}".lower() for word in low):
            continue
        seen = read_keys(path, keys, text)
        about = [ident, *(str(seen.data.get(key, "")) for key in listing.words)] if low else []
        for entry in listing.split(seen) if listing.split is not None else (seen,):
            row = {column.name: column.get(entry) for column in columns}
            if prices is not None:
                row |= prices.cells(str(entry.at("provider")), entry)
            said = "\n".join([*about, *(cell.text for cell in row.values())]).lower()
            if all(word in said for word in low):
                rows.append(row)
    return rows


def _texts(catalog: Catalog, kind: str) -> Iterator[tuple[str, Path, str]]:
    """Id, path and text of every file; of prices those of every folder, as a user's prices leave the shipped ones be."""
    if kind != "prices":
        yield from catalog.texts(kind)
        return
    for folder in catalog.folders:
        root = folder / kind
        for path in sorted(root.rglob("*.yaml")) if root.is_dir() else ():
            yield path.stem, path, read_text(path)


def _word(name: str, about: str, *at: str, head: str = "") -> Column:
    return Column(name, TEXT, about, (at[:2],), lambda one: one.word(*at), head)


def _date(name: str, about: str, *at: str, head: str = "") -> Column:
    return Column(name, DATE, about, (at[:2],), lambda one: one.word(*at), head)


def _measure(name: str, unit: str, about: str, *at: str, head: str = "", absent: bool = False) -> Column:
    return Column(name, unit, about, (at[:2],), lambda one: one.measure(unit, *at), head, absent)


def _half(one: PartialSpec) -> Cell:
    """The bf16 rate, otherwise that of fp16."""
    found = one.measure("FLOP/s", "compute_dense", "bf16")
    return found if found.value is not None else one.measure("FLOP/s", "compute_dense", "fp16")


def _dtypes(one: PartialSpec) -> Cell:
    """The data types with a rate, one after the other."""
    rates = one.at("compute_dense") or {}
    names = " ".join(name for name in RATE_NAMES if rates.get(name) is not None)
    return Cell(names, names) if names else NOTHING


def _items(key: str, *common: str) -> Callable[[PartialSpec], Iterator[PartialSpec]]:
    """Each item of a list in a file as an entry of its own, with some keys of the file."""

    def split(one: PartialSpec) -> Iterator[PartialSpec]:
        shared = {name: one.at(name) for name in common}
        for place, item in enumerate(one.at(key) or ()):
            if isinstance(item, dict):
                yield PartialSpec(one.path, {**item, **shared}, one.lines, (key, place))

    return split


def _usually(name: str, about: str, usual: str) -> Column:
    """A word with a default."""

    def get(one: PartialSpec) -> Cell:
        found = one.word(name)
        return found if found.text else Cell(usual, usual)

    return Column(name, TEXT, about, get=get)


def _named(one: PartialSpec, key: str) -> Cell:
    return Cell(name := f"{one.at('provider') or one.at('id')}:{one.at(key)}", name)


class _Prices:
    """The current price of each instance, by provider, as a question without a region takes it."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.offers: dict[str, dict[str, list[Offer]]] = {}
        self.usual: dict[str, str] = {}

    def cells(self, provider: str, entry: PartialSpec) -> Row:
        """Price, price per accelerator, region, date and terms; all nothing where no current price is on record."""
        from gpuplan.formulas.cost import usd_per_s_each, usd_per_s_of_all
        from gpuplan.specs.offers import choose

        count = entry.measure("1", "accelerators").value
        offers = self._of(provider).get(str(entry.at("name")), [])
        if not offers or not isinstance(count, float) or count <= 0:
            return _UNPRICED
        usual = self.usual[provider]
        offer = next((found for kind in _KINDS if (found := choose(offers, kind, None, usual))), None)
        if offer is None or offer.price is None:
            return _UNPRICED
        price = float(offer.price.value)
        by_instance = offer.per == "instance"
        whole = price if by_instance else float(usd_per_s_of_all(price=price, units=count))
        each = float(usd_per_s_each(price=price, parts=count)) if by_instance else price
        cells = {"price": Cell(whole, human(whole, "USD/s")), "price_each": Cell(each, human(each, "USD/s"))}
        words = {"region": offer.region, "price_date": offer.entry.date, "price_kind": offer.kind}
        return cells | {name: Cell(word, word) if word else NOTHING for name, word in words.items()}

    def _of(self, provider: str) -> dict[str, list[Offer]]:
        """The current offers of a provider by instance."""
        from gpuplan.specs.offers import offers_of_entry, price_lists

        if provider not in self.offers:
            made: dict[str, list[Offer]] = {}
            for rank, prices in price_lists(self.catalog, provider):
                self.usual[provider] = prices.default_region
                for one in prices.offers:
                    if one.status == "current" and one.kind in _KINDS:
                        made.setdefault(one.instance, []).extend(
                            offers_of_entry(prices, one, rank, self.catalog, one.kind if one.beside is None else "on_demand")
                        )
            self.offers[provider] = made
        return self.offers[provider]


_KINDS: tuple[PriceKind, ...] = ("on_demand", "credits", "market")
"""The terms that a question without `--kind` takes, in this order."""
_PRICED = ("price", "price_each", "region", "price_date", "price_kind")
_UNPRICED: Row = dict.fromkeys(_PRICED, NOTHING)


def _amount(one: PartialSpec) -> Cell:
    if one.at("kind") == "free":
        return Cell(None, "free")
    if one.at("price") is not None:
        return one.measure("USD/s", "price")
    credits = one.measure("1", "credits_per_hour")
    return Cell(None, f"{credits.text} credits/h" if credits.text else "")


def _levels(one: PartialSpec) -> Cell:
    """The sizes of the levels of a cluster, and where they are thinner than below: `16, 3072, 24576 (7:1)`."""
    parts: list[str] = []
    found = one.at("levels")
    for at in range(len(found) if isinstance(found, (list, tuple)) else 0):
        size, factor = one.word("levels", at, "size").text or "any", one.word("levels", at, "oversubscription").text
        parts.append(size + (f" ({factor}:1)" if factor not in ("", "1") else ""))
    said = ", ".join(parts)
    return Cell(said, said) if said else NOTHING


def _plain(kind: str) -> Listing:
    one = ONE[kind].split()[0]
    columns = (_word(one, "the id of the file", "id"), _word("name", "what people call it", "name"))
    return Listing(columns, (one, "name"), ("aliases",))


_HALF = (("compute_dense", "bf16"), ("compute_dense", "fp16"))
_RATES = tuple(
    _measure(name, "FLOP/s", f"dense {name} rate", "compute_dense", name, absent=True) for name in RATE_NAMES
)  # fmt: skip

LISTINGS: dict[str, Listing] = {
    "accelerators": Listing(
        (
            _word("id", "the id of the file", "id"),
            _measure("memory", "B", "capacity as the vendor means it", "memory", "capacity"),
            _measure("memory_reported", "B", "capacity as the driver reports it", "memory", "capacity_reported", head="reported"),
            _word("memory_type", "HBM3, GDDR6 …", "memory", "type"),
            _measure("bandwidth", "B/s", "memory bandwidth", "memory", "bandwidth"),
            Column("half", "FLOP/s", "dense bf16 rate, otherwise fp16", _HALF, _half, "bf16 or fp16", True),
            *_RATES,
            _measure("power", "W", "power limit", "power"),
            _date("released", "when it was announced or could be had", "released", head="since"),
            _measure("l2", "B", "the cache that all units share", "l2", head="L2"),
            _measure("scale_up", "B/s", "own links, one way", "scale_up", "bandwidth_per_direction", head="scale-up"),
            _measure("domain", "1", "accelerators that the own links join", "scale_up", "domain"),
            _measure("pcie", "B/s", "host link, one way", "pcie", "bandwidth_per_direction", head="PCIe"),
            _word("capability", "NVIDIA's compute capability", "compute_capability"),
            _word("vendor", "who makes it", "vendor"),
            _word("family", "architecture family", "family"),
            _word("architecture", "the vendor's name of architecture and chip", "architecture"),
            _word("form", "SXM5, OAM, PCIe …", "form_factor"),
            _word("unit", "what all figures are for: gpu, die, board …", "unit"),
            Column("dtypes", TEXT, "data types with a rate", (("compute_dense",),), _dtypes),
            _word("serves_only", "what says that it is for inference alone", "serves_only"),
            _word("name", "what people call it", "name"),
        ),
        ("id", "memory", "bandwidth", "half", "fp8", "power", "released", "name"),
        ("name", "aliases", "driver_names", "vendor", "architecture", "family", "form_factor"),
    ),
    "systems": Listing(
        (
            _word("system", "the id of the file", "id"),
            _measure("count", "1", "how many accelerators it has", "accelerators"),
            _word("accelerator", "the id of its accelerator", "accelerator"),
            _word("form", "node, rack, pod …", "form"),
            _measure("hosts", "1", "how many host computers it has", "hosts"),
            Column("fabric", TEXT, "the innermost level", (("fabric",),), lambda one: one.word("fabric", 0, "name")),
            Column("scale_up", "B/s", "the innermost level, one way per accelerator", (("fabric",),),
                   lambda one: one.measure("B/s", "fabric", 0, "bandwidth_per_direction"), "scale-up"),
            _word("scale_out", "the network between systems", "scale_out", "kind", head="scale-out"),
            _measure("host_memory", "B", "main memory", "host", "memory"),
            _measure("power", "W", "rated maximum", "power", "maximum"),
            _word("name", "what people call it", "name"),
        ),
        ("system", "count", "accelerator", "form", "name"),
        ("name", "aliases"),
    ),
    "instances": Listing(
        (
            Column("instance", TEXT, "provider and name", get=lambda one: _named(one, "name")),
            _measure("count", "1", "how many accelerators it has", "accelerators"),
            _word("accelerator", "the id of its accelerator", "accelerator"),
            Column("price", "USD/s", "current on-demand price of an hour"),
            Column("price_each", "USD/s", "the same for one accelerator", head="for each"),
            _measure("vcpus", "1", "virtual processors", "vcpus"),
            _measure("host_memory", "B", "main memory", "memory"),
            _usually("status", "offered, closed or retired", "offered"),
            Column("price_date", DATE, "when the price was read"),
            Column("price_kind", TEXT, "on_demand, credits or market"),
            Column("region", TEXT, "whose price it is"),
            _measure("disk", "B", "local disks together", "local_disk"),
            _word("scale_up", "how its accelerators reach each other", "scale_up", "kind", head="scale-up"),
            _word("network", "network between instances", "network", "kind"),
            _measure("network_bandwidth", "B/s", "of the whole instance, one way", "network", "bandwidth"),
            _word("system", "the system with the same board", "system"),
            _word("provider", "who rents it out", "provider"),
        ),
        ("instance", "count", "accelerator", "price", "price_each", "vcpus", "host_memory", "status"),
        ("name", "id"),
        _items("instances", "provider"),
        ("provider", "instances"),
    ),
    "prices": Listing(
        (
            Column("instance", TEXT, "provider and instance", get=lambda one: _named(one, "instance")),
            Column("price", "USD/s", "what an hour costs", get=_amount),
            _usually("per", "instance, accelerator or chip", "instance"),
            _date("date", "when it was read", "date"),
            _word("kind", "on_demand, spot, reserved_1yr …", "kind"),
            _usually("status", "current, historical, promo or doubtful", "current"),
            _word("region", "the provider's code, or any", "region"),
            _word("provider", "who asks for it", "id"),
        ),
        ("instance", "price", "per", "date", "kind", "status", "region"),
        ("name",),
        _items("offers", "id"),
        ("id", "offers"),
    ),
    "networks": Listing(
        (
            _word("network", "the id of the file", "id"),
            _measure("port", "B/s", "what one port sends, one way", "port_bandwidth"),
            _word("protocol", "infiniband, roce, efa, ethernet …", "protocol"),
            _measure("latency", "s", "a small message from end to end", "latency"),
            _measure("switch_latency", "s", "what one switch adds", "switch_latency", head="switch"),
            _word("in_network_reduction", "whether switches can add", "in_network_reduction", head="adds"),
            _measure("effective", "1", "share of it that collectives reach", "effective_share"),
            _word("confidence", "how well the sources agree", "confidence"),
            _word("name", "what people call it", "name"),
        ),
        ("network", "port", "protocol", "latency", "in_network_reduction", "name"),
        ("name", "aliases"),
    ),
    "clusters": Listing(
        (
            _word("cluster", "the id of the file", "id"),
            _measure("count", "1", "how many accelerators it has", "accelerators"),
            _word("accelerator", "the id of its accelerator", "accelerator"),
            _word("system", "the id of its node", "system"),
            Column("levels", TEXT, "sizes beyond the node, and where thinner", (("levels",),), _levels),
            Column("scale_out", "B/s", "what one sends beyond its node", (("levels",),),
                   lambda one: one.measure("B/s", "levels", 0, "bandwidth_per_direction"), "scale-out"),
            _word("confidence", "how well the sources agree", "confidence"),
            _word("name", "what people call it", "name"),
        ),
        ("cluster", "accelerator", "count", "levels", "scale_out", "name"),
        ("name", "aliases"),
    ),
    "measured": Listing(
        (
            _word("measured", "the id of the file", "id"),
            _word("describes", "accelerator, family or fabric", "describes"),
            _date("date", "when the rows were taken or published", "measured"),
            _word("name", "what people call it", "name"),
        ),
        ("measured", "date", "name"),
    ),
}  # fmt: skip
LISTINGS |= {kind: _plain(kind) for kind in KINDS if kind not in LISTINGS and kind != "models"}
"""The kinds that can be listed."""
