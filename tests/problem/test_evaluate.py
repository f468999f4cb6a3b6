"""Points beside x0: the step really taken, bounds, single coordinates and directions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fdcheck
from fdcheck import InvalidInput, Status, Verdict
from fdcheck.problem import evaluate
from fdcheck.problem.callables import Function, Problem

few = settings(max_examples=60, deadline=None, database=None)
DTYPES = (np.float16, np.float32, np.float64)


def problem_of(apply, x0, **paths):
    return Problem(Function("apply", apply), x0, **paths)


def moved_to(problem, column, step, bounds=None):
    target, moved = evaluate.targets(
        problem, np.array([column]), np.array([float(step)]), bounds or evaluate.unbounded(problem)
    )
    return target[0], moved[0]


def difference(problem, column, target):
    moved = np.array([float(target - problem.x[column])])
    return evaluate.column_differences(problem, np.array([column]), np.array([target], problem.x.dtype), moved)[0]


# the step that was really taken


@pytest.mark.parametrize(
    ("dtype", "step", "taken"),
    [
        (np.float64, 2.0**-30, 2.0**-30),
        (np.float32, 2.0**-23, 2.0**-23),
        (np.float32, 1.1 * 2.0**-23, 2.0**-23),
        (np.float32, 1e-9, 0.0),
        (np.float32, -1e-9, 0.0),
        (np.float32, -(2.0**-24), -(2.0**-24)),  # the spacing below 1 is half of the one above
        (np.float16, 2.0**-10, 2.0**-10),
        (np.float16, 1e-4, 0.0),
        (np.float16, 0.0016, 2.0**-9),
    ],
)
def test_steps_from_one_are_those_of_the_dtype(dtype, step, taken):
    problem = problem_of(lambda x: x, np.array([1.0], dtype))
    target, moved = moved_to(problem, 0, step)
    assert moved == taken
    assert target == 1.0 + taken


@few
@given(st.sampled_from(DTYPES), st.floats(-100, 100), st.floats(-10, 10), st.booleans())
def test_targets_are_representable_and_the_spacing_is_exact(dtype, x, step, as_complex):
    x = dtype(x)
    x0 = np.array([1j * x], np.result_type(dtype, np.complex64)) if as_complex else np.array([x])
    real = x0.real.dtype.type
    problem = problem_of(lambda v: v, x0)
    column = 1 if as_complex else 0
    target, moved = moved_to(problem, column, step)
    assert target == real(float(x) + step)
    assert moved == float(target) - float(x)
    seen = difference(problem, column, target)[column]
    np.testing.assert_allclose(seen, moved, rtol=float(np.finfo(real).eps))  # exact, or rounded to the dtype


def test_each_leaf_moves_in_its_own_dtype():
    x0 = {"a": np.array([1.0], np.float16), "b": np.array([1.0], np.float32), "c": 1.0}
    problem = problem_of(lambda x: x["c"], x0)
    wide = evaluate.unbounded(problem)
    target, moved = evaluate.targets(problem, np.arange(3), np.full(3, 2.0**-20), wide)
    np.testing.assert_array_equal(moved, [0, 2.0**-20, 2.0**-20])
    np.testing.assert_array_equal(target, [1, 1 + 2.0**-20, 1 + 2.0**-20])


@pytest.mark.parametrize("dtype", DTYPES)
def test_apply_only_ever_sees_the_dtype_of_x0(dtype):
    seen = set()

    def watch(x):
        seen.add(x.dtype)
        return x * x

    report = fdcheck.verify(watch, np.array([0.5, -1.25, 3.0], dtype), vjp=lambda x, c: 2 * x * c)
    assert report.verdict is Verdict.PASS
    assert seen == {np.dtype(dtype)}
    assert not fdcheck.verify(watch, np.array([0.5, -1.25, 3.0], dtype), vjp=lambda x, c: x * c)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_a_forced_step_below_the_resolution_blames_the_step_and_not_the_claim(dtype):
    x0 = np.array([0.7], dtype)
    for scale in (2, 1):  # right and wrong alike
        report = fdcheck.verify(lambda x: x * x, x0, vjp=lambda x, c, s=scale: dtype(s) * x * c, eps=1e-12)
        assert report.verdict is Verdict.INCONCLUSIVE
        assert {finding.status for finding in report.findings} <= {Status.UNDECIDED, Status.NONFINITE}
        assert "step" in report.findings[0].message


def test_float32_is_judged_by_the_step_taken_and_not_by_the_one_wished_for():
    """0.1 + 1e-6 lies 0.96e-6 from 0.1 in float32: dividing by 1e-6 would be off by four per cent."""
    x0 = np.array([0.1], np.float32)
    _, moved = moved_to(problem_of(lambda x: x, x0), 0, 1e-6)
    assert moved == float(np.float32(np.float32(0.1) + 1e-6)) - float(np.float32(0.1))
    assert abs(moved - 1e-6) > 1e-9
    assert fdcheck.verify(lambda x: 3 * x, x0, vjp=lambda x, c: 3 * c, eps=1e-6).verdict is Verdict.PASS


@pytest.mark.parametrize(("dtype", "x"), [(np.float16, 65000.0), (np.float32, 3.4e38)])
def test_a_finite_x0_is_never_moved_to_infinity(dtype, x):
    seen = []

    def watch(v):
        seen.append(v[0])
        return np.tanh(v / dtype(x))

    x0 = np.array([x], dtype)
    fdcheck.verify(watch, x0, jvp=lambda v, t: (t / dtype(x) / np.cosh(1.0) ** 2).astype(dtype))
    assert len(seen) > 8
    assert np.all(np.isfinite(seen))


def test_a_wrong_claim_near_the_largest_number_does_not_pass():
    unit = np.float32(3.4e38)

    def apply(x):
        return np.tanh(x / unit) * np.float32(1e30)

    def half(x, t):
        return t * np.float32(0.5 * 1e30 / 3.4e38 / np.cosh(1.0) ** 2)

    assert fdcheck.verify(apply, np.array([unit]), jvp=half).verdict is not Verdict.PASS


# single coordinates and directions


def test_one_coordinate_moves_and_the_others_stay():
    seen = []

    def watch(x):
        seen.append({k: np.array(v) for k, v in x.items()})
        return x["z"].real + x["f"].sum()

    x0 = {"f": np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]), "n": 5, "s": 6.0, "z": np.array([7 + 8j, 9 + 10j])}
    problem = problem_of(watch, x0)
    assert problem.inputs.size == 9
    expected_places = [("f", (0, 0)), ("f", (0, 1)), ("f", (1, 0)), ("f", (1, 1)), ("s", ())] + [
        ("z", (k,)) for k in (0, 0, 1, 1)
    ]
    for column, (name, index) in enumerate(expected_places):
        seen.clear()
        difference(problem, column, problem.x[column] + 0.5)
        by = 0.5j if column in (6, 8) else 0.5
        for key, value in x0.items():
            expected = np.array(value)
            if key == name:
                expected[index] += by
            np.testing.assert_array_equal(seen[0][key], expected)


def test_nothing_is_evaluated_at_a_nan_target():
    problem = problem_of(lambda x: 2 * x, np.array([1.0, 2.0]))
    calls = problem.apply.calls
    columns, target, moved = np.array([0, 1]), np.array([np.nan, 2.5]), np.array([0.5, 0.5])
    out = evaluate.column_differences(problem, columns, target, moved)
    np.testing.assert_array_equal(out, [[np.nan, np.nan], [0, 1]])
    assert problem.apply.calls == calls + 1


def test_a_direction_moves_all_selected_coordinates_and_no_other():
    seen = []

    def watch(x):
        seen.append(x)
        return x["a"] * x["b"]

    x0 = {"a": np.array([1.0, 2.0], np.float32), "b": np.array([3 + 1j, 4.0]), "c": 5.0}
    problem = problem_of(watch, x0, input_paths=["a", "b"])
    out = evaluate.direction_differences(problem, np.array([1.0, 0, 0, 2, 3, 0]), np.array([0.5]))[0]
    np.testing.assert_array_equal(seen[-1]["a"], [1.5, 2])
    np.testing.assert_array_equal(seen[-1]["b"], [3 + 2j, 5.5])
    assert seen[-1]["c"] == 5.0
    np.testing.assert_array_equal(out, [1.5, 2, 3, 0])  # 1.5 (3 + 2j) - (3 + 1j), 2 * 5.5 - 8


# bounds


def test_targets_outside_of_the_bounds_are_nan_and_the_limits_belong_to_them():
    problem = problem_of(lambda x: x, np.array([1.0, 1.0, 1.0]))
    bounds = evaluate.Bounds(np.array([0.5, 1.0, -np.inf]), np.array([1.5, 1.0, np.inf]))
    for column, step, inside in [
        (0, 0.5, True),
        (0, -0.5, True),
        (0, 0.5000001, False),
        (1, 1e-15, False),
        (1, -1e-15, False),
        (2, 1e300, True),
    ]:
        target, _ = moved_to(problem, column, step, bounds)
        assert (target == 1 + step) if inside else np.isnan(target)


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [
        ((0.25, 0.75), [0.25] * 3, [0.75] * 3),
        ({"a": (0.5, 0.625)}, [0.5, 0.5, -np.inf], [0.625, 0.625, np.inf]),
        ({"a": (0.5, np.inf), "b": (-np.inf, 0.5)}, [0.5, 0.5, -np.inf], [np.inf, np.inf, 0.5]),
        ({"?": (0.0, 0.5001)}, [0.0] * 3, [0.5001] * 3),
    ],
)
def test_no_point_outside_of_the_bounds_is_ever_evaluated(bounds, low, high):
    seen = []

    def watch(x):
        seen.append([*x["a"], x["b"]])
        return np.exp(x["a"]) * x["b"]

    x0 = {"a": np.array([0.5, 0.5]), "b": 0.5}
    good = fdcheck.verify(
        watch, x0, vjp=lambda x, c: {"a": c * np.exp(x["a"]) * x["b"], "b": c @ np.exp(x["a"])}, bounds=bounds
    )
    assert good.verdict is Verdict.PASS
    bad = fdcheck.verify(
        watch, x0, vjp=lambda x, c: {"a": c * np.exp(x["a"]) * x["b"], "b": 0.9 * c @ np.exp(x["a"])}, bounds=bounds
    )
    assert {f.input for f in bad.findings if f.status is Status.DISAGREES} == {"b"}
    assert len(seen) > 20
    assert np.all(np.array(seen) >= low)
    assert np.all(np.array(seen) <= high)


@pytest.mark.parametrize(
    ("x0", "bounds", "words"),
    [
        (np.array([0.3, 0.7]), (0.5, 1.0), ["x[0]", "0.3", "[0.5, 1]"]),
        (np.array([0.3, 0.7]), {"x": (0.0, 0.5)}, ["x[1]", "0.7", "[0, 0.5]"]),
        ({"w": [1.0, np.array([[2.0], [3.0]])]}, {"w[1]": (0.0, 2.5)}, ["w[1][1, 0]", "3", "[0, 2.5]"]),
        (0.3, (0.5, 1.0), ["x", "0.3"]),
        (np.array([0.7 + 0.2j]), (0.5, 1.0), ["x[0]", "0.2"]),
    ],
)
def test_x0_outside_of_the_bounds_is_refused_with_path_and_numbers(x0, bounds, words):
    with pytest.raises(InvalidInput) as caught:
        fdcheck.differentiate(lambda x: 1.0, x0, bounds=bounds)
    message = str(caught.value)
    assert message.startswith("bounds:")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("bounds", "word"),
    [
        (3, "3"),
        ((2.0, 1.0), "low < high"),
        ((np.nan, 1.0), "low < high"),
        ((0, 1, 2), "(0, 1, 2)"),
        ({"x": "ab"}, "'ab'"),
        ({"x": (0, "b")}, "'b'"),
        ({"z": (0, 1)}, "'z'"),
    ],
)
def test_bounds_that_cannot_be_used_are_refused_by_name(bounds, word):
    with pytest.raises(InvalidInput, match=r"^bounds") as caught:
        fdcheck.verify(np.sin, np.array([0.5]), vjp=lambda x, c: c, bounds=bounds)
    assert word in str(caught.value)


def test_a_float32_number_on_its_limit_lies_inside():
    fdcheck.verify(lambda x: x * x, np.array([0.1], np.float32), vjp=lambda x, c: 2 * x * c, bounds=(0, 0.1))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_x0_is_inconclusive_or_refused(value):
    try:
        report = fdcheck.verify(np.tanh, np.array([value, 1.0]), vjp=lambda x, c: c / np.cosh(x) ** 2)
    except InvalidInput:
        return
    assert report.verdict is Verdict.INCONCLUSIVE


def test_a_nan_in_x0_is_refused_and_named():
    with pytest.raises(InvalidInput, match=r"^x0: expected finite numbers, got nan at x\[1\]"):
        fdcheck.verify(np.sin, np.array([0.5, np.nan]), vjp=lambda x, c: c * np.cos(x))


def test_a_nan_in_a_part_that_is_not_selected_does_no_harm():
    x0 = {"a": np.array([0.5]), "b": np.array([np.nan])}
    report = fdcheck.verify(
        lambda x: np.sin(x["a"]), x0, vjp=lambda x, c: {"a": c * np.cos(x["a"]), "b": None}, input_paths=["a"]
    )
    assert report.verdict is Verdict.PASS
