"""Plots: what is on the axes, read back from matplotlib itself."""

import dataclasses
import importlib.util

import matplotlib
import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Measured, Status

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

A = np.array([[1.0, -0.5, 0.3], [0.2, 0.8, -1.1]])
X = np.array([0.3, -0.4, 0.9])


def exact(x):
    return (1 - np.tanh(A @ x) ** 2)[:, None] * A


def one_wrong(x):
    jacobian = exact(x)
    jacobian[1, 2] *= 1.2
    return jacobian


@pytest.fixture(scope="module")
def report():
    return fdcheck.verify(lambda x: np.tanh(A @ x), X, jacobian=one_wrong, jvp=lambda x, t: exact(x) @ t)


@pytest.fixture
def ax():
    return Figure(layout="constrained").add_subplot()


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def labels(ax):
    return ax.get_legend_handles_labels()[1]


def line(ax, label):
    return next(each for each in ax.get_lines() if each.get_label() == label)


def test_claims_lie_where_they_were_claimed_and_measured(report, ax):
    assert report.plot("claims", endpoint="jacobian", ax=ax) is ax
    points = {each.get_label(): each.get_offsets() for each in ax.collections}
    assert set(points) == {"agrees (5)", "disagrees (1)"}
    np.testing.assert_allclose(points["disagrees (1)"], [[exact(X)[1, 2], one_wrong(X)[1, 2]]], rtol=1e-4)
    found = points["agrees (5)"]
    expected = np.delete(exact(X).ravel(), 5)
    np.testing.assert_allclose(found, np.stack([expected] * 2, axis=1), rtol=1e-4)


def test_the_map_is_red_where_it_is_wrong_and_blue_elsewhere(report, ax):
    report.plot("map", endpoint="jacobian", ax=ax)
    image = np.asarray(ax.images[0].get_array())
    assert image.shape[:2] == (2, 3)
    red = image[..., 0] > image[..., 2]
    assert red.tolist() == [[False] * 3, [False, False, True]]
    (crosses,) = ax.collections
    assert crosses.get_offsets().tolist() == [[2, 1]]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "y")


def test_steps_show_distance_noise_claim_and_what_is_allowed(report, ax):
    worst = report.findings[0]
    report.plot("steps", ax=ax)
    h, off = line(ax, "measured slopes").get_data()
    assert h.tolist() == [s.eps for s in worst.steps]
    distance = [abs(s.slope - worst.estimated) for s in worst.steps]
    resolved = np.array(distance) > worst.error / 30
    assert resolved.any()
    np.testing.assert_allclose(off[resolved], np.array(distance)[resolved])
    assert line(ax, "the claim").get_ydata()[0] == pytest.approx(0.2 * abs(exact(X)[1, 2]), rel=1e-3)
    assert line(ax, "allowed").get_ydata()[0] == pytest.approx(1e-3 * 1.2 * abs(exact(X)[1, 2]), rel=0.02)
    x, y = line(ax, "noise floor").get_data()
    np.testing.assert_allclose(x * y, worst.noise / np.sqrt(2))
    assert line(ax, "chosen step").get_xdata()[0] == worst.eps
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_truncation_is_a_square_law_through_the_widest_step(ax):
    found = fdcheck.verify(
        lambda x: np.exp(x), np.array([1.0]), jacobian=lambda x: np.array([[3.0]]), eps=0.05, profile="quick"
    )
    found.plot("steps", ax=ax)
    x, y = line(ax, "truncation ~ step²").get_data()
    assert y[-1] / x[-1] ** 2 == pytest.approx(np.e / 6, rel=0.05)
    np.testing.assert_allclose(y / x**2, y[-1] / x[-1] ** 2)
    assert line(ax, "your eps").get_xdata()[0] == 0.05
    assert "chosen step" not in labels(ax)


def test_sides_show_both_slopes_and_the_claim(ax):
    found = fdcheck.verify(np.abs, np.array([0.0]), vjp=lambda x, ct: 3 * ct)
    found.plot("sides", ax=ax)
    assert set(line(ax, "slope on the left").get_ydata()) == {-1.0}
    assert set(line(ax, "slope on the right").get_ydata()) == {1.0}
    assert line(ax, "the claim").get_ydata()[0] == 3.0


def test_a_new_figure_is_made_where_none_is_given(report):
    ax = report.plot()
    assert ax.figure.number in pyplot.get_fignums()
    assert ax.get_title() == "jacobian"
    assert report.plot(endpoint="jvp").get_title() == "jvp"


def test_one_finding_can_be_chosen(report, ax):
    wanted = dataclasses.replace(report.findings[0], input="chosen")
    assert "chosen" in report.plot("steps", finding=wanted, ax=ax).get_title()


def test_a_pass_draws_a_plain_entry(ax):
    found = fdcheck.verify(lambda x: np.tanh(A @ x), X, jacobian=exact)
    assert "agrees" in found.plot("steps", ax=ax).get_title()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"what": "bars"}, "what: expected one of 'map', 'claims', 'steps', 'sides', got 'bars'"),
        ({"endpoint": "vjp"}, "endpoint: expected one of 'jvp', 'jacobian', got 'vjp'|endpoint: .*'jacobian'"),
        ({"what": "sides"}, "nothing to draw for 'sides', since no entry has two sides that differ"),
    ],
)
def test_what_cannot_be_drawn_is_said(report, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        report.plot(**arguments)


def test_nothing_compared_is_nothing_to_draw():
    found = fdcheck.verify(np.sum, np.array([1.0, 2.0]), vjp=lambda x, ct: ct)
    for what in ("map", "claims", "steps"):
        with pytest.raises(InvalidInput, match="there is nothing to draw"):
            found.plot(what)


def test_a_missing_matplotlib_is_named(report, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"matplotlib is not installed; .* 'fdcheck\[report\]'"):
        report.plot()


def test_paths_are_no_formulas_and_are_shortened(ax):
    names = {"$\\frac{a}$": 1.5, "a very long name of a parameter of a layer": 0.5}
    found = fdcheck.verify(lambda x: {k: np.sin(v) for k, v in x.items()}, names, jvp=lambda x, t: {k: t[k] for k in x})
    found.plot(ax=ax)
    ax.figure.draw_without_rendering()
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert any("$" in text for text in texts)
    assert all(len(text) <= 22 for text in texts)


def test_marks_have_flat_colours_in_the_map(ax):
    found = fdcheck.verify(np.abs, np.array([0.0, 0.5]), vjp=lambda x, ct: ct * np.sign(x))
    (evidence,) = found.evidence
    marks = np.array([[2, 3], [0, 1]], np.int8)
    dataclasses.replace(found, evidence=(dataclasses.replace(evidence, marks=marks),)).plot(ax=ax)
    image = np.asarray(ax.images[0].get_array())
    assert image[1, 0, 3] == 0
    assert len({tuple(pixel) for pixel in image.reshape(-1, 4)}) == 4
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"undecided", "kink or jump", "not looked at"}


def test_slopes_of_many_sizes_are_told_apart(report, ax):
    (first, *rest) = report.evidence
    values = np.array([1e-9, 1e-6, 1e-3, 1.0, 1e3])
    wide = dataclasses.replace(
        first, claimed=values, estimated=values, error=0 * values, point_marks=np.ones(5, np.int8)
    )
    dataclasses.replace(report, evidence=(wide, *rest)).plot("claims", ax=ax)
    assert (ax.get_xscale(), ax.get_yscale()) == ("symlog", "symlog")


def test_a_finding_that_is_not_finite_is_drawn(ax):
    found = fdcheck.verify(np.exp, np.array([1.0]), vjp=lambda x, ct: np.full(1, np.nan))
    found.plot("steps", ax=ax)
    assert "the claim" not in labels(ax)


# advice


def test_advice_shows_error_range_and_step(ax):
    advice = fdcheck.recommend_eps(np.exp, np.array([1.0]))
    advice.plot(ax=ax)
    (path,) = advice.paths
    assert line(ax, f"eps {path.eps:.2g}").get_xdata()[0] == path.eps
    h, error = line(ax, "measured error").get_data()
    wide = h > 1e-3
    np.testing.assert_allclose(error[wide], np.sinh(h[wide]) / h[wide] - 1, rtol=1e-3)  # of exp, exactly
    (span,) = [patch for patch in ax.patches if patch.get_label() == "safe range"]
    assert span.get_x() == path.low
    assert span.get_x() + span.get_width() == pytest.approx(path.high)
    assert ax.get_title() == "d y[0] / d x[0]"


def test_advice_draws_the_input_that_is_named():
    advice = fdcheck.recommend_eps(lambda x: np.sin(x["a"]) + x["b"] ** 2, {"a": 1.0, "b": 2.0, "unused": 3.0})
    assert advice.plot("b").get_title() == "d y / d b"
    assert advice.plot().get_title() == "d y / d a"
    with pytest.raises(InvalidInput, match="input: expected one of 'a', 'b', 'unused', got 'c'"):
        advice.plot("c")
    with pytest.raises(InvalidInput, match="no curve to draw for unused"):
        advice.plot("unused")


def test_the_curve_is_that_of_the_entry_with_the_narrowest_range():
    advice = fdcheck.recommend_eps(lambda x: np.array([np.sin(x[0]), np.sin(1e5 * x[1])]), np.array([0.5, 0.5]))
    (curve,) = [path.curve for path in advice.paths]
    assert (curve.output_index, curve.input_index) == ((1,), (1,))
    assert (np.diff(curve.eps) > 0).all()
    assert curve.error.shape == curve.noise.shape == curve.truncation.shape == curve.eps.shape


def test_advice_without_a_safe_range_is_drawn(ax):
    draw = np.random.default_rng(0)
    advice = fdcheck.recommend_eps(lambda x: np.sin(x) + 0.1 * draw.normal(size=x.shape), np.array([1.0]))
    advice.plot(ax=ax)
    assert "safe range" not in labels(ax)


def test_a_kink_has_status_and_sides_by_default():
    found = fdcheck.verify(np.abs, np.array([0.0]), vjp=lambda x, ct: 0 * ct)
    assert found.findings[0].status is Status.KINK
    assert "kink" in found.plot("sides").get_title()
    hidden = dataclasses.replace(found.findings[0], steps=(Measured(1e-3, 0.0, 1e-9, -1e-9),), noise=1.0)
    with pytest.raises(InvalidInput, match="no entry has two sides"):
        dataclasses.replace(found, findings=(hidden,), evidence=()).plot("sides")
