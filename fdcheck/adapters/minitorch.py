"""check_gradient and numerical_gradient for closures over tensors of small frameworks of one's own."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.adapters.tolerances import as_theirs, measured_with
from fdcheck.api import differentiate, verify
from fdcheck.results import InvalidInput, Report

Array = NDArray[Any]

_ROUNDOFFS = 8.0
"""Roundings of the largest element that an element of a gradient may carry by default: terms that cancel."""


def check_gradient(
    f: Callable[[], Any],
    inputs: Sequence[Any],
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    keep_dtype: bool = False,
    report: bool = False,
) -> bool | Report:
    """Check the gradients that ``backward()`` leaves in tensors.

    Parameters
    ----------
    f : callable
        Takes nothing and returns a tensor of one element, computed from ``inputs``.
    inputs : sequence
        Tensors with ``data`` (an array), ``grad`` (an array or None), ``zero_grad()``, and a ``backward()`` of f's
        result. One that f does not use has gradient zero; one with ``requires_grad`` False is left alone.
    eps, atol, rtol : float, optional
        Step, and tolerances that mean ``|a - n| <= atol + rtol |n|`` widened by the error bar; by default fdcheck
        chooses, for the dtype of the tensors.
    keep_dtype : bool
        Whether the tensors keep their dtype while f is measured; they are float64 otherwise.
    report : bool
        Whether to return the Report, whatever the verdict.

    Returns
    -------
    bool or Report
        True if the check passed. The tensors are as they were before, also when f raises.

    Raises
    ------
    DerivativeMismatch
        If the check failed or was inconclusive; an AssertionError, with the report as its message.
    """
    tensors = _differentiated(inputs)
    with _restored(tensors):
        claims = _gradients(f, tensors)
        shortest = max(float(np.finfo(np.asarray(t.data).dtype).eps) for t in tensors)
        largest = max(float(np.abs(claim).max(initial=0.0)) for claim in claims)
        allowed = max(1e-3, 8 * shortest ** (2 / 3)) if rtol is None else measured_with(rtol)
        absolute = _ROUNDOFFS * shortest * largest if atol is None else atol
        apply, x0 = _as_function(f, tensors, keep_dtype)
        found = verify(
            apply,
            x0,
            vjp=lambda x, c: {"inputs": [c * claim for claim in claims]},
            eps=eps,
            atol=absolute,
            rtol=allowed,
        )
    found = dataclasses.replace(as_theirs(found, rtol, absolute), settings={})
    if report:
        return found
    found.raise_if_failed()
    return True


def numerical_gradient(
    f: Callable[[], Any], inputs: Sequence[Any], eps: float | None = None, *, keep_dtype: bool = False
) -> list[NDArray[np.float64]]:
    """Measure the gradient of a closure over tensors.

    Parameters
    ----------
    f, inputs, keep_dtype
        As for :func:`check_gradient`.
    eps : float, optional
        Step; by default fdcheck chooses.

    Returns
    -------
    list of ndarray
        One array for each input, of its shape; zeros for one with ``requires_grad`` False.
    """
    tensors = _differentiated(inputs)
    with _restored(tensors):
        apply, x0 = _as_function(f, tensors, keep_dtype)
        estimate = differentiate(apply, x0, eps=eps)
    values = iter(block.value for block in estimate.blocks)
    moved = [any(t is own for own in tensors) for t in inputs]
    return [
        np.reshape(next(values), np.shape(t.data)) if moves else np.zeros(np.shape(t.data))
        for t, moves in zip(inputs, moved, strict=True)
    ]


def _differentiated(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs that require a gradient."""
    tensors = [t for t in inputs if getattr(t, "requires_grad", True)]
    for t in inputs:
        if not hasattr(t, "data") or not hasattr(t, "grad"):
            raise InvalidInput(f"inputs: expected tensors with .data and .grad, got {type(t).__name__}")
    if not tensors or not all(np.asarray(t.data).dtype.kind == "f" for t in tensors):
        kinds = ", ".join(str(np.asarray(t.data).dtype) for t in tensors) or "none that requires a gradient"
        raise InvalidInput(f"inputs: expected tensors of floating numbers, got {kinds}")
    return tensors


@contextlib.contextmanager
def _restored(tensors: Sequence[Any]) -> Iterator[None]:
    """Give tensors their data and gradients back at the end: the same arrays with the same numbers."""
    before = [(t, t.data, np.array(t.data), t.grad, None if t.grad is None else np.array(t.grad)) for t in tensors]
    try:
        yield
    finally:
        for t, data, numbers, gradient, slopes in before:
            _put_back(data, numbers)
            _put_back(gradient, slopes)
            t.data, t.grad = data, gradient


def _put_back(array: Any, numbers: Array | None) -> None:
    """Give an array its numbers back where something has changed them in place."""
    if isinstance(array, np.ndarray) and numbers is not None and array.tobytes() != numbers.tobytes():
        array[...] = numbers


def _gradients(f: Callable[[], Any], tensors: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Return the gradients that backward leaves; zeros where it leaves none."""
    for t in tensors:
        t.zero_grad()
    f().backward()
    return [
        np.zeros(np.shape(t.data)) if t.grad is None else np.array(t.grad, np.float64).reshape(np.shape(t.data))
        for t in tensors
    ]


def _as_function(
    f: Callable[[], Any], tensors: Sequence[Any], keep_dtype: bool
) -> tuple[Callable[[Any], Any], dict[str, list[Array]]]:
    """Return f as a function of the tensors' data, and where it stands."""
    x0 = [np.array(t.data) if keep_dtype else np.array(t.data, np.float64) for t in tensors]

    def apply(x: Any) -> Any:
        for t, values in zip(tensors, x["inputs"], strict=True):
            t.data = np.asarray(values)
        loss = np.asarray(f().data)
        return loss.reshape(())

    return apply, {"inputs": x0}
