"""What decodes in an encoder-decoder is on the stages of its decoder: its caches, and the time that all micro-batches wait for."""

from __future__ import annotations

import pytest

import gpuplan


def _cache(model: str, pp: int) -> tuple[float, float]:
    """Bytes of a sequence on the stage that holds most of them, and how many sequences there is room for."""
    made = gpuplan.serve(model, on="4xh100", tp=1, pp=pp, batch=4, advise=False).estimate.figures
    return tuple(float(made[name].value) for name in ("kv_cache_bytes_per_sequence", "max_sequences"))  # type: ignore[return-value]


@pytest.mark.parametrize("model", ["canary-1b-flash", "whisper-large-v3-turbo", "t5-11b"])
def test_a_short_decoder_keeps_its_caches_whatever_stages_hold_the_encoder(model: str) -> None:
    (one, room), (two, more) = _cache(model, 1), _cache(model, 2)
    assert two == one > 0  # the second stage has all of the decoder
    assert more > room


def test_a_longer_one_is_shared() -> None:
    assert _cache("whisper-large-v3", 4)[0] == pytest.approx(_cache("whisper-large-v3", 1)[0] / 2)


@pytest.mark.parametrize("pp", [2, 4])
def test_all_micro_batches_wait_for_the_stage_that_decodes(pp: int) -> None:
    """However many stages there are, one does all of the decoding: it takes no less time than without them."""
    one, more = (
        gpuplan.serve("canary-1b-flash", on="4xh100", tp=1, pp=stages, batch=2048 // stages, advise=False).estimate
        for stages in (1, pp)
    )
    assert float(more.figures["mbu"].value) <= 1
    assert float(more.figures["itl_s"].value) > 0.95 * float(one.figures["itl_s"].value)
