"""Verdicts, errors, statuses, JSON and the indexing of estimates."""

import dataclasses
import enum
import json
import math

import mpmath
import numpy as np
import pytest

import fdcheck
from fdcheck import (
    Block,
    Coverage,
    DerivativeMismatch,
    Estimate,
    Finding,
    InvalidInput,
    Measured,
    Pair,
    Report,
    Status,
    Verdict,
)
from fdcheck.results import BREACHES


def report_of(verdict, findings=(), pairs=()):
    return Report(
        verdict=verdict,
        findings=tuple(findings),
        pairs=tuple(pairs),
        coverage=Coverage(3, 2, 5, 4, ("n",)),
        sensitivity=math.nan,
        applies=17,
        endpoint_calls={"vjp": 4},
        seed=3,
        notes=("a note",),
        versions={"fdcheck": "1"},
    )


FINDING = Finding(
    "vjp",
    Status.DISAGREES,
    "claimed 1, measured 2",
    input="params['w']",
    input_index=(0, np.int64(1)),
    output="y",
    claimed=math.nan,
    estimated=-math.inf,
    error=math.inf,
    steps=(Measured(1e-3, 2.0), Measured(1e-2, math.nan, 1.0)),
    column_claimed=np.array([[1.0, np.nan], [np.inf, -0.5]]),
    column_estimated=np.array([1 + 2j, complex(math.nan, -math.inf)]),
)
PAIR = Pair("vjp", "y", "params['w']", 4, {"agrees": 3, "disagrees": 1}, 1.0, 2.0, 0.1, 1e-3, (), (0, 1), 9.5, 1e-3)


# verdicts


@pytest.mark.parametrize("verdict", Verdict)
def test_verdicts_are_words_and_only_pass_is_true(verdict):
    report = report_of(verdict)
    assert verdict in ("pass", "fail", "inconclusive")
    assert str(verdict) == verdict == f"{verdict}"
    assert bool(report) is report.passed is (verdict == "pass")


@pytest.mark.parametrize(
    ("verdict", "allow", "raises"),
    [
        ("pass", False, False),
        ("pass", True, False),
        ("fail", False, True),
        ("fail", True, True),
        ("inconclusive", False, True),
        ("inconclusive", True, False),
    ],
)
def test_raise_if_failed(verdict, allow, raises):
    report = report_of(Verdict(verdict), [FINDING], [PAIR])
    if not raises:
        assert report.raise_if_failed(allow_inconclusive=allow) is None
        return
    with pytest.raises(DerivativeMismatch) as caught:
        report.raise_if_failed(allow_inconclusive=allow)
    assert isinstance(caught.value, AssertionError)
    assert caught.value.report is report
    assert str(caught.value) == str(report)
    assert "params['w']" in str(caught.value)


def test_inconclusive_raises_unless_it_is_allowed():
    with pytest.raises(DerivativeMismatch):
        report_of(Verdict.INCONCLUSIVE).raise_if_failed()


def test_a_mismatch_does_not_raise_and_prints_nothing(capfd):
    report = fdcheck.verify(np.sin, np.array([0.3, 0.7]), vjp=lambda x, c: c * np.sin(x))
    assert not report
    assert capfd.readouterr() == ("", "")
    assert "FAIL" in str(report).upper()
    with pytest.raises(DerivativeMismatch, match="vjp"):
        report.raise_if_failed(allow_inconclusive=True)


def test_invalid_input_is_a_value_error():
    assert issubclass(InvalidInput, ValueError)


def test_results_cannot_be_changed():
    for value, name in ((report_of(Verdict.PASS), "verdict"), (FINDING, "claimed"), (PAIR, "entries")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


def test_failures_of_a_pair_are_the_entries_that_disagree():
    assert PAIR.failures == 1
    assert dataclasses.replace(PAIR, counts={"agrees": 3, "undecided": 1, "kink": 2}).failures == 0


# statuses


def test_every_status_has_a_word_a_meaning_and_advice():
    words = {
        "agrees", "disagrees", "kink", "jump", "undecided", "nonfinite", "structure", "shape", "dtype", "raised",
        "mutation", "nondeterministic",
    }  # fmt: skip
    assert words <= set(Status)
    assert len({status.meaning for status in Status}) == len(Status)
    for status in Status:
        assert isinstance(status, enum.StrEnum)
        assert Status(str(status)) is status
        assert status == status.value == f"{status}"
        assert status.meaning.endswith(".")
        assert status.meaning[0].isupper() or status.meaning.startswith(("apply ", "x0 ", "jvp "))
        assert bool(status.advice) is (status is not Status.AGREES)
        assert not status.advice or status.advice.endswith(".")


def test_breaches_are_the_parts_of_a_contract():
    assert {Status.STRUCTURE, Status.SHAPE, Status.DTYPE, Status.RAISED, Status.MUTATION} <= BREACHES
    assert not BREACHES & {
        Status.AGREES,
        Status.DISAGREES,
        Status.KINK,
        Status.JUMP,
        Status.UNDECIDED,
        Status.NONFINITE,
    }


def test_advice_reaches_the_reader_of_a_report():
    text = " ".join(str(report_of(Verdict.FAIL, [FINDING], [PAIR])).split())
    assert "Next: one entry is wrong; look at how vjp computes d y / d params['w'][0, 1]." in text


# JSON


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def strict(text):
    return json.loads(text, parse_constant=refuse)


def test_json_is_strict_and_holds_everything():
    report = report_of(Verdict.FAIL, [FINDING], [PAIR])
    found = strict(report.to_json())
    assert found == report.to_dict()
    assert set(found) >= {f.name for f in dataclasses.fields(Report)} - {"evidence"}
    assert "evidence" not in found  # figures are drawn from it; a program has the findings and the Jacobian itself
    assert (found["verdict"], found["applies"], found["seed"]) == ("fail", 17, 3)
    assert found["sensitivity"] == "nan"
    assert found["coverage"]["carried"] == ["n"]
    assert found["endpoint_calls"] == {"vjp": 4}
    assert found["notes"] == ["a note"]
    (finding,) = found["findings"]
    assert (finding["status"], finding["input"], finding["input_index"]) == ("disagrees", "params['w']", [0, 1])
    assert (finding["claimed"], finding["estimated"], finding["error"]) == ("nan", "-inf", "inf")
    assert finding["steps"] == [
        {"eps": 1e-3, "slope": 2.0, "left": "nan", "right": "nan"},
        {"eps": 1e-2, "slope": "nan", "left": 1.0, "right": "nan"},
    ]
    assert finding["column_claimed"] == [[1.0, "nan"], ["inf", -0.5]]
    assert finding["column_estimated"] == [{"re": 1.0, "im": 2.0}, {"re": "nan", "im": "-inf"}]
    (pair,) = found["pairs"]
    assert pair["counts"] == {"agrees": 3, "disagrees": 1}
    assert pair["input_index"] == [0, 1]
    assert pair["excess"] == 9.5


@pytest.mark.parametrize(
    "claim",
    [
        lambda x, c: c * np.cos(x),
        lambda x, c: c * np.nan,
        lambda x, c: np.ones(1),
        lambda x, c: 1 / 0,
        lambda x, c: x / 0,
    ],
)
def test_json_of_real_reports(claim):
    report = fdcheck.verify(lambda x: np.sin(x), np.array([0.3, -0.7]), vjp=claim)
    found = strict(report.to_json())
    assert found["verdict"] == report.verdict
    assert len(found["findings"]) == len(report.findings)
    assert found["applies"] == report.applies


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.longdouble, np.complex64, np.clongdouble])
def test_json_of_every_dtype(dtype):
    report = fdcheck.verify(lambda x: x * x, np.array([0.5, 1.5], dtype), vjp=lambda x, c: c)
    assert report.verdict is Verdict.FAIL
    found = strict(report.to_json())
    if dtype is not np.complex64 and dtype is not np.clongdouble:
        claimed = {(tuple(f["output_index"]), tuple(f["input_index"])): f["claimed"] for f in found["findings"]}
        assert claimed[(1,), (1,)] == 1.0


# estimates


def block_of(output, source, value):
    value = np.asarray(value, float)
    return Block(output, source, value, 0.1 * np.abs(value), np.full(value.shape, 1e-3), np.full(value.shape, "agrees"))


def test_an_estimate_is_indexed_by_output_and_input_path():
    first, second = block_of("y", "a", [1.0, 2.0]), block_of("y", "b['c']", 3.0)
    estimate = Estimate((first, second), 20)
    assert estimate["y", "a"] is first
    assert estimate["y", "b['c']"] is second
    for wrong in (("a", "y"), ("y", "b"), "y", ("y",), 0):
        with pytest.raises(KeyError) as caught:
            estimate[wrong]
        message = str(caught.value)
        for path in ("'y', 'a'", "b['c']"):
            assert path in message.replace("\\", "")
    for name in ("value", "error", "eps", "status"):
        with pytest.raises(InvalidInput, match="there are 2 blocks"):
            getattr(estimate, name)


def test_the_only_block_is_the_estimate():
    block = block_of("y", "x", [[1.0, 2.0]])
    estimate = Estimate((block,), 20)
    for name in ("value", "error", "eps", "status"):
        assert getattr(estimate, name) is getattr(block, name)


def test_blocks_of_structures_have_the_shapes_of_output_and_input():
    x0 = {"a": np.array([[0.3, 0.7]]), "z": 1 + 2j, "n": 3}
    estimate = fdcheck.differentiate(lambda x: (x["a"].sum() * np.arange(1.0, 4), x["z"] ** 2), x0)
    assert estimate["y[0]", "a"].value.shape == (3, 1, 2)
    assert estimate["y[0]", "z"].value.shape == (3, 2)
    assert estimate["y[1]", "a"].value.shape == (2, 1, 2)
    np.testing.assert_allclose(estimate["y[0]", "a"].value[:, 0, 1], [1, 2, 3], rtol=1e-9)
    np.testing.assert_allclose(estimate["y[1]", "z"].value, [[2, -4], [4, 2]], rtol=1e-9)
    np.testing.assert_array_equal(estimate["y[1]", "a"].value, 0)
    assert {(b.output, b.input) for b in estimate.blocks} == {(y, x) for y in ("y[0]", "y[1]") for x in ("a", "z")}
    for block in estimate.blocks:
        assert block.value.shape == block.error.shape == block.eps.shape == block.status.shape


@pytest.mark.parametrize(
    ("function", "reference", "at"),
    [
        (lambda x: np.exp(np.sin(x)), lambda x: mpmath.exp(mpmath.sin(x)), 0.7),
        (lambda x: np.log1p(x**2) / x, lambda x: mpmath.log(1 + x**2) / x, -2.5),
        (lambda x: np.arctan(1e4 * x), lambda x: mpmath.atan(10**4 * x), 3e-5),
        (np.cosh, mpmath.cosh, 0.0),
    ],
)
def test_the_error_bar_holds_the_derivative_that_mpmath_gives(function, reference, at):
    with mpmath.workdps(40):
        exact = mpmath.diff(reference, mpmath.mpf(at))
        estimate = fdcheck.differentiate(function, at)
        assert abs(mpmath.mpf(float(estimate.value)) - exact) <= mpmath.mpf(float(estimate.error))
        assert float(estimate.error) <= 1e-6 * max(abs(float(exact)), 1e-3)
    assert estimate.status == "agrees"
    assert estimate.applies > 0


def test_the_words_of_an_estimate():
    text = str(fdcheck.differentiate(lambda x: {"p": np.abs(x["a"])}, {"a": np.array([0.0, 1.0])}))
    assert "d p / d a" in text
    assert "(2, 2)" in text
    assert "kink" in text
