"""Structures to flat real coordinates and back, with readable paths."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.problem.naming import path_text
from fdcheck.results import InvalidInput

_NAMESPACE = "fdcheck"  # dataclasses are registered with optree here, where nobody else sees it


@dataclass(frozen=True)
class Leaf:
    """One differentiable leaf of a structure.

    Parameters
    ----------
    path : str
        Readable path, such as ``params['w'][0]``.
    position : int
        Place among all leaves of the structure.
    shape : tuple of int
        Shape of the leaf; ``()`` for a scalar.
    dtype : numpy.dtype
        Floating or complex dtype.
    box : type
        What the user's scalar was (``float``, ``complex``, a NumPy scalar type) or ``ndarray``.
    start : int
        First of its real coordinates.
    chosen : ndarray of int or None
        Which of the array's real numbers, in C order, are its coordinates; None for all of them.
    """

    path: str
    position: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    box: type
    start: int
    chosen: NDArray[np.int64] | None = dataclasses.field(default=None, compare=False, repr=False)

    @cached_property
    def parts(self) -> int:
        """Real coordinates per element: 2 for a complex leaf."""
        return 2 if self.dtype.kind == "c" else 1

    @cached_property
    def whole_size(self) -> int:
        """Number of real numbers in the array."""
        return self.parts * math.prod(self.shape)

    @cached_property
    def size(self) -> int:
        """Number of real coordinates."""
        return self.whole_size if self.chosen is None else len(self.chosen)

    @cached_property
    def real_shape(self) -> tuple[int, ...]:
        """Shape of its real coordinates: a complex leaf has its two parts on one more axis."""
        return (*self.shape, 2) if self.parts == 2 else self.shape

    @cached_property
    def stop(self) -> int:
        """One past the last of its real coordinates."""
        return self.start + self.size

    @cached_property
    def real_dtype(self) -> np.dtype[Any]:
        """Dtype of one real coordinate."""
        return np.empty(0, self.dtype).real.dtype

    def number(self, coordinate: int) -> int:
        """Return which of the array's real numbers a real coordinate of the structure is."""
        own = coordinate - self.start
        return own if self.chosen is None else int(self.chosen[own])

    def index(self, coordinate: int) -> tuple[int, ...]:
        """Return the element index of a real coordinate of the structure."""
        element = self.number(coordinate) // self.parts
        if len(self.shape) == 1:
            return (int(element),)
        return tuple(int(i) for i in np.unravel_index(element, self.shape)) if self.shape else ()

    def taken(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the real coordinates of an array of this leaf's shape, or of its real parts."""
        flat = real_view(array)
        return flat if self.chosen is None else flat[self.chosen]

    def filled(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return a new array of this leaf's shape that holds real coordinates, and zeros where none is chosen."""
        flat = np.zeros(self.whole_size, self.real_dtype) if self.chosen is not None else values.astype(self.real_dtype)
        if self.chosen is not None:
            flat[self.chosen] = values
        return (flat.view(self.dtype) if self.parts == 2 else flat).reshape(self.shape)

    def boxed(self, array: NDArray[Any]) -> Any:
        """Return ``array`` as the kind of object that the user passed."""
        if self.box is np.ndarray:
            return array
        return array.item() if self.box in (float, complex) else array[()]


@dataclass(frozen=True)
class Layout:
    """How a structure maps to a vector of real coordinates.

    Parameters
    ----------
    spec : optree.PyTreeSpec
        Structure without its leaves.
    leaves : tuple of Leaf
        Differentiable leaves in order.
    carried : tuple of str
        Paths of the other leaves, which are carried along and not differentiated.
    paths : tuple of str
        Paths of all leaves.
    resting : tuple of Leaf
        Differentiable leaves that were not selected: they keep their values, and their tangents and
        cotangents are zero.
    """

    spec: Any
    leaves: tuple[Leaf, ...]
    carried: tuple[str, ...]
    paths: tuple[str, ...]
    resting: tuple[Leaf, ...] = ()

    @cached_property
    def size(self) -> int:
        """Number of real coordinates."""
        return self.leaves[-1].stop if self.leaves else 0

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Dtype in which a vector of all coordinates loses nothing: float64 or longdouble."""
        wide = any(leaf.real_dtype.itemsize > 8 for leaf in self.leaves)
        return np.longdouble if wide else np.float64

    @property
    def whole_size(self) -> int:
        """Number of real coordinates with those of resting leaves."""
        return sum(leaf.whole_size for leaf in (*self.leaves, *self.resting))

    def among_all(self) -> NDArray[np.int64]:
        """Return where each real coordinate stands among those of all differentiable leaves."""
        everything = sorted((*self.leaves, *self.resting), key=lambda leaf: leaf.position)
        begin = dict(
            zip(
                [leaf.position for leaf in everything],
                np.cumsum([0, *(leaf.whole_size for leaf in everything)]),
                strict=False,
            )
        )
        parts = [
            begin[leaf.position] + (np.arange(leaf.size) if leaf.chosen is None else leaf.chosen)
            for leaf in self.leaves
        ]
        return np.concatenate(parts).astype(np.int64)

    def narrowed(self, coordinates: NDArray[np.int64]) -> Layout:
        """Return the layout of some of the real coordinates, ascending; the others keep their values.

        Leaves without any of them rest.
        """
        leaves: list[Leaf] = []
        resting = list(self.resting)
        cuts = np.searchsorted(coordinates, [leaf.start for leaf in self.leaves] + [self.size])
        for leaf, first, last in zip(self.leaves, cuts[:-1], cuts[1:], strict=True):
            own = coordinates[first:last] - leaf.start
            if leaf.chosen is not None:
                own = leaf.chosen[own]
            if len(own):
                chosen = None if len(own) == leaf.whole_size else own
                leaves.append(dataclasses.replace(leaf, start=leaves[-1].stop if leaves else 0, chosen=chosen))
            else:
                resting.append(leaf)
        return dataclasses.replace(self, leaves=tuple(leaves), resting=tuple(resting))

    def leaf_at(self, coordinate: int) -> Leaf:
        """Return the leaf that a real coordinate lies in."""
        starts = [leaf.start for leaf in self.leaves]
        k = bisect.bisect_right(starts, coordinate) - 1
        return self.leaves[k]

    def element(self, coordinate: int) -> str:
        """Return the element that a real coordinate lies in as text, such as ``w[0, 1]``."""
        leaf = self.leaf_at(coordinate)
        return f"{leaf.path}{list(leaf.index(coordinate)) or ''}"

    def per_coordinate(self, values: Iterable[float]) -> NDArray[np.float64]:
        """Return one value per real coordinate from one value per leaf."""
        sizes = [leaf.size for leaf in self.leaves]
        return np.repeat(np.array(list(values), dtype=np.float64), sizes)


def matched_leaves(tree: Any, layout: Layout) -> list[Any] | None:
    """Return the leaves of a structure in the order of ``layout``, or None if it is another structure.

    A part that is None gives None for each of its leaves; nothing else is broadcast.
    """
    try:
        return list(layout.spec.flatten_up_to(tree))
    except (ValueError, TypeError):
        pass
    try:
        whole = optree.tree_unflatten(layout.spec, range(len(layout.paths)))
        spread = optree.broadcast_prefix(tree, whole, none_is_leaf=True, namespace=_NAMESPACE)
    except Exception:  # optree has several errors for structures that do not fit
        return None
    given, _ = flatten(tree)
    several = sum(leaf is not None for leaf in spread) != sum(leaf is not None for leaf in given)
    return None if several else list(spread)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of ``tree`` and its structure; ``None`` is a leaf and dataclasses are nodes."""
    leaves, spec = optree.tree_flatten(tree, none_is_leaf=True, namespace=_NAMESPACE)
    unknown = [kind for kind in set(map(type, leaves)) if dataclasses.is_dataclass(kind)]
    if not unknown:
        return leaves, spec
    for cls in unknown:
        _register_dataclass(cls)
    return flatten(tree)


def structure(tree: Any, name: str) -> tuple[list[Any], Layout]:
    """Return the leaves of a structure and its layout.

    Parameters
    ----------
    tree : object
        Nested dicts, lists, tuples, namedtuples and dataclasses of arrays and scalars.
    name : str
        What to call a structure that is a single leaf: ``x`` or ``y``.

    Returns
    -------
    leaves : list
        Differentiable leaves as arrays, others as they are.
    layout : Layout
        Where each differentiable leaf lies in the vector of real coordinates.

    Raises
    ------
    InvalidInput
        If the structure is nested so deeply that it cannot be walked.
    """
    try:
        leaves, spec = flatten(tree)
    except RecursionError as error:
        what = {"x": "x0", "y": "apply: the output"}.get(name, name)
        raise InvalidInput(f"{what}: nested too deeply, more than about 1000 levels; flatten it") from error
    accessors = spec.accessors()
    paths = tuple(path_text(accessor, name, bare=True) for accessor in accessors)
    if len(set(paths)) < len(paths):  # {'x': [1.0], 0: 2.0} has two leaves that would both be x[0]
        paths = tuple(path_text(accessor, name, bare=False) for accessor in accessors)
    found: list[Leaf] = []
    start = 0
    for position, (path, value) in enumerate(zip(paths, leaves, strict=True)):
        if not is_differentiable(value):
            continue
        box = np.ndarray if isinstance(value, np.ndarray) else type(value)
        array = np.asarray(value)
        leaves[position] = array
        leaf = Leaf(path, position, array.shape, array.dtype, box, start)
        start = leaf.stop
        found.append(leaf)
    inner = {leaf.position for leaf in found}
    carried = tuple(path for k, path in enumerate(paths) if k not in inner)
    return leaves, Layout(spec, tuple(found), carried, paths)


def is_differentiable(value: Any) -> bool:
    """Return whether a leaf holds floating or complex numbers."""
    if isinstance(value, bool | int | str | bytes | type(None)):
        return False
    if isinstance(value, float | complex):
        return True
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind in "fc"


def coordinates(leaves: Sequence[Any], layout: Layout) -> NDArray[Any]:
    """Return all real coordinates of a structure's leaves in one vector.

    Parameters
    ----------
    leaves : sequence
        Leaves in the order of ``layout``.
    layout : Layout
        Layout of the structure.

    Returns
    -------
    ndarray, shape (layout.size,)
        float64, or longdouble where a leaf is.
    """
    vector = np.empty(layout.size, layout.dtype)
    for leaf in layout.leaves:
        vector[leaf.start : leaf.stop] = leaf.taken(np.asarray(leaves[leaf.position]))
    return vector


def real_view(array: NDArray[Any]) -> NDArray[Any]:
    """Return the elements in C order as real numbers, real and imaginary parts side by side."""
    flat = array.ravel()
    return flat if flat.dtype.kind == "f" else flat.view(flat.real.dtype)


def from_coordinates(vector: NDArray[Any], layout: Layout) -> Any:
    """Return a structure whose leaves hold ``vector``, zeros where they rest, None where they are carried.

    Parameters
    ----------
    vector : ndarray, shape (layout.size,)
        Real coordinates, as of a tangent or a cotangent.
    layout : Layout
        Layout of the structure.
    """
    leaves: list[Any] = [None] * len(layout.paths)
    for leaf in layout.resting:
        leaves[leaf.position] = leaf.boxed(np.zeros(leaf.shape, leaf.dtype))
    for leaf in layout.leaves:
        leaves[leaf.position] = leaf.boxed(leaf.filled(vector[leaf.start : leaf.stop]))
    return optree.tree_unflatten(layout.spec, leaves)


def _register_dataclass(cls: type) -> None:
    """Make a dataclass a node; fields that its constructor does not take are computed by it again."""
    names = tuple(f.name for f in dataclasses.fields(cls) if f.init)

    def to_children(value: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(value, n) for n in names), None, names

    def from_children(_: Any, children: Iterable[Any]) -> Any:
        values = dict(zip(names, children, strict=True))
        if all(value is not None for value in values.values()):
            return cls(**values)
        try:
            return cls(**values)
        except Exception:  # a constructor that refuses the None of a leaf without a derivative
            part: Any = object.__new__(cls)
            for name, value in values.items():
                object.__setattr__(part, name, value)
            return part

    optree.register_pytree_node(
        cls, to_children, from_children, path_entry_type=optree.GetAttrEntry, namespace=_NAMESPACE
    )


def shapes_text(layout: Layout, leading: tuple[int, ...] = ()) -> str:
    """Return the shapes of a structure's leaves in one line, for messages."""
    shown = [f"{leaf.path} {(*leading, *leaf.shape)}" for leaf in itertools.islice(layout.leaves, 4)]
    more = len(layout.leaves) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
