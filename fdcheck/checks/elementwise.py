"""Every column measured: the order in which noise, steps, decisions and second looks follow each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.plan import Plan
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import Measurement, Rules, as_index, measure_columns, unmeasured
from fdcheck.numerics.noise import Noise, measure_noise, noise_from_afar
from fdcheck.numerics.roughness import Doubt, rough_outputs
from fdcheck.numerics.steps import STEP_NOISES, Accuracy, StepRange, accuracy, first_steps, step_range
from fdcheck.numerics.sweeps import swept
from fdcheck.problem.callables import Problem
from fdcheck.problem.endpoints import Claimed
from fdcheck.problem.evaluate import Bounds, bounds_from, coordinate_vector, limits_of, unbounded
from fdcheck.problem.paths import matching
from fdcheck.problem.trees import Leaf
from fdcheck.settings import Settings

_IS_PLAIN = np.isin(np.arange(kernels.SKIPPED + 1), (kernels.AGREES, kernels.DISAGREES, kernels.SKIPPED))
"""By code, whether slopes add up along a direction; at a kink, a jump and where nothing is decided they do not."""

_SCANNED_COLUMNS = 2
"""Failing columns searched for jumps before the others are believed: a rough program is rough in all inputs
that it depends on."""


_GROSS, _WIDE = 5.0, 64.0
"""Times the tolerance that a claim has to be off to fail where apply gives another value each time, over all steps that
are no more than so many times narrower than the widest."""


@dataclass(frozen=True)
class Elementwise:
    """What was measured of every column of a plan, and with which rules.

    Parameters
    ----------
    measurement : Measurement
        Estimates, error bars and codes.
    rules : Rules
        What it was measured with.
    forced : ndarray, shape (n,)
        Steps that the user forced, NaN elsewhere.
    rough : ndarray of bool, shape (m, n)
        Entries whose program jumps in a way that explains how far the claim is off.
    """

    measurement: Measurement
    rules: Rules
    forced: NDArray[np.float64]
    rough: NDArray[np.bool_]


@dataclass(frozen=True)
class Limits:
    """What the user allows: forced steps, shape (n,), NaN where fdcheck chooses; and bounds."""

    forced: NDArray[np.float64]
    bounds: Bounds

    def of_few(self, columns: NDArray[np.int64]) -> Limits:
        """Return those of some input coordinates."""
        return Limits(self.forced[columns], Bounds(self.bounds.lower[columns], self.bounds.upper[columns]))


def limits_from(problem: Problem, settings: Settings) -> Limits:
    """Return the forced steps and bounds of each input coordinate.

    Raises
    ------
    InvalidInput
        If a path names nothing, or bounds exclude x0.
    """
    return Limits(_forced_steps(problem, settings), _bounds(problem, settings))


def measure(
    problem: Problem,
    claimed: Claimed | None,
    settings: Settings,
    limits: Limits,
    plan: Plan,
    known: Noise | None = None,
    of_all: Noise | None = None,
) -> Elementwise:
    """Measure every column of a plan and decide its entries.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claimed : Claimed or None
        What each endpoint claims; None to measure without a claim.
    settings : Settings
        Tolerances and thoroughness.
    limits : Limits
        Forced steps and bounds.
    plan : Plan
        Which columns to measure.
    known : Noise or None
        The noise of the outputs where it was measured before; None to measure it.
    of_all : Noise or None
        The noise when more inputs move than these, where there are more.

    Returns
    -------
    Elementwise
        Cost in applies: 9 beside the one at x0, 18 for a sample, then 4 an input as a rule; more where something is
        in doubt.
    """
    problem.quicken(swept)
    steps = step_range(problem, limits.forced)
    moving = np.zeros(problem.inputs.size, np.bool_)
    moving[plan.columns] = True
    noise = known or measure_noise(problem, steps.scale, limits.bounds, settings.seed, moving)
    if of_all is not None:
        noise = noise.raised_to(of_all)
    elif not (plan.is_whole or known):  # the slope is that of the sample, the noise that of all
        everything = np.ones_like(moving)
        noise = noise.raised_to(measure_noise(problem, steps.scale, limits.bounds, settings.seed, everything))
    noise = noise.with_scatter(problem.scatter)
    result = _decided(problem, claimed, settings, limits, plan, steps, noise)
    if not result.rough.any():
        return result
    further = noise_from_afar(problem, noise, steps.scale, limits.bounds, settings.seed, moving)
    if not np.any(result.rough.any(axis=1) & (further.level > 2 * noise.level)):
        return result
    return _decided(problem, claimed, settings, limits, plan, steps, further)


def _decided(
    problem: Problem,
    claimed: Claimed | None,
    settings: Settings,
    limits: Limits,
    plan: Plan,
    steps: StepRange,
    noise: Noise,
) -> Elementwise:
    """Measure the columns of a plan with a given noise, and take second looks where something does not fit."""
    m, n = problem.outputs.size, problem.inputs.size
    claims = claimed.matrix if claimed else None
    wanted = _wanted(claimed) if claimed else np.ones((1, m, n), np.bool_)
    known = np.zeros((0, m, n)) if claims is None else claims
    full = settings.full_accuracy or claims is None
    goal, noise = accuracy(problem, known, noise, steps, settings.rtol, settings.atol or 0.0, full)
    rules = Rules(noise, steps, goal, settings.least_steps, limits.bounds)
    first = first_steps(problem, known, noise, steps, goal, limits.forced)
    found = measured(problem, claims, wanted, plan.columns, first, rules)
    is_forced = np.isfinite(limits.forced)
    aliased = _aliased(found, plan.columns, noise, goal)
    if aliased.any() and not is_forced.any():
        tiny = np.maximum(0.5 * noise.reach * np.abs(noise.direction), steps.low)
        found = measured(problem, claims, wanted, plan.columns, np.stack([tiny, 8 * tiny]), rules)
    if is_forced.any():
        _blame_forced_steps(problem, found, is_forced, aliased)
    result = Elementwise(found, rules, limits.forced, np.zeros((m, n), np.bool_))
    if claims is not None:
        _excuse_restlessness(claims, result)
        _look_for_roughness(problem, claims, result)
    if problem.is_spent:
        _blame_budget(problem, found)
    return result


def _wanted(claimed: Claimed) -> NDArray[np.bool_]:
    """Return the entries that each endpoint was asked for and wants looked at, shape (e, m, n)."""
    wanted: NDArray[np.bool_] = claimed.rows[:, :, None] & ~claimed.masked
    return wanted


def measured(
    problem: Problem,
    claims: NDArray[np.float64] | None,
    wanted: NDArray[np.bool_],
    columns: NDArray[np.int64],
    first: NDArray[np.float64],
    rules: Rules,
) -> Measurement:
    """Return what is measured of columns, in the entries wanted of each endpoint, shape (e, m, n)."""
    found = unmeasured(len(wanted), problem.outputs.size, problem.inputs.size)
    own = as_index(columns)
    found.code[:, :, own] = np.where(wanted[:, :, own], np.int8(kernels.PENDING), np.int8(kernels.SKIPPED))
    measure_columns(problem, claims, columns, first, rules, found)
    return found


def _aliased(found: Measurement, columns: NDArray[np.int64], noise: Noise, goal: Accuracy) -> NDArray[np.bool_]:
    """Return the outputs whose estimates contradict the slope seen at a tiny step along a random direction.

    A ripple whose period is the step, or a sine that turns many times within it, leaves smooth and wrong
    differences. Kinks and undecided entries excuse an output: there the slopes do not add up.
    """
    own = as_index(columns)
    plain = _IS_PLAIN[found.code[:, :, own]].all(axis=(0, 2))
    direction = noise.direction[own]
    estimate, error, _ = found.entry[:, :, own]
    along = estimate @ direction
    spread = error @ np.abs(direction)
    size = np.abs(estimate) @ np.abs(direction)
    allowed = noise.slope_error + spread + goal.rtol_out * size + noise.slope_noise
    with np.errstate(invalid="ignore"):
        aliased: NDArray[np.bool_] = plain & np.isfinite(noise.slope_error) & (np.abs(along - noise.slope) > allowed)
    return aliased


def _blame_forced_steps(
    problem: Problem, found: Measurement, is_forced: NDArray[np.bool_], aliased: NDArray[np.bool_]
) -> None:
    """Turn into undecided what a forced step is to blame for.

    A step that moves nothing measures nothing; one that contradicts the slope at a tiny step is too coarse.
    """
    finite = np.isfinite(problem.value.astype(np.float64))
    unmoved = finite[:, None] & is_forced & np.isin(found.code, (kernels.NONFINITE, kernels.EDGE)).any(axis=0)
    looked_at = found.code != kernels.SKIPPED
    found.code[looked_at & unmoved & np.isnan(found.estimate)] = kernels.NOISE
    found.code[looked_at & aliased[:, None] & is_forced] = kernels.CURVATURE


def _excuse_restlessness(claims: NDArray[np.float64], result: Elementwise) -> None:
    """Turn failures into undecided where apply gives another value each time, unless they are gross.

    What a function remembers or draws need not be the independent noise that error bars are made of, and does the
    least harm over the widest steps: a claim that fits the slope over one of those is not proven wrong.
    """
    found, noise, goal = result.measurement, result.rules.noise, result.rules.accuracy
    if not noise.is_restless.any():
        return
    for e, i, j in np.argwhere(found.code == kernels.DISAGREES):
        evidence, claim = found.columns[int(j)], float(claims[e, i, j])
        wide = evidence.up_step >= evidence.up_step.max() / _WIDE
        slopes, steps = evidence.slopes(int(i))[wide], evidence.up_step[wide]
        rtol = max(float(goal.rtol_out[i]), float(goal.rtol_in[j]))
        tolerance = float(goal.atol[i]) + rtol * np.fmax(abs(claim), np.abs(slopes))
        scatter = STEP_NOISES * float(noise.level[i]) / steps
        if (np.abs(slopes - claim) <= _GROSS * tolerance + scatter).any():
            found.code[e, i, j] = kernels.NOISE


def _look_for_roughness(problem: Problem, claims: NDArray[np.float64], result: Elementwise) -> None:
    """Search failing columns for jumps that explain the failure, and turn what they explain into undecided."""
    found = result.measurement
    failing = found.code == kernels.DISAGREES
    for scanned, j in enumerate(np.flatnonzero(failing.any(axis=(0, 1)))):
        if scanned == _SCANNED_COLUMNS and not (result.rough.any() or problem.is_spent):
            return
        outputs = np.flatnonzero(failing[:, :, j].any(axis=0))
        doubts = [_doubt(claims[failing[:, i, j], i, j], result, int(i), int(j)) for i in outputs]
        rough = rough_outputs(problem, int(j), doubts, float(result.rules.steps.scale[j]), result.rules.bounds)
        result.rough[outputs[rough], j] = True
        if problem.is_spent:  # what such jumps might explain was not looked for to the end
            rough |= np.array([doubt.is_slight or doubt.stands_still for doubt in doubts])
        for i in outputs[rough]:
            found.code[failing[:, i, j], i, j] = kernels.NOISE


def _blame_budget(problem: Problem, found: Measurement) -> None:
    """Turn what could not be evaluated any more, for want of calls, from not finite into undecided."""
    finite = np.isfinite(problem.value.astype(np.float64))[:, None]
    cut_off = np.isin(found.code, (kernels.NONFINITE, kernels.EDGE)) & finite
    found.code[cut_off] = kernels.NOISE


def _doubt(claims: NDArray[np.float64], result: Elementwise, output: int, column: int) -> Doubt:
    """Return how far the claims of an entry are off and up to which step its slope was seen."""
    found = result.measurement
    slope = float(found.estimate[output, column])
    misses = claims - slope
    miss = float(misses[np.argmax(np.abs(misses))])
    evidence = found.columns[column]
    up, down = evidence.up[:, output], evidence.down[:, output]
    seen = np.flatnonzero(np.isfinite(up) | np.isfinite(down))
    unmoved = ~((np.abs(up[seen]) > 0) | (np.abs(down[seen]) > 0))
    stands_still = bool(unmoved[:1].any())
    alike = unmoved if stands_still else np.abs(evidence.slopes(output)[seen] - slope) <= 0.1 * abs(miss)
    last = max(int(np.argmin(np.append(alike, False))) - 1, 0)  # of the steps alike from the smallest up
    steady = float(evidence.up_step[seen[last]] if seen.size else evidence.up_step[0])
    return Doubt(output, slope, miss, steady, float(result.rules.noise.level[output]), stands_still)


def _forced_steps(problem: Problem, settings: Settings) -> NDArray[np.float64]:
    """Return the step forced on each input coordinate, NaN where fdcheck chooses."""
    forced: list[tuple[Leaf, float | NDArray[np.float64]]] = []
    for path, step in settings.eps_for.items():
        forced.extend((leaf, step) for leaf in matching(problem.inputs, path, "eps_for"))
    default = np.nan if settings.eps is None else settings.eps
    return coordinate_vector(problem, forced, default)


def _bounds(problem: Problem, settings: Settings) -> Bounds:
    """Return the limits within which each input coordinate may be moved."""
    if settings.bounds is None:
        return unbounded(problem)
    return bounds_from(problem, limits_of(problem.inputs, settings.bounds))
