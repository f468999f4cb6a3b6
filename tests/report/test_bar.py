"""The bar on stderr: what it shows, and where there is none."""

import io
import sys

import numpy as np
import pytest

import fdcheck
from fdcheck import Progress
from fdcheck.report.bar import bar

X0 = np.array([0.1, 0.2])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


def shown(monkeypatch, *steps):
    """Return what a bar on a terminal shows of some progress."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with bar() as told:
        for step in steps:
            told(step)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("step", "words", "absent"),
    [
        (Progress(40, 410, 2.0, 18.4, 0), ["calls of apply", " 40/410", "0:18 left"], ["disagree"]),
        (Progress(40, 410, 2.0, 61.0, 1), ["1:01 left, 1 entry disagrees"], []),
        (Progress(40, 410, 2.0, 7325.0, 17), ["2:02:05 left, 17 entries disagree"], []),
    ],
)
def test_calls_done_and_expected_time_left_and_what_disagrees(monkeypatch, step, words, absent):
    text = shown(monkeypatch, step)
    for word in words:
        assert word in text
    for word in absent:
        assert word not in text


def test_there_is_none_where_stderr_is_no_terminal(capsys):
    with bar() as told:
        assert told is None
    report = fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct * np.cos(x), progress=True)
    assert report.passed
    assert capsys.readouterr() == ("", "")


def test_progress_true_shows_one_on_a_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    fdcheck.verify(np.sin, X0, vjp=lambda x, ct: -ct, progress=True)
    assert "calls of apply" in stream.getvalue()
    assert "disagree" in stream.getvalue()
    fdcheck.verify(np.sin, X0, vjp=lambda x, ct: -ct, progress=False)
