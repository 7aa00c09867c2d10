"""Commands of other packages: `slurm` and `paper_figs` attach theirs, the harness imports neither.

An entry point of group `odin_bench.commands` is named like its command and points at a `typer.Typer`. It is
loaded when the command is run, so that a broken package cannot take `--help` or the other commands down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points

import typer

from harness.exits import ends_in_exit, exit_code
from odin.errors import RunError

GROUP = "odin_bench.commands"


def attach(app: typer.Typer) -> None:
    """Add a command for every entry point of the group whose name is still free."""
    taken = {command.name for command in app.registered_commands}
    for entry in sorted(entry_points(group=GROUP)):
        if entry.name not in taken:
            taken.add(entry.name)
            # Options, --help included, belong to the package's own app.
            settings = {"allow_extra_args": True, "ignore_unknown_options": True}
            package = entry.value.partition(".")[0].partition(":")[0]
            app.command(
                entry.name,
                help=f"(from {package})",
                context_settings=settings,
                add_help_option=False,
            )(_delegate(entry))


def run_command(name: str, words: Sequence[str]) -> int:
    """Run a command of the application, ours or another package's, and return its exit code.

    Raises RunError where no package brings it.
    """
    from harness.cli import application

    app = application()
    if name not in {command.name for command in app.registered_commands}:
        raise RunError(f"No installed package brings the command {name!r}. Install the project: pip install -e . ")
    try:
        typer.main.get_command(app).main(args=[name, *words], prog_name="odin-bench")
    except SystemExit as stop:
        return exit_code(stop)
    return 0


def _delegate(entry: EntryPoint) -> Callable[[typer.Context], None]:
    @ends_in_exit
    def run(ctx: typer.Context) -> int:
        inner = typer.main.get_command(_load(entry))
        inner.main(args=ctx.args, prog_name=ctx.command_path)
        return 0

    return run


def _load(entry: EntryPoint) -> typer.Typer:
    """The app behind an entry point. Raises RunError if it cannot be loaded."""
    try:
        app = entry.load()
    except Exception as error:
        raise RunError(
            f"The command {entry.name!r} comes from {entry.value} and could not be loaded "
            f"({type(error).__name__}: {error}). Install the project again: pip install -e . "
        ) from error
    if not isinstance(app, typer.Typer):
        raise RunError(
            f"The command {entry.name!r} comes from {entry.value}, which is a {type(app).__name__} and not a "
            f"typer.Typer. Correct the entry point of group {GROUP!r}."
        )
    return app
