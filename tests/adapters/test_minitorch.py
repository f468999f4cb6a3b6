"""check_gradient and numerical_gradient on closures over tensors of a small framework."""

import inspect

import numpy as np
import pytest

import fdcheck
from fdcheck.adapters.minitorch import check_gradient, numerical_gradient


class Tensor:
    """What such frameworks have in common: data and grad as arrays, a graph, backward of one number."""

    def __init__(self, data, requires_grad=False, parents=(), back=None):
        self.data = np.asarray(data)
        if self.data.dtype != np.float64:
            self.data = self.data.astype(np.float32)
        self.requires_grad, self.grad, self.parents, self.back = requires_grad, None, parents, back

    def zero_grad(self):
        self.grad = None

    def backward(self):
        if self.data.size != 1:
            raise RuntimeError("backward needs one number")
        self._receive(np.ones_like(self.data))

    def _receive(self, g):
        self.grad = g if self.grad is None else self.grad + g
        if self.back is not None:
            for parent, part in zip(self.parents, self.back(g), strict=True):
                parent._receive(np.broadcast_to(part, parent.data.shape).astype(parent.data.dtype))

    def __mul__(self, other):
        return Tensor(self.data * other.data, parents=(self, other), back=lambda g: (g * other.data, g * self.data))

    def relu(self):
        return Tensor(np.maximum(self.data, 0), parents=(self,), back=lambda g: (g * (self.data > 0),))

    def sum(self):
        return Tensor(self.data.sum(), parents=(self,), back=lambda g: (g,))

    def tanh(self, factor=1.0):
        value = np.tanh(self.data)
        return Tensor(value, parents=(self,), back=lambda g: (factor * g * (1 - value**2),))


def floats(values, dtype=np.float32):
    return Tensor(np.asarray(values, dtype), requires_grad=True)


def test_the_sum_of_a_product():
    a, b = floats([1.0, 2.0, 3.0]), floats([4.0, 5.0, 6.0])
    assert check_gradient(lambda: (a * b).sum(), [a, b]) is True
    assert check_gradient(lambda: (a * b).sum(), [a, b], eps=1e-5, atol=1e-4, rtol=1e-3) is True
    by_a, by_b = numerical_gradient(lambda: (a * b).sum(), [a, b])
    np.testing.assert_allclose(by_a, [4, 5, 6], rtol=1e-9)
    np.testing.assert_allclose(by_b, [1, 2, 3], rtol=1e-9)
    assert numerical_gradient(lambda: (a * b).sum(), [a, b], 1e-5)[0].shape == (3,)


def test_names_and_positions():
    assert list(inspect.signature(check_gradient).parameters)[:5] == ["f", "inputs", "eps", "atol", "rtol"]
    assert list(inspect.signature(numerical_gradient).parameters)[:3] == ["f", "inputs", "eps"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("keep_dtype", [True, False])
def test_right_and_wrong(dtype, keep_dtype):
    x = floats([[0.3, -0.5], [0.1, 0.8]], dtype)
    assert check_gradient(lambda: x.tanh().sum(), [x], keep_dtype=keep_dtype)
    with pytest.raises(AssertionError, match=r"inputs\[0\]"):
        check_gradient(lambda: x.tanh(1.01).sum(), [x], keep_dtype=keep_dtype)
    assert check_gradient(lambda: x.tanh(1.01).sum(), [x], rtol=0.02, keep_dtype=keep_dtype)
    report = check_gradient(lambda: x.tanh(1.01).sum(), [x], report=True)
    assert isinstance(report, fdcheck.Report)
    assert not report


def test_a_small_derivative_that_is_zero_fails():
    x = floats([1e-3, 2e-3])
    with pytest.raises(fdcheck.DerivativeMismatch):
        check_gradient(lambda: (x * x).tanh(0.0).sum(), [x])


def test_kinks():
    x = floats([0.0, 1.0, -1.0])
    assert check_gradient(lambda: x.relu().sum(), [x])


def test_unused_inputs_and_those_that_are_left_alone():
    a, unused, fixed = floats([1.0, 2.0]), floats([3.0]), Tensor([5.0, 6.0])
    assert check_gradient(lambda: (a * fixed).sum(), [a, unused, fixed])
    slopes = numerical_gradient(lambda: (a * fixed).sum(), [fixed, a, unused])
    np.testing.assert_allclose(slopes[1], [5, 6], rtol=1e-9)
    assert not slopes[0].any()
    assert not slopes[2].any()


def test_a_tensor_that_is_given_twice_counts_once():
    a = floats([1.0, 2.0])
    assert check_gradient(lambda: (a * a).sum(), [a, a])
    one, other = numerical_gradient(lambda: (a * a).sum(), [a, a])
    np.testing.assert_allclose([one, other], [[2, 4], [2, 4]], rtol=1e-9)
    assert check_gradient(lambda: (a * a).sum(), a)  # and need not stand in a list


def test_paths_count_as_given():
    fixed, x = Tensor([5.0, 6.0]), floats([0.3, -0.5])
    report = check_gradient(lambda: (x.tanh(1.1) * fixed).sum(), [fixed, x], report=True)
    assert {f.input for f in report.findings} == {"inputs[1]"}


def test_a_gradient_of_another_shape_fails():
    x = floats([1.0, 2.0, 3.0])

    def forgot_to_sum():  # over the rows along which x was repeated
        loss = Tensor(2 * x.data.sum(), parents=(x,))
        loss._receive = lambda g: setattr(x, "grad", np.ones((2, 3), np.float32))
        return loss

    report = check_gradient(forgot_to_sum, [x], report=True)
    assert [str(f.status) for f in report.findings] == ["shape"]
    assert "(2, 3) for inputs[0]; expected (3,)" in report.findings[0].message


def state(*tensors):
    return [
        (id(t.data), t.data.dtype, t.data.tobytes(), id(t.grad), None if t.grad is None else t.grad.tobytes())
        for t in tensors
    ]


def test_tensors_are_as_before():
    a, b = floats([1.0, 2.0]), floats([3.0, 4.0])
    b.grad = np.array([7.0, 8.0], np.float32)
    before = state(a, b)
    calls = iter(range(1000))

    def fails_later():
        if next(calls) == 5:
            a.data[...] = 0.0
            raise RuntimeError("later")
        return (a * b).sum()

    def writes():
        b.grad[...] = 0.0
        a.data[...] = 9.0
        raise RuntimeError("at once")

    fixed = Tensor([5.0, 6.0])
    check_gradient(lambda: (a * b * fixed).sum(), [a, b, fixed])
    numerical_gradient(lambda: (a * b).sum(), [a, b])
    assert state(a, b) == before
    assert fixed.grad is None  # backward leaves a gradient in it
    check_gradient(fails_later, [a, b], report=True)
    assert state(a, b) == before
    b.zero_grad = lambda: b.grad.fill(0.0)
    with pytest.raises(RuntimeError, match="at once"):
        check_gradient(writes, [a, b])
    assert state(a, b) == before
    with pytest.raises(fdcheck.InvalidInput, match="at once"):
        numerical_gradient(writes, [a, b])
    assert state(a, b) == before


def test_what_cannot_be_checked():
    with pytest.raises(fdcheck.InvalidInput, match="inputs: expected a list of tensors with"):
        check_gradient(lambda: None, [np.ones(3)])
    with pytest.raises(fdcheck.InvalidInput, match="inputs: expected tensors of floating"):
        check_gradient(lambda: None, [Tensor([1.0])])
    with pytest.raises(fdcheck.InvalidInput, match=r"inputs: expected finite numbers, got nan at inputs\[0\]\[0\]"):
        check_gradient(lambda: None, [floats([np.nan])])
    x = floats([1.0, 2.0])
    with pytest.raises(fdcheck.InvalidInput, match=r"f: expected to return a tensor with backward\(\), got float"):
        check_gradient(lambda: 3.0, [x])
    with pytest.raises(RuntimeError, match="one number"):
        check_gradient(lambda: x * x, [x])
