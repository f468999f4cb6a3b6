"""Functions for the comparison with other checkers, each with a right derivative and a wrong one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A function of one vector, its point, and two vjps: one is right, and one is wrong in a single entry."""

    name: str
    apply: Callable[[Array], Array]
    x0: Array
    right: Callable[[Array, Array], Array]
    wrong: Callable[[Array, Array], Array]


def _case(name: str, apply: Any, x0: Array, right: Any, entry: tuple[int, int], change: Any) -> Case:
    """Return a case whose wrong vjp has one entry of the Jacobian, (output, input), changed by a function."""
    output, element = entry

    def wrong(x: Array, cotangent: Array) -> Array:
        one = np.zeros_like(cotangent)
        one[output] = 1.0
        slope = right(x, one)[element]
        gradient = np.array(right(x, cotangent))
        gradient[element] += cotangent[output] * (change(slope) - slope)
        return gradient

    return Case(name, apply, x0, right, wrong)


def _by_half(slope: Any) -> Any:
    return slope * slope.dtype.type(1.5)


def network(dtype: Any) -> Case:
    """20 outputs of 50 inputs, tanh between two matrices; an entry is a half too large."""
    draw = np.random.default_rng(1)
    first, second = (draw.normal(0, 50**-0.5, shape).astype(dtype) for shape in ((50, 50), (20, 50)))

    def apply(x: Array) -> Array:
        return second @ np.tanh(first @ x)

    def vjp(x: Array, cotangent: Array) -> Array:
        return ((cotangent @ second) * (1 - np.tanh(first @ x) ** 2)) @ first

    x0 = draw.normal(size=50).astype(dtype)
    return _case(f"tanh network, 50 to 20, {np.dtype(dtype)}", apply, x0, vjp, (7, 11), _by_half)


def gradient(n: int) -> Case:
    """A sum over n inputs; an entry is a half too large."""
    draw = np.random.default_rng(2)
    weights, x0 = draw.uniform(0.5, 1.5, n), draw.normal(size=n)

    def apply(x: Array) -> Array:
        return np.array([np.sum(np.sin(x) * weights + x * x)])

    def vjp(x: Array, cotangent: Array) -> Array:
        return cotangent[0] * (np.cos(x) * weights + 2 * x)

    return _case(f"gradient of {n:,} inputs, float64", apply, x0, vjp, (0, n // 3), _by_half)


def noisy() -> Case:
    """Ten parabolas whose values jitter by a millionth, as those of a solver do; an entry is a half too large."""

    def apply(x: Array) -> Array:
        return x * x + 1e-6 * np.sin(1e15 * x)  # the same at the same x, and without order beside it

    def vjp(x: Array, cotangent: Array) -> Array:
        return 2 * x * cotangent

    return _case("jitter of 1e-6, 10 to 10", apply, np.linspace(0.5, 1.5, 10), vjp, (4, 4), _by_half)


def kinks() -> Case:
    """Relu, of which one input is at the kink; there 0 is right and -0.5 is not."""

    def apply(x: Array) -> Array:
        return np.maximum(x, 0.0)

    def vjp(x: Array, cotangent: Array) -> Array:
        return np.where(x > 0, cotangent, 0.0)

    x0 = np.linspace(-1.0, 1.25, 10)
    x0[4] = 0.0
    return _case("relu at its kink, 10 to 10", apply, x0, vjp, (4, 4), lambda _: -0.5)


def near_a_pole() -> Case:
    """Logarithms close to 0, where a fixed step is too wide; an entry is a half too large."""
    x0 = np.array([2e-6, 1e-5, 1e-3, 0.1, 1.0])
    return _case("log from 2e-6 to 1", np.log, x0, lambda x, cotangent: cotangent / x, (0, 0), _by_half)


def small_values() -> Case:
    """Numbers in an unwieldy unit, smaller than a fixed absolute tolerance; an entry is a half too large."""

    def apply(x: Array) -> Array:
        return 1e-7 * np.sin(x)

    def vjp(x: Array, cotangent: Array) -> Array:
        return 1e-7 * np.cos(x) * cotangent

    return _case("derivatives of size 1e-7, 10 to 10", apply, np.linspace(0.1, 1.0, 10), vjp, (3, 3), _by_half)


def cases(largest: int) -> list[Case]:
    """Return all cases with at most so many inputs."""
    all_of_them = [
        gradient(10), gradient(1_000), gradient(10_000), network(np.float64), network(np.float32),
        noisy(), kinks(), near_a_pole(), small_values(),
    ]  # fmt: skip
    return [case for case in all_of_them if case.x0.size <= largest]
