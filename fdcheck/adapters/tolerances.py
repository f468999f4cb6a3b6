"""Tolerances as the frameworks mean theirs: |a - n| <= atol + rtol |n|, with n the measured value alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from fdcheck.checks.products import linear_map, random_vector
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.results import BREACHES, Finding, Report, Status, Verdict

_ROUNDOFFS = 8.0
"""Roundings of the largest element of a derivative that each element may carry by default: terms that cancel, as on the
diagonal of a Cholesky factor whose imaginary part is zero, leave as much."""


def rounding_allowance(problem: Problem, given: Mapping[str, Function], eps: float = 0.0) -> float:
    """Return by how much any element of a derivative may be off that was computed in the dtypes of a problem.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    given : dict of str to Function
        jvp and vjp; each is called once.
    eps : float
        That of the format in which they compute, where it is shorter than that of their arrays.
    """
    largest, draw = 0.0, np.random.default_rng(0x726F75)
    for endpoint in given.values():
        product = linear_map(endpoint, problem)
        try:
            answer = np.abs(product(random_vector(product.into, draw)))
        except Breach:  # the comparison calls it again, and tells of it
            continue
        largest = max(largest, float(answer[np.isfinite(answer)].max(initial=0.0)))
    leaves = (*problem.inputs.leaves, *problem.outputs.leaves)
    return _ROUNDOFFS * largest * max(eps, *(float(np.finfo(leaf.real_dtype).eps) for leaf in leaves))


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
