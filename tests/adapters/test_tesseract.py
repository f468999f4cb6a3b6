"""verify on Tesseracts in this process: verdicts, costs, names, options and what goes wrong."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tesseract_core import Tesseract
from tesseract_core.runtime.core import load_module_from_path

import fdcheck
from fdcheck import InvalidInput, Status, Verdict
from fdcheck.adapters.tesseract import verify
from tests.adapters.cases import BY_NAME, CASES, SINE, THIRD_PARTY, X64, Case, Ready, X, schemas
from tests.adapters.side_by_side import ours, table, theirs

NESTED = Path(__file__).parent / "examples" / "nested"
INPUTS = json.loads((NESTED / "inputs.json").read_text())["inputs"]
ENDPOINTS = ("jacobian", "jacobian_vector_product", "vector_jacobian_product")


def check(name, tmp_path, **options):
    case = BY_NAME[name]
    return verify(case.write(tmp_path), case.inputs, **options)


def notes(report):
    return " ".join(report.notes)


@pytest.mark.parametrize("case", [*CASES, *THIRD_PARTY], ids=lambda case: case.name)
def test_the_verdict_is_right_and_what_the_tesseract_command_would_say_is_told(case, tmp_path):
    outcome, report = ours(case, tmp_path)
    assert outcome.verdict == case.verdict, str(report)
    worst = report.findings[0].status if report.findings else ""
    assert worst == case.status
    assert outcome.calls["apply"] == report.applies
    assert {name: outcome.calls[name] for name in report.endpoint_calls} == dict(report.endpoint_calls)
    fewer = {"max_evals": 50} if case.status == Status.RAISED else {}  # it takes quadratic time there
    real = theirs(case, tmp_path, **fewer)
    told = notes(report)
    if real.verdict == report.verdict:
        assert "would FAIL" not in told
        assert "would PASS" not in told
    elif case.status == Status.SHAPE:
        assert "it broadcasts, and may pass here" in told
    elif case.name != "one wrong entry of 1000":  # it depends on the seed whether the command draws that entry
        assert f"would {real.verdict.upper()} here" in told


@pytest.mark.parametrize(("profile", "applies"), [("default", 4.5 * 10 + 12), ("quick", 2.5 * 10 + 12)])
def test_a_right_nested_tesseract_keeps_to_its_budget(profile, applies):
    module = load_module_from_path(NESTED / "tesseract_api.py")
    report = verify(module, INPUTS, profile=profile)
    assert report.verdict is Verdict.PASS, str(report)
    assert module.CALLS["apply"] == report.applies <= applies
    assert set(report.endpoint_calls) == set(ENDPOINTS)
    assert all(module.CALLS[name] == calls <= 20 for name, calls in report.endpoint_calls.items())
    assert report.coverage.inputs_measured == 10
    assert {pair.input for pair in report.pairs} == {
        "gains.{a.b}", r"gains.{c\{d\}}", "layers.[0].w", "layers.[1].w", "x", "bias",
    }  # fmt: skip
    assert {pair.output for pair in report.pairs} == {"y", "parts.{p.q}", "energy"}
    assert "not in the payload, not checked: extra" in report.notes
    assert json.loads((NESTED / "inputs.json").read_text())["inputs"] == INPUTS


def test_a_failure_names_both_paths_and_the_index_as_tesseract_does(tmp_path):
    text = (NESTED / "tesseract_api.py").read_text()
    wrong = text.replace("rows[6 + k, 7 + k] += 2 * v[7 + k]", "rows[6 + k, 7 + k] += (3 if k == 1 else 2) * v[7 + k]")
    assert wrong != text
    (tmp_path / "tesseract_api.py").write_text(wrong)
    report = verify(tmp_path, INPUTS)
    assert report.verdict is Verdict.FAIL
    assert {(f.endpoint, f.output, f.output_index, f.input, f.input_index) for f in report.findings} == {
        (endpoint, "parts.{p.q}", (1,), "x", (3,)) for endpoint in ENDPOINTS
    }
    assert "d parts.{p.q}[1] / d x[3]" in str(report)
    assert "tess" not in str(report).replace("Tesseract", "").replace("tesseract-core", "")
    assert json.loads(report.to_json())["versions"]["tesseract-core"]


def test_paths_patterns_and_endpoints_narrow_the_check():
    report = verify(
        NESTED,
        INPUTS,
        input_paths=["layers.[].w", "gains.{a.b}"],
        output_paths=["parts.{}", "energy"],
        endpoints=["vjp", "jacobian"],
    )
    assert report.verdict is Verdict.PASS
    assert {pair.input for pair in report.pairs} == {"gains.{a.b}", "layers.[0].w", "layers.[1].w"}
    assert {pair.output for pair in report.pairs} == {"parts.{p.q}", "energy"}
    assert list(report.endpoint_calls) == ["jacobian", "vector_jacobian_product"]
    assert "not selected, not checked: " in notes(report)
    assert set(report.coverage.elements) == {"gains.{a.b}", "layers.[0].w", "layers.[1].w"}


def test_steps_are_forced_by_path_and_by_pattern():
    report = verify(NESTED, INPUTS, eps=1e-4, eps_for={"gains.{}": 1e-3, "x": 1e-5})
    steps = {pair.input: pair.eps for pair in report.pairs if pair.endpoint == "jacobian" and pair.output == "y"}
    for path, eps in {"gains.{a.b}": 1e-3, "x": 1e-5, "bias": 1e-4}.items():
        assert 0.99 * eps < steps[path] < 2.1 * eps  # a second look takes a step twice as wide
    bounded = verify(NESTED, INPUTS, bounds={"x": (-2.0, 2.0)})
    assert bounded.verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"input_paths": ["y"]}, r"input_paths: no differentiable array at 'y'; there are: bias, gains\.\{a\.b\}"),
        ({"output_paths": ["y.[0]"]}, "output_paths: no differentiable array at 'y"),
        ({"eps_for": {"offset": 1.0}}, "eps_for: no differentiable array at 'offset'"),
        ({"input_paths": ["a..b"]}, "input_paths: expected a path such as"),
        ({"endpoints": ["hessian"]}, "endpoints: 'hessian' was asked for, but .* has jacobian, jacobian_vector"),
        ({"timeout": 0}, "timeout: expected a positive number of seconds, got 0"),
        ({"rtol": -1}, "rtol: expected a number"),
        ({"profile": "fast"}, "profile: expected one of"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, words):
    with pytest.raises(InvalidInput, match=words):
        verify(NESTED, INPUTS, **options)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"x": [1.0]}, r"inputs: .* does not accept them: inputs\.gains: Field required"),
        (INPUTS | {"x": "nonsense"}, r"does not accept them: inputs\.x"),
        (INPUTS | {"x": [float("nan"), 1.0, 1.0, 1.0]}, "expected finite numbers, got nan at x"),
        (INPUTS | {"x": [1.0]}, r"apply of .* raised ValueError: .*tesseract_api\.py, line \d+\)"),
        ([1.0], "inputs: expected a dict of the Tesseract's inputs, got list"),
    ],
)
def test_a_payload_that_cannot_be_used_is_told_in_one_line(inputs, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        verify(NESTED, inputs)
    assert "\n" not in str(caught.value)
    assert "tessin" not in str(caught.value)


def test_targets_that_are_none(tmp_path):
    with pytest.raises(InvalidInput, match="no such file"):
        verify(tmp_path / "nothing.py", {})
    with pytest.raises(InvalidInput, match="no such file"):
        verify(tmp_path, {})
    with pytest.raises(InvalidInput, match=r"there is no docker here|images need Docker"):
        verify("no-such-image", {})
    (tmp_path / "tesseract_api.py").write_text("import numpy\nraise OSError('no licence')\n")
    with pytest.raises(InvalidInput, match=r"cannot be loaded: OSError: no licence \(.*tesseract_api\.py, line 2\)"):
        verify(tmp_path, {})
    case = Case("none", SINE, X, "pass", only=())
    with pytest.raises(InvalidInput, match="has no derivative endpoint"):
        verify(case.write(tmp_path / "bare"), X)


def test_a_tesseract_and_a_module_are_targets_too(tmp_path):
    path = BY_NAME["right"].write(tmp_path)
    assert verify(Tesseract.from_tesseract_api(path), X).verdict is Verdict.PASS
    assert verify(load_module_from_path(path), {"x": np.array(X["x"])}).verdict is Verdict.PASS


def test_a_whole_payload_is_understood_too(tmp_path):
    assert verify(BY_NAME["right"].write(tmp_path), {"inputs": X}).verdict is Verdict.PASS
    body = SINE.replace("    x: Diff", "    inputs: dict[str, int]\n    x: Diff").replace(
        "lambda x", "lambda x, inputs"
    )
    path = Case("own field", body, {}, "pass").write(tmp_path / "own")
    assert verify(path, {"inputs": {"a": 1}, **X}).verdict is Verdict.PASS
    with pytest.raises(InvalidInput, match=r"inputs\.x: Field required"):
        verify(path, {"inputs": {"a": 1}})


def test_nothing_to_move_or_to_compare_is_never_a_pass(tmp_path):
    with pytest.raises(InvalidInput, match="expected at least one floating"):
        verify(BY_NAME["right"].write(tmp_path), {"x": []})
    body = X64 + "\nf = lambda x: {'y': x[:0]}\nd = lambda x: {('y', 'x'): np.zeros((0, len(x)))}\n"
    assert verify(Case("none", body, {}, "").write(tmp_path / "none"), X).verdict is Verdict.INCONCLUSIVE
    integers = schemas("k: Differentiable[Array[(None,), Int64]]", "y: Differentiable[V64]")
    body = integers + "\nf = lambda k: {'y': k * 1.0}\nd = lambda k: {('y', 'k'): np.eye(len(k))}\n"
    with pytest.raises(InvalidInput, match=r"expected at least one differentiable array, got none; .*: k"):
        verify(Case("integers", body, {}, "").write(tmp_path / "integers"), {"k": [1, 2]})
    integers = schemas("x: Differentiable[V64]", "k: Differentiable[Int64]")
    body = integers + "\nf = lambda x: {'k': 3}\nd = lambda x: {('k', 'x'): 0 * x}\n"
    with pytest.raises(InvalidInput, match="no differentiable array of floating numbers"):
        verify(Case("counted", body, {}, "").write(tmp_path / "counted"), X)


def test_an_output_that_comes_and_goes_leaves_entries_open(tmp_path):
    body = schemas("x: Differentiable[V64]", "y: Differentiable[V64]; e: dict[str, Differentiable[Float64]]")
    body += "\nf = lambda x: {'y': np.sin(x), 'e': {'sum': x.sum()} if x[0] == 0.4 else {}}\n"
    body += "d = lambda x: {('y', 'x'): np.diag(np.cos(x)), ('e.{sum}', 'x'): np.ones(len(x))}\n"
    report = verify(Case("shy", body, {}, "").write(tmp_path), X)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "apply returned the structure" in str(report)


def test_what_is_no_array_here_is_noted(tmp_path):
    body = schemas("x: Differentiable[V64]; m: Differentiable[V64] | str", "y: Differentiable[V64]")
    body += "\nf = lambda x, m: {'y': np.sin(x)}\nd = lambda x, m: {('y', 'x'): np.diag(np.cos(x))}\n"
    report = verify(Case("either", body, {}, "").write(tmp_path), {**X, "m": "none"})
    assert report.verdict is Verdict.PASS
    assert "holds no floating array here, not checked: m" in report.notes


def test_an_endpoint_that_raises_is_told_once_with_file_and_line(tmp_path):
    report = check("an endpoint that raises", tmp_path)
    raised = [f for f in report.findings if f.status is Status.RAISED]
    assert len(raised) == 1
    assert raised[0].endpoint == "vector_jacobian_product"
    assert "raised NotImplementedError: the adjoint is missing (" in raised[0].message
    assert "tesseract_api.py, line " in raised[0].message
    assert report.endpoint_calls["vector_jacobian_product"] == 2  # once with a dense vector, once with a unit vector
    assert {pair.endpoint for pair in report.pairs} == {"jacobian", "jacobian_vector_product"}


def test_an_endpoint_that_raises_on_dense_vectors_only(tmp_path):
    case = Case(
        "dense",
        BY_NAME["right, two inputs and outputs"].body,
        BY_NAME["right, two inputs and outputs"].inputs,
        "fail",
        """
whole_jvp = jacobian_vector_product
def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    if len(jvp_inputs) > 1:
        raise NotImplementedError("one input at a time")
    return whole_jvp(inputs, jvp_inputs, jvp_outputs, tangent_vector)
""",
    )
    report = verify(case.write(tmp_path), case.inputs)
    assert report.verdict is Verdict.FAIL
    assert [(f.endpoint, f.status) for f in report.findings] == [("jacobian_vector_product", Status.RAISED)]


def test_an_apply_that_raises_beside_the_payload_leaves_entries_open(tmp_path):
    body = SINE.replace("np.sin(x) * 2.0", "np.sin(x) * (2.0 if x[0] == 0.4 else [][1])")
    report = verify(Case("stuck", body, X, "inconclusive").write(tmp_path), X)
    assert report.verdict is Verdict.INCONCLUSIVE
    told = str(report)
    assert "apply raised IndexError" in " ".join(told.split())
    assert "Raised" not in told


def test_terms_that_are_lost_are_named(tmp_path):
    report = check("jvp keeps the last input's term", tmp_path / "1")
    assert re.search(
        r"not the sum of its answers to unit vectors; it differs .* at [pq]\[\d\]", report.findings[0].message
    )
    assert "holds the term of b alone" in report.findings[0].message
    assert "would PASS here: it calls a jvp and a vjp with one-hot vectors" in notes(report)
    report = check("vjp keeps the last output's term", tmp_path / "2")
    assert "holds the term of q alone" in report.findings[0].message
    report = check("jvp = f(sign(tangent))", tmp_path / "3")
    assert "depends on the signs" in report.findings[0].message


def test_a_shape_that_the_schema_forbids_is_a_breach_of_shape(tmp_path):
    case = Case("flat", SINE, X, "fail", "claimed = lambda inputs: {('y', 'x'): np.ones(3)}", only=("jacobian",))
    report = verify(case.write(tmp_path), X)
    assert [f.status for f in report.findings] == [Status.SHAPE]
    assert "wrong number of dimensions" in report.findings[0].message


def test_a_block_that_is_missing_is_a_breach_of_structure(tmp_path):
    case = Case("less", SINE, X, "fail", "def jacobian(inputs, jac_inputs, jac_outputs):\n    return {'y': {}}\n")
    report = verify(case.write(tmp_path), X, endpoints="jacobian")
    assert [f.status for f in report.findings] == [Status.STRUCTURE]


def test_a_jacobian_of_a_shorter_dtype_is_noted_and_judged(tmp_path):
    after = "right = claimed\nclaimed = lambda inputs: {k: v.astype(np.float32) for k, v in right(inputs).items()}\n"
    report = verify(Case("short", SINE, X, "pass", after, only=("jacobian",)).write(tmp_path), X)
    assert report.verdict is Verdict.PASS
    assert "jacobian returns float32 for y by x, whose values are float64" in report.notes


def test_the_steps_with_which_the_command_would_agree_are_such(tmp_path):
    for number, name in enumerate(("float32, x^2 at 1e4", "log at 1.5e-4", "vectoradd in float32, inputs of 1e5")):
        case = BY_NAME[name]
        report = verify(case.write(tmp_path / str(number)), case.inputs)
        advice = next(note for note in report.notes if note.startswith("it would agree with --eps-for"))
        steps = {}
        for word in advice.removeprefix("it would agree with ").split(";")[0].split("--eps-for "):
            path, _, value = word.strip().strip("'").rpartition("=")
            if path:
                steps[path] = float(value)
        from tesseract_core.runtime.testing.finite_differences import check_gradients

        module = load_module_from_path(tmp_path / str(number) / "tesseract_api.py")
        known = {pair.input for pair in report.pairs}
        every = {path: steps.get(path, 1e-4) for path in known}
        found = list(check_gradients(module, {"inputs": case.inputs}, eps=every, seed=0, show_progress=False))
        assert not any(failures for _, failures, _ in found), (name, steps)


def test_at_a_kink_no_step_helps_the_command(tmp_path):
    report = check("relu at its kink", tmp_path)
    assert "no step tried makes it agree on x" in notes(report)


def test_a_point_on_one_side_says_that_more_are_needed(tmp_path):
    report = check("right at x0, wrong for the other sign", tmp_path)
    assert "needs more points (payloads) to show" in notes(report)
    assert "x >= 0" in notes(report)
    wrong = verify(tmp_path / "tesseract_api.py", {"x": [-0.5, 1.5]})
    assert wrong.verdict is Verdict.FAIL
    assert "more points" not in notes(check("right", tmp_path / "both"))


def test_like_tesseract_takes_its_numbers_and_options_win_over_them(tmp_path):
    report = check("x 1.05", tmp_path / "1", like_tesseract=True)
    assert report.verdict is Verdict.PASS
    report = check("x 1.05", tmp_path / "2", like_tesseract=True, rtol=1e-3)
    assert report.verdict is Verdict.FAIL


def test_the_environment_sets_options(tmp_path, monkeypatch):
    monkeypatch.setenv("FDCHECK_RTOL", "1e-3")
    monkeypatch.setenv("FDCHECK_TESSERACT_RTOL", "0.1")
    assert check("x 1.05", tmp_path / "1").verdict is Verdict.PASS
    assert check("x 1.05", tmp_path / "2", rtol=1e-3).verdict is Verdict.FAIL
    monkeypatch.setenv("FDCHECK_TESSERACT_RTOL", "much")
    with pytest.raises(InvalidInput, match="environment variable FDCHECK_TESSERACT_RTOL: rtol: expected"):
        check("right", tmp_path / "3")
    monkeypatch.delenv("FDCHECK_TESSERACT_RTOL")
    monkeypatch.setenv("FDCHECK_TESSERACT_LIKE_TESSERACT", "true")
    assert check("x 1.05", tmp_path / "4").verdict is Verdict.PASS
    monkeypatch.setenv("FDCHECK_TESSERACT_ENDPOINTS", "jacobian")
    assert list(check("right", tmp_path / "5").endpoint_calls) == ["jacobian"]
    monkeypatch.setenv("FDCHECK_TESSERACT_TIMEOUT", "soon")
    with pytest.raises(InvalidInput, match="timeout: expected a positive number of seconds, got 'soon'"):
        check("right", tmp_path / "6")


def test_budgets_and_samples(tmp_path):
    report = check("one wrong entry of 1000", tmp_path, max_applies=120, max_evals=10)
    assert report.applies <= 120
    assert "check-gradients" not in notes(report)  # no applies are left for it
    sampled = verify(NESTED, INPUTS, max_evals=6, max_output_samples=4)
    assert sampled.verdict is Verdict.PASS
    assert sampled.endpoint_calls["vector_jacobian_product"] <= 6 + 12
    assert "max_evals" in notes(sampled)


def test_progress_is_told(tmp_path):
    seen = []
    report = check("right", tmp_path, progress=lambda step: seen.append((step.done, step.expected)))
    assert seen
    assert seen[-1][0] <= report.applies


def test_an_interrupt_goes_through(tmp_path):
    body = SINE.replace("np.sin(x) * 2.0", "np.sin(x) * (2.0 if x[0] == 0.4 else stop())")
    case = Case("stop", body + "\ndef stop():\n    raise KeyboardInterrupt\n", X, "")
    with pytest.raises(KeyboardInterrupt):
        verify(case.write(tmp_path), X)


def test_a_missing_package_gives_the_command_to_run(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tesseract_core", None)
    with pytest.raises(ImportError, match=r"pip install 'tesseract-core\[runtime\]'"):
        verify(tmp_path, {})


def test_complex_arrays_are_checked(tmp_path):
    body = """
class InputSchema(BaseModel):
    z: Differentiable[Array[(None,), "complex128"]]
class OutputSchema(BaseModel):
    w: Differentiable[Array[(None,), "complex128"]]
f = lambda z: {"w": z**2}
d = lambda z: {("w", "z"): np.diag(2 * z)}
"""
    inputs = {"z": np.array([1 + 2j, 0.5 - 1j])}
    report = verify(Case("complex", body, {}, "pass", only=("jacobian",)).write(tmp_path), inputs)
    assert report.verdict is Verdict.PASS, str(report)


def test_the_table_of_the_documentation_is_made_of_the_same_cases():
    text = table((BY_NAME["right"], BY_NAME["x 1.05"]))
    assert text.startswith(".. list-table::")
    assert "     - **pass**" in text
    assert isinstance(CASES[2], Ready)
    page = (Path(fdcheck.__file__).parents[1] / "docs" / "tesseract.rst").read_text()
    for case in (*CASES, *THIRD_PARTY):
        assert f"* - {case.name}\n" in page
