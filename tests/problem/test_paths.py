"""Paths: patterns that name them, and keys that are too long or cannot be written."""

from fdcheck.problem import trees
from fdcheck.problem.paths import path_matches


def test_letters_of_regular_expressions_and_brackets_stand_for_themselves():
    assert path_matches("x['a+b']", "x['a+b']")
    assert not path_matches("x['aab']", "x['a+b']")
    assert not path_matches("layerXbias", "layer.bias")
    assert not path_matches("a", "[abc]")
    assert path_matches("x['two\nlines'][0]", "x['two*']")


def test_long_keys_are_cut_and_still_told_apart():
    long = "k" * 10_000
    _, layout = trees.structure({long + "a": 1.0, long + "b": 2.0, "c": {(long,): 3.0}}, "x")
    assert len(set(layout.paths)) == 3
    assert all(len(path) < 250 for path in layout.paths)
    for path in layout.paths:
        assert [leaf.path for leaf in trees.matching(layout, path, "input_paths")] == [path]


def test_keys_of_200_characters_are_written_in_full():
    _, layout = trees.structure({"k" * 200: 1.0}, "x")
    assert layout.paths == ("k" * 200,)
