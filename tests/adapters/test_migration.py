"""The examples of the migration pages, executed with the packages that they are about."""

import doctest
import re
import textwrap
import warnings
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "migration").glob("*.rst"))
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples(page):
    """Return the blocks of Python at a prompt as one test, in which one line of the page is one line."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"\.\. code-block:: pycon\n\n((?:   .*\n|\n)+)", text)
    source = "\n".join(textwrap.dedent(block) for block in blocks)
    return doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)


TESTS = {page.stem: examples(page) for page in PAGES}


@pytest.mark.parametrize("name", [name for name, test in TESTS.items() if test.examples])
def test_the_examples_are_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the other packages warn of is theirs
        found = doctest.DocTestRunner(optionflags=FLAGS).run(TESTS[name], out=told.append)
    assert found.failed == 0, "".join(told)
    assert found.attempted > 5


def test_no_page_is_left_out():
    assert {name for name, test in TESTS.items() if test.examples} == {
        "jax", "numdifftools", "openmdao", "scipy", "torch",
    }  # fmt: skip
