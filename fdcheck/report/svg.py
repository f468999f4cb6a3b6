"""A figure as SVG that stands inside a page: no fixed size, no fixed colours, no names that clash with another's."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from fdcheck.report import figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

_SIZE = (3.9, 3.3)
"""Inches: small enough that the letters can be read where the figure is 330 pixels wide, as on a phone."""

_VARIABLES = {
    figures.INK: "ink", figures.FAINT: "faint", figures.BLUE: "blue", figures.RED: "red", figures.AMBER: "amber",
    figures.GREEN: "green", figures.PURPLE: "purple", figures.GREY: "grey",
}  # fmt: skip

_STYLE: Any = {
    "svg.fonttype": "none", "svg.hashsalt": "fdcheck", "text.parse_math": False, "font.family": "sans-serif",
    "font.size": 9, "axes.titlesize": 9, "text.color": figures.INK, "axes.labelcolor": figures.INK,
    "axes.edgecolor": figures.FAINT, "xtick.color": figures.INK, "ytick.color": figures.INK,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "axes.unicode_minus": True,
    "axes.formatter.use_mathtext": False, "figure.constrained_layout.use": True,
}  # fmt: skip


def svg(draw: Callable[[Axes], None], name: str, title: str) -> str:
    """Return what a function draws on an axes as an ``<svg>`` element.

    Parameters
    ----------
    draw : callable
        Draws on one axes.
    name : str
        Letters that no other figure of the page bears.
    title : str
        What the figure shows, for those who do not see it.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    stream = io.StringIO()
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn by the browser
        figure = Figure(figsize=_SIZE)
        FigureCanvasSVG(figure)
        draw(figure.add_subplot())
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return _adapted(ElementTree.fromstring(stream.getvalue()), name, title)


def _adapted(root: ElementTree.Element, name: str, title: str) -> str:
    """Return an SVG tree as text for a page."""
    root.remove(root.find(f"{{{_SVG}}}metadata"))  # type: ignore[arg-type] # matplotlib always writes it
    for parent in list(root.iter()):
        for style in parent.findall(f"{{{_SVG}}}style"):
            parent.remove(style)  # it would rule the whole page
    for element in root.iter():
        _rename(element, name)
        _follow_theme(element)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title")
    heading = ElementTree.Element(f"{{{_SVG}}}title", {"id": f"{name}-title"})
    heading.text = title
    root.insert(0, heading)
    ElementTree.register_namespace("", _SVG)
    ElementTree.register_namespace("xlink", _XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _rename(element: ElementTree.Element, name: str) -> None:
    """Put the figure's name before every id and every reference to one."""
    if "id" in element.attrib:
        element.set("id", f"{name}-{element.attrib['id']}")
    link = element.attrib.get(f"{{{_XLINK}}}href", "")
    if link.startswith("#"):
        element.set(f"{{{_XLINK}}}href", f"#{name}-{link[1:]}")
    clip = element.attrib.get("clip-path", "")
    if clip.startswith("url(#"):
        element.set("clip-path", f"url(#{name}-{clip[5:]}")


def _follow_theme(element: ElementTree.Element) -> None:
    """Put variables of the page in place of colours."""
    style = element.attrib.get("style", "")
    for color, variable in _VARIABLES.items():
        style = style.replace(color, f"var(--{variable})")
    if style:
        element.set("style", style)
