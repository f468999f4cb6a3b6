"""The pytest plugin, in runs of pytest on small files of tests, as a user would write them."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import fdcheck

pytest_plugins = ["pytester"]

fdcheck.verify(
    np.exp, 1.0, vjp=lambda x, ct: ct * np.exp(x)
)  # inner runs forget what they import, numba bears that ill

INI = """
[pytest]
addopts = --strict-markers -p no:cacheprovider -p no:hypothesispytest
filterwarnings = error
"""
"""What a strict project has; hypothesis, which no test here uses, takes a second to import."""

BASICS = """
import numpy as np
import pytest

X0 = np.array([0.1, 0.2])

def right(x, ct):
    return ct * np.cos(x)

def wrong(x, ct):
    return ct * np.sin(x)

def rounded(x):
    return np.round(np.sin(x), 3)
"""

ONE_OF_EACH = (
    BASICS
    + """
def test_right(fdcheck):
    assert fdcheck.verify(np.sin, X0, vjp=right).passed

def test_wrong(fdcheck):
    fdcheck.verify(np.sin, X0, vjp=right)
    fdcheck.verify(np.sin, X0, vjp=wrong)

def test_open(fdcheck):
    fdcheck.verify(rounded, np.array([0.3]), vjp=right)

def test_no_derivative():
    pass
"""
)

STAND_IN = """
import fdcheck

def to_html(self, path):
    path.write_text(f"<p>{self.verdict}")

fdcheck.Report.to_html = to_html
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Return a function that runs pytest on one file of tests in this process."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini(INI)

    def run_on(text, *options):
        pytester.makepyfile(text)
        return pytester.runpytest_inprocess(*options)

    return run_on


def summary(result):
    """Return the line of the summary."""
    lines = result.stdout.lines
    return lines[next(k for k, line in enumerate(lines) if "derivatives checked" in line) + 1]


# verdicts


def test_only_a_pass_passes(run):
    result = run(ONE_OF_EACH)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["FAILED *::test_wrong - fdcheck.results.*", "FAILED *::test_open - fdcheck.results.*"])


def test_the_report_is_the_message_and_the_line_of_the_test_is_all_that_is_shown_of_the_code(run):
    result = run(ONE_OF_EACH, "-k", "test_wrong")
    result.stdout.fnmatch_lines(
        [
            ">       fdcheck.verify(np.sin, X0, vjp=wrong)",
            "E       fdcheck.results.DerivativeMismatch: FAIL: the derivative is wrong*",
            "E         vjp       2 failures / 4 checks, 2 calls",
            "E         1. vjp disagrees: d y[[]0] / d x[[]0]",
            "E            claimed 0.099833417, measured 0.9950041*",
        ]
    )
    result.stdout.no_fnmatch_line("*raise_if_failed*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py:*")


def test_second_order_and_reports_of_other_checks_count_too(run):
    result = run(
        BASICS
        + """
def cube(x):
    return np.sum(x**3)

def test_second(fdcheck):
    vjp = lambda x, ct: 3 * ct * x**2
    fdcheck.verify_second_order(cube, X0, vjp=vjp, hvp=lambda x, t: 6 * x * t)

def test_wrong_second(fdcheck):
    vjp = lambda x, ct: 3 * ct * x**2
    fdcheck.verify_second_order(cube, X0, vjp=vjp, hvp=lambda x, t: 3 * x * t)

def test_elsewhere(fdcheck):
    from fdcheck import verify
    fdcheck.require(verify(np.sin, X0, vjp=right))
    assert len(fdcheck.reports) == 1
    fdcheck.require(verify(np.sin, X0, vjp=wrong))
"""
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["E *hvp disagrees*", "E *vjp disagrees*"])
    assert summary(result).startswith("4 checks in 3 tests: 2 passed, 2 failed, 0 inconclusive; ")


@pytest.mark.parametrize("how", ["@pytest.mark.fdcheck(allow_inconclusive=True)", ""])
def test_inconclusive_is_allowed_by_the_marker_or_the_call(run, how):
    argument = "" if how else ", allow_inconclusive=True"
    result = run(
        BASICS
        + f"""
{how}
def test_open(fdcheck):
    assert not fdcheck.verify(rounded, np.array([0.3]), vjp=right{argument})

{how}
def test_wrong(fdcheck):
    fdcheck.verify(np.sin, X0, vjp=wrong{argument})

@pytest.mark.fdcheck(allow_inconclusive=True)
def test_forbidden_again(fdcheck):
    fdcheck.verify(rounded, np.array([0.3]), vjp=right, allow_inconclusive=False)
"""
    )
    result.assert_outcomes(passed=1, failed=2)
    assert "0 passed, 1 failed, 2 inconclusive" in summary(result)


# options

OPTIONS = (
    BASICS
    + """
def slightly_wrong(x, ct):
    return ct * np.cos(x) * 1.004

@pytest.mark.fdcheck(rtol=0.01, seed=7)
class TestMarked:
    def test_from_the_class(self, fdcheck):
        assert fdcheck.verify(np.sin, X0, vjp=slightly_wrong).seed == 7

    @pytest.mark.fdcheck(rtol=1e-3)
    def test_the_closer_marker_wins(self, fdcheck):
        with pytest.raises(AssertionError):
            fdcheck.verify(np.sin, X0, vjp=slightly_wrong)
        assert fdcheck.reports[0].seed == 7

    def test_the_call_wins(self, fdcheck):
        with pytest.raises(AssertionError):
            fdcheck.verify(np.sin, X0, vjp=slightly_wrong, rtol=1e-3)

    @pytest.mark.fdcheck(bounds=(0.0, 1.0))
    def test_second_order_takes_what_it_knows(self, fdcheck):
        report = fdcheck.verify_second_order(
            lambda x: np.sum(x**3), X0, vjp=lambda x, ct: 3 * ct * x**2, hvp=lambda x, t: 6 * x * t
        )
        assert report.seed == 7

def test_from_the_command_line(fdcheck):
    assert fdcheck.verify(np.sin, X0, vjp=right).seed == 5
    fdcheck.verify(np.sin, X0, vjp=lambda x, ct: 1.01 * right(x, ct))  # noisy allows 2 %
"""
)


def test_options_come_from_the_call_the_closest_marker_and_the_command_line(run):
    result = run(OPTIONS, "--fdcheck-seed=5", "--fdcheck-profile", "noisy")
    result.assert_outcomes(passed=5)
    result = run(OPTIONS)
    result.assert_outcomes(passed=4, failed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fdcheck-profile=tight"], "--fdcheck-profile: expected one of default, noisy, quick, strict, got 'tight'"),
        (["--fdcheck-seed=-1"], "--fdcheck-seed: expected a whole number, 0 or larger, got -1"),
        (["--fdcheck-html=taken"], "--fdcheck-html: */taken: File exists"),
    ],
)
def test_options_that_cannot_be_used_end_the_run_at_once(run, pytester, options, message):
    pytester.path.joinpath("taken").write_text("")
    result = run(ONE_OF_EACH, *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("profil='strict'", "expected options of fdcheck.verify by name, got 'profil'"),
        ("'strict'", "expected options of fdcheck.verify by name, got 'strict' without a name"),
    ],
)
def test_a_marker_that_cannot_be_used_is_an_error_of_the_test(run, marker, message):
    result = run(BASICS + f"@pytest.mark.fdcheck({marker})\ndef test_it(fdcheck): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*@pytest.mark.fdcheck: {message}"])


# what is told of a run


def test_the_summary_counts_checks_verdicts_and_calls(run):
    result = run(
        BASICS
        + """
CALLS = []

def counted(x):
    CALLS.append(x)
    return np.sin(x)

def test_one(fdcheck):
    fdcheck.verify(counted, X0, vjp=right)
    print(f"{len(CALLS)} calls counted")
""",
        "-s",
    )
    calls = next(line for line in result.stdout.lines if "calls counted" in line).split()[-3].lstrip(".")
    assert summary(result) == f"1 check in 1 test: 1 passed, 0 failed, 0 inconclusive; {calls} calls of apply"
    assert summary(run(ONE_OF_EACH)).startswith("4 checks in 3 tests: 2 passed, 1 failed, 1 inconclusive; ")


def test_a_run_without_checks_says_nothing(run):
    result = run("def test_it(): pass\ndef test_fixture_alone(fdcheck): pass")
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*derivatives*")


def test_junit_files_have_the_counts_of_each_test(run, pytester):
    run(ONE_OF_EACH, "--junitxml=found.xml")
    cases = ElementTree.parse(pytester.path / "found.xml").iter("testcase")
    found = {case.get("name"): {p.get("name"): p.get("value") for p in case.iter("property")} for case in cases}
    assert found["test_no_derivative"] == {}
    assert [
        [found[name][f"fdcheck_{key}"] for key in ("checks", "failed", "inconclusive")]
        for name in ("test_right", "test_wrong", "test_open")
    ] == [["1", "0", "0"], ["2", "1", "0"], ["1", "0", "1"]]
    assert 1e-3 < float(found["test_right"]["fdcheck_sensitivity"]) < 2e-3
    assert int(found["test_wrong"]["fdcheck_applies"]) > int(found["test_right"]["fdcheck_applies"])


def test_html_reports_are_written_of_what_did_not_pass_with_names_that_cannot_clash(run, pytester):
    pytester.makeconftest(STAND_IN)
    result = run(
        ONE_OF_EACH
        + """
@pytest.mark.parametrize("name", ["a/b", "a_b", "x" * 300, "../up"])
def test_names(fdcheck, name):
    fdcheck.verify(np.sin, X0, vjp=wrong)
""",
        "--fdcheck-html=reports/today",
    )
    result.assert_outcomes(passed=2, failed=6)
    folder = pytester.path / "reports" / "today"
    pages = sorted(folder.rglob("*.html"))
    assert len(pages) == 6
    assert all(page.parent == folder for page in pages)
    assert sorted(page.read_text() for page in pages) == 5 * ["<p>fail"] + ["<p>inconclusive"]
    (page,) = (page for page in pages if "test_wrong" in page.name)
    result.stdout.fnmatch_lines([f"E*HTML report: {page}", f"HTML reports of what did not pass: {folder}"])


def test_a_run_in_which_all_pass_draws_nothing(run, pytester):
    result = run(ONE_OF_EACH, "-k", "test_right", "--fdcheck-html=reports")  # there is no stand-in for to_html
    result.assert_outcomes(passed=1)
    assert not list(pytester.path.glob("reports/*"))
    result.stdout.no_fnmatch_line("HTML*")


def test_workers_of_xdist_are_summed_up(pytester):
    pytester.makeini(INI)
    pytester.makeconftest(STAND_IN)
    pytester.makepyfile(test_a=ONE_OF_EACH, test_b=ONE_OF_EACH)
    result = pytester.runpytest_subprocess(
        "-n2", "--dist=loadfile", "--fdcheck-html=reports", "--fdcheck-seed=3", "--junitxml=found.xml"
    )
    result.assert_outcomes(passed=4, failed=4)
    assert summary(result).startswith("8 checks in 6 tests: 4 passed, 2 failed, 2 inconclusive; ")
    assert len(list(pytester.path.glob("reports/*.html"))) == 4
    cases = ElementTree.parse(pytester.path / "found.xml").iter("testcase")
    assert sum(int(p.get("value")) for c in cases for p in c.iter("property") if p.get("name") == "fdcheck_checks") == 8


# what it costs


def test_it_imports_nothing_until_a_test_asks_for_it(pytester):
    pytester.makepyfile(
        """
import sys

def test_it():
    ours = {name for name in sys.modules if name.split(".")[0] == "fdcheck"}
    assert ours == {"fdcheck", "fdcheck.pytest_plugin"}
    assert not {"numpy", "numba", "scipy", "rich", "optree", "click"} & set(sys.modules)
"""
    )
    pytester.makeini(INI)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(("options", "found"), [((), True), (("-p", "no:fdcheck"), False)])
def test_it_is_found_by_its_entry_point_and_can_be_turned_off(pytester, options, found):
    pytester.makeini(INI)
    pytester.makepyfile("import pytest\n@pytest.mark.fdcheck(rtol=0.1)\ndef test_it(): pass")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=int(found), errors=int(not found))
