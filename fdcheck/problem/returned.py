"""What an endpoint is given and what it returned, held to its convention: structure, shape and dtype."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.callables import Breach
from fdcheck.problem.trees import Layout
from fdcheck.problem.wording import describe
from fdcheck.results import Status


def tangent(layout: Layout, vector: NDArray[Any]) -> tuple[list[Any], Any]:
    """Return a tangent or cotangent as leaves and structure, as a Function takes them."""
    return trees.flatten(trees.from_coordinates(vector, layout))[0], layout.spec


def returned(endpoint: str, result: Any, layout: Layout, like: str) -> tuple[NDArray[np.float64], list[str]]:
    """Return what a jvp or vjp gave as a vector of real coordinates, and notes on harmless oddities.

    Parameters
    ----------
    endpoint : str
        Name of the endpoint, for messages.
    result : object
        What the user's callable returned.
    layout : Layout
        Structure that it has to have; None stands for zero.
    like : str
        What has that structure, for messages.

    Raises
    ------
    Breach
        If the structure, a shape or a dtype differs.
    """
    vector = np.zeros(layout.size)
    if result is None:
        return vector, []
    leaves = trees.matched_leaves(result, layout)
    if leaves is None:
        got, spec = trees.flatten(result)
        raise Breach(
            endpoint,
            Status.STRUCTURE,
            f"{endpoint} returned {describe(spec, got)}; expected the structure of {like}: "
            f"{trees.shapes_text(layout)}.",
        )
    notes: list[str] = []
    for leaf in layout.leaves:
        value = leaves[leaf.position]
        if value is None:
            continue
        array = checked_array(endpoint, value, leaf.shape, leaf.dtype, leaf.path, like, notes)
        vector[leaf.start : leaf.stop] = leaf.taken(array.astype(leaf.dtype) if leaf.parts == 2 else array)
    return vector, notes


def checked_array(
    endpoint: str,
    value: Any,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    path: str,
    like: str,
    notes: list[str],
) -> NDArray[Any]:
    """Return ``value`` as an array of exactly this shape and of a dtype that holds the derivative.

    Raises
    ------
    Breach
        If it is no array, has another shape, or has a narrower dtype or one of another kind.
    """
    try:
        array = np.asarray(value)
    except Exception as error:
        raise Breach(
            endpoint, Status.STRUCTURE, f"{endpoint} returned a {type(value).__name__} for {path}: {error}."
        ) from error
    if array.dtype.kind not in "iufc":
        raise Breach(
            endpoint,
            Status.STRUCTURE,
            f"{endpoint} returned {array.dtype} values of type {type(value).__name__} for {path}; expected numbers.",
        )
    if array.shape != shape:
        raise Breach(
            endpoint,
            Status.SHAPE,
            f"{endpoint} returned shape {array.shape} for {path}; expected {shape}, its shape in {like}.",
        )
    if array.dtype.kind == "c" and dtype.kind == "f":
        raise Breach(endpoint, Status.DTYPE, f"{endpoint} returned complex values for {path}, which is real ({dtype}).")
    weak = not isinstance(value, np.ndarray | np.generic)  # a Python number has no precision of its own
    if array.dtype.kind in "fc" and not weak:
        real, expected = np.empty(0, array.dtype).real.dtype, np.empty(0, dtype).real.dtype
        if real.itemsize < expected.itemsize:
            raise Breach(
                endpoint,
                Status.DTYPE,
                f"{endpoint} returned {array.dtype} for {path}; expected {dtype}, the dtype of {like}.",
            )
        if real.itemsize > expected.itemsize:
            notes.append(f"{endpoint} returns {array.dtype} for {path}, which is {dtype}; wider is accepted.")
    elif array.dtype.kind in "iu" and not weak:
        notes.append(f"{endpoint} returns {array.dtype} for {path}, which is {dtype}; integers are accepted.")
    return array
