"""What a user may set, checked once and then immutable; profiles are named sets of defaults."""

from __future__ import annotations

import functools
import importlib.resources
import math
import operator
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

import numpy as np

from fdcheck.results import InvalidInput

ENDPOINTS = ("jacobian", "jvp", "vjp")


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
    seed : int
        Seed of the random directions.
    profile : str
        ``'default'``, ``'quick'`` or ``'strict'``.
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
    seed: int = 0
    profile: str = "default"
    least_steps: int = 2
    full_accuracy: bool = False


def settings_from(profile: str = "default", **options: Any) -> Settings:
    """Return checked settings: the options given over those of a profile.

    Parameters
    ----------
    profile : str
        Name of a profile.
    **options
        Fields of :class:`Settings`; None where an option was not given.

    Raises
    ------
    InvalidInput
        If the profile is unknown or a value cannot be used.
    """
    if not isinstance(profile, str):
        raise InvalidInput(f"profile: expected one of {', '.join(profile_names())}, got {profile!r:.60}")
    values = {k: v for k, v in read_profile(profile).items() if k != "description"}
    values |= {k: v for k, v in options.items() if v is not None}
    known = {f.name for f in fields(Settings)}
    for name in values:
        if name not in known:
            raise InvalidInput(f"{name}: unknown option; there are: {', '.join(sorted(known))}")
    for name in ("rtol", "atol", "eps"):
        if name in values:
            values[name] = _number(name, values[name], positive=name == "eps")
    if "eps_for" in values:
        values["eps_for"] = {
            str(path): _number(f"eps_for[{path!r}]", step, positive=True)
            for path, step in _mapping("eps_for", values["eps_for"]).items()
        }
    for name in ("input_paths", "output_paths", "endpoints"):
        if name in values:
            values[name] = _words(name, values[name])
    for name in values.get("endpoints") or ():
        if name not in ENDPOINTS:
            raise InvalidInput(f"endpoints: expected some of {', '.join(ENDPOINTS)}, got {name!r}")
    if "seed" in values:
        values["seed"] = _seed(values["seed"])
    return Settings(profile=profile, **values)


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
    names = profile_names()
    if name not in names:
        raise InvalidInput(f"profile: expected one of {', '.join(names)}, got {name!r}")
    text = importlib.resources.files("fdcheck.conf").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


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


def _seed(value: Any) -> int:
    """Return a whole number that is not negative."""
    try:
        seed = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        seed = -1
    if seed < 0:
        raise InvalidInput(f"seed: expected a whole number, 0 or larger, got {value!r:.60}")
    return seed


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
