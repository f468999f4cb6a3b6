"""fdcheck recommend: exit statuses, options, JSON, and mistakes as one line."""

import json

import pytest
from click.testing import CliRunner

import fdcheck
from fdcheck.cli import main

MODEL = """
import numpy as np

print("printed at import")
draw = np.random.default_rng(0)


def apply(x):
    print("printed by apply")
    return np.sin(x)


def noisy(x):
    return np.sin(x) + draw.normal(size=np.shape(x))


def two(x):
    return {"u": x["a"] ** 2, "v": np.exp(x["b"])}


def fails(x):
    raise RuntimeError("not today")
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        return CliRunner().invoke(main, ["recommend", *arguments])

    return call


def test_advice_goes_to_stdout_alone_and_the_status_is_0(run):
    result = run("model.py:apply", "[1.0, 2.0]")
    assert result.exit_code == 0
    assert result.stdout.startswith("recommended steps")
    assert "--eps-for x=" in result.stdout
    assert "printed" not in result.stdout
    assert "printed by apply" in result.stderr


def test_json_is_the_advice(run):
    result = run("model.py:two", '{"a": 1e3, "b": 0.1}', "--json", "--rtol", "1e-4", "--seed", "3")
    plain = json.loads(result.stdout)
    assert result.exit_code == 0
    assert plain["eps_for"].keys() == {"a", "b"}
    assert plain["seed"] == 3
    assert plain["rtol"] == 1e-4


def test_paths_and_bounds(run):
    result = run(
        "model.py:two", '{"a": 1e3, "b": 0.1}', "--json", "--input-paths", "a", "--output-paths", "u",
        "--bounds", "a=999,1001",
    )  # fmt: skip
    (block,) = json.loads(result.stdout)["blocks"]
    assert (block["output"], block["input"]) == ("u", "a")
    assert block["above"] == "bounds"
    assert block["high"] <= 1


def test_no_safe_range_is_status_3(run):
    result = run("model.py:noisy", "[1.0]")
    assert result.exit_code == 3
    assert "noise" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model.py:nothing", "1.0"), "no function 'nothing'"),
        (("model.py:fails", "1.0"), "not today"),
        (("model.py:apply", "{"), "no valid JSON"),
        (("model.py:apply", "1.0", "--rtol", "-1"), "rtol"),
        (("model.py:apply", "1.0", "--input-paths", "z"), "input_paths"),
    ],
)
def test_what_cannot_run_is_status_2_and_one_line(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len([line for line in result.stderr.splitlines() if line.startswith("fdcheck: ")]) == 1
    assert not result.stdout


def test_the_steps_it_prints_are_taken_by_verify(run):
    advice = json.loads(run("model.py:apply", "[1.0, 2.0]", "--json").stdout)
    import numpy as np

    assert fdcheck.verify(np.sin, np.array([1.0, 2.0]), jvp=lambda x, t: np.cos(x) * t, eps_for=advice["eps_for"])


def test_html_writes_a_page_beside_the_text(run, tmp_path):
    result = run("model.py:apply", "[1.0, 2.0]", "--html", "advice.html")
    assert result.exit_code == 0
    assert result.stdout.startswith("recommended steps")
    page = (tmp_path / "advice.html").read_text(encoding="utf-8")
    assert "Recommended steps" in page
    assert "scipy 3-point" in page
