"""The random functions of the comparison have the slopes that they claim, and the table counts what is wrong."""

import numpy as np
import pytest

from tests.benchmarks import verdicts
from tests.benchmarks.peers import PEERS, Peer
from tests.problems import complex_step

ANALYTIC = (
    "smooth", "inputs of 1e-8 to 1e8", "plus 1e4 to 1e9", "derivatives of 1e-10 to 1e-6", "1e-8 to 1e-3 beside a pole",
    "frequencies of 1e2 to 1e5",
)  # fmt: skip


@pytest.mark.parametrize("name", ANALYTIC)
def test_slopes_are_those_of_the_complex_step(name):
    for seed in range(10):
        apply, slope, x0 = verdicts.FAMILIES[name](np.random.default_rng(seed))
        np.testing.assert_allclose(np.diag(slope(x0)), complex_step(apply, x0), rtol=1e-8)


@pytest.mark.parametrize(("name", "step"), [("1e-9 to 1e-6 beside a kink", 1e-10), ("jitter of 1e-9 to 1e-6", 1e-2)])
def test_other_slopes_are_those_of_a_difference(name, step):
    apply, slope, x0 = verdicts.FAMILIES[name](np.random.default_rng(1))
    np.testing.assert_allclose(slope(x0), (apply(x0 + step) - apply(x0 - step)) / (2 * step), rtol=1e-3)


@pytest.mark.parametrize("name", verdicts.FAMILIES)
def test_one_entry_of_the_wrong_vjp_is_off_by_a_tenth_at_least(name):
    draw = np.random.default_rng(3)
    for _ in range(10):
        case = verdicts.drawn_case(name, verdicts.FAMILIES[name], draw)
        right, wrong = (vjp(case.x0, np.ones_like(case.x0)) for vjp in (case.right, case.wrong))
        assert right.dtype == wrong.dtype == case.x0.dtype == case.apply(case.x0).dtype
        assert np.count_nonzero(np.abs(wrong - right) > 0.09 * np.abs(right)) == np.count_nonzero(wrong != right) == 1


def test_the_table_counts_false_alarms_misses_and_the_rest(monkeypatch):
    says = (Peer(word, "numpy", lambda *_, word=word: word) for word in ("pass", "fail", "inconclusive"))
    monkeypatch.setattr(verdicts, "PEERS", (PEERS[0], PEERS[2], *says))
    head, *rows = verdicts.report(draws=2, seed=0)
    assert head[1:] == ("fdcheck, default", "scipy 3-point", "pass", "fail", "inconclusive")
    table = {row[0]: row[1:] for row in rows}
    assert len(table) == len(verdicts.FAMILIES) + 1
    assert all(row[0] == "0 / 0" for row in table.values())
    assert table["float32 inside"][1] == "100 / 0"  # a step of 1e-5 is a few roundings
    assert table["derivatives of 1e-10 to 1e-6"][1] == "0 / 100"  # below the absolute tolerance
    assert {row[2:] for row in table.values()} == {("0 / 100", "100 / 0", "0 / 0 + 100")}
