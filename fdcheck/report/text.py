"""The report as text that one reads from the top: verdict, endpoints, pairs, worst findings, notes."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from fdcheck.estimates import Estimate
from fdcheck.report.printable import printable, shortened
from fdcheck.results import BREACHES, Coverage, Diagnosis, Finding, Measured, Report, Status, Verdict

_WIDTH = 80
_FULL_FINDINGS = 3
_SHOWN_PAIRS = 12
_SHOWN_STEPS = 5
_LONGEST = 1200
"""Lines that fit one screen of a terminal with the verdict still in sight, and characters of one remark."""


def report_text(report: Report, replay: str = "") -> str:
    """Return a report as text of at most 80 columns.

    Parameters
    ----------
    report : Report
        The result of a check.
    replay : str
        How to replay a finding, where that is not a call of :func:`fdcheck.replay`; ``{number}`` stands for its number.
    """
    numbered = list(enumerate(report.findings, 1))
    accepted = [(k, f) for k, f in numbered if f.status in (Status.KINK, Status.JUMP)]
    others = [(k, f) for k, f in numbered if f.status not in (Status.KINK, Status.JUMP)]
    lines = [
        *_headline(report),
        *_endpoint_lines(report),
        *_points(report),
        *_diagnoses(report.diagnoses),
        *_findings(report, others, "Findings, furthest beyond what is allowed first:"),
        *_advice(report),
        *_pairs(report),
        *_findings(report, accepted, "Accepted at kinks and jumps:"),
        *_replay(report, replay),
        *_notes(report),
    ]
    return "\n".join(map(printable, lines))


def estimate_text(estimate: Estimate) -> str:
    """Return a measured Jacobian as text: one line per block with its size, range and error bars."""
    lines = [f"measured derivative, {estimate.applies} applies"]
    for block in estimate.blocks:
        finite = block.error[(block.error == block.error) & (block.error < math.inf)]
        worst = f"{float(finite.max()):.1g}" if finite.size else "none"
        odd = sorted({str(s) for s in block.status.ravel()} - {str(Status.AGREES)})
        remark = f"  ({', '.join(odd)} in places)" if odd else ""
        lines.append(
            f"  d {block.output} / d {block.input}  shape {block.value.shape}  error bar up to {worst}{remark}"
        )
        if block.value.size <= 4:
            pairs = zip(block.value.ravel(), block.error.ravel(), strict=True)
            lines.append("    " + ", ".join(f"{v:.8g} +- {e:.1g}" for v, e in pairs))
    return "\n".join(map(printable, [*lines, *_wrapped(estimate.notes)]))


def _headline(report: Report) -> Iterator[str]:
    words = {
        Verdict.PASS: "every claim agrees with the measured derivative (evidence, not proof)",
        Verdict.FAIL: "the derivative is wrong, or an endpoint breaks its contract",
        Verdict.INCONCLUSIVE: "nothing wrong was found, but not everything could be measured",
    }
    if report.verdict is Verdict.INCONCLUSIVE and not report.pairs:
        words[Verdict.INCONCLUSIVE] = "nothing could be measured"
    yield f"{str(report.verdict).upper()}: {words[report.verdict]}"


def _endpoint_lines(report: Report) -> Iterator[str]:
    """Yield one line per endpoint with failures out of checks, and one for apply."""
    width = max((9, *map(len, report.endpoint_calls)))
    for name, calls in report.endpoint_calls.items():
        pairs = [pair for pair in report.pairs if pair.endpoint == name]
        breach = next((f for f in report.findings if f.endpoint == name and f.status in BREACHES), None)
        if not pairs:
            what = f"not compared ({breach.status})" if breach else "not compared"
        else:
            failures, entries = sum(p.failures for p in pairs), sum(p.entries for p in pairs)
            what = f"{_counted(failures, 'failure')} / {_counted(entries, 'check')}"
            others = {s: sum(p.counts.get(s, 0) for p in pairs) for s in _REMARKED}
            what += "".join(f", {n} {s}" for s, n in others.items() if n)
        yield f"  {name:{width}} {what}, {_counted(calls, 'call')}"
    cover = report.coverage
    moved = f"{cover.inputs_measured} of {_counted(cover.inputs, 'input element')} moved"
    yield f"  {'apply':{width}} {_counted(report.applies, 'call')}, {moved}"
    if math.isfinite(report.sensitivity):
        yield f"  {'noticed':{width}} an error of {100 * report.typical:.2g} % in a typical entry, of"
        yield f"  {'':{width}} {100 * report.sensitivity:.2g} % in every entry that stands out of its error bar"


_REMARKED = (Status.UNDECIDED, Status.NONFINITE, Status.KINK, Status.JUMP)


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def _points(report: Report) -> Iterator[str]:
    """Yield how many points were checked and which did not pass, where there is more than x0."""
    if len(report.points) < 2:
        return
    given = sum(point.origin == "given" for point in report.points)
    drawn = sum(point.origin == "drawn" for point in report.points)
    parts = [
        "x0",
        *([f"{given} given"] if given else []),
        *([f"{drawn} drawn around it, seed {report.seed}"] if drawn else []),
    ]
    text = f"{len(report.points)}: {', '.join(parts)}"
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        which = ["x0" if k == 0 else str(k) for k, point in enumerate(report.points) if point.verdict is verdict]
        text += f"; {verdict} at {', '.join(which)}" if which else ""
    width = max((9, *map(len, report.endpoint_calls)))
    lead = f"  {'points':{width}} "
    yield from textwrap.wrap(text, _WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead))


def _replay(report: Report, how: str) -> Iterator[str]:
    """Yield how one finding is had again, alone."""
    number = next((k for k, f in enumerate(report.findings, 1) if f.endpoint in report.endpoint_calls), 0)
    if not number or not report.settings:
        return
    endpoint = report.findings[number - 1].endpoint
    call = how.format(number=number) or f"fdcheck.replay(report, {number}, apply, x0, {endpoint}={endpoint})"
    yield ""
    yield f"To replay finding {number} alone{' (REPORT.json is what --json prints)' if how else ''}:"
    yield f"  {call}"


def _findings(report: Report, findings: Sequence[tuple[int, Finding]], title: str) -> Iterator[str]:
    """Yield findings with their numbers, of each endpoint as many as are wanted, the first three in full."""
    if not findings:
        return
    yield ""
    yield title
    seen: Counter[str] = Counter()
    for place, (number, finding) in enumerate(findings, 1):
        seen[finding.endpoint] += 1
        if seen[finding.endpoint] <= report.max_failures:
            where = _place(finding) + _at_point(report, finding)
            yield from textwrap.wrap(
                f"{finding.endpoint} {finding.status}{where}",
                _WIDTH, initial_indent=f"{number:3}. ", subsequent_indent="     ", break_long_words=False,
            )  # fmt: skip
            yield from _finding(finding, place <= _FULL_FINDINGS)
    left_out = sum(max(0, count - report.max_failures) for count in seen.values())
    if left_out:
        yield f"  ... and {left_out} more in report.findings and --json (max_failures)"


def _at_point(report: Report, finding: Finding) -> str:
    """Return at which point a finding was made, and what the input is there, empty for x0."""
    if not finding.point:
        return ""
    values = report.points[finding.point].values.get(finding.input) if finding.point < len(report.points) else None
    is_there = values is not None and len(finding.input_index) == values.ndim
    value = f" = {values[finding.input_index]:.6g}" if values is not None and is_there else ""
    return f", at point {finding.point}" + (f", {_element(finding.input, finding.input_index)}{value}" if value else "")


def _finding(finding: Finding, is_full: bool) -> Iterator[str]:
    """Yield what is said of a finding: the numbers, the steps behind them and what to do."""
    if not is_full and math.isfinite(finding.estimated) and finding.status is not Status.KINK:
        yield f"     claimed {finding.claimed:.6g}, measured {finding.estimated:.6g} +- {finding.error:.1g}"
        return
    yield from _block(finding.message)
    if finding.status is Status.DISAGREES and math.isfinite(finding.claimed) and not _is_two_sided(finding.steps):
        yield from _block(_comparison(finding))
    if finding.steps and finding.status is not Status.NONFINITE:
        yield from _evidence(_spread(finding.steps))
    if finding.status in BREACHES:
        yield from _block("Next: " + finding.status.advice)


def _evidence(steps: Sequence[Measured]) -> Iterator[str]:
    """Yield the slopes at each step, of the two sides where they differ."""
    yield "     step   " + " ".join(f"{s.eps:>12.2g}" for s in steps)
    if _is_two_sided(steps):
        yield "     left   " + " ".join(f"{s.left + 0.0:>12.6g}" for s in steps)  # + 0.0: no -0
        yield "     right  " + " ".join(f"{s.right + 0.0:>12.6g}" for s in steps)
    else:
        yield "     slope  " + " ".join(f"{s.slope:>12.6g}" for s in steps)


def _is_two_sided(steps: Sequence[Measured]) -> bool:
    """Return whether the slopes of the two sides differ at the smallest step, as at a kink."""
    if not steps:
        return False
    left, right = steps[0].left, steps[0].right
    return abs(right - left) > 0.1 * max(abs(left), abs(right))


def _advice(report: Report) -> Iterator[str]:
    """Yield where in the code to look, for what no diagnosis has named."""
    named = {diagnosis.endpoint for diagnosis in report.diagnoses}
    failing = [f for f in report.findings if f.status is Status.DISAGREES and f.endpoint not in named]
    if failing:
        sampled = report.coverage.inputs_measured < report.coverage.inputs and _is_sample(report.coverage)
        more = " Inputs outside of the sample may be wrong too." if sampled else ""
        yield from textwrap.wrap(_where(failing) + more, _WIDTH, initial_indent="  ", subsequent_indent="  ")


def _is_sample(coverage: Coverage) -> bool:
    return any(taken < size for taken, size in coverage.elements.values())


def _where(failing: Sequence[Finding]) -> str:
    """Return what the failing entries have in common, which says where in the code to look."""
    first = failing[0]
    columns = {(f.input, f.input_index) for f in failing}
    rows = {(f.output, f.output_index) for f in failing}
    inputs, outputs = {f.input for f in failing}, {f.output for f in failing}
    subject = f"how {first.endpoint} computes" if len({f.endpoint for f in failing}) == 1 else "what computes"
    entry = f"d {_element(first.output, first.output_index)} / d {_element(first.input, first.input_index)}"
    if len(failing) == 1:
        return f"Next: one entry is wrong; look at {subject} {entry}."
    if len(columns) == 1:
        return f"Next: all failures are derivatives by {_element(*columns.pop())}; look at {subject} them."
    if len(rows) == 1:
        by = f" by {inputs.pop()}" if len(inputs) == 1 else ""
        return f"Next: all failures are derivatives of {_element(*rows.pop())}{by}; look at {subject} them."
    if len(inputs) == 1 or len(outputs) == 1:
        blocks = f"{', '.join(sorted(outputs))} by {', '.join(sorted(inputs))}"
        return f"Next: all failures are in {blocks}; look at {subject} it, beginning with {entry}."
    return f"Next: look at {subject} {entry}."


def _diagnoses(diagnoses: Sequence[Diagnosis]) -> Iterator[str]:
    """Yield each pattern with its repair, once for all endpoints that show it."""
    if not diagnoses:
        return
    yield ""
    yield "Diagnosis:"
    endpoints: dict[tuple[str, str], list[str]] = {}
    for diagnosis in diagnoses:
        endpoints.setdefault((diagnosis.message, diagnosis.repair), []).append(diagnosis.endpoint)
    for (message, repair), names in endpoints.items():
        yield from textwrap.wrap(
            f"{', '.join(names)}: {message}", _WIDTH, initial_indent="  ", subsequent_indent="    "
        )
        if repair:
            yield from textwrap.wrap(f"Repair: {repair}", _WIDTH, initial_indent="    ", subsequent_indent="    ")


def _place(finding: Finding) -> str:
    if not finding.output:
        return ""
    part = f", {finding.part}" if finding.part else ""
    return (
        f": d {_element(finding.output, finding.output_index)} / d {_element(finding.input, finding.input_index)}{part}"
    )


def _element(path: str, index: tuple[int, ...]) -> str:
    return shortened(path) + (f"[{', '.join(map(str, index))}]" if index else "")


def _comparison(finding: Finding) -> str:
    """Return how far off a claim is, as a factor where that says something."""
    off = abs(finding.claimed - finding.estimated)
    text = f"off by {off:.3g}, {off / finding.error:.2g} error bars" if finding.error > 0 else f"off by {off:.3g}"
    if finding.estimated and abs(finding.estimated) > 3 * finding.error:
        text += f"; claimed / measured = {finding.claimed / finding.estimated:.4g}"
    return f"{text}; measured at step {finding.eps:.2g}."


def _spread(steps: Sequence[Measured]) -> list[Measured]:
    """Return at most five steps, spread from the smallest to the largest."""
    if len(steps) <= _SHOWN_STEPS:
        return list(steps)
    last = len(steps) - 1
    return [steps[round(k * last / (_SHOWN_STEPS - 1))] for k in range(_SHOWN_STEPS)]


def _pairs(report: Report) -> Iterator[str]:
    """Yield a table of the pairs, the worst first."""
    pairs = report.pairs
    if not pairs:
        return
    yield ""
    yield "Pairs, at the worst entry of each:"
    width = max((8, *(len(pair.endpoint) for pair in pairs)))
    yield f"  {'output / input':22} {'endpoint':{width}} {'failed':>11} {'claimed':>10} {'measured':>10} {'bar':>7}"
    ranked = sorted(pairs, key=lambda pair: (-pair.failures, -pair.excess))
    for pair in ranked[:_SHOWN_PAIRS]:
        name = f"{shortened(pair.output)} / {shortened(pair.input)}"
        if len(name) > 22:
            yield from textwrap.wrap(name, _WIDTH, initial_indent="  ", subsequent_indent="    ")
            name = ""
        values = f"{pair.claimed:>10.4g} {pair.estimated:>10.4g} {pair.error:>7.1g}"
        yield f"  {name:22} {pair.endpoint:{width}} {f'{pair.failures}/{pair.entries}':>11} {values}"
    if len(pairs) > _SHOWN_PAIRS:
        yield f"  ... and {len(pairs) - _SHOWN_PAIRS} more in report.pairs"


def _notes(report: Report) -> Iterator[str]:
    if report.notes:
        yield ""
        yield "Notes:"
        yield from _wrapped(report.notes)


def _wrapped(notes: Sequence[str]) -> Iterator[str]:
    for note in notes:
        yield from textwrap.wrap(_cut(note), _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _block(text: str) -> Iterator[str]:
    yield from textwrap.wrap(_cut(text), _WIDTH, initial_indent="     ", subsequent_indent="     ")


def _cut(text: str) -> str:
    """Return a sentence that fits a screen."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text)} characters)"
