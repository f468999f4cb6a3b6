"""What the commands write: a report with colours, and pages in files."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from fdcheck.loading import CannotRun

if TYPE_CHECKING:
    from fdcheck.results import Report


def page_option(what: str) -> dict[str, Any]:
    """Return what the option that writes a page is; whether it can be written is looked at before the check runs."""
    text = f"Write the {what} as one HTML page, too; needs pip install 'fdcheck[report]'."
    return {"metavar": "FILE", "callback": _writable_page, "help": text}


def _writable_page(ctx: click.Context, option: click.Parameter, path: str | None) -> str | None:
    """Return where to write a page, if it can be made and the folder is there."""
    if path is None:
        return None
    from fdcheck.report.extra import needs
    from fdcheck.results import InvalidInput

    if os.path.isdir(path) or not os.path.isdir(os.path.dirname(path) or "."):
        raise click.BadParameter(f"expected a file in a folder that exists, got {path!r}")
    try:
        needs("jinja2", "matplotlib")
    except InvalidInput as error:
        raise CannotRun(str(error)) from error
    return path


def write_page(result: Any, path: str) -> None:
    """Write a report or an advice as HTML and say so on stderr."""
    try:
        result.to_html(path)
    except OSError as error:
        raise CannotRun(f"--html {path}: {error.strerror}") from error
    click.echo(f"wrote {path}", err=True)


def show_report(report: Report, as_json: bool, replay: str = "") -> None:
    """Print a report; ``replay`` is the command that replays a finding."""
    from fdcheck.report.text import report_text, terminal_width

    if as_json:
        click.echo(report.to_json())
    else:
        show_text(report_text(report, terminal_width(), replay))


@contextlib.contextmanager
def shown_if_interrupted(as_json: bool) -> Iterator[None]:
    """Print the report that an interrupted check leaves on its exception, and let the exception through."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        report = getattr(interrupt, "report", None)
        if report is not None:
            show_report(report, as_json)
        raise


def replaying(apply: str, inputs: str, endpoints: Mapping[str, str], number: str = "{number}") -> str:
    """Return the command that replays a finding, to paste; other braces are doubled."""
    options = [word for name, place in endpoints.items() for word in (f"--{name}", place)]
    line = shlex.join([apply, inputs, *options]).replace("{", "{{").replace("}", "}}")
    return f"fdcheck replay REPORT.json {line} --finding {number}"


def show_text(text: str) -> None:
    """Print a report, with colours where stdout is a terminal; NO_COLOR and FORCE_COLOR are heeded."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        click.echo(text)
        return
    from rich.console import Console

    from fdcheck.report.paint import painted

    Console(highlight=False, markup=False, emoji=False, soft_wrap=True).print(painted(text))
