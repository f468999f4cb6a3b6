"""The contract of endpoints, asked of verify: each breach with its status and vectors, and right twins of each."""

import copy
import dataclasses

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import LinearOperator

import fdcheck
from fdcheck import Status, Verdict
from fdcheck.settings import SKIPPABLE

X = np.array([[0.3, -0.7, 1.1], [0.9, 0.4, -1.3]])
WEIGHT = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def wave(x):
    return WEIGHT.astype(x.dtype) * np.sin(x)


def slope(x):
    return WEIGHT.astype(x.dtype) * np.cos(x)


def right(x, c):
    return c * slope(x)


def check(vjp=None, x0=X, apply=wave, **options):
    if vjp is not None:
        options["vjp"] = vjp
    return fdcheck.verify(apply, x0, **options)


def statuses(report):
    return {str(finding.status) for finding in report.findings}


class Remembers:
    """A vjp whose Jacobian is that of another call; each way of remembering is one method."""

    def __init__(self, how):
        self.how, self.x, self.calls, self.known = how, None, 0, {}

    def __call__(self, x, c):
        return c * slope(getattr(self, self.how)(x))

    def last_point(self, x):
        known, self.x = self.x, x
        return x if known is None else known

    def last_copy(self, x):
        known, self.x = self.x, x.copy()
        return x if known is None else known

    def same_values(self, x):
        if self.x is None or not np.array_equal(self.x, x):
            self.x = self.known["y"] = x.copy()
        return self.known["y"]

    def all_values(self, x):
        return self.known.setdefault(x.tobytes(), x.copy())


class Layer:
    """An apply that saves its input for a vjp, as layers do; ``own`` says whether the vjp looks at its own x."""

    def __init__(self, own):
        self.own, self.saved = own, None

    def apply(self, x):
        self.saved = x.copy()
        return wave(x)

    def vjp(self, x, c):
        return c * slope(x if self.own else self.saved)


def squeezed(x, c):
    return right(x, c).ravel()


def in_place(x, c):
    c *= slope(x)
    return c


def overwrites_x(x, c):
    gradient = right(x, c)
    x[:] = 0
    return gradient


def draws(seed=0):
    draw = np.random.default_rng(seed)
    return lambda x, c: right(x, c) * draw.uniform(0.9, 1.1)


def heeds_first(x, c):
    kept = np.zeros_like(c)
    first = np.flatnonzero(c)[:1]
    kept.flat[first] = c.flat[first]
    return right(x, kept)


def raises_if_dense(x, c):
    if np.count_nonzero(c) > 1:
        raise ZeroDivisionError("two at once")
    return right(x, c)


BROKEN = {
    "returns a flat array": (squeezed, Status.SHAPE),
    "returns a dict of it": (lambda x, c: {"x": right(x, c)}, Status.STRUCTURE),
    "returns a column that would broadcast": (lambda x, c: right(x, c)[:, :1], Status.SHAPE),
    "returns float32 for float64": (lambda x, c: right(x, c).astype(np.float32), Status.DTYPE),
    "returns complex numbers": (lambda x, c: right(x, c) + 0j, Status.DTYPE),
    "changes its cotangent": (in_place, Status.MUTATION),
    "changes x": (overwrites_x, Status.MUTATION),
    "raises at a dense cotangent": (raises_if_dense, Status.RAISED),
    "draws random numbers": (draws(), Status.NONDETERMINISTIC),
    "loses the sign": (lambda x, c: right(x, np.abs(c)), Status.NONLINEAR),
    "heeds the sign only": (lambda x, c: right(x, np.sign(c)), Status.NONLINEAR),
    "ignores the cotangent's size": (lambda x, c: right(x, c / (np.abs(c).max() or 1)), Status.NONLINEAR),
    "clips": (lambda x, c: right(x, np.clip(c, -5, 5)), Status.NONLINEAR),
    "rounds": (lambda x, c: right(x, np.round(c, 1)), Status.NONLINEAR),
    "flushes small ones": (lambda x, c: right(x, np.where(np.abs(c) < 0.03, 0, c)), Status.NONLINEAR),
    "adds a constant": (lambda x, c: right(x, c) + 1e-2, Status.NONLINEAR),
    "adds a constant to zero only": (lambda x, c: right(x, c) + 1e-3 * (not c.any()), Status.NONLINEAR),
    "heeds the first element only": (heeds_first, Status.NONLINEAR),
    "walks memory": (lambda x, c: (c.ravel("K") * slope(x).ravel()).reshape(x.shape), Status.LAYOUT),
    "wants contiguous memory": (
        lambda x, c: right(x, c if c.flags.c_contiguous else 1 / 0), Status.LAYOUT,
    ),
    "cannot step backwards": (lambda x, c: right(x, c if min(c.strides) >= 0 else 1 / 0), Status.LAYOUT),
    "writes through zero strides": (lambda x, c: right(x, c if max(c.strides) > 0 else 1 / 0), Status.LAYOUT),
    "uses the last point it saw": (Remembers("last_point"), Status.HIDDEN_STATE),
    "uses a copy of the last point it saw": (Remembers("last_copy"), Status.HIDDEN_STATE),
}  # fmt: skip


def broken(name):
    """Return one of them that remembers nothing yet."""
    return copy.deepcopy(BROKEN[name][0])


@pytest.mark.parametrize("name", BROKEN)
def test_each_breach_fails_with_its_status(name):
    report, status = check(broken(name)), BROKEN[name][1]
    assert report.verdict is Verdict.FAIL
    assert status in statuses(report)
    finding = next(f for f in report.findings if f.status == status)
    assert finding.endpoint == "vjp"
    assert finding.message.endswith(".")
    assert status in str(report)


DRAW, WORK = np.random.default_rng(1), np.empty(X.shape)
RIGHT = {
    "plain": right,
    "a view of the cotangent": (lambda x, c: c),
    "its own copy": (lambda x, c: right(x.copy(), c.copy())),
    "wider": (lambda x, c: right(x, c).astype(np.longdouble)),
    "makes it contiguous": (lambda x, c: (np.ascontiguousarray(c).ravel("K") * slope(x).ravel()).reshape(x.shape)),
    "keeps the last values": Remembers("same_values"),
    "keeps all values": Remembers("all_values"),
    "rounds at the last bit": (lambda x, c: right(x, c) * (1 + 1e-15 * DRAW.normal())),
    "a work array of its own": (lambda x, c: np.multiply(c, slope(x), out=WORK)),
    "in float32 inside": (lambda x, c: right(x.astype(np.float32), c.astype(np.float32)).astype(np.float64)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_twins_are_not_accused(name):
    apply = (lambda x: x) if name == "a view of the cotangent" else wave
    report = check(RIGHT[name], apply=apply)
    assert (str(report.verdict), report.findings) == ("pass", ())
    assert report.contract_calls["vjp"] <= 12
    assert report.contract_calls["apply"] == 2


def test_memory_that_is_given_out_twice_is_noted():
    report = check(RIGHT["a work array of its own"])
    assert any("gives out its own memory" in note for note in report.notes)
    assert check(right).notes == ()


def test_a_vjp_that_uses_what_apply_saved_fails_and_its_twin_passes():
    used, own = Layer(own=False), Layer(own=True)
    report = check(used.vjp, apply=used.apply)
    assert statuses(report) == {"hidden_state"}
    assert "after apply and vjp were called at a far point" in report.findings[0].message
    assert set(report.findings[0].vectors) == {"v", "x_far"}
    assert check(own.vjp, apply=own.apply).passed


# ------------------------------------------------------------------------------------------------ what is reported


def test_the_vectors_of_a_finding_show_the_breach():
    def absolute(x, c):
        return right(x, np.abs(c))

    (finding,) = check(absolute).findings
    v = finding.vectors["v"]
    assert v.shape == X.shape
    assert not np.allclose(absolute(X, v), sum(right(X, e) for e in np.diag(v.ravel()).reshape(6, 2, 3)))
    assert "v = [" in str(check(absolute))
    (finding,) = check(broken("walks memory")).findings
    laid = finding.vectors["v"]
    assert laid.strides != np.ascontiguousarray(laid).strides
    assert not np.allclose(BROKEN["walks memory"][0](X, laid), right(X, laid))


def test_long_vectors_are_cut_in_the_text_and_whole_in_the_finding():
    x0 = np.linspace(0.1, 1, 500)
    report = fdcheck.verify(np.sin, x0, vjp=lambda x, c: np.abs(c) * np.cos(x), max_evals=5, max_output_samples=5)
    finding = next(f for f in report.findings if f.status is Status.NONLINEAR)
    assert finding.vectors["v"].shape == (500,)
    assert "..." in str(report)
    assert len(str(report).splitlines()) < 60
    assert any(len(f["vectors"].get("v", ())) == 500 for f in report.to_dict()["findings"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("loses the sign", "it loses the signs of the vector"),
        ("heeds the sign only", "it depends on the signs of the vector and not on its size"),
        ("adds a constant to zero only", "vjp of zeros is not zero"),
        ("clips", "vjp of 64 v is not 64 times that of v"),
        ("flushes small ones", "vjp of -0.015625 v is not -0.015625 times that of v"),
        ("changes x", "x was another after the call"),
        ("changes its cotangent", "the cotangent was another after the call"),
        ("cannot step backwards", "negative-stride array in place of a contiguous one raised ZeroDivisionError"),
        ("writes through zero strides", "zero-stride array in place of a contiguous one raised ZeroDivisionError"),
        ("walks memory", "column-major array in place of a contiguous one differs"),
        ("uses the last point it saw", "at a far point"),
    ],
)
def test_the_sentence_says_what_is_wrong(name, words):
    assert words in " ".join(f.message for f in check(broken(name)).findings)


def test_a_vjp_that_ignores_its_cotangent():
    report = check(lambda x, c: x, apply=lambda x: np.sum(x**2) / 2)
    assert statuses(report) == {"nonlinear"}
    assert "it does not depend on the vector" in report.findings[0].message


def test_terms_of_one_output_alone_are_named():
    def apply(x):
        return {"p": np.sin(x), "q": np.cos(x)}

    def last(x, c):
        return -c["q"] * np.sin(x) if np.any(c["q"]) else c["p"] * np.cos(x)

    (finding,) = check(last, apply=apply).findings
    assert "it holds the term of q alone" in finding.message
    assert set(finding.vectors["v"]) == {"p", "q"}
    assert check(lambda x, c: c["p"] * np.cos(x) - c["q"] * np.sin(x), apply=apply).passed


# ------------------------------------------------------------------------------------------------ cost


def test_at_most_twelve_calls_an_endpoint_and_the_report_shows_them():
    matrix = np.diag(np.cos(X[0]))
    report = fdcheck.verify(
        np.sin,
        X[0],
        jacobian=lambda x: np.diag(np.cos(x)),
        jvp=lambda x, t: t * np.cos(x),
        vjp=lambda x, c: c * np.cos(x),
    )
    assert report.contract_calls == {"apply": 2, "jacobian": 2, "jvp": 10, "vjp": 10}
    assert report.endpoint_calls == {"jacobian": 3, "jvp": 13, "vjp": 13}
    assert "vjp       0 failures / 9 checks, 13 calls (10 for the contract)" in str(report)
    assert "calls (2 for the contract), 3 of 3 input elements moved" in str(report)
    assert report.to_dict()["contract_calls"]["vjp"] == 10
    alone = fdcheck.verify(np.sin, X[0], jacobian=lambda x: matrix, skip=SKIPPABLE)
    assert alone.contract_calls == {"jacobian": 1}


@pytest.mark.parametrize("name", BROKEN)
def test_a_breach_costs_no_more(name):
    assert check(broken(name)).contract_calls.get("vjp", 0) <= 12


def test_scalars_and_single_elements_have_no_layouts():
    for x0 in (1.5, np.float32(1.5), np.array(1.5), np.array([[1.5]])):
        report = fdcheck.verify(lambda x: x * x, x0, vjp=lambda x, c: 2 * x * c)
        assert report.passed
        assert report.contract_calls["vjp"] == 8


# ------------------------------------------------------------------------------------------------ switching off


@pytest.mark.parametrize("name", [n for n, (_, s) in BROKEN.items() if s in SKIPPABLE])
def test_each_part_can_be_left_out(name):
    status = BROKEN[name][1]
    report = check(broken(name), skip=(status,))
    assert status not in statuses(report)
    others = tuple(other for other in SKIPPABLE if other is not status)
    assert status in statuses(check(broken(name), skip=others))


def test_everything_that_can_be_skipped_at_once():
    for vjp in (BROKEN["loses the sign"][0], BROKEN["walks memory"][0], BROKEN["returns float32 for float64"][0]):
        assert check(vjp, skip=SKIPPABLE).passed


# ------------------------------------------------------------------------------------------------ jacobians


def test_jacobians_are_asked_again():
    draw, states = np.random.default_rng(0), []

    def remembers(x):
        states.append(x.copy())
        return np.diag(np.cos(states[-2] if len(states) > 1 else x))

    def overwrites(x):
        matrix = np.diag(np.cos(x))
        x[:] = 0
        return matrix

    assert fdcheck.verify(np.sin, X[0], jacobian=lambda x: np.diag(np.cos(x))).passed
    for jacobian, status in (
        (lambda x: np.diag(np.cos(x)) * draw.uniform(0.9995, 1.0005, (3, 1)) ** 20, "nondeterministic"),
        (remembers, "hidden_state"),
        (overwrites, "mutation"),
    ):
        report = fdcheck.verify(np.sin, X[0], jacobian=jacobian)
        assert report.verdict is Verdict.FAIL
        assert status in statuses(report)


DIAGONAL = np.diag(np.cos(X[0]))


@pytest.mark.parametrize(
    "jacobian",
    [
        lambda x: scipy.sparse.diags_array(np.cos(x)),
        lambda x: np.diag(np.cos(x)) * (1 + 1e-14 * np.random.default_rng().normal()),
        lambda x: DIAGONAL,
        lambda x: LinearOperator((3, 3), matvec=lambda v: np.cos(x) * v.ravel(), dtype=float),
        lambda x: LinearOperator((3, 3), lambda v: np.cos(x) * v.ravel(), lambda v: np.cos(x) * v.ravel(), dtype=float),
    ],
    ids=["sparse", "last bits", "one array for all calls", "operator", "operator with rmatvec"],
)
def test_right_jacobians_of_every_form(jacobian):
    report = fdcheck.verify(np.sin, X[0], jacobian=jacobian)
    assert (str(report.verdict), report.findings) == ("pass", ())


def test_an_rmatvec_that_is_not_the_transpose():
    def shifted(x):
        matrix = np.diag(2 * x) - np.diag(2 * x[:-1], -1)
        return LinearOperator((3, 3), lambda v: matrix @ v.ravel(), lambda v: matrix @ v.ravel(), dtype=float)

    def upwind(x):
        return x**2 - np.concatenate([[0.0], x[:-1] ** 2])

    report = fdcheck.verify(upwind, X[0], jacobian=shifted)
    assert statuses(report) == {"adjoint"}
    assert "rmatvec" in report.findings[0].message
    assert fdcheck.verify(upwind, X[0], jacobian=shifted, skip="adjoint").passed


# ------------------------------------------------------------------------------------------------ jvp and vjp together


def test_jvp_and_vjp_that_contradict_each_other_where_no_entry_was_measured():
    x0 = np.linspace(0.1, 1, 200)

    def wrong_at_the_end(x, c):
        gradient = c * np.cos(x)
        gradient[..., 150] = 3 * c[150]
        return gradient

    report = fdcheck.verify(
        np.sin, x0, jvp=lambda x, t: t * np.cos(x), vjp=wrong_at_the_end, max_evals=4, max_output_samples=200
    )
    assert "adjoint" in statuses(report)


def test_a_vjp_that_is_not_transposed():
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    for back, words in ((lambda x, c: matrix @ c, {"disagrees", "adjoint"}), (lambda x, c: c @ matrix, set())):
        report = fdcheck.verify(lambda x: matrix @ x, np.array([1.0, 2.0]), jvp=lambda x, t: matrix @ t, vjp=back)
        assert statuses(report) == words


def test_a_kink_at_which_each_may_choose():
    x0 = np.array([0.0, 1.0, -2.0])
    relu = {"jvp": lambda x, t: t * (x >= 0), "vjp": lambda x, c: c * (x > 0)}
    report = fdcheck.verify(lambda x: np.maximum(x, 0), x0, **relu)
    assert report.passed
    assert statuses(report) == {"kink"}


# ------------------------------------------------------------------------------------------------ never accused


def conjugate_gradients(matrix, b, tol, start=None):
    y = np.zeros_like(b) if start is None else start
    r = b - matrix @ y
    p = r
    for _ in range(200):
        if np.linalg.norm(r) <= tol:
            break
        a = (r @ r) / (p @ matrix @ p)
        y, last, r = y + a * p, r, r - a * (matrix @ p)
        p = r + (r @ r) / (last @ last) * p
    return y


@pytest.mark.parametrize("tol", [1e-5, 1e-6, 1e-9])
@pytest.mark.parametrize("kind", ["relative", "absolute", "warm"])
def test_adjoints_solved_to_a_tolerance(tol, kind):
    draw = np.random.default_rng(4)
    root = draw.normal(size=(9, 9)) / 5 + np.eye(9)
    matrix, x0, last = root @ root.T, draw.normal(size=9), {}

    def vjp(x, c):
        size = np.linalg.norm(c) if kind == "relative" else 1.0
        last["y"] = conjugate_gradients(matrix, c, tol * size, last.get("y") if kind == "warm" else None)
        return np.cos(x) * last["y"]

    report = fdcheck.verify(lambda x: np.linalg.solve(matrix, np.sin(x)), x0, vjp=vjp, rtol=1e-2)
    assert (str(report.verdict), report.findings) == ("pass", ())


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e-30, 1e30, 1e150])
def test_huge_and_tiny_numbers(size):
    x0 = np.array([1.0, 2.0, 0.3])
    linear = {"jvp": lambda x, t: size * np.cos(x) * t, "vjp": lambda x, c: size * np.cos(x) * c}
    report = fdcheck.verify(lambda x: size * np.sin(x), x0, **linear)
    assert (str(report.verdict), report.findings) == ("pass", ())
    wrong = fdcheck.verify(lambda x: size * np.sin(x), x0, vjp=lambda x, c: size * np.cos(x) * np.abs(c))
    assert statuses(wrong) == {"nonlinear"}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.complex64, np.complex128])
def test_every_dtype(dtype):
    x0 = X.astype(dtype)
    if x0.dtype.kind == "c":
        x0 = x0 + dtype(0.25j) * x0[::-1]

    def jvp(x, t):
        return t * slope(x)

    def vjp(x, c):
        return c * np.conj(slope(x))

    for options in ({}, {"contract": fdcheck.Contract(nondet_tol=0.0)}):
        report = check(vjp, x0, jvp=jvp, **options)
        assert report.verdict is not Verdict.FAIL, str(report)
        assert not statuses(report) & {"nonlinear", "layout", "adjoint", "hidden_state", "nondeterministic", "dtype"}
    wrong = check(lambda x, c: np.abs(c).astype(dtype) * np.conj(slope(x)), x0)
    assert "nonlinear" in statuses(wrong)


def test_infinite_and_nan_products_are_left_to_the_comparison():
    x0 = np.array([0.0, 1.0, 4.0])
    report = fdcheck.verify(np.sqrt, x0, jvp=lambda x, t: t / (2 * np.sqrt(x)))
    assert not statuses(report) & {"nonlinear", "layout", "hidden_state", "nondeterministic"}

    def undefined(x):
        return np.array([x[0] * x[1], np.sqrt(x[0] - 5)])

    def jvp(x, t):
        return np.array([x[0] * t[1] + x[1] * t[0], t[0] / (2 * np.sqrt(x[0] - 5))])

    report = fdcheck.verify(undefined, np.array([2.0, 3.0]), jvp=jvp)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert statuses(report) == {"nonfinite"}


def test_none_integers_and_dataclasses():
    @dataclasses.dataclass
    class Model:
        w: np.ndarray
        n: int
        unused: np.ndarray
        b: float

    x0 = Model(X.copy(), 3, np.ones(2), 0.5)

    def apply(x):
        return {"y": x.n * np.sin(x.w) + x.b, "count": x.n}

    def vjp(x, c):
        assert c["count"] is None
        return Model(x.n * np.cos(x.w) * c["y"], None, None, np.sum(c["y"]))

    def sign(x, c):
        return dataclasses.replace(vjp(x, c), b=np.sum(np.abs(c["y"])))

    assert fdcheck.verify(apply, x0, vjp=vjp).passed
    (finding,) = fdcheck.verify(apply, x0, vjp=sign).findings
    assert finding.status is Status.NONLINEAR
    assert " at b:" in finding.message
    assert finding.vectors["v"]["count"] is None


def test_nothing_is_called_at_a_far_point_where_the_user_says_how_far_to_go():
    reached = []

    def watched(x):
        reached.append(x.copy())
        return wave(x)

    check(right, apply=watched, eps=1e-3)
    assert max(np.abs(x - X).max() for x in reached) <= 4e-3
    reached.clear()
    check(right, apply=watched, bounds=(-1.3, 1.1))
    assert all((x >= -1.3).all() and (x <= 1.1).all() for x in reached)


def test_domains_that_the_far_point_has_to_keep_to():
    above_one, below_one = np.array([1.05, 1.3]), np.array([0.97, -0.99])
    assert fdcheck.verify(np.arccosh, above_one, vjp=lambda x, c: c / np.sqrt(x * x - 1)).passed
    assert fdcheck.verify(np.arcsin, below_one, vjp=lambda x, c: c / np.sqrt(1 - x * x)).passed

    def only_here(x):
        if np.abs(x - X).max() > 0.01:
            raise ValueError("not here")
        return wave(x)

    report = check(right, apply=only_here)
    assert report.passed
    assert any("two far points" in note for note in report.notes)
    assert not any("not here" in note for note in report.notes)


def test_a_cap_on_applies_is_kept():
    report = check(right, max_applies=16)
    assert report.applies <= 16
    assert "apply" not in report.contract_calls
