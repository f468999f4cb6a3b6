"""Claims that are right and stand in the wrong place: transposed, swapped, shifted, reversed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.patterns import Pattern, Table, counted, elements_hit, hits, is_explained
from fdcheck.problem.trees import Leaf

_SHIFTS = (1, -1, 2, -2)
"""Places by which an index is off: by one as a rule, by two where a stencil has a halo on both sides."""

_FAMILY = 40
"""Arrangements that are tried of one leaf, about: what one of them explains has to stand out of as many."""


@dataclass(frozen=True)
class _Order:
    """Which column of the claims holds what belongs in each column, -1 where none does; and words for it."""

    kind: str
    text: str
    repair: str
    source: NDArray[np.int64]


def transposed(table: Table) -> Pattern | None:
    """Return whether the claim is the transpose of the derivative."""
    m, n = table.claims.shape
    if m != n or m == 1:
        return None
    parts = {leaf.parts for leaf in (*table.outputs, *table.inputs)}
    turns = [("transpose", "return the transpose", table.claims.T)]
    if parts == {2}:  # each complex element keeps its two parts in place
        elements = table.claims.reshape(m // 2, 2, m // 2, 2).transpose(2, 1, 0, 3).reshape(m, m)
        turns = [
            ("transpose", "return the transpose", elements),
            ("conjugate transpose", "return the conjugate transpose", table.claims.T),
        ]
    for kind, repair, values in turns:
        if is_explained(table, values, tried=len(turns)):
            text = f"the claim is the {kind} of the derivative{{in}}: turned back, all {{n}} failing entries agree."
            return Pattern(kind, text, table.failing, repair, values)
    return None


def rearranged(table: Table) -> Pattern | None:
    """Return in which other order the columns or the rows stand."""
    return _in_columns(table, "column") or _turned(_in_columns(table.turned(), "row"))


def _turned(pattern: Pattern | None) -> Pattern | None:
    if pattern is None or pattern.repaired is None:
        return pattern
    return Pattern(pattern.kind, pattern.text, pattern.explained.T, pattern.repair, pattern.repaired.T)


def _in_columns(table: Table, word: str) -> Pattern | None:
    """Return the first order of the columns that makes the claims agree."""
    orders = list(_orders(table, hits(table.failing, 0), word))
    for order in orders:
        source = order.source
        repaired = np.where(source >= 0, table.claims[:, source], np.nan)
        if not is_explained(table, repaired, tried=_FAMILY):
            continue
        explained = table.failing & (source >= 0)
        held = "" if explained.sum() == table.failing.sum() else " that the claim still holds"
        same = [other for other in orders if np.array_equal(other.source, source)]
        readings = {other.kind: f", or {other.text}" for other in same if other.kind != order.kind}
        text = f"{order.text}{''.join(readings.values())}: put back, all {{n}} failing entries{{in}}{held} agree."
        return Pattern(order.kind, text, table.failing, order.repair, repaired, int(explained.sum()))
    return None


def _orders(table: Table, hit: NDArray[np.bool_], word: str) -> Iterator[_Order]:
    """Yield orders of the columns that could explain failures in the columns ``hit``, simpler ones first."""
    leaves = table.inputs
    failing = [leaf for leaf in leaves if hit[leaf.start : leaf.stop].any()]
    side = "input" if word == "column" else "output"
    if len(failing) == 2 and failing[0].size == failing[1].size and failing[0].parts == failing[1].parts:
        a, b = failing
        source = np.arange(len(hit))
        source[a.start : a.stop], source[b.start : b.stop] = np.arange(b.start, b.stop), np.arange(a.start, a.stop)
        text = f"the parts of {a.path} and {b.path} are swapped"
        yield _Order(f"swapped {side}s", text, f"exchange the parts of {a.path} and {b.path}", source)
    if len(failing) > 1 and len(leaves) > 2 and len({(leaf.size, leaf.parts) for leaf in leaves}) == 1:
        yield from _leaf_shifts(leaves, side)
    if len(failing) == 1:
        leaf = failing[0]
        own = elements_hit(leaf, hit)
        for kind, text, repair, elements in _element_orders(leaf, own, word):
            yield _Order(kind, text, repair, _whole(leaf, elements, len(hit)))


def _whole(leaf: Leaf, elements: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return an order of all coordinates from one of a leaf's elements."""
    source = np.arange(size)
    flat = elements.ravel()
    own = leaf.start + leaf.parts * flat[:, None] + np.arange(leaf.parts)
    source[leaf.start : leaf.stop] = np.where(flat[:, None] >= 0, own, -1).ravel()
    return source


def _leaf_shifts(leaves: tuple[Leaf, ...], side: str) -> Iterator[_Order]:
    """Yield orders in which each leaf holds the part of its neighbour."""
    for shift in (1, -1):
        blocks = np.roll(np.arange(leaves[-1].stop).reshape(len(leaves), -1), -shift, axis=0)
        names = f"the part of {leaves[0].path} is in the place of {leaves[shift].path}, and so on round"
        yield _Order("shift", f"the {side}s are shifted: {names}", f"shift the {side}s back", blocks.ravel())


_Elements = tuple[str, str, str, NDArray[np.int64]]


def _element_orders(leaf: Leaf, own: NDArray[np.bool_], word: str) -> Iterator[_Elements]:
    """Yield (kind, text, repair, source of each element) for one leaf in whose elements ``own`` something fails."""
    number = np.arange(own.size).reshape(own.shape)
    yield from _axes(leaf, number)
    yield from _swaps(leaf, own, number, word)
    axes = [axis for axis in range(own.ndim) if own.shape[axis] > 1]
    for axis in axes:
        along = f" along axis {axis}" if own.ndim > 1 else ""
        for wrapped in (True, False):
            for shift in _SHIFTS:
                if abs(shift) < own.shape[axis]:
                    yield _shifted(leaf, number, axis, shift, wrapped, f"{along} of {leaf.path}", word)
        text = f"the {word}s of {leaf.path} are in reversed order{along}"
        yield "reversed", text, f"reverse the {word}s{along}", np.flip(number, axis)
    if len(axes) > 1:
        flat = number.reshape(-1)
        for shift in (1, -1):
            kind, text, repair, source = _shifted(leaf, flat, 0, shift, False, f" of {leaf.path}, counted flat", word)
            yield kind, text, repair, source.reshape(own.shape)
        text = f"the {word}s of {leaf.path} are in reversed order"
        yield "reversed", text, f"reverse the {word}s", flat[::-1].reshape(own.shape)
    for axis in axes:
        yield from _gaps(leaf, own, number, axis, word)


def _axes(leaf: Leaf, number: NDArray[np.int64]) -> Iterator[_Elements]:
    """Yield orders of a leaf with axes exchanged, and of one laid out in Fortran's order."""
    shape = number.shape
    for a, b in itertools.combinations(range(number.ndim), 2):
        if shape[a] == shape[b] > 1:
            what = "" if number.ndim == 2 else f" (axes {a} and {b})"
            text = f"{leaf.path} is transposed{what}, each row holding a column"
            yield "transpose", text, f"transpose the part of {leaf.path}{what}", np.swapaxes(number, a, b)
    if sum(length > 1 for length in shape) > 1:
        column_major = number.ravel(order="F").argsort().reshape(shape)
        repair = f"lay out the part of {leaf.path} in C order"
        text = f"the elements of {leaf.path} stand in Fortran's order (column by column), a transpose read flat"
        yield "transpose", text, repair, column_major
        yield "transpose", text, repair, number.ravel(order="F").reshape(shape)


def _swaps(leaf: Leaf, own: NDArray[np.bool_], number: NDArray[np.int64], word: str) -> Iterator[_Elements]:
    """Yield the exchange of the two elements, or slices along an axis, in which all failures lie."""
    places = np.flatnonzero(own)
    if len(places) == 2:
        source = number.ravel().copy()
        source[places] = source[places[::-1]]
        names = [leaf.path + f"[{', '.join(map(str, np.unravel_index(p, own.shape)))}]" for p in places]
        text = f"{counted(word, names)} are swapped"
        yield f"swapped {word}s", text, f"exchange {counted(word, names)}", source.reshape(own.shape)
    for axis in range(own.ndim if own.ndim > 1 else 0):
        hit = np.flatnonzero(hits(own, *(k for k in range(own.ndim) if k != axis)))
        if len(hit) == 2:
            index = np.arange(own.shape[axis])
            index[hit] = index[hit[::-1]]
            before, after = ":, " * axis, ", :" * (own.ndim - axis - 1)
            names = [f"{leaf.path}[{before}{p}{after}]" for p in hit]
            text = f"{counted(word, names)} are swapped"
            yield f"swapped {word}s", text, f"exchange {names[0]} and {names[1]}", np.take(number, index, axis)


def _shifted(
    leaf: Leaf, number: NDArray[np.int64], axis: int, shift: int, wrapped: bool, along: str, word: str
) -> _Elements:
    """Return the order that undoes a shift; what was shifted in from the edge is left open."""
    source = np.roll(number, -shift, axis)
    if not wrapped:
        length = number.shape[axis]
        lost = np.arange(length) + shift
        edge = ((lost < 0) | (lost >= length)).reshape([-1 if k == axis else 1 for k in range(number.ndim)])
        source = np.where(edge, -1, source)
    ends = ", wrapping round the end" if wrapped else ", the " + ("last" if shift > 0 else "first")
    if not wrapped:
        ends += " is missing" if abs(shift) == 1 else f" {abs(shift)} are missing"
    places = f"{abs(shift)} place{'s' if abs(shift) > 1 else ''} {'up' if shift > 0 else 'down'}"
    text = f"the {word}s{along} are shifted {places} (index off by {shift:+d}){ends}"
    return "shift", text, f"shift the {word}s back by {abs(shift)}" if wrapped else "", source


def _gaps(leaf: Leaf, own: NDArray[np.bool_], number: NDArray[np.int64], axis: int, word: str) -> Iterator[_Elements]:
    """Yield orders in which one index was left out, or stands twice, and the rest moved up or down."""
    hit = np.flatnonzero(hits(own, *(k for k in range(own.ndim) if k != axis)))
    length = own.shape[axis]
    if len(hit) < 2 or hit[-1] == hit[0]:
        return
    first, last = int(hit[0]), int(hit[-1])
    for what, lost, moved, step in (
        ("missing", first, range(first + 1, length), -1),
        ("doubled", last, range(first, last), 1),
    ):
        index = np.arange(length)
        index[lost] = -1
        for k in moved:
            index[k] = k + step
        source = np.where(index.reshape([-1 if k == axis else 1 for k in range(own.ndim)]) < 0, -1, 0)
        source = np.where(source < 0, -1, np.take(number, np.maximum(index, 0), axis))
        before, after = ":, " * axis, ", :" * (own.ndim - axis - 1)
        name = f"{leaf.path}[{before}{lost if what == 'missing' else first}{after}]"
        if what == "missing":
            yield f"missing {word}", f"{word} {name} is missing and those after it have moved up by one", "", source
        else:
            text = f"a {word} too many stands at {name} and those after it have moved down by one"
            yield f"extra {word}", text, "", source
