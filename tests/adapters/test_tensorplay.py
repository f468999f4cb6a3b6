"""gradcheck and gradgradcheck on real tensorplay tensors; the shared logic is tested with torch."""

import inspect

import numpy as np
import pytest
import tensorplay as tp
from tensorplay.autograd import GradcheckError as TheirError

import fdcheck
from fdcheck.adapters.tensorplay import GradcheckError, gradcheck, gradgradcheck


def tensor(values, dtype=np.float64):
    return tp.from_numpy(np.asarray(values, dtype)).requires_grad_(True)


def verdict(function, inputs, **options):
    return str(gradcheck(function, inputs, report=True, **options).verdict)


def function_of(forward, backward):
    class Own(tp.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Own.apply


def test_names_and_defaults_are_theirs():
    for ours, theirs in ((gradcheck, tp.autograd.gradcheck), (gradgradcheck, tp.autograd.gradgradcheck)):
        theirs = getattr(theirs, ours.__name__, theirs)
        own, other = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        assert list(own) == [*other, "report"]
        assert {name for name in other if own[name].default != other[name].default} == {"eps", "atol", "rtol"}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_right_and_wrong(dtype):
    x, y = tensor([0.5, 1.5, -1.0], dtype), tensor([0.25, 2.0, 1.0], dtype)
    assert gradcheck(lambda a, b: (a * b, a.exp()), (x, y)) is True
    assert gradcheck(lambda a, b: (a * b).sum(), (x, y)) is True
    with pytest.raises(GradcheckError) as caught:
        gradcheck(function_of(lambda x: x * x, lambda g, x: 3 * g * x), x)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, TheirError)
    assert isinstance(caught.value, fdcheck.DerivativeMismatch)
    assert gradcheck(function_of(lambda x: x * x, lambda g, x: 3 * g * x), x, raise_exception=False) is False


def test_bfloat16():
    x = tp.from_numpy(np.array([0.5, 1.5], np.float32)).to(tp.bfloat16).requires_grad_(True)
    assert gradcheck(lambda x: x * x, x)


def test_options():
    x = tensor([0.5, 1.5, -1.0])
    assert gradcheck(lambda x: x * x, x, check_batched_grad=True, check_forward_ad=True)
    assert gradcheck(lambda x: (x * x).sum(), x, fast_mode=True)
    assert verdict(function_of(lambda x: x * x, lambda g, x: 2 * g * g * x), x) == "fail"
    assert verdict(function_of(lambda x: x * x, lambda g, x: g.mul_(2) * x), x) == "fail"
    assert gradcheck(function_of(lambda x: x * x, lambda g, x: 2.1 * g * x), x, rtol=0.1, atol=0.0)
    large = tensor(np.linspace(0.5, 1.5, 1000))
    index = tensor([1.0] * 700 + [6.0] + [1.0] * 299).detach()
    six = function_of(lambda x: (x * x).sum(), lambda g, x: 2 * g * x * index)
    report = gradcheck(six, large, fast_mode=True, report=True)
    assert {f.input_index for f in report.findings} == {(700,)}


@pytest.mark.parametrize("name", ["tanh", "relu", "sigmoid"])
def test_a_forward_derivative_that_is_silently_zero_is_caught(name):
    x = tensor([0.5, 1.5, -1.0])
    function = getattr(tp, name)
    assert gradcheck(function, x)
    report = gradcheck(function, x, check_forward_ad=True, report=True)
    assert str(report.verdict) == "fail"
    assert {f.claimed for f in report.findings if f.endpoint == "jvp" and f.status == "disagrees"} == {0.0}


def test_sparse_inputs():
    places = tp.from_numpy(np.array([[0, 1], [1, 0]]))
    x = tp.sparse_coo_tensor(places, tp.from_numpy(np.array([1.0, 2.0])), (2, 2)).requires_grad_(True)
    for masked, size in ((True, 2), (False, 4)):
        report = gradcheck(lambda s: s.to_dense() * 3, x, masked=masked, report=True, check_undefined_grad=False)
        assert report.coverage.inputs == size
        assert report.passed or not masked


def test_what_the_function_takes_from_elsewhere_and_nested_outputs():
    x = tensor([0.5, 1.5, -1.0])
    wrong = function_of(lambda x: x * x, lambda g, x: 3 * g * x)
    with pytest.raises(fdcheck.InvalidInput, match="from elsewhere"):
        gradcheck(lambda _: wrong(x), x)
    report = gradcheck(lambda a: (a * 2, {"h": (wrong(a), a > 0)}), x, report=True)
    assert {f.output for f in report.findings} == {"outputs[1]['h'][0]"}


def test_undefined_gradients_that_tensorplay_cannot_handle():
    x = tensor(np.ones((2, 3)))
    with pytest.raises(GradcheckError, match="check_undefined_grad=False leaves this out"):
        gradcheck(lambda x: x.sum(0), x)  # so does tensorplay's own
    with pytest.raises(TheirError, match="undefined output grads"), pytest.warns(UserWarning, match="undefined"):
        tp.autograd.gradcheck(lambda x: x.sum(0), x)
    assert gradcheck(lambda x: x.sum(0), x, check_undefined_grad=False)


def test_second_order():
    x, y = tensor([0.5, 1.5, -1.0]), tensor([0.25, 2.0, 1.0])
    assert gradgradcheck(lambda a, b: (a * a * b).sum(), (x, y)) is True
    assert gradgradcheck(lambda a: a * a * a, x, check_fwd_over_rev=True) in (True, False)
    assert gradgradcheck(lambda a: a * a * a, x, gen_non_contig_grad_outputs=True)
