"""Wrong claims and the names that their patterns get; right, odd and half wrong ones that get none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fdcheck
from tests.problems import BY_NAME, SMOOTH

RANDOM = np.random.default_rng(5)
SAMPLES = RANDOM.normal(size=(5, 3))
NET = {"W": RANDOM.normal(size=(3, 3)), "b": RANDOM.normal(size=3), "c": RANDOM.normal(size=3)}
TWO = {"a": np.array([0.5, 1.2, -0.8]), "b": np.array([1.5, 0.4, 2.2])}
Z = np.array([0.3 + 0.8j, -0.5 + 0.2j, 1.1 - 0.4j])
MIX = RANDOM.normal(size=(3, 3)) + 1j * RANDOM.normal(size=(3, 3))
WEIGHTS = np.arange(1.0, 7.0).reshape(2, 3)


def net(p):
    return np.sum(np.tanh(SAMPLES @ p["W"] + p["b"]) * p["c"])


def net_gradient(p):
    h = np.tanh(SAMPLES @ p["W"] + p["b"])
    g = (1 - h * h) * p["c"]
    return {"W": SAMPLES.T @ g, "b": g.sum(0), "c": h.sum(0)}


def two(p):
    return {"u": p["a"] * p["b"], "v": np.sin(p["a"]) + p["b"] ** 2}


def two_vjp(p, ct, a_by_v=1.0):
    return {
        "a": ct["u"] * p["b"] + a_by_v * ct["v"] * np.cos(p["a"]),
        "b": ct["u"] * p["a"] + ct["v"] * 2 * p["b"],
    }


def wave(x):
    return np.sin(x) * np.exp(x) + np.roll(x, 1) ** 2


def wave_jacobian(x):
    return np.diag((np.cos(x) + np.sin(x)) * np.exp(x)) + 2 * np.roll(np.diag(x), 1, 0)


def of(name, change):
    problem = BY_NAME[name]
    claim = change(problem.jacobian())
    return fdcheck.verify(problem.apply, problem.x0, jacobian=lambda _: claim)


def of_net(**changes):
    right = net_gradient(NET)
    claim = right | {name: change(right) for name, change in changes.items()}
    return fdcheck.verify(net, NET, vjp=lambda p, ct: {name: ct * g for name, g in claim.items()})


def of_two(vjp):
    return fdcheck.verify(two, TWO, vjp=vjp)


def of_linear(claim):
    return fdcheck.verify(lambda z: MIX @ z, Z, jacobian=lambda _: claim)


def with_zero_column(a):
    return a * (np.arange(a.shape[1]) != 1)


def forward(f, h):
    return lambda x: np.stack([(f(x + h * e) - f(x)) / h for e in np.eye(len(x))], axis=1)


def central(f, h):
    return lambda x: np.stack([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))], axis=1)


X6 = np.array([0.3, -1.1, 0.8, 1.4, -0.6, 0.5])
SHORT = np.array([1, 2, 3], np.float32)

MISTAKES = {
    "1.5 times, float32": (
        lambda: fdcheck.verify(lambda x: x**2, SHORT, vjp=lambda x, ct: 3 * x * ct),
        "factor", ["all 3 entries", "= 1.500", "1.5 times too large"], True,
    ),
    "doubled": (lambda: of("layer", lambda a: 2 * a), "factor", ["all 12 entries", "= 2.000", "twice"], True),
    "halved": (lambda: of("softmax", lambda a: a / 2), "factor", ["all 16 entries", "= 0.5000", "half"], True),
    "sign": (lambda: of("cubic", lambda a: -a), "factor", ["all 7 entries", "= -1.000", "sign"], True),
    "mean for sum": (lambda: of("ring", lambda a: a / 6), "factor", ["= 0.1667", "a mean where"], True),
    "sum for mean": (lambda: of("determinant", lambda a: 9 * a), "factor", ["= 9.000", "a sum where"], True),
    "two elements": (lambda: of("arm", lambda a: a / 2), "factor", ["half", "mean and a sum"], True),
    "degrees": (lambda: of("arm", lambda a: a * np.pi / 180), "factor", ["pi / 180", "0.01745"], True),
    "any factor": (lambda: of("uptake", lambda a: 1.1 * a), "factor", ["all 3 entries", "1.100"], True),
    "scalar": (
        lambda: fdcheck.verify(np.sin, 0.7, vjp=lambda x, ct: 2 * ct * np.cos(x)),
        "factor", ["the one entry", "= 2.000"], True,
    ),
    "one input doubled": (lambda: of_net(b=lambda g: 2 * g["b"]), "factor", ["all 3 entries by b", "2.000"], True),
    "one block negated": (
        lambda: of_two(lambda p, ct: two_vjp(p, ct, -1)), "factor", ["d v / d a", "= -1.000", "3"], True,
    ),
    "factor by column": (
        lambda: of("decay", lambda a: a * [3, 0.2]), "factor by column", ["3.000 by x[0]", "0.2000 by x[1]"], True,
    ),
    "transposed": (lambda: of("cubic", lambda a: a.T), "transpose", ["transpose", "all 6"], True),
    "W transposed": (lambda: of_net(W=lambda g: g["W"].T), "transpose", ["W is transposed", "all 6"], True),
    "Fortran's order": (
        lambda: fdcheck.verify(
            lambda m: np.sum(np.sin(m) * WEIGHTS), WEIGHTS / 5,
            vjp=lambda m, ct: ct * (np.cos(m) * WEIGHTS).ravel("F").reshape(2, 3),
        ),
        "transpose", ["x stand in Fortran's order", "all 4"], True,
    ),
    "complex transposed": (lambda: of_linear(MIX.T), "transpose", ["the transpose", "all 24"], True),
    "adjoint": (lambda: of_linear(MIX.conj().T), "conjugate transpose", ["conjugate transpose"], True),
    "conjugated": (lambda: of_linear(MIX.conj()), "conjugate", ["other complex convention", "all 18"], True),
    "conjugated vjp": (
        lambda: fdcheck.verify(np.exp, Z, vjp=lambda z, ct: ct * np.exp(z)), "conjugate", ["all 6"], True,
    ),
    "complex swapped": (
        lambda: of_linear(MIX[:, [1, 0, 2]]), "swapped columns", ["columns x[0] and x[1]", "all 24"], True,
    ),
    "columns swapped": (
        lambda: of("layer", lambda a: a[:, [0, 3, 2, 1]]), "swapped columns", ["x[1] and x[3]", "all 6"], True,
    ),
    "rows swapped": (lambda: of("cubic", lambda a: a[[2, 1, 0]]), "swapped rows", ["y[0] and y[2]"], True),
    "inputs swapped": (
        lambda: of_net(b=lambda g: g["c"], c=lambda g: g["b"]), "swapped inputs", ["b and c", "all 6"], True,
    ),
    "outputs swapped": (
        lambda: of_two(lambda p, ct: two_vjp(p, {"u": ct["v"], "v": ct["u"]})), "swapped outputs", ["u and v"], True,
    ),
    "shifted round": (lambda: of("ring", lambda a: np.roll(a, 1, 1)), "shift", ["columns of x", "+1"], True),
    "shifted": (lambda: of("softmax", lambda a: np.vstack([0 * a[:1], a[:-1]])), "shift", ["rows of y", "+1"], False),
    "shifted down": (lambda: of("layer", lambda a: np.roll(a, -2, 1)), "shift", ["columns of x", "2 places"], True),
    "reversed": (lambda: of("decay", lambda a: a[::-1]), "reversed", ["rows of y", "all 8"], True),
    "left out": (
        lambda: of("layer", lambda a: np.hstack([a[:, :1], a[:, 2:], 0 * a[:, :1]])),
        "missing column", ["x[1] is missing", "all 6"], False,
    ),
    "column zero": (
        lambda: of("unit vector", with_zero_column), "missing column", ["x[1]", "all 3", "claimed 0"], False,
    ),
    "row zero": (lambda: of("cubic", lambda a: a * [[0], [1], [1]]), "missing row", ["y[0]", "all 2"], False),
    "input zero": (lambda: of_net(c=lambda g: 0 * g["c"]), "missing input", ["by c", "all 3"], False),
    "output zero": (
        lambda: of_two(lambda p, ct: two_vjp(p, {**ct, "v": 0 * ct["v"]})),
        "missing output", ["of v", "claimed 0"], False,
    ),
    "block zero": (lambda: of_two(lambda p, ct: two_vjp(p, ct, 0)), "missing block", ["d v / d a", "all 3"], False),
    "zeros": (lambda: of("uptake", lambda a: 0 * a), "zeros", ["all 3 entries", "claimed 0"], False),
    "upper triangle": (lambda: of("softmax", np.triu), "triangle", ["all 6", "below the diagonal"], False),
    "triangle of W": (lambda: of_net(W=lambda g: np.tril(g["W"])), "triangle", ["W above its diagonal", "3"], False),
    "NaN": (lambda: of("ring", lambda a: np.nan * a), "NaN", ["all 36 entries", "NaN"], False),
    "one NaN": (lambda: of_net(b=lambda g: g["b"] * [1, np.nan, 1]), "NaN", ["y by b[1]"], False),
    "float32": (
        lambda: fdcheck.verify(
            wave, X6, rtol=1e-9, jacobian=lambda x: wave_jacobian(x.astype(np.float32)).astype(np.float64)
        ),
        "float32", ["float32 numbers", "6e-08"], False,
    ),
    "column wrong": (
        lambda: of("softmax", lambda a: a * np.where(np.arange(4) == 2, [[1.3], [0.6], [2.2], [1.7]], 1)),
        "wrong columns", ["column x[2] is wrong in all 4", "12 others"], False,
    ),
    "row wrong": (
        lambda: of("layer", lambda a: a * np.where(np.arange(3)[:, None] == 1, [1.3, 0.6, 2.2, 1.7], 1)),
        "wrong rows", ["row y[1] is wrong in all 4", "8 others"], False,
    ),
    "forward": (
        lambda: fdcheck.verify(wave, X6, jacobian=forward(wave, 1e-2)), "step", ["forward", "step 0.01"], False,
    ),
    "central": (
        lambda: fdcheck.verify(wave, X6, jacobian=central(wave, 0.1)), "step", ["central", "step 0.1 "], False,
    ),
    "other side": (
        lambda: fdcheck.verify(
            lambda x: np.maximum(x, 1), np.array([0.99, 3.0]), jacobian=lambda _: np.eye(2)
        ),
        "other side", ["to the right", "is 1, as claimed (1), up to it 0"], False,
    ),
    "other side, to the left": (
        lambda: fdcheck.verify(
            lambda x: np.minimum(x, 1), np.array([1.01, 0.2]), jacobian=lambda _: np.eye(2)
        ),
        "other side", ["to the left", "is 1, as claimed (1), up to it 0"], False,
    ),
    "zero by accident": (
        lambda: fdcheck.verify(
            lambda x: x * [1, 0, 0, 1], np.ones(4), jacobian=lambda x: np.diag([1, 0.7, -0.4, 1.0])
        ),
        "not zero", ["measured 0", "claimed up to 0.7"], True,
    ),
    "other side of a bend": (
        lambda: fdcheck.verify(
            lambda x: np.where(x < 2, x**2, 4 + 7 * (x - 2)), np.array([1.99]), jacobian=lambda _: [[7.0]]
        ),
        "other side", ["to the right", "is 7", "3.98"], False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("check", "kind", "words", "repairable"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named_with_their_figures(check, kind, words, repairable):
    report = check()
    assert report.verdict == "fail"
    (diagnosis,) = report.diagnoses
    assert diagnosis.kind == kind, diagnosis
    assert all(word in diagnosis.message for word in words), diagnosis
    assert bool(diagnosis.repair) == repairable, diagnosis
    assert 0 < diagnosis.entries <= sum(pair.failures for pair in report.pairs)
    text = str(report)
    assert "Diagnosis:" in text
    assert max(map(len, text.splitlines())) <= 80


def gradient_problems():
    """Yield (apply, x0, exact Jacobian): the smooth functions and scalar functions of several inputs."""
    for problem in SMOOTH:
        yield problem.apply, problem.x0, problem.jacobian()
    for weights in (np.array([1.0, -2.0, 0.5, 3.0]), np.arange(1.0, 13.0)):
        x = np.linspace(0.3, 1.9, len(weights))
        yield (lambda x, w=weights: np.sum(w * np.sin(x))), x, weights * np.cos(x)
    yield wave, X6, wave_jacobian(X6)


def test_no_name_for_200_random_errors_of_one_entry():
    problems = list(gradient_problems())
    random = np.random.default_rng(11)
    failed = 0
    for trial in range(200):
        apply, x0, right = problems[trial % len(problems)]
        wrong = right.copy()
        entry = tuple(random.integers(size) for size in right.shape)
        size = np.abs(right).max()
        wrong[entry] = [
            wrong[entry] * random.choice([2, 0.5, 1.1, 10, random.uniform(0.1, 5)]),
            -wrong[entry],
            wrong[entry] + size * random.normal(),
            0.0,
            random.choice(right.ravel()),
        ][random.integers(5)]
        report = fdcheck.verify(apply, x0, jacobian=lambda _, wrong=wrong: wrong)
        failed += not report
        assert report.diagnoses == (), (trial, entry, report.diagnoses)
    assert failed > 120


def halves(a):
    """Return factors 2 and 3 in turn, along neither rows nor columns."""
    return a * (2 + (np.add.outer(np.arange(len(a)), np.arange(a.shape[1])) % 3 == 0))


def transposed_but_one(a):
    wrong = a.T.copy()
    wrong[0, 1] = a[0, 1]
    wrong[1, 2] *= 1.5
    return wrong


NEAR_MISSES = {
    "two factors": lambda: of("layer", halves),
    "two factors in a gradient": lambda: of("determinant", halves),
    "transposed but one": lambda: of("cubic", transposed_but_one),
    "rolled but one": lambda: of("ring", lambda a: np.roll(a, 1, 1) + 0.5 * (np.arange(36).reshape(6, 6) == 8)),
    "random numbers": lambda: of("softmax", lambda a: np.random.default_rng(2).normal(size=a.shape)),
    "a scalar with an odd factor": lambda: fdcheck.verify(np.sin, 0.7, vjp=lambda x, ct: 1.7 * ct * np.cos(x)),
    "W transposed but one": lambda: of_net(W=lambda g: g["W"].T * (1 + 0.4 * (np.arange(9) == 5).reshape(3, 3))),
    "zeros and factors": lambda: of("unit vector", lambda a: a * [[0, 2, 1], [1, 0, 3], [0.3, 1, 1]]),
    "a step for each entry": lambda: fdcheck.verify(
        wave, X6, jacobian=lambda x: wave_jacobian(x) + (forward(wave, 0.02)(x) - wave_jacobian(x)) * (0.3 + x**2)
    ),
}


@pytest.mark.parametrize("check", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_near_misses_stay_silent(check):
    report = check()
    assert report.verdict == "fail"
    assert report.diagnoses == ()
    assert "Diagnosis" not in str(report)


def test_a_right_claim_has_no_diagnosis():
    assert of("layer", lambda a: a).diagnoses == ()
    assert of_net().diagnoses == ()


def test_two_mistakes_in_two_inputs_are_both_named():
    report = of_net(W=lambda g: g["W"].T, b=lambda g: 2 * g["b"])
    assert {d.kind: d.entries for d in report.diagnoses} == {"transpose": 6, "factor": 3}
    assert all("with the other repairs" in d.repair for d in report.diagnoses)


def test_a_repair_is_offered_only_where_the_whole_would_pass():
    report = of_net(W=lambda g: g["W"] * np.random.default_rng(3).uniform(2, 3, (3, 3)), b=lambda g: 2 * g["b"])
    (diagnosis,) = report.diagnoses
    assert "2.000" in diagnosis.message
    assert diagnosis.repair == ""


def test_one_mistake_in_two_endpoints_is_told_once():
    cos = 2 * np.cos(X6)
    report = fdcheck.verify(np.sin, X6, vjp=lambda x, ct: cos * ct, jvp=lambda x, t: cos * t)
    assert [d.endpoint for d in report.diagnoses] == ["jvp", "vjp"]
    assert " ".join(str(report).split()).count("twice the derivative") == 1
    assert report.to_dict()["diagnoses"][0]["kind"] == "factor"


@settings(max_examples=25, deadline=None)
@given(st.floats(0.01, 100), st.booleans(), st.sampled_from(["layer", "softmax", "decay", "ring"]))
def test_any_factor_is_named_with_its_value(size, negative, name):
    value = -size if negative else size
    report = of(name, lambda a: value * a)
    if report or abs(value - 1) < 0.03:
        return
    (diagnosis,) = report.diagnoses
    assert diagnosis.kind == "factor"
    told = float(diagnosis.message.split(" = ")[1].split(":")[0])
    assert told == pytest.approx(value, rel=2e-3)
    assert diagnosis.repair


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(4)))
def test_a_permutation_named_is_the_one_there_is(order):
    report = of("layer", lambda a: a[:, order])
    moved = [k for k in range(4) if order[k] != k]
    for diagnosis in report.diagnoses:
        if diagnosis.kind == "swapped columns":
            assert len(moved) == 2
            assert all(f"x[{k}]" in diagnosis.message for k in moved)
        elif diagnosis.kind == "reversed":
            assert order == [3, 2, 1, 0]
    if len(moved) == 2:
        assert report.diagnoses[0].kind == "swapped columns"
