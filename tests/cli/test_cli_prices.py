"""Prices on the command line: which one a question takes, how it is said, and when it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.cli_calls import Call

SERVE = ("serve", "llama-3.1-8b", "--on", "aws:p5.48xlarge")


def said_price(text: str) -> str:
    return " ".join(text[text.index("price: ") :].partition("give another")[0].split())


def test_the_note_names_price_date_region_kind_and_source(call: Call) -> None:
    said = call(*SERVE, "--full", columns=100)
    assert said.code == 0
    note = said_price(said.out)
    for part in ("55.04 USD/h", "aws:p5.48xlarge in us-east-1", "on demand", "2026-10-10", "("):
        assert part in note
    spot = said_price(call(*SERVE, "--full", "--price-kind", "spot").out)
    assert "spot" in spot
    assert "USD/h for aws:p5.48xlarge in us-east-1" in spot


def test_street_prices_are_on_the_terms_asked_for(call: Call) -> None:
    said = call("serve", "llama-3.1-8b", "--on", "h100", "--full", "--price-kind", "spot", "--region", "us-east-1")
    assert said.code == 0
    assert "the cheapest spot price in us-east-1 on record is taken" in " ".join(said.out.split())


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--price-kind", "spt"), 2, "--price-kind spt: no such choice"),
        (("--price-date", "2026-02-30"), 2, "--price-date 2026-02-30: no such day"),
        (("--price-date", "yesterday"), 2, "no such day"),
        (("--max-price-age", "0"), 2, "--max-price-age 0"),
        (("--price", "2", "--region", "us-east-1"), 2, "--region means nothing beside --price"),
        (("--price", "0"), 2, "a price is above zero"),
        (("--price", "nan"), 2, "--price"),
        (("--region", "eu-west-9"), 5, "in a region `eu-west-9`"),
        (("--price-date", "2020-01-01"), 5, "from 2020-01-01 or before"),
        (("--max-price-age", "1", "--price-date", "2026-11-21"), 5, "is of 2026-10-10, 42 days old; --max-price-age allows 1"),
    ],
)
def test_prices_that_are_refused(call: Call, words: tuple[str, ...], code: int, text: str) -> None:
    said = call(*SERVE, *words)
    assert said.code == code
    assert text in said.err
    assert "Traceback" not in said.err


def test_an_old_street_price_is_named_with_its_date(call: Call) -> None:
    said = call("serve", "llama-3.1-8b", "--on", "h100", "--max-price-age", "1", "--price-date", "2026-11-21")
    assert said.code == 5
    assert "days old; --max-price-age allows 1" in said.err


def test_fit_shows_a_price_only_where_one_is_asked_for(call: Call) -> None:
    plain = json.loads(call("fit", "llama-3.1-8b", "--on", "2xaws:p5.48xlarge", "--json").out)
    asked = json.loads(call("fit", "llama-3.1-8b", "--on", "2xaws:p5.48xlarge", "--price", "36", "--json").out)
    assert "price_usd_per_s" not in plain["figures"]
    assert asked["figures"]["price_usd_per_s"]["value"] == pytest.approx(0.02)


def test_prices_in_a_comparison(call: Call) -> None:
    words = ("compare", "serve", "llama-3.1-8b", "--on", "aws:p5.48xlarge", "--on", "aws:p5en.48xlarge", "--price-kind", "spot")
    said = call(*words, columns=120)
    assert said.code in (0, 5)
    assert "Traceback" not in said.err


HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch"
ROWS = (
    "p5.48xlarge,H100,8.0,192.0,2048.0,,55.04,18.1597,us-east-1,use1-az3,x86_64",
    "p5.48xlarge,H100,8.0,192.0,2048.0,,700.0,,us-west-2,usw2-az3,x86_64",
)


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    path = tmp_path / "aws-vms.csv"
    path.write_text("\n".join([HEAD, *ROWS]) + "\n", encoding="utf-8")
    return str(path)


def test_an_import_says_what_it_wrote_and_what_it_refused(call: Call, catalog: str, tmp_path: Path) -> None:
    out = tmp_path / "own"
    said = call("prices", "import", "skypilot", catalog, "--date", "2026-11-20", "--out", str(out))
    assert said.code == 0
    assert said.out.startswith("aws: 2 prices of 1 instance\n")
    assert "2 new" in said.out
    assert "aws-vms.csv:3: the on-demand price of p5.48xlarge is 700.0" in said.err
    assert "[price.sentinel]" in said.err
    used = call(*SERVE, "--full", "--specs", str(out), columns=100)
    assert "2026-11-20 (2 days old): SkyPilot catalog: aws, aws-vms.csv, read 2026-11-20" in said_price(used.out)
    assert call("prices", "check", str(out)).code == 0
    assert call("specs", "check", str(out)).code == 0


def test_strict_imports_and_dry_runs_write_nothing(call: Call, catalog: str, tmp_path: Path) -> None:
    out = tmp_path / "own"
    words = ("prices", "import", "skypilot", catalog, "--date", "2026-11-20", "--out", str(out))
    said = call(*words, "--strict")
    assert said.code == 2
    assert "error: " in said.err
    assert "700.0" in said.err
    dry = call(*words, "--dry-run", "--json")
    assert dry.code == 0
    made = json.loads(dry.out)
    assert made["written"] is False
    assert made["flags"][0]["lines"] == [3]
    assert not out.exists()


def test_an_import_goes_to_the_user_s_folder(call: Call, catalog: str, tmp_path: Path) -> None:
    assert call("prices", "import", "skypilot", catalog, "--date", "2026-11-20").code == 0
    assert (tmp_path / "no-config" / "gpuplan" / "prices" / "aws.yaml").is_file()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "--date is missing"),
        (("--date", "2026-13-01"), "no such day"),
        (("--date", "2026-11-20", "--url", "somewhere"), "no web address"),
        (("--date", "2026-11-20", "--region", "mars-1"), "no price of an accelerator in mars-1"),
    ],
)
def test_imports_that_are_refused(call: Call, catalog: str, tmp_path: Path, words: tuple[str, ...], text: str) -> None:
    said = call("prices", "import", "skypilot", catalog, "--out", str(tmp_path / "own"), *words)
    assert said.code == 2
    assert text in said.err
    assert not (tmp_path / "own").exists()


def test_a_file_of_another_format_is_refused(call: Call, catalog: str, tmp_path: Path) -> None:
    said = call("prices", "import", "gpuhunt", catalog, "--provider", "aws", "--date", "2026-11-20", "--out", str(tmp_path / "own"))
    assert said.code == 2
    assert "is this a SkyPilot file?" in said.err
    assert call("prices", "import", "gpuhunt", "/nowhere.csv", "--date", "2026-11-20").code == 2


def test_prices_are_listed_by_instance_accelerator_and_provider(call: Call) -> None:
    one = json.loads(call("prices", "list", "p5.48xlarge", "--kind", "spot", "--json").out)
    assert {row["instance"] for row in one} == {"aws:p5.48xlarge"}
    assert {row["kind"] for row in one} == {"spot"}
    assert one[0]["usd_per_hour_per_accelerator"] == pytest.approx(one[0]["usd_per_hour"] / 8)
    assert one[0]["source"]
    chips = json.loads(call("prices", "list", "h100-sxm-80gb", "--sort", "accelerator", "--json").out)
    rates = [row["usd_per_hour_per_accelerator"] for row in chips]
    assert rates == sorted(rates)
    assert {row["accelerator"] for row in chips} == {"h100-sxm-80gb"}
    assert len({row["instance"].partition(":")[0] for row in chips}) > 3
    assert {row["status"] for row in chips} == {"current"}
    assert len(json.loads(call("prices", "list", "gcp", "--all", "--json").out)) > 10
    assert call("prices", "list", "aws", "p5.48xlarge", "--md").out.startswith("| instance |")
    assert call("prices", "list", "aws", "p5", "--csv").out.startswith("instance,accelerator,")
    assert "USD/h" in call("prices", "list", "aws").out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("p5.49xlarge",), 5, "did you mean"),
        (("p5.48xlarge", "--region", "mars-1"), 5, "in a region `mars-1`"),
        (("--kind", "spt"), 2, "did you mean `spot`"),
        (("--sort", "colour"), 2, "--sort colour"),
    ],
)
def test_lists_that_are_refused(call: Call, words: tuple[str, ...], code: int, text: str) -> None:
    said = call("prices", "list", *words)
    assert said.code == code
    assert text in said.err


def test_prices_are_checked_for_what_cannot_be(call: Call, tmp_path: Path) -> None:
    assert call("prices", "check").code == 0
    place = tmp_path / "own" / "prices" / "aws.yaml"
    place.parent.mkdir(parents=True)
    offers = [
        "{instance: p5.48xlarge, region: us-east-1, kind: on_demand, price: 700.0 USD/h, date: 2026-11-01}",
        "{instance: p4d.24xlarge, region: us-east-1, kind: on_demand, price: 22 USD/h, date: 2020-11-01}",
        "{instance: p4d.24xlarge, region: us-east-1, kind: spot, price: 23 USD/h, date: 2026-11-01}",
        "{instance: p5en.48xlarge, region: us-east-1, kind: on_demand, price: 7.9 USD/h, date: 2026-11-01}",
    ]
    text = "format: 1\nid: aws\nname: A\nsources:\n  web: {title: T, url: 'https://a.b/c', checked: 2026-11-01, kind: price}\n"
    listed = "".join(f"  - {offer}\n" for offer in offers)
    place.write_text(f"{text}default_region: us-east-1\noffers:\n{listed}", encoding="utf-8")
    said = call("prices", "check", str(tmp_path / "own"))
    assert said.code == 2
    for code in ("sentinel-price", "spot-above-on-demand", "price-out-of-kin", "stale-price"):
        assert code in said.err
    assert "aws.yaml:8" in said.err
    assert json.loads(call("prices", "check", str(place), "--json").out)
    place.write_text(place.read_text(encoding="utf-8").replace("700.0 USD/h", "0 USD/h"), encoding="utf-8")
    assert "zero-price" in call("prices", "check", str(tmp_path / "own"), "--json").out
    assert call("prices", "check", "--max-age", "soon").code == 2


def test_status_says_what_should_be_read_again(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUPLAN_TODAY", "2026-11-22")
    made = call("prices", "status", "azure", "oci", "--json")
    azure, oci = sorted(json.loads(made.out), key=lambda one: one["provider"])
    assert 400 < azure["old"] < azure["prices"]
    assert (azure["newest"], azure["oldest"], azure["undated"]) == ("2026-10-10", "2026-06-18", 0)
    assert azure["regions"] > 30
    assert (oci["undated"], oci["newest"]) == (4, "2026-10-01")
    young = call("prices", "status", "azure", "--max-age", "200", "--json")
    assert json.loads(young.out)[0]["old"] == 0
    text = call("prices", "status")
    assert text.code == 0
    assert "older than 90 days" in text.err
    assert all(len(line) <= 80 for line in text.out.splitlines())
    wrong = call("prices", "status", "azzure")
    assert wrong.code == 5
    assert "did you mean `azure`" in wrong.err


def test_so_many_of_a_list_of_prices(call: Call) -> None:
    whole, first = (json.loads(call("prices", "list", "h100", "--json", *more).out) for more in ((), ("--limit", "3")))
    assert first == whole[:3]
    said = call("prices", "list", "h100", "--limit", "3")
    assert said.err == f"note: the first 3 of {len(whole):,} prices\n"
    glance = call("prices", "list", "h100")
    assert glance.err.startswith(f"note: 20 prices, each instance and kind once, of {len(whole):,}: `--limit all` shows all")
    assert len(glance.out.splitlines()) < 100
    every = call("prices", "list", "h100", "--kind", "spot", "--limit", "all")
    assert every.err == ""
    assert every.out.count("h100") > glance.out.count("h100")
    wrong = call("prices", "list", "h100", "--limit", "0")
    assert (wrong.code, wrong.err) == (2, "error: --limit 0: a whole number of at least 1 is wanted\n")
