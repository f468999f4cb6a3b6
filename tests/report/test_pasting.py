"""Lines to paste: SciPy takes its own, and steps for programs that take only one are safe for all inputs."""

import dataclasses
import inspect

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize
from scipy.optimize._numdiff import approx_derivative

import fdcheck
from fdcheck.report.pasting import one_step, pasted


def model(x):
    return np.sin(x[0]) * x[1] ** 2 + np.exp(x[2])


POINT = {"a": np.array([0.3, 1.2]), "b": np.array([0.7])}
VECTOR = np.concatenate(list(POINT.values()))
EXACT = np.array([np.cos(0.3) * 1.44, 2 * 1.2 * np.sin(0.3), np.exp(0.7)])


@pytest.fixture(scope="module")
def advice():
    return fdcheck.recommend_eps(lambda x: model(np.concatenate([x["a"], x["b"]])), POINT)


def lines(advice):
    return {paste.program: paste.lines for paste in pasted(advice)}


def test_every_program_has_its_lines(advice):
    assert list(lines(advice)) == ["fdcheck", "Tesseract", "torch", "jax", "SciPy", "OpenMDAO"]


def test_scipy_takes_its_lines_and_measures_the_derivative(advice):
    names = {"np": np, "x0": VECTOR, "fun": model, "approx_derivative": approx_derivative, "minimize": minimize}
    given = lines(advice)["SciPy"]
    exec("\n".join(line for line in given if "step = " in line), names)
    (derivative,) = [eval(line, names) for line in given if line.startswith("approx_derivative(")]
    np.testing.assert_allclose(derivative, EXACT, rtol=1e-8)
    names["fun"] = lambda x: (model(x) - 3) ** 2
    (found,) = [eval(line, names) for line in given if line.startswith("minimize(")]
    assert found.fun < 1e-8
    names |= {"least_squares": least_squares, "fun": lambda x: [model(x) - 3]}
    (solved,) = [eval(line, names) for line in given if line.startswith("least_squares(")]
    assert solved.cost < 1e-12


def test_one_input_has_one_step_for_scipy():
    found = lines(fdcheck.recommend_eps(np.sin, np.array([0.3, 0.4])))["SciPy"]
    assert float(found[0].split(" = ")[1]) > 0


@pytest.mark.parametrize(
    ("program", "call"), [("torch", "torch.autograd.gradcheck"), ("jax", "jax.test_util.check_grads")]
)
def test_programs_with_one_step_get_one_that_is_safe_for_all(advice, program, call):
    (line,) = lines(advice)[program]
    assert line.startswith(f"{call}(apply, ")
    step = float(line.rsplit("eps=", 1)[1].rstrip(")"))
    assert all(path.low <= step <= path.high for path in advice.paths)


def test_no_step_that_suits_all_inputs_is_said_and_not_invented():
    apart = fdcheck.recommend_eps(lambda x: np.sin(x["a"] * 1e12) + np.exp(x["b"] * 1e-9), {"a": 1e-12, "b": 1e9})
    assert one_step(apart) is None
    assert {"torch", "jax"}.isdisjoint(lines(apart))
    assert "none is safe for all: check these one at a time" in " ".join(str(apart).split())


def test_a_common_step_lies_in_every_safe_range(advice):
    low, high = advice.paths
    narrow = (
        dataclasses.replace(low, low=3e-6, high=3.5e-6, eps=3.2e-6),
        dataclasses.replace(high, low=1e-9, high=3.3e-6),
    )
    assert 3e-6 <= one_step(dataclasses.replace(advice, paths=narrow)) <= 3.3e-6
    assert (
        one_step(dataclasses.replace(advice, paths=(dataclasses.replace(low, low=np.nan, high=np.nan), high))) is None
    )


def test_jax_moves_by_normal_deviates_and_stays_in_the_range():
    kink = fdcheck.recommend_eps(lambda x: np.sin(x) * np.abs(x - 1.01), np.array([1.0, 2.0], np.float32))
    step = float(lines(kink)["jax"][0].rsplit("eps=", 1)[1].rstrip(")"))
    assert kink.paths[0].low <= step <= kink.paths[0].high / 4


def test_tesseract_gets_paths_as_it_writes_them():
    nested = fdcheck.recommend_eps(lambda x: np.sum(x["w"]["k"][1] ** 2), {"w": {"k": [np.ones(1), np.ones(2)]}})
    assert list(nested.eps_for) == ["w['k'][0]", "w['k'][1]"]
    assert "'w.{k}.[1]=" in lines(nested)["Tesseract"][0]


def test_nothing_is_offered_where_there_is_no_step():
    kink = fdcheck.recommend_eps(np.abs, 0.0)
    assert pasted(kink) == ()
    partly = fdcheck.recommend_eps(lambda x: np.abs(x["a"]) + x["b"] ** 2, {"a": 0.0, "b": 1.0})
    assert lines(partly)["SciPy"] == ("# not for all inputs: some have no step at all",)
    assert list(partly.eps_for) == ["b"]


def test_the_names_of_scipys_arguments_are_those_of_scipy():
    assert {"rel_step", "abs_step", "method"} <= set(inspect.signature(approx_derivative).parameters)
    assert "diff_step" in inspect.signature(least_squares).parameters
