"""fdcheck replay, --points and --directions, interrupts with their reports, and what files and names may hold."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from click.testing import CliRunner

from fdcheck.cli import main

MODEL = """
import time

import numpy as np

calls = 0


def apply(x):
    return {"y": np.where(x["p"] > 0, x["p"], 0.1 * x["p"])}


def vjp(x, ct):
    return {"p": ct["y"] * np.where(x["p"] > 0, 1.0, 0.2)}


def entropy(p):
    if abs(p.sum() - 1) > 1e-12 or (p < 0).any():
        raise ValueError("not a distribution")
    return -np.sum(p * np.log(p))


def entropy_vjp(p, ct):
    return -ct * (np.log(p) + 1)


def entropy_wrong(p, ct):
    return -ct * np.log(p) * 1.1


def pressing_ctrl_c(x):
    global calls
    calls += 1
    if calls == 40:
        raise KeyboardInterrupt
    return apply(x)


def slow(x):
    global calls
    calls += 1
    if calls == 20:
        print("waiting", flush=True)
        time.sleep(30)
    return apply(x)


def escaping(x):
    raise ValueError("[red]no\\x1b[31m\\nsecond line")
"""

POINT = '{"p": [1, 2, 3]}'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(main, arguments, prog_name="fdcheck")
    assert "Traceback" not in result.output
    return result


def saved(folder, *arguments):
    result = run("verify", *arguments, "--json")
    (folder / "report.json").write_text(result.stdout)
    return json.loads(result.stdout)


def test_a_finding_is_replayed_alone(folder):
    assert run("verify", "model.py:apply", POINT, "--vjp", "vjp").exit_code == 0
    report = saved(folder, "model.py:apply", POINT, "--vjp", "vjp", "--points", "4")
    assert report["verdict"] == "fail"
    for number, finding in enumerate(report["findings"], 1):
        options = ("--finding", str(number), "--json")
        result = run("replay", "report.json", "model.py:apply", POINT, "--vjp", "vjp", *options)
        assert result.exit_code == 1
        (again,) = json.loads(result.stdout)["findings"]
        assert {key: again[key] for key in ("claimed", "input_index", "point")} == {
            key: finding[key] for key in ("claimed", "input_index", "point")
        }


def test_the_report_prints_the_command_that_replays_it(folder):
    arguments = ("model.py:apply", POINT, "--vjp", "vjp", "--points", "4")
    saved(folder, *arguments)
    lines = run("verify", *arguments).stdout.splitlines()
    command = lines[lines.index("To replay finding 1 alone (REPORT.json is what --json prints):") + 1]
    program, *words = shlex.split(command.replace("REPORT.json", "report.json"))
    assert program == "fdcheck"
    result = run(*words)
    assert result.exit_code == 1
    assert "replayed finding 1, vjp disagrees: found again" in result.stdout


def test_a_repaired_derivative_passes(folder):
    saved(folder, "model.py:apply", POINT, "--vjp", "vjp", "--points", "4")
    (folder / "model.py").write_text(MODEL.replace("0.2)", "0.1)"))
    result = run("replay", "report.json", "model.py:apply", POINT, "--vjp", "vjp")
    assert result.exit_code == 0
    assert "not found again" in result.stdout


def test_directions_on_the_command_line(folder):
    (folder / "directions.json").write_text("[[1, -1, 0], [0, 1, -1]]")
    arguments = ("model.py:entropy", "[0.2, 0.3, 0.5]", "--directions", "@directions.json")
    assert run("verify", *arguments, "--vjp", "entropy_vjp").exit_code == 0
    report = saved(folder, *arguments, "--vjp", "entropy_wrong")
    assert report["verdict"] == "fail"
    result = run("replay", "report.json", *arguments, "--vjp", "entropy_wrong")
    assert result.exit_code == 1
    assert "d y / d direction[" in result.stdout
    bad = run("verify", "model.py:entropy", "[0.2, 0.8]", "--directions", "[[1, -1, 0]]", "--vjp", "entropy_vjp")
    assert bad.exit_code == 2
    assert bad.stderr.startswith("fdcheck: directions: expected a stack of shape (k, 2) for x, got shape (1, 3)")


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        (None, (), "report.json: No such file or directory"),
        ("no", ("--vjp", "vjp"), "report: no valid JSON"),
        ('{"schema": "other"}', ("--vjp", "vjp"), "report: expected a JSON object with schema"),
        ("report", (), "jacobian, jvp, vjp: expected at least one of them"),
        ("report", ("--jvp", "vjp"), "vjp: expected the callable that finding 1 is about"),
        ("report", ("--vjp", "vjp", "--finding", "99"), "finding: expected a Finding, or a number from 1 to"),
        ("report", ("--vjp", "vpj"), "model.py has no function 'vpj'"),
    ],
)
def test_what_cannot_be_replayed_is_told_in_one_line(folder, content, arguments, words):
    if content == "report":
        saved(folder, "model.py:apply", POINT, "--vjp", "vjp", "--points", "4")
    elif content is not None:
        (folder / "report.json").write_text(content)
    result = run("replay", "report.json", "model.py:apply", POINT, *arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert words in line


# interrupts


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupted_check_prints_what_was_found(folder, as_json):
    result = run("verify", "model.py:pressing_ctrl_c", POINT, "--vjp", "vjp", "--points", "4",
                 *(["--json"] if as_json else []))  # fmt: skip
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "fdcheck: interrupted"
    if as_json:
        report = json.loads(result.stdout)
        assert report["verdict"] == "inconclusive"
        assert report["applies"] == 40
        assert report["points"][0]["verdict"] == "pass"
    else:
        assert result.stdout.startswith("INCONCLUSIVE")
        assert "the check was interrupted (KeyboardInterrupt) after 40 calls of apply" in result.stdout


def test_a_real_interrupt_prints_what_was_found(folder):
    command = [sys.executable, "-m", "fdcheck", "verify", "model.py:slow", POINT, "--vjp", "vjp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line == "waiting\n":
                break
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 130
    assert err.splitlines() == ["fdcheck: interrupted"]
    assert out.startswith("INCONCLUSIVE")
    assert "after 20 calls of apply" in out


# files are data, and terminals are safe


def test_nothing_but_what_was_named_is_written(folder):
    before = {name: os.stat(name).st_mtime_ns for name in os.listdir(folder)}
    saved_in_memory = run("verify", "model.py:apply", POINT, "--vjp", "vjp", "--points", "3", "--json").stdout
    assert json.loads(saved_in_memory)
    run("verify", "model.py:apply", POINT, "--vjp", "vjp", "--points", "3")
    run("recommend", "model.py:apply", POINT)
    after = {name: os.stat(name).st_mtime_ns for name in os.listdir(folder) if name != "__pycache__"}
    assert after == before


def test_objects_in_npz_files_are_not_read(folder):
    class Payload:
        def __reduce__(self):
            return (os.mkdir, (str(folder / "pwned"),))

    np.savez("evil.npz", p=np.array([Payload()], dtype=object))
    for arguments in (("verify", "model.py:apply", "@evil.npz"), ("recommend", "model.py:apply", "@evil.npz")):
        options = ("--vjp", "vjp") if arguments[0] == "verify" else ()
        result = run(*arguments, *options)
        assert result.exit_code == 2
        assert "expected arrays of numbers and no objects" in result.stderr
    directions = run("verify", "model.py:apply", POINT, "--vjp", "vjp", "--directions", "@evil.npz")
    assert directions.exit_code == 2
    assert not (folder / "pwned").exists()


def test_a_report_names_no_code_that_is_run(folder):
    report = saved(folder, "model.py:apply", POINT, "--vjp", "vjp", "--points", "4")
    (folder / "evil.py").write_text("import os\nos.mkdir('pwned')\n")
    for key in ("settings", "versions", "endpoint_calls"):
        report[key]["evil.py:f"] = "evil.py:f"
    report["apply"] = report["module"] = "evil.py:f"
    (folder / "report.json").write_text(json.dumps(report))
    run("replay", "report.json", "model.py:apply", POINT, "--vjp", "vjp")
    assert not (folder / "pwned").exists()


@pytest.mark.parametrize("command", ["verify", "recommend"])
def test_control_characters_do_not_reach_the_terminal(folder, command):
    point = json.dumps({"[bold]k\x1b[2J": 1.0})
    options = ("--vjp", "vjp") if command == "verify" else ()
    for arguments in (
        (command, "model.py:escaping", point, *options),
        (command, "model.py:apply", point, *options),
        (command, "model.py:no\x1b[2Jpe", point, *options),
        (command, "model.py:apply", "@no\x1b[2Jpe.json", *options),
        (command, "model.py:apply", point, *options, "--input-paths", "\x1b[2J"),
        (command, "model.py:apply", point, *options, "--bounds", "\x1b[2J"),
    ):
        result = run(*arguments)
        assert "\x1b" not in result.output, arguments
        assert all(line.isprintable() for line in result.output.splitlines())
