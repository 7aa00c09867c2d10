"""The table of arms and its switches."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from odin.arms import _SWITCHES, ARMS, Arm, Dispatch, Evidence, Order, Reads, Waits, arm, require_effect
from odin.errors import InputError
from odin.publication import WaitingPublication
from odin.runtime import POLICIES, policy_of


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_says_what_it_does_in_one_sentence(name: str) -> None:
    says = ARMS[name].says
    assert says[0].isupper()
    assert says.endswith(".")
    assert ". " not in says
    assert len({a.says for a in ARMS.values()}) == len(ARMS)


def test_the_table_is_that_of_the_design() -> None:
    assert [name for name, a in ARMS.items() if a.exact] == [
        "barrier-planned", "paper-quality", "quality", "quality-random",
    ]  # fmt: skip
    assert {name for name, a in ARMS.items() if a.order is not Order.PLAN} == {
        "barrier",
        "ddp",
        "quality-random",
        "predicted-random",
        "without-SDS",
        "hogwild",
        "overlap-without-locality",
    }
    assert {name for name, a in ARMS.items() if a.audit} == {"predicted", "predicted-random"}
    assert (ARMS["throughput"].tau, ARMS["throughput"].evidence) == (0.2, Evidence.HISTORY)
    for name in ("paper-quality", "paper-literal"):
        assert not any((ARMS[name].groups, ARMS[name].unit_order, ARMS[name].early))
    for name in ("without-SAS", "without-SDS", "without-DDS", "without-DAS", "overlap-without-locality"):
        throughput = ARMS["throughput"]
        changed = [f.name for f in fields(Arm) if getattr(ARMS[name], f.name) != getattr(throughput, f.name)]
        assert len(set(changed) - {"name", "says"}) == 1, "an ablation takes one thing away"
    for name in ("quality", "predicted"):
        assert ARMS[f"{name}-random"] == replace(
            ARMS[name], name=f"{name}-random", order=Order.RANDOM, says=ARMS[f"{name}-random"].says
        )


def test_every_arm_has_a_name_of_its_own_and_a_policy() -> None:
    assert all(a.name == name == a.base for name, a in ARMS.items())
    for name, a in ARMS.items():
        if a.waits is Waits.DDP:
            assert name == "ddp"
        else:
            assert policy_of(a) is (POLICIES[a.waits] if a.sas else WaitingPublication)


def test_an_arm_without_switches_is_the_one_of_the_table() -> None:
    assert all(arm(name) is ARMS[name] for name in ARMS)


def test_switches_change_what_they_name_and_stay_in_the_name() -> None:
    switched = arm("quality:groups=off:early=false:unit_order=on")
    assert switched == replace(ARMS["quality"], name=switched.name, groups=False, early=False)
    assert switched.name == "quality:groups=off:early=false:unit_order=on"
    assert switched.base == "quality"
    gated = arm("throughput:evidence=local:tau=0.1:rho=OFF:reads=predicted:histograms=On:audit=7:dispatch=time")
    assert (gated.evidence, gated.tau, gated.rho, gated.reads) == (Evidence.LOCAL, 0.1, False, Reads.PREDICTED)
    assert (gated.histograms, gated.audit, gated.dispatch) == (True, 7, Dispatch.TIME)
    assert arm("predicted:order=random").order is Order.RANDOM


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("quality:groups=off", True),
        ("quality:unit_order=off:early=off", True),
        ("quality:dispatch=static", True),
        ("quality:dispatch=time", False),
        ("quality:order=random", True),
        ("quality:order=regions", False),
        ("quality:order=plan", True),
        ("paper-quality:early=on", True),
        ("barrier-planned:order=regions", False),
        ("throughput:tau=0", False),
        ("predicted:audit=0", False),
        ("barrier:order=plan", False),
    ],
)
def test_switched_arms_claim_no_more_than_they_keep(text: str, exact: bool) -> None:
    assert arm(text).exact is exact


def test_the_reference_waits_for_everything_in_the_same_order() -> None:
    for one in ARMS.values():
        if one.reference:
            reference = ARMS[one.reference]
            assert (reference.order, reference.waits, reference.reference) == (one.order, Waits.ALL, reference.name)
        assert one.reference or (one.order is Order.REGIONS and not one.exact)
    assert arm("quality:order=random").reference == "barrier"


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("qualty", "Did you mean 'quality'?"),
        ("predict", "Did you mean 'predicted'?"),
        ("zzz", "Arms of this version: barrier, "),
        ("quality:erly=off", "Did you mean 'early'?"),
        ("quality:group=off", "Did you mean 'groups'?"),
        ("quality:exact=on", "Switches are groups, "),
        ("quality:name=on", "Switches are groups, "),
        ("quality:waits=all", "Switches are groups, "),
        ("quality:", "Switches are groups, "),
        ("quality:early", "use on or off"),
        ("quality:early=maybe", "use on or off"),
        ("quality:early=1", "use on or off"),
        ("throughput:evidence=lokal", "use history, reduced, local"),
        ("throughput:reads=", "use stale, predicted"),
        ("throughput:dispatch=dynamic", "use static, state, time"),
        ("quality:order=best", "use random, plan, regions"),
        ("throughput:tau=small", "tau='small' is not possible"),
        ("predicted:audit=1.5", "audit='1.5' is not possible"),
        ("throughput:tau=1.01", "between 0 and 1"),
        ("throughput:tau=-0.1", "between 0 and 1"),
        ("throughput:tau=nan", "between 0 and 1"),
        ("predicted:audit=-1", "or 0 for none"),
    ],
)
def test_what_is_not_possible_is_an_error_that_names_the_nearest(text: str, near: str) -> None:
    with pytest.raises(InputError) as raised:
        arm(text)
    assert near in str(raised.value)
    assert "\n" not in str(raised.value)


def test_definitions_cannot_be_switched() -> None:
    assert set(_SWITCHES).isdisjoint({"name", "waits", "exact", "says"})
    assert set(_SWITCHES) | {"name", "waits", "exact", "says"} == {f.name for f in fields(Arm)}


@pytest.mark.parametrize(
    "text",
    [
        "quality:tau=0.5",
        "quality:rho=off",
        "quality:evidence=local",
        "quality:reads=predicted",
        "paper-literal:rho=off",
        "paper-literal:evidence=reduced",
        "predicted:groups=off",
        "hogwild:histograms=on",
        "without-DAS:unit_order=off",
        "barrier:early=off",
        "ddp:sas=off",
    ],
)
def test_a_switch_of_a_mechanism_that_the_arm_does_not_have_is_refused_and_says_where_it_acts(text: str) -> None:
    """Else a record would name a mechanism that did not run."""
    with pytest.raises(InputError, match="changes nothing") as caught:
        require_effect(text)
    assert "throughput" in str(caught.value)
    assert arm(text).name == text, "records of such runs stay readable"
