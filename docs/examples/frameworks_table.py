"""Verdicts of the frameworks' own checkers and of fdcheck on the same hand-written gradients, as a table.

Writes docs/frameworks_table.inc, in one run of a minute: ``python docs/examples/frameworks_table.py``. It needs torch,
jax and tensorplay (the extra ``test-all``).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorplay
import torch
from jax.test_util import check_grads

from fdcheck.adapters.torch import gradcheck

SPOILED = ("sin x", "tanh x", "x^2 + 100", "x^2 at 1e4", "1e-6 x^2")
"""Functions that also come with wrong gradients."""

TARGET = Path(__file__).parents[1] / "frameworks_table.inc"
F32, F64, C128 = np.float32, np.float64, np.complex128


@dataclass(frozen=True)
class Row:
    """A function with a gradient of somebody's own: ``forward(xp, x)`` and ``backward(xp, g, x)``."""

    name: str
    dtype: type
    gradient: str
    is_right: bool
    x0: Any
    forward: Callable[[Any, Any], Any]
    backward: Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Cell:
    """What one checker said: pass, fail, inconclusive or error; calls of the function; seconds."""

    word: str
    calls: int
    seconds: float


def one_hot_factor(xp: Any, x: Any, index: int, factor: float) -> Any:
    """Return ones like x, but for a factor at one index."""
    values = np.ones(x.shape, F64)
    values.flat[index] = factor
    return as_array(xp, values.astype(F32 if "32" in str(x.dtype) else F64))


def as_array(xp: Any, values: Any) -> Any:
    """Return an array of a package."""
    return jnp.asarray(values) if xp is jnp else xp.from_numpy(np.asarray(values))


def step(xp: Any, x: Any) -> Any:
    """Return 1 where x is positive, else 0."""
    return xp.where(x > 0, xp.ones_like(x), xp.zeros_like(x))


def rows() -> Iterator[Row]:
    """Yield the functions, with right and wrong gradients, in the order of the table."""
    smooth = [
        ("sin x", [0.3, 1.2, -2.0], lambda xp, x: xp.sin(x), lambda xp, x: xp.cos(x)),
        ("exp x", [0.3, 1.2, -2.0], lambda xp, x: xp.exp(x), lambda xp, x: xp.exp(x)),
        ("tanh x", [0.3, 1.2, -1.0], lambda xp, x: xp.tanh(x), lambda xp, x: 1 - xp.tanh(x) ** 2),
        ("x^3 + x", [0.3, 1.2, -2.0], lambda xp, x: x**3 + x, lambda xp, x: 3 * x**2 + 1),
        ("exp 20 x", [0.3, 0.7], lambda xp, x: xp.exp(20 * x), lambda xp, x: 20 * xp.exp(20 * x)),
        ("x^2 + 100", [0.3, 1.2], lambda xp, x: x**2 + 100, lambda xp, x: 2 * x),
        ("x^2 at 1e4", [1e4, 2e4], lambda xp, x: x**2, lambda xp, x: 2 * x),
        ("log x at 1e-6", [1e-6, 2e-6], lambda xp, x: xp.log(x), lambda xp, x: 1 / x),
        ("sqrt x at 1e-6", [1e-6, 2e-6], lambda xp, x: xp.sqrt(x), lambda xp, x: 0.5 / xp.sqrt(x)),
        ("1/x at 2e-6", [2e-6, 5e-6], lambda xp, x: 1 / x, lambda xp, x: -1 / x**2),
        ("1e-6 x^2", [0.3, 1.2], lambda xp, x: 1e-6 * x**2, lambda xp, x: 2e-6 * x),
        ("relu near 0", [1e-7, -1e-7, 0.5], lambda xp, x: x * step(xp, x), step),
        ("abs near 0", [1e-7, -1e-7, 0.5], lambda xp, x: xp.abs(x), lambda xp, x: 2 * step(xp, x) - 1),
    ]
    for dtype in (F64, F32):
        for name, x0, forward, slope in smooth:
            yield Row(name, dtype, "right", True, x0, forward, lambda xp, g, x, s=slope: g * s(xp, x))
            if name in SPOILED:
                large = lambda xp, g, x, s=slope: 1.05 * g * s(xp, x)  # noqa: E731
                lost = lambda xp, g, x, s=slope: g * s(xp, x) * one_hot_factor(xp, x, 0, 0.0)  # noqa: E731
                yield Row(name, dtype, "5 % off", False, x0, forward, large)
                yield Row(name, dtype, "one is 0", False, x0, forward, lost)
    relu = lambda xp, x: x * step(xp, x)  # noqa: E731
    for at_zero in (0.0, 0.5, 2.0):
        backward = lambda xp, g, x, k=at_zero: g * (step(xp, x) + k * (1 - step(xp, x) - step(xp, -x)))  # noqa: E731
        yield Row("relu at 0", F64, f"slope {at_zero:g}", at_zero <= 1, [0.0, 1.0], relu, backward)
    yield Row("sin x at 1e9", F64, "right", True, [1e9], lambda xp, x: xp.sin(x), lambda xp, g, x: g * xp.cos(x))
    yield Row("x^2 + 1e10", F64, "right", True, [0.3, 1.2], lambda xp, x: x**2 + 1e10, lambda xp, g, x: 2 * g * x)
    square = lambda xp, x: x * x  # noqa: E731
    yield Row("x^2", F64, "not linear", False, [0.3, 1.2], square, lambda xp, g, x: 2 * g * g * x)
    total, many, name = lambda xp, x: (x * x).sum(), list(np.linspace(0.5, 1.5, 1000)), "sum x^2, n = 1000"
    six = lambda xp, g, x: 2 * g * x * one_hot_factor(xp, x, 700, 6.0)  # noqa: E731
    for dtype in (F64, F32):
        yield Row(name, dtype, "right", True, many, total, lambda xp, g, x: 2 * g * x)
        yield Row(name, dtype, "zero", False, many, total, lambda xp, g, x: 0 * g * x)
    yield Row(name, F64, "one is 6 times", False, many, total, six)
    z0 = [1 + 2j, 0.5 - 1j]
    for name, forward, slope in (
        ("z^2", square, lambda xp, z: 2 * z),
        ("exp z", lambda xp, z: xp.exp(z), lambda xp, z: xp.exp(z)),
    ):
        yield Row(name, C128, "right", True, z0, forward, lambda xp, g, z, s=slope: g * adjoint(xp, s(xp, z)))
        yield Row(name, C128, "conjugated", False, z0, forward, lambda xp, g, z, s=slope: g * plain(xp, s(xp, z)))
        yield Row(name, C128, "5 % off", False, z0, forward, lambda xp, g, z, s=slope: 1.05 * g * adjoint(xp, s(xp, z)))


def adjoint(xp: Any, z: Any) -> Any:
    """Return what a vjp multiplies with: the conjugate in torch's convention, the number itself in jax's."""
    return z if xp is jnp else xp.conj(z).resolve_conj()


def plain(xp: Any, z: Any) -> Any:
    """Return what it multiplies with in the other convention."""
    return jnp.conj(z) if xp is jnp else z


class Counted:
    """A row's function in one package, with the row's gradient, counting its calls."""

    def __init__(self, row: Row, package: Any) -> None:
        self.calls = 0
        self.function = self._jax(row) if package is jnp else self._tensors(row, package)

    def _tensors(self, row: Row, package: Any) -> Callable[[Any], Any]:
        counted = self

        class Own(package.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                counted.calls += 1
                ctx.save_for_backward(x)
                return row.forward(package, x)

            @staticmethod
            def backward(ctx: Any, g: Any) -> Any:
                return row.backward(package, g, *ctx.saved_tensors)

        return Own.apply

    def _jax(self, row: Row) -> Callable[[Any], Any]:
        @jax.custom_vjp
        def own(x: Any) -> Any:
            self.calls += 1
            return row.forward(jnp, x)

        own.defvjp(lambda x: (row.forward(jnp, x), x), lambda x, g: (row.backward(jnp, g, x),))
        return own


def cell(row: Row, package: Any, check: Callable[[Callable[[Any], Any], Any], Any]) -> Cell:
    """Return what a checker says of a row."""
    counted = Counted(row, package)
    x = np.array(row.x0, row.dtype)
    begin = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            word = check(counted.function, x)
    except NotImplementedError:
        word = "error"
    return Cell(word, counted.calls, time.perf_counter() - begin)


def by_tensors(package: Any, check: Callable[..., bool], **options: Any) -> Callable[..., Cell]:
    """Return a checker of tensors as one of rows."""

    def says(function: Any, x: Any) -> str:
        inputs = (package.from_numpy(x).requires_grad_(True),)
        return "pass" if check(function, inputs, raise_exception=False, **options) else "fail"

    return lambda row: cell(row, package, says)


def by_jax(row: Row) -> Cell:
    """Return what jax says."""

    def says(function: Any, x: Any) -> str:
        with jax.enable_x64(row.dtype is not F32):
            try:
                check_grads(function, (jnp.asarray(x),), 1, modes=("rev",))
            except AssertionError:
                return "fail"
            return "pass"

    return cell(row, jnp, says)


def by_fdcheck(row: Row) -> Cell:
    """Return what fdcheck says, on torch tensors."""

    def says(function: Any, x: Any) -> str:
        report: Any = gradcheck(function, (torch.from_numpy(x).requires_grad_(True),), report=True)
        return str(report.verdict)

    return cell(row, torch, says)


CHECKERS: dict[str, Callable[[Row], Cell]] = {
    "torch slow": by_tensors(torch, torch.autograd.gradcheck),
    "torch fast": by_tensors(torch, torch.autograd.gradcheck, fast_mode=True),
    "jax": by_jax,
    "tensorplay": by_tensors(tensorplay, tensorplay.autograd.gradcheck),
    "fdcheck": by_fdcheck,
}


def table() -> list[tuple[Row, dict[str, Cell]]]:
    """Return all rows with what each checker says; one row beforehand, so that nobody pays for compiling."""
    everything = list(rows())
    for check in CHECKERS.values():
        check(everything[0])
    return [(row, {name: check(row) for name, check in CHECKERS.items()}) for row in everything]


def is_right(row: Row, found: Cell) -> bool:
    """Return whether a checker is right."""
    return found.word == ("pass" if row.is_right else "fail")


def text(results: list[tuple[Row, dict[str, Cell]]]) -> str:
    """Return the table in reStructuredText; what is wrong stands in bold."""
    lines = [".. list-table::", "   :header-rows: 1", "", "   * - function", "     - dtype", "     - gradient"]
    lines += [f"     - {name}" for name in CHECKERS]
    for row, cells in results:
        kind = row.gradient if row.is_right else f"{row.gradient} (wrong)"
        lines += [f"   * - {row.name}", f"     - {np.dtype(row.dtype)}", f"     - {kind}"]
        for found in cells.values():
            word = found.word if is_right(row, found) else f"**{found.word}**"
            lines.append(f"     - {word}, {found.calls}, {1000 * found.seconds:.1f} ms")
    counts = [sum(is_right(row, cells[name]) for row, cells in results) for name in CHECKERS]
    lines += [f"   * - right of {len(results)}", "     -", "     -", *(f"     - {count}" for count in counts)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    found = table()
    TARGET.write_text(text(found), encoding="utf-8")
    for row, cells in found:
        wrong = [f"{name}: {cell.word}" for name, cell in cells.items() if not is_right(row, cell)]
        print(f"{row.name:20} {np.dtype(row.dtype)!s:10} {row.gradient:15} {', '.join(wrong)}")
    print(text(found)[-300:])
