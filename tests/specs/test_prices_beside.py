"""A fee on top of the machine of another provider is priced with it, part by part, on the terms of the machine."""

import pytest

from gpuplan.errors import UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.offers import Terms, offers_of, price_for
from gpuplan.specs.on import parse_target

HOUR = 3600
SOURCE = "sources:\n  page: {title: a page, url: https://example.com, checked: 2026-11-01, kind: price}\n"
SHAPE = """    source: page
    accelerator: l4
    accelerators: 1
    scale_up: {kind: none}
    network: {kind: ethernet}
"""


def family(provider, name):
    return f"format: 1\nid: one\nname: {provider}\n{SOURCE}provider: {provider}\ninstances:\n  - name: {name}\n{SHAPE}"


def prices(provider, rows, credit=""):
    return f"format: 1\nid: {provider}\nname: {provider}\n{SOURCE}default_region: here\n{credit}offers:\n" + "".join(
        f"  - {{{row}, source: page}}\n" for row in rows
    )


MACHINE = [
    "instance: box, region: here, kind: on_demand, price: 2 USD/h, date: 2026-10-02",
    "instance: box, region: there, kind: on_demand, price: 3 USD/h, date: 2026-10-02",
    "instance: box, region: here, kind: spot, price: 1 USD/h, date: unknown",
    "instance: box, region: here, kind: reserved_3yr, price: 1.5 USD/h, date: 2026-09-01, status: historical",
]
FEE = "instance: box.jobs, region: any, kind: credits, credits_per_hour: 4, credit: 0.25 USD, beside: 'below:box', date: 2026-10-01"
CREDIT = "credit: {name: unit, source: page, low: 0.1 USD, high: 0.9 USD}\n"


@pytest.fixture
def catalog(tmp_path):
    files = {
        "instances/below/one.yaml": family("below", "box"), "prices/below.yaml": prices("below", MACHINE),
        "instances/above/one.yaml": family("above", "box.jobs"), "prices/above.yaml": prices("above", [FEE], CREDIT),
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return Catalog.open([tmp_path], env={"HOME": "/nonexistent"})


def test_each_current_price_of_the_machine_makes_one_with_both_parts(catalog):
    target = parse_target("above:box.jobs", catalog)
    made = {(one.kind, one.region): one for one in offers_of(target.instance, catalog)}
    assert {at: one.price.value * HOUR for at, one in made.items()} == pytest.approx(
        {("on_demand", "here"): 3.0, ("on_demand", "there"): 4.0, ("spot", "here"): 2.0}
    )
    usual = made["on_demand", "here"].price
    assert usual.find("price.machine").value * HOUR == pytest.approx(2.0)
    assert usual.find("price.on_top").value * HOUR == pytest.approx(1.0)
    assert usual.find("price.on_top").spread is None  # The unit's own price there, not the spread of the list.


def test_the_day_is_that_of_the_older_price_and_unknown_where_one_is(catalog):
    target = parse_target("above:box.jobs", catalog)
    made = {one.kind: one.entry.date for one in offers_of(target.instance, catalog)}
    assert made == {"on_demand": "2026-10-01", "spot": None}


def test_terms_that_the_machine_has_not_are_an_error(catalog):
    target = parse_target("above:box.jobs", catalog)
    assert price_for(target, catalog, Terms(region="there")).price.value * HOUR == pytest.approx(4.0)
    with pytest.raises(UnknownError, match="reserved 3yr price"):
        price_for(target, catalog, Terms("reserved_3yr"))


def test_databricks_units_and_the_machine_are_apart():
    shipped = Catalog.open(env={"HOME": "/nonexistent"})
    offer = price_for(parse_target("databricks:g5.12xlarge.jobs", shipped), shipped)
    parts = {name: offer.price.find(f"price.{name}").value * HOUR for name in ("machine", "on_top")}
    assert parts == pytest.approx({"machine": 5.672, "on_top": 7.688711 * 0.15})
    dearer = price_for(parse_target("databricks:g5.12xlarge.all-purpose", shipped), shipped)
    assert dearer.price.find("price.on_top").value * HOUR == pytest.approx(7.688711 * 0.55)
