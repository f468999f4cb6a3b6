"""Results in the types that JSON has."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return ``value`` in types that JSON has, without fields whose metadata say that they are not part of a dict."""
    if isinstance(value, enum.Enum):
        return str(value)
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("in_dict", True)}
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, complex | np.complexfloating):
        return {"re": plain(float(value.real)), "im": plain(float(value.imag))}
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.integer):
        return int(value)
    return value
