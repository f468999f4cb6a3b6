"""What the pages about Tesseract show on the command line is what comes out."""

import doctest
import re
import shlex
import shutil
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from fdcheck.cli import main

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [(DOCS / name).read_text(encoding="utf-8") for name in ("tesseract.rst", "migration/tesseract.rst")]
BLOCKS = [block for page in PAGES for block in re.findall(r"\.\. code-block:: console\n\n((?:   .*\n|\n)+)", page)]
SESSIONS = [textwrap.dedent(block).strip() for block in BLOCKS if "$ fdcheck" in block]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.splitlines()[0])
def test_sessions_are_true(session, tmp_path, monkeypatch):
    shutil.copy(DOCS / "examples" / "tesseract_api.py", tmp_path)
    (tmp_path / "payloads").mkdir()
    (tmp_path / "payloads" / "small.json").write_text('{"inputs": {"x": [0.1, -0.2]}}')
    (tmp_path / "payloads" / "large.json").write_text('{"inputs": {"x": [100.0]}}')
    monkeypatch.chdir(tmp_path)
    line, _, expected = session.partition("\n")
    result = CliRunner().invoke(main, shlex.split(line)[2:], prog_name="fdcheck")
    expected = re.sub(r"(?m)^PASS: \.\.\.$", "PASS: ...\n...", expected) + "\n..."
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.OutputChecker().check_output(expected, result.output, flags), result.output


def test_there_are_sessions():
    assert len(SESSIONS) >= 5
