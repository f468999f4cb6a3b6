"""The report as text: what a user reads first, what is left out, and that it fits a terminal."""

import dataclasses
import io
import math

import numpy as np
import pytest

import fdcheck
from fdcheck import Block, Coverage, Estimate, Finding, Measured, Pair, Report, Status, Verdict
from fdcheck.report.text import estimate_text, report_text, terminal_width
from tests.problems import BY_NAME, SMOOTH


def finding(k=0, status=Status.DISAGREES, endpoint="vjp", **changes):
    fields = {
        "endpoint": endpoint,
        "status": status,
        "message": f"message {k}",
        "input": "w",
        "input_index": (k, 1),
        "output": "y",
        "output_index": (2,),
        "claimed": 3.0,
        "estimated": 2.0,
        "error": 0.01,
        "eps": 1e-4,
        "steps": tuple(Measured(10.0**-n, 2.0 + n / 100, 2.0 + n / 100, 2.0 + n / 100) for n in range(6, 0, -1)),
    }
    return Finding(**(fields | changes))


def pair(name="w", failures=0, entries=4, excess=0.1, **counts):
    counts = {"disagrees": failures, "agrees": entries - failures} | counts
    return Pair(
        "vjp",
        "y",
        name,
        entries,
        {k: v for k, v in counts.items() if v},
        1.5,
        1.25,
        1e-3,
        1e-4,
        (0,),
        (1,),
        excess,
        1e-3,
        tolerance=0.25,
    )


def report(verdict=Verdict.FAIL, findings=(), pairs=(), notes=(), calls=None, sensitivity=math.nan):
    return Report(
        verdict, tuple(findings), tuple(pairs), Coverage(5, 5, 3, 3), sensitivity, 31, calls or {"vjp": 3}, 0,
        tuple(notes), {"fdcheck": "1"},
    )  # fmt: skip


def lines(text):
    return text.split("\n")


# the first line


@pytest.mark.parametrize("verdict", list(Verdict))
def test_the_verdict_is_the_first_word(verdict):
    text = str(report(verdict, pairs=[pair()]))
    assert text.startswith(f"{str(verdict).upper()}: ")
    assert text == report_text(report(verdict, pairs=[pair()]))


def test_a_pass_is_called_evidence_and_nothing_measured_is_said():
    assert "evidence, not proof" in lines(str(report(Verdict.PASS, pairs=[pair()])))[0]
    assert lines(str(report(Verdict.INCONCLUSIVE)))[0] == "INCONCLUSIVE: nothing could be measured"
    assert "not everything could be measured" in lines(str(report(Verdict.INCONCLUSIVE, pairs=[pair()])))[0]


# endpoints


def test_each_endpoint_has_its_counts_in_the_singular_and_the_plural():
    text = str(report(pairs=[pair("w", 1, 4), pair("b", 0, 2, undecided=1, kink=2)], calls={"vjp": 1, "jvp": 0}))
    assert "vjp       1 failure / 6 checks, 1 undecided, 2 kink, 1 call\n" in text
    assert "jvp       not compared, 0 calls" in text
    assert "apply     31 calls, 5 of 5 input elements moved" in text


def test_a_breach_is_named_and_says_what_to_do_next():
    breach = Finding("vjp", Status.SHAPE, "vjp returned shape (3,), expected (2,).")
    text = str(report(findings=[breach]))
    assert "vjp       not compared (shape), 3 calls" in text
    assert "  1. vjp shape\n" in text
    assert "Next: " + Status.SHAPE.advice[:30] in text


def test_sensitivity_is_shown_in_per_cent_where_there_is_one():
    found = report(sensitivity=0.0612, pairs=[pair()])
    text = " ".join(str(dataclasses.replace(found, typical=0.0012)).split())
    assert "noticed an error of 0.12 % in a typical entry, of 6.1 % in every entry that stands out" in text
    assert "an error of" not in str(report(pairs=[pair()]))


# findings


def test_a_failure_shows_where_how_far_and_at_most_five_steps():
    text = str(report(findings=[finding()], pairs=[pair(failures=1)]))
    assert "  1. vjp disagrees: d y[2] / d w[0, 1]\n     message 0\n" in text
    assert "off by 1, 1e+02 error bars; claimed / measured = 1.5; measured at step 0.0001." in " ".join(text.split())
    step, slope = (next(row for row in lines(text) if row.split()[:1] == [word]) for word in ("step", "slope"))
    assert len(step.split()) == len(slope.split()) == 6
    assert (step.split()[1], step.split()[-1]) == ("1e-06", "0.1")
    assert "Next: one entry is wrong; look at how vjp computes d y[2] / d w[0, 1]." in " ".join(text.split())


def test_sides_are_shown_where_they_differ():
    steps = (Measured(1e-6, 0.5, -1.0, 2.0), Measured(1e-3, 0.5, -1.0, 2.0))
    text = str(report(findings=[finding(steps=steps)]))
    assert "left             -1" in text
    assert "right             2" in text
    assert "slope " not in text


def test_ten_findings_are_listed_and_three_told_in_full():
    text = str(report(findings=[finding(k) for k in range(14)]))
    assert " 10. vjp disagrees: d y[2] / d w[9, 1]" in text
    assert " 11. vjp" not in text
    assert "... and 4 more in report.findings" in text
    assert " ".join(text.split()).count("error bars") == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([{}, {"output_index": (0,)}], "all failures are derivatives by w[0, 1]; look at how vjp computes them"),
        ([{}, {"input_index": (4, 4)}], "all failures are derivatives of y[2] by w; look at how vjp computes them"),
        (
            [{}, {"input_index": (4, 4), "output_index": (0,)}],
            "all failures are in y by w; look at how vjp computes it",
        ),
        ([{}, {"input": "b", "output": "z"}], "look at how vjp computes d y[2] / d w[0, 1]"),
        ([{}, {"endpoint": "jvp", "output_index": (0,)}], "by w[0, 1]; look at what computes them"),
    ],
)
def test_what_failures_have_in_common_is_said(changes, words):
    text = " ".join(str(report(findings=[finding(**change) for change in changes])).split())
    assert words in text


def test_accepted_kinks_come_after_the_pairs_and_are_no_findings():
    kink = finding(status=Status.KINK, message="kinked")
    text = str(report(Verdict.PASS, findings=[kink], pairs=[pair()]))
    assert text.index("Pairs of vjp") < text.index("Accepted at kinks and jumps:") < text.index("kinked")
    assert "Findings" not in text
    assert "Next:" not in text


# pairs, notes, width


def test_the_pair_with_most_failures_comes_first_and_only_twelve_are_shown():
    pairs = [pair(f"p{k}", excess=k / 100) for k in range(14)] + [pair("bad", failures=2)]
    rows = lines(str(report(pairs=pairs)))
    start = next(k for k, row in enumerate(rows) if row.startswith("Pairs"))
    assert rows[start + 2].split() == ["y", "/", "bad", "2/4", "1.5", "1.25", "0.001", "0.25", "0.0001", "0.1", "%"]
    assert rows[start + 1].split()[1:] == ["failed", "claimed", "measured", "bar", "allowed", "step", "noticed"]
    assert rows[start + 3].split()[2] == "p13"
    assert rows[start + 14] == "  ... and 3 more in report.pairs"


def test_notes_are_wrapped_at_the_end():
    text = str(report(pairs=[pair()], notes=["word " * 40, "short"]))
    assert lines(text)[-1] == "  - short"
    assert text.count("  - ") == 2


@pytest.mark.parametrize("problem", SMOOTH, ids=lambda p: p.name)
def test_no_line_is_longer_than_a_terminal_is_wide(problem):
    for wrong in problem.wrong_twins():
        text = str(fdcheck.verify(problem.apply, problem.x0, jacobian=lambda _, m=wrong.matrix: m))
        assert max(map(len, lines(text))) <= 80
        assert len(lines(text)) < 60
        assert text == text.rstrip()


def test_only_one_is_not_said_of_a_sample():
    found = report(findings=[finding()], pairs=[pair(failures=1)])
    part = dataclasses.replace(found, coverage=Coverage(5, 3, 3, 3, elements={"w": (3, 5)}))
    assert "outside of the sample may be wrong too" in " ".join(str(part).split())
    assert "sample" not in str(found)


def test_long_paths_have_a_line_of_their_own():
    text = str(report(pairs=[pair("params['encoder']['layers'][3]['weight']")], notes=["x" * 70]))
    assert max(map(len, lines(text))) <= 80
    assert "y / params['encoder']['layers'][3]['weight']" in text


def test_a_real_failure_reads_as_a_user_needs_it():
    problem = BY_NAME["arm"]
    wrong = problem.jacobian() * [[1, 1], [1, -1]]
    text = str(fdcheck.verify(problem.apply, problem.x0, jacobian=lambda _: wrong))
    assert "jacobian  1 failure / 4 checks" in text
    assert "1. jacobian disagrees: d y[1] / d x[1]" in text
    assert "claimed / measured = -1;" in " ".join(text.split())
    assert "stable over" in text


def test_each_endpoint_has_a_table_of_its_own():
    other = dataclasses.replace(pair("b", failures=1), endpoint="jvp")
    rows = lines(str(report(pairs=[pair("w"), other], calls={"vjp": 1, "jvp": 1})))
    assert rows.index("Pairs of jvp (output / input), at the worst entry of each:") < rows.index(
        "Pairs of vjp (output / input), at the worst entry of each:"
    )


def test_entries_that_are_neither_right_nor_wrong_have_a_line_below_their_pair():
    rows = lines(str(report(pairs=[pair("w", undecided=2, kink=1)])))
    row = next(k for k, text in enumerate(rows) if text.startswith("  y / w"))
    assert rows[row + 1].strip() == "2 undecided, 1 kink"


@pytest.mark.parametrize("width", [40, 60])
def test_it_fits_narrow_terminals(width):
    bad = finding(message="claimed 3, measured 2 +- 0.01; " + "more words " * 12)
    kink = finding(status=Status.KINK, message="x0 lies at a kink. " * 4)
    diagnoses = (fdcheck.Diagnosis("vjp", "factor", "all of it is off by 2. " * 5, "divide " * 9, 1),)
    found = report(findings=[bad, kink], pairs=[pair("params['w']", 1, undecided=1), pair()], notes=["a note " * 12])
    text = report_text(dataclasses.replace(found, diagnoses=diagnoses, sensitivity=0.1, typical=0.1), width)
    assert max(map(len, lines(text))) <= width
    words = " ".join(text.split())
    for fact in (
        "FAIL:",
        "d y[2] / d w[0, 1]",
        "claimed 1.5, measured 1.25 +- 0.001, allowed 0.25, step 0.0001",
        "Repair:",
    ):
        assert fact in words


def test_the_width_is_that_of_the_terminal_and_eighty_elsewhere(monkeypatch):
    assert terminal_width() == 80

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdout", Terminal())
    for columns, width in (("120", 80), ("66", 66), ("12", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        assert terminal_width() == width
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, lines(str(report(findings=[finding()], pairs=[pair()]))))) <= 50


@pytest.mark.parametrize("number", [1, 100_000])
def test_any_number_of_findings_reads_well(number):
    one = finding()
    text = str(report(findings=[one] * number, pairs=[pair(failures=1)]))
    assert len(lines(text)) < 60
    assert ("more in report.findings" in text) == (number > 10)


def test_any_number_of_pairs_reads_well():
    text = str(report(pairs=[pair(f"p{k}", excess=k / 500) for k in range(500)]))
    assert "... and 488 more in report.pairs" in text
    assert len(lines(text)) < 30


def test_the_distance_of_a_kink_is_said():
    at = finding(status=Status.KINK, steps=(Measured(1e-6, 0.5, -1.0, 2.0), Measured(1e-3, 0.5, -1.0, 2.0)))
    assert "The kink lies within 1e-06 of x0" in str(report(findings=[at]))
    steps = tuple(Measured(10.0**-n, 2.0, 2.0 if n > 4 else 1.0, 2.0) for n in range(7, 1, -1))
    assert "part between 1e-05 and 0.0001 from x0, as at a kink." in " ".join(
        str(report(findings=[finding(steps=steps)])).split()
    )
    curved = tuple(Measured(10.0**-n, 2.0, 2.0 - 10.0**-n * 9, 2.0 + 10.0**-n * 9) for n in range(7, 0, -1))
    assert "as at a kink" not in str(report(findings=[finding(steps=curved)]))


# estimates


def test_a_small_estimate_shows_its_numbers():
    text = str(fdcheck.differentiate(np.exp, 1.0))
    assert lines(text)[0].startswith("measured derivative, ")
    assert "d y / d x  shape ()" in text
    assert "2.7182818 +- " in text


def test_odd_statuses_and_missing_bars_are_remarked():
    block = Block(
        "y", "x", np.zeros((3, 2)), np.full((3, 2), np.inf), np.ones((3, 2)), np.array([["kink", "agrees"]] * 3)
    )
    text = estimate_text(Estimate((block,), 12, ("a remark",)))
    assert "error bar up to none  (kink in places)" in text
    assert "+-" not in text
    assert lines(text)[-1] == "  - a remark"


def test_inputs_that_were_moved_together_are_told_apart():
    together = dataclasses.replace(pair(), together=True, eps=math.nan, tolerance=math.nan)
    found = dataclasses.replace(report(pairs=[together]), coverage=Coverage(5, 1, 3, 3, together=4))
    text = str(found)
    assert "1 of 5 input elements moved alone, 4 together" in text
    assert "moved together, sums along a direction" in text
    assert "nan" not in text
    assert "nan" not in report_text(found, 40)
