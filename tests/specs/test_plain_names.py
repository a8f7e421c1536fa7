"""Names as drivers, shops and board makers write them."""

import pytest

from gpuplan.errors import UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target
from gpuplan.specs.unlike import is_joined


@pytest.fixture(scope="module")
def catalog():
    return Catalog.open(env={"HOME": "/nonexistent"})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("AMD Radeon RX 7900 XTX", "rx-7900-xtx"),
        ("Radeon RX 6700 XT", "rx-6700-xt"),
        ("ASUS ROG Strix RTX 4090", "rtx-4090"),
        ("Gigabyte RTX 5060 Ti 16G", "rtx-5060-ti-16gb"),
        ("Intel(R) Arc(TM) B580 Graphics", "arc-b580"),
        ("Intel(R) Data Center GPU Max 1550", "max-1550"),
        ("AMD INSTINCT MI250X (MCM) OAM AC MBA", "mi250x"),
        ("Aqua Vanjaram [Instinct MI300X]", "mi300x"),
        ("AMD EPYC 9654 96-Core Processor", "cpu-epyc-9654"),
        ("AMD Ryzen AI MAX+ 395 w/ Radeon 8060S", "ryzen-ai-max-395"),
        ("NVIDIA DGX Spark", "gb10-dgx-spark"),
        ("2x Zotac RTX 5080", "rtx-5080"),
    ],
)
def test_what_stands_around_a_name_is_dropped_and_the_answer_says_so(name, part, catalog):
    target = parse_target(name, catalog)
    assert target.accelerator.id == part
    assert target.count == (2 if name.startswith("2x") else 1)


def test_the_note_says_what_was_taken(catalog):
    notes = [note for note in parse_target("Zotac RTX 5080", catalog).notes if note.code == "target.taken-as"]
    assert [note.text for note in notes] == ["`Zotac RTX 5080` was taken as `rtx-5080`"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gfx942", "mi300x"),
        ("AMD Ryzen 7 6800H with Radeon 680M Graphics", "radeon-780m"),
        ("AMD Instinct MI308X", "mi300x"),
        ("Intel(R) Arc(TM) 140V GPU (16GB)", "arc-140v"),
        ("Qualcomm(R) Adreno(TM) X1-85 GPU", "apple-m2"),
        ("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900M]", "rx-7900-xtx"),
        ("Orin (nvgpu)", "jetson-agx-orin-64gb"),
    ],
)
def test_what_no_file_describes_is_answered_with_the_nearest_and_why(name, near, catalog):
    with pytest.raises(UnknownError) as caught:
        parse_target(name, catalog)
    assert f"the nearest on record is `{near}`" in caught.value.problems[0].hint


def test_parts_that_people_join_stay_joined(catalog):
    assert is_joined("rtx-4090+rtx-3090", catalog)
    assert is_joined("2x rtx-3090+rtx-3060", catalog)
