"""Parts without a file: the answer names what comes nearest, and why there is none."""

import pytest

from gpuplan.errors import UnknownError
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.kinds_of_parts import nearest, table
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open(env={"HOME": "/nowhere"})


def test_every_entry_names_parts_and_a_source_that_are_there():
    kinds = table()
    for kind in kinds.kinds:
        assert kind.source in kinds.sources
        for part in kind.nearest:
            assert part in CATALOG.paths("accelerators") or part in CATALOG.paths("systems"), part  # as `KindOfPart.nearest` says
    assert {kind.source for kind in kinds.kinds} == set(kinds.sources)


def test_names_are_written_as_they_are_compared():
    names = [name for kind in table().kinds for name in kind.names]
    assert [name for name in names if key(name) != name] == []
    assert len(names) == len(set(names))


def test_no_name_of_a_file_is_an_entry_of_its_own():
    plain = {name for kind in table().kinds for name in kind.names if "*" not in name}
    assert plain.isdisjoint(CATALOG.paths("accelerators"))
    assert plain.isdisjoint(CATALOG.names("accelerators"))


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("radeon-680m", "radeon-780m"),
        ("Cerebras WSE-3", "h100-sxm-80gb"),
        ("8xmi308x", "mi300x"),
        ("xeon-8592+", "cpu-xeon-8480plus"),
        ("rubin-ultra", "rubin-288gb"),
        ("rtx-4090-laptop-175w", "rtx-4090-laptop"),
    ],
)
def test_what_has_no_file_is_refused_with_the_nearest_and_why(name, near):
    with pytest.raises(UnknownError) as error:
        parse_target(name, CATALOG)
    assert f"the nearest on record is `{near}`" in str(error.value)
    assert error.value.exit_code == 5


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("macbook pro m4 max", "apple-m4-max-40c"),
        ("mac mini m4", "apple-m4"),
        ("ryzen-9-7950x", "cpu-ryzen-9-7950x"),
        ("rx-6800m", "rx-6800m"),
        ("gtx-1650-ti", "gtx-1650-ti-laptop"),
        ("xeon-e5-2690-v4", "cpu-xeon-e5-2690-v4"),
    ],
)
def test_names_that_people_type_are_parts(name, part):
    assert parse_target(name, CATALOG).accelerator.id == part


def test_other_names_have_no_entry():
    assert nearest("my-own-chip") == ""
