"""fdcheck checks derivatives against finite differences with error bars.

``fdcheck.verify(apply, x0, vjp=...)`` says whether a derivative is right; ``fdcheck.differentiate(apply, x0)``
measures one. Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fdcheck.advice import EpsAdvice, EpsBlock, EpsCurve, EpsPath
    from fdcheck.api import differentiate, verify
    from fdcheck.estimates import Block, Estimate
    from fdcheck.evidence import Evidence
    from fdcheck.execution import Execution, Progress
    from fdcheck.recommend import recommend_eps
    from fdcheck.replaying import replay
    from fdcheck.results import (
        Coverage,
        DerivativeMismatch,
        Diagnosis,
        Finding,
        InvalidInput,
        Measured,
        Pair,
        Point,
        Report,
        Status,
        Verdict,
    )
    from fdcheck.second_order import verify_second_order
    from fdcheck.settings import Contract

__all__ = [
    "Block",
    "Contract",
    "Coverage",
    "DerivativeMismatch",
    "Diagnosis",
    "EpsAdvice",
    "EpsBlock",
    "EpsCurve",
    "EpsPath",
    "Estimate",
    "Evidence",
    "Execution",
    "Finding",
    "InvalidInput",
    "Measured",
    "Pair",
    "Point",
    "Progress",
    "Report",
    "Status",
    "Verdict",
    "differentiate",
    "recommend_eps",
    "replay",
    "verify",
    "verify_second_order",
]

_HOME = {
    "Block": "fdcheck.estimates",
    "Contract": "fdcheck.settings",
    "EpsAdvice": "fdcheck.advice",
    "EpsBlock": "fdcheck.advice",
    "EpsCurve": "fdcheck.advice",
    "EpsPath": "fdcheck.advice",
    "Estimate": "fdcheck.estimates",
    "Evidence": "fdcheck.evidence",
    "Execution": "fdcheck.execution",
    "Progress": "fdcheck.execution",
    "differentiate": "fdcheck.api",
    "recommend_eps": "fdcheck.recommend",
    "replay": "fdcheck.replaying",
    "verify": "fdcheck.api",
    "verify_second_order": "fdcheck.second_order",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME.get(name, "fdcheck.results")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
