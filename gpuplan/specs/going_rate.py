"""What is the going rate of a machine that nobody named a cloud for: the cheapest offer that makes all of it?

Kinds of offer are kept apart: pods of one accelerator make no node, and nodes without a network of that kind no cluster.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UnknownError
from gpuplan.formulas.cost import usd_per_s_each, usd_per_s_of_all
from gpuplan.record import Record
from gpuplan.specs.instance import Instance
from gpuplan.specs.offers import USUAL, StreetPrice, Terms, in_its_region, instances_with, offers_on, undated_last
from gpuplan.specs.price import Offer
from gpuplan.term import Source, Term
from gpuplan.units import human

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.target import Target


class Shape(Record):
    """What offers must have to make a machine: how many accelerators, how many of them in a node, and what joins the nodes.

    `node` is 0 where all are in one; `bandwidth` (0: nothing need join nodes) is what one accelerator sends between nodes, in B/s.
    """

    accelerator: str
    count: int
    node: int = 0
    bandwidth: float = 0.0

    @classmethod
    def of(cls, target: Target) -> Shape:
        """That of a target."""
        if target.unjoined is not None:
            return cls(target.accelerator.id, target.count, target.unjoined.reach)
        inner = target.levels[0].size if target.levels else None
        if inner is None or inner >= target.count:
            return cls(target.accelerator.id, target.count)
        outer = float(target.levels[-1].bandwidth_per_direction.value)
        return cls(target.accelerator.id, target.count, int(inner), outer)

    def made_of(self, instance: Instance) -> bool:
        """Whether so many of an instance as it takes have the links of such a machine.

        In a node as many accelerators must reach each other as in its own, and between nodes they must send as much.
        """
        up, network = instance.shape.scale_up, instance.shape.network
        joined = 1 if up.kind == "none" else max(up.domain or 0, int(instance.accelerators))
        if joined >= self.count:
            return True
        if not self.node or joined < self.node:
            return False
        if not self.bandwidth:
            return True
        sent = network.accelerator_bandwidth or network.bandwidth
        return sent is not None and sent.value / instance.accelerators >= self.bandwidth

    def said(self) -> str:
        """The machine in words, such as `64 x h100-sxm-80gb in nodes of 8, each with 50.0 GB/s between nodes`."""
        all_of = f"{self.count} x {self.accelerator}"
        if self.count == 1:
            return self.accelerator
        if not self.node:
            return f"{all_of} in one node"
        if not self.bandwidth:
            return f"{all_of} in nodes of {self.node}"
        return f"{all_of} in nodes of {self.node}, each with {human(self.bandwidth, 'B/s')} between nodes"


def going_rate(target: Target, catalog: Catalog, terms: Terms = USUAL) -> StreetPrice:
    """The cheapest rate on some terms at which instances make a target, for each of its accelerators; markets do not count.

    Instances are paid whole, also where the target needs a part of the last one. Undated rates are taken only where no dated one is
    on record, or where those leave accelerators of the last instance unused and cost more. Of what is current in a user's file, the
    shipped price of the same instance does not count.

    Raises:
        UnknownError: no cloud on record sells what makes the target, on those terms.
    """
    shape = Shape.of(target)
    best = catalog.once(("going rate", shape, terms), lambda: _cheapest(shape, catalog, terms))
    if best is not None:
        return best
    young = f", none from {terms.since} or later" if terms.since else ""
    what = f"no {'current ' if terms.on is None else ''}{terms.said(shape.said())} is on record{young}"
    raise UnknownError(Problem("price.unknown", what, "give the price of an accelerator-hour"))


def _cheapest(shape: Shape, catalog: Catalog, terms: Terms) -> StreetPrice | None:
    found = [
        _rate(shape, instance, offer, offer.price)
        for instance in instances_with(shape.accelerator, catalog)
        if instance.accelerators >= 1 and instance.shape.status == "offered" and shape.made_of(instance)
        if in_its_region(instance, catalog, terms)
        for offer in offers_on(instance, catalog, terms)
        if offer.price is not None
    ]
    best = min(found, key=lambda one: undated_last(one.price, one.offer), default=None)
    if best is None or not _left_over(shape, best):
        return best
    # A machine of the size that is asked for is the better rate than a part of a larger one, though its price has no date.
    return min((one for one in found if one is best or not _left_over(shape, one)), key=lambda one: float(one.price.value))


def _left_over(shape: Shape, rate: StreetPrice) -> bool:
    """Whether accelerators of the last instance are paid for and not used."""
    return shape.count % rate.instance.accelerators != 0


def _rate(shape: Shape, instance: Instance, offer: Offer, price: Term) -> StreetPrice:
    """What each accelerator of the machine costs where it is made of whole instances at an offer."""
    paid = ceil(shape.count / instance.accelerators)
    told = Source("derived", f"whole {instance.qualified_name} that make {shape.count} accelerators")
    units = Term("price.units", float(paid) * (1.0 if offer.per == "instance" else instance.accelerators), "1", told)
    whole = usd_per_s_of_all.term("price.usd_per_s", price=price, units=units)
    parts = Term("price.accelerators", float(shape.count), "1", Source("derived", "accelerators that are asked about"))
    return StreetPrice(usd_per_s_each.term("hw.price", price=whole, parts=parts), instance, offer)
