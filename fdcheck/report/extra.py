"""Libraries that only figures and pages need, and the message where one is missing."""

from __future__ import annotations

import importlib.util

from fdcheck.results import InvalidInput


def needs(*modules: str) -> None:
    """Check that libraries of the extra ``report`` are there.

    Parameters
    ----------
    *modules : str
        Names to import.

    Raises
    ------
    InvalidInput
        If one is missing; the message names it and says how to install it.
    """
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        names = {"jinja2": "Jinja2"}
        raise InvalidInput(
            f"report: {' and '.join(names.get(name, name) for name in missing)} is not installed; install it with "
            "pip install 'fdcheck[report]'"
        )
