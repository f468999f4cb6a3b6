"""What endpoints owe beside right numbers: the contract that every check asks for."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from fdcheck.checks.checking import Outcome
from fdcheck.checks.elementwise import Limits
from fdcheck.checks.hidden_state import CALLS, Same, asked_again, come_back, go_far
from fdcheck.checks.jacobians import jacobian_findings
from fdcheck.checks.layouts import layout_finding
from fdcheck.checks.linearity import linearity_finding
from fdcheck.checks.products import (
    Asked,
    Known,
    Linear,
    Vector,
    batched_findings,
    by_leaf,
    constant_vector,
    difference,
    linear_map,
    random_vector,
    stacked_product,
)
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.endpoints import Claims
from fdcheck.results import BREACHES, Finding, Pair, Status
from fdcheck.settings import Contract, Settings

_SPREAD = 3.0
"""Standard deviations of a sum of errors that may be of either sign."""

_FEW_APPLIES = 50
"""Under a tighter cap on the calls of apply, none is spent on a far point."""

_SAME = 1e-3
"""Part of its terms by which a product may differ when it is asked for twice, unless the user has an rtol."""


class Owing:
    """The contract of apply and of the endpoints of one check.

    What is remembered between calls is looked for before apply is measured, since it makes noise; the rest comes
    after it, since what endpoints have claimed for unit vectors serves as known.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    given : dict of str to Function
        The endpoints.
    claims : Claims
        What they claim.
    limits : Limits
        What the far point keeps to.
    settings : Settings
        ``contract``, ``skip``, ``rtol``, ``atol``, ``seed`` and ``max_applies`` are read.

    Notes
    -----
    Cost: at most 12 calls of each jvp and vjp, 3 of a jacobian and 4 of apply.
    """

    def __init__(
        self, problem: Problem, given: Mapping[str, Function], claims: Claims, limits: Limits, settings: Settings
    ) -> None:
        self._problem, self._given, self._claims, self._settings = problem, given, claims, settings
        self._contract = settings.contract or Contract()
        self._findings: list[Finding] = []
        self._notes: list[str] = []
        self._calls: dict[str, int] = {}
        self._steady: list[tuple[Linear, Asked]] = []
        if not (claims.names and problem.inputs.size and problem.outputs.size):
            return
        same = Same(settings.rtol or _SAME, self._contract.nondet_tol)
        goes_far = Status.HIDDEN_STATE not in settings.skip
        goes_far &= settings.max_applies is None or settings.max_applies >= _FEW_APPLIES
        with self._counted():
            self._ask_again(limits if goes_far else None, same)

    def settle(self, outcome: Outcome) -> None:
        """Look at what is left, and add it all to the outcome of the check."""
        with self._counted():
            self._look_at_vectors()
        known = {(f.endpoint, f.status) for f in self._claims.findings if f.status in BREACHES}
        outcome.findings += [f for f in self._findings if (f.endpoint, f.status) not in known]
        outcome.notes += self._notes
        outcome.contract_calls = {name: count for name, count in self._calls.items() if count}

    def _ask_again(self, limits: Limits | None, same: Same) -> None:
        """Ask at x0, at a far point and at x0 again."""
        problem, settings, claims = self._problem, self._settings, self._claims
        rtol, atol = usual_rtol(problem, settings.rtol), settings.atol or 0.0
        asked: list[tuple[Linear, Asked]] = []
        for name in [name for name in claims.names if name != "jacobian"]:
            product = linear_map(self._given[name], problem, self._contract.eps, rtol, atol)
            try:
                asked.append((product, _first(product, settings.seed)))
            except Breach as breach:
                self._findings.append(breach.finding)
        far = None if limits is None else go_far(problem, limits, settings.seed)
        if claims.jacobian is not None:
            self._findings += jacobian_findings(
                self._given["jacobian"], claims.jacobian, (rtol, atol), same, far, self._notes
            )
        again = (_repeated(product, first, far, same, self._findings, self._notes) for product, first in asked)
        self._steady = [pair for pair in again if pair is not None]
        if far is not None:
            self._findings += come_back(problem)
        elif limits is not None and not problem.is_spent and np.isnan(limits.forced).any():
            self._notes.append("apply is not finite at either of two far points, so hidden state was not looked for")

    def _look_at_vectors(self) -> None:
        """Look at linearity, memory layouts, batches, and whether a jvp and a vjp are adjoint to each other."""
        claims, seed = self._claims, self._settings.seed
        same = Same(self._settings.rtol or _SAME, self._contract.nondet_tol)
        sound: dict[str, tuple[Linear, Asked]] = {}
        for product, first in self._steady:
            name = product.endpoint.name
            if name not in claims.names:
                continue
            answers = claims.answers.get(name)
            if answers is not None:
                known = Known(np.arange(product.into.size), answers.T if name == "jvp" else answers)
                product = dataclasses.replace(product, known=known)
                first = dataclasses.replace(first, terms=product.terms(first.vector, first.product))
            dense = _about_vectors(product, first, same, seed, self._findings)
            if dense is not None:
                sound[name] = product, dense
            if self._contract.batched:
                self._findings += batched_findings(product, partial(stacked_product, product), seed=seed)
        if len(sound) == 2 and Status.ADJOINT not in self._settings.skip:
            self._findings += _adjointness(*sound["jvp"], *sound["vjp"])
        for name in claims.names:
            self._findings += self._given[name].mutations()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Count the calls that are made meanwhile."""
        functions = (self._problem.apply, *self._given.values())
        before = {function.name: function.calls for function in functions}
        for function in self._given.values():
            function.watched_until = function.calls + CALLS
        yield
        for function in functions:
            made = function.calls - before[function.name]
            self._calls[function.name] = self._calls.get(function.name, 0) + made


def contract_findings(
    problem: Problem, given: Mapping[str, Function], nondet_tol: float | None = None, seed: int = 0, eps: float = 0.0
) -> list[Finding]:
    """Return where jvp and vjp break their contract, for a front end that compares something else.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    given : dict of str to Function
        The endpoints; a jacobian is not looked at.
    nondet_tol : float or None
        By how much two equal calls may differ, in the unit of the result; None for what rounding may cost.
    seed : int
        Seed of the random vectors.
    eps : float
        That of the format in which the endpoints compute, where it is shorter than that of their arrays.

    Returns
    -------
    list of Finding
        Cost: at most 12 calls of each endpoint, none of apply.
    """
    found: list[Finding] = []
    sound: dict[str, tuple[Linear, Asked]] = {}
    same = Same(_SAME, nondet_tol)
    with np.errstate(all="ignore"):
        for name, endpoint in given.items():
            if name == "jacobian":
                continue
            endpoint.watched_until = endpoint.calls + CALLS
            product = linear_map(endpoint, problem, eps)
            dense = None
            try:
                pair = _repeated(product, _first(product, seed), None, same, found, [])
                dense = None if pair is None else _about_vectors(*pair, same, seed, found, in_parts=True)
            except Breach as breach:
                found.append(breach.finding)
            if dense is not None and pair is not None:
                sound[name] = pair[0], dense
            found += endpoint.mutations()
        if len(sound) == 2:
            found += _adjointness(*sound["jvp"], *sound["vjp"])
    return found


def usual_rtol(problem: Problem, rtol: float | None) -> float:
    """Return the tolerance of an entry: the user's, or that of the shortest dtype."""
    if rtol is not None:
        return rtol
    eps = float(np.finfo(problem.coarsest_dtype).eps)
    return max(1e-3, 8.0 * float(eps ** (2 / 3)))


def without_kinks(findings: Sequence[Finding], pairs: Sequence[Pair]) -> list[Finding]:
    """Return findings without a contradiction of jvp and vjp where each may choose a slope of its own, at a kink."""
    statuses = {status for pair in pairs for status in pair.counts}
    if Status.DISAGREES in statuses or not statuses & {Status.KINK, Status.JUMP}:
        return list(findings)
    return [finding for finding in findings if finding.status is not Status.ADJOINT]


@contextlib.contextmanager
def _with_vector(product: Linear, v: Vector) -> Iterator[None]:
    """Add the vector that an endpoint was given first to the breach that ends the look at it."""
    try:
        yield
    except Breach as breach:
        breach.finding = dataclasses.replace(breach.finding, vectors={"v": product.shown(v)})
        raise


def _draw(product: Linear, seed: int) -> np.random.Generator:
    """Return random numbers that differ for a jvp and a vjp: equal vectors would hide that one is not transposed."""
    return np.random.default_rng([seed, *product.endpoint.name.encode()])


def _first(product: Linear, seed: int) -> Asked:
    """Return the product with a random vector.

    Raises
    ------
    Breach
        If the endpoint raises, or returns another structure, shape or dtype.
    """
    v = random_vector(product.into, _draw(product, seed))
    with _with_vector(product, v):
        return product.asked(v)


def _repeated(
    product: Linear, v: Asked, far: Vector | None, same: Same, found: list[Finding], notes: list[str]
) -> tuple[Linear, Asked] | None:
    """Ask once more for a product; return the map with its noise, None where it is not the same map any more."""
    endpoint, argument, exact = product.endpoint, partial(product.shown, v.vector), same.nondet_tol

    def off(got: Vector) -> str:
        allowed = product.repeatable(v, same.rtol) if exact is None else np.array([exact])
        return difference(product, got, v.product, allowed)

    try:
        with _with_vector(product, v.vector):
            second = asked_again(
                endpoint,
                product.problem,
                far,
                ask=lambda x: endpoint.on(x, argument(), where="x0 and a random vector"),
                read=product.read,
                first=v.product,
                off=off,
                vectors={"v": argument()},
            )
    except Breach as breach:
        found.append(breach.finding)
        return None
    notes += [second.note] if second.note else []
    if second.finding is not None:
        found.append(second.finding)
        return None
    noise = np.where(np.isfinite(second.noise), second.noise, 0.0)
    if not noise.any():
        return product, v
    if exact is None and (noise > product.rounding(v.terms)).any():
        notes.append(f"two equal calls of {endpoint.name} differ by up to {noise.max():.2g}, within tolerance")
    return dataclasses.replace(product, noise=by_leaf(product.out, noise)), v


def _about_vectors(
    product: Linear, v: Asked, same: Same, seed: int, found: list[Finding], in_parts: bool = False
) -> Asked | None:
    """Look at linearity and at memory layouts; return the product with a dense vector where nothing was found."""
    skip, before = product.endpoint.skip, len(found)
    vector = constant_vector(product.into, _draw(product, seed))
    try:
        with _with_vector(product, v.vector):
            w = product.asked(vector)
            total = Asked(v.vector + 2 * vector, product(v.vector + 2 * vector), v.terms + 2 * w.terms)
            if Status.NONLINEAR not in skip:
                found += linearity_finding(product, v, w, total, in_parts)
            if Status.LAYOUT not in skip:
                found += layout_finding(product, w, total, same.rtol)
    except Breach as breach:
        found.append(breach.finding)
    return total if len(found) == before else None


def _summed(errors: Vector) -> float:
    """Return about how large a sum of errors of random signs is at most."""
    sizes = np.abs(errors)
    top = float(sizes.max(initial=0.0)) or 1.0
    return float(min(sizes.sum(), _SPREAD * top * np.sqrt(np.square(sizes / top).sum())))


def _adjointness(jvp: Linear, v: Asked, vjp: Linear, w: Asked) -> Iterator[Finding]:
    """Yield whether <w, J v> and <J^T w, v> differ."""
    forward, back = float(w.vector @ v.product), float(v.vector @ w.product)
    apart = abs(forward - back)
    if apart > _summed(w.vector * jvp.allowed(v)) + _summed(v.vector * vjp.allowed(w)):
        text = f"<w, jvp(v)> = {forward:.8g} and <vjp(w), v> = {back:.8g} are to be equal."
        vectors = {"v": jvp.shown(v.vector), "w": vjp.shown(w.vector)}
        yield Finding("vjp", Status.ADJOINT, text, vectors=vectors)
