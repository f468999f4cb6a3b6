"""Many outputs weighted and summed to a few, so that a Jacobian too large to hold can be checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fdcheck.problem import trees

SUMS = 2
"""Sums with weights of their own: what cancels in one by chance does not in the other."""


def projected(
    apply: Callable[[Any], Any], endpoints: Mapping[str, Callable[..., Any]], y0: Any
) -> tuple[Callable[[Any], Any], dict[str, Callable[..., Any]]]:
    """Return apply and endpoints whose output is ``{"sums": array}``, random real sums of all output elements.

    Sums are of the shortest dtype of the outputs and about as large as one of their elements. In a wider dtype they
    would hide how coarse the outputs are, and an output that a small step leaves as it is would pass for a constant.

    Parameters
    ----------
    apply, endpoints
        With outputs like y0.
    y0 : object
        Structure of arrays, None in the place of outputs that are not differentiable.
    """
    draw = np.random.default_rng(0x73756D)
    leaves, spec = trees.flatten(y0)
    arrays = [np.asarray(y) for y in leaves if y is not None]
    dtype = min((y.real.dtype for y in arrays), key=lambda dtype: dtype.itemsize)
    scale = 2.0 ** -round(np.log2(max(sum(y.size for y in arrays), 1)) / 2)
    weights = [[None if y is None else scale * _weights(draw, np.asarray(y)) for y in leaves] for _ in range(SUMS)]

    def sums(outputs: Any) -> Any:
        values = trees.flatten(outputs)[0]
        return {"sums": np.array([sum(map(_product, row, values)) for row in weights], dtype)}

    def vjp(x: Any, cotangent: Any) -> Any:
        first, second = cotangent["sums"]
        arrays = [None if u is None else first * u + second * v for u, v in zip(*weights, strict=True)]
        return endpoints["vjp"](x, spec.unflatten(arrays))

    def jvp(x: Any, tangent: Any) -> Any:
        return sums(endpoints["jvp"](x, tangent))

    own = {"vjp": vjp, "jvp": jvp}
    return (lambda x: sums(apply(x))), {name: own[name] for name in endpoints}


def _product(weights: Any, values: Any) -> float:
    """Return Re<weights, values>; None stands for zero."""
    return 0.0 if weights is None or values is None else float(np.sum((np.conj(weights) * values).real))


def _weights(draw: np.random.Generator, like: Any) -> Any:
    parts = [draw.uniform(0.5, 1.5, like.shape) * draw.choice([-1.0, 1.0], like.shape) for _ in range(2)]
    return parts[0] + 1j * parts[1] if like.dtype.kind == "c" else parts[0]
