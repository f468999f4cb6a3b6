"""The command line: reads what to check from the arguments, runs the check, and says the verdict by its exit status."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from fdcheck.results import Report

_STATUS = {"pass": 0, "fail": 1, "inconclusive": 3}
_COULD_NOT_RUN = 2
_INTERRUPTED = 130


class _CannotRun(click.ClickException):
    """A reason, in one line, why nothing could be checked."""


class _OneLineErrors(click.Group):
    """A group of commands in which whatever goes wrong is one line on stderr and an exit status of its own."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run, then leave with the exit status."""
        if hasattr(sys.stdout, "reconfigure"):  # a path with a letter the terminal lacks must not end the check
            sys.stdout.reconfigure(errors="backslashreplace")
        options["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **options) or 0)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
        except click.ClickException as error:
            _complain(error.format_message())
        sys.exit(_COULD_NOT_RUN)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an interrupted check is never a pass."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _complain("interrupted")
            return ctx.exit(_INTERRUPTED)


@click.group(cls=_OneLineErrors)
@click.version_option(package_name="fdcheck", prog_name="fdcheck", message="%(prog)s %(version)s")
def main() -> None:
    """Check derivatives against finite differences with error bars.

    \b
    Exit status: 0 pass, 1 fail, 2 could not run, 3 inconclusive, 130 interrupted.

    \b
    Example:
      fdcheck verify heat.py:apply --vjp vjp @heat.json
    """  # noqa: D301 (\b is click's mark for lines to keep)


@main.command()
@click.argument("apply", metavar="MODULE:APPLY")
@click.argument("inputs", metavar="INPUTS")
@click.option("--jacobian", metavar="M:F", help="Derivative jacobian(x).")
@click.option("--jvp", metavar="M:F", help="Derivative jvp(x, tangent).")
@click.option("--vjp", metavar="M:F", help="Derivative vjp(x, cotangent).")
@click.option("--rtol", type=float, help="Relative tolerance; by default 1e-3, wider for short dtypes.")
@click.option("--atol", type=float, help="Absolute tolerance, in the unit of the entry; 0 by default.")
@click.option("--eps", type=float, help="Step forced on every input, in its unit.")
@click.option("--eps-for", metavar="PATH=VALUE", multiple=True, help="Step forced on one part. Repeatable.")
@click.option("--input-paths", metavar="PATH", multiple=True, help="Input part to check, path or glob. Repeatable.")
@click.option("--output-paths", metavar="PATH", multiple=True, help="Output part to check. Repeatable.")
@click.option("--endpoints", metavar="NAME", multiple=True, help="Endpoint to check, of those given. Repeatable.")
@click.option("--bounds", metavar="PATH=LOW,HIGH", multiple=True, help="Where inputs may be moved. Repeatable.")
@click.option("--seed", type=int, help="Seed of the random directions; 0 by default.")
@click.option("--profile", metavar="NAME", default="default", help="'default', 'quick' or 'strict'.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def verify(
    apply: str,
    inputs: str,
    jacobian: str | None,
    jvp: str | None,
    vjp: str | None,
    eps_for: tuple[str, ...],
    bounds: tuple[str, ...],
    as_json: bool,
    **options: Any,
) -> None:
    """Check derivatives of the function APPLY at the point INPUTS.

    MODULE is a dotted name, looked up in the current directory too, or a path to a .py file. For --jacobian,
    --jvp and --vjp the name of a function alone means one in the module of APPLY. Give at least one of them.

    INPUTS is JSON, or @FILE.json, or @FILE.npz. In JSON a rectangular list of numbers is a float64 array and a
    bare number is a float; {"dtype": "int64", "value": [1, 2]} is an array of another dtype. Strings, booleans,
    null and integer dtypes are carried along, not differentiated. INPUTS that begin with a minus sign stand
    after --.

    \b
    Example:
      fdcheck verify heat.py:apply --vjp vjp '{"conductivity": [1.0, 2.0], "source": [5, 5]}'
    """  # noqa: D301
    claims = {name: text for name, text in (("jacobian", jacobian), ("jvp", jvp), ("vjp", vjp)) if text is not None}
    if not claims:
        raise _CannotRun("give at least one of --jacobian, --jvp and --vjp; without one there is nothing to check")
    options |= {
        "eps_for": dict(_named_value(text, "--eps-for PATH=VALUE", 1)[:2] for text in eps_for) or None,
        "bounds": {path: (low, high) for path, low, high in (_named_values(t, "--bounds PATH=LOW,HIGH", 2) for t in bounds)}
        or None,
    }
    with contextlib.redirect_stdout(sys.stderr):  # what the user's code prints is no part of the report
        functions = _callables({"apply": apply, **claims})
        report = _report(functions, _point(inputs), {name: value for name, value in options.items() if value != ()})
    click.echo(report.to_json() if as_json else str(report))
    raise click.exceptions.Exit(_STATUS[report.verdict])
