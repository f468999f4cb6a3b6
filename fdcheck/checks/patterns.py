"""Claims beside the measurement as a table, what counts as evidence there, and patterns of values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.findings import Comparison
from fdcheck.numerics import kernels
from fdcheck.problem.callables import Problem
from fdcheck.problem.trees import Leaf

_MEASURED = (kernels.AGREES, kernels.DISAGREES, kernels.KINK, kernels.JUMP)

_TELLS = 3.0
"""Allowances by which a failing claim has to be changed before its agreeing afterwards tells anything: a change
within the allowance of the old value may agree with anything."""

_ACCIDENT = 30.0
"""A pattern is named when less than one accident in so many is expected among all patterns tried with it. A
number that is changed by k allowances agrees by accident about once in k times; the entries multiply."""

_CLEAR = 16.0  # noises above which the gap of the two sides is no accident: twice what the kernels ask of a kink

STANDS_OUT = 3.0  # error bars from zero at which a measured slope is no zero: as in the kernels' noise bars

_NAMES = 6  # columns named one by one; more do not help a reader find the place


@dataclass(frozen=True)
class Table:
    """A block of one endpoint's claims beside the measurement.

    Parameters
    ----------
    outputs, inputs : tuple of Leaf
        What its rows and columns stand for; their starts count within this block.
    rows, columns : ndarray of int
        Coordinates of the whole problem.
    claims, estimate, bar, rtol : ndarray, shape (m, n)
        Claims, measurement, error bars and relative tolerances.
    atol : float
        Absolute tolerance.
    measured, failing : ndarray of bool, shape (m, n)
        Entries that count, and those of them that disagree.
    """

    outputs: tuple[Leaf, ...]
    inputs: tuple[Leaf, ...]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    claims: NDArray[np.float64]
    estimate: NDArray[np.float64]
    bar: NDArray[np.float64]
    rtol: NDArray[np.float64]
    atol: float
    measured: NDArray[np.bool_]
    failing: NDArray[np.bool_]

    @property
    def informative(self) -> NDArray[np.bool_]:
        """Entries that are measured to be no zeros, or fail."""
        stands_out: NDArray[np.bool_] = np.abs(self.estimate) > STANDS_OUT * self.bar
        return self.measured & (stands_out | self.failing)

    @property
    def name(self) -> str:
        """The block's derivative in words."""
        return f"d {', '.join(leaf.path for leaf in self.outputs)} / d {', '.join(leaf.path for leaf in self.inputs)}"

    def allowed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far claims of these values may be off."""
        size = np.fmax(np.abs(values), np.abs(self.estimate))
        return self.atol + self.rtol * size + self.bar

    def off(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which entries would disagree if these values were claimed."""
        with np.errstate(invalid="ignore"):
            near = np.abs(values - self.estimate) <= self.allowed(values)
        changed: NDArray[np.bool_] = (values != self.claims) | self.failing
        return self.measured & ~near & changed

    def turned(self) -> Table:
        """Return the same block with rows for columns."""
        arrays = ("claims", "estimate", "bar", "rtol", "measured", "failing")
        return Table(
            self.inputs, self.outputs, self.columns, self.rows, atol=self.atol,
            **{name: getattr(self, name).T for name in arrays},
        )  # fmt: skip

    def part(self, outputs: Sequence[Leaf], inputs: Sequence[Leaf]) -> Table:
        """Return the block of some leaves."""
        rows, columns = _coordinates(outputs), _coordinates(inputs)
        own = np.ix_(rows, columns)
        arrays = ("claims", "estimate", "bar", "rtol", "measured", "failing")
        return Table(
            _rebased(outputs), _rebased(inputs), self.rows[rows], self.columns[columns], atol=self.atol,
            **{name: getattr(self, name)[own] for name in arrays},
        )  # fmt: skip

    def only(self, mask: NDArray[np.bool_]) -> Table:
        """Return the same block with other entries left out."""
        return dataclasses.replace(self, measured=self.measured & mask, failing=self.failing & mask)


def _coordinates(leaves: Sequence[Leaf]) -> NDArray[np.int64]:
    return np.concatenate([np.arange(leaf.start, leaf.stop) for leaf in leaves])


def _rebased(leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
    ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
    return tuple(dataclasses.replace(leaf, start=int(start)) for leaf, start in zip(leaves, ends, strict=False))


def _bars(comparison: Comparison) -> NDArray[np.float64]:
    """Return the error bars; at a kink as wide as the gap of the two sides, since there is no one slope to compare."""
    found = comparison.found.measurement
    bar = found.error.copy()
    for j, column in found.columns.items():
        rows = np.flatnonzero(np.isin(comparison.code[:, j], (kernels.KINK, kernels.DISAGREES)))
        if not rows.size or len(column.up_step) < 2:
            continue
        h = column.up_step[:2, None]
        right, left = column.up[:2, rows] / h, -column.down[:2, rows] / column.down_step[:2, None]
        gap = right - left
        with np.errstate(invalid="ignore", divide="ignore"):
            steady = (gap[0] / gap[1] > 0.5) & (gap[0] / gap[1] < 2.0)
            seen = np.abs(gap[0]) * h[0] > _CLEAR * comparison.found.rules.noise.level[rows]
            bent = np.abs(gap[0]) > 0.1 * np.maximum(np.abs(right[0]), np.abs(left[0]))
        kinked = (comparison.code[rows, j] == kernels.KINK) | (steady & seen & bent)
        off = np.fmax(np.abs(right[0] - found.estimate[rows, j]), np.abs(left[0] - found.estimate[rows, j]))
        bar[rows, j] = np.where(kinked, np.fmax(bar[rows, j], off), bar[rows, j])
    return bar


def table_of(problem: Problem, comparison: Comparison) -> Table:
    """Return all claims of an endpoint beside the measurement."""
    found, goal = comparison.found.measurement, comparison.found.rules.accuracy
    bar = _bars(comparison)
    measured = np.isfinite(found.estimate) & np.isin(comparison.code, _MEASURED)
    return Table(
        problem.outputs.leaves,
        problem.inputs.leaves,
        np.arange(problem.outputs.size),
        np.arange(problem.inputs.size),
        comparison.claims,
        found.estimate,
        bar,
        np.maximum(goal.rtol_out[:, None], goal.rtol_in[None, :]),
        float(goal.atol[0]),
        measured,
        measured & (comparison.code == kernels.DISAGREES),
    )


@dataclass(frozen=True)
class Pattern:
    """A way in which the claims of a block are wrong.

    Parameters
    ----------
    kind : str
        One stable word for it.
    text : str
        A sentence with its evidence; ``{n}`` stands for the number of entries, ``{in}`` for ``in d y / d x``.
    explained : ndarray of bool, shape (m, n)
        Failing entries that it accounts for.
    repair : str
        What to do about it, empty where the right values are not to be had from the claims.
    repaired : ndarray, shape (m, n), or None
        Claims after the repair, NaN where the claims do not hold the right value.
    counted : int
        Entries that ``{n}`` counts; the explained ones if 0.
    """

    kind: str
    text: str
    explained: NDArray[np.bool_]
    repair: str = ""
    repaired: NDArray[np.float64] | None = None
    counted: int = 0


def is_explained(table: Table, repaired: NDArray[np.float64], tried: int = 1, fitted: int = 0) -> bool:
    """Return whether repaired claims agree everywhere, and so well that it is no accident.

    Parameters
    ----------
    table : Table
        The claims as they are.
    repaired : ndarray, shape (m, n)
        Claims after a repair, NaN where it leaves them open.
    tried : int
        Repairs of this kind that were tried.
    fitted : int
        Numbers of the repair that were taken from the entries themselves.
    """
    known = np.isfinite(repaired)
    explained = table.failing & known
    if 2 * explained.sum() < max(2, table.failing.sum()) or (table.off(repaired) & known).any():
        return False
    moved = np.abs(table.claims[explained] - repaired[explained])
    with np.errstate(divide="ignore"):
        ratios = moved / table.allowed(repaired)[explained]
    telling = np.sort(ratios[ratios > _TELLS])
    if len(telling) < 2:
        return False
    return float(np.log(telling[: len(telling) - fitted]).sum()) >= math.log(_ACCIDENT * tried)


# words


def lines_of(mask: NDArray[np.bool_], leaves: Sequence[Leaf]) -> list[str]:
    """Return names of the elements that stand for columns in which ``mask`` has an entry."""
    hit = hits(mask, 0)
    names: list[str] = []
    for leaf in leaves:
        names.extend(_elements(leaf, elements_hit(leaf, hit)))
    return names


def hits(mask: NDArray[np.bool_], *axes: int) -> NDArray[np.bool_]:
    """Return whether there is an entry along some axes."""
    result: NDArray[np.bool_] = np.any(mask, axis=axes)
    return result


def elements_hit(leaf: Leaf, hit: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which elements of a leaf have a hit coordinate, in its shape."""
    return hits(hit[leaf.start : leaf.stop].reshape(-1, leaf.parts), 1).reshape(leaf.shape)


def _elements(leaf: Leaf, own: NDArray[np.bool_]) -> Iterator[str]:
    """Yield names of elements of a leaf, a slice where they fill one."""
    if own.size > 1 and own.all():
        yield leaf.path
        return
    for axis in range(own.ndim if own.ndim > 1 else 0):
        full = own.all(axis=tuple(k for k in range(own.ndim) if k != axis))
        if full.sum() == own.any(axis=tuple(k for k in range(own.ndim) if k != axis)).sum() > 0:
            before, after = [":"] * axis, [":"] * (own.ndim - axis - 1)
            for index in np.flatnonzero(full):
                yield f"{leaf.path}[{', '.join([*before, str(index), *after])}]"
            return
    for element in np.argwhere(own):
        yield leaf.path + (f"[{', '.join(map(str, element))}]" if len(element) else "")


def listed(names: Sequence[str]) -> str:
    """Return names in a row, a count for those beyond the sixth."""
    if len(names) <= _NAMES:
        return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
    return ", ".join(names[:_NAMES]) + f" and {len(names) - _NAMES} more"


def counted(word: str, names: Sequence[str]) -> str:
    """Return ``columns x[0] and x[2]``."""
    return f"{word}{'s' if len(names) > 1 else ''} {listed(names)}"


@dataclass(frozen=True)
class Cover:
    """What the entries of a mask fill: ``whole``, ``input``, ``output``, ``block``, ``column``, ``row`` or nothing."""

    what: str
    text: str = ""


def cover(table: Table, mask: NDArray[np.bool_]) -> Cover:
    """Return the largest part of a block all of whose informative entries are in ``mask``, and that holds all of it."""
    rest = table.informative & ~mask
    if not rest.any():
        return Cover("whole")
    touched = {
        (a, b): bool(mask[a.start : a.stop, b.start : b.stop].any())
        for a in table.outputs for b in table.inputs
    }  # fmt: skip
    inputs = [b for b in table.inputs if any(touched[a, b] for a in table.outputs)]
    outputs = [a for a in table.outputs if any(touched[a, b] for b in table.inputs)]
    if len(inputs) < len(table.inputs) and not rest[:, _coordinates(inputs)].any():
        return Cover("input", listed([leaf.path for leaf in inputs]))
    if len(outputs) < len(table.outputs) and not rest[_coordinates(outputs)].any():
        return Cover("output", listed([leaf.path for leaf in outputs]))
    blocks = [key for key, hit in touched.items() if hit]
    if len(touched) > len(blocks) and not any(rest[a.start : a.stop, b.start : b.stop].any() for a, b in blocks):
        return Cover("block", listed([f"d {a.path} / d {b.path}" for a, b in blocks]))
    if not (rest & _spread(mask, table.inputs)).any():
        return Cover("column", listed(lines_of(mask, table.inputs)))
    if not (rest & _spread(mask.T, table.outputs).T).any():
        return Cover("row", listed(lines_of(mask.T, table.outputs)))
    return Cover("")


def _spread(mask: NDArray[np.bool_], leaves: Sequence[Leaf]) -> NDArray[np.bool_]:
    """Return the columns, of whole elements, in which ``mask`` has an entry."""
    hit = hits(mask, 0)
    for leaf in leaves:
        own = hit[leaf.start : leaf.stop].reshape(-1, leaf.parts)
        own |= own.any(axis=1, keepdims=True)
    return np.broadcast_to(hit, mask.shape)


def entries_text(table: Table, mask: NDArray[np.bool_]) -> str:
    """Return which entries a mask holds, ``{n}`` for how many: ``all {n} entries by x[1]``."""
    fills = cover(table, mask)
    if fills.what == "whole":
        return "all {n} entries{in}" + ("" if mask.sum() == table.measured.sum() else " that are not zero")
    where = {
        "input": "by {}", "output": "of {}", "block": "of {}", "column": "by {}", "row": "of {}",
    }  # fmt: skip
    if fills.what:
        return "all {n} entries " + where[fills.what].format(fills.text) + "{in} that are not zero"
    right = int((table.informative & ~mask).sum())
    return "all {n} failing entries{in}" + f" ({right} {'others agree' if right > 1 else 'other agrees'})"
