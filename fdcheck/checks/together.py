"""What a probe showed, told in words and pairs: inputs that were moved together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.probing import SHARP, Probe
from fdcheck.checks.residuals import Residual, View
from fdcheck.problem.callables import Problem
from fdcheck.problem.trees import Leaf
from fdcheck.results import Diagnosis, Finding, Pair, Status

_LEAST = 0.5
"""Part of its scale that an element moves by at least, and least weight of an output in a random cotangent."""

_BLUNT = 0.5
"""Relative error of a typical entry that a probe has to notice to stand alone: a factor of 1.5."""

_DULL, _LEAVES = 0.1, 8
"""Relative error of a typical entry of an input leaf from which on the leaf is looked at by itself; leaves at most."""

_SOME = 1000
"""Elements of a gradient that its typical size is taken from."""


@dataclass(frozen=True)
class Told:
    """Notes and findings of a probe, and whether it may stand alone."""

    notes: tuple[str, ...]
    findings: tuple[Finding, ...]


def told(problem: Problem, probe: Probe, what: str) -> Told:
    """Return what to say of a probe.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    probe : Probe
        What was found.
    what : str
        What was moved, in words.
    """
    others = f"{what}, moved together along one random direction,"
    names = [view.name for view, residual in zip(probe.views, probe.residuals, strict=True) if _is_off(residual)]
    known = all(view.known(probe.slope).all() for view in probe.views)
    if problem.is_spent and (names or not known):
        return _undecided(names or [view.name for view in probe.views], problem.budget.why(f"{others} were checked"))
    if probe.alone and not names:
        places = ", ".join(dict.fromkeys(problem.inputs.element(int(a.part.columns[0])) for a in probe.alone))
        return Told((f"{others} do not agree; that was traced to {places}, and the rest agrees",), ())
    if probe.alone:
        places = ", ".join(dict.fromkeys(problem.inputs.element(int(a.part.columns[0])) for a in probe.alone))
        return Told((f"{others} do not agree; that was traced to {places}, and there are more",), ())
    if not names:
        if probe.is_hidden:
            names = [view.name for view in probe.views]
            return _undecided(names, f"{others} could not be decided: noise or curvature hides what they do.")
        if not known:
            return Told((f"{others} lie at kinks or jumps, where slopes do not add up",), ())
        return Told((f"{others} agree{_sharpness(probe)}",), ())
    if probe.at_kink:
        return Told((f"{others} lie at kinks, where slopes do not add up, such as {probe.traced}",), ())
    if not probe.is_open:
        return Told((f"{others} are off by no more than tolerances add up to; no entry was found to be wrong",), ())
    where = f"; it was traced to {probe.traced}, which agrees when it is measured alone" if probe.traced else ""
    return _undecided(
        names,
        f"{others} do not agree with the claim{where}. Either many small errors add up, or several entries are wrong: "
        "raise max_evals.",
    )


def _is_off(residual: Residual) -> bool:
    return bool(residual.stands_out(SHARP).any())


def _undecided(names: Sequence[str], message: str) -> Told:
    return Told((), tuple(Finding(name, Status.UNDECIDED, message) for name in names))


def _sharpness(probe: Probe) -> str:
    """Return how large an error would have shown, in units of a typical entry, empty where all claims are zero."""
    worst = float(
        np.fmax.reduce(
            [
                np.fmax.reduce(noticed(view, residual, _typical_sizes(view, slice(None), probe)), initial=np.nan)
                for view, residual in zip(probe.views, probe.residuals, strict=True)
            ]
        )
    )
    return f"; an entry off by {worst:.1g} times the typical one of its row would have shown" if worst > 0 else ""


def noticed(view: View, residual: Residual, typical: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative error of a typical entry that each sum would have shown, NaN where all are zero.

    An element moves by at least half of its scale, whatever the direction: no luck is needed.
    """
    least = _LEAST * (_LEAST if view.is_mixed else 1.0)
    hidden = np.where(residual.stands_out(1.0), 0.0, np.abs(residual.value))  # what stands out hides nothing
    room = hidden + residual.bar + SHARP * residual.allowed
    with np.errstate(divide="ignore", invalid="ignore"):
        found: NDArray[np.float64] = np.where(typical > 0, room / (least * typical), np.nan)
    return found


def _typical_sizes(view: View, columns: slice, probe: Probe) -> NDArray[np.float64]:
    """Return the scaled size of a typical entry that each sum holds, among some columns."""
    moved = probe.direction[columns]
    count = max(1, int(np.count_nonzero(moved)))
    if view.gradients is None:
        whole = int(np.count_nonzero(probe.direction)) or 1
        if view.matrix is None or count == whole:
            return view.size / math.sqrt(whole)
        own = np.zeros_like(probe.direction)
        own[columns] = moved
        sizes = view.matrix.sizes(own)
        return view.size / math.sqrt(whole) if sizes is None else np.asarray(sizes / math.sqrt(count))
    step = max(1, len(moved) // _SOME)
    terms = np.abs(view.gradients[:, columns][:, ::step] * moved[::step])
    known = np.where(np.isfinite(terms) & (moved[::step] != 0), terms, np.nan)
    sizes = np.nanmedian(known, axis=1) if count and np.isfinite(known).any(axis=1).all() else np.zeros(len(terms))
    rows = view.cotangents.shape[1] if view.is_mixed and view.cotangents is not None else 1
    return np.asarray(sizes / math.sqrt(rows))


def pairs_together(problem: Problem, probe: Probe) -> list[Pair]:
    """Return one summary per endpoint, output path and input path of inputs that were moved together.

    The numbers of a pair are those of the direction at the worst output; columns measured alone are not counted, and
    what is wrong in them is taken away from the claim. Sums that are off all the same are undecided.
    """
    alone = [int(a.part.columns[0]) for a in probe.alone]
    found = []
    for view, residual in zip(probe.views, probe.residuals, strict=True):
        for output in problem.outputs.leaves:
            for source in problem.inputs.leaves:
                own = slice(source.start, source.stop)
                moved = int(np.count_nonzero(probe.direction[own])) - sum(
                    source.start <= j < source.stop for j in alone
                )
                if moved and output.size:
                    found.append(_pair(view, residual, probe, output, source, moved))
    return found


def _pair(view: View, residual: Residual, probe: Probe, output: Leaf, source: Leaf, moved: int) -> Pair:
    rows = slice(output.start, output.stop)
    sums = slice(None) if view.is_mixed else rows
    known = view.known(probe.slope)[sums]
    typical = _typical_sizes(view, slice(source.start, source.stop), probe)
    shown = np.where(known, noticed(view, residual, typical)[sums], np.nan)
    room = np.maximum(residual.bar + SHARP * residual.allowed, np.finfo(float).tiny)[sums]
    excess = np.abs(residual.value[sums]) / room
    worst = int(np.argmax(excess))
    if view.is_mixed and view.cotangents is not None:
        weights = view.cotangents[worst]
        measured = float(weights[weights != 0] @ probe.slope.value[weights != 0])
        index: tuple[int, ...] = ()
    else:
        measured, index = float(probe.slope.value[output.start + worst]), output.index(output.start + worst)
    claimed = float(view.along[sums][worst])
    if probe.alone and math.isfinite(measured):
        claimed = measured + float(residual.value[sums][worst])
    is_unexplained = bool(probe.alone) or (probe.is_open and not probe.at_kink)
    decided = known & ~residual.stands_out(SHARP)[sums] if is_unexplained else known
    each = 1 if view.is_mixed else moved
    entries = output.size * moved
    undecided = entries if view.is_mixed and not decided.all() else int(np.count_nonzero(~decided)) * each
    counts = {str(Status.AGREES): entries - undecided, str(Status.UNDECIDED): undecided}
    return Pair(
        endpoint=view.name,
        output=output.path,
        input=source.path,
        entries=entries,
        counts={status: number for status, number in counts.items() if number},
        claimed=claimed,
        estimated=measured,
        error=float(residual.bar[sums][worst]) if known[worst] else math.inf,
        eps=math.nan,
        output_index=index,
        input_index=(),
        excess=float(excess[worst]),
        sensitivity=float(np.fmax.reduce(shown, initial=np.nan)),
        typical=float(np.nanmedian(shown)) if np.isfinite(shown).any() else math.nan,
        together=True,
    )


def factors_of(probe: Probe) -> list[Diagnosis]:
    """Return the factors by which all of a claim is off."""
    result = []
    for name, ratio in probe.factors.items():
        if ratio == 0:
            result.append(Diagnosis(name, "zeros", "the claim is zero along two random directions of all inputs."))
            continue
        how = f"{abs(ratio):.5g} times too large" if abs(ratio) > 1 else f"{1 / abs(ratio):.5g} times too small"
        says = how if ratio > 0 else "the sign is wrong" + ("" if abs(abs(ratio) - 1) < 1e-6 else f", and {how}")
        text = f"along two random directions of all inputs claimed / measured = {ratio:.5g}: {says}."
        repair = "change the sign of the claim" if abs(ratio + 1) < 1e-6 else f"divide the claim by {ratio:.6g}"
        result.append(Diagnosis(name, "factor", text, repair))
    return result


def blunt_leaves(problem: Problem, probe: Probe) -> list[Leaf]:
    """Return input leaves whose entries a probe of all leaves says too little of: others are larger.

    Of a jvp the parts of a product are not known, so each leaf has to be looked at.
    """
    if len(problem.inputs.leaves) == 1:
        return []
    blunt: list[tuple[float, Leaf]] = []
    for leaf in problem.inputs.leaves:
        own = slice(leaf.start, leaf.stop)
        shown = [
            noticed(view, residual, _typical_sizes(view, own, probe))
            for view, residual in zip(probe.views, probe.residuals, strict=True)
        ]
        unknown = any(view.gradients is None and view.matrix is None for view in probe.views)
        worst = max((float(np.nanmedian(s)) for s in shown if np.isfinite(s).any()), default=0.0)
        if probe.direction[own].any() and (unknown or worst > _DULL):
            blunt.append((worst, leaf))
    return [leaf for _, leaf in sorted(blunt, key=lambda pair: -pair[0])[:_LEAVES]]


def stands_alone(probe: Probe) -> bool:
    """Return whether a probe says enough that no column has to be measured: nothing open, and sharp enough."""
    if not all(view.known(probe.slope).all() for view in probe.views):
        return False
    for view, residual in zip(probe.views, probe.residuals, strict=True):
        shown = noticed(view, residual, _typical_sizes(view, slice(None), probe))
        if np.isfinite(shown).any() and float(np.nanmedian(shown)) > _BLUNT:
            return False
    return True
