"""replay: one finding of a report again, alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fdcheck.api import check_point, given_endpoints
from fdcheck.at_points import Asked, Place, split_points
from fdcheck.checks.checking import Outcome
from fdcheck.checks.contract import Owing
from fdcheck.checks.elementwise import limits_from, measure
from fdcheck.checks.findings import compared, entry_findings
from fdcheck.checks.pairs import pairs_of
from fdcheck.checks.plan import Plan, planned, whole
from fdcheck.checks.summary import report_of, unmeasured_report
from fdcheck.execution import Execution, checked_execution
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.endpoints import Claims
from fdcheck.problem.trees import Layout
from fdcheck.results import BREACHES, Finding, InvalidInput, Report
from fdcheck.settings import Contract, Settings, settings_from_data


def replay(
    report: Report,
    finding: Finding | int,
    apply: Callable[[Any], Any],
    x0: Any,
    *,
    jacobian: Callable[[Any], Any] | None = None,
    jvp: Callable[[Any, Any], Any] | None = None,
    vjp: Callable[[Any, Any], Any] | None = None,
    points: int | Sequence[Any] | None = None,
    directions: Any = None,
    execution: Execution | None = None,
) -> Report:
    """Check one finding of a report again, alone: at the same point, with the same seed and settings.

    Parameters
    ----------
    report : Report
        What :func:`verify` returned, or :meth:`Report.from_json` of what was saved of it.
    finding : Finding or int
        One of ``report.findings``, or its number as the text of the report has it; the first is 1.
    apply, x0
        As they were given to :func:`verify`.
    jacobian, jvp, vjp : callable, optional
        The endpoint of the finding; all of those that were checked where it is a breach of contract, so that the same
        random vectors are drawn.
    points, directions
        As they were given to :func:`verify`; a number of points need not be given again.
    execution : Execution, optional
        How apply is evaluated, as for :func:`verify`.

    Returns
    -------
    Report
        Of an entry: that entry is measured and compared, and nothing else. Of a breach of contract: what the
        endpoints owe is asked again, and nothing is measured. Of anything else, such as a remark on apply: the check
        of that point. The first note says whether the same was found.

    Raises
    ------
    InvalidInput
        If the report cannot be replayed, or does not fit what is given.

    Notes
    -----
    Cost of an entry: 10 to 20 applies for the point and its noise, some for the entry, and one call of a jacobian, jvp
    or vjp.

    Examples
    --------
    >>> import numpy as np
    >>> import fdcheck
    >>> wrong = lambda x, ct: ct * np.sin(x)
    >>> report = fdcheck.verify(np.sin, np.array([0.1, 0.2]), vjp=wrong)
    >>> again = fdcheck.replay(report, report.findings[0], np.sin, np.array([0.1, 0.2]), vjp=wrong)
    >>> str(again.verdict), sum(pair.entries for pair in again.pairs), again.notes[0]
    ('fail', 1, 'replayed finding 1, vjp disagrees: found again')
    """
    number, found = _chosen(report, finding)
    settings = settings_from_data(report.settings)
    given = given_endpoints({"jacobian": jacobian, "jvp": jvp, "vjp": vjp}, settings)
    if found.endpoint != "apply" and found.endpoint not in given:
        raise InvalidInput(f"{found.endpoint}: expected the callable that finding {number} is about, got none")
    asked = Asked(apply, given, settings, directions, execution=checked_execution(execution))
    with np.errstate(all="ignore"):
        place = Place(asked, _point(report, found, asked, x0, points), {}, settings.max_applies)
        try:
            result = _again(found, place.problem(), place.given, place.settings)
        except Breach as breach:
            result = unmeasured_report([breach.finding], place.calls, settings)
    same = any((f.endpoint, f.status) == (found.endpoint, found.status) for f in result.findings)
    outcome = "found again" if same else "not found again"
    notes = [f"replayed finding {number}, {found.endpoint} {found.status}: {outcome}"]
    now = result.versions
    others = [
        f"{name} {old} then, {now.get(name)} now" for name, old in report.versions.items() if now.get(name) != old
    ]
    if others:
        notes.append(f"other versions: {', '.join(others)}")
    return dataclasses.replace(
        result,
        findings=tuple(dataclasses.replace(f, point=found.point) for f in result.findings),
        notes=(*notes, *result.notes),
        points=report.points,
        settings=report.settings,
    )


def _chosen(report: Report, finding: Finding | int) -> tuple[int, Finding]:
    """Return the number of a finding and the finding."""
    if not report.settings:
        raise InvalidInput("report: this one cannot be replayed: it is not from fdcheck.verify alone")
    if isinstance(finding, Finding):
        places = [k for k, other in enumerate(report.findings, 1) if other is finding or other == finding]
        return (places[0] if places else 0), finding
    count = len(report.findings)
    if isinstance(finding, bool) or not isinstance(finding, int) or not 1 <= finding <= count:
        raise InvalidInput(f"finding: expected a Finding, or a number from 1 to {count}, got {finding!r:.60}")
    return finding, report.findings[finding - 1]


def _point(report: Report, finding: Finding, asked: Asked, x0: Any, points: Any) -> Any:
    """Return the point at which a finding was made."""
    if not finding.point:
        return x0
    if finding.point >= len(report.points):
        raise InvalidInput(f"report: it has no point {finding.point}")
    point = report.points[finding.point]
    _, given = split_points(points, x0)
    if point.origin == "given":
        if finding.point > len(given):
            wanted = f"points[{finding.point - 1}]"
            raise InvalidInput(f"points: the finding was made at {wanted}; give the points that verify was given")
        return given[finding.point - 1]
    start = Place(asked, x0, {})
    try:
        return start.around(start.problem(), point.draw)
    except Breach as breach:
        raise InvalidInput(f"x0: {breach.finding.message} The point of the finding is drawn around it.") from breach


def _again(finding: Finding, problem: Problem, given: Mapping[str, Function], settings: Settings) -> Report:
    """Return the report of what a finding is about."""
    if finding.endpoint == "apply":
        return check_point(problem, given, settings)
    if finding.input and finding.output:
        row = _coordinate(problem.outputs, finding.output, finding.output_index, "Im(y)" in finding.part)
        column = _coordinate(problem.inputs, finding.input, finding.input_index, "Im(x)" in finding.part)
        return _entry({finding.endpoint: given[finding.endpoint]}, problem, settings, row, column)
    if finding.status in BREACHES:
        return _breach(finding, problem, given, settings)
    return check_point(problem, {finding.endpoint: given[finding.endpoint]}, settings)


def _coordinate(layout: Layout, path: str, index: tuple[int, ...], is_imaginary: bool) -> int:
    """Return the real coordinate of an element."""
    for leaf in layout.leaves:
        if leaf.path == path and len(index) == len(leaf.shape) and all(map(int.__lt__, index, leaf.shape)):
            element = int(np.ravel_multi_index(index, leaf.shape)) if index else 0
            return leaf.start + element * leaf.parts + is_imaginary
    raise InvalidInput(f"finding: there is no {path}{list(index) or ''} where it was made; is this the same problem?")


def _entry(given: Mapping[str, Function], problem: Problem, settings: Settings, row: int, column: int) -> Report:
    """Return the report of one entry."""
    columns, rows = np.array([column]), np.array([row])
    leaf = problem.inputs.leaf_at(column)
    outcome = Outcome(Plan(columns, rows, {leaf.path: (1, leaf.size // leaf.parts)}, 1, 1))  # all that is wanted
    claims = Claims(given, problem, settings.contract or Contract())
    part = problem.narrowed(columns)
    claimed = claims.columns(part, rows)
    if claimed.matrix.size:
        only = np.zeros_like(claimed.rows)
        only[:, row] = True
        claimed = dataclasses.replace(claimed, rows=only)
        found = measure(part, claimed, settings, limits_from(problem, settings).of_few(columns), whole(part))
        for comparison in compared(claimed, found):
            outcome.pairs += pairs_of(part, comparison)
            outcome.findings += entry_findings(part, comparison)
    outcome.measured = len(outcome.pairs)
    outcome.findings, outcome.notes = [*claims.findings, *outcome.findings], claims.notes
    return report_of(problem, outcome, given, settings)


def _breach(finding: Finding, problem: Problem, given: Mapping[str, Function], settings: Settings) -> Report:
    """Return the report of what endpoints owe beside right numbers."""
    outcome = Outcome(planned(problem, settings))
    claims = Claims(given, problem, settings.contract or Contract())
    owing = Owing(problem, given, claims, limits_from(problem, settings), settings)
    if len(outcome.plan.columns):
        claims.columns(problem.narrowed(outcome.plan.columns), outcome.plan.rows)
    owing.settle(outcome)
    findings = [*claims.findings, *outcome.findings]
    outcome.findings = [f for f in findings if (f.endpoint, f.status) == (finding.endpoint, finding.status)]
    return report_of(problem, outcome, given, settings)
