"""Workers of a real Dask cluster on this machine: the report as without, functions that only cloudpickle can send."""

import os
import subprocess
import sys
import textwrap

import dask
import numpy as np
import pytest
from click.testing import CliRunner
from distributed import Client, LocalCluster

import fdcheck
from fdcheck import Execution, InvalidInput, Status, Verdict
from fdcheck.cli import main

X0 = np.linspace(0.1, 0.9, 6)

MODEL = """
import numpy as np


def apply(x):
    return np.sin(x)


def vjp(x, cotangent):
    return cotangent * np.cos(x)


def wrong(x, cotangent):
    return -cotangent * np.cos(x)
"""


def vjp(x, ct):
    return ct * np.cos(x)


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": None}
    no_retry = dask.config.set({"distributed.scheduler.allowed-failures": 0})
    with no_retry, LocalCluster(**options, silence_logs=50) as cluster, Client(cluster) as client:
        yield client


@pytest.mark.filterwarnings("ignore")  # those of Dask
@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_right_and_wrong_claims_get_the_same_report(client, factor):
    def apply(x):  # a closure, which pickle cannot send
        return np.sin(x) * np.ones_like(X0)

    def claim(x, ct):
        return factor * vjp(x, ct)

    alone = fdcheck.verify(apply, X0, vjp=claim)
    report = fdcheck.verify(apply, X0, vjp=claim, execution=Execution(executor=client.get_executor()))
    assert report.to_dict() == alone.to_dict()
    assert report.verdict is (Verdict.PASS if factor == 1.0 else Verdict.FAIL)


@pytest.mark.filterwarnings("ignore")
def test_what_apply_raises_in_a_worker_is_told_with_its_line(client):
    def apply(x):
        if x[3] > X0[3] + 1e-8:
            raise ValueError("too far")
        return np.sin(x)

    alone = fdcheck.verify(apply, X0, vjp=vjp)
    report = fdcheck.verify(apply, X0, vjp=vjp, execution=Execution(executor=client.get_executor()))
    assert report.pairs == alone.pairs
    note = next(note for note in report.notes if "ValueError: too far (" in note)
    line = apply.__code__.co_firstlineno + 2
    assert f"line {line})" in note  # Dask sends a closure without the name of its file


@pytest.mark.filterwarnings("ignore")
def test_a_worker_that_dies_is_inconclusive(client):
    def apply(x):
        if x[3] != X0[3]:
            os._exit(1)
        return np.sin(x)

    report = fdcheck.verify(apply, X0, vjp=vjp, execution=Execution(executor=client.get_executor()))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert (report.findings[0].endpoint, report.findings[0].status) == ("apply", Status.UNDECIDED)


@pytest.mark.filterwarnings("ignore")
def test_the_command_takes_the_address_of_a_scheduler(client, tmp_path):
    (tmp_path / "model_for_dask.py").write_text(textwrap.dedent(MODEL))
    address = client.scheduler.address
    for place, claim, status in (("model_for_dask.py", "vjp", 0), ("model_for_dask", "wrong", 1)):
        command = [sys.executable, "-m", "fdcheck", "verify", f"{place}:apply", "--vjp", claim, "--dask", address]
        found = subprocess.run(
            [*command, "[1, 2]"], capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False
        )
        assert found.returncode == status, found.stderr


def test_an_address_where_nobody_answers_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("fdcheck.cli_workers._DASK_SECONDS", 0.2)
    (tmp_path / "model_for_dask.py").write_text(textwrap.dedent(MODEL))
    place = f"{tmp_path / 'model_for_dask.py'}:apply"
    result = CliRunner().invoke(main, ["verify", place, "--vjp", "vjp", "--dask", "tcp://127.0.0.1:9", "[1]"])
    assert result.exit_code == 2
    assert "no scheduler answers at tcp://127.0.0.1:9" in result.stderr


def test_a_client_is_not_an_executor(client):
    with pytest.raises(InvalidInput, match="get_executor"):
        Execution(executor=client)
