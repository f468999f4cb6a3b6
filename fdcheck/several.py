"""Reports of several checks as one, and reports whose endpoints bear other names."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence

from fdcheck.checks.findings import by_severity
from fdcheck.results import Coverage, Finding, Pair, Report, Status, Verdict

_AMPLIFIED = "A little of it in a gradient becomes much in the second derivative: differences divide it by the step."


def merged(reports: Sequence[Report], notes: Sequence[str] = ()) -> Report:
    """Return several reports as one, findings of the first ones first; the verdict is the worst.

    Parameters
    ----------
    reports : sequence of Report
        At least one.
    notes : sequence of str
        Remarks on the whole, told before those of the parts.
    """
    verdicts = {report.verdict for report in reports}
    worst = next(v for v in (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS) if v in verdicts)
    calls: dict[str, int] = {}
    of_contract: dict[str, int] = {}
    elements: dict[str, tuple[int, int]] = {}
    for report in reports:
        for name, count in report.endpoint_calls.items():
            calls[name] = calls.get(name, 0) + count
        for name, count in report.contract_calls.items():
            of_contract[name] = of_contract.get(name, 0) + count
        for path, (moved, size) in report.coverage.elements.items():
            before = elements.get(path, (0, 0))
            elements[path] = (before[0] + moved, before[1] + size)
    cover = [report.coverage for report in reports]
    seen = [report.sensitivity for report in reports if math.isfinite(report.sensitivity)]
    return dataclasses.replace(
        reports[0],
        verdict=worst,
        findings=tuple(by_severity([f for report in reports for f in report.findings])),
        pairs=tuple(pair for report in reports for pair in report.pairs),
        coverage=Coverage(
            sum(c.inputs for c in cover),
            sum(c.inputs_measured for c in cover),
            sum(c.outputs for c in cover),
            sum(c.outputs_measured for c in cover),
            tuple(dict.fromkeys(path for c in cover for path in c.carried)),
            elements,
            sum(c.together for c in cover),
            reports[0].coverage.method,
        ),
        sensitivity=max(seen, default=float("nan")),
        typical=max((report.typical for report in reports if math.isfinite(report.typical)), default=float("nan")),
        applies=sum(report.applies for report in reports),
        endpoint_calls=calls,
        contract_calls=of_contract,
        notes=tuple(dict.fromkeys([*notes, *(note for report in reports for note in report.notes)])),
        diagnoses=tuple(diagnosis for report in reports for diagnosis in report.diagnoses),
        evidence=tuple(part for report in reports for part in report.evidence),
        settings={},
    )


def renamed(report: Report, names: Mapping[str, str]) -> Report:
    """Return a report whose endpoints have other names; calls of apply count as calls of what it stands for.

    Parameters
    ----------
    report : Report
        Result of a check of a function that is a derivative itself.
    names : dict of str to str
        New names of ``apply`` and of the endpoints.
    """
    text = _renaming(names)

    def counted(pair: Pair) -> Pair:
        return dataclasses.replace(pair, endpoint=names.get(pair.endpoint, pair.endpoint))

    calls = {names.get(name, name): count for name, count in report.endpoint_calls.items()}
    of_contract = {names.get(name, name): count for name, count in report.contract_calls.items()}
    calls[names["apply"]] = calls.get(names["apply"], 0) + report.applies
    return dataclasses.replace(
        report,
        findings=tuple(renamed_finding(finding, names) for finding in report.findings),
        pairs=tuple(counted(pair) for pair in report.pairs),
        diagnoses=tuple(
            dataclasses.replace(d, endpoint=names.get(d.endpoint, d.endpoint), message=text(d.message))
            for d in report.diagnoses
        ),
        evidence=tuple(part.renamed(names.get(part.endpoint, part.endpoint)) for part in report.evidence),
        notes=tuple(text(note) for note in report.notes),
        applies=0,
        endpoint_calls=calls,
        contract_calls=of_contract,
        settings={},
    )


def renamed_finding(finding: Finding, names: Mapping[str, str]) -> Finding:
    """Return a finding about a derivative of a derivative under the names of that.

    Parameters
    ----------
    finding : Finding
        About a function that is a derivative itself.
    names : dict of str to str
        New names of ``apply`` and of the endpoints.
    """
    message = _renaming(names)(finding.message)
    if finding.status is Status.NONDETERMINISTIC:
        message = f"{message} {_AMPLIFIED}"
    return dataclasses.replace(finding, endpoint=names.get(finding.endpoint, finding.endpoint), message=message)


def _renaming(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return what renames endpoints in a sentence, and leaves files and parts of words alone."""
    word = re.compile(rf"(?<![\w./])({'|'.join(names)})(?![\w/]|\.py)")
    return lambda sentence: word.sub(lambda match: names[match[0]], sentence)
