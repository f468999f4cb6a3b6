"""What a user may set, checked once and then immutable; profiles are named sets of defaults."""

from __future__ import annotations

import functools
import importlib.resources
import json
import math
import operator
import os
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from fdcheck.results import InvalidInput, Status

ENDPOINTS = ("jacobian", "jvp", "vjp")
METHODS = ("auto", "elementwise", "probe")

_OTHERS = ("FDCHECK_TESSERACT_",)
"""Variables that belong to an adapter."""

_MAPPINGS = ("eps_for", "bounds")
_LISTS = ("input_paths", "output_paths", "endpoints", "skip")
_SHARED = (
    "rtol", "atol", "eps", "eps_for", *_LISTS, "bounds", "points", "method", "max_evals", "max_applies",
    "max_output_samples", "max_failures", "seed", "profile",
)  # fmt: skip
"""Options that the environment and pyproject.toml may set; the others belong to profiles."""

SKIPPABLE = (
    Status.DTYPE, Status.MUTATION, Status.NONDETERMINISTIC, Status.HIDDEN_STATE, Status.NONLINEAR, Status.LAYOUT,
    Status.ADJOINT,
)  # fmt: skip
"""Parts of the contract that may be left out; without structure and shape, or after an exception, there is nothing to
compare."""

_NEEDED = (Status.STRUCTURE, Status.SHAPE, Status.RAISED)

_WHOLE_NUMBERS = {
    "seed": 0, "points": 0, "max_evals": 1, "max_output_samples": 1, "max_failures": 0, "max_applies": 16,
}  # fmt: skip
"""Options that are whole numbers, and the least that each may be: x0, its noise and one element take 16 applies."""


@dataclass(frozen=True)
class Contract:
    """How strictly the contract of jacobian, jvp and vjp is checked; given to :func:`fdcheck.verify`.

    Parameters
    ----------
    nondet_tol : float, optional
        By how much two equal calls may differ, in the unit of the result; 0.0 means not at all. By default as much as
        the comparison tolerates: ``rtol`` of the terms of the result, and rounding.
    exact_dtype : bool
        Whether a result of a wider dtype, or of integers, is a breach and not a note.
    batched : bool
        Whether a stack of tangents or cotangents, on a new leading axis, has to give the stack of the results.
    masked : bool
        Whether entries off the pattern of a scipy.sparse jacobian are not looked at; else they have to be zero.
    eps : float
        Machine epsilon of the format in which jvp and vjp compute, where that is shorter than the format of their
        arrays: 2**-7 for bfloat16 behind float32.

    Examples
    --------
    >>> import numpy as np
    >>> import fdcheck
    >>> wider = lambda x, ct: ct * np.cos(x.astype(np.float64))
    >>> x0 = np.array([0.1, 0.2], np.float32)
    >>> fdcheck.verify(np.sin, x0, vjp=wider).passed
    True
    >>> report = fdcheck.verify(np.sin, x0, vjp=wider, contract=fdcheck.Contract(exact_dtype=True))
    >>> str(report.verdict), str(report.findings[0].status)
    ('fail', 'dtype')
    """

    nondet_tol: float | None = None
    exact_dtype: bool = False
    batched: bool = False
    masked: bool = False
    eps: float = 0.0

    def __post_init__(self) -> None:
        _number("Contract.eps", self.eps, positive=False)
        if self.nondet_tol is not None:
            _number("nondet_tol", self.nondet_tol, positive=False)


@dataclass(frozen=True)
class Settings:
    """Options of a check; the names are the same in Python, in profiles and on the command line.

    Parameters
    ----------
    rtol : float or None
        Relative tolerance of an entry; None for max(1e-3, 8 eps**(2/3)) of the coarser dtype of the entry.
    atol : float or None
        Absolute tolerance, in the unit of the entry; None for 0.
    eps : float or None
        Step forced on every input, in the unit of the input; None to let fdcheck choose.
    eps_for : dict of str to float
        Step forced on the inputs that a path or glob names; wins over ``eps``.
    input_paths, output_paths : sequence of str or None
        Paths or globs of the parts to check; None for all.
    endpoints : sequence of str or None
        Which of the given endpoints to check; None for all.
    bounds : dict of str to (float, float), (float, float) or None
        Inclusive limits within which inputs may be moved, for paths or globs, or one pair for all.
    points : int
        Random points around x0 that are checked beside it.
    method : str
        ``'auto'``, ``'elementwise'`` or ``'probe'``: how inputs are looked at.
    max_evals : int or None
        Input elements moved one by one at most; None for all of up to 1000.
    max_applies : int or None
        Calls of apply at most; None for no limit.
    max_output_samples : int or None
        Output elements for which a vjp is called at most; None for all of up to 1000.
    max_failures : int
        Findings printed per endpoint; the report keeps them all.
    seed : int
        Seed of the random directions and samples.
    profile : str
        ``'default'``, ``'quick'``, ``'strict'`` or ``'noisy'``.
    contract : Contract or None
        How strictly the contract of endpoints is checked; None for the usual.
    skip : tuple of str
        Parts of the contract that are not checked, by the status that a breach would have.
    least_steps : int
        Steps before an entry may agree (set by the profile).
    full_accuracy : bool
        Whether to measure as accurately as the function allows before comparing (set by the profile).
    """

    rtol: float | None = None
    atol: float | None = None
    eps: float | None = None
    eps_for: Mapping[str, float] = field(default_factory=dict)
    input_paths: tuple[str, ...] | None = None
    output_paths: tuple[str, ...] | None = None
    endpoints: tuple[str, ...] | None = None
    bounds: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None
    points: int = 0
    method: str = "auto"
    max_evals: int | None = None
    max_applies: int | None = None
    max_output_samples: int | None = None
    max_failures: int = 10
    seed: int = 0
    profile: str = "default"
    contract: Contract | None = None
    skip: tuple[str, ...] = ()
    least_steps: int = 2
    full_accuracy: bool = False


_KNOWN = frozenset(f.name for f in fields(Settings))


def settings_as_data(settings: Settings) -> dict[str, Any]:
    """Return settings as dicts, numbers, strings and arrays, for a report."""
    data = {option.name: getattr(settings, option.name) for option in fields(Settings)}
    data["bounds"] = dict(settings.bounds) if isinstance(settings.bounds, Mapping) else settings.bounds
    data["contract"] = None if settings.contract is None else asdict(settings.contract)
    return data


def settings_from_data(data: Mapping[str, Any]) -> Settings:
    """Return the settings that a report holds, also one that was read from JSON.

    Raises
    ------
    InvalidInput
        If something in it cannot be a setting.
    """
    options = {name: value for name, value in data.items() if value is not None}
    contract = options.get("contract")
    if isinstance(contract, Mapping):
        try:
            options["contract"] = Contract(**contract)
        except TypeError as error:
            raise InvalidInput(f"report.settings: contract: {error}") from error
    return Settings(**_checked(options, "report.settings: "))


def settings_from(profile: str | None = None, **options: Any) -> Settings:
    """Return checked settings: the options given, over the environment, over pyproject.toml, over a profile.

    Parameters
    ----------
    profile : str, optional
        Name of a profile; by default the one that the environment or pyproject.toml names, else ``'default'``.
    **options
        Fields of :class:`Settings`; None where an option was not given.

    Raises
    ------
    InvalidInput
        If the profile is unknown or a value cannot be used; the message names the variable or the file it is from.
    """
    shared = {**_checked(*from_pyproject(), _SHARED), **_checked(*from_environment(), _SHARED)}
    usual = shared.pop("profile", "default")
    profile = usual if profile is None else profile
    if not isinstance(profile, str):
        raise InvalidInput(f"profile: expected one of {', '.join(profile_names())}, got {profile!r:.60}")
    own = {k: v for k, v in read_profile(profile).items() if k != "description"}
    given = {k: v for k, v in options.items() if v is not None}
    return Settings(profile=profile, **{**_checked(own, f"profile {profile}: "), **shared, **_checked(given)})


def from_environment(prefix: str = "FDCHECK_") -> tuple[dict[str, Any], str]:
    """Return the options that ``FDCHECK_RTOL`` and its like set, and what to call their source.

    Parameters
    ----------
    prefix : str
        What the names begin with.

    Notes
    -----
    Words of a list are separated by blanks; ``FDCHECK_EPS_FOR`` and ``FDCHECK_BOUNDS`` are JSON objects.
    """
    found: dict[str, Any] = {}
    others = tuple(name for name in _OTHERS if name != prefix)
    for variable in [key for key in os.environ if key.startswith(prefix)]:
        if os.environ[variable] and not variable.startswith(others):
            name, text = variable.removeprefix(prefix).lower(), os.environ[variable]
            found[name] = text.split() if name in _LISTS else _read(variable, text, name in _MAPPINGS)
    return found, f"environment variable {prefix}"


def _read(variable: str, text: str, only_json: bool) -> Any:
    """Return a JSON value, or the text where it is none and need not be."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if only_json:
            raise InvalidInput(f"environment variable {variable}: not valid JSON: {error}, got {text!r:.60}") from None
        return text


def from_pyproject() -> tuple[dict[str, Any], str]:
    """Return the table ``[tool.fdcheck]`` of the nearest pyproject.toml upwards of the working directory."""
    folder, above = os.getcwd(), ""
    while folder != above:
        path = os.path.join(folder, "pyproject.toml")
        try:
            changed = os.stat(path).st_mtime_ns
        except OSError:
            folder, above = os.path.dirname(folder), folder
            continue
        return dict(_tool_table(path, changed)), f"[tool.fdcheck] of {path}: "
    return {}, ""


@functools.lru_cache(maxsize=8)
def _tool_table(path: str, changed: int) -> Mapping[str, Any]:
    """Return the table of one file as it was when it was last changed."""
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8")).get("tool", {}).get("fdcheck", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path}: {error}") from error
    if not isinstance(table, dict):
        raise InvalidInput(f"{path}: expected tool.fdcheck to be a table, got {table!r:.60}")
    return MappingProxyType(table)


def _checked(options: Mapping[str, Any], source: str = "", known: Collection[str] = _KNOWN) -> dict[str, Any]:
    """Return options with their values checked and converted; messages begin with where they are from."""
    try:
        return _converted(options, known)
    except InvalidInput as error:
        name, _, rest = str(error).partition(":")
        place = f"{source}{name.upper()}" if source.endswith("_") else f"{source}{name}"
        raise InvalidInput(f"{place}:{rest}" if source else str(error)) from None


def _converted(options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return options with their values checked and converted."""
    values = dict(options)
    for name in values:
        if name not in known:
            raise InvalidInput(f"{name}: unknown option; there are: {', '.join(sorted(known))}")
    if "profile" in values and values["profile"] not in profile_names():
        raise InvalidInput(f"profile: expected one of {', '.join(profile_names())}, got {values['profile']!r:.60}")
    if not isinstance(values.get("contract", Contract()), Contract):
        raise InvalidInput(f"contract: expected an fdcheck.Contract, got {values['contract']!r:.60}")
    for name in ("rtol", "atol", "eps"):
        if name in values:
            values[name] = _number(name, values[name], positive=name == "eps")
    if "eps_for" in values:
        values["eps_for"] = {
            str(path): _number(f"eps_for[{path!r}]", step, positive=True)
            for path, step in _mapping("eps_for", values["eps_for"]).items()
        }
    for name in _LISTS:
        if name in values:
            values[name] = _words(name, values[name])
    if "skip" in values:
        values["skip"] = _parts_skipped(values["skip"])
    for name in values.get("endpoints") or ():
        if name not in ENDPOINTS:
            raise InvalidInput(f"endpoints: expected some of {', '.join(ENDPOINTS)}, got {name!r}")
    if values.get("method", "auto") not in METHODS:
        raise InvalidInput(f"method: expected one of {', '.join(METHODS)}, got {values['method']!r:.60}")
    for name, least in _WHOLE_NUMBERS.items():
        if name in values:
            values[name] = _whole(name, values[name], least)
    return values


def _parts_skipped(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return parts of the contract that may be left out; several may stand in one word, with commas between."""
    names = tuple(name for word in words for name in word.replace(",", " ").split())
    for name in names:
        if name not in SKIPPABLE:
            why = " (without it nothing can be compared)" if name in _NEEDED else ""
            raise InvalidInput(f"skip: expected some of {', '.join(SKIPPABLE)}, got {name!r:.60}{why}")
    return names


def profile_names() -> tuple[str, ...]:
    """Return the names of all profiles."""
    files = importlib.resources.files("fdcheck.conf").iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in files if f.name.endswith(".toml")))


@functools.cache
def read_profile(name: str) -> Mapping[str, Any]:
    """Return the content of a profile.

    Raises
    ------
    InvalidInput
        If there is no profile of that name.
    """
    return MappingProxyType(tomllib.loads(profile_text(name)))


def profile_text(name: str) -> str:
    """Return the file of a profile.

    Raises
    ------
    InvalidInput
        If there is no profile of that name.
    """
    names = profile_names()
    if name not in names:
        raise InvalidInput(f"profile: expected one of {', '.join(names)}, got {name!r}")
    return importlib.resources.files("fdcheck.conf").joinpath(f"{name}.toml").read_text(encoding="utf-8")


def _number(name: str, value: Any, positive: bool) -> float:
    """Return a finite number that is not negative (or is positive)."""
    wanted = "a positive number" if positive else "a number, 0 or larger"
    try:
        number = math.nan if isinstance(value, str | bool) or np.ndim(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (positive and number == 0):
        raise InvalidInput(f"{name}: expected {wanted}, got {value!r:.60}")
    return number


def _whole(name: str, value: Any, least: int) -> int:
    """Return a whole number that is not below the least allowed."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise InvalidInput(f"{name}: expected a whole number, {least} or larger, got {value!r:.60}")
    return number


def _mapping(name: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{name}: expected a dict of paths to numbers, got {type(value).__name__}")
    return value


def _words(name: str, value: Any) -> tuple[str, ...]:
    """Return a sequence of strings, one string counting as a sequence of one."""
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, Sequence) or not all(isinstance(word, str) for word in value):
        raise InvalidInput(f"{name}: expected a list of strings, got {value!r:.60}")
    return tuple(value)
