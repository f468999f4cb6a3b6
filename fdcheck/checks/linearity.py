"""Whether a jvp or vjp is linear in its vector: sums, signs, sizes and zero."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from fdcheck.checks.grain import GRAINS
from fdcheck.checks.products import Asked, Linear, Vector, by_leaf, difference
from fdcheck.results import Finding, Status

_LARGE = {2: 4.0, 4: 64.0, 8: 64.0}
"""By bytes of the dtype, sizes of vectors at which clipped or rounded products show; powers of two cost no rounding."""

_NOISES = 8.0
"""Largest noises seen so far by which the product with a small vector may be off: an iterative solver that stops at an
absolute tolerance is off by as much there as anywhere."""

_ALIKE = 0.01
"""Part of how far a product is off by which it may differ from what it is said to be like."""


def linearity_finding(product: Linear, v: Asked, w: Asked, total: Asked, in_parts: bool = False) -> list[Finding]:
    """Return why a map is not linear.

    Parameters
    ----------
    product : Linear
        The map; where products with unit vectors are known, their sums are what is expected.
    v, w, total : Asked
        Dense vectors with their products; where some products with unit vectors are known, v is a sum of those. The
        last is v + 2 w.
    in_parts : bool
        Whether to ask for two parts of v as well, which takes the place of unit vectors.

    Returns
    -------
    list of Finding
        One or none. Cost: 3 calls, 2 more in parts.

    Raises
    ------
    Breach
        If the endpoint raises or breaks its contract in another way.
    """
    return list(itertools.islice(_breaches(product, v, w, total, in_parts), 1))


def _breaches(product: Linear, v: Asked, w: Asked, total: Asked, in_parts: bool) -> Iterator[Finding]:
    """Yield each way in which a map is not linear."""
    name, noise = product.endpoint.name, np.zeros(1)
    for asked in (v, w):
        if product.known is None or not product.is_sum_of_known(asked.vector):
            continue
        expected = asked.vector[product.known.units] @ product.known.answers
        off = difference(product, asked.product, expected, product.allowed(asked), GRAINS)
        if off:
            text = f"{name} of a dense vector v is not the sum of its answers to unit vectors; it differs {off}"
            yield _finding(product, text + _likeness(product, asked), v=asked.vector)
        noise = np.fmax(noise, by_leaf(product.out, np.abs(asked.product - expected)))
    if in_parts:
        parts = _parts(product, v.vector)
        off = difference(product, v.product, product(parts[0]) + product(parts[1]), product.allowed(v), GRAINS)
        if off:
            text = f"{name} of a dense vector v is not the sum of its answers to two parts of it; it differs {off}"
            yield _finding(product, text, v=v.vector, part=parts[0])
    expected = v.product + 2 * w.product
    off = difference(product, total.product, expected, product.allowed(total), GRAINS)
    if off:
        text = f"{name} of v + 2 w is not that of v plus twice that of w; it differs {off}"
        yield _finding(product, text, v=v.vector, w=w.vector)
    np.subtract(total.product, expected, out=expected)
    noise = np.fmax(noise, by_leaf(product.out, np.abs(expected, out=expected)))
    still = _NOISES * noise + product.atol + product.noise
    del expected  # an array of the size of the input, where calls follow
    for factor in _factors(product, v.product):
        answer = product(factor * v.vector)
        allowed = abs(factor) * product.allowed(v) + still
        off = difference(product, answer, factor * v.product, allowed, abs(factor) * GRAINS)
        if off:
            text = f"{name} of {factor:g} v is not {factor:g} times that of v; it differs {off}"
            yield _finding(product, text + _size_likeness(answer, v.product, factor), v=v.vector)
        del answer
    zero = np.zeros(product.into.size)
    nothing = product(zero)
    nothing[~np.isfinite(v.product)] = 0.0
    off = difference(product, nothing, np.zeros(product.out.size), product.rounding(v.terms) + still)
    if off:
        yield _finding(product, f"{name} of zeros is not zero; it differs {off}", zeros=zero)


def _finding(product: Linear, text: str, **vectors: Vector) -> Finding:
    shown = {key: product.shown(vector) for key, vector in vectors.items()}
    return Finding(product.endpoint.name, Status.NONLINEAR, f"{text}.", vectors=shown)


def _factors(product: Linear, of_v: Vector) -> list[float]:
    """Return by what to multiply a vector: something small and negative, and something large.

    Numbers whose square would leave the range of the format are kept out: the code between may square them.
    """
    usual = _LARGE.get(min(leaf.real_dtype.itemsize for leaf in (*product.into.leaves, *product.out.leaves)), 64.0)
    finite = np.abs(of_v[np.isfinite(of_v)])
    sizes = [
        np.abs(values[np.isfinite(values)]).max(initial=0.0) for values in (product.problem.x, product.problem.value)
    ]
    top = max(1.0, float(finite.max(initial=0.0)), *map(float, sizes))
    bottom = float(finite.min(initial=1.0, where=finite > 0))
    small = -1.0 / usual if bottom / usual > np.sqrt(product.smallest) else -1.0
    return [small, usual] if top * usual < np.sqrt(product.largest) else [small]


def _parts(product: Linear, v: Vector) -> list[Vector]:
    """Return two vectors that add up to v: the first leaf and the others, or the halves of a single leaf.

    A product that heeds one output or one element alone, if there are several, is linear in dense vectors.
    """
    leaves = product.into.leaves
    edge = leaves[0].stop if len(leaves) > 1 else product.into.size // 2
    first = v.copy()
    first[edge:] = 0.0
    return [first, v - first]


def _likeness(product: Linear, asked: Asked) -> str:
    """Return what a product that is no sum of those with unit vectors is like, empty if nothing is found."""
    known = product.known
    if known is None:
        return ""
    weights, answers = asked.vector[known.units], known.answers
    expected, likes = weights @ answers, []
    filled = [leaf for leaf in product.into.leaves if leaf.size]
    if len(filled) > 1:
        edges = [np.searchsorted(known.units, (leaf.start, leaf.stop)) for leaf in filled]
        terms = [weights[start:stop] @ answers[start:stop] for start, stop in edges]
        likes += [(f"it holds the term of {leaf.path} alone", term) for leaf, term in zip(filled, terms, strict=True)]
        likes += [
            (f"the term of {leaf.path} is missing", expected - term) for leaf, term in zip(filled, terms, strict=True)
        ]
    likes.append(("it depends on the signs of the vector and not on its size", np.sign(weights) @ answers))
    likes.append(("it loses the signs of the vector", np.abs(weights) @ answers))
    likes.append(("it does not depend on the vector", answers.sum(axis=0)))
    return _first_alike(asked.product, expected, likes)


def _size_likeness(answer: Vector, of_v: Vector, factor: float) -> str:
    """Return what a product with a multiple of v is like, empty if nothing is found."""
    likes = [("it loses the sign of the vector", -factor * of_v)] if factor < 0 else []
    likes.append(("it depends on the signs of the vector and not on its size", np.sign(factor) * of_v))
    likes.append(("it does not depend on the vector", of_v))
    return _first_alike(answer, factor * of_v, likes)


def _first_alike(answer: Vector, expected: Vector, likes: list[tuple[str, Vector]]) -> str:
    off = np.abs(answer - expected).max(initial=0.0)
    return next((f"; {words}" for words, like in likes if np.abs(answer - like).max(initial=0.0) <= _ALIKE * off), "")
