"""Columns measured alone, set in their places among all columns: what is not there is NaN or not looked at."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import Measurement
from fdcheck.problem.callables import Problem
from fdcheck.problem.endpoints import Claimed


def widened(
    problem: Problem, columns: NDArray[np.int64], claimed: Claimed, found: Elementwise
) -> tuple[Claimed, Elementwise]:
    """Return claims and measurement of some columns as those of all.

    Parameters
    ----------
    problem : Problem
        apply and x0, with all columns.
    columns : ndarray of int, shape (k,)
        Where the columns belong.
    claimed, found : Claimed, Elementwise
        Of these columns alone.
    """
    n = problem.inputs.size

    def spread(values: NDArray[Any], empty: float | bool) -> NDArray[Any]:
        wide = np.full((*values.shape[:-1], n), empty, values.dtype)
        wide[..., columns] = values
        return wide

    rules, measurement = found.rules, found.measurement
    steps = dataclasses.replace(
        rules.steps, **{f.name: spread(getattr(rules.steps, f.name), np.nan) for f in dataclasses.fields(rules.steps)}
    )
    goal = dataclasses.replace(rules.accuracy, rtol_in=spread(rules.accuracy.rtol_in, np.nan))
    noise = dataclasses.replace(rules.noise, direction=spread(rules.noise.direction, 0.0))
    bounds = dataclasses.replace(
        rules.bounds, lower=spread(rules.bounds.lower, -np.inf), upper=spread(rules.bounds.upper, np.inf)
    )
    wide_rules = dataclasses.replace(rules, noise=noise, steps=steps, accuracy=goal, bounds=bounds)
    evidence = {int(columns[j]): column for j, column in measurement.columns.items()}
    wide = Measurement(
        spread(measurement.code, kernels.SKIPPED),
        spread(measurement.entry, np.nan),
        evidence,
    )
    matrix, masked = spread(claimed.matrix, np.nan), spread(claimed.masked, False)
    return (
        dataclasses.replace(claimed, matrix=matrix, masked=masked),
        Elementwise(wide, wide_rules, spread(found.forced, np.nan), spread(found.rough, False)),
    )
