"""Tesseracts written to disk and really served, for the tests of this folder."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_PATIENCE = 60.0
"""Seconds for a server to come up, on a machine that is busy."""


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back what tesseract_core changes when it loads a file: sys.path, sys.modules and PYTHONPATH."""
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    for name in [name for name in os.environ if name.startswith(("FDCHECK_", "TESSERACT_"))]:
        monkeypatch.delenv(name)
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("tesseract_api", None)


@contextlib.contextmanager
def served(api: Path, runs: Path, *options: str) -> Iterator[str]:
    """Yield the address of a Tesseract that ``tesseract-runtime serve`` serves; it is stopped afterwards."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    runs.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "tesseract_core.runtime", "--output-path", str(runs), *options]
    words += ["serve", "--host", "127.0.0.1", "--port", str(port)]
    env = {**os.environ, "TESSERACT_API_PATH": str(api)}
    with (runs.parent / f"{runs.name}.log").open("wb") as log:
        process = subprocess.Popen(words, env=env, stdout=log, stderr=subprocess.STDOUT)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(url, process)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, "the server ended by itself"
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise AssertionError(f"{url} did not come up in {_PATIENCE:g} s")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Return a function that serves a tesseract_api.py until the end of the test and returns the address."""
    with contextlib.ExitStack() as stack:
        yield lambda api, *options: stack.enter_context(served(api, tmp_path / "runs", *options))
