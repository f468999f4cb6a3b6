"""Operators of torch in float64, float32 and complex128: no false alarm, and a gradient 1 % too large fails in all."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch.autograd import Function

from fdcheck.adapters.torch import gradcheck

REAL, BOTH = (torch.float64, torch.float32), (torch.float64, torch.float32, torch.complex128)


class Scaled(Function):
    """The identity, with a gradient 1 % too large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return 1.01 * g


def uniform(*shape, low=0.3, high=1.7, seed=0):
    """Return numbers in a range, positive by default: within the domain of most functions, off their kinks."""

    def make(dtype, number):
        draw = torch.Generator().manual_seed(100 * seed + number)
        parts = [low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=draw) for _ in range(2)]
        value = torch.complex(*parts) if dtype.is_complex else parts[0]
        return value.to(dtype).requires_grad_(True)

    return make


def positive_definite(n):
    def make(dtype, number):
        a = uniform(n, n)(dtype, number).detach()
        return (a @ a.mH + n * torch.eye(n, dtype=dtype)).requires_grad_(True)

    return make


V, W, M, T3, S = uniform(4), uniform(5), uniform(3, 4), uniform(2, 3, 4), uniform()
SQUARE = positive_definite(3)
UNIT = uniform(4, low=-0.8, high=0.8)
LABELS = torch.tensor([1, 0, 3])
INDEX = torch.tensor([2, 0, 0])

ELEMENTWISE = {
    "add": (torch.add, (V, V), BOTH), "sub": (torch.sub, (V, V), BOTH), "mul": (torch.mul, (M, V), BOTH),
    "div": (torch.div, (M, V), BOTH), "pow": (torch.pow, (V, V), BOTH), "neg": (torch.neg, (V,), BOTH),
    "abs": (torch.abs, (V,), BOTH), "exp": (torch.exp, (V,), BOTH), "exp2": (torch.exp2, (V,), REAL),
    "expm1": (torch.expm1, (V,), BOTH), "log": (torch.log, (V,), BOTH), "log2": (torch.log2, (V,), BOTH),
    "log1p": (torch.log1p, (V,), BOTH), "sqrt": (torch.sqrt, (V,), BOTH), "rsqrt": (torch.rsqrt, (V,), BOTH),
    "reciprocal": (torch.reciprocal, (V,), BOTH), "square": (torch.square, (V,), BOTH),
    "sin": (torch.sin, (V,), BOTH), "cos": (torch.cos, (V,), BOTH), "tan": (torch.tan, (UNIT,), BOTH),
    "asin": (torch.asin, (UNIT,), BOTH), "acos": (torch.acos, (UNIT,), BOTH), "atan": (torch.atan, (UNIT,), BOTH),
    "sinh": (torch.sinh, (V,), BOTH), "cosh": (torch.cosh, (V,), BOTH), "tanh": (torch.tanh, (V,), BOTH),
    "asinh": (torch.asinh, (V,), BOTH), "atanh": (torch.atanh, (UNIT,), BOTH), "atan2": (torch.atan2, (V, V), REAL),
    "sigmoid": (torch.sigmoid, (V,), BOTH), "erf": (torch.erf, (V,), REAL), "erfinv": (torch.erfinv, (UNIT,), REAL),
    "lgamma": (torch.lgamma, (uniform(4, low=2.5, high=4.0),), REAL), "hypot": (torch.hypot, (V, V), REAL),
    "digamma": (torch.digamma, (uniform(4, low=2.5, high=4.0),), REAL), "sinc": (torch.sinc, (V,), REAL),
    "logaddexp": (torch.logaddexp, (V, V), REAL), "lerp": (torch.lerp, (V, V, V), BOTH),
    "addcmul": (torch.addcmul, (V, V, V), BOTH), "where": (lambda a, b: torch.where(a.abs() > 1, a, b), (V, V), BOTH),
    "clamp": (lambda a: a.clamp(0.5, 1.2), (V,), REAL), "maximum": (torch.maximum, (V, V), REAL),
    "relu": (torch.relu, (UNIT,), REAL), "gelu": (F.gelu, (V,), REAL), "silu": (F.silu, (V,), REAL),
    "softplus": (F.softplus, (V,), REAL), "elu": (F.elu, (UNIT,), REAL), "leaky_relu": (F.leaky_relu, (UNIT,), REAL),
}  # fmt: skip

REDUCTIONS = {
    "sum": (torch.sum, (M,), BOTH), "mean": (lambda a: a.mean(1), (M,), BOTH), "prod": (torch.prod, (V,), BOTH),
    "var": (torch.var, (V,), REAL), "std": (torch.std, (V,), REAL), "norm": (torch.linalg.norm, (M,), BOTH),
    "max": (lambda a: a.max(1).values, (M,), REAL), "amin": (lambda a: a.amin(0), (M,), REAL),
    "median": (lambda a: a.median(1).values, (M,), REAL), "sort": (lambda a: a.sort(1).values, (M,), REAL),
    "topk": (lambda a: a.topk(2).values, (M,), REAL), "cumsum": (lambda a: a.cumsum(1), (M,), BOTH),
    "cumprod": (lambda a: a.cumprod(1), (M,), BOTH), "logsumexp": (lambda a: a.logsumexp(1), (M,), REAL),
    "softmax": (lambda a: a.softmax(1), (M,), REAL), "log_softmax": (lambda a: a.log_softmax(1), (M,), REAL),
    "cross_entropy": (lambda a: F.cross_entropy(a, LABELS), (M,), REAL), "mse_loss": (F.mse_loss, (V, V), REAL),
    "huber_loss": (F.huber_loss, (V, V), REAL), "layer_norm": (lambda a: F.layer_norm(a, (4,)), (M,), REAL),
    "cdist": (torch.cdist, (M, M), REAL), "trapezoid": (torch.trapezoid, (V,), BOTH),
}  # fmt: skip

LINEAR_ALGEBRA = {
    "matmul": (lambda a, b: a @ b.mT, (M, M), BOTH), "bmm": (lambda a: torch.bmm(a, a.mT), (T3,), BOTH),
    "dot": (torch.dot, (V, V), BOTH), "outer": (torch.outer, (V, W), BOTH), "kron": (torch.kron, (V, W), BOTH),
    "einsum": (lambda a, b: torch.einsum("ij,kj->ik", a, b), (M, M), BOTH), "trace": (torch.trace, (SQUARE,), BOTH),
    "det": (torch.linalg.det, (SQUARE,), BOTH), "slogdet": (lambda a: torch.linalg.slogdet(a)[1], (SQUARE,), BOTH),
    "inv": (torch.linalg.inv, (SQUARE,), BOTH), "solve": (torch.linalg.solve, (SQUARE, uniform(3, 2)), BOTH),
    "cholesky": (lambda a: torch.linalg.cholesky((a + a.mH) / 2), (SQUARE,), BOTH),
    "qr": (lambda a: torch.linalg.qr(a)[0].abs(), (SQUARE,), REAL), "svdvals": (torch.linalg.svdvals, (M,), BOTH),
    "eigvalsh": (lambda a: torch.linalg.eigvalsh((a + a.mH) / 2), (SQUARE,), BOTH),
    "pinv": (torch.linalg.pinv, (M,), BOTH), "matrix_exp": (lambda a: torch.matrix_exp(a / 3), (SQUARE,), BOTH),
    "cross": (torch.linalg.cross, (uniform(3), uniform(3)), BOTH), "baddbmm": (torch.baddbmm, (uniform(2, 3, 3), T3,
        uniform(2, 4, 3)), BOTH),
}  # fmt: skip

CONVOLUTIONS = {
    "conv1d": (F.conv1d, (uniform(1, 2, 6), uniform(3, 2, 3)), BOTH),
    "conv2d": (F.conv2d, (uniform(1, 2, 4, 4), uniform(2, 2, 3, 3)), BOTH),
    "conv_transpose1d": (F.conv_transpose1d, (uniform(1, 2, 4), uniform(2, 3, 3)), BOTH),
    "linear": (F.linear, (M, uniform(2, 4), uniform(2)), BOTH),
    "bilinear": (F.bilinear, (M, M, uniform(2, 4, 4)), REAL),
    "max_pool1d": (lambda a: F.max_pool1d(a, 2), (T3,), REAL),
    "avg_pool2d": (lambda a: F.avg_pool2d(a, 2), (uniform(1, 1, 4, 4),), REAL),
    "interpolate": (lambda a: F.interpolate(a, scale_factor=2.0, mode="linear"), (T3,), REAL),
}  # fmt: skip

INDEXING = {
    "getitem": (lambda a: a[INDEX], (M,), BOTH), "gather": (lambda a: a.gather(0, INDEX), (V,), BOTH),
    "index_select": (lambda a: a.index_select(0, INDEX), (M,), BOTH),
    "scatter_add": (lambda a, b: a.scatter_add(0, INDEX, b[:3]), (V, V), BOTH),
    "masked_fill": (lambda a: a.masked_fill(a.abs() > 1.3, 0.0), (V,), BOTH),
    "take": (lambda a: a.take(INDEX), (M,), BOTH),
    "roll": (lambda a: a.roll(1, 0), (M,), BOTH), "flip": (lambda a: a.flip(0), (M,), BOTH),
    "cat": (lambda a, b: torch.cat([a, b]), (V, W), BOTH), "stack": (lambda a, b: torch.stack([a, b]), (V, V), BOTH),
    "tril": (torch.tril, (M,), BOTH), "diag": (torch.diag, (V,), BOTH),
    "repeat": (lambda a: a.repeat(2, 1), (V,), BOTH),
    "pad": (lambda a: F.pad(a, (1, 2)), (V,), BOTH), "unfold": (lambda a: a.unfold(0, 2, 1), (V,), BOTH),
    "transpose": (lambda a: a.mT.contiguous(), (M,), BOTH),
}  # fmt: skip

FOURIER = {
    "fft": (torch.fft.fft, (V,), BOTH), "ifft": (torch.fft.ifft, (V,), BOTH), "rfft": (torch.fft.rfft, (W,), REAL),
    "irfft": (torch.fft.irfft, (V,), (torch.complex128,)), "fft2": (torch.fft.fft2, (M,), BOTH),
    "hfft": (torch.fft.hfft, (V,), (torch.complex128,)), "fftshift": (torch.fft.fftshift, (V,), BOTH),
}  # fmt: skip

OPERATORS = {**ELEMENTWISE, **REDUCTIONS, **LINEAR_ALGEBRA, **CONVOLUTIONS, **INDEXING, **FOURIER}
CASES = [(name, dtype) for name, (_, _, dtypes) in OPERATORS.items() for dtype in dtypes]


def test_there_are_enough():
    assert len(OPERATORS) >= 80
    assert {dtype for _, dtype in CASES} == set(BOTH)


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=[f"{name}-{str(dtype)[6:]}" for name, dtype in CASES])
def test_an_operator(name, dtype):
    function, makers, _ = OPERATORS[name]
    inputs = tuple(make(dtype, number) for number, make in enumerate(makers))
    assert gradcheck(function, inputs)
    wrong = gradcheck(lambda *x: Scaled.apply(function(*x)), inputs, report=True, check_undefined_grad=False)
    assert str(wrong.verdict) == "fail"
