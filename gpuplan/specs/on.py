"""What does `--on [N x]NAME[@WHERE]` mean?"""

from __future__ import annotations

import re

from gpuplan.errors import GpuplanError, Problem, UnknownError, UsageError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.makers_words import latin
from gpuplan.specs.target import MOST_ACCELERATORS, Target, too_many
from gpuplan.specs.target_by_name import target_by_name
from gpuplan.specs.unlike import is_joined, refuse_joined

_CLOCK = re.compile(r"\s*@\s*\d+(?:\.\d+)?\s*GHz\s*$", re.IGNORECASE)
"""What processors print behind their name, which is no network."""

_COUNT_ALONE = re.compile(r"\d{4}x", re.IGNORECASE)
"""A processor of AMD's that looks like a count of nothing: `7950x`."""
_TOLD = re.compile(
    r"^\s*(?:(?:cuda\s*\(\s*)?gpu|device)\s+\d+\s*:\s*(?=[a-z])|^\s*(?:(?:cuda|rocm|hip|vulkan|sycl|mtl)\d|metal)\s*[:(]\s*(?=[a-z])|^\s*metal[\s_]+(?=apple)"
    r"|\s*,\s*(?:compute capability\b.*|gfx\d.*|\d+\s*mib)$|\s*\(uuid\b.*$|\s{2,}[\d.]+\s*gi?b\s+sm_\d+$"
    r"|\s*\((?:rocm|radv|amdvlk|hip|llvm)\b[^)]*\)\s*$",
    re.IGNORECASE,
)
"""What llama.cpp, `nvidia-smi -L` and PyTorch print around a device: its number, its UUID, and what its driver can do."""
_LABEL = re.compile(r"^(\s*(?:\d+\s*x\s*)?)[\w-]+(?:\.[\w-]+)+/[\w.-]+\s*[=:]\s*(?=\S*[A-Za-z])")
"""The key of a label of Kubernetes before the part that it names, behind how many: `nvidia.com/gpu.product=NVIDIA-L4`."""


def parse_target(text: str, catalog: Catalog) -> Target:
    """What `--on` names: `[N x]` and the name of an accelerator, a system, a cloud instance, a TPU slice or a cluster.

    `2x64xtpu-v5p` is two slices of 64 chips each.

    Behind an `@` stands the network that joins them, or the cluster that they are a part of.

    Raises:
        UsageError: unlike accelerators are joined by a `+`, nothing is named, the count is no whole number above zero or more than
            any job has, or the name fits several things.
        UnknownError: nothing is called that, or a network that the target needs is not known.
        SpecError: a data file is wrong.
    """
    text = latin(text)
    bare = _TOLD.sub("", text)
    bare = bare.removesuffix(")") if bare.count(")") > bare.count("(") else bare
    text = _CLOCK.sub("", _LABEL.sub(r"\1", bare))
    if _COUNT_ALONE.fullmatch(text.strip()) and (whole := catalog.names("accelerators").get(text.strip().lower(), [])):
        return _found(whole[0], catalog).replaced(text=text) if len(whole) == 1 else _found(text, catalog)
    if is_joined(text, catalog):
        raise refuse_joined(text)
    try:
        found = _found(text, catalog)
    except UsageError as error:
        raise _told(text, error) from None
    except UnknownError:
        if not _several(text, catalog):
            raise
        told = f"`{text}` names several machines, and one is asked about"
        hint = f"`gpuplan compare … --on {text}` puts them side by side, `gpuplan plan …` looks for the best"
        raise UsageError(Problem("target.several", told, hint)) from None
    if found.count > MOST_ACCELERATORS:
        raise too_many(text, found.count)
    return found


def _several(text: str, catalog: Catalog) -> bool:
    """Whether commas part names that are each known."""
    parts = [part.strip() for part in text.split(",")]
    try:
        return len(parts) > 1 and all(_found(part, catalog) for part in parts)
    except GpuplanError:
        return False


def _told(text: str, error: UsageError) -> UsageError:
    """The error of a name that fits several parts, with what the table of names knows of it."""
    if error.problems[0].code != "spec.ambiguous-name":
        return error
    from gpuplan.specs.kinds_of_parts import nearest

    hint = nearest(text)
    return UsageError(Problem("spec.ambiguous-name", f"`{text}` could be several parts", hint)) if hint else error


def _found(text: str, catalog: Catalog) -> Target:
    found = None if "@" in text else target_by_name(text, catalog)
    if found is not None:
        return found
    from gpuplan.specs.target_on_network import (  # Clusters and networks are read where a question needs them.
        target_on_network,
        target_or_cluster,
    )

    return target_on_network(text, catalog) if "@" in text else target_or_cluster(text, catalog)
