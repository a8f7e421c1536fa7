"""tools/first_parties.py: whose pages the values of spec files cite, and what README says of it."""

import re
from pathlib import Path

import pytest

from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.system import System
from tools.first_parties import ASKED, KINDS, PAGES, Told, is_of, main, makers_of, page_of, table, told

CATALOG = Catalog.open(env={"HOME": "/nowhere"})
README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize(
    ("url", "maker", "own"),
    [
        ("https://resources.nvidia.com/en-us-data-center", "nvidia", True),
        ("https://github.com/NVIDIA/nccl", "nvidia", True),
        ("https://notnvidia.com/page", "nvidia", False),
        ("https://www.techpowerup.com/gpu-specs/l40s.c4173", "nvidia", False),
        ("https://docs.aws.amazon.com/ec2/x", "aws", True),
        ("https://lambda.ai/pricing", "lambda", True),
        ("https://lambda.ai/pricing", "runpod", False),
        ("https://github.com/skypilot-org/skypilot-catalog", "azure", False),
    ],
)
def test_an_address_is_its_makers_or_not(url, maker, own):
    assert is_of(url, maker) is own


def test_a_value_has_one_of_four_pages():
    spec = CATALOG.load(Accelerator, "h100-sxm-80gb")
    assert makers_of(spec, CATALOG) == ("nvidia",)
    found = {page_of(spec, name, ["nvidia"]) for name in (*spec.sources, "")}
    assert {"the maker's own", "someone else's", "no page"} <= found <= set(PAGES)


def test_a_machine_is_also_its_providers():
    assert makers_of(CATALOG.load(System, "aws-p5"), CATALOG) == ("nvidia", "aws", "aws-p5")
    assert is_of("https://docs.tinygrad.org/tinybox/", "tinybox-red")


def test_readme_says_the_shares():
    files = list(told(CATALOG))
    assert {one.kind for one in files} == set(KINDS)
    shares = re.findall(r"(\d+)%", table(files).splitlines()[-1])
    said = re.search(r"\((\d+) % their maker's own, (\d+) % someone else's\)", README.read_text("utf-8"))
    assert said is not None
    assert list(said.groups()) == shares[:2]


def test_the_most_asked_have_files():
    assert {kind: len(set(idents)) for kind, idents in ASKED.items()} == {"accelerators": 100, "systems": 40}
    assert all(set(idents) <= set(CATALOG.paths(kind)) for kind, idents in ASKED.items())


def test_a_table_has_the_kinds_that_have_values(capsys):
    rows = table([Told("systems", "dgx-h100", {"the maker's own": 3, "worked out": 1})]).splitlines()
    assert rows[2:] == ["| systems | 4 | 75% | 0% | 25% | 0% |", "| all | 4 | 75% | 0% | 25% | 0% |"]
    main(["--asked", "--least", "1"])
    printed = capsys.readouterr().out
    assert [row.split(" | ")[0] for row in printed.splitlines()[2:5]] == ["| accelerators", "| systems", "| all"]
    assert printed.splitlines()[5].startswith("- accelerators/")
