"""Every shipped price is dated or marked, none is zero, and only current ones are used."""

import pytest

from gpuplan.errors import Exit, UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.offers import Terms, choose, offers_of, price_for, street_price, usd_per_s
from gpuplan.specs.on import parse_target
from gpuplan.specs.price import PriceList
from gpuplan.specs.target_by_name import find_instance

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
LISTS = {ident: CATALOG.read(PriceList, path) for ident, path in CATALOG.paths("prices").items()}
HOUR = 3600


def hourly(text, **kwargs):
    target = parse_target(text, CATALOG)
    return usd_per_s(target, price_for(target, CATALOG, Terms(**kwargs))).value * HOUR


@pytest.mark.parametrize("provider", LISTS)
def test_no_price_is_zero_or_a_sign_for_unknown(provider):
    for entry in LISTS[provider].offers:
        if entry.kind == "free":
            assert entry.price is None
            continue
        given = entry.price or entry.credits_per_hour
        assert given is not None
        assert given.value > 0
        if entry.price is not None:
            assert entry.price.value * HOUR != pytest.approx(700.0)


@pytest.mark.parametrize("provider", LISTS)
def test_every_offer_is_of_a_known_instance_and_current_spot_is_not_above_on_demand(provider):
    known = {
        shape.name: shape
        for ident, path in CATALOG.paths("instances").items()
        if ident.startswith(f"{provider}/")
        for shape in CATALOG.read(InstanceFamily, path).instances
    }
    prices = LISTS[provider]
    for entry in prices.offers:
        assert entry.instance in known
        if known[entry.instance].status == "retired":
            assert entry.status != "current"
    for spot in prices.offers:
        if spot.kind != "spot" or spot.status != "current":
            continue
        instance = find_instance(f"{provider}:{spot.instance}", CATALOG)
        assert instance is not None
        asked = choose(offers_of(instance, CATALOG), "on_demand", spot.region, prices.default_region)
        if asked is None or asked.price is None or spot.price is None:
            continue
        units = 1 if asked.per == spot.per else instance.accelerators
        assert spot.price.value <= asked.price.value * units * 1.0001


def test_one_current_price_for_each_instance_region_and_kind():
    for provider, prices in LISTS.items():
        current = [(one.instance, one.region, one.kind) for one in prices.offers if one.status == "current"]
        assert len(current) == len(set(current)), provider


def test_p5_has_a_price_with_date_and_source():
    target = parse_target("64xaws:p5.48xlarge", CATALOG)
    offer = price_for(target, CATALOG)
    assert offer.price is not None
    assert offer.price.value * HOUR == pytest.approx(55.04)
    assert (offer.region, offer.kind, offer.per, offer.date, offer.status) == (
        "us-east-1", "on_demand", "instance", "2026-07-20", "current",
    )  # fmt: skip
    assert offer.price.unit == "USD/s"
    assert offer.price.source.kind == "price"
    assert offer.price.source.url.startswith("https://")
    assert offer.price.source.checked == "2026-11-20"
    assert usd_per_s(target, offer).value * HOUR == pytest.approx(64 * 55.04)


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        ("aws:p4d.24xlarge", 21.957642),
        ("aws:g5.48xlarge", 16.288),
        ("azure:Standard_ND96isr_H100_v5", 98.32),
        ("gcp:a3-highgpu-8g", 88.49),
        ("tpu-v5e-8", 9.6),
        ("2xtpu-v5p-256", 2 * 128 * 4.2),
        ("crusoe:l40s", 1.0),
        ("aws-sagemaker:ml.p5.48xlarge", 63.296),
        ("colab:t4", 1.07 * 0.0999),
        ("snowflake:GPU_NV_S", 0.57 * 3),
    ],
)
def test_prices_of_some_targets(text, usd):
    assert hourly(text) == pytest.approx(usd)


def test_kinds_and_regions():
    assert hourly("aws:p5.48xlarge", kind="spot") == pytest.approx(16.9508)
    assert hourly("tpu-v5e-8", kind="reserved_3yr") == pytest.approx(8 * 0.54)
    credit = price_for(parse_target("snowflake:GPU_NV_S", CATALOG), CATALOG)
    assert credit.price is not None
    assert credit.price.spread is not None
    assert [end * HOUR for end in credit.price.spread] == pytest.approx([0.57 * 2, 0.57 * 4])


@pytest.mark.parametrize(
    ("text", "kwargs"),
    [
        ("aws:trn2.48xlarge", {}),
        ("aws:trn2.48xlarge", {"kind": "capacity_block"}),
        ("azure:Standard_NC6", {}),
        ("kaggle:gpu-t4-x2", {}),
        ("dgx-h100", {}),
        ("8xh100", {}),
        ("aws:p5.48xlarge", {"region": "eu-west-9"}),
        ("aws:p5.48xlarge", {"kind": "reserved_1yr"}),
    ],
)
def test_a_missing_price_is_an_error_that_says_so_and_never_zero(text, kwargs):
    with pytest.raises(UnknownError, match="no price for") as caught:
        price_for(parse_target(text, CATALOG), CATALOG, Terms(**kwargs))
    assert caught.value.exit_code is Exit.UNKNOWN
    assert caught.value.problems[0].hint


def test_the_street_price_is_the_cheapest_dated_on_demand_rate():
    street = street_price("h100-sxm-80gb", CATALOG)
    assert 1 < street.price.value * HOUR < 5
    assert street.offer.kind == "on_demand"
    assert street.offer.status == "current"
    assert street.offer.date != "undated"
    assert street.instance.shape.accelerator == "h100-sxm-80gb"
    with pytest.raises(UnknownError):
        street_price("cpu-epyc-9654", CATALOG)
