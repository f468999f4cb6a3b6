"""gradcheck and gradgradcheck of tensorplay, with fdcheck's verdicts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import tensorplay
from tensorplay.autograd import GradcheckError as TheirError

from fdcheck.adapters.calls import gradcheck_for, gradgradcheck_for
from fdcheck.adapters.inputs import Framework
from fdcheck.results import DerivativeMismatch

_module: Any = tensorplay


class GradcheckError(DerivativeMismatch, TheirError):  # type: ignore[misc]
    """A gradient that did not pass; also an AssertionError and tensorplay's GradcheckError.

    Parameters
    ----------
    report : Report
        The report whose text is the message.
    """


def _jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents of f's outputs."""
    found = _module.func.jvp(lambda *leaves: tuple(f(*leaves)), tuple(primals), tuple(tangents))[1]
    return list(found) if isinstance(found, tuple | list) else [found]


def _batched_grad(outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any]) -> Any:
    """Return gradients for a stack; None, which vmap cannot return, as zeros."""

    def one(*cotangents: Any) -> Any:
        found = _module.autograd.grad(
            list(outputs), list(inputs), list(cotangents), retain_graph=True, allow_unused=True
        )
        return tuple(_module.zeros_like(x) if g is None else g for g, x in zip(found, inputs, strict=True))

    return _module.func.vmap(one)(*given)


def _strided(tensor: Any, masked: bool) -> Any:
    return tensor.to_dense()  # its gradient always has the pattern of the tensor


FRAMEWORK = Framework(_module, GradcheckError, _jvp, _module.func.vmap, _batched_grad, _strided, contextlib.nullcontext)

gradcheck = gradcheck_for(FRAMEWORK)
gradgradcheck = gradgradcheck_for(FRAMEWORK)
