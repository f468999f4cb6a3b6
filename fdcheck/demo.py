"""The demo: fdcheck on a heated rod, whose derivative is once right and once wrong."""

from __future__ import annotations

import errno
import inspect
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import fdcheck
from fdcheck import demo_problem as heat

_WIDTH = 80


@dataclass(frozen=True)
class _Case:
    """One check whose outcome is known.

    Parameters
    ----------
    name : str
        What is checked.
    check : callable
        Returns the report.
    verdict : Verdict
        What has to come out.
    at_kink : bool
        Whether a kink has to be found.
    """

    name: str
    check: Callable[[], fdcheck.Report]
    verdict: fdcheck.Verdict
    at_kink: bool = False

    def came_out(self, report: fdcheck.Report) -> bool:
        """Return whether a report says what it should."""
        return report.verdict is self.verdict and bool(_kinks(report)) is self.at_kink


def run() -> int:
    """Print the demo.

    Returns
    -------
    int
        0 if every verdict came out as it should, else 1.
    """
    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
    console.width = min(_WIDTH, console.width)
    console.print("A heated rod of 12 cells. Its derivative, written by hand, has a bug:\n", style="bold")
    console.print(inspect.getsource(heat.wrong_vjp))
    console.print("The check:\n", style="bold")
    console.print(f"    print({_call(_check_wrong)})\n")
    wrong = _check_wrong()
    console.print("What it prints:\n", style="bold")
    console.print(f"{wrong}\n")
    reports = [case.check() for case in _CASES]
    console.print(_table(reports))
    as_expected = _names_the_bug(wrong) and all(c.came_out(r) for c, r in zip(_CASES, reports, strict=True))
    console.print(f"\n{_closing(as_expected)}", style="bold")
    return 0 if as_expected else 1


def write(directory: Path) -> str:
    """Save the demo's problem and its input as files that ``fdcheck verify`` can run.

    Parameters
    ----------
    directory : Path
        Where to put ``heat.py`` and ``heat.json``; made if it is not there.

    Returns
    -------
    str
        The commands that check it.

    Raises
    ------
    OSError
        If a file exists already or cannot be written.
    """
    problem, point = directory / "heat.py", directory / "heat.json"
    for path in (problem, point):
        if path.exists():
            raise FileExistsError(errno.EEXIST, "exists already; nothing was written", str(path))
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {name: array.tolist() for name, array in heat.inputs().items()}
    problem.write_text(inspect.getsource(heat), encoding="utf-8")
    point.write_text(json.dumps(arrays, indent=2) + "\n", encoding="utf-8")
    return (
        f"wrote {problem} and {point}\n\n"
        f"the derivative with a bug, exit status 1:\n  {_command(problem, 'wrong_vjp', point)}\n\n"
        f"the right one, exit status 0:\n  {_command(problem, 'vjp', point)}"
    )


def _command(problem: Path, vjp: str, point: Path) -> str:
    return shlex.join(["fdcheck", "verify", f"{problem}:apply", "--vjp", vjp, f"@{point}"])


def _check_wrong() -> fdcheck.Report:
    return fdcheck.verify(heat.apply, heat.inputs(), vjp=heat.wrong_vjp)


def _check_right() -> fdcheck.Report:
    return fdcheck.verify(heat.apply, heat.inputs(), vjp=heat.vjp)


def _check_float32() -> fdcheck.Report:
    x0 = {name: array.astype(np.float32) for name, array in heat.inputs().items()}
    return fdcheck.verify(heat.apply, x0, vjp=heat.vjp)


def _check_kink() -> fdcheck.Report:
    return fdcheck.verify(heat.apply, heat.inputs_at_kink(), vjp=heat.vjp)


_CASES = (
    _Case("right derivative, float64", _check_right, fdcheck.Verdict.PASS),
    _Case("right derivative, float32", _check_float32, fdcheck.Verdict.PASS),
    _Case("a heater at its kink, exactly 0", _check_kink, fdcheck.Verdict.PASS, at_kink=True),
)


def _call(check: Callable[[], fdcheck.Report]) -> str:
    """Return the expression that a check returns, as it stands in this file."""
    return inspect.getsource(check).splitlines()[-1].strip().removeprefix("return ")


def _kinks(report: fdcheck.Report) -> int:
    """Return how many entries lie at a kink."""
    return sum(pair.counts.get(fdcheck.Status.KINK, 0) for pair in report.pairs)


def _names_the_bug(report: fdcheck.Report) -> bool:
    """Return whether a report fails, and fails for the conductivity alone."""
    blamed = {finding.input for finding in report.findings if finding.status is fdcheck.Status.DISAGREES}
    return report.verdict is fdcheck.Verdict.FAIL and blamed == {"conductivity"}


def _table(reports: list[fdcheck.Report]) -> Table:
    """Return one line for each of the other cases."""
    table = Table("check", "verdict", "applies", "expected", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for case, report in zip(_CASES, reports, strict=True):
        kinks = _kinks(report)
        verdict = f"{report.verdict}, {kinks} kinks" if kinks else str(report.verdict)
        expected = f"{case.verdict}, kinks accepted" if case.at_kink else str(case.verdict)
        table.add_row(case.name, verdict, str(report.applies), expected)
    return table


def _closing(as_expected: bool) -> str:
    """Return the last line."""
    if as_expected:
        return "All came out as expected. To try it yourself: fdcheck demo --write DIR"
    return "NOT all came out as expected: please report this output."
