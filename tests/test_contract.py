"""What endpoints owe beside right numbers, asked of verify: each breach alone, and endpoints that keep all of it."""

import numpy as np
import pytest
import scipy.sparse

import fdcheck

X = np.array([0.1, 0.2, 0.3])


def cosine(x, ct):
    return ct * np.cos(x)


def statuses(vjp, contract, x0=X, **others):
    report = fdcheck.verify(np.sin, x0, vjp=vjp, contract=contract, **others)
    return {str(finding.status) for finding in report.findings}, str(report.verdict)


def test_a_right_vjp_keeps_every_contract():
    contract = fdcheck.Contract(nondet_tol=0.0, exact_dtype=True, batched=True, masked=True)
    for dtype in (np.float64, np.float32, np.complex128):
        right = (lambda x, ct: ct * np.conj(np.cos(x))) if dtype is np.complex128 else cosine
        assert statuses(right, contract, X.astype(dtype)) == (set(), "pass")


@pytest.mark.parametrize(
    ("vjp", "contract", "status"),
    [
        (lambda x, ct: np.abs(ct) * np.cos(x), fdcheck.Contract(), "nonlinear"),
        (lambda x, ct: np.float64(ct) * np.cos(x), fdcheck.Contract(exact_dtype=True), "dtype"),
        (lambda x, ct: ct.reshape(x.shape) * np.cos(x), fdcheck.Contract(batched=True), "batched"),
        (lambda x, ct: ct[::-1][::-1] * np.cos(x), fdcheck.Contract(batched=True), None),
        (lambda x, ct: np.cumsum(ct, axis=0) * 0 + ct * np.cos(x), fdcheck.Contract(batched=True), None),
    ],
)
def test_what_a_contract_asks_for(vjp, contract, status):
    dtype = np.float32 if status == "dtype" else np.float64
    found, word = statuses(vjp, contract, X.astype(dtype))
    assert found == ({status} if status else set())
    assert word == ("fail" if status else "pass")


def test_all_of_it_is_asked_by_default_and_parts_can_be_left_out():
    def absolute(x, ct):
        return np.abs(ct) * np.cos(x)

    assert statuses(absolute, None) == ({"nonlinear"}, "fail")
    assert statuses(absolute, None, skip=("nonlinear",)) == (set(), "pass")
    assert statuses(absolute, fdcheck.Contract(), skip="layout,nonlinear") == (set(), "pass")
    assert statuses(absolute, None, skip="layout") == ({"nonlinear"}, "fail")


def test_two_calls_that_differ_break_a_tolerance_of_zero_and_not_the_default():
    calls = []

    def drifting(x, ct):
        calls.append(1)
        return ct * np.cos(x) * (1 + 1e-12 * len(calls))

    assert statuses(drifting, fdcheck.Contract()) == (set(), "pass")
    found, word = statuses(drifting, fdcheck.Contract(nondet_tol=0.0))
    assert ("nondeterministic" in found, word) == (True, "fail")
    assert statuses(drifting, fdcheck.Contract(nondet_tol=1e-6)) == (set(), "pass")


def test_masked_entries_are_not_looked_at_and_the_others_are():
    def coupled(x):
        return np.array([x[0] ** 2 + 1e-2 * x[2], x[1] ** 2, x[2] ** 2])

    def diagonal(x):
        return scipy.sparse.diags_array(2 * x)

    def wrong(x):
        return scipy.sparse.diags_array(2 * x * [1, 1.1, 1])

    masked = fdcheck.Contract(masked=True)
    assert not fdcheck.verify(coupled, X, jacobian=diagonal).passed
    assert not fdcheck.verify(coupled, X, jacobian=diagonal, contract=fdcheck.Contract()).passed
    report = fdcheck.verify(coupled, X, jacobian=diagonal, contract=masked)
    assert report.passed
    assert [pair.entries for pair in report.pairs] == [3]
    assert fdcheck.verify(coupled, X, jacobian=wrong, contract=masked).verdict == "fail"


def test_masked_entries_stop_the_look_beyond_a_sample():
    def squares(x):
        return x**2

    x0 = np.linspace(1, 2, 30)
    report = fdcheck.verify(
        squares,
        x0,
        jacobian=lambda x: scipy.sparse.diags_array(2 * x),
        max_evals=5,
        contract=fdcheck.Contract(masked=True),
    )
    assert report.passed
    assert any("masked" in note for note in report.notes)


def test_a_batch_of_structures():
    def apply(x):
        return {"s": np.sum(x["a"]) * x["b"], "t": x["a"] ** 2}

    def vjp(x, ct):
        s, t = np.asarray(ct["s"]), ct["t"]
        return {
            "a": (s * x["b"])[..., None] * np.ones(3) + 2 * x["a"] * t, "b": s * np.sum(x["a"]), "n": None,
        }  # fmt: skip

    x0 = {"a": X, "b": np.array(2.0), "n": 3}
    assert fdcheck.verify(apply, x0, vjp=vjp, contract=fdcheck.Contract(batched=True)).passed

    def flat(x, ct):
        return vjp(x, {"s": np.sum(ct["s"]), "t": ct["t"]})

    report = fdcheck.verify(apply, x0, vjp=flat, contract=fdcheck.Contract(batched=True))
    assert {str(finding.status) for finding in report.findings} == {"batched"}


def test_a_contract_that_is_none_is_named():
    with pytest.raises(fdcheck.InvalidInput, match=r"^contract: expected an fdcheck.Contract, got True"):
        fdcheck.verify(np.sin, X, vjp=cosine, contract=True)
    with pytest.raises(fdcheck.InvalidInput, match=r"^nondet_tol: expected a number"):
        fdcheck.Contract(nondet_tol=-1)
