"""The demo: its problem is right where it says so, and what it prints and writes works."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import fdcheck
from fdcheck import demo as heated_rod
from fdcheck import demo_problem as heat
from fdcheck.cli import main


def demo(*arguments):
    return CliRunner().invoke(main, ["demo", *arguments], prog_name="fdcheck")


def by_complex_step(x0, cotangent):
    """Return the gradient of the weighted outputs without any subtraction."""
    gradient = {name: np.empty_like(array) for name, array in x0.items()}
    for name, array in x0.items():
        for k in range(array.size):
            x = {key: value.astype(complex) for key, value in x0.items()}
            x[name][k] += 1e-30j
            y = heat.apply(x)
            weighted = np.sum(cotangent["temperature"] * y["temperature"]) + cotangent["mean"] * y["mean"]
            gradient[name][k] = weighted.imag / 1e-30
    return gradient


def cotangents():
    rng = np.random.default_rng(0)
    return [{"temperature": rng.normal(size=len(heat.SENSORS)), "mean": rng.normal()} for _ in range(3)]


# the problem


@pytest.mark.parametrize("cotangent", cotangents())
def test_right_derivative_is_right_by_complex_step(cotangent):
    expected = by_complex_step(heat.inputs(), cotangent)
    found = heat.vjp(heat.inputs(), cotangent)
    np.testing.assert_allclose(found["conductivity"], expected["conductivity"], rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(found["source"], expected["source"], rtol=1e-11, atol=1e-14)


def test_wrong_derivative_is_wrong_for_the_conductivity_alone():
    cotangent = cotangents()[0]
    expected, found = heat.vjp(heat.inputs(), cotangent), heat.wrong_vjp(heat.inputs(), cotangent)
    np.testing.assert_array_equal(found["source"], expected["source"])
    assert np.all(np.abs(found["conductivity"] - expected["conductivity"])[1:] > 0.01)


def test_heat_balance():
    x = heat.inputs()
    uniform = {"conductivity": np.full(12, 2.0), "source": np.full(12, 100.0)}
    middle = (np.array(heat.SENSORS) + 0.5) * heat.CELL
    exact = 100.0 / (2 * 2.0) * middle * (12 * heat.CELL - middle)  # q x (L - x) / 2k
    np.testing.assert_allclose(heat.apply(uniform)["temperature"], exact, atol=100.0 * heat.CELL**2 / 2)
    assert 1 < heat.apply(x)["mean"] < 100


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_problem_keeps_its_dtype(dtype):
    x = {name: array.astype(dtype) for name, array in heat.inputs().items()}
    y = heat.apply(x)
    assert y["temperature"].dtype == y["mean"].dtype == dtype
    for vjp in (heat.vjp, heat.wrong_vjp):
        assert {array.dtype for array in vjp(x, y).values()} == {np.dtype(dtype)}


def test_claim_at_the_kink_is_the_slope_of_the_heater_off():
    x = heat.inputs_at_kink()
    assert np.count_nonzero(x["source"] == 0) == 1
    gradient = heat.vjp(x, {"temperature": np.ones(4), "mean": 1.0})["source"]
    np.testing.assert_array_equal(gradient == 0, x["source"] == 0)


@pytest.mark.parametrize("profile", ["default", "quick", "strict"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("point", [heat.inputs, heat.inputs_at_kink])
def test_verdicts_hold_in_every_profile_and_dtype(point, dtype, profile):
    x = {name: array.astype(dtype) for name, array in point().items()}
    assert fdcheck.verify(heat.apply, x, vjp=heat.vjp, profile=profile).verdict == "pass"
    assert fdcheck.verify(heat.apply, x, vjp=heat.wrong_vjp, profile=profile).verdict == "fail"


# what it prints


def test_demo_shows_the_bug_the_report_and_the_table():
    result = demo()
    assert result.exit_code == 0
    for line in (
        "    by_conductivity[:-1] += right**2 * by_face",
        "    print(fdcheck.verify(heat.apply, heat.inputs(), vjp=heat.wrong_vjp))",
        "FAIL: ",
        "vjp disagrees: d temperature",
        "right derivative, float32",
        "a heater at its kink, exactly 0",
    ):
        assert line in result.stdout
    assert "by_conductivity[1:] +=" not in result.stdout
    assert "\x1b" not in result.stdout
    assert result.stdout.splitlines()[-1].startswith("All came out as expected.")


def test_demo_keeps_to_80_columns_where_the_text_is_its_own():
    own = demo().stdout.replace(str(heated_rod._check_wrong()), "")
    assert max(len(line) for line in own.splitlines()) <= 80


@pytest.mark.parametrize("name", ["vjp", "wrong_vjp"])
def test_demo_says_when_something_comes_out_otherwise(monkeypatch, name):
    monkeypatch.setattr(heat, name, heat.wrong_vjp if name == "vjp" else heat.vjp)
    result = demo()
    assert result.exit_code == 1
    assert "NOT all came out as expected" in result.stdout.splitlines()[-1]


# what it writes


def test_written_files_run_as_the_printed_lines_say(tmp_path):
    folder = tmp_path / "a new folder"
    result = demo("--write", str(folder))
    assert result.exit_code == 0
    assert json.loads((folder / "heat.json").read_text()).keys() == {"conductivity", "source"}
    lines = [shlex.split(line) for line in result.stdout.splitlines() if line.startswith("  fdcheck verify ")]
    for line, status in zip(lines, (1, 0), strict=True):
        command = [sys.executable, "-m", *line]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == status, done.stderr
        assert done.stderr == ""
        if status == 1:
            assert "vjp disagrees: d temperature[0] / d conductivity[1]" in done.stdout


@pytest.mark.parametrize("name", ["heat.py", "heat.json"])
def test_nothing_is_overwritten(tmp_path, name):
    (tmp_path / name).write_text("mine")
    result = demo("--write", str(tmp_path))
    assert result.exit_code == 2
    assert result.stderr == f"fdcheck: {tmp_path / name}: exists already; nothing was written\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_file_in_place_of_the_folder_is_one_line(tmp_path):
    (tmp_path / "taken").write_text("")
    result = demo("--write", str(tmp_path / "taken"))
    assert result.exit_code == 2
    assert result.stderr.startswith("fdcheck: ")
    assert result.stderr.count("\n") == 1


def test_real_process():
    done = subprocess.run([sys.executable, "-m", "fdcheck", "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stderr == ""
