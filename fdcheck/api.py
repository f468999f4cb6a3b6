"""verify and differentiate: each reads as the story of one check."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fdcheck.at_points import Asked, check_at_points, split_points
from fdcheck.checks.checking import Outcome, check
from fdcheck.checks.contract import Owing, without_kinks
from fdcheck.checks.elementwise import Elementwise, limits_from, measure
from fdcheck.checks.findings import STATUS_OF_CODE
from fdcheck.checks.interrupts import report_kept
from fdcheck.checks.plan import planned, whole
from fdcheck.checks.summary import findings_about_apply, report_of, steps_left_out, without_restless
from fdcheck.estimates import Block, Estimate
from fdcheck.execution import Execution, Progressive, checked_execution
from fdcheck.numerics import kernels
from fdcheck.problem.callables import Function, Problem, measurable_problem
from fdcheck.problem.endpoints import Claims
from fdcheck.report.bar import told
from fdcheck.results import InvalidInput, Report, Status
from fdcheck.settings import Contract, Settings, settings_from


def verify(
    apply: Callable[[Any], Any],
    x0: Any,
    *,
    jacobian: Callable[[Any], Any] | None = None,
    jvp: Callable[[Any, Any], Any] | None = None,
    vjp: Callable[[Any, Any], Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
    eps_for: Mapping[str, float] | None = None,
    input_paths: Sequence[str] | None = None,
    output_paths: Sequence[str] | None = None,
    endpoints: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
    directions: Any = None,
    points: int | Sequence[Any] | None = None,
    method: str | None = None,
    sparsity: Any = None,
    max_evals: int | None = None,
    max_applies: int | None = None,
    max_output_samples: int | None = None,
    max_failures: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    contract: Contract | None = None,
    skip: Sequence[str] | None = None,
    execution: Execution | None = None,
    progress: Progressive = None,
) -> Report:
    """Check derivatives of ``apply`` against finite differences with error bars.

    Parameters
    ----------
    apply : callable
        ``apply(x) -> y``, one structured input to one structured output: arrays, scalars, and nested dicts,
        lists, tuples, namedtuples and dataclasses of them.
    x0 : object
        Point at which to check. Its dtypes are kept: a float32 leaf is moved in float32. Integer, bool,
        string and None leaves are carried along. Never changed.
    jacobian : callable, optional
        ``jacobian(x)``; for one array in and out of shape ``(*y.shape, *x.shape)``, or a SciPy sparse matrix
        or LinearOperator of shape ``(y.size, x.size)``; for structures y's structure with x's structure in
        each leaf. A complex one is a holomorphic derivative.
    jvp : callable, optional
        ``jvp(x, tangent)``, a tangent like x to a result like y. Leaves that carry no derivative (integers,
        strings) are None in the tangent; in the result None stands for zero.
    vjp : callable, optional
        ``vjp(x, cotangent)``, a cotangent like y to a result like x, None as for jvp. Complex: the adjoint for
        Re<a, b>.
    rtol : float, optional
        Relative tolerance of an entry; by default max(1e-3, 8 eps**(2/3)) with eps of its coarser dtype.
    atol : float, optional
        Absolute tolerance, in the unit of the entry; 0 by default.
    eps : float, optional
        Step (half-width of the central difference) forced on every input, in the unit of the input.
    eps_for : dict of str to float, optional
        Steps forced on the inputs that a path or glob names; wins over ``eps``.
    input_paths, output_paths : sequence of str, optional
        Paths or globs (``*``, ``?``) of the parts to check.
    endpoints : sequence of str, optional
        Which of the given endpoints to check.
    bounds : dict of str to (float, float), or (float, float), optional
        Inclusive limits within which inputs may be moved, by path or glob, or one pair for all; numbers, or arrays
        of the input's shape. Without them an input stays within a quarter of its scale as a rule; where a claim is
        off, jumps of apply are looked for as far away as twice the size of the input, without changing its sign.
    directions : array_like, callable, or dict of str to them, optional
        Directions along which constrained inputs move, instead of one element after the other: for each path a stack
        of shape ``(k, *shape)``, or a callable that returns one for the value of the input. What is compared is J d
        for each direction d, and apply is called at x0 + h d only.
    points : int or sequence, optional
        So many random points around x0 are checked beside it, or the points that are given, each with the structure
        and dtypes of x0. Random ones move every element by up to twice its size, within the bounds; where apply is
        not finite another one is drawn.
    method : str, optional
        ``'elementwise'`` moves inputs one by one; ``'probe'`` moves all of them together along a random direction and
        traces a disagreement to its entries, at a cost that does not grow with the input; ``'auto'``, the default,
        takes the first for up to 1000 inputs or where ``max_evals``, ``max_applies`` or a step is given, else the
        second, and adds a sample of inputs moved one by one where that says too little of single entries. With a sparse
        pattern ``'auto'`` moves inputs together that share no output, so that each entry is still seen by itself.
    sparsity : SciPy sparse array, array or 'detect', optional
        Which entries of the Jacobian, outputs by inputs, may differ from zero; by default what a sparse jacobian holds.
        ``'detect'`` looks for a band or for blocks along the diagonal in 12 columns. Entries that a claim leaves out
        are found and fail.
    max_evals : int, optional
        Input elements moved one by one, at most; by default all of up to 1000. Of a larger input a sample is drawn
        without replacement, a few elements of every path and the rest in proportion to size; the elements outside of it
        are checked together along one random direction.
    max_applies : int, optional
        Calls of apply, at most; no limit by default. Fewer elements are sampled where it would not suffice, and what
        is still open when it is spent is undecided.
    max_output_samples : int, optional
        Output elements for which a vjp is called one by one, at most, drawn without replacement; by default all of up
        to 1000, and 32 of more. The others are checked through random sums of all outputs.
    max_failures : int, optional
        Findings that ``print(report)`` shows of each endpoint; 10 by default. The report itself keeps them.
    seed : int, optional
        Seed of the random directions and samples; 0 by default. What is drawn of a path hangs on the seed and that
        path alone, so a check narrowed to fewer endpoints or paths sees the same elements.
    profile : str, optional
        ``'default'``, ``'quick'`` (half the applies), ``'strict'`` (full accuracy before comparing), ``'noisy'``
        (a tolerance of 2 %), or a name of a file ``fdcheck profiles`` lists.
    contract : Contract, optional
        How strictly the contract of endpoints is checked: repeatability, dtypes, batches, masked Jacobians.
    skip : sequence of str, optional
        Parts of the contract that are not checked, by the status that a breach would have: ``'dtype'``, ``'mutation'``,
        ``'nondeterministic'``, ``'hidden_state'``, ``'nonlinear'``, ``'layout'``, ``'adjoint'``.
    execution : Execution, optional
        How apply is evaluated: by the workers of an executor, in stacks of points, within limits of time.
    progress : bool or callable, optional
        True for a bar on stderr, where that is a terminal; or a callable that is given a :class:`Progress` after each
        call of apply, or each chunk of calls.

    Returns
    -------
    Report
        True in a boolean context if the verdict is ``'pass'``. A mismatch does not raise; see
        :meth:`Report.raise_if_failed`.

    Raises
    ------
    InvalidInput
        If an argument cannot be used; the message names it.
    KeyboardInterrupt
        If the check is interrupted. The report of what was found by then is its attribute ``report``.

    Notes
    -----
    Cost in calls of apply: 10 for the point and its noise, 2 for its contract, then 4 an input element as a rule (2
    with ``'quick'``), shared by all outputs and endpoints; more where a first look leaves a doubt. A jvp is called
    once per input element, a vjp once per output element, and each at most 12 times more for its contract, a jacobian
    3 times. Each of ``points`` costs as much again. The method is that of central differences extrapolated over several
    steps [1]_ with measured noise [2]_.

    References
    ----------
    .. [1] C. J. F. Ridders, "Accurate computation of F'(x) and F'(x) F''(x)", Advances in Engineering
       Software 4(2), 75-76, 1982.
    .. [2] J. J. Moré and S. M. Wild, "Estimating computational noise", SIAM Journal on Scientific Computing
       33(3), 1292-1314, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> import fdcheck
    >>> report = fdcheck.verify(np.sin, np.array([0.1, 0.2]), vjp=lambda x, ct: ct * np.cos(x))
    >>> str(report.verdict)
    'pass'
    >>> wrong = fdcheck.verify(np.sin, np.array([0.1, 0.2]), vjp=lambda x, ct: ct * np.sin(x))
    >>> bool(wrong), wrong.findings[0].input, wrong.findings[0].input_index
    (False, 'x', (0,))
    """
    count, further = split_points(points, x0)
    if sparsity is not None and directions is not None:
        raise InvalidInput("sparsity: expected None with directions, which stand in the place of some columns")
    settings = settings_from(
        profile, rtol=rtol, atol=atol, eps=eps, eps_for=eps_for, input_paths=input_paths, output_paths=output_paths,
        endpoints=endpoints, bounds=bounds, points=count, method=method, max_evals=max_evals, max_applies=max_applies,
        max_output_samples=max_output_samples, max_failures=max_failures, seed=seed, contract=contract, skip=skip,
    )  # fmt: skip
    given = given_endpoints({"jacobian": jacobian, "jvp": jvp, "vjp": vjp}, settings)
    Function("apply", apply)  # refuses what cannot be called
    with np.errstate(all="ignore"), told(progress) as tell:  # overflow and NaN beside x0 are no reason to warn
        asked = Asked(apply, given, settings, directions, tell, checked_execution(execution))
        return check_at_points(functools.partial(check_point, sparsity=sparsity), asked, x0, further)


def check_point(problem: Problem, given: Mapping[str, Function], settings: Settings, sparsity: Any = None) -> Report:
    """Return the report of a check at one point.

    Parameters
    ----------
    problem : Problem
        apply at the point.
    given : dict of str to Function
        The endpoints.
    settings : Settings
        What the user asked for.
    sparsity : SciPy sparse array, array or None
        Entries that may differ from zero.
    """
    limits = limits_from(problem, settings)
    outcome = Outcome(planned(problem, settings))
    contract = settings.contract
    with report_kept(problem, lambda: report_of(problem, outcome, given, settings)):
        claims = Claims(given, problem, contract or Contract(), sparsity)
        owing = Owing(problem, given, claims, limits, settings)
        check(problem, claims, settings, limits, outcome)
        owing.settle(outcome)
        findings = without_kinks([*claims.findings, *outcome.findings], outcome.pairs)
        findings = without_restless(findings, outcome.scatter)
        if outcome.pairs:
            findings += findings_about_apply(problem, outcome.scatter, findings)
            outcome.notes += steps_left_out(problem, outcome.pairs, findings)
        outcome.findings, outcome.notes = findings, [*claims.notes, *outcome.notes]
    return report_of(problem, outcome, given, settings)


def differentiate(
    apply: Callable[[Any], Any],
    x0: Any,
    *,
    rtol: float | None = None,
    eps: float | None = None,
    eps_for: Mapping[str, float] | None = None,
    input_paths: Sequence[str] | None = None,
    output_paths: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
    seed: int | None = None,
    execution: Execution | None = None,
) -> Estimate:
    """Measure the Jacobian of ``apply`` with an error bar on every entry.

    Parameters
    ----------
    apply : callable
        ``apply(x) -> y``, as for :func:`verify`.
    x0 : object
        Point; never changed.
    rtol : float, optional
        Relative size below which a gap of the one-sided slopes is no kink; as for :func:`verify`.
    eps, eps_for, input_paths, output_paths, bounds, seed, execution
        As for :func:`verify`.

    Returns
    -------
    Estimate
        ``value``, ``error``, ``eps`` and ``status``, arrays of shape ``(*y.shape, *x.shape)`` where there is
        one input and one output leaf; else one block for each pair of paths, ``estimate['y', 'x']``.

    Raises
    ------
    InvalidInput
        If an argument cannot be used, or apply raises at x0.

    Notes
    -----
    Cost: 10 calls of apply, and for smooth functions about 6 an input element (32 at the most).

    Examples
    --------
    >>> import numpy as np
    >>> import fdcheck
    >>> estimate = fdcheck.differentiate(np.exp, 1.0)
    >>> abs(float(estimate.value) - np.e) <= float(estimate.error) < 1e-8
    True
    """
    settings = settings_from(
        "strict", rtol=rtol, eps=eps, eps_for=eps_for, input_paths=input_paths, output_paths=output_paths,
        bounds=bounds, seed=seed,
    )  # fmt: skip
    function = Function("apply", apply)
    with np.errstate(all="ignore"):
        paths = settings.input_paths, settings.output_paths
        problem = measurable_problem(function, x0, *paths, checked_execution(execution))
        found = measure(problem, None, settings, limits_from(problem, settings), whole(problem))
    about = findings_about_apply(problem, found.rules.noise.scatter)
    about += [breach.finding for breach in (problem.course.raised, problem.course.changed) if breach is not None]
    notes = [finding.message for finding in about]
    return Estimate(tuple(_blocks(problem, found)), function.calls, tuple(notes))


def given_endpoints(callables: Mapping[str, Any], settings: Settings) -> dict[str, Callable[..., Any]]:
    """Return the endpoints to check.

    Parameters
    ----------
    callables : dict of str to callable or None
        What the user gave.
    settings : Settings
        ``endpoints`` is read.

    Raises
    ------
    InvalidInput
        If there is none, or one that is asked for was not given, or one cannot be called.
    """
    given = {name: Function(name, f).function for name, f in callables.items() if f is not None}
    if not given:
        raise InvalidInput("jacobian, jvp, vjp: expected at least one of them, got none; there is nothing to check")
    if settings.endpoints is None:
        return given
    for name in settings.endpoints:
        if name not in given:
            raise InvalidInput(f"endpoints: {name!r} was asked for, but only {', '.join(given)} was given")
    return {name: given[name] for name in given if name in settings.endpoints}


def _blocks(problem: Problem, found: Elementwise) -> list[Block]:
    """Return the measured Jacobian, one block for each pair of leaves."""
    words = np.array([str(STATUS_OF_CODE.get(c, Status.AGREES)) for c in range(kernels.NONFINITE + 1)])
    status = words[found.measurement.code[0]]
    blocks = []
    for output in problem.outputs.leaves:
        for source in problem.inputs.leaves:
            part = np.s_[output.start : output.stop, source.start : source.stop]
            shape = (*output.real_shape, *source.real_shape)
            value, error, eps = (
                array[part].reshape(shape)
                for array in (found.measurement.estimate, found.measurement.error, found.measurement.eps)
            )
            blocks.append(Block(output.path, source.path, value, error, eps, status[part].reshape(shape)))
    return blocks
