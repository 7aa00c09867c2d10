"""`harness.plugins`: commands of other packages, loaded when run."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import typer

from harness.cli import main
from harness.plugins import GROUP
from odin.errors import InputError


def attached(monkeypatch: pytest.MonkeyPatch, *entries: EntryPoint) -> None:
    """Pretend that installed packages have these entry points."""
    monkeypatch.setattr("harness.plugins.entry_points", lambda group: [e for e in entries if e.group == group])


def package(monkeypatch: pytest.MonkeyPatch, content: object) -> EntryPoint:
    """A package `fake_cluster` whose `app` is the content, as command `submit`."""
    module = ModuleType("fake_cluster")
    module.__dict__["app"] = content
    monkeypatch.setitem(sys.modules, "fake_cluster", module)
    return EntryPoint(name="submit", value="fake_cluster:app", group=GROUP)


def cluster_app(calls: list[tuple[str, int]]) -> typer.Typer:
    """An app with one argument and one option, as slurm would bring."""
    app = typer.Typer(rich_markup_mode=None)

    @app.command()
    def submit(study: str, nodes: int = 1) -> None:
        """Send a study to the cluster."""
        calls.append((study, nodes))
        if nodes > 8:
            raise InputError("There are 8 nodes. Use fewer.")
        raise typer.Exit(nodes)

    return app


def test_arguments_options_and_exit_code_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, int]] = []
    attached(monkeypatch, package(monkeypatch, cluster_app(calls)))
    assert main(["submit", "headline", "--nodes", "3"]) == 3
    assert calls == [("headline", 3)]


def test_help_of_the_command_is_the_packages_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attached(monkeypatch, package(monkeypatch, cluster_app([])))
    assert main(["submit", "--help"]) == 0
    out = capsys.readouterr().out
    assert "Usage: odin-bench submit" in out
    assert "--nodes" in out


def test_errors_of_the_command_end_as_ours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    attached(monkeypatch, package(monkeypatch, cluster_app([])))
    assert main(["submit", "headline", "--nodes", "9"]) == 2
    assert capsys.readouterr().err == "There are 8 nodes. Use fewer.\n"
    assert main(["submit"]) == 2


def test_a_package_is_not_loaded_before_its_command_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attached(monkeypatch, EntryPoint(name="submit", value="no_such_package.cli:app", group=GROUP))
    assert main(["--help"]) == 0
    assert "(from no_such_package)" in capsys.readouterr().out
    assert main(["submit"]) == 1
    assert "'submit' comes from no_such_package.cli:app and could not be loaded" in capsys.readouterr().err


def test_an_entry_point_that_is_no_app_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attached(monkeypatch, package(monkeypatch, lambda: None))
    assert main(["submit"]) == 1
    assert "which is a function and not a typer.Typer" in capsys.readouterr().err


def test_our_own_commands_cannot_be_replaced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    attached(monkeypatch, EntryPoint(name="reproduce", value="no_such_package:app", group=GROUP))
    assert main(["reproduce", "headline", "--dry-run"]) == 0
    assert "8 cells" in capsys.readouterr().out
