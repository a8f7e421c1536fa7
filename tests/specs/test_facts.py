"""Every value of the tables of facts on systems, slices and instances is ours too, or is listed here with who is right."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import Instance, InstanceFamily
from gpuplan.specs.price import OfferEntry, PriceList
from gpuplan.specs.quantity import Sourced
from gpuplan.specs.system import FabricLevel, System
from tests.specs.shared_data import table

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
HOUR = 3600
Row = tuple[str, Any, Any]
"""Where in the table, the value there, and ours; a value of ours may be a pair of bounds."""

# ---------------------------------------------------------------------------------------------------------------- exceptions
SYSTEM_EXCEPTIONS: dict[tuple[str, str], str] = {
    ("hgx-a800-8", "confidence"): "a description of such servers has eight adapters of their own for the GPUs, and two processors",
    (
        "summit-node",
        "fabric.x-bus.topology",
    ): "both right: the triplets meet in the processors, which is a tree through the host with us",
    **{
        (name, f"fabric.{level}.links"): "the table has how many from memory"
        for name, level in (("dgx-2", "nvlink2-nvswitch"), ("gh200-nvl32", "nvlink4-nvswitch"))
    },
    ("mac-studio-m2-ultra-pair-tb4", "fabric.thunderbolt4.links"): "the same in words that do not say `recall`",
    ("dgx-1-v100-16gb", "confidence"): "its price is from memory in the table, and from a page with us",
    (
        "frontier-node",
        "fabric.scale-out.topology",
    ): "both right: a dragonfly is switched; the levels of the cluster say `dragonfly`",
    ("mi300a-node-4", "fabric.scale-out.topology"): "both right: as frontier-node",
    **{
        (
            name,
            at,
        ): "the table has what the card's slot allows; nvidia-smi and nvbandwidth of the cloud machines print half (Spare Cores)"
        for name in ("l4-1", "l4-2", "l4-4", "l4-8", "a10g-4", "a10g-8")
        for at in (
            "fabric.pcie.bandwidth",
            "fabric.pcie.peer",
            "fabric.pcie.links",
            "fabric.pcie.p2p",
            "host.pcie_lanes",
            "host.rate",
            "host.link",
        )
        if name != "l4-1" or at.startswith("host")
    },
    ("mi300x-8", "host.ram_gib"): "the table has 2,048; Azure's own page of the size prints 1,850 GiB",
    **{
        (name, "local_nvme_gb"): "the table says GB where the provider's own page prints GiB, or TiB of 1,024"
        for name in (
            "azure-ndm-a100-v4",
            "azure-nd-h100-v5",
            "a10-2",
            "h100-nvl-pair",
            "mi300x-8",
            "gcp-a3-high",
            "gcp-a3-mega",
            "gcp-a3-ultra",
            "gcp-a4",
            "gb200-tray",
        )
    },
    ("aurora-node", "fabric.scale-out.topology"): "both right: as frontier-node",
    **{
        (f"tpu-v7-{one}", "host.rate"): "open: the table has none; ours is that of TPU v6e, assumed, with a range of four"
        for one in ("host", "cube", "pod", "4x8x8")
    },
}
WITH_EFA = {
    "dl1": "24", "g4dn": "8 12 16", "g5": "8 12 16 24 48", "g6": "8 12 16 24 48", "g6e": "8 12 16 24 48", "g7": "8 12 24 48",
    "g7e": "8 12 24 48", "inf1": "24",
}  # fmt: skip
INSTANCE_EXCEPTIONS: dict[tuple[str, str], str] = {
    (f"aws:{name}", "network.kind"): "the table says ethernet; karpenter's reference, which it cites, lists vpc.amazonaws.com/efa"
    for name in ("g4dn.metal", *(f"{family}.{size}xlarge" for family, sizes in WITH_EFA.items() for size in sizes.split()))
} | {(one, "commitments"): "read since, in what the provider documents" for one in ("crusoe", "lambda", "nebius", "runpod", "vast")}
INSTANCE_EXCEPTIONS["gcp", "local_nvme_gb"] = "the table says GB where Google's own page prints GiB: disks of 375 GiB"
INSTANCE_EXCEPTIONS["azure", "local_nvme_gb"] = "the table says GB where Azure's own pages print GiB, or TiB of 1,024"
INSTANCE_EXCEPTIONS |= {
    (f"lambda:gpu_1x_{name}", "ram_gib"): "the table has an older catalog's: Lambda's own page of September 2026 says otherwise"
    for name in ("a10", "h100_pcie")
}
INSTANCE_EXCEPTIONS |= dict.fromkeys(
    [("coreweave:b200", "ram_gib"), ("coreweave:gb200-4x", "ram_gib"), ("coreweave:gb200-4x", "local_nvme_gb")],
    "the table leaves it out; CoreWeave's own page says it",
)
INSTANCE_EXCEPTIONS["oci:VM.GPU3.4", "network.gbps"] = "the table has 25 Gbit/s, Oracle's own page 24.6"


def value(given: Sourced | None) -> float | None:
    return None if given is None else given.value


def scaled(given: float | None, factor: float) -> float | None:
    return None if given is None else given * factor


def equal(theirs: Any, ours: Any, bounds: list[float] | None = None) -> bool:
    if theirs is None or ours is None or isinstance(theirs, (str, bool)):
        return bool(theirs == ours)
    if isinstance(theirs, (list, dict)):
        return bool(theirs == ours)
    if bounds is not None and bounds[0] * 0.999 <= ours <= bounds[1] * 1.001:
        return True
    # The table rounds to three figures.
    return bool(ours == pytest.approx(theirs, rel=2e-3))


def left_out(row: dict[str, Any], at: str, theirs: Any, ours: Any) -> bool:
    """Whether ours is nothing where the table has a value that its group of sources has from memory (`recall`) among others."""
    groups = {"host": "host", "power_kw": "power", "list_price": "price", "scale_out": "scale_out"}
    group = "scale_out" if at.startswith("fabric.scale-out") else groups.get(at.partition(".")[0], "fabric")
    named = dict(row["sources"])
    if any("from memory" in note for note in (str((row["list_price_usd"] or {}).get("note")), *row.get("notes", ()))):
        named |= {"price": ["recall"], "power": ["recall"]}
    if at == "confidence":
        return all(theirs[one] == ours[one] if one in ours else "recall" in named.get(one, ()) for one in theirs)
    said = any("recall" in given for given in named.values()) if at == "rack_units" else "recall" in named.get(group, ())
    return ours in (None, "") and said


# ------------------------------------------------------------------------------------------------------------------- systems
def level_rows(at: str, row: dict[str, Any], level: FabricLevel) -> Iterator[Row]:
    # A grid of a torus is a torus without wrap with us; pairs are a mesh of two.
    names = {"pairs": "mesh", "torus-2d": "torus", "torus-3d": "torus", "mesh": "torus" if row.get("dims") else "mesh"}
    topology = names.get(row["topology"], row["topology"])
    yield f"{at}.size", row["size"], level.size
    yield f"{at}.topology", topology, level.topology
    yield f"{at}.bandwidth", scaled(row["bandwidth_per_direction_gb_s"], 1e9), value(level.bandwidth_per_direction)
    yield f"{at}.peer", scaled(row["peer_bandwidth_per_direction_gb_s"], 1e9), value(level.peer_bandwidth_per_direction)
    if "peer_min_gb_s" in row:
        yield f"{at}.peer_min", scaled(row["peer_min_gb_s"], 1e9), value(level.worst_peer_bandwidth_per_direction)
    yield f"{at}.links", row["links"] or "", level.links
    yield f"{at}.latency", scaled(row["latency_us"], 1e-6), value(level.latency)
    yield f"{at}.in_network_reduction", row["in_network_reduction"], level.in_network_reduction
    yield f"{at}.dims", row.get("dims"), list(level.dims) if level.dims else None
    yield f"{at}.wrap", row.get("wrap"), list(level.wrap) if level.wrap else None
    yield f"{at}.p2p", row.get("p2p", ""), level.peer_to_peer
    yield f"{at}.pair_links", row.get("pair_links", {}), level.pair_links
    given = [
        (one["collective"], one["ranks"], one["busbw_gb_s"], one.get("algo", ""), one.get("payload", "").replace(" ", ""))
        for one in row.get("measured", [])
    ]
    ours = [
        (
            run.collective, run.ranks, round(run.bus_bandwidth.value / 1e9, 3), run.algorithm,
            run.payload.text.replace(" ", "") if run.payload else "",
        )
        for run in level.measured
    ]  # fmt: skip
    yield f"{at}.measured", sorted(given), sorted(ours)
    best = row["measured_all_reduce_busbw_gb_s"]
    if best is not None and not given:
        yield f"{at}.measured_all_reduce", best, max(run[2] for run in ours)
    if best is not None and "accept_busbw" in row:
        bounds = next(run.bus_bandwidth.accept for run in level.measured if run.bus_bandwidth.accept)
        yield f"{at}.accept_busbw", row["accept_busbw"], [pytest.approx(end / 1e9) for end in bounds]


def system_rows(row: dict[str, Any], system: System) -> Iterator[Row]:
    yield "name", row["name"], system.name
    yield "kind", row["kind"], system.form
    yield "accelerator", row["accelerator"], system.accelerator
    yield "accelerators", row["accelerators"], system.count
    yield "hosts", row["hosts"], value(system.hosts)
    levels = {level.name: level for level in system.fabric}
    for given in row["fabric"]:
        at = f"fabric.{given['name']}"
        # A level of one accelerator joins nothing; what its package joins inside is in the accelerator's file.
        if given["size"] == 1:
            continue
        if given["name"] not in levels:
            yield at, given["name"], None
            continue
        yield from level_rows(at, given, levels[given["name"]])
    out, cards = row["scale_out"] or {}, system.scale_out
    if out.get("kind"):
        yield "scale_out.kind", out["kind"], cards.kind if cards else None
        yield "scale_out.nics", out.get("nics"), cards.nics if cards else None
        yield "scale_out.gbps_each", scaled(out.get("gbps_each"), 1e9 / 8), value(cards.bandwidth_each) if cards else None
        yield "scale_out.rails", out.get("rails"), cards.rails if cards else None
        rate = out.get("gb_s_per_accelerator_per_direction")
        outer = next((one for one in reversed(system.fabric) if one.name in {"scale-out", "dcn"}), None)
        if rate is not None and outer is not None:
            yield "scale_out.rate", rate * 1e9, value(outer.bandwidth_per_direction)
    given, host = row["host"], system.host
    assert host is not None
    yield "host.pcie_gen", given["pcie_gen"], host.pcie_generation
    yield "host.pcie_lanes", given["pcie_lanes_per_accelerator"], host.pcie_lanes
    yield "host.rate", scaled(given["gb_s_per_direction_per_accelerator"], 1e9), value(host.bandwidth_per_direction)
    yield "host.cpu", given["cpu"] or "", host.cpu
    yield "host.cpu_count", given["cpu_count"], host.cpu_count
    yield "host.vcpus", given.get("vcpus"), host.vcpus
    yield "host.ram_gib", scaled(given["ram_gib"], 2**30), value(host.memory)
    if given["ram_gib"]:
        yield "host.ram_scope", given["ram_scope"], host.memory_scope
    yield "host.link", given["cpu_accelerator_link"] or "", host.link
    yield "local_nvme_gb", scaled(row["local_nvme_gb"] or None, 1e9), value(host.local_disk)
    for name in ("max", "typical"):
        ours = system.power.maximum if name == "max" and system.power else system.power.typical if system.power else None
        yield f"power_kw.{name}", scaled(row["power_kw"][name], 1e3), value(ours)
    yield "rack_units", row["rack_units"], value(system.rack_units)
    price = row["list_price_usd"]
    yield "list_price.usd", price and price["usd"], system.list_price and system.list_price.price.value
    # A month is ours where the table has a year.
    dated = system.list_price and system.list_price.date
    yield "list_price.date", price and str(price["date"]), dated and dated[: len(str(price["date"]))] if price else dated
    yield "cloud_instances", sorted(row["cloud_instances"]), sorted({name.partition(":")[2] for name in system.clouds})
    yield "confidence", row["confidence"], dict(system.confidence)


def bounds_of(row: dict[str, Any], at: str) -> list[float] | None:
    """The `accept` of the table for a value, in our units."""
    keys = {
        "host.pcie_gen": ("host.pcie_gen", 1), "host.ram_gib": ("host.ram_gib", 2**30), "power_kw.max": ("power_kw.max", 1e3),
        "power_kw.typical": ("power_kw.typical", 1e3), "scale_out.nics": ("scale_out.nics", 1),
        "scale_out.rate": ("scale_out.gb_s_per_accelerator_per_direction", 1e9),
        "fabric.scale-out.bandwidth": ("scale_out.gb_s_per_accelerator_per_direction", 1e9),
    }  # fmt: skip
    name, factor = keys.get(at, ("fabric.bandwidth_per_direction_gb_s" if at.endswith(".bandwidth") else "", 1e9))
    given = row.get("accept", {}).get(name)
    return None if given is None else [end * factor for end in given]


def test_every_value_of_every_system_is_ours_too():
    compared, odd = 0, []
    used = set()
    for row in table("systems.yaml")["systems"]:
        system = CATALOG.load(System, row["id"])
        for at, theirs, ours in system_rows(row, system):
            compared += 1
            if equal(theirs, ours, bounds_of(row, at)) or left_out(row, at, theirs, ours):
                continue
            if (row["id"], at) in SYSTEM_EXCEPTIONS:
                used.add((row["id"], at))
            else:
                odd.append(f"{row['id']} {at}: {theirs!r}, ours {ours!r}")
    assert not odd, "\n".join(odd)
    assert used == set(SYSTEM_EXCEPTIONS)
    assert compared > 7000


def test_every_slice_of_the_table_is_ours_too():
    compared = 0
    for generation, given in table("systems.yaml")["tpu_topologies"].items():
        pod = CATALOG.load(System, f"tpu-{generation}-pod")
        assert pod.accelerator == given["accelerator"]
        for row in given["topologies"]:
            part = pod.slice_named(row["name"])
            assert part is not None
            assert ("x".join(map(str, part.dims)), part.chips, list(part.wrap)) == (row["topology"], row["chips"], row["wrap"])
            assert part.twisted == bool(row.get("twisted_available", False))
            assert part.links == row.get("min_links_per_chip", part.links)
            compared += 1
    assert compared == 236


# ----------------------------------------------------------------------------------------------------------------- instances
# The table spells these accelerators otherwise.
SPELLED = {
    "t4-16gb": "t4", "t4g-16gb": "t4g", "a10-24gb": "a10", "a10g-24gb": "a10g", "l4-24gb": "l4", "l40s-48gb": "l40s",
    "a40-48gb": "a40", "rtx-a6000-48gb": "rtx-a6000", "rtx-4090-24gb": "rtx-4090",
    "rtx-pro-6000-bse-96gb": "rtx-pro-6000-blackwell-server", "rtx-pro-4500-32gb": "rtx-pro-4500-blackwell-server", "p4-8gb": "p4",
    "k80": "k80-die", "m60": "m60-die", "a100-sxm4-40gb": "a100-sxm-40gb", "a100-sxm4-80gb": "a100-sxm-80gb",
    "h100-sxm5-80gb": "h100-sxm-80gb", "b300-sxm-288gb": "b300-sxm-270gb", "gb200-nvl72": "gb200-186gb",
    "mi300x-192gb": "mi300x", "radeon-mi25": "mi25",
}  # fmt: skip
CARRIED = 322
"""Rows of instances that are not from memory alone."""
PROVIDERS = {"gcp-tpu": "gcp", "snowflake-spcs": "snowflake"}
PRICE_KINDS = {
    "on_demand_historical": "on_demand", "promo_meter_ignore": "on_demand", "compute_units": "credits", "preemptible": "spot",
}  # fmt: skip


def instances() -> dict[str, Instance]:
    families = [CATALOG.read(InstanceFamily, path) for path in CATALOG.paths("instances").values()]
    return {f"{one.provider}:{shape.name}": Instance(one, shape) for one in families for shape in one.instances}


def row_name(row: dict[str, Any], known: dict[str, Instance]) -> str:
    """Our name of an instance: theirs, or, where nobody types theirs, the short one that has theirs as an alias."""
    provider = PROVIDERS.get(row["provider"], row["provider"])
    short = re.sub(r"^(1x|per-GPU) ", "", row["name"])
    for name in (row["name"], short, short.lower()):
        if f"{provider}:{name}" in known:
            return f"{provider}:{name}"
    return next(
        (ours for ours, one in known.items() if one.provider == provider and short in one.shape.aliases),
        f"{provider}:{row['name']}",
    )


def carried() -> list[dict[str, Any]]:
    """The rows of the table that are not from memory alone: no file may have those."""
    return [row for row in table("instances.yaml")["instances"] if row["sources"] != ["recall"]]


def test_all_instances_of_the_table_are_ours():
    known = instances()
    names = [row_name(row, known) for row in carried()]
    assert [name for name in names if name not in known] == []
    assert len(set(names)) == len(names)
    assert (len(names), len(table("instances.yaml")["instances"])) == (CARRIED, 329)


def status_of(row: dict[str, Any]) -> str:
    given = row.get("status", "offered")
    return "closed" if "or closed" in given else "retired" if given.startswith("retired") else "offered"


def instance_rows(row: dict[str, Any], one: Instance, accelerator: Accelerator) -> Iterator[Row]:
    shape = one.shape
    yield "accelerator", SPELLED.get(row["accelerator"], row["accelerator"]), shape.accelerator
    yield "accelerator_count", row["accelerator_count"], shape.accelerators.value
    # The table counts what the vendor prints, whether that means GB or GiB.
    printed = re.match(r"[0-9.]+", accelerator.memory.capacity.text)
    assert printed is not None
    whole = float(printed[0]) * shape.accelerators.value
    memory = shape.accelerator_memory.value / 2**30 if shape.accelerator_memory else whole
    yield "accelerator_memory_gib_total", row["accelerator_memory_gib_total"], memory
    yield "vcpus", row["vcpus"], shape.vcpus
    yield "ram_gib", scaled(row["ram_gib"], 2**30), value(shape.memory)
    yield "local_nvme_gb", scaled(row["local_nvme_gb"] or None, 1e9), value(shape.local_disk)
    yield "scale_up.kind", row["scale_up"]["kind"], shape.scale_up.kind
    # The table gives both directions together.
    rate = row["scale_up"].get("gb_per_s_per_accelerator")
    yield "scale_up.rate", scaled(rate, 1e9 / 2), value(shape.scale_up.bandwidth_per_direction)
    yield "scale_up.domain", row["scale_up"].get("domain_size"), shape.scale_up.domain
    yield "network.kind", row["network"]["kind"], shape.network.kind
    yield "network.gbps", scaled(row["network"]["gbps"], 1e9 / 8), value(shape.network.bandwidth)
    weak = {name.replace("nvme", "disk"): word for name, word in row["confidence"].items() if word in ("medium", "low")}
    yield "confidence", weak, dict(shape.confidence)
    yield "commitments", row.get("commitments", ""), shape.commitments
    yield "status", status_of(row), shape.status


def test_every_value_of_every_instance_is_ours_too():
    known = instances()
    compared, odd, used = 0, [], set()
    for row in carried():
        name = row_name(row, known)
        one = known[name]
        for at, theirs, ours in instance_rows(row, one, CATALOG.load(Accelerator, one.shape.accelerator)):
            compared += 1
            if equal(theirs, ours):
                continue
            where = next(
                ((part, at) for part in (name, one.shape.accelerator, one.provider) if (part, at) in INSTANCE_EXCEPTIONS), None
            )
            if where is None:
                odd.append(f"{name} {at}: {theirs!r}, ours {ours!r}")
            else:
                used.add(where)
    assert not odd, "\n".join(odd)
    assert used == set(INSTANCE_EXCEPTIONS)
    assert compared == CARRIED * 14


# -------------------------------------------------------------------------------------------------------------------- prices
PRICE_DATES: dict[str, str] = {
    "crusoe": "the table has the day of a checkout; gpuhunt's list was written on 2026-02-26 and 2026-03-03, and not changed since",
}
"""Providers whose prices are of another day than the table says, and why."""


READ_SINCE = "2026-09"
"""From when on prices were read again after the table was made: what moved since, or is of a later day, is no contradiction."""


def paid(entry: OfferEntry, one: Instance) -> float | None:
    """What an offer comes to an hour for a whole instance, in USD or in the provider's own units."""
    given = entry.price.value * HOUR if entry.price else entry.credits_per_hour.value if entry.credits_per_hour else None
    parts = 1.0 if entry.per == "instance" else one.accelerators
    return None if given is None else given * parts


def test_every_price_of_the_table_is_ours_too_and_only_fit_ones_are_current():
    known = instances()
    lists = [CATALOG.read(PriceList, path) for path in CATALOG.paths("prices").values()]
    compared, odd = 0, []
    for row in carried():
        name = row_name(row, known)
        one = known[name]
        offers = [entry for made in lists if made.seller == one.provider for entry in made.offers if entry.instance == one.name]
        for given in row["prices"]:
            compared += 1
            kind = PRICE_KINDS.get(given["kind"], "market" if row["provider"] == "vast" else given["kind"])
            if kind == "subscription":
                # The table has no figure for it, and neither have we an offer.
                assert given["usd"] is None
                continue
            found = [
                entry
                for entry in offers
                if entry.kind == kind and (kind == "free" or paid(entry, one) == pytest.approx(given["usd"], rel=1e-5))
            ]
            later = any(entry.kind == kind and (entry.date or "") >= READ_SINCE for entry in offers)
            if not found:
                if not later:
                    odd.append(f"{name} {given}")
                continue
            statuses = {entry.status for entry in found}
            if given["kind"] == "on_demand_historical" or status_of(row) == "retired":
                fit = "current" not in statuses
            else:
                fit = given["kind"] != "promo_meter_ignore" or statuses == {"promo"}
            if not fit or not (given["usd"] or kind == "free"):
                odd.append(f"{name} {given} is {statuses}")
            dated = str(given["date"]) if re.fullmatch(r"20\d\d(-\d\d){0,2}", str(given["date"])) else None
            days = {entry.date for entry in found}
            known_day = one.provider in PRICE_DATES or dated in days or any((day or "") >= READ_SINCE for day in days)
            if dated and kind != "free" and not known_day:
                odd.append(f"{name} {given} is dated {[entry.date for entry in found]}")
            if str(given["date"]).startswith("undated") and not any(
                entry.date is None or entry.date >= READ_SINCE or entry.note for entry in found
            ):
                odd.append(f"{name} {given} has got a date")
    assert not odd, "\n".join(odd)
    assert compared == 478
