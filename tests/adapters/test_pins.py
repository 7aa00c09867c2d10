"""Pins, checkouts, and what is said where a fork is absent."""

from __future__ import annotations

import configparser
import re
import subprocess
from pathlib import Path

import pytest

from harness.cli import main
from harness.config import load
from harness.run.fork_pin import fork_pin
from odin.errors import InputError
from pipelines.adapters import pins as module
from pipelines.adapters.pins import CHECKOUTS, MARKER, UNKNOWN, find_checkout, pins, require_checkout

ROOT = Path(__file__).resolve().parents[2]
each = pytest.mark.parametrize("pipeline", sorted(pins()))


@pytest.fixture
def absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No fork anywhere; the folder that $ODIN_FORKS names."""
    monkeypatch.setattr(module, "FOLDER", tmp_path / "submodules")
    monkeypatch.setenv(CHECKOUTS, str(tmp_path / "own"))
    return tmp_path / "own"


def placed(folder: Path) -> Path:
    """Something that looks like a fork."""
    (folder / MARKER).parent.mkdir(parents=True)
    (folder / MARKER).write_text("")
    return folder


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=t", "-c", "user.email=t@t")
    return subprocess.run(["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True).stdout


def test_pins_are_the_gitlinks() -> None:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-s", "pipelines/forks"], capture_output=True, text=True, check=False
    )
    if listed.returncode or not listed.stdout:
        pytest.skip("not a git checkout, so there are no gitlinks to compare the pins with")
    links = {line.split()[3]: line.split()[1] for line in listed.stdout.splitlines() if line.startswith("160000")}
    assert links == {pin.submodule.as_posix(): pin.commit for pin in pins().values()}


def test_pins_are_the_submodules() -> None:
    parser = configparser.ConfigParser()
    parser.read_string("\n".join(line.strip() for line in (ROOT / ".gitmodules").read_text().splitlines()))
    urls = {parser[section]["path"]: parser[section]["url"] for section in parser.sections()}
    assert urls == {pin.submodule.as_posix(): f"{pin.url}.git" for pin in pins().values()}


@each
def test_a_pin_says_what_a_user_has_to_know(pipeline: str) -> None:
    pin = pins()[pipeline]
    assert len(pin.commit) == 40
    assert pin.licence and pin.checked and pin.extensions
    assert set(pin.optimizers) <= {"dense", "selective"}


@each
def test_an_absent_fork_is_one_paragraph_with_the_command(pipeline: str, absent: Path) -> None:
    assert find_checkout(pins()[pipeline]) is None
    with pytest.raises(InputError) as error:
        require_checkout(pins()[pipeline])
    assert f"git submodule update --init pipelines/forks/{pins()[pipeline].name}" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_run_of_an_absent_fork_ends_before_it_starts(
    absent: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["pipeline=3dgs", "source=fork", "padded=false", "link=none", f"out={tmp_path / 'runs'}"]
    assert main(["reproduce", "headline", *words]) == 2
    said = capsys.readouterr().err
    assert "git submodule update --init pipelines/forks/3dgs" in said
    assert "Traceback" not in said
    assert not list((tmp_path / "runs").glob("cells/*"))


def test_a_checkout_in_the_named_folder_is_found(absent: Path) -> None:
    pin = pins()["2dgs"]
    folder = placed(absent / pin.name)
    found = require_checkout(pin)
    # It lies in no repository, or in ours, whose commit is not the fork's.
    assert (found.folder, found.commit, found.pinned) == (folder, UNKNOWN, False)


def test_commits_and_changes_are_seen(absent: Path) -> None:
    pin = pins()["2dgs"]
    folder = placed(absent / pin.name)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "a")
    found = require_checkout(pin)
    assert found.label == git(folder, "rev-parse", "HEAD").strip()
    assert not found.pinned
    (folder / MARKER).write_text("changed")
    assert "+changed-" in require_checkout(pin).label


def test_records_name_the_commit_and_the_stand_ins(absent: Path) -> None:
    fork = load(["pipeline=2dgs", "source=fork", "padded=false", "link=none"])
    with pytest.raises(InputError, match="git submodule update"):
        fork_pin(fork)
    placed(absent / "2dgs")
    assert re.fullmatch(rf"{UNKNOWN}-[0-9a-f]{{8}}\+cpu-stand-ins", fork_pin(fork))
    placed(absent / "3dgs")
    words = ["device=cuda", "pipeline=3dgs", "source=fork", "padded=false", "link=none", "arms=[barrier]"]
    assert re.fullmatch(rf"{UNKNOWN}-[0-9a-f]{{8}}", fork_pin(load(words)))
    assert fork_pin(load([])) == "none"


def test_what_no_device_path_can_do_is_refused_before_a_gpu_is_taken() -> None:
    cuda = ["source=fork", "device=cuda", "padded=false", "link=none", "arms=[barrier]"]
    able = (["2dgs"], ["taminggs"], ["taminggs", "f_rest_every=1"], ["taminggs", "optimizer=selective"], ["dashgs"])
    assert all(load([*cuda, f"pipeline={name}", *words]).engine.cuda for name, *words in able)
    with pytest.raises(InputError, match="expected cpu with source=fork pipeline=grendel"):
        load([*cuda, "pipeline=grendel"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["source=fork"], "expected false and none with source=fork device=cpu"),
        (["source=fork", "engine=virtual", "padded=false", "link=none"], "expected process with source=fork"),
        (["source=fork", "padded=false", "link=exposed-295"], "expected false and none"),
    ],
)
def test_stand_ins_are_not_timed(words: list[str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        load(words)


def test_records_of_one_edit_do_not_pass_for_those_of_another(absent: Path) -> None:
    """A cell's id holds the label: an edited fork, or one without a repository, is told by its contents."""
    pin = pins()["2dgs"]
    folder, labels = placed(absent / pin.name), []
    (folder / "train.py").write_text("one\n")
    labels.append(require_checkout(pin).label)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "their state")
    clean = require_checkout(pin).label
    assert clean == git(folder, "rev-parse", "HEAD").strip()
    for text in ("two\n", "three\n"):
        (folder / "train.py").write_text(text)
        labels.append(require_checkout(pin).label)
    (folder / "README.md").write_text("no source\n")
    assert require_checkout(pin).label == labels[-1]
    assert len({clean, *labels}) == 4
    assert labels[0].startswith(UNKNOWN) and all(label.startswith(f"{clean}+changed-") for label in labels[1:])
