"""What a measurement without a claim returns: a Jacobian with error bars, block by block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.results import InvalidInput


@dataclass(frozen=True)
class Block:
    """The measured derivative of one output path with respect to one input path.

    Parameters
    ----------
    output, input : str
        The two paths.
    value : ndarray, shape ``(*output.shape, *input.shape)``
        Estimates. A complex leaf is its two real parts along one more axis at the end of its own axes.
    error : ndarray
        Error bars, same shape.
    eps : ndarray
        The steps taken, same shape.
    status : ndarray of str
        ``'agrees'`` for a plain derivative, else ``'kink'``, ``'jump'``, ``'undecided'`` or ``'nonfinite'``.
    """

    output: str
    input: str
    value: NDArray[np.float64]
    error: NDArray[np.float64]
    eps: NDArray[np.float64]
    status: NDArray[np.str_]


@dataclass(frozen=True)
class Estimate:
    """The result of :func:`fdcheck.differentiate`: a measured Jacobian.

    Parameters
    ----------
    blocks : tuple of Block
        One for each output path and input path.
    applies : int
        Calls of apply.
    notes : tuple of str
        Remarks on what was measured.
    """

    blocks: tuple[Block, ...]
    applies: int
    notes: tuple[str, ...] = ()

    def __getitem__(self, paths: tuple[str, str]) -> Block:
        """Return the block of ``(output path, input path)``."""
        for block in self.blocks:
            if (block.output, block.input) == paths:
                return block
        known = ", ".join(f"({b.output!r}, {b.input!r})" for b in self.blocks)
        raise KeyError(f"no block {paths!r}; there are {known}")

    def _only(self) -> Block:
        if len(self.blocks) != 1:
            raise InvalidInput(
                f"estimate: there are {len(self.blocks)} blocks, so ask for one: estimate[output path, input path]"
            )
        return self.blocks[0]

    @property
    def value(self) -> NDArray[np.float64]:
        """Estimates, where there is one input leaf and one output leaf."""
        return self._only().value

    @property
    def error(self) -> NDArray[np.float64]:
        """Error bars, where there is one block."""
        return self._only().error

    @property
    def eps(self) -> NDArray[np.float64]:
        """Steps taken, where there is one block."""
        return self._only().eps

    @property
    def status(self) -> NDArray[np.str_]:
        """Statuses, where there is one block."""
        return self._only().status

    def __str__(self) -> str:
        from fdcheck.report.text import estimate_text

        return estimate_text(self)
