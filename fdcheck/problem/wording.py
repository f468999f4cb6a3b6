"""What a callable returned or raised, in a few words for messages."""

from __future__ import annotations

import pathlib
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

from fdcheck.problem.trees import Layout

_PACKAGE = str(pathlib.Path(__file__).parents[1])
"""Where fdcheck's own frames lie: they are no help to somebody whose callable raised."""


def describe(spec: Any, leaves: Sequence[Any]) -> str:
    """Return a returned structure in a few words."""
    if len(leaves) == 1 and leaves[0] is not None and spec.is_leaf():
        value = leaves[0]
        shape = getattr(value, "shape", None)
        return f"a {type(value).__name__}" + (f" of shape {shape}" if shape is not None else "")
    text = str(spec).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(", NoneIsLeaf")
    return f"the structure {text:.120}"


def described(error: BaseException) -> str:
    """Return an exception in one line, with the file and line of the user's code that it came from."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "(its message cannot be printed)"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text:.300}{place}"


def leaf_types(leaves: Sequence[Any], layout: Layout) -> str:
    """Return what the leaves of a structure are."""
    shown = [
        f"{path} ({value.dtype} array)" if isinstance(value, np.ndarray) else f"{path} ({type(value).__name__})"
        for path, value in zip(layout.paths, leaves, strict=True)
    ]
    return ", ".join(shown[:6]) or "an empty structure"
