"""Claims read from every form of endpoint, against matrices worked out by hand, and every breach of contract."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import fdcheck
from fdcheck import Status, Verdict
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.endpoints import claimed_matrix

A = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 4.0]])
X = np.array([0.3, 0.7, -1.1])


def linear(x):
    return A @ x


def claims(name, endpoint, apply=linear, x0=X, notes=None, **paths):
    problem = Problem(Function("apply", apply), x0, **paths)
    rows = np.arange(problem.outputs.size)
    return claimed_matrix(Function(name, endpoint), problem, rows, [] if notes is None else notes)


def breach(name, endpoint, apply=linear, x0=X):
    """Return the finding of an endpoint that breaks its contract; verify has to fail with the same one."""
    with pytest.raises(Breach) as caught:
        claims(name, endpoint, apply, x0)
    finding = caught.value.finding
    report = fdcheck.verify(apply, x0, **{name: endpoint})
    assert report.verdict is Verdict.FAIL
    assert report.findings == (finding,)
    assert finding.endpoint == name
    assert finding.message.startswith(name)
    return finding


# every form of a right claim


@pytest.mark.parametrize(
    "form",
    [
        lambda a: a,
        lambda a: a.tolist(),
        lambda a: np.asfortranarray(a),
        np.ascontiguousarray,
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.coo_array,
        sparse.lil_array,
        sparse.dok_array,
        aslinearoperator,
        lambda a: LinearOperator(a.shape, matvec=lambda v: a @ v, dtype=float),
        lambda a: LinearOperator(a.shape, matvec=lambda v: a @ v.ravel()),
    ],
)
def test_a_jacobian_in_every_form(form):
    np.testing.assert_array_equal(claims("jacobian", lambda x: form(A)), A)
    assert fdcheck.verify(linear, X, jacobian=lambda x: form(A)).verdict is Verdict.PASS
    wrong = A + np.array([[0, 0, 0], [0.02, 0, 0]])
    report = fdcheck.verify(linear, X, jacobian=lambda x: form(wrong))
    assert report.verdict is Verdict.FAIL
    assert (report.findings[0].output_index, report.findings[0].input_index) == ((1,), (0,))


def test_jvp_gives_columns_and_vjp_gives_rows():
    np.testing.assert_array_equal(claims("jvp", lambda x, t: A @ t), A)
    np.testing.assert_array_equal(claims("vjp", lambda x, c: A.T @ c), A)
    np.testing.assert_array_equal(claims("vjp", lambda x, c: c @ A), A)


@settings(max_examples=25, deadline=None, database=None)
@given(st.tuples(*[st.integers(1, 3)] * 4), st.integers(0, 2**32 - 1))
def test_all_forms_give_the_matrix_they_were_made_from(sizes, seed):
    p, q, m, n = sizes
    jacobian = np.random.default_rng(seed).standard_normal((p, q, m, n))
    x0 = np.ones((m, n))
    flat = jacobian.reshape(p * q, m * n)

    def apply(x):
        return np.einsum("pqmn,mn->pq", jacobian, x)

    for form in (jacobian, flat, sparse.csr_array(flat), aslinearoperator(flat)):
        np.testing.assert_array_equal(claims("jacobian", lambda x, form=form: form, apply, x0), flat)
    jvp = claims("jvp", lambda x, t: np.einsum("pqmn,mn->pq", jacobian, t), apply, x0)
    vjp = claims("vjp", lambda x, c: np.einsum("pqmn,pq->mn", jacobian, c), apply, x0)
    np.testing.assert_allclose(jvp, flat, rtol=1e-14)
    np.testing.assert_allclose(vjp, flat, rtol=1e-14)


class Out(NamedTuple):
    p: object
    q: object
    count: int


TREE = {"a": X, "b": np.array(2.0), "n": 3}
C = 3 * np.cos(2.0)
NESTED = np.array([[2, 0, 0, X[0]], [0, 2, 0, X[1]], [0, 0, 2, X[2]], [0, 0, 0, C]])


def nested_apply(x):
    return Out(x["a"] * x["b"], x["n"] * np.sin(x["b"]), 7)


def nested_jacobian(x):
    first = {"a": x["b"] * np.eye(3), "b": x["a"], "n": None}
    return Out(first, {"a": None, "b": x["n"] * np.cos(x["b"]), "n": None}, None)


def nested_jvp(x, t):
    assert t["n"] is None
    return Out(t["a"] * x["b"] + x["a"] * t["b"], x["n"] * np.cos(x["b"]) * t["b"], None)


def nested_vjp(x, c):
    assert c.count is None
    return {"a": c.p * x["b"], "b": c.p @ x["a"] + c.q * x["n"] * np.cos(x["b"]), "n": None}


NESTED_ENDPOINTS = {"jacobian": nested_jacobian, "jvp": nested_jvp, "vjp": nested_vjp}


@pytest.mark.parametrize("name", NESTED_ENDPOINTS)
@pytest.mark.parametrize(
    ("inputs", "outputs", "rows", "columns"),
    [
        (None, None, [0, 1, 2, 3], [0, 1, 2, 3]),
        (["a"], None, [0, 1, 2, 3], [0, 1, 2]),
        (["b"], ["q"], [3], [3]),
        (None, ["q"], [3], [0, 1, 2, 3]),
        (["b", "a"], ["p"], [0, 1, 2], [0, 1, 2, 3]),
    ],
)
def test_structures_and_the_parts_chosen(name, inputs, outputs, rows, columns):
    paths = {"input_paths": inputs, "output_paths": outputs}
    expected = NESTED[np.ix_(rows, columns)]
    np.testing.assert_allclose(claims(name, NESTED_ENDPOINTS[name], nested_apply, TREE, **paths), expected, rtol=1e-15)
    whole = claims("jacobian", lambda x: sparse.csr_array(NESTED), nested_apply, TREE, **paths)
    np.testing.assert_array_equal(whole, expected)
    assert fdcheck.verify(nested_apply, TREE, **{name: NESTED_ENDPOINTS[name]}, **paths).verdict is Verdict.PASS


def test_an_error_outside_of_the_parts_chosen_is_not_looked_at_and_one_inside_is():
    def wrong_in_b(x, c):
        return nested_vjp(x, c) | {"b": np.array(0.5)}

    assert fdcheck.verify(nested_apply, TREE, vjp=wrong_in_b, input_paths=["a"]).verdict is Verdict.PASS
    inside = fdcheck.verify(nested_apply, TREE, vjp=wrong_in_b, input_paths=["b"])
    assert inside.verdict is Verdict.FAIL
    assert {finding.input for finding in inside.findings} == {"b"}


# None means zero


@pytest.mark.parametrize("name", ["jacobian", "jvp", "vjp"])
def test_none_means_zero(name):
    np.testing.assert_array_equal(claims(name, lambda *_: None), np.zeros((2, 3)))
    assert fdcheck.verify(lambda x: np.ones(2), X, **{name: lambda *_: None}).verdict is Verdict.PASS
    assert fdcheck.verify(linear, X, **{name: lambda *_: None}).verdict is Verdict.FAIL


def test_none_for_one_leaf_means_zero_there():
    right = {"a": np.array([1.0, 2.0]), "b": 3.0}
    vjp = fdcheck.verify(lambda x: 2 * x["a"], right, vjp=lambda x, c: {"a": 2 * c, "b": None})
    assert vjp.verdict is Verdict.PASS
    wrong = fdcheck.verify(lambda x: 2 * x["a"] + x["b"], right, vjp=lambda x, c: {"a": 2 * c, "b": None})
    assert {(f.input, f.claimed) for f in wrong.findings} == {("b", 0.0)}
    jvp = claims("jvp", lambda x, t: {"y": None, "z": t["b"]}, lambda x: {"y": 1.0, "z": x["b"]}, right)
    np.testing.assert_array_equal(jvp, [[0, 0, 0], [0, 0, 1]])


# complex numbers: (re, im) of each element side by side, worked out by hand at z = 1 + 2j


Z = np.array([1 + 2j])


@pytest.mark.parametrize(
    ("apply", "endpoints", "expected"),
    [
        (
            lambda z: z**2,  # (a + bi)^2 = a^2 - b^2 + 2abi
            {
                "jacobian": lambda z: np.array([[2 + 4j]]),
                "jvp": lambda z, t: 2 * z * t,
                "vjp": lambda z, c: np.conj(2 * z) * c,
            },
            [[2, -4], [4, 2]],
        ),
        (np.conj, {"jvp": lambda z, t: np.conj(t), "vjp": lambda z, c: np.conj(c)}, [[1, 0], [0, -1]]),
        (
            lambda z: (z * np.conj(z)).real,  # a^2 + b^2
            {
                "jacobian": lambda z: np.array([[2 - 4j]]),
                "jvp": lambda z, t: 2 * (np.conj(z) * t).real,
                "vjp": lambda z, c: 2 * z * c,
            },
            [[2, 4]],
        ),
        (
            lambda z: z.real + 3 * z.imag,
            {"jvp": lambda z, t: t.real + 3 * t.imag, "vjp": lambda z, c: c * (1 + 3j)},
            [[1, 3]],
        ),
    ],
    ids=["square", "conj", "squared modulus", "real part"],
)
def test_complex_conventions(apply, endpoints, expected):
    for name, endpoint in endpoints.items():
        np.testing.assert_array_equal(claims(name, endpoint, apply, Z), expected)
        assert fdcheck.verify(apply, Z, **{name: endpoint}).verdict is Verdict.PASS


def test_real_to_complex():
    x0 = np.array([0.5])

    def apply(x):
        return x * (3 - 1j) + 1j * x**2  # derivative 3 + (2x - 1) i = 3 at x = 1/2

    endpoints = {
        "jacobian": lambda x: np.array([[3 - 1j + 2j * x[0]]]),
        "jvp": lambda x, t: (3 - 1j + 2j * x) * t + 1j * 0,
        "vjp": lambda x, c: (np.conj(3 - 1j + 2j * x) * c).real,
    }
    for name, endpoint in endpoints.items():
        np.testing.assert_allclose(claims(name, endpoint, apply, x0), [[3], [0]], atol=1e-15)
        assert fdcheck.verify(apply, x0, **{name: endpoint}).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("apply", "name", "wrong"),
    [
        (lambda z: z**2, "vjp", lambda z, c: 2 * z * c),  # the other convention
        (lambda z: z**2, "vjp", lambda z, c: np.conj(2 * z * c)),
        (lambda z: z**2, "jvp", lambda z, t: 2 * np.conj(z) * t),
        (lambda z: z**2, "jacobian", lambda z: np.array([[2 - 4j]])),
        (lambda z: z**2, "jacobian", lambda z: np.array([[2.0]])),
        (np.conj, "jacobian", lambda z: np.array([[1 + 0j]])),  # has no holomorphic derivative
        (np.conj, "jvp", lambda z, t: t),
        (lambda z: np.abs(z) ** 2, "vjp", lambda z, c: 2 * np.conj(z) * c),
        (lambda z: np.abs(z) ** 2, "vjp", lambda z, c: z * c),
        (lambda z: np.abs(z) ** 2, "jacobian", lambda z: 2 * z[:, None]),
    ],
)
def test_wrong_complex_claims_fail(apply, name, wrong):
    report = fdcheck.verify(apply, Z, **{name: wrong})
    assert report.verdict is Verdict.FAIL
    assert report.findings[0].status is Status.DISAGREES
    assert "(x)" in report.findings[0].part


def test_one_matrix_for_a_complex_function_is_a_breach_that_says_what_to_return():
    finding = breach("jacobian", lambda z: sparse.csr_array([[2 + 4j]]), lambda z: z**2, Z)
    assert finding.status is Status.STRUCTURE
    assert "complex" in finding.message


# breaches: the message names endpoint, path, what was expected and what came


@pytest.mark.parametrize(
    ("name", "endpoint", "words"),
    [
        ("jvp", lambda x, t: 1.0, ["y", "()", "(2,)"]),  # would broadcast
        ("jvp", lambda x, t: np.ones(1), ["y", "(1,)", "(2,)"]),
        ("jvp", lambda x, t: np.ones((1, 2)), ["y", "(1, 2)", "(2,)"]),
        ("jvp", lambda x, t: np.ones(3), ["y", "(3,)", "(2,)"]),
        ("vjp", lambda x, c: (A.T @ c)[:, None], ["x", "(3, 1)", "(3,)"]),
        ("vjp", lambda x, c: np.sum(c), ["x", "()", "(3,)"]),
        ("jacobian", lambda x: A.T, ["y by x", "(3, 2)", "(2, 3)"]),
        ("jacobian", lambda x: A[0], ["y by x", "(3,)", "(2, 3)"]),
        ("jacobian", lambda x: A[None], ["y by x", "(1, 2, 3)", "(2, 3)"]),
        ("jacobian", lambda x: 2.0, ["y by x", "()", "(2, 3)"]),
        ("jacobian", lambda x: sparse.csr_array(A.T), ["(3, 2)", "(2, 3)"]),
        ("jacobian", lambda x: aslinearoperator(A.T), ["(3, 2)", "(2, 3)"]),
    ],
)
def test_wrong_shapes(name, endpoint, words):
    finding = breach(name, endpoint)
    assert finding.status is Status.SHAPE
    for word in words:
        assert word in finding.message


@pytest.mark.parametrize(
    ("name", "endpoint", "words"),
    [
        ("jvp", lambda x, t: (A @ t).astype(np.float32), ["y", "float32", "float64"]),
        ("vjp", lambda x, c: (A.T @ c).astype(np.float16), ["x", "float16", "float64"]),
        ("jacobian", lambda x: A.astype(np.float32), ["y by x", "float32", "float64"]),
        ("jacobian", lambda x: sparse.csr_array(A.astype(np.float32)), ["float32", "float64"]),
        ("jvp", lambda x, t: (A @ t).astype(complex), ["y", "complex", "float64"]),
        ("vjp", lambda x, c: (A.T @ c).astype(np.complex64), ["x", "complex", "float64"]),
        ("jacobian", lambda x: A + 0j, ["y by x", "complex", "float64"]),
        ("jacobian", lambda x: sparse.csr_array(A + 0j), ["complex", "float64"]),
    ],
)
def test_narrower_dtypes_and_complex_for_real(name, endpoint, words):
    finding = breach(name, endpoint)
    assert finding.status is Status.DTYPE
    for word in words:
        assert word in finding.message


def test_the_dtype_that_counts_is_the_one_of_what_the_claim_belongs_to():
    x0 = np.array([0.3, 0.7], np.float32)

    def widening(x):
        return x.astype(np.float64) * 2

    assert fdcheck.verify(widening, x0, vjp=lambda x, c: (2 * c).astype(np.float32)).notes == ()
    assert fdcheck.verify(widening, x0, jvp=lambda x, t: 2 * t.astype(np.float64)).notes == ()
    assert fdcheck.verify(widening, x0, jacobian=lambda x: 2 * np.eye(2, dtype=np.float32)).notes == ()
    assert breach("jvp", lambda x, t: 2 * t, widening, x0).status is Status.DTYPE
    assert breach("vjp", lambda x, c: (2 * c).astype(np.float16), widening, x0).status is Status.DTYPE


def test_wider_values_and_integers_pass_with_a_note():
    x0 = np.array([0.3, 0.7], np.float32)
    wider = fdcheck.verify(lambda x: 2 * x, x0, vjp=lambda x, c: c.astype(np.float64) * 2)
    assert wider.verdict is Verdict.PASS
    assert len(wider.notes) == 1  # not one for every call
    for word in ("vjp", "x", "float64", "float32"):
        assert word in wider.notes[0]
    integers = fdcheck.verify(lambda x: 2 * x, x0, jacobian=lambda x: 2 * np.eye(2, dtype=int))
    assert integers.verdict is Verdict.PASS
    assert "int64" in integers.notes[0]


@pytest.mark.parametrize("name", ["jacobian", "jvp", "vjp"])
@pytest.mark.parametrize("value", ["text", b"text", object(), np.array(["a", "b"]), np.array([None, None])])
def test_what_is_no_number_is_a_breach(name, value):
    finding = breach(name, lambda *_: value)
    assert finding.status is Status.STRUCTURE
    assert ("x" if name == "vjp" else "y") in finding.message


@pytest.mark.parametrize(
    ("name", "endpoint", "expected"),
    [
        ("vjp", lambda x, c: {"a": c.p}, ["a (3,)", "b ()"]),  # a key is missing
        ("vjp", lambda x, c: {"a": c.p, "b": 1.0, "n": None, "z": 1.0}, ["a (3,)", "b ()"]),
        ("vjp", lambda x, c: [c.p, 1.0, None], ["a (3,)", "b ()"]),
        ("vjp", lambda x, c: c.p, ["a (3,)", "b ()"]),
        ("jvp", lambda x, t: t, ["p (3,)", "q ()"]),
        ("jvp", lambda x, t: (t["a"], 1.0, None), ["p (3,)", "q ()"]),  # a tuple is no namedtuple
        ("jacobian", lambda x: nested_jacobian(x)._asdict(), ["p (3,)", "q ()"]),
        ("jacobian", lambda x: nested_jacobian(x)._replace(q={"a": None}), ["a (3,)", "b ()", "q"]),
        ("jacobian", lambda x: NESTED, ["p (3,)", "q ()"]),
    ],
)
def test_wrong_structures(name, endpoint, expected):
    finding = breach(name, endpoint, nested_apply, TREE)
    assert finding.status is Status.STRUCTURE
    for word in (*expected, "returned", "expected"):
        assert word in finding.message


def test_a_wrong_shape_inside_a_structure_names_the_path():
    finding = breach("vjp", lambda x, c: {"a": c.p, "b": np.ones(1), "n": None}, nested_apply, TREE)
    assert (finding.status, "for b;" in finding.message) == (Status.SHAPE, True)
    finding = breach(
        "jacobian",
        lambda x: nested_jacobian(x)._replace(p={"a": np.eye(2), "b": x["a"], "n": None}),
        nested_apply,
        TREE,
    )
    assert (finding.status, "p by a" in finding.message) == (Status.SHAPE, True)


# bugs


def test_a_ragged_jacobian_is_a_breach():
    assert breach("jacobian", lambda x: [[1.0, 2.0, 3.0], [4.0]]).status in (Status.STRUCTURE, Status.SHAPE)


def test_a_linear_operator_that_raises_is_a_breach():
    def broken(v):
        raise RuntimeError("matvec broke")

    finding = breach("jacobian", lambda x: LinearOperator((2, 3), matvec=broken, dtype=float))
    assert finding.status is Status.RAISED
    assert "matvec broke" in finding.message
