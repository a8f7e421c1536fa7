"""Which options do the commands share that ask no question of the estimator, and under which heading does each stand?"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from typer import Argument, Option

from gpuplan.plan.option import DATA, OUTPUT

Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None
Switch: TypeAlias = bool | None

Model: TypeAlias = Annotated[
    str,
    Argument(
        metavar="MODEL",
        help="Card (`gpuplan models list`), size (`13b`), Hugging Face id, Ollama name, config.json, safetensors, GGUF, or folder",
    ),
]
SpecsDirs: TypeAlias = Annotated[
    Texts, Option("--specs", metavar="DIR", rich_help_panel=DATA, help="A folder of your own specs, which win; repeatable")
]
Full: TypeAlias = Annotated[bool, Option("--full-answer", rich_help_panel=OUTPUT, help="All of the answer, not one screen")]
Brief: TypeAlias = Annotated[bool, Option("--brief", rich_help_panel=OUTPUT, help="The answer in one line")]
Plain: TypeAlias = Annotated[
    bool, Option("--plain", rich_help_panel=OUTPUT, help="For screen readers: `label: value` lines, no columns, bars or colour")
]
Json: TypeAlias = Annotated[bool, Option("--json", rich_help_panel=OUTPUT, help="JSON")]
Csv: TypeAlias = Annotated[bool, Option("--csv", rich_help_panel=OUTPUT, help="CSV")]
Html: TypeAlias = Annotated[
    Text, Option("--html", metavar="FILE", rich_help_panel=OUTPUT, help="Also write a report of one page that needs no network")
]
Md: TypeAlias = Annotated[bool, Option("--md", rich_help_panel=OUTPUT, help="Markdown")]
