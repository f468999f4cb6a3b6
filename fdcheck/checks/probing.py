"""Inputs outside of the sample, checked together along one random direction; a disagreement is traced to an entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise, measure_also
from fdcheck.checks.plan import Plan
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import measure_direction
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.endpoints import Claimed, claimed_column, one_hot
from fdcheck.results import Finding, Status

_SPREAD = 3.0
"""Standard deviations of a sum of errors that each keep to their tolerance: beyond them an entry has to be wrong."""

_SHARP = 0.01
"""Part of that at which a disagreement is traced. A right claim is off by less (1e-5 of an entry, where the tolerance
is 1e-3), and one wrong entry among 10**4 stands out; what is traced in vain costs applies and no verdict."""

_OPEN = (kernels.NOISE, kernels.CURVATURE, kernels.EDGE, kernels.NONFINITE)


@dataclass(frozen=True)
class Beyond:
    """Notes and findings about the inputs outside of the sample."""

    notes: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class _Probe:
    """What is needed to check a direction.

    ``squares`` are those of the claims scaled by the inputs, shape (e, m, n).
    """

    problem: Problem
    given: Mapping[str, Function]
    claimed: Claimed
    found: Elementwise
    squares: NDArray[np.float64]


def look_beyond_sample(
    problem: Problem, given: Mapping[str, Function], claimed: Claimed, found: Elementwise, plan: Plan, seed: int
) -> Beyond:
    """Check the inputs outside of the sample together; measure the one that a disagreement is traced to.

    Only an entry that was measured alone fails: small errors that each keep to their tolerance and a large error of
    one entry leave the same residual.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    given : dict of str to Function
        The endpoints.
    claimed, found : Claimed, Elementwise
        Claims, and what was measured of the sample; they receive the column that is measured in addition.
    plan : Plan
        The sample.
    seed : int
        Seed of the direction.

    Returns
    -------
    Beyond
        Cost: 4 applies and a call of each jvp as a rule, and as many again for each halving of the inputs where a
        claim disagrees.
    """
    probe = _Probe(problem, given, claimed, found, _squares(claimed, found))
    if claimed.masked.any():
        return Beyond(("inputs outside of the sample were not looked at: masked entries hide what they add up to",))
    direction = _direction(problem, found, plan.others, seed)
    moved = np.count_nonzero(direction)
    others = f"the other {moved} input coordinates, moved together along one random direction,"
    try:
        beyond = _looked(probe, plan.others, direction, others) if moved else Beyond()
        return Beyond() if problem.interrupt is not None else beyond
    except Breach as breach:  # a jvp that fails on a dense tangent
        return Beyond(findings=(breach.finding,))


def _looked(probe: _Probe, members: NDArray[np.int64], direction: NDArray[np.float64], others: str) -> Beyond:
    """Return what a direction says of its members; ``others`` is what to call them."""
    code, allowed, share = _decided(probe, direction)
    disagrees = (code == kernels.DISAGREES).any(axis=1)
    if not disagrees.any():
        if probe.problem.is_spent:
            return _undecided(probe.claimed.names, f"the budget was spent before {others} were checked")
        if np.isin(code, _OPEN).any():
            return Beyond((f"{others} could not be decided: noise or curvature hides what they do",))
        return Beyond((f"{others} agree{_sharpness(probe, allowed)}",))
    if (probe.found.measurement.code == kernels.DISAGREES).any():  # one wrong entry is as good as two
        return Beyond((f"{others} do not agree either",))
    names = [name for name, is_wrong in zip(probe.claimed.names, disagrees, strict=True) if is_wrong]
    suspect = _traced(probe, direction, members, share)
    _measure(probe, suspect)
    codes = probe.found.measurement.code[:, :, suspect]
    leaf = probe.problem.inputs.leaf_at(suspect)
    place = f"{leaf.path}{list(leaf.index(suspect)) or ''}"
    if (codes == kernels.DISAGREES).any():
        return Beyond((f"{others} do not agree; halving them led to {place}",))
    if np.isin(codes, (kernels.KINK, kernels.JUMP)).any():
        return Beyond((f"{others} lie at kinks, where slopes do not add up, such as {place}",))
    if probe.problem.is_spent:
        return _undecided(names, f"{others} do not agree, and the budget was spent before this was traced to an entry")
    if share < 1.0 and not (_along(probe, direction, 1.0)[0] == kernels.DISAGREES).any():
        return Beyond((f"{others} are off by no more than tolerances add up to; no entry was found to be wrong",))
    message = (
        f"{others} do not agree with the claim; halving them led to {place}, which agrees when it is measured alone. "
        "Either many small errors add up, or several entries are wrong: raise max_evals."
    )
    return Beyond(findings=tuple(Finding(name, Status.UNDECIDED, message) for name in names))


def _undecided(names: Sequence[str], what: str) -> Beyond:
    """Return what a spent budget left open for some endpoints."""
    message = f"max_applies: {what}; raise it."
    return Beyond(findings=tuple(Finding(name, Status.UNDECIDED, message) for name in names))


def _decided(probe: _Probe, direction: NDArray[np.float64]) -> tuple[NDArray[np.int8], NDArray[np.float64], float]:
    """Return the codes of a direction, shape (e, m), what was allowed, and its share; all of it if need be."""
    code, allowed = _along(probe, direction, _SHARP)
    if np.isin(code, _OPEN).any() and not (code == kernels.DISAGREES).any():
        return *_along(probe, direction, 1.0), 1.0
    return code, allowed, _SHARP


def _sharpness(probe: _Probe, allowed: NDArray[np.float64]) -> str:
    """Return how large an error would have shown, in units of a typical entry, empty where all claims are zero."""
    typical = np.sqrt(probe.squares.max(axis=0).mean(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(typical > 0, allowed / typical, np.nan)
    worst = float(np.fmax.reduce(2.0 * ratio))  # an element moves by half of its scale at least
    return f"; an entry off by {worst:.1g} times the typical one of its row would have shown" if worst > 0 else ""


def _along(probe: _Probe, direction: NDArray[np.float64], share: float) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return the codes of each endpoint's claim along a direction, shape (e, m), and by how much it may be off."""
    claimed, claims = probe.claimed, _claims(probe, direction)
    allowed = _allowed(probe, direction, claims, share)
    found = measure_direction(probe.problem, direction, np.array(claims), allowed, claimed.rows, probe.found.rules)
    return found.code[:, :, 0], allowed


def _claims(probe: _Probe, direction: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return what each endpoint claims along a direction, NaN where it was not asked."""
    claimed = probe.claimed
    return [
        claimed_column(probe.given[name], probe.problem, direction, "a random tangent", [])
        if name == "jvp"
        else np.where(rows, np.where(direction != 0, matrix, 0.0) @ direction, np.nan)
        for name, matrix, rows in zip(claimed.names, claimed.matrix, claimed.rows, strict=True)
    ]


def _allowed(
    probe: _Probe, direction: NDArray[np.float64], claims: Sequence[NDArray[np.float64]], share: float
) -> NDArray[np.float64]:
    """Return a share of what a sum of claims may be off, shape (m,), if each keeps to its tolerance.

    The entries of a jvp are not known one by one; the root of their sum of squares is about as large as their sum, or
    as that of the sample says.
    """
    goal = probe.found.rules.accuracy
    rtol = np.maximum(goal.rtol_out[:, None], goal.rtol_in)
    parts = np.sqrt((rtol**2 * probe.squares) @ (direction / probe.found.rules.steps.scale) ** 2)
    for e, name in enumerate(probe.claimed.names):
        if name == "jvp":
            own = np.where(np.isfinite(claims[e]), rtol.max(axis=1) * np.abs(claims[e]), 0.0)
            parts[e] = own if share < 1.0 else np.maximum(own, parts[e])  # a sum may cancel
    allowed: NDArray[np.float64] = share * _SPREAD * (parts.max(axis=0) + goal.atol * np.linalg.norm(direction))
    return allowed


def _squares(claimed: Claimed, found: Elementwise) -> NDArray[np.float64]:
    """Return the squares of the claims scaled by the inputs, shape (e, m, n); where unknown, the mean of the row."""
    scaled = np.abs(claimed.matrix) * found.rules.steps.scale
    known = np.isfinite(scaled)
    squares = np.where(known, scaled, 0.0) ** 2
    mean = squares.sum(axis=2, keepdims=True) / np.maximum(known.sum(axis=2, keepdims=True), 1)
    result: NDArray[np.float64] = np.where(known, squares, mean)
    return result


def _direction(problem: Problem, found: Elementwise, others: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
    """Return a direction that moves the given coordinates by 0.5 to 1.5 of their scale, less beside a bound.

    Signs alone would miss two swapped columns half of the time, normal deviates an entry that they hardly move.
    """
    draw = np.random.default_rng([seed, 0x70726F])
    steps, bounds = found.rules.steps, found.rules.bounds
    direction = np.zeros(problem.inputs.size)
    length = draw.uniform(0.5, 1.5, len(others)) * draw.choice([-1.0, 1.0], len(others))
    x = problem.x[others].astype(np.float64)
    room = 4.0 * np.minimum(x - bounds.lower[others], bounds.upper[others] - x)  # steps go up to an eighth
    direction[others] = np.clip(length * steps.scale[others], -room, room)
    return direction


def _traced(probe: _Probe, direction: NDArray[np.float64], members: NDArray[np.int64], share: float) -> int:
    """Return the coordinate to which halving the inputs leads."""
    while len(members) > 1:
        half, rest = members[: len(members) // 2], members[len(members) // 2 :]
        part = np.zeros_like(direction)
        part[half] = direction[half]
        members = half if (_along(probe, part, share)[0] == kernels.DISAGREES).any() else rest
    return int(members[0])


def _measure(probe: _Probe, column: int) -> None:
    """Measure one more column, after its claims were asked for where a jvp makes them."""
    problem, claimed = probe.problem, probe.claimed
    for name, matrix in zip(claimed.names, claimed.matrix, strict=True):
        if name == "jvp":
            tangent = one_hot(problem.inputs, column)
            matrix[:, column] = claimed_column(probe.given[name], problem, tangent, "a tangent", [])
    measure_also(problem, claimed, probe.found, column)
