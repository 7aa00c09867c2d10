"""Quality of arms that are not exact against waiting in the same order, over seeds, beside a perturbed control (D§9).

    python -m benchmarks.quality_control scene=../shared/data/bonsai images=images_4 --seeds 3

Densification is chaotic: initial positions scaled by 1 + 1e-6 moved the test PSNR of waiting runs by up to 1 dB. So
the spread of perturbed runs of the waiting arms is the noise floor of every comparison with densification, and a
comparison without densification stands beside it. `barrier` against `barrier-planned` shows what the order of views
does.

300 steps of B = 8 on two ranks, unless steps, ranks or views_per_unit are given, on the virtual engine: what is trained
there has the bits of real processes, whose sums over two ranks have but one order, and takes less CPU time.
`engine=process` trains with processes. Nothing is shaped, padded or timed. Records go to the usual store, so running
again does only what is missing; only records of this very code and of what was asked for enter the tables, the others
in --out are counted. The exit code is that of a run that could not start, else 1 where a cell failed or is missing,
which is named.

`predicted` and `predicted-random` are audited every 50 windows. `throughput` is not audited by default and stands here
as it is by default, so its audit columns are empty. An audit changes no trained bit unless it fails
(tests/odin/test_audit.py): `throughput:audit=50` would be the same training, or wait like `quality` after a failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from scipy.stats import t as student

from benchmarks.bit_identity import recorded
from harness.exits import code_of
from harness.store.schema import Audit, Result
from odin.arms import AUDIT_LIMIT
from odin.arms import arm as arm_named

DEFAULTS = ("engine=virtual", "ranks=2", "views_per_unit=4", "steps=300")  # the user's words come after these
UNTIMED = ("link=none", "padded=false", "mirrored=false")  # and before these
PERTURBATIONS = (1e-6, 2e-6)
REFERENCE = "barrier-planned"
WAITING = ("barrier", REFERENCE)
ARMS = (*WAITING, "throughput", "predicted", "predicted-random")
COUNTS = {"audits": "Int64", "audits_failed": "Int64"}  # may be absent


def runs(seed: int) -> list[tuple[str, ...]]:
    """Words of every sequence of one seed."""
    perturbed = [(f"seed={seed}", f"arms={','.join(WAITING)}", f"perturb={p:g}") for p in PERTURBATIONS]
    all_arms = (f"seed={seed}", f"arms={','.join(ARMS)}")
    return [all_arms, *perturbed, (*all_arms, "densify=false")]


def table(results: Sequence[Result]) -> pd.DataFrame:
    """One row per done cell: scene, ranks, batch (B), steps, densify, seed, arm, perturb, initial and final PSNR [dB],
    SSIM, primitives, and of `audit_columns`; absent numbers are NaN."""
    rows = []
    for result in results:
        m, pipeline = result.measurement, result.cell.config["pipeline"]
        assert m is not None and isinstance(pipeline, dict)
        rows.append(
            {
                "scene": result.cell.scene,
                "ranks": m.ranks,
                "batch": m.global_batch,
                "steps": m.steps,
                "densify": pipeline["densify"],
                "seed": result.cell.seeds.run,
                "arm": result.cell.arm,
                "perturb": pipeline["perturb"],
                "psnr_initial": m.quality_initial.psnr.value,
                "psnr": m.quality_final.psnr.value,
                "ssim": m.quality_final.ssim.value,
                "primitives": m.primitives.final,
                **audit_columns(result.cell.arm, m.audits),
                "label": result.cell.label.value,
            }
        )
    numbers = dict.fromkeys(("psnr_initial", "psnr", "ssim", "audit_error"), float)
    frame = pd.DataFrame(rows).astype({**numbers, **COUNTS})
    return frame.sort_values(["scene", "densify", "seed", "arm", "perturb"], ignore_index=True)


def audit_columns(arm: str, audits: Sequence[Audit]) -> dict[str, float | None]:
    """audits: how many; audit_error: the largest relative error of a step's gradient, a share, of no audit absent;
    audits_failed: how many were above the limit. All absent for an arm that is not audited."""
    if not arm_named(arm).audit:
        return {"audits": None, "audit_error": None, "audits_failed": None}
    errors = [audit.error for audit in audits]
    failed = sum(error > AUDIT_LIMIT for error in errors)
    return {"audits": len(errors), "audit_error": max(errors, default=None), "audits_failed": failed}


def deltas(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of each arm's final PSNR [dB] and SSIM minus its reference's of the same seed, per scene.

    reference: the arm that waits in the same order of views; for `barrier` it is `barrier-planned`
    seeds:     those that have both; low, high: Student-t 95 % interval over them (absent for one seed)
    worst:     the largest loss [dB]
    control_spread_db: largest |delta| [dB] of one perturbed cell of the scene, the same for all of its rows with or
               without densification; absent where nothing was perturbed
    audits, audits_failed: over seeds; audit_error: the largest; absent for arms without audits

    Perturbed cells are the rows `… ×(1 + p)`, against the unperturbed cells of their arm.
    """
    joined = _beside_references(frame)
    spread = joined[joined["perturb"] != 0].groupby(["scene", "densify"])["delta"].agg(lambda d: d.abs().max())
    rows = []
    for key, group in joined.groupby(["scene", "densify", "arm", "reference", "perturb"]):
        scene, densify, arm, reference, perturb = key
        if arm == REFERENCE and not perturb:
            continue
        name = f"{arm} ×(1 + {perturb:g})" if perturb else arm
        row = {"scene": scene, "densify": densify, "arm": name, "reference": reference, **_over_seeds(group)}
        rows.append(row | {"control_spread_db": spread.get((scene, densify), float("nan"))})
    return pd.DataFrame(rows).astype(COUNTS) if rows else pd.DataFrame()


def _beside_references(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with reference, delta [dB] and delta_ssim; these are NaN where the reference is missing."""
    keys = ["scene", "densify", "seed", "reference"]
    plain = frame[frame["arm"].isin(WAITING) & (frame["perturb"] == 0)]
    base = plain.assign(reference=plain["arm"]).set_index(keys)[["psnr", "ssim"]]
    perturbed = frame["perturb"] != 0
    joined = frame.assign(reference=[reference_of(a, p) for a, p in zip(frame["arm"], perturbed, strict=True)])
    joined = joined.join(base.add_suffix("_reference"), on=keys)
    joined["delta"] = joined["psnr"] - joined["psnr_reference"]
    joined["delta_ssim"] = joined["ssim"] - joined["ssim_reference"]
    return joined


def _over_seeds(group: pd.DataFrame) -> dict[str, object]:
    n, mean, spread = int(group["delta"].count()), group["delta"].mean(), group["delta"].std()
    half = student.ppf(0.975, n - 1) * spread / n**0.5 if n > 1 else float("nan")
    return {
        "seeds": n,
        "delta_db": mean,
        "low": mean - half,
        "high": mean + half,
        "worst": group["delta"].min(),
        "delta_ssim": group["delta_ssim"].mean(),
        "audits": group["audits"].sum(min_count=1),
        "audit_error": group["audit_error"].max(),
        "audits_failed": group["audits_failed"].sum(min_count=1),
    }


def reference_of(name: str, perturbed: bool) -> str:
    """What an arm is compared with: itself unperturbed, or waiting in its own order; barrier shows what order does."""
    if perturbed:
        return name
    return REFERENCE if name == "barrier" else arm_named(name).reference


def compare(sequences: Sequence[Sequence[str]], out: Path) -> int:
    """Run what is missing, print the tables and write them as CSV; 0 if every cell is done."""
    code, found = recorded(sequences, out)
    for line in found.lines():
        print(line)
    if found.done:
        frame = table(found.done)
        print(_text(frame))
        frame.to_csv(out / "quality_control.csv", index=False)
        summary = deltas(frame)
        print(f"\nAgainst the reference of the same seed:\n{_text(summary, '%.4f')}")
        summary.to_csv(out / "quality_deltas.csv", index=False)
    # 1 is also a headline that prints no ratio, say because its arms differ by more than the quality band: that is what
    # is measured here. Where a run could not be finished, cells are missing.
    return code if code > 1 else int(bool(found.missing) or not found.done)


def _text(frame: pd.DataFrame, form: str | None = None) -> str:
    # na_rep is not asked for an absent Int64, which prints as <NA>.
    counts = {name: frame[name].astype(object).where(frame[name].notna(), "") for name in COUNTS if name in frame}
    return str(frame.assign(**counts).to_string(index=False, float_format=form, na_rep=""))


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--out", type=Path, default=Path("runs/quality-control"))
    given = parser.parse_args(arguments)
    seeds = range(given.first, given.first + given.seeds)
    sequences = [[*DEFAULTS, *given.words, *UNTIMED, *own] for seed in seeds for own in runs(seed)]
    return code_of(lambda: compare(sequences, given.out), folder=given.out)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
