"""Points around x0: how they are drawn, and the reports of several points as one."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.findings import by_severity
from fdcheck.checks.pairs import merged_pairs
from fdcheck.numerics.steps import scales
from fdcheck.problem import trees
from fdcheck.problem.callables import Problem
from fdcheck.problem.change import private_copy
from fdcheck.problem.evaluate import Bounds
from fdcheck.results import Coverage, Finding, Report, Verdict

ATTEMPTS = 6
"""Draws for one point, each from half as far as the one before: the last moves an element by a 16th of its size at
most, where a function that is finite at x0 is finite as a rule."""

_REACH = 2.0
"""How far the first draw moves an element at most, in parts of its size. The range is divided among the points, so
that of four or more at least one changes the sign of any given element, and two make it larger."""

_KEPT_VALUES = 1000
"""Numbers of a point that a report keeps; a larger point is drawn again where it is needed."""


def drawn(problem: Problem, bounds: Bounds, seed: int, draw: int, count: int) -> Any:
    """Return a random point around x0: the same structure and dtypes, inside the bounds, integers as they are.

    The points are a Latin hypercube (McKay, Beckman and Conover 1979): every element is once in each of as many equal
    parts of its range as there are points.

    Parameters
    ----------
    problem : Problem
        apply and x0. Inputs that are not selected stay as they are.
    bounds : Bounds
        Where apply may be evaluated.
    seed : int
        Seed of the draws.
    draw : int
        Number of the draw; draws of one point follow each other, :data:`ATTEMPTS` of them, and come closer to x0.
    count : int
        Points in all.
    """
    number, attempt = divmod(draw, ATTEMPTS)
    x, far = problem.x.astype(np.float64), _REACH * 0.5**attempt * scales(problem)
    low, high = np.maximum(x - far, bounds.lower), np.minimum(x + far, bounds.upper)
    order = np.tile(np.arange(count), (problem.inputs.size, 1))
    part = np.random.default_rng([seed, 0x706F69]).permuted(order, axis=1)[:, number]
    share = (part + np.random.default_rng([seed, 0x706F69, draw]).random(problem.inputs.size)) / count
    vector = low + share * (high - low)
    leaves = [private_copy(leaf) for leaf in problem.leaves]
    for leaf in problem.inputs.leaves:
        own = slice(leaf.start, leaf.stop)
        with np.errstate(over="ignore"):
            near = vector[own].astype(leaf.real_dtype)
        inside = np.isfinite(near) & (near >= bounds.lower[own]) & (near <= bounds.upper[own])
        near = np.where(inside, near, problem.x[own].astype(leaf.real_dtype))  # rounding may lead outside
        leaves[leaf.position][...] = (near.view(leaf.dtype) if leaf.parts == 2 else near).reshape(leaf.shape)
    return problem.boxed(leaves)


def is_finite(problem: Problem, at_x0: Problem) -> bool:
    """Return whether apply at a point gives finite numbers wherever it does at x0.

    Parameters
    ----------
    problem, at_x0 : Problem
        apply at the point and at x0.
    """
    finite = np.isfinite(problem.value)
    usual = np.isfinite(at_x0.value)
    return bool(np.all(finite | ~usual) if finite.shape == usual.shape else np.all(finite))


def kept_values(x: Any) -> Mapping[str, NDArray[Any]]:
    """Return the differentiable inputs of a point by path, none where they are too many to keep."""
    leaves, layout = trees.structure(x, "x")
    if layout.size > _KEPT_VALUES:
        return {}
    return {leaf.path: np.array(leaves[leaf.position]) for leaf in layout.leaves}


def together(reports: Sequence[Report], notes: Sequence[str] = ()) -> Report:
    """Return the reports of one check at several points as one.

    Parameters
    ----------
    reports : sequence of Report
        At least one; that of x0 first. Their calls are counted from the start of the whole check.
    notes : sequence of str
        Remarks on the whole.
    """
    verdicts = {report.verdict for report in reports}
    seen = [report.sensitivity for report in reports if math.isfinite(report.sensitivity)]
    diagnoses = {
        (d.endpoint, d.kind, d.repair): d for report in reversed(reports) for d in reversed(report.diagnoses)
    }  # of a pattern that shows at several points the first one
    return dataclasses.replace(
        reports[-1],
        verdict=next(v for v in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS) if v in verdicts),
        findings=tuple(by_severity([_at(f, k) for k, report in enumerate(reports) for f in report.findings])),
        pairs=tuple(merged_pairs([dataclasses.replace(p, point=k) for k, r in enumerate(reports) for p in r.pairs])),
        coverage=_widest([report.coverage for report in reports]),
        sensitivity=max(seen, default=math.nan),
        typical=max((r.typical for r in reports if math.isfinite(r.typical)), default=math.nan),
        notes=tuple(dict.fromkeys([*notes, *_remarks(reports)])),
        diagnoses=tuple(reversed(diagnoses.values())),
        contract_calls=dict(sum((Counter(report.contract_calls) for report in reports), Counter())),
        evidence=next((r.evidence for r in reports if r.verdict is Verdict.FAIL), reports[0].evidence),
    )


def _at(finding: Finding, point: int) -> Finding:
    """Return a finding that tells of another point than x0."""
    if not point:
        return finding
    return dataclasses.replace(finding, point=point, message=re.sub(r"\bx0\b", f"point {point}", finding.message))


def _widest(coverages: Sequence[Coverage]) -> Coverage:
    """Return the coverage of the point at which most was looked at."""
    return max(coverages, key=lambda coverage: (coverage.inputs_measured, coverage.outputs_measured))


def _remarks(reports: Sequence[Report]) -> list[str]:
    """Return the notes on x0 as they are, and those on other points that say something else."""
    first = reports[0].notes
    others = [f"point {k}: {note}" for k, report in enumerate(reports) if k for note in report.notes]
    return [*first, *(text for text in others if text.partition(": ")[2] not in first)]
