"""Points at which a check can begin: something to move, and finite numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.results import InvalidInput


def require_usable(argument: str, x0: Any) -> None:
    """Raise InvalidInput, in the name of the user's argument, where nothing can be moved.

    Parameters
    ----------
    argument : str
        What the user calls it.
    x0 : object
        Structure of arrays.
    """
    leaves, layout = trees.structure(x0, "x")
    if not layout.size:
        shapes = trees.shapes_text(layout) or "nothing that can be differentiated"
        raise InvalidInput(f"{argument}: expected at least one element to differentiate by, got {shapes}")
    for leaf in layout.leaves:
        bad = np.argwhere(~np.isfinite(leaves[leaf.position]))
        if len(bad):
            index = tuple(int(k) for k in bad[0])
            place = f"{leaf.path}{list(index) or ''}"
            raise InvalidInput(f"{argument}: expected finite numbers, got {leaves[leaf.position][index]} at {place}")


def problem_at(apply: Callable[[Any], Any], x0: Any) -> Problem | None:
    """Return a function at a point, None where it raises, which the comparison tells of."""
    try:
        with np.errstate(all="ignore"):
            return Problem(Function("apply", apply), x0)
    except Breach:
        return None
