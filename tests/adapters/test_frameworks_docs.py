"""What docs/frameworks.rst shows runs as it stands there."""

import re
import textwrap
from pathlib import Path

import pytest
import torch

import fdcheck
from fdcheck.adapters.torch import GradcheckError, gradcheck
from tests.adapters.test_minitorch import Tensor

PAGE = (Path(__file__).parents[2] / "docs" / "frameworks.rst").read_text(encoding="utf-8")
BLOCKS = [textwrap.dedent(text) for text in re.findall(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)", PAGE)]


def test_code_runs(capsys):
    assert len(BLOCKS) == 4
    names = {"Tensor": Tensor}
    for block in BLOCKS:
        exec(compile(block, "docs/frameworks.rst", "exec"), names)
    assert capsys.readouterr().out.startswith("PASS")


def test_the_wrong_backward_is_told_as_shown():
    names = {}
    exec(BLOCKS[0], names)
    session = re.search(r"told like this::\n\n((?:   .*\n|\n)+)", PAGE)[1]
    source = "\n".join(line[4:] for line in textwrap.dedent(session).splitlines() if line.startswith((">>> ", "... ")))
    with pytest.raises(GradcheckError) as caught:
        exec(source, names)
    told = textwrap.dedent(session).partition("GradcheckError: ")[2].split("...\n")
    for part in told:
        assert part.strip() in str(caught.value)


def test_the_note_on_float32_is_the_one_shown():
    x = torch.tensor([0.5, 5.0, 8.0], requires_grad=True)
    report = gradcheck(torch.tanh, x, report=True)
    assert isinstance(report, fdcheck.Report)
    shown = re.search(r"``(float32 does not resolve [^`]*)``", PAGE)[1]
    assert " ".join(shown.split()) in report.notes
