"""The least work of a phase takes at most the whole peak, unless that is only the best rate which somebody measured."""

from __future__ import annotations

from gpuplan.estimate.least_work import shares_of_peak
from gpuplan.estimate.serving import ServingModel
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.record import replace
from gpuplan.search.library import Library
from gpuplan.search.serving import settled
from gpuplan.term import Source, Term


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
