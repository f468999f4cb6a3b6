"""A check that is broken off from outside: what it had found is kept on the exception, and is never a pass."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

from fdcheck.problem.callables import Problem
from fdcheck.results import Finding, Report, Status, Verdict


@contextlib.contextmanager
def report_kept(problem: Problem, so_far: Callable[[], Report]) -> Iterator[None]:
    """Keep the report so far on a KeyboardInterrupt (or any other exception that is no Exception), and raise it.

    Inside of apply it ends all further calls, and the report is that of a check whose budget is spent. Elsewhere the
    report holds what was complete.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    so_far : callable
        Returns the report of what was found by then.
    """
    problem.budget.holds_interrupts = True
    try:
        yield
    except BaseException as error:
        interrupt = error if problem.budget.interrupt is None else problem.budget.interrupt
        if isinstance(interrupt, Exception):
            raise
        keep_report(interrupt, so_far())
        raise interrupt from None
    finally:
        problem.budget.holds_interrupts = False
    if problem.budget.interrupt is not None:
        keep_report(problem.budget.interrupt, so_far())
        raise problem.budget.interrupt


def keep_report(interrupt: BaseException, report: Report) -> None:
    """Set the attribute ``report`` of an exception to a report that is no pass."""
    if kept_report(interrupt) is None:
        interrupt.add_note("fdcheck: what was found by then is the attribute 'report' of this exception")
    vars(interrupt)["report"] = _unfinished(report, type(interrupt).__name__)


def kept_report(interrupt: BaseException) -> Report | None:
    """Return the report that an exception carries, None if it has none."""
    report = vars(interrupt).get("report")
    return report if isinstance(report, Report) else None


def _unfinished(report: Report, name: str) -> Report:
    """Return a report that says first that the check was broken off; what was not decided then is only counted."""
    open_ = sum(pair.counts.get(Status.UNDECIDED, 0) for pair in report.pairs)
    entries = sum(pair.entries for pair in report.pairs)
    seen = f"{entries - open_} of {entries} entries were decided" if entries else "nothing was compared"
    told = f"the check was interrupted ({name}) after {report.applies} calls of apply; {seen} by then."
    others = [f for f in report.findings if f.status is not Status.UNDECIDED]
    return dataclasses.replace(
        report,
        verdict=Verdict.FAIL if report.verdict is Verdict.FAIL else Verdict.INCONCLUSIVE,
        findings=(Finding("apply", Status.UNDECIDED, told), *others),
    )
