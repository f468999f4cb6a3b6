"""What a jvp or vjp has to be at one point, whatever it claims: linear, repeatable, at ease with any memory layout."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.checks.findings import by_severity
from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.returned import returned, tangent
from fdcheck.problem.trees import Layout
from fdcheck.problem.wording import described
from fdcheck.results import BREACHES, Finding, Report, Status, Verdict
from fdcheck.settings import Contract

Vector = NDArray[np.float64]

_ROUNDOFFS = 8.0
"""Square roots of eps that rounding may cost a product, in units of its largest element: sums of a million terms and
factorisations with a condition of 1e8 stay below (1e-7 in float64), a product that is not linear is off by far more."""

_GRAIN = 16
"""Random elements are multiples of 1/16, so that v + 2 w is exact in bfloat16, which has 8 bits, too."""

_SCALES = (-1.0, 2.0**-6, 2.0**6)
"""Factors of a vector under which a linear map scales: the sign, and sizes at which clipped or rounded products show;
powers of two, which cost no rounding, and small enough for float16."""


_MOST_PARTS = 4
"""Leaves whose parts are asked for one by one; the rest counts as one."""


@dataclass(frozen=True)
class Linear:
    """A jvp or vjp at x0 as a map between vectors of real coordinates.

    Parameters
    ----------
    endpoint : Function
        Named ``jvp`` or ``vjp``.
    problem : Problem
        apply and x0.
    into, out : Layout
        What the map takes and what it returns.
    like : str
        What has the layout ``out``, for messages.
    eps : float
        That of the format in which products are computed, where it is shorter than that of their arrays.
    """

    endpoint: Function
    problem: Problem
    into: Layout
    out: Layout
    like: str
    eps: float = 0.0

    @property
    def tolerance(self) -> float:
        """Part of the largest element of a product that rounding may cost."""
        coarsest = max(float(np.finfo(leaf.real_dtype).eps) for leaf in (*self.into.leaves, *self.out.leaves))
        return float(min(_ROUNDOFFS * np.sqrt(max(coarsest, self.eps)), 0.25))

    def __call__(self, vector: Vector) -> Vector:
        """Return the product with a vector."""
        result = self.endpoint(self.problem.arguments(), tangent(self.into, vector), where="x0 and a random vector")
        return returned(self.endpoint.name, result, self.out, self.like)[0]

    def unguarded(self, argument: object) -> Vector:
        """Return the product with a structure that is handed over as it is, without a private copy."""
        leaves, spec = self.problem.arguments()
        x = optree.tree_unflatten(spec, [leaf.copy() if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])
        self.endpoint.calls += 1
        return returned(self.endpoint.name, self.endpoint.function(x, argument), self.out, self.like)[0]


def linear_map(endpoint: Function, problem: Problem, eps: float = 0.0) -> Linear:
    """Return a jvp or vjp as a map between vectors."""
    if endpoint.name == "jvp":
        return Linear(endpoint, problem, problem.inputs, problem.outputs, "apply's output", eps)
    return Linear(endpoint, problem, problem.outputs, problem.inputs, "x0", eps)


def contract_findings(
    problem: Problem, given: Mapping[str, Function], nondet_tol: float | None = None, seed: int = 0, eps: float = 0.0
) -> list[Finding]:
    """Return where jvp and vjp break their contract.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    given : dict of str to Function
        The endpoints; a jacobian is a matrix and cannot break what is looked at here.
    nondet_tol : float or None
        By how much two equal calls may differ, in the unit of the result; None for what rounding may cost.
    seed : int
        Seed of the random vectors.
    eps : float
        That of the format in which the endpoints compute, where it is shorter than that of their arrays.

    Returns
    -------
    list of Finding
        Cost: 10 to 16 calls of each endpoint.
    """
    draw = np.random.default_rng([seed, 0x6C696E])
    found: list[Finding] = []
    products: dict[str, tuple[Linear, Vector, Vector]] = {}
    for name, endpoint in given.items():
        if name == "jacobian":
            continue
        product = linear_map(endpoint, problem, eps)
        try:
            with np.errstate(all="ignore"):
                v, w = random_vector(product.into, draw), random_vector(product.into, draw)
                of_v = product(v)
                products[name] = (product, v, of_v)
                found += _repeatability(product, v, of_v, nondet_tol)
                found += _linearity(product, v, w, of_v)
                found += _layouts(product, v, of_v)
        except Breach as breach:
            found.append(breach.finding)
        if endpoint.mutated:
            found.append(Finding(name, Status.MUTATION, f"{name} changed its arguments in place."))
    if len(products) == 2:
        found += _adjointness(*products["jvp"], *products["vjp"])
    return found


def random_vector(layout: Layout, draw: np.random.Generator) -> Vector:
    """Return a dense vector of +-U(0.5, 1.5), a few bits each."""
    size = draw.integers(_GRAIN // 2, 3 * _GRAIN // 2 + 1, layout.size) / _GRAIN
    vector: Vector = size * draw.choice([-1.0, 1.0], layout.size)
    return vector


def owed(problem: Problem, given: Mapping[str, Function], contract: Contract, seed: int) -> list[Finding]:
    """Return where endpoints break a contract that the user asks for, each breach once.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    given : dict of str to Function
        The endpoints.
    contract : Contract
        What they owe.
    seed : int
        Seed of the random vectors.
    """
    found = contract_findings(problem, given, contract.nondet_tol, seed)
    for name, endpoint in given.items():
        if contract.batched and name != "jacobian":
            product = linear_map(endpoint, problem)
            found += batched_findings(product, functools.partial(stacked_product, product), seed=seed)
    return list({(finding.endpoint, finding.status): finding for finding in reversed(found)}.values())[::-1]


def batched_findings(
    product: Linear, stacked: Callable[[Sequence[Vector]], Vector], count: int = 3, seed: int = 0
) -> list[Finding]:
    """Return whether a stack of vectors gives the stack of their products.

    Parameters
    ----------
    product : Linear
        The map.
    stacked : callable
        Takes vectors and returns their products, shape (count, size of a product), from one call.
    count : int
        Vectors in the stack: three, so that no axis of two or one is mistaken for it.
    seed : int
        Seed of the vectors.
    """
    name, draw = product.endpoint.name, np.random.default_rng([seed, 0x626174])
    vectors = [random_vector(product.into, draw) for _ in range(count)]
    try:
        loop = np.array([product(v) for v in vectors])
        together = stacked(vectors)
    except Exception as error:
        reason = error.finding.message if isinstance(error, Breach) else f"{described(error)}."
        return [Finding(name, Status.BATCHED, f"a stack of {count} vectors cannot be given: {reason}")]
    if together.shape != loop.shape:
        message = f"a stack of {count} vectors gave shape {together.shape}; the loop gives {loop.shape}."
        return [Finding(name, Status.BATCHED, message)]
    off = _off(product.out, together, loop, product.tolerance)
    if not off:
        return []
    return [Finding(name, Status.BATCHED, f"{name} of a stack of {count} vectors differs from the loop {off}.")]


def stacked_product(product: Linear, vectors: Sequence[Vector]) -> Vector:
    """Return the products with a stack of vectors, from one call with a new leading axis, shape (count, size).

    Raises
    ------
    Breach
        If the endpoint raises or returns another structure than for a single vector.
    """
    structures = [trees.from_coordinates(vector, product.into) for vector in vectors]
    stack = optree.tree_map(
        lambda *parts: None if parts[0] is None else np.stack(parts),
        *structures,
        none_is_leaf=True,
        namespace="fdcheck",
    )
    where = f"x0 and a stack of {len(vectors)} vectors"
    result = product.endpoint(product.problem.arguments(), trees.flatten(stack), where=where)
    leaves = trees.matched_leaves(result, product.out)
    name, expected = product.endpoint.name, f"the structure of {product.like}, each array with a leading axis"
    if leaves is None:
        raise Breach(
            name, Status.STRUCTURE, f"{name} returned {type(result).__name__} for a stack; expected {expected}."
        )
    rows = np.zeros((len(vectors), product.out.size))
    for leaf in product.out.leaves:
        part = np.asarray(leaves[leaf.position])
        if part.shape != (len(vectors), *leaf.shape):
            shape = (len(vectors), *leaf.shape)
            raise Breach(name, Status.SHAPE, f"{name} returned shape {part.shape} for {leaf.path}; expected {shape}.")
        for k, own in enumerate(part):
            rows[k, leaf.start : leaf.stop] = trees.real_view(own.astype(leaf.dtype))
    return rows


def amended(report: Report, findings: Sequence[Finding], notes: Sequence[str] = ()) -> Report:
    """Return a report with further findings, each told once; a breach of an endpoint makes it fail.

    Parameters
    ----------
    report : Report
        Result of a check.
    findings : sequence of Finding
        What else was found.
    notes : sequence of str
        Further remarks.
    """
    known = {(f.endpoint, f.status) for f in report.findings if f.status in BREACHES}
    new = [f for f in findings if (f.endpoint, f.status) not in known]
    broken = any(f.status in BREACHES and f.endpoint != "apply" for f in new)
    return dataclasses.replace(
        report,
        verdict=Verdict.FAIL if broken else report.verdict,
        findings=tuple(by_severity([*report.findings, *new])),
        notes=(*report.notes, *notes),
        settings={},
    )


def _repeatability(product: Linear, v: Vector, first: Vector, nondet_tol: float | None) -> Iterator[Finding]:
    second, name = product(v), product.endpoint.name
    with np.errstate(invalid="ignore"):
        differs = (first != second) & ~(np.isnan(first) & np.isnan(second))
        apart = float(np.abs(first - second)[differs].max(initial=0.0))
    if nondet_tol is None:
        off = _off(product.out, second, first, product.tolerance)
    else:
        off = f"by {apart:.3g}, where nondet_tol is {nondet_tol:.3g}" if not apart <= nondet_tol else ""
    if off:
        yield Finding(name, Status.NONDETERMINISTIC, f"two equal calls of {name} differ {off}.")


def _linearity(product: Linear, v: Vector, w: Vector, of_v: Vector) -> Iterator[Finding]:
    name = product.endpoint.name
    of_w = product(w)
    sizes = np.abs(of_v) + 2 * np.abs(of_w)
    off = _off(product.out, product(v + 2 * w), of_v + 2 * of_w, product.tolerance, sizes)
    if off:
        text = f"{name} of v + 2 w differs from {name} of v plus twice {name} of w {off}: it is not linear."
        yield Finding(name, Status.NONLINEAR, text)
        return
    answers = np.array([product(part) for part in _parts(product.into, v)])
    off = _off(product.out, answers.sum(axis=0), of_v, product.tolerance, np.abs(answers).sum(axis=0))
    if off:
        text = f"the sum of {name} of the parts of v differs from {name} of v {off}: it is not linear."
        yield Finding(name, Status.NONLINEAR, text)
        return
    for factor in _SCALES:
        off = _off(product.out, product(factor * v) / factor, of_v, product.tolerance)
        if off:
            text = f"{name} of {factor:g} v, divided by {factor:g}, differs from {name} of v {off}: it is not linear."
            yield Finding(name, Status.NONLINEAR, text)
            return
    nothing = product(np.zeros(product.into.size))
    if np.any(nothing[np.isfinite(of_v)] != 0):
        largest = float(np.abs(nothing).max())
        yield Finding(name, Status.NONLINEAR, f"{name} of zeros is {largest:.3g} in places: it is not linear.")


def _parts(layout: Layout, v: Vector) -> list[Vector]:
    """Return vectors that add up to v, one for each of a few leaves, or one for each half of a single leaf.

    A product that heeds one output or one element alone, if there are several, is linear in dense vectors.
    """
    edges = [leaf.start for leaf in layout.leaves]
    if len(edges) == 1:
        edges = [0, layout.size // 2]
    edges = edges[:_MOST_PARTS]
    parts = [np.zeros_like(v) for _ in edges]
    for part, start, stop in zip(parts, edges, [*edges[1:], layout.size], strict=True):
        part[start:stop] = v[start:stop]
    return parts


def _layouts(product: Linear, v: Vector, of_v: Vector) -> Iterator[Finding]:
    """Yield a finding for each memory layout of the vector with which the product changes."""
    name = product.endpoint.name
    structure = trees.from_coordinates(v, product.into)
    ones = np.ones(product.into.size)
    constant = trees.from_coordinates(ones, product.into)
    cases = [
        (word, structure, laid, of_v)
        for word, laid in (("column-major", _column_major), ("strided", _strided), ("reversed", _reversed))
    ]
    cases.append(("zero-stride", constant, _repeated, product(ones)))
    for word, plain, laid, expected in cases:
        argument = optree.tree_map(laid, plain, none_is_leaf=True, namespace="fdcheck")
        leaves = zip(trees.flatten(plain)[0], trees.flatten(argument)[0], strict=True)
        if all(_strides(a) == _strides(b) for a, b in leaves):
            continue
        try:
            sizes = np.maximum(
                np.abs(expected), np.abs(of_v)
            )  # what cancels for a constant has the rounding of its terms
            off = _off(product.out, product.unguarded(argument), expected, product.tolerance, sizes)
            told = f"differs {off}" if off else ""
        except Exception as error:
            told = f"raised {described(error)}"
        if told:
            yield Finding(name, Status.LAYOUT, f"{name} with a {word} array in place of a contiguous one {told}.")
            return


def _strides(leaf: object) -> tuple[int, ...]:
    return leaf.strides if isinstance(leaf, np.ndarray) else ()


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.ndim > 0 and leaf.size > 1 and leaf.dtype.kind in "fc"


def _column_major(leaf: NDArray[np.float64]) -> NDArray[np.float64]:
    return leaf.T.copy().T if _is_array(leaf) else leaf


def _strided(leaf: NDArray[np.float64]) -> NDArray[np.float64]:
    if not _is_array(leaf):
        return leaf
    room = np.full((*leaf.shape[:-1], 2 * leaf.shape[-1]), np.nan, leaf.dtype)  # read as if contiguous, it is NaN
    room[..., ::2] = leaf
    return room[..., ::2]


def _reversed(leaf: NDArray[np.float64]) -> NDArray[np.float64]:
    return leaf[::-1].copy()[::-1] if _is_array(leaf) else leaf


def _repeated(leaf: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return one number with strides of zero, as the gradient of a sum is."""
    if not _is_array(leaf):
        return leaf
    one = np.array([leaf.flat[0], np.nan], leaf.dtype)[:1]
    return np.lib.stride_tricks.as_strided(one, leaf.shape, (0,) * leaf.ndim)


def _adjointness(jvp: Linear, v: Vector, jv: Vector, vjp: Linear, w: Vector, jtw: Vector) -> Iterator[Finding]:
    forward, back = float(w @ jv), float(v @ jtw)
    size = float(np.abs(w) @ np.abs(jv) + np.abs(v) @ np.abs(jtw))
    if abs(forward - back) > max(jvp.tolerance, vjp.tolerance) * size:
        text = f"<w, jvp(v)> = {forward:.8g} and <vjp(w), v> = {back:.8g} are to be equal."
        yield Finding("vjp", Status.ADJOINT, text)


def _off(layout: Layout, got: Vector, expected: Vector, tolerance: float, sizes: Vector | None = None) -> str:
    """Return by how much two products differ more than rounding explains, leaf by leaf; empty if they do not."""
    sizes = np.abs(expected) if sizes is None else sizes
    for leaf in layout.leaves:
        own = np.s_[..., leaf.start : leaf.stop]
        finite = np.isfinite(expected[own])
        if not np.isfinite(got[own][finite]).all():
            return f"and is not finite in {leaf.path}"
        apart = float(np.abs(got[own] - expected[own])[finite].max(initial=0.0))
        size = float(sizes[own][finite].max(initial=0.0))
        if apart > tolerance * size:
            return f"by {apart:.3g} in {leaf.path}, where the largest element is {size:.3g}"
    return ""
