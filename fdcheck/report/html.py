"""The report as one self-contained page, and as a part of a notebook; every word of the user's is escaped."""

from __future__ import annotations

import html
import importlib.util
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fdcheck.evidence import MARKS, Evidence
from fdcheck.report import figures, words
from fdcheck.report.extra import needs
from fdcheck.report.text import report_text
from fdcheck.results import Finding, Report, Status

if TYPE_CHECKING:
    import jinja2
    import markupsafe

_BREAKABLE = re.compile(r"(?<![\w.;&#])(\+- )?-?\d+(\.\d+)?(e[-+]\d+)?(?![\w;])")
"""Numbers, in text whose characters of HTML are escaped."""

_FIGURES = 3
"""Findings of each endpoint whose steps are drawn; the others have them as a table."""

_ENDPOINTS = 6
"""Endpoints whose claims and errors are drawn."""

_PAIRS = 500
_SHORT_PAIRS, _SHORT_FINDINGS = 12, 3
"""Pairs on a page, and pairs and findings in a notebook."""


@dataclass(frozen=True)
class Figure:
    """A drawing with the sentence below it."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Shown:
    """A finding as a page shows it: its number, what is said of it, and drawings of its steps."""

    number: int
    finding: Finding
    place: str
    remarks: tuple[str, ...]
    two_sided: bool
    figures: tuple[Figure, ...]


def write_html(page: str, path: str | os.PathLike[str]) -> None:
    """Write a page to a file.

    Parameters
    ----------
    page : str
        The whole document.
    path : path-like
        Where to; folders have to exist. An older file is replaced.
    """
    Path(path).write_text(page, encoding="utf-8")


def report_page(report: Report) -> str:
    """Return a report as a whole HTML document.

    Parameters
    ----------
    report : Report
        The result of a check.

    Raises
    ------
    InvalidInput
        If Jinja2 or matplotlib is missing; the message says how to install them.
    """
    needs("jinja2", "matplotlib")
    return environment().get_template("report.html.j2").render(**_content(report, _PAIRS, drawn=True))


def report_fragment(report: Report) -> str:
    """Return a report in short as HTML for a notebook, with a figure if matplotlib is there; without Jinja2, as text.

    Parameters
    ----------
    report : Report
        The result of a check.
    """
    if importlib.util.find_spec("jinja2") is None:
        return f"<pre>{html.escape(report_text(report))}</pre>"
    drawn = importlib.util.find_spec("matplotlib") is not None
    return (
        environment().get_template("report_short.html.j2").render(**_content(report, _SHORT_PAIRS, drawn, short=True))
    )


@cache
def environment() -> jinja2.Environment:
    """Return the templates; what is put into them is escaped."""
    import jinja2

    env = jinja2.Environment(
        loader=jinja2.PackageLoader("fdcheck.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"number": _number, "percent": _percent, "prose": _prose}
    return env


def _content(report: Report, most_pairs: int, drawn: bool, short: bool = False) -> dict[str, Any]:
    """Return what the templates show."""
    numbered = list(enumerate(report.findings, 1))
    accepted = [(k, f) for k, f in numbered if f.status in words.ACCEPTED]
    others = [(k, f) for k, f in numbered if f.status not in words.ACCEPTED]
    most = _SHORT_FINDINGS if short else report.max_failures
    drawings = (1 if short else _FIGURES) if drawn else 0
    ranked = words.ranked(report.pairs)
    return {
        "report": report,
        "headline": words.headline(report),
        "accounts": list(words.accounts(report)),
        "diagnoses": list(words.grouped(report.diagnoses)),
        "next_step": words.next_step(report),
        "findings": list(_shown(others, most, drawings, "f")),
        "findings_left": _left_out(others, most),
        "accepted": list(_shown(accepted, most, drawings, "k")),
        "accepted_left": _left_out(accepted, most),
        "pairs": [(pair, words.remarked(pair)) for pair in ranked[:most_pairs]],
        "pairs_left": len(ranked) - most_pairs,
        "overviews": list(_overviews(report)) if drawn and not short else [],
    }


def _left_out(findings: Sequence[tuple[int, Finding]], most: int) -> int:
    """Return how many findings are not shown."""
    return sum(max(0, count - most) for count in Counter(f.endpoint for _, f in findings).values())


def _shown(findings: Sequence[tuple[int, Finding]], most: int, drawings: int, prefix: str) -> Iterator[Shown]:
    """Yield the first findings of each endpoint, the very first with drawings."""
    seen: Counter[str] = Counter()
    for number, finding in findings:
        seen[finding.endpoint] += 1
        if seen[finding.endpoint] > most:
            continue
        drawn = tuple(_drawings(finding, f"{prefix}{number}")) if seen[finding.endpoint] <= drawings else ()
        yield Shown(
            number,
            finding,
            words.place(finding),
            tuple(words.remarks(finding)),
            words.is_two_sided(finding.steps),
            drawn,
        )


def _drawings(finding: Finding, name: str) -> Iterator[Figure]:
    """Yield drawings of the steps behind a finding."""
    from fdcheck.report.svg import svg

    if not finding.steps or finding.status is Status.NONFINITE:
        return
    entry = figures.entry_name(finding)
    if words.bends(finding):
        caption = f"{entry}: slopes to both sides of x0. At a kink they stay apart at the smallest steps."
        yield Figure(svg(partial(figures.draw_sides, finding=finding), f"{name}-sides", caption), caption)
    if finding.status not in words.ACCEPTED and math.isfinite(finding.estimated):
        caption = f"{entry}: distance of the slopes measured at each step, and of the claim, from the estimate."
        yield Figure(svg(partial(figures.draw_steps, finding=finding), f"{name}-steps", caption), caption)


def _overviews(report: Report) -> Iterator[tuple[str, bool, list[Figure]]]:
    """Yield each endpoint, wrong ones first, whether to show it at once, and drawings of all of its claims."""
    from fdcheck.report.svg import svg

    ranked = sorted(report.evidence, key=lambda evidence: not _is_wrong(evidence))[:_ENDPOINTS]
    for number, evidence in enumerate(ranked, 1):
        about = (
            (
                figures.draw_map,
                "map",
                "Error of each entry of the Jacobian, as a multiple of what is allowed.",
            ),
            (figures.draw_claims, "claims", "Claimed against measured entries; right claims lie on the line."),
        )
        drawn = [
            Figure(svg(partial(draw, evidence=evidence), f"e{number}-{name}", f"{evidence.endpoint}: {text}"), text)
            for draw, name, text in about
        ]
        if evidence.typical is not None:
            text = f"{figures.entry_name(evidence.typical)}, which agrees: distance of the slopes from the estimate."
            draw_one = partial(figures.draw_steps, finding=evidence.typical)
            drawn.append(Figure(svg(draw_one, f"e{number}-typical", f"{evidence.endpoint}: {text}"), text))
        yield evidence.endpoint, number == 1 or _is_wrong(evidence), drawn


def _is_wrong(evidence: Evidence) -> bool:
    """Return whether an entry of an endpoint disagrees."""
    return bool((evidence.marks == MARKS.index("disagrees")).any())


def _number(value: float, digits: int = 6) -> str:
    """Return a number with some digits, and a dash where there is none."""
    return "–" if math.isnan(value) else f"{value + 0.0:.{digits}g}"


def _prose(text: str) -> markupsafe.Markup:
    """Return a sentence, escaped, whose numbers are not broken at their minus."""
    import markupsafe

    return markupsafe.Markup(_BREAKABLE.sub(r'<span class="n">\g<0></span>', str(markupsafe.escape(text))))


def _percent(part: float) -> str:
    """Return a part of one as a percentage."""
    return words.percent(part) if math.isfinite(part) else "–"
