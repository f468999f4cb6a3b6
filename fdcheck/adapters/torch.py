"""gradcheck and gradgradcheck of torch, with fdcheck's verdicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._vmap_internals import _vmap
from torch.autograd import forward_ad
from torch.autograd.gradcheck import GradcheckError as TheirError

from fdcheck.adapters.calls import gradcheck_for, gradgradcheck_for
from fdcheck.adapters.inputs import Framework
from fdcheck.results import DerivativeMismatch

_module: Any = torch


class GradcheckError(DerivativeMismatch, TheirError):  # type: ignore[misc]
    """A gradient that did not pass; also an AssertionError and torch's GradcheckError.

    Parameters
    ----------
    report : Report
        The report whose text is the message.
    """


def _jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """Return the tangents of f's outputs."""
    with warnings.catch_warnings(), forward_ad.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch compiles its forward rules by what it deprecates
        duals = [forward_ad.make_dual(p, t) for p, t in zip(primals, tangents, strict=True)]
        return [forward_ad.unpack_dual(output).tangent for output in f(*duals)]


def _batched_grad(outputs: Sequence[Any], inputs: Sequence[Any], given: Sequence[Any]) -> Any:
    return _module.autograd.grad(outputs, inputs, given, retain_graph=True, allow_unused=True, is_grads_batched=True)


def _strided(tensor: Any, masked: bool) -> Any:
    return tensor.to_dense(masked_grad=masked)


FRAMEWORK = Framework(_module, GradcheckError, _jvp, _vmap, _batched_grad, _strided)
"""torch.vmap has no rule for dual numbers; the older one, which torch's own gradcheck uses, has."""

gradcheck = gradcheck_for(FRAMEWORK)
gradgradcheck = gradgradcheck_for(FRAMEWORK)
