"""Every interleaving of small worlds keeps the invariants, and a bug seeded into any decision breaks one.

`pytest tests/odin/test_model.py -k seeded -s` prints the counterexamples.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, product

import pytest

from odin.arms import arm
from odin.model import NEVER, Invariant, Scenario, explore, record
from odin.model.actions import Action, Agree, Apply, Clear, Finish, Launch, Restructure, Wait
from odin.model.explore import Explorer
from odin.model.facts import Facts
from odin.model.invariants import Need, Op
from odin.model.worlds import every_pattern, of_size, only_read, sampled
from tests.odin.seeded_bugs import BUGS, SeededBug, seed

EXACT = [
    "quality", "quality:groups=off", "quality:early=off", "quality:unit_order=off", "paper-quality",
    "quality:groups=off:early=off:unit_order=off", "paper-quality:groups=on:early=on", "barrier-planned",
]  # fmt: skip
GATED = [
    "throughput:rho=off", "throughput:tau=0.7:reads=predicted", "throughput:tau=1:groups=off",
    "throughput:evidence=local:tau=0.8", "throughput:evidence=local:rho=off:reads=predicted",
    "throughput:evidence=local:rho=off:audit=2",
    "throughput:evidence=reduced:tau=0.8", "throughput:evidence=reduced:rho=off:histograms=on", "paper-literal:tau=1",
]  # fmt: skip
LATE = ["predicted:audit=0", "predicted:audit=2", "hogwild", "hogwild:audit=1"]

SAMPLES = {"exact": (EXACT, 160), "gated": (GATED, 160), "late": (LATE, 80)}


def visit(scenarios: Iterable[Scenario]) -> int:
    """Explore them all; the states visited."""
    states = 0
    for scenario in scenarios:
        exploration = explore(scenario)
        assert exploration.violation is None, str(exploration.violation)
        states += exploration.states
    return states


@pytest.mark.parametrize(
    ("name", "lead"), [("quality", None), ("quality", 0), ("paper-quality", None), ("throughput:rho=off:tau=1", None)]
)
def test_every_pattern_of_a_row_keeps_the_invariants(name: str, lead: int | None) -> None:
    sizes = [(1, 2, 4), (2, 1, 3), (2, 2, 2), (3, 1, 2)]
    states = sum(visit(every_pattern(name, ranks=w, unit=u, steps=s, lead=lead)) for w, u, s in sizes)
    assert states >= 50_000


@pytest.mark.parametrize("sample", SAMPLES)
def test_sampled_worlds_keep_the_invariants(sample: str) -> None:
    assert visit(sampled(*SAMPLES[sample], seed=1)) >= 100_000


@pytest.mark.parametrize(("tau", "others"), [(1.0, 0), (0.8, 0), (0.8, 1), (0.5, 2)])
def test_paper_literal_delays_all_rows_that_are_only_read_or_none(
    tau: float, others: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the 2 + others rows that the last step reads; random worlds hardly ever have more than one."""
    arm = f"paper-literal:tau={tau}"
    worlds = {sizes: only_read(*sizes, others=others, arm=arm) for sizes in product((1, 2, 9), repeat=3)}
    visit(worlds.values())
    monkeypatch.setattr(Facts, "may_be_late", lambda *_: frozenset())
    late = {sizes for sizes, world in worlds.items() if explore(world).violation is not None}
    assert late == {s for s in worlds if tau * (2 + others) >= 2 and max(s[:2]) <= tau * sum(s) / 3}


@pytest.mark.parametrize("name", ["predicted:audit=2", "hogwild:audit=1"])
def test_worlds_that_return_to_their_arm_keep_the_invariants(name: str) -> None:
    """They have to be long: an audit fails, reads are waited for, an event ends it, and a window opens."""
    visit(of_size(name, 60, seed=4, ranks=1, unit=1, steps=7, rows=2))


def test_sampled_worlds_do_everything() -> None:
    """What is never done is never checked. The first worlds of each sample are enough to see it all."""
    wanted = {
        "update", "zero", "correct", "structural event",
        "early", "colours", "urgent", "urgent 2", "urgent geometry 1", "urgent geometry 2", "urgent colours 1",
        "urgent colours 2", "chunk 1", "chunk 2", "rest", "geometry", "norms", "activity", "costs", "audit",
        "statistics",
    }  # fmt: skip
    for scenario in chain(sampled(LATE, 12, seed=1), sampled(GATED, 40, seed=1), sampled(EXACT, 160, seed=1)):
        for action in record(scenario)[0]:
            wanted -= deeds(action)
        if not wanted:
            return
    pytest.fail(f"the sampled worlds never do {wanted}")


def deeds(action: Action) -> set[str]:
    match action:
        case Launch():
            return {action.name}
        case Apply():
            return {action.kind}
        case Restructure():
            return {"structural event"}
    return set()


@pytest.mark.parametrize("name", [*GATED, *LATE])
def test_rows_are_read_late_where_an_arm_allows_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Facts, "may_be_late", lambda *_: frozenset())
    world = only_read(1, 1)
    worlds = [world] if name == world.arm else of_size(name, 100, seed=3, ranks=2, unit=1, steps=4, rows=4)
    violations = (explore(world).violation for world in worlds)
    assert any(violation and violation.fault.invariant is Invariant.GATE for violation in violations)


def test_programs_do_not_depend_on_who_is_faster() -> None:
    for scenario in sampled([*EXACT, *GATED, *LATE], 48, seed=2):
        assert record(scenario) == record(scenario)


def test_an_arm_that_looks_at_the_clock_is_refused() -> None:
    scenario = Scenario(arm="predicted:dispatch=time", units=(((0,),),), appears=((0,),))
    with pytest.raises(ValueError, match="knows no clock"):
        record(scenario)


# The explorer ---------------------------------------------------------------------------------------------

WORLD = Scenario(arm="quality", units=(((0,), (1,)),), appears=((0,), (0,)))


def launch(number: int) -> Op:
    content = ("segment", 1, ((0, 0),))
    return Op(action=Launch(step=0, number=number, name="segment", size=1), launches=content)


def wait(number: int) -> Op:
    return Op(action=Wait(step=0, number=number, name="segment"), waits=number)


def something(needs: Need | None = None) -> Op:
    return Op(action=Clear(step=0, slot=0), needs=needs or Need())


def test_ranks_that_share_nothing_interleave_freely() -> None:
    exploration = Explorer(WORLD, [[something()] * 3, [something()] * 4]).run()
    assert (exploration.states, exploration.violation) == (4 * 5, None)


def test_the_link_completes_what_all_have_joined() -> None:
    """Alone, a rank gets as far as its wait. States by rank 1's place: before its launch rank 0 is at 0 or 1; after it
    at 0, 1 with the link idle, at 1, 2 with it done."""
    exploration = Explorer(WORLD, [[launch(0), wait(0)], [launch(0)]]).run()
    assert (exploration.states, exploration.violation) == (2 + 2 + 2, None)


def test_a_wait_for_what_is_never_launched_is_a_deadlock() -> None:
    violation = Explorer(WORLD, [[launch(0), wait(0)], [something()]]).run().violation
    assert violation is not None
    assert violation.fault.invariant is Invariant.DEADLOCK
    assert "rank 0 waits for collective 0, not launched by rank 1" in str(violation)


def test_what_relies_on_the_link_being_fast_is_found() -> None:
    hurried = Explorer(WORLD, [[launch(0), something(Need(0))], [launch(0)]]).run().violation
    patient = Explorer(WORLD, [[launch(0), wait(0), something(Need(0))], [launch(0)]]).run().violation
    assert hurried is not None
    assert hurried.fault.invariant is Invariant.ARRIVED
    assert patient is None


# Seeded bugs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_a_seeded_bug_is_found(bug: SeededBug, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.seed(monkeypatch)
    violation = next(found for world in bug.worlds(1000) if (found := explore(world).violation) is not None)
    print(f"\n{bug.name}\n{violation}")
    assert violation.fault.invariant is bug.breaks
    monkeypatch.undo()
    assert explore(violation.scenario).violation is None


def test_a_counterexample_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    seed("colours not awaited", monkeypatch)
    scenario = Scenario(arm="quality", units=(((0,),), ((1,),)), appears=((0, 0), (0, NEVER)))
    violation = explore(scenario).violation
    lines = [line for line in str(violation).splitlines() if "digest" not in line]
    assert lines == [
        "PENDING_READ: in an exact arm nobody reads a row whose last update is not applied",
        "arm quality",
        "step 0: rank 0 views 0",
        "step 1: rank 0 views 1",
        "view 0 touches row 0, row 1",
        "view 1 touches row 0",
        "rank 0  step 0  clears slot 0",
        "rank 0  step 0  projects view 0: reads geometry of rows 0 1",
        "rank 0  step 0  blends view 0: reads colours of rows 0 1",
        "rank 0  step 0  adds the gradient of colours of rows 0 1 to slot 0",
        "rank 0  step 0  launches collective 0 (colours, colours of rows 0 1 from slot 0)",
        "link            delivers collective 0 (colours)",
        "rank 0  step 0  adds the gradient of geometry of rows 0 1 to slot 0",
        "rank 0  step 0  launches collective 1 (urgent geometry, geometry of row 0 from slot 0)",
        "link            delivers collective 1 (urgent geometry)",
        "rank 0  step 0  launches collective 2 (rest, geometry of row 1 from slot 0)",
        "rank 0  step 1  clears slot 1",
        "rank 0  step 1  has waited for collective 0 (colours)",
        "rank 0  step 1  has waited for collective 1 (urgent geometry)",
        "rank 0  step 1  updates geometry of row 0: update 1 from slot 0",
        "rank 0  step 1  projects view 1: reads geometry of row 0",
        "rank 0  step 1  blends view 1: reads colours of row 0",
        "here row 0 (colours) has 0 of 1 updates",
    ]


def test_ranks_that_cut_differently_say_different_things(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the runtime compares before the first segment leaves does see the bug that the model finds at the launch."""
    bug = next(bug for bug in BUGS if bug.name == "each rank has a budget of its own")
    bug.seed(monkeypatch)
    found = 0
    for world in bug.worlds(100):
        programs = record(world)
        digests = [tuple(a.digest for a in program if isinstance(a, Agree)) for program in programs]
        violated = explore(world, programs).violation is not None
        # Budgets that differ are named even where they happen to make one cut.
        assert not violated or len(set(digests)) > 1
        found += violated
    assert found


def test_the_arms_of_this_test_are_what_they_are_called() -> None:
    assert all(arm(name).exact for name in EXACT)
    assert not any(arm(name).exact for name in [*GATED, *LATE])
    assert all(isinstance(program[-1], Finish) for program in record(WORLD))
