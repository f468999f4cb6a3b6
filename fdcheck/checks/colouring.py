"""Sparse Jacobians: columns that share no output are moved together, so that each entry is still seen by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise, Limits, measure
from fdcheck.checks.locating import located, tilt
from fdcheck.checks.plan import whole
from fdcheck.checks.probing import random_direction
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import Goal, measure_direction
from fdcheck.numerics.noise import Noise
from fdcheck.numerics.steps import default_rtol, typical_noise
from fdcheck.problem.callables import Problem
from fdcheck.problem.endpoints import Claimed, Claims
from fdcheck.settings import Settings

Vector = NDArray[np.float64]

_WORTHWHILE = 4
"""Columns that a group has to hold on average: a group costs as much as one column."""

_ALONE = 16
"""Columns with wrong entries that are measured alone as well, the worst ones; the others are told by their group."""

_SEARCHED, _LEFT = 4, 1e-3
"""Rows with several wrong entries in one group that are searched, and entries looked for in each; part of their sum
that may be left over."""

_NEAR = 0.3
"""Part of a place by which the place that a tilted sum tells may be off."""


@dataclass(frozen=True)
class Colours:
    """Groups of columns that share no output.

    Parameters
    ----------
    pattern : SciPy sparse array, shape (m, n)
        Entries that may differ from zero, as the claim or the user has it.
    group : ndarray of int, shape (n,)
        Group of each column.
    """

    pattern: Any
    group: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Number of groups."""
        return int(self.group.max(initial=-1)) + 1

    @property
    def is_worthwhile(self) -> bool:
        """Whether groups are large enough for moving them to cost less than moving columns."""
        return self.count * _WORTHWHILE <= len(self.group)


@dataclass(frozen=True)
class Entry:
    """One entry whose claim disagrees in the sum of its group.

    Parameters
    ----------
    endpoint : str
        Whose claim.
    row, column : int
        Real output and input coordinate.
    claimed, estimated, error : float
        What is claimed (0 off the pattern), what the group leaves for it, and the error bar of that. Where the column
        could not be told, it is -1, and the claim is that of the sum.
    is_off_pattern : bool
        Whether the pattern leaves the entry out.
    """

    endpoint: str
    row: int
    column: int
    claimed: float
    estimated: float
    error: float
    is_off_pattern: bool


@dataclass(frozen=True)
class Coloured:
    """What moving groups showed.

    Parameters
    ----------
    names : tuple of str
        Endpoints that were compared.
    claims, slope, error : ndarray, shape (e, g, m), (g, m), (g, m)
        What each claims of each group's direction, and what was measured.
    code : ndarray of int8, shape (e, g, m)
        What was decided.
    direction : ndarray, shape (n,)
        How far each column was moved.
    wrong : list of Entry
        Entries that disagree, worst first.
    alone : list of (Problem, Claimed, Elementwise)
        Columns measured alone.
    """

    names: tuple[str, ...]
    claims: NDArray[np.float64]
    slope: NDArray[np.float64]
    error: NDArray[np.float64]
    code: NDArray[np.int8]
    direction: Vector
    wrong: list[Entry]
    alone: list[tuple[Problem, Claimed, Elementwise]]


def colours_of(pattern: Any) -> Colours:
    """Return groups of columns that share no output, for a sparse pattern of shape (m, n).

    Columns are taken in their natural order, in which a banded matrix of width k gives k groups (Curtis, Powell and
    Reid, 1974).
    """
    from scipy.optimize._numdiff import group_columns  # type: ignore[import-untyped]

    columns = pattern.tocsc()
    return Colours(columns, np.asarray(group_columns(columns, np.arange(columns.shape[1])), np.int64))


def look_by_colour(
    problem: Problem, claims: Claims, settings: Settings, noise: Noise, limits: Limits, colours: Colours
) -> Coloured | None:
    """Measure every group of columns and decide every entry of the pattern, and what lies off it.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claims : Claims
        The endpoints; a vjp is not compared here.
    settings : Settings
        Tolerances and seed.
    noise : Noise
        Of the outputs.
    limits : Limits
        Where apply may be evaluated.
    colours : Colours
        The groups.

    Returns
    -------
    Coloured or None
        None where no endpoint is left. Cost: 4 applies and a call of the jvp a group; where entries disagree 4 more of
        such a group, and those of up to 16 columns alone.
    """
    direction = random_direction(problem, limits.bounds, range(problem.inputs.size), settings.seed)
    of_group = [np.where(colours.group == g, direction, 0.0) for g in range(colours.count)]
    claimed = {
        name: np.array([np.full(problem.outputs.size, np.nan) if c is None else c for c in products])
        for name in claims.names
        if name != "vjp"
        for products in [[claims.along(name, d) for d in of_group]]
        if name in claims.names
    }
    if not claimed:
        return None
    against = np.array(list(claimed.values()))
    goal = _goal(problem, settings, against, noise)
    slopes = [
        measure_direction(problem, d, goal(against[:, g], d), noise, limits.bounds, against[:, g])
        for g, d in enumerate(of_group)
    ]
    found = Coloured(
        tuple(claimed),
        against,
        np.array([slope.value for slope in slopes]),
        np.array([slope.error for slope in slopes]),
        np.array([slope.code for slope in slopes]).swapaxes(0, 1),
        direction,
        [],
        [],
    )
    for g, (slope, d) in enumerate(zip(slopes, of_group, strict=True)):
        rows = np.flatnonzero((slope.code == kernels.DISAGREES).any(axis=0))
        if rows.size:
            found.wrong.extend(_entries(problem, claims, noise, limits, colours, found, g, d, rows))
    found.wrong.sort(key=lambda entry: -abs(entry.claimed - entry.estimated) / max(entry.error, 1e-300))
    _measure_alone(problem, claims, settings, noise, limits, colours, found)
    return found


def _goal(problem: Problem, settings: Settings, claims: NDArray[np.float64], noise: Noise) -> Any:
    """Return a function that gives the accuracy asked for along a group's direction, from its claims."""
    rtol_out, rtol_in = default_rtol(problem, settings.rtol)
    rtol = np.maximum(rtol_out, rtol_in.max())
    sizes = np.where(np.isfinite(claims), np.abs(claims), 0.0)
    row = sizes.max(axis=(0, 1), initial=0.0)
    scale = np.where(row > 0, row, np.abs(problem.value.astype(np.float64)))
    _, relative = typical_noise(noise, scale)
    floor = np.minimum(10 * np.maximum(relative, noise.unit) ** (2 / 3), rtol) * scale

    def goal(own: NDArray[np.float64], direction: Vector) -> Goal:
        size = np.where(np.isfinite(own), np.abs(own), 0.0).max(axis=0)
        atol = np.full(len(rtol), (settings.atol or 0.0) * float(np.median(np.abs(direction[direction != 0]))))
        return Goal(row, np.where(size > 0, np.maximum(rtol * size, floor), floor), rtol, atol)

    return goal


def _entries(
    problem: Problem,
    claims: Claims,
    noise: Noise,
    limits: Limits,
    colours: Colours,
    found: Coloured,
    group: int,
    direction: Vector,
    rows: NDArray[np.intp],
) -> list[Entry]:
    """Return the entries that make sums of a group disagree: a tilted sum tells which column is to blame in each row.

    An error in the column that the pattern has in a row is that entry's; one elsewhere is off the pattern.
    """
    members = np.flatnonzero(colours.group == group)
    tilted = direction.copy()
    tilted[members] *= tilt(len(members))
    allowed = np.full(problem.outputs.size, np.inf)
    own = found.claims[:, group]
    off = np.nanmax(np.where(np.isfinite(own), np.abs(own - found.slope[group]), 0.0), axis=0)
    allowed[rows] = np.maximum(off[rows] / (8.0 * len(members)), found.error[group, rows])
    size = np.abs(found.slope[group])
    slope = measure_direction(problem, tilted, Goal(size, allowed), noise, limits.bounds)
    own_column = _column_of_rows(colours, group)
    result: list[Entry] = []
    searched = 0
    for e, name in enumerate(found.names):
        product = claims.along(name, tilted)
        if product is None:
            continue
        for row in rows[found.code[e, group, rows] == kernels.DISAGREES]:
            value, error = float(found.claims[e, group, row] - found.slope[group, row]), float(found.error[group, row])
            place = _place(value, float(product[row] - slope.value[row]), len(members))
            held = int(own_column[row])
            if place is None and not np.isfinite(value):
                result.append(_entry(name, int(row), held, held, found.claims[e, group, row], value, error, direction))
            elif place is not None:
                column = int(members[place])
                result.append(
                    _entry(name, int(row), column, held, found.claims[e, group, row], value, error, direction)
                )
            else:
                searched += 1
                several = _several(
                    problem, claims, noise, limits, name, int(row), members, direction, value, error
                ) if searched <= _SEARCHED else []  # fmt: skip
                result += [
                    _entry(name, int(row), column, held, found.claims[e, group, row], off, bar, direction)
                    for column, off, bar in several
                ]
                if not several:
                    result.append(Entry(name, int(row), -1, float(found.claims[e, group, row]), np.nan, error, True))
    return result


def _entry(
    name: str, row: int, column: int, held: int, claim: float, value: float, error: float, direction: Vector
) -> Entry:
    """Return the entry that leaves a sum off by some value; ``held`` is the column that the pattern has in the row."""
    moved, is_off = float(direction[column]), column != held
    claimed = 0.0 if is_off else float(claim) / moved
    return Entry(name, row, column, claimed, claimed - value / moved, error / abs(moved), is_off)


def _several(
    problem: Problem,
    claims: Claims,
    noise: Noise,
    limits: Limits,
    name: str,
    row: int,
    members: NDArray[np.intp],
    direction: Vector,
    value: float,
    bar: float,
) -> list[tuple[int, float, float]]:
    """Return columns that make the sum of one row disagree together, with the value and error bar of each."""
    base = direction.copy()
    goal = np.full(problem.outputs.size, np.inf)
    goal[row] = abs(value) / (8.0 * len(members))

    def sum_of(first: int, last: int, tilted: bool) -> tuple[float, float]:
        part = np.zeros_like(base)
        own = members[first:last]
        part[own] = base[own] * (tilt(last - first) if tilted else 1.0)
        product = claims.along(name, part)
        if product is None:
            return np.nan, np.inf
        slope = measure_direction(problem, part, Goal(np.abs(product), goal), noise, limits.bounds)
        return float(product[row] - slope.value[row]), float(slope.error[row])

    whole = abs(value)
    found: list[tuple[int, float, float]] = []
    while len(found) < _SEARCHED and abs(value) > max(bar, _LEFT * whole):
        place, _ = located(sum_of, len(members), value, bar)
        if place is None:
            break
        off, error = sum_of(place, place + 1, False)
        found.append((int(members[place]), off, error))
        base[members[place]] = 0.0
        value, bar = value - off, bar + error
    return found


def _place(value: float, tilted: float, count: int) -> int | None:
    """Return the member that a sum comes from by the ratio of the tilted sum to it, None if it is no single one."""
    if not (np.isfinite(value) and np.isfinite(tilted)) or value == 0.0:
        return None
    place = (2.0 * tilted / value - 1.0) * count
    nearest = round(place)
    return nearest if 0 <= nearest < count and abs(place - nearest) <= _NEAR else None


def _column_of_rows(colours: Colours, group: int) -> NDArray[np.int64]:
    """Return the column of a group that the pattern has in each row, -1 where it has none."""
    members = np.flatnonzero(colours.group == group)
    part = colours.pattern[:, members].tocoo()
    column = np.full(part.shape[0], -1, np.int64)
    column[part.row] = members[part.col]
    return column


def _measure_alone(
    problem: Problem,
    claims: Claims,
    settings: Settings,
    noise: Noise,
    limits: Limits,
    colours: Colours,
    found: Coloured,
) -> None:
    """Measure columns with wrong entries alone, and those whose entries are open; drop wrong entries that agree so."""
    columns = dict.fromkeys(entry.column for entry in found.wrong if entry.column >= 0)
    undecided = np.isin(found.code, (kernels.NOISE, kernels.CURVATURE, kernels.EDGE, kernels.KINK, kernels.JUMP))
    for g in np.flatnonzero(undecided.any(axis=(0, 2))):
        own = _column_of_rows(colours, int(g))[undecided[:, g].any(axis=0)]
        columns |= dict.fromkeys(int(j) for j in own[own >= 0][:_ALONE])
    for column in list(columns)[:_ALONE]:
        if problem.is_spent:
            return
        own = np.array([column])
        part = problem.narrowed(own)
        claimed = claims.columns(part, np.empty(0, np.int64))
        alone = measure(part, claimed, settings, limits.of_few(own), whole(part), noise.of_few(own))
        found.alone.append((part, claimed, alone))
