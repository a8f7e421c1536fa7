"""What can be asked about all models of the catalog on one machine, and with which options?"""

# The annotations are read, so they are no unread text here: no `from __future__ import annotations`.

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from gpuplan.plan.common import ON
from gpuplan.plan.option import DATA, NUMBERS, RUN, WISHED, Option
from gpuplan.plan.shared_options import KV_CACHE
from gpuplan.plan.words import KvFormat, WeightFormat
from gpuplan.record import Record

ModelKind: TypeAlias = Literal["text", "reader", "image", "encoder-decoder"]
"""Makes tokens, only reads texts (embeds, ranks, scores, classifies) or images, or reads with one stack and writes with another."""
Order: TypeAlias = Literal["size", "speed", "context", "name"]


class WhatRunsAsk(Record, kw_only=True):
    """Which models run on a machine for one user, in the widest type of weights that fits?

    `context` tokens of one sequence must fit, or all that a model reads; speeds are those of `prompt` and `output` tokens.
    """

    on: Annotated[str, Option(ON, RUN, "[Nx]NAME[@PLACE]")]
    engine: Annotated[
        str | None,
        Option("Engine, such as `llama-cpp` or `vllm`; left out, vllm where memory is HBM, and llama-cpp elsewhere", RUN, "NAME"),
    ] = None
    context: Annotated[
        int | None, Option("Longest sequence that must fit, such as `32k`; left out, 8k", RUN, "TOKENS", length=True)
    ] = None
    prompt: Annotated[
        int | None, Option("Prompt tokens of the request that is timed; left out, 512", RUN, "TOKENS", length=True)
    ] = None
    output: Annotated[int | None, Option("Output tokens of it; left out, 128", RUN, "TOKENS", length=True)] = None
    memory: Annotated[
        float | None,
        Option(
            "Memory of each accelerator, where it is sold with several sizes, such as `64GB`",
            RUN,
            "BYTES",
            "B",
            reads="capacity",
            least=1,
        ),
    ] = None
    host_memory: Annotated[
        float | None,
        Option(
            "Memory of the host for each accelerator, such as `64GB`: a part of what does not fit is tried there", RUN, "BYTES",
            "B", reads="capacity", least=1,
        ),
    ] = None  # fmt: skip
    host_bandwidth: Annotated[
        float | None, Option("What the host's memory delivers at most, such as `96 GB/s`", RUN, "RATE", "B/s", least=1)
    ] = None
    margin: Annotated[
        float | None, Option("Share of memory that is to stay free, such as `5%`", RUN, "SHARE", "1", least=0, most=1)
    ] = None
    kind: Annotated[
        tuple[ModelKind, ...] | None,
        Option("Of these kinds: text, reader (embeds, ranks, scores), image, encoder-decoder; left out, text", WISHED, "KIND"),
    ] = None
    smallest: Annotated[float | None, Option("Of so many parameters or more, such as `7B`", WISHED, "PARAMS", most=1e18)] = None
    largest: Annotated[float | None, Option("Of so many parameters or fewer, such as `40B`", WISHED, "PARAMS", most=1e18)] = None
    license: Annotated[
        str | None,
        Option(
            "Under these licences, such as `apache-2.0,mit`; models whose licence is not on record are left out", WISHED, "NAME"
        ),
    ] = None
    slowest: Annotated[
        float | None,
        Option("Leave out what makes fewer tokens a second for one user; left out, 5", WISHED, "TOKENS/S", least=0, most=1e9),
    ] = None
    weights: Annotated[
        tuple[WeightFormat, ...] | None,
        Option(
            "Types to try, in this order, such as `q8_0,q4_k_m`; left out, those of the engine's users",
            NUMBERS,
            "TYPES",
        ),
    ] = None
    kv_cache: Annotated[KvFormat | None, Option(KV_CACHE, NUMBERS, "TYPE")] = None
    every_type: Annotated[bool | None, Option("Show every type that fits, not only the widest", WISHED, "", one_way=True)] = None
    sort: Annotated[Order | None, Option("By size (the largest first), speed, context or name", WISHED, "BY")] = None
    limit: Annotated[int | None, Option("Models shown; left out, as many as a screen holds", WISHED)] = None
    specs: Annotated[tuple[Path, ...], Option("A folder of your own specs, which win; repeatable", DATA, "DIR")] = ()
    calibrated: Annotated[
        bool | None,
        Option("Take what `gpuplan calibrate` measured or imported of the accelerator", DATA, "", one_way=True),
    ] = None
