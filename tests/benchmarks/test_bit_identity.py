"""A comparison of states passes only where all that was asked for is there and could have failed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from benchmarks import bit_identity
from benchmarks.bit_identity import main, words
from harness.config import Cell, load
from harness.exits import INTERRUPTED
from harness.store.schema import Primitives, Windows
from harness.store.store import CellStore
from tests.benchmarks.made_up import TINY, make_up
from tests.store import samples

SHORT = [*TINY, "steps=4"]
AGREED = "All {} cells end in the state that they should.\n"
CLOSED = Windows(clear=0, partial=0, rejected={"conflict": 3})


def of(arm: str, **changes: Any) -> dict[str, Any]:
    """Made-up records with changes to those of one arm."""

    def changed(cell: Cell) -> Mapping[str, Any]:
        return changes if cell.arm == arm else {}

    return {"changes": changed}


class Bench:
    """Runs the benchmark on made-up records in a folder."""

    def __init__(self, out: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.out, self._patch, self._capsys = out, patch, capsys

    def __call__(self, *arguments: str, **how: Any) -> tuple[int, str]:
        """Exit code and what was printed."""
        make_up(self._patch, **how)
        given = arguments or ("--ranks", "2", "--optimizers", "dense")
        code = main([*SHORT, *given, "--out", str(self.out)])
        return code, self._capsys.readouterr().out


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Bench:
    return Bench(tmp_path, monkeypatch, capsys)


def test_paired_arms_run_apart_and_on_real_processes() -> None:
    exact, paired = words(2, "dense")
    assert exact[-1] == "arms=barrier-planned,paper-quality,quality" and paired[-1] == "arms=barrier,ddp"
    assert [len(words(ranks, name)) for ranks, name in ((2, "selective"), (3, "dense"))] == [1, 1]
    config = load([*bit_identity.UNTIMED, *bit_identity.EVENTS, *words(3, "selective")[0]])
    assert (config.engine.name, config.engine.reduce, config.engine.global_batch) == ("process", "ordered", 3)


def test_equal_states_of_all_that_was_asked_for_pass(bench: Bench) -> None:
    code, printed = bench("seed=4", "--ranks", "2", "3", "--optimizers", "dense")
    assert code == 0 and printed.endswith(AGREED.format(2 * 3 + 2))
    frame = pd.read_csv(bench.out / "bit_identity.csv")
    assert set(frame["seed"]) == {4} and frame["state"].str.len().min() == 64
    table = bench.out / "elsewhere.csv"
    assert bench("seed=4", "--ranks", "2", "3", "--optimizers", "dense", "--csv", str(table))[0] == 0
    assert pd.read_csv(table).equals(frame)


def test_states_that_differ_are_named_with_their_arms(bench: Bench) -> None:
    code, printed = bench(**of("quality", final_digest="dd" * 32))
    place = "seed 0, ranks 2, optimizer dense, steps 4: states differ: "
    assert code == 1 and f"{place}barrier-planned {'bb' * 6}, paper-quality {'bb' * 6}, quality {'dd' * 6}" in printed
    code, printed = bench(**of("ddp", final_digest="dd" * 32))
    assert code == 1 and f"{place}barrier {'aa' * 6}, ddp {'dd' * 6}" in printed


def test_states_that_differ_behind_what_is_printed_differ(bench: Bench) -> None:
    code, _ = bench(**of("quality", final_digest="bb" * 31 + "bc"))
    assert code == 1


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            {"absent": {"quality"}},
            "quality #1 (seed=0 ranks=2 views_per_unit=2 optimizer=dense densify=true perturb=0)",
        ),
        ({"absent": {"barrier-planned", "quality"}}, "2 cells are missing"),  # one state is left, which equals itself
        ({"failed": {"ddp": "rank 1 died"}}, "failed: rank 1 died"),
        ({"absent": {*bit_identity.EXACT, *bit_identity.PAIRED}}, "No cell is done: nothing was tested."),
    ],
)
def test_an_arm_that_left_no_record_is_named(bench: Bench, how: dict[str, Any], said: str) -> None:
    code, printed = bench(**how)
    assert code == 1 and said in printed and "All" not in printed


def test_the_exit_code_of_a_run_counts(bench: Bench) -> None:
    code, printed = bench(exit_code=70)
    assert code == 70 and "exit code 70" in printed and "All" not in printed


def test_an_interrupt_ends_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def interrupted(command: list[str]) -> int:
        seen.append(command)
        return INTERRUPTED

    monkeypatch.setattr(bit_identity, "odin_bench", interrupted)
    assert main([*SHORT, "--ranks", "2", "--out", str(bench.out)]) == INTERRUPTED and len(seen) == 1


def test_records_of_other_code_stand_in_for_nothing(bench: Bench) -> None:
    code, printed = bench(code="0" * 16)
    assert code == 1
    assert f"done by other code only (commit {samples.provenance().git_sha[:12]})" in printed
    assert "Left out: 5 records of other code versions, 0 of settings" in printed
    code, printed = bench()
    assert code == 0 and printed.endswith(AGREED.format(5)) and "Left out: 5 records of other code" in printed


def test_records_of_another_seed_or_scene_are_left_out(bench: Bench) -> None:
    bench("seed=1", "--ranks", "2", "--optimizers", "dense", **of("quality", final_digest="dd" * 32))
    bench("scene=rooms?views=20&width=48&height=36&points=400", "--ranks", "2", "--optimizers", "dense")
    code, printed = bench()
    assert code == 0 and "Left out: 0 records of other code versions, 10 of settings, seeds or scenes" in printed


@pytest.mark.parametrize("changes", [{"primitives": Primitives(initial=1000, final=1000)}, {"structural_share": 0.0}])
def test_without_structural_events_nothing_was_tested(bench: Bench, changes: dict[str, Any]) -> None:
    code, printed = bench(changes=lambda cell: changes)
    assert code == 1 and "nothing was tested, because no structural event changed the primitives of barrier" in printed


def test_where_no_window_opened_nothing_was_tested(bench: Bench) -> None:
    code, printed = bench(changes=lambda cell: {"windows": CLOSED})
    assert code == 1 and "nothing was tested, because paper-quality, quality opened no window" in printed
    code, _ = bench(**of("paper-quality", windows=CLOSED))  # its windows open where two steps share no row
    assert code == 0


def test_a_cell_that_was_only_timed_is_no_evidence(bench: Bench) -> None:
    code, printed = bench(**of("barrier-planned", retimed_from="another"))
    assert code == 1 and "because barrier-planned took over the state of another cell" in printed


def test_a_wrong_word_is_refused_before_anything_runs(bench: Bench) -> None:
    code, _ = bench("densify_evry=5")
    assert code == 2 and not list(CellStore(bench.out).results())


def test_one_arm_has_nothing_to_be_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--arms", "quality", "quality"])
    assert "--arms needs two arms" in capsys.readouterr().err
