"""`harness.cli`: commands, exit codes, what is printed where."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from harness.cli import main
from harness.config import Config, resolved
from odin.errors import InputError, OdinError, RunError

Runner = Callable[..., int]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write below the current folder; nothing of a test may land in the repository."""
    monkeypatch.chdir(tmp_path)


def stand_in(monkeypatch: pytest.MonkeyPatch, module: str, name: str, function: Runner) -> None:
    """Put a module with one function in the place of a real one, whether that exists or not."""
    replacement = ModuleType(module)
    setattr(replacement, name, function)
    monkeypatch.setitem(sys.modules, module, replacement)


def runs(monkeypatch: pytest.MonkeyPatch, function: Runner) -> None:
    """Let `reproduce headline` call this function."""
    stand_in(monkeypatch, "harness.run.headline", "run_headline", function)


@pytest.fixture
def default_config(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the config does not matter: the default one, without the time that composing it takes."""
    monkeypatch.setattr("harness.cli.load", lambda words: Config())


def raising(error: BaseException) -> Runner:
    """A run that ends in this error."""

    def run(config: Config, *, refresh: bool) -> int:
        raise error

    return run


def test_words_and_flags_reach_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Config, bool]] = []

    def run(config: Config, *, refresh: bool) -> int:
        calls.append((config, refresh))
        return 0

    runs(monkeypatch, run)
    assert main(["reproduce", "headline", "steps=12", "scene=/data/x", "images=images_4", "--refresh"]) == 0
    assert main(["reproduce", "headline"]) == 0
    (first, refreshed), (second, not_refreshed) = calls
    assert (first.scale.steps, first.scene.path, first.scene.images) == (12, "/data/x", "images_4")
    assert (refreshed, not_refreshed) == (True, False)
    assert second == Config()


@pytest.mark.usefixtures("default_config")
@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_run_decides_the_exit_code(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    runs(monkeypatch, lambda config, *, refresh: code)
    assert main(["reproduce", "headline"]) == code


@pytest.mark.parametrize("path", ["my scene", "a=b", "[x]{y}", "größe/Ω 日本", "it's", 'a"b', "${HOME}", "a,b", "~"])
def test_a_scene_path_arrives_as_typed(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    seen: list[str] = []

    def run(config: Config, *, refresh: bool) -> int:
        seen.append(config.scene.path)
        return 0

    runs(monkeypatch, run)
    assert main(["reproduce", "headline", f"scene=/tmp/{path}"]) == 0
    assert seen == [f"/tmp/{path}"]


def test_a_dry_run_prints_cells_and_config_and_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runs(monkeypatch, raising(AssertionError("a dry run must not run")))
    assert main(["reproduce", "headline", "steps=7", "scene=/d/größe", "arms=barrier,quality", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    head, _, settings = out.partition("resolved config:\n")
    assert head.splitlines()[0] == (
        "headline: 4 cells in mirrored order, 7 steps × 4 views = 28 images each; records go to runs"
    )
    assert [line.split() for line in head.splitlines()[1:5]] == [
        ["1", "barrier", "repeat", "0"],
        ["2", "quality", "repeat", "0"],
        ["3", "quality", "repeat", "1"],
        ["4", "barrier", "repeat", "1"],
    ]
    assert json.loads(settings)["scene"]["path"] == "/d/größe"
    assert json.loads(settings).keys() == resolved(Config()).keys()
    assert err == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stpes=3"], "nearest valid one is 'steps'"),
        (["pipeline.densfy=true"], "'pipeline.densify'"),
        (["link=exposed-230"], "cluster, exposed-229, exposed-295, exposed-323"),
        (["arms=barrier,qualty"], "'quality'"),
        (["steps=0"], "scale.steps=0 is refused: expected a whole number of at least 1"),
        (["reduce=orderd"], "engine.reduce=orderd is refused: expected one of native, ordered"),
        (["bonsai"], "scene=bonsai"),
    ],
)
def test_wrong_words_end_in_one_paragraph(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "headline", *words]) == 2
    out, err = capsys.readouterr()
    assert says in err
    assert err.count("\n") == 1
    assert out == ""


def test_an_unknown_study_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "headlin"]) == 2
    assert "Options of study: headline" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["reproduce"], ["reproduce", "headline", "--refrsh"], ["repodruce"], ["report"]])
def test_wrong_usage_is_exit_code_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "Usage: odin-bench" in capsys.readouterr().err


@pytest.mark.usefixtures("default_config")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("Image a.png is missing. Add it."), 2),
        (RunError("Rank 1 went first.\nStart again."), 1),
        (OdinError("Something else."), 1),
    ],
)
def test_errors_for_the_user_are_one_paragraph(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OdinError, code: int
) -> None:
    runs(monkeypatch, raising(error))
    assert main(["reproduce", "headline"]) == code
    assert capsys.readouterr().err == str(error).replace("\n", " ") + "\n"


@pytest.mark.usefixtures("default_config")
def test_an_interrupt_is_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    runs(monkeypatch, raising(KeyboardInterrupt()))
    assert main(["reproduce", "headline"]) == 130
    assert capsys.readouterr().err.startswith("Interrupted.")


# EOFError and BrokenPipeError are what a dead rank looks like from the other end; click would hide them.
@pytest.mark.usefixtures("default_config")
@pytest.mark.parametrize("error", [ZeroDivisionError("steps / 0"), EOFError("rank"), BrokenPipeError("rank")])
def test_a_defect_leaves_its_traceback_in_a_file_under_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    runs(monkeypatch, raising(error))
    assert main(["reproduce", "headline", "out=my records"]) == 70
    err = capsys.readouterr().err
    (crash,) = Path("my records").glob("crash-*.txt")
    assert str(crash) in err
    assert type(error).__name__ in err
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert f"{type(error).__name__}: {error}" in crash.read_text()
    assert "test_cli.py" in crash.read_text()


def test_a_reader_that_goes_away_is_no_defect(tmp_path: Path) -> None:
    """`odin-bench arms | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-c", "import sys; from harness.cli import main; sys.exit(main(sys.argv[1:]))", "arms"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, cwd=tmp_path, env=environment, timeout=120)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, b"")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("default_config")
def test_a_defect_where_out_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    runs(monkeypatch, raising(ZeroDivisionError("x")))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "elsewhere"))
    Path("blocked").write_text("a file, not a folder")
    assert main(["reproduce", "headline", "out=blocked"]) == 70
    (crash,) = (tmp_path / "elsewhere").glob("crash-*.txt")
    assert str(crash) in capsys.readouterr().err


@pytest.mark.usefixtures("default_config")
def test_a_defect_that_can_be_written_nowhere_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs(monkeypatch, raising(ZeroDivisionError("x")))
    Path("blocked").write_text("a file, not a folder")
    monkeypatch.setattr("tempfile.gettempdir", lambda: "blocked")
    assert main(["reproduce", "headline", "out=blocked"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_message_is_wrapped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["reproduce", "headline", "ranks=17"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 60


def test_report_gets_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    def report(folder: Path) -> int:
        seen.append(folder)
        return 1

    stand_in(monkeypatch, "harness.report.command", "report", report)
    assert main(["report", "some runs"]) == 1
    assert seen == [Path("some runs")]


def test_help_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "reproduce" in capsys.readouterr().out


def test_bytes_that_are_no_text_survive_an_ascii_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; from harness.cli import main; sys.exit(main())"]
    scene = os.fsencode(tmp_path) + b"/caf\xe9 \xc3\xa9"
    done = subprocess.run(
        [*command, "reproduce", "headline", b"scene=" + scene, "--dry-run"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"\\udce9" in done.stdout


def test_ctrl_c_in_a_real_process() -> None:
    code = (
        "import signal, sys, time, types\n"
        # A run started in the background of a shell has it ignored, and children inherit that.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "module = types.ModuleType('harness.run.headline')\n"
        "def run(config, *, refresh):\n    print('running', flush=True)\n    time.sleep(60)\n"
        "module.run_headline = run\n"
        "sys.modules['harness.run.headline'] = module\n"
        "from harness.cli import main\n"
        "sys.exit(main(['reproduce', 'headline']))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "running\n"
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err.startswith("Interrupted.")
    assert "Traceback" not in err
