"""What was measured, told entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise
from fdcheck.numerics import kernels
from fdcheck.numerics.steps import STEP_NOISES
from fdcheck.problem.callables import Problem
from fdcheck.problem.endpoints import Claimed
from fdcheck.problem.trees import Leaf
from fdcheck.results import Finding, Measured, Status

_LISTED = 1000
"""Findings listed per endpoint and status, the worst ones; the pairs count them all. A person reads ten, a
program that wants every entry has the Jacobian itself."""

_BY_STATUS = (
    (kernels.DISAGREES,),
    (kernels.NONFINITE,),
    (kernels.NOISE, kernels.CURVATURE, kernels.EDGE),
    (kernels.JUMP,),
    (kernels.KINK,),
)

STATUS_OF_CODE = {
    kernels.AGREES: Status.AGREES,
    kernels.DISAGREES: Status.DISAGREES,
    kernels.KINK: Status.KINK,
    kernels.JUMP: Status.JUMP,
    kernels.NOISE: Status.UNDECIDED,
    kernels.CURVATURE: Status.UNDECIDED,
    kernels.EDGE: Status.UNDECIDED,
    kernels.NONFINITE: Status.NONFINITE,
}


@dataclass(frozen=True)
class Comparison:
    """One endpoint's claims beside the measurement.

    Parameters
    ----------
    endpoint : str
        Its name.
    claims : ndarray, shape (m, n)
        What it claims.
    found : Elementwise
        What was measured.
    code : ndarray of int8, shape (m, n)
        What was decided.
    excess : ndarray, shape (m, n)
        How many times its allowance each claim is off; infinite for a claim that is not finite, 0 for an entry
        that could not be measured.
    sensitivity : ndarray, shape (m, n)
        Relative error that would have been noticed, NaN where the entry does not stand out of 0.
    """

    endpoint: str
    claims: NDArray[np.float64]
    found: Elementwise
    code: NDArray[np.int8]
    excess: NDArray[np.float64]
    sensitivity: NDArray[np.float64]


def compared(claimed: Claimed, found: Elementwise) -> list[Comparison]:
    """Return each endpoint's claims beside the measurement."""
    goal = found.rules.accuracy
    estimate, error = found.measurement.estimate, found.measurement.error
    size = np.abs(estimate)
    rtol = np.maximum(goal.rtol_out[:, None], goal.rtol_in[None, :])
    result = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for e, (name, claims) in enumerate(zip(claimed.names, claimed.matrix, strict=True)):
            tolerance = goal.atol[:, None] + rtol * np.fmax(np.abs(claims), size)
            off = np.abs(claims - estimate)
            excess = np.where(off > 0, off / (tolerance + error), 0.0)
            excess[~np.isfinite(claims)] = np.inf
            code = found.measurement.code[e]
            excess[~np.isfinite(estimate)] = 0.0
            if code.max(initial=0) >= kernels.KINK:
                excess[(code == kernels.KINK) | (code == kernels.JUMP)] = 0.0
            noticed = np.where(size > 2 * error, (tolerance + 2 * error) / size, np.nan)
            result.append(Comparison(name, claims, found, found.measurement.code[e], excess, noticed))
    return result


def entry_findings(problem: Problem, comparison: Comparison) -> list[Finding]:
    """Return the entries that are anything but plain, worst first within each status."""
    result: list[Finding] = []
    if ((comparison.code == kernels.AGREES) | (comparison.code == kernels.SKIPPED)).all():
        return result
    for codes in _BY_STATUS:
        rows, columns = np.nonzero(np.isin(comparison.code, codes))
        worst = np.argsort(-comparison.excess[rows, columns], kind="stable")[:_LISTED]
        result.extend(_finding(problem, comparison, int(rows[k]), int(columns[k])) for k in worst)
    return result


def _finding(problem: Problem, comparison: Comparison, row: int, column: int) -> Finding:
    output, source = problem.outputs.leaf_at(row), problem.inputs.leaf_at(column)
    found = comparison.found
    measurement, code = found.measurement, int(comparison.code[row, column])
    evidence = measurement.columns[column]
    steps = tuple(
        Measured(float(h), float(slope), float(left), float(right))
        for h, slope, left, right in zip(evidence.up_step, evidence.slopes(row), *evidence.sides(row), strict=True)
        if np.isfinite(slope)
    )
    claimed, rows = float(comparison.claims[row, column]), slice(output.start, output.stop)
    return Finding(
        endpoint=comparison.endpoint,
        status=STATUS_OF_CODE[code],
        message=_message(problem, found, row, column, code, claimed, steps),
        input=source.path,
        input_index=source.index(column),
        output=output.path,
        output_index=output.index(row),
        part=_part(output, row, source, column),
        claimed=claimed,
        estimated=float(measurement.estimate[row, column]),
        error=float(measurement.error[row, column]),
        eps=float(measurement.eps[row, column]),
        steps=steps,
        column_claimed=_shaped(comparison.claims[rows, column], output),
        column_estimated=_shaped(measurement.estimate[rows, column], output),
        tolerance=tolerance_at(comparison, row, column),
        noise=float(found.rules.noise.level[row]),
        forced=float(found.forced[column]),
    )


def tolerance_at(comparison: Comparison, row: int, column: int) -> float:
    """Return how far a claim may be off beside the error bar."""
    goal, estimates = comparison.found.rules.accuracy, comparison.found.measurement.estimate
    rtol = max(goal.rtol_out.item(row), goal.rtol_in.item(column))
    claimed, estimate = abs(comparison.claims.item(row, column)), abs(estimates.item(row, column))
    return float(goal.atol.item(row) + rtol * (claimed if claimed > estimate else estimate))


def _shaped(values: NDArray[np.float64], leaf: Leaf) -> NDArray[np.float64]:
    """Return one column of a block in the shape of its output leaf, two real parts last where it is complex."""
    return values.copy().reshape(leaf.real_shape)


def _part(output: Leaf, row: int, source: Leaf, column: int) -> str:
    """Return which real parts of complex elements an entry stands for, empty for real ones."""
    of = f"{_side(output, row)}(y)" if output.parts == 2 else ""
    by = f"{_side(source, column)}(x)" if source.parts == 2 else ""
    return " by ".join(word for word in (of, by) if word)


def _side(leaf: Leaf, coordinate: int) -> str:
    return "Im" if leaf.number(coordinate) % 2 else "Re"


def _message(
    problem: Problem, found: Elementwise, row: int, column: int, code: int, claimed: float, steps: Sequence[Measured]
) -> str:
    """Return one sentence with the numbers of this entry."""
    estimate = float(found.measurement.estimate[row, column])
    error = float(found.measurement.error[row, column])
    if code == kernels.NONFINITE:
        return f"apply gave nothing finite for this output at x0 or on either side of it; claimed {claimed:.6g}."
    if code == kernels.KINK:
        left, right = _at_kink(steps)
        return (
            f"x0 lies at a kink: slope {left:.6g} on the left and {right:.6g} on the right; the claim {claimed:.6g} "
            "lies between them and is accepted."
        )
    if code == kernels.JUMP:
        return f"apply jumps at x0; the claim {claimed:.6g} is the slope of one side and is accepted."
    if code == kernels.DISAGREES:
        if np.isfinite(claimed) and _is_kinked(steps, float(found.rules.noise.level[row]), abs(claimed - estimate)):
            left, right = _at_kink(steps)
            return (
                f"x0 lies at a kink: slope {left:.6g} on the left and {right:.6g} on the right; the claim "
                f"{claimed:.6g} is not between them: the derivative is wrong."
            )
        story = _story(found, row, column, claimed, steps)
        return f"claimed {claimed:.8g}, measured {estimate:.8g} +- {error:.1g}; {story}"
    return _reason(problem, found, row, column, code, claimed)


def _at_kink(steps: Sequence[Measured]) -> tuple[float, float]:
    """Return the one-sided slopes at the smallest step where both are there."""
    both = [s for s in steps if np.isfinite(s.left) and np.isfinite(s.right)]
    return (both[0].left + 0.0, both[0].right + 0.0) if both else (float("nan"), float("nan"))  # + 0.0: no -0


def _is_kinked(steps: Sequence[Measured], noise: float, miss: float) -> bool:
    """Return whether the one-sided slopes differ by the same amount at the two smallest steps that show it."""
    gaps = [s.right - s.left for s in steps if 8 * noise / s.eps < 0.1 * miss]
    seen = [gap for gap in gaps[:2] if abs(gap) > 0.1 * miss]
    return len(seen) == 2 and 0.5 < seen[0] / seen[1] < 2.0


def _story(found: Elementwise, row: int, column: int, claimed: float, steps: Sequence[Measured]) -> str:
    """Return what the steps say about a failure."""
    estimate = float(found.measurement.estimate[row, column])
    if not np.isfinite(claimed):
        return "the measurement is finite, the claim is not."
    miss = abs(claimed - estimate)
    siding = [s for s in steps if abs(s.slope - estimate) <= 0.25 * miss]
    if len(siding) >= 3:
        steps_text = f"{len(siding)} steps from {siding[0].eps:.2g} to {siding[-1].eps:.2g}"
        return f"stable over {steps_text}: the derivative is wrong."
    return "apply jumps at x0, or its slope changes with the step; at no step does it come near the claim."


def _reason(problem: Problem, found: Elementwise, row: int, column: int, code: int, claimed: float) -> str:
    """Return why an entry is undecided and what would help."""
    estimate = float(found.measurement.estimate[row, column])
    error, eps = float(found.measurement.error[row, column]), float(found.measurement.eps[row, column])
    values = f"claimed {claimed:.6g}, measured {estimate:.6g} +- {error:.1g}"
    if problem.is_spent:
        seen = values if np.isfinite(estimate) else f"claimed {claimed:.6g}"
        return problem.budget.why(f"this entry was decided ({seen})")
    leaf = problem.inputs.leaf_at(column)
    forced = found.forced[column]
    if np.isfinite(forced):
        noise = float(found.rules.noise.level[row])
        moved = max(abs(claimed), abs(estimate)) * forced
        if moved < 30 * noise:
            better = _suggested(found, row, column, claimed)
            return (
                f"step too small for {leaf.dtype}: at the forced step {forced:.2g} the difference is a few ulps "
                f"({values}); try {better:.1g}."
            )
        return f"the forced step {forced:.2g} is too coarse: the slope changes with it ({values}); try a smaller one."
    if found.rough[row, column]:
        return (
            f"rough solver: apply jumps near x0, as a solver stopped at a tolerance or a rounded output does, so its "
            f"own slope need not be the derivative ({values}); tighten the solver's tolerance, return more digits, or "
            "force a step (eps) that is wider than the jumps."
        )
    if code == kernels.EDGE:
        return (
            f"apply is finite on one side of x0 only, and its slope there is not known well enough ({values}); move x0."
        )
    if code == kernels.CURVATURE and not found.rules.noise.is_restless[row]:
        return (
            f"curvature or a kink close by: no step shows a steady slope, the best is {eps:.2g} ({values}); move x0 a "
            "little, or use float64."
        )
    wider = _wider(problem, found, column)
    return _noise_reason(found, row, column, values, error, abs(claimed), wider)


def _noise_reason(found: Elementwise, row: int, column: int, values: str, error: float, size: float, wider: str) -> str:
    """Return how noise leaves an entry undecided: its level, the error bar, and what would help."""
    noise, goal = float(found.rules.noise.level[row]), found.rules.accuracy
    allowed = float(goal.atol[row]) + max(float(goal.rtol_out[row]), float(goal.rtol_in[column])) * size
    would_do = f" to {noise * allowed / error:.1g}" if 0 < allowed < error < np.inf else ""
    if found.rules.noise.is_restless[row]:
        what = f"apply gives another value each time, with a noise of {noise:.1g}"
        help_ = f"fix its random seed, bring the noise down{would_do} with more samples"
    else:
        what = f"apply's output carries {noise:.1g} of noise"
        help_ = f"reduce the noise{would_do} by a tighter solver tolerance, float64 or more digits of output"
    uncertain = f"so the slope is uncertain by {error:.1g} ({values})"
    return f"noise: {what}, {uncertain}; {help_}, {wider}widen rtol, or force a larger step (eps)."


def _wider(problem: Problem, found: Elementwise, column: int) -> str:
    """Return that bounds are what keeps the steps small, empty where they do not."""
    x, bounds = float(problem.x[column]), found.rules.bounds
    room = max(float(bounds.upper[column]) - x, x - float(bounds.lower[column]))
    return f"widen bounds, which leave steps up to {room:.2g}, " if room < found.rules.steps.high[column] else ""


def _suggested(found: Elementwise, row: int, column: int, claimed: float) -> float:
    """Return the step at which the noise of an output would be a thirtieth of the tolerance, within the range."""
    goal = found.rules.accuracy
    rtol = max(float(goal.rtol_out[row]), float(goal.rtol_in[column]))
    size = max(abs(claimed), float(np.finfo(float).tiny))
    wanted = STEP_NOISES * float(found.rules.noise.level[row]) / (rtol * size)
    return min(wanted, 0.1 * max(float(found.rules.steps.scale[column]), 1e-300))


def by_severity(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield findings: why the evaluation was broken off, breaches, what disagrees, what is open, what apply did.

    That apply gives two results at one point is the cause of what is open, and stands before it.
    """
    order = {status: k for k, status in enumerate(_ORDER)}

    def place(finding: Finding) -> tuple[int, int]:
        if finding.endpoint != "apply":
            return 1, order[finding.status]
        if finding.status is Status.NONDETERMINISTIC:
            return 1, order[Status.ASYMMETRIC]
        return 0 if finding.status is Status.UNDECIDED else 2, order[finding.status]

    yield from sorted(findings, key=place)


_ORDER = (
    Status.RAISED,
    Status.STRUCTURE,
    Status.SHAPE,
    Status.DTYPE,
    Status.MUTATION,
    Status.HIDDEN_STATE,
    Status.NONDETERMINISTIC,
    Status.NONLINEAR,
    Status.LAYOUT,
    Status.BATCHED,
    Status.DISAGREES,
    Status.ADJOINT,
    Status.ASYMMETRIC,
    Status.NONFINITE,
    Status.UNDECIDED,
    Status.JUMP,
    Status.KINK,
    Status.AGREES,
)

_RANK = {status: k for k, status in enumerate(_ORDER)}
