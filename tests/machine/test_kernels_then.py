"""Engines that had other kernels before: measured files hold them under the name of their time."""

from typing import Any

import pytest

from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


def _share(library: Library, on: str, month: str | None) -> float:
    engine = library.engine("llama.cpp")[0].dated(month)
    share: Any = library.machine(on, engine).parameters["matmul.int4_wo.efficiency"].value
    return float(share)


def test_kernels_are_those_of_the_release(library: Library) -> None:
    """Products of quantised weights on Ada are integers since June 2024, and reach more."""
    assert (
        _share(library, "1xrtx-4090", "2024-05") == _share(library, "1xrtx-4090", "2024-06") < _share(library, "1xrtx-4090", None)
    )
    assert _share(library, "1xrtx-4090", "2024-07") == _share(library, "1xrtx-4090", None)


def test_where_none_were_measured_they_are_those_of_today(library: Library) -> None:
    assert _share(library, "1xapple-m2-ultra", "2024-05") == _share(library, "1xapple-m2-ultra", None)
    assert _share(library, "1xt4", "2024-05") == _share(library, "1xt4", None)
