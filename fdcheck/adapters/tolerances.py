"""Tolerances as the frameworks mean theirs: |a - n| <= atol + rtol |n|, with n the measured value alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from fdcheck.checks.products import linear_map, random_vector
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.results import BREACHES, Finding, Report, Status, Verdict

_ROUNDOFFS = 8.0
"""Roundings of the largest element of a derivative that each element may carry by default: terms that cancel, as on the
diagonal of a Cholesky factor whose imaginary part is zero, leave as much."""


BFLOAT16_RTOL = 0.1
"""Default tolerance of a derivative computed in bfloat16: the gradients of 103 operators of torch were off by 1.6 % of
their largest element at most, by 0.5 % as a rule, and a function chains several operators."""

_UNRESOLVED = "rough solver"
"""How findings begin that no tolerance settles, since the function jumps."""


def tolerances(
    problem: Problem | None,
    given: Mapping[str, Function],
    rtol: float | None,
    atol: float | None,
    eps: float = 0.0,
) -> dict[str, Any]:
    """Return rtol and atol for verify from those that the user gave, or fdcheck's own.

    Parameters
    ----------
    problem : Problem or None
        apply and x0.
    given : dict of str to Function
        jvp and vjp; without an atol each is called once.
    rtol, atol : float or None
        As the framework means them.
    eps : float
        That of bfloat16 where something is computed in it, which NumPy does not have, else 0.
    """
    if atol is None:
        atol = 0.0 if problem is None else rounding(_largest(problem, given), _coarsest(problem, eps))
    default = BFLOAT16_RTOL if eps else None
    return {"rtol": default if rtol is None else measured_with(rtol), "atol": atol}


def rounding(largest: float, eps: float) -> float:
    """Return by how much an element of a derivative may be off whose largest element has a given size."""
    return _ROUNDOFFS * largest * eps if np.isfinite(largest) else 0.0


def _largest(problem: Problem, given: Mapping[str, Function]) -> float:
    """Return the largest element of the products with a random vector."""
    largest, draw = 0.0, np.random.default_rng(0x726F75)
    with np.errstate(all="ignore"):
        for endpoint in given.values():
            product = linear_map(endpoint, problem)
            try:
                answer = np.abs(product(random_vector(product.into, draw)))
            except Breach:  # the comparison calls it again, and tells of it
                continue
            largest = max(largest, float(answer[np.isfinite(answer)].max(initial=0.0)))
    return largest


def _coarsest(problem: Problem, eps: float) -> float:
    leaves = (*problem.inputs.leaves, *problem.outputs.leaves)
    return max(eps, *(float(np.finfo(leaf.real_dtype).eps) for leaf in leaves))


def remedy(report: Report, dtype: str, eps: float | None) -> list[str]:
    """Return a note on which atol would settle what is undecided, empty where none does.

    A claim is undecided where it lies within a wide error bar: with an atol of that bar it agrees, and a claim that is
    off by more fails.

    Parameters
    ----------
    report : Report
        Result of a check.
    dtype : str
        In which the function was measured.
    eps : float or None
        Step that the user forced.
    """
    open_ = [f for f in report.findings if f.status is Status.UNDECIDED]
    others = {Status.NONFINITE, Status.NONDETERMINISTIC} & {f.status for f in report.findings}
    bars = [f.error for f in open_]
    is_settled = bars and not others and eps is None and np.isfinite(bars).all() and max(bars) > 0
    if report.verdict is not Verdict.INCONCLUSIVE or not is_settled or any(_UNRESOLVED in f.message for f in open_):
        return []
    size = 10.0 ** np.floor(np.log10(max(bars)))
    atol = size * np.ceil(max(bars) / size)
    other = "" if dtype == "float64" else "check in float64, or "
    count = f"{len(open_)} element{'s' if len(open_) > 1 else ''}"
    return [f"{dtype} does not resolve {count} well enough: {other}allow errors of their bars with atol={atol:.0e}"]


def measured_with(rtol: float | None) -> float | None:
    """Return the rtol with which verify refuses whatever a framework's rtol refuses.

    verify allows rtol times the larger of claim and measurement: a claim that is too large by rtol of the
    measurement is too large by rtol / (1 + rtol) of itself.
    """
    return None if rtol is None else rtol / (1.0 + rtol)


def as_theirs(report: Report, rtol: float | None, atol: float | None) -> Report:
    """Return a report of a check with ``measured_with(rtol)`` in which claims that a framework allows agree.

    Parameters
    ----------
    report : Report
        Result of verify.
    rtol, atol : float or None
        What the user gave.
    """
    if rtol is None:
        return report
    excused = [f for f in report.findings if _is_allowed(f, rtol, atol or 0.0)]
    failures = sum(pair.failures for pair in report.pairs)
    disagreeing = [f for f in report.findings if f.status is Status.DISAGREES]
    if not excused or len(disagreeing) != failures or len(excused) != failures:
        return report  # something disagrees however it is counted
    left = tuple(f for f in report.findings if f.status is not Status.DISAGREES)
    pairs = tuple(dataclasses.replace(pair, counts=_counts(dict(pair.counts), pair.failures)) for pair in report.pairs)
    open_ = {Status.UNDECIDED, Status.NONFINITE, Status.NONDETERMINISTIC, Status.HIDDEN_STATE}
    unclear = any(status in pair.counts for pair in pairs for status in open_) or any(f.status in open_ for f in left)
    broken = any(f.status in BREACHES and f.endpoint != "apply" for f in left)
    verdict = Verdict.FAIL if broken else Verdict.INCONCLUSIVE if unclear else Verdict.PASS
    return dataclasses.replace(report, verdict=verdict, findings=left, pairs=pairs, diagnoses=())


def _is_allowed(finding: Finding, rtol: float, atol: float) -> bool:
    off = abs(finding.claimed - finding.estimated)
    return finding.status is Status.DISAGREES and off <= atol + rtol * abs(finding.estimated) + finding.error


def _counts(counts: dict[str, int], failures: int) -> dict[str, int]:
    if failures:
        counts.pop(str(Status.DISAGREES))
        counts[str(Status.AGREES)] = counts.get(str(Status.AGREES), 0) + failures
    return counts
