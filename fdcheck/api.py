"""verify and differentiate: each reads as the story of one check."""

from __future__ import annotations

import functools
import importlib.metadata
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.diagnosis import diagnosed
from fdcheck.checks.elementwise import Elementwise, limits_from, measure
from fdcheck.checks.findings import STATUS_OF_CODE, by_severity, compared, entry_findings, pairs_of
from fdcheck.estimates import Block, Estimate
from fdcheck.numerics import kernels
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.endpoints import claimed_matrix
from fdcheck.results import (
    BREACHES,
    Coverage,
    Diagnosis,
    Finding,
    InvalidInput,
    Pair,
    Report,
    Status,
    Verdict,
)
from fdcheck.settings import Settings, settings_from


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
    seed: int | None = None,
    profile: str = "default",
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
        Inclusive limits within which inputs may be moved, by path or glob, or one pair for all. Without them an
        input stays within a quarter of its scale as a rule; where a claim is off, jumps of apply are looked for
        as far away as twice the size of the input, without changing its sign.
    seed : int, optional
        Seed of the random direction along which noise is measured; 0 by default.
    profile : str
        ``'default'``, ``'quick'`` (half the applies) or ``'strict'`` (full accuracy before comparing).

    Returns
    -------
    Report
        True in a boolean context if the verdict is ``'pass'``. A mismatch does not raise; see
        :meth:`Report.raise_if_failed`.

    Raises
    ------
    InvalidInput
        If an argument cannot be used; the message names it.

    Notes
    -----
    Cost in calls of apply: 10 for the point and its noise, then 4 an input element as a rule (2 with
    ``'quick'``), shared by all outputs and endpoints; more where a first look leaves a doubt. A jvp is called
    once per input element, a vjp once per output element. The method is that of central differences
    extrapolated over several steps [1]_ with measured noise [2]_.

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
    settings = settings_from(
        profile, rtol=rtol, atol=atol, eps=eps, eps_for=eps_for, input_paths=input_paths,
        output_paths=output_paths, endpoints=endpoints, bounds=bounds, seed=seed,
    )  # fmt: skip
    given = _given_endpoints({"jacobian": jacobian, "jvp": jvp, "vjp": vjp}, settings)
    function = Function("apply", apply)
    notes: list[str] = []
    findings: list[Finding] = []
    diagnoses: list[Diagnosis] = []
    with np.errstate(all="ignore"):  # overflow and NaN beside x0 are looked at, not warned of
        try:
            problem = Problem(function, x0, settings.input_paths, settings.output_paths)
        except Breach as breach:
            return _unmeasured_report(breach.finding, function, given, settings)
        limits = limits_from(problem, settings)
        names, claims = _claims(given, problem, notes, findings)
        pairs: list[Pair] = []
        if names and claims.size:
            found = measure(problem, claims, settings, limits)
            for comparison in compared(names, claims, found):
                pairs += pairs_of(problem, comparison)
                findings += entry_findings(problem, comparison)
                diagnoses += diagnosed(problem, comparison, limits.bounds)
            findings += _findings_about_apply(problem, found)
            notes += _steps_left_out(problem, pairs, findings)
    return _report(problem, findings, pairs, notes, diagnoses, given, settings)


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
    eps, eps_for, input_paths, output_paths, bounds, seed
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
        try:
            problem = Problem(function, x0, settings.input_paths, settings.output_paths)
        except Breach as breach:
            raise InvalidInput(breach.finding.message) from breach
        if not problem.inputs.size or not problem.outputs.size:
            raise InvalidInput("x0, apply: expected at least one element on each side, got an array of size 0")
        found = measure(problem, None, settings, limits_from(problem, settings))
    about = _findings_about_apply(problem, found)
    about += [breach.finding for breach in (problem.raised, problem.changed) if breach is not None]
    notes = [finding.message for finding in about]
    return Estimate(tuple(_blocks(problem, found)), function.calls, tuple(notes))


def _given_endpoints(callables: Mapping[str, Any], settings: Settings) -> dict[str, Function]:
    """Return the endpoints to check."""
    given = {name: Function(name, f) for name, f in callables.items() if f is not None}
    if not given:
        raise InvalidInput("jacobian, jvp, vjp: expected at least one of them, got none; there is nothing to check")
    if settings.endpoints is None:
        return given
    for name in settings.endpoints:
        if name not in given:
            raise InvalidInput(f"endpoints: {name!r} was asked for, but only {', '.join(given)} was given")
    return {name: given[name] for name in given if name in settings.endpoints}


def _claims(
    given: Mapping[str, Function], problem: Problem, notes: list[str], findings: list[Finding]
) -> tuple[list[str], NDArray[np.float64]]:
    """Return the endpoints that keep their contract and their claims; add the breaches of the others."""
    names: list[str] = []
    matrices: list[NDArray[np.float64]] = []
    for name, endpoint in given.items():
        try:
            matrices.append(claimed_matrix(endpoint, problem, notes))
            names.append(name)
        except Breach as breach:
            findings.append(breach.finding)
    return names, np.array(matrices)


def _findings_about_apply(problem: Problem, found: Elementwise) -> list[Finding]:
    """Return what was noticed about apply itself."""
    findings = []
    if found.noise.scatter > 0:
        findings.append(
            Finding(
                "apply",
                Status.NONDETERMINISTIC,
                f"two calls of apply at x0 differ by {found.noise.scatter:.1g} of the value; fix its random seed, or "
                "check the derivative of a deterministic part.",
            )
        )
    if problem.apply.mutated:
        findings.append(
            Finding(
                "apply", Status.MUTATION, "apply changes its argument in place; it was given copies, x0 is as it was."
            )
        )
    return findings


def _steps_left_out(problem: Problem, pairs: Sequence[Pair], findings: list[Finding]) -> list[str]:
    """Return notes on points where apply gave no value; where that left entries open they become findings."""
    breaches = [breach.finding for breach in (problem.raised, problem.changed) if breach is not None]
    if any(status in pair.counts for pair in pairs for status in (Status.NONFINITE, Status.UNDECIDED)):
        findings += breaches
        return []
    return [f"{finding.message} That point was left out; x0 itself is fine." for finding in breaches]


def _verdict(findings: Sequence[Finding], pairs: Sequence[Pair]) -> Verdict:
    """Return the answer of the whole check."""
    statuses = {status for pair in pairs for status in pair.counts}
    broken = any(f.status in BREACHES and f.endpoint != "apply" for f in findings)
    if broken or Status.DISAGREES in statuses:
        return Verdict.FAIL
    open_ = {Status.UNDECIDED, Status.NONFINITE} & statuses
    if open_ or not pairs or any(f.status is Status.NONDETERMINISTIC for f in findings):
        return Verdict.INCONCLUSIVE
    return Verdict.PASS


def _report(
    problem: Problem,
    findings: Sequence[Finding],
    pairs: Sequence[Pair],
    notes: Sequence[str],
    diagnoses: Sequence[Diagnosis],
    given: Mapping[str, Function],
    settings: Settings,
) -> Report:
    seen = [pair.sensitivity for pair in pairs if math.isfinite(pair.sensitivity)]
    remarks = list(dict.fromkeys(notes))
    if problem.inputs.carried:
        remarks.append("carried along, not differentiated: " + ", ".join(problem.inputs.carried))
    resting = [leaf.path for leaf in (*problem.inputs.resting, *problem.outputs.resting)]
    if resting:
        remarks.append("not selected, not checked: " + ", ".join(resting))
    n, m = problem.inputs.size, problem.outputs.size
    return Report(
        verdict=_verdict(findings, pairs),
        findings=tuple(by_severity(findings)),
        pairs=tuple(pairs),
        coverage=Coverage(
            problem.inputs.whole_size,
            n if pairs else 0,
            problem.outputs.whole_size,
            m if pairs else 0,
            problem.inputs.carried,
        ),
        sensitivity=max(seen, default=math.nan),
        applies=problem.apply.calls,
        endpoint_calls={name: endpoint.calls for name, endpoint in given.items()},
        seed=settings.seed,
        notes=tuple(remarks),
        versions=_versions(),
        diagnoses=tuple(diagnoses),
    )


def _unmeasured_report(finding: Finding, apply: Function, given: Mapping[str, Function], settings: Settings) -> Report:
    """Return the report of a check that could not even evaluate apply at x0."""
    return Report(
        verdict=Verdict.INCONCLUSIVE,
        findings=(finding,),
        pairs=(),
        coverage=Coverage(0, 0, 0, 0),
        sensitivity=math.nan,
        applies=apply.calls,
        endpoint_calls=dict.fromkeys(given, 0),
        seed=settings.seed,
        notes=("nothing was measured",),
        versions=_versions(),
    )


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


@functools.cache  # reading the metadata of a package takes as long as checking a small function
def _versions() -> dict[str, str]:
    """Return the versions of what computed the result."""
    packages = ("fdcheck", "numpy", "numba", "optree")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
