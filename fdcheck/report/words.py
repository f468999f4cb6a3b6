"""What a report says, in words that all of its renderings share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fdcheck.report.printable import shortened
from fdcheck.results import BREACHES, Coverage, Diagnosis, Finding, Measured, Pair, Point, Report, Status, Verdict

ACCEPTED = (Status.KINK, Status.JUMP)
"""Statuses of entries that are accepted though x0 is no ordinary point."""

_REMARKED = (Status.UNDECIDED, Status.NONFINITE, Status.KINK, Status.JUMP)

_SHOWN_PARTS = 4
"""Parts of a structure that are written out."""

_LOUD = 8.0
"""Noises of a slope above which the slopes of two sides are told apart, as in the decisions."""

_BENT = 0.1
"""Part of the slope by which two sides have to differ before they are shown as two."""

_SUDDEN = 4.0
"""Growth of the gap between two sides, beyond that of the step, which curvature does not show."""


def headline(report: Report) -> str:
    """Return what the verdict means in this report."""
    if report.verdict is Verdict.PASS:
        return "every claim agrees with the measured derivative (evidence, not proof)"
    if report.verdict is Verdict.FAIL:
        return "the derivative is wrong, or an endpoint breaks its contract"
    if not report.pairs:
        return "nothing could be measured"
    return "nothing wrong was found, but not everything could be measured"


def accounts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield a name and a line for each endpoint, for apply, and for what would have been noticed."""
    for name, calls in report.endpoint_calls.items():
        yield name, f"{_compared(report, name)}, {_calls(report, name, calls)}"
    cover = report.coverage
    moved = f"{cover.inputs_measured} of {counted(cover.inputs, 'input element')} moved"
    moved += f" alone, {cover.together} together" if cover.together else ""
    yield "apply", f"{_calls(report, 'apply', report.applies)}, {moved}"
    if len(report.points) > 1:
        yield "points", _points(report)
    if math.isfinite(report.sensitivity):
        typical = f"{percent(report.typical)} in a typical entry, of " if math.isfinite(report.typical) else ""
        every = f"{percent(report.sensitivity)} in every entry that stands out of its error bar"
        yield "noticed", f"an error of {typical}{every}"


def _calls(report: Report, name: str, calls: int) -> str:
    """Return how often a callable was called, and how many of the calls were for the contract."""
    own = report.contract_calls.get(name, 0)
    return counted(calls, "call") + (f" ({own} for the contract)" if own else "")


def vector(value: Any) -> str:
    """Return a tangent, cotangent or point in a few numbers; ``report.findings`` holds all of them."""
    if isinstance(value, Mapping):
        text = ", ".join(f"{key!r}: {vector(part)}" for key, part in itertools.islice(value.items(), _SHOWN_PARTS))
        return f"{{{text}{', ...' if len(value) > _SHOWN_PARTS else ''}}}"
    if isinstance(value, list | tuple) and all(isinstance(part, int | float) for part in value):
        value = np.array(value)
    if isinstance(value, list | tuple):
        text = ", ".join(vector(part) for part in value[:_SHOWN_PARTS])
        return f"({text}{', ...' if len(value) > _SHOWN_PARTS else ''})"
    if isinstance(value, np.ndarray):
        return " ".join(
            np.array2string(
                value, separator=", ", threshold=8, edgeitems=3, formatter={"float_kind": "{:.8g}".format}
            ).split()
        )
    return f"{value!r:.80}"


def _points(report: Report) -> str:
    """Return how many points were checked, and at which something is wrong or open."""
    counts = {origin: sum(point.origin == origin for point in report.points) for origin in ("given", "drawn")}
    parts = ["x0"]
    parts += [f"{counts['given']} given"] if counts["given"] else []
    parts += [f"{counts['drawn']} drawn around it, seed {report.seed}"] if counts["drawn"] else []
    text = f"{len(report.points)}: {', '.join(parts)}"
    for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE):
        which = [str(k) if k else "x0" for k, point in enumerate(report.points) if point.verdict is verdict]
        text += f"; {verdict} at {', '.join(which)}" if which else ""
    return text


def _compared(report: Report, endpoint: str) -> str:
    """Return failures out of checks of an endpoint, and what else its entries are."""
    pairs = [pair for pair in report.pairs if pair.endpoint == endpoint]
    if not pairs:
        breach = next((f for f in report.findings if f.endpoint == endpoint and f.status in BREACHES), None)
        return f"not compared ({breach.status})" if breach else "not compared"
    failures, entries = sum(pair.failures for pair in pairs), sum(pair.entries for pair in pairs)
    others = {status: sum(pair.counts.get(status, 0) for pair in pairs) for status in _REMARKED}
    rest = "".join(f", {number} {status}" for status, number in others.items() if number)
    return f"{counted(failures, 'failure')} / {counted(entries, 'check')}{rest}"


def counted(number: int, word: str) -> str:
    """Return a number with its noun, in the plural where it has to be."""
    return f"{number} {word}" + ("" if number == 1 else "s")


def percent(part: float) -> str:
    """Return a part of one as a percentage of two digits, from ten on as a multiple."""
    if part >= 9.95:
        return f"{float(f'{part:.2g}'):.7g} times"
    return f"{float(f'{100 * part:.2g}'):g} %"


def remarked(pair: Pair) -> str:
    """Return the entries of a pair that are neither right nor wrong, and whether the numbers are sums."""
    remarks = [f"{pair.counts[status]} {status}" for status in _REMARKED if pair.counts.get(status)]
    return ", ".join([*remarks, *(["moved together, sums along a direction"] if pair.together else [])])


def ranked(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs, the worst first."""
    return sorted(pairs, key=lambda pair: (-pair.failures, -pair.excess))


def place(finding: Finding, points: Sequence[Point] = ()) -> str:
    """Return which entry a finding is about, and at which of several points; empty where it is about all of x0."""
    parts = []
    if finding.output:
        of, by = element(finding.output, finding.output_index), element(finding.input, finding.input_index)
        parts += [f"d {of} / d {by}", *([finding.part] if finding.part else [])]
    if finding.point:
        parts += [f"at point {finding.point}", *_input_there(finding, points)]
    return ", ".join(parts)


def _input_there(finding: Finding, points: Sequence[Point]) -> Iterator[str]:
    """Yield what the input of a finding is at its point, where that is kept."""
    values = points[finding.point].values.get(finding.input) if finding.point < len(points) else None
    if values is not None and len(finding.input_index) == values.ndim:
        yield f"{element(finding.input, finding.input_index)} = {values[finding.input_index]:.6g}"


def replay(report: Report, command: str = "") -> tuple[str, str] | None:
    """Return how one finding is had again alone: what to say and what to paste; None where that cannot be.

    Parameters
    ----------
    report : Report
        The result of a check.
    command : str
        What does it where that is not a call of :func:`fdcheck.replay`; ``{number}`` stands for the finding.
    """
    number = next((k for k, f in enumerate(report.findings, 1) if f.endpoint in report.endpoint_calls), 0)
    if not number or not report.settings:
        return None
    name = report.findings[number - 1].endpoint
    call = command.format(number=number) or f"fdcheck.replay(report, {number}, apply, x0, {name}={name})"
    return f"To replay finding {number} alone{' (REPORT.json is what --json prints)' if command else ''}:", call


def element(path: str, index: tuple[int, ...]) -> str:
    """Return an element of a leaf as it is written in Python."""
    return shortened(path) + (f"[{', '.join(map(str, index))}]" if index else "")


def remarks(finding: Finding) -> Iterator[str]:
    """Yield sentences on a finding beside its message: how far it is off, how far the kink is, what to do."""
    if finding.status is Status.DISAGREES and math.isfinite(finding.claimed) and not is_two_sided(finding.steps):
        yield _comparison(finding)
    far = _distance(finding)
    if far:
        yield far
    if finding.status in BREACHES:
        yield "Next: " + finding.status.advice


def _comparison(finding: Finding) -> str:
    """Return how far off a claim is, as a factor where that says something."""
    off = abs(finding.claimed - finding.estimated)
    text = f"off by {off:.3g}, {off / finding.error:.2g} error bars" if finding.error > 0 else f"off by {off:.3g}"
    if finding.estimated and abs(finding.estimated) > 3 * finding.error:
        text += f"; claimed / measured = {finding.claimed / finding.estimated:.4g}"
    return f"{text}; measured at step {finding.eps:.2g}." if math.isfinite(finding.eps) else f"{text}."


def _distance(finding: Finding) -> str:
    """Return how far from x0 a kink or a jump lies, empty where none was seen."""
    if not finding.steps or finding.status in BREACHES:
        return ""
    if finding.status in ACCEPTED:
        return f"The {finding.status} lies within {finding.steps[0].eps:.1g} of x0, the smallest step taken."
    for near, far in zip(finding.steps, finding.steps[1:], strict=False):
        if _gap(near) < _BENT * _BENT * _size(far) and _parts(near, far, finding):
            return f"The slopes of the two sides part between {near.eps:.1g} and {far.eps:.1g} from x0, as at a kink."
    return ""


def _gap(step: Measured) -> float:
    """Return by how much the slopes of the two sides differ."""
    return abs(step.right - step.left)


def _size(step: Measured) -> float:
    """Return the larger of the slopes of the two sides."""
    return max(abs(step.left), abs(step.right))


def _noise_of(step: Measured, finding: Finding) -> float:
    """Return the noise of a slope, zero where it is not known."""
    return finding.noise / step.eps if math.isfinite(finding.noise) else 0.0


def _is_heard(step: Measured, finding: Finding) -> bool:
    """Return whether the slopes of the two sides differ by more than noise does."""
    return _gap(step) > _LOUD * _noise_of(step, finding)


def _stands_out(step: Measured, finding: Finding) -> bool:
    """Return whether the slopes of the two sides differ by much, and by more than noise does."""
    return _is_heard(step, finding) and _gap(step) > _BENT * _size(step)


def _parts(near: Measured, far: Measured, finding: Finding) -> bool:
    """Return whether the two sides part from one step to the next faster than by curvature."""
    before = max(_gap(near), _noise_of(near, finding))
    return _stands_out(far, finding) and _gap(far) > _SUDDEN * far.eps / near.eps * before


def is_two_sided(steps: Sequence[Measured]) -> bool:
    """Return whether the slopes of the two sides differ at the smallest step, as at a kink."""
    if not steps:
        return False
    return _gap(steps[0]) > _BENT * _size(steps[0])


def bends(finding: Finding) -> bool:
    """Return whether the two sides differ as at a kink or a jump, or so that curvature is not seen to explain it."""
    if finding.steps and _stands_out(finding.steps[0], finding):
        return True
    return any(
        _stands_out(far, finding) and (not _is_heard(near, finding) or _parts(near, far, finding))
        for near, far in zip(finding.steps, finding.steps[1:], strict=False)
    )


def grouped(diagnoses: Sequence[Diagnosis]) -> Iterator[tuple[str, str, str]]:
    """Yield endpoints, message and repair of each pattern, once for all endpoints that show it."""
    endpoints: dict[tuple[str, str], list[str]] = {}
    for diagnosis in diagnoses:
        endpoints.setdefault((diagnosis.message, diagnosis.repair), []).append(diagnosis.endpoint)
    for (message, repair), names in endpoints.items():
        yield ", ".join(names), message, repair


def next_step(report: Report) -> str:
    """Return where in the code to look, for what no diagnosis has named; empty where nothing is left."""
    named = {diagnosis.endpoint for diagnosis in report.diagnoses}
    failing = [f for f in report.findings if f.status is Status.DISAGREES and f.endpoint not in named]
    if not failing:
        return ""
    sampled = report.coverage.inputs_measured < report.coverage.inputs and _is_sample(report.coverage)
    if sampled:
        return _where(failing) + " Inputs outside of the sample may be wrong too."
    names = {f.endpoint for f in failing}
    more = any(pair.together and pair.endpoint in names and pair.counts.get(Status.UNDECIDED) for pair in report.pairs)
    return _where(failing, more) + (" More entries may be wrong than these." if more else "")


def _is_sample(coverage: Coverage) -> bool:
    return any(taken < size for taken, size in coverage.elements.values())


def _where(failing: Sequence[Finding], are_there_more: bool = False) -> str:
    """Return what the failing entries have in common, which says where in the code to look."""
    first = failing[0]
    columns = {(f.input, f.input_index) for f in failing}
    rows = {(f.output, f.output_index) for f in failing}
    inputs, outputs = {f.input for f in failing}, {f.output for f in failing}
    subject = f"how {first.endpoint} computes" if len({f.endpoint for f in failing}) == 1 else "what computes"
    entry = f"d {element(first.output, first.output_index)} / d {element(first.input, first.input_index)}"
    if are_there_more:  # what a few have in common says little of the rest
        return f"Next: look at {subject} {entry}."
    if len(failing) == 1:
        return f"Next: one entry is wrong; look at {subject} {entry}."
    if len(columns) == 1:
        return f"Next: all failures are derivatives by {element(*columns.pop())}; look at {subject} them."
    if len(rows) == 1:
        by = f" by {inputs.pop()}" if len(inputs) == 1 else ""
        return f"Next: all failures are derivatives of {element(*rows.pop())}{by}; look at {subject} them."
    if len(inputs) == 1 or len(outputs) == 1:
        blocks = f"{', '.join(sorted(outputs))} by {', '.join(sorted(inputs))}"
        return f"Next: all failures are in {blocks}; look at {subject} it, beginning with {entry}."
    return f"Next: look at {subject} {entry}."
