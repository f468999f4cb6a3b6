"""Whether answers to dense tangents or cotangents are the sums of the one-hot ones that are known already."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from fdcheck.results import Finding, Status

Vector = NDArray[np.float64]

_SCALES = (1.0, -512.0)
"""Sizes of the two random combinations asked for: an answer that is clipped, or is right for small vectors only, shows
at the second, and one that is right for some signs by chance is not so twice."""

_SPREAD = 3.0
"""Standard deviations of a sum of errors, each a small part of its own term, as iterative solvers make them."""

_NOTHING = 1e-6
"""Part of the largest term that counts as rounding in an element whose terms are all zero."""

_ALIKE = 0.01
"""Part of how far an answer is off by which it may differ from what it is said to be like."""


def linearity_finding(
    endpoint: str,
    answers: NDArray[np.float64],
    ask: Callable[[Vector], Vector],
    groups: Sequence[tuple[str, slice]],
    element: Callable[[int], str],
    rtol: float,
    seed: int,
) -> Finding | None:
    """Return what is wrong with an endpoint's answers to dense vectors, None if they are sums of its answers to units.

    Where the answers to units were compared with the measured derivative, this compares the dense ones with it too.

    Parameters
    ----------
    endpoint : str
        Its name.
    answers : ndarray, shape (k, m)
        What it answered to the k unit vectors that it was asked for.
    ask : callable
        Takes the weight of each unit vector, shape (k,), and returns the answer to their sum, shape (m,).
    groups : sequence of (str, slice)
        Parts of the k unit vectors with what to call them, such as the inputs that they lie in; an answer that holds
        the terms of one of them alone is named as such.
    element : callable
        Returns what to call an element of an answer.
    rtol : float
        Part of the terms by which a sum may be off.
    seed : int
        Seed of the weights.

    Returns
    -------
    Finding or None
        Cost: two calls.

    Raises
    ------
    Breach
        If the endpoint raises or breaks its contract in another way.
    """
    draw = np.random.default_rng([seed, 0x6C696E])
    for scale in _SCALES:
        weights = scale * draw.uniform(0.5, 1.5, len(answers)) * draw.choice([-1.0, 1.0], len(answers))
        given = ask(weights)
        with np.errstate(all="ignore"):
            off = np.abs(given - weights @ answers)
            size = np.minimum(
                np.abs(weights) @ np.abs(answers), _SPREAD * np.sqrt(np.square(weights) @ np.square(answers))
            )
            allowed = rtol * np.where(size > 0, size, _NOTHING * size.max(initial=0.0))
            excess = np.where(off > 0, off / allowed, 0.0)
        excess[~np.isfinite(answers).all(axis=0)] = 0.0  # what is not finite has been found already
        excess[~np.isfinite(given) & np.isfinite(answers).all(axis=0)] = np.inf
        if excess.size and excess.max() > 1.0:
            return _finding(endpoint, answers, weights, given, int(np.argmax(excess)), groups, element)
    return None


def _finding(
    endpoint: str,
    answers: NDArray[np.float64],
    weights: Vector,
    given: Vector,
    worst: int,
    groups: Sequence[tuple[str, slice]],
    element: Callable[[int], str],
) -> Finding:
    """Return the finding, with what the answer looks like instead."""
    expected = float(weights @ answers[:, worst])
    message = (
        f"{endpoint} along a dense random vector over {', '.join(name for name, _ in groups)} gave "
        f"{float(given[worst]):.6g} for {element(worst)}; its own answers to unit vectors add up to "
        f"{expected:.6g}{_likeness(answers, weights, given, groups)}."
    )
    return Finding(endpoint, Status.NONLINEAR, message, claimed=float(given[worst]), estimated=expected)


def _likeness(answers: NDArray[np.float64], weights: Vector, given: Vector, groups: Sequence[tuple[str, slice]]) -> str:
    """Return what a wrong answer would be right for, empty if nothing is found."""
    expected = weights @ answers
    terms = {name: weights[part] @ answers[part] for name, part in groups} if len(groups) > 1 else {}
    likes = [(f"it holds the term of {name} alone", term) for name, term in terms.items()]
    likes += [(f"the term of {name} is missing", expected - term) for name, term in terms.items()]
    likes.append(("it depends on the signs of the vector and not on its size", np.sign(weights) @ answers))
    likes.append(("it loses the signs of the vector", np.abs(weights) @ answers))
    off = np.abs(given - expected).max()
    return next((f"; {words}" for words, like in likes if np.abs(given - like).max() <= _ALIKE * off), "")
