"""Tesseracts behind a real server on 127.0.0.1: the same verdicts as in process, and its errors in one line."""

import contextlib
import http.server
import json
import threading

import pytest
from click.testing import CliRunner
from tesseract_core import Tesseract

from fdcheck import InvalidInput, Status, Verdict
from fdcheck.adapters.tesseract import verify
from fdcheck.cli import main
from tests.adapters.cases import BY_NAME, SINE, Case, X
from tests.adapters.test_tesseract import INPUTS, NESTED

NAMES = ("right", "x 1.05", "float32, x^2 at 1e4", "relu at its kink", "jvp keeps the last input's term")


def said(report):
    """Return what has to be the same on both ways."""
    findings = [(f.endpoint, f.status, f.input, f.input_index, f.output, f.output_index) for f in report.findings]
    return report.verdict, findings, report.applies, dict(report.endpoint_calls)


@pytest.mark.parametrize("encoding", ["json", "json+base64"])
@pytest.mark.parametrize("name", NAMES)
def test_a_server_gets_the_verdicts_that_the_file_gets(name, encoding, serve, tmp_path):
    case = BY_NAME[name]
    path = case.write(tmp_path)
    url = serve(path, "--output-format", encoding)
    with Tesseract.from_url(url, timeout=60) as client:
        assert encoding in client.server_capabilities.output_formats
        through_client = verify(client.with_encoding(output_format=encoding), case.inputs)
    assert said(through_client) == said(verify(path, case.inputs)) == said(verify(url, case.inputs))
    assert [run.name for run in (tmp_path / "runs").iterdir()] == ["run_fdcheck"]


def test_the_nested_one_is_checked_through_the_command(serve):
    url = serve(NESTED / "tesseract_api.py")
    words = ["tesseract", url, f"@{NESTED / 'inputs.json'}", "--json", "--input-paths", "gains.{}", "--timeout", "60"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["verdict"] == "pass"
    assert {pair["input"] for pair in report["pairs"]} == {"gains.{a.b}", r"gains.{c\{d\}}"}


@pytest.mark.parametrize("debug", [True, False])
def test_an_endpoint_that_raises_is_told_in_the_words_of_the_server(debug, serve, tmp_path):
    case = BY_NAME["an endpoint that raises"]
    url = serve(case.write(tmp_path), *(["--debug"] if debug else []))
    report = verify(url, case.inputs)
    assert report.verdict is Verdict.FAIL
    (finding,) = report.findings
    assert finding.status is Status.RAISED
    words = "the adjoint is missing (" if debug else "Internal Server Error (its log has file and line; served with"
    assert words in finding.message
    assert ("tesseract_api.py, line" in finding.message) is debug
    assert report.endpoint_calls["vector_jacobian_product"] == 2  # once with a dense vector, once with a unit vector


def test_what_a_server_refuses_ends_the_command_with_its_words(serve, tmp_path):
    body = SINE.replace("np.sin(x) * 2.0", "np.sin(x) / [1, 2][len(x)]")
    url = serve(Case("stuck", body, X, "").write(tmp_path))
    for payload, words in [
        ({"y": [1.0]}, "does not accept them: body.inputs.x: Field required; body.inputs.y: Extra inputs"),
        ({"x": "one"}, "does not accept them: body.inputs.x: Could not parse value"),
        ({"x": [1.0, 2.0]}, "raised Error 500 from Tesseract: Internal Server Error"),
    ]:
        result = CliRunner().invoke(main, ["tesseract", url, json.dumps({"inputs": payload})], prog_name="fdcheck")
        assert result.exit_code == 2
        assert words in result.stderr
        assert result.stderr.startswith("fdcheck: inputs: ")
        assert result.stderr.count("\n") == 1


class Odd(http.server.BaseHTTPRequestHandler):
    """Answers as something that is no Tesseract, or not in time."""

    def do_GET(self):
        wait, status, body = self.server.answer
        self.server.stop.wait(wait)
        with contextlib.suppress(ConnectionError):  # whoever asked did not wait
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def odd():
    """Return a function that starts a server with one answer and returns its address."""
    servers = []

    def start(*answer):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd)
        server.answer, server.stop = answer, threading.Event()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server, thread in servers:
        server.stop.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((0, 200, b"<html>hello</html>"), "gave no schema of a Tesseract: ValueError"),
        ((0, 200, b"{}"), "gave no schema of a Tesseract: KeyError: 'components'"),
        ((0, 404, b"not here"), "gave no schema of a Tesseract: Error 404 from Tesseract: not here"),
        ((0, 200, b'{"components": {"schemas": {}}, "paths": {"/jacobian": {}}}'), "does not tell which of its arrays"),
        ((30, 200, b"{}"), "no answer in time"),
    ],
)
def test_what_is_no_tesseract_is_told_in_one_line(answer, words, odd):
    with pytest.raises(InvalidInput) as caught:
        verify(odd(*answer), X, timeout=0.5)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_not_there():
    with pytest.raises(
        InvalidInput, match=r"http://127\.0\.0\.1:9 gave no schema .* no connection \(Connection refused\)"
    ):
        verify("http://127.0.0.1:9", X)


SLOW = "\nimport os, time\n\ndef slow(x):\n    {}\n    return np.sin(x) * 2.0\n"


def test_an_apply_that_takes_too_long_ends_the_check(serve, tmp_path):
    body = SINE.replace("np.sin(x) * 2.0", "slow(x)") + SLOW.format("time.sleep(0 if x[0] == 0.4 else 30)")
    url = serve(Case("slow", body, X, "").write(tmp_path))
    with pytest.raises(InvalidInput, match="does not answer any more: no answer in time"):
        verify(url, X, timeout=1.0)


def test_a_server_that_dies_ends_the_check(serve, tmp_path):
    body = SINE.replace("np.sin(x) * 2.0", "slow(x)") + SLOW.format("x[0] == 0.4 or os._exit(1)")
    url = serve(Case("dead", body, X, "").write(tmp_path))
    result = CliRunner().invoke(main, ["tesseract", url, json.dumps({"inputs": X})], prog_name="fdcheck")
    assert result.exit_code == 2
    assert "does not answer any more: no connection" in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_endpoint_that_takes_too_long_is_a_finding(serve, tmp_path):
    after = "import time\ndef jacobian(inputs, jac_inputs, jac_outputs):\n    time.sleep(5)\n"
    case = Case("slow", SINE, X, "fail", after)
    report = verify(serve(case.write(tmp_path)), X, timeout=1.0, endpoints=["jacobian"])
    assert [f.status for f in report.findings] == [Status.RAISED]
    assert "no answer in time" in report.findings[0].message


def test_the_inputs_of_the_nested_one_are_as_they_were():
    assert json.loads((NESTED / "inputs.json").read_text())["inputs"] == INPUTS
