"""The command ``fdcheck tesseract``: a Tesseract, one payload or several, and the verdict as exit status."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fdcheck.cli import STATUS, limits, steps
from fdcheck.cli_output import page_option, show_text, write_page
from fdcheck.loading import CannotRun, told

if TYPE_CHECKING:
    from fdcheck.results import Report

_BY_SEVERITY = ("pass", "inconclusive", "fail")


@click.command("tesseract")
@click.argument("words", metavar="[TARGET] PAYLOAD", nargs=-1, required=True)
@click.option("--input-paths", metavar="PATH", multiple=True, help="Differentiable input to check. Repeatable.")
@click.option("--output-paths", metavar="PATH", multiple=True, help="Differentiable output to check. Repeatable.")
@click.option("--endpoints", metavar="NAME", multiple=True, help="Endpoint to check; all by default. Repeatable.")
@click.option("--eps", type=float, help="Step forced on every input, in its own unit; chosen by default.")
@click.option(
    "--eps-for",
    metavar="PATH=VALUE",
    multiple=True,
    callback=steps,
    help="Step forced on one input; wins over --eps. Repeatable.",
)
@click.option("--rtol", type=float, help="Relative tolerance; by default 1e-3, wider for short dtypes.")
@click.option("--atol", type=float, help="Absolute tolerance, in the unit of the entry; 0 by default.")
@click.option("--max-evals", type=int, help="Input elements moved one by one; 1000 by default, else sampled.")
@click.option("--max-applies", type=int, help="Calls of apply, at most; no limit by default.")
@click.option(
    "--max-output-samples", type=int, help="Output elements a vjp is called for; 1000 by default, else sampled."
)
@click.option("--max-failures", type=int, help="Findings printed of each endpoint; 10 by default. JSON has more.")
@click.option("--seed", type=int, help="Seed of the random directions and samples; 0 by default.")
@click.option("--profile", metavar="NAME", help="A set of defaults; see fdcheck profiles.")
@click.option(
    "--bounds",
    metavar="PATH=LOW,HIGH",
    multiple=True,
    callback=limits,
    help="Limits within which an input may be moved. Repeatable.",
)
@click.option("--like-tesseract", is_flag=True, default=None, help="Defaults of check-gradients: eps, rtol and atol.")
@click.option("--timeout", type=float, help="Seconds that a request to a server may take; 300 by default.")
@click.option(
    "--show-progress/--no-show-progress",
    "progress",
    default=None,
    help="Progress bar on stderr; by default where that is a terminal.",
)
@click.option("--html", **page_option("report"))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON; of several payloads, a list.")
def command(words: tuple[str, ...], progress: bool | None, html: str | None, as_json: bool, **options: Any) -> None:
    """Check all derivative endpoints of a Tesseract.

    TARGET is a path to a tesseract_api.py, the http(s):// address of a served Tesseract, or the name of an image.
    Left out, it is TESSERACT_API_PATH. PAYLOAD is '{"inputs": {...}}', @FILE.json, or a glob of such files, of
    which each is checked.

    A PATH is written as in Tesseract: a.b, l.[0].w, d.{key}; patterns are l.[].w and d.{}.

    Options left out are taken from the environment (FDCHECK_TESSERACT_RTOL ..., then FDCHECK_RTOL ...), from
    [tool.fdcheck] of the nearest pyproject.toml, and from the profile, in that order.

    \b
    Examples:
      fdcheck tesseract tesseract_api.py '{"inputs": {"x": [1.0, 2.0]}}'
      fdcheck tesseract http://127.0.0.1:8000 @inputs.json --input-paths 'layers.[].w' --rtol 1e-2
      fdcheck tesseract tesseract_api.py 'payloads/*.json' --profile quick
    """  # noqa: D301
    from fdcheck.report.bar import bar

    if len(words) > 2:
        raise CannotRun(f"expected [TARGET] PAYLOAD, got {len(words)} words: {' '.join(words)} (quote a glob)")
    target = words[0] if len(words) == 2 else _usual_target()
    payloads, are_several = _payloads(words[-1])
    if html is not None and are_several:
        raise CannotRun(f"--html: expected one payload, got {len(payloads)}")
    given = {name: value for name, value in options.items() if value not in (None, (), {})}
    reports: list[tuple[str, Report]] = []
    for name, inputs in payloads:
        with contextlib.redirect_stdout(sys.stderr), bar(progress) as told:
            reports.append((name, _report(target, inputs, {**given, "progress": told})))
        if not as_json:
            show_text((f"{name}\n" if are_several else "") + str(reports[-1][1]) + ("\n" if are_several else ""))
    if html is not None:
        write_page(reports[0][1], html)
    if as_json:
        documents = [{"payload": name, **report.to_dict()} for name, report in reports]
        click.echo(json.dumps(documents, indent=2) if are_several else reports[0][1].to_json())
    worst = max((str(report.verdict) for _, report in reports), key=_BY_SEVERITY.index)
    raise click.exceptions.Exit(STATUS[worst])


def _usual_target() -> str:
    """Return the target that the environment names."""
    target = os.environ.get("TESSERACT_API_PATH")
    if not target:
        raise CannotRun("expected TARGET PAYLOAD; TARGET may only be left out where TESSERACT_API_PATH is set")
    return target


def _payloads(text: str) -> tuple[list[tuple[str, Any]], bool]:
    """Return the inputs of each payload with its name, and whether there may be several."""
    if text.lstrip().startswith("{"):
        return [("PAYLOAD", _inputs(text, "PAYLOAD"))], False
    place = text.removeprefix("@")
    if os.path.isfile(place) or not glob.has_magic(place):
        return [(place, _inputs_of_file(place))], False
    files = sorted(name for name in glob.glob(place, recursive=True) if os.path.isfile(name))
    if not files:
        raise CannotRun(f"PAYLOAD: no file matches {place!r}")
    return [(name, _inputs_of_file(name)) for name in files], True


def _inputs_of_file(name: str) -> Any:
    try:
        return _inputs(Path(name).read_bytes(), name)
    except OSError as error:
        raise CannotRun(
            f"PAYLOAD: {name}: {error.strerror}; expected '{{\"inputs\": ...}}', @FILE.json or a glob of files"
        ) from error


def _inputs(text: str | bytes, source: str) -> Any:
    """Return the inputs of one payload."""
    try:
        payload = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise CannotRun(f"{source}: no valid JSON: {error.msg} at {place}") from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise CannotRun(f"{source}: no valid JSON: {error}") from error
    if not isinstance(payload, dict) or not isinstance(payload.get("inputs"), dict):
        raise CannotRun(f'{source}: expected an object {{"inputs": {{...}}}}, got {json.dumps(payload):.60}')
    return payload["inputs"]


def _report(target: str, inputs: Any, options: dict[str, Any]) -> Report:
    """Return the report of one payload."""
    from fdcheck.results import InvalidInput

    try:
        from fdcheck.adapters.tesseract import verify

        return verify(target, inputs, **options)
    except (InvalidInput, ImportError) as error:
        raise CannotRun(str(error)) from error
    except (Exception, SystemExit) as error:
        raise CannotRun(f"the check broke off: {told(error)}") from error
