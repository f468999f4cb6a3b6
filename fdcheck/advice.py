"""What recommend_eps returns: steps for plain differences, what they cost and why, block by block."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA = "fdcheck-advice-1"
"""Form and version of an advice as a dict or JSON."""


@dataclass(frozen=True)
class EpsBlock:
    """Steps for the derivative of one output path with respect to one input path.

    Arrays have the shape ``(*output.shape, *input.shape)``; a complex leaf is its two real parts along one more axis
    at the end of its own axes. NaN stands where there is no such step.

    Parameters
    ----------
    output, input : str
        The two paths.
    value : ndarray
        The measured derivative that errors refer to.
    noise : ndarray, shape of the output
        Standard deviation of the noise of each output.
    eps, error : ndarray
        Best step of a plain central difference, and the absolute error expected there: as measured at this x0 where
        the estimate is sharper than the difference, else its typical size.
    low, high : ndarray
        Ends of the safe range of central steps, within which the error stays under rtol.
    forward_eps, forward_error, forward_low, forward_high : ndarray
        The same for a plain forward difference.
    below, above : ndarray of str
        What ends the safe range: ``'rounding'``, ``'noise'`` or ``'resolution'`` (of the input) below;
        ``'curvature'``, ``'kink'``, ``'jump'``, ``'domain edge'``, ``'bounds'`` or ``'range'`` (nothing wider was
        looked at) above.
    reason : ndarray of str
        Why there is no safe range, empty where there is one: ``'noise'``, ``'curvature'``, ``'kink'``, ``'jump'``,
        ``'domain edge'``, ``'bounds'`` or ``'nonfinite'``.
    step : float
        One central step for all entries.
    step_error : float
        Largest relative error expected there.
    outside : int
        Entries with a safe range that does not hold that step.
    usual : dict of str to float
        Largest relative error expected at usual steps: ``'1e-4'`` and ``'1e-6'`` (central), ``'scipy 2-point'``
        (forward) and ``'scipy 3-point'`` (central).
    """

    output: str
    input: str
    value: NDArray[np.float64]
    noise: NDArray[np.float64]
    eps: NDArray[np.float64]
    error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    forward_eps: NDArray[np.float64]
    forward_error: NDArray[np.float64]
    forward_low: NDArray[np.float64]
    forward_high: NDArray[np.float64]
    below: NDArray[np.str_]
    above: NDArray[np.str_]
    reason: NDArray[np.str_]
    step: float
    step_error: float
    outside: int
    usual: Mapping[str, float]


@dataclass(frozen=True)
class EpsCurve:
    """The error of plain central differences at each step, of the entry of an input whose safe range is narrowest.

    Parameters
    ----------
    output : str
        Path of the output.
    output_index, input_index : tuple of int
        Element of the output, and of the input.
    eps : ndarray, shape (k,)
        Steps, ascending.
    error, noise, truncation : ndarray, shape (k,)
        Relative error as measured, and the size of each of its two parts as they are modelled.
    doubt : float
        Typical relative error of the derivative that errors were taken from: smaller ones are not resolved.
    """

    output: str
    output_index: tuple[int, ...]
    input_index: tuple[int, ...]
    eps: NDArray[np.float64]
    error: NDArray[np.float64]
    noise: NDArray[np.float64]
    truncation: NDArray[np.float64]
    doubt: float


@dataclass(frozen=True)
class EpsPath:
    """One step for all that depends on one input path.

    Parameters
    ----------
    input : str
        The path.
    eps : float
        Central step, in the unit of the input: the most accurate one among those that leave the fewest entries
        outside of their safe ranges; NaN where no step gives a derivative.
    error : float
        Largest relative error expected there, of the entries with a safe range if there are any.
    low, high : float
        Steps that are safe for all entries with a safe range; NaN where there is none.
    below, above : str
        What ends that range, as in :class:`EpsBlock`.
    entries, outside, without : int
        Entries that depend on the input (all, if none does); of these, those whose safe range does not hold ``eps``,
        and those without a safe range.
    reasons : dict of str to int
        Why the latter have none, with counts.
    usual : dict of str to float
        Largest relative error expected at usual steps.
    curve : EpsCurve or None
        Error against step at the entry that leaves the least choice; None where no entry depends on the input. Not part
        of :meth:`EpsAdvice.to_dict`.
    """

    input: str
    eps: float
    error: float
    low: float
    high: float
    below: str
    above: str
    entries: int
    outside: int
    without: int
    reasons: Mapping[str, int]
    usual: Mapping[str, float]
    curve: EpsCurve | None = field(default=None, compare=False, repr=False, metadata={"in_dict": False})

    @property
    def is_safe(self) -> bool:
        """Whether ``eps`` lies in the safe range of every entry that has one, and there is such an entry."""
        return self.outside == 0 and self.without < self.entries


@dataclass(frozen=True)
class EpsAdvice:
    """The result of :func:`fdcheck.recommend_eps`.

    Parameters
    ----------
    paths : tuple of EpsPath
        One for each input path.
    blocks : tuple of EpsBlock
        One for each output path and input path.
    rtol : float
        Relative error that safe steps stay under; the largest, where dtypes differ.
    applies : int
        Calls of apply.
    seed : int
        Seed of the random direction along which noise was measured.
    notes : tuple of str
        Remarks on what was measured.
    """

    paths: tuple[EpsPath, ...]
    blocks: tuple[EpsBlock, ...]
    rtol: float
    applies: int
    seed: int
    notes: tuple[str, ...] = ()

    @property
    def eps_for(self) -> dict[str, float]:
        """The steps by input path, as :func:`fdcheck.verify` takes them."""
        return {path.input: path.eps for path in self.paths if math.isfinite(path.eps)}

    def __getitem__(self, paths: tuple[str, str]) -> EpsBlock:
        """Return the block of ``(output path, input path)``."""
        for block in self.blocks:
            if (block.output, block.input) == paths:
                return block
        known = ", ".join(f"({b.output!r}, {b.input!r})" for b in self.blocks)
        raise KeyError(f"no block {paths!r}; there are {known}")

    def __str__(self) -> str:
        from fdcheck.report.advice import advice_text

        return advice_text(self)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from fdcheck.report.advice_html import advice_fragment

        return advice_fragment(self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the advice as one HTML page that needs no other file and no network.

        Parameters
        ----------
        path : path-like
            File to write; an older one is replaced.

        Raises
        ------
        InvalidInput
            If Jinja2 or matplotlib is missing (``pip install 'fdcheck[report]'``).
        OSError
            If the file cannot be written.
        """
        from fdcheck.report.advice_html import advice_page
        from fdcheck.report.html import write_html

        write_html(advice_page(self), path)

    def plot(self, input: str | None = None, *, ax: Axes | None = None) -> Axes:  # noqa: A002 (what a path calls it)
        """Draw the error of plain central differences against their step with matplotlib.

        Parameters
        ----------
        input : str, optional
            Path of the input; by default the first that has a curve. What is drawn is its entry with the narrowest safe
            range.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidInput
            If there is no such curve, or matplotlib is missing (``pip install 'fdcheck[report]'``).
        """
        from fdcheck.report.plots import plot_advice

        return plot_advice(self, input, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as plain dicts, lists, numbers and strings; NaN and infinities are strings."""
        from fdcheck.report.plain import plain

        return {"schema": SCHEMA, "eps_for": plain(self.eps_for), **plain(self)}

    def to_json(self) -> str:
        """Return the advice as one JSON document."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)
