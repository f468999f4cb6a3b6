"""gradcheck and gradgradcheck under the names, positions and meanings of torch, for any package made like it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdcheck.adapters.gradchecks import Options, first_order, outcome, second_order
from fdcheck.adapters.inputs import Framework
from fdcheck.results import Report


def gradcheck_for(framework: Framework) -> Callable[..., bool | Report]:
    """Return gradcheck for the tensors of a package."""

    def gradcheck(
        func: Callable[..., Any],
        inputs: Any,
        *,
        eps: float | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        raise_exception: bool = True,
        nondet_tol: float = 0.0,
        check_undefined_grad: bool = True,
        check_grad_dtypes: bool = False,
        check_batched_grad: bool = False,
        check_batched_forward_grad: bool = False,
        check_forward_ad: bool = False,
        check_backward_ad: bool = True,
        fast_mode: bool = False,
        masked: bool | None = None,
        report: bool = False,
    ) -> bool | Report:
        """Check the gradients of a function of tensors; takes what the package's own gradcheck takes.

        Parameters
        ----------
        func : callable
            Of tensors, returning a tensor or a tuple of tensors.
        inputs : tensor or tuple
            Those that require a gradient are looked at; others are passed on as they are.
        eps, atol, rtol : float, optional
            Step, and tolerances that mean ``|a - n| <= atol + rtol |n|`` widened by the error bar; by default fdcheck
            chooses.
        raise_exception : bool
            Whether to raise where the check did not pass; False is returned otherwise.
        nondet_tol : float
            By how much two equal backward calls may differ.
        check_undefined_grad : bool
            Whether undefined cotangents have to count as zeros.
        check_grad_dtypes : bool
            Whether gradients must have the dtypes of the inputs.
        check_batched_grad, check_batched_forward_grad : bool
            Whether stacks of cotangents or of tangents are checked against the loop.
        check_forward_ad, check_backward_ad : bool
            Which derivatives to check.
        fast_mode : bool
            Whether to move a few elements and all others together.
        masked : bool, optional
            Whether elements of sparse tensors that are not specified are left out.
        report : bool
            Whether to return the Report, whatever the verdict.

        Returns
        -------
        bool or Report
            True if the check passed.

        Raises
        ------
        GradcheckError
            If the check failed or was inconclusive; an AssertionError, with the report as its message.
        """
        options = Options(
            eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad,
            check_batched_forward_grad, check_forward_ad, check_backward_ad, fast_mode, bool(masked),
        )  # fmt: skip
        return outcome(framework, first_order(framework, func, inputs, options), raise_exception, report)

    return gradcheck


def gradgradcheck_for(framework: Framework) -> Callable[..., bool | Report]:
    """Return gradgradcheck for the tensors of a package."""

    def gradgradcheck(
        func: Callable[..., Any],
        inputs: Any,
        grad_outputs: Any = None,
        *,
        eps: float | None = None,
        atol: float | None = None,
        rtol: float | None = None,
        gen_non_contig_grad_outputs: bool = False,
        raise_exception: bool = True,
        nondet_tol: float = 0.0,
        check_undefined_grad: bool = True,
        check_grad_dtypes: bool = False,
        check_batched_grad: bool = False,
        check_fwd_over_rev: bool = False,
        check_rev_over_rev: bool = True,
        fast_mode: bool = False,
        masked: bool = False,
        report: bool = False,
    ) -> bool | Report:
        """Check gradients and their gradients; takes what the package's own gradgradcheck takes.

        Parameters
        ----------
        func, inputs
            As for :func:`gradcheck`.
        grad_outputs : tensor or tuple of tensors or None, optional
            Cotangents at which the gradient is differentiated, by inputs and cotangents; random ones by default. An
            output whose cotangent is None is left out.
        gen_non_contig_grad_outputs : bool
            Whether cotangents are made noncontiguous.
        check_fwd_over_rev, check_rev_over_rev : bool
            Which second derivatives to check.
        eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad
            As for :func:`gradcheck`. A small nondeterminism of a gradient is amplified in the second derivative.
        fast_mode, masked, report
            As for :func:`gradcheck`.

        Returns
        -------
        bool or Report
            True if the check passed.

        Raises
        ------
        GradcheckError
            If the check failed or was inconclusive.
        """
        options = Options(
            eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, False,
            check_fwd_over_rev, check_rev_over_rev, fast_mode, masked, gen_non_contig_grad_outputs,
        )  # fmt: skip
        return outcome(framework, second_order(framework, func, inputs, grad_outputs, options), raise_exception, report)

    return gradgradcheck
