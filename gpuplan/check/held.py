"""Which rules is a loaded file of each kind held to?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuplan.check.cards import card_names, cards
from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile, SpecLibrary
from gpuplan.check.clusters import clusters, ports
from gpuplan.check.instance_sizes import sizes
from gpuplan.check.links import links
from gpuplan.check.measured import measured
from gpuplan.check.memory import memory
from gpuplan.check.mig import mig
from gpuplan.check.names import names
from gpuplan.check.networks import networks
from gpuplan.check.price_series import series
from gpuplan.check.prices import PriceGroup, price_groups, prices
from gpuplan.check.products import products
from gpuplan.check.rates import rates
from gpuplan.check.shipped import against_shipped
from gpuplan.check.sources import reading, sources
from gpuplan.check.system_shapes import shapes
from gpuplan.check.systems import instances, systems
from gpuplan.files.progress import steps
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.measured import Measured
from gpuplan.specs.network import Network
from gpuplan.specs.price import PriceList
from gpuplan.specs.system import System


def held_to_rules(library: SpecLibrary, models: Sequence[LoadedCard] = ()) -> Iterator[Finding]:
    """What is wrong with the files of the library and with model cards: by themselves, and against each other."""
    yield from names(library)
    known = price_groups(library) if any(one.kind == "prices" for one in library.files) else {}
    # What one file alone holds is told by the rules that go through it.
    for one in steps(library.files, "spec files checked") if len(library.files) > 1 else library.files:
        yield from _of_one(one, library, known)
    yield from card_names(models)
    for card in steps(models, "models checked"):
        yield from cards(card, library)
        yield from against_shipped(card, library)


def _of_one(one: LoadedFile, library: SpecLibrary, known: Mapping[tuple[str, str], PriceGroup]) -> Iterator[Finding]:
    if one.kind == "rules":
        yield from reading(one, one.spec.sources, library)
        return
    yield from sources(one, library)
    yield from against_shipped(one, library)
    if isinstance(one.spec, Accelerator):
        found, wrong = rates(one, one.spec, library)
        yield from found
        yield from memory(one, one.spec, wrong)
        yield from links(one, one.spec, library)
        yield from mig(one, one.spec)
        yield from products(one, one.spec, library)
    elif isinstance(one.spec, System):
        yield from systems(one, one.spec, library)
        yield from ports(one, one.spec, library)
        yield from shapes(one, one.spec, library)
    elif isinstance(one.spec, Cluster):
        yield from clusters(one, one.spec, library)
    elif isinstance(one.spec, Network):
        yield from networks(one, one.spec, library)
    elif isinstance(one.spec, InstanceFamily):
        yield from instances(one, one.spec, library)
        yield from sizes(one, one.spec, library)
    elif isinstance(one.spec, Measured):
        yield from measured(one, one.spec, library)
    elif isinstance(one.spec, PriceList):
        refused = list(prices(one, one.spec, library, known))
        yield from refused
        yield from series(one, one.spec, library, {found.where for found in refused})
