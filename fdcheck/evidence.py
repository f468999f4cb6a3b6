"""What figures of a report are drawn from: errors in bins, a sample of entries, and one plain entry with its steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from fdcheck.results import Finding

MARKS = ("not looked at", "agrees", "kink or jump", "undecided", "disagrees")
"""What was found of an entry, the gravest last; of a bin, what was found of its gravest entry."""


@dataclass(frozen=True)
class Evidence:
    """One endpoint's claims beside the measurement, small enough to keep however large the Jacobian is.

    Entries count as real ones: a complex element is two rows or two columns.

    Parameters
    ----------
    endpoint : str
        ``'jacobian'``, ``'jvp'`` or ``'vjp'``.
    outputs, inputs : tuple of str
        Paths of the blocks of rows and of columns.
    output_starts, input_starts : tuple of int
        First row, or column, of each path in the whole Jacobian.
    rows, columns : ndarray of int, shapes (r + 1,) and (c + 1,)
        First row, or column, of each bin, and one past the last; at most 128 bins each. Columns that were not measured
        alone lie in none, so that of a sample a bin holds only what was looked at.
    excess : ndarray, shape (r, c)
        Largest error in each bin as a multiple of what is allowed; without meaning where nothing was looked at.
    marks : ndarray of int8, shape (r, c)
        Gravest of what was found in each bin, an index into ``fdcheck.evidence.MARKS``.
    claimed, estimated, error : ndarray, shape (p,)
        Claims, measured values and error bars of all entries, or of about 2000: failing ones and a sample of the
        others.
    point_marks : ndarray of int8, shape (p,)
        What was found of each of them.
    typical : Finding or None
        An entry that agrees, with its steps.
    """

    endpoint: str
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    output_starts: tuple[int, ...]
    input_starts: tuple[int, ...]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    excess: NDArray[np.float64]
    marks: NDArray[np.int8]
    claimed: NDArray[np.float64]
    estimated: NDArray[np.float64]
    error: NDArray[np.float64]
    point_marks: NDArray[np.int8]
    typical: Finding | None = None

    def renamed(self, endpoint: str, path: Callable[[str], str] = str) -> Evidence:
        """Return the same under another name of the endpoint, its paths written as ``path`` writes them."""
        entry = self.typical and dataclasses.replace(
            self.typical, endpoint=endpoint, input=path(self.typical.input), output=path(self.typical.output)
        )
        outputs, inputs = tuple(map(path, self.outputs)), tuple(map(path, self.inputs))
        return dataclasses.replace(self, endpoint=endpoint, outputs=outputs, inputs=inputs, typical=entry)
