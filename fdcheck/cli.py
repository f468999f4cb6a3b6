"""The command line: reads what to check, runs the check and gives the verdict as exit status."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import io
import json
import os
import sys
import traceback
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from fdcheck.advice import EpsAdvice
    from fdcheck.results import Report

_STATUS = {"pass": 0, "fail": 1, "inconclusive": 3}
_COULD_NOT_RUN = 2
_INTERRUPTED = 130


class _CannotRun(click.ClickException):
    """The reason, in one line, why nothing was checked."""


class _OneLineErrors(click.Group):
    """Commands whose errors are one line on stderr, and whose exit status never takes an error for a verdict."""

    def main(self, *args: Any, **options: Any) -> NoReturn:
        """Run a command and leave with its exit status."""
        if isinstance(sys.stdout, io.TextIOWrapper):  # a letter that the terminal lacks must not become the status
            sys.stdout.reconfigure(errors="backslashreplace")
        options["standalone_mode"] = False
        try:
            status = super().main(*args, **options) or 0
        except click.ClickException as error:
            _complain(error.format_message() + _pointer_to_help(error))
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


def _pointer_to_help(error: click.ClickException) -> str:
    """Return where the usage stands, for a mistake in it."""
    return f" (see {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""


def _complain(message: str) -> None:
    """Print a message on stderr as one line."""
    click.echo("fdcheck: " + " ".join(message.split()), err=True)


def _steps(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    """Return a step for each path."""
    return {path: step for path, (step,) in (_path_and_numbers(text, "PATH=VALUE") for text in texts)}


def _limits(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, tuple[float, ...]]:
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
    callback=_steps,
    help="Step forced on one part of the input; wins over --eps. Repeatable.",
)
@click.option("--input-paths", metavar="PATH", multiple=True, help="Part of the input to check. Repeatable.")
@click.option("--output-paths", metavar="PATH", multiple=True, help="Part of the output to check. Repeatable.")
@click.option("--endpoints", metavar="NAME", multiple=True, help="Endpoint to check, of those given. Repeatable.")
@click.option("--seed", type=int, help="Seed of the random direction; 0 by default.")
@click.option("--profile", metavar="NAME", help="default, quick (half the calls) or strict (full accuracy).")
@click.option(
    "--bounds",
    metavar="PATH=LOW,HIGH",
    multiple=True,
    callback=_limits,
    help="Limits within which a part of the input may be moved. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def verify(
    apply: str, inputs: str, jacobian: str | None, jvp: str | None, vjp: str | None, as_json: bool, **options: Any
) -> None:
    """Check derivatives of the function APPLY at the point INPUTS.

    MODULE is a dotted name (modules in the current directory included) or a path to a .py file. After
    --jacobian, --jvp and --vjp, of which at least one is needed, a bare name is a function of the same MODULE.
    A PATH is written as in the report, such as params['w'][0], and may be a glob.

    INPUTS is JSON, @FILE.json or @FILE.npz. In JSON, a rectangular list of numbers is a float64 array and a
    number a float; {"dtype": "int64", "value": [1, 2]} is an array of that dtype. Integer dtypes, strings, true,
    false and null are carried along, not differentiated. Put -- before a negative number.

    \b
    Example:
      fdcheck verify model.py:apply --jvp jvp '{"x": [0.5, 2], "n": {"dtype": "int64", "value": 3}}'
    """  # noqa: D301
    endpoints = {name: place for name, place in (("jacobian", jacobian), ("jvp", jvp), ("vjp", vjp)) if place}
    if not endpoints:
        raise _CannotRun("give at least one of --jacobian, --jvp and --vjp; without one there is nothing to check")
    with contextlib.redirect_stdout(sys.stderr):  # the report stays alone on stdout, whatever the user's code prints
        given = {name: value for name, value in options.items() if value not in (None, (), {})}
        report = _report(_callables(apply, endpoints), _point(inputs), given)
    click.echo(report.to_json() if as_json else str(report))
    raise click.exceptions.Exit(_STATUS[report.verdict])


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
        raise _CannotRun(f"{error.filename}: {error.strerror}") from error


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
    callback=_limits,
    help="Limits within which a part of the input may be moved. Repeatable.",
)
@click.option("--seed", type=int, help="Seed of the random direction; 0 by default.")
@click.option("--json", "as_json", is_flag=True, help="Print the advice as JSON.")
def recommend(apply: str, inputs: str, as_json: bool, **options: Any) -> None:
    """Recommend steps for plain differences of the function APPLY at the point INPUTS.

    MODULE, INPUTS and PATH as for fdcheck verify. Exit status: 0 advice was given, 2 could not run, 3 no input has a
    safe range of steps.

    \b
    Example:
      fdcheck recommend heat.py:apply @heat.json
    """  # noqa: D301
    with contextlib.redirect_stdout(sys.stderr):
        given = {name: value for name, value in options.items() if value not in (None, (), {})}
        advice = _advice(_callables(apply, {})["apply"], _point(inputs), given)
    click.echo(advice.to_json() if as_json else str(advice))
    raise click.exceptions.Exit(0 if any(path.without < path.entries for path in advice.paths) else 3)


def _advice(apply: Callable[..., Any], x0: Any, options: Mapping[str, Any]) -> EpsAdvice:
    """Return the advice on steps."""
    from fdcheck.recommend import recommend_eps
    from fdcheck.results import InvalidInput

    try:
        return recommend_eps(apply, x0, **options)
    except InvalidInput as error:
        raise _CannotRun(str(error)) from error
    except (Exception, SystemExit) as error:
        raise _CannotRun(f"the measurement broke off: {_told(error)}") from error


def _report(callables: Mapping[str, Any], x0: Any, options: Mapping[str, Any]) -> Report:
    """Return the report of the check."""
    from fdcheck.api import verify
    from fdcheck.results import InvalidInput

    try:
        return verify(x0=x0, **callables, **options)
    except InvalidInput as error:
        raise _CannotRun(str(error)) from error
    except (Exception, SystemExit) as error:  # sys.exit() in apply would otherwise set the exit status
        raise _CannotRun(f"the check broke off: {_told(error)}") from error


def _callables(apply: str, endpoints: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """Return apply and the endpoints."""
    module_at = functools.cache(_module)  # endpoints share the state of the module that apply lives in
    home = apply.rpartition(":")[0]
    found = {}
    for name, place in {"apply": apply, **endpoints}.items():
        module, _, function = place.rpartition(":")
        if not (module or home) or not function:
            raise _CannotRun(f"{name}: expected MODULE:FUNCTION, such as heat.py:apply, got {place!r}")
        found[name] = _function(module_at(module or home), function, module or home)
    return found


def _function(module: ModuleType, name: str, place: str) -> Callable[..., Any]:
    """Return a function of a module."""
    if not hasattr(module, name):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        names = ", ".join(key for key in own if not key.startswith("_")) or "none"
        raise _CannotRun(f"{place} has no function {name!r}; it has: {names}")
    function: Callable[..., Any] = getattr(module, name)
    return function


def _module(place: str) -> ModuleType:
    """Return the module at a dotted name or path, newly imported."""
    is_file = place.endswith(".py")
    if is_file and not os.path.isfile(place):
        raise _CannotRun(f"{place}: no such file")
    if not is_file and not all(part.isidentifier() for part in place.split(".")):
        raise _CannotRun(f"{place}: expected a dotted module name or a path that ends in .py")
    try:
        return _module_from_file(Path(place)) if is_file else _module_by_name(place)
    except (Exception, SystemExit) as error:
        if not is_file and isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            raise _CannotRun(
                f"no module {place!r} in {os.getcwd()} nor where Python looks for modules; a path to a file works "
                f"too, such as path/to/{place.rpartition('.')[2]}.py:apply"
            ) from error
        raise _CannotRun(f"{place} raised at import: {_told(error)}") from error


def _module_by_name(name: str) -> ModuleType:
    """Import a module; the current directory is searched first, as by ``python -m``."""
    sys.path.insert(0, os.getcwd())
    return importlib.import_module(name)


def _module_from_file(path: Path) -> ModuleType:
    """Run a file as a module; its directory is searched first, as by ``python file.py``."""
    sys.path.insert(0, str(path.resolve().parent))
    name = f"checked_{path.stem}"  # a name of its own: a file called random.py must not replace that module
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "None only for suffixes other than .py"
    assert spec.loader is not None, "None only for namespace packages"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def _told(error: BaseException) -> str:
    """Return an exception in one line: type, text, file and line."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    return f"{kind}: {error} ({frames[-1].filename}, line {frames[-1].lineno})"


def _point(text: str) -> Any:
    """Return the structure that INPUTS stands for."""
    if not text.startswith("@"):
        hint = f"; for the file of that name write @{text}" if os.path.isfile(text) else ""
        return _from_json(text, "INPUTS", hint)
    path = Path(text[1:])
    if path.suffix not in (".json", ".npz"):
        raise _CannotRun(f"INPUTS: expected @FILE.json or @FILE.npz, got {text}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _CannotRun(f"{path}: {error.strerror}") from error
    return _from_npz(content, str(path)) if path.suffix == ".npz" else _from_json(content, str(path))


def _from_npz(content: bytes, source: str) -> dict[str, Any]:
    """Return the arrays of an npz file by name."""
    import numpy as np

    file = io.BytesIO(content)
    if not zipfile.is_zipfile(file):
        raise _CannotRun(f"{source}: not an npz file")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception as error:  # numpy, zipfile and zlib raise a dozen types on what they cannot read
        raise _CannotRun(f"{source}: expected arrays of numbers and no objects: {error}") from error


def _from_json(text: str | bytes, source: str, hint: str = "") -> Any:
    """Return the structure that a JSON text stands for."""
    try:
        return _structure(json.loads(text))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _CannotRun(f"{source}: no valid JSON: {error.msg} at {place}{hint}") from error
    except RecursionError as error:
        raise _CannotRun(f"{source}: nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise _CannotRun(f"{source}: {error}") from error


def _structure(node: Any) -> Any:
    """Return a JSON value with its numbers and rectangular lists of numbers as floats and arrays."""
    import numpy as np

    if isinstance(node, dict):
        if node.keys() == {"dtype", "value"}:
            return _declared(node["dtype"], node["value"])
        return {key: _structure(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_structure(value) for value in node] if _shape(node) is None else np.array(node, np.float64)
    return float(node) if _shape(node) == () else node


def _shape(node: Any, numbers: tuple[type, ...] = (int, float)) -> tuple[int, ...] | None:
    """Return the shape of a number or a rectangular list of numbers, None for anything else."""
    if type(node) in numbers:  # not isinstance, for which true is an int
        return ()
    if not isinstance(node, list):
        return None
    shapes = {_shape(value, numbers) for value in node} or {()}
    shape = shapes.pop()
    return None if shapes or shape is None else (len(node), *shape)


def _declared(name: Any, value: Any) -> Any:
    """Return a value in the dtype that stands with it.

    Raises
    ------
    ValueError
        If the dtype is none of numbers, or does not hold the value.
    """
    import numpy as np

    dtype = np.dtype(np.sctypeDict.get(name, object) if isinstance(name, str) else object)
    if dtype.kind not in "biufc":
        raise ValueError(f"dtype: expected one of numbers, such as float32 or int64, got {json.dumps(name)}")
    if _shape(value, (bool,) if dtype.kind == "b" else (int, float)) is None:
        wanted = "true, false" if dtype.kind == "b" else "a number"
        raise ValueError(f"value: expected {wanted} or a rectangular list for {name}, got {json.dumps(value):.60}")
    with np.errstate(over="ignore"):
        array = np.array(value, dtype)
    exact = array.tolist() == value if dtype.kind in "iu" else np.all(np.isfinite(array) == np.isfinite(value))
    if not exact:
        raise ValueError(f"value: {name} does not hold {json.dumps(value):.60}")
    return array[()]
