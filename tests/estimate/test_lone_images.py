"""Models of one vector for an image: a server encodes no more of them at once than requests that it runs."""

import pytest

from gpuplan import fit


@pytest.mark.parametrize(("model", "least", "most"), [("clip-vit-large-patch14", 0.5, 3), ("siglip-so400m-patch14-384", 3, 5)])
def test_images_of_one_vector_fit_a_small_accelerator(model, least, most):
    """256 requests on an L4: 729 patches of 8,608 + 3 * 1,152 widths are 4.2 GiB in SigLIP; it was eight times as much."""
    answer = fit(model, on="l4", engine="vllm")
    assert least < answer.estimate.find("memory.activations").value / 2**30 < most
    assert answer.estimate.find("workspace.lone_images").value == 256
