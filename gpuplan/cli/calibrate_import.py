"""`gpuplan calibrate import`: what do the measurements that somebody has already say of an accelerator?"""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command("import", cls=Command)
def import_(
    *,
    kind: Annotated[
        str,
        Argument(
            metavar="KIND",
            help="nccl-tests, nvbandwidth, mamf-finder, torch-trace, vllm, sglang, genai-perf, aiperf, llama-bench, aiconfigurator",
        ),
    ],
    files: Annotated[list[str], Argument(metavar="FILE …", help="What the tool wrote")],
    accelerator: Annotated[
        str | None, Option("--accelerator", metavar="ID", help="[N x]ID; the device that the file names when left out")
    ] = None,
    dtype: Annotated[str | None, Option("--dtype", metavar="TYPE", help="What was multiplied, if the file does not say it")] = None,
    ranks: Annotated[str | None, Option("--ranks", metavar="N", help="How many ranks, if the file does not say it")] = None,
    tp: Annotated[str | None, Option("--tp", metavar="N", help="Tensor parallelism of a serving benchmark")] = None,
    weights: Annotated[str | None, Option("--weights", metavar="FORMAT", help="Weights of a serving benchmark")] = None,
    model: Annotated[str | None, Option("--model", metavar="ID", help="Of a serving benchmark, if its file is silent")] = None,
    engine: Annotated[str | None, Option("--engine", metavar="NAME", help="Which engine a client of any measured")] = None,
    concurrency: Annotated[
        str | None, Option("--concurrency", metavar="N", help="Requests in flight, if the client's file is silent")
    ] = None,
    out: Annotated[str | None, Option("--out", metavar="FILE", help="The file to write, instead of the one in your folder")] = None,
    specs: o.SpecsDirs = None,
    json: Annotated[bool, Option("--json", help="JSON instead of the table")] = False,
) -> None:
    """Use measurements that you have: of kernels, links, or an engine that serves.

    Kernels are fitted and go into the measured file of the accelerator, ~/.config/gpuplan/measured/<id>.yaml; what they do not
    determine stays as it is. Runs of the benchmarks of vLLM, SGLang and llama.cpp, and of the clients GenAI-Perf and AIPerf, become
    rows for `gpuplan accuracy --runs`, and scale the estimates of that model in that engine there: three at different loads are
    enough. Estimates use all of it with --calibrated.

    Examples:
      gpuplan calibrate import nccl-tests all_reduce.txt
      gpuplan calibrate import mamf-finder mamf.txt --accelerator h100 --dtype bf16
      gpuplan calibrate import torch-trace trace.json.gz
      gpuplan calibrate import vllm result.json --accelerator 8xh100 --tp 8 --out runs.yaml
      gpuplan calibrate import genai-perf profile_export_genai_perf.json --engine vllm --accelerator h100
      gpuplan calibrate import llama-bench bench.json --accelerator rtx-4090 --model llama-3-8b
    """
    from gpuplan.cli.calibrate_import_run import ImportFilesRequest, import_files

    import_files(
        ImportFilesRequest(
            kind, tuple(files), accelerator, dtype, ranks, tp, weights, out, tuple(specs or ()), json, model, engine, concurrency
        )
    )
