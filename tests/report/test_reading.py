"""Reports from JSON: what comes back is what was saved, and what is no report is named."""

import json

import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Report

SIN = np.array([0.3, 0.7])


def reports():
    yield fdcheck.verify(np.sin, SIN, vjp=lambda x, ct: ct * np.cos(x))
    yield fdcheck.verify(np.sin, SIN, vjp=lambda x, ct: ct, points=2, bounds={"x": (0.0, np.inf)}, eps_for={"x": 1e-4})
    yield fdcheck.verify(np.sin, SIN.astype(complex), jvp=lambda x, t: t, points=2)
    yield fdcheck.verify(lambda x: 1 / 0, 1.0, vjp=lambda x, ct: ct)
    yield fdcheck.verify(np.abs, np.array([0.0]), vjp=lambda x, ct: ct * np.nan)
    yield fdcheck.verify(np.sin, SIN, vjp=lambda x, ct: np.abs(ct), contract=fdcheck.Contract(nondet_tol=0.0))
    yield fdcheck.verify(lambda x: {"nan": x["inf"]}, {"inf": SIN}, vjp=lambda x, ct: {"inf": 2 * ct["nan"]})


def test_what_was_saved_comes_back():
    for report in reports():
        again = Report.from_json(report.to_json())
        assert again.to_dict() == report.to_dict()
        assert str(again) == str(report)
        assert again.verdict is report.verdict
        assert bool(again) == bool(report)
        for one, other in zip(again.findings, report.findings, strict=True):
            assert one.status is other.status
            assert one.input_index == other.input_index
            assert (one.column_claimed is None) == (other.column_claimed is None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no valid JSON"),
        ("{", "no valid JSON"),
        (b"\xff\xfe\x00", "no valid JSON"),
        ("[" * 100_000, "no valid JSON"),
        ("[]", "expected a JSON object with schema 'fdcheck-report-1', got None"),
        ('{"schema": "fdcheck-report-9"}', "got 'fdcheck-report-9'"),
        ('{"schema": "fdcheck-report-1"}', "not what to_json writes"),
    ],
)
def test_what_is_no_report_is_named(text, words):
    with pytest.raises(InvalidInput, match="report: ") as error:
        Report.from_json(text)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "great"},
        {"findings": 3},
        {"findings": [{"endpoint": "vjp"}]},
        {"findings": [{"endpoint": "vjp", "status": "odd", "message": ""}]},
        {"applies": "many"},
        {"coverage": None},
        {"points": [3]},
        {"sensitivity": "small"},
    ],
)
def test_a_document_that_was_tampered_with_is_named(change):
    report = fdcheck.verify(np.sin, SIN, vjp=lambda x, ct: ct)
    with pytest.raises(InvalidInput, match="report: not what to_json writes"):
        Report.from_json(json.dumps({**report.to_dict(), **change}))


def test_keys_of_later_versions_are_passed_over():
    report = fdcheck.verify(np.sin, SIN, vjp=lambda x, ct: ct)
    assert Report.from_json(json.dumps({**report.to_dict(), "colour": "red"})).to_dict() == report.to_dict()
