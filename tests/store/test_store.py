"""Records on disk: whole or not at all, and the state of every cell."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.store import files
from harness.store.files import replacing, sweep, write_text
from harness.store.schema import Result
from harness.store.store import CellStore, State, load_result
from odin.errors import InputError, RunError

from .samples import cell, measurement, provenance, result


def files_below(folder: Path) -> list[str]:
    """Names of all files, to see that no temporary one is left."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_a_record_is_read_back_as_written(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    made = result()
    assert store.write_result(made) == store.path(made.cell_id) / "result.json"
    assert store.read_result(made.cell_id) == made
    assert list(store.results()) == [made]
    assert files_below(tmp_path) == ["result.json"]


def test_the_old_record_survives_a_write_that_stops_midway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CellStore(tmp_path)
    made = result()
    before = store.write_result(made).read_bytes()

    def stop(*_: Any, **__: Any) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", stop)
    with pytest.raises(KeyboardInterrupt):
        store.write_result(made)
    monkeypatch.undo()
    with pytest.raises(ZeroDivisionError), replacing(store.path(made.cell_id) / "result.json") as temporary:
        temporary.write_text('{"half": ')
        raise ZeroDivisionError
    assert (store.path(made.cell_id) / "result.json").read_bytes() == before
    assert files_below(tmp_path) == ["result.json"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("function", ["fsync", "open"])
def test_a_disk_that_refuses_is_one_paragraph(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, function: str
) -> None:
    store = CellStore(tmp_path)
    before = store.write_result(result()).read_bytes()

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files.os, function, refuse)
    with pytest.raises(RunError, match=f"result.json: {os.strerror(code)}.*intact") as caught:
        store.write_result(result(factor=1.1))
    monkeypatch.undo()
    assert "\n" not in str(caught.value)
    assert (store.path(result().cell_id) / "result.json").read_bytes() == before
    assert files_below(tmp_path) == ["result.json"]


def test_a_folder_that_cannot_be_used_is_refused_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="Cannot keep records"):
        CellStore(tmp_path / "file" / "runs")

    def refuse(**_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("harness.store.store.TemporaryFile", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        CellStore(tmp_path / "runs")


def test_a_folder_without_records_is_not_made_by_reading(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no records"):
        CellStore(tmp_path / "typo", create=False)
    assert not list(tmp_path.iterdir())


def test_a_nan_that_was_smuggled_past_validation_is_not_written(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    made = result()
    broken = made.model_copy(update={"measurement": measurement().model_copy(update={"losses": (float("nan"),)})})
    with pytest.raises(ValueError, match="Out of range"):
        store.write_result(broken)
    assert files_below(tmp_path) == []


def test_a_broken_record_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    path = store.write_result(result())
    whole = path.read_text()
    for text in ("", whole[:200], whole.replace('"repeat"', '"repeet"'), whole.replace("236000", "NaN", 1)):
        assert text != whole
        path.write_text(text)
        with pytest.raises(InputError, match=f"{path} is broken.*delete it"):
            store.read_result(result().cell_id)
        with pytest.raises(InputError, match="broken"):
            store.state(result().cell_id)


def test_a_record_of_another_schema_says_so(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    path = store.write_result(result())
    path.write_text(path.read_text().replace('"schema_version": 2', '"schema_version": 1'))
    with pytest.raises(InputError, match=f"{path} has schema 1, this program reads 2"):
        store.read_result(result().cell_id)


def test_what_killed_writers_have_left_is_swept(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    path = store.write_result(result())
    (path.parent / ".result.json.1234.abcdef01.tmp").write_text("half")
    sweep(path.parent)
    assert [p.name for p in path.parent.iterdir()] == ["result.json"]
    sweep(tmp_path / "absent")


def test_a_record_under_a_wrong_name_is_refused(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    path = store.write_result(result())
    wrong = store.path("0" * 16 + "-" + "0" * 8)
    path.parent.rename(wrong)
    with pytest.raises(InputError, match="moved or copied"):
        store.read_result(wrong.name)


def test_a_missing_record_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        load_result(tmp_path / "result.json")


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b"])
def test_a_name_that_is_no_id_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="cannot name"):
        CellStore(tmp_path).path(name)


def test_states_of_a_cell(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    name = result().cell_id
    assert store.state(name).state is State.PENDING
    with store.pair_lock("pair", [name]):
        assert store.state(name).state is State.RUNNING
    assert store.state(name).state is State.PENDING
    store.write_result(Result.failed(cell(), "rank 1 was killed", provenance()))
    assert (store.state(name).state, store.state(name).reason) == (State.FAILED, "rank 1 was killed")
    with store.pair_lock("pair", [name]):
        assert store.state(name).state is State.RUNNING
        store.write_result(result())
        assert store.state(name).state is State.DONE
    store.write_result(Result.skipped(cell(), "left out", provenance()))
    assert store.state(name).state is State.SKIPPED


def test_a_record_of_another_code_version_is_done_and_stale(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    wanted = result()
    for sha, code, hour in (("a" * 40, "old1", 1), ("b" * 40, "old2", 2)):
        when = datetime(2031, 1, 1, hour, tzinfo=UTC)
        old = provenance(git_sha=sha, code_version=code, ended=when)
        store.write_result(Result.done(cell(), measurement(), old))
    store.write_result(
        Result.failed(cell(), "no", provenance(code_version="old3", ended=datetime(2032, 1, 1, tzinfo=UTC)))
    )
    found = store.state(wanted.cell_id)
    assert (found.state, found.stale, found.commit) == (State.DONE, True, "b" * 40)
    assert found.record is not None and store.read_result(found.record).provenance.code_version == "old2"
    store.write_result(wanted)
    found = store.state(wanted.cell_id)
    assert (found.state, found.stale, found.record) == (State.DONE, False, wanted.cell_id)


def test_a_record_of_another_scene_is_not_stale(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    other = Result.done(cell(manifest="other"), measurement(), provenance(code_version="old"))
    store.write_result(other)
    assert store.state(result().cell_id).state is State.PENDING


def test_a_second_process_is_refused_a_pair_that_runs(tmp_path: Path) -> None:
    store = CellStore(tmp_path)
    claim = (
        "import sys; from pathlib import Path; from harness.store.store import CellStore\n"
        "with CellStore(Path(sys.argv[1])).pair_lock('pair', []): print('held')"
    )
    command = [sys.executable, "-c", claim, str(tmp_path)]
    with store.pair_lock("pair", []):
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode != 0 and "RunError: Another process is running pair pair" in second.stderr
    with store.pair_lock("pair", []):  # free again
        pass


def test_text_is_written_as_utf8_with_unix_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "a.txt", "×\n")
    assert (tmp_path / "new" / "a.txt").read_bytes() == "×\n".encode()
