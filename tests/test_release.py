"""What a release says of itself, and how the installed command is reached."""

import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = PROJECT["version"]


def first(pattern, name):
    return re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)[1]


def test_the_version_is_the_same_everywhere():
    assert importlib.metadata.version("fdcheck") == VERSION
    assert first(r"^version: (\S+)$", "CITATION.cff") == VERSION
    assert first(r"^## (\S+)", "CHANGELOG.md") == VERSION


def test_all_brings_every_extra_that_a_user_may_want():
    extras = PROJECT["optional-dependencies"]
    (all_of,) = extras["all"]
    named = set(re.fullmatch(r"fdcheck\[(.*)\]", all_of)[1].split(","))
    assert named == set(extras) - {
        "all",
        "bench",
        "mutation",
        "test",
        "test-all",
    }  # what develops fdcheck is no use to a user
    assert extras["test-all"][0] == "fdcheck[test,all]"


def test_the_package_can_be_run_as_a_module():
    line = [sys.executable, "-m", "fdcheck", "--version"]
    told = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60).stdout
    assert told == f"fdcheck {VERSION}\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("fdcheck ", {"demo", "profiles", "recommend", "tesseract", "verify"}),
        ("fdcheck rec", {"recommend"}),
        ("fdcheck verify --max-e", {"--max-evals"}),
    ],
)
def test_bash_completes_commands_and_options(words, offered):
    script = f"""
eval "$(_FDCHECK_COMPLETE=bash_source fdcheck)"
COMP_WORDS=({words} {'""' if words.endswith(" ") else ""}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_fdcheck_completion fdcheck
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    path = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}
    )
    assert offered <= set(told.stdout.split()), told.stderr
