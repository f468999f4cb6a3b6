"""recommend_eps: which step a plain finite difference should take, from where to where it may, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.advice import EpsAdvice, EpsBlock, EpsPath
from fdcheck.checks.elementwise import limits_from
from fdcheck.checks.plan import planned
from fdcheck.checks.recommending import ABOVE, BELOW, REASONS, USUAL, Recommended, recommend
from fdcheck.checks.sharing import Shared, relative_size
from fdcheck.checks.summary import about_sample
from fdcheck.execution import Execution, checked_execution
from fdcheck.numerics.ladder import CENTRAL, FORWARD
from fdcheck.problem.callables import Function, Problem, measurable_problem
from fdcheck.problem.trees import Leaf
from fdcheck.settings import settings_from


def recommend_eps(
    apply: Callable[[Any], Any],
    x0: Any,
    *,
    rtol: float | None = None,
    input_paths: Sequence[str] | None = None,
    output_paths: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
    max_evals: int = 200,
    seed: int | None = None,
    execution: Execution | None = None,
) -> EpsAdvice:
    """Recommend steps for plain finite differences of ``apply`` at ``x0``.

    Parameters
    ----------
    apply : callable
        ``apply(x) -> y``, as for :func:`verify`.
    x0 : object
        Point; never changed.
    rtol : float, optional
        Relative error that safe steps stay under; by default max(1e-3, 8 eps**(2/3)) with eps of the coarser dtype.
    max_evals : int
        Input elements looked at, at most; of a larger input a sample is drawn as by :func:`verify`. The others have NaN
        in the arrays of ``advice.blocks``.
    input_paths, output_paths, bounds, seed, execution
        As for :func:`verify`.

    Returns
    -------
    EpsAdvice
        ``paths`` with one step for each input path, ``eps_for`` to pass to :func:`verify`, and ``blocks`` with the
        steps of every entry, ``advice['y', 'x']``. Prints as a readable account.

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or apply raises at x0.

    Notes
    -----
    Cost: 10 calls of apply, and about 35 an input element (on the random functions of the project's judge 35 on
    average, 44 or fewer for 95 % of them, 60 at the most); more where an input is zero or its steps have to go far.

    An accurate derivative is extrapolated first. Then plain differences at a ladder of steps, powers of two from
    a few ulps of the input to a quarter of it (further where noise asks for it), are held against it. Their
    deviation falls as 1 / h where noise rules and grows as h**2 (forward: h) where truncation does; the best step
    balances the two [1]_. Of the steps that are equally good by that, the one whose difference came closest is
    recommended. A step is called safe where three noises, one and a half truncations and the error bar of the
    derivative together stay under rtol of the derivative, or of what of it matters beside the rest of its row.

    References
    ----------
    .. [1] P. E. Gill, W. Murray, M. A. Saunders and M. H. Wright, "Computing forward-difference intervals for
       numerical optimization", SIAM Journal on Scientific and Statistical Computing 4(2), 310-321, 1983.

    Examples
    --------
    >>> import numpy as np
    >>> import fdcheck
    >>> advice = fdcheck.recommend_eps(np.sin, 1.0)
    >>> 1e-6 < advice.eps_for['x'] < 1e-4
    True
    >>> bool(advice.paths[0].low < 1e-8), advice.paths[0].above
    (True, 'curvature')
    """
    settings = settings_from(
        "strict", method="elementwise", rtol=rtol, input_paths=input_paths, output_paths=output_paths, bounds=bounds,
        max_evals=max_evals,
        seed=seed,
    )  # fmt: skip
    settings = dataclasses.replace(settings, eps=None, eps_for={})  # a step that a project forces is no advice
    function = Function("apply", apply)
    with np.errstate(all="ignore"):  # overflow and NaN beside x0 are looked at, not warned of
        paths = settings.input_paths, settings.output_paths
        problem = measurable_problem(function, x0, *paths, checked_execution(execution))
        plan = planned(problem, settings)
        result = recommend(problem, settings, limits_from(problem, settings), plan)
    goal = result.found.rules.accuracy
    return EpsAdvice(
        paths=tuple(_path(problem, result, b, leaf) for b, leaf in enumerate(problem.inputs.leaves)),
        blocks=tuple(
            _block(result, (a, output), (b, source))
            for a, output in enumerate(problem.outputs.leaves)
            for b, source in enumerate(problem.inputs.leaves)
        ),
        rtol=float(max(goal.rtol_out.max(), goal.rtol_in.max())),
        applies=function.calls,
        seed=settings.seed,
        notes=(*_notes(problem, result), *about_sample(plan, settings, ())),
    )


def _block(result: Recommended, output: tuple[int, Leaf], source: tuple[int, Leaf]) -> EpsBlock:
    """Return the steps of one output leaf and one input leaf."""
    (a, rows), (b, columns) = output, source
    part = np.s_[rows.start : rows.stop, columns.start : columns.stop]
    shape = (*rows.real_shape, *columns.real_shape)
    arrays = {
        prefix + name: array[kind][part].reshape(shape)
        for kind, prefix in ((CENTRAL, ""), (FORWARD, "forward_"))
        for name, array in (("eps", result.step), ("error", result.error), ("low", result.low), ("high", result.high))
    }
    words = {
        name: np.array(known)[codes[part]].reshape(shape)
        for name, known, codes in (
            ("below", BELOW, result.below), ("above", ABOVE, result.above), ("reason", REASONS, result.reason)
        )
    }  # fmt: skip
    step, error, outside = _one_step(result, part, result.shared[a, b])
    return EpsBlock(
        output=rows.path,
        input=columns.path,
        value=result.found.measurement.estimate[part].reshape(shape),
        noise=result.found.rules.noise.level[rows.start : rows.stop].reshape(rows.real_shape),
        step=step,
        step_error=error,
        outside=outside,
        usual=_usual(result, part),
        **arrays,
        **words,
    )


def _path(problem: Problem, result: Recommended, b: int, leaf: Leaf) -> EpsPath:
    """Return the step that serves all outputs of one input leaf."""
    part = np.s_[:, leaf.start : leaf.stop]
    shared = sum((result.shared[a, b] for a in range(1, len(problem.outputs.leaves))), result.shared[0, b])
    step, error, outside = _one_step(result, part, shared)
    counted = _counted(result, part)
    low, high = (np.where(counted, array[CENTRAL][part], np.nan) for array in (result.low, result.high))
    exists = np.isfinite(low)
    below = above = ""
    lowest = highest = np.nan
    if exists.any():
        narrow, wide = np.nanargmax(low), np.nanargmin(high)
        if low.flat[narrow] <= high.flat[wide]:
            lowest, highest = float(low.flat[narrow]), float(high.flat[wide])
        below, above = BELOW[result.below[part].flat[narrow]], ABOVE[result.above[part].flat[wide]]
    codes, counts = np.unique(result.reason[part][counted], return_counts=True)
    return EpsPath(
        input=leaf.path, eps=step, error=error, low=lowest, high=highest, below=below, above=above,
        entries=int(counted.sum()), outside=outside, without=int((counted & ~exists).sum()),
        reasons={REASONS[code]: int(count) for code, count in zip(codes, counts, strict=True) if code},
        usual=_usual(result, part), curve=result.curves.get(b, (0.0, None))[1],
    )  # fmt: skip


def _one_step(result: Recommended, part: Any, shared: Shared) -> tuple[float, float, int]:
    """Return one step for a part of the entries, the largest relative error expected there, and how many it leaves out.

    Where all entries agree on their best step it is that one.
    """
    counted = _counted(result, part)
    low, step = result.low[CENTRAL][part], result.step[CENTRAL][part]
    wanted = counted & np.isfinite(low)
    own = np.unique(step[wanted if wanted.any() else counted & np.isfinite(step)])
    if not result.depends[part].any() and own.size:
        return float(own[len(own) // 2]), 0.0, 0
    if len(own) == 1:
        relative = relative_size(result.error[CENTRAL][part], result.reference[part])
        return float(own[0]), float(relative[counted & (step == own[0])].max()), 0
    return shared.choice()


def _counted(result: Recommended, part: Any) -> NDArray[np.bool_]:
    """Return which entries of a part have a say: those that depend on the input, or all that were looked at."""
    depends: NDArray[np.bool_] = result.depends[part]
    return depends if depends.any() else result.measured[part]


def _usual(result: Recommended, part: Any) -> dict[str, float]:
    """Return the largest relative error expected at each usual step, NaN where there is no derivative at all."""
    found = {}
    for name, errors in zip(USUAL, result.usual, strict=True):
        known = errors[part][_counted(result, part) & ~np.isnan(errors[part])]
        found[name] = float(known.max()) if known.size else float("nan")
    return found


def _notes(problem: Problem, result: Recommended) -> list[str]:
    """Return remarks on apply and on what was left out."""
    notes = [breach.finding.message for breach in problem.course.breaches()]
    scatter = result.found.rules.noise.scatter
    if scatter > 0:
        notes.append(f"two calls of apply at x0 differ by {scatter:.1g} of the value; the steps allow for that noise.")
    if problem.apply.mutated:
        notes.append("apply changes its argument in place; it was given copies, x0 is as it was.")
    if problem.inputs.carried:
        notes.append("carried along, not differentiated: " + ", ".join(problem.inputs.carried))
    resting = [leaf.path for leaf in (*problem.inputs.resting, *problem.outputs.resting)]
    if resting:
        notes.append("not selected: " + ", ".join(resting))
    return notes
