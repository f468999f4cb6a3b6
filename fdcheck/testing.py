"""Assertions for tests: a check that did not pass raises, with the whole report as its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fdcheck.api import verify
from fdcheck.results import Report


def assert_derivative(
    apply: Callable[[Any], Any], x0: Any, *, allow_inconclusive: bool = False, **options: Any
) -> Report:
    """Check derivatives as :func:`fdcheck.verify` does, and raise unless the check passes.

    Parameters
    ----------
    apply : callable
        The function, as for :func:`fdcheck.verify`.
    x0 : object
        Point at which to check; never changed.
    allow_inconclusive : bool
        Whether an inconclusive check counts as passed.
    **options
        The endpoints (``jacobian``, ``jvp``, ``vjp``) and the options of :func:`fdcheck.verify`.

    Returns
    -------
    Report
        The report of a check that passed.

    Raises
    ------
    DerivativeMismatch
        An AssertionError whose message is the report, which is its ``report`` as well.
    InvalidInput
        If an argument cannot be used; the message names it.

    Notes
    -----
    Cost: that of :func:`fdcheck.verify`.

    Examples
    --------
    >>> import unittest
    >>> import numpy as np
    >>> from fdcheck.testing import assert_derivative
    >>> class TestGradients(unittest.TestCase):
    ...     def test_sin(self):
    ...         assert_derivative(np.sin, np.array([0.1, 0.2]), vjp=lambda x, ct: ct * np.cos(x))
    >>> TestGradients("test_sin").run().wasSuccessful()
    True
    >>> assert_derivative(np.sin, 1.0, vjp=lambda x, ct: -ct * np.cos(x))
    Traceback (most recent call last):
    ...
    fdcheck.results.DerivativeMismatch: FAIL: the derivative is wrong, or an endpoint breaks its contract
    ...
    """
    __tracebackhide__ = True
    report = verify(apply, x0, **options)
    report.raise_if_failed(allow_inconclusive)
    return report
