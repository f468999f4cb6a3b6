"""Tesseract's paths: read and written, matched, expanded and looked up as Tesseract itself does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesseract_core.runtime.testing.finite_differences import expand_path_pattern
from tesseract_core.runtime.tree_transforms import get_at_path, set_at_path, split_path

from fdcheck.adapters import tesseract_paths as paths
from fdcheck.results import InvalidInput

TREE = {
    "a": {"b": np.array([1.0])},
    "l": [{"w": np.array([2.0])}, {"w": np.array([3.0, 4.0])}, {"w": None}],
    "d": {"p.q": np.array(5.0), "c{d}\\": np.array(6.0)},
}
PATTERNS = ("a.b", "l.[].w", "d.{}")


@pytest.mark.parametrize("path", ["a", "a.b", "l.[0].w", "l.[12]", "d.{k}", "d.{a.b}.x", r"d.{a\{b\}\\c}", "l.[].w.{}"])
def test_what_is_read_is_written_again(path):
    assert paths.written(paths.parsed(path, "p")) == path
    assert len(paths.parsed(path, "p")) == len(split_path(path))


@given(st.text(min_size=1))
def test_any_key_survives_and_is_escaped_as_tesseract_does(key):
    path = paths.written(("d", (key,)))
    assert paths.parsed(path, "p") == ("d", (key,))
    assert get_at_path({"d": {key: 7}}, path) == 7


@pytest.mark.parametrize("path", ["", ".", "a.", ".a", "a..b", "l.[x]", "l.[0]w", "d.{k", "d.k}", "a b]"])
def test_what_is_no_path_is_refused_with_an_example(path):
    with pytest.raises(InvalidInput, match=r"input_paths: expected a path such as a\.b, l\.\[0\]\.w or d\.\{key\}"):
        paths.parsed(path, "input_paths")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_expand_as_in_tesseract(pattern):
    ours = [paths.written(parts) for parts in paths.expanded(paths.parsed(pattern, "p"), TREE)]
    assert ours == expand_path_pattern(pattern, TREE)
    for path in ours:
        assert paths.value_at(TREE, paths.parsed(path, "p")) is get_at_path(TREE, path)


def test_patterns_and_containers_match_and_others_do_not():
    def is_match(path, pattern):
        return paths.matches(paths.parsed(path, "p"), paths.parsed(pattern, "p"))

    assert is_match("l.[3].w", "l.[].w")
    assert is_match("l.[3].w", "l.[3].w")
    assert is_match("l.[3].w", "l")
    assert is_match("d.{a.b}", "d.{}")
    assert not is_match("l.[3].w", "l.[2].w")
    assert not is_match("l.[3].w", "l.{}.w")
    assert not is_match("d.{a}", "d.a")
    assert not is_match("d", "d.{}")
    assert not is_match("[0]", "{}")


def test_values_are_replaced_in_a_copy_as_tesseract_does():
    new = {"l.[1].w": np.array([7.0, 8.0]), "d.{p.q}": np.array(9.0)}
    ours = paths.with_values(TREE, {paths.parsed(path, "p"): value for path, value in new.items()})
    expected = set_at_path(TREE, new)
    assert str(ours) == str(expected)
    ours["a"]["b"][0] = -1.0  # other arrays are copies as well
    assert TREE["a"]["b"][0] == 1.0
    assert TREE["l"][1]["w"][0] == 3.0


def test_keys_that_are_numbers_in_python_are_found_by_their_text():
    assert list(paths.expanded(("d", paths.ANY_KEY), {"d": {3: 1.0}})) == [("d", ("3",))]
    assert paths.value_at({"d": {3: 1.0}}, ("d", ("3",))) == 1.0
    assert paths.with_values({"d": {3: 1.0}}, {("d", ("3",)): 2.0}) == {"d": {3: 2.0}}
    assert paths.with_values({"u": [1.0, {"w": 2.0}]}, {("u", 1, "w"): 3.0}) == {"u": [1.0, {"w": 3.0}]}
    with pytest.raises(LookupError):
        paths.value_at({"d": {}}, ("d", ("3",)))
