"""Advice on steps as one self-contained page, and as a part of a notebook."""

from __future__ import annotations

import html
import importlib.util
from collections.abc import Iterator
from functools import partial
from typing import Any

from fdcheck.advice import EpsAdvice
from fdcheck.report import figures
from fdcheck.report.advice import LEGEND, advice_text, remarks
from fdcheck.report.extra import needs
from fdcheck.report.html import Figure, environment
from fdcheck.report.pasting import pasted

_PATHS = 500
_SHORT_PATHS = 12
_FIGURES = 6
"""Input paths on a page, in a notebook, and those with a figure."""


def advice_page(advice: EpsAdvice) -> str:
    """Return advice as a whole HTML document.

    Parameters
    ----------
    advice : EpsAdvice
        The result of recommend_eps.

    Raises
    ------
    InvalidInput
        If Jinja2 or matplotlib is missing; the message says how to install them.
    """
    needs("jinja2", "matplotlib")
    return environment().get_template("advice.html.j2").render(**_content(advice, _PATHS, _FIGURES))


def advice_fragment(advice: EpsAdvice) -> str:
    """Return advice in short as HTML for a notebook, with a figure if matplotlib is there; without Jinja2, as text.

    Parameters
    ----------
    advice : EpsAdvice
        The result of recommend_eps.
    """
    if importlib.util.find_spec("jinja2") is None:
        return f"<pre>{html.escape(advice_text(advice))}</pre>"
    drawn = 1 if importlib.util.find_spec("matplotlib") is not None else 0
    return environment().get_template("advice_short.html.j2").render(**_content(advice, _SHORT_PATHS, drawn))


def _content(advice: EpsAdvice, most: int, drawn: int) -> dict[str, Any]:
    """Return what the templates show."""
    shown = advice.paths[:most]
    noises = {block.output: float(block.noise.max()) for block in advice.blocks}
    limits = {limit for path in shown for limit in (path.below, path.above)}
    return {
        "advice": advice,
        "paths": shown,
        "paths_left": len(advice.paths) - len(shown),
        "usual": list(shown[0].usual),
        "limits": [text for limit, text in LEGEND.items() if limit in limits],
        "pasted": pasted(advice),
        "noises": list(noises.items())[:most],
        "noises_left": max(0, len(noises) - most),
        "remarks": remarks(advice),
        "figures": list(_figures(advice, drawn)),
    }


def _figures(advice: EpsAdvice, most: int) -> Iterator[Figure]:
    """Yield the error against the step for the first input paths."""
    if not most:
        return
    from fdcheck.report.svg import svg

    drawn = [(path, path.curve) for path in advice.paths if path.curve is not None]
    for number, (path, curve) in enumerate(drawn[:most], 1):
        text = f"{figures.curve_name(path, curve)}: error of plain differences, at the entry that leaves least choice."
        draw = partial(figures.draw_advice, path=path, curve=curve, rtol=advice.rtol)
        yield Figure(svg(draw, f"a{number}", text), text)
