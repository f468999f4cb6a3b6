"""Many outputs weighted and summed to a few, so that a Jacobian too large to hold can be checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_SUMS = 2
"""Sums with weights of their own: what cancels in one by chance does not in the other."""


def projected(
    apply: Callable[[Any], Any],
    endpoints: Mapping[str, Callable[..., Any]],
    shapes: Sequence[tuple[int, ...]],
    dtypes: Sequence[type],
) -> tuple[Callable[[Any], Any], dict[str, Callable[..., Any]]]:
    """Return apply and endpoints whose outputs are ``{"sums": [...]}``, random real sums of all output elements.

    Parameters
    ----------
    apply, endpoints
        With an output ``{"outputs": [array, ...]}``.
    shapes, dtypes
        Of those arrays.
    """
    draw = np.random.default_rng(0x73756D)
    weights = [
        [_weights(draw, shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)] for _ in range(_SUMS)
    ]

    def sums(outputs: Any) -> Any:
        parts = [
            [0.0 if y is None else np.sum((np.conj(w) * y).real) for w, y in zip(row, outputs["outputs"], strict=True)]
            for row in weights
        ]
        return {"sums": np.array([np.sum(row) for row in parts], np.float64)}

    def vjp(x: Any, cotangent: Any) -> Any:
        coefficients = cotangent["sums"]
        arrays = [
            sum(c * w for c, w in zip(coefficients, column, strict=True)) for column in zip(*weights, strict=True)
        ]
        return endpoints["vjp"](x, {"outputs": arrays})

    def jvp(x: Any, tangent: Any) -> Any:
        return sums(endpoints["jvp"](x, tangent))

    own = {"vjp": vjp, "jvp": jvp}
    return (lambda x: sums(apply(x))), {name: own[name] for name in endpoints}


def _weights(draw: np.random.Generator, shape: tuple[int, ...], dtype: type) -> Any:
    parts = [draw.uniform(0.5, 1.5, shape) * draw.choice([-1.0, 1.0], shape) for _ in range(2)]
    return parts[0] + 1j * parts[1] if np.dtype(dtype).kind == "c" else parts[0]
