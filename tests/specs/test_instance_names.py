"""Names of cloud instances as people write them mean the machine, or are told what comes nearest."""

from pathlib import Path

from gpuplan.errors import GpuplanError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
ROWS = [
    [part.strip() for part in line.split("|")]
    for line in Path(__file__).with_name("instance_names.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


def test_names_mean_the_machine_or_say_what_comes_nearest():
    odd = []
    for name, wanted in ROWS:
        try:
            target = parse_target(name, CATALOG)
        except GpuplanError as error:
            if wanted != "?" or "`" not in (error.problems[0].hint or ""):
                odd.append(f"{name}: {error}")
        else:
            if wanted not in ("?", found := f"{target.accelerator.id} {target.count}"):
                odd.append(f"{name}: {found}, where {wanted} is meant")
    assert not odd, "\n".join(odd)
    assert len(ROWS) > 300
    assert sum(wanted != "?" for _, wanted in ROWS) >= 0.7 * len(ROWS)
