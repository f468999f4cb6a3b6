"""Paths as text: keys that are too long."""

from fdcheck.problem import paths, trees


def test_long_keys_are_cut_and_still_told_apart():
    long = "k" * 10_000
    _, layout = trees.structure({long + "a": 1.0, long + "b": 2.0, "c": {(long,): 3.0}}, "x")
    assert len(set(layout.paths)) == 3
    assert all(len(path) < 250 for path in layout.paths)
    for path in layout.paths:
        assert [leaf.path for leaf in paths.matching(layout, path, "input_paths")] == [path]


def test_keys_of_200_characters_are_written_in_full():
    _, layout = trees.structure({"k" * 200: 1.0}, "x")
    assert layout.paths == ("k" * 200,)
