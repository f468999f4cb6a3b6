"""What a command line names: functions in modules, and inputs from JSON or npz."""

from __future__ import annotations

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
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import click


class CannotRun(click.ClickException):
    """The reason, in one line, why nothing was checked."""


def callables(apply: str, endpoints: Mapping[str, str]) -> dict[str, Callable[..., Any]]:
    """Return apply and the endpoints."""
    module_at = functools.cache(_module)  # endpoints share the state of the module that apply lives in
    home = apply.rpartition(":")[0]
    found = {}
    for name, place in {"apply": apply, **endpoints}.items():
        module, _, function = place.rpartition(":")
        if not (module or home) or not function:
            raise CannotRun(f"{name}: expected MODULE:FUNCTION, such as heat.py:apply, got {place!r}")
        found[name] = _function(module_at(module or home), function, module or home)
    return found


@dataclass(frozen=True)
class Named:
    """A function by its name, which another process on this machine can load as well.

    Parameters
    ----------
    place : str
        MODULE:FUNCTION.
    folder : str
        Where a relative path or a module name is looked up.
    """

    place: str
    folder: str = field(default_factory=os.getcwd)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return _named(self)(*arguments)


@functools.cache
def _named(function: Named) -> Callable[..., Any]:
    """Return a function, loaded once in each process."""
    module, _, name = function.place.rpartition(":")
    if module.endswith(".py"):
        module = os.path.join(function.folder, module)
    else:
        sys.path.insert(0, function.folder)
    return _function(_module(module), name, module)


def _function(module: ModuleType, name: str, place: str) -> Callable[..., Any]:
    """Return a function of a module."""
    if not hasattr(module, name):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        names = ", ".join(key for key in own if not key.startswith("_")) or "none"
        raise CannotRun(f"{place} has no function {name!r}; it has: {names}")
    function: Callable[..., Any] = getattr(module, name)
    return function


def _module(place: str) -> ModuleType:
    """Return the module at a dotted name or path, newly imported."""
    is_file = place.endswith(".py")
    if is_file and not os.path.isfile(place):
        raise CannotRun(f"{place}: no such file")
    if not is_file and not all(part.isidentifier() for part in place.split(".")):
        raise CannotRun(f"{place}: expected a dotted module name or a path that ends in .py")
    try:
        return _module_from_file(Path(place)) if is_file else _module_by_name(place)
    except (Exception, SystemExit) as error:
        if not is_file and isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            raise CannotRun(
                f"no module {place!r} in {os.getcwd()} nor where Python looks for modules; a path to a file works "
                f"too, such as path/to/{place.rpartition('.')[2]}.py:apply"
            ) from error
        raise CannotRun(f"{place} raised at import: {told(error)}") from error


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


def told(error: BaseException) -> str:
    """Return an exception in one line: type, text, file and line."""
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    return f"{kind}: {error} ({frames[-1].filename}, line {frames[-1].lineno})"


def point(text: str, name: str = "INPUTS") -> Any:
    """Return the structure that INPUTS, or another argument of its form, stands for."""
    if not text.startswith("@"):
        hint = f"; for the file of that name write @{text}" if os.path.isfile(text) else ""
        return _from_json(text, name, hint)
    path = Path(text[1:])
    if path.suffix not in (".json", ".npz"):
        raise CannotRun(f"{name}: expected @FILE.json or @FILE.npz, got {text}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CannotRun(f"{path}: {error.strerror}") from error
    return _from_npz(content, str(path)) if path.suffix == ".npz" else _from_json(content, str(path))


def _from_npz(content: bytes, source: str) -> dict[str, Any]:
    """Return the arrays of an npz file by name."""
    import numpy as np

    file = io.BytesIO(content)
    if not zipfile.is_zipfile(file):
        raise CannotRun(f"{source}: not an npz file")
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception as error:  # numpy, zipfile and zlib raise a dozen types on what they cannot read
        raise CannotRun(f"{source}: expected arrays of numbers and no objects: {error}") from error


def _from_json(text: str | bytes, source: str, hint: str = "") -> Any:
    """Return the structure that a JSON text stands for."""
    try:
        return _structure(json.loads(text))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise CannotRun(f"{source}: no valid JSON: {error.msg} at {place}{hint}") from error
    except RecursionError as error:
        raise CannotRun(f"{source}: nested too deeply") from error
    except (ValueError, OverflowError) as error:
        raise CannotRun(f"{source}: {error}") from error


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
