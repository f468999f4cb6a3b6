"""A compiled apply is swept in compiled code, and nothing in the report tells the difference."""

import pickle
import re
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

import fdcheck
from fdcheck.numerics import sweeps
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.change import Moved
from fdcheck.problem.evaluate import column_differences

IS_COMPILED = not numba.config.DISABLE_JIT
POINT = np.random.default_rng(6).uniform(0.5, 1.5, 12)


@numba.njit
def mixed(x):
    y = np.empty(4)
    for i in range(4):
        y[i] = np.sin(x[i]) * x[i + 1] + x[5] ** 2
    return y


@numba.njit
def total(x):
    return np.sum(x * x * x)


@numba.njit
def doubled_in_place(x):
    x *= 2
    x[0] += x[1] * x[2]
    return x


@numba.njit
def view_of_its_argument(x):
    x[1] = x[1] * x[0]
    return x[::-2]


@numba.njit
def sine(x):
    return np.sin(x)


@numba.njit
def field(x):
    return x[:6].reshape((2, 3)) * x[6]


@numba.njit(["float64[:](float64[:])"])
def eager(x):
    return x[1:] * x[0]


@numba.njit
def picky(x):
    if x[3] > 1.2 and x[4] < 1.5 and x[5] == 1.5:
        raise ValueError("x[3] is too large")
    return x * x


@numba.njit
def shrinking(x):
    return x[x < 1.5] * 2


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Sweep from the first point on."""
    monkeypatch.setattr(sweeps, "_WORTHWHILE", -1)


def in_python(apply):
    """Return the same function as one that is called from Python for each point."""
    return lambda x: apply(x)


def differences(apply, x0, columns, by, **limits):
    """Return f(x) - f(x0) for one coordinate after the other moved, and the problem."""
    problem = Problem(Function("apply", apply), x0, **limits)
    problem.quicken(sweeps.swept)
    target = (problem.x[columns] + by).astype(x0.dtype).astype(float)
    return column_differences(problem, columns, target, np.full(len(columns), by)), problem


def is_swept(problem):
    return isinstance(problem._change, sweeps.SweptChange)


POINTS = {
    "vector": (mixed, POINT),
    "number": (total, POINT),
    "in place": (doubled_in_place, POINT),
    "view": (view_of_its_argument, POINT),
    "float32": (sine, POINT.astype(np.float32)),
    "matrix": (sine, POINT.reshape(3, 4)),
    "column-major": (sine, np.asfortranarray(POINT.reshape(3, 4))),
    "other order": (sine, POINT.reshape(2, 3, 2).transpose(1, 2, 0)),
    "strided": (sine, np.repeat(POINT, 2)[::2]),
    "other shape": (field, POINT),
    "declared": (eager, POINT),
}


@pytest.mark.parametrize("name", POINTS)
def test_each_difference_is_the_one_of_a_call_from_python(name):
    apply, x0 = POINTS[name]
    before = x0.copy()
    columns = np.array([0, 5, 11, 3, 1, 0])
    fast, problem = differences(apply, x0, columns, 0.25)
    slow, plain = differences(in_python(apply), x0, columns, 0.25)
    assert is_swept(problem) == IS_COMPILED
    assert not is_swept(plain)
    np.testing.assert_array_equal(fast, slow)
    assert np.abs(fast).max() > 0.1
    assert problem.apply.calls == plain.apply.calls == len(columns) + 1
    np.testing.assert_array_equal(x0, before)


def told(report):
    """Return what a report says, without the seconds and the addresses in it."""
    return re.sub(r"0x[0-9a-f]+", "", str(report.to_dict() | {"versions": None}))


def mixed_jacobian(x):
    matrix = np.zeros((4, 12))
    for i in range(4):
        matrix[i, i] = np.cos(x[i]) * x[i + 1]
        matrix[i, i + 1] = np.sin(x[i])
        matrix[i, 5] += 2 * x[5]
    return matrix


@pytest.mark.parametrize("wrong", [0.0, 0.5])
@pytest.mark.parametrize("profile", ["default", "quick", "strict"])
def test_the_report_is_that_of_calls_from_python(wrong, profile):
    def jacobian(x):
        matrix = mixed_jacobian(x)
        matrix[2, 3] += wrong
        return matrix

    fast = fdcheck.verify(mixed, POINT, jacobian=jacobian, profile=profile)
    slow = fdcheck.verify(in_python(mixed), POINT, jacobian=jacobian, profile=profile)
    assert fast.passed == (wrong == 0)
    assert told(fast) == told(slow)
    if wrong:
        (finding,) = [f for f in fast.findings if f.status == "disagrees"]
        assert (finding.output_index, finding.input_index) == ((2,), (3,))


def test_the_report_is_that_of_the_python_function_up_to_rounding():
    fast = fdcheck.verify(mixed, POINT, jacobian=mixed_jacobian)
    slow = fdcheck.verify(getattr(mixed, "py_func", mixed), POINT, jacobian=mixed_jacobian)
    assert (fast.verdict, fast.applies) == (slow.verdict, slow.applies) == ("pass", fast.applies)
    for a, b in zip(fast.pairs, slow.pairs, strict=True):
        assert a.counts == b.counts
        np.testing.assert_allclose(a.estimated, b.estimated, rtol=1e-8)


def test_estimates_and_steps_too():
    fast, slow = (fdcheck.differentiate(apply, POINT) for apply in (mixed, in_python(mixed)))
    np.testing.assert_array_equal(fast.value, slow.value)
    np.testing.assert_allclose(fast.value, mixed_jacobian(POINT), atol=1e-9)
    fast, slow = (fdcheck.recommend_eps(apply, POINT) for apply in (mixed, in_python(mixed)))
    assert str(fast) == str(slow)


def test_an_exception_is_told_with_its_place_and_the_other_points_go_on():
    x0 = np.full(12, 1.5)
    x0[3] = 1.3  # raises only where x[4] alone is moved down
    reports = [fdcheck.verify(f, x0, jacobian=lambda x: np.diag(2 * x)) for f in (picky, in_python(picky))]
    assert told(reports[0]) == told(reports[1])
    (note,) = [n for n in reports[0].notes if "raised" in n]
    assert "ValueError: x[3] is too large" in note
    assert "at x[4] -" in note
    assert reports[0].pairs[0].counts["agrees"] == 12 * 12


def test_an_exception_at_one_point_leaves_the_others_measured():
    columns, x0 = np.array([2, 3, 4, 3, 6]), POINT.clip(0.5, 1.1)
    x0[5] = 1.5
    found, problem = differences(picky, x0, columns, 0.9)
    assert problem.apply.calls == 6
    np.testing.assert_array_equal(np.isnan(found).all(axis=1), [False, True, False, True, False])
    assert "x[3] +0.9" in problem.course.raised.finding.message


def test_another_shape_is_told_with_its_place():
    columns = np.array([2, 3, 4])
    for apply in (shrinking, in_python(shrinking)):
        found, problem = differences(apply, POINT.clip(0.5, 1.4), columns, 0.9)
        assert np.isnan(found).all()
        assert problem.apply.calls == 4
        assert "y of shape (11,)" in problem.course.changed.finding.message
        assert "x[2] +0.9" in problem.course.changed.finding.message


def test_nothing_is_called_beyond_max_applies():
    found, problem = differences(mixed, POINT, np.arange(12), 0.5, max_applies=9)
    np.testing.assert_array_equal(np.isnan(found).all(axis=1), np.arange(12) >= 8)
    assert problem.apply.calls == 9
    assert problem.is_spent
    report = fdcheck.verify(mixed, POINT, jacobian=mixed_jacobian, max_applies=20)
    assert told(report) == told(fdcheck.verify(in_python(mixed), POINT, jacobian=mixed_jacobian, max_applies=20))


def test_progress_is_told_and_never_falls():
    seen = []
    report = fdcheck.verify(mixed, POINT, jacobian=mixed_jacobian, progress=seen.append)
    done = np.array([step.done for step in seen])
    assert (np.diff(done) > 0).all()
    assert done[-1] == report.applies
    assert all(step.expected >= step.done for step in seen)


def test_progress_of_a_slow_function_is_told_after_each_call(monkeypatch):
    monkeypatch.setattr(sweeps, "_GLANCE", 0.0)
    seen = []
    report = fdcheck.verify(mixed, POINT, jacobian=mixed_jacobian, progress=lambda step: seen.append(step.done))
    assert seen == list(range(2, report.applies + 1))


def test_a_time_limit_ends_it_between_two_chunks(monkeypatch):
    monkeypatch.setattr(sweeps, "_GLANCE", 0.0)
    problem = Problem(Function("apply", mixed), POINT)
    problem.quicken(sweeps.swept)
    left = iter([True, True, False])
    columns = np.arange(8)
    points = Moved(columns, POINT[columns] + 0.5, np.full(8, 0.5))
    found = problem._change.evaluate(points, lambda _: next(left))
    assert (found.evaluated, len(found.differences), found.troubles) == (3, 3, [])


def test_threads_may_share_it():
    columns = np.tile(np.arange(12), 40)
    alone, _ = differences(sine, POINT, columns, 0.5)
    with ThreadPoolExecutor(2) as pool:
        shared, problem = differences(sine, POINT, columns, 0.5, execution=fdcheck.Execution(executor=pool))
    np.testing.assert_array_equal(shared, alone)
    assert problem.apply.calls == 481


def test_it_can_be_sent_to_another_process():
    problem = differences(sine, POINT, np.arange(12), 0.5)[1]
    sent = pickle.loads(pickle.dumps(problem._change))
    assert type(sent) is type(problem._change)
    points = Moved(np.arange(12), POINT + 0.5, np.full(12, 0.5))
    for _ in range(2):  # compiled for the point at first, then swept
        np.testing.assert_array_equal(sent.evaluate(points)[0], problem._change.evaluate(points)[0])


@numba.njit
def pair(x):
    return x[0], x[1]


@numba.njit
def whole(x):
    return x.astype(np.int64)


@numba.njit
def squared(x):
    return x * x


@numba.jit(forceobj=True)
def in_object_mode(x):
    return x * x


@numba.cfunc("float64(float64)")
def of_a_number(x):
    return x * x


@numba.vectorize(["float64(float64)"])
def by_element(x):
    return x * x


@pytest.mark.parametrize(
    ("apply", "x0"),
    [
        (pair, POINT),
        (squared, POINT * 1j),
        (squared, 1.5),
        (squared, np.float32(1.5)),
        (squared, np.array(1.5)),
        (in_object_mode, POINT),
        (of_a_number, 1.5),
        (by_element, POINT),
        (np.sin, POINT),
    ],
    ids=["tuple", "complex", "float", "float32", "no axes", "object mode", "cfunc", "ufunc", "numpy"],
)
def test_what_does_not_fit_is_called_from_python(apply, x0):
    problem = Problem(Function("apply", apply), x0)
    problem.quicken(sweeps.swept)
    assert not is_swept(problem) or problem._change._loop is None or np.shape(x0) == ()
    fast, slow = (fdcheck.differentiate(f, x0) for f in (apply, in_python(apply)))
    assert [str(b) for b in fast.blocks] == [str(b) for b in slow.blocks]


def test_the_loop_itself_calls_with_private_copies():
    seen = []

    def apply(x):
        seen.append(x.copy())
        x[:] = 9.0
        return x[:2]

    x, value = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0])
    out, moved, reached = np.zeros((2, 2)), np.empty(3), np.zeros(1, np.int64)
    sweeps.sweep(apply, np.array([2, 0]), np.array([4.0, 5.0]), out, x, value, moved, moved, reached)
    np.testing.assert_array_equal(seen, [[1, 2, 4], [5, 2, 3]])
    np.testing.assert_array_equal(out, [[8, 7], [8, 7]])
    np.testing.assert_array_equal(x, [1, 2, 3])
    assert reached[0] == 2


def test_the_loop_says_how_far_it_came():
    def apply(x):
        return x[:1] if x[1] > 5 else x

    x, reached = np.array([1.0, 2.0]), np.zeros(1, np.int64)
    out, moved = np.zeros((3, 2)), np.empty(2)
    places, target = np.array([0, 1, 0]), np.array([4.0, 6.0, 8.0])
    sweeps.sweep(apply, places, target, out, x, x, moved, moved, reached)
    assert reached[0] == 1
    np.testing.assert_array_equal(out, [[3, 0], [0, 0], [0, 0]])


def test_a_first_small_check_loads_no_loop(monkeypatch):
    monkeypatch.setattr(sweeps, "_WORTHWHILE", 10_000)
    monkeypatch.setattr(sweeps, "_seen", sweeps._Seen())
    monkeypatch.setattr(sweeps, "compiled", None)  # raises when called
    assert fdcheck.verify(sine, np.array([0.1, 0.2]), vjp=lambda x, ct: ct * np.cos(x))
