"""The command line `odin-bench`: parse, call, and end with an exit code (`harness/exits.py`).

    odin-bench reproduce headline                                    the headline on a procedural scene
    odin-bench reproduce headline scene=PATH images=images_4 steps=300
    odin-bench reproduce headline --dry-run                          what would run, and every key
    odin-bench reproduce all scale=smoke                             every table and figure of the paper
    odin-bench predict scene=PATH cluster=rtx4090-pcie4              what Odin would do for this scene there
    odin-bench train scene=PATH arms=quality                         one arm, with checkpoints; again: it goes on
    odin-bench run smoke seed=0,1                                    what is missing of a study, pair by pair
    odin-bench status runs                                           states of its cells; retry: what has failed
    odin-bench report runs                                           tables and report.html, from the records
    odin-bench figures out=runs/smoke                                the paper's tables and figures, from the records
    odin-bench plan scene=PATH ranks=4                               what the planner decides about a capture, and why
    odin-bench timeline runs/cells/ID                                 which rank does what when, where ranks idle
    odin-bench arms                                                  what can be compared
    odin-bench data check                                            which captures of the paper are here
    odin-bench doctor                                                what this machine can run

Importing this module imports no torch; neither do `--help` and `--dry-run`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from harness.catalog.command import data_app
from harness.config import Config, expand, load, resolved
from harness.config.words import option
from harness.exits import code_of, ends_in_exit, exit_code
from harness.plugins import attach

__all__ = ["application", "main"]

Words = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", show_default=False, help="Settings, in any order.")
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. `argv` has no program name; None reads sys.argv."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A path may hold bytes that the terminal's encoding lacks; show them escaped instead of failing.
            stream.reconfigure(errors="backslashreplace")
    return code_of(lambda: _run(argv), folder=Path("runs"))


def _run(argv: Sequence[str] | None) -> int:
    command = typer.main.get_command(application())
    try:
        command.main(args=None if argv is None else list(argv), prog_name="odin-bench")
    except SystemExit as stop:
        return exit_code(stop)
    return 0


def application() -> typer.Typer:
    """The typer app with our commands and those of other packages."""
    app = typer.Typer(
        help="Does primitive-level synchronization make a Gaussian-splatting pipeline faster?",
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    app.command("reproduce")(ends_in_exit(_reproduce))
    app.command("train")(ends_in_exit(_train))
    app.command("evaluate")(ends_in_exit(_evaluate))
    app.command("run")(ends_in_exit(_run_study))
    app.command("status")(ends_in_exit(_status))
    app.command("retry")(ends_in_exit(_retry))
    app.command("plan")(ends_in_exit(_plan))
    app.command("predict")(ends_in_exit(_predict))
    app.command("report")(ends_in_exit(_report))
    app.command("timeline")(ends_in_exit(_timeline))
    app.command("arms")(ends_in_exit(_arms))
    app.command("doctor")(ends_in_exit(_doctor))
    app.add_typer(data_app, name="data")
    attach(app)
    return app


def _reproduce(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="headline, or all: every exhibit.")],
    words: Words = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print cells and config; run nothing.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Run cells again that are done.")] = False,
) -> int:
    """Run a study and print its table: every cell that is missing or failed, then the report.

    A word sets a key (engine.ranks=1), by its last part where that is clear (steps=150 seed=1 out=runs
    ranks=2 images=images_4), or chooses an option (pipeline=3dgs link=none scale=smoke). scene=PATH is a
    folder in COLMAP layout, scene=rooms needs no files. --dry-run shows every key.

    all scale=smoke|laptop|paper runs what is missing for every table and figure, and makes them; only=matrix,tau
    chooses parts. headline scale=laptop|paper is its part matrix; cluster=PROFILE submits to Slurm.
    """
    from harness.study.scale import scale_names

    committed = [w for w in words or [] if w.startswith("scale=") and w[6:] in scale_names() and w != "scale=smoke"]
    if study == "all" or (study == "headline" and committed):
        from harness.study.reproduce import Asked, reproduce_all

        asked = Asked.of(words or [], only="" if study == "all" else "matrix")
        code = reproduce_all(asked, dry_run=dry_run, refresh=refresh)
        if study == "headline" and not dry_run and not asked.cluster:
            from harness.report.committed import matrix_lines

            print("\n".join(matrix_lines(asked.out, asked.scale.name)))
        return code
    config = load([f"study={option('study', study)}", *(words or [])])
    if dry_run:
        print(_announcement(config))
        return 0
    from harness.report.committed import committed_lines
    from harness.run.headline import run_headline

    code = run_headline(config, refresh=refresh)
    for line in committed_lines():
        print(line)
    return code


def _train(
    words: Words = None,
    every: Annotated[int, typer.Option("--every", help="Steps from checkpoint to checkpoint.")] = 50,
    stop: Annotated[int | None, typer.Option("--stop", help="End at this checkpoint, as if time had run out.")] = None,
) -> int:
    """Train one arm with checkpoints, untimed. The same command again goes on from the newest one, to the same bits.

    Words as in reproduce, with one arm: scene=PATH images=images_4 arms=quality ranks=2 steps=300. Writes log.csv,
    model.ply and result.json below OUT/train. Checkpoints are flushes: another --every is another training.
    """
    from harness.train.command import train

    return train(words or [], every=every, stop=stop)


def _evaluate(
    path: Annotated[Path, typer.Argument(help="Folder of a training, as odin-bench train printed it.")],
) -> int:
    """Judge the newest checkpoint of a training on one rank, also one of shards that several ranks wrote."""
    from harness.train.command import evaluate

    return evaluate(path)


def _run_study(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A study's name, or the path of a study.yaml.")],
    words: Words = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print cells and hours; run nothing.")] = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Run cells again that are done.")] = False,
) -> int:
    """Run what is missing of a study on this machine, pair by pair, and write its table.

    Words as in reproduce; a word that names an axis of the study replaces its values (seed=0,1 scene=rooms).
    """
    from harness.study.command import run_study

    return run_study(study, words or [], dry_run=dry_run, refresh=refresh)


def _status(
    path: Annotated[Path, typer.Argument(help="Folder of records, as given to out=.")],
    every: Annotated[bool, typer.Option("--all", help="A line for every cell.")] = False,
) -> int:
    """Print how many cells of each study are done, failed, skipped, running and pending, and why they failed."""
    from harness.study.command import study_status

    return study_status(path, every=every)


def _retry(path: Annotated[Path, typer.Argument(help="Folder of records, as given to out=.")]) -> int:
    """Run the pairs of a study again that have a failed cell, and nothing else."""
    from harness.study.command import retry_study

    return retry_study(path)


def _plan(words: Words = None) -> int:
    """Plan a capture and say what was decided: regions, order, windows and reasons, predicted conflicts.

    Takes the words of `reproduce headline` (scene=PATH ranks=4 views_per_unit=2 steps=300 regions=4 seed=1),
    and sas=paper coupling_limit=0.2 memory=500MB profile=FILE|none. Writes plan.json, schedule and coupling
    (PNG, PDF) below OUT/plans. Trains nothing.
    """
    from harness.plan.settings import read_words

    config, settings = read_words(words or [])
    from harness.plan.command import run_plan

    return run_plan(config, settings)


def _predict(words: Words = None) -> int:
    """Predict the throughput of each arm on a cluster at several rank counts, from committed prices.

    Words as in reproduce, but ranks=1,2,4,8 is a list; steps=40 and the arms of the headline unless given. Ranks are
    trained virtually for these steps; arms with equal bits are trained once. cluster=rtx4090-pcie4 takes that link,
    link=fig1-3dgs one fitted to the paper's exposed share. A scene at its full size says scale_rows=1 scale_pixels=1.
    """
    from harness.predict.words import split_words

    config, ranks = split_words(words or [])
    from harness.predict.command import run_predict

    return run_predict(config, ranks)


def _report(path: Annotated[Path, typer.Argument(help="Folder of records, as given to out=.")]) -> int:
    """Print tables and draw the figure again, from the records alone, and write report.html beside them.

    Where studies were recorded, the page has the exhibits that odin-bench figures has made.
    """
    from harness.report.command import report

    return report(path)


def _timeline(
    cells: Annotated[list[Path], typer.Argument(metavar="CELL", help="Folders runs/cells/<id>, or one of records.")],
    out: Annotated[Path | None, typer.Option(help="Where pictures go; beside the cells by default.")] = None,
    first: Annotated[int | None, typer.Option(help="First of the three steps shown.")] = None,
) -> int:
    """Draw which rank does what when, and where ranks idle (PNG, PDF), and name the traces for Perfetto."""
    from harness.report.timeline import print_timeline

    return print_timeline(cells, out=out, first=first)


def _arms() -> int:
    """List every arm in one sentence each, and the switches that turn single mechanisms."""
    from odin.arms import table

    print(table())
    return 0


def _doctor(
    quick: Annotated[bool, typer.Option("--quick", help="Leave out the two-process rendezvous.")] = False,
) -> int:
    """Say what this machine can run, and the command that repairs what it cannot."""
    from harness.doctor import examine, print_findings

    return print_findings(examine(rendezvous=not quick))


def _announcement(config: Config) -> str:
    """What a run would do: one line per cell, then the resolved config as JSON."""
    cells = expand(config)
    order = "in mirrored order" if config.study.mirrored else "in order"
    head = (
        f"{config.study.name}: {len(cells)} cells {order}, {config.scale.steps} steps × "
        f"{config.engine.global_batch} views = {config.image_budget} images each; records go to {config.out}"
    )
    lines = [f"{place:3d}  {cell.arm:<16} repeat {cell.repeat}" for place, cell in enumerate(cells, start=1)]
    settings = json.dumps(resolved(config), indent=2, ensure_ascii=False)
    return "\n".join([head, *lines, "", "resolved config:", settings])
