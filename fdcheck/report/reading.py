"""A report from JSON, as data: nothing in it is executed or looked up."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from fdcheck.results import (
    SCHEMA,
    Coverage,
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


def report_from_json(text: str | bytes) -> Report:
    """Return the report that a JSON document holds.

    Parameters
    ----------
    text : str or bytes
        What :meth:`Report.to_json` gave.

    Raises
    ------
    InvalidInput
        If it is no such document.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"report: no valid JSON: {error}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise InvalidInput(f"report: expected a JSON object with schema {SCHEMA!r}, got {schema!r:.60}")
    try:
        report: Report = _read(Report, data)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise InvalidInput(f"report: not what to_json writes: {error}") from error
    return report


def _read(cls: type, data: Mapping[str, Any]) -> Any:
    """Return a dataclass of plain data."""
    known = [field for field in fields(cls) if field.name in data]
    return cls(**{field.name: _OF_TYPE.get(str(field.type), _as_it_is)(data[field.name]) for field in known})


def _as_it_is(value: Any) -> Any:
    return value


def _array(value: Any) -> Any:
    return None if value is None else np.array(value, np.float64)  # 'nan' and 'inf' are strings in JSON


def _all_of(cls: type) -> Callable[[Any], Any]:
    """Return what reads a list of a dataclass."""
    return lambda values: tuple(_read(cls, value) for value in values)


_OF_TYPE: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": int,
    "str": str,
    "Status": {str(status): status for status in Status}.__getitem__,
    "Verdict": Verdict,
    "Coverage": lambda value: _read(Coverage, value),
    "tuple[int, ...]": tuple,
    "tuple[str, ...]": tuple,
    "NDArray[Any] | None": _array,
    "Mapping[str, int]": dict,
    "Mapping[str, str]": dict,
    "Mapping[str, Any]": dict,
    "Mapping[str, tuple[int, int]]": lambda value: {path: tuple(counts) for path, counts in value.items()},
    "Mapping[str, NDArray[Any]]": lambda value: {path: _values(array) for path, array in value.items()},
    "tuple[Measured, ...]": _all_of(Measured),
    "tuple[Finding, ...]": _all_of(Finding),
    "tuple[Pair, ...]": _all_of(Pair),
    "tuple[Diagnosis, ...]": _all_of(Diagnosis),
    "tuple[Point, ...]": _all_of(Point),
}
"""What reads a field, by its annotation."""


def _values(value: Any) -> Any:
    """Return an array of numbers, complex ones from their two parts."""
    array = np.array(value, object)
    if array.size and isinstance(array.flat[0], dict):
        parts = [complex(float(part["re"]), float(part["im"])) for part in array.flat]
        return np.array(parts).reshape(array.shape)
    return np.array(value, np.float64)
