"""The scripts that compare and plot costs run; nothing is asserted about times."""

import numpy as np
import pytest

from tests.benchmarks import growth, peers
from tests.benchmarks.cases import cases


@pytest.mark.parametrize("case", cases(50), ids=lambda case: case.name)
def test_the_wrong_twin_differs_in_one_entry(case):
    """And the right one is right, by a difference at a step that suits the case."""
    m = case.apply(case.x0).size
    right, wrong = (
        np.array([vjp(case.x0, one) for one in np.eye(m, dtype=case.x0.dtype)]) for vjp in (case.right, case.wrong)
    )
    assert right.dtype == case.x0.dtype
    assert np.count_nonzero(right != wrong) == 1
    x0 = case.x0.astype(float)
    h = np.where(x0 == 0, -0.01, 1e-2 * np.abs(x0))  # to the left of the kink, where the slope is the one claimed
    measured = (
        np.array([case.apply(x0 + t * one) - case.apply(x0) for t, one in zip(h, np.diag(h) / h, strict=True)]).T / h
    )
    size = np.abs(right).max()
    np.testing.assert_allclose(measured, right, rtol=0.05, atol=0.02 * size)


def test_fdcheck_is_right_about_every_case_and_missing_peers_are_named(monkeypatch):
    monkeypatch.setattr(peers, "PEERS", (*peers.PEERS[:3], peers.Peer("another", "no_such_module", None)))
    lines = list(peers.report(largest=50, rounds=1))
    own = [line for line in lines if line.strip().startswith("fdcheck,")]
    assert len(own) == 2 * len(cases(50))
    assert all(line.split()[-2:] == ["pass", "fail"] for line in own)
    assert sum("another" in line and "is not installed" in line for line in lines) == len(cases(50))
    (offset,) = [k for k, line in enumerate(lines) if line.startswith("relu")]
    (scipy,) = [line for line in lines[offset : offset + 6] if "scipy" in line]
    assert "fail (!)" in scipy  # half of the slope, at a kink


def test_a_peer_that_raises_is_said_to():
    def check(apply, vjp, x0):
        raise RecursionError

    rows = peers.compared(cases(10)[0], [peers.PEERS[0], peers.Peer("other", "numpy", check)], rounds=1)
    assert (rows[0].on_right, rows[0].on_wrong) == ("pass", "fail")
    assert rows[1].on_right == rows[1].on_wrong == "RecursionError"
    assert rows[0].ratio == 1.0
    assert rows[0].applies > 40


def test_growth_is_fitted_to_the_larger_checks():
    points = [growth.Point("probe", n, 24, 1e-3 + 1e-6 * n, 1e-6 * n) for n in (100, 10**5, 10**6, 10**7)]
    assert "applies grow as n^0.00 and seconds as n^1.00" in list(growth.table(points))[-1]


def test_growth_is_measured_with_each_method():
    points = list(growth.measured([100, 2000], rounds=1))
    assert [(point.method, point.n) for point in points] == [
        ("elementwise", 100), ("probe", 100), ("elementwise", 2000), ("probe", 2000)
    ]  # fmt: skip
    applies = {(point.method, point.n): point.applies for point in points}
    assert applies["elementwise", 2000] > 15 * applies["elementwise", 100]
    assert applies["probe", 2000] == applies["probe", 100] <= 24
