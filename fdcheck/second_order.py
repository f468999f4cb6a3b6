"""verify_second_order: derivatives of a vjp, checked as derivatives of any other function are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optree

from fdcheck.api import verify
from fdcheck.checks.products import Linear, Vector, amended, linear_map, random_vector
from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.endpoints import claimed_matrix
from fdcheck.problem.trees import Layout
from fdcheck.results import Finding, InvalidInput, Report, Status
from fdcheck.settings import Contract
from fdcheck.several import merged, renamed


def verify_second_order(
    apply: Callable[[Any], Any],
    x0: Any,
    *,
    vjp: Callable[[Any, Any], Any],
    cotangent: Any = None,
    hvp: Callable[[Any, Any], Any] | None = None,
    hessian: Callable[[Any], Any] | None = None,
    jvp_of_vjp: Callable[[Any, Any, Any, Any], Any] | None = None,
    vjp_of_vjp: Callable[[Any, Any, Any], Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
    max_evals: int | None = None,
    max_output_samples: int | None = None,
    max_failures: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    contract: Contract | None = None,
    skip: Sequence[str] | None = None,
) -> Report:
    """Check a vjp, and derivatives of the vjp with respect to x and to the cotangent.

    Parameters
    ----------
    apply, x0
        As for :func:`verify`.
    vjp : callable
        ``vjp(x, cotangent)``, the first derivative. It is checked first, and then differentiated.
    cotangent : object, optional
        Like apply's output; where to differentiate. By default 1 for an output that is one real number, else a random
        one; ``hvp`` and ``hessian`` of other outputs need it.
    hvp : callable, optional
        ``hvp(x, tangent)``: the derivative of ``vjp(x, cotangent)`` along a tangent of x, like x.
    hessian : callable, optional
        ``hessian(x)``: the Jacobian of ``vjp(x, cotangent)`` by x, in the forms of a jacobian of :func:`verify`.
    jvp_of_vjp : callable, optional
        ``jvp_of_vjp(x, cotangent, x_tangent, cotangent_tangent)``, like x: forward over reverse.
    vjp_of_vjp : callable, optional
        ``vjp_of_vjp(x, cotangent, v)`` with v like x, a pair like ``(x, cotangent)``: reverse over reverse.
    rtol, atol, eps, max_evals, max_output_samples, max_failures, seed, profile, contract, skip
        As for :func:`verify`, for both orders.

    Returns
    -------
    Report
        Both orders in one: ``vjp`` names the first, the names of the arguments the second. The verdict is the worse
        one.

    Raises
    ------
    InvalidInput
        If an argument cannot be used; the message names it.

    Notes
    -----
    Cost: that of :func:`verify` for the vjp, and again with the vjp in the place of apply. That a second derivative
    is symmetric is checked along two random directions. A vjp that does not give the same result twice makes the
    check inconclusive: a small nondeterminism of a gradient is amplified in the second derivative.

    Examples
    --------
    >>> import numpy as np
    >>> import fdcheck
    >>> cube = lambda x: np.sum(x**3)
    >>> report = fdcheck.verify_second_order(
    ...     cube, np.array([1.0, 2.0]), vjp=lambda x, c: 3 * c * x**2, hvp=lambda x, t: 6 * x * t
    ... )
    >>> str(report.verdict)
    'pass'
    >>> wrong = fdcheck.verify_second_order(
    ...     cube, np.array([1.0, 2.0]), vjp=lambda x, c: 3 * c * x**2, hvp=lambda x, t: 3 * x * t
    ... )
    >>> wrong.findings[0].endpoint, wrong.findings[0].claimed
    ('hvp', 3.0)
    """
    claims = {"hvp": hvp, "hessian": hessian, "jvp_of_vjp": jvp_of_vjp, "vjp_of_vjp": vjp_of_vjp}
    if all(claim is None for claim in claims.values()):
        raise InvalidInput(f"{', '.join(claims)}: expected at least one of them, got none")
    options = {
        "rtol": rtol, "atol": atol, "eps": eps, "max_evals": max_evals, "max_output_samples": max_output_samples,
        "max_failures": max_failures, "seed": seed, "profile": profile,
        "contract": contract, "skip": skip,
    }  # fmt: skip
    first = verify(apply, x0, vjp=vjp, **options)  # type: ignore[arg-type]
    try:
        with np.errstate(all="ignore"):
            problem = Problem(Function("apply", apply), x0)
    except Breach:
        return first  # says why nothing could be measured
    fixed = _cotangent(problem, cotangent, hvp is not None or hessian is not None, seed or 0)
    gradient = _gradient_of(vjp, problem.inputs)
    reports = [first]
    slack = rtol or 0.0
    if hvp is not None or hessian is not None:
        own = {name: _named(f) for name, f in (("jvp", hvp), ("jacobian", hessian)) if f is not None}
        at_fixed = _named(lambda x: gradient(x, fixed))
        names = {"apply": "vjp", "jvp": "hvp", "jacobian": "hessian"}
        reports.append(_second(at_fixed, x0, own, names, slack, options))
    if jvp_of_vjp is not None or vjp_of_vjp is not None:
        of_both, own = on_pairs(vjp, problem.inputs, jvp_of_vjp, vjp_of_vjp)
        names = {"apply": "vjp", "jvp": "jvp_of_vjp", "vjp": "vjp_of_vjp"}
        reports.append(_second(of_both, {"x": x0, "cotangent": fixed}, own, names, slack, options))
    words = [str(report.verdict) for report in reports]
    return merged(reports, [f"first order, the vjp: {words[0]}; its derivatives: {', '.join(words[1:])}"])


def on_pairs(
    vjp: Callable[[Any, Any], Any],
    layout: Layout,
    jvp_of_vjp: Callable[[Any, Any, Any, Any], Any] | None = None,
    vjp_of_vjp: Callable[[Any, Any, Any], Any] | None = None,
) -> tuple[Callable[[Any], Any], dict[str, Callable[..., Any]]]:
    """Return a vjp as a function of ``{"x": x, "cotangent": cotangent}``, and its derivatives as endpoints of that.

    Parameters
    ----------
    vjp, jvp_of_vjp, vjp_of_vjp : callable
        As for :func:`verify_second_order`.
    layout : Layout
        Layout of x.
    """
    gradient = _gradient_of(vjp, layout)
    endpoints: dict[str, Callable[..., Any]] = {}
    if jvp_of_vjp is not None:
        endpoints["jvp"] = _forward_over(jvp_of_vjp)
    if vjp_of_vjp is not None:
        endpoints["vjp"] = _back_through(vjp_of_vjp)
    return _named(lambda p: gradient(p["x"], p["cotangent"])), endpoints


def _second(
    gradient: Callable[[Any], Any],
    point: Any,
    endpoints: Mapping[str, Any],
    names: Mapping[str, str],
    slack: float,
    options: Mapping[str, Any],
) -> Report:
    """Return the check of derivatives of a gradient, with that of their symmetry."""
    report = verify(gradient, point, **endpoints, **options)
    if not report.pairs:
        return renamed(report, names)
    with np.errstate(all="ignore"):
        problem = Problem(Function("apply", gradient), point)
        about = [_symmetry(name, Function(name, f), problem, slack) for name, f in endpoints.items()]
    return renamed(amended(report, [finding for finding in about if finding is not None]), names)


def _symmetry(name: str, endpoint: Function, problem: Problem, slack: float) -> Finding | None:
    """Return whether <u, H v> and <v, H u> differ for two random directions of x."""
    n = problem.outputs.size  # gradients are like x; of a pair, x stands after the cotangent
    own = np.arange(problem.inputs.size - n, problem.inputs.size)
    draw = np.random.default_rng([0, 0x73796D])
    u, v = (random_vector(problem.outputs, draw) for _ in range(2))
    try:
        product, tolerance = _curvature(name, endpoint, problem, own)
        of_u, of_v = product(u), product(v)
    except Breach:
        return None  # the comparison has told of it
    one, other = float(u @ of_v), float(v @ of_u)
    size = float(np.abs(u) @ np.abs(of_v) + np.abs(v) @ np.abs(of_u))
    if not np.isfinite(size) or abs(one - other) <= max(tolerance, slack) * size:
        return None
    text = f"{name} is not symmetric: <u, H v> = {one:.8g} and <v, H u> = {other:.8g} for two random vectors of x."
    return Finding(name, Status.ASYMMETRIC, text)


def _curvature(name: str, endpoint: Function, problem: Problem, own: Any) -> tuple[Callable[[Vector], Vector], float]:
    """Return how an endpoint multiplies a vector of x with the second derivative by x, and what rounding may cost."""
    product: Linear = linear_map(endpoint, problem)
    if name == "jacobian":
        matrix = claimed_matrix(endpoint, problem, np.arange(problem.outputs.size), [])

        def times(u: Vector) -> Vector:
            return matrix @ u

        return times, product.tolerance

    def forward(u: Vector) -> Vector:
        vector = np.zeros(problem.inputs.size)
        vector[own] = u
        return product(vector)

    def backward(u: Vector) -> Vector:
        part: Vector = product(u)[own]
        return part

    return (forward if name == "jvp" else backward), product.tolerance


def _cotangent(problem: Problem, given: Any, is_fixed: bool, seed: int) -> Any:
    """Return where to differentiate the vjp."""
    layout = problem.outputs
    if given is not None:
        return _like_output(given, layout)
    if layout.size == 1:
        return trees.from_coordinates(np.ones(1), layout)
    if is_fixed:
        raise InvalidInput(
            f"cotangent: expected one like apply's output ({trees.shapes_text(layout)}), since hvp and "
            "hessian are derivatives at a fixed one; got none"
        )
    vector = random_vector(layout, np.random.default_rng([seed, 0x636F74]))
    return trees.from_coordinates(vector, layout)


def _like_output(given: Any, layout: Layout) -> Any:
    """Return a cotangent of the user's in the dtypes of the output: an integer could not be differentiated by."""
    leaves = trees.matched_leaves(given, layout)
    if leaves is None:
        expected = f"one like apply's output ({trees.shapes_text(layout)})"
        raise InvalidInput(f"cotangent: expected {expected}, got {trees.flatten(given)[1]}")
    vector = np.zeros(layout.size)
    for leaf in layout.leaves:
        value = leaves[leaf.position]
        if value is None:
            continue
        is_like = np.shape(value) == leaf.shape and np.asarray(value).dtype.kind in (
            "iufc" if leaf.parts == 2 else "iuf"
        )
        if not is_like or not np.isfinite(value).all():
            raise InvalidInput(
                f"cotangent: expected finite numbers of shape {leaf.shape} and dtype {leaf.dtype} for {leaf.path}, "
                f"got shape {np.shape(value)} and dtype {np.asarray(value).dtype}"
            )
        vector[leaf.start : leaf.stop] = trees.real_view(np.asarray(value, leaf.dtype))
    return trees.from_coordinates(vector, layout)


def _gradient_of(vjp: Callable[[Any, Any], Any], layout: Layout) -> Callable[[Any, Any], Any]:
    """Return a vjp whose None, which stands for zero, is an array of zeros."""

    def gradient(x: Any, cotangent: Any) -> Any:
        result = vjp(x, cotangent)
        leaves = trees.matched_leaves(result, layout)
        if leaves is None:
            return result
        for leaf in layout.leaves:
            value = leaves[leaf.position]
            empty = np.zeros(leaf.shape, leaf.dtype) if value is None else np.asarray(value)
            leaves[leaf.position] = empty
        return optree.tree_unflatten(layout.spec, leaves)

    return gradient


def _named(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose result is called gradient in paths; a matrix for the whole stays as it is."""

    def call(*arguments: Any) -> Any:
        result = f(*arguments)
        return result if hasattr(result, "toarray") or hasattr(result, "matvec") else {"gradient": result}

    return call


def _forward_over(jvp_of_vjp: Callable[[Any, Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a jvp of a vjp as one on the pair of x and cotangent."""
    return _named(lambda p, t: jvp_of_vjp(p["x"], p["cotangent"], t["x"], t["cotangent"]))


def _back_through(vjp_of_vjp: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a vjp of a vjp as one on the pair; what is no pair stays as it is, for the comparison to complain of."""

    def call(point: Any, v: Any) -> Any:
        result = vjp_of_vjp(point["x"], point["cotangent"], v["gradient"])
        if isinstance(result, tuple) and len(result) == 2:
            return {"x": result[0], "cotangent": result[1]}
        return result

    return call
