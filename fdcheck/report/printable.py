"""Text that a terminal shows as it stands, whatever paths and messages hold."""

from __future__ import annotations

_LONGEST_NAME = 200
"""Characters of a path or name that are shown; the report itself keeps all of it."""


def printable(text: str) -> str:
    r"""Return text with control characters, and others that show as nothing or turn a line around, as escapes.

    Examples
    --------
    >>> printable("a" + chr(27) + "[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shortened(name: str) -> str:
    """Return a name that is not too long to be read."""
    if len(name) <= _LONGEST_NAME:
        return name
    half = _LONGEST_NAME // 2
    return f"{name[:half]} ... {name[-half:]}"
