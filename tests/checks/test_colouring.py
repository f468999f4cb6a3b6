"""Sparse Jacobians: all entries in as many applies as there are colours, and what the pattern leaves out is found."""

import numpy as np
import pytest
from scipy import sparse

import fdcheck
from fdcheck import Status
from fdcheck.checks.colouring import colours_of

N = 4000
U = np.sin(np.linspace(0, 6, N)) + 1.5


def burgers(u):
    up, um = np.append(u[1:], 1.0), np.insert(u[:-1], 0, 1.0)
    return u * (up - um) / 2 - 0.1 * (up - 2 * u + um)


def exact(u):
    up, um = np.append(u[1:], 1.0), np.insert(u[:-1], 0, 1.0)
    return sparse.diags_array([-u[1:] / 2 - 0.1, (up - um) / 2 + 0.2, u[:-1] / 2 - 0.1], offsets=[-1, 0, 1]).tocsr()


def without(places):
    """Return the Jacobian with entries left out of its pattern."""

    def jacobian(u):
        entries = exact(u).tocoo()
        i, j = entries.coords
        keep = np.array([place not in places for place in zip(i.tolist(), j.tolist(), strict=True)])
        return sparse.coo_array((entries.data[keep], (i[keep], j[keep])), shape=entries.shape).tocsr()

    return jacobian


def edited(place, value):
    def jacobian(u):
        matrix = exact(u).tolil()
        matrix[place] = value(matrix[place])
        return matrix.tocsr()

    return jacobian


def failing(report):
    return sorted((f.output_index[0], f.input_index[0]) for f in report.findings if f.status is Status.DISAGREES)


def test_groups_share_no_output():
    colours = colours_of(exact(U))
    assert colours.count == 3
    for g in range(3):
        rows = exact(U)[:, np.flatnonzero(colours.group == g)].tocoo().coords[0]
        assert len(rows) == len(set(rows.tolist()))


def test_all_entries_of_a_tridiagonal_jacobian_are_measured_in_30_applies():
    report = fdcheck.verify(burgers, U, jacobian=exact)
    assert report.passed, str(report)
    assert report.applies <= 30
    (pair,) = report.pairs
    assert pair.entries == 3 * N - 2
    assert pair.counts == {"agrees": 3 * N - 2}
    assert pair.sensitivity < 5e-3
    assert report.coverage.method.startswith("colours: 3 groups")


def test_an_entry_missing_from_the_pattern_is_found():
    report = fdcheck.verify(burgers, U, jacobian=without({(2000, 2001)}))
    assert report.verdict == "fail"
    assert failing(report) == [(2000, 2001)]
    assert any("not in the pattern: d y[2000] / d x[2001]" in note for note in report.notes)


def test_all_entries_missing_from_the_pattern_are_listed():
    places = {(k, k + 1) for k in range(50, N - 1, 100)}
    report = fdcheck.verify(burgers, U, jacobian=without(places))
    assert failing(report) == sorted(places)
    (pair,) = report.pairs
    assert pair.failures == len(places)


@pytest.mark.parametrize("place", [(0, 0), (777, 778), (N - 1, N - 2)])
def test_a_wrong_entry_is_named(place):
    report = fdcheck.verify(burgers, U, jacobian=edited(place, lambda v: 1.5 * v))
    assert failing(report) == [place]
    assert report.findings[0].estimated == pytest.approx(exact(U).toarray()[place], rel=1e-6)


def test_an_entry_where_there_should_be_none_is_named():
    report = fdcheck.verify(burgers, U, jacobian=edited((100, 3000), lambda v: 0.5))
    assert failing(report) == [(100, 3000)]


def test_a_nan_is_found():
    assert failing(fdcheck.verify(burgers, U, jacobian=edited((9, 9), lambda v: np.nan))) == [(9, 9)]


def test_a_pattern_may_be_given_for_products():
    matrix, wrong = exact(U), edited((777, 778), lambda v: 1.5 * v)(U)
    right = fdcheck.verify(
        burgers, U, jvp=lambda u, t: matrix @ t, vjp=lambda u, ct: matrix.T @ ct, sparsity=matrix != 0
    )
    assert right.passed, str(right)
    assert right.applies <= 30
    assert right.endpoint_calls["jvp"] <= 20
    report = fdcheck.verify(burgers, U, jvp=lambda u, t: wrong @ t, sparsity=matrix != 0)
    assert failing(report) == [(777, 778)]
    lacking = without({(5, 6)})(U)
    assert fdcheck.verify(burgers, U, jvp=lambda u, t: matrix @ t, sparsity=lacking).passed  # it is no claim
    assert failing(fdcheck.verify(burgers, U, jvp=lambda u, t: lacking @ t, sparsity=lacking)) == [(5, 6)]


def test_a_pattern_of_another_shape_is_refused():
    with pytest.raises(fdcheck.InvalidInput, match=r"sparsity: expected shape \(4000, 4000\), outputs by inputs"):
        fdcheck.verify(burgers, U, jacobian=exact, sparsity=np.eye(3))


def test_blocks_and_several_leaves():
    blocks = [np.random.default_rng(k).normal(size=(4, 4)) for k in range(300)]
    matrix = sparse.block_diag(blocks, format="csr")

    def apply(x):
        joined = np.concatenate([x["a"].ravel(), x["b"]])
        image = matrix @ np.sin(joined)
        return {"u": image[:500], "v": image[500:].reshape(7, 100)}

    x0 = {"a": np.linspace(0.1, 1, 800).reshape(20, 40), "b": np.linspace(0.2, 0.9, 400)}
    joined = np.concatenate([x0["a"].ravel(), x0["b"]])
    claim = sparse.csr_array(matrix @ sparse.diags_array(np.cos(joined)))
    report = fdcheck.verify(apply, x0, jacobian=lambda x: claim)
    assert report.passed, str(report)
    assert report.applies <= 10 + 4 * 4 + 10
    assert sum(pair.entries for pair in report.pairs) == claim.nnz
    wrong = claim.tolil()
    wrong[1101, 1103] = 9.0
    report = fdcheck.verify(apply, x0, jacobian=lambda x: wrong.tocsr())
    assert [(f.output, f.output_index, f.input, f.input_index) for f in report.findings] == [("v", (6, 1), "b", (303,))]


@pytest.mark.parametrize("blocks", [False, True])
def test_a_band_and_blocks_are_detected(blocks):
    if blocks:
        matrix = sparse.block_diag([np.random.default_rng(k).normal(size=(5, 5)) for k in range(240)], format="csr")
    else:
        matrix = sparse.diags_array([1.0, -2.0, 3.0, 0.5], offsets=[-3, 0, 1, 7], shape=(1200, 1200), format="csr")
    x0 = np.linspace(0.5, 1.5, 1200)

    def apply(x):
        return matrix @ np.sin(x)

    right = matrix @ sparse.diags_array(np.cos(x0))
    report = fdcheck.verify(apply, x0, jvp=lambda x, t: right @ t, sparsity="detect")
    assert report.passed, str(report)
    assert report.coverage.method.startswith("colours")
    assert report.applies <= 90
    wrong = right.tolil()
    wrong[700, 701] = 9.0
    wrong = wrong.tocsr()
    report = fdcheck.verify(apply, x0, jvp=lambda x, t: wrong @ t, sparsity="detect")
    assert failing(report) == [(700, 701)]


def test_where_no_pattern_is_seen_the_report_says_so():
    matrix = np.random.default_rng(0).normal(size=(60, 60))
    report = fdcheck.verify(lambda x: matrix @ x, np.ones(60), jvp=lambda x, t: matrix @ t, sparsity="detect")
    assert report.passed
    assert any(note.startswith("sparsity: neither a band nor blocks") for note in report.notes)
    with pytest.raises(fdcheck.InvalidInput, match="sparsity: expected a matrix or 'detect', got 'guess'"):
        fdcheck.verify(lambda x: matrix @ x, np.ones(60), jvp=lambda x, t: matrix @ t, sparsity="guess")


def squares_and(*entries):
    """Return the squares of u, with other entries added to single outputs."""

    def apply(u):
        result = u**2
        for i, j, slope in entries:
            result[i] += slope * u[j]
        return result

    return apply


def diagonal(u):
    return sparse.diags_array(2 * u).tocsr()


@pytest.mark.parametrize("seed", range(4))
def test_two_entries_missing_in_one_row_of_a_group_are_named(seed):
    """Their sum leads to neither: a place between them was named, which agreed alone, and the check passed."""
    apply = squares_and((10, 500, 3.0), (10, 1700, 2.0))
    report = fdcheck.verify(apply, U, jacobian=diagonal, seed=seed)
    assert (report.verdict, failing(report)) == ("fail", [(10, 500), (10, 1700)]), str(report)
    assert "not in the pattern: d y[10] / d x[500], d y[10] / d x[1700]" in report.notes[-1]


def test_two_entries_missing_in_a_row_that_has_none_in_the_pattern_are_named():
    def without_its_own(u):
        matrix = diagonal(u).tolil()
        matrix[10, 10] = 0
        return matrix.tocsr()

    def apply(u):
        result = u**2
        result[10] = 3 * u[500] + 2 * u[1700]
        return result

    report = fdcheck.verify(apply, U, jacobian=without_its_own)
    assert (report.verdict, failing(report)) == ("fail", [(10, 500), (10, 1700)])


def test_no_entry_is_accused_that_is_right_where_every_row_lacks_two():
    def apply(u):
        return u**2 + 3 * np.roll(u, 30) + 2 * np.roll(u, -50)

    report = fdcheck.verify(apply, U, jacobian=diagonal)
    assert report.verdict == "fail"
    named = failing(report)
    assert named
    assert all((i - j) % N in (30, N - 50) for i, j in named)
    assert any(f.status is Status.UNDECIDED and "were not told apart" in f.message for f in report.findings)
    assert report.pairs[0].counts["undecided"] >= N - 100


def test_inputs_at_a_bound_are_looked_at_beside_the_groups():
    u = np.where(np.arange(N) % 3 == 0, 0.0, U)

    def lacks_those_at_zero(u):
        return sparse.diags_array(2 * u + (u > 0)).tocsr()

    def full(u):
        return sparse.diags_array(2 * u + 1).tocsr()

    assert fdcheck.verify(lambda u: u**2 + u, u, jacobian=full, bounds=(0, 10)).passed
    report = fdcheck.verify(lambda u: u**2 + u, u, jacobian=lacks_those_at_zero, bounds=(0, 10))
    assert report.verdict == "fail"
    assert all(i == j and u[i] == 0 for i, j in failing(report))


def test_several_entries_of_one_row_and_group_are_found():
    matrix = exact(U).tolil()
    for column in (600, 903, 1500):  # 600 and 903 share a group with each other and with the diagonal of row 300
        matrix[300, column] = 0.7
    report = fdcheck.verify(burgers, U, jacobian=lambda u: matrix.tocsr())
    assert failing(report) == [(300, 600), (300, 903), (300, 1500)]
    lacking = fdcheck.verify(
        lambda u: burgers(u) + np.where(np.arange(N) == 300, 0.7 * (u[600] + u[903]), 0.0), U, jacobian=exact
    )
    assert lacking.verdict == "fail"
    assert failing(lacking) == [(300, 600), (300, 903)]


def test_a_block_that_the_pattern_leaves_out_whole_fails():
    def apply(x):
        return {"u": x["a"] ** 2, "v": np.sin(x["b"]) + 0.1 * x["a"][:3]}

    x0 = {"a": np.linspace(1, 2, 60), "b": np.linspace(0.1, 0.5, 3)}
    diagonal = np.concatenate([2 * x0["a"], np.cos(x0["b"])])
    report = fdcheck.verify(apply, x0, jacobian=lambda x: sparse.diags_array(diagonal, format="csr"))
    assert report.verdict == "fail"
    found = {(f.output, f.output_index, f.input, f.input_index) for f in report.findings}
    assert found == {("v", (k,), "a", (k,)) for k in range(3)}
    assert [pair.failures for pair in report.pairs if (pair.output, pair.input) == ("v", "a")] == [3]


def test_a_block_that_the_pattern_leaves_out_shows_what_was_measured_in_it():
    """Two entries a row add up, so columns are measured alone: their numbers stand in the pair."""

    def apply(x):
        return {"u": x["a"] ** 2, "v": np.sin(x["b"]) + 0.7 * x["a"][:3] + 0.4 * x["a"][30:33]}

    x0 = {"a": np.linspace(1, 2, 60), "b": np.linspace(0.1, 0.5, 3)}
    diagonal = np.concatenate([2 * x0["a"], np.cos(x0["b"])])
    report = fdcheck.verify(apply, x0, jacobian=lambda x: sparse.diags_array(diagonal, format="csr"))
    (pair,) = [pair for pair in report.pairs if (pair.output, pair.input) == ("v", "a")]
    assert pair.failures == 6, str(report)
    assert pair.estimated == pytest.approx(0.7, rel=1e-6) or pair.estimated == pytest.approx(0.4, rel=1e-6)
    assert "nan" not in str(report)
