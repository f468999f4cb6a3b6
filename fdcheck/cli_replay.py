"""The command that replays one finding of a report that was saved as JSON."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from fdcheck.cli import STATUS, called
from fdcheck.cli_output import replaying, show_report, shown_if_interrupted
from fdcheck.loading import CannotRun, callables, point


@click.command("replay")
@click.argument("report", metavar="REPORT.json", type=click.Path(path_type=Path))
@click.argument("apply", metavar="MODULE:APPLY")
@click.argument("inputs", metavar="INPUTS")
@click.option("--finding", type=int, default=1, help="Number of the finding in the report; 1 by default, the worst.")
@click.option("--jacobian", metavar="M:F", help="The jacobian that was checked.")
@click.option("--jvp", metavar="M:F", help="The jvp that was checked.")
@click.option("--vjp", metavar="M:F", help="The vjp that was checked.")
@click.option("--directions", metavar="INPUTS", help="Directions that fdcheck verify was given.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    report: Path,
    apply: str,
    inputs: str,
    finding: int,
    jacobian: str | None,
    jvp: str | None,
    vjp: str | None,
    directions: str | None,
    as_json: bool,
) -> None:
    """Check one finding of a report again, alone, at the same point and with the same seed and settings.

    REPORT.json is what fdcheck verify --json printed. The report is data: what is run are the functions named here, so
    MODULE:APPLY, INPUTS and the derivatives are given as they were to fdcheck verify.

    Exit status: that of the verdict on this finding, as for fdcheck verify.

    \b
    Example:
      fdcheck replay report.json heat.py:apply @heat.json --vjp vjp --finding 2
    """  # noqa: D301
    endpoints = {name: place for name, place in (("jacobian", jacobian), ("jvp", jvp), ("vjp", vjp)) if place}
    from fdcheck.replaying import replay
    from fdcheck.results import Report

    try:
        text = report.read_bytes()
    except OSError as error:
        raise CannotRun(f"{report}: {error.strerror}") from error
    with shown_if_interrupted(as_json), contextlib.redirect_stdout(sys.stderr):
        saved = called(Report.from_json, "reading", text=text)
        functions = callables(apply, endpoints)
        given = {} if directions is None else {"directions": point(directions, "--directions")}
        result = called(replay, "check", report=saved, finding=finding, x0=point(inputs), **functions, **given)
    show_report(result, as_json, replaying(apply, inputs, endpoints, str(finding)))
    raise click.exceptions.Exit(STATUS[result.verdict])
