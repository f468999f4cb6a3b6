"""Claims that stand in the right place with a wrong value: NaN, zero, off by a factor, conjugated, rounded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.patterns import STANDS_OUT, Pattern, Table, cover, entries_text, is_explained, lines_of, listed
from fdcheck.problem.trees import Leaf

_NAMED_WITHIN = 1e-3
"""Relative distance at which a ratio of claim and measurement has a name (2, pi / 180): the default rtol."""


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
    fills = cover(table, missing)
    half = _triangle(table, missing) if fills.what in ("", "column", "row") else ""
    if half:
        return Pattern("triangle", f"all {{n}} entries{{in}} {half} are {largest}: one triangle only.", missing)
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


def not_zero(table: Table) -> Pattern | None:
    """Return what is claimed although the derivative is zero there."""
    failing = table.failing
    known = table.bar <= 0.01 * np.abs(table.claims)  # at a kink the bar is as wide as the gap
    if failing.sum() < 2 or not ((np.abs(table.estimate) <= table.bar) & known)[failing].all():
        return None
    text = (
        f"all {{n}} failing entries{{in}}: measured 0, claimed up to {np.abs(table.claims[failing]).max():.4g}: the "
        "output does not depend on these inputs here; a mask or a condition is left out, or there is a term too many."
    )
    return Pattern("not zero", text, failing, "set these entries to zero", np.where(failing, 0.0, table.claims))


def _plural(word: str, leaves: Sequence[Leaf], mask: NDArray[np.bool_]) -> str:
    return word if len(lines_of(mask, leaves)) == 1 else word + "s"


def _triangle(table: Table, missing: NDArray[np.bool_]) -> str:
    """Return which triangle of a square matrix is missing: of the block, or of each leaf that is a square matrix."""
    if table.claims.shape[0] == table.claims.shape[1]:
        word = _one_side(table.informative, missing, _beside_diagonal(missing.shape))
        if word:
            return f"{word} the diagonal"
    for side, leaves, turn in (("by", table.inputs, False), ("of", table.outputs, True)):
        informative, lost = (mask.T if turn else mask for mask in (table.informative, missing))
        hit = [leaf for leaf in leaves if lost[:, leaf.start : leaf.stop].any()]
        if len(hit) == 1 and len(hit[0].shape) == 2 and hit[0].shape[0] == hit[0].shape[1]:
            own = np.s_[:, hit[0].start : hit[0].stop]
            beside = np.repeat(_beside_diagonal(hit[0].shape).ravel(), hit[0].parts)
            word = _one_side(informative[own], lost[own], np.broadcast_to(beside, lost[own].shape))
            if word:
                return f"{side} the elements of {hit[0].path} {word} its diagonal"
    return ""


def _beside_diagonal(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return how far right of the diagonal each entry of a matrix stands."""
    return np.arange(shape[1])[None, :] - np.arange(shape[0])[:, None]


def _one_side(informative: NDArray[np.bool_], missing: NDArray[np.bool_], beside: NDArray[np.int64]) -> str:
    for word, one in (("above", beside > 0), ("below", beside < 0)):
        other = (beside != 0) & ~one
        if (missing == (informative & one)).all() and (informative & other).any():
            return word
    return ""


_MANY, _ALIKE = 8, 0.1
"""Entries whose ratios differ by a tenth of their distance from 1 at most: then a factor too close to 1 for each to
tell is told by all together."""


def factor(table: Table, partly: bool) -> Pattern | None:
    """Return the factor by which failing claims are off; unless ``partly``, all entries that are not zero."""
    failing = table.failing
    if not partly and (table.informative & ~failing).any():
        return None
    stands = failing & (np.abs(table.estimate) > STANDS_OUT * table.bar)
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
            alike = np.abs(ratios / ratio - 1) <= _ALIKE * abs(ratio - 1)
            many = alike.sum() >= _MANY and alike.all() and not table.off(repaired).any()
            good = many or is_explained(table, repaired, fitted=0 if meaning else 1)
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
    (math.pi / 180, "pi / 180: degrees and radians are mixed up"),
    (180 / math.pi, "180 / pi: degrees and radians are mixed up"),
    (-2.0, "the sign is wrong, and twice the derivative"),
    (-0.5, "the sign is wrong, and half the derivative"),
    (2 * math.pi, "2 pi: an angular frequency taken for a frequency, or the reverse"),
    (1 / (2 * math.pi), "1 / (2 pi): a frequency taken for an angular frequency, or the reverse"),
)


def _named(table: Table) -> Iterator[tuple[float, str]]:
    """Yield the factors that have a name, with what they mean; those of a mean or a sum for each size there is."""
    sizes: dict[int, str] = {}
    for leaf in (*table.inputs, *table.outputs):
        sizes.setdefault(math.prod(leaf.shape), f"number of elements of {leaf.path}")
        for axis, length in enumerate(leaf.shape if len(leaf.shape) > 1 else ()):
            sizes.setdefault(length, f"length of axis {axis} of {leaf.path}")
    sizes = {n: of for n, of in sizes.items() if n > 1}
    for value, meaning in _PLAIN:
        pair = (
            f", or a mean and a sum confused (2 is the {sizes[2]})" if 2 in sizes and abs(value) in (2.0, 0.5) else ""
        )
        yield value, meaning + pair
    for n, of in sizes.items():
        if n != 2:
            yield float(n), f"{n} times too large, and {n} is the {of}: a sum where apply takes a mean"
            yield 1.0 / n, f"{n} times too small, and {n} is the {of}: a mean where apply takes a sum"


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
