"""Whether callables remember other calls: apply and endpoints at x0, at a far point, and at x0 again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Limits
from fdcheck.numerics.noise import SAME, rounding
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.change import Along
from fdcheck.results import Finding, Status

Values = NDArray[np.float64]

_SHRUNK = (0.75, 0.95)
"""Factors of each input at the far point: numbers that shrink keep to most domains (positive, below 1, no overflow).
A check does not move inputs by more than a quarter as a rule."""

_GROWN = 1.25
"""Factor of all inputs where those do not: it keeps matrices symmetric and positive definite, and x > 1."""

CALLS = 14
"""Calls of an endpoint that are watched for changes of its arguments: all that the contract may take."""

_EVENLY = 0.01
"""Part of a step by which the steps of a counter may differ."""

_CALMING = (0.3, 0.1)
"""Parts of the first difference that the second and third may be if a warm start makes them: one random number in a
hundred does so by chance."""


@dataclass(frozen=True)
class Same:
    """By how much two equal calls of an endpoint may differ.

    Parameters
    ----------
    rtol : float
        Part of the terms.
    nondet_tol : float or None
        In the unit of the result; wins where it is given.
    """

    rtol: float
    nondet_tol: float | None


def go_far(problem: Problem, limits: Limits, seed: int) -> Values | None:
    """Call apply at a far point.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    limits : Limits
        Bounds that the point keeps to; inputs on which a step is forced stay where they are.
    seed : int
        Seed of the point.

    Returns
    -------
    ndarray, shape (n,), or None
        The point, None where apply is not finite at either of two, or no input may move. Cost: 1 or 2 applies.
    """
    course = problem.course
    raised, changed = course.raised, course.changed
    known, found = np.isfinite(problem.value), None
    for point in _candidates(problem, limits, seed):
        values = problem.differences(Along(point - problem.x, np.ones(1)))[0]
        if np.isfinite(values[known]).all():
            found = point
            break
    course.raised, course.changed = raised, changed  # what happens there says nothing about x0
    return found


def come_back(problem: Problem) -> list[Finding]:
    """Call apply at x0 again, after a far point, and return what it remembers.

    Parameters
    ----------
    problem : Problem
        apply and x0; its ``scatter`` receives by how much the values differ, if they do.

    Returns
    -------
    list of Finding
        One or none. Cost: 1 apply; 3 where it differs.
    """
    values = np.zeros((4, problem.outputs.size))
    values[1] = _at_x0(problem)
    if not values[1].any() or problem.is_spent:
        return []
    size = np.abs(problem.value.astype(np.float64))
    allowed = SAME * rounding(problem)
    if not _is_off(values, allowed).any():
        return []
    values[2], values[3] = _at_x0(problem), _at_x0(problem)
    problem.scatter = np.where(_is_off(values, allowed).any(axis=0), np.abs(values).max(axis=0), 0.0)
    status, text = _told(values, size, allowed)
    return [] if status in problem.apply.skip else [Finding("apply", status, text)]


def _at_x0(problem: Problem) -> Values:
    """Return by how much apply at x0 differs from what it gave first."""
    nowhere = np.broadcast_to(np.float64(0.0), problem.inputs.size)
    values: Values = problem.differences(Along(nowhere, np.zeros(1)))[0]
    return values


def _told(values: NDArray[np.float64], size: Values, allowed: Values) -> tuple[Status, str]:
    """Return what four values of apply at x0 say, of which the second is the first after a far point."""
    _, again, third, fourth = values
    relative = np.abs(again) / np.maximum(size, np.finfo(float).tiny)
    where = int(np.argmax(np.where(np.isfinite(relative), relative, np.inf)))
    passes = not (_is_off(third, allowed) | _is_off(fourth, allowed)).any()
    stays = not _is_off(third - again, allowed).any()
    if passes or stays or _is_drift(values):
        by = _by(abs(again[where]), size[where])
        return Status.HIDDEN_STATE, (
            f"apply at x0 gives another value after a call at a far point, by {by}: it keeps something "
            "between calls, such as a warm start, a counter, or a cache with a wrong key."
        )
    scatter = float(np.std(values[:, where], ddof=1))
    return Status.NONDETERMINISTIC, (
        f"apply is not deterministic: four calls at x0 scatter by {_by(scatter, size[where])}; fix its random seed or "
        "what it keeps between calls, or check a deterministic part."
    )


def _is_drift(values: NDArray[np.float64]) -> bool:
    """Return whether equal calls differ as a counter or a warm start makes them: evenly, or less and less."""
    steps = np.diff(values, axis=0)
    first, second, third = np.abs(steps).max(axis=1)
    even = np.abs(steps[2] - steps[1]).max(), np.abs(steps[0] - 2 * steps[1]).max()  # two calls lie in the first step
    calms = second <= _CALMING[0] * first and third <= _CALMING[1] * first
    return bool(calms or max(even) <= _EVENLY * second)


def _by(amount: float, size: float) -> str:
    return f"{amount:.2g}" + (f" ({100 * amount / size:.2g} % of the value)" if size > 0 else "")


def _is_off(differences: NDArray[np.float64], allowed: Values) -> NDArray[np.bool_]:
    off: NDArray[np.bool_] = ~(np.abs(differences) <= allowed) & np.isfinite(allowed)
    return off


def _candidates(problem: Problem, limits: Limits, seed: int) -> Iterator[Values]:
    """Yield points away from x0, each within the bounds."""
    x, bounds = problem.x, limits.bounds
    draw = np.random.default_rng([seed, 0x666172])
    typical = float(np.abs(x).mean()) or 1.0
    is_fixed = ~np.isnan(limits.forced)
    if is_fixed.all():
        return
    for is_random in (True, False):
        point = draw.uniform(*_SHRUNK, x.size) if is_random else np.full(x.size, _GROWN)
        point *= np.where(x != 0, x, typical)
        point[x == 0] -= typical
        outside = (point < bounds.lower) | (point > bounds.upper)
        point[outside] = 2 * x[outside] - point[outside]
        outside &= (point < bounds.lower) | (point > bounds.upper)
        point[outside | is_fixed] = x[outside | is_fixed]
        yield point


@dataclass(frozen=True)
class Second:
    """What a second result of an endpoint at x0 says.

    Parameters
    ----------
    finding : Finding or None
        That the endpoint is not repeatable, or remembers other calls.
    noise : ndarray
        By how much the second result differs.
    note : str
        A remark that changes no verdict.
    """

    finding: Finding | None
    noise: Values
    note: str = ""


def asked_again(
    endpoint: Function,
    problem: Problem,
    far: Values | None,
    ask: Callable[[Any], Any],
    read: Callable[[Any], Values],
    first: Values,
    off: Callable[[Values], str],
    vectors: dict[str, Any],
) -> Second:
    """Ask an endpoint at a far point and at x0 again.

    Parameters
    ----------
    endpoint : Function
        The endpoint.
    problem : Problem
        apply and x0.
    far : ndarray, shape (n,), or None
        The far point; None to ask at x0 only.
    ask, read : callable
        What calls the endpoint at a structure like x, and what reads its result as numbers.
    first : ndarray
        What it gave before.
    off : callable
        Returns how far other numbers are off; empty if they are not.
    vectors : dict of str to object
        What else the endpoint is given, for the finding.

    Returns
    -------
    Second
        Cost: 2 calls, 1 where there is no far point, and 1 more where the result differs.

    Raises
    ------
    Breach
        If the endpoint raises at x0 or breaks its contract in another way.
    """
    name, held = endpoint.name, None if far is None else _held(ask, read, problem, far)
    remark = ""
    if isinstance(held, str):
        remark, held = f"at a far point, where hidden state is looked for: {held}", None
    again = read(ask(problem.structure()))
    is_same = np.array_equal(again, first)  # as a rule, and then there is nothing to weigh
    noise, told = (np.zeros(1), "") if is_same else (np.abs(again - first), off(again))
    if not told:
        if held is None or _digest(read(held[0])) == held[1]:
            return Second(None, noise, remark)
        text = f"{name} gives out its own memory: its next call changed the array that it had returned; keep copies"
        return Second(None, noise, text)
    third = read(ask(problem.structure()))
    if far is not None and (not off(third) or np.array_equal(third, again, equal_nan=True)):
        text = f"{name} at x0 gives another result after apply and {name} were called at a far point, {told}."
        shown = {**vectors, "x_far": problem.structure(far)}
        finding = Finding(name, Status.HIDDEN_STATE, text, vectors=shown)
    else:
        finding = Finding(name, Status.NONDETERMINISTIC, f"two equal calls of {name} differ {told}.", vectors=vectors)
    return Second(None if finding.status in endpoint.skip else finding, noise)


def _held(
    ask: Callable[[Any], Any], read: Callable[[Any], Values], problem: Problem, far: Values
) -> tuple[Any, tuple[int, int]] | str:
    """Return a result at a far point with a digest of its numbers, or what went wrong there."""
    try:
        result = ask(problem.structure(far))
        return result, _digest(read(result))
    except Breach as breach:  # no breach of contract, at a point that the user has not asked for
        return breach.finding.message


def _digest(values: Values) -> tuple[int, int]:
    """Return what tells numbers from others, without keeping them: the sum and the parity of their bits."""
    bits = np.ascontiguousarray(values, np.float64).reshape(-1).view(np.uint64)
    return int(np.add.reduce(bits)), int(np.bitwise_xor.reduce(bits))
