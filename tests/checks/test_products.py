"""A jvp or vjp as a linear map, without claims to compare with: as the front ends ask, and in stacks."""

import numpy as np
import pytest

import fdcheck
from fdcheck.checks.contract import contract_findings
from fdcheck.checks.products import amended, batched_findings, linear_map
from fdcheck.problem.callables import Function, Problem
from fdcheck.results import Finding, Status

X0 = np.arange(1.0, 7.0).reshape(2, 3)


def square(x):
    return x * x


def findings(nondet_tol=None, apply=square, x0=X0, **endpoints):
    problem = Problem(Function("apply", apply), x0)
    given = {name: Function(name, f) for name, f in endpoints.items()}
    return contract_findings(problem, given, nondet_tol)


def statuses(*args, **endpoints):
    return [(f.endpoint, str(f.status)) for f in findings(*args, **endpoints)]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_right_products_break_nothing(dtype):
    x0 = X0.astype(dtype)
    right = {"jvp": lambda x, t: 2 * x * t, "vjp": lambda x, c: 2 * x.conj() * c}
    assert statuses(x0=x0, **right) == []
    assert statuses(0.0, x0=x0, **right) == []


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        (lambda x, c: 2 * x * np.abs(c), "nonlinear"),
        (lambda x, c: 2 * x * np.sign(c), "nonlinear"),
        (lambda x, c: 2 * x * np.clip(c, -2, 2), "nonlinear"),
        (lambda x, c: 2 * x * c + 0.1, "nonlinear"),
        (lambda x, c: np.ascontiguousarray(c.ravel(order="K").reshape(c.shape)) * 2 * x, "layout"),
        (lambda x, c: 2 * x * np.frombuffer(c).reshape(c.shape), "layout"),
        (lambda x, c: np.multiply(c, 2 * x, out=c), "mutation"),
        (lambda x, c: (2 * x * c)[0], "shape"),
    ],
)
def test_a_broken_contract_is_named(wrong, status):
    assert ("vjp", status) in statuses(vjp=wrong)


def test_a_product_that_heeds_one_element_or_one_leaf_alone():
    def first_only(x, c):
        kept = np.zeros_like(c)
        kept.flat[np.flatnonzero(c)[:1]] = c.flat[np.flatnonzero(c)[:1]]
        return 2 * x * kept

    def last_only(x, c):
        return 2 * x * c[0] if not np.any(c[1]) else c[1] * np.ones_like(x)

    assert statuses(vjp=first_only) == [("vjp", "nonlinear")]
    two = {"apply": lambda x: [x * x, x.sum()]}
    assert statuses(vjp=last_only, **two) == [("vjp", "nonlinear")]
    assert statuses(vjp=lambda x, c: 2 * x * c[0] + c[1], **two) == []


def test_an_answer_to_zero_is_not_linear_unless_it_is_rounding():
    def vjp(x, c, offset):
        return 2 * x * c + (offset if not c.any() else 0.0)

    assert statuses(vjp=lambda x, c: vjp(x, c, 1e-5)) == [("vjp", "nonlinear")]
    assert statuses(vjp=lambda x, c: vjp(x, c, 1e-13)) == []


def test_rounding_of_what_cancels_for_a_constant_is_none_of_the_layout():
    def centred(x):
        return x - x.mean(axis=0)

    def vjp(x, c):
        rounding = 1e-17 * (c.strides[-1] == 0)
        return c - c.mean(axis=0) + rounding

    assert statuses(apply=centred, vjp=vjp) == []


def test_two_equal_calls():
    count = iter(range(1000))

    def drifting(x, c):
        return 2 * x * c * (1 + 1e-12 * next(count))

    assert statuses(vjp=drifting) == []
    assert ("vjp", "nondeterministic") in statuses(0.0, vjp=drifting)
    assert statuses(1e-6, vjp=drifting) == []
    noisy = np.random.default_rng(0)
    (finding, *_) = findings(vjp=lambda x, c: 2 * x * c * noisy.uniform(0.9, 1.1))
    assert "two equal calls of vjp differ" in finding.message


def test_jvp_and_vjp_that_contradict_each_other():
    found = statuses(jvp=lambda x, t: 2 * x * t, vjp=lambda x, c: 3 * x * c)
    assert found == [("vjp", "adjoint")]


def test_a_jacobian_is_not_looked_at():
    assert findings(jacobian=lambda x: np.zeros((6, 6))) == []


def test_scalars_and_infinities():
    assert statuses(apply=float, x0=2.0, vjp=lambda x, c: c, jvp=lambda x, t: t) == []
    assert statuses(apply=np.sqrt, x0=np.zeros(2), vjp=lambda x, c: c / (2 * np.sqrt(x))) == []

    def sometimes(x, c):
        return 2 * x * c / (abs(c[0, 0]) < 1.5)

    with np.errstate(all="ignore"):
        (finding, *_) = findings(vjp=sometimes)
    assert "not finite" in finding.message


def batched(stacked):
    product = linear_map(Function("vjp", lambda x, c: 2 * x * c), Problem(Function("apply", square), X0))
    return batched_findings(product, stacked)


def test_a_stack_is_the_loop():
    assert batched(lambda vectors: 2 * X0.ravel() * np.array(vectors)) == []
    assert "differs from the loop" in batched(lambda vectors: X0.ravel() * np.array(vectors))[0].message
    assert "gave shape (6,)" in batched(lambda vectors: np.sum(vectors, axis=0))[0].message
    assert "ZeroDivisionError" in batched(lambda vectors: 1 / 0)[0].message


def test_a_report_with_a_breach_fails():
    report = fdcheck.verify(square, X0, vjp=lambda x, c: 2 * x * c)
    assert amended(report, []).passed
    found = findings(vjp=lambda x, c: 2 * x * np.abs(c))
    wrong = amended(report, found, ["a note"])
    assert (str(wrong.verdict), wrong.notes[-1], wrong.findings) == ("fail", "a note", tuple(found))
    assert amended(wrong, found).findings == wrong.findings
    assert "nonlinear" in str(wrong)
    about_apply = Finding("apply", Status.MUTATION, "apply changes its argument in place.")
    assert amended(report, [about_apply]).passed  # what apply does is told and breaks no endpoint's contract


def cancelling(dtype):
    """Return a function and its vjp, whose terms of size 10 leave 1e-3: what a layer normalises is nearly constant."""

    def apply(x):
        centred = x - x.mean(dtype=dtype)
        return centred / np.sqrt((centred**2).mean(dtype=dtype) + dtype(1e-6))

    def vjp(x, c):
        y, n = apply(x), dtype(len(x))
        centred = x - x.mean(dtype=dtype)
        inverse = 1 / np.sqrt((centred**2).mean(dtype=dtype) + dtype(1e-6))
        return (c - c.sum(dtype=dtype) / n - y * (c * y).sum(dtype=dtype) / n) * inverse

    return apply, vjp


@pytest.mark.parametrize("spread", [0.1, 0.3, 1.0])
def test_rounding_of_terms_that_cancel_is_no_breach(spread):
    x0 = np.array([0.5, 0.5 + spread], np.float32)
    apply, vjp = cancelling(np.float32)
    assert statuses(apply=apply, x0=x0, vjp=vjp) == []
    bent = lambda x, c: vjp(x, c) + vjp(x, np.abs(c))  # noqa: E731
    assert ("vjp", "nonlinear") in statuses(apply=apply, x0=x0, vjp=bent)
