"""Numbers of hundreds of digits and names that are no UTF-8 end in one paragraph, or run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cli import main
from harness.config.sizes import read_bytes
from harness.scenes.spec import folder_name
from harness.store.store import CellStore
from odin.errors import InputError
from tests.scenes.toy_scene import write_toy_scene

ODD = os.fsdecode(b"b\xff\xfed")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", "scene=rooms", f"memory={'9' * 400}"], "expected a size in bytes"),
        (["plan", "scene=rooms", "memory=10000000TB"], "below 8 EB"),
        (["plan", f"scene=rooms?views={'9' * 5000}"], "given once as a whole number"),
        (["reproduce", "headline", "scene=rooms", f"out=/tmp/{ODD}"], "expected text in UTF-8"),
        (["reproduce", "headline", f"scene=/tmp/{ODD}"], "expected text in UTF-8"),
        (["train", "arms=quality", f"scene=/tmp/{ODD}", "--every", "1"], "expected text in UTF-8"),
        (["run", "smoke", f"scene=/tmp/{ODD}"], "expected text in UTF-8"),
    ],
    ids=["digits", "units", "views", "out", "scene", "train", "run"],
)
def test_it_is_refused(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    said = capsys.readouterr().err
    assert says in said and len(said) < 1000 and len(said.splitlines()) == 1


@pytest.mark.parametrize(("text", "size"), [("1.5GB", 1_500_000_000), ("0", 0), ("9223372TB", 9_223_372 * 10**12)])
def test_sizes(text: str, size: int) -> None:
    assert read_bytes("memory", text) == size


def test_the_largest_size() -> None:
    with pytest.raises(InputError, match="below 8 EB"):
        read_bytes("memory", str(2**63))


def test_a_link_to_a_folder_of_an_odd_name_is_trained_under_an_escaped_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        (tmp_path / ODD).mkdir()
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    write_toy_scene(tmp_path / ODD)
    (tmp_path / "link").symlink_to(tmp_path / ODD)
    assert folder_name(tmp_path / "link") == r"b\udcff\udcfed"
    words = ["ranks=1", "arms=[barrier]", "mirrored=false", "link=none", "padded=false", "steps=2", "test_every=0"]
    assert main(["reproduce", "headline", f"scene={tmp_path / 'link'}", *words, f"out={tmp_path / 'runs'}"]) == 0
    (record,) = CellStore(tmp_path / "runs").results()
    assert record.cell.scene == folder_name(tmp_path / "link")
