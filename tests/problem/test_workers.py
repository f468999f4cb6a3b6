"""Workers: the same report as without them, whatever order they answer in; whatever happens to them, never a pass."""

import importlib
import multiprocessing
import random
import textwrap
import threading
import time
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

import fdcheck
from fdcheck import Execution, InvalidInput, Status, Verdict
from fdcheck.problem import workers
from tests.problems import SMOOTH

X0 = np.array([0.1, 0.2, 0.3, 0.4])

FUNCTIONS = """
import dataclasses
import os
import signal
import threading

import numpy as np


@dataclasses.dataclass
class Weights:
    a: np.ndarray
    times: int = 3

    def __post_init__(self):
        if self.a is None:
            raise ValueError("weights without a")


def sines(x):
    return np.sin(x)


def cosines(x, ct):
    return ct * np.cos(x)


def nested(w):
    return {"s": np.sin(w.a) * w.times, "z": [w.a.sum() * 1j], "w": Weights(w.a**2)}


def nested_vjp(w, ct):
    imaginary = (ct["z"][0] * -1j).real
    return Weights(ct["s"] * np.cos(w.a) * w.times + imaginary + 2 * w.a * ct["w"].a)


def far_raises(x):
    if abs(x[3] - 0.4) > 1e-8:
        raise ValueError("too far")
    return np.sin(x)


def far_changes(x):
    return np.sin(x)[: 3 if x[1] > 0.2 else 4]


def far_kills(x):
    if x[3] != 0.4:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.sin(x)


def overflows(x):
    return np.exp(1e4 * x) * 0.0 + np.sin(x)


def writes(x):
    y = np.sin(x)
    x *= 2
    return y


def exits(x):
    raise SystemExit(0)


def unsendable(x):
    return {"y": np.sin(x), "lock": threading.Lock()}
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """A module that new processes can import."""
    folder = tmp_path_factory.mktemp("functions")
    (folder / "functions_for_workers.py").write_text(textwrap.dedent(FUNCTIONS))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield importlib.import_module("functions_for_workers")


@pytest.fixture(scope="module")
def processes(functions):
    with new_processes() as pool:
        yield pool


def new_processes():
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture
def single(monkeypatch):
    """Chunks of one point, so that cheap functions are sent in many."""
    monkeypatch.setattr(workers, "_CHUNK", (0.0, 0.0))


class Late(Executor):
    """Threads that answer in an order of their own."""

    def __init__(self, seed):
        self._pool = ThreadPoolExecutor(8)
        self._draw = random.Random(seed)
        self.started, self.finished = 0, []

    def submit(self, function, /, *arguments):
        self.started += 1
        delay, number = self._draw.uniform(0, 0.004), self.started

        def late():
            time.sleep(delay)
            result = function(*arguments)
            self.finished.append(number)
            return result

        return self._pool.submit(late)


class Failing(Executor):
    """Runs what it is given, until one call, which ends otherwise."""

    def __init__(self, at, error):
        self._at, self._error = at, error
        self.calls = 0

    def submit(self, function, /, *arguments):
        self.calls += 1
        future = Future()
        if self.calls != self._at:
            future.set_result(function(*arguments))
        elif self._error is None:
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(self._error)
        return future


def alike(apply, x0, executor, **options):
    """Return the report with an executor, after comparing it with the one without."""
    alone = fdcheck.verify(apply, x0, **options)
    report = fdcheck.verify(apply, x0, **options, execution=Execution(executor=executor))
    assert report.to_dict() == alone.to_dict()
    return report


# the same report


@pytest.mark.parametrize("problem", SMOOTH, ids=lambda problem: problem.name)
def test_right_and_wrong_claims_get_the_same_report_in_any_order_of_answers(problem, single):
    executor = Late(0)
    report = alike(problem.apply, problem.point(), executor, jacobian=problem.exact)
    assert report.passed
    assert executor.finished != sorted(executor.finished)
    wrong = next(problem.wrong_twins())
    report = alike(problem.apply, problem.point(), executor, jacobian=lambda x: wrong.matrix)
    assert report.verdict is Verdict.FAIL
    assert {(f.output_index[0], f.input_index[0]) for f in report.findings} >= wrong.entries


@pytest.mark.parametrize(
    "options",
    [{"profile": "strict"}, {"max_applies": 23}, {"max_evals": 2}, {"bounds": (0.05, 0.41)}, {"method": "probe"}],
)
def test_other_ways_to_measure_get_the_same_report(options, single):
    def wrong(x, ct):
        return ct * np.cos(x) * [1, 1, 1, 1.01]

    for claim in (wrong, lambda x, ct: ct * np.cos(x)):
        with ThreadPoolExecutor(3) as pool:
            alike(np.sin, X0, pool, vjp=claim, **options)


def test_measured_derivatives_and_recommended_steps_are_the_same(single):
    with ThreadPoolExecutor(3) as pool:
        execution = Execution(executor=pool)
        alone, elsewhere = (fdcheck.differentiate(np.sin, X0, execution=e) for e in (None, execution))
        np.testing.assert_array_equal(alone.value, elsewhere.value)
        np.testing.assert_array_equal(alone.error, elsewhere.error)
        assert alone.applies == elsewhere.applies
        advice, there = (fdcheck.recommend_eps(np.sin, X0, execution=e) for e in (None, execution))
        assert advice.to_dict() == there.to_dict()


def test_processes_get_structures_of_dataclasses(functions, processes):
    x0 = functions.Weights(np.array([0.1, 0.2]))
    assert alike(functions.nested, x0, processes, vjp=functions.nested_vjp).passed


@pytest.mark.parametrize(("name", "word"), [("far_raises", "ValueError: too far ("), ("far_changes", "of shape (3,)")])
def test_what_happens_at_a_point_in_a_process_is_told_as_if_it_happened_here(functions, processes, name, word):
    report = alike(getattr(functions, name), X0, processes, vjp=functions.cosines)
    assert any(word in note for note in report.notes)
    if name == "far_raises":
        assert any("functions_for_workers.py, line " in note for note in report.notes)


@pytest.mark.parametrize("name", ["exits", "writes", "overflows"])
def test_exits_writes_and_overflows_in_a_process_are_told_as_if_they_happened_here(functions, processes, name):
    alike(getattr(functions, name), X0, processes, vjp=functions.cosines)


def test_each_point_gets_private_copies_in_threads_too(single):
    kept, lock = [], threading.Lock()

    def keeping(x):
        with lock:
            kept.append(x)
        return np.sin(x)

    x0 = X0.copy()
    with ThreadPoolExecutor(4) as pool:
        report = fdcheck.verify(keeping, x0, vjp=lambda x, ct: ct * np.cos(x), execution=Execution(executor=pool))
    assert report.applies == len(kept)
    assert not any(np.shares_memory(a, b) for k, a in enumerate(kept) for b in (*kept[:k], x0))
    assert all(x.flags.writeable for x in kept)


def test_workers_call_apply_and_this_thread_does_not():
    threads = set()

    def apply(x):
        threads.add(threading.current_thread())
        return np.sin(x)

    with ThreadPoolExecutor(2) as pool:
        fdcheck.verify(apply, X0, vjp=lambda x, ct: ct * np.cos(x), execution=Execution(executor=pool))
    assert threads
    assert threading.current_thread() not in threads


def test_cheap_points_are_sent_many_at_a_time():
    executor = Failing(0, None)
    x0 = np.linspace(0.1, 0.9, 200)
    report = fdcheck.verify(np.sin, x0, vjp=lambda x, ct: ct * np.cos(x), execution=Execution(executor=executor))
    assert report.passed
    assert executor.calls < report.applies / 10


def test_memory_limits_what_is_sent_at_once():
    executor = Failing(0, None)
    x0 = np.linspace(0.1, 0.9, 50)
    execution = Execution(executor=executor, max_memory=1)
    report = fdcheck.verify(np.sin, x0, vjp=lambda x, ct: ct * np.cos(x), execution=execution)
    assert report.passed
    assert executor.calls == report.applies


# what happens to workers


LOSSES = [BrokenExecutor("a process was killed"), None, MemoryError("no room"), OSError("pipe")]


@pytest.mark.parametrize("error", LOSSES, ids=["broken", "cancelled", "memory", "pipe"])
@pytest.mark.parametrize("at", [1, 2, 7, 10, 11, 13, 18, 25, 26])
def test_a_lost_chunk_is_never_a_pass(at, error, single):
    execution = Execution(executor=Failing(at, error))
    report = fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct * np.cos(x), execution=execution)
    assert report.verdict is Verdict.INCONCLUSIVE
    first = report.findings[0]
    assert (first.endpoint, first.status) == ("apply", Status.UNDECIDED)
    assert "worker" in first.message
    wrong = fdcheck.verify(np.sin, X0, vjp=lambda x, ct: -ct, execution=Execution(executor=Failing(at, error)))
    assert wrong.verdict is not Verdict.PASS


def test_the_last_chunk_of_26_is_the_last_one(single):
    executor = Failing(0, None)
    assert fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct * np.cos(x), execution=Execution(executor=executor))
    assert executor.calls == 26


def test_what_was_measured_before_a_loss_is_kept(single):
    execution = Execution(executor=Failing(16, BrokenExecutor("gone")))
    report = fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct * np.cos(x), execution=execution)
    assert report.pairs[0].counts["agrees"] == 4
    assert "gone" in report.findings[0].message


def test_a_process_that_is_killed_is_lost_and_the_next_check_says_so(functions):
    with new_processes() as pool:
        execution = Execution(executor=pool)
        report = fdcheck.verify(functions.far_kills, X0, vjp=functions.cosines, execution=execution)
        assert report.verdict is Verdict.INCONCLUSIVE
        assert "a worker was lost (BrokenProcessPool" in report.findings[0].message
        again = fdcheck.verify(functions.sines, X0, vjp=functions.cosines, execution=execution)
        assert again.verdict is Verdict.INCONCLUSIVE
        assert "a worker was lost" in again.findings[0].message


def test_what_cannot_be_sent_to_a_process_is_refused_by_name(processes, functions):
    scale = 2.0
    for closure in (lambda x: np.sin(x), lambda x: scale * np.sin(x)):
        with pytest.raises(
            InvalidInput, match=r"^execution: executor: apply cannot be sent to its workers \("
        ) as caught:
            fdcheck.verify(closure, X0, vjp=functions.cosines, execution=Execution(executor=processes))
        assert "top level of a module" in str(caught.value)
        assert "threads" in str(caught.value)


def test_an_input_that_cannot_be_sent_is_refused(processes, functions):
    x0 = {"x": X0, "lock": threading.Lock()}
    with pytest.raises(InvalidInput, match=r"^execution: executor: apply cannot be sent to its workers \(TypeError"):
        fdcheck.verify(functions.sines, x0, vjp=functions.cosines, execution=Execution(executor=processes))


def test_a_result_that_cannot_be_sent_back_is_refused(processes, functions):
    with pytest.raises(InvalidInput, match=r"^execution: executor: what apply returns cannot be sent back"):
        fdcheck.verify(functions.unsendable, X0, vjp=functions.cosines, execution=Execution(executor=processes))


def test_an_executor_that_was_shut_down_is_refused():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(InvalidInput, match=r"^execution: executor: it takes no work: RuntimeError: cannot schedule"):
        fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct, execution=Execution(executor=pool))


def test_an_interrupted_check_leaves_no_work_behind(single):
    started = []

    def slow(x):
        started.append(x)
        time.sleep(0.01)
        return np.sin(x)

    def stop(step):
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        fdcheck.verify(slow, X0, vjp=lambda x, ct: ct, progress=stop, execution=Execution(executor=pool))
    assert len(started) <= 4  # x0, the first point, and what was under way


# calls that hang


@pytest.fixture
def gate():
    """An event that hanging functions wait for; set at the end, so that no thread stays behind."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("wrong", [1.0, -1.0])
@pytest.mark.parametrize("own_pool", [True, False])
def test_a_call_that_hangs_ends_the_check_without_a_pass(gate, own_pool, wrong, monkeypatch):
    monkeypatch.setattr(workers, "_START", 0.0)

    def hangs(x):
        if x[2] > 0.3 + 1e-8:
            gate.wait(60)
        return np.sin(x)

    with ThreadPoolExecutor(2) as pool:
        execution = Execution(executor=pool if own_pool else None, timeout=0.2)
        report = fdcheck.verify(hangs, X0, vjp=lambda x, ct: wrong * ct * np.cos(x), execution=execution)
        gate.set()
    assert report.verdict is Verdict.INCONCLUSIVE
    assert (report.findings[0].endpoint, report.findings[0].status) == ("apply", Status.UNDECIDED)
    assert "longer than the timeout of 0.2 s" in report.findings[0].message


def test_a_call_that_hangs_at_x0_leaves_nothing_measured(gate):
    execution = Execution(timeout=0.1)
    report = fdcheck.verify(lambda x: gate.wait(60), X0, vjp=lambda x, ct: ct, execution=execution)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.notes == ("nothing was measured",)
    assert "timeout of 0.1 s" in report.findings[0].message
    gate.clear()
    with pytest.raises(InvalidInput, match=r"timeout of 0\.1 s"):
        fdcheck.differentiate(lambda x: gate.wait(60), X0, execution=execution)


def test_a_call_that_is_too_slow_but_comes_back_ends_the_check_too(monkeypatch):
    def slow(x):
        time.sleep(0.15 if x[2] > 0.3 + 1e-8 else 0.0)
        return np.sin(x)

    execution = Execution(timeout=0.1)
    report = fdcheck.verify(slow, X0, vjp=lambda x, ct: ct * np.cos(x), execution=execution)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "timeout of 0.1 s" in report.findings[0].message


def test_a_timeout_that_is_kept_changes_nothing():
    with_it = fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct * np.cos(x), execution=Execution(timeout=60))
    assert with_it.to_dict() == fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct * np.cos(x)).to_dict()


def test_with_workers_the_time_limit_waits_for_no_call_under_way(gate):
    def slow(x):
        if len(calls) > 3:
            gate.wait(60)
        calls.append(1)
        return np.sin(x)

    calls = []
    with ThreadPoolExecutor(1) as pool:
        execution = Execution(executor=pool, time_limit=0.3)
        report = fdcheck.verify(slow, X0, vjp=lambda x, ct: ct * np.cos(x), execution=execution)
        gate.set()
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("time_limit" in note for note in report.notes)


def test_the_time_may_be_up_while_apply_is_at_x0(gate):
    execution = Execution(timeout=50, time_limit=0.1)
    report = fdcheck.verify(lambda x: gate.wait(60), X0, vjp=lambda x, ct: ct, execution=execution)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "time_limit" in report.findings[0].message


def test_estimates_and_advice_say_that_they_were_cut_short(single):
    for function in (fdcheck.differentiate, fdcheck.recommend_eps):
        found = function(np.sin, X0, execution=Execution(executor=Failing(20, BrokenExecutor("gone"))))
        assert any("a worker was lost" in note for note in found.notes)
