"""Many inputs checked at once: moved together along a random direction, a disagreement traced to its entry."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise, Limits, measure
from fdcheck.checks.locating import located, tilt
from fdcheck.checks.plan import whole
from fdcheck.checks.residuals import FEW_ROWS, Residual, View, views_of
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import Goal, Slope, as_index, measure_direction
from fdcheck.numerics.noise import Noise
from fdcheck.numerics.steps import scales
from fdcheck.problem.callables import Problem
from fdcheck.problem.endpoints import Claimed, Claims
from fdcheck.problem.evaluate import Bounds
from fdcheck.problem.trees import Layout
from fdcheck.settings import Settings

Vector = NDArray[np.float64]
Members = NDArray[np.int64] | range

SHARP = 1e-3
"""Part of what tolerances add up to that is measured and traced. A right claim is off by less, also one computed in
float32 (1e-7 of an entry, where the tolerance is 1e-3), and one entry that is 1 % off stands out of 10**6."""

_TIGHT = 0.1
"""Part of its scale, and of the room on the other side, below which the room to one side of a coordinate is taken for
none: moved by so little, it would hide among the others."""

_PLACED = 2.0**-13
"""Error bar of the sums by which a disagreement is traced, in parts of it: a place among 1000 members is then told
exactly, one among 10**6 to about 500."""

_TRACED = 8
"""Wrong entries traced one by one at most; after three it goes on only if they explain half of the disagreement."""

_ENOUGH = 3

_ALIKE = 1e-4
"""Relative difference of two ratios that are taken to be the same factor."""


@dataclass(frozen=True)
class Alone:
    """One column measured alone, after a disagreement was traced to it."""

    part: Problem
    claimed: Claimed
    found: Elementwise


@dataclass
class Probe:
    """What moving inputs together showed.

    Parameters
    ----------
    direction : ndarray, shape (n,)
        How they were moved, in units of the input.
    views : list of View
        Sums that each endpoint's claims were compared in.
    slope : Slope
        The derivative along the direction.
    residuals : list of Residual
        By how much each claim is off, beside what is explained by columns measured alone.
    alone : list of Alone
        Those columns.
    traced : str
        The coordinate that a disagreement was traced to although it agrees alone; empty where there is none.
    at_kink : bool
        Whether that one lies at a kink or a jump.
    factors : dict of str to float
        By endpoint: how many times the slope its claim is, alike along two random directions, where much is wrong.
    """

    direction: Vector
    views: list[View]
    slope: Slope
    residuals: list[Residual]
    alone: list[Alone] = field(default_factory=list)
    traced: str = ""
    at_kink: bool = False
    factors: dict[str, float] = field(default_factory=dict)

    @property
    def is_hidden(self) -> bool:
        """Whether noise, curvature or the edge of a domain hides the slope of an output that is finite at x0."""
        return bool(np.isin(self.slope.code, (kernels.NOISE, kernels.CURVATURE, kernels.EDGE)).any())

    @property
    def is_open(self) -> bool:
        """Whether a disagreement is left that no column measured alone explains."""
        return any(residual.stands_out(1.0).any() for residual in self.residuals)


@dataclass
class _Context:
    """What every step of a probe needs; ``members`` are the coordinates that it moves, ``size`` that of the slopes."""

    problem: Problem
    claims: Claims
    settings: Settings
    noise: Noise
    limits: Limits
    members: Members
    size: Vector
    are_at_bounds: bool


def probe(
    problem: Problem,
    claims: Claims,
    settings: Settings,
    noise: Noise,
    limits: Limits,
    members: Members,
    trace: bool,
    are_at_bounds: bool = False,
) -> Probe | None:
    """Compare the claims with a slope along a random direction, and trace what disagrees to entries.

    Only an entry that was measured alone fails: small errors that each keep to their tolerance and a large error of
    one entry leave the same sum.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claims : Claims
        The endpoints.
    settings : Settings
        Tolerances and seed.
    noise : Noise
        Of the outputs.
    limits : Limits
        Where apply may be evaluated.
    members : ndarray of int, or range
        Coordinates to move.
    trace : bool
        Whether to trace a disagreement.
    are_at_bounds : bool
        Whether the members can move to one side only.

    Returns
    -------
    Probe or None
        None where no endpoint is left. Cost: 4 applies, a call of each jvp, one or two of each vjp; 30 to 60 applies
        and about ten calls for each wrong entry that is traced.
    """
    context = _Context(problem, claims, settings, noise, limits, members, np.zeros(problem.outputs.size), are_at_bounds)
    direction = random_direction(problem, limits.bounds, members, settings.seed, are_at_bounds)
    everything = np.ones(problem.outputs.size, np.bool_)
    views = views_of(problem, claims, direction, settings, everything)
    if not views:
        return None
    context.size = np.fmax.reduce([view.row_sizes for view in views])
    slope = _slope(context, direction, np.fmin.reduce([view.goal(SHARP) for view in views]))
    if any(view.is_mixed for view in views) and not slope.is_plain.all():  # where slopes do not add up
        views = views_of(problem, claims, direction, settings, slope.is_plain)
    residuals = [view.residual(view.along, slope) for view in views]
    result = Probe(direction, views, slope, residuals)
    if trace:
        _trace(context, result)
        if result.alone and any(r.stands_out(SHARP).any() for r in residuals) and not problem.is_spent:
            _look_for_factors(context, result)
    return result


def _trace(context: _Context, result: Probe) -> None:
    """Measure columns alone to which disagreements are traced, until none is left or tracing finds no wrong entry."""
    first = [np.abs(residual.value).max(initial=0.0) for residual in result.residuals]
    for count in range(_TRACED):
        suspects = [k for k, residual in enumerate(result.residuals) if residual.stands_out(SHARP).any()]
        if not suspects or context.problem.is_spent:
            return
        k = max(suspects, key=lambda k: result.residuals[k].excess)
        worst = result.residuals[k].worst
        if count >= _ENOUGH and abs(result.residuals[k].value[worst]) > 0.5 * first[k]:
            return
        column, row, is_one_of_many = _place(context, result, result.views[k], worst)
        if column is None:
            return
        alone = _measured_alone(context, column, row)
        codes = alone.found.measurement.code
        if not (codes == kernels.DISAGREES).any():
            result.traced = context.problem.inputs.element(column)
            result.at_kink = bool(np.isin(codes, (kernels.KINK, kernels.JUMP)).any())
            return
        others = [_measured_alone(context, other, row) for other in _other_parts(context, result, column)]
        for one in (alone, *others):
            result.alone.append(one)
            moved = float(result.direction[int(one.part.columns[0])])
            for view, residual in zip(result.views, result.residuals, strict=True):
                residual.explain(view, one.claimed, one.found, moved)
        if is_one_of_many:
            return


def _other_parts(context: _Context, result: Probe, column: int) -> list[int]:
    """Return the imaginary part that belongs to a real one, or the other way round, where it was moved too.

    An entry that is wrong is wrong in both as a rule, and neighbours that are both wrong are hard to tell apart.
    """
    return [k for k in _parts(context.problem.inputs, column) if k != column and result.direction[k] != 0]


def _parts(layout: Layout, coordinate: int) -> range:
    """Return the coordinates of the element that one belongs to: two where it is complex."""
    leaf = layout.leaf_at(coordinate)
    first = leaf.start + (coordinate - leaf.start) // leaf.parts * leaf.parts
    return range(first, first + leaf.parts)


def _look_for_factors(context: _Context, result: Probe) -> None:
    """Note by which factor an endpoint's claims are off, if it is the same along another random direction."""
    bounds, seed = context.limits.bounds, context.settings.seed + 1
    again = random_direction(context.problem, bounds, context.members, seed, context.are_at_bounds)
    slope = _slope(context, again, np.fmin.reduce([view.goal(SHARP) for view in result.views]))
    for view, residual in zip(result.views, result.residuals, strict=True):
        if not residual.stands_out(SHARP).any():
            continue
        ratios = [
            view.times(direction, context.claims) / (view.weights @ one.value)
            for direction, one in ((result.direction, result.slope), (again, slope))
        ]
        together = np.concatenate(ratios)
        middle = float(np.median(together))
        if np.isfinite(together).all() and (np.abs(together - middle) <= _ALIKE * abs(middle)).all() and middle != 1.0:
            result.factors[view.name] = middle


def _place(context: _Context, result: Probe, view: View, which: int) -> tuple[int | None, int, bool]:
    """Return the column that a sum's disagreement comes from, None if it cannot be told; the row; if there are many."""
    base = result.direction.copy()
    base[[int(alone.part.columns[0]) for alone in result.alone]] = 0.0
    row, own, residual = which, view, result.residuals[result.views.index(view)]
    if view.is_mixed:
        found = _row(context, result, view, which)
        if found is None:
            return None, -1, False
        row, own = found, view.of_row(context.claims, found)
        residual = _explained(result, own, own.residual(own.times(result.direction, context.claims), result.slope))
    index = own.index_of(row)
    value, bar = float(residual.value[index]), float(residual.bar[index])
    goal = np.full(context.problem.outputs.size, np.inf)
    goal[row] = _PLACED * abs(value)

    def sum_of(first: int, last: int, tilted: bool) -> tuple[float, float]:
        part = np.zeros_like(base)
        members = _index(context.members, first, last)
        part[members] = base[members]
        if tilted:
            part[members] *= tilt(last - first)
        claim = own.times(part, context.claims)
        if not np.isfinite(claim[index]):
            return math.inf, 0.0
        residual = own.residual(claim, _slope(context, part, goal))
        return float(residual.value[index]), float(residual.bar[index])

    place, is_one_of_many = located(sum_of, len(context.members), value, bar)
    return (None if place is None else int(context.members[place])), row, is_one_of_many


def _row(context: _Context, result: Probe, view: View, which: int) -> int | None:
    """Return the output that a sum over outputs disagrees in, by calls of the vjp alone."""
    m, weights, direction = context.problem.outputs.size, view.weights, result.direction

    def sum_of(first: int, last: int, tilted: bool) -> tuple[float, float]:
        cotangent = np.zeros((1, m))
        cotangent[0, first:last] = weights[which, first:last]
        if tilted:
            cotangent[0, first:last] *= tilt(last - first)
        gradient = context.claims.across(cotangent[0], "a random cotangent of some outputs")
        if gradient is None:
            return math.nan, math.inf
        part = view.of_cotangent(cotangent, gradient)
        residual = _explained(result, part, part.residual(part.times(direction, context.claims), result.slope))
        return float(residual.value[0]), float(residual.bar[0])

    return located(sum_of, m, *sum_of(0, m, False))[0]


def _explained(result: Probe, view: View, residual: Residual) -> Residual:
    """Return a residual without what the columns measured alone explain."""
    for alone in result.alone:
        moved = float(result.direction[int(alone.part.columns[0])])
        residual.explain(view, alone.claimed, alone.found, moved)
    return residual


def _slope(context: _Context, direction: Vector, goal: Vector) -> Slope:
    """Measure the slope along a direction."""
    return measure_direction(context.problem, direction, Goal(context.size, goal), context.noise, context.limits.bounds)


def _measured_alone(context: _Context, column: int, row: int) -> Alone:
    """Measure one column alone; a vjp is asked for the output in doubt, or for all of a few."""
    own, m = np.array([column]), context.problem.outputs.size
    part = context.problem.narrowed(own)
    rows = range(m) if m <= FEW_ROWS else _parts(context.problem.outputs, row)
    claimed = context.claims.columns(part, np.array(rows))
    limits, known = context.limits.of_few(own), context.noise.of_few(own)
    return Alone(part, claimed, measure(part, claimed, context.settings, limits, whole(part), known))


def random_direction(problem: Problem, bounds: Bounds, members: Members, seed: int, at_bounds: bool = False) -> Vector:
    """Return a direction that moves some coordinates by 0.5 to 1.5 of their scale, less beside a bound.

    Those that lie at a bound stay, since a direction that moves them can be followed to one side only; with
    ``at_bounds`` it is one for such coordinates, and leads away from their bounds.

    Signs alone would miss two swapped columns half of the time, normal deviates an entry that they hardly move.
    """
    draw = np.random.default_rng([seed, 0x70726F])
    direction, scale = np.zeros(problem.inputs.size), scales(problem)
    for first in range(0, len(members), _BLOCK):
        own = _index(members, first, first + _BLOCK)
        length = draw.uniform(0.5, 1.5, len(scale[own])) * scale[own]
        length *= draw.choice([-1.0, 1.0], len(length))
        below, above = _rooms(problem, bounds, own)
        if at_bounds:
            length = np.abs(length)
            direction[own] = np.where(above > below, np.minimum(length, above), -np.minimum(length, below))
        else:
            room = np.where(_is_tight(below, above, scale[own]), 0.0, np.minimum(below, above))
            direction[own] = np.clip(length, -room, room)
    return direction


def members_at_bounds(problem: Problem, bounds: Bounds, members: Members) -> NDArray[np.int64]:
    """Return the members that can move to one side only, as they lie at a bound of theirs or just beside it."""
    scale, found = scales(problem), [np.empty(0, np.int64)]
    for first in range(0, len(members), _BLOCK):
        own = _index(members, first, first + _BLOCK)
        tight = np.flatnonzero(_is_tight(*_rooms(problem, bounds, own), scale[own]))
        found.append(np.asarray(members[first : first + _BLOCK], np.int64)[tight])
    return np.concatenate(found)


def _rooms(problem: Problem, bounds: Bounds, own: NDArray[np.int64] | slice) -> tuple[Vector, Vector]:
    """Return how far a direction may reach below and above; steps along it go up to an eighth, a quarter is left."""
    x = problem.x[own].astype(np.float64)
    return 4.0 * (x - bounds.lower[own]), 4.0 * (bounds.upper[own] - x)


def _is_tight(below: Vector, above: Vector, scale: Vector) -> NDArray[np.bool_]:
    tight: NDArray[np.bool_] = np.minimum(below, above) < _TIGHT * np.minimum(np.maximum(below, above), scale)
    return tight


def _index(members: Members, first: int, last: int) -> NDArray[np.int64] | slice:
    """Return an index of some of the members; a slice where no coordinate is left out."""
    part = members[first:last]
    return slice(part.start, part.stop) if isinstance(part, range) else as_index(part)


_BLOCK = 2**16
"""Coordinates of a direction that are drawn at once, so that nothing else of the size of x is held."""
