"""The noise of each output, measured before anything else, and the slope seen at a tiny step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics.lines import is_bent, line_noise
from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, direction_differences

_POINTS = 4
"""Points on each side of x0: with x0 they leave three degrees of freedom to a straight line."""

_REACH = {2: (1.0, 6.0), 4: (2.0, 64.0), 8: (10.0, 2.0**20)}
"""By bytes of the dtype: ulps of x in one multiple of the direction, about, and largest multiple taken. Points
differ in their last bits, so that rounding (and any jitter that hangs on the bits of x) differs from point to
point; and they are so close, 2**-29 of x in float64, that the curvature of a function with f'' x**2 = 1000 f
stays below the roundoff of f."""

_WIDE, _WIDE_REACH = {4: 2.0**-14, 8: 2.0**-24}, 64.0
"""A wider line: spacing relative to x by bytes of the dtype, and largest multiple. A function that works in float32
behind a float64 face, or that cancels, is a flat staircase at tiny spacing and shows no noise there."""

_CLOSER, _CLOSER_LOOKS = 32.0, 3
_WILD = 300.0
"""Roundings above which a noise is looked at from closer by: it may be the bend of a function near a pole or
the edge of its domain, which is convex or concave on either side; noise is not. Three looks, each from a
32nd of the distance, reach 6e-14 of x."""

_BENT_BY_ACCIDENT, _FEW_WILD = 0.15, 20
"""Part of outputs with mere noise that look convex or concave (6 %, where a side has three turns), and how many outputs
it takes for their number to tell: where terms cancel in many outputs, some look like poles."""

_AT_ZERO = 2.0**-60
"""Spacing at x = 0 relative to the scale: numbers are dense there in every format, and the closer the points,
the less of a cusp or a narrow feature at zero they see."""

_BLOCK = 2**16
"""Coordinates of a direction that are drawn at once, so that nothing else of the size of x is held."""

SAME = 64.0
"""Roundoffs by which two calls at x0 may differ: a sum of a few thousand terms in another order."""


@dataclass(frozen=True)
class Noise:
    """What nine points along one random direction say about each output.

    Parameters
    ----------
    level : ndarray, shape (m,)
        Standard deviation of the noise, at least the roundoff of the value.
    unit : ndarray, shape (m,)
        Unit roundoff, relative, in which the output is computed.
    slope, slope_error : ndarray, shape (m,)
        Directional derivative along ``direction`` (the sentinel) and its error bar; NaN and infinite where
        it could not be seen.
    direction : ndarray, shape (n,)
        The direction with its tiny length.
    reach : float
        How many times that length the points went.
    scatter : float
        Largest difference of two calls at x0 relative to the value; 0 for a deterministic function.
    is_restless : ndarray of bool, shape (m,)
        Outputs that differ between two calls at x0 by more than rounding.
    """

    level: NDArray[np.float64]
    unit: NDArray[np.float64]
    slope: NDArray[np.float64]
    slope_error: NDArray[np.float64]
    direction: NDArray[np.float64]
    reach: float
    scatter: float
    is_restless: NDArray[np.bool_]

    def raised_to(self, other: Noise) -> Noise:
        """Return the same with the noise and the roundoff of each output not below those of another measurement."""
        return dataclasses.replace(
            self,
            level=np.maximum(self.level, other.level),
            unit=np.maximum(self.unit, other.unit),
            scatter=max(self.scatter, other.scatter),
            is_restless=self.is_restless | other.is_restless,
        )

    def with_scatter(self, scatter: NDArray[np.float64]) -> Noise:
        """Return the same with the noise not below what calls at x0 differ by, shape (m,); 0 where they do not."""
        if not scatter.any():
            return self
        level = np.where(np.isfinite(scatter), np.maximum(self.level, scatter), self.level)
        return dataclasses.replace(self, level=level, is_restless=self.is_restless | (scatter != 0))

    def of_few(self, columns: NDArray[np.int64]) -> Noise:
        """Return the same for some of the inputs, whose own slope along the direction is not known."""
        return dataclasses.replace(self.without_slope(), direction=self.direction[columns])

    def without_slope(self) -> Noise:
        """Return the same without the direction, where the slope along it is of no use."""
        return dataclasses.replace(
            self,
            direction=np.broadcast_to(np.float64(0.0), len(self.direction)),
            slope_error=np.full_like(self.slope, np.inf),
        )

    @property
    def slope_noise(self) -> NDArray[np.float64]:
        """Three standard deviations of the sentinel: two least-squares slopes of five points each side."""
        return 6.0 * self.level / self.reach


def measure_noise(
    problem: Problem,
    scale: NDArray[np.float64],
    bounds: Bounds,
    seed: int,
    moving: NDArray[np.bool_],
    with_slope: bool = True,
) -> Noise:
    """Measure the noise of apply at x0.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    scale : ndarray, shape (n,)
        Scale of each input coordinate.
    bounds : Bounds
        Coordinates that the direction would take outside stay where they are.
    seed : int
        Seed of the direction.
    moving : ndarray of bool, shape (n,)
        Coordinates that the direction moves.
    with_slope : bool
        Whether the slope is wanted as well; a function that bends hides it from afar.

    Returns
    -------
    Noise
        Cost: 9 applies, and 8 more where an output looks like a staircase or like a pole.
    """
    draw = np.random.default_rng([seed, 0x6E6F])
    value = np.abs(problem.value.astype(np.float64))
    unit = problem.outputs.per_coordinate(float(np.finfo(leaf.dtype).eps) / 2 for leaf in problem.outputs.leaves)
    ulps, reach = min(_REACH.get(leaf.real_dtype.itemsize, _REACH[8]) for leaf in problem.inputs.leaves)
    direction = _lattice_direction(problem, scale, bounds, None, reach, draw) * moving
    line = _line(problem, direction, _irregular(reach, draw), bounds)
    level, slope, slope_error = line.level, line.slope, line.slope_error
    finite = np.isfinite(slope)
    wild = (~finite & with_slope) | (level > _WILD * (unit * value + np.abs(np.where(finite, slope, 0.0)) / ulps))
    closest = line
    for _ in range(_CLOSER_LOOKS):
        if not wild.any() or reach / _CLOSER < 2 * _POINTS:
            break
        bent = wild & closest.bends()
        if np.count_nonzero(bent) <= max(0.0, _BENT_BY_ACCIDENT * (np.count_nonzero(wild) - _FEW_WILD)):
            break
        wild = bent
        reach /= _CLOSER
        closest = _line(problem, direction, _irregular(reach, draw), bounds)
        calmer = wild & (closest.level < 0.5 * level)
        level = np.where(calmer, closest.level, level)
        slope = np.where(calmer, closest.slope, slope)
        slope_error = np.where(calmer, closest.slope_error, slope_error)
    flat = (line.changes() <= 1) & (value > 0) & (unit <= 2.0**-24)
    if flat.any():
        wide_direction = _lattice_direction(problem, scale, bounds, _WIDE, _WIDE_REACH, draw) * moving
        wide = _line(problem, wide_direction, _irregular(_WIDE_REACH, draw), bounds)
        level = np.where(flat & ~wide.bends(), np.maximum(wide.level, level), level)
        short = flat & wide.is_short(problem.value.astype(np.float64)) & (wide.changes() > 0)
        unit = np.where(short, np.maximum(unit, 2.0**-24), unit)
    again = direction_differences(problem, direction, np.zeros(1))[0]
    again = np.where(np.isfinite(again), np.abs(again), 0.0)
    size = np.maximum(np.maximum(value, again), np.finfo(float).tiny)  # a value of zero may become anything
    scatter = np.where(again > SAME * np.maximum(unit * value, rounding(problem)), again / size, 0.0)
    return Noise(
        level=np.maximum.reduce([level, unit * value, again]),
        unit=unit,
        slope=slope,
        slope_error=np.where(flat, np.inf, slope_error),
        direction=direction,
        reach=reach,
        scatter=float(scatter.max(initial=0.0)),
        is_restless=scatter > 0,
    )


def rounding(problem: Problem) -> NDArray[np.float64]:
    """Return the roundoff of each output, shape (m,): that of the terms that cancel in a small one; infinite for NaN.

    They are taken to be as large as the largest output beside it. One point of a stack is added up in another order
    than two, whatever is left of the sum: there they are taken to be as large as the inputs too.
    """
    size = np.abs(problem.value.astype(np.float64))
    finite = np.where(np.isfinite(size), size, 0.0)
    terms = problem.outputs.per_coordinate(
        float(finite[leaf.start : leaf.stop].max(initial=0.0)) for leaf in problem.outputs.leaves
    )
    if problem.course.stacks:
        x = np.abs(problem.x)
        terms = terms + float(np.max(x, where=np.isfinite(x), initial=0.0))
    unit = problem.outputs.per_coordinate(float(np.finfo(leaf.dtype).eps) / 2 for leaf in problem.outputs.leaves)
    return np.asarray(np.where(np.isfinite(size), unit * terms, np.inf))


def noise_from_afar(
    problem: Problem,
    noise: Noise,
    scale: NDArray[np.float64],
    bounds: Bounds,
    seed: int,
    moving: NDArray[np.bool_],
) -> Noise:
    """Return the noise with levels raised to what a line shows that is wide enough for float32 to move.

    Parameters
    ----------
    problem, scale, bounds, seed, moving
        As for :func:`measure_noise`.
    noise : Noise
        Measured from close by, where a part of apply that works in float32 stands still.

    Returns
    -------
    Noise
        Cost: 8 applies.
    """
    draw = np.random.default_rng([seed, 0x6661])
    direction = _lattice_direction(problem, scale, bounds, _WIDE, _WIDE_REACH, draw) * moving
    wide = _line(problem, direction, _irregular(_WIDE_REACH, draw), bounds)
    level = np.where(wide.bends(), noise.level, np.maximum(noise.level, wide.level))
    return dataclasses.replace(noise, level=level)


@dataclass(frozen=True)
class _Line:
    """Points along one line, shape (k,) and (k, m), and what they say of each output, shape (m,)."""

    multiple: NDArray[np.float64]
    delta: NDArray[np.float64]
    level: NDArray[np.float64]
    slope: NDArray[np.float64]
    slope_error: NDArray[np.float64]

    def bends(self) -> NDArray[np.bool_]:
        """Return which outputs are convex or concave on either side."""
        return is_bent(self.multiple, self.delta)

    def changes(self) -> NDArray[np.int64]:
        """Return how often each output changes from one point to the next."""
        half = len(self.multiple) // 2
        through_x0 = np.concatenate([self.delta[:half], np.zeros((1, self.delta.shape[1])), self.delta[half:]])
        step = np.diff(through_x0, axis=0)
        counts: NDArray[np.int64] = np.count_nonzero(np.isfinite(step) & (step != 0), axis=0)
        return counts

    def is_short(self, value: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which outputs have only values that float32 represents."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = value + self.delta
            short: NDArray[np.bool_] = np.all(values == values.astype(np.float32), axis=0)
        return short


def _line(problem: Problem, direction: NDArray[np.float64], multiple: NDArray[np.float64], bounds: Bounds) -> _Line:
    """Evaluate the points along a direction that lie within the bounds, and fit each side of x0."""
    delta = direction_differences(problem, direction, multiple, bounds)
    return _Line(multiple, delta, *line_noise(multiple, delta))


def _irregular(reach: float, draw: np.random.Generator) -> NDArray[np.float64]:
    """Return ascending whole multiples on both sides of 0, spread over the reach but not equally spaced."""
    edges = np.linspace(0, reach, _POINTS + 1).round().astype(np.int64)
    below, above = (draw.integers(edges[:-1] + 1, edges[1:] + 1) for _ in range(2))
    return np.concatenate([-below[::-1], above]).astype(np.float64)


def _lattice_direction(
    problem: Problem,
    scale: NDArray[np.float64],
    bounds: Bounds,
    spacing: Mapping[int, float] | None,
    reach: float,
    draw: np.random.Generator,
) -> NDArray[np.float64]:
    """Return a direction whose whole multiples are exact in floating point.

    Each component is a whole number of ulps of x, about ``spacing`` (by bytes of its dtype) times x or a few
    ulps, of random sign: a point that is not where it is thought to be would show as noise. Beside a bound it
    leads inwards.
    """
    direction = np.empty(problem.inputs.size)
    for leaf in problem.inputs.leaves:
        for first in range(leaf.start, leaf.stop, _BLOCK):
            own = slice(first, min(first + _BLOCK, leaf.stop))
            direction[own] = _lattice_part(problem.x[own], scale[own], leaf.real_dtype, spacing, draw)
            far = reach * np.abs(direction[own])
            below, above = problem.x[own] - far >= bounds.lower[own], problem.x[own] + far <= bounds.upper[own]
            inwards = np.where(below & above, direction[own], np.where(above, 1.0, -1.0) * np.abs(direction[own]))
            direction[own] = np.where(below | above, inwards, 0.0)
    return direction


def _lattice_part(
    x: NDArray[np.floating],
    scale: NDArray[np.float64],
    dtype: np.dtype[Any],
    spacing: Mapping[int, float] | None,
    draw: np.random.Generator,
) -> NDArray[np.float64]:
    """Return a part of such a direction, without regard to bounds."""
    size = np.abs(x.astype(dtype))
    ulp = np.where(size == 0, scale * _AT_ZERO, np.spacing(size).astype(np.float64))
    few = _REACH.get(dtype.itemsize, _REACH[8])[0]
    relative = (spacing or {}).get(dtype.itemsize)
    ulps = few if relative is None else relative * np.where(size == 0, scale, size).astype(np.float64) / ulp
    whole = np.maximum(1.0, np.rint(ulps * draw.uniform(0.5, 1.5, len(x))))
    part: NDArray[np.float64] = ulp * whole * draw.choice([-1.0, 1.0], len(x))
    return part
