"""gradcheck and gradgradcheck of torch, with fdcheck's verdicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._vmap_internals import _vmap
from torch.autograd import forward_ad
from torch.autograd.gradcheck import GradcheckError as TheirError
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

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


class _InFloat32(TorchFunctionMode):  # type: ignore[misc]
    """Computes in float32 what torch would compute in bfloat16, weights that a function holds and autocast included."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(_widened, (args, kwargs or {}))
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return (torch.Tensor.float if func is torch.Tensor.bfloat16 else func)(*args, **kwargs)


def _widened(value: Any) -> Any:
    """Return a bfloat16 tensor, or that dtype, as float32; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16:
        return value.to(torch.float32)
    return torch.float32 if value is torch.bfloat16 else value


FRAMEWORK = Framework(_module, GradcheckError, _jvp, _vmap, _batched_grad, _strided, _InFloat32)
"""torch.vmap has no rule for dual numbers; the older one, which torch's own gradcheck uses, has."""

gradcheck = gradcheck_for(FRAMEWORK)
gradgradcheck = gradgradcheck_for(FRAMEWORK)
