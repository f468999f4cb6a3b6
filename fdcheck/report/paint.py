"""Colours for a report in a terminal, laid over its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

_STYLES = (
    (r"^PASS(?=:)", "bold green"),
    (r"^FAIL(?=:)", "bold red"),
    (r"^INCONCLUSIVE(?=:)", "bold yellow"),
    (r"(?m)^[A-Z][^\n]*:$", "bold"),
    (r"(?m)^ +(?:Next|Repair):", "bold"),
    (r"(?m)^ *\d+\. \S+ (?P<red>disagrees|raised|structure|shape|dtype|mutation|nonlinear)\b", ""),
    (r"(?m)^ *\d+\. \S+ (?P<yellow>undecided|nonfinite|nondeterministic|kink|jump)\b", ""),
    (r"(?P<red>\b[1-9]\d* failures?)\b", ""),
)
"""Patterns and the style of what they match; a named group is the style of that group alone."""


def painted(text: str) -> Text:
    """Return a text in which verdicts, titles and statuses stand out.

    Parameters
    ----------
    text : str
        A report as text.
    """
    from rich.text import Text

    result = Text(text)
    for pattern, style in _STYLES:
        result.highlight_regex(pattern, style or None)
    return result
