"""Advice as text: eighty columns, lines that paste, and plain words where there is no safe step."""

import ast
import shlex

import numpy as np
import pytest

import fdcheck
from fdcheck.report import pasting


def model(x):
    return {"u": np.sin(x["small one"] * 1e4) + x["b"].sum() * 1e-6, "v": np.exp(x["b"] * 1e-6)}


POINT = {"small one": np.array([1e-4, 2e-4]), "b": np.array([1e6, 3e6])}


@pytest.fixture(scope="module")
def advice():
    return fdcheck.recommend_eps(model, POINT)


def test_it_fits_eighty_columns_but_for_lines_to_paste(advice):
    lines = str(advice).splitlines()
    pasted = [f"    {line}" for paste in pasting.pasted(advice) for line in paste.lines]
    assert set(pasted) < set(lines)
    assert max(len(line) for line in lines if line not in pasted) <= 80


def test_the_lines_paste(advice):
    lines = [line.strip() for line in str(advice).splitlines()]
    keyword = next(line for line in lines if line.startswith("eps_for="))
    assert ast.literal_eval(keyword.split("=", 1)[1]) == advice.eps_for
    options = shlex.split(next(line for line in lines if line.startswith("--eps-for")))
    assert options[::2] == ["--eps-for"] * 2
    pairs = dict(option.rsplit("=", 1) for option in options[1::2])
    assert {path: float(step) for path, step in pairs.items()} == advice.eps_for


def test_the_top_line_says_what_and_at_what_cost(advice):
    assert str(advice).splitlines()[0] == f"recommended steps: errors safely under 0.001, {advice.applies} applies"


def test_each_path_has_a_line_with_step_range_and_reason(advice):
    text = str(advice)
    for path in advice.paths:
        assert f"{path.eps:.1e}" in text
        assert f"{path.low:.1e} .. {path.high:.1e}  rounding / curvature" in text
    assert "scipy 3-point" in text
    assert "Noise of the outputs: u " in text


def test_no_safe_range_is_said_with_the_reason():
    draw = np.random.default_rng(0)
    noisy = fdcheck.recommend_eps(lambda x: np.sin(x) + 0.1 * draw.normal(size=x.shape), np.array([1.0]))
    assert "none                noise" in str(noisy)
    assert "x: 1 of 1 entry without a safe range: noise (1)." in str(noisy)
    kink = fdcheck.recommend_eps(np.abs, 0.0)
    assert "To paste" not in str(kink)
    assert "kink" in str(kink)


def test_many_paths_are_cut():
    many = fdcheck.recommend_eps(lambda x: sum(x.values()), {f"k{i}": 1.0 + i for i in range(25)})
    assert "... and 5 more in advice.paths" in str(many)
