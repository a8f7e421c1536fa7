"""How many layers does each pipeline stage hold, of which kinds, and which stage is its neighbour?"""

from __future__ import annotations

from gpuplan.num import Count, ceil_div, maximum, minimum, where
from gpuplan.term import DEFINITION, Source, formula

_BRIDGE = Source(
    "engine",
    "NeMo: DeepSeek-V3 recipes, map_pp_vp_to_layout",
    "https://github.com/NVIDIA-NeMo/Megatron-Bridge/blob/main/src/megatron/bridge/recipes/deepseek/deepseek_v3.py",
    "16 stages: 4 layers on each but the last, which has 1, the module and the loss; 8 stages: 8 and 5",
)
_DUALPIPE = Source(
    "paper",
    "DeepSeek-V3 Technical Report",
    "https://arxiv.org/abs/2412.19437",
    "3.2.1, table 2: (p/2 - 1)(F&B + B - 3W) for DualPipe, (p - 1)(F + B - 2W) for ZB1P",
)
_LLAMA3_PIPELINE = Source(
    "paper", "The Llama 3 Herd of Models", "https://arxiv.org/abs/2407.21783", "3.3.2: one layer less on the first and last stage"
)


@formula(DEFINITION)
def stage_layers(*, layers: Count, pp: Count) -> Count:
    """Layers of the fullest pipeline stage.

    >>> stage_layers(layers=61, pp=16)
    4.0
    """
    return ceil_div(layers, pp)


@formula(_LLAMA3_PIPELINE)
def edge_layers(*, layers: Count, pp: Count, full: Count) -> Count:
    """Layers of the first and of the last stage when the stages between them are full: they also hold embedding and head.

    Llama 3.1 405B puts 126 layers on 16 stages, 7 on the first and last (arXiv 2407.21783, 3.3.2):

    >>> edge_layers(layers=126.0, pp=16.0, full=8.0), edge_layers(layers=80.0, pp=8.0, full=10.0)
    (7.0, 10.0)
    """
    return where(pp > 2, maximum((layers - (pp - 2) * full) / 2, 0.0 * layers), layers / pp)


@formula(DEFINITION)
def upper_edge_layers(*, edge: Count, pp: Count) -> Count:
    """Layers of the first stage from the mean of both ends: whole layers, the odd one here.

    61 layers on 8 stages leave 13 to both ends (NeMo's DeepSeek-V3 recipe with a module: 7 and 6):

    >>> upper_edge_layers(edge=6.5, pp=8.0), upper_edge_layers(edge=61.0, pp=1.0)
    (7.0, 61.0)
    """
    return where(pp > 1, ceil_div(edge, 1.0), edge)


@formula(DEFINITION)
def lower_edge_layers(*, edge: Count, upper: Count) -> Count:
    """Layers of the last stage, which also has the head: what the first leaves of both ends.

    >>> lower_edge_layers(edge=6.5, upper=7.0)
    6.0
    """
    return 2 * edge - upper


@formula(DEFINITION)
def least_layers(*, layers: Count, pp: Count) -> Count:
    """Layers of a stage that has none of those that even shares leave over.

    32 layers on 6 stages, of which two have one more:

    >>> least_layers(layers=32.0, pp=6.0)
    5.0
    """
    return ceil_div(layers - pp + 1, pp)


@formula(_DUALPIPE)
def mean_of_ends(*, first: Count, last: Count) -> Count:
    """What a rank of DualPipe has of each of its two stages in the middle: half of the micro-batches enter at either end.

    >>> mean_of_ends(first=4.0, last=1.0)
    2.5
    """
    return (first + last) / 2


@formula(_BRIDGE)
def full_with_modules(*, layers: Count, modules: Count, pp: Count, vpp: Count) -> Count:
    """Layers of a full pipeline stage where the last one also holds prediction modules, each like a layer: whole chunks.

    DeepSeek-V3's 61 layers and one module on 16 stages, and on 4 stages of 4 chunks:

    >>> full_with_modules(layers=61.0, modules=1.0, pp=16.0, vpp=1.0), full_with_modules(layers=61.0, modules=1.0, pp=4.0, vpp=4.0)
    (4.0, 16.0)
    """
    return minimum(ceil_div(layers + modules, pp * vpp) * vpp, layers)


@formula(_BRIDGE)
def last_with_modules(*, layers: Count, pp: Count, full: Count) -> Count:
    """Layers of the last stage where it also holds prediction modules: what the full ones before it leave.

    >>> last_with_modules(layers=61.0, pp=16.0, full=4.0), last_with_modules(layers=61.0, pp=8.0, full=8.0)
    (1.0, 5.0)
    """
    return maximum(layers - (pp - 1) * full, 0.0 * layers)


@formula(
    Source(
        "docs", "Megatron-LM: --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers",
        "https://github.com/NVIDIA/Megatron-LM/blob/main/megatron/training/arguments.py",
        "the layers that are left are shared evenly by the stages that are left",
    )
)  # fmt: skip
def shared_rest(*, layers: Count, first: Count, last: Count, stages: Count) -> Count:
    """Layers of each stage whose number was not named.

    61 layers on 16 stages, 3 on the first and 2 on the last:

    >>> shared_rest(layers=61.0, first=3.0, last=2.0, stages=14.0)
    4.0
    """
    return (layers - first - last) / maximum(stages, 1.0)


@formula(DEFINITION)
def covered_share(*, covered: Count, stage_layers: Count) -> Count:
    """The share of a stage's layers that an option covers which holds for the first few of it; a stage may hold none.

    >>> covered_share(covered=2.0, stage_layers=8.0), covered_share(covered=2.0, stage_layers=0.0)
    (0.25, 1.0)
    """
    return minimum(covered / maximum(stage_layers, 1.0), 1.0)


@formula(DEFINITION)
def filled_layers(*, kind: Count, stage: Count, before: Count) -> Count:
    """Layers of one kind on the fullest stage when heavier kinds took `before` places already.

    >>> filled_layers(kind=3.0, stage=8.0, before=4.0)
    3.0
    """
    return maximum(minimum(kind, stage - before), 0.0 * kind)


@formula(DEFINITION)
def mixed_layers(*, kind: Count, stage: Count, layers: Count) -> Count:
    """Layers of one kind on a stage when the kinds alternate through the depth.

    >>> mixed_layers(kind=10, stage=31, layers=62)
    5.0
    """
    return stage * kind / layers


@formula(DEFINITION)
def pipeline_peers(*, pp: Count) -> Count:
    """Ranks that take part in one hand-over between stages: two, or one where there is no pipeline.

    >>> pipeline_peers(pp=4.0), pipeline_peers(pp=1.0)
    (2.0, 1.0)
    """
    return minimum(pp, 2.0)


@formula(DEFINITION)
def regathering_ranks(*, tp: Count, pp: Count) -> Count:
    """Ranks that gather the hidden states which each of them took over a part of: those of tensor parallelism, between stages.

    >>> regathering_ranks(tp=8.0, pp=4.0), regathering_ranks(tp=8.0, pp=1.0)
    (8.0, 1.0)
    """
    return where(pp > 1, tp, 1.0)


@formula(Source("definition", "ranks lie one after the other, neighbouring stages `stride` apart"))
def farthest_stage(*, stride: Count, pp: Count) -> Count:
    """Distance at which two ranks are neighbours in the pipeline and lie as far apart on the machine as any two such.

    Where all stages are inside one node, so is every hand-over; otherwise some cross to the next node, and the pipeline waits
    for them: half of its length tells which.

    >>> farthest_stage(stride=8.0, pp=2.0), farthest_stage(stride=4.0, pp=16.0)
    (8.0, 32.0)
    """
    return stride * maximum(pp / 2.0, 1.0)


@formula(DEFINITION)
def on_single_stage(*, amount: Count, pp: Count) -> Count:
    """What the first stage holds of the last one's parts, or the other way round: all of it without a pipeline, else nothing.

    >>> on_single_stage(amount=5.0, pp=1), on_single_stage(amount=5.0, pp=4)
    (5.0, 0.0)
    """
    return where(pp > 1, 0.0 * amount, amount)
