"""Lines to paste, run by the programs that they are for."""

import os
import shlex
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import jax.test_util
import numpy as np
import pytest
import torch

import fdcheck
from fdcheck.report.pasting import pasted
from tests.adapters.cases import BY_NAME

POINT = {"a": np.array([0.3, 1.2]), "b": np.array([0.7])}


@pytest.fixture(scope="module")
def lines():
    advice = fdcheck.recommend_eps(lambda x: np.sin(x["a"]).sum() * np.exp(x["b"]), POINT)
    return {paste.program: paste.lines for paste in pasted(advice)}


def test_torch_takes_its_line(lines):
    def apply(a, b):
        return torch.sin(a).sum() * torch.exp(b)

    inputs = tuple(torch.tensor(value, requires_grad=True) for value in POINT.values())
    assert eval(lines["torch"][0], {"torch": torch, "apply": apply, "inputs": inputs}) is True


def test_jax_takes_its_line(lines):
    def apply(a, b):
        return jnp.sin(a).sum() * jnp.exp(b)

    with jax.enable_x64(True):
        eval(lines["jax"][0], {"jax": jax, "apply": apply, "args": tuple(POINT.values())})


def test_tesseract_takes_its_line(tmp_path):
    api = BY_NAME["right"].write(tmp_path)
    advice = fdcheck.recommend_eps(lambda x: np.sin(x["x"]), {"x": np.array([0.5, 1.5])})
    ((line,),) = [paste.lines for paste in pasted(advice) if paste.program == "Tesseract"]
    name, *words = shlex.split(line.replace("@payload.json", f"@{tmp_path / 'inputs.json'}"))
    program = shutil.which(name, path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    env = {**os.environ, "TESSERACT_API_PATH": str(api)}
    done = subprocess.run([program, *words], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "vector_jacobian_product passed" in done.stdout + done.stderr
