"""Advice as a page and in a notebook: steps, curves, lines to paste, and nothing of the user's as markup."""

import html5lib
import numpy as np
import pytest

import fdcheck
from fdcheck.report.advice_html import advice_fragment, advice_page
from fdcheck.report.pasting import pasted

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def advice():
    return fdcheck.recommend_eps(
        lambda x: np.sin(1e4 * x["length"]) + np.exp(1e-6 * x["pressure"]), {"length": 2e-4, "pressure": 1e6}
    )


@pytest.fixture(scope="module")
def tree(advice):
    return parsed(advice_page(advice))


def parsed(page):
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def words(element):
    return " ".join("".join(element.itertext()).split())


def test_each_input_has_its_step_range_and_limits(tree, advice):
    table = next(tree.iter("table"))
    rows = [[words(cell) for cell in row] for row in table.find("tbody")]
    assert [row[0] for row in rows] == ["length", "pressure"]
    for row, path in zip(rows, advice.paths, strict=True):
        assert [float(cell) for cell in row[1:5]] == pytest.approx(
            [path.eps, path.error, path.low, path.high], rel=0.05
        )
        assert row[5:7] == [path.below, path.above]


def test_usual_steps_and_curves_are_shown(tree, advice):
    tables = list(tree.iter("table"))
    assert [words(cell) for cell in tables[1].find("thead").iter("th")][1:-1] == list(advice.paths[0].usual)
    assert len(list(tree.iter(f"{SVG}svg"))) == 2
    assert [words(caption).split(":")[0] for caption in tree.iter("figcaption")] == [
        "d y / d length",
        "d y / d pressure",
    ]


def test_the_lines_to_paste_are_those_of_the_text(tree, advice):
    shown = ["".join(block.itertext()).splitlines() for block in tree.iter("pre")]
    assert shown == [list(paste.lines) for paste in pasted(advice)]


@pytest.mark.parametrize("render", [advice_page, advice_fragment])
def test_nothing_of_the_users_becomes_markup(render):
    found = fdcheck.recommend_eps(lambda x: {HOSTILE: np.sin(x["<b>'&"])}, {"<b>'&": 1.0})
    text = render(found)
    assert "<script" not in text
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    assert not list(tree.iter("script"))
    assert "<b>'&" in words(tree)


def test_to_html_and_the_notebook(advice, tmp_path):
    kink = fdcheck.recommend_eps(np.abs, 0.0)
    kink.to_html(tmp_path / "advice.html")
    page = (tmp_path / "advice.html").read_text(encoding="utf-8")
    assert "kink" in page
    assert "To paste" not in page
    fragment = html5lib.parseFragment(advice._repr_html_(), namespaceHTMLElements=False)
    assert "Recommended steps" in words(fragment)
    assert len(list(fragment.iter(f"{SVG}svg"))) == 1


def test_a_notebook_goes_without_what_is_missing(advice, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert advice._repr_html_().startswith("<pre>recommended steps: ")
    with pytest.raises(fdcheck.InvalidInput, match=r"pip install 'fdcheck\[report\]'"):
        advice_page(advice)
