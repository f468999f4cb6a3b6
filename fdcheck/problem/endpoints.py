"""The user's derivatives as one real map: what they claim, asked for as little as a check needs."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.jacobians import Matrix, matrix_of, pattern_of
from fdcheck.problem.returned import returned, tangent
from fdcheck.problem.trees import Layout
from fdcheck.results import Finding, InvalidInput, Status
from fdcheck.settings import Contract

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Claimed:
    """What the endpoints claim, side by side.

    Parameters
    ----------
    names : tuple of str, length e
        The endpoints that keep their contract.
    matrix : ndarray, shape (e, m, n)
        Their claims, NaN where an endpoint was not called.
    rows : ndarray of bool, shape (e, m)
        Outputs that each was asked for.
    masked : ndarray of bool, shape (e, m, n)
        Entries off the pattern of a sparse jacobian whose owner does not want them looked at.
    """

    names: tuple[str, ...]
    matrix: NDArray[np.float64]
    rows: NDArray[np.bool_]
    masked: NDArray[np.bool_]


class Claims:
    """The endpoints at x0, asked for columns, rows and products; a jacobian is called once.

    An endpoint that breaks its contract is left out from then on; ``findings`` tells of it.

    Parameters
    ----------
    given : dict of str to Function
        The endpoints by name.
    problem : Problem
        apply and x0.
    contract : Contract
        ``exact_dtype`` and ``masked`` are read.
    sparsity : SciPy sparse array, array, 'detect' or None
        Entries that may differ from zero, or that they are to be guessed.
    """

    def __init__(
        self, given: Mapping[str, Function], problem: Problem, contract: Contract, sparsity: Any = None
    ) -> None:
        self.findings: list[Finding] = []
        self.notes: list[str] = []
        self._given = dict(given)
        self._problem = problem
        self._contract = contract
        self._matrix: Matrix | None = None
        is_given = sparsity is not None and not isinstance(sparsity, str)
        self._sparsity = pattern_of(sparsity, problem) if is_given else None
        self.wants_pattern = isinstance(sparsity, str)
        if isinstance(sparsity, str) and sparsity != "detect":
            raise InvalidInput(f"sparsity: expected a matrix or 'detect', got {sparsity!r:.60}")
        if "jacobian" in given:
            self._asked("jacobian", self._jacobian)

    @property
    def names(self) -> tuple[str, ...]:
        """The endpoints that keep their contract."""
        return tuple(self._given)

    @property
    def jacobian(self) -> Matrix | None:
        """What the jacobian returned, None where there is none or it broke its contract."""
        return self._matrix if "jacobian" in self._given else None

    def columns(self, part: Problem, rows: NDArray[np.int64]) -> Claimed:
        """Return what is claimed of all columns of a problem, which may be narrowed, side by side.

        Parameters
        ----------
        part : Problem
            The problem, or some of its input coordinates. A jvp is called once for each.
        rows : ndarray of int
            Real output coordinates for which a vjp is called.
        """
        shape = (part.outputs.size, part.inputs.size)
        found: dict[str, NDArray[np.float64]] = {}
        for name in self.names:
            matrix = self._asked(name, functools.partial(self._matrix_of, name, part, rows))
            if matrix is not None:
                found[name] = matrix
        asked = np.zeros(shape[0], np.bool_)
        asked[rows] = True
        wanted = np.array([asked if name == "vjp" else np.ones_like(asked) for name in found], np.bool_)
        masked = np.zeros((len(found), *shape), np.bool_)
        if self._contract.masked and self._matrix is not None and "jacobian" in found:
            masked[list(found).index("jacobian")] = self._matrix.off_pattern(part.columns)
        return Claimed(tuple(found), np.array(list(found.values())).reshape(len(found), *shape), wanted, masked)

    @property
    def pattern(self) -> Any:
        """Entries that may differ from zero, as a sparse array: the user's, or that of a sparse jacobian; or None."""
        if self._sparsity is not None:
            return self._sparsity
        matrix = self.jacobian
        return matrix.values if matrix is not None and matrix.is_sparse else None

    def take_pattern(self, pattern: Any) -> None:
        """Use a pattern that was detected."""
        self._sparsity = pattern

    def only(self, *names: str) -> Claims:
        """Return the claims of some of the endpoints alone; what they find is added to that of all."""
        part = copy.copy(self)
        part._given = {name: self._given[name] for name in names}
        return part

    @property
    def hides_entries(self) -> bool:
        """Whether entries of a sparse jacobian are masked, so that its products say nothing."""
        return self._contract.masked and self.jacobian is not None and self.jacobian.is_sparse

    def along(self, name: str, direction: Vector) -> Vector | None:
        """Return what a jacobian or jvp claims along a direction, shape (m,), None if it breaks its contract."""
        if name == "jacobian":
            return self._asked(name, lambda notes: self._matrix @ direction if self._matrix else direction)
        return self._asked(
            name, lambda notes: claimed_column(self._given[name], self._problem, direction, "a random tangent", notes)
        )

    def across(self, cotangent: Vector, which: str) -> Vector | None:
        """Return what a vjp claims for a cotangent, shape (n,), None if it breaks its contract."""
        return self._asked("vjp", lambda notes: claimed_row(self._given["vjp"], self._problem, cotangent, which, notes))

    def _matrix_of(self, name: str, part: Problem, rows: NDArray[np.int64], notes: list[str]) -> NDArray[np.float64]:
        if name == "jacobian" and self._matrix is not None:
            return self._matrix.columns(part.columns)
        return claimed_matrix(self._given[name], part, rows, notes)

    def _jacobian(self, notes: list[str]) -> Vector:
        """Call the jacobian, and return nothing of it yet."""
        result = self._given["jacobian"](self._problem.arguments())
        self._matrix = matrix_of(result, self._problem, notes)
        return np.empty(0)

    def _asked(self, name: str, ask: Callable[[list[str]], NDArray[np.float64]]) -> NDArray[np.float64] | None:
        """Return what an endpoint answers; one that breaks its contract is left out from then on."""
        notes: list[str] = []
        try:
            answer = ask(notes)
            if self._given[name].mutated:
                raise Breach(name, Status.MUTATION, f"{name} changed its arguments in place.")
            if self._contract.exact_dtype and notes:
                raise Breach(name, Status.DTYPE, f"exact_dtype: {notes[0]}")
        except Breach as breach:
            self.findings.append(breach.finding)
            del self._given[name]
            return None
        self.notes += [note for note in notes if note not in self.notes]
        return answer


def claimed_matrix(
    endpoint: Function, problem: Problem, rows: NDArray[np.int64], notes: list[str]
) -> NDArray[np.float64]:
    """Return what an endpoint claims the real Jacobian to be.

    Parameters
    ----------
    endpoint : Function
        Named ``jacobian``, ``jvp`` or ``vjp``.
    problem : Problem
        apply and x0, perhaps narrowed to some input coordinates.
    rows : ndarray of int
        Real output coordinates for which a vjp is called.
    notes : list of str
        Receives remarks on harmless oddities, such as a wider dtype.

    Returns
    -------
    ndarray, shape (m, n)
        One row per real output coordinate, one column per real input coordinate; NaN where a vjp was not called. Cost
        in endpoint calls: one for a jacobian, one for each column for a jvp, one for each row for a vjp.

    Raises
    ------
    Breach
        If the endpoint raises, or returns another structure, shape or dtype than its convention asks for.
    """
    if endpoint.name == "jacobian":
        return matrix_of(endpoint(problem.arguments()), problem, notes).columns(problem.columns)
    matrix = np.full((problem.outputs.size, problem.inputs.size), np.nan)
    if endpoint.name == "jvp":
        for j in range(problem.inputs.size):
            matrix[:, j] = claimed_column(endpoint, problem, one_hot(problem.inputs, j), f"tangent {j}", notes)
    else:
        for i in rows:
            matrix[i] = claimed_row(endpoint, problem, one_hot(problem.outputs, i), f"cotangent {i}", notes)
    return matrix


def claimed_column(jvp: Function, problem: Problem, direction: Vector, which: str, notes: list[str]) -> Vector:
    """Return what a jvp claims along a direction, shape (m,).

    Parameters
    ----------
    jvp : Function
        The endpoint.
    problem : Problem
        apply and x0.
    direction : ndarray, shape (n,)
        Tangent, in real input coordinates.
    which : str
        What to call the tangent in messages.
    notes : list of str
        Receives remarks on harmless oddities.

    Raises
    ------
    Breach
        As for :func:`claimed_matrix`.
    """
    result = jvp(problem.arguments(), tangent(problem.inputs, direction), where=f"x0 and {which}")
    column, remarks = returned("jvp", result, problem.outputs, "apply's output")
    notes.extend(remarks)
    return column


def claimed_row(vjp: Function, problem: Problem, cotangent: Vector, which: str, notes: list[str]) -> Vector:
    """Return what a vjp claims for a cotangent, shape (n,); parameters as for :func:`claimed_column`.

    The gradient g of cotangent c satisfies Re<g, t> = Re<c, J t>, so its real and imaginary parts are the
    entries for the real and the imaginary part of the input.
    """
    result = vjp(problem.arguments(), tangent(problem.outputs, cotangent), where=f"x0 and {which}")
    gradient, remarks = returned("vjp", result, problem.inputs, "x0")
    notes.extend(remarks)
    return gradient


def one_hot(layout: Layout, coordinate: int) -> Vector:
    """Return the vector of a layout that is 1 at one real coordinate."""
    vector = np.zeros(layout.size)
    vector[coordinate] = 1.0
    return vector
