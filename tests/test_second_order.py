"""verify_second_order: derivatives of the derivative, by x and by the cotangent."""

import numpy as np
import pytest
import scipy.sparse

import fdcheck

A = np.array([[2.0, 1.0], [1.0, 3.0]])
X0 = np.array([0.4, -0.7])


def energy(x):
    return np.sum(np.sin(x)) + 0.5 * x @ A @ x


def slope(x, c):
    return c * (np.cos(x) + A @ x)


def curvature(x):
    return np.diag(-np.sin(x)) + A


def check(apply=energy, x0=X0, vjp=slope, **claims):
    return fdcheck.verify_second_order(apply, x0, vjp=vjp, **claims)


RIGHT = {
    "hvp": lambda x, t: curvature(x) @ t,
    "hessian": curvature,
    "jvp_of_vjp": lambda x, c, xt, ct: c * (curvature(x) @ xt) + slope(x, ct),
    "vjp_of_vjp": lambda x, c, v: (c * (curvature(x) @ v), slope(x, 1.0) @ v),
}


def test_right_second_derivatives_pass():
    report = check(**RIGHT)
    assert report.passed, report
    assert set(report.endpoint_calls) == {"vjp", *RIGHT}
    assert {pair.endpoint for pair in report.pairs} == {"vjp", *RIGHT}
    assert report.notes[0] == "first order, the vjp: pass; its derivatives: pass, pass"
    assert report.to_json()


@pytest.mark.parametrize("name", RIGHT)
def test_each_right_one_passes_alone(name):
    assert check(**{name: RIGHT[name]}).passed


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("hvp", lambda x, t: curvature(x) @ t * 1.05),
        ("hvp", lambda x, t: np.diag(-np.sin(x)) @ t + np.triu(A) @ t),
        ("hessian", lambda x: curvature(x) + np.array([[0.0, 0.1], [0.0, 0.0]])),
        ("jvp_of_vjp", lambda x, c, xt, ct: c * (curvature(x) @ xt)),
        ("vjp_of_vjp", lambda x, c, v: (c * (curvature(x) @ v), 0.0)),
        ("vjp_of_vjp", lambda x, c, v: (None, slope(x, 1.0) @ v)),
        ("vjp_of_vjp", lambda x, c, v: c * (curvature(x) @ v)),
    ],
)
def test_wrong_ones_fail_by_name(name, wrong):
    report = check(**{name: wrong})
    assert str(report.verdict) == "fail"
    assert {f.endpoint for f in report.findings} == {name}
    assert all("hvp" in f.message or name != "hvp" or f.status == "disagrees" for f in report.findings)


def test_a_hessian_that_is_not_symmetric_is_named():
    lopsided = check(hessian=lambda x: curvature(x) + np.array([[0.0, 0.1], [0.0, 0.0]]))
    assert "asymmetric" in [str(f.status) for f in lopsided.findings]
    assert "hessian is not symmetric" in str(lopsided)
    within_tolerance = check(hessian=lambda x: curvature(x) * 1.0001)
    assert within_tolerance.passed


def test_a_wrong_first_derivative_is_told_first():
    report = check(vjp=lambda x, c: 2 * slope(x, c), hvp=lambda x, t: 2 * curvature(x) @ t)
    assert str(report.verdict) == "fail"
    assert report.findings[0].endpoint == "vjp"
    assert report.notes[0] == "first order, the vjp: fail; its derivatives: pass"


def test_sparse_hessians():
    assert check(hessian=lambda x: scipy.sparse.csr_array(curvature(x))).passed
    assert not check(hessian=lambda x: scipy.sparse.csr_array(2 * curvature(x))).passed


def test_structures_none_and_several_outputs():
    x0 = {"a": np.array([1.0, 2.0]), "b": 3.0, "n": 4}

    def apply(x):
        return [x["a"] ** 2, x["a"].sum() * x["n"]]

    def vjp(x, c):
        return {"a": 2 * x["a"] * c[0] + x["n"] * c[1], "b": None, "n": None}

    def vjp_of_vjp(x, c, v):
        return {"a": 2 * c[0] * v["a"], "b": None, "n": None}, [2 * x["a"] * v["a"], x["n"] * v["a"].sum()]

    assert check(apply, x0, vjp, vjp_of_vjp=vjp_of_vjp).passed
    fixed = [np.array([1.0, -1.0]), 2.0]
    hvp = {"hvp": lambda x, t: {"a": 2 * fixed[0] * t["a"], "b": None, "n": None}}
    assert check(apply, x0, vjp, cotangent=fixed, **hvp).passed
    with pytest.raises(fdcheck.InvalidInput, match="cotangent: expected one like apply's output"):
        check(apply, x0, vjp, **hvp)


def test_cotangents_are_taken_in_the_dtype_of_the_output():
    wrong = lambda x, c, xt, ct: c * (curvature(x) @ xt)  # noqa: E731
    for one in (1, np.float32(1), np.array(1)):
        assert check(cotangent=one, jvp_of_vjp=RIGHT["jvp_of_vjp"]).passed
        assert not check(cotangent=one, jvp_of_vjp=wrong).passed  # the derivative by an integer would not be looked at
    squares, slopes = (lambda x: [x**2, x.sum()]), (lambda x, c: 2 * x * c[0] + c[1])
    assert check(squares, X0, slopes, cotangent=[[1, 2], None], hvp=lambda x, t: 2 * np.array([1, 2]) * t).passed
    for odd, message in ((np.ones(3), "of shape"), ("x", "of shape"), ([np.ones(2)], "one like apply's output")):
        with pytest.raises(fdcheck.InvalidInput, match=f"cotangent: expected .*{message}"):
            check(squares if message != "of shape" else energy, X0, cotangent=odd, hvp=RIGHT["hvp"])


def test_complex_numbers():
    def vjp_of_vjp(z, c, v):
        return 2 * np.conj(c) * v, 2 * z * v

    z0 = np.array([1 + 2j, 0.5 - 1j])
    right = lambda z, c, v: (2 * np.conj(v) * c, 2 * z * v)  # noqa: E731
    assert check(lambda z: z**2, z0, lambda z, c: 2 * np.conj(z) * c, vjp_of_vjp=right).passed
    assert not check(lambda z: z**2, z0, lambda z, c: 2 * np.conj(z) * c, vjp_of_vjp=vjp_of_vjp).passed


def test_nondeterminism_of_a_gradient_is_said_to_be_amplified():
    draw = np.random.default_rng(0)
    report = check(vjp=lambda x, c: slope(x, c) * (1 + 1e-7 * draw.normal()), hvp=RIGHT["hvp"])
    assert str(report.verdict) != "pass"
    (finding,) = [f for f in report.findings if f.status == "nondeterministic"]
    assert "becomes much in the second derivative" in finding.message
    assert finding.endpoint == "vjp"


def test_what_cannot_be_checked():
    with pytest.raises(fdcheck.InvalidInput, match="hvp, hessian, jvp_of_vjp, vjp_of_vjp: expected at least one"):
        check()

    def broken(x):
        raise RuntimeError("no")

    assert str(check(broken, hvp=RIGHT["hvp"]).verdict) == "inconclusive"

    def fails(x, c):
        raise RuntimeError("no gradient")

    report = check(vjp=fails, hvp=RIGHT["hvp"])
    assert str(report.verdict) == "fail"
    assert "no gradient" in report.findings[0].message


def test_options_reach_both_orders():
    loose = {"hvp": lambda x, t: 1.05 * (curvature(x) @ t)}
    assert not check(**loose).passed
    assert check(**loose, rtol=0.1).passed
    assert check(**RIGHT, rtol=1e-4, atol=1e-6, seed=3, profile="strict").passed


def test_more_inputs_than_are_moved_alone_are_moved_together_in_both_orders():
    draw = np.random.default_rng(0)
    x, weights = draw.normal(size=1500), draw.normal(size=1500)
    off = np.where(np.arange(1500) == 77, 1.5, 1.0)
    for factor, places in ((1.0, []), (off, [((77,), (77,))])):
        report = fdcheck.verify_second_order(
            lambda x: np.sum(weights * x**3) / 3,
            x,
            vjp=lambda x, c: c * weights * x**2,
            hvp=lambda x, t, factor=factor: 2 * weights * x * t * factor,
        )
        assert [(f.output_index, f.input_index) for f in report.findings] == places
        assert report.coverage.together == 3000
        assert report.coverage.method.startswith("probe")
