"""Whether a jvp or vjp minds how its tangent or cotangent lies in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.checks.products import Asked, Linear, difference
from fdcheck.problem import trees
from fdcheck.problem.callables import Breach
from fdcheck.results import Finding, Status

Array = NDArray[Any]


def layout_finding(product: Linear, w: Asked, total: Asked, rtol: float) -> list[Finding]:
    """Return in which memory layout of its vector a map gives another product.

    Parameters
    ----------
    product : Linear
        The map.
    w, total : Asked
        A vector of which each leaf is constant, and a random one, with their products.
    rtol : float
        Part of its terms by which a product may differ when it is asked for twice.

    Returns
    -------
    list of Finding
        One or none. Cost: at most 3 calls; none for scalars and single elements, which have one layout.

    Raises
    ------
    Breach
        If the endpoint breaks its contract in another way than by raising.
    """
    cases: tuple[tuple[str, Callable[[Array], Array], Asked], ...] = (
        ("column-major", _column_major, total),
        ("negative-stride", _backwards, total),
        ("zero-stride", _repeated, w),
    )
    name = product.endpoint.name
    allowed = product.repeatable(total, rtol)  # what cancels for a constant has the rounding of its terms
    for word, laid, asked in cases:
        plain = product.shown(asked.vector)
        argument = optree.tree_map(
            lambda leaf, laid=laid: laid(leaf) if _has_layouts(leaf) else leaf,
            plain, none_is_leaf=True, namespace="fdcheck",
        )  # fmt: skip
        if _strides(argument) == _strides(plain):
            continue
        x = product.problem.structure()
        try:
            result = product.endpoint.on(x, argument, where=f"x0 and a {word} vector")
        except Breach as breach:
            told = breach.finding.message.removeprefix(f"{name} ").rstrip(".")
        else:
            off = difference(product, product.read(result), asked.product, allowed)
            told = f"differs {off}" if off else ""
        if told:
            text = f"{name} with a {word} array in place of a contiguous one {told}."
            return [Finding(name, Status.LAYOUT, text, vectors={"v": argument})]
    return []


def _strides(structure: Any) -> list[tuple[int, ...]]:
    return [leaf.strides if isinstance(leaf, np.ndarray) else () for leaf in trees.flatten(structure)[0]]


def _has_layouts(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.ndim > 0 and leaf.size > 1 and leaf.dtype.kind in "fc"


def _column_major(leaf: Array) -> Array:
    return leaf.T.copy().T


def _backwards(leaf: Array) -> Array:
    """Return an array whose last axis runs backwards over every other number; the ones between are NaN."""
    room = np.full((*leaf.shape[:-1], 2 * leaf.shape[-1]), np.nan, leaf.dtype)
    room[..., ::-2] = leaf
    return room[..., ::-2]


def _repeated(leaf: Array) -> Array:
    """Return the first number with strides of zero, as the gradient of a sum is."""
    one = np.array([leaf.flat[0], np.nan], leaf.dtype)[:1]
    return np.lib.stride_tricks.as_strided(one, leaf.shape, (0,) * leaf.ndim)
