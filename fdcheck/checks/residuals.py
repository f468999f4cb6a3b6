"""Claims beside a slope along one direction: what each endpoint is asked for, and by how much it is off."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import Slope
from fdcheck.numerics.steps import default_rtol
from fdcheck.problem.callables import Problem
from fdcheck.problem.endpoints import Claimed, Claims
from fdcheck.problem.jacobians import Matrix
from fdcheck.settings import Settings

Vector = NDArray[np.float64]

_SPREAD = 3.0
"""Standard deviations of a sum of errors that each keep to their tolerance: beyond them an entry has to be wrong."""

FEW_ROWS = 8
"""Outputs up to which a vjp is asked for each: the output that disagrees is then known without tracing it."""

_COTANGENTS = 2
"""Dense random cotangents that a vjp with more outputs is asked for. One finds a wrong entry wherever it is; two that
err in the same way by accident there are not."""

_TURNS = 3
"""Further products of a jvp or operator, with other signs of the tangent, that tell how large the terms of a product
are: the mean of four squares is below a hundredth of what is expected once in 5000 times."""


@dataclass
class Residual:
    """By how much the sums of one endpoint are off.

    Parameters
    ----------
    value, bar, allowed : ndarray, shape (f,)
        Claim less measurement, infinite for a claim that is not finite; error bar; and what tolerances add up to.
        Value 0 where nothing can be said.
    """

    value: Vector
    bar: Vector
    allowed: Vector

    def stands_out(self, share: float) -> NDArray[np.bool_]:
        """Return where the value is more than its bar and a share of what is allowed."""
        found: NDArray[np.bool_] = np.abs(self.value) > self.bar + share * self.allowed
        return found

    @property
    def worst(self) -> int:
        """The sum that is off by the most bars."""
        return int(np.argmax(np.abs(self.value) / np.maximum(self.bar, np.finfo(float).tiny)))

    @property
    def excess(self) -> float:
        """By how many bars it is off."""
        k = self.worst
        return float(np.abs(self.value[k]) / max(float(self.bar[k]), float(np.finfo(float).tiny)))

    def explain(self, view: View, claimed: Claimed, found: Elementwise, moved: float) -> None:
        """Take away what one column explains that was measured alone, in the outputs that were asked for."""
        if view.name not in claimed.names:
            return
        e = claimed.names.index(view.name)
        estimate, error = found.measurement.estimate[:, 0], found.measurement.error[:, 0]
        known = claimed.rows[e] & np.isfinite(estimate) & np.isfinite(error)
        off = np.where(known, claimed.matrix[e, :, 0] - estimate, 0.0) * moved
        bar = np.where(known, error, 0.0) * abs(moved)
        if view.cotangents is not None:
            off, bar = view.cotangents @ off, combined(view.cotangents, bar)
        self.value -= off
        self.value[~np.isfinite(self.value)] = 0.0  # a claim that is not finite was found
        self.bar += bar


@dataclass(frozen=True)
class View:
    """What one endpoint is compared in: each output, or sums of outputs with random weights.

    Parameters
    ----------
    name : str
        The endpoint.
    along : ndarray, shape (f,)
        What it claims of each along the direction of the probe.
    size : ndarray, shape (f,)
        Root of the sum of squares of the terms that make up such a claim, or of what random signs make of them.
    rtol : ndarray, shape (m,)
        Relative tolerance of each output.
    atol : float
        Absolute tolerance times the length of the direction.
    cotangents : ndarray, shape (f, m), or None
        Weights of the outputs; None for the outputs themselves.
    gradients : ndarray, shape (f, n), or None
        What a vjp claims for the cotangents.
    matrix : Matrix or None
        What a jacobian returned.
    """

    name: str
    along: Vector
    size: Vector
    rtol: Vector
    atol: float
    cotangents: NDArray[np.float64] | None = None
    gradients: NDArray[np.float64] | None = None
    matrix: Matrix | None = None

    @property
    def is_mixed(self) -> bool:
        """Whether sums of several outputs are compared."""
        return self.cotangents is not None and len(self.cotangents) < self.cotangents.shape[1]

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the outputs in each sum, shape (f, m)."""
        return np.eye(len(self.rtol)) if self.cotangents is None else self.cotangents

    def goal(self, share: float) -> Vector:
        """Return the error bar of each output, shape (m,), that a share of what is allowed asks for."""
        allowed = share * self.allowed
        if self.cotangents is None:
            return allowed
        if not self.is_mixed:
            return allowed
        m = len(self.rtol)
        return np.full(m, float(allowed.min()) / np.sqrt(m) / _SPREAD)

    @property
    def row_sizes(self) -> Vector:
        """What is known of the size of each output's slope, shape (m,)."""
        if not self.is_mixed:
            return self.size
        return np.full(len(self.rtol), float(self.size.max()) / np.sqrt(len(self.rtol)))

    @property
    def allowed(self) -> Vector:
        """What the sums may be off if each entry keeps to its tolerance, shape (f,)."""
        rtol = self.rtol if self.cotangents is None or not self.is_mixed else self.rtol.max()
        return np.asarray(_SPREAD * (rtol * self.size + self.atol))

    def times(self, direction: Vector, claims: Claims) -> Vector:
        """Return what the endpoint claims along another direction, NaN where it breaks its contract."""
        if self.gradients is not None:
            return np.array([dot(gradient, direction) for gradient in self.gradients])
        answer = claims.along(self.name, direction)
        return np.full(len(self.along), np.nan) if answer is None else answer

    def residual(self, claim: Vector, slope: Slope) -> Residual:
        """Return by how much claims along a direction are off from the slope along it."""
        plain = slope.is_plain & np.isfinite(slope.value)
        value, error = np.where(plain, slope.value, 0.0), np.where(plain, slope.error, 0.0)
        if self.cotangents is None:
            known, expected, bar = plain, value, error
        else:
            known = ~((self.cotangents != 0) & ~plain).any(axis=1)
            expected, bar = self.cotangents @ value, combined(self.cotangents, error)
        off = np.where(known & np.isfinite(claim), claim - expected, 0.0)
        off[~np.isfinite(claim) & self._has_finite_outputs(slope)] = np.inf  # wrong whatever the slope is
        return Residual(off, bar, self.allowed)

    def _has_finite_outputs(self, slope: Slope) -> NDArray[np.bool_]:
        """Return which sums are of outputs that are finite about x0, shape (f,)."""
        spoiled = (slope.code == kernels.NONFINITE).any(axis=0)
        if self.cotangents is None:
            return np.asarray(~spoiled)
        finite: NDArray[np.bool_] = ~((self.cotangents != 0) & spoiled).any(axis=1)
        return finite

    def known(self, slope: Slope) -> NDArray[np.bool_]:
        """Return which of its sums the slope says something of, shape (f,)."""
        plain = slope.is_plain
        if self.cotangents is None:
            return plain
        known: NDArray[np.bool_] = ~((self.cotangents != 0) & ~plain).any(axis=1)
        return known

    def of_row(self, claims: Claims, row: int) -> View:
        """Return the view of a single output through a vjp."""
        m = len(self.rtol)
        cotangent = np.zeros((1, m))
        cotangent[0, row] = 1.0
        gradient = claims.across(cotangent[0], f"cotangent {row}")
        n = 0 if self.gradients is None else self.gradients.shape[1]
        return self.of_cotangent(cotangent, np.full(n, np.nan) if gradient is None else gradient)

    def of_cotangent(self, cotangent: NDArray[np.float64], gradient: Vector) -> View:
        """Return the view of a vjp through another cotangent, shape (1, m), with what is claimed for it."""
        zero = np.zeros(1)
        return View(self.name, zero, zero, self.rtol, self.atol, cotangent, gradient[None])

    def index_of(self, row: int) -> int:
        """Return which of its sums is that of one output."""
        if self.cotangents is None:
            return row
        return int(np.flatnonzero(self.cotangents[:, row])[0])


def views_of(
    problem: Problem, claims: Claims, direction: Vector, settings: Settings, outputs: NDArray[np.bool_]
) -> list[View]:
    """Return what each endpoint is compared in along a direction.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claims : Claims
        The endpoints.
    direction : ndarray, shape (n,)
        Direction of the probe.
    settings : Settings
        Tolerances and seed.
    outputs : ndarray of bool, shape (m,)
        Outputs that random cotangents weigh.
    """
    rtol_out, rtol_in = default_rtol(problem, settings.rtol)
    rtol = np.maximum(rtol_out, rtol_in.max())
    atol = (settings.atol or 0.0) * float(np.linalg.norm(direction))
    names = [name for name in claims.names if not (name == "jacobian" and claims.hides_entries)]
    found = [_view(name, problem, claims, direction, rtol, atol, settings.seed, outputs) for name in names]
    return [view for view in found if view is not None]


def _view(
    name: str,
    problem: Problem,
    claims: Claims,
    direction: Vector,
    rtol: Vector,
    atol: float,
    seed: int,
    outputs: NDArray[np.bool_],
) -> View | None:
    if name == "vjp":
        return _vjp_view(problem, claims, direction, rtol, atol, seed, outputs)
    along = claims.along(name, direction)
    if along is None:
        return None
    matrix = claims.jacobian if name == "jacobian" else None
    known = None if matrix is None else matrix.sizes(direction)
    if known is None:
        draw = np.random.default_rng([seed, 0x7475726E])
        turned = (claims.along(name, direction * draw.choice([-1.0, 1.0], len(direction))) for _ in range(_TURNS))
        products = [along, *(product for product in turned if product is not None)]
        known = np.sqrt(np.mean([np.where(np.isfinite(p), p, 0.0) ** 2 for p in products], axis=0))
    return View(name, along, known, rtol, atol, matrix=matrix)


def _vjp_view(
    problem: Problem,
    claims: Claims,
    direction: Vector,
    rtol: Vector,
    atol: float,
    seed: int,
    outputs: NDArray[np.bool_],
) -> View | None:
    """Ask a vjp for each of a few outputs, or for a few random sums of many."""
    m = problem.outputs.size
    if m <= FEW_ROWS:
        cotangents = np.eye(m)
    else:
        draw = np.random.default_rng([seed, 0x636F74])
        cotangents = draw.uniform(0.5, 1.5, (_COTANGENTS, m)) * draw.choice([-1.0, 1.0], (_COTANGENTS, m)) * outputs
    gradients = np.empty((len(cotangents), problem.inputs.size))
    for k, cotangent in enumerate(cotangents):
        gradient = claims.across(cotangent, f"cotangent {k}" if m <= FEW_ROWS else "a random cotangent")
        if gradient is None:
            return None
        gradients[k] = gradient
    along = np.array([dot(gradient, direction) for gradient in gradients])
    size = np.array([_size(gradient, direction) for gradient in gradients])
    return View("vjp", along, size, rtol, atol, cotangents, gradients)


def dot(gradient: Vector, direction: Vector) -> float:
    """Return the product of a gradient with a direction; what the direction does not move does not count."""
    product = float(gradient @ direction)
    if not np.isfinite(product):
        moved = direction != 0
        product = float(gradient[moved] @ direction[moved])
    return product


def _size(gradient: Vector, direction: Vector) -> float:
    """Return the root of the sum of squares of the finite terms of such a product."""
    total = float(np.einsum("j,j,j,j->", gradient, gradient, direction, direction))
    if not np.isfinite(total):
        terms = gradient * direction
        total = float(np.sum(terms[np.isfinite(terms)] ** 2))
    return float(np.sqrt(total))


def combined(cotangents: NDArray[np.float64], error: Vector) -> Vector:
    """Return the error bars of random sums: the weights have random signs, so errors add up as noise does."""
    bars: Vector = np.sqrt(cotangents**2 @ error**2)
    several = np.count_nonzero(cotangents, axis=1) > 1
    return np.where(several, _SPREAD * bars, bars)
