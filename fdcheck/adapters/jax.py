"""check_grads, check_jvp and check_vjp of jax, with fdcheck's verdicts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fdcheck.adapters.points import problem_at
from fdcheck.adapters.pytrees import Form, JaxProblem, as_array, compiled
from fdcheck.adapters.tolerances import as_theirs, remedy, tolerances
from fdcheck.api import verify
from fdcheck.checks.products import amended, batched_findings, linear_map, random_vector
from fdcheck.problem import trees
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.returned import returned
from fdcheck.results import Finding, InvalidInput, Report, Status, Verdict
from fdcheck.settings import Contract
from fdcheck.several import merged, renamed

_module: Any = jax

_PRIMAL = 8.0
"""Square roots of eps by which the value that a derivative returns may differ from f's: it may be computed another
way, and a value of another function is off by more."""


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] | str = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    *,
    check_batched: bool = False,
    report: bool = False,
) -> bool | Report:
    """Check derivatives of any order of a function; takes what jax.test_util.check_grads takes.

    Parameters
    ----------
    f : callable
        Of arrays and pytrees of them.
    args : sequence
        Where to check. Leaves that are no floating or complex numbers are passed on as they are.
    order : int
        Highest order; derivatives of derivatives are checked as derivatives of any function.
    modes : sequence of str
        ``"fwd"`` for jvp, ``"rev"`` for vjp.
    atol, rtol, eps : float, optional
        Tolerances that mean ``|a - n| <= atol + rtol |n|`` widened by the error bar, and step; by default fdcheck
        chooses.
    check_batched : bool
        Whether ``jax.vmap`` over tangents and cotangents has to equal the loop.
    report : bool
        Whether to return the Report, whatever the verdict.

    Returns
    -------
    bool or Report
        True if the check passed.

    Raises
    ------
    DerivativeMismatch
        If the check failed or was inconclusive; an AssertionError, with the report as its message.
    """
    wanted = (modes,) if isinstance(modes, str) else tuple(modes)
    if not wanted or any(mode not in ("fwd", "rev") for mode in wanted):
        raise InvalidInput(f"modes: expected some of 'fwd', 'rev', got {modes!r:.60}")
    if not isinstance(order, int) or order < 1:
        raise InvalidInput(f"order: expected a whole number, 1 or larger, got {order!r:.60}")
    options = {"rtol": rtol, "atol": atol, "eps": eps}
    return _outcome(merged(_orders(f, tuple(args), order, wanted, options, check_batched)), report)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
    *,
    report: bool = False,
) -> bool | Report:
    """Check a jvp; takes what jax.test_util.check_jvp takes.

    Parameters
    ----------
    f, args, atol, rtol, eps, report
        As for :func:`check_grads`.
    f_jvp : callable
        ``f_jvp(primals, tangents)``, returning the value of f and its change.
    err_msg : str
        Stands at the head of the message of a failure.

    Returns
    -------
    bool or Report
        True if the check passed.

    Raises
    ------
    DerivativeMismatch
        If the check failed or was inconclusive.
    """
    result = _checked(JaxProblem(f, tuple(args), f_jvp=f_jvp), {"rtol": rtol, "atol": atol, "eps": eps})
    return _outcome(result, report, err_msg)


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    err_msg: str = "",
    *,
    report: bool = False,
) -> bool | Report:
    """Check a vjp; takes what jax.test_util.check_vjp takes.

    Parameters
    ----------
    f, args, atol, rtol, eps, report
        As for :func:`check_grads`.
    f_vjp : callable
        ``f_vjp(*primals)``, returning the value of f and a function from cotangents to a tuple of gradients, in
        jax's complex convention.
    err_msg : str
        Stands at the head of the message of a failure.

    Returns
    -------
    bool or Report
        True if the check passed.

    Raises
    ------
    DerivativeMismatch
        If the check failed or was inconclusive.
    """
    result = _checked(JaxProblem(f, tuple(args), f_vjp=f_vjp), {"rtol": rtol, "atol": atol, "eps": eps})
    return _outcome(result, report, err_msg)


def _orders(
    f: Callable[..., Any], args: tuple[Any, ...], order: int, modes: tuple[str, ...], options: Any, batched: bool
) -> list[Report]:
    """Return the check of f's derivatives, and those of the derivatives of its jvp and vjp."""
    derivatives = {
        "f_jvp": compiled(partial(_module.jvp, f)) if "fwd" in modes else None,
        "f_vjp": partial(_module.vjp, f) if "rev" in modes else None,
    }
    problem = JaxProblem(f, args, **derivatives)
    reports = [_checked(problem, options, batched)]
    if order == 1:
        return reports
    for mode in modes:
        name = "jvp" if mode == "fwd" else "vjp"
        form = problem.into if mode == "fwd" else problem.out
        fixed = _random_leaves(form)
        derivative = _forward(problem, form) if mode == "fwd" else _reverse(problem, form)
        names = {"apply": name, "jvp": f"jvp_of_{name}", "vjp": f"vjp_of_{name}"}
        for report in _orders(compiled(derivative), (args, fixed), order - 1, modes, options, batched):
            renaming = {**names, **{e: f"{e}_of_{name}" for e in report.endpoint_calls}}
            reports.append(renamed(report, renaming))
    return reports


def _forward(problem: JaxProblem, form: Form) -> Callable[..., Any]:
    """Return the jvp as a function of the arguments and of those leaves of the tangent that move."""

    def change(args: Any, leaves: Any) -> Any:
        tangents = tuple(form.tree(form.filled(leaves)))
        found = _module.jvp(problem.f, tuple(args), tangents)[1]
        return problem.out.moving(_module.tree_util.tree_leaves(found))

    return change


def _reverse(problem: JaxProblem, form: Form) -> Callable[..., Any]:
    """Return the vjp as a function of the arguments and of those leaves of the cotangent that move."""

    def gradient(args: Any, leaves: Any) -> Any:
        found = _module.vjp(problem.f, *args)[1](form.tree(form.filled(leaves)))
        return problem.into.moving(_module.tree_util.tree_leaves(found))

    return gradient


def _random_leaves(form: Form) -> list[Any]:
    """Return random numbers in the place of the leaves that move."""
    _, layout = trees.structure(form.structure(form.leaves), form.name)
    vector = random_vector(layout, np.random.default_rng(0x6A6178))
    leaves = form.flat(trees.from_coordinates(vector, layout))
    return [jnp.asarray(v, leaf.dtype) for v, leaf, moves in zip(leaves, form.leaves, form.moves, strict=True) if moves]


def _checked(problem: JaxProblem, options: Any, batched: bool = False) -> Report:
    """Return the check of first derivatives, of the values beside them and of what they owe."""
    own = {"jvp": problem.jvp if problem.f_jvp else None, "vjp": problem.vjp if problem.f_vjp else None}
    given = {name: Function(name, f) for name, f in own.items() if f is not None}
    flat, eps = problem_at(problem.apply, problem.x0), problem.bfloat16_eps
    numbers = tolerances(flat, given, options["rtol"], options["atol"], eps)
    result = verify(
        problem.apply,
        problem.x0,
        jvp=own["jvp"],
        vjp=own["vjp"],
        eps=options["eps"],
        contract=Contract(eps=eps),
        **numbers,
    )
    result = as_theirs(result, options["rtol"], numbers["atol"])
    if flat is None or not result.pairs:
        return result
    with np.errstate(all="ignore"):
        result = amended(result, _batched(problem, flat, given) if batched else [])
    if not any(f.endpoint == "apply" and f.status is Status.NONDETERMINISTIC for f in result.findings):
        for name, value in problem.primals.items():
            result = _with_primal(result, problem, name, value)
    about = ["bfloat16 was measured in float32, and compared with the gradient in bfloat16"] if eps else []
    advice = remedy(result, flat.coarsest_dtype.name, options["eps"])
    return dataclasses.replace(result, notes=(*result.notes, *about, *advice))


def _batched(problem: JaxProblem, flat: Problem, given: dict[str, Function]) -> list[Finding]:
    """Return whether vmap over tangents and cotangents equals the loop."""
    found: list[Finding] = []
    for name, endpoint in given.items():
        product = linear_map(endpoint, flat, problem.bfloat16_eps)
        stacked = problem.stacked_jvp if name == "jvp" else problem.stacked_vjp

        def rows(vectors: Any, name: str = name, product: Any = product, stacked: Any = stacked) -> Any:
            answers = stacked([trees.from_coordinates(vector, product.into) for vector in vectors])
            return np.array([returned(name, answer, product.out, product.like)[0] for answer in answers])

        found += batched_findings(product, rows)
    return found


def _with_primal(report: Report, problem: JaxProblem, name: str, value: Any) -> Report:
    """Return a report that fails if the value returned beside a derivative is not f's."""
    leaves = _module.tree_util.tree_leaves(value)
    pairs = zip(leaves, problem.out.leaves, problem.out.moves, strict=False)
    if len(leaves) != len(problem.out.leaves) or not all(_is_close(a, b) if moves else True for a, b, moves in pairs):
        text = f"{name} returned beside the derivative a value that is not f's at the same point."
        finding = Finding(name, Status.DISAGREES, text)
        return dataclasses.replace(report, verdict=Verdict.FAIL, findings=(finding, *report.findings))
    return report


def _is_close(value: Any, expected: Any) -> bool:
    a, b = as_array(value), as_array(expected)
    if a.shape != b.shape:
        return False
    finite = np.isfinite(b)
    size = float(np.abs(b[finite]).max(initial=0.0))
    allowed = _PRIMAL * float(np.sqrt(jnp.finfo(expected.dtype).eps)) * size
    return bool((np.abs(a[finite].astype(b.dtype) - b[finite]) <= allowed).all())


def _outcome(result: Report, report: bool, err_msg: str = "") -> bool | Report:
    if report:
        return result
    if err_msg and not result.passed:
        result = dataclasses.replace(result, notes=(err_msg, *result.notes))
    result.raise_if_failed()
    return True
