"""Functions with known derivatives, and wrong twins of those derivatives.

Every function is analytic and takes complex arguments, so that the closed form of its Jacobian can be compared
with a complex step; every one keeps the dtype of its argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Wrong:
    """A wrong Jacobian: what is wrong with it, the matrix, and which entries are off by 3 % of their row or more."""

    what: str
    matrix: Array
    entries: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Smooth:
    """A smooth function of one vector, its point and its exact Jacobian."""

    name: str
    apply: Callable[[Array], Array]
    x0: Array
    exact: Callable[[Array], Array]

    def point(self, dtype: Any = np.float64) -> Array:
        """Return x0 as fdcheck gets it."""
        return self.x0.astype(dtype)

    def jacobian(self, dtype: Any = np.float64) -> Array:
        """Return the exact Jacobian at x0 as rounded to a dtype, in float64 or wider."""
        wide = np.result_type(dtype, np.float64)
        return self.exact(self.point(dtype).astype(wide))

    def wrong_twins(self, dtype: Any = np.float64) -> Iterator[Wrong]:
        """Yield Jacobians with a mistake that people make."""
        right = self.jacobian(dtype)
        m, n = right.shape
        scaled = np.abs(right) * np.abs(self.x0)
        i, j = np.unravel_index(int(np.argmax(scaled)), right.shape)
        for what, factor in (("5 % off", 1.05), ("sign", -1.0), ("dropped", 0.0), ("doubled", 2.0)):
            wrong = right.copy()
            wrong[i, j] *= factor
            yield _wrong(f"{what} at {i, j}", right, wrong)
        yield _wrong("all of it 3.5 % too large", right, 1.035 * right)
        zeros = np.argwhere(right == 0)
        if len(zeros):
            a, b = zeros[0]
            wrong = right.copy()
            wrong[a, b] = 0.3 * scaled[a].max() / np.abs(self.x0[b])
            yield _wrong(f"an entry too many at {a, b}", right, wrong)
        if n > 1 and not np.array_equal(right[:, 0], right[:, 1]):
            yield _wrong("two columns swapped", right, right[:, [1, 0, *range(2, n)]])
        if m == n and not np.allclose(right, right.T):
            yield _wrong("transposed", right, right.T.copy())


def _wrong(what: str, right: Array, wrong: Array) -> Wrong:
    off = np.abs(wrong - right)
    return Wrong(what, wrong, frozenset((int(i), int(j)) for i, j in np.argwhere(off > 0.03 * np.abs(right))))


def complex_step(apply: Callable[[Array], Array], x: Array) -> Array:
    """Return the Jacobian of an analytic function without subtraction, so exact to rounding."""
    tiny = 1e-30
    return np.stack([np.imag(apply(x + 1j * tiny * e)) / tiny for e in np.eye(len(x))], axis=1)


def _cubic(x: Array) -> Array:
    return np.stack([x[0] ** 3 - 2 * x[0] * x[1], x[1] ** 2 + 4 * x[2], x[0] * x[1] * x[2]])


def _cubic_exact(x: Array) -> Array:
    a, b, c = x
    return np.array([[3 * a * a - 2 * b, -2 * a, 0 * a], [0 * a, 2 * b, 4 + 0 * a], [b * c, a * c, a * b]])


_W = np.array([[0.7, -0.4, 0.2, 0.9], [-0.3, 0.8, 0.5, -0.6], [0.4, 0.1, -0.9, 0.3]])


def _layer(x: Array) -> Array:
    return np.tanh(_W.astype(x.dtype) @ x)


def _layer_exact(x: Array) -> Array:
    return (1 - np.tanh(_W @ x) ** 2)[:, None] * _W


def _softmax(x: Array) -> Array:
    e = np.exp(x)
    return e / e.sum()


def _softmax_exact(x: Array) -> Array:
    s = _softmax(x)
    return np.diag(s) - np.outer(s, s)


def _unit(x: Array) -> Array:
    return x / np.sqrt((x * x).sum())


def _unit_exact(x: Array) -> Array:
    r = np.sqrt((x * x).sum())
    return np.eye(len(x)) / r - np.outer(x, x) / r**3


def _uptake(x: Array) -> Array:
    rate, half, food = x
    return np.stack([rate * food / (half + food)])


def _uptake_exact(x: Array) -> Array:
    rate, half, food = x
    sum_ = half + food
    return np.array([[food / sum_, -rate * food / sum_**2, rate * half / sum_**2]])


_TIMES = np.array([0.5, 1.0, 2.0, 4.0])


def _decay(x: Array) -> Array:
    return x[0] * np.exp(-x[1] * _TIMES.astype(x.dtype))


def _decay_exact(x: Array) -> Array:
    e = np.exp(-x[1] * _TIMES)
    return np.stack([e, -x[0] * _TIMES * e], axis=1)


def _determinant(x: Array) -> Array:
    a, b, c, d, e, f, g, h, i = x
    return np.stack([a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)])


def _determinant_exact(x: Array) -> Array:
    matrix = x.reshape(3, 3).astype(np.float64)
    return (np.linalg.det(matrix) * np.linalg.inv(matrix).T).reshape(1, 9)


def _ring(x: Array) -> Array:
    """Return a reaction and diffusion step on a ring of cells."""
    return x + x.dtype.type(0.1) * (np.roll(x, 1) - 2 * x + np.roll(x, -1)) - x.dtype.type(0.2) * x**3


def _ring_exact(x: Array) -> Array:
    one = np.eye(len(x))
    tenth, fifth = 0.1, 0.2
    return one + tenth * (np.roll(one, 1, 0) - 2 * one + np.roll(one, -1, 0)) - np.diag(3 * fifth * x**2)


def _arm(x: Array) -> Array:
    """Return the end of a planar arm with two joints: lengths 1 and 0.7."""
    first, both = x[0], x[0] + x[1]
    seven = x.dtype.type(0.7)
    return np.stack([np.cos(first) + seven * np.cos(both), np.sin(first) + seven * np.sin(both)])


def _arm_exact(x: Array) -> Array:
    a, b = x[0], x[0] + x[1]
    return np.array([[-np.sin(a) - 0.7 * np.sin(b), -0.7 * np.sin(b)], [np.cos(a) + 0.7 * np.cos(b), 0.7 * np.cos(b)]])


SMOOTH = (
    Smooth("cubic", _cubic, np.array([1.3, -0.7, 2.1]), _cubic_exact),
    Smooth("layer", _layer, np.array([0.4, -1.1, 0.8, 0.25]), _layer_exact),
    Smooth("softmax", _softmax, np.array([0.3, -0.8, 1.2, 0.5]), _softmax_exact),
    Smooth("unit vector", _unit, np.array([3.0, -4.0, 1.5]), _unit_exact),
    Smooth("uptake", _uptake, np.array([2.5, 0.6, 1.1]), _uptake_exact),
    Smooth("decay", _decay, np.array([120.0, 0.35]), _decay_exact),
    Smooth("determinant", _determinant, np.array([2.0, 0.5, -1, 0.3, 1.7, 0.6, -0.8, 0.4, 3]), _determinant_exact),
    Smooth("ring", _ring, np.array([0.9, -0.4, 1.3, 0.7, -1.1, 0.2]), _ring_exact),
    Smooth("arm", _arm, np.array([0.6, -1.9]), _arm_exact),
)

BY_NAME = {problem.name: problem for problem in SMOOTH}


def jitter(x: Array, size: float = 1.0) -> float:
    """Return noise that hangs on the bits of x alone: the same for equal x, unrelated for neighbours."""
    return size * float(np.random.default_rng(list(np.ascontiguousarray(x).tobytes())).standard_normal())
