"""Tesseract's paths, such as ``a.b``, ``l.[0].w`` and ``d.{key}``: read, written, matched and looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fdcheck.results import InvalidInput

Part = str | int | tuple[str]
"""One step into a structure: a field by its name, an element by its number, a dict's value by its key in a tuple."""

ANY_ELEMENT = -1
ANY_KEY = ("",)
"""What ``[]`` and ``{}`` of a pattern become; no element is numbered -1, and Tesseract allows no empty key."""

_ONE_PART = re.compile(r"\[(?P<number>\d*)\]|\{(?P<key>(?:[^{}\\]|\\.)*)\}|(?P<field>[^.\[\]{}\\]+)", re.DOTALL)
"""A number in brackets, a key in braces in which a backslash takes the meaning off a brace or backslash, or a field."""


def parsed(path: str, argument: str) -> tuple[Part, ...]:
    """Return the parts of a path or pattern.

    Parameters
    ----------
    path : str
        Parts with dots between them.
    argument : str
        Name of the user's argument, for the message.

    Raises
    ------
    InvalidInput
        If it is none.
    """
    parts: list[Part] = []
    place = 0
    while True:
        found = _ONE_PART.match(path, place)
        if found is None:
            break
        parts.append(_part(found))
        place = found.end() + 1
        if path[found.end() : place] != ".":
            break
    if place <= len(path) or not parts:
        raise InvalidInput(
            f"{argument}: expected a path such as a.b, l.[0].w or d.{{key}}, or a pattern such as l.[].w or d.{{}}, "
            f"got {path!r}"
        )
    return tuple(parts)


def _part(found: re.Match[str]) -> Part:
    if found["field"] is not None:
        return found["field"]
    if found["key"] is not None:
        return (re.sub(r"\\(.)", r"\1", found["key"], flags=re.DOTALL),)
    return int(found["number"]) if found["number"] else ANY_ELEMENT


def written(parts: Sequence[Part]) -> str:
    """Return a path as Tesseract writes it."""
    return ".".join(_text(part) for part in parts)


def _text(part: Part) -> str:
    if isinstance(part, tuple):
        return "{" + re.sub(r"([{}\\])", r"\\\1", part[0]) + "}"
    if isinstance(part, int):
        return "[]" if part == ANY_ELEMENT else f"[{part}]"
    return part


def matches(parts: Sequence[Part], pattern: Sequence[Part]) -> bool:
    """Return whether a pattern names a path or a part of the structure that the path lies in."""
    return len(parts) >= len(pattern) and all(
        part == wanted
        or (wanted == ANY_ELEMENT and isinstance(part, int))
        or (wanted == ANY_KEY and type(part) is tuple)
        for part, wanted in zip(parts, pattern, strict=False)
    )


def expanded(pattern: Sequence[Part], tree: Any, before: tuple[Part, ...] = ()) -> Iterator[tuple[Part, ...]]:
    """Yield the paths of what is there in a structure where a pattern points to; None counts as absent."""
    if tree is None:
        return
    if not pattern:
        yield before
        return
    for part, value in _children(pattern[0], tree):
        yield from expanded(pattern[1:], value, (*before, part))


def _children(part: Part, tree: Any) -> Iterator[tuple[Part, Any]]:
    """Yield what one part of a pattern stands for in a structure, with its values."""
    if isinstance(part, int):
        if isinstance(tree, list | tuple):
            yield from enumerate(tree)
    elif isinstance(tree, Mapping):
        if part == ANY_KEY:
            yield from (((str(key),), value) for key, value in tree.items() if str(key))
        elif part in tree:  # a field of a model that was dumped
            yield part, tree[part]


def value_at(tree: Any, parts: Sequence[Part]) -> Any:
    """Return what lies at a path.

    Raises
    ------
    LookupError
        If nothing does.
    """
    for part in parts:
        tree = tree[_key(tree, part)]
    return tree


def _key(tree: Any, part: Part) -> Any:
    """Return what to index a container with; the keys of a dict may be numbers in Python and are text in a path."""
    if not isinstance(part, tuple):
        return part
    return part[0] if part[0] in tree else next((key for key in tree if str(key) == part[0]), part[0])


def with_values(tree: Any, values: Mapping[tuple[Part, ...], Any]) -> Any:
    """Return a copy of a structure with other values at some paths; arrays elsewhere are copied too.

    Lists that begin with a number or a string are shared: Tesseract makes arrays and lists of its own out of them.
    """
    if () in values:
        return values[()]
    inner: dict[Any, dict[tuple[Part, ...], Any]] = {}
    for parts, value in values.items():
        inner.setdefault(_key(tree, parts[0]), {})[parts[1:]] = value
    if isinstance(tree, Mapping):
        return {key: with_values(value, inner.get(key, {})) for key, value in tree.items()}
    if isinstance(tree, list | tuple) and tree and (inner or not isinstance(tree[0], int | float | str)):
        return [with_values(value, inner.get(k, {})) for k, value in enumerate(tree)]
    return tree.copy() if isinstance(tree, np.ndarray) else tree
