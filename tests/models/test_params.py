"""Parameter formulas: their doctests, and the whole of a model added up from its parts."""

import doctest

import pytest

from gpuplan.formulas import params
from gpuplan.models.architecture import Architecture, Block, Mlp, Moe, Run, Stack
from gpuplan.models.count import count
from gpuplan.models.mixers import Attention
from gpuplan.term import FORMULAS, Source

SOURCE = Source("model-card", "test")


@pytest.mark.parametrize("name", sorted(name for name, one in FORMULAS.items() if one.fn.__module__ == params.__name__))
def test_doctests_of_formulas(name):
    formula = FORMULAS[name]
    test = doctest.DocTestParser().get_doctest(formula.fn.__doc__, vars(params).copy(), name, None, 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def _arch(**block):
    return Architecture(
        hidden=4096,
        vocab=32000,
        tied=False,
        stacks=(Stack(kind="decoder", blocks={"layer": Block(**block)}, layers=(Run(block="layer", count=32),)),),
    )


def test_parts_sum_to_the_total_and_leaves_are_shared():
    made = count(_arch(mixer=Attention(heads=32, kv_heads=32, head_dim=128), mlp=Mlp(width=11008)), SOURCE)
    assert made.params_total.value == 6738415616
    assert made.params_active.value == made.params_total.value
    layer = made.block("layer")
    assert layer.layer_total.value == sum(part.value for part in layer.layer.values())
    assert made.params_total.value == layer.total.value + made.embedding.value + made.final.value + made.head.value
    terms = list(made.params_total.walk())
    assert len({term.name for term in terms}) == len(terms)
    assert all(term.name.startswith("model.") and term.source is SOURCE for term in terms if not term.args)


def test_what_if_another_width():
    made = count(_arch(mixer=Attention(heads=32, kv_heads=32, head_dim=128), mlp=Mlp(width=11008)), SOURCE)
    wider = made.params_total.given({"model.layer.mlp.width": 11009.0})
    assert wider.value - made.params_total.value == 32 * 3 * 4096


def test_active_leaves_out_idle_experts():
    made = count(_arch(mixer=Attention(heads=32, kv_heads=8, head_dim=128), mlp=Moe(experts=8, top_k=2, width=14336)), SOURCE)
    assert made.params_total.value == 46702792704
    assert made.params_active.value == 12879925248
    assert set(made.block("layer").layer) == {"mixer", "experts", "router", "norms"}


def test_unknown_block_is_a_key_error():
    with pytest.raises(KeyError):
        count(_arch(mixer=Attention(heads=32, kv_heads=8, head_dim=128)), SOURCE).block("other")
