"""What a wrong claim looks like: a pattern named with its figures, and the repair that would make it pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.arrangements import rearranged, transposed
from fdcheck.checks.elementwise import Elementwise
from fdcheck.checks.elsewhere import other_side, other_step, wide_columns
from fdcheck.checks.findings import Comparison
from fdcheck.checks.patterns import Pattern, Table, counted, cover, is_explained, lines_of, listed, table_of
from fdcheck.checks.values import conjugate, factor, not_finite, not_zero, short_precision, zeros
from fdcheck.numerics import kernels
from fdcheck.problem.callables import Problem
from fdcheck.problem.trees import Leaf
from fdcheck.results import Diagnosis

_FACTORS = 6  # different factors told line by line; of more the range is told


def diagnosed(problem: Problem, comparison: Comparison) -> tuple[Diagnosis, ...]:
    """Return the patterns in which an endpoint's claims are wrong, with their evidence; empty if none fits.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    comparison : Comparison
        One endpoint's claims beside the measurement.

    Returns
    -------
    tuple of Diagnosis
        Each explains failing entries that no other one explains. Cost in applies: none where a change of the
        claims explains them; else 24 for each of up to four columns.
    """
    if not (comparison.code == kernels.DISAGREES).any():
        return ()
    whole = table_of(problem, comparison)
    found: list[_Found] = []
    odd = not_finite(whole)
    rest = whole
    if odd is not None:
        found.append(_Found(odd, "", odd.explained, None))
        rest = whole.only(~odd.explained)
    if rest.failing.any() and (rest.failing.sum() == 1 or (rest.informative & ~rest.failing).any()):
        found += _beyond_kinks(problem, comparison.found, rest)  # a factor of -1 at abs(x) says less than the kink
        rest = dataclasses.replace(rest, failing=rest.failing & ~_explained(found, whole))
    for tables in _levels(rest):
        for part, name in tables:
            left = rest.failing[np.ix_(part.rows, part.columns)]
            if not left.any() or (part.failing & ~left).any():  # nothing fails, or a larger part has told
                continue
            pattern = _pattern(part)
            if pattern is None:
                continue
            explained, repaired = _mask(part, pattern.explained, whole), _values(part, pattern.repaired, whole)
            found.append(_Found(pattern, name, explained, repaired))
        rest = dataclasses.replace(rest, failing=rest.failing & ~_explained(found, whole))
    if rest.failing.any() and all(one.pattern is odd for one in found):
        more = _elsewhere(problem, comparison.found, rest) if rest.failing.sum() > 1 else []
        pattern = None if more or rest.failing.sum() < 2 else _wrong_lines(rest)
        found += more if pattern is None else [_Found(pattern, "", pattern.explained, None)]
    return tuple(_told(comparison.endpoint, whole, found))


@dataclass(frozen=True)
class _Found:
    """A pattern, the name of the part in which it was found (empty for the whole), both in the whole table."""

    pattern: Pattern
    name: str
    explained: NDArray[np.bool_]
    repaired: NDArray[np.float64] | None


def _mask(part: Table, values: NDArray[np.bool_], whole: Table) -> NDArray[np.bool_]:
    """Return a mask of a part as one of the whole."""
    result = np.zeros(whole.claims.shape, np.bool_)
    result[np.ix_(part.rows, part.columns)] = values
    return result


def _values(part: Table, values: NDArray[np.float64] | None, whole: Table) -> NDArray[np.float64] | None:
    """Return values of a part as ones of the whole, NaN elsewhere."""
    if values is None:
        return None
    result = np.full(whole.claims.shape, np.nan)
    result[np.ix_(part.rows, part.columns)] = values
    return result


def _explained(found: Sequence[_Found], whole: Table) -> NDArray[np.bool_]:
    result = np.zeros(whole.failing.shape, np.bool_)
    for one in found:
        result |= one.explained
    return result


def _levels(table: Table) -> Iterator[list[tuple[Table, str]]]:
    """Yield the table as a whole, then cut by input leaves, by output leaves, by both; with names."""
    outputs = [leaf for leaf in table.outputs if leaf.size]
    inputs = [leaf for leaf in table.inputs if leaf.size]
    yield [(table, "")]
    levels: list[list[tuple[Sequence[Leaf], Sequence[Leaf]]]] = []
    if len(inputs) > 1:
        levels.append([(outputs, [leaf]) for leaf in inputs])
    if len(outputs) > 1:
        levels.append([([leaf], inputs) for leaf in outputs])
    if len(levels) == 2:
        levels.append([([a], [b]) for a in outputs for b in inputs])
    for level in levels:
        yield [(part, part.name) for part in (table.part(a, b) for a, b in level) if part.failing.any()]


def _pattern(table: Table) -> Pattern | None:
    """Return the first pattern that explains every failing entry of a part; simpler and more common ones first."""
    if table.failing.sum() == 1 and table.informative.sum() > 1:
        return None  # one wrong entry among right ones is no pattern
    return (
        zeros(table)
        or not_zero(table)
        or factor(table, partly=False)
        or conjugate(table)
        or transposed(table)
        or rearranged(table)
        or factor(table, partly=True)
        or short_precision(table)
        or _line_factors(table, "column")
        or _turned(_line_factors(table.turned(), "row"))
    )


def _turned(pattern: Pattern | None) -> Pattern | None:
    if pattern is None or pattern.repaired is None:
        return pattern
    return dataclasses.replace(pattern, explained=pattern.explained.T, repaired=pattern.repaired.T)


def _line_factors(table: Table, word: str) -> Pattern | None:
    """Return a factor for each column that explains all its failing entries, told together."""
    factors: dict[str, list[str]] = {}
    repaired = table.claims.copy()
    for leaf in table.inputs:
        for start in range(leaf.start, leaf.stop, leaf.parts):
            mask = np.zeros(table.failing.shape, np.bool_)
            mask[:, start : start + leaf.parts] = True
            own = table.only(mask)
            if not own.failing.any():
                continue
            pattern = factor(own, partly=False)
            if pattern is None or pattern.repaired is None or own.failing.sum() < 2:
                return None
            repaired[mask] = pattern.repaired[mask]
            ratio = pattern.text.split(" = ")[1].split(":")[0]
            factors.setdefault(ratio, []).extend(lines_of(mask & table.failing, [leaf]))
    if not is_explained(table, repaired):
        return None
    figures = "; ".join(f"{ratio} by {listed(names)}" for ratio, names in factors.items())
    if word == "row":
        figures = "; ".join(f"{ratio} in {listed(names)}" for ratio, names in factors.items())
    if len(factors) > _FACTORS:
        numbers = sorted((float(ratio) for ratio in factors), key=abs)
        figures = f"from {numbers[0]:#.4g} to {numbers[-1]:#.4g}"
    text = f"claimed / measured is one factor to a {word}{{in}} ({figures}), in all {{n}} failing entries."
    return Pattern(f"factor by {word}", text, table.failing, f"divide each {word} by its factor", repaired)


def _beyond_kinks(problem: Problem, found: Elementwise, table: Table) -> list[_Found]:
    """Return whether failing claims are slopes of the other side of kinks; one alone may be another step too."""
    if table.failing.sum() == 1:
        return _elsewhere(problem, found, table)
    pattern = other_side(table, found, wide_columns(problem, found, table))
    return (
        []
        if pattern is None or not pattern.explained[table.failing].all()
        else [_Found(pattern, "", pattern.explained, None)]
    )


def _elsewhere(problem: Problem, found: Elementwise, table: Table) -> list[_Found]:
    """Return whether failing claims are slopes of somewhere else: beyond a kink, or at another step."""
    columns = wide_columns(problem, found, table)
    pattern = other_side(table, found, columns)
    pattern = pattern or other_step(table, found, columns, problem.x.astype(np.float64))
    return [] if pattern is None else [_Found(pattern, "", pattern.explained, None)]


def _wrong_lines(table: Table) -> Pattern | None:
    """Return the columns or rows that are wrong throughout while all others are right."""
    fills = cover(table, table.failing)
    if fills.what in ("", "whole", "block"):
        return None
    right = table.informative & ~table.failing
    turned = fills.what in ("row", "output")
    own, leaves = (table.turned(), table.outputs) if turned else (table, table.inputs)
    names = lines_of(own.failing, leaves)
    per_line = own.failing.sum(axis=0)
    if (per_line[per_line > 0] < 2).any():  # one entry to a column: nothing but the list of failing entries
        return None
    word = "row" if turned else "column"
    verb = "are" if len(names) > 1 else "is"
    text = (
        f"{counted(word, names)} {verb} wrong in all {{n}} entries, while the {int(right.sum())} others that are not "
        "zero agree: look for a coupling left out or an index."
    )
    return Pattern(f"wrong {word}s", text, table.failing)


# telling


def _told(endpoint: str, whole: Table, found: Sequence[_Found]) -> Iterator[Diagnosis]:
    """Yield what was found, the same pattern in several parts once; repairs only where the whole would pass."""
    repaired = whole.claims.copy()
    for one in found:
        if one.repaired is None:
            repaired[one.explained] = np.nan
            continue
        own = _changed(whole, one)
        repaired[own] = one.repaired[own]
    passes = bool(np.isfinite(repaired[whole.failing]).all()) and not whole.off(repaired).any()
    together = "; with the other repairs" if len({one.pattern.text for one in found}) > 1 else ""
    groups: dict[tuple[str, str, str], list[_Found]] = {}
    for one in found:
        groups.setdefault((one.pattern.kind, one.pattern.text, one.pattern.repair), []).append(one)
    for (kind, text, repair), members in groups.items():
        entries = sum(int(one.explained.sum()) for one in members)
        numbers = sum(one.pattern.counted or int(one.explained.sum()) for one in members)
        names = [one.name for one in members if one.name]
        message = text.replace("{n}", str(numbers)).replace("{in}", f" of {listed(names)}" if names else "")
        where = f" in {listed(names)}" if names else ""
        advice = f"{repair}{where}{together or ''}: every measured entry would then agree." if passes and repair else ""
        yield Diagnosis(endpoint, kind, message, advice, entries)


def _changed(whole: Table, one: _Found) -> NDArray[np.bool_]:
    """Return the entries that a repair changes."""
    assert one.repaired is not None
    changed: NDArray[np.bool_] = one.repaired != whole.claims
    return np.isfinite(one.repaired) & changed
