"""The page: what a reader finds on it, that nothing of the user's becomes markup, and that it needs no other file."""

import dataclasses
import html.parser
import importlib.util
import re

import html5lib
import numpy as np
import pytest

import fdcheck
from fdcheck import Diagnosis, Finding, InvalidInput, Status
from fdcheck.report.html import report_fragment, report_page

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert(1)</script>"


def network(x):
    hidden = np.tanh(x["w"] @ x["data"] + x["b"])
    return {"hidden": hidden, "loss": np.sum(hidden**2)}


def wrong_vjp(x, ct):
    hidden = np.tanh(x["w"] @ x["data"] + x["b"])
    g = (ct["hidden"] + 2 * hidden * ct["loss"]) * (1 - hidden**2)
    w = np.outer(g, x["data"])
    w[:, 1] *= 2
    return {"w": w, "b": g, "data": x["w"].T @ g}


POINT = {
    "w": np.array([[0.1, 0.2, 0.3], [-0.4, 0.5, 0.6]]),
    "b": np.array([0.1, -0.2]),
    "data": np.array([1.0, 2.0, 3.0]),
}


@pytest.fixture(scope="module")
def report():
    return fdcheck.verify(network, POINT, vjp=wrong_vjp)


@pytest.fixture(scope="module")
def page(report):
    return report_page(report)


@pytest.fixture(scope="module")
def tree(page):
    return parsed(page)


def parsed(page):
    """Return the tree of a page; a mistake in its markup raises."""
    parser = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False)
    return parser.parse(page)


def words(element):
    return " ".join("".join(element.itertext()).split())


def section(tree, name):
    return next(element for element in tree.iter("section") if element.get("id") == name)


# what stands on it


def test_the_verdict_comes_first_and_in_words(tree):
    (heading,) = tree.iter("h1")
    assert words(heading) == "FAIL the derivative is wrong, or an endpoint breaks its contract"
    assert words(next(tree.iter("title"))) == "fdcheck: fail"
    assert "4 failures / 33 checks" in words(next(tree.iter("header")))


def test_the_diagnosis_with_its_repair_stands_before_the_findings(tree):
    text = words(section(tree, "diagnosis"))
    assert "twice the derivative" in text
    assert "Repair: divide these entries by 2" in text
    order = [element.get("id") for element in tree.iter("section")]
    assert order == ["diagnosis", "overview", "findings", "pairs", "about"]


def test_each_finding_shows_entry_numbers_and_steps(tree, report):
    shown = [e for e in section(tree, "findings").iter("details") if "finding" in e.get("class")]
    assert len(shown) == len(report.findings) == 4
    assert [e.get("open") is not None for e in shown] == [True, True, True, False]
    first = words(shown[0])
    assert "d loss / d w[0, 1]" in first
    assert "claimed 1.3085304" in first
    assert f"allowed {report.findings[0].tolerance:.2g}" in first
    (steps,) = shown[0].iter("tbody")
    assert len(list(steps)) == len(report.findings[0].steps)


def test_pairs_have_all_their_figures(tree, report):
    (table,) = section(tree, "pairs").iter("table")
    head = [words(cell) for cell in table.find("thead").iter("th")]
    assert head[2:] == ["failed", "claimed", "measured", "error bar", "allowed", "step", "noticed"]
    rows = [[words(cell) for cell in row] for row in table.find("tbody")]
    assert rows[0][:3] == ["loss / w", "vjp", "2/6"]
    assert len(rows) == len(report.pairs)
    worst = next(pair for pair in report.pairs if (pair.output, pair.input) == ("loss", "w"))
    assert rows[0][6:8] == [f"{worst.tolerance:.2g}", f"{worst.eps:.2g}"]


def test_figures_say_what_they_show(tree):
    drawn = list(tree.iter(f"{SVG}svg"))
    assert len(drawn) == 3 + 3  # map, claims and a plain entry; steps of three findings
    for svg in drawn:
        assert svg.get("role") == "img"
        (title,) = svg.findall(f"{SVG}title")
        assert title.get("id") == svg.get("aria-labelledby")
        assert title.text
    captions = [words(caption) for caption in tree.iter("figcaption")]
    assert sum("d loss / d w[0, 1]" in caption for caption in captions) == 1


def test_a_pass_and_its_kinks():
    found = fdcheck.verify(np.abs, np.array([0.0, 0.5]), vjp=lambda x, ct: ct * np.sign(x))
    tree = parsed(report_page(found))
    assert words(next(tree.iter("h1"))).startswith("PASS every claim agrees")
    assert "slope -1 on the left and 1 on the right" in words(section(tree, "accepted"))
    assert any("slopes to both sides" in words(caption) for caption in section(tree, "accepted").iter("figcaption"))
    assert "1 kink" in words(section(tree, "pairs"))


def test_a_breach_alone_makes_a_page_too():
    found = fdcheck.verify(np.sum, np.array([1.0, 2.0]), vjp=lambda x, ct: ct)
    tree = parsed(report_page(found))
    assert "vjp returned shape ()" in words(section(tree, "findings"))
    assert not list(tree.iter(f"{SVG}svg"))


def test_a_report_without_evidence_makes_a_page(report):
    bare = dataclasses.replace(report, evidence=(), findings=report.findings[:1])
    tree = parsed(report_page(bare))
    assert "overview" not in [element.get("id") for element in tree.iter("section")]
    assert len(list(tree.iter(f"{SVG}svg"))) == 1


def test_many_findings_and_pairs_are_cut(report):
    bare = tuple(dataclasses.replace(finding, steps=()) for finding in report.findings)
    many = dataclasses.replace(report, findings=bare * 2500, pairs=report.pairs * 100, max_failures=12, evidence=())
    tree = parsed(report_page(many))
    assert "9988 more in report.findings" in words(section(tree, "findings"))
    assert "100 more in report.pairs" in words(section(tree, "pairs"))


# what is a user's


def hostile():
    def apply(x):
        return {HOSTILE: np.sin(x["a&b"]) * x["$\\frac{\x07"]}

    def vjp(x, ct):
        ct = ct[HOSTILE]
        return {"a&b": 2 * ct, "$\\frac{\x07": np.sum(ct * np.sin(x["a&b"]))}

    found = fdcheck.verify(apply, {"a&b": np.array([0.3, 0.4]), "$\\frac{\x07": 1.5}, vjp=vjp)
    finding = dataclasses.replace(found.findings[0], message=f"{HOSTILE} <img src=x onerror=alert(1)>")
    breach = Finding("vjp", Status.RAISED, f"vjp raised ValueError: {HOSTILE}")
    return dataclasses.replace(
        found,
        findings=(finding, breach),
        diagnoses=(Diagnosis("vjp", "factor", HOSTILE, HOSTILE),),
        notes=(HOSTILE,),
        endpoint_calls={HOSTILE: 1},
        versions={HOSTILE: HOSTILE},
    )


@pytest.mark.parametrize("render", [report_page, report_fragment])
def test_nothing_of_the_users_becomes_markup(render):
    text = render(hostile())
    if render is report_page:
        parsed(text)  # and it is still valid
    assert "<script" not in text.lower()
    assert "<img" not in text
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    assert not list(tree.iter("script"))
    assert HOSTILE in words(tree)
    assert not [name for element in tree.iter() for name in element.attrib if str(name).startswith("on")]


# one file, for all readers


class Addresses(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "data")]


def test_it_needs_no_network_and_no_other_file(page):
    reader = Addresses()
    reader.feed(page)
    assert reader.found
    assert all(address.startswith(("#", "data:")) for address in reader.found)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page


def test_ids_are_unique_and_links_lead_somewhere(tree):
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for element in tree.iter():
        for name, value in element.attrib.items():
            if str(name).endswith("href") and value.startswith("#"):
                assert value[1:] in ids
            if name == "clip-path":
                assert value[5:-1] in ids
            if name in ("aria-labelledby", "for"):
                assert value in ids


def test_it_works_from_the_keyboard_and_for_those_who_do_not_see(tree):
    assert next(tree.iter("html")).get("lang") == "en"
    body = next(tree.iter("body"))
    assert body[0].get("class") == "skip"
    assert body[0].get("href") == "#main"
    assert next(tree.iter("main")).get("id") == "main"
    for table in tree.iter("table"):
        assert words(table.find("caption"))
        assert all(cell.get("scope") for cell in table.iter("th"))
    for region in tree.iter("div"):
        if region.get("class") == "wide":
            assert (region.get("tabindex"), region.get("role")) == ("0", "region")
            assert region.get("aria-label")
    levels = [int(element.tag[1]) for element in tree.iter() if str(element.tag) in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert max(np.diff(levels)) <= 1


def test_it_follows_light_and_dark_and_fits_a_phone_and_paper(page):
    assert "prefers-color-scheme: dark" in page
    assert "width=device-width" in page
    assert "@media print" in page
    assert ":focus-visible" in page
    svg = page[page.index("<svg") : page.index("</svg>")]
    assert "var(--ink)" in svg
    assert not re.search(r"fill: #0{6}", svg)
    assert "width=" not in svg[: svg.index(">")]


# files and notebooks


def test_to_html_writes_the_page(tmp_path):
    report = fdcheck.verify(np.sum, np.array([1.0, 2.0]), vjp=lambda x, ct: ct)
    path = tmp_path / "ü report.html"
    path.write_text("old")
    assert report.to_html(path) is None
    assert path.read_text(encoding="utf-8") == report_page(report)
    with pytest.raises(OSError, match="missing"):
        report.to_html(tmp_path / "missing" / "report.html")


def test_the_same_report_makes_the_same_page(report, page):
    assert report_page(report) == page


def test_a_notebook_shows_a_part_of_a_page(report):
    text = report._repr_html_()
    tree = html5lib.parseFragment(text, namespaceHTMLElements=False)
    assert not list(tree.iter("html"))
    assert "FAIL the derivative is wrong" in words(tree)
    assert "d loss / d w[0, 1]" in words(tree)
    assert "Repair:" in words(tree)
    assert len(list(tree.iter(f"{SVG}svg"))) == 1
    assert "1 more in report.findings" in words(tree)
    rules = re.findall(r"(?m)^([^\s{}][^{}]*)\{", text[text.index("<style>") : text.index("</style>")])
    assert any(rule.startswith(".fdcheck ") for rule in rules)


def missing(*names):
    real = importlib.util.find_spec
    return lambda name, *rest: None if name in names else real(name, *rest)


def test_what_is_missing_is_named_with_how_to_install_it(report, monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", missing("jinja2", "matplotlib"))
    with pytest.raises(InvalidInput, match=r"Jinja2 and matplotlib .* pip install 'fdcheck\[report\]'"):
        report.to_html(tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_a_notebook_goes_without_what_is_missing(report, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", missing("matplotlib"))
    without = report._repr_html_()
    assert "<svg" not in without
    assert "d loss / d w[0, 1]" in without
    monkeypatch.setattr(importlib.util, "find_spec", missing("jinja2", "matplotlib"))
    tree = html5lib.parseFragment(hostile()._repr_html_(), namespaceHTMLElements=False)
    assert [child.tag for child in tree] == ["pre"]
    assert HOSTILE in words(tree)
