"""The command line: every exit status, every kind of input, every mistake as one line."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import tomllib

import numpy as np
import pytest
from click.testing import CliRunner

from fdcheck import api
from fdcheck.cli import main

MODEL = """
import sys
import time
from dataclasses import dataclass

import numpy as np

print("printed at import")


@dataclass
class Scale:
    by: float = 1.0


def apply(x):
    print("printed by apply")
    return np.sin(x)


def vjp(x, cotangent):
    return cotangent * np.cos(x)


def wrong(x, cotangent):
    return -cotangent * np.cos(x)


def jvp(x, tangent):
    return tangent * np.cos(x)


def jacobian(x):
    return np.diag(np.cos(x))


def many(x):
    return {"sum": sum(np.sum(np.asarray(leaf) ** 2) for leaf in numbers(x))}


def many_jvp(x, tangent):
    return {"sum": 2 * sum(np.sum(np.asarray(a) * np.asarray(b)) for a, b in zip(numbers(x), numbers(tangent)))}


def numbers(x):
    if isinstance(x, dict):
        return [leaf for key in sorted(x) for leaf in numbers(x[key])]
    if isinstance(x, list):
        return [leaf for part in x for leaf in numbers(part)]
    return [x] if np.asarray(x).dtype.kind == "f" else []


def told(x):
    sys.stderr.write(repr(x))
    return 1.0 * x["a"]


def bracketed(x):
    return {"[red]y": x["[bold]k"] ** 2}


def bracketed_jvp(x, tangent):
    return {"[red]y": 2 * tangent["[bold]k"]}


def nothing(x):
    return x * float("nan")


def rooted(x):
    return np.sqrt(x)


def rooted_vjp(x, cotangent):
    return cotangent / (2 * np.sqrt(x))


def leaving(x):
    sys.exit(0)


def pressing_ctrl_c(x):
    raise KeyboardInterrupt


def waiting(x):
    sys.stderr.write("waiting\\n")
    sys.stderr.flush()
    time.sleep(60)


constant = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A current directory with a model in it, and a search path and modules that are restored."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "model.py").write_text(MODEL)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def run(*arguments):
    result = CliRunner().invoke(main, arguments, prog_name="fdcheck")
    assert "Traceback" not in result.output
    assert isinstance(result.exception, SystemExit | None), result.exception
    return result


def complaint(*arguments):
    """Return the one line on stderr of a run that could not start."""
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("printed ")]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("fdcheck: ")
    return lines[0]


def seen(inputs):
    """Return the input as ``told`` showed it when it was called first."""
    result = run("verify", "model.py:told", "--jvp", "jvp", inputs)
    return result.stderr.removeprefix("printed at import\n")


# verdicts


@pytest.mark.parametrize("endpoint", ["jacobian", "jvp", "vjp"])
@pytest.mark.parametrize("module", ["model.py", "./model.py", "model"])
def test_right_endpoint_passes_with_status_0(folder, module, endpoint):
    result = run("verify", f"{module}:apply", f"--{endpoint}", endpoint, "[0.5, 1, -2]")
    assert result.exit_code == 0
    assert result.stdout.startswith("PASS")


def test_wrong_endpoint_fails_with_status_1(folder):
    result = run("verify", "model.py:apply", "--jvp", "jvp", "--vjp", "wrong", "[0.5, 1]")
    assert result.exit_code == 1
    assert result.stdout.startswith("FAIL")
    assert "vjp disagrees" in result.stdout


def test_unmeasurable_function_is_inconclusive_with_status_3(folder):
    result = run("verify", "model.py:nothing", "--vjp", "vjp", "[0.5, 1]")
    assert result.exit_code == 3
    assert result.stdout.startswith("INCONCLUSIVE")


def test_interrupted_check_has_status_130_and_one_line(folder):
    result = run("verify", "model.py:pressing_ctrl_c", "--vjp", "vjp", "[1]")
    assert result.exit_code == 130
    assert result.stdout.startswith("INCONCLUSIVE: nothing could be measured")
    assert result.stderr.splitlines()[-1] == "fdcheck: interrupted"


def test_endpoint_may_live_in_another_module(folder):
    (folder / "other").mkdir()
    (folder / "other" / "claims.py").write_text("import numpy as np\ndef vjp(x, ct):\n    return ct * np.cos(x)\n")
    assert run("verify", "model:apply", "--vjp", "other/claims.py:vjp", "[1, 2]").exit_code == 0
    assert run("verify", "model:apply", "--vjp", "other.claims:vjp", "[1, 2]").exit_code == 0


def test_file_may_import_its_neighbour_and_bear_the_name_of_a_known_module(folder):
    (folder / "deep").mkdir()
    (folder / "deep" / "neighbour_of_random.py").write_text("import numpy as np\nderivative = np.cos\n")
    (folder / "deep" / "random.py").write_text(
        "import numpy as np\nfrom neighbour_of_random import derivative\napply = np.sin\n"
        "def vjp(x, ct):\n    return ct * derivative(x)\n"
    )
    before = sys.modules.get("random")
    assert run("verify", "deep/random.py:apply", "--vjp", "vjp", "1").exit_code == 0
    assert sys.modules.get("random") is before


# output


def test_json_is_alone_on_stdout_and_has_the_verdict(folder):
    result = run("verify", "model.py:apply", "--vjp", "wrong", "--json", "[0.5]")
    report = json.loads(result.stdout)
    assert result.exit_code == 1
    assert report["verdict"] == "fail"
    assert report["findings"][0]["input"] == "x"
    assert "printed by apply" in result.stderr


def test_square_brackets_in_paths_are_no_markup(folder):
    result = run("verify", "model.py:bracketed", "--jvp", "bracketed_jvp", '{"[bold]k": [3.0]}')
    assert result.exit_code == 1
    assert "y['[red]y'][0] / d x['[bold]k'][0]" in result.stdout


def test_letters_that_the_terminal_lacks_do_not_become_the_status(folder):
    command = [sys.executable, "-m", "fdcheck", "verify", "model.py:many", "--jvp", "many_jvp", '{"λ": [1.0]}']
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, check=False)
    assert done.returncode == 0, done.stderr
    assert b"\\u03bb" in done.stdout


def test_version():
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout == "fdcheck 0.1.0\n"


@pytest.mark.parametrize("command", [[], ["verify"], ["demo"], ["profiles"], ["profiles", "show"]])
def test_help_has_an_example_on_a_line_of_its_own(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert re.search(r"Examples?:\n  ", textwrap.dedent(result.stdout.replace("\n  ", "\n")))


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from fdcheck.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print([m for m in ('numpy', 'numba', 'rich', 'scipy', 'optree') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# pages and colours


def test_html_writes_a_page_beside_the_text(folder):
    result = run("verify", "model.py:apply", "--vjp", "wrong", "--html", "report.html", "[0.5]")
    assert result.exit_code == 1
    assert result.stdout.startswith("FAIL")
    assert "wrote report.html" in result.stderr
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "d y[0] / d x[0]" in page
    again = run("verify", "model.py:apply", "--vjp", "wrong", "--html", "report.html", "--json", "[0.5]")
    assert json.loads(again.stdout)["verdict"] == "fail"


@pytest.mark.parametrize("place", ["missing/report.html", "."])
def test_a_page_that_cannot_be_written_is_told_before_the_check(folder, place):
    line = complaint("verify", "model.py:apply", "--vjp", "wrong", "--html", place, "[0.5]")
    assert "--html" in line
    assert repr(place) in line


def test_a_missing_library_is_told_before_the_check(folder, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    line = complaint("verify", "model.py:apply", "--vjp", "wrong", "--html", "report.html", "[0.5]")
    assert "pip install 'fdcheck[report]'" in line


def test_a_full_disk_is_no_verdict(folder):
    result = run("verify", "model.py:apply", "--vjp", "vjp", "--html", "/dev/full", "[0.5]")
    assert result.exit_code == 2
    assert "--html /dev/full: No space left on device" in result.stderr


def test_colours_are_for_terminals_and_no_color_is_heeded(folder, monkeypatch):
    arguments = ("verify", "model.py:apply", "--vjp", "wrong", "[0.5]")
    plain = run(*arguments).stdout
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = run(*arguments).stdout
    assert "\x1b[1;31mFAIL\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in run(*arguments).stdout


# options


def options_seen(monkeypatch, *arguments):
    """Return what verify is called with."""
    calls = []
    genuine = api.verify

    def note(**options):
        calls.append(options)
        return genuine(np.sin, 1.0, jvp=lambda x, t: t * np.cos(x))

    monkeypatch.setattr(api, "verify", note)
    result = run("verify", "model.py:apply", "--jvp", "jvp", "1", *arguments)
    assert result.exit_code == 0, result.stderr
    return {name: value for name, value in calls[0].items() if name not in ("apply", "jvp", "x0")}


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--rtol", "0", "--atol", "1e-9", "--eps", "1e-3"], {"rtol": 0.0, "atol": 1e-9, "eps": 1e-3}),
        (["--eps-for", "a['b=c'][0]=1e-3", "--eps-for", "d=2"], {"eps_for": {"a['b=c'][0]": 1e-3, "d": 2.0}}),
        (["--bounds", "a=-1,1", "--bounds", "*=0,inf"], {"bounds": {"a": (-1.0, 1.0), "*": (0.0, float("inf"))}}),
        (["--input-paths", "a", "--input-paths", "b*"], {"input_paths": ("a", "b*")}),
        (["--output-paths", "y"], {"output_paths": ("y",)}),
        (["--endpoints", "jvp", "--endpoints", "vjp"], {"endpoints": ("jvp", "vjp")}),
        (["--skip", "nonlinear,layout", "--skip", "dtype"], {"skip": ("nonlinear,layout", "dtype")}),
        (["--seed", "0", "--profile", "strict"], {"seed": 0, "profile": "strict"}),
        (["--max-evals", "5", "--max-applies", "99"], {"max_evals": 5, "max_applies": 99}),
        (["--max-output-samples", "3", "--max-failures", "0"], {"max_output_samples": 3, "max_failures": 0}),
        (["--no-show-progress"], {}),
    ],
)
def test_options_arrive_under_their_python_names(folder, monkeypatch, arguments, options):
    assert options_seen(monkeypatch, *arguments) == {"progress": None, **options}


def test_every_option_of_verify_can_be_given():
    on_command_line = {parameter.name for parameter in main.commands["verify"].params}
    in_python = set(inspect.signature(api.verify).parameters)
    assert in_python - {"x0", "contract", "sparsity", "execution"} <= on_command_line
    assert {"workers", "dask", "timeout", "time_limit"} <= on_command_line


def test_profiles_are_listed_and_shown():
    listed = run("profiles")
    assert listed.exit_code == 0
    names = [line.split()[0] for line in listed.stdout.splitlines() if not line.startswith(" ")]
    assert names == ["default", "noisy", "quick", "strict"]
    assert all(len(line) <= 80 for line in listed.stdout.splitlines())
    shown = run("profiles", "show", "noisy")
    assert shown.exit_code == 0
    assert tomllib.loads(shown.stdout)["rtol"] == 0.02
    unknown = run("profiles", "show", "nosy")
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith("fdcheck: profile: expected one of default, noisy, quick, strict, got 'nosy'")


def test_progress_is_a_bar_on_stderr_and_leaves_stdout_alone(folder):
    quiet = run("verify", "model.py:apply", "--jvp", "jvp", "--json", "[1, 2]")
    shown = run("verify", "model.py:apply", "--jvp", "jvp", "--json", "--show-progress", "[1, 2]")
    assert json.loads(shown.stdout) == json.loads(quiet.stdout)
    assert "calls of apply" in shown.stderr
    assert "calls of apply" not in quiet.stderr


def test_json_names_its_form(folder):
    result = run("verify", "model.py:apply", "--jvp", "jvp", "--json", "[1, 2]")
    assert json.loads(result.stdout)["schema"] == "fdcheck-report-1"


def test_step_is_forced_on_one_part_alone(folder):
    result = run("verify", "model.py:many", "--jvp", "many_jvp", "--json", '{"a": [1], "b": [1]}', "--eps-for", "a=0.5")
    eps = {pair["input"]: pair["eps"] for pair in json.loads(result.stdout)["pairs"]}
    assert 0.125 <= eps["a"] <= 2
    assert eps["b"] < 0.125


def test_bounds_keep_the_function_in_its_domain(folder):
    result = run("verify", "model.py:rooted", "--vjp", "rooted_vjp", "[1e-3, 1.0]", "--bounds", "x=0,1")
    assert result.exit_code == 0


# inputs


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ('{"a": [1, 2]}', "{'a': array([1., 2.])}"),
        ('{"a": [[1, 2], [3, 4]]}', "{'a': array([[1., 2.], [3., 4.]])}"),
        ('{"a": 3}', "{'a': 3.0}"),
        ('{"a": 1, "n": {"dtype": "int64", "value": 3}}', "{'a': 1.0, 'n': np.int64(3)}"),
        ('{"a": 1, "n": {"dtype": "uint8", "value": [255]}}', "{'a': 1.0, 'n': array([255], dtype=uint8)}"),
        ('{"a": 1, "n": {"dtype": "bool", "value": [true]}}', "{'a': 1.0, 'n': array([ True])}"),
        ('{"a": {"dtype": "float32", "value": [1, 2.5]}}', "{'a': array([1. , 2.5], dtype=float32)}"),
        ('{"a": {"dtype": "complex128", "value": [1]}}', "{'a': array([1.+0.j])}"),
        ('{"a": 1, "b": [[1, 2], [3]]}', "{'a': 1.0, 'b': [array([1., 2.]), array([3.])]}"),
        ('{"a": 1, "b": [1, "s", true, null]}', "{'a': 1.0, 'b': [1.0, 's', True, None]}"),
        ('{"a": 1, "b": [true, false]}', "{'a': 1.0, 'b': [True, False]}"),
        ('{"a": 1, "b": []}', "{'a': 1.0, 'b': array([], dtype=float64)}"),
        ('{"a": 1, "b": {"c": 1, "dtype": 2, "value": 1}}', "{'a': 1.0, 'b': {'c': 1.0, 'dtype': 2.0, 'value': 1.0}}"),
    ],
)
def test_json_becomes_arrays_floats_and_leaves(folder, inputs, expected):
    text = " ".join(seen(inputs).split())
    assert text.startswith(expected.replace("np.int64(3)", repr(np.int64(3)))), text


@pytest.mark.parametrize("inputs", ["0.5", '{"dtype": "float64", "value": [0.5]}'])
def test_whole_input_may_be_one_number_or_array(folder, inputs):
    assert run("verify", "model.py:apply", "--vjp", "vjp", inputs).exit_code == 0


def test_negative_number_stands_after_two_dashes(folder):
    assert run("verify", "model.py:apply", "--vjp", "vjp", "--", "-0.5").exit_code == 0


def test_ragged_lists_are_differentiated_and_others_carried_along(folder):
    inputs = '{"b": [[1, 2], [3]], "name": "rod", "n": {"dtype": "int64", "value": [1]}}'
    result = run("verify", "model.py:many", "--jvp", "many_jvp", inputs)
    assert result.exit_code == 0
    assert "carried along, not differentiated: n, name" in result.stdout
    assert "sum / b[0]" in result.stdout


def test_json_file(folder):
    (folder / "point.json").write_bytes(b'\xef\xbb\xbf{"a": [1, 2]}')
    assert run("verify", "model.py:many", "--jvp", "many_jvp", "@point.json").exit_code == 0


def test_npz_file_keeps_its_dtypes(folder):
    np.savez(folder / "point.npz", a=np.array([1, 2], np.float32), n=np.array([3]))
    assert "array([1., 2.], dtype=float32)" in seen("@point.npz")
    result = run("verify", "model.py:many", "--jvp", "many_jvp", "@point.npz")
    assert result.exit_code == 0
    assert "carried along, not differentiated: n" in result.stdout


# mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model.py:apply", "[1]"], "give at least one of --jacobian, --jvp and --vjp"),
        (["model.py:apply", "--vjp", "vjp"], "Missing argument 'INPUTS'"),
        (["model.py:apply", "--vpj", "vjp", "[1]"], "No such option"),
        (["model.py:apply", "--vjp", "vjp", "--rtol", "small", "[1]"], "'small' is not a valid float"),
        (["model.py:apply", "--vjp", "vjp", "--rtol", "-1", "[1]"], "rtol: expected a number, 0 or larger"),
        (["model.py:apply", "--vjp", "vjp", "--eps-for", "x", "[1]"], "expected PATH=VALUE, got 'x'"),
        (["model.py:apply", "--vjp", "vjp", "--eps-for", "x=y", "[1]"], "expected PATH=VALUE, got 'x=y'"),
        (["model.py:apply", "--vjp", "vjp", "--eps-for", "q=1", "[1]"], "eps_for: nothing differentiable matches 'q'"),
        (["model.py:apply", "--vjp", "vjp", "--bounds", "x=1", "[1]"], "expected PATH=LOW,HIGH, got 'x=1'"),
        (["model.py:apply", "--vjp", "vjp", "--profile", "slow", "[1]"], "profile: expected one of"),
        (["model.py:apply", "--vjp", "vjp", "--endpoints", "jvp", "[1]"], "endpoints: 'jvp' was asked for"),
        (["model.py:apply", "--vjp", "vjp", "--input-paths", "q", "[1]"], "input_paths: nothing differentiable"),
        (["model.py", "--vjp", "vjp", "[1]"], "apply: expected MODULE:FUNCTION, such as heat.py:apply, got 'model.py'"),
        (["model.py:", "--vjp", "vjp", "[1]"], "apply: expected MODULE:FUNCTION"),
        (["model.py:apply", "--vjp", "vpj", "[1]"], "model.py has no function 'vpj'; it has: Scale, apply, vjp, wrong"),
        (["model.py:apply", "--vjp", "constant", "[1]"], "vjp: expected a callable, got int 3"),
        (["absent.py:apply", "--vjp", "vjp", "[1]"], "absent.py: no such file"),
        (["absent:apply", "--vjp", "vjp", "[1]"], "a path to a file works too, such as path/to/absent.py:apply"),
        (["model.absent:apply", "--vjp", "vjp", "[1]"], "no module 'model.absent' in "),
        (["a/model:apply", "--vjp", "vjp", "[1]"], "expected a dotted module name or a path that ends in .py"),
    ],
)
def test_mistaken_argument_is_one_line(folder, arguments, words):
    assert words in complaint("verify", *arguments)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ("[1, 2", "INPUTS: no valid JSON: Expecting ',' delimiter at line 1, column 6"),
        ("model.py", "; for the file of that name write @model.py"),
        ("@absent.json", "absent.json: No such file or directory"),
        ("@absent.npz", "absent.npz: No such file or directory"),
        ("@model.py", "INPUTS: expected @FILE.json or @FILE.npz, got @model.py"),
        ("@" + "n" * 300 + ".json", ": File name too long"),
        ("[" * 100_000, "INPUTS: nested too deeply"),
        ("[1e999999, 1" + "0" * 400 + "]", "INPUTS: int too large to convert to float"),
        ("1" * 5000, "INPUTS: Exceeds the limit"),
        ('"text"', "x0: expected at least one floating or complex number"),
        ('{"dtype": "int64", "value": [1]}', "x0: expected at least one floating or complex number"),
        ('{"dtype": "flaot32", "value": 1}', 'dtype: expected one of numbers, such as float32 or int64, got "flaot32"'),
        ('{"dtype": "object", "value": 1}', "dtype: expected one of numbers"),
        ('{"dtype": ["float32"], "value": 1}', 'such as float32 or int64, got ["float32"]'),
        ('{"dtype": "int64", "value": 1.5}', "value: int64 does not hold 1.5"),
        ('{"dtype": "int8", "value": 300}', "INPUTS: "),
        ('{"dtype": "float32", "value": [1e300]}', "value: float32 does not hold [1e+300]"),
        ('{"dtype": "int64", "value": [1, [2]]}', "value: expected a number or a rectangular list for int64"),
        ('{"dtype": "float64", "value": true}', "value: expected a number or a rectangular list for float64, got true"),
        ('{"dtype": "bool", "value": [2]}', "value: expected true, false or a rectangular list for bool, got [2]"),
    ],
)
def test_bad_input_is_one_line(folder, inputs, words):
    assert words in complaint("verify", "model.py:apply", "--vjp", "vjp", inputs)


def test_bad_files_are_one_line(folder):
    (folder / "bad.json").write_text('{"a": 1,\n}')
    (folder / "latin.json").write_bytes(b'{"\xe4": 1}')
    (folder / "text.npz").write_text("no zip")
    np.savez(folder / "objects.npz", a=np.array([{}], dtype=object))
    (folder / "folder.json").mkdir()
    said = {
        name: complaint("verify", "model.py:apply", "--vjp", "vjp", f"@{name}")
        for name in ("bad.json", "latin.json", "text.npz", "objects.npz", "folder.json")
    }
    assert "bad.json: no valid JSON: " in said["bad.json"]
    assert "at line 2, column 1" in said["bad.json"] or "at line 1" in said["bad.json"]
    assert "latin.json: 'utf-8' codec can't decode" in said["latin.json"]
    assert "text.npz: not an npz file" in said["text.npz"]
    assert "objects.npz: expected arrays of numbers and no objects" in said["objects.npz"]
    assert "folder.json: Is a directory" in said["folder.json"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("x = 1\nraise ValueError('bad\\nluck')", "ValueError: bad luck ({file}, line 2)"),
        ("x = 1\nimport absent_package", "ModuleNotFoundError: No module named 'absent_package' ({file}, line 2)"),
        ("x = (", "SyntaxError: '(' was never closed ({file}, line 1)"),
        ("import sys\nsys.exit(0)", "SystemExit: 0 ({file}, line 2)"),
    ],
)
@pytest.mark.parametrize("form", ["broken.py", "broken"])
def test_module_that_raises_at_import_is_one_line(folder, code, words, form):
    file = folder / "broken.py"
    file.write_text(code)
    line = complaint("verify", f"{form}:apply", "--vjp", "vjp", "[1]")
    assert f"{form} raised at import: " in line
    assert words.format(file=file) in line or words.format(file="broken.py") in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [([], "Missing command"), (["chekc"], "No such command 'chekc'"), (["--vresion"], "No such option")],
)
def test_mistaken_command_is_one_line(arguments, words):
    line = complaint(*arguments)
    assert words in line
    assert line.endswith("(see fdcheck --help)")


# real processes


@pytest.mark.parametrize(("vjp", "status"), [("vjp", 0), ("wrong", 1), ("absent", 2)])
def test_status_of_a_real_process(folder, vjp, status):
    command = [sys.executable, "-m", "fdcheck", "verify", "model:apply", "--vjp", vjp, "[1, 2]"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [["demo"], ["verify", "model.py:apply", "--vjp", "wrong", "[1, 2]"]])
def test_output_that_cannot_be_written_is_no_verdict(folder, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "fdcheck", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "fdcheck: the output could not be written: No space left on device"
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="sends SIGINT")
def test_real_interrupt(folder):
    command = [sys.executable, "-m", "fdcheck", "verify", "model.py:waiting", "--vjp", "vjp", "[1]"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line == "waiting\n":
                break
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(20) == 130
    assert rest.splitlines() == ["fdcheck: interrupted"]
