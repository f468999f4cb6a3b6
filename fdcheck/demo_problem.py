"""A heated rod with its derivative by hand, once right and once with a bug: the problem of ``fdcheck demo``.

Steady heat conduction in one dimension, by finite volumes. The rod has 12 cells; both ends are held at the
temperature of the surroundings. What comes out is how much warmer the rod is than its surroundings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Inputs = dict[str, Array]
Outputs = dict[str, Any]

CELL = 0.1  # length of a cell in m
SENSORS = [1, 4, 7, 10]  # cells that have a thermometer


def inputs() -> Inputs:
    """Return a rod of three materials, all of its heaters on.

    Returns
    -------
    dict
        ``conductivity`` of each cell in W/(m K) and ``source``, the setting of its heater in W/m3.
    """
    return {
        "conductivity": np.array([1.1, 1.2, 1.1, 1.3, 0.5, 0.6, 0.5, 0.7, 2.1, 2.0, 2.2, 1.9]),
        "source": np.array([80.0, 60.0, 90.0, 120.0, 150.0, 110.0, 70.0, 50.0, 100.0, 140.0, 90.0, 60.0]),
    }


def inputs_at_kink() -> Inputs:
    """Return the same rod with one heater set to exactly 0, where it is just about to come on.

    Returns
    -------
    dict
        Like :func:`inputs`.
    """
    rod = inputs()
    rod["source"][5] = 0.0
    return rod


def apply(x: Inputs) -> Outputs:
    """Return how much warmer than its surroundings the rod is.

    Parameters
    ----------
    x : dict
        ``conductivity`` and ``source`` of each cell. A heater cannot cool: a setting below 0 means off.

    Returns
    -------
    dict
        ``temperature`` at the sensors and the ``mean`` over the rod, both in K.
    """
    warmth = _solve(x["conductivity"], _heating(x["source"]))
    return {"temperature": warmth[SENSORS], "mean": warmth.mean()}


def vjp(x: Inputs, cotangent: Outputs) -> Inputs:
    """Return the derivative of ``apply`` applied backwards: the adjoint method, right.

    Parameters
    ----------
    x : dict
        As for :func:`apply`.
    cotangent : dict
        Weights of the outputs, a dict like the one that apply returns.

    Returns
    -------
    dict
        Like ``x``: the derivative of the weighted sum of the outputs.
    """
    by_source, by_link = _adjoint(x, cotangent)
    left, right = x["conductivity"][:-1], x["conductivity"][1:]
    by_face = 2 * by_link[1:-1] / (left + right) ** 2
    by_conductivity = np.zeros_like(x["conductivity"])
    by_conductivity[:-1] += right**2 * by_face
    by_conductivity[1:] += left**2 * by_face
    by_conductivity[[0, -1]] += 2 * by_link[[0, -1]]
    return {"conductivity": by_conductivity, "source": by_source}


def wrong_vjp(x: Inputs, cotangent: Outputs) -> Inputs:
    """Return the same with a bug: a face counts for its left cell only."""
    by_source, by_link = _adjoint(x, cotangent)
    left, right = x["conductivity"][:-1], x["conductivity"][1:]
    by_face = 2 * by_link[1:-1] / (left + right) ** 2
    by_conductivity = np.zeros_like(x["conductivity"])
    by_conductivity[:-1] += right**2 * by_face
    by_conductivity[[0, -1]] += 2 * by_link[[0, -1]]
    return {"conductivity": by_conductivity, "source": by_source}


def _heating(source: Array) -> Array:
    """Return the heat that each cell gets from its heater, in W/m2; it has a kink where the heater comes on."""
    return np.where(source > 0, CELL * source, 0)


def _links(conductivity: Array) -> Array:
    """Return how well heat passes each face, ends included: the harmonic mean of the cells beside it."""
    left, right = conductivity[:-1], conductivity[1:]
    ends = 2 * conductivity[[0, -1]]  # only half a cell lies between an end and the centre of its cell
    return np.concatenate([ends[:1], 2 * left * right / (left + right), ends[1:]]) / CELL


def _solve(conductivity: Array, heat: Array) -> Array:
    """Return the temperatures at which each cell passes on exactly the heat that it gets."""
    link = _links(conductivity)
    matrix = np.diag(link[:-1] + link[1:]) - np.diag(link[1:-1], 1) - np.diag(link[1:-1], -1)
    return np.linalg.solve(matrix, heat)


def _adjoint(x: Inputs, cotangent: Outputs) -> tuple[Array, Array]:
    """Return the derivative of the weighted outputs by the source, and by the links in units of 1 / CELL."""
    warmth = _solve(x["conductivity"], _heating(x["source"]))
    weights = np.full_like(warmth, cotangent["mean"] / warmth.size)
    weights[SENSORS] += cotangent["temperature"]
    costate = _solve(x["conductivity"], weights)  # the matrix is symmetric, so it is its own transpose
    by_link = -np.diff(np.pad(costate, 1)) * np.diff(np.pad(warmth, 1))
    by_source = np.where(x["source"] > 0, CELL * costate, 0)
    return by_source, by_link / CELL
