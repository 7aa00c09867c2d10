"""Ids depend on what a number depends on, and on nothing else."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from harness.store.identity import SOURCES, canonical_json, cell_id, code_version, git_state, workload_id
from odin.errors import InputError


def test_the_order_of_keys_does_not_matter() -> None:
    assert canonical_json({"b": 1, "a": [1, "é"]}) == '{"a":[1,"\\u00e9"],"b":1}'
    assert cell_id({"a": 1, "b": 2}, "m", "c", "none") == cell_id({"b": 2, "a": 1}, "m", "c", "none")


@pytest.mark.parametrize("config", [{"a": math.nan}, {"a": math.inf}, {"a": Path("x")}, {"a": {1, 2}}])
def test_what_json_cannot_hold_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(InputError, match="cannot"):
        cell_id(config, "m", "c", "none")


def test_every_part_of_an_id_matters() -> None:
    base = cell_id({"a": 1}, "m", "c", "none", 1)
    others = [
        cell_id({"a": 2}, "m", "c", "none", 1),
        cell_id({"a": 1}, "n", "c", "none", 1),
        cell_id({"a": 1}, "m", "d", "none", 1),
        cell_id({"a": 1}, "m", "c", "pin", 1),
        cell_id({"a": 1}, "m", "c", "none", 2),
    ]
    assert len({base, *others}) == 6
    same_work = [other for other in others if other.startswith(workload_id({"a": 1}, "m", "none", 1))]
    assert same_work == [others[2]]


def tree(root: Path) -> Path:
    """A miniature of this repository."""
    for folder in (*SOURCES, "harness/report", "tests", "docs", "pipelines/forks/x", "odin/__pycache__"):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "a.py").write_text("x = 1\n")
    return root


def test_the_code_version_follows_only_sources_a_number_depends_on(tmp_path: Path) -> None:
    root = tree(tmp_path)
    before = code_version(root)
    for folder in ("harness/report", "tests", "docs", "pipelines/forks/x", "odin/__pycache__"):
        (root / folder / "a.py").write_text("x = 2\n")
    (root / "odin" / "notes.md").write_text("text")
    assert code_version(root) == before
    seen = {before}
    for folder in SOURCES:
        (root / folder / "a.py").write_text("x = 2\n")
        seen.add(code_version(root))
    (root / "odin" / "a.py").rename(root / "odin" / "b.py")
    assert len(seen | {code_version(root)}) == len(SOURCES) + 2


def test_a_folder_without_sources_has_no_code_version(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No sources"):
        code_version(tmp_path)


def git(root: Path, *arguments: str) -> str:
    """Run git with an identity of its own."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_the_commit_of_a_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = tree(tmp_path / "origin")
    git(origin, "init", "-q")
    git(origin, "add", "-A")
    git(origin, "commit", "-q", "-m", "one")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    clone = tmp_path / "clone"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert git_state(clone) == (git_head(origin), False)
    (clone / "results" / "laptop" / "cells").mkdir(parents=True)
    (clone / "results" / "laptop" / "cells" / "result.json").write_text("{}\n")
    assert git_state(clone) == (git_head(origin), False)
    (clone / "results" / "profiles").mkdir(exist_ok=True)
    (clone / "results" / "profiles" / "link.json").write_text("{}\n")
    assert git_state(clone) == (git_head(origin), True)
    (clone / "results" / "profiles" / "link.json").unlink()
    (clone / "odin" / "a.py").write_text("changed\n")
    assert git_state(clone) == (git_head(origin), True)


def git_head(root: Path) -> str:
    """The commit, read without git, so that the test does not repeat the code."""
    head = (root / ".git" / "HEAD").read_text().split()[1]
    return (root / ".git" / head).read_text().strip()


def test_outside_git_the_commit_is_unknown_and_dirty(tmp_path: Path) -> None:
    assert git_state(tree(tmp_path)) == ("unknown", True)


def test_a_tree_inside_another_clone_does_not_borrow_its_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("x")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "another project")
    assert git_state(tree(tmp_path / "vendored")) == ("unknown", True)


def test_without_git_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_state(tmp_path) == ("unknown", True)
