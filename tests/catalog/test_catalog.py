"""The catalog of the paper's captures: what is there, what is missing, archives, and manifests that stay."""

from __future__ import annotations

import struct
import sys
import threading
import types
import zipfile
from pathlib import Path

import pytest

from harness.catalog.check import look
from harness.catalog.fetch import fetch, wanted
from harness.catalog.manifests import enforce_scene, manifests_file, recorded
from harness.catalog.scenes import catalog, chosen, scene_at
from harness.cli import main
from harness.config import expand, load
from harness.run.headline import identify
from odin.errors import InputError
from tests.scenes.toy_scene import write_toy_scene

TRUCK = chosen(["truck"])[0]


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODIN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ODIN_MANIFESTS", str(tmp_path / "own" / "manifests.json"))


def put(folder: Path, photos: int = 3, listed: int = 3) -> None:
    """A scene as far as names and headers go."""
    (folder / "images").mkdir(parents=True)
    (folder / "sparse/0").mkdir(parents=True)
    for k in range(photos):
        (folder / "images" / f"{k}.jpg").write_bytes(b"x")
    for name in ("cameras", "images", "points3D"):
        (folder / "sparse/0" / f"{name}.bin").write_bytes(struct.pack("<Q", listed))


def archive(tmp_path: Path, inside: str = "tandt/truck") -> Path:
    file = tmp_path / "tandt_db.zip"
    with zipfile.ZipFile(file, "w") as out:
        for name in ("images/0.jpg", "images_2/0.jpg", "sparse/0/cameras.bin", "sparse/0/images.bin",
                     "sparse/0/points3D.bin", "../../evil.jpg", "database.db"):  # fmt: skip
            out.writestr(f"{inside}/{name}", struct.pack("<Q", 1))
        out.writestr("tandt/train/images/0.jpg", "x")
    return file


def test_the_catalog_is_the_papers_table() -> None:
    counts = {dataset: sum(s.dataset == dataset for s in catalog()) for dataset in {s.dataset for s in catalog()}}
    assert counts == {"mipnerf360": 9, "tanksandtemples": 2, "deepblending": 2, "matrixcity": 1}  # §6.1 Table 2
    assert {s.scene for s in catalog() if s.images == "images_4"} == {
        "bicycle", "flowers", "garden", "stump", "treehill",
    }  # fmt: skip
    assert {s.scene for s in catalog() if s.images == "images_2"} == {"bonsai", "counter", "kitchen", "room"}
    assert all(s.archive.startswith("https://") or s.manual for s in catalog())
    assert [s.name for s in chosen(["truck", "deepblending"])] == [
        "tanksandtemples/truck", "deepblending/drjohnson", "deepblending/playroom",
    ]  # fmt: skip
    with pytest.raises(InputError, match="nearest name is truck"):
        chosen(["truk"])


def test_check_says_what_is_missing_and_how_to_get_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "check", "truck", "aerial"]) == 1
    out = capsys.readouterr().out
    assert "tanksandtemples/truck    missing: the folder" in out
    assert "odin-bench data fetch tanksandtemples/truck" in out and TRUCK.archive in out
    assert "colmap point_triangulator" in out
    put(TRUCK.folder(tmp_path / "data"))
    assert main(["data", "check", "truck"]) == 0
    assert "ok: 3 photos, not used yet" in capsys.readouterr().out


def test_what_is_only_partly_there(tmp_path: Path) -> None:
    folder = TRUCK.folder(tmp_path)
    put(folder, photos=2, listed=5)
    assert look(TRUCK, tmp_path).missing == ("3 of 5 photos in images",)
    (folder / "sparse/0/points3D.bin").unlink()
    for photo in (folder / "images").iterdir():
        photo.unlink()
    assert look(TRUCK, tmp_path).missing == ("sparse/0/{cameras,images,points3D}.bin (or .txt)", "photos in images")


def test_an_archive_of_the_users_is_unpacked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = archive(tmp_path)
    assert main(["data", "fetch", "truck", "--archive", str(file)]) == 0
    folder = TRUCK.folder(tmp_path / "data")
    assert look(TRUCK, tmp_path / "data").complete
    assert sorted(p.name for p in folder.iterdir()) == ["images", "sparse"]  # nothing that is not trained on
    assert not list(tmp_path.rglob("evil.jpg")) and not list(tmp_path.rglob("*.part"))
    assert main(["data", "fetch", "truck", "--archive", str(file)]) == 0
    assert "left alone" in capsys.readouterr().err
    with zipfile.ZipFile(file, "a") as out:
        out.writestr("more", "x")
    assert main(["data", "fetch", "truck", "--archive", str(file)]) == 2
    assert "is not what it was at its first use" in capsys.readouterr().err


def test_wrong_archives_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.zip").write_bytes(b"PK")
    for words, says in [
        (["truck", "--archive", str(tmp_path / "absent.zip")], "There is no file"),
        (["aerial"], "has no archive to fetch"),
        (["mipnerf360", "--archive", str(tmp_path / "broken.zip")], "are in 2 archives"),
        (["truck", "--archive", str(tmp_path / "broken.zip")], "not a whole zip archive"),
    ]:
        assert main(["data", "fetch", *words]) == 2
        assert says in capsys.readouterr().err
    with pytest.raises(InputError, match="rearranged"):
        wanted(["truck/images/0.jpg"], TRUCK)
    assert not TRUCK.folder(tmp_path / "data").exists()


def test_downloads_go_through_pooch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    file = archive(tmp_path)

    def retrieve(*, url, known_hash, fname, path):
        assert (url, known_hash, fname) == (TRUCK.archive, None, "tandt_db.zip")
        path.mkdir(parents=True)
        return str(file.rename(path / fname))

    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(retrieve=retrieve))
    said: list[str] = []
    (folder,) = fetch([TRUCK], tmp_path / "data", said.append)
    assert look(TRUCK, tmp_path / "data").complete and folder == TRUCK.folder(tmp_path / "data")
    assert TRUCK.archive in recorded()

    def refused(**_):
        raise ConnectionError("no route")

    monkeypatch.setitem(sys.modules, "pooch", types.SimpleNamespace(retrieve=refused))
    assert main(["data", "fetch", "train"]) == 1
    assert "--archive FILE" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert main(["data", "fetch", "train"]) == 2
    assert "need the package pooch" in capsys.readouterr().err


def test_a_manifest_is_recorded_at_first_use_and_enforced_after(tmp_path: Path, capsys) -> None:
    path = str(TRUCK.folder(tmp_path / "data"))
    threads = [threading.Thread(target=enforce_scene, args=(path, "images", 8, "ab" * 32)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert list(recorded()) == ["tanksandtemples/truck images test_every=8"]
    enforce_scene(path, "images", 8, "ab" * 32)
    enforce_scene(path, "images_2", 8, "cd" * 32)  # another size is another entry
    with pytest.raises(InputError, match="recorded abababab") as raised:
        enforce_scene(path, "images", 8, "ef" * 32)
    assert "data forget tanksandtemples/truck" in str(raised.value)
    assert main(["data", "forget", "truck"]) == 0
    assert "2 manifests forgotten" in capsys.readouterr().out
    enforce_scene(path, "images", 8, "ef" * 32)
    enforce_scene(str(tmp_path / "my" / "scene"), "images", 8, "12" * 32)  # not of the catalog: not ours to judge
    assert len(recorded()) == 1 and scene_at(tmp_path / "my/scene") is None


def test_a_broken_file_of_manifests_is_named() -> None:
    manifests_file().parent.mkdir(parents=True)
    for text in ("{", "[]", '{"a": 1}'):
        manifests_file().write_text(text)
        with pytest.raises(InputError, match=r"manifests\.json"):
            recorded()


def test_a_run_enforces_the_manifest_of_a_catalog_scene(tmp_path: Path) -> None:
    """Through `identify`, which every run starts with, on a real COLMAP folder under the catalog's name."""
    folder = TRUCK.folder(tmp_path / "data")
    write_toy_scene(folder)
    config = load([f"scene={folder}", "link=none", "padded=false", "steps=2", "test_every=0"])
    first, _ = identify(config, expand(config))
    assert identify(config, expand(config))[0] == first
    photo = sorted((folder / "images").iterdir())[0]
    photo.write_bytes(sorted((folder / "images").iterdir())[1].read_bytes())
    with pytest.raises(InputError, match="Scene tanksandtemples/truck"):
        identify(config, expand(config))
