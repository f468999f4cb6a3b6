"""What is kept for figures: that it is small, that it is true, and that no failure is left out of it."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse

import fdcheck
from fdcheck.evidence import MARKS

M, N = 300, 200
MATRIX = np.random.default_rng(0).normal(size=(M, N))
X = np.linspace(0.5, 1.5, N)


def wrong(entries):
    matrix = MATRIX.copy()
    for i, j in entries:
        matrix[i, j] *= 1.5
    return matrix


def evidence_of(entries, **options):
    return fdcheck.verify(lambda x: MATRIX @ x, X, jacobian=lambda x: wrong(entries), **options).evidence[0]


def test_a_small_jacobian_is_kept_whole():
    a = np.array([[1.0, 2.0], [3.0, -4.0]])
    claim = a * [[1, 1], [1, 2]]
    (found,) = fdcheck.verify(lambda x: {"u": a[0] @ x, "v": a[1] @ x}, np.ones(2), jvp=lambda x, t: {
        "u": claim[0] @ t, "v": claim[1] @ t}).evidence  # fmt: skip
    assert (found.endpoint, found.outputs, found.inputs) == ("jvp", ("u", "v"), ("x",))
    assert (found.output_starts, found.input_starts) == ((0, 1), (0,))
    np.testing.assert_array_equal(found.claimed.reshape(2, 2), claim)
    np.testing.assert_allclose(found.estimated.reshape(2, 2), a, rtol=1e-6)
    assert [MARKS[k] for k in found.marks.ravel()] == ["agrees"] * 3 + ["disagrees"]
    assert found.excess[1, 1] > 100 > 1 > found.excess[0, 0]


def test_a_large_one_is_kept_in_bins_that_name_the_place():
    found = evidence_of([(17, 150)])
    assert found.excess.shape == found.marks.shape == (len(found.rows) - 1, len(found.columns) - 1)
    assert max(found.excess.shape) <= 128
    (place,) = np.argwhere(found.marks == MARKS.index("disagrees"))
    assert found.rows[place[0]] <= 17 < found.rows[place[0] + 1]
    assert found.columns[place[1]] <= 150 < found.columns[place[1] + 1]
    assert found.excess[tuple(place)] == found.excess.max() > 1
    assert (found.rows[-1], found.columns[-1]) == (M, N)


@pytest.mark.parametrize("number", [3, 5000])
def test_failing_points_are_in_the_sample_and_right_ones_too(number):
    entries = [tuple(entry) for entry in np.random.default_rng(1).permutation(np.argwhere(np.ones((M, N))))[:number]]
    found = evidence_of(entries)
    assert len(found.claimed) == len(found.estimated) == len(found.error) == len(found.point_marks)
    assert 1500 <= len(found.claimed) <= 2000
    failing = found.point_marks == MARKS.index("disagrees")
    assert failing.sum() == min(number, 1000)
    np.testing.assert_allclose(found.claimed[failing], 1.5 * found.estimated[failing], rtol=1e-3)
    np.testing.assert_allclose(found.claimed[~failing], found.estimated[~failing], rtol=1e-3)


def test_no_bin_lies_in_two_paths():
    x0 = {f"p{k}": np.ones(k + 1) for k in range(20)}
    report = fdcheck.verify(
        lambda x: sum(v @ v for v in x.values()), x0, vjp=lambda x, ct: {k: 2 * ct * v for k, v in x.items()}
    )
    (found,) = report.evidence
    assert len(found.inputs) == 20
    assert set(found.input_starts) <= set(found.columns.tolist())


def test_entries_that_were_not_asked_for_are_marked():
    (evidence,) = fdcheck.verify(
        lambda x: MATRIX @ x, X, vjp=lambda x, ct: MATRIX.T @ ct, max_output_samples=40, max_evals=50
    ).evidence
    looked_at = evidence.marks > 0
    assert looked_at.any()
    assert not looked_at.all()
    assert np.isfinite(evidence.excess[looked_at]).all()
    assert (evidence.point_marks > 0).all()


def test_a_plain_entry_is_kept_with_its_steps():
    for entries in ([], [(0, 0)]):
        entry = evidence_of(entries).typical
        assert entry.status == "agrees"
        (i,), (j,) = entry.output_index, entry.input_index
        assert entry.claimed == pytest.approx(MATRIX[i, j])
        assert len(entry.steps) >= 2
        assert all(s.slope == pytest.approx(MATRIX[i, j], rel=1e-2) for s in entry.steps)
        assert 0 < entry.tolerance == pytest.approx(1e-3 * abs(MATRIX[i, j]), rel=1e-2)


def test_kinks_and_what_is_undecided_have_their_marks():
    (kink,) = fdcheck.verify(np.abs, np.array([0.0, 0.5]), vjp=lambda x, ct: ct * np.sign(x)).evidence
    assert MARKS[kink.marks[0, 0]] == "kink or jump"
    rough = fdcheck.verify(lambda x: np.round(np.sin(x), 3), np.array([0.3]), vjp=lambda x, ct: ct * np.cos(x))
    assert MARKS[rough.evidence[0].marks[0, 0]] == "undecided"
    assert rough.evidence[0].typical is None


def test_findings_say_by_what_they_were_judged():
    x = np.array([0.3, 0.7])
    report = fdcheck.verify(np.sin, x, vjp=lambda x, ct: ct * np.sin(x), rtol=1e-2, atol=0.01, eps=1e-4)
    worst = report.findings[0]
    size = max(abs(worst.claimed), abs(worst.estimated))
    assert worst.tolerance == pytest.approx(0.01 + 1e-2 * size)
    assert worst.forced == 1e-4
    assert 0 < worst.noise < 1e-15
    (pair,) = report.pairs
    assert pair.tolerance == worst.tolerance
    off = abs(pair.claimed - pair.estimated)
    assert pair.excess == pytest.approx(off / (pair.tolerance + pair.error))
    free = fdcheck.verify(np.sin, x, vjp=lambda x, ct: ct * np.sin(x)).findings[0]
    assert np.isnan(free.forced)


def test_evidence_has_no_say_in_equality_or_json_and_travels():
    report = fdcheck.verify(np.sin, np.array([0.3]), vjp=lambda x, ct: ct * np.sin(x))
    assert "evidence" not in json.loads(report.to_json())
    copy = pickle.loads(pickle.dumps(report))
    assert copy.evidence[0].claimed == report.evidence[0].claimed
    assert copy.verdict == report.verdict


def test_a_kink_is_not_the_worst_entry_of_a_pair():
    (pair,) = fdcheck.verify(np.abs, np.array([0.0, 0.5]), vjp=lambda x, ct: ct * np.sign(x)).pairs
    assert pair.counts["kink"] == 1
    assert (pair.output_index, pair.input_index) != ((0,), (0,))


def test_paths_and_endpoints_can_be_written_otherwise():
    (found,) = fdcheck.verify(np.sin, np.array([0.3]), vjp=lambda x, ct: ct * np.cos(x)).evidence
    other = found.renamed("adjoint", str.upper)
    assert (other.endpoint, other.inputs, other.outputs) == ("adjoint", ("X",), ("Y",))
    assert (other.typical.endpoint, other.typical.input) == ("adjoint", "X")


def test_second_derivatives_have_evidence_under_their_own_names():
    report = fdcheck.verify_second_order(
        lambda x: np.sum(x**3), np.array([0.5, 1.0]), vjp=lambda x, ct: 3 * x**2 * ct, hvp=lambda x, v: 6 * x * v
    )
    assert {part.endpoint for part in report.evidence} <= set(report.endpoint_calls)
    assert len(report.evidence) >= 2


def test_a_step_lost_in_rounding_and_an_edge_of_the_domain_leave_what_was_measured():
    found = fdcheck.verify(
        lambda x: x**3, np.array([0.5, 2.0], np.float32), jacobian=lambda x: np.diag(3 * x**2), eps=1e-8
    )
    entries = [part.typical for part in found.evidence]
    assert all(entry is None or all(s.eps > 0 for s in entry.steps) for entry in entries)
    edge = fdcheck.verify(lambda x: x**1.5, np.array([0.0]), jacobian=lambda x: np.zeros((1, 1)))
    entry = edge.evidence[0].typical
    assert entry is None or all(np.isnan(s.left) and np.isfinite(s.slope) for s in entry.steps)


def test_of_a_sample_only_what_was_looked_at_is_kept_and_in_its_place():
    many = np.linspace(0.5, 1.5, 1000)
    weights = np.linspace(1.0, 2.0, 1000)

    def vjp(x, ct):
        return {"a": ct * weights * np.where(np.arange(1000) >= 500, 1.5, 1.0), "b": ct * np.ones(10)}

    x0 = {"a": many, "b": np.ones(10)}
    report = fdcheck.verify(lambda x: weights @ x["a"] + x["b"].sum(), x0, vjp=vjp, max_evals=100, method="elementwise")
    (found,) = report.evidence
    assert report.coverage.inputs_measured < 200
    assert (found.inputs, found.input_starts) == (("a", "b"), (0, 1000))
    wrong = found.marks[0] == MARKS.index("disagrees")
    assert wrong.any()
    assert not wrong.all()
    assert (found.columns[:-1][wrong] >= 480).all()  # a bin may begin before the first wrong element in it
    assert (found.columns[:-1][wrong] < 1000).all()
    assert (found.columns[:-1][~wrong & (found.columns[:-1] < 1000)] < 500).all()


def test_an_entry_that_a_probe_led_to_is_kept():
    n = 3000

    def vjp(x, ct):
        gradient = 2 * ct * x
        gradient[1234] *= 3
        return gradient

    (found,) = fdcheck.verify(lambda x: np.sum(x**2), np.linspace(0.5, 1.5, n), vjp=vjp).evidence
    place = int(np.flatnonzero(found.marks[0] == MARKS.index("disagrees"))[0])
    assert (found.columns[place], found.columns[place + 1]) == (1234, 1235)
    assert found.input_starts == (0,)


def test_columns_measured_in_turns_are_put_together(monkeypatch):
    from fdcheck.checks import checking

    whole = evidence_of([(17, 150)])
    monkeypatch.setattr(checking, "_AT_ONCE", 7 * M)
    turns = evidence_of([(17, 150)])
    assert max(turns.excess.shape) <= 128
    assert len(turns.claimed) <= 2000
    (place,) = np.argwhere(turns.marks == MARKS.index("disagrees"))
    assert turns.rows[place[0]] <= 17 < turns.rows[place[0] + 1]
    assert turns.columns[place[1]] <= 150 < turns.columns[place[1] + 1]
    assert turns.excess.max() == pytest.approx(whole.excess.max(), rel=0.01)
    assert (turns.columns[0], turns.columns[-1]) == (0, N)
    assert (turns.point_marks == MARKS.index("disagrees")).sum() == 1


def test_columns_of_a_sparse_jacobian_that_were_measured_alone_are_kept():
    band = scipy.sparse.diags_array([np.ones(399), -2 * np.ones(400), np.ones(399)], offsets=[-1, 0, 1]).tocsr()
    claim = band.copy()
    claim[200, 201] = 3.0
    (found,) = fdcheck.verify(lambda x: band @ x, np.linspace(0.5, 1.0, 400), jacobian=lambda x: claim).evidence
    (place,) = np.argwhere(found.marks == MARKS.index("disagrees"))
    assert found.rows[place[0]] <= 200 < found.rows[place[0] + 1]
    assert found.columns[place[1]] == 201
