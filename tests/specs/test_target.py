"""What `--on` may name, what comes of it, and what is said when it cannot be understood."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.errors import Exit, GpuplanError, UnknownError, UsageError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target
from gpuplan.specs.system import System

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})


def target(text):
    return parse_target(text, CATALOG)


def levels(text):
    return [(level.size, level.topology, level.bandwidth_per_direction.value / 1e9) for level in target(text).levels]


@pytest.mark.parametrize(
    ("text", "accelerator", "count", "units", "per_unit"),
    [
        ("h100", "h100-sxm-80gb", 1, 1, 1),
        ("8xh100-sxm-80gb", "h100-sxm-80gb", 8, 8, 1),
        ("8 x H100-SXM-80GB", "h100-sxm-80gb", 8, 8, 1),
        ("64xh100-sxm-80gb", "h100-sxm-80gb", 64, 64, 1),
        ("2xdgx-h100", "h100-sxm-80gb", 16, 2, 8),
        ("hgx-h100", "h100-sxm-80gb", 8, 1, 8),
        ("64xaws:p5.48xlarge", "h100-sxm-80gb", 512, 64, 8),
        ("aws:p5.48xlarge", "h100-sxm-80gb", 8, 1, 8),
        ("p5.48xlarge", "h100-sxm-80gb", 8, 1, 8),
        ("azure:Standard_ND96isr_H100_v5", "h100-sxm-80gb", 8, 1, 8),
        ("gcp:a3-highgpu-8g", "h100-sxm-80gb", 8, 1, 8),
        ("tpu-v5e-8", "tpu-v5e", 8, 1, 8),
        ("tpu-v5p-256", "tpu-v5p", 128, 1, 128),
        ("2xtpu-v5e-256", "tpu-v5e", 512, 2, 256),
        ("gcp:v5litepod-8", "tpu-v5e", 8, 1, 8),
        ("8xtpu-v5e", "tpu-v5e", 8, 1, 8),
        ("gb200-nvl72", "gb200-186gb", 72, 1, 72),
        ("8xmi300x", "mi300x", 8, 8, 1),
        ("dgx-spark", "gb10-dgx-spark", 1, 1, 1),
    ],
)
def test_the_forms_of_a_target(text, accelerator, count, units, per_unit):
    made = target(text)
    assert made.text == text
    assert (made.accelerator.id, made.count, made.units, made.per_unit) == (accelerator, count, units, per_unit)
    assert made.share == 1


def test_levels_of_nodes_and_of_the_network_between_them():
    assert levels("h100") == []
    assert levels("4xh100") == [(4, "switched", 450)]
    assert levels("dgx-h100") == [(8, "switched", 450)]
    assert levels("2xdgx-h100") == levels("16xh100") == [(8, "switched", 450), (None, "switched", 50)]
    assert levels("8xmi300x") == [(8, "mesh", 448)]
    assert levels("gb200-nvl72") == [(4, "switched", 900), (72, "switched", 900)]
    assert levels("2xgb200-nvl72")[-1] == (None, "switched", 50)
    assert levels("2xh100-nvl") == [(2, "mesh", 300)]
    assert levels("8xh100-nvl") == [(2, "mesh", 300), (8, "pcie-tree", 63)]
    assert levels("4xrtx-4090") == [(4, "pcie-tree", 31.5)]


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("hgx-p100", [(8, "hybrid-mesh", 80)]),
        ("hgx-v100", [(8, "hybrid-mesh", 150)]),
        ("dgx-2", [(16, "switched", 150)]),
        ("hgx-a100", [(8, "switched", 300)]),
        ("hgx-a100-4", [(4, "mesh", 300)]),
        ("hgx-h100", [(8, "switched", 450)]),
        ("hgx-h200", [(8, "switched", 450)]),
        ("hgx-h20", [(8, "switched", 450)]),
        ("hgx-h800", [(8, "switched", 200)]),
        ("hgx-b200", [(8, "switched", 900)]),
        ("hgx-b300", [(8, "switched", 900)]),
        ("gh200-node-96gb", []),
        ("gh200-nvl32", [(32, "switched", 450)]),
        ("gb200-nvl4", [(4, "mesh", 900)]),
        ("gb300-nvl72", [(4, "switched", 900), (72, "switched", 900)]),
        ("mi250x-4", [(4, "mesh", 350)]),
        ("mi325x-8", [(8, "mesh", 448)]),
        ("mi355x-8", [(8, "mesh", 537.6)]),
        ("gaudi2-8", [(8, "mesh", 262.5)]),
        ("gaudi3-8", [(8, "mesh", 525)]),
        ("aws-trn1-32xl", [(16, "torus", 192)]),
        ("aws-trn2-ultraserver", [(16, "torus", 512), (64, "torus", 640)]),
        ("aws-inf2-48xl", [(12, "ring", 103)]),
        ("tpu-v7-pod", [(9216, "torus", 600)]),
        ("spark-pair", [(2, "mesh", 25)]),
        ("mac-studio-m3-ultra", []),
        ("mac-studio-m3-ultra-quad", [(4, "mesh", 30)]),
        ("h100-pcie-8", [(2, "mesh", 300), (8, "pcie-tree", 63)]),
        ("h100-pcie-8-no-bridge", [(8, "pcie-tree", 63)]),
        ("h100-nvl-4", [(2, "mesh", 300), (4, "pcie-tree", 63)]),
        ("a100-pcie-80gb-2-no-bridge", [(2, "pcie-tree", 31.5)]),
        ("rtx-3090-4", [(2, "mesh", 56.25), (4, "pcie-tree", 31.5)]),
        ("l40s-8", [(8, "pcie-tree", 31.5)]),
        ("t4-4", [(4, "pcie-tree", 15.75)]),
    ],
)
def test_levels_inside_the_boards_that_people_have(text, inside):
    assert levels(text) == inside


def test_every_slice_that_can_be_had_is_a_target():
    count = 0
    for generation in ("v2", "v3", "v4", "v5e", "v5p", "v6e", "v7"):
        for part in CATALOG.load(System, f"tpu-{generation}-pod").slices:
            made = target(part.name)
            assert (made.count, [level.size for level in made.levels]) == (part.chips, [part.chips] if part.chips > 1 else [])
            count += 1
    assert count >= 236


def test_levels_of_instances_have_the_network_of_the_instance():
    assert levels("aws:p5.48xlarge") == [(8, "switched", 450)]
    assert levels("2xaws:p5.48xlarge")[-1] == (None, "switched", 50)
    # The headline of 1,000 Gbit/s counts the front-end card; the accelerators have 4 x 200.
    assert levels("2xgcp:a3-highgpu-8g")[-1] == (None, "switched", 12.5)
    assert levels("2xgcp:a2-highgpu-2g")[0] == (2, "switched", 300)
    # 18 instances of 4 are one NVLink domain of 72.
    assert levels("18xaws:p6e-gb200.36xlarge") == levels("gb200-nvl72")
    assert levels("36xaws:p6e-gb200.36xlarge")[-1] == (None, "switched", 50)
    share = target("2xaws:p5.48xlarge").levels[-1].bandwidth_per_direction
    assert share.formula is not None
    assert share.find("hw.fabric.scale-out.instance_bandwidth") is not None


def test_levels_of_slices_are_tori_with_the_links_of_the_worst_chip():
    made = target("tpu-v5e-8").levels
    assert [(one.dims, one.wrap, one.topology) for one in made] == [((2, 4), (False, False), "torus")]
    assert made[0].bandwidth_per_direction.value == pytest.approx(2 * 50e9)
    assert made[0].peer_bandwidth is not None
    assert made[0].peer_bandwidth.value == pytest.approx(50e9)
    pod = target("tpu-v5p-256").levels[0]
    assert (pod.dims, pod.wrap) == ((4, 4, 8), (True, True, True))
    assert pod.bandwidth_per_direction.value == pytest.approx(6 * 100e9)
    assert levels("2xtpu-v5e-256") == [(256, "torus", 200), (None, "switched", 3.125)]
    assert levels("tpu-v5e-1") == []
    assert target("tpu-v5p-4x4x8").count == 128
    assert target("tpu7x-128").count == 64


def test_measured_bandwidth_is_that_of_as_many_ranks_and_no_outlier():
    eight = target("8xh100").levels[0].measured_bus_bandwidth
    four = target("4xh100").levels[0].measured_bus_bandwidth
    assert eight is not None
    assert four is not None
    assert (eight.value, four.value) == (480e9, 350e9)
    assert eight.spread == (440e9, 482e9)
    assert target("3xh100").levels[0].measured_bus_bandwidth is None
    assert target("8xl40s").levels[0].measured_bus_bandwidth is None
    assert target("8xh100").levels[0].latency_of == "all_reduce"


def test_every_level_explains_itself():
    for text in ("2xdgx-h100", "2xaws:p5.48xlarge", "2xtpu-v5e-256", "4xk80"):
        for level in target(text).levels:
            assert level.bandwidth_per_direction.unit == "B/s"
            for leaf in level.bandwidth_per_direction.walk():
                assert leaf.source.title
                assert leaf.formula is not None or leaf.source.url or leaf.source.kind in {"assumed", "derived", "definition"}


def test_assumptions_are_said():
    codes = {note.code for note in target("64xh100-sxm-80gb").notes}
    assert "target.assumed-system" in codes
    text = next(note.text for note in target("64xh100-sxm-80gb").notes if note.code == "target.assumed-system")
    assert "DGX H100" in text
    assert "50 GB/s" in text
    assert "assumed" in text
    assert "target.assumed-host" in {note.code for note in target("4xk80").notes}
    assert "target.no-peer-copies" in {note.code for note in target("4xrtx-4090").notes}
    assert target("dgx-h100").notes == ()
    assert any("h100-sxm-80gb" in note.text for note in target("h100").notes)


def test_a_network_that_nobody_named_may_be_slower():
    """A node of eight A100 has 1,600 Gbit/s in a DGX and 400 in AWS's p4d (fms-fsdp ran on such)."""
    bare, named = (target(on).levels[-1].bandwidth_per_direction for on in ("64xa100-sxm-80gb", "8xdgx-a100-640gb"))
    assert bare.value == named.value == 25e9
    assert bare.spread == (6.25e9, 25e9)
    assert named.spread is None
    assert target("8xa100-sxm-80gb").levels[-1].bandwidth_per_direction.spread is None


def test_a_share_of_an_accelerator():
    made = target("azure:Standard_NV6ads_A10_v5")
    assert made.count == 1
    assert made.share == pytest.approx(1 / 6, rel=1e-3)
    assert "4 GiB" in next(note.text for note in made.notes if note.code == "target.shared")
    with pytest.raises(UsageError):
        target("2xazure:Standard_NV6ads_A10_v5")


def test_the_host_link():
    for text, rate in (("h100", 63e9), ("dgx-h100", 63e9), ("tpu-v5e-8", 15e9), ("gb200-nvl72", 225e9)):
        link = target(text).host_link
        assert link is not None
        assert link.value == pytest.approx(rate)


@pytest.mark.parametrize("text", ["0xh100", "-1xh100", "1.5xh100", "1e3xh100", "8x", "x", ""])
def test_a_bad_count_is_a_usage_error(text):
    with pytest.raises(GpuplanError) as caught:
        target(text)
    assert caught.value.exit_code in (Exit.USAGE, Exit.UNKNOWN)
    if text not in ("x",):
        assert caught.value.exit_code is Exit.USAGE
    assert caught.value.problems[0].hint


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("h100-smx", "h100-sxm"),
        ("8xh100-smx", "h100-sxm"),
        ("dgx-h10", "dgx-h100"),
        ("aws:p5.48xlarg", "aws:p5.48xlarge"),
        ("p5.48xlarg", "p5.48xlarge"),
        ("tpu-v5p-257", "v5p-256"),
        ("7xtpu-v5e", "8"),
    ],
)
def test_an_unknown_name_gets_did_you_mean(text, near):
    with pytest.raises(UnknownError) as caught:
        target(text)
    assert caught.value.exit_code is Exit.UNKNOWN
    assert near in caught.value.problems[0].hint


@pytest.mark.parametrize("text", ["2xlambda:gpu_8x_h100_sxm5", "64xk80", "2xtpu-v2-8"])
def test_an_unknown_network_is_an_error_not_a_guess(text):
    with pytest.raises(UnknownError) as caught:
        target(text)
    assert caught.value.problems[0].code in {"target.no-network", "target.no-bandwidth"}


def test_the_board_of_an_instance_lends_it_no_network():
    """Its maker's node may have InfiniBand; the instance says Ethernet, and not how fast."""
    assert target("lambda:gpu_1x_gh200").levels == ()
    with pytest.raises(UnknownError, match="no network is known that joins 12 accelerators"):
        target("12xlambda:gpu_1x_gh200")


@given(st.text(max_size=20))
def test_any_text_gives_a_target_or_a_clear_error(text):
    count, problems = 0, ()
    try:
        count = target(text).count
    except GpuplanError as error:
        problems = tuple(error.problems)
    assert count >= 1 or problems
    assert all(problem.code and problem.message for problem in problems)


@given(st.integers(1, 4096), st.sampled_from(["h100-sxm-80gb", "dgx-a100", "aws:p5.48xlarge", "gb200-nvl72", "mi300x"]))
def test_levels_grow_and_the_last_holds_all(units, name):
    made = target(f"{units}x{name}")
    sizes = [level.size for level in made.levels]
    assert all(size is not None for size in sizes[:-1])
    assert sorted(sizes[:-1]) == sizes[:-1]
    if made.count > 1:
        assert sizes[-1] in (None, made.count)


def test_several_gh200_are_taken_as_nodes_of_four_and_one_as_a_node_of_its_own() -> None:
    """One superchip is sold alone (`gh200-node-96gb`); those who train on many have nodes of four (JUPITER, Alps)."""
    assert target("gh200-96gb").levels == ()
    inside, beyond = target("64xgh200-96gb").levels
    assert (inside.size, inside.topology, beyond.name) == (4, "mesh", "scale-out")
    assert beyond.bandwidth_per_direction.value == 25e9
    assert target("16x4xgh200-96gb").count == 64


def test_a_card_with_its_size_is_no_sellers_machine() -> None:
    assert target("A100_80G:8").instance is None
    assert (target("paperspace:A100-80G").instance.qualified_name, target("V100-32G").instance) == ("paperspace:A100-80G", None)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Trn1n:16", "`16xtrainium1` for chips"),
        ("Trn2:16", "`16xaws:trn2.48xlarge` for machines"),
        ("RTX6000", "three cards are called so"),
    ],
)
def test_a_name_that_may_be_two_things_is_refused_with_both(text: str, hint: str) -> None:
    with pytest.raises(UnknownError) as caught:
        target(text)
    assert hint in caught.value.problems[0].hint
