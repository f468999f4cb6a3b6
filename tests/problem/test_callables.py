"""apply and the endpoints: private copies, counting, exceptions, results copied, odd outputs and inputs."""

import dataclasses
import inspect
import math

import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Status, Verdict
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.evaluate import column_differences


def problem_of(apply, x0, **paths):
    return Problem(Function("apply", apply), x0, **paths)


def beside(problem, column, target):
    """Return f(x0 with one coordinate at target) - f(x0)."""
    moved = np.array([target - problem.x[column]], np.float64)
    return column_differences(problem, np.array([column]), np.array([target], problem.x.dtype), moved)[0]


def statuses(report):
    return [(finding.endpoint, finding.status) for finding in report.findings]


# private copies


@pytest.mark.parametrize("fails", [False, True])
def test_what_callables_write_into_their_arguments_never_reaches_the_user(fails):
    x0 = {"w": np.array([0.3, 0.7]), "n": np.array([1, 2]), "s": [np.array(2.0)]}
    before = {"w": x0["w"].tobytes(), "n": x0["n"].tobytes(), "s": x0["s"][0].tobytes()}
    containers = (x0, x0["s"])

    def vandal(x, *_):
        x["w"] *= 3
        x["n"][0] = 99
        x["s"][0][...] = 5
        x["s"].append(1.0)
        x["new"] = 1.0
        if fails:
            raise RuntimeError("half-way")
        return x["w"].copy()

    fdcheck.verify(vandal, x0, vjp=vandal, jvp=vandal, jacobian=vandal)
    fdcheck.verify(lambda x: np.sin(x["w"]), x0, vjp=vandal, jvp=vandal, jacobian=vandal)
    assert before == {"w": x0["w"].tobytes(), "n": x0["n"].tobytes(), "s": x0["s"][0].tobytes()}
    assert list(x0) == ["w", "n", "s"]
    assert len(x0["s"]) == 1
    assert (x0, x0["s"]) == containers


def test_each_call_gets_copies_that_share_nothing():
    x0 = np.array([0.3, 0.7])
    kept = []

    def keeping(x, *rest):
        kept.extend((x, *rest))
        return np.sin(x) if not rest else rest[0] * np.cos(x)

    assert fdcheck.verify(keeping, x0, vjp=keeping, jvp=keeping)
    for k, a in enumerate(kept[:12]):
        assert a.flags.writeable
        assert not np.shares_memory(a, x0)
        assert not any(np.shares_memory(a, b) for b in kept[k + 1 : 12])


@pytest.mark.parametrize("name", ["jacobian", "jvp", "vjp"])
def test_an_endpoint_that_writes_into_its_arguments_breaks_its_contract(name):
    def writes(x, *v):
        d = np.cos(x)
        x += 1
        return v[0] * d if v else np.diag(d)

    report = fdcheck.verify(np.sin, np.array([0.3, 0.7]), **{name: writes})
    assert report.verdict is Verdict.FAIL
    assert statuses(report) == [(name, Status.MUTATION)]
    assert report.findings[0].message.startswith(name)


@pytest.mark.parametrize("name", ["jvp", "vjp"])
def test_writing_into_the_tangent_is_noticed_too_and_reading_is_not(name):
    def writes(x, v):
        v *= np.cos(x)
        return v

    x0 = np.array([0.3, 0.7])
    report = fdcheck.verify(np.sin, x0, **{name: writes})
    assert statuses(report) == [(name, Status.MUTATION)]
    assert fdcheck.verify(np.sin, x0, **{name: lambda x, v: v * np.cos(x)}).findings == ()


def test_an_integer_leaf_overwritten_is_noticed():
    def writes(x, c):
        x["n"][0] = 7
        return {"w": 2 * c, "n": None}

    report = fdcheck.verify(lambda x: 2 * x["w"], {"w": np.array([0.5]), "n": np.array([1])}, vjp=writes)
    assert statuses(report) == [("vjp", Status.MUTATION)]


def test_a_rebound_leaf_is_noticed():
    def rebinds(x, c):
        x["w"] = x["w"] + 1
        return {"w": 2 * c}

    report = fdcheck.verify(lambda x: 2 * x["w"], {"w": np.array([0.5])}, vjp=rebinds)
    assert statuses(report) == [("vjp", Status.MUTATION)]


def test_apply_that_changes_its_argument_is_noted_and_measured_right():
    def doubles(x):
        x *= 2
        return x

    x0 = np.array([0.3, 0.7])
    right = fdcheck.verify(doubles, x0, vjp=lambda x, c: 2 * c)
    assert right.verdict is Verdict.PASS
    assert statuses(right) == [("apply", Status.MUTATION)]
    assert not fdcheck.verify(doubles, x0, vjp=lambda x, c: 1.9 * c)
    np.testing.assert_array_equal(x0, [0.3, 0.7])


def test_a_stateful_leaf_is_not_changed():
    generator = np.random.default_rng(0)
    before = generator.bit_generator.state
    fdcheck.verify(
        lambda x: 2 * x["w"] + 0 * x["rng"].random(),
        {"w": np.array([0.5]), "rng": generator},
        vjp=lambda x, c: {"w": 2 * c, "rng": None},
    )
    assert generator.bit_generator.state == before


# counting


def test_calls_are_counted_as_they_are_made():
    calls = {"apply": 0, "jacobian": 0, "jvp": 0, "vjp": 0}

    def counted(name, function):
        def call(*arguments):
            calls[name] += 1
            return function(*arguments)

        return call

    report = fdcheck.verify(
        counted("apply", lambda x: np.array([x.sum(), x[0]])),
        np.array([0.3, 0.7, 0.9]),
        jacobian=counted("jacobian", lambda x: np.array([[1.0, 1, 1], [1, 0, 0]])),
        jvp=counted("jvp", lambda x, t: np.array([t.sum(), t[0]])),
        vjp=counted("vjp", lambda x, c: np.array([c.sum(), c[0], c[0]])),
    )
    assert report.verdict is Verdict.PASS
    assert report.applies == calls["apply"]
    assert report.endpoint_calls == {"jacobian": calls["jacobian"], "jvp": calls["jvp"], "vjp": calls["vjp"]}
    assert min(calls.values()) >= 1


def test_raising_calls_are_counted():
    function = Function("apply", lambda x: 1 / 0)
    for _ in range(3):
        with pytest.raises(Breach):
            function(problem_of(abs, 1.0).arguments())
    assert function.calls == 3


# exceptions


def raises_here(*_):
    raise ValueError("no luck\n  today")


RAISING_LINE = inspect.getsourcelines(raises_here)[1] + 1


@pytest.mark.parametrize(
    ("name", "where"),
    [("jacobian", "at x0"), ("jvp", "at x0 and tangent 0"), ("vjp", "at x0 and cotangent 0")],
)
def test_an_endpoint_that_raises_is_reported_once_with_type_file_line_and_place(name, where):
    report = fdcheck.verify(np.sin, np.array([0.3, 0.7]), **{name: raises_here})
    assert report.verdict is Verdict.FAIL
    assert statuses(report) == [(name, Status.RAISED)]
    message = report.findings[0].message
    assert message.startswith(f"{name} raised ValueError: no luck today")
    assert f"{__file__}, line {RAISING_LINE}" in message
    assert where in message


def test_the_other_endpoints_are_still_checked():
    x0 = np.array([0.3, 0.7])
    report = fdcheck.verify(np.sin, x0, jvp=raises_here, vjp=lambda x, c: c * np.sin(x))
    assert {("jvp", Status.RAISED), ("vjp", Status.DISAGREES)} <= set(statuses(report))
    assert {pair.endpoint for pair in report.pairs} == {"vjp"}


def test_a_breach_that_a_front_end_raises_is_reported_as_it_is():
    def broken(x, cotangent):
        raise Breach("vjp", Status.SHAPE, "the server returned another shape.")

    report = fdcheck.verify(np.sin, 1.0, vjp=broken)
    assert report.verdict is Verdict.FAIL
    assert [(f.status, f.message) for f in report.findings] == [(Status.SHAPE, "the server returned another shape.")]


def test_apply_that_raises_at_x0_measures_nothing_and_says_where():
    report = fdcheck.verify(raises_here, 1.0, vjp=lambda x, c: c)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert statuses(report) == [("apply", Status.RAISED)]
    assert f"{__file__}, line {RAISING_LINE}" in report.findings[0].message
    assert "at x0" in report.findings[0].message
    with pytest.raises(InvalidInput, match="apply raised ValueError: no luck today"):
        fdcheck.differentiate(raises_here, 1.0)


def test_keyboard_interrupt_is_not_swallowed():
    def interrupted(x, c):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fdcheck.verify(np.sin, 1.0, vjp=interrupted)


@pytest.mark.parametrize("bad", [lambda x: x, math.hypot], ids=["wrong number of arguments", "written in C"])
def test_the_file_named_is_never_fdchecks_own(bad):
    report = fdcheck.verify(np.sin, np.array([0.3, 0.7]), jvp=bad)
    assert report.findings[0].status is Status.RAISED
    assert "fdcheck/problem" not in report.findings[0].message.replace("\\", "/")


def test_a_dataclass_that_validates_its_integer_field():
    @dataclasses.dataclass
    class Checked:
        w: np.ndarray
        n: int

        def __post_init__(self):
            if self.n < 0:
                raise ValueError("n")

    report = fdcheck.verify(lambda p: p.w * p.n, Checked(np.array([0.5]), 2), jvp=lambda p, t: t.w * p.n)
    assert isinstance(report, fdcheck.Report)


def test_an_exception_whose_str_raises():
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError("mute")

    def raises(x, c):
        raise MuteError

    report = fdcheck.verify(np.sin, 0.5, vjp=raises)
    assert statuses(report) == [("vjp", Status.RAISED)]
    assert "MuteError" in report.findings[0].message


# beside x0


def test_apply_that_raises_beside_x0_gives_nan_and_is_noted_once():
    def partial(x):
        if x[0] > 0.4:
            raise ArithmeticError("too far")
        return 2 * x

    problem = problem_of(partial, np.array([0.3, 0.7]))
    np.testing.assert_array_equal(beside(problem, 0, 0.5), [np.nan, np.nan])
    np.testing.assert_array_equal(beside(problem, 0, 0.6), [np.nan, np.nan])
    np.testing.assert_allclose(beside(problem, 1, 0.8), [0, 0.2], rtol=1e-12)
    finding = problem.course.raised.finding
    assert (finding.endpoint, finding.status) == ("apply", Status.RAISED)
    assert "ArithmeticError: too far" in finding.message
    assert "x[0] +0.2" in finding.message
    assert problem.apply.calls == 4


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (lambda x: [x], "structure"),
        (lambda x: None, "()"),
        (lambda x: x[:1], "(1,)"),
        (lambda x: x.sum(), "()"),
        (lambda x: x.astype(np.float32), "float32"),
        (lambda x: x.astype(complex), "complex128"),
        (lambda x: x.astype(int), "int"),
    ],
)
def test_an_output_that_changes_beside_x0_gives_nan_and_is_noted(other, word):
    x0 = np.array([0.3, 0.7])
    problem = problem_of(lambda x: x if x[0] == 0.3 else other(x), x0)
    assert problem.course.changed is None
    np.testing.assert_array_equal(beside(problem, 0, 0.5), [np.nan, np.nan])
    finding = problem.course.changed.finding
    assert finding.endpoint == "apply"
    assert finding.status in (Status.SHAPE, Status.STRUCTURE, Status.DTYPE)
    assert word in finding.message
    assert "x[0] +0.2" in finding.message
    np.testing.assert_allclose(beside(problem, 1, 0.8), [0, 0.1], atol=1e-12)


def test_a_changing_output_is_never_a_pass():
    report = fdcheck.verify(lambda x: x if x[0] == 0.3 else x[:1], np.array([0.3, 0.7]), vjp=lambda x, c: c)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert ("apply", Status.SHAPE) in statuses(report)


# results are copied


def test_one_output_buffer_for_all_calls_gives_right_values():
    buffer, gradient = np.empty(2), np.empty(2)

    def into(out):
        return lambda x, *v: np.multiply(*(v or (1.0,)), np.cos(x) if v else np.sin(x), out=out)

    x0 = np.array([0.3, 0.7])
    value = fdcheck.differentiate(into(buffer), x0).value
    np.testing.assert_allclose(value, np.diag(np.cos(x0)), rtol=1e-8, atol=1e-10)
    assert fdcheck.verify(into(buffer), x0, vjp=into(gradient), jvp=into(gradient)).verdict is Verdict.PASS
    assert not fdcheck.verify(into(buffer), x0, vjp=lambda x, c: np.multiply(c, x, out=gradient))


def test_callables_that_return_their_arguments():
    x0 = {"a": np.array([0.3, 0.7]), "b": 2.0}
    same = fdcheck.verify(lambda x: x, x0, jvp=lambda x, t: t, vjp=lambda x, c: c)
    assert same.verdict is Verdict.PASS
    wrong = fdcheck.verify(lambda x: x, x0, jvp=lambda x, t: x)
    assert wrong.verdict is Verdict.FAIL


# what cannot be differentiated


@pytest.mark.parametrize("x0", [3, None, "text", True, np.arange(3), {"n": 1, "s": "x"}, [], {}, np.zeros(0)])
def test_x0_without_a_floating_number_is_refused(x0):
    with pytest.raises(InvalidInput, match=r"^x0: expected at least one floating or complex number"):
        fdcheck.verify(lambda x: 1.0, x0, vjp=lambda x, c: x)


@pytest.mark.parametrize("y", [None, "text", True, np.arange(3), {"n": 1}, []])
def test_apply_without_a_floating_output_is_refused(y):
    with pytest.raises(InvalidInput, match=r"^apply: expected a floating or complex output, got .* at x0"):
        fdcheck.verify(lambda x: y, 1.0, vjp=lambda x, c: x)


def test_an_output_of_size_zero_is_inconclusive_or_refused():
    try:
        report = fdcheck.verify(lambda x: np.zeros(0), np.array([0.5]), vjp=lambda x, c: 0 * x)
    except InvalidInput:
        return
    assert report.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("bad", [3, "sin", np.ones(2)])
def test_what_is_not_callable_is_refused_by_name(bad):
    with pytest.raises(InvalidInput, match=r"^apply: expected a callable, got"):
        fdcheck.verify(bad, 1.0, vjp=lambda x, c: c)
    with pytest.raises(InvalidInput, match=r"^vjp: expected a callable, got"):
        fdcheck.verify(np.sin, 1.0, vjp=bad)


@pytest.mark.skipif(np.finfo(np.longdouble).eps >= np.finfo(np.float64).eps, reason="longdouble is float64 here")
def test_longdouble_differences_are_formed_in_longdouble():
    one = np.longdouble(1)
    tiny = np.longdouble(2) ** -60  # lost beside 1 in float64
    problem = problem_of(lambda x: 3 * x, np.array([one, one]))
    np.testing.assert_array_equal(beside(problem, 1, one + tiny), [0, 3 * 2.0**-60])
    scalar = problem_of(lambda x: x * x, one)
    assert beside(scalar, 0, one + tiny)[0] == 2 * 2.0**-60
