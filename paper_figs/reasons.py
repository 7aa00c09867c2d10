"""Why a target is missed or cannot be judged: one sentence each, from the headline's rows alone."""

from __future__ import annotations

from collections.abc import Callable

from harness.report.gates import QUALITY_BAND_DB
from harness.report.summary import BASELINE, EXACT_REFERENCE
from odin.arms import AUDIT_LIMIT, Order
from odin.arms import arm as arm_named
from paper_figs.lookup import Lookup, Row
from paper_figs.review2 import CONTROL, LEAST_POOLED
from paper_figs.tidy import number


def none(found: Lookup, arm: str) -> str:
    """Nothing is known of it."""
    return ""


def slowdown(found: Lookup, arm: str) -> str:
    """Why an arm has a ratio in few cells where a transfer costs compute nothing, a study of its own."""
    return _few_cells(found, arm, "cells_slowdown_1")


def speedup(found: Lookup, arm: str) -> str:
    """What keeps a mean speedup down."""
    few = _few_cells(found, arm, "matrix_cells")
    if few:
        return few
    hidden_wait, work = found.text("hidden_wait", arm), found.text("mean_odin_share", arm)
    if not hidden_wait or not work:
        return ""
    return f"It hides {hidden_wait} of what ranks wait for, and its own work takes {work} of a step."


def hidden(found: Lookup, arm: str) -> str:
    """Which runs stopped reading late, and what the others hide."""
    failed = found.row("failed_audits", arm)
    few = _order_fails(found, arm)
    if failed is None or not failed["value"]:
        return few
    pipelines = [
        f"{row['value']:.0f} of {row['n']} runs of {pipeline}"
        for pipeline, row in found.by_pipeline("failed_audits", arm).items()
        if row["value"]
    ]
    rest = found.row("hidden_transfer_of_hideable_passed", arm)
    others = (
        ""
        if rest is None
        else f"; the {rest['n']} with a ratio that failed none hide {number(rest['value'], rest['unit'])}"
    )
    audits = (
        f"{' and '.join(pipelines)} failed an audit ({100 * AUDIT_LIMIT:.0f} %) and from then on waited as quality "
        f"does until the next structural event{others}."
    )
    return " ".join(filter(None, (few, audits)))


def bits(found: Lookup, arm: str) -> str:
    """Why equal bits are no evidence where one arm was timed from the training of the other."""
    same, apart = found.row("same_bits", arm), found.value("bits_trained_apart", arm)
    if same is None or apart is None:
        return ""
    return (
        f"In {same['n'] - apart:.0f} of {same['n']} cells the virtual engine trained one of the two arms and timed "
        "the other from it, so that their bits are equal by construction. python -m benchmarks.bit_identity trains "
        "every arm."
    )


def plan(found: Lookup, arm: str) -> str:
    """Whether load or work made planning slow, and what fewer observations take."""
    spent, light = found.text("plan_cpu_seconds_50000", arm), found.text("plan_seconds_50000_light", arm)
    if not spent:
        return ""
    less = f"; with about 100 instead of 1,000 observations per image it takes {light}" if light else ""
    return f"It takes {spent} of CPU time, so that the load of the machine is not the reason{less}."


def hazards(found: Lookup, arm: str) -> str:
    """What the hazard pass takes, and what most of that is."""
    spent = found.text("hazard_ms", arm)
    return f"It takes {spent} of CPU time, most of it the call and caches that rendering has emptied." if spent else ""


def city(ranks: int) -> Callable[[Lookup, str], str]:
    """What a city on shards over so many ranks loses to the plan's order of views, or still waits for in barrier's."""

    def reason(found: Lookup, arm: str) -> str:
        planned = arm_named(arm).order is Order.PLAN
        return _few_owners(found, ranks) if planned else _still_waits(found, arm, ranks)

    return reason


def seeds(found: Lookup, arm: str) -> str:
    """Quality over seeds is a study of its own."""
    return "" if found.row("quality_delta", arm) else "Needs the studies quality and control (Review 2)."


def pooled(found: Lookup, arm: str) -> str:
    """What of a difference of quality over all seeds is not recorded yet, the order of views, or chaos."""
    own = found.row("quality_delta", arm)
    if own is None:
        return seeds(found, arm)
    few = f"{own['n']} of {LEAST_POOLED} pairs are recorded." if own["n"] < LEAST_POOLED else ""
    order = found.text("quality_delta", EXACT_REFERENCE) if arm_named(arm).order is Order.PLAN else ""
    lost = f"The plan's order of views alone (barrier-planned) ends {order} from barrier." if order else ""
    spread = found.text("largest_perturbed_spread", CONTROL, None)
    chaos = (
        "Densification is chaotic: barrier itself, with initial positions scaled by 1 + 1e-6 or 1 + 2e-6, spreads over "
        f"up to {spread}."
        if spread
        else ""
    )
    return " ".join(filter(None, (few, lost, chaos)))


def _few_owners(found: Lookup, ranks: int) -> str:
    order = found.row(f"speedup_{ranks}", EXACT_REFERENCE, None)
    planned, random = (found.text(f"observe_ms_{ranks}", arm, None) for arm in (EXACT_REFERENCE, BASELINE))
    if order is None or order["value"] >= 1 or not planned:
        return ""
    return (
        f"The plan's order alone (barrier-planned) reaches {number(order['value'], 'ratio')}: its steps look at one "
        f"part of the city, whose few owners send projected rows for all ({planned} a step instead of {random})."
    )


def _still_waits(found: Lookup, arm: str, ranks: int) -> str:
    rows, share = found.text(f"observe_ms_{ranks}", arm, None), found.text(f"hidden_transfer_{ranks}", arm, None)
    if not rows or not share:
        return ""
    return (
        f"It hides {share} of all transfer: projected rows on their way to ranks (observe, {rows} a step) are waited "
        f"for whatever is read late; the limit is {found.text(f'limit_{ranks}', '', None)}."
    )


def _few_cells(found: Lookup, arm: str, count: str) -> str:
    return " ".join(filter(None, (_not_run(found, count), _order_fails(found, arm))))


def _not_run(found: Lookup, count: str) -> str:
    whole, there = found.row("matrix_cells"), found.row(count)
    if whole is None or there is None or there["value"] >= whole["value"]:
        return ""
    lacking = sorted(set(found.by_pipeline("matrix_cells")) - set(found.by_pipeline(count)))
    named = f" ({', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not run)" if lacking else ""
    return f"{there['value']:.0f} of {whole['value']:.0f} cells are recorded{named}."


def _order_fails(found: Lookup, arm: str) -> str:
    """Of arms in the plan's order: in how many cells that order alone leaves the quality band."""
    band, delta = found.row("in_quality_band", EXACT_REFERENCE), found.row("mean_psnr_delta", EXACT_REFERENCE)
    if arm_named(arm).order is not Order.PLAN or band is None or delta is None or band["value"] >= 1:
        return ""
    outside, own = _outside(band), found.row("in_quality_band", arm)
    itself = f" ({arm} itself in {_outside(own)})" if own is not None and _outside(own) != outside else ""
    worst = f" ({delta['low']:+.2f} at worst)" if delta["n"] > 1 else ""
    return (
        f"The plan's order of views fails the quality band of ±{QUALITY_BAND_DB:.1f} dB in {outside} of {band['n']} "
        f"cells before anything overlaps{itself}: barrier-planned ends {delta['value']:+.2f} dB from barrier on "
        f"average{worst}."
    )


def _outside(band: Row) -> int:
    return round((1 - band["value"]) * band["n"])
