"""Inputs that move along given directions: simplexes, symmetric and definite matrices, complex vectors, bounds."""

import dataclasses
import itertools

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg

import fdcheck
from fdcheck import InvalidInput, Status

DTYPES = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def pairwise(n):
    """Directions that move mass from one element of a simplex to the next."""
    return np.eye(n)[:-1] - np.eye(n)[1:]


def symmetric(n):
    """A basis of the symmetric matrices."""
    basis = []
    for i, j in itertools.combinations_with_replacement(range(n), 2):
        d = np.zeros((n, n))
        d[i, j] = d[j, i] = 1.0
        basis.append(d)
    return np.array(basis)


def on_simplex(p):
    """Raise unless p is a distribution, as far as its dtype can tell."""
    if abs(float(p.astype(np.float64).sum()) - 1) > 8 * np.finfo(p.dtype).eps or (p < 0).any():
        raise ValueError(f"not a distribution: {p}")


def entropy(p):
    on_simplex(p)
    return -np.sum(p * np.log(p))


def entropy_vjp(p, ct):
    on_simplex(p)
    return (-ct * (np.log(p) + 1)).astype(p.dtype)


@DTYPES
def test_a_function_of_a_simplex_is_called_on_it_only(dtype):
    p = np.array([0.1, 0.25, 0.05, 0.6], dtype)
    assert not fdcheck.verify(entropy, p, vjp=entropy_vjp).passed  # it raises beside x0
    report = fdcheck.verify(entropy, p, vjp=entropy_vjp, directions=pairwise(4))
    assert report.passed, report
    assert report.pairs[0].entries == 3
    assert not report.notes


@DTYPES
def test_what_is_compared_is_the_product_with_each_direction(dtype):
    p = np.array([0.1, 0.25, 0.05, 0.6], dtype)

    def wrong(p, ct):
        return entropy_vjp(p, ct) + np.array([0, 0, 0.1, 0], dtype) * ct

    report = fdcheck.verify(entropy, p, vjp=wrong, directions=pairwise(4))
    assert str(report.verdict) == "fail"
    failing = {f.input_index for f in report.findings if f.status is Status.DISAGREES}
    assert failing == {(1,), (2,)}  # those that move the third element
    finding = next(f for f in report.findings if f.input_index == (1,))
    exact = float((-(np.log(p.astype(float)) + 1)) @ pairwise(4)[1])
    assert finding.estimated == pytest.approx(exact, rel=2e-3)
    assert finding.claimed == pytest.approx(exact - 0.1, rel=1e-4)
    assert finding.input == "direction"
    assert "d y / d direction[1]" in str(report)


def test_what_is_normal_to_the_directions_is_not_compared():
    p = np.array([0.1, 0.25, 0.05, 0.6])
    shifted = fdcheck.verify(entropy, p, vjp=lambda p, ct: entropy_vjp(p, ct) + 7 * ct, directions=pairwise(4))
    assert shifted.passed


LOGDET = {
    "jacobian": lambda x: {"f": {"S": x["w"][:, None, None] * np.linalg.inv(x["S"]), "w": np.eye(2) * logdet(x["S"])}},
    "jvp": lambda x, t: {"f": np.sum(np.linalg.inv(x["S"]) * t["S"]) * x["w"] + logdet(x["S"]) * t["w"]},
    "vjp": lambda x, ct: {"S": (ct["f"] @ x["w"]) * np.linalg.inv(x["S"]), "w": ct["f"] * logdet(x["S"])},
}


def logdet(s):
    return 2 * np.sum(np.log(np.diag(np.linalg.cholesky(s))))


def scaled_logdet(x):
    assert np.array_equal(x["S"], x["S"].T)
    return {"f": logdet(x["S"]) * x["w"]}


@pytest.fixture
def definite():
    a = np.random.default_rng(0).normal(size=(3, 3))
    return {"S": a @ a.T + np.eye(3), "w": np.array([0.5, 2.0])}


@pytest.mark.parametrize("endpoint", LOGDET)
@DTYPES
def test_symmetric_matrices_beside_inputs_that_move_freely(endpoint, dtype, definite):
    x0 = {name: value.astype(dtype) for name, value in definite.items()}
    report = fdcheck.verify(scaled_logdet, x0, **{endpoint: LOGDET[endpoint]}, directions={"S": symmetric(3)})
    assert report.passed, report
    assert [(pair.input, pair.entries) for pair in report.pairs] == [("S.direction", 12), ("w", 4)]


@pytest.mark.parametrize("part", ["S", "w"])
def test_wrong_twins_of_either_part_fail(part, definite):
    def wrong(x, ct):
        gradient = LOGDET["vjp"](x, ct)
        gradient[part] = gradient[part] * np.where(np.arange(gradient[part].size).reshape(gradient[part].shape), 1, 1.1)
        return gradient

    report = fdcheck.verify(scaled_logdet, definite, vjp=wrong, directions={"S": symmetric(3)})
    assert str(report.verdict) == "fail"
    assert {f.input for f in report.findings if f.status is Status.DISAGREES} == {{"S": "S.direction"}.get(part, part)}


def test_a_triangle_in_the_place_of_a_symmetric_gradient_fails(definite):
    def triangle(x, ct):
        gradient = LOGDET["vjp"](x, ct)
        return {**gradient, "S": np.tril(gradient["S"])}

    report = fdcheck.verify(scaled_logdet, definite, vjp=triangle, directions={"S": symmetric(3)})
    off_diagonal = [k for k, d in enumerate(symmetric(3)) if not np.diag(d).any()]
    assert {f.input_index[0] for f in report.findings if f.status is Status.DISAGREES} == set(off_diagonal)


def test_directions_may_come_from_a_callable():
    p = np.array([0.1, 0.25, 0.05, 0.6])
    seen = []

    def tangents(value):
        seen.append(value.copy())
        value[:] = 99.0  # its own copy
        return pairwise(len(value))

    assert fdcheck.verify(entropy, p, vjp=entropy_vjp, directions=tangents).passed
    assert fdcheck.verify(lambda x: entropy(x["p"]), {"p": p}, vjp=lambda x, ct: {"p": entropy_vjp(x["p"], ct)},
                          directions={"p": tangents}).passed  # fmt: skip
    assert all(np.array_equal(value, [0.1, 0.25, 0.05, 0.6]) for value in seen)
    assert np.array_equal(p, [0.1, 0.25, 0.05, 0.6])


def test_a_vertex_of_the_simplex_is_left_on_one_side():
    p = np.array([0.0, 0.4, 0.6])

    def square(p):
        on_simplex(p)
        return np.sum(p**3) + p[0]

    def vjp(p, ct):
        return ct * (3 * p**2 + np.array([1.0, 0, 0]))

    assert fdcheck.verify(square, p, vjp=vjp, directions=pairwise(3)).passed
    report = fdcheck.verify(square, p, vjp=lambda p, ct: ct * 3 * p**2, directions=pairwise(3))
    assert [f.input_index for f in report.findings if f.status is Status.DISAGREES] == [(0,)]


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
@DTYPES
def test_the_length_of_a_direction_does_not_matter(scale, dtype):
    p = np.array([0.1, 0.25, 0.05, 0.6], dtype)
    assert fdcheck.verify(entropy, p, vjp=entropy_vjp, directions=scale * pairwise(4)).passed
    wrong = fdcheck.verify(
        entropy, p, vjp=lambda p, ct: entropy_vjp(p, ct) * dtype(1.02), directions=scale * pairwise(4)
    )
    assert str(wrong.verdict) == "fail"


def test_elements_of_very_different_size_on_one_direction():
    p = np.array([1e-9, 0.3, 0.7 - 1e-9])
    assert fdcheck.verify(entropy, p, vjp=entropy_vjp, directions=pairwise(3)).passed
    wrong = fdcheck.verify(entropy, p, vjp=lambda p, ct: entropy_vjp(p, ct) * [1.01, 1, 1], directions=pairwise(3))
    assert str(wrong.verdict) == "fail"


def test_an_output_that_is_zero_at_x0_hides_nothing():
    x0 = np.array([0.5, 0.5])
    f = lambda x: np.atleast_1d(x[0] - x[1])  # noqa: E731
    directions = [[1.0, -1.0]]
    right, wrong = np.array([1.0, -1.0]), np.array([1.0, -0.9])
    assert fdcheck.verify(f, x0, vjp=lambda x, ct: ct[0] * right, directions=directions).passed
    assert str(fdcheck.verify(f, x0, vjp=lambda x, ct: ct[0] * wrong, directions=directions).verdict) == "fail"


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian"])
def test_complex_inputs_along_complex_directions(name):
    z0 = np.array([1 + 1j, 0.5 - 2j])
    directions = np.array([[1, 1j], [1j, 1]])
    f = lambda z: np.exp(z) * z[::-1]  # noqa: E731

    def jacobian(z):
        return np.diag(np.exp(z) * z[::-1]) + np.fliplr(np.diag(np.exp(z)))

    right = {
        "jacobian": jacobian,
        "jvp": lambda z, t: jacobian(z) @ t,
        "vjp": lambda z, ct: jacobian(z).conj().T @ ct,
    }
    wrong = {
        "jacobian": lambda z: jacobian(z).conj(),
        "jvp": lambda z, t: jacobian(z) @ t.conj(),
        "vjp": lambda z, ct: jacobian(z).T @ ct,
    }
    assert fdcheck.verify(f, z0, **{name: right[name]}, directions=directions).passed
    assert str(fdcheck.verify(f, z0, **{name: wrong[name]}, directions=directions).verdict) == "fail"


@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.linalg.aslinearoperator])
def test_sparse_jacobians_and_operators(kind):
    x0 = {"a": np.array([0.3, 0.7]), "b": 2.0}
    f = lambda x: np.array([x["a"][0] * x["b"], np.sin(x["a"][1])])  # noqa: E731
    dense = lambda x: np.array([[x["b"], 0, x["a"][0]], [0, np.cos(x["a"][1]), 0]])  # noqa: E731
    directions = {"a": [[1.0, -1.0]]}
    report = fdcheck.verify(f, x0, jacobian=lambda x: kind(dense(x)), directions=directions)
    assert report.passed, report
    assert [(pair.input, pair.entries) for pair in report.pairs] == [("a.direction", 2), ("b", 2)]
    wrong = fdcheck.verify(f, x0, jacobian=lambda x: kind(dense(x) * [1, 1.1, 1]), directions=directions)
    assert [f.output_index for f in wrong.findings if f.status is Status.DISAGREES] == [(1,)]
    narrow = fdcheck.verify(f, x0, jacobian=lambda x: kind(dense(x)[:, :2]), directions=directions)
    assert narrow.findings[0].status is Status.SHAPE


def test_bounds_hold_for_the_inputs_themselves():
    seen = []

    def f(x):
        seen.append({name: np.copy(value) for name, value in x.items()})
        return np.sum(x["p"] ** 3) * x["w"]

    def vjp(x, ct):
        return {"p": ct * 3 * x["p"] ** 2 * x["w"], "w": ct * np.sum(x["p"] ** 3)}

    x0 = {"p": np.array([0.0, 0.25, 0.75]), "w": 1.0}
    directions = {"p": pairwise(3)}
    for bounds in ({"p": (0.0, 1.0), "w": (0.5, 1.0)}, (0.0, 1.0)):
        seen.clear()
        wrong = lambda x, ct: {**vjp(x, ct), "w": ct * 9.0}  # noqa: E731 (searched far and wide)
        assert str(fdcheck.verify(f, x0, vjp=wrong, directions=directions, bounds=bounds, points=3).verdict) == "fail"
        assert fdcheck.verify(f, x0, vjp=vjp, directions=directions, bounds=bounds, points=3).passed
        assert len(seen) > 60
        for x in seen:
            assert (x["p"] >= 0).all()
            assert (x["p"] <= 1).all()
            assert 0 <= x["w"] <= 1


def test_bounds_beside_which_there_is_no_room_are_named():
    with pytest.raises(InvalidInput, match="bounds: x0 lies outside"):
        fdcheck.verify(entropy, np.array([0.1, 0.9]), vjp=entropy_vjp, directions=pairwise(2), bounds=(0.2, 1.0))


def test_a_direction_without_room_is_named():
    f, vjp = (lambda x: np.sum(x**2)), (lambda x, ct: 2 * x * ct)
    options = {"directions": [[1.0, 0.0], [1.0, 1.0]], "bounds": (0.0, 1.0)}
    with pytest.raises(InvalidInput, match="bounds: direction 1 of x has no room on either side, since x lies at its"):
        fdcheck.verify(f, np.array([0.0, 1.0]), vjp=vjp, **options)
    assert fdcheck.verify(f, np.array([0.0, 0.5]), vjp=vjp, **options).passed


def test_directions_of_an_input_that_is_not_selected_do_no_harm(definite):
    options = {"directions": {"S": symmetric(3)}, "input_paths": ["w"], "bounds": (-100.0, 100.0)}
    report = fdcheck.verify(scaled_logdet, definite, vjp=LOGDET["vjp"], **options)
    assert report.passed
    assert [pair.input for pair in report.pairs] == ["w"]
    assert "not selected, not checked: S.direction" in report.notes


def test_steps_forced_on_an_input_are_steps_along_its_directions():
    seen = []

    def f(p):
        seen.append(p.copy())
        return np.sum(p**2)

    p = np.array([0.25, 0.75])
    fdcheck.verify(f, p, vjp=lambda p, ct: 2 * p * ct, directions=[[1.0, -1.0]], eps=2.0**-10)
    far = max(abs(x[0] - 0.25) for x in seen)
    assert 2.0**-10 <= far <= 4 * 2.0**-10


# what endpoints return


@pytest.mark.parametrize(
    ("vjp", "status"),
    [
        (lambda x, ct: {"S": np.zeros((3, 2)), "w": x["w"]}, Status.SHAPE),
        (lambda x, ct: {"S": np.zeros((3, 3), complex), "w": x["w"]}, Status.DTYPE),
        (lambda x, ct: {"S": np.zeros((3, 3), np.float32), "w": x["w"]}, Status.DTYPE),
        (lambda x, ct: {"S": "no", "w": x["w"]}, Status.STRUCTURE),
        (lambda x, ct: {"T": np.zeros((3, 3)), "w": x["w"]}, Status.STRUCTURE),
        (lambda x, ct: np.zeros(3), Status.STRUCTURE),
        (lambda x, ct: 1 / 0, Status.RAISED),
        (lambda x, ct: x["S"].fill(0) or LOGDET["vjp"](definite_again(), ct), Status.MUTATION),
        (lambda x, ct: x.clear() or LOGDET["vjp"](definite_again(), ct), Status.MUTATION),
        (lambda x, ct: ct["f"].fill(0) or LOGDET["vjp"](x, ct), Status.MUTATION),
    ],
)
def test_breaches_of_the_contract_are_still_seen(vjp, status, definite):
    before = {name: value.tobytes() for name, value in definite.items()}
    report = fdcheck.verify(scaled_logdet, definite, vjp=vjp, directions={"S": symmetric(3)})
    assert (report.findings[0].endpoint, report.findings[0].status) == ("vjp", status), report
    assert str(report.verdict) == "fail"
    assert {name: value.tobytes() for name, value in definite.items()} == before


def definite_again():
    a = np.random.default_rng(0).normal(size=(3, 3))
    return {"S": a @ a.T + np.eye(3), "w": np.array([0.5, 2.0])}


@pytest.mark.parametrize(
    "jacobian", [lambda x: {"f": {"S": np.zeros((2, 3)), "w": np.eye(2)}}, lambda x: {"g": 1}, lambda x: {"f": 1}]
)
def test_jacobians_of_another_form_are_breaches(jacobian, definite):
    report = fdcheck.verify(scaled_logdet, definite, jacobian=jacobian, directions={"S": symmetric(3)})
    assert report.findings[0].status in (Status.SHAPE, Status.STRUCTURE)


def test_none_is_zero(definite):
    f = lambda x: {"f": x["w"] * 2}  # noqa: E731
    directions = {"S": symmetric(3)}
    assert fdcheck.verify(f, definite, vjp=lambda x, ct: {"S": None, "w": 2 * ct["f"]}, directions=directions).passed
    jacobian = lambda x: {"f": {"S": None, "w": 2 * np.eye(2)}}  # noqa: E731
    assert fdcheck.verify(f, definite, jacobian=jacobian, directions=directions).passed
    assert not fdcheck.verify(f, definite, vjp=lambda x, ct: None, directions=directions).passed


def test_an_apply_that_changes_its_argument_is_told_of(definite):
    before = definite["S"].tobytes()

    def f(x):
        result = scaled_logdet(x)
        x["S"] *= 0
        return result

    report = fdcheck.verify(f, definite, vjp=LOGDET["vjp"], directions={"S": symmetric(3)})
    assert ("apply", Status.MUTATION) in [(f.endpoint, f.status) for f in report.findings]
    assert definite["S"].tobytes() == before


@dataclasses.dataclass
class Model:
    p: np.ndarray
    n: int
    tag: str


def test_dataclasses_integers_and_strings_are_carried_along():
    x0 = Model(np.array([0.2, 0.8]), 3, "tag")

    def f(x):
        assert isinstance(x, Model)
        assert (x.n, x.tag) == (3, "tag")
        return entropy(x.p) * x.n

    report = fdcheck.verify(f, x0, vjp=lambda x, ct: Model(entropy_vjp(x.p, ct) * x.n, None, None),
                            directions={"p": pairwise(2)})  # fmt: skip
    assert report.passed
    assert [pair.input for pair in report.pairs] == ["p.direction"]


def test_scalars_may_have_directions_too():
    report = fdcheck.verify(lambda x: x["a"] ** 2, {"a": 3.0}, vjp=lambda x, ct: {"a": 6.0 * ct},
                            directions={"a": [2.0]})  # fmt: skip
    assert report.passed
    assert report.pairs[0].claimed == 12.0


# what cannot be used


@pytest.mark.parametrize(
    ("directions", "words"),
    [
        (np.zeros((2, 3)), "directions other than zero for x, see direction 0"),
        (np.array([[1, -1, 0], [np.nan, 0, 0]]), "finite numbers for x, see direction 1"),
        (np.zeros((0, 3)), "got shape (0, 3)"),
        (np.ones(3), "(k, 3) for x, got shape (3,)"),
        (np.ones((2, 4)), "(k, 3) for x, got shape (2, 4)"),
        ([[1, 2, 3], [1, 2]], "(k, 3) for x"),
        (np.ones((1, 3)) * 1j, "of numbers like it, got complex128"),
        ("simplex", "of numbers like it"),
        ({"q": np.ones((1, 3))}, "nothing differentiable matches 'q'"),
        (lambda x: 1 / 0, "the callable for x raised ZeroDivisionError"),
        (lambda x: None, "of numbers like it, got object"),
    ],
)
def test_directions_that_cannot_be_used_are_named(directions, words):
    with pytest.raises(InvalidInput) as error:
        fdcheck.verify(np.sum, np.array([0.1, 0.2, 0.7]), vjp=lambda x, ct: ct * np.ones(3), directions=directions)
    assert str(error.value).startswith("directions: ")
    assert words in str(error.value)


def test_an_input_of_several_parts_needs_a_dict():
    with pytest.raises(InvalidInput, match=r"a dict of paths .* since x0 has several parts.*there are: a, b"):
        fdcheck.verify(lambda x: x["a"], {"a": 1.0, "b": 2.0}, vjp=lambda x, ct: x, directions=[[1.0]])
