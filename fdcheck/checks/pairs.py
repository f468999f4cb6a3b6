"""What was found, summed up for each endpoint, output path and input path."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.findings import STATUS_OF_CODE, Comparison, tolerance_at
from fdcheck.numerics import kernels
from fdcheck.problem.callables import Problem
from fdcheck.problem.trees import Leaf
from fdcheck.results import Pair, Status


def pairs_of(problem: Problem, comparison: Comparison) -> list[Pair]:
    """Return one summary per output path and input path.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    comparison : Comparison
        One endpoint's claims beside the measurement.
    """
    return [
        _pair(comparison, output, source)
        for output in problem.outputs.leaves
        for source in problem.inputs.leaves
        if (comparison.code[output.start : output.stop, source.start : source.stop] != kernels.SKIPPED).any()
    ]


def _pair(comparison: Comparison, output: Leaf, source: Leaf) -> Pair:
    part = np.s_[output.start : output.stop, source.start : source.stop]
    block, excess = comparison.code[part], comparison.excess[part]
    failed, looked_at = block == kernels.DISAGREES, block != kernels.SKIPPED
    ranked = np.where(failed if failed.any() else looked_at, excess, -1.0)  # a failure is worse than any excess
    counts: dict[str, int] = {}
    for code, number in enumerate(np.bincount(block.ravel())):
        if number and code != kernels.SKIPPED:
            status = str(STATUS_OF_CODE[code])
            counts[status] = counts.get(status, 0) + int(number)
    if Status.KINK in counts or Status.JUMP in counts:  # accepted, though far from the slope that is shown of it
        ranked[(block == kernels.KINK) | (block == kernels.JUMP)] = -0.5
    i, j = divmod(int(ranked.argmax()), source.size)
    row, column = output.start + i, source.start + j
    measurement = comparison.found.measurement
    noticed = comparison.sensitivity[part]
    return Pair(
        endpoint=comparison.endpoint,
        output=output.path,
        input=source.path,
        entries=int(np.count_nonzero(looked_at)),
        counts=counts,
        claimed=float(comparison.claims[row, column]),
        estimated=float(measurement.estimate[row, column]),
        error=float(measurement.error[row, column]),
        eps=float(measurement.eps[row, column]),
        output_index=output.index(row),
        input_index=source.index(column),
        excess=float(comparison.excess[row, column]),
        sensitivity=float(np.fmax.reduce(noticed, axis=None)),
        typical=_middle(noticed),
        tolerance=tolerance_at(comparison, row, column),
    )


def _middle(noticed: NDArray[np.float64]) -> float:
    """Return the upper median of what would have been noticed, of a thousand entries; NaN where none stands out."""
    some = np.sort(noticed.ravel()[:: max(1, noticed.size // 1000)])  # NaN last
    known = some.size - int(np.count_nonzero(np.isnan(some)))
    return float(some[known // 2]) if known else math.nan


def merged_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs of different columns added up, one for each endpoint, output path and input path.

    The numbers are those of the worst: one that fails, or the largest multiple of what is allowed.
    """
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.endpoint, pair.output, pair.input), []).append(pair)
    return [group[0] if len(group) == 1 else _merged(group) for group in groups.values()]


def _merged(group: Sequence[Pair]) -> Pair:
    """Return the sum of pairs of the same block."""
    counts: Counter[str] = Counter()
    for pair in group:
        counts.update(pair.counts)
    worst = max(group, key=lambda pair: (pair.counts.get(str(Status.DISAGREES), 0) > 0, pair.excess))
    largest = max(group, key=lambda pair: pair.entries)
    seen = [pair.sensitivity for pair in group if math.isfinite(pair.sensitivity)]
    return dataclasses.replace(
        worst,
        entries=sum(pair.entries for pair in group),
        counts=dict(counts),
        sensitivity=max(seen, default=math.nan),
        typical=largest.typical,
    )
