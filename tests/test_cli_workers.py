"""fdcheck verify with workers: functions found again in new processes, reports as without, nothing left behind."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from click.testing import CliRunner

from fdcheck import loading
from fdcheck.cli import main
from fdcheck.cli_workers import execution

MODEL = """
import os
import time

import numpy as np

print("printed at import")
scale = float(os.environ.get("SCALE", "1"))
square = lambda x: x**2


def apply(x):
    print("printed by apply")
    return np.sin(x) * scale


def vjp(x, cotangent):
    return cotangent * np.cos(x)


def twice(x, cotangent):
    return cotangent * 2 * x


def dies(x):
    if x[0] != 0.5:
        os._exit(7)
    return np.sin(x)


def hangs(x):
    if x[0] != 0.5:
        time.sleep(600)
    return np.sin(x)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model_in_parts.py").write_text(textwrap.dedent(MODEL))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fdcheck(*arguments):
    """Run the command as a user does."""
    command = [sys.executable, "-m", "fdcheck", "verify", "--json", *arguments, "[0.5, 0.25]"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("module", ["model_in_parts", "model_in_parts.py"])
def test_two_processes_give_the_report_of_none(folder, module):
    alone = fdcheck(f"{module}:apply", "--vjp", "vjp")
    several = fdcheck(f"{module}:apply", "--vjp", "vjp", "--workers", "2")
    assert (alone.returncode, several.returncode) == (0, 0), several.stderr
    assert json.loads(several.stdout) == json.loads(alone.stdout)
    assert several.stderr.count("printed by apply") == json.loads(several.stdout)["applies"]


def test_a_lambda_of_a_module_is_found_again(folder):
    several = fdcheck("model_in_parts.py:square", "--vjp", "twice", "--workers", "1")
    assert several.returncode == 0, several.stderr


def test_a_process_that_dies_is_inconclusive(folder):
    result = fdcheck("model_in_parts.py:dies", "--vjp", "vjp", "--workers", "2")
    assert result.returncode == 3, result.stderr
    assert "a worker was lost" in json.loads(result.stdout)["findings"][0]["message"]


def test_a_call_that_hangs_is_inconclusive_and_hinders_no_exit(folder):
    result = fdcheck("model_in_parts.py:hangs", "--vjp", "vjp", "--timeout", "0.5")
    assert result.returncode == 3, result.stderr
    assert "timeout of 0.5 s" in json.loads(result.stdout)["findings"][0]["message"]


def test_processes_that_hang_do_not_outlive_the_command(folder):
    result = fdcheck("model_in_parts.py:hangs", "--vjp", "vjp", "--workers", "2", "--time-limit", "3")
    assert result.returncode == 3, result.stderr
    assert any("time_limit" in note for note in json.loads(result.stdout)["notes"])


# in this process


def run(*arguments):
    return CliRunner().invoke(main, ["verify", "model_in_parts.py:apply", "--vjp", "vjp", *arguments, "[1]"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workers", "2", "--dask", "tcp://127.0.0.1:1"], ["--workers and --dask"]),
        (["--workers", "0"], ["--workers", "0"]),
        (["--timeout", "-1"], ["timeout", "positive", "-1"]),
        (["--time-limit", "nan"], ["time_limit", "nan"]),
    ],
)
def test_what_cannot_be_used_is_one_line(folder, arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    for word in words:
        assert word in result.stderr


def test_dask_that_is_missing_is_said_how_to_get(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = run("--dask", "tcp://127.0.0.1:1")
    assert result.exit_code == 2
    assert "pip install 'fdcheck[dask]'" in result.stderr


def test_without_options_nothing_is_set_up():
    with execution(None, None, None, None) as options:
        assert options == {}
    with execution(None, None, None, 3.0) as options:
        assert options["execution"].time_limit == 3.0
        assert options["execution"].executor is None


@pytest.mark.parametrize("place", ["model_in_parts:apply", "model_in_parts.py:apply"])
def test_a_named_function_is_that_of_its_folder_wherever_the_process_is(folder, tmp_path_factory, monkeypatch, place):
    named = loading.Named(place)
    assert named.folder == os.getcwd()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert named(0.0) == 0.0
    monkeypatch.delitem(sys.modules, "model_in_parts", raising=False)
