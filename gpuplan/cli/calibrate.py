"""`gpuplan calibrate`: how fast is the accelerator in this machine really? And what to do with what was measured."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Context, Option, Typer
from typer import Exit as Stop

from gpuplan.cli import options as o
from gpuplan.cli.help import Group, group_help, made_once, short

PARTS: tuple[str, ...] = ("fit", "import", "show", "verify")
"""The commands below `calibrate`, each the `app` of `gpuplan.cli.calibrate_<name>`, imported only when it is called."""


class CalibrateCommands(Group):
    """The group of these commands: it knows them by name and imports one only to run it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All command names in the order of the help page."""
        return list(PARTS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported when it is first asked for, or None."""
        return made_once(f"calibrate_{cmd_name}", cmd_name) if cmd_name in PARTS else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        commands = {name: short(self.get_command(ctx, name).help or "") for name in PARTS}
        usage = f"{ctx.command_path} [COMMAND] [options]"
        formatter.write(group_help(usage, self.help or "", commands, self.get_params(ctx)))


app = Typer(
    cls=CalibrateCommands, add_completion=False, rich_markup_mode=None, invoke_without_command=True,
    help="""How fast is the accelerator in this machine really? Without a COMMAND: measures it.

Times matmuls, attention, memory streams, launches, copies and collectives, fits the kernel parameters to them, and writes
~/.config/gpuplan/measured/<id>.yaml, which every later estimate for that chip uses. Clocks, power limits and modes stay as
they are. Ctrl-C keeps what was measured; the same command goes on from there.

Examples:
  gpuplan calibrate --quick
  gpuplan calibrate --out my-specs/measured/h200-sxm-141gb.yaml
  gpuplan calibrate --dry-run
  torchrun --nproc-per-node 8 -m gpuplan calibrate""",
)  # fmt: skip


@app.callback()
def calibrate(
    ctx: Context,
    *,
    quick: Annotated[bool, Option("--quick", help="Under a minute: fewer shapes")] = False,
    full: Annotated[bool, Option("--full", help="All shapes, as long as it takes")] = False,
    backend: Annotated[
        str, Option("--backend", metavar="NAME", help="auto, torch, jax, or module:Class of your own device")
    ] = "auto",
    device: Annotated[str | None, Option("--device", metavar="N", help="The number of the device, or `cpu`")] = None,
    kinds: Annotated[
        str | None, Option("--kinds", metavar="KIND,…", help="Only these kinds of probes, such as `matmul,stream`")
    ] = None,
    out: Annotated[str | None, Option("--out", metavar="FILE", help="The measured file, instead of the one in your folder")] = None,
    fresh: Annotated[bool, Option("--fresh", help="Measure all again, whatever an interrupted call left")] = False,
    on: Annotated[
        str | None, Option("--on", metavar="[Nx]NAME", help="The machines that several processes run on, for their links")
    ] = None,
    timeout: Annotated[
        str | None, Option("--timeout", metavar="SECONDS", help="A kernel or a rank that is silent for so long is given up")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="List the probes and the time that they take")] = False,
    specs: o.SpecsDirs = None,
    json: Annotated[bool, Option("--json", help="JSON instead of the table")] = False,
) -> None:
    """Measure, unless a command was named."""
    if ctx.invoked_subcommand is None:
        from gpuplan.cli.calibrate_run import CalibrateRequest, measure

        asked = CalibrateRequest(quick, full, backend, device, kinds, out, fresh, on, timeout, dry_run, tuple(specs or ()), json)
        raise Stop(measure(asked))
