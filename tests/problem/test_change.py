"""apply beside x0: points as leaves and as stacks, blocks of values, and all of it in another process."""

import collections
import dataclasses
import pickle

import numpy as np
import pytest

from fdcheck.problem import change as module
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.change import Along, Moved
from fdcheck.problem.stacks import StackedChange

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Strict:
    a: np.ndarray
    n: int = 2

    def __post_init__(self):
        if self.a is None:
            raise ValueError("strict without a")


STRUCTURES = {
    "array": np.array([0.5, 1.5, 2.5]),
    "scalar": 2.0,
    "float32 scalar": np.float32(2.0),
    "Fortran's order": np.asfortranarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "complex": np.array([[1 + 2j, 3.0], [4j, 5.0]], np.complex64),
    "longdouble": np.array([1, 2], np.longdouble),
    "nested": {"b": [np.array([1.0, 2.0]), 3.0], "a": (np.array([1j]), "word", None, 4)},
    "named": Pair(np.array([1.0]), collections.OrderedDict(z=np.array([2.0]), y=1.0)),
    "dataclass": {"s": Strict(np.array([1.0, 2.0])), "t": [Strict(np.array([3.0]), 5)]},
}


def identity(x):
    return x


def change_of(x0, apply=identity, **paths):
    problem = Problem(Function("apply", apply), x0, **paths)
    return problem._change


def points_of(change):
    n = change.inputs.size
    target = (change.x + np.linspace(0.25, 0.75, n)).astype(change.x.dtype)
    moved = Moved(np.arange(n)[::-1], target[::-1], (target - change.x).astype(np.float64)[::-1])
    return moved, Along(np.linspace(-1.0, 1.0, n), np.array([-0.5, 0.25, 2.0]))


@pytest.mark.parametrize("name", STRUCTURES)
def test_differences_of_the_identity_are_how_far_the_points_lie(name):
    change = change_of(STRUCTURES[name])
    moved, along = points_of(change)
    found = change.evaluate(moved)
    np.testing.assert_allclose(found.differences, np.diag(moved.moved[::-1])[::-1], rtol=1e-5)
    np.testing.assert_allclose(
        change.evaluate(along).differences, np.outer(along.multiples, along.direction), rtol=1e-5
    )
    assert (found.troubles, found.evaluated, found.broken_off) == ([], len(moved), "")


@pytest.mark.parametrize("name", STRUCTURES)
def test_what_is_sent_gives_the_same_differences(name):
    here = change_of(STRUCTURES[name])
    there = pickle.loads(pickle.dumps(here))
    for points in points_of(here):
        np.testing.assert_array_equal(there.evaluate(points).differences, here.evaluate(points).differences)


@pytest.mark.parametrize("name", STRUCTURES)
def test_stacks_hold_the_leaves_of_each_point(name):
    change = change_of(STRUCTURES[name])
    for points in points_of(change):
        stacks = points.stacks(change)
        for k, leaves in enumerate(points.leaves(change)):
            for leaf in change.inputs.leaves:
                np.testing.assert_array_equal(stacks[leaf.position][k], leaves[leaf.position])
                assert stacks[leaf.position].dtype == leaf.dtype


@pytest.mark.parametrize("name", ["Fortran's order", "complex", "nested"])
def test_some_of_the_coordinates_move_as_they_do_among_all(name):
    whole = Problem(Function("apply", identity), STRUCTURES[name])
    some = np.array([0, whole.inputs.size - 2])
    part = whole.narrowed(some)
    direction, multiples = np.zeros(whole.inputs.size), np.array([0.5, -0.25])
    direction[some] = 0.25, -0.5
    target, moved = whole.x[some] + 0.5, np.full(2, 0.5)
    for points, same in (
        (Moved(np.array([1, 0]), target[::-1], moved), Moved(some[::-1], target[::-1], moved)),
        (Along(direction[some], multiples), Along(direction, multiples)),
    ):
        expected = whole.differences(same)
        assert np.count_nonzero(expected) >= 2
        np.testing.assert_array_equal(part.differences(points), expected)


def test_parts_that_are_not_selected_are_sent_along():
    x0 = {"a": np.array([1.0, 2.0]), "b": 3.0, "c": [np.array([4.0])]}
    here = change_of(x0, input_paths=["c"], output_paths=["a", "c"])
    there = pickle.loads(pickle.dumps(here))
    assert there.inputs == here.inputs
    found = there.evaluate(Moved(np.array([0]), np.array([4.5]), np.array([0.5])))
    np.testing.assert_array_equal(found.differences, [[0, 0, 0.5]])


def test_stacks_that_are_sent_stay_as_large():
    plain = change_of(np.array([1.0, 2.0]))
    stacked = StackedChange(identity, plain.x0, plain.inputs, plain.outputs, plain.value, 1000)
    sent = pickle.loads(pickle.dumps(stacked))
    assert type(sent) is StackedChange
    assert sent._most == stacked._most < 30


@pytest.mark.parametrize("block", [1, 5, 7, 1000])
def test_no_point_is_lost_between_blocks(monkeypatch, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    seen = []

    def apply(x):
        seen.append(x.copy())
        return x

    change = change_of(np.arange(1.0, 6.0), apply)
    seen.clear()
    moved, _ = points_of(change)
    found = change.evaluate(moved)
    np.testing.assert_allclose(found.differences, np.diag(moved.moved[::-1])[::-1], rtol=1e-12)
    np.testing.assert_array_equal([x[j] for x, j in zip(seen, moved.columns, strict=True)], moved.target)


def test_a_function_that_returns_the_same_array_each_time_is_read_in_time():
    kept = np.empty(3)

    def reuses(x):
        np.multiply(x, 2.0, out=kept)
        return kept

    change = change_of(np.array([1.0, 2.0, 3.0]), reuses)
    found = change.evaluate(Moved(np.array([0, 1, 2]), np.array([1.5, 2.5, 3.5]), np.full(3, 0.5)))
    np.testing.assert_array_equal(found.differences, np.eye(3))


@pytest.mark.parametrize("block", [1, 4, 1000])
def test_enough_is_enough(monkeypatch, block):
    monkeypatch.setattr(module, "_BLOCK", block)
    told = []

    def tick(points):
        told.append(points)
        return len(told) < 3

    change = change_of(np.arange(1.0, 6.0))
    found = change.evaluate(points_of(change)[0], tick)
    assert len(found.differences) == found.evaluated == found.calls == 3
    assert told == [1, 1, 1]


def test_troubles_are_numbered_and_their_rows_are_nan():
    def apply(x):
        if x[1] > 2.0:
            raise ValueError("no")
        return x[:1] if x[2] > 3.0 else x

    change = change_of(np.array([1.0, 2.0, 3.0]), apply)
    found = change.evaluate(Moved(np.array([0, 1, 2]), np.array([1.5, 2.5, 3.5]), np.full(3, 0.5)))
    assert [(trouble.k, trouble.kind) for trouble in found.troubles] == [(1, "raised"), (2, "returned")]
    assert found.troubles[0].text.startswith("ValueError: no (")
    np.testing.assert_array_equal(np.isnan(found.differences).all(axis=1), [False, True, True])
    assert found.evaluated == 3
