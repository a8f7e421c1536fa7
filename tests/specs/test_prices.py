"""Every shipped price is dated or marked, none is zero, and only current ones are used."""

import pytest

from gpuplan.errors import Exit, UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.offers import (
    Terms,
    choose,
    offers_of,
    price_for,
    regions_of,
    sellers,
    street_price,
    usd_per_s,
)
from gpuplan.specs.on import parse_target
from gpuplan.specs.price import PriceList
from gpuplan.specs.read_region import region_meant
from gpuplan.specs.target_by_name import find_instance
from tests.sweeps import each

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
LISTS = {ident: CATALOG.read(PriceList, path) for ident, path in CATALOG.paths("prices").items()}
HOUR = 3600


def hourly(text, **kwargs):
    target = parse_target(text, CATALOG)
    return usd_per_s(target, price_for(target, CATALOG, Terms(**kwargs))).value * HOUR


@each("provider", LISTS)
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


@each("provider", LISTS)
def test_every_offer_is_of_a_known_instance_and_current_spot_is_not_above_on_demand(provider):
    seller = LISTS[provider].seller
    known = {
        shape.name: shape
        for ident, path in CATALOG.paths("instances").items()
        if ident.startswith(f"{seller}/")
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
        instance = find_instance(f"{seller}:{spot.instance}", CATALOG)
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
        "us-east-1", "on_demand", "instance", "2026-10-10", "current",
    )  # fmt: skip
    assert offer.price.unit == "USD/s"
    assert offer.price.source.kind == "price"
    assert offer.price.source.url.startswith("https://")
    assert offer.price.source.checked == "2026-11-23"
    assert usd_per_s(target, offer).value * HOUR == pytest.approx(64 * 55.04)


@pytest.mark.parametrize(
    ("text", "usd"),
    [
        ("aws:p4d.24xlarge", 21.9576),
        ("aws:g5.48xlarge", 16.288),
        ("azure:Standard_ND96isr_H100_v5", 98.32),
        ("gcp:a3-highgpu-8g", 88.49),
        ("tpu-v5e-8", 9.6),
        ("2xtpu-v5p-256", 2 * 128 * 4.2),
        ("crusoe:l40s", 1.5),
        ("aws-sagemaker:ml.p5.48xlarge", 63.296),
        ("colab:t4", 1.07 * 0.0999),
        ("snowflake:GPU_NV_S", 0.57 * 3),
    ],
)
def test_prices_of_some_targets(text, usd):
    assert hourly(text) == pytest.approx(usd)


def test_kinds_and_regions():
    assert hourly("aws:p5.48xlarge", kind="spot") == pytest.approx(8 * 2.598)
    assert hourly("tpu-v5e-8", kind="reserved_3yr") == pytest.approx(8 * 0.54)
    credit = price_for(parse_target("snowflake:GPU_NV_S", CATALOG), CATALOG)
    assert credit.price is not None
    assert credit.price.spread is not None
    assert [end * HOUR for end in credit.price.spread] == pytest.approx([0.57 * 2, 0.57 * 4])


@pytest.mark.parametrize(
    ("text", "kwargs"),
    [
        ("aws:trn2.48xlarge", {}),
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("crusoe:h100-sxm-80gb", "crusoe: 6, 12 or 36 months at up to 35% off"),
        ("lambda:gpu_8x_h100_sxm5", "lambda: 1-Click Clusters are reserved"),
        ("nebius:gpu-h100-sxm_8gpu-128vcpu-1600gb", "nebius: commitment discounts"),
    ],
)
def test_a_commitment_without_a_list_price_says_what_the_seller_offers(text, words):
    with pytest.raises(UnknownError) as error:
        price_for(parse_target(text, CATALOG), CATALOG, Terms("reserved_1yr"))
    assert words in str(error.value)
    assert "give yours by --price" in str(error.value)


@pytest.mark.parametrize(
    ("text", "kind", "region", "usd"),
    [
        ("gcp:a3-highgpu-8g", "reserved_1yr", "us-central1", 61.38367),
        ("gcp:a3-highgpu-8g", "reserved_3yr", "us-central1", 38.86438),
        ("azure:Standard_NC24ads_A100_v4", "reserved_1yr", "francecentral", 3.8215484),
        ("azure:Standard_NC24ads_A100_v4", "spot", "francecentral", 0.8484),
    ],
)
def test_terms_of_google_and_azure(text, kind, region, usd):
    target = parse_target(text, CATALOG)
    offer = price_for(target, CATALOG, Terms(kind, region))
    assert usd_per_s(target, offer).value * HOUR == pytest.approx(usd, rel=1e-5)
    assert offer.entry.date


def test_the_street_price_is_the_cheapest_dated_on_demand_rate():
    street = street_price("h100-sxm-80gb", CATALOG)
    assert 1 < street.price.value * HOUR < 5
    assert street.offer.kind == "on_demand"
    assert street.offer.status == "current"
    assert street.offer.date != "undated"
    assert street.instance.shape.accelerator == "h100-sxm-80gb"
    with pytest.raises(UnknownError):
        street_price("cpu-epyc-9654", CATALOG)


def test_files_of_one_provider_are_read_where_they_name_the_instance(tmp_path):
    head = (
        "format: 1\nname: Acme\nsources:\n  a: {title: Acme, url: https://acme.example/prices, checked: 2026-11-20, kind: price}\n"
    )
    shapes = "".join(
        f"  - {{name: {name}, source: a, accelerator: l4, accelerators: 1, "
        "scale_up: {kind: none}, network: {kind: ethernet}}\n"
        for name in ("small", "large")
    )
    (tmp_path / "instances/acme").mkdir(parents=True)
    (tmp_path / "instances/acme/l4.yaml").write_text(f"{head}id: l4\nprovider: acme\ninstances:\n{shapes}")
    (tmp_path / "prices/acme").mkdir(parents=True)
    for name, price in (("small", "0.5"), ("large", "0.9")):
        offer = f"{{instance: {name}, region: r-{name}, kind: on_demand, price: {price} USD/h, date: 2026-11-01, source: a}}"
        text = f"{head}id: acme-{name}\nprovider: acme\ndefault_region: r-small\noffers:\n  - {offer}\n"
        (tmp_path / f"prices/acme/acme-{name}.yaml").write_text(text)
    catalog = Catalog.open([tmp_path], env={"HOME": "/nonexistent"})
    assert "acme" in sellers(catalog)
    assert regions_of(catalog, "acme") == {"r-small", "r-large"}
    target = parse_target("acme:large", catalog)
    offer = price_for(target, catalog)
    assert (offer.provider, offer.region) == ("acme", "r-large")
    assert usd_per_s(target, offer).value * HOUR == pytest.approx(0.9)
    (tmp_path / "prices/acme/acme-small.yaml").write_text("this is no price list of it\n")
    again = Catalog.open([tmp_path], env={"HOME": "/nonexistent"})
    assert price_for(parse_target("acme:large", again), again).region == "r-large"


@pytest.mark.parametrize(
    ("region", "provider", "words"),
    [
        ("us-eats-1", "aws", ("did you mean `us-east-1`", "There is us-east-1, ")),
        ("mars", "azure", ("there is eastus, ", "more")),
        ("mars", None, ("us-east-1 of aws", "us-central1 of gcp")),
        ("mars", "lambda", ("leave --region out",)),
    ],
)
def test_a_wrong_region_is_told_the_nearest_and_the_usual_ones(region, provider, words):
    with pytest.raises(UnknownError) as caught:
        region_meant(CATALOG, region, provider)
    for word in words:
        assert word in caught.value.problems[0].hint


@pytest.mark.parametrize(
    ("said", "provider", "code"),
    [
        ("us-east-1", "aws", "us-east-1"), ("us east 1", "aws", "us-east-1"), ("US_EAST_1", None, "us-east-1"),
        ("us-east-1a", "aws", "us-east-1"), ("us-central1-a", "gcp", "us-central1"), ("fr-par-2", "scaleway", "fr-par"),
        ("East US", "azure", "eastus"), ("west europe", None, "westeurope"), ("gra", "ovh", "GRA"),
        ("US East (N. Virginia)", "aws", "us-east-1"), ("n virginia", "aws-sagemaker", "us-east-1"),
        ("tokyo", None, "ap-northeast-1"),
    ],
)  # fmt: skip
def test_a_region_in_other_letters_its_zone_and_its_name_are_read(said, provider, code):
    assert region_meant(CATALOG, said, provider) == code


@pytest.mark.parametrize(
    ("said", "provider", "owner"), [("us-east1", "aws", "gcp"), ("eastus", "gcp", "azure"), ("us-east-1", "gcp", "aws")]
)
def test_a_region_of_another_provider_is_no_slip(said, provider, owner):
    with pytest.raises(UnknownError, match=f"which is of {owner}"):
        region_meant(CATALOG, said, provider)


def test_many_regions_are_on_record():
    sold = {}
    for prices in LISTS.values():
        for entry in prices.offers:
            sold.setdefault((prices.seller, entry.instance), set()).add(entry.region)
    several = [name for name, regions in sold.items() if len(regions) > 1]
    assert len(several) >= 160
    assert all(len(sold["gcp", name]) > 5 for name in ("a2-highgpu-8g", "a3-highgpu-8g", "g2-standard-48"))
    assert all(len(sold["aws", name]) > 5 for name in ("p4d.24xlarge", "p5.48xlarge", "g6.xlarge", "inf2.48xlarge"))
