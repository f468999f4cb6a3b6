"""The pytest plugin: a fixture that checks derivatives, options for a whole run, and a summary of its checks.

pytest loads this module at every start, so it imports the rest of the package only where a test asks for it.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fdcheck.results import Report

_MARKER = (
    "fdcheck(**options): options of the checks that the fixture fdcheck makes in this test, such as "
    "profile='strict', rtol=1e-4 or allow_inconclusive=True"
)

_TOTALS = ("checks", "failed", "inconclusive", "applies")
"""What is counted of each test and summed up at the end; the properties of a test are ``fdcheck_checks`` and so on."""

_READABLE = 120
"""Characters of a test's name in the name of a file; file systems allow 255 bytes."""


class Checks:
    """What the fixture ``fdcheck`` gives to a test: checks that fail it, with the report as the message.

    Options are taken from the call, then from the marker ``fdcheck`` closest to the test, then from the command line
    (``--fdcheck-profile``, ``--fdcheck-seed``), then from where :func:`fdcheck.verify` finds them.

    Parameters
    ----------
    name : str
        Full name of the test.
    options : dict
        Options of all checks of the test.
    folder : Path or None
        Where an HTML report of each check that did not pass is written; None for nowhere.

    Attributes
    ----------
    reports : list of Report
        The reports of all checks that were made, also of those that failed.
    """

    def __init__(self, name: str, options: Mapping[str, Any], folder: Path | None = None) -> None:
        self.reports: list[Report] = []
        self._name = name
        self._options = options
        self._folder = folder

    def verify(self, apply: Callable[[Any], Any], x0: Any, **options: Any) -> Report:
        """Check derivatives as :func:`fdcheck.verify` does; the test fails unless the check passes.

        Parameters
        ----------
        apply : callable
            The function, as for :func:`fdcheck.verify`.
        x0 : object
            Point at which to check; never changed.
        **options
            The endpoints and the options of :func:`fdcheck.verify`, and ``allow_inconclusive=True`` where an
            inconclusive check counts as passed.

        Returns
        -------
        Report
            The report of a check that passed.

        Raises
        ------
        DerivativeMismatch
            An AssertionError whose message is the report.
        InvalidInput
            If an argument cannot be used; the message names it.
        """
        __tracebackhide__ = True
        from fdcheck.api import verify

        return self._required(verify, apply, x0, options)

    def verify_second_order(self, apply: Callable[[Any], Any], x0: Any, **options: Any) -> Report:
        """Check derivatives of a derivative as :func:`fdcheck.verify_second_order` does.

        Parameters
        ----------
        apply, x0
            As for :meth:`verify`.
        **options
            The endpoints and the options of :func:`fdcheck.verify_second_order`, and ``allow_inconclusive``.

        Returns
        -------
        Report
            The report of a check that passed.

        Raises
        ------
        DerivativeMismatch
            An AssertionError whose message is the report.
        InvalidInput
            If an argument cannot be used; the message names it.
        """
        __tracebackhide__ = True
        from fdcheck.second_order import verify_second_order

        return self._required(verify_second_order, apply, x0, options)

    def _required(self, check: Callable[..., Report], apply: Any, x0: Any, options: dict[str, Any]) -> Report:
        """Return the report of a check that passed."""
        __tracebackhide__ = True
        takes = inspect.signature(check).parameters
        own = {name: value for name, value in self._options.items() if name in takes}
        accepts = options.pop("allow_inconclusive", None)
        return self.require(check(apply, x0, **{**own, **options}), accepts)

    def require(self, report: Report, allow_inconclusive: bool | None = None) -> Report:
        """Fail the test unless a check that was made elsewhere passed, such as one of an adapter.

        Parameters
        ----------
        report : Report
            What the check returned.
        allow_inconclusive : bool, optional
            Whether an inconclusive check counts as passed; by default what the marker says, else not.

        Returns
        -------
        Report
            The same report.

        Raises
        ------
        DerivativeMismatch
            An AssertionError whose message is the report.
        """
        __tracebackhide__ = True
        from fdcheck.results import DerivativeMismatch

        self.reports.append(report)
        if allow_inconclusive is None:
            allow_inconclusive = self._options.get("allow_inconclusive", False)
        page = self._written(report)
        try:
            report.raise_if_failed(allow_inconclusive)
        except DerivativeMismatch as error:
            if page is not None:
                error.add_note(f"HTML report: {page}")
            raise
        return report

    def _written(self, report: Report) -> Path | None:
        """Return where the HTML report of the latest check was written; None if it was not.

        A page takes a second or two to draw, so those that nobody looks for are left out.
        """
        if self._folder is None or report.passed:
            return None
        words = re.sub(r"\W+", "_", self._name)[-_READABLE:].strip("_")
        digest = hashlib.sha1(self._name.encode(), usedforsecurity=False).hexdigest()[:8]
        page = self._folder / f"{words}-{digest}-{len(self.reports)}.html"
        report.to_html(page)
        return page

    def properties(self) -> list[tuple[str, object]]:
        """Return what the checks come to, as properties of the test; nothing where no check was made."""
        if not self.reports:
            return []
        verdicts = [str(report.verdict) for report in self.reports]
        counts = (
            len(verdicts),
            verdicts.count("fail"),
            verdicts.count("inconclusive"),
            sum(report.applies for report in self.reports),
        )
        sharpness = [report.sensitivity for report in self.reports if math.isfinite(report.sensitivity)]
        return [
            *((f"fdcheck_{name}", count) for name, count in zip(_TOTALS, counts, strict=True)),
            *((("fdcheck_sensitivity", max(sharpness)),) if sharpness else ()),
        ]


@pytest.fixture(name="fdcheck")
def _checks(request: pytest.FixtureRequest) -> Iterator[Checks]:
    """Check derivatives: fdcheck.verify(apply, x0, vjp=...) fails the test with the report as the message."""
    node, config = request.node, request.config
    options = {
        name: value
        for name, value in (("profile", config.option.fdcheck_profile), ("seed", config.option.fdcheck_seed))
        if value is not None
    }
    for marker in reversed(list(node.iter_markers("fdcheck"))):
        options |= _marked(marker)
    checks = Checks(node.nodeid, options, _folder(config))
    yield checks
    node.user_properties += checks.properties()


def _marked(marker: pytest.Mark) -> Mapping[str, Any]:
    """Return the options of a marker."""
    from fdcheck.api import verify

    known = {name for name, it in inspect.signature(verify).parameters.items() if it.kind is it.KEYWORD_ONLY}
    unknown = sorted(set(marker.kwargs) - known - {"allow_inconclusive"})
    if marker.args or unknown:
        what = f"got {unknown[0]!r}" if unknown else f"got {marker.args[0]!r} without a name"
        raise pytest.UsageError(f"@pytest.mark.fdcheck: expected options of fdcheck.verify by name, {what}")
    return marker.kwargs


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a whole run."""
    group = parser.getgroup("fdcheck", "derivatives that the fixture fdcheck checks")
    group.addoption("--fdcheck-profile", metavar="NAME", help="profile of checks that name none; see: fdcheck profiles")
    group.addoption("--fdcheck-seed", metavar="N", type=int, help="seed of checks that name none")
    group.addoption("--fdcheck-html", metavar="DIR", help="folder for HTML reports of checks that do not pass")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and look at the options before any test runs."""
    config.addinivalue_line("markers", _MARKER)
    profile, seed, folder = config.option.fdcheck_profile, config.option.fdcheck_seed, _folder(config)
    if profile is not None:
        from fdcheck.results import InvalidInput
        from fdcheck.settings import read_profile

        try:
            read_profile(profile)
        except InvalidInput as error:
            raise pytest.UsageError(f"--fdcheck-{error}") from error
    if seed is not None and seed < 0:
        raise pytest.UsageError(f"--fdcheck-seed: expected a whole number, 0 or larger, got {seed}")
    if folder is not None:
        from fdcheck.report.extra import needs
        from fdcheck.results import InvalidInput

        try:
            needs("jinja2", "matplotlib")
        except InvalidInput as error:
            raise pytest.UsageError(f"--fdcheck-html: {error}") from error
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"--fdcheck-html: {folder}: {error.strerror}") from error


def _folder(config: pytest.Config) -> Path | None:
    """Return the folder for HTML reports, which stands relative to where pytest was called."""
    given = config.option.fdcheck_html
    return None if given is None else config.invocation_params.dir / given


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was checked, in all workers of pytest-xdist together."""
    ends = [report for kind in terminalreporter.stats.values() for report in kind if _is_end(report)]
    found = [dict(report.user_properties) for report in ends]
    counted = [properties for properties in found if "fdcheck_checks" in properties]
    if not counted:
        return
    checks, failed, inconclusive, applies = (sum(test[f"fdcheck_{name}"] for test in counted) for name in _TOTALS)
    passed = checks - failed - inconclusive
    tests = "1 test" if len(counted) == 1 else f"{len(counted)} tests"
    terminalreporter.section("derivatives checked")
    terminalreporter.line(
        f"{checks} check{'' if checks == 1 else 's'} in {tests}: {passed} passed, "
        f"{failed} failed, {inconclusive} inconclusive; {applies} calls of apply"
    )
    folder = _folder(terminalreporter.config)
    if folder is not None and checks > passed:
        terminalreporter.line(f"HTML reports of what did not pass: {folder}")


def _is_end(report: object) -> bool:
    """Return whether this is the last report of a test, which has all of its properties."""
    return isinstance(report, pytest.TestReport) and report.when == "teardown"
