"""What the figures of a report need, taken from the matrices of a check before these are let go."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.findings import Comparison, tolerance_at
from fdcheck.evidence import MARKS, Evidence
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import Column
from fdcheck.problem.callables import Problem
from fdcheck.problem.trees import Layout
from fdcheck.results import Finding, Measured, Status

_BINS = 64
"""Bins an axis is cut into, beside the cuts between paths: a figure shows no more."""

_POINTS = 2000
"""Points that a scatter shows before they hide each other."""

_LOOKED_AT = 8
"""Columns among which a typical entry is looked for."""

_MARK_OF_CODE = np.zeros(kernels.SKIPPED + 1, np.int8)
for _code, _mark in (
    (kernels.AGREES, "agrees"),
    (kernels.KINK, "kink or jump"),
    (kernels.JUMP, "kink or jump"),
    (kernels.NOISE, "undecided"),
    (kernels.CURVATURE, "undecided"),
    (kernels.EDGE, "undecided"),
    (kernels.NONFINITE, "undecided"),
    (kernels.DISAGREES, "disagrees"),
):
    _MARK_OF_CODE[_code] = MARKS.index(_mark)


def add_evidence(evidence: dict[str, Evidence], part: Problem, comparison: Comparison) -> None:
    """Add what figures need of some columns to what is there of others.

    Parameters
    ----------
    evidence : dict of str to Evidence
        By endpoint; receives it.
    part : Problem
        apply and x0, in the columns that were measured.
    comparison : Comparison
        One endpoint's claims beside the measurement. Of few entries the arrays are kept, of many bins and a sample.
    """
    own = _evidence_of(part, comparison)
    others = evidence.get(own.endpoint)
    evidence[own.endpoint] = own if others is None else _merged(others, own)


def _evidence_of(part: Problem, comparison: Comparison) -> Evidence:
    """Return what figures need of some columns."""
    outputs, inputs = part.outputs, part.inputs
    marks = _MARK_OF_CODE[comparison.code]
    excess, measurement = comparison.excess, comparison.found.measurement
    chosen = slice(None) if excess.size <= _POINTS else _sample(marks.ravel(), excess.ravel())
    values = (comparison.claims, measurement.estimate, measurement.error)
    claimed, estimated, error = (array.ravel()[chosen] for array in values)
    point_marks = marks.ravel()[chosen]
    rows, columns = _bins(outputs), _bins(inputs)
    if (len(rows) - 1, len(columns) - 1) != excess.shape:
        excess = _largest(np.where(marks > 0, excess, 0.0), rows, columns)
        marks = _largest(marks, rows, columns)
    starts = tuple(leaf.start for leaf in inputs.leaves)
    among = part.columns
    if among[-1] >= len(among):  # not all columns: back to their places in the whole Jacobian
        starts = tuple(int(among[leaf.start]) - leaf.number(leaf.start) for leaf in inputs.leaves)
        columns = np.append(among[columns[:-1]], among[-1] + 1)
    return Evidence(
        comparison.endpoint,
        tuple(leaf.path for leaf in outputs.leaves),
        tuple(leaf.path for leaf in inputs.leaves),
        tuple(leaf.start for leaf in outputs.leaves),
        starts,
        rows,
        columns,
        excess,
        marks,
        claimed,
        estimated,
        error,
        point_marks,
        _typical(part, comparison),
    )


def _merged(one: Evidence, other: Evidence) -> Evidence:
    """Return the evidence of different columns as one, no larger than each may be."""
    begins = np.concatenate([one.columns[:-1], other.columns[:-1]])
    order = np.argsort(begins, kind="stable")
    excess, marks = (
        np.concatenate([a, b], axis=1)[:, order] for a, b in ((one.excess, other.excess), (one.marks, other.marks))
    )
    kept = np.arange(0, len(order), -(-len(order) // (2 * _BINS)))  # neighbours share a bin where there are too many
    excess, marks = (np.maximum.reduceat(array, kept, axis=1) for array in (np.where(marks > 0, excess, 0.0), marks))
    point_marks = np.concatenate([one.point_marks, other.point_marks])
    chosen = _sample(point_marks, np.zeros(len(point_marks))) if len(point_marks) > _POINTS else slice(None)
    pairs = ((one.claimed, other.claimed), (one.estimated, other.estimated), (one.error, other.error))
    claimed, estimated, error = (np.concatenate(pair)[chosen] for pair in pairs)
    paths = dict(zip(one.inputs, one.input_starts, strict=True)) | dict(
        zip(other.inputs, other.input_starts, strict=True)
    )
    inputs = tuple(sorted(paths, key=paths.__getitem__))
    return dataclasses.replace(
        one,
        inputs=inputs,
        input_starts=tuple(paths[path] for path in inputs),
        columns=np.append(begins[order][kept], max(one.columns[-1], other.columns[-1])),
        excess=excess,
        marks=marks,
        claimed=claimed,
        estimated=estimated,
        error=error,
        point_marks=point_marks[chosen],
        typical=one.typical or other.typical,
    )


def _bins(layout: Layout) -> NDArray[np.int64]:
    """Return where the bins of an axis begin, and its end: no bin lies in two paths, if they are not too many."""
    if layout.size <= _BINS:
        return np.arange(layout.size + 1)
    cuts = {k * layout.size // _BINS for k in range(_BINS + 1)}
    if len(layout.leaves) <= _BINS:
        cuts.update(leaf.start for leaf in layout.leaves)
    return np.array(sorted(cuts))


def _largest(values: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any]:
    """Return the largest value of each bin."""
    largest: NDArray[Any] = np.maximum.reduceat(np.maximum.reduceat(values, columns[:-1], axis=1), rows[:-1], axis=0)
    return largest


def _sample(marks: NDArray[np.int8], excess: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return entries for a scatter: half of the room for the gravest, the rest spread over all that was looked at."""
    odd, plain = np.flatnonzero(marks > MARKS.index("agrees")), np.flatnonzero(marks == MARKS.index("agrees"))
    if len(odd) > _POINTS // 2:
        odd = odd[np.lexsort((-excess[odd], -marks[odd]))[: _POINTS // 2]]
    return np.concatenate([plain[:: -(-len(plain) // (_POINTS - len(odd))) or 1], odd])


def _typical(problem: Problem, comparison: Comparison) -> Finding | None:
    """Return the largest entry that agrees, in a few columns whose steps were kept."""
    found, best, place = comparison.found, -1.0, None
    for j in list(found.measurement.columns)[-_LOOKED_AT:]:  # the last one of the first chunk is plain
        size = np.where(comparison.code[:, j] == kernels.AGREES, np.abs(found.measurement.estimate[:, j]), -1.0)
        i = int(size.argmax())
        if size[i] > best:
            best, place = float(size[i]), (i, j)
    return None if place is None else _plain(problem, comparison, *place)


def _plain(problem: Problem, comparison: Comparison, i: int, j: int) -> Finding:
    """Return an entry that agrees, with its steps."""
    found = comparison.found
    output, source = problem.outputs.leaf_at(i), problem.inputs.leaf_at(j)
    estimate, error, eps = found.measurement.entry[:, i, j].tolist()
    return Finding(
        comparison.endpoint,
        Status.AGREES,
        "",
        source.path,
        source.index(j),
        output.path,
        output.index(i),
        claimed=float(comparison.claims[i, j]),
        estimated=estimate,
        error=error,
        eps=eps,
        steps=tuple(_steps(found.measurement.columns[j], i)),
        tolerance=tolerance_at(comparison, i, j),
        noise=float(found.rules.noise.level[i]),
        forced=float(found.forced[j]),
    )


def _steps(column: Column, output: int) -> Iterator[Measured]:
    """Yield the steps of a plain entry: central slopes, or those of one side where the other is missing."""
    spacings = column.up_step.tolist(), column.down_step.tolist()
    for h, back, up, down in zip(
        *spacings, column.up[:, output].tolist(), column.down[:, output].tolist(), strict=True
    ):
        right = up / h if h > 0 and math.isfinite(up) else math.nan  # a step may be lost in the rounding of the input
        left = -down / back if back > 0 and math.isfinite(down) else math.nan
        central = (right * back + left * h) / (h + back) if h + back > 0 else math.nan
        slope = next((value for value in (central, right, left) if math.isfinite(value)), math.nan)
        if math.isfinite(slope):
            yield Measured(h, slope, left, right)
