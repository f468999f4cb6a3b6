"""Claims beside the measurement as a table, what counts as evidence there, and patterns of values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.findings import Comparison
from fdcheck.numerics import kernels
from fdcheck.problem.callables import Problem
from fdcheck.problem.trees import Leaf

_MEASURED = (kernels.AGREES, kernels.DISAGREES, kernels.KINK, kernels.JUMP)

_TELLS = 3.0
"""Allowances by which a failing claim has to be changed before its agreeing afterwards tells anything: a change
within the allowance of the old value may agree with anything."""

_ACCIDENT = 30.0
"""A pattern is named when less than one accident in so many is expected among all patterns tried with it. A
number that is changed by k allowances agrees by accident about once in k times; the entries multiply."""

_STANDS_OUT = 3.0  # error bars from zero at which a measured slope is no zero: as in the kernels' noise bars

_NAMED_WITHIN = 1e-3
"""Relative distance at which a ratio of claim and measurement has a name (2, pi / 180): the default rtol."""

_NAMES = 6  # columns named one by one; more do not help a reader find the place


@dataclass(frozen=True)
class Table:
    """A block of one endpoint's claims beside the measurement.

    Parameters
    ----------
    outputs, inputs : tuple of Leaf
        What its rows and columns stand for; their starts count within this block.
    rows, columns : ndarray of int
        Coordinates of the whole problem.
    claims, estimate, bar, rtol : ndarray, shape (m, n)
        Claims, measurement, error bars and relative tolerances.
    atol : float
        Absolute tolerance.
    measured, failing : ndarray of bool, shape (m, n)
        Entries that count, and those of them that disagree.
    """

    outputs: tuple[Leaf, ...]
    inputs: tuple[Leaf, ...]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    claims: NDArray[np.float64]
    estimate: NDArray[np.float64]
    bar: NDArray[np.float64]
    rtol: NDArray[np.float64]
    atol: float
    measured: NDArray[np.bool_]
    failing: NDArray[np.bool_]

    @property
    def informative(self) -> NDArray[np.bool_]:
        """Entries that are measured to be no zeros, or fail."""
        return self.measured & ((np.abs(self.estimate) > _STANDS_OUT * self.bar) | self.failing)

    @property
    def name(self) -> str:
        """The block's derivative in words."""
        return f"d {', '.join(leaf.path for leaf in self.outputs)} / d {', '.join(leaf.path for leaf in self.inputs)}"

    def allowed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how far claims of these values may be off."""
        size = np.fmax(np.abs(values), np.abs(self.estimate))
        return self.atol + self.rtol * size + self.bar

    def off(self, values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which entries would disagree if these values were claimed."""
        with np.errstate(invalid="ignore"):
            near = np.abs(values - self.estimate) <= self.allowed(values)
        return self.measured & ~near & ((values != self.claims) | self.failing)

    def turned(self) -> Table:
        """Return the same block with rows for columns."""
        arrays = ("claims", "estimate", "bar", "rtol", "measured", "failing")
        return Table(
            self.inputs, self.outputs, self.columns, self.rows, atol=self.atol,
            **{name: getattr(self, name).T for name in arrays},
        )  # fmt: skip

    def part(self, outputs: Sequence[Leaf], inputs: Sequence[Leaf]) -> Table:
        """Return the block of some leaves."""
        rows, columns = _coordinates(outputs), _coordinates(inputs)
        own = np.ix_(rows, columns)
        arrays = ("claims", "estimate", "bar", "rtol", "measured", "failing")
        return Table(
            _rebased(outputs), _rebased(inputs), self.rows[rows], self.columns[columns], atol=self.atol,
            **{name: getattr(self, name)[own] for name in arrays},
        )  # fmt: skip

    def only(self, mask: NDArray[np.bool_]) -> Table:
        """Return the same block with other entries left out."""
        return dataclasses.replace(self, measured=self.measured & mask, failing=self.failing & mask)


def _coordinates(leaves: Sequence[Leaf]) -> NDArray[np.int64]:
    return np.concatenate([np.arange(leaf.start, leaf.stop) for leaf in leaves])


def _rebased(leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
    ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
    return tuple(dataclasses.replace(leaf, start=int(start)) for leaf, start in zip(leaves, ends, strict=False))


def table_of(problem: Problem, comparison: Comparison) -> Table:
    """Return all claims of an endpoint beside the measurement."""
    found, goal = comparison.found.measurement, comparison.found.accuracy
    bar = found.error.copy()
    for i, j in np.argwhere(comparison.code == kernels.KINK):
        if int(j) in found.columns:  # whatever lies between the slopes of the two sides is right
            sides = np.array(found.columns[int(j)].sides(int(i)))
            gaps = np.abs(sides - found.estimate[i, j])
            bar[i, j] = max(bar[i, j], float(np.nanmax(gaps[:, :1], initial=0.0)))
    measured = np.isfinite(found.estimate) & np.isin(comparison.code, _MEASURED)
    return Table(
        problem.outputs.leaves,
        problem.inputs.leaves,
        np.arange(problem.outputs.size),
        np.arange(problem.inputs.size),
        comparison.claims,
        found.estimate,
        bar,
        np.maximum(goal.rtol_out[:, None], goal.rtol_in[None, :]),
        goal.atol,
        measured,
        measured & (comparison.code == kernels.DISAGREES),
    )


@dataclass(frozen=True)
class Pattern:
    """A way in which the claims of a block are wrong.

    Parameters
    ----------
    kind : str
        One stable word for it.
    text : str
        A sentence with its evidence; ``{n}`` stands for the number of entries, ``{in}`` for ``in d y / d x``.
    explained : ndarray of bool, shape (m, n)
        Failing entries that it accounts for.
    repair : str
        What to do about it, empty where the right values are not to be had from the claims.
    repaired : ndarray, shape (m, n), or None
        Claims after the repair, NaN where the claims do not hold the right value.
    counted : int
        Entries that ``{n}`` counts; the explained ones if 0.
    """

    kind: str
    text: str
    explained: NDArray[np.bool_]
    repair: str = ""
    repaired: NDArray[np.float64] | None = None
    counted: int = 0


def is_explained(table: Table, repaired: NDArray[np.float64], tried: int = 1, fitted: int = 0) -> bool:
    """Return whether repaired claims agree everywhere, and so well that it is no accident.

    Parameters
    ----------
    table : Table
        The claims as they are.
    repaired : ndarray, shape (m, n)
        Claims after a repair, NaN where it leaves them open.
    tried : int
        Repairs of this kind that were tried.
    fitted : int
        Numbers of the repair that were taken from the entries themselves.
    """
    known = np.isfinite(repaired)
    explained = table.failing & known
    if 2 * explained.sum() < max(2, table.failing.sum()) or (table.off(repaired) & known).any():
        return False
    moved = np.abs(table.claims[explained] - repaired[explained])
    with np.errstate(divide="ignore"):
        ratios = moved / table.allowed(repaired)[explained]
    telling = np.sort(ratios[ratios > _TELLS])
    if len(telling) < 2:
        return False
    return float(np.log(telling[: len(telling) - fitted]).sum()) >= math.log(_ACCIDENT * tried)


# words


def lines_of(mask: NDArray[np.bool_], leaves: Sequence[Leaf]) -> list[str]:
    """Return names of the elements that stand for columns in which ``mask`` has an entry."""
    hit = mask.any(axis=0)
    names: list[str] = []
    for leaf in leaves:
        own = hit[leaf.start : leaf.stop].reshape(-1, leaf.parts).any(axis=1).reshape(leaf.shape)
        names.extend(_elements(leaf, own))
    return names


def _elements(leaf: Leaf, own: NDArray[np.bool_]) -> Iterator[str]:
    """Yield names of elements of a leaf, a slice where they fill one."""
    if own.size > 1 and own.all():
        yield leaf.path
        return
    for axis in range(own.ndim if own.ndim > 1 else 0):
        full = own.all(axis=tuple(k for k in range(own.ndim) if k != axis))
        if full.sum() == own.any(axis=tuple(k for k in range(own.ndim) if k != axis)).sum() > 0:
            before, after = [":"] * axis, [":"] * (own.ndim - axis - 1)
            for index in np.flatnonzero(full):
                yield f"{leaf.path}[{', '.join([*before, str(index), *after])}]"
            return
    for element in np.argwhere(own):
        yield leaf.path + (f"[{', '.join(map(str, element))}]" if len(element) else "")


def listed(names: Sequence[str]) -> str:
    """Return names in a row, a count for those beyond the sixth."""
    if len(names) <= _NAMES:
        return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]
    return ", ".join(names[:_NAMES]) + f" and {len(names) - _NAMES} more"


def counted(word: str, names: Sequence[str]) -> str:
    """Return ``columns x[0] and x[2]``."""
    return f"{word}{'s' if len(names) > 1 else ''} {listed(names)}"


@dataclass(frozen=True)
class Cover:
    """What the entries of a mask fill: ``whole``, ``input``, ``output``, ``block``, ``column``, ``row`` or nothing."""

    what: str
    text: str = ""


def cover(table: Table, mask: NDArray[np.bool_]) -> Cover:
    """Return the largest part of a block all of whose informative entries are in ``mask``, and that holds all of it."""
    rest = table.informative & ~mask
    if not rest.any():
        return Cover("whole")
    hits = {
        (a, b): bool(mask[a.start : a.stop, b.start : b.stop].any())
        for a in table.outputs for b in table.inputs
    }  # fmt: skip
    inputs = [b for b in table.inputs if any(hits[a, b] for a in table.outputs)]
    outputs = [a for a in table.outputs if any(hits[a, b] for b in table.inputs)]
    if len(inputs) < len(table.inputs) and not rest[:, _coordinates(inputs)].any():
        return Cover("input", listed([leaf.path for leaf in inputs]))
    if len(outputs) < len(table.outputs) and not rest[_coordinates(outputs)].any():
        return Cover("output", listed([leaf.path for leaf in outputs]))
    blocks = [key for key, hit in hits.items() if hit]
    if len(hits) > len(blocks) and not any(rest[a.start : a.stop, b.start : b.stop].any() for a, b in blocks):
        return Cover("block", listed([f"d {a.path} / d {b.path}" for a, b in blocks]))
    if not (rest & _spread(mask, table.inputs)).any():
        return Cover("column", listed(lines_of(mask, table.inputs)))
    if not (rest & _spread(mask.T, table.outputs).T).any():
        return Cover("row", listed(lines_of(mask.T, table.outputs)))
    return Cover("")


def _spread(mask: NDArray[np.bool_], leaves: Sequence[Leaf]) -> NDArray[np.bool_]:
    """Return the columns, of whole elements, in which ``mask`` has an entry."""
    hit = mask.any(axis=0)
    for leaf in leaves:
        own = hit[leaf.start : leaf.stop].reshape(-1, leaf.parts)
        own |= own.any(axis=1, keepdims=True)
    return np.broadcast_to(hit, mask.shape)


def entries_text(table: Table, mask: NDArray[np.bool_]) -> str:
    """Return which entries a mask holds, ``{n}`` for how many: ``all {n} entries by x[1]``."""
    fills = cover(table, mask)
    if fills.what == "whole":
        return "all {n} entries{in}" + ("" if mask.sum() == table.measured.sum() else " that are not zero")
    where = {
        "input": "by {}", "output": "of {}", "block": "of {}", "column": "by {}", "row": "of {}",
    }  # fmt: skip
    if fills.what:
        return "all {n} entries " + where[fills.what].format(fills.text) + "{in} that are not zero"
    right = int((table.informative & ~mask).sum())
    return "all {n} failing entries{in}" + f" ({right} {'others agree' if right > 1 else 'other agrees'})"


# patterns of values


def not_finite(table: Table) -> Pattern | None:
    """Return where claims are NaN or infinite."""
    odd = table.failing & ~np.isfinite(table.claims)
    if not odd.any():
        return None
    nan = bool(np.isnan(table.claims[odd]).any())
    word = "NaN" if nan and np.isnan(table.claims[odd]).all() else "NaN or infinite" if nan else "infinite"
    fills = cover(table, odd)
    where = {
        "whole": "all {n} entries", "column": "the {n} entries by ", "input": "the {n} entries by ",
    }.get(fills.what, "the {n} entries of ") + fills.text  # fmt: skip
    if not fills.what:
        where = "{n} entries by " + listed(lines_of(odd, table.inputs))
    if odd.sum() == 1:
        i, j = (int(k[0]) for k in np.nonzero(odd))
        where = f"the entry {lines_of(odd.T, table.outputs)[0]} by {lines_of(odd, table.inputs)[0]}"
        measured = f"the measurement is {table.estimate[i, j]:.4g}"
        return Pattern("NaN" if nan else "infinite", f"{where} is {word} where {measured}.", odd)
    verb = f"claimed {word}, the measurement is finite there"
    return Pattern("NaN" if nan else "infinite", f"{where}: {verb}.", odd)


def zeros(table: Table) -> Pattern | None:
    """Return what is claimed to be zero and is not: all of it, an input, columns, rows, a triangle."""
    missing = table.failing & (table.claims == 0)
    if missing.sum() < 2 or (table.failing & ~missing).any():
        return None
    largest = f"claimed 0, measured up to {np.abs(table.estimate[missing]).max():.4g}"
    half = _triangle(table, missing)
    if half:
        return Pattern("triangle", f"all {{n}} entries{{in}} {half} are {largest}: one triangle only.", missing)
    fills = cover(table, missing)
    kind = {
        "whole": "zeros", "input": "missing input", "output": "missing output", "block": "missing block",
        "column": "missing column", "row": "missing row",
    }.get(fills.what)  # fmt: skip
    if kind is None:
        return None
    what = {
        "whole": "the claim is zero",
        "input": f"the part of {fills.text} is missing",
        "output": f"the part of {fills.text} is missing",
        "block": "this part is missing",
        "column": f"{_plural('column', table.inputs, missing)} {fills.text} missing",
        "row": f"{_plural('row', table.outputs, missing.T)} {fills.text} missing",
    }[fills.what]
    return Pattern(kind, f"{entries_text(table, missing)}: {largest}: {what}.", missing)


def _plural(word: str, leaves: Sequence[Leaf], mask: NDArray[np.bool_]) -> str:
    return word if len(lines_of(mask, leaves)) == 1 else word + "s"


def _triangle(table: Table, missing: NDArray[np.bool_]) -> str:
    """Return which triangle of a square matrix is missing: of the block, or of each leaf that is a square matrix."""
    if table.claims.shape[0] == table.claims.shape[1]:
        i, j = np.indices(missing.shape)
        word = _one_side(table.informative, missing, j - i)
        if word:
            return f"{word} the diagonal"
    for side, leaves, turn in (("input", table.inputs, False), ("output", table.outputs, True)):
        if len(leaves) == 1 and len(leaves[0].shape) == 2 and leaves[0].shape[0] == leaves[0].shape[1]:
            i, j = np.indices(leaves[0].shape)
            beside = np.repeat((j - i).ravel(), leaves[0].parts)
            masks = [m.T if turn else m for m in (table.informative, missing)]
            word = _one_side(masks[0], masks[1], np.broadcast_to(beside, masks[1].shape))
            if word:
                return f"{'by' if side == 'input' else 'of'} the elements of {leaves[0].path} {word} its diagonal"
    return ""


def _one_side(informative: NDArray[np.bool_], missing: NDArray[np.bool_], beside: NDArray[np.int64]) -> str:
    for word, one in (("above", beside > 0), ("below", beside < 0)):
        other = (beside != 0) & ~one
        if (missing == (informative & one)).all() and (informative & other).any():
            return word
    return ""


def factor(table: Table, partly: bool) -> Pattern | None:
    """Return the factor by which failing claims are off; unless ``partly``, all entries that are not zero."""
    failing = table.failing
    if not partly and (table.informative & ~failing).any():
        return None
    stands = failing & (np.abs(table.estimate) > _STANDS_OUT * table.bar)
    if not stands.any() or not np.isfinite(table.claims[stands]).all():
        return None
    ratios, slack = table.claims[stands] / table.estimate[stands], (table.bar / np.abs(table.estimate))[stands]
    sharp = slack <= np.median(slack)
    ratio = float(np.median(ratios[sharp]))
    if ratio == 0 or (ratios[sharp] == 0).any():
        return None
    single = int(table.informative.sum()) == 1
    for value, meaning in (*_named(table), (ratio, "")):
        if abs(ratio / value - 1) > _NAMED_WITHIN + 2 * float(np.median(slack)):
            continue
        repaired = np.where(failing, table.claims / value, table.claims)
        if single:
            good = bool(meaning) and _is_plain(value) and slack[0] <= _NAMED_WITHIN and not table.off(repaired).any()
        else:
            good = is_explained(table, repaired, fitted=0 if meaning else 1)
        if good:
            return _factor(table, ratio, value, meaning, repaired)
    return None


def _factor(table: Table, ratio: float, value: float, meaning: str, repaired: NDArray[np.float64]) -> Pattern:
    failing = table.failing
    others = failing.any() and (table.informative & ~failing).any()
    size = f"{abs(ratio):.4g} times too large" if abs(ratio) > 1 else f"{1 / abs(ratio):.4g} times too small"
    says = meaning or (size if ratio > 0 else f"the sign is wrong, and {size}")
    which = entries_text(table, failing) if failing.sum() > 1 else "the one entry{in}"
    inverse = 1 / value
    by = f"{inverse:.6g}" if abs(inverse) < 1e5 else f"{inverse:.6e}"
    target = "these entries" if others else "the claim"
    repair = f"multiply {target} by {by}" if abs(value) < 1 or value == -1 else f"divide {target} by {value:.6g}"
    if value == -1:
        repair = f"change the sign of {target}"
    return Pattern("factor", f"{which}: claimed / measured = {ratio:#.4g}: {says}.", failing, repair, repaired)


def _is_plain(value: float) -> bool:
    return any(abs(value / known - 1) < 1e-12 for known, _ in _PLAIN)


_PLAIN = (
    (-1.0, "the sign is wrong"),
    (2.0, "twice the derivative"),
    (0.5, "half the derivative"),
    (math.pi / 180, "pi / 180: by degrees where apply takes radians, or the reverse"),
    (180 / math.pi, "180 / pi: by radians where apply takes degrees, or the reverse"),
    (-2.0, "the sign is wrong, and twice the derivative"),
    (-0.5, "the sign is wrong, and half the derivative"),
    (2 * math.pi, "2 pi: an angular frequency taken for a frequency, or the reverse"),
    (1 / (2 * math.pi), "1 / (2 pi): a frequency taken for an angular frequency, or the reverse"),
)


def _named(table: Table) -> Iterator[tuple[float, str]]:
    """Yield the factors that have a name, with what they mean; those of a mean or a sum for each size there is."""
    sizes: dict[int, str] = {}
    for leaf in (*table.inputs, *table.outputs):
        sizes.setdefault(math.prod(leaf.shape), f"the elements of {leaf.path}")
        for axis, length in enumerate(leaf.shape if len(leaf.shape) > 1 else ()):
            sizes.setdefault(length, f"axis {axis} of {leaf.path}")
    sizes = {n: of for n, of in sizes.items() if n > 1}
    for value, meaning in _PLAIN:
        pair = f", or the mean and the sum over {sizes[2]} confused" if 2 in sizes and abs(value) in (2.0, 0.5) else ""
        yield value, meaning + pair
    for n, of in sizes.items():
        if n != 2:
            yield float(n), f"{n} times too large, the number of {of}: a sum where apply takes a mean"
            yield 1.0 / n, f"{n} times too small, the number of {of}: a mean where apply takes a sum"


def conjugate(table: Table) -> Pattern | None:
    """Return whether the claim is right under the other complex convention."""
    out, into = ([leaf.parts == 2 for leaf in leaves] for leaves in (table.outputs, table.inputs))
    if not any((*out, *into)):
        return None
    imaginary = [_imaginary(leaves) for leaves in (table.outputs, table.inputs)]
    flip = imaginary[0][:, None] != imaginary[1][None, :]
    repaired = np.where(flip, -table.claims, table.claims)
    if not is_explained(table, repaired):
        return None
    text = (
        "all {n} failing entries{in}, real by imaginary parts, have the wrong sign and agree without it: the claim is "
        "conjugated (the other complex convention)."
    )
    return Pattern("conjugate", text, table.failing, "return the complex conjugate", repaired)


def _imaginary(leaves: Sequence[Leaf]) -> NDArray[np.bool_]:
    return np.concatenate([np.arange(leaf.size) % leaf.parts == 1 for leaf in leaves])


def short_precision(table: Table) -> Pattern | None:
    """Return whether failing claims look computed in float32."""
    failing = table.failing
    if failing.sum() < 2:
        return None
    claims = table.claims[failing]
    with np.errstate(over="ignore"):
        short = claims.astype(np.float32).astype(np.float64) == claims
    row = np.where(table.measured, np.abs(table.estimate), 0.0).max(axis=1)
    off = np.abs(table.claims - table.estimate) / np.where(row > 0, row, np.nan)[:, None]
    worst = float(np.max(off[failing]))
    if not short.all() or not worst <= _FLOAT32_ERRORS * 2.0**-24:
        return None
    text = (
        f"all {{n}} failing claims{{in}} are float32 numbers, off by at most {worst:.2g} of the largest in their row: "
        "the derivative looks computed in float32 (roundoff 6e-08)."
    )
    return Pattern("float32", text, failing)


_FLOAT32_ERRORS = 100.0
"""Roundoffs of float32 that a short computation loses; a thousand operations lose 30 as a rule."""

Detector = Callable[[Table], "Pattern | None"]
