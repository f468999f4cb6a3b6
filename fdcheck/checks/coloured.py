"""What groups of columns showed, told entry by entry and pair by pair."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.colouring import Coloured, Colours, Entry
from fdcheck.checks.findings import STATUS_OF_CODE, compared, entry_findings
from fdcheck.numerics import kernels
from fdcheck.numerics.steps import default_rtol
from fdcheck.problem.callables import Problem
from fdcheck.results import Finding, Pair, Status
from fdcheck.settings import Settings

_SHOWN = 10
"""Outputs that are named of those whose sums were not explained."""


def findings_of_groups(problem: Problem, colours: Colours, found: Coloured) -> list[Finding]:
    """Return the entries that are anything but plain: those measured alone, those that their group tells, and the rest.

    Sums that disagree though no entry explains it are undecided: they keep a check from passing.
    """
    result: list[Finding] = []
    for part, claimed, alone in found.alone:
        for comparison in compared(claimed, alone):
            result += entry_findings(part, comparison)
    told = _columns_alone(found)
    result += [_finding(problem, entry) for entry in found.wrong if entry.column not in told]
    rest = sums_left_open(colours, found)
    for e, name in enumerate(found.names):
        rows = sorted({row for k, _, row in rest if k == e})
        if rows:
            shown = ", ".join(problem.outputs.element(row) for row in rows[:_SHOWN])
            shown += f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
            text = (
                f"several entries that are wrong or not in the pattern add up, and were not told apart, in {shown}. "
                "Repair what is known first, or give the full pattern as sparsity=."
            )
            result.append(Finding(name, Status.UNDECIDED, text))
    return result


def _columns_alone(found: Coloured) -> set[int]:
    return {int(part.columns[0]) for part, _, _ in found.alone}


def sums_left_open(colours: Colours, found: Coloured) -> list[tuple[int, int, int]]:
    """Return endpoint, group and row of sums that disagree beside what wrong entries explain."""
    alone = _columns_alone(found)
    told = {
        (entry.endpoint, entry.row, int(colours.group[entry.column]))
        for entry in found.wrong
        if entry.column not in alone
    }
    result = []
    for e, group, row in np.argwhere(found.code == kernels.DISAGREES).tolist():
        if (found.names[e], row, group) not in told:
            value, bar = found.left(colours, e, group, row)
            if abs(value) > bar:
                result.append((e, group, row))
    return result


def _finding(problem: Problem, entry: Entry) -> Finding:
    output, source = problem.outputs.leaf_at(entry.row), problem.inputs.leaf_at(entry.column)
    where = "off the pattern, so claimed 0" if entry.is_off_pattern else f"claimed {entry.claimed:.8g}"
    return Finding(
        endpoint=entry.endpoint,
        status=Status.DISAGREES,
        message=f"{where}, measured {entry.estimated:.8g} +- {entry.error:.1g} among columns that share no output.",
        input=source.path,
        input_index=source.index(entry.column),
        output=output.path,
        output_index=output.index(entry.row),
        claimed=entry.claimed,
        estimated=entry.estimated,
        error=entry.error,
    )


def off_pattern_note(problem: Problem, colours: Colours, found: Coloured) -> list[str]:
    """Return a note that lists the entries which the pattern leaves out."""
    told = _columns_alone(found)
    places = [(entry.row, entry.column) for entry in found.wrong if entry.is_off_pattern and entry.column not in told]
    for part, _, alone in found.alone:
        column = int(part.columns[0])
        held = colours.pattern[:, [column]].tocoo().row
        fails = np.flatnonzero((alone.measurement.code == kernels.DISAGREES).any(axis=0)[:, 0])
        places += [(int(row), column) for row in np.setdiff1d(fails, held)]
    if not places:
        return []
    names = [
        f"d {problem.outputs.element(i)} / d {problem.inputs.element(j)}" for i, j in dict.fromkeys(sorted(places))
    ]
    return [f"entries that are not zero and not in the pattern: {', '.join(names)}"]


@dataclass(frozen=True)
class _Entries:
    """The entries of a pattern with what was found of one endpoint's claims, arrays of shape (nnz,)."""

    name: str
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    moved: NDArray[np.float64]
    claims: NDArray[np.float64]
    slope: NDArray[np.float64]
    error: NDArray[np.float64]
    code: NDArray[np.int8]
    excess: NDArray[np.float64]
    noticed: NDArray[np.float64]


def pairs_of_groups(problem: Problem, colours: Colours, found: Coloured, settings: Settings) -> list[Pair]:
    """Return one summary per endpoint, output path and input path of the entries of a pattern and those off it."""
    held = colours.pattern.tocoo()
    rows, columns = np.asarray(held.row, np.int64), np.asarray(held.col, np.int64)
    is_moved = found.direction[columns] != 0  # not those at a bound
    rows, columns = rows[is_moved], columns[is_moved]
    group, moved = colours.group[columns], found.direction[columns]
    rtol_out, rtol_in = default_rtol(problem, settings.rtol)
    rtol = np.maximum(rtol_out[rows], rtol_in[columns])
    block = _blocks(problem, rows, columns)
    pairs = []
    for e, name in enumerate(found.names):
        claims, slope, error = found.claims[e, group, rows], found.slope[group, rows], found.error[group, rows]
        code = found.code[e, group, rows].copy()
        wrong = {(entry.row, entry.column): entry for entry in found.wrong if entry.endpoint == name}
        was_off = code == kernels.DISAGREES
        extra = _judged_alone(found, name, rows, columns, code, wrong)
        open_rows = {(g, row) for k, g, row in sums_left_open(colours, found) if k == e}
        for k in np.flatnonzero(was_off):
            if (int(group[k]), int(rows[k])) in open_rows and code[k] != kernels.DISAGREES:
                code[k] = kernels.NOISE  # undecided
        size = np.maximum(np.abs(slope), np.where(np.isfinite(claims), np.abs(claims), 0.0))
        tolerance = rtol * size + (settings.atol or 0.0) * np.abs(moved)
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = np.where(np.isfinite(claims), np.abs(claims - slope) / (tolerance + error), np.inf)
            noticed = np.where(np.abs(slope) > 2 * error, (tolerance + 2 * error) / np.abs(slope), np.nan)
        excess[np.isnan(excess)] = 0.0
        is_spoiled = was_off & (code != kernels.DISAGREES)  # the sum is that of another entry too
        excess[is_spoiled], noticed[is_spoiled] = 0.0, np.nan
        entries = _Entries(name, rows, columns, moved, claims, slope, error, code, excess, noticed)
        added = _blocks(problem, *np.array(extra, np.int64).reshape(-1, 2).T)
        for b in np.unique(np.append(block, added)):
            own = np.flatnonzero(block == b)
            off = [place for place, of_block in zip(extra, added, strict=True) if of_block == b]
            pairs.append(_pair(problem, entries, own, len(off)) if own.size else _off_pair(problem, found, name, off))
    return pairs


def _blocks(problem: Problem, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which pair of an output and an input leaf each entry lies in."""
    output = np.searchsorted([leaf.start for leaf in problem.outputs.leaves], rows, side="right") - 1
    source = np.searchsorted([leaf.start for leaf in problem.inputs.leaves], columns, side="right") - 1
    return np.asarray(output * len(problem.inputs.leaves) + source, np.int64)


def _pair(problem: Problem, entries: _Entries, own: NDArray[np.intp], added: int) -> Pair:
    """Return the summary of some entries, with so many wrong ones off the pattern beside them."""
    fails = entries.code[own] == kernels.DISAGREES
    excess = entries.excess[own]
    worst = own[int(np.argmax(np.where(fails, excess, -1.0) if fails.any() else excess))]
    row, column, moved = int(entries.rows[worst]), int(entries.columns[worst]), float(entries.moved[worst])
    output, source = problem.outputs.leaf_at(row), problem.inputs.leaf_at(column)
    counts: Counter[str] = Counter()
    for code, number in zip(*np.unique(entries.code[own], return_counts=True), strict=True):
        counts[str(STATUS_OF_CODE[int(code)])] += int(number)
    if added:
        counts[str(Status.DISAGREES)] += added
    shown = entries.noticed[own][np.isfinite(entries.noticed[own])]
    return Pair(
        endpoint=entries.name,
        output=output.path,
        input=source.path,
        entries=len(own) + added,
        counts=dict(counts),
        claimed=float(entries.claims[worst]) / moved,
        estimated=float(entries.slope[worst]) / moved,
        error=float(entries.error[worst]) / abs(moved),
        eps=math.nan,
        output_index=output.index(row),
        input_index=source.index(column),
        excess=float(entries.excess[worst]),
        sensitivity=float(shown.max()) if shown.size else math.nan,
        typical=float(np.median(shown)) if shown.size else math.nan,
    )


def _off_pair(problem: Problem, found: Coloured, name: str, places: Sequence[tuple[int, int]]) -> Pair:
    """Return the summary of a block of which the pattern has no entry, although some are not zero."""
    row, column = places[0]
    output, source = problem.outputs.leaf_at(row), problem.inputs.leaf_at(column)
    estimate, error = _estimate(found, row, column)
    return Pair(
        endpoint=name,
        output=output.path,
        input=source.path,
        entries=len(places),
        counts={str(Status.DISAGREES): len(places)},
        claimed=0.0,
        estimated=estimate,
        error=error,
        eps=math.nan,
        output_index=output.index(row),
        input_index=source.index(column),
        excess=math.inf,
        sensitivity=math.nan,
    )


def _estimate(found: Coloured, row: int, column: int) -> tuple[float, float]:
    """Return what was measured of an entry off the pattern, alone or in its group, and the error bar."""
    for part, _, alone in found.alone:
        if int(part.columns[0]) == column:
            return float(alone.measurement.estimate[row, 0]), float(alone.measurement.error[row, 0])
    return next((e.estimated, e.error) for e in found.wrong if (e.row, e.column) == (row, column))


def _judged_alone(
    found: Coloured,
    name: str,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    code: NDArray[np.int8],
    wrong: dict[tuple[int, int], Entry],
) -> list[tuple[int, int]]:
    """Put the codes of columns measured alone in place, and return wrong entries off the pattern.

    A sum that an entry off the pattern makes disagree says nothing against the entry of the pattern in it.
    """
    off = [(i, j) for (i, j), entry in wrong.items() if entry.is_off_pattern]
    fails = code == kernels.DISAGREES
    named = {(i, j) for i, j in wrong if not wrong[i, j].is_off_pattern}
    for k in np.flatnonzero(fails):
        if (int(rows[k]), int(columns[k])) not in named:
            code[k] = kernels.AGREES
    for part, claimed, alone in found.alone:
        if name not in claimed.names:
            continue
        column = int(part.columns[0])
        own = np.flatnonzero(columns == column)
        judged = alone.measurement.code[claimed.names.index(name), :, 0]
        code[own] = judged[rows[own]]
        held = set(rows[own].tolist())
        off = [(i, j) for i, j in off if j != column]
        off += [(int(i), column) for i in np.flatnonzero(judged == kernels.DISAGREES) if int(i) not in held]
    return off
