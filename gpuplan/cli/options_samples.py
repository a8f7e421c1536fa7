"""Which options describe a model by its samples, and what feeds it?"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from typer import Option

from gpuplan.cli.options import Text

SAMPLES = "Models given by their samples (CNNs and the like)"


def _one(flag: str, metavar: str, meaning: str) -> object:
    return Option(flag, metavar=metavar, rich_help_panel=SAMPLES, help=meaning)


Samples: TypeAlias = Annotated[Text, _one("--samples", "N", "Samples of the whole run, such as `1.28M*90` (images by epochs)")]
Params: TypeAlias = Annotated[Text, _one("--params", "N", "Parameters of a model of no card, such as `25.6M`")]
FlopPerSample: TypeAlias = Annotated[
    Text, _one("--flop-per-sample", "FLOP", "FLOP of the forward pass of one sample, such as `8.2G` (twice the multiplications)")
]
ActivationBytes: TypeAlias = Annotated[
    Text, _one("--activation-bytes", "BYTES", "What one sample keeps for the backward pass, such as `45 MB`")
]
SampleBytes: TypeAlias = Annotated[Text, _one("--sample-bytes", "BYTES", "A sample as it lies in storage, such as `115 KB`")]
DecodeRate: TypeAlias = Annotated[Text, _one("--decode-rate", "N", "Samples that one virtual processor decodes in a second")]
Cpus: TypeAlias = Annotated[Text, _one("--cpus", "N", "Virtual processors of a node; left out, those of the instance")]
StorageBandwidth: TypeAlias = Annotated[
    Text, _one("--storage-bandwidth", "B/s", "What a node reads, such as `5 GB/s`; left out, the network of the instance")
]
