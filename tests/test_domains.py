"""Edges of domains: apply that raises or is not finite beside x0, bounds, and outputs that are never finite."""

import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Status

DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])


def value(x):
    return np.exp(x) * (1 + x)


def slope(x):
    return np.exp(x) * (2 + x)


def raising(inside):
    def f(x):
        if not inside(x):
            raise ValueError("outside of the domain")
        return value(x)

    return f


def filled(fill):
    return lambda inside: lambda x: value(x) if inside(x) else np.full_like(x, fill)


EDGES = {
    "x >= 0, at it": (lambda x, eps: (x >= 0).all(), [0.0, 0.5]),
    "x >= 0, close to it": (lambda x, eps: (x >= 0).all(), [1e-3, 2.0]),
    "x <= 1, at it": (lambda x, eps: (x <= 1).all(), [1.0, 0.3]),
    "x <= 1, four ulps from it": (lambda x, eps: (x <= 1 + 4 * eps).all(), [1.0, 0.3]),
    "x <= 1, 1e4 ulps from it": (lambda x, eps: (x <= 1 + 1e4 * eps).all(), [1.0, 0.3]),
    "within 1e6 ulps": (lambda x, eps: abs(x[0] - 1) <= 1e6 * eps, [1.0, 0.3]),
    "a sum": (lambda x, eps: x.sum() <= 1 + 4 * eps, [0.5, 0.5]),
}


@DTYPES
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("kind", [raising, filled(np.nan), filled(np.inf)], ids=["raises", "nan", "inf"])
def test_right_claims_pass_and_wrong_ones_fail_at_edges(kind, edge, dtype):
    inside, x0 = EDGES[edge]
    x0 = np.array(x0, dtype)
    f = kind(lambda x: inside(x, np.finfo(dtype).eps))
    assert fdcheck.verify(f, x0, vjp=lambda x, ct: ct * slope(x)).passed
    for k in range(2):
        wrong = np.where(np.arange(2) == k, dtype(1.05), dtype(1.0))
        report = fdcheck.verify(f, x0, vjp=lambda x, ct, wrong=wrong: ct * slope(x) * wrong)
        assert str(report.verdict) == "fail"
        assert {found.input_index for found in report.findings if found.status is Status.DISAGREES} == {(k,)}


@pytest.mark.parametrize("seed", [17, 22, 25, 26, 38])
def test_slopes_of_one_side_that_cross_zero_are_no_cusp(seed):
    draw = np.random.default_rng(seed)
    edge = np.float32(-30 * draw.uniform(0.5, 2))
    a = 10 ** draw.uniform(-4, -2) * draw.choice([-1, 1])
    b, c = -np.sign(a) * 10 ** draw.uniform(-4, -2.5), draw.uniform(0.1, 2)

    def parabola(x):
        if x[0] < edge:
            raise ValueError("outside of the domain")
        way = float(x[0]) - float(edge)
        return np.array([c + a * way + b * way**2], np.float32)

    def verdict(factor):
        jvp = lambda x, t: np.array([np.float32(factor * a * t[0])])  # noqa: E731
        return str(fdcheck.verify(parabola, np.array([edge]), jvp=jvp).verdict)

    assert verdict(1.0) != "fail"
    assert verdict(-1.0) == "fail"


@DTYPES
def test_an_output_that_is_nan_spoils_no_other(dtype):
    def f(x):
        return np.stack([np.sin(x[0]), dtype(np.nan), x[0] * x[1]])

    def vjp(factor):
        return lambda x, ct: np.stack([ct[0] * np.cos(x[0]) + ct[2] * x[1], factor * ct[2] * x[0]]).astype(dtype)

    x0 = np.array([0.5, 2.0], dtype)
    report = fdcheck.verify(f, x0, vjp=vjp(1))
    assert str(report.verdict) == "inconclusive"
    assert report.pairs[0].counts == {"agrees": 4, "nonfinite": 2}
    report = fdcheck.verify(f, x0, vjp=vjp(1.1))
    assert str(report.verdict) == "fail"
    assert report.pairs[0].counts == {"agrees": 3, "disagrees": 1, "nonfinite": 2}


@DTYPES
def test_an_output_that_is_nan_on_one_side_spoils_no_other(dtype):
    def f(x):
        return np.stack([np.sin(x[0]), np.where(x[0] >= 0.5, x[0] ** 2, np.nan).astype(dtype)])

    def vjp(a, b):
        return lambda x, ct: np.stack([ct[0] * a * np.cos(x[0]) + ct[1] * b * x[0]]).astype(dtype)

    x0 = np.array([0.5], dtype)
    assert fdcheck.verify(f, x0, vjp=vjp(1, 2)).passed
    for a, b, wrong in ((1.05, 2, (0,)), (1, 2.1, (1,))):
        report = fdcheck.verify(f, x0, vjp=vjp(a, b))
        assert {found.output_index for found in report.findings if found.status is Status.DISAGREES} == {wrong}


# bounds


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16], ids=["float64", "float32", "float16"])
@pytest.mark.parametrize("x0", [[0.0, 1.0, 0.5], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
def test_bounds_are_never_left(x0, dtype):
    seen = []

    def f(x):
        seen.append(x.copy())
        return np.exp(x)

    x0 = np.array(x0, dtype)
    right = fdcheck.verify(f, x0, vjp=lambda x, ct: ct * np.exp(x), bounds=(0.0, 1.0), points=2)
    wrong = fdcheck.verify(f, x0, vjp=lambda x, ct: ct * np.exp(x) * dtype(1.2), bounds=(0.0, 1.0), points=2)
    assert right.passed or (dtype is np.float16 and str(right.verdict) == "inconclusive")
    assert str(wrong.verdict) == "fail"
    assert np.min(seen) >= 0
    assert np.max(seen) <= 1


@DTYPES
@pytest.mark.parametrize("width", [0.5, 1e-2])
def test_bounds_may_differ_from_element_to_element(width, dtype):
    seen = []

    def f(x):
        seen.append({k: v.copy() for k, v in x.items()})
        return np.exp(x["a"]).sum(axis=0) * x["b"]

    def vjp(x, ct):
        return {"a": np.tile(ct * x["b"], (2, 1)) * np.exp(x["a"]), "b": ct * np.exp(x["a"]).sum(axis=0)}

    a = np.array([[1.0, 2.0], [3.0, 0.5]])
    low, high = a * (1 - width), a + np.array([[0, width], [width, 0]])
    x0 = {"a": a.astype(dtype), "b": np.array([1.0, 2.0], dtype)}
    bounds = {"a": (low, high), "b": (0.0, [1.5, 2.5])}
    report = fdcheck.verify(f, x0, vjp=vjp, bounds=bounds, points=2)
    assert report.passed, report
    wrong = fdcheck.verify(f, x0, vjp=lambda x, ct: {**vjp(x, ct), "a": 1.1 * vjp(x, ct)["a"]}, bounds=bounds)
    assert str(wrong.verdict) == "fail"
    for x in seen:
        assert (x["a"] >= low.astype(dtype)).all()
        assert (x["a"] <= high.astype(dtype)).all()
        assert (x["b"] <= np.array([1.5, 2.5], dtype)).all()


def test_bounds_of_complex_inputs_hold_for_both_parts():
    seen = []

    def f(z):
        seen.append(z.copy())
        return z**2

    z0 = np.array([0.5 + 0.1j])
    assert fdcheck.verify(f, z0, vjp=lambda z, ct: 2 * z.conj() * ct, bounds=(0.0, 0.5), points=2).passed
    assert all(0 <= part <= 0.5 for z in seen for part in (z[0].real, z[0].imag))


def test_bounds_that_leave_too_little_room_are_named():
    x0 = np.array([1.0, 2.0], np.float32)
    report = fdcheck.verify(np.exp, x0, vjp=lambda x, ct: ct * np.exp(x), bounds=(x0 * 0.99999, x0 * 1.00001))
    assert str(report.verdict) == "inconclusive"
    assert "widen bounds, which leave steps up to 1e-05" in report.findings[0].message


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((0.0,), "bounds: expected (low, high) for '*', got (0.0,)"),
        ((2.0, 1.0), "bounds: expected low < high for '*', got (2, 1)"),
        (([0.0, 2.0], [1.0, 1.0]), "bounds: expected low < high for '*', got (2, 1)"),
        (([0.0, 0.0, 0.0], 5.0), "bounds: expected (low, high) for '*'"),
        ((np.nan, 1.0), "bounds: expected low < high"),
        (("a", "b"), "bounds: expected (low, high) for '*'"),
        (7.0, "bounds: expected (low, high) for '*', got 7.0"),
        ({"y": (0.0, 1.0)}, "bounds: nothing differentiable matches 'y'"),
        ((0.0, 0.4), "bounds: x0 lies outside at x[0]: 0.5 is not in [0, 0.4]"),
        (([0.0, 0.9], 2.0), "bounds: x0 lies outside at x[1]: 0.7 is not in [0.9, 2]"),
    ],
)
def test_bounds_that_cannot_be_used_are_named(bounds, words):
    with pytest.raises(InvalidInput) as error:
        fdcheck.verify(np.sin, np.array([0.5, 0.7]), vjp=lambda x, ct: ct * np.cos(x), bounds=bounds)
    assert words in str(error.value)
