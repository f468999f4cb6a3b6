"""Sparse Jacobians: columns that share no output are moved together, so that each entry is still seen by itself."""

from __future__ import annotations

import math
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

_TRACED = 4
"""Sums that several entries make disagree which are traced, and columns to which one is traced, at most."""

_READ = 32.0
"""How many times finer than one place of its group a sum that tells places is measured."""

_NEAR, _READABLE = 0.005, 0.3
"""Part of a place by which a place that is read off may miss a whole number, beside its error bar; and the error bar
from which on nothing is read off."""


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
        What is claimed (0 off the pattern), what the group leaves for it, and the error bar of that.
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
    several : list of (int, int, int)
        Endpoint, group and row of sums that disagree by more than one entry: no place could be read off.
    rtol : ndarray, shape (m,)
        Relative tolerance of each output.
    """

    names: tuple[str, ...]
    claims: NDArray[np.float64]
    slope: NDArray[np.float64]
    error: NDArray[np.float64]
    code: NDArray[np.int8]
    direction: Vector
    wrong: list[Entry]
    alone: list[tuple[Problem, Claimed, Elementwise]]
    several: list[tuple[int, int, int]]
    rtol: Vector

    def left(self, colours: Colours, e: int, group: int, row: int) -> tuple[float, float]:
        """Return by how much a sum is off beside what columns measured alone explain, and what it may be off."""
        value = float(self.claims[e, group, row] - self.slope[group, row])
        bar = 2.0 * float(self.error[group, row] + self.rtol[row] * abs(self.slope[group, row]))
        for part, claimed, alone in self.alone:
            column = int(part.columns[0])
            if colours.group[column] != group or self.names[e] not in claimed.names:
                continue
            moved = float(self.direction[column])
            claim = claimed.matrix[claimed.names.index(self.names[e]), row, 0]
            value -= float(claim - alone.measurement.estimate[row, 0]) * moved
            bar += 2.0 * float(alone.measurement.error[row, 0]) * abs(moved)
        return (value, bar) if math.isfinite(value) else (0.0, bar)  # a claim that is not finite was found


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
    rtol_out, rtol_in = default_rtol(problem, settings.rtol)
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
        [],
        np.maximum(rtol_out, rtol_in.max()),
    )
    for g, (slope, d) in enumerate(zip(slopes, of_group, strict=True)):
        rows = np.flatnonzero((slope.code == kernels.DISAGREES).any(axis=0))
        if rows.size:
            _tell_apart(problem, claims, noise, limits, colours, found, g, d, rows)
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


def _tell_apart(
    problem: Problem,
    claims: Claims,
    noise: Noise,
    limits: Limits,
    colours: Colours,
    found: Coloured,
    group: int,
    direction: Vector,
    rows: NDArray[np.intp],
) -> None:
    """Add the entries that make sums of a group disagree, and the sums in which it is several.

    A tilted sum tells which column is to blame in each row, and a sum with random weights whether it is that one alone.
    An error in the column that the pattern has in a row is that entry's; one elsewhere is off the pattern.
    """
    members = np.flatnonzero(colours.group == group)
    allowed = np.full(problem.outputs.size, np.inf)
    own = found.claims[:, group]
    off = np.nanmax(np.where(np.isfinite(own), np.abs(own - found.slope[group]), 0.0), axis=0)
    allowed[rows] = np.maximum(off[rows] / (_READ * len(members)), found.error[group, rows])
    goal = Goal(np.abs(found.slope[group]), allowed)
    random = np.random.default_rng([group, 0x746F6C64]).permutation(tilt(len(members)))
    sums = []
    for weights in (tilt(len(members)), random):
        weighted = direction.copy()
        weighted[members] *= weights
        slope = measure_direction(problem, weighted, goal, noise, limits.bounds)
        sums.append((weights, slope, {name: claims.along(name, weighted) for name in found.names}))
    own_column = _column_of_rows(colours, group)
    for e, name in enumerate(found.names):
        for row in map(int, rows[found.code[e, group, rows] == kernels.DISAGREES]):
            value, bar = float(found.claims[e, group, row] - found.slope[group, row]), float(found.error[group, row])
            readings = [
                (weights, float(product[row] - slope.value[row]) / value, float(slope.error[row] + bar) / abs(value))
                for weights, slope, products in sums
                for product in [products[name]]
                if product is not None and value != 0.0
            ]
            place = _place(readings, len(members))
            column = int(own_column[row]) if place is None else int(members[place])
            if place == _SEVERAL or column < 0:
                found.several.append((e, group, row))
                continue
            is_off = column != own_column[row]
            claimed = 0.0 if is_off else float(found.claims[e, group, row]) / float(direction[column])
            estimate = claimed - value / float(direction[column])
            error = bar / abs(float(direction[column]))
            found.wrong.append(Entry(name, row, column, claimed, estimate, error, bool(is_off)))


_SEVERAL = -1
"""In place of a place: no single member explains the sums."""


def _place(readings: list[tuple[Vector, float, float]], count: int) -> int | None:
    """Return the member that sums come from by their ratios to the plain one, None where they cannot be read.

    The first weights grow evenly from 1/2 to 1.
    """
    if len(readings) < 2 or not all(math.isfinite(ratio) for _, ratio, _ in readings):
        return None
    near = [_NEAR + 2.0 * count * spread for _, _, spread in readings]
    if max(near) > _READABLE:
        return None
    place = (2.0 * readings[0][1] - 1.0) * count
    nearest = round(place)
    if not 0 <= nearest < count or abs(place - nearest) > near[0]:
        return _SEVERAL
    weights, ratio, _ = readings[1]
    return nearest if 2.0 * count * abs(ratio - float(weights[nearest])) <= near[1] else _SEVERAL


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
    columns = dict.fromkeys(entry.column for entry in found.wrong)
    undecided = np.isin(found.code, (kernels.NOISE, kernels.CURVATURE, kernels.EDGE, kernels.KINK, kernels.JUMP))
    for g in np.flatnonzero(undecided.any(axis=(0, 2))):
        own = _column_of_rows(colours, int(g))[undecided[:, g].any(axis=0)]
        columns |= dict.fromkeys(int(j) for j in own[own >= 0][:_ALONE])
    for column in list(columns)[:_ALONE]:
        if problem.is_spent:
            return
        _measure_column(problem, claims, settings, noise, limits, found, column)
    for e, group, row in found.several[:_TRACED]:
        _trace_row(problem, claims, settings, noise, limits, colours, found, e, group, row)


def _measure_column(
    problem: Problem, claims: Claims, settings: Settings, noise: Noise, limits: Limits, found: Coloured, column: int
) -> bool:
    """Measure a column alone, and return whether an entry of it disagrees."""
    own = np.array([column])
    part = problem.narrowed(own)
    claimed = claims.columns(part, np.empty(0, np.int64))
    alone = measure(part, claimed, settings, limits.of_few(own), whole(part), noise.of_few(own))
    found.alone.append((part, claimed, alone))
    return bool((alone.measurement.code == kernels.DISAGREES).any())


def _trace_row(
    problem: Problem,
    claims: Claims,
    settings: Settings,
    noise: Noise,
    limits: Limits,
    colours: Colours,
    found: Coloured,
    e: int,
    group: int,
    row: int,
) -> None:
    """Measure columns alone to which a sum leads that disagrees by several entries, until it is explained."""
    members = np.flatnonzero(colours.group == group)
    for _ in range(_TRACED):
        value, bar = found.left(colours, e, group, row)
        if problem.is_spent or not abs(value) > bar:
            return
        known = {int(part.columns[0]) for part, _, _ in found.alone}
        base = np.where([int(j) in known for j in members], 0.0, found.direction[members])
        goal = np.full(problem.outputs.size, np.inf)
        goal[row] = abs(value) / (_READ * len(members))

        def sum_of(
            first: int, last: int, tilted: bool, base: Vector = base, goal: Vector = goal
        ) -> tuple[float, float]:
            part = np.zeros_like(found.direction)
            weights = tilt(last - first) if tilted else 1.0
            part[members[first:last]] = base[first:last] * weights
            slope = measure_direction(problem, part, Goal(np.abs(found.slope[group]), goal), noise, limits.bounds)
            claim = claims.along(found.names[e], part)
            if claim is None or not math.isfinite(slope.value[row]):
                return 0.0, math.inf
            return float(claim[row] - slope.value[row]), float(slope.error[row])

        place, _ = located(sum_of, len(members), value, bar)
        if place is None or int(members[place]) in known:
            return
        if not _measure_column(problem, claims, settings, noise, limits, found, int(members[place])):
            return
