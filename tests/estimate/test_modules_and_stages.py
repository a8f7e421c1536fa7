"""Multi-token prediction and uneven pipelines against what was published of them."""

from __future__ import annotations

import pytest

from gpuplan.accuracy.layout import modules_of as said_modules
from gpuplan.accuracy.layout import stages_of
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.models.catalog import cards, find
from gpuplan.specs.operations import Operations
from gpuplan.workload.context import ONE, Leaves
from gpuplan.workload.mtp import active_params, module_key, modules_of
from tests.estimate.subjects import library, subject, train_plan

STORED = [card for card in cards() if "multi_token_prediction" in card.checkpoint_extra]


def made(model: str, on: str, engine: str = "megatron-lm", **given: object) -> TrainingFigures:
    return training_figures(subject(model, on, engine), train_plan(**given))


def stage_layers(figures: TrainingFigures, place: str, key: str) -> float:
    """Layers of a kind on a stage, as its activations count them; modules included."""
    for name in (f"{place}_stage.layers_and_mtp", f"{place}_stage.{key}.layers"):
        found = figures.time.stages[place][0].find(name)  # type: ignore[index]
        if found is not None:
            return float(found.value)
    raise AssertionError(f"no layers on {place}")


@pytest.mark.parametrize("card", STORED, ids=lambda card: card.id)
def test_a_module_holds_what_the_published_weights_hold(card: object) -> None:
    card = find(card.id)  # type: ignore[attr-defined]
    arch, counts = card.architecture, card.count()
    key = module_key(arch)
    layer = next(one.layer_total for one in counts.blocks if key in (one.block, f"{one.stack}.{one.block}"))
    module = modules_of(arch, Leaves(card.source), ONE)
    own = float(layer.value + module.projection.value + module.norms.value)
    ends = 2 * arch.hidden * arch.vocab
    number = 1 if card.mtp is None else card.mtp.modules
    # GLM-4.5 stores embedding and head again, Step-3.5 the head of each of its three; the others share them.
    assert card.checkpoint_extra["multi_token_prediction"] in (number * own, number * (own + ends), number * (own + ends / 2))


def test_there_are_published_modules() -> None:
    assert len(STORED) >= 8


def test_a_module_of_deepseek_v3_has_11_6_billion_of_its_own() -> None:
    # The model's README: 685B stored, 671B of them the main model; embedding and head (1.85B) are stored twice.
    card = find("deepseek-v3")
    layer = next(one.layer_total for one in card.count().blocks if one.block == "moe")
    module = modules_of(card.architecture, Leaves(card.source), ONE)
    stored = float(layer.value + module.projection.value + module.norms.value) + 2 * 7168 * 129280
    assert (671.026e9 + stored) / 1e9 == pytest.approx(684.5, abs=0.1)


def test_model_flop_with_modules_is_what_megatron_counts() -> None:
    # Megatron-LM, num_floating_point_operations: a module adds a layer, 2 h^2 + 3 h, and the logits once more.
    plain, more = (made("llama-3.1-8b", "8xh100-sxm-80gb", tp=8.0, mtp=number) for number in (0.0, 1.0))
    about, tokens = subject("llama-3.1-8b"), 64 * 4096.0
    h, heads, dim, vocab = 4096.0, 32, 128, 128256
    layer = 2 * h * heads * dim + 2 * h * 8 * dim + 3 * h * 14336 + 2 * h
    scores = 12 * heads * dim * 4096.0 * 1.0
    added = tokens * (6 * (layer + 2 * h**2 + 3 * h + h * vocab) + scores)
    flop = [float(one.figures["mfu"].find("step.model_flop").value) for one in (plain, more)]  # type: ignore[union-attr]
    assert flop[1] - flop[0] == pytest.approx(added, rel=1e-9)
    whole = active_params(about.arch, about.counts, about.leaves(), modules_of(about.arch, about.leaves(), ONE))
    assert float(whole.value) == pytest.approx(layer + 2 * h**2 + 3 * h + h * vocab)


@pytest.mark.parametrize(("pp", "first", "last"), [(4.0, 16, 13), (8.0, 8, 5), (16.0, 4, 1)])
def test_deepseek_v3_is_laid_out_as_in_the_recipes(pp: float, first: int, last: int) -> None:
    # NeMo and Megatron-Bridge, DeepSeek-V3 recipes, map_pp_vp_to_layout: the last stage also has the module and the loss.
    figures = made("deepseek-v3", "1024xh100-sxm-80gb", pp=pp, dp=1024 / pp, ep=64.0, mtp=1.0, global_batch=4096.0)
    dense = {place: figures.time.stages[place][0].find(f"{place}_stage.dense.layers") for place in ("first", "last")}
    held = {"first": 0.0, "last": 0.0}
    for place in held:
        moe = figures.time.stages[place][0].find(f"{place}_stage.moe.layers")  # type: ignore[index]
        assert moe is not None
        held[place] = float(moe.value) + (float(dense[place].value) if dense[place] is not None else 0.0)  # type: ignore[union-attr]
    assert held == {"first": first, "last": last}


@pytest.mark.parametrize(
    ("said", "pp", "ends", "modules"),
    [
        ("Et*4|(t*4|)*14tmL", 2, (32, 29), 1),
        ("Et*4|(t*4|)*14tmL", 16, (4, 1), 1),
        ("Et|(tt|)*30mL", 8, (7, 6), 1),
        ("first stage 3 layers, last stage 2", 16, (3, 2), 0),
        ("", 8, None, 0),
    ],
)
def test_layouts_of_published_runs_are_read(said: str, pp: int, ends: tuple[int, int] | None, modules: int) -> None:
    found = stages_of({"pipeline_layout": said}, pp)
    assert found == ({} if ends is None else {"first_stage_layers": ends[0], "last_stage_layers": ends[1]})
    assert said_modules({"pipeline_layout": said}) == modules


def test_llama_3_405b_has_a_layer_less_at_both_ends() -> None:
    # arXiv 2407.21783, 3.3.2: 126 layers on 16 stages, one layer less on the first and on the last.
    base = {"tp": 8.0, "pp": 16.0, "dp": 8.0, "global_batch": 128.0}
    usual = made("llama-3.1-405b", "1024xh100-sxm-80gb", **base)
    named = made("llama-3.1-405b", "1024xh100-sxm-80gb", **base, first_stage_layers=7.0, last_stage_layers=7.0)
    assert {name: float(term.value) for name, term in named.figures.items()} == pytest.approx(
        {name: float(term.value) for name, term in usual.figures.items()}
    )


def test_a_heavier_end_sets_the_pace_and_a_lighter_one_moves_it() -> None:
    base = {"tp": 8.0, "pp": 4.0, "dp": 1.0, "global_batch": 64.0}
    steps = {
        last: float(made("llama-3.1-70b", "32xh100-sxm-80gb", **base, last_stage_layers=last).time.step.value)
        for last in (26.0, 20.0, 8.0)
    }
    assert steps[26.0] > steps[20.0] < steps[8.0]
    # A stage is as slow as its layers and its head: 26 layers and the head on the last, 24 and the embedding on the first.
    assert steps[26.0] / steps[20.0] == pytest.approx(27 / 21, rel=0.02)
    assert steps[8.0] / steps[20.0] == pytest.approx(24 / 21, rel=0.02)


def test_a_checkpoint_holds_the_modules() -> None:
    about = subject("llama-3.1-8b", "8xh100-sxm-80gb")
    about = about.replaced(operations=library().catalog.load(Operations, "usual"))
    sizes = [
        float(training_figures(about, train_plan(tp=8.0, mtp=number), run=Run(tokens=1e12)).figures["checkpoint_bytes"].value)
        for number in (0.0, 1.0)
    ]
    h = 4096.0
    layer = 2 * h * h + 2 * h * 1024 + 3 * h * 14336 + 2 * h
    assert sizes[1] / sizes[0] - 1 == pytest.approx((layer + 2 * h**2 + 3 * h) / 8030261248, rel=1e-6)


def test_the_ends_hold_the_layers_that_the_depth_begins_and_ends_with() -> None:
    # DeepSeek-V3: three dense layers come first (arXiv 2412.19437, 4.2), experts last.
    figures = made("deepseek-v3", "1024xh100-sxm-80gb", pp=16.0, dp=64.0, ep=64.0, mtp=1.0, global_batch=4096.0)
    held = {}
    for place in ("first", "middle", "last"):
        whole = figures.time.stages[place][0]  # type: ignore[index]
        found = {kind: whole.find(f"{place}_stage.{kind}.layers") for kind in ("dense", "moe")}
        held[place] = {kind: float(term.value) for kind, term in found.items() if term is not None}
    assert held["first"] == {"dense": 3.0, "moe": 1.0}
    assert held["middle"]["moe"] == 4.0
    assert held["last"]["moe"] == 1.0


@pytest.mark.parametrize(
    ("model", "given", "held"),
    [
        ("qwen3-1.7b", {"tp": 1}, 151936 * 2048),
        ("qwen3-1.7b", {"tp": 2}, 151936 * 1024),
        ("qwen3-8b", {"tp": 1}, None),  # Its head is a matrix of its own.
        ("qwen3-1.7b", {"tp": 1, "schedule": "zb-v"}, None),  # Both ends are on one rank.
    ],
)
def test_both_ends_of_a_pipeline_add_up_their_gradients_of_a_tied_embedding(
    model: str, given: dict[str, object], held: float | None
) -> None:
    figures = made(model, "8xh100", pp=2, micro_batch=1, global_batch=64, seq_len=4096, zero_stage=1, **given)
    for place in ("first", "last"):
        _, parts = figures.time.stages[place]  # type: ignore[index]
        assert ("both_ends" in parts) == (held is not None)
        if held is not None:
            assert float(parts["both_ends"].find("rank_params.held_twice").value) == held
            assert float(parts["both_ends"].value) > 0


def test_a_model_on_one_stage_holds_a_tied_embedding_once() -> None:
    figures = made("qwen3-1.7b", "8xh100", pp=1, micro_batch=1, global_batch=64, seq_len=4096)
    assert all("both_ends" not in parts for _, parts in figures.time.stages.values())
