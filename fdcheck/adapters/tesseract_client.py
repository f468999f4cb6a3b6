"""The Tesseract that a target names, its calls, and what went wrong in them in one line."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import re
import shutil
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fdcheck.problem.callables import Breach
from fdcheck.results import InvalidInput, Status

INSTALL = "pip install 'tesseract-core[runtime]'"
"""What to run where the package is missing."""

TIMEOUT = 300.0
"""Seconds that one request may take by default: minutes, since a solver may be behind it, and not for ever."""

_RUN = "fdcheck"
"""Name of every request's run. A server makes a directory for each name: one is left behind, and not hundreds."""

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
"""A place in a traceback that came as text."""

SHORT = {"jacobian_vector_product": "jvp", "vector_jacobian_product": "vjp"}
"""fdcheck's names of Tesseract's endpoints where they differ."""

_RAISED = Status.RAISED, "raised"
_FORBIDDEN = (
    (r"\w+ result \[.*(wrong number of dimensions|expected shape)", (Status.SHAPE, "returned a wrong shape:")),
    (r"[Ee]xpected (keys|output with structure) .*got", (Status.STRUCTURE, "returned a wrong structure:")),
)
"""What the words of the runtime mean when it refuses what an endpoint returned; everything else was raised in it."""

_NO_TRACEBACK = " (its log has file and line; served with --debug, it tells them)"

_SHOWN = 400
"""Characters of a server's words that go into a message: more than a line of a validation error, less than a page."""


class Lost(BaseException):
    """A server that no longer answers; not an Exception, so that no check takes it for a value of apply."""


class Client:
    """A Tesseract whose calls all name one run, and fail with one line.

    Parameters
    ----------
    tesseract : tesseract_core.Tesseract
        What is called.
    name : str
        What to call it in messages.
    """

    def __init__(self, tesseract: Any, name: str) -> None:
        self._tesseract = tesseract
        self.name = name

    @functools.cached_property
    def schemas(self) -> Mapping[str, Any]:
        """The schemas of its inputs and outputs.

        Raises
        ------
        InvalidInput
            If it does not answer, or is no Tesseract.
        """
        try:
            found: Mapping[str, Any] = self._tesseract.openapi_schema["components"]["schemas"]
        except Exception as error:
            raise InvalidInput(f"target: {self.name} gave no schema of a Tesseract: {told(error)}") from error
        return found

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The endpoints that it has."""
        return tuple(self._tesseract.available_endpoints)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return tuple(self.schemas.get("ApplyInputSchema", {}).get("field_order", {}).get("", ()))

    def differentiable(self, side: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the patterns of the differentiable inputs or outputs, with their shapes and dtypes.

        Parameters
        ----------
        side : str
            ``'Input'`` or ``'Output'``.
        """
        try:
            arrays: Mapping[str, Mapping[str, Any]] = self.schemas[f"Apply{side}Schema"]["differentiable_arrays"]
        except KeyError:
            raise InvalidInput(
                f"target: {self.name} does not tell which of its arrays are differentiable; expected a Tesseract "
                "whose runtime is of version 1.0 or later"
            ) from None
        return arrays

    def apply(self, inputs: Any) -> Any:
        """Call apply.

        Raises
        ------
        Lost
            If the server does not answer any more.
        """
        try:
            return self._tesseract.apply(inputs, run_id=_RUN)
        except Exception as error:
            if is_lost(error):
                raise Lost(f"{self.name} does not answer any more: {told(error)}") from error
            raise

    def call(self, endpoint: str, **payload: Any) -> Any:
        """Call a derivative endpoint.

        Raises
        ------
        Breach
            If it raises, does not answer in time, or returns what its schema forbids.
        """
        try:
            return getattr(self._tesseract, endpoint)(**payload, run_id=_RUN)
        except Exception as error:
            short = SHORT.get(endpoint, endpoint)
            words = told(error)
            status, what = next((found for mark, found in _FORBIDDEN if re.search(mark, words)), _RAISED)
            raise Breach(short, status, f"{short} {what} {words}.") from error


@contextlib.contextmanager
def opened(target: Any, timeout: float) -> Iterator[Client]:
    """Yield the Tesseract that a target names; what was started for it is stopped at the end.

    Parameters
    ----------
    target : str, Path, module or tesseract_core.Tesseract
        Path to a ``tesseract_api.py`` or its directory, an http(s) address, an image name, or the thing itself.
    timeout : float
        Seconds that each request to a server may take.

    Raises
    ------
    InvalidInput
        If there is no such Tesseract.
    ImportError
        If tesseract-core is not installed.
    """
    kind = _tesseract_class()
    if isinstance(target, kind):
        yield Client(target, "the Tesseract given")
        return
    text = str(target)
    if not isinstance(target, ModuleType) and text.startswith(("http://", "https://")):
        with kind.from_url(text, timeout=timeout) as served:
            client = Client(served, text)
            _ = client.schemas  # the first request: whether there is a Tesseract at all
            yield Client(_in_base64(served), text)
        return
    if isinstance(target, ModuleType | Path) or _is_place(text):
        yield Client(_loaded(kind, target), text)
        return
    with contextlib.ExitStack() as stack:
        try:
            served = stack.enter_context(kind.from_image(text, timeout=timeout))
        except Exception as error:
            docker = "there is no docker here" if shutil.which("docker") is None else "images need Docker"
            raise InvalidInput(
                f"target: {text!r} is no path to a tesseract_api.py and no address, and as an image it cannot be "
                f"served ({docker}): {told(error)}"
            ) from error
        yield Client(served, f"image {text}")


def _tesseract_class() -> Any:
    """Return the class Tesseract.

    Raises
    ------
    ImportError
        If the package or its runtime is missing; the message says what to run.
    """
    try:
        importlib.import_module("tesseract_core.runtime")
        from tesseract_core import Tesseract
    except ImportError as error:
        raise ImportError(
            f"checking a Tesseract needs tesseract-core with its runtime; run {INSTALL} ({error})"
        ) from error
    return Tesseract


def _is_place(text: str) -> bool:
    """Return whether a target is a path rather than the name of an image."""
    return text.endswith(".py") or os.path.exists(text)


def _loaded(kind: Any, target: Any) -> Any:
    """Return the Tesseract of a file or module, loaded into this process."""
    if not isinstance(target, ModuleType):
        target = Path(target)
        target = target / "tesseract_api.py" if target.is_dir() else target
        if not target.is_file():
            raise InvalidInput(f"target: {target}: no such file")
    try:
        return kind.from_tesseract_api(target)
    except (Exception, SystemExit) as error:
        cause = error.__cause__ if isinstance(error, RuntimeError) and error.__cause__ is not None else error
        cause = cause.__cause__ if isinstance(cause, ImportError) and cause.__cause__ is not None else cause
        raise InvalidInput(f"target: {target} cannot be loaded: {told(cause)}") from error


def _in_base64(tesseract: Any) -> Any:
    """Return a Tesseract that answers in base64 where its server offers that: exact to the bit, NaN included."""
    offered = tesseract.server_capabilities.output_formats or ()
    return tesseract.with_encoding(output_format="json+base64") if "json+base64" in offered else tesseract


def is_lost(error: BaseException) -> bool:
    """Return whether an exception means that a server does not answer."""
    import requests

    return isinstance(error, requests.ConnectionError | requests.Timeout)


def told(error: BaseException) -> str:
    """Return what went wrong in one line: the words of the server or of the user's code, with file and line."""
    import requests
    from pydantic import ValidationError

    if isinstance(error, requests.Timeout):
        return f"no answer in time ({type(error).__name__}; see timeout)"
    if isinstance(error, requests.ConnectionError):
        reason = re.search(r"\[Errno -?\d+\] ([^'\")]+)", str(error))
        return f"no connection ({reason[1] if reason else _one_line(str(error))})"
    if isinstance(error, ValidationError):
        return _shortened("; ".join(_about(entry) for entry in error.errors(include_url=False)))
    if isinstance(error.__context__, Exception) and isinstance(error, RuntimeError) and error.__suppress_context__:
        return told(error.__context__)  # in this process, the client wraps the exception and its traceback as text
    text = str(error)
    if isinstance(error, RuntimeError) and text.startswith("Error "):
        return _words_of_server(text)
    return f"{type(error).__name__}{': ' if text else ''}{_one_line(text)}{_place(error)}"


def _about(entry: Mapping[str, Any]) -> str:
    """Return one entry of a validation error."""
    place = ".".join(str(part) for part in entry["loc"])
    return f"{place}: {_one_line(entry['msg'])}" if place else _one_line(entry["msg"])


def _words_of_server(text: str) -> str:
    """Return an answer such as ``Error 500 from Tesseract: ...``; of a traceback, its last line and place."""
    heading, _, body = text.partition(": ")
    lines = [line for line in body.strip().splitlines() if line.strip()]
    frames = _user_frames([(file, int(number)) for file, number in _FRAME.findall(body)])
    if not frames:
        return _one_line(text) + (_NO_TRACEBACK if heading.startswith("Error 5") else "")
    file, number = frames[-1]
    return f"{heading}: {_one_line(lines[-1])} ({file}, line {number})"


def _place(error: BaseException) -> str:
    """Return the file and line of the user's code that an exception came from, in parentheses."""
    frames = _user_frames([(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)])
    return f" ({frames[-1][0]}, line {frames[-1][1]})" if frames else ""


def _user_frames(frames: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the frames of what people edit; else those of other packages than the machinery between us and them."""
    foreign = [frame for frame in frames if not frame[0].startswith(_OURS) and "tesseract_core" not in frame[0]]
    own = [frame for frame in foreign if "site-packages" not in frame[0] and not frame[0].startswith((_PYTHON, "<"))]
    return own or [frame for frame in foreign if "pydantic" not in frame[0]]


_OURS = str(Path(__file__).parents[1])
_PYTHON = str(Path(os.__file__).parent)


def _one_line(text: str) -> str:
    return _shortened(" ".join(text.split()))


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + " ..."
