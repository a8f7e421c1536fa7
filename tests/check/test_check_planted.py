"""Faults planted in copies of shipped files: each is found by the rule meant for it, on its line."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuplan.check.examine import RULES, Finding, examine
from gpuplan.check.rules import severity_of
from gpuplan.specs.catalog import shipped_folder

TODAY = date(2026, 12, 1)
H100 = "accelerators/nvidia/h100-sxm-80gb.yaml"
A100 = "accelerators/nvidia/a100-sxm-80gb.yaml"
L4 = "accelerators/nvidia/l4.yaml"
V100 = "accelerators/nvidia/v100-sxm2-16gb.yaml"
RTX4090 = "accelerators/nvidia/rtx-4090.yaml"
RTX5090 = "accelerators/nvidia/rtx-5090.yaml"
B200 = "accelerators/nvidia/b200-sxm-180gb.yaml"
B300 = "accelerators/nvidia/b300-sxm-270gb.yaml"
A10G = "accelerators/nvidia/a10g.yaml"
GH200 = "accelerators/nvidia/gh200-96gb.yaml"
MI210 = "accelerators/amd/mi210.yaml"
MI250X = "accelerators/amd/mi250x.yaml"
A10 = "accelerators/nvidia/a10.yaml"
ADA = "accelerators/nvidia/rtx-6000-ada.yaml"
PRO = "accelerators/nvidia/rtx-pro-6000-blackwell-server.yaml"
RTX3090 = "accelerators/nvidia/rtx-3090.yaml"
MI350X = "accelerators/amd/mi350x.yaml"
A6000 = "accelerators/nvidia/rtx-a6000.yaml"
P5 = "instances/aws/p5.yaml"
LAMBDA = "instances/lambda/gpu.yaml"
RETIRED = "prices/azure.yaml"
AWS = "prices/aws/aws-p5.yaml"
OCI = "prices/oci.yaml"
GCP = "prices/gcp.yaml"
META = "clusters/meta-llama3-24k-roce.yaml"
DGX = "systems/dgx-h100.yaml"


class Fault(NamedTuple):
    """A change to a copy of a shipped file: each pattern is replaced; the finding stands on the line of the first one."""

    name: str
    file: str
    changes: tuple[tuple[str, str], ...]
    codes: tuple[str, ...]
    said: str = ""


def one(name: str, file: str, old: str, new: str, code: str, said: str = "") -> Fault:
    return Fault(name, file, ((old, new),), (code,), said)


RATES = [
    one(
        "sparse bf16 rate of an H100",
        H100,
        r"bf16: \{value: 989.4 TFLOP/s",
        "bf16: {value: 1979 TFLOP/s",
        "spec.sparse-rate",
        "it is the rate with sparsity",
    ),
    one(
        "sparse fp8 rate of an H100",
        H100,
        r"fp8: \{value: 1978.9 TFLOP/s",
        "fp8: {value: 3958 TFLOP/s",
        "spec.sparse-rate",
        "`1979 TFLOP/s`",
    ),
    Fault(
        "all rates of an L4 sparse",
        L4,
        (
            (r"bf16: \{value: \S+", "bf16: {value: 242"),
            (r"\n  fp16: \{value: \S+", "\n  fp16: {value: 242"),
            (r"\n  fp8: \{value: \S+", "\n  fp8: {value: 485"),
        ),
        ("spec.sparse-rate",) * 3,
    ),
    Fault(
        "sparse rate and FLOP per clock of an A100",
        A100,
        ((r"bf16: 312 TFLOP/s", "bf16: 624 TFLOP/s"), (r"bf16: \{value: 2048", "bf16: {value: 4096")),
        ("spec.sparse-rate",),
        "flop_per_clock",
    ),
    Fault(
        "sparse rate without units",
        H100,
        ((r"bf16: \{value: 989.4 TFLOP/s.*", "bf16: 1979 TFLOP/s"), (r"\nunits:\n(  .*\n)+", "\n")),
        ("spec.sparse-rate",),
    ),
    Fault(
        "all rates sparse without units",
        H100,
        (
            (r"tf32: \{value: 494.7", "tf32: {value: 989.4"),
            (r"bf16: \{value: 989.4 TFLOP/s.*", "bf16: 1979 TFLOP/s"),
            (r"\n  fp16: \{value: 989.4 TFLOP/s.*", "\n  fp16: 1979 TFLOP/s"),
            (r"\n  fp8: .*", "\n  fp8: 3958 TFLOP/s"),
            (r"\n  int8: .*", "\n  int8: 3958 TOP/s"),
            (r"\nunits:\n(  .*\n)+", "\n"),
        ),
        ("spec.sparse-rate",) * 5,
    ),
    one("FLOP per clock with sparsity", H100, r"bf16: \{value: 4096", "bf16: {value: 8192", "spec.per-clock", "dense"),
    one(
        "16-bit accumulation of a GeForce",
        RTX4090,
        r"\n  fp16: .*",
        "\n  fp16: 330.3 TFLOP/s",
        "spec.half-accumulate",
        "other_rates",
    ),
    one("sparse fp8 rate of a GeForce", RTX4090, r"\n  fp8: .*", "\n  fp8: 1321 TFLOP/s", "spec.sparse-rate"),
    one("vector rate of an H100", H100, r"\n  fp16: .*", "\n  fp16: 267.6 TFLOP/s", "spec.vector-rate", "outside the matrix units"),
    one("vector rate of an RTX A6000", A6000, r"bf16: 154.8 TFLOP/s", "bf16: 38.7 TFLOP/s", "spec.vector-rate"),
    one("vector rate of an RTX 4090", RTX4090, r"bf16: \{value: 165.2 TFLOP/s", "bf16: {value: 82.6 TFLOP/s", "spec.vector-rate"),
    one("bf16 on a V100", V100, r"(\n  fp16: .*)", r"\n  bf16: 125 TFLOP/s\1", "spec.unsupported-dtype", "Volta has no bf16"),
    one("fp8 on an A100", A100, r"(\n  int8: .*)", r"\n  fp8: 624 TFLOP/s\1", "spec.unsupported-dtype"),
    one("int4 on an H100", H100, r"(\nsparsity:)", r"\n  int4: 3958 TOP/s\1", "spec.unsupported-dtype"),
    one("fp8 on an MI210", MI210, r"(\n  int8: .*)", r"\n  fp8: 181 TFLOP/s\1", "spec.unsupported-dtype"),
    Fault(
        "figures of an A10 for an A10G",
        A10G,
        ((r"bf16: .*", "bf16: 125 TFLOP/s"), (r"\n  fp16: .*", "\n  fp16: 125 TFLOP/s"), (r"\n  int8: .*", "\n  int8: 250 TOP/s")),
        ("spec.rate-recount",) * 3,
    ),
    one("int8 of a B200 for a B300", B300, r"\n  int8: .*", "\n  int8: 4500 TOP/s", "spec.rate-ratio", "Blackwell"),
    one(
        "FLOP per clock of other units",
        A100,
        r"flop_per_clock: \{fp64: \{value: 64",
        "flop_per_clock: {fp64: {value: 32",
        "spec.per-clock",
    ),
    one("a pair of GH200 as one", GH200, r"  count: \{value: 132", "  count: {value: 264", "spec.units", "superchip"),
    one("two devices in one GH200", GH200, r"\nunit: gpu", "\nunit: gpu\ndevices: 2", "spec.devices"),
    one("a board said to be a GPU", MI250X, r"\nunit: board", "\nunit: gpu", "spec.devices"),
    one("a rate left out", H100, r"\n  int8: \{value: 1978.9.*", "", "spec.rate-missing"),
]
MEMORY = [
    one(
        "bandwidth 1000 times too large",
        RTX5090,
        r"bandwidth: \{value: 1792 GB/s",
        "bandwidth: {value: 1792 TB/s",
        "spec.bandwidth-recount",
        "GB/s for TB/s",
    ),
    one(
        "bits for bytes of bandwidth",
        H100,
        r"bandwidth: \{value: 3.35 TB/s.*",
        "bandwidth: 3.35 Tbit/s",
        "spec.bandwidth-recount",
        "bits taken for bytes",
    ),
    one(
        "bandwidth of another part",
        A100,
        r"bandwidth: \{value: 2039 GB/s",
        "bandwidth: {value: 1555 GB/s",
        "spec.bandwidth-recount",
    ),
    one("a unit dropped", H100, r"power: \{value: 700 W", "power: {value: 700", "spec.missing-unit", "`700` has no unit"),
    one("a unit that does not exist", H100, r"tf32: \{value: 494.7 TFLOP/s", "tf32: {value: 494.7 TFLOPS", "spec.bad-unit"),
    one("a unit of another kind", H100, r"bandwidth: \{value: 3.35 TB/s", "bandwidth: {value: 3.35 TB", "spec.wrong-unit"),
    one(
        "MB for MiB reported",
        A100,
        r"capacity_reported: \{value: 81920 MiB",
        "capacity_reported: {value: 91920 MiB",
        "spec.reported-capacity",
    ),
    one("a board's capacity for a die", L4, r"capacity: \{value: 24 GiB", "capacity: {value: 48 GiB", "spec.reported-capacity"),
    one("kW for W", H100, r"power: \{value: 700 W", "power: {value: 700 kW", "spec.flop-per-watt"),
    one("a file under another name", H100, r"\nid: h100-sxm-80gb", "\nid: h100-sxm-80", "spec.id-not-file-name"),
]
LINKS = [
    Fault(
        "cards that their network has not",
        DGX,
        ((r"(nics: 8, bandwidth_each: \{value: )400 Gbit/s", r"\g<1>200 Gbit/s"),),
        ("spec.network-port", "spec.network-total"),
    ),
    one("a cluster of half a node", META, r"(\naccelerators: {value: )\d+", r"\g<1>24572", "spec.cluster-node", "whole number"),
    one("a cluster of other nodes", META, r"\nsystem: \S+", "\nsystem: dgx-b200", "spec.cluster-node"),
    one(
        "both directions of all links",
        H100,
        r"bandwidth_per_direction: \{value: 450 GB/s.*",
        "bandwidth_per_direction: 900 GB/s",
        "spec.link-direction",
        "both directions",
    ),
    one(
        "both directions of one link",
        H100,
        r"link_bandwidth_per_direction: \{value: 25 GB/s",
        "link_bandwidth_per_direction: {value: 50 GB/s",
        "spec.link-direction",
        "25 GB/s one way",
    ),
    one(
        "both directions of PCIe",
        B200,
        r"(pcie:\n  gen: .*\n  lanes: .*\n  bandwidth_per_direction: )\{value: 63 GB/s",
        r"\1{value: 128 GB/s",
        "spec.link-direction",
    ),
    one("another PCIe generation", V100, r"(\npcie:\n  source: \S+\n  )gen: 3", r"\1gen: 4", "spec.pcie-rate"),
    one("too many links", A100, r"links: \{value: 12", "links: {value: 24", "spec.link-generation"),
    one(
        "both directions in a system",
        DGX,
        r"(nvlink4-nvswitch.*?bandwidth_per_direction: {value: )450 GB/s",
        r"\g<1>900 GB/s",
        "spec.link-direction",
    ),
    one(
        "bits for bytes of a system's network",
        DGX,
        r"(scale-out.*?bandwidth_per_direction: \{value: )50 GB/s",
        r"\g<1>400 GB/s",
        "spec.network-total",
        "bits taken for bytes",
    ),
    one("power of a rack", DGX, r"maximum: \{value: 10.2 kW", "maximum: {value: 102 kW", "spec.system-power"),
    one(
        "a system's unknown accelerator",
        DGX,
        r"\naccelerator: h100-sxm-80gb",
        "\naccelerator: h100-smx-80gb",
        "spec.unknown-reference",
        "`h100-smx-80gb`",
    ),
]
INSTANCES = [
    one(
        "an instance's unknown accelerator",
        P5,
        r"(p5.48xlarge\n    source: .*\n    accelerator: )h100-sxm-80gb",
        r"\1h100-sxm",
        "spec.unknown-reference",
    ),
    one("an instance's unknown system", P5, r"system: aws-p5\b", "system: aws-p55", "spec.unknown-reference"),
    one("more accelerators than the board", P5, r"accelerators: 8", "accelerators: 12", "spec.instance-count", "more than the 8"),
    one("the system of another accelerator", P5, r"system: aws-p5\b", "system: dgx-b200", "spec.instance-accelerator"),
    one(
        "GH200 counted as two GPUs",
        LAMBDA,
        r"(gpu_1x_gh200\n    source: .*\n    accelerator: .*\n    accelerators: )1",
        r"\g<1>2",
        "spec.instance-count",
        "says 1",
    ),
    one("bytes for bits of a network", P5, r"bandwidth: 3200 Gbit/s", "bandwidth: 3200 GB/s", "spec.network-bits", "Gbit/s"),
    one("MiB for GiB of main memory", P5, r"memory: 2048 GiB", "memory: 2048 MiB", "spec.host-memory"),
    one(
        "both directions of an instance's links",
        P5,
        r"bandwidth_per_direction: \{value: 450 GB/s",
        "bandwidth_per_direction: {value: 900 GB/s",
        "spec.link-direction",
    ),
    one(
        "memory of the whole board for a share",
        "instances/azure/nvadsa10-v5.yaml",
        r"accelerator_memory: 4 GiB",
        "accelerator_memory: 24 GiB",
        "spec.instance-memory",
    ),
    one(
        "a source that nothing uses",
        P5,
        r"\nprovider: aws",
        '\n  other: {title: Another page, url: "https://example.org/p5", checked: 2026-11-20, kind: docs}\nprovider: aws',
        "spec.orphan-source",
    ),
]
PRICE = r"(instance: p5.48xlarge, region: us-east-1, kind: on_demand, )price: 55.04 USD/h"
PRICES = [
    one("no price where most are", AWS, r"default_region: us-east-1", "default_region: us-east-11", "spec.default-region"),
    one(
        "a price of what is retired",
        RETIRED,
        r"(instance: Standard_NC6s_v3, .*?)status: historical",
        r"\1status: current",
        "spec.retired-price",
    ),
    one(
        "an instance priced at 0",
        AWS,
        PRICE,
        r"\1price: 0 USD/h",
        "spec.zero-price",
        "`p5.48xlarge` in us-east-1 is priced at 0: `0 USD/h`",
    ),
    one("a price without a unit", AWS, PRICE, r"\1price: 55.04", "spec.missing-unit", "`55.04` has no unit"),
    one("a price below zero", AWS, PRICE, r"\1price: -1 USD/h", "spec.out-of-range"),
    one("a sentinel price", AWS, PRICE, r"\1price: 700.0 USD/h", "spec.sentinel-price", "stands for an unknown price"),
    one("another sentinel price", AWS, PRICE, r"\1price: 9999.99 USD/h", "spec.sentinel-price"),
    one("the price of one accelerator for all", AWS, PRICE, r"\1price: 6.88 USD/h", "spec.price-out-of-kin", "per: accelerator"),
    one(
        "the price of all for one accelerator",
        AWS,
        PRICE,
        r"\1per: accelerator, price: 55.04 USD/h",
        "spec.price-out-of-kin",
        "per: instance",
    ),
    one(
        "the price of another instance",
        AWS,
        r"instance: p5.48xlarge, region: us-east-1, kind: on_demand",
        "instance: p5.49xlarge, region: us-east-1, kind: on_demand",
        "spec.unknown-reference",
    ),
    one(
        "the price of an instance of another family",
        "prices/aws/aws-g6.yaml",
        r"instance: g6.24xlarge, region: us-west-2, kind: on_demand",
        "instance: g4ad.16xlarge, region: us-west-2, kind: on_demand",
        "spec.misquoted",
        "`g4ad.16xlarge`, where the shipped aws-g6 has this price for `g6.24xlarge`",
    ),
    one(
        "the price of another region",
        "prices/aws/aws-g6.yaml",
        r"instance: g6.24xlarge, region: ap-northeast-2, kind: on_demand",
        "instance: g6.24xlarge, region: ap-east-1, kind: on_demand",
        "spec.misquoted",
        "this price for `ap-northeast-2`",
    ),
    one(
        "spot above on demand",
        "prices/aws/aws-g6.yaml",
        r"(instance: g6.8xlarge, region: us-east-1, kind: spot, )price: 0.8316 USD/h",
        r"\1price: 2.5 USD/h",
        "spec.spot-above-on-demand",
    ),
    one(
        "three years as one",
        "prices/gcp/gcp-g4.yaml",
        r"kind: (reserved_1yr)(, [^}]*committed use, one year)",
        r"kind: reserved_3yr\2",
        "spec.price-kind",
        "committed use, one year",
    ),
    one(
        "a capability of another architecture", H100, r'compute_capability: "9.0"', 'compute_capability: "12.0"', "spec.capability"
    ),
    one(
        "a price from the future",
        AWS,
        r"(instance: p5.48xlarge, region: us-east-1, kind: on_demand, price: 55.04 USD/h, date: )2026-10-10",
        r"\g<1>2027-07-20",
        "spec.future-date",
    ),
    one(
        "an old price",
        AWS,
        r"(instance: p5.48xlarge, region: us-east-1, kind: on_demand, price: 55.04 USD/h, date: )2026-10-10",
        r"\g<1>2024-07-20",
        "spec.stale-price",
        "days ago",
    ),
    one(
        "two prices at once",
        AWS,
        r"(  - \{instance: p5.48xlarge, region: us-east-1, kind: on_demand, price: )55.04( USD/h.*\n)",
        r"\g<1>60\2\g<1>55.04\2",
        "spec.duplicate-offer",
    ),
    one(
        "a promotional size",
        "prices/azure.yaml",
        r"(instance: Standard_NC6, .*?)status: promo",
        r"\1status: current",
        "spec.promo-price",
    ),
]
SOURCES = [
    one(
        "a source without its page",
        H100,
        r"\n    url: https://glennklockwood.com/garden/processors/h100",
        "",
        "spec.source-without-url",
    ),
    one("a source without https", H100, r"url: https://glennklockwood.com", "url: http://glennklockwood.com", "spec.http-source"),
    one("a source from the future", H100, r"(h100\n    checked: )2026-11-20", r"\g<1>2027-11-20", "spec.future-date"),
    one("a source long unread", H100, r"(h100\n    checked: )2026-11-20", r"\g<1>2024-11-20", "spec.stale-source"),
    one(
        "a source that is not there",
        H100,
        r"bus_bits: \{value: 5120, source: nv-hopper\}",
        "bus_bits: {value: 5120, source: nv-hoppers}",
        "spec.unknown-source",
    ),
    one(
        "the guide of MIG for a power limit",
        H100,
        r"power: \{value: 700 W, source: nvidia\}",
        "power: {value: 700 W, source: mig-guide}",
        "spec.source-cannot-say",
        "prints no such value",
    ),
    one(
        "the table of shader rates for a tensor rate",
        H100,
        r"  fp8: \{value: 1978.9 TFLOP/s, source: [\w-]+",
        "  fp8: {value: 1978.9 TFLOP/s, source: techpowerup",
        "spec.source-cannot-say",
    ),
    one(
        "the page of a sibling",
        RTX4090,
        r"geforce-rtx-4090.c3889",
        "geforce-rtx-4080.c3888",
        "spec.other-part",
    ),
    one("the page of the laptop part", RTX4090, r"geforce-rtx-4090.c3889", "geforce-rtx-4090-mobile.c3949", "spec.other-part"),
    one(
        "another maker's page",
        H100,
        r"https://www.nvidia.com/en-us/data-center/h100/",
        "https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html",
        "spec.other-part",
        "about amd",
    ),
    one(
        "a link that nobody may follow",
        H100,
        r"url: https://www.techpowerup.com/gpu-specs/h100-sxm5-80-gb.c3900",
        "url: https://github.com/reox007/RightNow-GPU-Database/blob/77fae385/data/all-gpus.json",
        "spec.refused-source",
    ),
    one(
        "a source that nothing names",
        H100,
        r"\nmemory:",
        "\n  more: {title: more, checked: 2026-11-20, kind: user}\nmemory:",
        "spec.orphan-source",
    ),
    one("a source only compared with that is cited", H100, r"(\n  xla:\n)", r"\1    compared: true\n", "spec.orphan-source"),
    one(
        "a value outside its own range",
        H100,
        r"accept: \[3.35 TB/s, 3.36 TB/s\]",
        "accept: [3.3 TB/s, 3.34 TB/s]",
        "spec.outside-accept",
    ),
    one(
        "an unknown default system",
        H100,
        r"default_system: dgx-h100",
        "default_system: dgx-h1000",
        "spec.unknown-reference",
        "dgx-h100",
    ),
    one("an unknown key", H100, r"\nl2: ", "\nL2: ", "spec.unknown-key"),
    one("a key twice", H100, r"\npower: (.*)", r"\npower: \1\npower: 650 W", "yaml.duplicate-key"),
]
# What other projects printed (July to November 2026), written into our files: project, what it says, and our rule for it.
RIVALS = [
    one("torch inductor: L4 reads its memory at 3350 GB/s", L4, r"bandwidth: .*", "bandwidth: 3350 GB/s", "spec.bandwidth-recount"),
    one("torch ao: H100 reads its memory at 2.4 TB/s", H100, r"bandwidth: .*", "bandwidth: 2.4 TB/s", "spec.bandwidth-recount"),
    one("LLM-Viewer: H100 3072 GB/s", H100, r"bandwidth: .*", "bandwidth: 3072 GB/s", "spec.bandwidth-recount"),
    one("vidur: TFLOPS times 2**40", H100, r"bf16: .*", "bf16: 1087.9 TFLOP/s", "spec.rate-recount"),
    one("llm-analysis: int8 of MI210 doubled", MI210, r"\n  int8: .*", "\n  int8: 362 TOP/s", "spec.rate-recount"),
    one("llm-analysis: A10 28 GB", A10, r"capacity: .*", "capacity: 28 GiB", "spec.reported-capacity"),
    one("torch inductor: tf32 on an MI350X", MI350X, r"(\n  bf16: .*)", r"\n  tf32: 144.2 TFLOP/s\1", "spec.unsupported-dtype"),
    one("aiconfigurator: RTX PRO 6000 Server 1792 GB/s", PRO, r"bandwidth: .*", "bandwidth: 1792 GB/s", "spec.bandwidth-recount"),
    one(
        "Lightning: RTX 3090 at its vector rate",
        RTX3090,
        r"bf16: .*",
        "bf16: {value: 35.6 TFLOP/s, source: derived}",
        "spec.vector-rate",
    ),
    one("llm.c: RTX 6000 Ada at half rate", ADA, r"bf16: .*", "bf16: {value: 182.1 TFLOP/s, source: derived}", "spec.vector-rate"),
]
FAULTS = [*RATES, *MEMORY, *LINKS, *INSTANCES, *PRICES, *SOURCES, *RIVALS]


def planted(fault: Fault, folder: Path) -> tuple[Path, str]:
    """The copy with the fault in it, and its text."""
    text = (shipped_folder() / fault.file).read_text(encoding="utf-8")
    for old, new in fault.changes:
        text, count = re.subn(old, new, text, count=1)
        assert count == 1, f"{old} is not in {fault.file}"
    path = folder / fault.file
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path, text


def found_in(folder: Path) -> list[Finding]:
    return list(examine([folder], today=TODAY).findings)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_is_found_by_the_rule_meant_for_it(fault: Fault, tmp_path: Path) -> None:
    path, _ = planted(fault, tmp_path)
    found = found_in(tmp_path)
    codes = [one.code for one in found]
    assert all(codes.count(code) >= fault.codes.count(code) for code in fault.codes), [one.message for one in found]
    assert len(found) <= len(fault.codes) + 2, [one.message for one in found]
    assert all(one.file == str(path) and one.line > 1 and one.message for one in found)
    assert all(one.severity == severity_of(one.code) for one in found)
    assert any(fault.said in f"{one.message} ({one.hint})" for one in found)
    assert all(one.code in RULES or one.code.startswith("yaml.") for one in found)


@pytest.mark.parametrize("file", sorted({fault.file for fault in FAULTS}))
def test_the_copies_without_a_fault_are_clean(file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text((shipped_folder() / file).read_text(encoding="utf-8"), encoding="utf-8")
    assert found_in(tmp_path) == []


def test_there_are_enough() -> None:
    assert len(FAULTS) >= 85
    assert len({code for fault in FAULTS for code in fault.codes}) >= 30
