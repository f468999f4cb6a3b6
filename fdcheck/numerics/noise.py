"""The noise of each output, measured before anything else, and the slope seen at a tiny step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics import kernels
from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, direction_differences

_POINTS = 4
"""Points on each side of x0: with x0 they leave three degrees of freedom to a straight line."""

_LATTICE = {2: 2.0**-11, 4: 2.0**-23, 8: 2.0**-36}
"""Finest spacing relative to x by bytes of the dtype: an ulp or two in short formats."""

_REACH = {2: 6, 4: 64, 8: 64}
"""Largest multiple of that spacing, by bytes: wide enough that rounding differs from point to point, and so
narrow that the curvature of a function with f'' x**2 = 1000 f stays below the roundoff of f."""

_SHORT = 2.0**-24
"""Finest spacing, half an ulp of float32, for a function that works in float32 behind a float64 face."""

_WILD = 300.0
"""Roundings above which a noise is looked at from closer by: it may be the bend of a function near a pole or
the edge of its domain. Real noise stays as large, a bend shrinks."""

_SAME = 64.0
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
    scatter : float
        Largest difference of two calls at x0 relative to the value; 0 for a deterministic function.
    """

    level: NDArray[np.float64]
    unit: NDArray[np.float64]
    slope: NDArray[np.float64]
    slope_error: NDArray[np.float64]
    direction: NDArray[np.float64]
    scatter: float


def measure_noise(problem: Problem, scale: NDArray[np.float64], bounds: Bounds, seed: int) -> Noise:
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

    Returns
    -------
    Noise
        Cost: 9 applies, and 8 more where an output looks like a staircase or like a pole.
    """
    m = problem.outputs.size
    again = np.empty(m)
    direction_differences(problem, np.zeros(problem.inputs.size), 0.0, again)
    again = np.abs(np.nan_to_num(again))
    value = np.abs(problem.value.astype(np.float64))
    unit = np.concatenate([np.full(leaf.size, float(np.finfo(leaf.dtype).eps) / 2) for leaf in problem.outputs.leaves])
    draw = np.random.default_rng([seed, 0x6E6F])
    direction = _lattice_direction(problem, scale, bounds, None, draw)
    reach = min(_REACH.get(leaf.real_dtype.itemsize, 64) for leaf in problem.inputs.leaves)
    multiple = _irregular(reach, draw)
    delta = _line(problem, direction, multiple)
    level, slope, slope_error = np.empty(m), np.empty(m), np.empty(m)
    ulps = min(2 * _LATTICE.get(leaf.real_dtype.itemsize, 2.0**-46) / np.finfo(leaf.dtype).eps for leaf in problem.inputs.leaves)
    kernels.line_noise(multiple, delta, unit * value, float(max(ulps, 1.0)), level, slope, slope_error)
    plain = unit * value + np.abs(np.nan_to_num(slope)) / max(ulps, 1.0)
    wild = (level > _WILD * plain) | ~np.isfinite(delta).all(axis=0)
    if wild.any() and ulps > 64:
        close = _line(problem, direction / 64, multiple)
        close_level, close_slope, close_error = np.empty(m), np.empty(m), np.empty(m)
        kernels.line_noise(multiple, close, unit * value, float(ulps / 64), close_level, close_slope, close_error)
        calmer = wild & (close_level < 0.1 * level)
        level = np.where(calmer, close_level, level)
        slope = np.where(calmer, 64 * close_slope, slope)
        slope_error = np.where(calmer, 64 * close_error, slope_error)
    changes = np.count_nonzero(np.diff(np.sort(delta, axis=0), axis=0), axis=0)
    flat = (changes <= 1) & (value > 0) & (unit < 2.0**-24)
    if flat.any():
        wide = _line(problem, _lattice_direction(problem, scale, bounds, _SHORT, draw), multiple)
        wide_level, rise, rise_error = np.empty(m), np.empty(m), np.empty(m)
        kernels.line_noise(multiple, wide, 2.0**-24 * value, 1.0, wide_level, rise, rise_error)
        level = np.where(flat & (wide_level > 2.0**-26 * value), wide_level, level)
        slope_error = np.where(flat, np.inf, slope_error)
        with np.errstate(over="ignore"):
            values = problem.value.astype(np.float64) + wide
            short = np.all(values == values.astype(np.float32), axis=0) & np.any(wide != 0, axis=0)
        unit = np.where(flat & short, 2.0**-24, unit)
    rounding = unit * value
    scatter = np.where(again > _SAME * rounding, again / np.maximum(value, np.finfo(float).tiny), 0.0)
    level = np.maximum.reduce([level, rounding, again])
    return Noise(level, unit, slope, slope_error, direction, float(scatter.max(initial=0.0)))


def _irregular(reach: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Return whole multiples on both sides of 0, spread over the reach but not equally spaced."""
    sides = []
    for sign in (-1.0, 1.0):
        edges = np.linspace(0, reach, _POINTS + 1).round().astype(np.int64)
        sides.append(sign * np.array([draw.integers(a + 1, b + 1) for a, b in zip(edges, edges[1:], strict=False)]))
    return np.concatenate(sides).astype(np.float64)


def _line(problem: Problem, direction: NDArray[np.float64], multiple: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return differences to f(x0) at multiples of a direction, shape (multiples, m)."""
    delta = np.empty((len(multiple), problem.outputs.size))
    for k, times in enumerate(multiple):
        direction_differences(problem, direction, float(times), delta[k])
    return delta


def _lattice_direction(
    problem: Problem,
    scale: NDArray[np.float64],
    bounds: Bounds,
    spacing: float | None,
    draw: np.random.Generator,
) -> NDArray[np.float64]:
    """Return a direction whose whole multiples are exact in floating point.

    Each component is a whole number of ulps, of random sign and about the given part of x: where points are
    not where they are thought to be, it shows as noise.
    """
    direction = np.empty(problem.inputs.size)
    for leaf in problem.inputs.leaves:
        own = slice(leaf.start, leaf.stop)
        x = problem.x[own].astype(leaf.real_dtype)
        fine = spacing or _LATTICE.get(leaf.real_dtype.itemsize, 2.0**-46)
        ulp = np.where(x == 0, scale[own] * fine / 4, np.spacing(np.abs(x)).astype(np.float64))
        size = np.where(x == 0, scale[own], np.abs(x).astype(np.float64))
        ulps = np.maximum(1.0, np.rint(draw.uniform(1.0, 3.0, leaf.size) * fine * size / ulp))
        direction[own] = ulp * ulps * draw.choice([-1.0, 1.0], leaf.size)
    far = 64 * np.abs(direction)
    inside = (problem.x - far >= bounds.lower) & (problem.x + far <= bounds.upper)
    return np.where(inside, direction, 0.0)
