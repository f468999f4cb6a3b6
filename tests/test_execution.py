"""Execution and Progress: what is refused, and what a callback is told."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fdcheck
from fdcheck import Execution, InvalidInput, Progress

X0 = np.array([0.1, 0.2, 0.3])


def vjp(x, ct):
    return ct * np.cos(x)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"executor": 2}, ["executor", "concurrent.futures.Executor", "int 2"]),
        ({"executor": ThreadPoolExecutor}, ["executor", "type"]),
        ({"batched": 3}, ["batched", "function of stacks", "3"]),
        ({"batched": None}, ["batched", "None"]),
        ({"max_memory": 0}, ["max_memory", "positive", "0"]),
        ({"max_memory": None}, ["max_memory", "None"]),
        ({"timeout": -1.0}, ["timeout", "-1.0"]),
        ({"timeout": float("nan")}, ["timeout", "nan"]),
        ({"timeout": True}, ["timeout", "True"]),
        ({"time_limit": float("inf")}, ["time_limit", "inf"]),
        ({"time_limit": "1 h"}, ["time_limit", "'1 h'"]),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(options, words):
    with pytest.raises(InvalidInput, match=r"^execution: ") as caught:
        Execution(**options)
    for word in words:
        assert word in str(caught.value)


def test_a_dask_client_is_told_where_its_executor_is():
    class Client:
        def get_executor(self):
            raise NotImplementedError

    with pytest.raises(InvalidInput, match="get_executor"):
        Execution(executor=Client())


def test_an_execution_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Execution().timeout = 3.0


@pytest.mark.parametrize("function", [fdcheck.differentiate, fdcheck.recommend_eps])
def test_other_things_than_an_execution_are_refused(function):
    with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidInput, match=r"^execution: expected an fdcheck.Execution"):
        function(np.sin, X0, execution=pool)
    with pytest.raises(InvalidInput, match=r"^execution: expected an fdcheck.Execution, got int 2"):
        fdcheck.verify(np.sin, X0, vjp=vjp, execution=2)


# progress


def told(apply=np.sin, claim=vjp, **options):
    seen = []
    report = fdcheck.verify(apply, X0, vjp=claim, progress=seen.append, **options)
    return report, seen


def test_progress_counts_every_call_once_and_ends_at_the_calls_of_the_report():
    report, seen = told()
    assert {type(step) for step in seen} == {Progress}
    assert [step.done for step in seen] == list(range(2, report.applies + 1))  # x0 came before
    assert all(step.done <= step.expected for step in seen)
    assert seen[-1].expected == report.applies


def test_progress_tells_the_time_and_what_disagrees():
    _, seen = told(claim=lambda x, ct: -vjp(x, ct))
    times = [step.elapsed for step in seen]
    assert times == sorted(times)
    assert all(step.remaining >= 0 for step in seen)
    assert seen[0].failing == 0
    assert max(step.failing for step in seen) == 3  # the diagnosis asks for more points once they are known
    assert told()[1][-1].failing == 0


def test_progress_hears_of_chunks_from_workers_too():
    serial, _ = told()
    with ThreadPoolExecutor(2) as pool:
        report, seen = told(execution=Execution(executor=pool))
    assert seen[-1].done == report.applies == serial.applies


def test_progress_that_is_neither_a_word_nor_a_callable_is_refused():
    with pytest.raises(InvalidInput, match=r"^progress: expected True, False or a callable, got 'bar'"):
        fdcheck.verify(np.sin, X0, vjp=vjp, progress="bar")


def test_what_a_callback_raises_reaches_the_caller():
    def stop(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fdcheck.verify(np.sin, X0, vjp=vjp, progress=stop)


# time_limit without workers: a clock that goes on by itself


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("fdcheck.problem.budget.time.monotonic", lambda: now[0])
    return now


def test_what_is_open_when_the_time_is_up_is_undecided(clock):
    def apply(x):
        clock[0] += 1.0
        return np.sin(x)

    report = fdcheck.verify(apply, X0, vjp=vjp, execution=Execution(time_limit=13.5))
    assert report.verdict is fdcheck.Verdict.INCONCLUSIVE
    assert report.applies == 14
    assert any("the time is up (time_limit)" in note for note in report.notes)
    assert {finding.status for finding in report.findings} == {fdcheck.Status.UNDECIDED}
    assert "raise time_limit" in report.findings[0].message
    assert report.pairs[0].counts["agrees"] == 3  # the first input was measured in time


def test_a_wrong_entry_that_was_seen_in_time_still_fails(clock):
    def apply(x):
        clock[0] += 1.0
        return np.sin(x)

    def wrong(x, ct):
        return -vjp(x, ct)

    whole = fdcheck.verify(apply, X0, vjp=wrong)
    clock[0] = 0.0
    cut = fdcheck.verify(apply, X0, vjp=wrong, execution=Execution(time_limit=whole.applies - 10.5))
    assert cut.applies == whole.applies - 10
    assert cut.verdict is fdcheck.Verdict.FAIL


def test_enough_time_changes_nothing():
    limited = fdcheck.verify(np.sin, X0, vjp=vjp, execution=Execution(time_limit=1000))
    assert limited.to_dict() == fdcheck.verify(np.sin, X0, vjp=vjp).to_dict()


def test_the_time_may_be_up_at_x0_already(clock):
    def apply(x):
        clock[0] += 1.0
        return np.sin(x)

    report = fdcheck.verify(apply, X0, vjp=vjp, execution=Execution(time_limit=0.5))
    assert report.verdict is fdcheck.Verdict.INCONCLUSIVE
    assert report.applies == 1


def test_nothing_is_sampled_after_the_time_is_up_and_what_was_not_measured_is_a_dash():
    draw = np.random.default_rng(3)
    x, weights = draw.normal(size=1500), draw.normal(size=(3, 1500))
    report = fdcheck.verify(
        lambda x: np.tanh(weights @ x),
        x,
        vjp=lambda x, ct: ((1 - np.tanh(weights @ x) ** 2)[:, None] * weights).T @ ct,
        execution=fdcheck.Execution(time_limit=1e-9),
    )
    assert (report.verdict, report.coverage.inputs_measured) == ("inconclusive", 0)
    assert [f.status for f in report.findings] == ["undecided"]
    assert np.isnan(report.sensitivity)
    assert "noticed  " not in str(report).split("Pairs")[0]
    assert "nan" not in str(report)
    assert "inf " not in str(report)
