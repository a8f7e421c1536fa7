"""Where causal masks leave much of attention out, an answer says by itself what MFU is without it."""

from __future__ import annotations

import pytest

from gpuplan.search.ask import answered


@pytest.mark.parametrize(("seq_len", "told"), [("8k", False), ("128k", True)])
def test_long_contexts_tell_both(seq_len: str, told: bool) -> None:
    made = answered("train", {"model": "llama-3.1-8b", "on": "32xh100", "seq_len": seq_len}, advise=False)
    notes = {note.code: note.text for note in made.notes}
    assert ("mfu.masked" in notes) is told
    assert ("mfu.convention" in notes) is not told
    if told:
        assert f"{float(made.figures['mfu_causal'].value) * 100:.1f} %" in notes["mfu.masked"]
