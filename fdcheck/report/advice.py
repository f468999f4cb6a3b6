"""Advice on steps as text that one reads from the top: steps, what usual ones cost, lines to paste, notes."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from fdcheck.advice import EpsAdvice, EpsPath
from fdcheck.report.pasting import one_step, pasted
from fdcheck.report.printable import printable

_WIDTH = 80
_NAME = 14
_SHOWN_PATHS = 20
_SHOWN_NOISES = 6
"""Lines that fit one screen of a terminal."""

LEGEND = {
    "resolution": "resolution: a smaller step moves the input by only a few of its last digits",
    "range": "range: nothing wider was looked at",
}
"""Limits that do not speak for themselves."""


def advice_text(advice: EpsAdvice) -> str:
    """Return advice as text of at most 80 columns; only lines to paste may be longer.

    Parameters
    ----------
    advice : EpsAdvice
        The result of recommend_eps.
    """
    lines = [
        f"recommended steps: errors safely under {advice.rtol:.2g}, {advice.applies} applies",
        "",
        *_steps(advice),
        "",
        *_usual(advice),
        *_paste(advice),
        *_noises(advice),
        *_notes(advice),
    ]
    return "\n".join(map(printable, lines))


def _steps(advice: EpsAdvice) -> Iterator[str]:
    """Yield a line per input path: its step, the error expected there, the safe range and what ends it."""
    yield f"  {'input':{_NAME}} {'step':>8} {'error':>8}  {'safe range':18}  limits below / above"
    for path in advice.paths[:_SHOWN_PATHS]:
        yield from _named(path.input, f"{_number(path.eps)} {_number(path.error)}  {_range(path)}".rstrip())
    if len(advice.paths) > _SHOWN_PATHS:
        yield f"  ... and {len(advice.paths) - _SHOWN_PATHS} more in advice.paths"
    limits = {limit for path in advice.paths for limit in (path.below, path.above)}
    yield from (f"  ({text})" for limit, text in LEGEND.items() if limit in limits)


def _range(path: EpsPath) -> str:
    """Return the safe range of a path and what ends it, or why there is none."""
    if path.without == path.entries:
        return f"{'none':18}  {', '.join(path.reasons)}"
    ends = "none for all" if math.isnan(path.low) else f"{path.low:.1e} .. {path.high:.1e}"
    return f"{ends:18}  {path.below} / {path.above}"


def _usual(advice: EpsAdvice) -> Iterator[str]:
    """Yield a table of the errors that usual steps would leave at the worst entry of each input path."""
    names = list(advice.paths[0].usual)
    yield "Largest relative error at usual steps, and at the recommended one:"
    yield f"  {'input':{_NAME}} " + " ".join(f"{name:>8}" for name in names) + f" {'step':>8}"
    for path in advice.paths[:_SHOWN_PATHS]:
        errors = " ".join(f"{_number(path.usual[name]):>{len(name)}}" for name in names)
        yield from _named(path.input, f"{errors} {_number(path.error)}")


def _paste(advice: EpsAdvice) -> Iterator[str]:
    """Yield the steps as arguments of verify, as options of the command, and as other programs take them."""
    found = pasted(advice)
    if not found:
        return
    yield ""
    yield "To paste:"
    for paste in found:
        yield f"  {paste.program}"
        yield from (f"    {line}" for line in paste.lines)


def _noises(advice: EpsAdvice) -> Iterator[str]:
    """Yield the largest noise of each output path."""
    noises = {block.output: float(block.noise.max()) for block in advice.blocks}
    shown = [f"{path} {noise:.1g}" for path, noise in list(noises.items())[:_SHOWN_NOISES]]
    rest = len(noises) - len(shown)
    yield ""
    text = "Noise of the outputs: " + ", ".join(shown) + (f" and {rest} more in advice.blocks" if rest else "")
    yield from textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _notes(advice: EpsAdvice) -> Iterator[str]:
    """Yield remarks."""
    notes = remarks(advice)
    if notes:
        yield ""
        yield "Notes:"
    for note in notes:
        yield from textwrap.wrap(note, _WIDTH, initial_indent="  - ", subsequent_indent="    ")


def remarks(advice: EpsAdvice) -> list[str]:
    """Return what steps leave out, and what was noticed of apply.

    Parameters
    ----------
    advice : EpsAdvice
        The result of recommend_eps.
    """
    about = [note for path in advice.paths for note in _about(path)]
    if len(advice.eps_for) > 1 and one_step(advice) is None:
        about.append("torch and jax take one step for all inputs, and none is safe for all: check these one at a time.")
    return [*about, *advice.notes]


def _about(path: EpsPath) -> Iterator[str]:
    """Yield which entries one step does not serve."""
    entries = "1 entry" if path.entries == 1 else f"{path.entries} entries"
    if path.outside:
        yield (
            f"{path.input}: no step is safe for all of its {entries}; this one leaves {path.outside} outside of their "
            "safe ranges. advice.blocks has the step of each."
        )
    if path.without:
        why = ", ".join(f"{reason} ({count})" for reason, count in path.reasons.items())
        yield f"{path.input}: {path.without} of {entries} without a safe range: {why}."


def _number(value: float) -> str:
    """Return a number in eight columns."""
    return f"{'none' if math.isnan(value) else f'{value:.1e}':>8}"


def _named(name: str, figures: str) -> Iterator[str]:
    """Yield figures after their name, which has lines of its own where it is long."""
    if len(name) > _NAME:
        yield from textwrap.wrap(name, _WIDTH, initial_indent="  ", subsequent_indent="    ")
        name = ""
    yield f"  {name:{_NAME}} {figures}"
