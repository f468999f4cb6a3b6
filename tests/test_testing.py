"""assert_derivative: raises for what did not pass, hands back the report of what did."""

import traceback

import numpy as np
import pytest

from fdcheck import DerivativeMismatch, InvalidInput, Verdict
from fdcheck.testing import assert_derivative

X0 = np.array([0.1, 0.2])


def right(x, ct):
    return ct * np.cos(x)


def rounded(x):
    return np.round(np.sin(x), 3)


def test_a_right_derivative_gives_its_report():
    report = assert_derivative(np.sin, X0, vjp=right, jacobian=lambda x: np.diag(np.cos(x)), rtol=1e-4)
    assert report.passed
    assert set(report.endpoint_calls) == {"vjp", "jacobian"}
    assert report.sensitivity < 3e-4  # rtol was handed on: by default it is 1e-3


def test_a_wrong_derivative_raises_with_the_report():
    with pytest.raises(AssertionError, match="FAIL: the derivative is wrong") as caught:
        assert_derivative(np.sin, X0, vjp=lambda x, ct: 1.01 * right(x, ct))
    assert isinstance(caught.value, DerivativeMismatch)
    assert caught.value.report.verdict is Verdict.FAIL
    assert str(caught.value) == str(caught.value.report)


@pytest.mark.parametrize("allowed", [False, True])
def test_inconclusive_raises_unless_it_is_allowed(allowed):
    check = {"apply": rounded, "x0": np.array([0.3]), "vjp": right, "allow_inconclusive": allowed}
    if allowed:
        assert assert_derivative(**check).verdict is Verdict.INCONCLUSIVE
    else:
        with pytest.raises(DerivativeMismatch, match="INCONCLUSIVE"):
            assert_derivative(**check)


def test_what_is_wrong_stays_wrong_where_inconclusive_is_allowed():
    with pytest.raises(DerivativeMismatch, match="FAIL"):
        assert_derivative(np.sin, X0, vjp=lambda x, ct: -right(x, ct), allow_inconclusive=True)


def test_no_endpoint_is_an_error_of_its_own():
    with pytest.raises(InvalidInput, match="jacobian, jvp, vjp"):
        assert_derivative(np.sin, X0)


def test_its_frames_hide_from_pytest():
    with pytest.raises(DerivativeMismatch) as caught:
        assert_derivative(np.sin, X0, vjp=lambda x, ct: -right(x, ct))
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    assert [bool(frame.f_locals.get("__tracebackhide__")) for frame in frames] == [False, True, True]
