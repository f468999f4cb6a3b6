"""A heated rod with its derivative by hand, once right and once with a bug: the problem of ``fdcheck demo``.

Steady heat conduction in one dimension, by finite volumes. The rod has 12 cells; both ends are held at the
temperature of the surroundings. What comes out is how much warmer the rod is than its surroundings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CELL = 0.1  # length of a cell in m
SENSORS = [1, 4, 7, 10]  # cells that have a thermometer


def inputs() -> dict[str, Array]:
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


def inputs_at_kink() -> dict[str, Array]:
    """Return the same rod with one heater set to exactly 0, where it is just about to come on.

    Returns
    -------
    dict
        Like :func:`inputs`.
    """
    rod = inputs()
    rod["source"][5] = 0.0
    return rod


def apply(x: dict[str, Array]) -> dict[str, Any]:
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
    warmth = solve(x["conductivity"], heating(x["source"]))
    return {"temperature": warmth[SENSORS], "mean": warmth.mean()}


def vjp(x: dict[str, Array], cotangent: dict[str, Any]) -> dict[str, Array]:
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
    by_heat, by_link = adjoint(x, cotangent)
    left, right = x["conductivity"][:-1], x["conductivity"][1:]
    by_mean = 2 / (left + right) ** 2 * by_link[1:-1]  # of left * right / (left + right)
    by_conductivity = np.zeros_like(x["conductivity"])
    by_conductivity[:-1] += right**2 * by_mean
    by_conductivity[1:] += left**2 * by_mean
    by_conductivity[[0, -1]] += 2 * by_link[[0, -1]]
    return {"conductivity": by_conductivity, "source": np.where(x["source"] > 0, by_heat, 0)}


def wrong_vjp(x: dict[str, Array], cotangent: dict[str, Any]) -> dict[str, Array]:
    """Return the adjoint with a bug: a face is differentiated by the cell on its left only."""
    by_heat, by_link = adjoint(x, cotangent)
    left, right = x["conductivity"][:-1], x["conductivity"][1:]
    by_mean = 2 / (left + right) ** 2 * by_link[1:-1]  # of left * right / (left + right)
    by_conductivity = np.zeros_like(x["conductivity"])
    by_conductivity[:-1] += right**2 * by_mean
    by_conductivity[[0, -1]] += 2 * by_link[[0, -1]]
    return {"conductivity": by_conductivity, "source": np.where(x["source"] > 0, by_heat, 0)}


def heating(source: Array) -> Array:
    """Return the heat that each cell gets from its heater, in W/m2; it has a kink where the heater comes on."""
    return np.where(source > 0, CELL * source, 0)


def links(conductivity: Array) -> Array:
    """Return how well heat passes each face, ends included: the harmonic mean of the cells beside it."""
    left, right = conductivity[:-1], conductivity[1:]
    ends = 2 * conductivity[[0, -1]]  # only half a cell lies between an end and the centre of its cell
    return np.concatenate([ends[:1], 2 * left * right / (left + right), ends[1:]]) / CELL


def solve(conductivity: Array, heat: Array) -> Array:
    """Return the temperatures at which each cell passes on exactly the heat that it gets."""
    link = links(conductivity)
    matrix = np.diag(link[:-1] + link[1:]) - np.diag(link[1:-1], 1) - np.diag(link[1:-1], -1)
    return np.linalg.solve(matrix, heat)


def adjoint(x: dict[str, Array], cotangent: dict[str, Any]) -> tuple[Array, Array]:
    """Return the derivatives of the weighted outputs by the source and by CELL times the links."""
    warmth = solve(x["conductivity"], heating(x["source"]))
    weights = np.full_like(warmth, cotangent["mean"] / warmth.size)
    weights[SENSORS] += cotangent["temperature"]
    costate = solve(x["conductivity"], weights)  # the matrix is symmetric, so it is its own transpose
    by_link = -np.diff(np.pad(costate, 1)) * np.diff(np.pad(warmth, 1))
    return CELL * costate, by_link / CELL
