"""What every question names: the model, the machine, the engine, the price, and the user's own values."""

# The annotations are read, so they are no unread text here: no `from __future__ import annotations`.

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from gpuplan.plan.option import DATA, MONEY, RUN, Option, grouped
from gpuplan.plan.words import SoldAs
from gpuplan.record import Record, field

ON = (
    "Accelerator, system, cloud instance, TPU slice or cluster, such as `h100`, `8xh100-sxm-80gb`, `2xaws:p5.48xlarge`; "
    "behind an `@` the network or the cluster that joins them: `4xdgx-a100@ib-hdr`, `2048xh100@meta-24k-roce`; "
    "`local` is an accelerator of this machine, as calibrated"
)


class Common(Record, kw_only=True):
    """What every question names: the model, the machine, the engine, and the user's own values.

    `price` is USD/s for one accelerator, instance or system as `on` counts them; `pins` are `--set` values in base units by term
    name. Where `price` is None, one on record is taken: of `price_kind` (on demand), in `region` (the provider's usual one), the
    newest of `price_date` or before (what is current), and never one that is older than `max_price_age` days. `memory` is in bytes.
    """

    model: Annotated[
        str,
        Option(
            "Card (`gpuplan models list`), size (`13b`), Hugging Face id, Ollama name, config.json, safetensors, GGUF, or folder",
            "",
            "MODEL",
            samples=True,
        ),
    ]
    on: Annotated[str, Option(ON, RUN, "[Nx]NAME[@PLACE]", samples=True)]
    engine: Annotated[
        str | None, Option("Engine whose habits count, such as `vllm` or `megatron-lm`", RUN, "NAME", samples=True)
    ] = None
    price: Annotated[
        float | None,
        Option(
            "Your price for an hour of what --on counts, such as `2.50`", MONEY, "USD/h", "USD/s",
            reads="price", group="price", samples=True, most=1e9 / 3600,
        ),
    ] = None  # fmt: skip
    price_kind: Annotated[
        SoldAs | None, Option("Terms of sale, such as `spot` or `reserved_1yr`", MONEY, "KIND", group="price", samples=True)
    ] = None
    region: Annotated[
        str | None, Option("The provider's region whose price is taken", MONEY, "NAME", group="price", samples=True)
    ] = None
    price_date: Annotated[
        str | None,
        Option(
            "Take the newest price that is not after this day", MONEY, "YYYY-MM-DD", reads="day", group="price", samples=True
        ),
    ] = None  # fmt: skip
    max_price_age: Annotated[
        int | None, Option("Refuse a price that is older (exit 5)", MONEY, "DAYS", group="price", samples=True, most=36_500)
    ] = None
    pins: Annotated[
        Mapping[str, float],
        Option(
            "Give any term a value, with its unit; all that rests on it is recomputed; repeatable", DATA, "TERM=VALUE",
            flag="set", reads="pins", samples=True,
        ),
    ] = field(default_factory=dict)  # fmt: skip
    specs: Annotated[tuple[Path, ...], Option("A folder of your own specs, which win; repeatable", DATA, "DIR", samples=True)] = ()

    calibrated: Annotated[
        bool | None,
        Option(
            "Take what `gpuplan calibrate` measured or imported of it; `--on local` does",
            DATA, "", one_way=True, samples=True,
        ),
    ] = None  # fmt: skip
    memory: Annotated[
        float | None,
        Option(
            "Memory of each accelerator, where it is sold with several sizes, such as `64GB`", RUN, "BYTES", "B",
            reads="capacity", samples=True, least=1,
        ),
    ] = None  # fmt: skip
    margin: Annotated[
        float | None,
        Option(
            "Share of memory that is to stay free, such as `5%`, beyond what the high end needs", RUN, "SHARE", "1", least=0,
            most=1, samples=True,
        ),
    ] = None  # fmt: skip

    def asks_for_price(self) -> bool:
        """Whether the user said anything about the price."""
        return any(getattr(self, name) is not None for name in grouped(Common, "price"))
