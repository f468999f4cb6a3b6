"""The table of bad calls in the documentation: each is really made, and says what stands there."""

import re
from pathlib import Path

import pytest

import fdcheck

PAGE = (Path(__file__).parents[1] / "docs" / "bad_calls.rst").read_text(encoding="utf-8")
ROWS = re.findall(r"^   \* - ``(fdcheck\..*)``\n     - ``(.*)``$", PAGE, re.MULTILINE)
CONTEXT = re.search(r"code-block:: python\n\n((?:   .*\n|\n)+)\.\.", PAGE)[1]


def said(call):
    """Return what a call says: its error, or the verdict and the first finding of its report."""
    names = {}
    exec(re.sub(r"^   ", "", CONTEXT, flags=re.MULTILINE), names)
    try:
        report = eval(call, names)
    except fdcheck.InvalidInput as error:
        return f"InvalidInput: {error}"
    finding = report.findings[0]
    return f"{report.verdict}: {finding.endpoint} {finding.status}: {finding.message}"


def test_there_are_forty_and_more():
    assert len(ROWS) == len(set(ROWS)) >= 40
    assert PAGE.count("   * - ") == len(ROWS) + 1


@pytest.mark.parametrize(("call", "words"), ROWS, ids=[call for call, _ in ROWS])
def test_each_says_what_the_table_says(call, words):
    pattern = ".*".join(re.escape(part) for part in words.split("..."))
    assert re.fullmatch(pattern, said(call), re.DOTALL), said(call)


def test_no_row_is_all_dots():
    for _, words in ROWS:
        assert len(re.sub(r"\W", "", words)) > 20
