"""A jvp or vjp at one point as a map between vectors of real coordinates, with what its products may be off."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.checks.findings import by_severity
from fdcheck.checks.grain import GRAINS, grain_of
from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.returned import returned, tangent
from fdcheck.problem.trees import Layout
from fdcheck.problem.wording import described
from fdcheck.results import BREACHES, Finding, Report, Status, Verdict

Vector = NDArray[np.float64]

_ROUNDOFFS = 8.0
"""Square roots of eps that rounding may cost a product, in units of its largest element: sums of a million terms and
factorisations with a condition of 1e8 stay below (1e-7 in float64), a product that is not linear is off by far more."""

_MOST_ROUNDING = 0.1
"""What is left of that in float16 and bfloat16, whose products are sums of few terms: a hundred roundings."""

_SPREAD = 3.0
"""Standard deviations of a sum of errors, each a small part of its own term, as iterative solvers make them."""

_REORDERED = 64.0
"""Roundoffs of the largest element by which a sum of a few thousand terms in another order may differ."""

_SUBNORMALS = 16
"""Smallest numbers of a format that a product of several steps may lose where it underflows."""

_CANCELLED = 1e6
"""Terms of a product over what they leave, at most: a layer that normalises equal numbers leaves a thousandth."""

_GRAIN = 16
"""Random elements are multiples of 1/16, so that v + 2 w is exact in bfloat16, which has 8 bits, too."""


@dataclass(frozen=True)
class Known:
    """Products with unit vectors that were asked for already.

    Parameters
    ----------
    units : ndarray of int, shape (k,)
        Coordinates of the unit vectors.
    answers : ndarray, shape (k, size of a product)
        The products.
    """

    units: NDArray[np.int64]
    answers: NDArray[np.float64]


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
    rtol, atol : float
        By how much entries of the derivative may be off.
    known : Known or None
        Products with unit vectors.
    noise : ndarray or float
        By how much equal calls differ.
    """

    endpoint: Function
    problem: Problem
    into: Layout
    out: Layout
    like: str
    eps: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0
    known: Known | None = None
    noise: Vector | float = 0.0

    @cached_property
    def roundoff(self) -> float:
        """Machine epsilon of the shortest format."""
        leaves = (*self.into.leaves, *self.out.leaves)
        return max(self.eps, *(float(np.finfo(leaf.real_dtype).eps) for leaf in leaves))

    @cached_property
    def tolerance(self) -> float:
        """Part of the largest element of a product that rounding may cost."""
        return float(min(_ROUNDOFFS * np.sqrt(self.roundoff), _MOST_ROUNDING))

    @cached_property
    def grain(self) -> Vector:
        """What rounding is seen to cost an element of a product; looked at where two products differ."""
        return grain_of(self, random_vector(self.into, np.random.default_rng(0x677261)), self.out)

    def __call__(self, vector: Vector) -> Vector:
        """Return the product with a vector, which is given as private copies."""
        return self.read(
            self.endpoint(self.problem.arguments(), tangent(self.into, vector), where="x0 and a random vector")
        )

    def asked(self, vector: Vector) -> Asked:
        """Return the product with a vector, and the sizes of its terms."""
        product = self(vector)
        return Asked(vector, product, self.terms(vector, product))

    def read(self, result: Any) -> Vector:
        """Return what the callable gave as a vector."""
        return returned(self.endpoint.name, result, self.out, self.like, self.endpoint.skip)[0]

    def shown(self, vector: Vector) -> Any:
        """Return a vector as the callable takes it."""
        return trees.from_coordinates(vector, self.into)

    def terms(self, vector: Vector, product: Vector) -> Vector:
        """Return how large the terms are that add up to each element of a product.

        Where they are not known, the largest element of each leaf of the product stands for them.
        """
        if self.known is None or not self.is_sum_of_known(vector):
            return by_leaf(self.out, np.abs(product))
        answers, weight = np.abs(self.known.answers), np.abs(vector[self.known.units])
        top = float(answers.max(initial=0.0, where=np.isfinite(answers)))
        if top == 0:
            return weight @ answers
        spread = top * np.sqrt(np.square(weight) @ np.square(answers / top))
        terms: Vector = np.minimum(weight @ answers, _SPREAD * spread)
        return terms

    def is_sum_of_known(self, vector: Vector) -> bool:
        """Return whether a vector is a sum of unit vectors whose products are known."""
        if self.known is None:
            return False
        units = self.known.units
        return len(units) == self.into.size or np.count_nonzero(vector) == np.count_nonzero(vector[units])

    def allowed(self, asked: Asked) -> Vector:
        """Return by how much each element of a product may be off.

        Two products of a right endpoint are each off by no more than ``rtol`` of their terms (an iterative solver is
        not exactly linear), and by rounding and noise.
        """
        noise = self.atol * asked.weight + self.noise
        allowed: Vector = 2 * self.rtol * asked.terms + self.rounding(asked.terms) + noise
        return allowed

    def repeatable(self, asked: Asked, rtol: float) -> Vector:
        """Return by how much a product may differ when it is asked for once more, in another memory layout or not.

        The same terms may be added up in another order, and an iterative solver may start from its last solution.
        """
        rounding = _REORDERED * self.roundoff * by_leaf(self.out, asked.terms) + _SUBNORMALS * self.smallest
        repeatable: Vector = 2 * rtol * asked.terms + rounding + self.atol * asked.weight + self.noise
        return repeatable

    def rounding(self, terms: Vector) -> Vector:
        """Return what rounding may cost each element of a product."""
        rounding: Vector = self.tolerance * by_leaf(self.out, terms) + _SUBNORMALS * self.smallest
        return rounding

    @cached_property
    def smallest(self) -> float:
        """Smallest positive number that every array of the map can hold."""
        leaves = (*self.into.leaves, *self.out.leaves)
        return max(float(np.finfo(leaf.real_dtype).smallest_subnormal) for leaf in leaves)

    @cached_property
    def largest(self) -> float:
        """Largest number that every array of the map can hold."""
        return min(float(np.finfo(leaf.real_dtype).max) for leaf in (*self.into.leaves, *self.out.leaves))


@dataclass(frozen=True)
class Asked:
    """A product that was asked for.

    Parameters
    ----------
    vector, product, terms : ndarray
        The vector, the product with it, and the sizes of the terms that add up to each element of that.
    """

    vector: Vector
    product: Vector
    terms: Vector

    @cached_property
    def weight(self) -> float:
        """Sum of the sizes of the elements of the vector."""
        return float(np.abs(self.vector).sum())


def linear_map(
    endpoint: Function, problem: Problem, eps: float = 0.0, rtol: float = 0.0, atol: float = 0.0,
    known: Known | None = None,
) -> Linear:  # fmt: skip
    """Return a jvp or vjp as a map between vectors."""
    if endpoint.name == "jvp":
        return Linear(endpoint, problem, problem.inputs, problem.outputs, "apply's output", eps, rtol, atol, known)
    return Linear(endpoint, problem, problem.outputs, problem.inputs, "x0", eps, rtol, atol, known)


def random_vector(layout: Layout, draw: np.random.Generator) -> Vector:
    """Return a dense vector of +-U(0.5, 1.5), a few bits each."""
    vector: Vector = _sizes(layout.size, draw) * draw.choice([-1.0, 1.0], layout.size)
    return vector


def constant_vector(layout: Layout, draw: np.random.Generator) -> Vector:
    """Return a vector of which each leaf holds one random number."""
    vector = np.zeros(layout.size)
    for leaf in layout.leaves:
        value = _sizes(leaf.parts, draw) * draw.choice([-1.0, 1.0], leaf.parts)
        vector[leaf.start : leaf.stop] = np.tile(value, leaf.size // leaf.parts)
    return vector


def _sizes(count: int, draw: np.random.Generator) -> Vector:
    sizes: Vector = draw.integers(_GRAIN // 2, 3 * _GRAIN // 2 + 1, count) / _GRAIN
    return sizes


def difference(product: Linear, got: Vector, expected: Vector, allowed: Vector, grains: float = 0.0) -> str:
    """Return where two products differ by more than is allowed, and by how much; empty if they do not.

    Elements that are expected to be no finite number, or one beyond the range of their format, are not looked at. With
    ``grains`` what rounding is seen to cost is allowed as well, so many times; four calls where a little differs.
    """
    apart = got - expected
    np.abs(apart, out=apart)
    if (apart <= allowed).all():
        return ""
    cancelled = _CANCELLED * product.roundoff * by_leaf(product.out, np.abs(expected))
    if grains and (apart <= np.maximum(allowed, cancelled)).all():
        allowed = np.maximum(allowed, np.minimum(grains * product.grain, cancelled))
    known = np.isfinite(allowed) & (np.abs(expected) <= 0.25 * product.largest)
    excess = np.where(known & (apart > 0), apart / allowed, 0.0)
    excess[known & ~np.isfinite(got)] = np.inf
    if not excess.size or not excess.max() > 1.0:
        return ""
    worst = int(np.argmax(excess))
    place = product.out.element(worst)
    if not np.isfinite(got[worst]):
        return f"and is not finite at {place}, where {expected[worst]:.6g} was expected"
    return f"by {apart[worst]:.3g} at {place}: {got[worst]:.6g} in place of {expected[worst]:.6g}"


def by_leaf(layout: Layout, values: Vector) -> Vector:
    """Return the largest finite value of each leaf in the place of all its elements; of a single leaf, once."""
    finite = np.isfinite(values)
    if len(layout.leaves) == 1:
        return np.array([values.max(initial=0.0, where=finite)])
    result = np.empty(layout.size)
    for leaf in layout.leaves:
        own = slice(leaf.start, leaf.stop)
        result[own] = values[own].max(initial=0.0, where=finite[own])
    return result


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
    for vector, got, expected in zip(vectors, together, loop, strict=True):
        allowed = product.allowed(Asked(vector, expected, product.terms(vector, expected)))
        off = difference(product, got, expected, allowed, GRAINS)
        if off:
            text = f"{name} of a stack of {count} vectors differs from the loop {off}."
            shown = {f"v{k}": product.shown(v) for k, v in enumerate(vectors)}
            return [Finding(name, Status.BATCHED, text, vectors=shown)]
    return []


def stacked_product(product: Linear, vectors: Sequence[Vector]) -> Vector:
    """Return the products with a stack of vectors, from one call with a new leading axis, shape (count, size).

    Raises
    ------
    Breach
        If the endpoint raises or returns another structure than for a single vector.
    """
    structures = [product.shown(vector) for vector in vectors]
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
