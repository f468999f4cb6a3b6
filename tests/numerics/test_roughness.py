"""Programs that round or stop early are told from functions that really have the slope they show."""

import numpy as np
import pytest

from fdcheck.numerics.roughness import Doubt, _explained, rough_outputs
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.evaluate import Bounds, unbounded

SCALE = 1.0


def rough(apply, x0, slope, claim, steady, bounds=None, noise=1e-16, scale=None):
    """Say whether jumps explain that a claim is off: (answer, applies beyond the first, points seen)."""
    seen = []

    def recorded(x):
        seen.append(float(x[0]))
        return apply(x)

    problem = Problem(Function("apply", recorded), np.array([x0]))
    limits = unbounded(problem) if bounds is None else Bounds(*(np.array([b], float) for b in bounds))
    doubt = Doubt(0, slope, claim - slope, steady, noise, slope == 0)
    with np.errstate(all="ignore"):
        answer = rough_outputs(problem, 0, [doubt], abs(x0) if scale is None else scale, limits)
    assert answer.shape == (1,)
    return bool(answer[0]), problem.apply.calls - 1, seen


def newton_root(x, tolerance):
    """Solve y**3 + y = x by a damped iteration that stops at a tolerance, from a fixed start."""
    y = 1.0
    for _ in range(500):
        step = 0.6 * (y**3 + y - x[0]) / (3 * y * y + 1)
        y -= step
        if abs(step) < tolerance:
            break
    return np.array([y])


def exact_root_slope(x0):
    y = np.roots([1, 0, 1, -x0])
    y = float(y[np.abs(y.imag) < 1e-9][0].real)
    return 1 / (3 * y * y + 1)


ROUNDED = [
    (np.exp, np.exp, 3, 0.7),
    (np.exp, np.exp, 4, 1.3),
    (np.sin, np.cos, 3, 0.9),
    (np.log, lambda x: 1 / x, 4, 2.6),
]


@pytest.mark.parametrize(("function", "slope", "digits", "x0"), ROUNDED)
def test_rounded_output_stands_still_and_its_jumps_explain_the_claim(function, slope, digits, x0):
    answer, applies, _ = rough(lambda x: np.round(function(x), digits), x0, 0.0, slope(x0), 2.0**-20 * x0)
    assert answer
    assert applies <= 450


@pytest.mark.parametrize(("function", "slope", "digits", "x0"), ROUNDED)
def test_the_unrounded_twin_is_not_rough(function, slope, digits, x0):
    right = slope(x0)
    for claim in (0.0, 1.05 * right, 2 * right, -right):
        assert not rough(function, x0, right, claim, 2.0**-8 * x0)[0]


@pytest.mark.parametrize("x0", [1.7, 2.9])
def test_a_solver_stopped_early_explains_a_slight_error_only(x0):
    tolerance, h = 1e-3, 1e-7
    jumps = (newton_root([x0 + h], tolerance) - newton_root([x0 - h], tolerance))[0] / (2 * h)
    right = exact_root_slope(x0)
    assert 1e-4 < abs(jumps / right - 1) < 0.15  # the program's own slope is not the derivative
    answer, applies, _ = rough(lambda x: newton_root(x, tolerance), x0, jumps, right, 1e-6)
    assert answer
    assert applies <= 450
    assert not rough(lambda x: newton_root(x, tolerance), x0, jumps, 3 * right, 1e-6)[0]
    tight = exact_root_slope(x0)
    assert not rough(lambda x: newton_root(x, 1e-13), x0, tight, 1.03 * tight, 1e-3)[0]


SMOOTH = [
    ("sine", lambda x: np.sin(40 * x), lambda x: 40 * np.cos(40 * x), 1.03, 1e-4),
    ("narrow bump", lambda x: np.exp(-(((x - 1) / 0.002) ** 2)), lambda x: 0 * x, 1.1, 1e-3),
    ("pole", lambda x: 1 / (x - 0.99), lambda x: -1 / (x - 0.99) ** 2, 1.0, 1e-4),
    ("kink near by", lambda x: np.abs(x - 1.01), lambda x: np.sign(x - 1.01), 1.0, 5e-3),
    ("steep front", lambda x: np.tanh((x - 1.05) / 0.001), lambda x: 0 * x, 1.0, 0.03),
]


@pytest.mark.parametrize(("name", "function", "slope", "x0", "steady"), SMOOTH, ids=[s[0] for s in SMOOTH])
@pytest.mark.parametrize("off", [0.03, 0.3, -2.0])
def test_smooth_functions_are_never_rough(name, function, slope, x0, steady, off):
    right = float(slope(x0))
    claim = right + off * (abs(right) or 1.0)
    answer, applies, _ = rough(function, x0, right, claim, steady)
    assert not answer
    assert applies <= 450


def test_one_branch_is_no_rough_solver():
    def branch(x):
        return np.sin(x) + np.where(x > 1.1, 0.0, 0.5)

    for factor in (1.3, 2.0, -1.0):
        assert not rough(branch, 1.0, np.cos(1.0), factor * np.cos(1.0), 0.05)[0]


def test_no_point_leaves_the_bounds_or_changes_the_sign():
    *_, seen = rough(lambda x: np.round(np.exp(x), 3), 0.7, 0.0, np.exp(0.7), 1e-6, bounds=(0.5, 1.0))
    assert min(seen) >= 0.5
    assert max(seen) <= 1.0
    for x0 in (0.7, -0.7):
        *_, seen = rough(lambda x: np.round(np.exp(x), 3), x0, 0.0, np.exp(x0), 1e-6)
        assert (np.array(seen) * x0 >= 0).all()
        assert max(np.abs(seen)) <= 3 * abs(x0)


def test_a_claim_that_is_not_finite_is_not_looked_into():
    answer, applies, _ = rough(lambda x: np.round(np.exp(x), 3), 0.7, 0.0, np.inf, 1e-6)
    assert not answer
    assert applies <= 60


def test_several_outputs_are_told_apart():
    problem = Problem(Function("apply", lambda x: np.concatenate([np.round(np.exp(x), 3), np.exp(x)])), np.array([0.7]))
    slope = np.exp(0.7)
    doubts = [Doubt(0, 0.0, slope, 1e-6, 0.0, True), Doubt(1, slope, slope, 0.01, 1e-16, False)]
    assert rough_outputs(problem, 0, doubts, 0.7, unbounded(problem)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("jumps", "is_explained"),
    [
        ([(2.0, -1.0), (2.0, 1.0)], True),  # as large as the error times the way between them
        ([(2.0, -1.0), (1.2, 1.0)], True),
        ([(0.1, -1.0), (0.1, 1.0)], False),  # alike, but far too small
        ([(40.0, -1.0), (40.0, 1.0)], False),  # alike, but far too large
        ([(2.0, -1.0), (0.7, 1.0)], False),  # one of another size
        ([(2.0, 0.5), (2.0, 1.0)], False),  # both on one side
        ([(-2.0, -1.0), (-2.0, 1.0)], False),  # the wrong way
        ([(2.0, 1.0)], False),
    ],
)
def test_a_large_error_takes_jumps_of_its_size_and_sign_on_both_sides(jumps, is_explained):
    doubt = Doubt(output=0, slope=0.1, miss=1.0, steady=1e-3, noise=0.0, stands_still=False)
    assert not doubt.is_slight
    assert _explained(doubt, jumps, scale=1.0) == is_explained
