"""The least work of a phase takes at most the whole peak, unless that is only the best rate which somebody measured."""

from __future__ import annotations

from gpuplan.estimate.least_work import shares_of_peak
from gpuplan.estimate.serving import ServingModel
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.record import replace
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving, settled
from gpuplan.term import Source, Term


def test_one_prompt_of_a_rank_is_read_by_the_experts_of_all() -> None:
    """Of its products with weights most are those of experts, which seven other accelerators hold."""
    ask = ServeAsk(
        model="gpt-oss-120b", on="8xh200", tp=1, attention_dp=8, ep=8, rate=30.0, prompt=4000, output=500, engine="vllm",
        expert_exchange="all-to-all",
    )  # fmt: skip
    assert float(answer_serving(ask, Library.of(ask)).bounds["prefill"].value) < 0.5


def test_a_measured_rate_bounds_nothing() -> None:
    ask = ServeAsk(model="llama-3.1-8b", on="h100", batch=1, prompt=1024, output=128)
    one = settled(ask, Library.of(ask))
    model = ServingModel.of(one.subject, one.plan)
    peak = one.subject.hw.peak("bf16")
    assert peak.source.kind != "measured"
    passed = {"prefill": (model.prompt(), Term("seconds", 1e-3, "s", Source("chosen", "too short a time")))}
    assert shares_of_peak(model.subject, model.serve, passed, peak=peak)["prefill"].value > 1
    measured = replace(peak, source=Source("measured", "the best of some samples"))
    assert shares_of_peak(model.subject, model.serve, passed, peak=measured) == {}
