"""The lengths of a request where its user says only one of them: usual ones, as far as the context has room."""

from __future__ import annotations

import pytest

import gpuplan


@pytest.mark.parametrize(
    ("prompt", "output", "why"),
    [
        (1000, 256, "within the context"), (131_000, 72, "what the context has room for"),
        (131_071, 1, "what the context has room for"), (131_072, 256, "no room"), (140_000, 256, "no room"),
    ],
)  # fmt: skip
def test_the_output_beside_a_long_prompt_is_said(prompt: int, output: int, why: str) -> None:
    answer = gpuplan.serve("llama-3.1-8b", on="h200", prompt=prompt)
    (chosen,) = [one for one in answer.estimate.chosen if one.name == "output"]
    assert (chosen.value, why in chosen.reason) == (str(output), True)
    beyond = any("is beyond the 131072 that the model was made for" in note.text for note in answer.notes)
    assert beyond is (prompt + output > 131_072)
