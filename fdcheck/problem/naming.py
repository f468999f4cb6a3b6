"""How the parts of a structure are written."""

from __future__ import annotations

import zlib
from typing import Any

import optree

_LONGEST_KEY = 200
"""Characters of a key that a path shows."""


def path_text(accessor: Any, name: str, bare: bool) -> str:
    """Return an accessor as ``params['w'][0]``, a first key that is a plain name standing bare if wanted."""
    text = ""
    for entry in accessor:
        if isinstance(entry, optree.NamedTupleEntry):
            key, is_field = entry.field, True
        elif isinstance(entry, optree.GetAttrEntry):
            key, is_field = entry.name, True
        else:
            key, is_field = entry.entry, False
        if bare and not text and isinstance(key, str) and key.isidentifier():
            text = _shortened(key)
        elif is_field:
            text = f"{text or name}.{key}"
        else:
            text = f"{text or name}[{_shortened(_shown(key))}]"
    return text or name


def _shown(key: Any) -> str:
    """Return a key as Python writes it, or what it is where it cannot be written."""
    try:
        return repr(key)
    except Exception:
        return f"<{type(key).__name__}>"


def _shortened(key: str) -> str:
    """Return a key that is not too long for a path; the checksum keeps keys apart that begin alike."""
    if len(key) <= _LONGEST_KEY:
        return key
    return f"{key[: _LONGEST_KEY // 2]}...{zlib.crc32(key.encode(errors='replace')):08x}"
