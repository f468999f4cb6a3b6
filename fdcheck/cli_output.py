"""What the commands write: a report with colours, and pages in files."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from fdcheck.loading import CannotRun


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


def show_text(text: str) -> None:
    """Print a report, with colours where stdout is a terminal; NO_COLOR and FORCE_COLOR are heeded."""
    if not (sys.stdout.isatty() or os.environ.get("FORCE_COLOR")):
        click.echo(text)
        return
    from rich.console import Console

    from fdcheck.report.paint import painted

    Console(highlight=False, markup=False, emoji=False, soft_wrap=True).print(painted(text))
