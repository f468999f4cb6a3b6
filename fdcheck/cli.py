"""The command line: reads what to check, runs the check and gives the verdict as exit status."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from fdcheck.cli_output import page_option, replaying, show_report, shown_if_interrupted, write_page
from fdcheck.loading import CannotRun, Named, callables, point, told
from fdcheck.report.printable import printable

_Result = TypeVar("_Result")

STATUS = {"pass": 0, "fail": 1, "inconclusive": 3}
"""Exit status of each verdict."""

_COULD_NOT_RUN = 2
_INTERRUPTED = 130

_ELSEWHERE = {"replay": "fdcheck.cli_replay", "tesseract": "fdcheck.cli_tesseract"}
"""Commands that live in a module of their own, imported when they are asked for."""


class _OneLineErrors(click.Group):
    """Commands whose errors are one line on stderr, and whose exit status never takes an error for a verdict."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted([*super().list_commands(ctx), *_ELSEWHERE])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command."""
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(_ELSEWHERE[cmd_name]).command
        return command

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command and leave with its exit status."""
        if isinstance(sys.stdout, io.TextIOWrapper):  # a letter that the terminal lacks must not become the status
            sys.stdout.reconfigure(errors="backslashreplace")
        options["standalone_mode"] = False
        try:
            status = super().main(*args, **options) or 0
        except click.ClickException as error:
            hint = "; put -- before a negative number" if _is_number(error) else ""
            _complain(error.format_message() + hint + _pointer_to_help(error))
            status = _COULD_NOT_RUN
        sys.exit(status)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; one that was interrupted or could not print its report has no verdict."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _complain("interrupted")
            ctx.exit(_INTERRUPTED)
        except OSError as error:  # the commands catch those from reading
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python flushes stdout once more at its end
            _complain(f"the output could not be written: {error.strerror}")
            ctx.exit(_COULD_NOT_RUN)


def _is_number(error: click.ClickException) -> bool:
    """Return whether a negative number was taken for an option."""
    return isinstance(error, click.NoSuchOption) and error.option_name.lstrip("-")[:1].isdigit()


def _pointer_to_help(error: click.ClickException) -> str:
    """Return where the usage stands, for a mistake in it."""
    return f" (see {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""


def _complain(message: str) -> None:
    """Print a message on stderr as one line."""
    click.echo("fdcheck: " + printable(" ".join(message.split())), err=True)


def steps(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    """Return a step for each path."""
    return {path: step for path, (step,) in (_path_and_numbers(text, "PATH=VALUE") for text in texts)}


def limits(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
    """Return a low and a high limit for each path."""
    return dict(_path_and_numbers(text, "PATH=LOW,HIGH") for text in texts)


def _path_and_numbers(text: str, form: str) -> tuple[str, tuple[float, ...]]:
    """Return the parts of an option of one of the two forms."""
    path, _, numbers = text.rpartition("=")  # the last one, since a key in the path may hold another
    try:
        found = tuple(float(number) for number in numbers.split(","))
    except ValueError:
        found = ()
    if not path or len(found) != 1 + form.count(","):
        raise click.BadParameter(f"expected {form}, got {text!r}")
    return path, found


@click.group(cls=_OneLineErrors, no_args_is_help=False)
@click.version_option(package_name="fdcheck", prog_name="fdcheck", message="%(prog)s %(version)s")
def main() -> None:
    """Check derivatives against finite differences with error bars.

    Exit status: 0 pass, 1 fail, 2 could not run, 3 inconclusive, 130 interrupted.

    \b
    Example:
      fdcheck verify heat.py:apply --vjp vjp @heat.json
    """  # noqa: D301 (click keeps the lines after a backspace as they are)


@main.command()
@click.argument("apply", metavar="MODULE:APPLY")
@click.argument("inputs", metavar="INPUTS")
@click.option("--jacobian", metavar="M:F", help="Derivative to check: jacobian(x).")
@click.option("--jvp", metavar="M:F", help="Derivative to check: jvp(x, tangent).")
@click.option("--vjp", metavar="M:F", help="Derivative to check: vjp(x, cotangent).")
@click.option("--rtol", type=float, help="Relative tolerance; by default 1e-3, wider for short dtypes.")
@click.option("--atol", type=float, help="Absolute tolerance, in the unit of the entry; 0 by default.")
@click.option("--eps", type=float, help="Step forced on every input, in its own unit.")
@click.option(
    "--eps-for",
    metavar="PATH=VALUE",
    multiple=True,
    callback=steps,
    help="Step forced on one part of the input; wins over --eps. Repeatable.",
)
@click.option("--input-paths", metavar="PATH", multiple=True, help="Part of the input to check. Repeatable.")
@click.option("--output-paths", metavar="PATH", multiple=True, help="Part of the output to check. Repeatable.")
@click.option("--endpoints", metavar="NAME", multiple=True, help="Endpoint to check, of those given. Repeatable.")
@click.option("--points", type=int, metavar="K", help="Random points around INPUTS that are checked beside it.")
@click.option(
    "--directions",
    metavar="INPUTS",
    help="Directions along which parts of the input move, in the form of INPUTS: a stack of them for each path.",
)
@click.option("--method", metavar="WORD", help="auto, elementwise (inputs alone) or probe (together); auto by default.")
@click.option("--max-evals", type=int, help="Input elements moved one by one; by default all of up to 1000.")
@click.option("--max-applies", type=int, help="Calls of APPLY, at most; no limit by default.")
@click.option(
    "--max-output-samples", type=int, help="Output elements a vjp is called for; by default all of up to 1000."
)
@click.option("--max-failures", type=int, help="Findings printed of each endpoint; 10 by default. JSON has more.")
@click.option("--seed", type=int, help="Seed of the random directions and samples; 0 by default.")
@click.option("--profile", metavar="NAME", help="A set of defaults; see fdcheck profiles.")
@click.option("--skip", metavar="NAMES", multiple=True, help="Parts of the contract left out: nonlinear,layout ...")
@click.option(
    "--bounds",
    metavar="PATH=LOW,HIGH",
    multiple=True,
    callback=limits,
    help="Limits within which a part of the input may be moved. Repeatable.",
)
@click.option(
    "--show-progress/--no-show-progress",
    "progress",
    default=None,
    help="Progress bar on stderr; by default where that is a terminal.",
)
@click.option("--workers", metavar="N", type=click.IntRange(min=1), help="Call APPLY in N processes at once.")
@click.option("--dask", metavar="ADDRESS", help="Call APPLY in the workers of a Dask scheduler.")
@click.option("--timeout", type=float, help="Seconds that one call of APPLY may take; no limit by default.")
@click.option("--time-limit", type=float, help="Seconds that the check may take; no limit by default.")
@click.option("--html", **page_option("report"))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def verify(
    apply: str,
    inputs: str,
    jacobian: str | None,
    jvp: str | None,
    vjp: str | None,
    directions: str | None,
    workers: int | None,
    dask: str | None,
    timeout: float | None,
    time_limit: float | None,
    progress: bool | None,
    html: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Check derivatives of the function APPLY at the point INPUTS.

    MODULE is a dotted name (modules in the current directory included) or a path to a .py file. After
    --jacobian, --jvp and --vjp, of which at least one is needed, a bare name is a function of the same MODULE.
    A PATH is that of an array as in the report, such as params['w'], without the index of an element; it may be a glob.

    Options left out are taken from the environment (FDCHECK_RTOL, FDCHECK_MAX_EVALS ...), from [tool.fdcheck] of
    the nearest pyproject.toml, and from the profile, in that order.

    INPUTS is JSON, @FILE.json or @FILE.npz. In JSON, a rectangular list of numbers is a float64 array and a
    number a float; {"dtype": "int64", "value": [1, 2]} is an array of that dtype. Integer dtypes, strings, true,
    false and null are carried along, not differentiated. Put -- before a negative number.

    \b
    Examples:
      fdcheck verify model.py:apply --jvp jvp '{"x": [0.5, 2], "n": 3.0}'
      fdcheck verify model.py:apply --vjp vjp @x.npz --eps-for pressure=1e2
    """  # noqa: D301
    endpoints = {name: place for name, place in (("jacobian", jacobian), ("jvp", jvp), ("vjp", vjp)) if place}
    if not endpoints:
        raise CannotRun("give at least one of --jacobian, --jvp and --vjp; without one there is nothing to check")
    from fdcheck import api
    from fdcheck.cli_workers import execution
    from fdcheck.report.bar import bar

    on_stderr = contextlib.redirect_stdout(sys.stderr)  # the report stays alone on stdout, whatever user code prints
    with shown_if_interrupted(as_json), on_stderr:
        given = {name: value for name, value in options.items() if value not in (None, (), {})}
        if directions is not None:
            given["directions"] = point(directions, "--directions")
        with bar(progress) as told, execution(workers, dask, timeout, time_limit) as chosen:
            functions = callables(apply, endpoints)
            if workers or dask:
                functions["apply"] = Named(apply)
            report = called(api.verify, "check", x0=point(inputs), progress=told, **functions, **given, **chosen)
    if html is not None:
        write_page(report, html)
    show_report(report, as_json, replaying(apply, inputs, endpoints))
    raise click.exceptions.Exit(STATUS[report.verdict])


@main.command()
@click.argument("apply", metavar="MODULE:APPLY")
@click.argument("inputs", metavar="INPUTS")
@click.option("--rtol", type=float, help="Relative error that safe steps stay under; by default 1e-3.")
@click.option("--input-paths", metavar="PATH", multiple=True, help="Part of the input to look at. Repeatable.")
@click.option("--output-paths", metavar="PATH", multiple=True, help="Part of the output to look at. Repeatable.")
@click.option(
    "--bounds",
    metavar="PATH=LOW,HIGH",
    multiple=True,
    callback=limits,
    help="Limits within which a part of the input may be moved. Repeatable.",
)
@click.option("--max-evals", type=int, help="Input elements looked at; 200 by default, else sampled.")
@click.option("--seed", type=int, help="Seed of the random direction and the sample; 0 by default.")
@click.option("--html", **page_option("advice"))
@click.option("--json", "as_json", is_flag=True, help="Print the advice as JSON.")
def recommend(apply: str, inputs: str, html: str | None, as_json: bool, **options: Any) -> None:
    """Recommend steps for plain differences of the function APPLY at the point INPUTS.

    MODULE, INPUTS and PATH as for fdcheck verify. Exit status: 0 advice was given, 2 could not run, 3 no input has a
    safe range of steps.

    \b
    Example:
      fdcheck recommend heat.py:apply @heat.json
    """  # noqa: D301
    from fdcheck.recommend import recommend_eps

    with contextlib.redirect_stdout(sys.stderr):
        given = {name: value for name, value in options.items() if value not in (None, (), {})}
        function = callables(apply, {})["apply"]
        advice = called(recommend_eps, "measurement", apply=function, x0=point(inputs), **given)
    if html is not None:
        write_page(advice, html)
    click.echo(advice.to_json() if as_json else str(advice))
    raise click.exceptions.Exit(0 if any(path.without < path.entries for path in advice.paths) else 3)


@main.command()
@click.option("--write", metavar="DIR", help="Save DIR/heat.py and DIR/heat.json instead, and say how to check them.")
def demo(write: str | None) -> None:
    """Show fdcheck on a heated rod whose derivative has a bug.

    \b
    Example:
      fdcheck demo --write .
    """  # noqa: D301
    from fdcheck import demo as heated_rod

    if write is None:
        raise click.exceptions.Exit(heated_rod.run())
    try:
        click.echo(heated_rod.write(Path(write)))
    except OSError as error:
        raise CannotRun(f"{error.filename}: {error.strerror}") from error


@main.group(invoke_without_command=True)
@click.pass_context
def profiles(ctx: click.Context) -> None:
    """List the profiles: named sets of defaults.

    \b
    Example:
      fdcheck profiles show strict
    """  # noqa: D301
    from fdcheck.settings import profile_names, read_profile

    if ctx.invoked_subcommand is None:
        for name in profile_names():
            text = f"{name:8} {read_profile(name)['description']}"
            click.echo(textwrap.fill(text, 80, subsequent_indent=" " * 9))


@profiles.command()
@click.argument("name")
def show(name: str) -> None:
    """Print what a profile sets.

    \b
    Example:
      fdcheck profiles show strict
    """  # noqa: D301
    from fdcheck.results import InvalidInput
    from fdcheck.settings import profile_text

    try:
        click.echo(profile_text(name).rstrip())
    except InvalidInput as error:
        raise CannotRun(str(error)) from error


def called(function: Callable[..., _Result], what: str, **options: Any) -> _Result:
    """Return what a function returns; whatever it raises is told in one line."""
    from fdcheck.results import InvalidInput

    try:
        return function(**options)
    except InvalidInput as error:
        raise CannotRun(str(error)) from error
    except (Exception, SystemExit) as error:  # sys.exit() in apply would otherwise set the exit status
        raise CannotRun(f"the {what} broke off: {told(error)}") from error
