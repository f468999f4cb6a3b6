"""Figures of a report on a matplotlib axes of the caller's, or on a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fdcheck.advice import EpsAdvice
from fdcheck.evidence import Evidence
from fdcheck.report import figures, words
from fdcheck.report.extra import needs
from fdcheck.results import Finding, InvalidInput, Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = ("map", "claims", "steps", "sides")


def plot_report(
    report: Report, what: str, endpoint: str | None = None, finding: Finding | None = None, ax: Axes | None = None
) -> Axes:
    """Draw one figure of a report; see :meth:`fdcheck.Report.plot`."""
    if what not in KINDS:
        raise InvalidInput(f"what: expected one of {', '.join(map(repr, KINDS))}, got {what!r}")
    known = dict.fromkeys([*report.endpoint_calls, *(part.endpoint for part in report.evidence)])
    if endpoint is not None and endpoint not in known:
        raise InvalidInput(f"endpoint: expected one of {', '.join(map(repr, known))}, got {endpoint!r}")
    needs("matplotlib")
    if what in ("map", "claims"):
        evidence = _evidence(report, endpoint, what)
        ax = new_axes(ax)
        (figures.draw_map if what == "map" else figures.draw_claims)(ax, evidence)
        ax.set_title(evidence.endpoint, parse_math=False)
        return ax
    entry = finding or _entry(report, endpoint, what)
    ax = new_axes(ax)
    (figures.draw_steps if what == "steps" else figures.draw_sides)(ax, entry)
    ax.set_title(f"{entry.endpoint} {entry.status}: {figures.entry_name(entry)}", parse_math=False)
    return ax


def new_axes(ax: Axes | None) -> Axes:
    """Return an axes, on a new figure where none is given."""
    if ax is None:
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1]
    return ax


def _evidence(report: Report, endpoint: str | None, what: str) -> Evidence:
    """Return what is known of all entries of an endpoint."""
    for evidence in report.evidence:
        if endpoint in (None, evidence.endpoint):
            return evidence
    raise InvalidInput(
        f"what: there is nothing to draw for {what!r}, since no entries of {endpoint or 'any endpoint'} were compared"
    )


def _entry(report: Report, endpoint: str | None, what: str) -> Finding:
    """Return the worst entry with steps, else one that agrees."""
    typical = [part.typical for part in report.evidence if part.typical is not None]
    for entry in (*report.findings, *typical):
        if endpoint in (None, entry.endpoint) and entry.steps and (what == "steps" or words.bends(entry)):
            return entry
    reason = "no entry has two sides that differ" if what == "sides" else "no entry was measured"
    raise InvalidInput(f"what: there is nothing to draw for {what!r}, since {reason}")


def plot_advice(advice: EpsAdvice, path: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the error against the step for one input path; see :meth:`fdcheck.EpsAdvice.plot`."""
    known = {each.input: each for each in advice.paths}
    if path is not None and path not in known:
        raise InvalidInput(f"input: expected one of {', '.join(map(repr, known))}, got {path!r}")
    needs("matplotlib")
    for each in advice.paths if path is None else [known[path]]:
        if each.curve is not None:
            ax = new_axes(ax)
            figures.draw_advice(ax, each, each.curve, advice.rtol)
            ax.set_title(figures.curve_name(each, each.curve), parse_math=False)
            return ax
    raise InvalidInput(f"input: there is no curve to draw for {path or 'any input'}, since no output was moved by it")
