"""Figures of a report, each drawn on one axes: errors at each step, slopes of two sides, claims, a map of errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fdcheck.advice import EpsCurve, EpsPath
from fdcheck.evidence import MARKS, Evidence
from fdcheck.report.words import bends, element
from fdcheck.results import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

INK, FAINT = "#1b1f24", "#8c959f"
BLUE, RED, AMBER, GREEN, PURPLE, GREY = "#0b63c5", "#c4271b", "#a15c00", "#1a7f37", "#7b3fb5", "#6a737d"
"""Colours by role; a page replaces each by a variable that follows the reader's light or dark theme."""

_MARK_STYLES = {
    "agrees": (BLUE, "o", 14),
    "kink or jump": (AMBER, "^", 26),
    "undecided": (GREY, "s", 18),
    "disagrees": (RED, "X", 34),
}
"""Colour, shape and size of points: the shape tells as much as the colour does."""

_RANGE = 1e4
"""Ratio of the largest to the smallest slope beyond which a linear axis would hide the small ones."""

_WORST = 1e3
"""Errors are told apart up to this multiple of what is allowed, and down to its inverse."""

_ERROR_COLORS = ("#4f83bd", "#86abd6", "#c3d6ea", "#f5f0e6", "#f0a587", "#d6604d", "#a3162a")
"""From far below what is allowed to far above: what is right is quiet, on light and on dark ground."""

_FLAT_COLORS = {"undecided": "#8a929b", "kink or jump": "#d99a2b", "not looked at": "none"}
"""Of entries whose error says nothing; a picture keeps its colours, so they do not follow the theme."""

_ON_MAP = "#111111"
"""Of lines and crosses on a picture."""

_NAME = 22
"""Letters of a path that fit beside a figure."""

_LABELLED = 12
"""Paths that have room for their names on one side of a figure."""

_CROSSED = 16
"""Rows or columns up to which a wrong entry has room for a cross beside its colour."""

_POWERS = 7
"""Powers of ten that are named on an axis."""

_ULP = 2.0**-52

_FAR = 10.0
"""Relative errors above this are as bad as any."""

_BELOW_BAR = 30.0
"""Distances this much below the error bar of the estimate say nothing any more."""


def draw_steps(ax: Axes, finding: Finding) -> None:
    """Draw the error of the slope at each step: it falls where noise rules and grows where truncation does.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    finding : Finding
        An entry with its steps.
    """
    steps = [s for s in finding.steps if s.eps > 0 and math.isfinite(s.slope)]
    h = np.array([s.eps for s in steps])
    off = np.abs([s.slope - finding.estimated for s in steps])
    bar = finding.error if math.isfinite(finding.error) else 0.0
    least = max(_ULP * abs(finding.estimated), bar / _BELOW_BAR, np.finfo(float).tiny)
    shown = np.maximum(off, least)  # a slope that is equal to the estimate has no place on a logarithmic axis
    ends = np.geomspace(h.min() / 4, h.max() * 4, 50)  # two decades at least, so that two powers of ten are named
    allowed = finding.tolerance + finding.error
    lines: list[tuple[float, str, str, str]] = []
    if math.isfinite(allowed) and allowed > 0:
        lines.append((allowed, GREEN, "--", "allowed"))
    miss = abs(finding.claimed - finding.estimated)
    if math.isfinite(miss) and miss > least:
        lines.append((miss, RED if miss > allowed else BLUE, "-", "the claim"))
    for level, color, style, label in lines:
        ax.axhline(level, color=color, linestyle=style, linewidth=1.6, label=label)
    noise = finding.noise / math.sqrt(2)  # of a central slope times h: two values, over 2 h
    if noise / ends[0] > shown.min():  # false for NaN
        ax.plot(ends, noise / ends, color=PURPLE, linestyle=":", linewidth=1.4, label="noise floor")
    if not bends(finding):
        _draw_truncation(ax, h, off, noise if math.isfinite(noise) else 0.0)
    ax.plot(h, shown, color=INK, marker="o", markersize=5, linewidth=1, label="measured slopes")
    forced = math.isfinite(finding.forced)
    for step, label in ((finding.forced, "your eps"), (math.nan if forced else finding.eps, "chosen step")):
        if math.isfinite(step) and step > 0:
            ax.axvline(step, color=AMBER, linestyle="-.", linewidth=1.2, label=label)
    ax.set(xscale="log", yscale="log", xlabel="step (half-width)", ylabel="distance from the estimate")
    ax.set_xlim(ends[0], ends[-1])
    values = np.array([*shown, *(level for level, *_ in lines)])
    ax.set_ylim(values.min() / 5, values.max() * 5)
    _number_logarithmic(ax.xaxis, ax.yaxis)
    _finish(ax)


def _draw_truncation(ax: Axes, h: np.ndarray[Any, Any], off: np.ndarray[Any, Any], noise: float) -> None:
    """Draw the square law through the widest step, where its error stands out of the noise."""
    if len(h) < 2 or not off[-1] > 3 * noise / h[-1]:
        return
    span = np.geomspace(max(h[0], h[-1] / 300), h[-1], 20)
    ax.plot(span, off[-1] * (span / h[-1]) ** 2, color=FAINT, linestyle="-", linewidth=1.2, label="truncation ~ step²")


def draw_sides(ax: Axes, finding: Finding) -> None:
    """Draw the slopes to the left and to the right of x0 at each step, and the claim.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    finding : Finding
        An entry with its steps.
    """
    h = [s.eps for s in finding.steps]
    for values, marker, color, label in (
        ([s.left for s in finding.steps], "<", BLUE, "slope on the left"),
        ([s.right for s in finding.steps], ">", AMBER, "slope on the right"),
    ):
        ax.plot(h, values, color=color, marker=marker, markersize=6, linewidth=1, label=label)
    if math.isfinite(finding.claimed):
        ax.axhline(finding.claimed, color=INK, linestyle="--", linewidth=1.6, label="the claim")
    ax.set(xscale="log", xlabel="step", ylabel="one-sided slope")
    ax.margins(y=0.15)
    _number_logarithmic(ax.xaxis)
    _finish(ax)


def draw_claims(ax: Axes, evidence: Evidence) -> None:
    """Draw what was claimed against what was measured: right claims lie on the diagonal.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    evidence : Evidence
        Of one endpoint.
    """
    finite = np.isfinite(evidence.claimed) & np.isfinite(evidence.estimated)
    x, y, marks = (array[finite] for array in (evidence.estimated, evidence.claimed, evidence.point_marks))
    size = np.abs(np.concatenate([x, y]))
    size = size[size > 0]
    if size.size and size.max() > _RANGE * np.median(size):
        linear = float(np.quantile(size, 0.05))
        ax.set_xscale("symlog", linthresh=linear)
        ax.set_yscale("symlog", linthresh=linear)
        _number_logarithmic(ax.xaxis, ax.yaxis)
    ends = [min(x.min(initial=0.0), y.min(initial=0.0)), max(x.max(initial=0.0), y.max(initial=0.0))]
    ax.plot(ends, ends, color=FAINT, linewidth=1.2, zorder=1, label="claimed = measured")
    for mark, (color, marker, area) in _MARK_STYLES.items():
        own = marks == MARKS.index(mark)
        if own.any():
            ax.scatter(
                x[own], y[own], s=area, color=color, marker=marker, linewidths=0, zorder=2 + MARKS.index(mark),
                label=f"{mark} ({np.count_nonzero(own)})", gid=f"points-{MARKS.index(mark)}",
            )  # fmt: skip
    ax.set(xlabel="measured", ylabel="claimed")
    _finish(ax)


def draw_map(ax: Axes, evidence: Evidence) -> None:
    """Draw the Jacobian with the error of each entry, or the largest of a bin, as a multiple of what is allowed.

    Parameters
    ----------
    ax : Axes
        Where to draw; a bar with the colours is put beside it.
    evidence : Evidence
        Of one endpoint.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_rgba
    from matplotlib.patches import Patch

    colors = LinearSegmentedColormap.from_list("fdcheck", _ERROR_COLORS)
    scale = ScalarMappable(LogNorm(1 / _WORST, _WORST), colors)
    image = scale.to_rgba(np.clip(evidence.excess, 1 / _WORST, _WORST))
    flat = {mark: to_rgba(color) for mark, color in _FLAT_COLORS.items()}
    patches = []
    for mark, color in flat.items():
        own = evidence.marks == MARKS.index(mark)
        image[own] = color
        if own.any():
            patches.append(Patch(facecolor=color, edgecolor=FAINT, label=mark))
    ax.imshow(image, aspect="auto", interpolation="none", origin="upper")
    wrong = np.argwhere(evidence.marks == MARKS.index("disagrees"))
    if len(wrong) and max(evidence.marks.shape) <= _CROSSED:
        ax.scatter(wrong[:, 1], wrong[:, 0], s=18, marker="x", color=_ON_MAP, linewidths=1.2)
    _label_blocks(ax, evidence)
    figure: Any = ax.figure
    bar = figure.colorbar(scale, ax=ax, extend="both", fraction=0.06, pad=0.03)
    bar.set_label("error / what is allowed")
    _number_logarithmic(bar.ax.yaxis)
    bar.ax.axhline(1.0, color=_ON_MAP, linewidth=1.5)
    if patches:
        ax.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)


def _label_blocks(ax: Axes, evidence: Evidence) -> None:
    """Name the blocks of a map by their paths and draw lines between them; number the elements of a single one."""
    for axis, paths, starts, bins, line in (
        (ax.yaxis, evidence.outputs, evidence.output_starts, evidence.rows, ax.axhline),
        (ax.xaxis, evidence.inputs, evidence.input_starts, evidence.columns, ax.axvline),
    ):
        axis.set_label_text("output" if axis is ax.yaxis else "input")
        first = np.searchsorted(bins, starts)
        middles = (first + np.append(first[1:], len(bins) - 1) - 1) / 2
        if len(paths) > 1 and len(paths) <= len(bins) - 1:
            for cut in first[1:]:
                line(cut - 0.5, color=_ON_MAP, linewidth=0.8)
        if len(paths) > _LABELLED:
            some = np.linspace(0, len(paths) - 1, _LABELLED).round().astype(int)
        else:
            some = np.arange(len(paths))
        if len(paths) == 1:
            axis.set_label_text(short(paths[0]))
            ticks = np.unique(np.linspace(0, len(bins) - 2, min(6, len(bins) - 1)).round().astype(int))
            axis.set_ticks(ticks, [str(int(bins[k]) - starts[0]) for k in ticks])
        else:
            axis.set_ticks(middles[some], [short(paths[k]) for k in some])
        for label in (axis.label, *axis.get_ticklabels()):
            label.set_parse_math(False)
        if axis is ax.xaxis and len(paths) > 3:
            axis.set_tick_params(rotation=90 if len(paths) > 6 else 30)


def draw_advice(ax: Axes, path: EpsPath, curve: EpsCurve, rtol: float) -> None:
    """Draw the relative error of plain differences at each step, with the safe range and the recommended step.

    Parameters
    ----------
    ax : Axes
        Where to draw.
    path : EpsPath
        What is recommended.
    curve : EpsCurve
        Error against step at one entry.
    rtol : float
        Relative error that safe steps stay under.
    """
    least = max(_ULP, curve.doubt / _BELOW_BAR)
    if math.isfinite(path.low):
        ax.axvspan(path.low, path.high, color=GREEN, alpha=0.14, linewidth=0, label="safe range")
    for part, color, style, label in (
        (curve.noise, PURPLE, ":", "noise"),
        (curve.truncation, FAINT, "-", "truncation"),
    ):
        shown = part > least
        if shown.any():
            ax.plot(curve.eps[shown], part[shown], color=color, linestyle=style, linewidth=1.4, label=label)
    ax.axhline(rtol, color=GREEN, linestyle="--", linewidth=1.6, label=f"rtol {rtol:.2g}")
    shown = np.maximum(curve.error, least)
    ax.plot(curve.eps, shown, color=INK, marker="o", markersize=4, linewidth=0.8, label="measured error")
    if math.isfinite(path.eps):
        ax.axvline(path.eps, color=AMBER, linestyle="-.", linewidth=1.6, label=f"eps {path.eps:.2g}")
    ax.set(xscale="log", yscale="log", xlabel="step (half-width)", ylabel="relative error")
    ax.set_ylim(min(shown.min(initial=rtol), rtol) / 5, max(min(shown.max(initial=rtol), _FAR), rtol) * 5)
    _number_logarithmic(ax.xaxis, ax.yaxis)
    _finish(ax)


def short(path: str) -> str:
    """Return a path that fits beside a figure, without letters that cannot be drawn."""
    text = "".join(letter if letter.isprintable() else "?" for letter in path)
    return text if len(text) <= _NAME else f"{text[: _NAME // 2]}…{text[-_NAME // 2 + 1 :]}"


def entry_name(finding: Finding) -> str:
    """Return the entry that a figure is about, short enough for its title."""
    of, by = short(finding.output), short(finding.input)
    return f"d {element(of, finding.output_index)} / d {element(by, finding.input_index)}"


def curve_name(path: EpsPath, curve: EpsCurve) -> str:
    """Return the entry that a curve of an advice belongs to, short enough for a title."""
    of, by = element(short(curve.output), curve.output_index), element(short(path.input), curve.input_index)
    return f"d {of} / d {by}"


def _finish(ax: Axes) -> None:
    """Put a legend below an axes, where it hides nothing."""
    ax.grid(True, color=FAINT, alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.18), ncols=2, frameon=False, fontsize="small")


def _number_logarithmic(*axes: Axis) -> None:
    """Write powers of ten as numbers that a program reads too, and no marks between them, which take half the time."""
    from matplotlib.ticker import LogLocator, NullLocator

    for axis in axes:
        axis.set_major_formatter(_power)
        if axis.get_scale() == "log":
            axis.set_major_locator(LogLocator(numticks=_POWERS))
        axis.set_minor_locator(NullLocator())


def _power(value: float, _: float | None = None) -> str:
    """Return a power of ten, short."""
    if 1e-2 <= abs(value) <= 1e3 or value == 0:
        return f"{value:g}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"
