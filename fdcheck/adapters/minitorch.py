"""check_gradient and numerical_gradient for closures over tensors of small frameworks of one's own."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.adapters.points import require_usable
from fdcheck.adapters.tolerances import as_theirs, measured_with, remedy, rounding
from fdcheck.api import differentiate, verify
from fdcheck.results import InvalidInput, Report

Array = NDArray[Any]


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
    tensors = _tensors(inputs)
    moved = _moved(tensors)
    with _restored(tensors):
        apply, x0 = _as_function(f, tensors, moved, keep_dtype)
        claims = _gradients(f, moved)
        numbers = _tolerances(moved, claims, rtol, atol)
        dtypes = [np.asarray(t.data).dtype if keep_dtype else np.dtype(np.float64) for t in moved]
        shown = [claim.astype(dtype) for claim, dtype in zip(claims, dtypes, strict=True)]
        vjp = lambda x, c: {"inputs": _placed([c * g for g in shown], tensors, moved)}  # noqa: E731
        found = verify(apply, x0, vjp=vjp, eps=eps, **numbers)
    found = as_theirs(found, rtol, numbers["atol"])
    shortest = min(dtypes, key=lambda dtype: dtype.itemsize).name
    found = dataclasses.replace(found, notes=(*found.notes, *remedy(found, shortest, eps)), settings={})
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
    tensors = _tensors(inputs)
    moved = _moved(tensors)
    with _restored(tensors):
        apply, x0 = _as_function(f, tensors, moved, keep_dtype)
        estimate = differentiate(apply, x0, eps=eps)
    values = {id(t): block.value for t, block in zip(moved, estimate.blocks, strict=True)}
    return [np.reshape(values.get(id(t), np.zeros(np.shape(t.data))), np.shape(t.data)) for t in tensors]


def _tensors(inputs: Any) -> list[Any]:
    """Return the inputs as a list."""
    found = [inputs] if hasattr(inputs, "grad") else list(inputs)
    for t in found:
        missing = [f".{name}" for name in ("data", "grad", "zero_grad") if not hasattr(t, name)]
        if missing:
            raise InvalidInput(
                "inputs: expected a list of tensors with .data, .grad and .zero_grad(), "
                f"got {type(t).__name__} without {', '.join(missing)}"
            )
    return found


def _moved(inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs that require a gradient, each once."""
    found = list({id(t): t for t in inputs if getattr(t, "requires_grad", True)}.values())
    if not found or not all(np.asarray(t.data).dtype.kind == "f" for t in found):
        kinds = ", ".join(str(np.asarray(t.data).dtype) for t in found) or "none that requires a gradient"
        raise InvalidInput(f"inputs: expected tensors of floating numbers, got {kinds}")
    require_usable("inputs", {"inputs": [np.asarray(t.data) for t in found]})
    return found


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


def _gradients(f: Callable[[], Any], tensors: Sequence[Any]) -> list[Array]:
    """Return the gradients that backward leaves; zeros where it leaves none."""
    for t in tensors:
        t.zero_grad()
    result = f()
    if not hasattr(result, "backward"):
        raise InvalidInput(f"f: expected to return a tensor with backward(), got {type(result).__name__}")
    result.backward()
    return [np.zeros(np.shape(t.data)) if t.grad is None else np.array(t.grad) for t in tensors]


def _tolerances(
    tensors: Sequence[Any], claims: Sequence[Array], rtol: float | None, atol: float | None
) -> dict[str, Any]:
    """Return rtol and atol for verify: for the dtype in which backward computed, which is not the one measured in."""
    eps = max(float(np.finfo(np.asarray(t.data).dtype).eps) for t in tensors)
    largest = max(float(np.abs(claim).max(initial=0.0)) for claim in claims)
    return {
        "rtol": max(1e-3, 8 * eps ** (2 / 3)) if rtol is None else measured_with(rtol),
        "atol": rounding(largest, eps) if atol is None else atol,
    }


def _as_function(
    f: Callable[[], Any], tensors: Sequence[Any], moved: Sequence[Any], keep_dtype: bool
) -> tuple[Callable[[Any], Any], dict[str, list[Array | None]]]:
    """Return f as a function of the data of the tensors that are moved, and where it stands."""
    x0 = [np.array(t.data) if keep_dtype else np.array(t.data, np.float64) for t in moved]

    def apply(x: Any) -> Any:
        arrays = [values for values in x["inputs"] if values is not None]
        for t, values in zip(moved, arrays, strict=True):
            t.data = np.asarray(values)
        loss = np.asarray(f().data)
        return loss.reshape(())

    return apply, {"inputs": _placed(x0, tensors, moved)}


def _placed(values: Sequence[Array], tensors: Sequence[Any], moved: Sequence[Any]) -> list[Array | None]:
    """Return values of the tensors that are moved in the places of those, None elsewhere."""
    first = {id(t): k for k, t in reversed(list(enumerate(tensors)))}
    places: list[Array | None] = [None] * len(tensors)
    for t, value in zip(moved, values, strict=True):
        places[first[id(t)]] = value
    return places
