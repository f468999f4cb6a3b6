"""Leaves of a structure named by paths and globs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from fdcheck.problem.trees import Layout, Leaf
from fdcheck.results import InvalidInput


def select(layout: Layout, patterns: Sequence[str] | None, argument: str) -> Layout:
    """Return the layout of the differentiable leaves that paths or globs name.

    Parameters
    ----------
    layout : Layout
        Layout of the structure.
    patterns : sequence of str or None
        Each a whole path, the path of a part of the structure, or a pattern in which ``*`` stands for
        anything and ``?`` for one character; None selects all.
    argument : str
        Name of the user's argument, for the message.

    Raises
    ------
    InvalidInput
        If a pattern names no differentiable leaf.
    """
    if patterns is None:
        return layout
    if not patterns:
        raise InvalidInput(f"{argument}: expected at least one path, got none")
    wanted = {leaf.position for pattern in patterns for leaf in matching(layout, pattern, argument)}
    chosen: list[Leaf] = []
    for leaf in layout.leaves:
        if leaf.position in wanted:
            chosen.append(dataclasses.replace(leaf, start=chosen[-1].stop if chosen else 0))
    resting = tuple(leaf for leaf in layout.leaves if leaf.position not in wanted)
    return dataclasses.replace(layout, leaves=tuple(chosen), resting=resting)


def matching(layout: Layout, pattern: str, argument: str) -> tuple[Leaf, ...]:
    """Return the differentiable leaves that one path or glob names.

    Raises
    ------
    InvalidInput
        If there is none.
    """
    hits = tuple(leaf for leaf in layout.leaves if path_matches(leaf.path, pattern))
    if not hits:
        known = ", ".join(leaf.path for leaf in layout.leaves)
        other = ""
        if any(path_matches(path, pattern) for path in layout.carried):
            other = f"; {pattern} is carried along, not differentiated"
        if any(path_matches(leaf.path, pattern) for leaf in layout.resting):
            other = f"; {pattern} is not selected"
        if any(path_matches(leaf.path, re.sub(r"\[[\d, ]+\]$", "", pattern)) for leaf in layout.leaves):
            other = "; a path ends at an array, single elements cannot be selected"
        raise InvalidInput(f"{argument}: nothing differentiable matches {pattern!r}{other}; there are: {known}")
    return hits


def path_matches(path: str, pattern: str) -> bool:
    """Return whether ``pattern`` names ``path`` or a part of the structure that ``path`` lies in."""
    parts = [{"*": ".*", "?": "."}.get(c, re.escape(c)) for c in pattern]
    return re.fullmatch("".join(parts) + r"(?:[\[.].*)?", path, re.DOTALL) is not None
