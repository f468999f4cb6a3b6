"""Faults at any moment: exceptions and interrupts in every callable at every call, deep structures, strict warnings."""

import copy
import itertools
import json
import os
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Status
from fdcheck.checks import interrupts

X0 = {"a": np.array([0.3, 0.7, 1.1, 1.9, 2.3]), "b": [2.0, np.array([[1.5, -0.5]])], "n": 3}


def apply(x):
    return {"y": np.sin(x["a"]) * x["b"][0], "z": np.sum(x["b"][1] ** 2) * x["n"]}


def vjp(x, ct):
    return {
        "a": ct["y"] * np.cos(x["a"]) * x["b"][0],
        "b": [np.sum(ct["y"] * np.sin(x["a"])), 2 * ct["z"] * x["n"] * x["b"][1]],
        "n": None,
    }


def jvp(x, t):
    y = np.cos(x["a"]) * t["a"] * x["b"][0] + np.sin(x["a"]) * t["b"][0]
    return {"y": y, "z": np.sum(2 * x["b"][1] * t["b"][1]) * x["n"]}


def jacobian(x):
    none = np.zeros((1, 2))
    return {
        "y": {
            "a": np.diag(np.cos(x["a"]) * x["b"][0]),
            "b": [np.sin(x["a"]), np.zeros((5, 1, 2))],
            "n": None,
        },
        "z": {"a": np.zeros(5), "b": [0.0, none + 2 * x["n"] * x["b"][1]], "n": None},
    }


CALLABLES = {"apply": apply, "jacobian": jacobian, "jvp": jvp, "vjp": vjp}


class Stop(BaseException):
    """What some frameworks end a task with; no Exception."""


class Faulty:
    """A callable that does something else at one call."""

    def __init__(self, function, at, fault):
        self.function, self.at, self.fault, self.calls = function, at, fault, 0

    def __call__(self, *arguments):
        self.calls += 1
        if self.calls == self.at:
            for leaf in (arguments[0]["a"], arguments[0]["b"][1]):
                leaf[...] = 99.0  # and it is left half-way
            if isinstance(self.fault, BaseException):
                raise self.fault
            return self.fault
        return self.function(*arguments)


def given(**replaced):
    return {**CALLABLES, **replaced}


def number_of_calls(name, **options):
    faulty = Faulty(CALLABLES[name], 0, None)
    assert fdcheck.verify(x0=X0, **given(**{name: faulty}), **options).passed
    return faulty.calls


def snapshot():
    return X0["a"].tobytes(), X0["b"][0], X0["b"][1].tobytes(), X0["n"], len(X0["b"]), sorted(X0)


CALLS = [(name, at) for name in CALLABLES for at in range(1, number_of_calls(name) + 1)]


def test_the_check_is_as_large_as_it_ought_to_be():
    assert 40 <= number_of_calls("apply") <= 60
    assert len(CALLS) > 55


@pytest.mark.parametrize("kind", [ValueError("bad luck"), MemoryError(), SystemExit(0), KeyError("k"), StopIteration()])
def test_an_exception_at_any_call_is_reported_and_never_a_pass_for_its_owner(kind):
    before = snapshot()
    for name, at in CALLS:
        report = fdcheck.verify(x0=X0, **given(**{name: Faulty(CALLABLES[name], at, copy.copy(kind))}))
        told = " ".join([*(f.message for f in report.findings), *report.notes])
        if (name, at) == ("apply", 2):  # the far point where hidden state is looked for; it is looked for at another
            assert report.passed
            continue
        assert f" raised {type(kind).__name__}" in f" {told}", (name, at)
        assert "test_faults.py" in told
        if any(note.startswith("at a far point") for note in report.notes):  # a point that nobody has asked for
            assert name != "apply"
            continue
        if name != "apply":
            assert str(report.verdict) == "fail", (name, at)
            assert report.findings[0].endpoint == name
            assert report.findings[0].status in (Status.RAISED, Status.LAYOUT)
        elif at == 1:
            assert str(report.verdict) == "inconclusive"
        else:  # a point left out: entries that were measured all the same agree, and nothing is wrong
            assert str(report.verdict) != "fail", at
        assert snapshot() == before


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Stop])
@pytest.mark.parametrize("is_right", [True, False])
def test_an_interrupt_at_any_call_keeps_a_report_that_is_no_pass(kind, is_right):
    before = snapshot()
    decided = {}
    for name, at in CALLS:
        interrupt = kind("stop")
        callables = given(vjp=vjp if is_right else lambda x, ct: {**vjp(x, ct), "a": 2 * ct["y"]})
        callables[name] = Faulty(callables[name], at, interrupt)
        with pytest.raises(kind) as caught:
            fdcheck.verify(x0=X0, **callables)
        assert caught.value is interrupt
        report = caught.value.report
        assert not report
        assert str(report.verdict) == "inconclusive" or not is_right
        assert report.findings[0].message.startswith(f"the check was interrupted ({kind.__name__}) after ")
        assert (report.applies if name == "apply" else report.endpoint_calls[name]) == at
        assert "interrupted" in str(report)
        assert report.findings[0].endpoint == "apply"
        entries = sum(p.entries for p in report.pairs)
        open_ = sum(p.counts.get("undecided", 0) for p in report.pairs)
        seen = f"{entries - open_} of {entries} entries were decided" if entries else "nothing was compared"
        assert report.findings[0].message.endswith(f"calls of apply; {seen} by then.")
        assert json.loads(report.to_json())["verdict"] == str(report.verdict)
        assert any("report" in note for note in caught.value.__notes__)
        assert snapshot() == before
        if name == "apply":
            decided[at] = sum(p.counts.get(Status.AGREES, 0) for p in report.pairs)
    assert decided[max(decided)] > decided[max(decided) // 2] > 0 == decided[1]  # what was measured is not lost


def test_what_was_found_wrong_before_an_interrupt_is_a_failure():
    first = fdcheck.verify(apply, X0, vjp=lambda x, ct: {**vjp(x, ct), "a": 2 * ct["y"]})
    assert str(first.verdict) == "fail"
    faulty = Faulty(apply, first.applies, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt) as caught:
        fdcheck.verify(faulty, X0, vjp=lambda x, ct: {**vjp(x, ct), "a": 2 * ct["y"]})
    assert str(caught.value.report.verdict) == "fail"
    assert any(f.status is Status.DISAGREES for f in caught.value.report.findings)


def test_an_interrupt_at_a_later_point_keeps_the_points_before():
    one = number_of_calls("apply")
    for at in (one + 1, one + 5, 2 * one):
        with pytest.raises(KeyboardInterrupt) as caught:
            fdcheck.verify(x0=X0, points=2, **given(apply=Faulty(apply, at, KeyboardInterrupt())))
        report = caught.value.report
        assert [p.origin for p in report.points] == ["x0", "interrupted"]
        assert str(report.points[0].verdict) == "pass"
        assert str(report.verdict) == "inconclusive"
        assert report.applies == at
        assert sum(f.message.startswith("the check was interrupted") for f in report.findings) == 1


def test_an_interrupt_between_calls_keeps_a_report(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    for place in (
        "api.planned",
        "api.Claims",
        "checks.checking.measure",
        "checks.checking.compared",
        "checks.checking.pairs_of",
        "api.findings_about_apply",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"fdcheck.{place}", interrupted)
            with pytest.raises(KeyboardInterrupt) as caught:
                fdcheck.verify(x0=X0, **CALLABLES)
        assert str(caught.value.report.verdict) == "inconclusive", place


def test_an_interrupt_in_the_progress_callback_keeps_a_report():
    def progress(now):
        if now.done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        fdcheck.verify(x0=X0, **CALLABLES, progress=progress)
    assert str(caught.value.report.verdict) == "inconclusive"


def test_an_exception_in_the_progress_callback_comes_through():
    with pytest.raises(ZeroDivisionError):
        fdcheck.verify(x0=X0, **CALLABLES, progress=lambda now: 1 / (now.done - 20))


def test_a_second_interrupt_is_not_held_back(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt("second")

    monkeypatch.setattr("fdcheck.checks.checking.compared", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        fdcheck.verify(x0=X0, **given(apply=Faulty(apply, 30, KeyboardInterrupt("first"))))
    assert not caught.value.report


@pytest.mark.parametrize("function", [fdcheck.differentiate, fdcheck.recommend_eps])
def test_other_measurements_let_interrupts_through(function):
    for at in (1, 5, 20):
        with pytest.raises(KeyboardInterrupt):
            function(Faulty(apply, at, KeyboardInterrupt()), X0)


def test_an_interrupt_among_inputs_outside_of_the_sample():
    x0, weights = np.linspace(0.1, 1.0, 60), np.linspace(-1, 1, 60)
    total = fdcheck.verify(lambda x: np.sin(x) @ weights, x0, vjp=lambda x, ct: ct * np.cos(x) * weights, max_evals=8)
    calls = []

    def f(x):
        calls.append(1)
        if len(calls) == total.applies - 1:
            raise KeyboardInterrupt
        return np.sin(x) @ weights

    with pytest.raises(KeyboardInterrupt) as caught:
        fdcheck.verify(f, x0, vjp=lambda x, ct: ct * np.cos(x) * weights, max_evals=8)
    report = caught.value.report
    assert str(report.verdict) == "inconclusive"
    assert len(calls) == total.applies - 1
    assert not any("max_applies" in text for text in [*report.notes, *(f.message for f in report.findings)])


def test_a_report_of_an_older_check_is_not_taken_for_this_one():
    interrupt = KeyboardInterrupt()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt) as caught:
            fdcheck.verify(x0=X0, **given(apply=Faulty(apply, 5, interrupt)))
    assert caught.value.report.applies == 5
    assert interrupts.kept_report(interrupt) is caught.value.report


# structures, messages, warnings


def nested(value, levels):
    for _ in range(levels):
        value = [value]
    return value


def innermost(value):
    while isinstance(value, list):
        value = value[0]
    return value


def test_a_thousand_levels_work_and_more_are_a_clear_error():
    f, g = lambda x: innermost(x) ** 2, lambda x, ct: nested(2 * ct * innermost(x), 1000)
    report = fdcheck.verify(f, nested(1.5, 1000), vjp=g)
    assert report.passed
    assert max(map(len, str(report).splitlines())) <= 80
    with pytest.raises(InvalidInput, match="x0: nested too deeply, more than about 1000 levels"):
        fdcheck.verify(f, nested(1.5, 5000), vjp=g)
    with pytest.raises(InvalidInput, match="apply: the output: nested too deeply"):
        fdcheck.verify(lambda x: nested(x, 5000), 1.5, vjp=lambda x, ct: ct)


def test_a_claim_that_is_nested_too_deeply_is_a_breach():
    report = fdcheck.verify(lambda x: x**2, 1.5, vjp=lambda x, ct: nested(2 * x * ct, 5000))
    assert str(report.verdict) == "fail"
    assert report.findings[0].status is Status.STRUCTURE


@pytest.mark.parametrize("wrong", [1.0, 1.5])
def test_numpy_that_raises_and_warnings_that_are_errors(wrong):
    x0 = np.array([1.0, -1e-300, 600.0, 1e-310])
    f = lambda x: np.exp(x) * x  # noqa: E731
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        report = fdcheck.verify(f, x0, vjp=lambda x, ct: wrong * ct * (np.exp(x) * (1 + x)), points=2)
        assert str(report), report.to_json()
        for number in range(1, min(3, len(report.findings)) + 1):
            fdcheck.replay(report, number, f, x0, vjp=lambda x, ct: wrong * ct * (np.exp(x) * (1 + x)))
        fdcheck.differentiate(f, x0)
        assert np.geterr()["over"] == "raise"
    assert str(report.verdict) == ("pass" if wrong == 1.0 else "fail")


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    code = (
        "import numpy as np, fdcheck; x = np.array([0.1, 0.2]);"
        "print(fdcheck.verify(np.sin, x, vjp=lambda x, ct: ct * np.cos(x)).verdict,"
        "fdcheck.verify(np.sin, x, vjp=lambda x, ct: ct * np.sin(x)).verdict)"
    )
    blocked = tmp_path / "file"
    blocked.write_text("a file where a folder ought to be")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(blocked / "cache"), "XDG_CACHE_HOME": str(blocked),
                   "HOME": str(blocked), "NUMBA_DISABLE_JIT": "0"}  # fmt: skip
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300)
    assert out.stdout.split() == ["pass", "fail"], out.stderr


# with executors, stacks and limits of time


def smooth(x):
    return np.sin(x)


def smooth_vjp(x, ct):
    return ct * np.cos(x)


@pytest.mark.parametrize(
    ("kind", "at"), [("threads", 1), ("threads", 30), ("timeout", 1), ("timeout", 30), ("stacks", 1), ("stacks", 4)]
)
def test_an_interrupt_in_a_worker_or_a_stack_keeps_a_report(kind, at):
    calls, x0 = itertools.count(1), np.linspace(0.1, 1.0, 12)

    def interrupted(x):
        if next(calls) >= at:
            raise KeyboardInterrupt
        return np.sin(x)

    with ThreadPoolExecutor(2) as pool:
        execution = {
            "threads": fdcheck.Execution(executor=pool),
            "timeout": fdcheck.Execution(timeout=60.0),
            "stacks": fdcheck.Execution(batched=True),
        }[kind]
        with pytest.raises(KeyboardInterrupt) as caught:
            fdcheck.verify(interrupted, x0, vjp=smooth_vjp, execution=execution)
    assert str(caught.value.report.verdict) == "inconclusive"
    assert "the check was interrupted (KeyboardInterrupt)" in caught.value.report.findings[0].message


def test_an_apply_that_hangs_at_a_later_point_is_no_pass():
    def hanging(x):
        if x[0] < 0:
            time.sleep(5)
        return np.sin(x)

    points = [np.array([0.4]), np.array([-0.3]), np.array([0.5])]
    execution = fdcheck.Execution(timeout=0.3)
    report = fdcheck.verify(hanging, np.array([0.3]), vjp=smooth_vjp, points=points, execution=execution)
    assert str(report.verdict) == "inconclusive"
    assert [str(p.verdict) for p in report.points] == ["pass", "pass", "inconclusive", "pass"]
    assert {f.point for f in report.findings} == {2}
    assert "longer than the timeout of 0.3 s" in report.findings[0].message


def test_a_limit_of_time_holds_for_all_points_together():
    def slow(x):
        time.sleep(0.01)
        return np.sin(x)

    began = time.monotonic()
    execution = fdcheck.Execution(time_limit=0.5)
    report = fdcheck.verify(slow, np.array([0.3, 0.7]), vjp=smooth_vjp, points=8, execution=execution)
    assert time.monotonic() - began < 3
    assert str(report.verdict) == "inconclusive"
    assert str(report.points[0].verdict) == "pass"
    assert str(report.points[-1].verdict) == "inconclusive"
    assert any("time_limit" in f.message for f in report.findings)


def test_points_and_directions_with_an_executor():
    p0, directions = np.array([0.2, 0.3, 0.5]), [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]
    vjp = lambda p, ct: 2 * p * ct  # noqa: E731
    with ThreadPoolExecutor(2) as pool:
        options = {"directions": directions, "points": 2, "execution": fdcheck.Execution(executor=pool)}
        report = fdcheck.verify(lambda p: np.sum(p**2), p0, vjp=vjp, **options)
        alone = fdcheck.verify(lambda p: np.sum(p**2), p0, vjp=vjp, directions=directions, points=2)
    assert report.passed
    assert report.to_dict() == alone.to_dict()
    with pytest.raises(InvalidInput, match="execution: batched: expected False with directions"):
        fdcheck.verify(lambda p: np.sum(p**2), p0, vjp=vjp, directions=directions,
                       execution=fdcheck.Execution(batched=True))  # fmt: skip


def test_a_finding_is_replayed_with_an_executor():
    x0 = np.array([0.3, 0.7])
    report = fdcheck.verify(smooth, x0, vjp=lambda x, ct: -ct * np.cos(x))
    with ThreadPoolExecutor(1) as pool:
        again = fdcheck.replay(report, 1, smooth, x0, vjp=lambda x, ct: -ct * np.cos(x),
                               execution=fdcheck.Execution(executor=pool))  # fmt: skip
    assert again.notes[0].endswith("found again")
