"""`faults=…`: what is read, what is refused, and that a disturbed cell is never an undisturbed one."""

from __future__ import annotations

import pytest

from harness.config import identity, load, resolved
from harness.config.faults import KINDS, Fault, read_fault
from harness.store.schema import Cell, Label
from odin.errors import InputError
from tests.store import samples


def test_a_fault_is_read() -> None:
    assert read_fault("kill:rank=1:step=10") == Fault(kind="kill", rank=1, step=10)
    assert read_fault("disk:file=*.parquet:times=2") == Fault(kind="disk", file="*.parquet", times=2)
    for kind in KINDS:
        assert read_fault(kind).kind == kind
    assert load(["faults=kill:rank=1:step=10,slow:seconds=0.5"]).faults == ("kill:rank=1:step=10", "slow:seconds=0.5")


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("kil:rank=1", "faults=kil is refused.*nearest one is faults=kill"),
        ("kill:rnk=1", "faults, kill=rnk is refused.*nearest one is faults, kill=rank"),
        ("kill:seconds=1", "faults, kill=seconds is refused"),
        ("kill:rank", "'rank' is not of the form rank=VALUE"),
        ("kill:rank=x", "'rank=x' is not of the form rank=VALUE"),
        ("kill:rank=1:rank=2", "there twice"),
        ("kill:rank=-1", "faults, rank=-1"),
        ("kill:rank=2", "faults, rank=2 is refused.*at most 1"),
        ("kill:step=151", "faults, step=151 is refused.*at most 150"),
        ("nan:step=150", "faults, step=150 is refused.*at most 149"),
        ("kill:cell=9", "faults, cell=9 is refused.*at most 8"),
        ("slow:seconds=nan", "faults, seconds=NaN"),
        ("disk:file=", "faults, file="),
    ],
)
def test_a_fault_that_cannot_happen_is_refused(word: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        load([f"faults={word}"])


def test_faults_are_part_of_the_identity_only_where_there_are_any() -> None:
    assert "faults" not in identity(load([]))
    assert resolved(load([]))["faults"] == []
    assert identity(load(["faults=kill"]))["faults"] == ["kill"]
    assert identity(load(["faults=kill"])) != identity(load(["faults=kill:times=1"]))


def test_a_disturbed_cell_has_its_own_label() -> None:
    cell = samples.cell("barrier", 0)
    disturbed = {**cell.identity, "faults": ["slow"]}
    config = {**cell.config, "faults": ["slow"]}
    made = samples.cell("barrier", 0, identity=disturbed, config=config, label=Label.DISTURBED)
    assert made.label is Label.DISTURBED
    for changes in ({"label": Label.PADDED}, {"identity": cell.identity}):
        with pytest.raises(ValueError, match="labelled disturbed"):
            Cell.model_validate({**made.model_dump(), **changes})
