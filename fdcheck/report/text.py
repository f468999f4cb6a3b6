"""The report as text that one reads from the top: verdict, endpoints, diagnosis, worst findings, pairs, notes."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from fdcheck.estimates import Estimate
from fdcheck.report import words
from fdcheck.report.printable import printable, shortened
from fdcheck.results import Finding, Measured, Pair, Report, Status

WIDTH = 80
_NARROWEST = 40
_TABLE = 76
"""Columns of text, where it is not a terminal that has fewer; the fewest that are still used; those of a table."""

_FULL_FINDINGS = 3
_SHOWN_PAIRS = 12
_SHOWN_STEPS = 5
_LONGEST = 1200
"""Lines that fit one screen of a terminal with the verdict still in sight, and characters of one remark."""

_NUMBER = 12
"""Columns of a slope of six digits."""


def terminal_width() -> int:
    """Return the columns to write for stdout: at most 80, fewer where it is a narrow terminal."""
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDTH
    return max(_NARROWEST, min(WIDTH, shutil.get_terminal_size().columns))


def report_text(report: Report, width: int = WIDTH, replay: str = "") -> str:
    """Return a report as text.

    Parameters
    ----------
    report : Report
        The result of a check.
    width : int
        Columns that lines have at most; one to paste may be longer.
    replay : str
        The command that replays a finding, where that is not a call of :func:`fdcheck.replay`; ``{number}`` stands for
        its number.
    """
    numbered = list(enumerate(report.findings, 1))
    accepted = [(k, f) for k, f in numbered if f.status in words.ACCEPTED]
    others = [(k, f) for k, f in numbered if f.status not in words.ACCEPTED]
    again = words.replay(report, replay)
    next_step = words.next_step(report)
    lines = [
        *_wrapped(f"{str(report.verdict).upper()}: {words.headline(report)}", width, ""),
        *_accounts(report, width),
        *_diagnoses(report, width),
        *_findings(report, others, "Findings, furthest beyond what is allowed first:", width),
        *(_wrapped(next_step, width, "  ", 0) if next_step else ()),
        *_pairs(report.pairs, width),
        *_findings(report, accepted, "Accepted at kinks and jumps:", width),
        *(("", again[0], f"  {again[1]}") if again else ()),
        *_notes(report.notes, width),
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
    lines += [line for note in estimate.notes for line in _wrapped(f"- {note}", WIDTH, "  ")]
    return "\n".join(map(printable, lines))


def _accounts(report: Report, width: int) -> Iterator[str]:
    """Yield one line per endpoint with failures out of checks, one for apply, and what would have been noticed."""
    accounts = list(words.accounts(report))
    room = max(9, *(len(name) for name, _ in accounts))
    for name, account in accounts:
        yield from textwrap.wrap(
            f"{name:{room}} {account}", width, initial_indent="  ", subsequent_indent=" " * (room + 3)
        )


def _diagnoses(report: Report, width: int) -> Iterator[str]:
    """Yield each pattern with its repair."""
    if not report.diagnoses:
        return
    yield ""
    yield "Diagnosis:"
    for endpoints, message, repair in words.grouped(report.diagnoses):
        yield from _wrapped(f"{endpoints}: {message}", width, "  ")
        if repair:
            yield from _wrapped(f"Repair: {repair}", width, "    ", 0)


def _findings(report: Report, findings: Sequence[tuple[int, Finding]], title: str, width: int) -> Iterator[str]:
    """Yield findings with their numbers, of each endpoint as many as are wanted, the first three in full."""
    if not findings:
        return
    yield ""
    yield from _wrapped(title, width, "")
    seen: Counter[str] = Counter()
    most = report.max_failures
    for rank, (number, finding) in enumerate(findings, 1):
        seen[finding.endpoint] += 1
        if seen[finding.endpoint] <= most:
            where = words.place(finding, report.points)
            name = f"{number:3}. {finding.endpoint} {finding.status}{': ' if where else ''}{where}"
            yield from _wrapped(name, width, "", 5)
            yield from _finding(finding, rank <= _FULL_FINDINGS, width)
    left_out = sum(max(0, count - most) for count in seen.values())
    if left_out:
        yield from _wrapped(f"... and {left_out} more in report.findings and --json (max_failures)", width, "  ", 0)


def _finding(finding: Finding, is_full: bool, width: int) -> Iterator[str]:
    """Yield what is said of a finding: the numbers, the steps behind them and what to do."""
    if not is_full and math.isfinite(finding.estimated) and finding.status is not Status.KINK:
        short = f"claimed {finding.claimed:.6g}, measured {finding.estimated:.6g} +- {finding.error:.1g}"
        yield from _wrapped(short, width, "     ", 0)
        return
    yield from _wrapped(finding.message, width, "     ", 0)
    for name, value in finding.vectors.items():
        yield from _wrapped(f"{name} = {words.vector(value)}", width, "       ")
    for sentence in words.remarks(finding):
        yield from _wrapped(sentence, width, "     ", 0)
    if finding.steps and finding.status is not Status.NONFINITE:
        yield from _steps(_spread(finding.steps, width), words.is_two_sided(finding.steps))


def _steps(steps: Sequence[Measured], two_sided: bool) -> Iterator[str]:
    """Yield the slopes at each step, of the two sides where they differ."""
    yield "     step   " + " ".join(f"{s.eps:>{_NUMBER}.2g}" for s in steps)
    if two_sided:
        yield "     left   " + " ".join(f"{s.left + 0.0:>{_NUMBER}.6g}" for s in steps)  # + 0.0: no -0
        yield "     right  " + " ".join(f"{s.right + 0.0:>{_NUMBER}.6g}" for s in steps)
    else:
        yield "     slope  " + " ".join(f"{s.slope:>{_NUMBER}.6g}" for s in steps)


def _spread(steps: Sequence[Measured], width: int) -> list[Measured]:
    """Return as many steps as there is room for, five at most, spread from the smallest to the largest."""
    room = max(2, min(_SHOWN_STEPS, (width - 11) // (_NUMBER + 1)))
    if len(steps) <= room:
        return list(steps)
    return [steps[round(k * (len(steps) - 1) / (room - 1))] for k in range(room)]


def _pairs(pairs: Sequence[Pair], width: int) -> Iterator[str]:
    """Yield the worst pairs of each endpoint: as a table, or one below the other where there is no room for it."""
    by_endpoint: dict[str, list[Pair]] = {}
    for pair in words.ranked(pairs):
        by_endpoint.setdefault(pair.endpoint, []).append(pair)
    for endpoint, own in by_endpoint.items():
        yield ""
        yield from _wrapped(f"Pairs of {endpoint} (output / input), at the worst entry of each:", width, "")
        yield from (_table if width >= _TABLE else _stacked)(own[:_SHOWN_PAIRS], width)
        if len(own) > _SHOWN_PAIRS:
            yield f"  ... and {len(own) - _SHOWN_PAIRS} more in report.pairs"


def _table(pairs: Sequence[Pair], width: int) -> Iterator[str]:
    """Yield a line for each pair, and one more for entries that are neither right nor wrong."""
    failed = [f"{pair.failures}/{pair.entries}" for pair in pairs]
    room = max(6, *map(len, failed))
    name_room = 21 - room
    yield (
        f"  {'pair':{name_room}} {'failed':>{room}} {'claimed':>10} {'measured':>10} {'bar':>6} "
        f"{'allowed':>7} {'step':>7} {'noticed':>9}"
    )
    for pair, count in zip(pairs, failed, strict=True):
        name = f"{shortened(pair.output)} / {shortened(pair.input)}"
        if len(name) > name_room:
            yield from _wrapped(name, width, "  ")
            name = ""
        values = f"{pair.claimed:>10.4g} {_measured(pair):>10} {_bar(pair):>6} {_known(pair.tolerance):>7}"
        yield f"  {name:{name_room}} {count:>{room}} {values} {_known(pair.eps):>7} {_noticed(pair):>9}"
        if words.remarked(pair):
            yield f"  {'':{name_room}} {words.remarked(pair)}"


def _stacked(pairs: Sequence[Pair], width: int) -> Iterator[str]:
    """Yield a few lines for each pair."""
    for pair in pairs:
        also = words.remarked(pair)
        yield from _wrapped(
            f"{shortened(pair.output)} / {shortened(pair.input)}: {pair.failures}/{pair.entries} failed", width, "  "
        )
        numbers = (
            f"claimed {pair.claimed:.4g}, measured {_measured(pair)} +- {_bar(pair)}, allowed "
            f"{_known(pair.tolerance)}, step {_known(pair.eps)}, noticed {_noticed(pair)}{f'; {also}' if also else ''}"
        )
        yield from _wrapped(numbers, width, "    ", 0)


def _measured(pair: Pair) -> str:
    """Return what was measured, a dash where nothing was."""
    return "-" if math.isnan(pair.estimated) else f"{pair.estimated:.4g}"


def _bar(pair: Pair) -> str:
    """Return an error bar, a dash where there is none."""
    return f"{pair.error:.1g}" if math.isfinite(pair.error) else "-"


def _known(value: float) -> str:
    """Return a number of two digits, a dash where there is none."""
    return "-" if math.isnan(value) else f"{value:.2g}"


def _noticed(pair: Pair) -> str:
    """Return the smallest relative error that would have been noticed in every entry of a pair."""
    return words.percent(pair.sensitivity) if math.isfinite(pair.sensitivity) else "-"


def _notes(notes: Sequence[str], width: int) -> Iterator[str]:
    if notes:
        yield ""
        yield "Notes:"
    for note in notes:
        yield from _wrapped(f"- {note}", width, "  ")


def _wrapped(text: str, width: int, indent: str, more: int = 2) -> list[str]:
    """Return lines of text, those after the first one ``more`` columns further in; a text without end is cut."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} ... ({len(text)} characters)"
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + " " * more)
