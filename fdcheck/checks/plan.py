"""What a check measures: which input elements move, and which output elements a vjp is asked for."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem.callables import Problem
from fdcheck.problem.trees import Layout, Leaf
from fdcheck.settings import Settings

SMALL = 1000
"""Elements on one side of a derivative that are looked at one by one where nothing else is asked for: 4000 applies of a
function, or 1000 calls of a vjp, take seconds to minutes at a millisecond each."""

SAMPLE = 100
"""Input elements sampled where moving all of them together says too little, and nothing else is asked for."""

_ROWS = 32
"""Output elements that a vjp is asked for one by one where there are more than :data:`SMALL`; random cotangents weigh
all of them."""

_LEAST = 8
"""Elements sampled of every path, where the budget allows: a wrong row or column of a small leaf shows in them."""

_FIXED = 50
"""Applies that do not grow with the sample: x0 and its noise (10 to 52), and a probe of what is not in the sample."""

_FAR = 2
"""Applies that the search for hidden state takes: a far point, and x0 again."""

_EACH = {1: 6, 2: 10}
"""Applies that a real input coordinate is given in a plan, by the least number of steps: twice what a smooth right
claim costs, since what is left over helps in doubtful entries."""


@dataclass(frozen=True)
class Plan:
    """What is measured and compared.

    Parameters
    ----------
    columns : ndarray of int, shape (k,)
        Real input coordinates to move, ascending.
    rows : ndarray of int, shape (r,)
        Real output coordinates for which a vjp is called, ascending.
    elements : dict of str to (int, int)
        By input path: elements sampled, and elements there are.
    size, outputs : int
        Real coordinates of the input and of the output in all.
    reason : str
        The method and why it was chosen.
    """

    columns: NDArray[np.int64]
    rows: NDArray[np.int64]
    elements: Mapping[str, tuple[int, int]]
    size: int
    outputs: int
    reason: str = ""

    @property
    def has_all_rows(self) -> bool:
        """Whether a vjp is called for every output."""
        return len(self.rows) == self.outputs

    @property
    def is_whole(self) -> bool:
        """Whether every column is measured."""
        return len(self.columns) == self.size

    @property
    def others(self) -> NDArray[np.int64]:
        """Real input coordinates that are not measured one by one."""
        return np.setdiff1d(np.arange(self.size), self.columns, assume_unique=True)


def planned(problem: Problem, settings: Settings) -> Plan:
    """Return what to measure within the budgets of the settings.

    A sample is drawn without replacement, and hangs on the seed and on the path that it is drawn from, but on no
    other path and on no endpoint: a check that is narrowed to fewer of them sees the same elements again.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    settings : Settings
        ``method``, ``max_evals``, ``max_applies``, ``max_output_samples`` and ``seed`` are read.
    """
    n, m = problem.inputs.size, problem.outputs.size
    most, rows = settings.max_evals or SMALL, settings.max_output_samples or (SMALL if m <= SMALL else _ROWS)
    chosen_rows, _ = _sample(problem.outputs, rows, settings.seed)
    is_free = settings.method == "auto" and not asks_for_columns(settings)
    if settings.method == "probe" or (is_free and n > SMALL):
        why = "asked for" if settings.method == "probe" else f"there are {n} inputs, more than {SMALL}"
        return Plan(np.empty(0, np.int64), chosen_rows, {}, n, m, f"probe: all inputs moved together ({why})")
    if settings.max_applies is not None:
        most = min(most, max(1, (settings.max_applies - _FIXED) // _EACH[settings.least_steps]))
    columns, elements = _sample(problem.inputs, most, settings.seed)
    is_whole = len(columns) == n
    what = "every input moved alone" if is_whole else "a sample of inputs moved alone, the others together"
    return Plan(columns, chosen_rows, elements, n, m, f"elementwise: {what}")


def asks_for_columns(settings: Settings) -> bool:
    """Return whether an option is set that says how inputs are moved one by one."""
    asked = (settings.max_evals, settings.max_applies, settings.eps, settings.eps_for or None)
    return any(option is not None for option in asked)


def sample(problem: Problem, plan: Plan, settings: Settings) -> Plan:
    """Return a plan with a sample of input elements, where moving all of them together said too little."""
    columns, elements = _sample(problem.inputs, settings.max_evals or SAMPLE, settings.seed)
    why = "elementwise: a sample of inputs moved alone (moving all of them together says too little of single ones)"
    return Plan(columns, plan.rows, elements, plan.size, plan.outputs, why)


def expected_applies(plan: Plan, settings: Settings) -> int:
    """Return about how often apply is called for a smooth right claim; more where something is in doubt."""
    each = 8 if settings.full_accuracy else 2 * settings.least_steps
    noise = 18 if 0 < len(plan.columns) < plan.size else 9
    return 1 + _FAR + noise + each * len(plan.columns) + (0 if plan.is_whole else 4)


def whole(problem: Problem) -> Plan:
    """Return the plan that measures everything."""
    counts = {leaf.path: (leaf.size // leaf.parts,) * 2 for leaf in problem.inputs.leaves}
    n, m = problem.inputs.size, problem.outputs.size
    return Plan(np.arange(n), np.arange(m), counts, n, m)


def _sample(layout: Layout, most: int, seed: int) -> tuple[NDArray[np.int64], dict[str, tuple[int, int]]]:
    """Return the real coordinates of a sample of elements, and how many elements of how many by path.

    The budget is shared among all leaves, also those that are not selected, so that selecting changes no sample.
    """
    if layout.size <= most and not layout.resting:
        return np.arange(layout.size), {leaf.path: (leaf.size // leaf.parts,) * 2 for leaf in layout.leaves}
    everything = sorted((*layout.leaves, *layout.resting), key=lambda leaf: leaf.position)
    sizes = [leaf.size // leaf.parts for leaf in everything]
    share = dict(zip((leaf.position for leaf in everything), _shares(sizes, most), strict=True))
    parts: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    counts = {}
    for leaf in layout.leaves:
        size, wanted = leaf.size // leaf.parts, share[leaf.position]
        chosen = _drawn(leaf, size, wanted, seed)
        counts[leaf.path] = (len(chosen), size)
        parts.append((leaf.start + chosen[:, None] * leaf.parts + np.arange(leaf.parts)).ravel())
    return np.sort(np.concatenate(parts)), counts


def _drawn(leaf: Leaf, size: int, wanted: int, seed: int) -> NDArray[np.int64]:
    """Return elements of a leaf, drawn without replacement by a stream that hangs on the seed and the path."""
    if wanted >= size:
        return np.arange(size)
    draw = np.random.default_rng([seed, zlib.crc32(leaf.path.encode())])
    return draw.choice(size, wanted, replace=False)


def _shares(sizes: Sequence[int], most: int) -> list[int]:
    """Return how many elements each leaf may give: a least number for each, the rest in proportion to size.

    Where there are more leaves than elements to sample, the largest leaves give one each.
    """
    size = np.array(sizes, np.int64)
    if size.sum() <= most:
        return list(sizes)
    filled = int(np.count_nonzero(size))
    if filled > most:
        share = np.zeros_like(size)
        share[np.argsort(-size, kind="stable")[:most]] = 1
        return [int(k) for k in share]
    share = np.minimum(size, min(_LEAST, most // filled))
    rest, room = most - share.sum(), size - share
    ideal = rest * (room / room.sum())
    share += np.floor(ideal).astype(np.int64)
    short = most - share.sum()
    share[np.argsort(np.floor(ideal) - ideal, kind="stable")[:short]] += 1  # largest remainders
    return [int(k) for k in share]
