"""What a check returns, the report; and the errors."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

# from here for all who read results
from fdcheck.parts import Coverage as Coverage
from fdcheck.parts import Diagnosis as Diagnosis
from fdcheck.parts import Finding as Finding
from fdcheck.parts import Measured as Measured
from fdcheck.parts import Pair as Pair
from fdcheck.parts import Point as Point
from fdcheck.statuses import BREACHES as BREACHES
from fdcheck.statuses import Status as Status
from fdcheck.statuses import Verdict as Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fdcheck.evidence import Evidence

SCHEMA = "fdcheck-report-1"
"""Form and version of a report as a dict or JSON: the number changes when a key changes its meaning or goes away."""


class InvalidInput(ValueError):
    """An argument that cannot be used; the message names it and says what was expected and what came."""


class DerivativeMismatch(AssertionError):
    """A derivative that did not pass; ``report`` holds the whole account.

    Parameters
    ----------
    report : Report
        The report whose text is the message.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True)
class Report:
    """The result of :func:`fdcheck.verify`: a verdict with its evidence.

    Parameters
    ----------
    verdict : Verdict
        ``'pass'``, ``'fail'`` or ``'inconclusive'``. A pass is evidence, not proof.
    findings : tuple of Finding
        What went wrong or was noted, worst first.
    pairs : tuple of Pair
        One summary per endpoint, output path and input path.
    coverage : Coverage
        What was measured of what there is.
    sensitivity, typical : float
        Smallest relative error that would have been noticed in every resolved entry, and in half of them; NaN where
        every entry is zero or nothing was measured.
    applies, endpoint_calls, seed : int, dict of str to int, int
        Calls of apply, and of each endpoint; seed of the random directions and samples.
    notes, versions : tuple of str, dict of str to str
        Remarks that change no verdict; versions of fdcheck and of the libraries that computed the result.
    diagnoses : tuple of Diagnosis
        Patterns that explain wrong claims; empty where none fits.
    max_failures : int
        Findings of each endpoint that the text shows.
    points : tuple of Point
        Where was checked: x0 first.
    settings : dict of str to object
        What the check was asked for, in plain types, for :func:`fdcheck.replay`; empty where it cannot be replayed.
    evidence : tuple of Evidence
        What figures are drawn from, by endpoint. Not part of :meth:`to_dict`, and without a say in equality.
    contract_calls : dict of str to int
        Calls of apply and of each endpoint that their contract took; they are among ``applies`` and ``endpoint_calls``.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    pairs: tuple[Pair, ...]
    coverage: Coverage
    sensitivity: float
    applies: int
    endpoint_calls: Mapping[str, int]
    seed: int
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    max_failures: int = 10
    typical: float = math.nan
    diagnoses: tuple[Diagnosis, ...] = ()
    points: tuple[Point, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[Evidence, ...] = field(default=(), compare=False, repr=False, metadata={"in_dict": False})
    contract_calls: Mapping[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the verdict is a pass."""
        return self.verdict is Verdict.PASS

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        worst = next(iter(self.findings), None)
        about = f": {worst.endpoint} {worst.status}, {worst.message}" if worst else ""
        return f"<fdcheck.Report {self.verdict}{about:.300}>"

    def raise_if_failed(self, allow_inconclusive: bool = False) -> None:
        """Raise unless the check passed.

        Parameters
        ----------
        allow_inconclusive : bool
            Whether an inconclusive check counts as passed.

        Raises
        ------
        DerivativeMismatch
            With the whole report as its message.
        """
        __tracebackhide__ = True  # pytest then shows the line of the test
        if not (self.passed or (allow_inconclusive and self.verdict is Verdict.INCONCLUSIVE)):
            raise DerivativeMismatch(self)

    def __str__(self) -> str:
        from fdcheck.report.text import report_text, terminal_width

        return report_text(self, terminal_width())

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from fdcheck.report.html import report_fragment

        return report_fragment(self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one HTML page that needs no other file and no network.

        Parameters
        ----------
        path : path-like
            File to write; an older one is replaced.

        Raises
        ------
        InvalidInput
            If Jinja2 or matplotlib is missing (``pip install 'fdcheck[report]'``).
        OSError
            If the file cannot be written.
        """
        from fdcheck.report.html import report_page, write_html

        write_html(report_page(self), path)

    def plot(
        self,
        what: str = "map",
        *,
        endpoint: str | None = None,
        finding: Finding | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw a figure with matplotlib.

        Parameters
        ----------
        what : str
            ``'map'``: the Jacobian with the error of each entry as a multiple of what is allowed; ``'claims'``: claimed
            against measured entries; ``'steps'``: distance of an entry's slopes from the estimate at each step, with
            the noise floor and the claim; ``'sides'``: the slopes to both sides of x0 at each step, as at a kink.
        endpoint : str, optional
            Whose; by default the first that has something to show.
        finding : Finding, optional
            Entry for ``'steps'`` and ``'sides'``; by default the worst one, or one that agrees.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidInput
            If there is nothing of that kind to draw, or matplotlib is missing (``pip install 'fdcheck[report]'``).

        Examples
        --------
        >>> import numpy as np
        >>> import fdcheck
        >>> report = fdcheck.verify(np.sin, np.array([0.1, 0.2]), vjp=lambda x, ct: ct * np.sin(x))
        >>> ax = report.plot("claims")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('measured', 'claimed')
        """
        from fdcheck.report.plots import plot_report

        return plot_report(self, what, endpoint, finding, ax)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, numbers and strings.

        Returns
        -------
        dict
            ``schema`` names the form and its version, the other keys are the fields. Complex numbers are
            ``{'re': ..., 'im': ...}``.
        """
        from fdcheck.report.plain import plain

        return {"schema": SCHEMA, **plain(self)}

    def to_json(self) -> str:
        """Return the report as one JSON document; NaN and infinities are the strings ``'nan'`` and ``'inf'``."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Return the report that a JSON document holds, such as to replay one of its findings.

        Parameters
        ----------
        text : str or bytes
            What :meth:`to_json` gave.

        Raises
        ------
        InvalidInput
            If it is no such document.
        """
        from fdcheck.report.reading import report_from_json

        return report_from_json(text)
