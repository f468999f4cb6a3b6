"""Points to values: apply evaluated beside x0, along single coordinates and along directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem.callables import Problem
from fdcheck.problem.change import Along, Moved
from fdcheck.problem.paths import matching
from fdcheck.problem.trees import Layout, Leaf
from fdcheck.results import InvalidInput


@dataclass(frozen=True)
class Bounds:
    """Where apply may be evaluated.

    Parameters
    ----------
    lower, upper : ndarray, shape (n,)
        Inclusive limits of each real input coordinate; infinite where there is none.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @cached_property
    def is_open(self) -> bool:
        """Whether there is no limit at all."""
        return not (np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    def is_inside(self, x: NDArray[np.floating]) -> bool:
        """Return whether a point, shape (n,), keeps to the limits."""
        return bool((x >= self.lower).all() and (x <= self.upper).all())


def unbounded(problem: Problem) -> Bounds:
    """Return bounds that exclude nothing."""
    lower, upper = (np.broadcast_to(limit, problem.inputs.size) for limit in (np.float64(-np.inf), np.float64(np.inf)))
    return Bounds(lower, upper)


def targets(
    problem: Problem, columns: NDArray[np.int64], step: NDArray[np.float64], bounds: Bounds
) -> tuple[NDArray[np.floating], NDArray[np.float64]]:
    """Return where coordinates come to lie when moved, and how far they really moved.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    columns : ndarray of int, shape (c,)
        Real input coordinates.
    step : ndarray, shape (c,)
        Signed steps wanted.
    bounds : Bounds
        Targets outside are NaN.

    Returns
    -------
    target : ndarray, shape (c,)
        Representable in the dtype of each coordinate's leaf.
    moved : ndarray, shape (c,)
        ``target - x``, the spacing to divide by.
    """
    x = problem.x[columns]
    target = x + step
    for leaf in problem.inputs.leaves:
        inside = (columns >= leaf.start) & (columns < leaf.stop)
        with np.errstate(over="ignore"):
            target[inside] = target[inside].astype(leaf.real_dtype)
    outside = (target < bounds.lower[columns]) | (target > bounds.upper[columns]) | ~np.isfinite(target)
    moved = (target - x).astype(np.float64)
    target[outside] = np.nan
    return target, np.where(outside, step, moved)


def column_differences(
    problem: Problem,
    columns: NDArray[np.int64],
    target: NDArray[np.floating],
    moved: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return f(x) - f(x0) for x0 with one coordinate moved, for several coordinates.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    columns : ndarray of int, shape (c,)
        Real input coordinates.
    target, moved : ndarray, shape (c,)
        As from :func:`targets`; nothing is evaluated at a NaN target.

    Returns
    -------
    ndarray, shape (c, m)
        The differences, NaN where there is none.
    """
    points, wanted = Moved(columns, target, moved), np.flatnonzero(~np.isnan(target))
    if len(wanted) == len(columns):
        return problem.differences(points)
    out = np.full((len(columns), problem.outputs.size), np.nan)
    out[wanted] = problem.differences(points.at(wanted))
    return out


def both_sides(
    problem: Problem, columns: NDArray[np.int64], step: NDArray[np.float64], bounds: Bounds
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return what both sides of a step give for several coordinates, evaluated one step after the other.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    columns : ndarray of int, shape (c,)
        Real input coordinates.
    step : ndarray, shape (c,)
        Steps wanted.
    bounds : Bounds
        Where apply may be evaluated.

    Returns
    -------
    change : ndarray, shape (2, c, m)
        f(x + h) - f(x) and f(x - h) - f(x), NaN outside of the bounds and where a step below half an ulp moves nothing.
    up_step, down_step : ndarray, shape (c,)
        The steps really taken.
    """
    twice, signed = np.repeat(columns, 2), np.repeat(step, 2)
    signed[1::2] *= -1.0
    target, moved = targets(problem, twice, signed, bounds)
    target[moved == 0] = np.nan
    found = column_differences(problem, twice, target, moved)
    return found.reshape(len(columns), 2, problem.outputs.size).swapaxes(0, 1), moved[::2], -moved[1::2]


def direction_differences(
    problem: Problem, direction: NDArray[np.float64], multiples: NDArray[np.float64], bounds: Bounds | None = None
) -> NDArray[np.float64]:
    """Return f(x0 + multiple * direction) - f(x0) for several multiples, NaN outside of the bounds, shape (k, m)."""
    points = Along(direction, multiples)
    if bounds is None:
        return problem.differences(points)
    if bounds.is_open:
        return problem.differences(points)
    inside = np.flatnonzero([bounds.is_inside(problem.x + multiple * direction) for multiple in multiples])
    out = np.full((len(multiples), problem.outputs.size), np.nan)
    out[inside] = problem.differences(points.at(inside))
    return out


def coordinate_vector(
    problem: Problem, values: Sequence[tuple[Leaf, float | NDArray[np.float64]]], default: float
) -> NDArray[np.float64]:
    """Return values per real input coordinate, ``default`` outside of the given leaves."""
    if not values:
        return np.broadcast_to(np.float64(default), problem.inputs.size)  # no memory, whatever the size
    vector = np.full(problem.inputs.size, default)
    for leaf, value in values:
        vector[leaf.start : leaf.stop] = value
    return vector


def limits_of(layout: Layout, bounds: Any) -> list[tuple[Leaf, NDArray[np.float64], NDArray[np.float64]]]:
    """Return limits per real coordinate for each leaf that has some, the last ones that name it.

    Parameters
    ----------
    layout : Layout
        Layout of the input.
    bounds : dict of str to pair, or pair
        As the user gave them: numbers, or arrays of the shape of the leaf.

    Raises
    ------
    InvalidInput
        If a path names nothing, or something is no pair of limits.
    """
    by_path = bounds if isinstance(bounds, Mapping) else {"*": bounds}
    found: dict[int, tuple[Leaf, NDArray[np.float64], NDArray[np.float64]]] = {}
    for path, pair in by_path.items():
        for leaf in matching(layout, path, "bounds"):
            try:
                low, high = (_per_coordinate(limit, leaf) for limit in pair)
            except (TypeError, ValueError):
                raise InvalidInput(f"bounds: expected (low, high) for {path!r}, got {pair!r:.60}") from None
            bad = np.flatnonzero(~(low < high))
            if bad.size:
                k = int(bad[0])
                raise InvalidInput(f"bounds: expected low < high for {path!r}, got ({low[k]:g}, {high[k]:g})")
            found[leaf.position] = (leaf, low, high)
    return list(found.values())


def _per_coordinate(limit: Any, leaf: Leaf) -> NDArray[np.float64]:
    """Return a limit for each real coordinate of a leaf."""
    array = np.asarray(limit, np.float64)
    if array.shape == leaf.real_shape:
        return array.ravel()
    return np.repeat(np.broadcast_to(array, leaf.shape).ravel(), leaf.parts)


def bounds_from(problem: Problem, limits: Sequence[tuple[Leaf, NDArray[np.float64], NDArray[np.float64]]]) -> Bounds:
    """Return bounds from limits per leaf.

    Raises
    ------
    InvalidInput
        If x0 lies outside of them.
    """
    lower = coordinate_vector(problem, [(leaf, _rounded(low, leaf)) for leaf, low, _ in limits], -np.inf)
    upper = coordinate_vector(problem, [(leaf, _rounded(high, leaf)) for leaf, _, high in limits], np.inf)
    outside = np.flatnonzero((problem.x < lower) | (problem.x > upper))
    if outside.size:
        j = int(outside[0])
        leaf = problem.inputs.leaf_at(j)
        raise InvalidInput(
            f"bounds: x0 lies outside at {leaf.path}{list(leaf.index(j)) or ''}: "
            f"{float(problem.x[j]):g} is not in [{lower[j]:g}, {upper[j]:g}]"
        )
    return Bounds(lower, upper)


def _rounded(limit: NDArray[np.float64], leaf: Leaf) -> NDArray[np.float64]:
    """Return limits as a leaf can hold them, so that float32(0.1) lies within 0.1."""
    with np.errstate(over="ignore"):
        return np.asarray(limit, leaf.real_dtype).astype(np.float64)
