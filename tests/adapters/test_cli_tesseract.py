"""The command: targets, payloads, options, exit statuses, and mistakes as one line."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from fdcheck.cli import main
from tests.adapters.cases import BY_NAME, SINE, Case, X
from tests.adapters.test_tesseract import NESTED


def run(*words, **env):
    return CliRunner().invoke(main, ["tesseract", *map(str, words)], prog_name="fdcheck", env=env)


@pytest.fixture
def right(tmp_path):
    return BY_NAME["right"].write(tmp_path / "right")


def test_exit_statuses_follow_the_verdict(right, tmp_path):
    result = run(right, f"@{right.parent / 'inputs.json'}")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("PASS: ")
    assert "vector_jacobian_product 0 failures / 9 checks, 5 calls" in result.stdout
    wrong = BY_NAME["x 1.5"].write(tmp_path / "wrong")
    result = run(wrong, right.parent / "inputs.json", "--max-failures", "1")
    assert result.exit_code == 1
    assert "1. jacobian disagrees: d y[" in result.stdout
    result = run(right, right.parent / "inputs.json", "--eps", "1e-15")
    assert result.exit_code == 3
    assert result.stdout.startswith("INCONCLUSIVE: ")


def test_the_target_may_come_from_the_environment(right):
    result = run(json.dumps({"inputs": X}), TESSERACT_API_PATH=str(right))
    assert result.exit_code == 0, result.output
    result = run(json.dumps({"inputs": X}))
    assert result.exit_code == 2
    assert "TARGET may only be left out where TESSERACT_API_PATH is set" in result.stderr


def test_a_glob_checks_each_payload_and_the_worst_verdict_counts(tmp_path):
    case = BY_NAME["right at x0, wrong for the other sign"]
    path = case.write(tmp_path)
    (tmp_path / "other.json").write_text('{"inputs": {"x": [-0.5, 1.5]}}')
    result = run(path, tmp_path / "*.json")
    assert result.exit_code == 1
    assert "inputs.json\nPASS: " in result.stdout
    assert "other.json\nFAIL: " in result.stdout
    result = run(path, f"@{tmp_path}/*.json", "--json")
    documents = json.loads(result.stdout)
    assert [document["verdict"] for document in documents] == ["pass", "fail"]
    assert documents[1]["payload"].endswith("other.json")
    result = run(path, f"{tmp_path}/o[t]her.json", "--json")
    assert [document["verdict"] for document in json.loads(result.stdout)] == ["fail"]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ("{", "PAYLOAD: no valid JSON: Expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"x": [1.0]}', 'PAYLOAD: expected an object {"inputs": {...}}, got {"x": [1.0]}'),
        ('{"inputs": [1.0]}', "PAYLOAD: expected an object"),
        ("@nothing.json", "PAYLOAD: nothing.json: No such file or directory; expected '{\"inputs\": ...}', @FILE.json"),
        ("no/*.json", "PAYLOAD: no file matches 'no/*.json'"),
        ('{"inputs": {"z": 1}}', "does not accept them: inputs.x: Field required; inputs.z: Extra inputs"),
    ],
)
def test_a_payload_that_is_none(payload, words, right):
    result = run(right, payload)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--eps-for", "x"), "expected PATH=VALUE, got 'x'"),
        (("--eps-for", "y=1"), "eps_for: no differentiable array at 'y'; there are: x"),
        (("--input-paths", "q.{}"), "input_paths: no differentiable array at 'q.{}'; there are: x"),
        (("--endpoints", "hvp"), "endpoints: 'hvp' was asked for"),
        (("--timeout", "-1"), "timeout: expected a positive number"),
        (("--rtol", "x"), "'x' is not a valid float"),
        (("extra",), "expected [TARGET] PAYLOAD, got 3 words"),
    ],
)
def test_options_that_cannot_be_used(words, message, right):
    result = run(right, right.parent / "inputs.json", *words)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_all_options_are_passed_on():
    inputs = f"@{NESTED / 'inputs.json'}"
    result = run(
        NESTED, inputs, "--input-paths", "layers.[].w", "--input-paths", "gains.{a.b}", "--output-paths", "parts.{}",
        "--endpoints", "jvp", "--endpoints", "vector_jacobian_product", "--eps", "1e-4", "--eps-for", "gains.{}=1e-3",
        "--rtol", "1e-2", "--atol", "1e-9", "--max-evals", "50", "--max-output-samples", "2", "--max-failures", "3",
        "--seed", "7", "--profile", "quick", "--bounds", "layers.[0].w=-2,2", "--max-applies", "90",
        "--show-progress", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["seed"] == 7
    assert report["max_failures"] == 3
    assert list(report["endpoint_calls"]) == ["jacobian_vector_product", "vector_jacobian_product"]
    assert {pair["output"] for pair in report["pairs"]} == {"parts.{p.q}"}


def test_like_tesseract(tmp_path):
    path = BY_NAME["x 1.05"].write(tmp_path)
    assert run(path, tmp_path / "inputs.json").exit_code == 1
    assert run(path, tmp_path / "inputs.json", "--like-tesseract").exit_code == 0


def test_what_the_tesseract_prints_stays_off_the_report(tmp_path):
    body = SINE + "\nprint('printed at import')\nquiet = f\nf = lambda x: [print('printed'), quiet(x)][1]\n"
    path = Case("loud", body, X, "pass").write(tmp_path)
    words = [sys.executable, "-m", "fdcheck", "tesseract", str(path), str(tmp_path / "inputs.json"), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert json.loads(done.stdout)["verdict"] == "pass"
    assert "printed at import" in done.stderr


def test_an_interrupt_is_no_verdict(tmp_path):
    body = SINE.replace("np.sin(x) * 2.0", "slow(x)")
    body += "\nimport sys, time\ndef slow(x):\n    open(__file__ + '.called', 'w').close()\n    time.sleep(60)\n"
    path = Case("slow", body, X, "").write(tmp_path)
    words = [sys.executable, "-m", "fdcheck", "tesseract", str(path), str(tmp_path / "inputs.json")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not os.path.exists(f"{path}.called") and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err == "fdcheck: interrupted\n"


def test_a_missing_package_gives_the_command_to_run(monkeypatch, right):
    monkeypatch.setitem(sys.modules, "tesseract_core", None)
    result = run(right, json.dumps({"inputs": X}))
    assert result.exit_code == 2
    assert "pip install 'tesseract-core[runtime]'" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_image_without_docker_is_one_line():
    result = run("no-such-image", json.dumps({"inputs": X}))
    assert result.exit_code == 2
    assert "'no-such-image' is no path to a tesseract_api.py and no address" in result.stderr
    assert result.stderr.count("\n") == 1


def test_the_help_names_what_there_is():
    result = run("--help")
    for word in ("[TARGET] PAYLOAD", "TESSERACT_API_PATH", "l.[0].w", "--like-tesseract", "FDCHECK_TESSERACT_RTOL"):
        assert word in result.stdout
    assert "tesseract " in CliRunner().invoke(main, ["--help"]).stdout


def test_html_writes_a_page_with_the_paths_of_tesseract(tmp_path):
    wrong = BY_NAME["x 1.5"].write(tmp_path)
    page = tmp_path / "report.html"
    result = run(wrong, wrong.parent / "inputs.json", "--html", page)
    assert result.exit_code == 1
    text = page.read_text(encoding="utf-8")
    assert "tessin" not in text
    assert "tessout" not in text
    assert "vector_jacobian_product" in text
    (tmp_path / "other.json").write_text((wrong.parent / "inputs.json").read_text())
    result = run(wrong, tmp_path / "*.json", "--html", page)
    assert result.exit_code == 2
    assert "--html: expected one payload, got 2" in result.stderr
