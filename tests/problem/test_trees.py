"""Structures to flat vectors and back, paths and the choice of leaves, against a walk of our own."""

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdcheck import InvalidInput
from fdcheck.problem import paths, trees

FLOATS = (np.float16, np.float32, np.float64, np.longdouble)
COMPLEX = (np.complex64, np.complex128, np.clongdouble)
few = settings(max_examples=60, deadline=None, database=None)


class Layer(NamedTuple):
    weight: Any
    bias: Any


@dataclasses.dataclass
class Model:
    encoder: Any
    decoder: Any = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Derived:
    value: Any
    twice: Any = dataclasses.field(init=False, default=None)


def walk(tree, path=""):
    """Yield (path, leaf) of a structure, written without optree: the reference of these tests."""
    if isinstance(tree, dict):
        order = tree if isinstance(tree, collections.OrderedDict) else sorted(tree)
        for key in order:
            bare = not path and isinstance(key, str) and key.isidentifier()
            yield from walk(tree[key], key if bare else f"{path or 'x'}[{key!r}]")
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for name in tree._fields:
            yield from walk(getattr(tree, name), f"{path}.{name}" if path else name)
    elif dataclasses.is_dataclass(tree):
        for f in dataclasses.fields(tree):
            if f.init:
                yield from walk(getattr(tree, f.name), f"{path}.{f.name}" if path else f.name)
    elif isinstance(tree, list | tuple):
        for k, part in enumerate(tree):
            yield from walk(part, f"{path or 'x'}[{k}]")
    else:
        yield path or "x", tree


def is_floating(leaf):
    if isinstance(leaf, np.ndarray | np.generic):
        return leaf.dtype.kind in "fc"
    return type(leaf) in (float, complex)


def identical(a, b):
    """Same type, dtype, shape and value, signs of zero and NaN included."""
    if type(a) is not type(b):
        return False
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return all(
        np.array_equal(p, q, equal_nan=True) and np.array_equal(np.signbit(p), np.signbit(q))
        for p, q in ((a.real, b.real), (a.imag, b.imag))
    )


@st.composite
def floating_arrays(draw):
    dtype = draw(st.sampled_from(FLOATS + COMPLEX))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    array = random.standard_normal(shape).astype(dtype) / dtype(3)
    if dtype in COMPLEX:
        array = array + 1j * random.standard_normal(shape).astype(dtype)
    if array.size and draw(st.booleans()):
        array.flat[0] = draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))
    return np.asarray(array, order=draw(st.sampled_from("CF")), dtype=dtype)


floating = st.one_of(
    floating_arrays(),
    st.floats(),
    st.complex_numbers(),
    st.floats(width=32).map(np.float32),
    st.floats().map(np.float64),
    st.complex_numbers().map(np.complex128),
    st.floats().map(np.array),
)
others = st.sampled_from(
    [None, 3, True, "name", np.arange(3), np.array([True, False]), np.int8(2), np.zeros((0, 2), int)]
)
keys = st.sampled_from(["a", "w", "my key", "7", "class'", "b"])
structures = st.recursive(
    floating | others,
    lambda inner: st.one_of(
        st.dictionaries(keys, inner, max_size=3),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.builds(Layer, inner, inner),
        st.builds(Model, inner, inner),
        st.builds(lambda v: Derived(value=v), inner),
        st.lists(st.tuples(keys, inner), max_size=3).map(collections.OrderedDict),
    ),
    max_leaves=8,
)


@few
@given(structures)
def test_flatten_coordinates_and_back_restores_every_floating_leaf(tree):
    leaves, layout = trees.structure(tree, "x")
    back = trees.from_coordinates(trees.coordinates(leaves, layout), layout)
    before, after = list(walk(tree)), list(walk(back))
    assert [path for path, _ in after] == [path for path, _ in before]
    for (_, old), (_, new) in zip(before, after, strict=True):
        if is_floating(old):
            assert identical(old, new)
        else:
            assert new is None


@few
@given(structures)
def test_paths_sizes_and_carried_leaves_are_those_of_a_plain_walk(tree):
    leaves, layout = trees.structure(tree, "x")
    expected = list(walk(tree))
    assert layout.paths == tuple(path for path, _ in expected)
    assert layout.carried == tuple(path for path, leaf in expected if not is_floating(leaf))
    assert [leaf.path for leaf in layout.leaves] == [path for path, leaf in expected if is_floating(leaf)]
    sizes = [np.size(leaf) * (2 if np.iscomplexobj(leaf) else 1) for _, leaf in expected if is_floating(leaf)]
    assert [leaf.size for leaf in layout.leaves] == sizes
    assert layout.size == sum(sizes)
    for (_, leaf), kept in zip(expected, leaves, strict=True):
        if not is_floating(leaf):
            assert kept is leaf


@few
@given(structures)
def test_each_coordinate_is_one_real_number_of_one_element(tree):
    _, layout = trees.structure(tree, "x")
    for k in range(layout.size):
        one_hot = np.zeros(layout.size, layout.dtype)
        one_hot[k] = 1
        moved = [(path, v) for path, v in walk(trees.from_coordinates(one_hot, layout)) if v is not None]
        nonzero = [(path, v) for path, v in moved if np.any(v)]
        assert len(nonzero) == 1
        path, value = nonzero[0]
        leaf = layout.leaf_at(k)
        assert leaf.path == path
        assert leaf.start <= k < leaf.stop
        expected = np.zeros(leaf.shape, leaf.dtype)
        expected[leaf.index(k)] = 1j if leaf.parts == 2 and (k - leaf.start) % 2 else 1
        np.testing.assert_array_equal(value, expected)


def test_coordinates_run_in_c_order_with_real_and_imaginary_parts_side_by_side():
    tree = {"b": np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]), "a": np.array([5 + 6j, 7 - 8j]), "c": 9.0}
    leaves, layout = trees.structure(tree, "x")
    np.testing.assert_array_equal(trees.coordinates(leaves, layout), [5, 6, 7, -8, 1, 2, 3, 4, 9])


def test_coordinates_are_a_copy():
    x = np.array([1.0, 2.0])
    leaves, layout = trees.structure(x, "x")
    vector = trees.coordinates(leaves, layout)
    vector[:] = 0
    trees.from_coordinates(vector, layout)[:] = 5
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_array_equal(vector, [0.0, 0.0])


@pytest.mark.parametrize(("dtype", "wide"), [(np.float16, np.float64), (np.complex128, np.float64)])
def test_vector_dtype_is_float64_unless_a_leaf_is_longdouble(dtype, wide):
    _, layout = trees.structure([np.ones(2, dtype)], "x")
    assert layout.dtype is wide
    _, layout = trees.structure([np.ones(2, dtype), np.ones(1, np.longdouble)], "x")
    assert layout.dtype is np.longdouble


def test_longdouble_digits_survive():
    third = np.longdouble(1) / 3
    leaves, layout = trees.structure({"a": np.array([third]), "b": 0.5}, "x")
    back = trees.from_coordinates(trees.coordinates(leaves, layout), layout)
    assert back["a"].dtype == np.longdouble
    assert back["a"][0] == third
    assert type(back["b"]) is float


@pytest.mark.parametrize(
    ("tree", "paths"),
    [
        (1.0, ("x",)),
        (np.ones(2), ("x",)),
        ([1.0, [2.0]], ("x[0]", "x[1][0]")),
        ((1.0,), ("x[0]",)),
        ({"params": {"w": [1.0, 2.0]}}, ("params['w'][0]", "params['w'][1]")),
        ({"b": 1.0, "a": 2.0}, ("a", "b")),
        (collections.OrderedDict(b=1.0, a=2.0), ("b", "a")),
        ({"my key": 1.0, "ok": {"a b": 2.0}}, ("x['my key']", "ok['a b']")),
        ({3: 1.0, 5: [2.0]}, ("x[3]", "x[5][0]")),
        (Layer(1.0, {"k": 2.0}), ("weight", "bias['k']")),
        (Model(Layer(1.0, 2.0), [3.0]), ("encoder.weight", "encoder.bias", "decoder[0]")),
        ([Layer(1.0, None)], ("x[0].weight", "x[0].bias")),
        ({"net": Model(1.0, 2)}, ("net.encoder", "net.decoder")),
        (Derived(value=1.0), ("value",)),
        ({"a": {}, "b": 1.0}, ("b",)),
        ([], ()),
    ],
)
def test_path_texts(tree, paths):
    assert trees.structure(tree, "x")[1].paths == paths


def test_root_and_index_take_the_name_given():
    assert trees.structure(1.0, "y")[1].paths == ("y",)
    assert trees.structure([1.0], "y")[1].paths == ("y[0]",)


def test_paths_are_unique():
    paths = trees.structure({"x": [1.0], 0: 2.0}, "x")[1].paths
    assert len(set(paths)) == 2


@pytest.mark.parametrize("value", [1, True, None, "s", b"s", np.arange(2), np.array(["a"]), np.bool_(True), object()])
def test_what_is_not_differentiable(value):
    assert not trees.is_differentiable(value)
    leaves, layout = trees.structure({"a": value, "b": 1.0}, "x")
    assert layout.carried == ("a",)
    assert leaves[0] is value


@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_what_is_differentiable(dtype):
    assert trees.is_differentiable(np.ones(2, dtype))
    assert trees.is_differentiable(dtype(1))
    assert trees.is_differentiable(np.zeros((0, 3), dtype))


def test_scalars_come_back_as_what_they_were():
    tree = [1.5, 2 + 1j, np.float32(3), np.array(4.0), np.longdouble(5)]
    leaves, layout = trees.structure(tree, "x")
    back = trees.from_coordinates(trees.coordinates(leaves, layout), layout)
    assert [type(v) for v in back] == [float, complex, np.float32, np.ndarray, np.longdouble]
    assert back == [1.5, 2 + 1j, 3, 4, 5]


SELECTABLE = {
    "params": {"w": [np.ones(2), np.ones((2, 2))], "w2": np.ones(3), "n": 3},
    "layer": Layer(np.ones(1), 1j),
    "layers": 4.0,
}
ALL = ["layer.weight", "layer.bias", "layers", "params['w'][0]", "params['w'][1]", "params['w2']"]


@pytest.mark.parametrize(
    ("patterns", "chosen"),
    [
        (None, ALL),
        (["*"], ALL),
        (["params['w'][1]"], ["params['w'][1]"]),
        (["params['w']"], ["params['w'][0]", "params['w'][1]"]),  # the path of a part, and not params['w2']
        (["params"], ["params['w'][0]", "params['w'][1]", "params['w2']"]),
        (["layer"], ["layer.weight", "layer.bias"]),  # and not layers
        (["layer.bias"], ["layer.bias"]),
        (["layer?"], ["layers"]),
        (["params['w'][?]"], ["params['w'][0]", "params['w'][1]"]),
        (["*[0]"], ["params['w'][0]"]),
        (["*.w*"], ["layer.weight"]),
        (["params['w2']", "layers"], ["layers", "params['w2']"]),  # in the structure's order
        (["layers", "layers", "la?ers"], ["layers"]),
    ],
)
def test_selection(patterns, chosen):
    _, whole = trees.structure(SELECTABLE, "x")
    layout = paths.select(whole, patterns, "input_paths")
    assert [leaf.path for leaf in layout.leaves] == chosen
    assert sorted(leaf.path for leaf in layout.resting) == sorted(set(ALL) - set(chosen))
    assert layout.whole_size == 1 + 2 + 1 + 2 + 4 + 3
    starts = np.cumsum([0, *(leaf.size for leaf in layout.leaves)])
    assert [leaf.start for leaf in layout.leaves] == list(starts[:-1])
    assert layout.size == starts[-1]
    numbered = dict(zip(ALL, np.split(np.arange(13), [1, 3, 4, 6, 10]), strict=True))
    np.testing.assert_array_equal(layout.among_all(), np.concatenate([numbered[path] for path in chosen]))


@pytest.mark.parametrize(
    "pattern", ["zzz", "param", "Params", "params['w'", "layer_bias", "w", "", "params.w", "layer.bias.x"]
)
def test_a_pattern_that_names_nothing_is_an_error_that_lists_what_there_is(pattern):
    _, layout = trees.structure(SELECTABLE, "x")
    with pytest.raises(InvalidInput) as caught:
        paths.select(layout, ["layers", pattern], "input_paths")
    message = str(caught.value)
    assert message.startswith("input_paths:")
    assert repr(pattern) in message
    assert all(path in message for path in ALL)


def test_a_path_of_an_integer_leaf_is_said_to_be_carried_along():
    _, layout = trees.structure(SELECTABLE, "x")
    with pytest.raises(InvalidInput, match=r"eps_for: .*params\['n'\] is carried along, not differentiated"):
        paths.matching(layout, "params['n']", "eps_for")


def test_letters_of_regular_expressions_and_brackets_stand_for_themselves():
    assert paths.path_matches("x['a+b']", "x['a+b']")
    assert not paths.path_matches("x['aab']", "x['a+b']")
    assert not paths.path_matches("layerXbias", "layer.bias")
    assert not paths.path_matches("a", "[abc]")
    assert paths.path_matches("x['two\nlines'][0]", "x['two*']")


def test_leaves_not_selected_rest_at_zero_and_keep_their_kind():
    leaves, whole = trees.structure({"a": np.ones((2, 1), np.float32), "b": 2.0, "c": "s", "d": np.complex64(1j)}, "x")
    layout = paths.select(whole, ["b"], "input_paths")
    np.testing.assert_array_equal(trees.coordinates(leaves, layout), [2.0])
    back = trees.from_coordinates(np.array([7.0]), layout)
    assert back["b"] == 7.0
    assert type(back["b"]) is float
    assert identical(back["a"], np.zeros((2, 1), np.float32))
    assert identical(back["d"], np.complex64(0))
    assert back["c"] is None


def test_dataclass_fields_that_the_constructor_does_not_take_are_computed_again():
    @dataclasses.dataclass
    class Doubled:
        value: np.ndarray
        double: np.ndarray = dataclasses.field(init=False)

        def __post_init__(self):
            self.double = 2 * self.value

    leaves, layout = trees.structure(Doubled(np.array([1.0, 2.0])), "x")
    assert layout.paths == ("value",)
    back = trees.from_coordinates(trees.coordinates(leaves, layout) + 1, layout)
    np.testing.assert_array_equal(back.double, [4.0, 6.0])


def test_per_coordinate_and_shapes_text():
    _, layout = trees.structure({"a": np.ones(2), "b": 1j}, "x")
    np.testing.assert_array_equal(layout.per_coordinate([3.0, 4.0]), [3, 3, 4, 4])
    assert trees.shapes_text(layout) == "a (2,), b ()"
    _, many = trees.structure([1.0] * 6, "x")
    assert trees.shapes_text(many).endswith(" and 2 more")
