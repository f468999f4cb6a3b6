"""Options: the profile's, the user's over them, and a message with the name of every bad value."""

import dataclasses
import math
import os
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Verdict
from fdcheck.settings import ENDPOINTS, Settings, profile_names, read_profile, settings_from


def test_defaults():
    found = settings_from()
    assert (found.rtol, found.atol, found.eps, found.bounds) == (None, None, None, None)
    assert (found.input_paths, found.output_paths, found.endpoints) == (None, None, None)
    assert dict(found.eps_for) == {}
    assert (found.seed, found.profile) == (0, "default")
    assert ENDPOINTS == ("jacobian", "jvp", "vjp")


def test_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings_from().rtol = 1.0


def test_profiles():
    assert set(profile_names()) >= {"default", "quick", "strict"}
    assert settings_from("quick").least_steps < settings_from("default").least_steps
    assert settings_from("strict").full_accuracy
    assert not settings_from("default").full_accuracy
    known = {f.name for f in dataclasses.fields(Settings)} | {"description"}
    for name in profile_names():
        assert set(read_profile(name)) <= known
        assert read_profile(name)["description"]
        assert settings_from(name).profile == name


def test_options_win_over_the_profile_and_none_leaves_it(monkeypatch):
    profile = {"description": "d", "rtol": 0.5, "seed": 7, "input_paths": ["a"], "least_steps": 1}
    monkeypatch.setattr("fdcheck.settings.read_profile", lambda name: dict(profile))
    plain = settings_from("default")
    assert (plain.rtol, plain.seed, plain.input_paths, plain.least_steps) == (0.5, 7, ("a",), 1)
    over = settings_from("default", rtol=0.25, seed=0, input_paths=["b", "c"], least_steps=None, atol=None)
    assert (over.rtol, over.seed, over.input_paths, over.least_steps) == (0.25, 0, ("b", "c"), 1)
    zero = settings_from("default", rtol=0.0)
    assert zero.rtol == 0.0


def test_a_bad_value_in_a_profile_is_named_too(monkeypatch):
    monkeypatch.setattr("fdcheck.settings.read_profile", lambda name: {"rtol": "tight"})
    with pytest.raises(InvalidInput, match=r"^profile default: rtol: .*'tight'"):
        settings_from("default")
    monkeypatch.setattr("fdcheck.settings.read_profile", lambda name: {"rtoll": 0.1})
    with pytest.raises(InvalidInput, match=r"^profile default: rtoll: unknown option; there are: .*rtol"):
        settings_from("default")


@pytest.mark.parametrize(
    "value", [0.25, np.float32(0.25), np.float64(0.25), Fraction(1, 4), Decimal("0.25"), np.array(0.25)]
)
@pytest.mark.parametrize("name", ["rtol", "atol", "eps"])
def test_numbers_of_every_kind(name, value):
    found = getattr(settings_from(**{name: value}), name)
    assert type(found) is float
    assert found == 0.25


@pytest.mark.parametrize(
    "value", [-1, -1e-300, math.nan, math.inf, -math.inf, "1e-3", "tight", 1j, True, [1e-3], {}, object()]
)
@pytest.mark.parametrize("name", ["rtol", "atol", "eps"])
def test_numbers_that_cannot_be_used(name, value):
    with pytest.raises(InvalidInput, match=rf"^{name}: expected a (positive )?number"):
        settings_from(**{name: value})
    with pytest.raises(InvalidInput, match=r"^eps_for\['w'\]: expected a positive number"):
        settings_from(eps_for={"w": value})


def test_zero_is_a_tolerance_and_no_step():
    assert settings_from(rtol=0, atol=0).rtol == 0.0
    with pytest.raises(InvalidInput, match=r"^eps: expected a positive number, got 0"):
        settings_from(eps=0)
    with pytest.raises(InvalidInput, match=r"^eps_for\['w'\]: expected a positive number, got 0"):
        settings_from(eps_for={"v": 1, "w": 0.0})


@pytest.mark.parametrize("value", [np.array([1e-3, 1e-2]), np.array([1e-3]), 10**400], ids=["two", "one", "huge"])
@pytest.mark.parametrize("name", ["rtol", "atol", "eps"])
def test_numbers_that_end_in_another_error(name, value):
    with pytest.raises(InvalidInput, match=rf"^{name}: "):
        settings_from(**{name: value})


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"eps_for": 3}, ["eps_for: ", "int"]),
        ({"eps_for": [("w", 1)]}, ["eps_for: ", "list"]),
        ({"input_paths": 3}, ["input_paths: ", "3"]),
        ({"input_paths": ["a", 3]}, ["input_paths: ", "3"]),
        ({"output_paths": {"a": 1}}, ["output_paths: ", "'a'"]),
        ({"endpoints": 3}, ["endpoints: ", "3"]),
        ({"endpoints": ["grad"]}, ["endpoints: ", "'grad'", "jacobian, jvp, vjp"]),
        ({"endpoints": ["vjp", "VJP"]}, ["endpoints: ", "'VJP'"]),
        ({"skip": 3}, ["skip: ", "3"]),
        ({"skip": "linear"}, ["skip: ", "'linear'", "dtype, mutation, nondeterministic, hidden_state, nonlinear"]),
        ({"skip": ("layout", "shape")}, ["skip: ", "'shape'", "nothing can be compared"]),
        ({"skip": "disagrees"}, ["skip: ", "'disagrees'", "adjoint"]),
        ({"seed": -1}, ["seed: ", "-1"]),
        ({"seed": 1.5}, ["seed: ", "1.5"]),
        ({"seed": "0"}, ["seed: ", "'0'"]),
        ({"seed": True}, ["seed: ", "True"]),
        ({"profile": "sloppy"}, ["profile: ", "'sloppy'", "default", "quick", "strict"]),
        ({"profile": "../default"}, ["profile: "]),
        ({"profile": ""}, ["profile: "]),
        ({"rtols": 1}, ["rtols: ", "rtol"]),
    ],
)
def test_every_bad_option_is_named(option, words):
    with pytest.raises(InvalidInput) as caught:
        settings_from(**option)
    assert str(caught.value).startswith(words[0])
    for word in words:
        assert word in str(caught.value)


def test_a_numpy_integer_is_a_seed():
    assert settings_from(seed=np.int64(3)).seed == 3


@pytest.mark.parametrize("profile", [["default"], {}])
def test_a_profile_that_is_no_string(profile):
    with pytest.raises(InvalidInput, match=r"^profile: "):
        settings_from(profile)


def test_one_string_stands_for_a_list_of_one():
    found = settings_from(input_paths="params", output_paths=("a", "b"), endpoints="vjp")
    assert (found.input_paths, found.output_paths, found.endpoints) == (("params",), ("a", "b"), ("vjp",))


@pytest.mark.parametrize(
    "given", ["nonlinear,layout", "nonlinear, layout", ("nonlinear", "layout"), ["nonlinear,layout"]]
)
def test_parts_of_the_contract_may_stand_in_one_word(given):
    assert settings_from(skip=given).skip == ("nonlinear", "layout")
    assert settings_from(skip=()).skip == ()


# what verify does with them


X = {"a": np.array([0.3]), "b": np.array([0.7])}


def apply(x):
    return np.sin(x["a"]) + np.sin(x["b"])


def vjp(x, c):
    return {k: c * np.cos(v) for k, v in x.items()}


def off(x, c):
    return {k: 1.05 * v for k, v in vjp(x, c).items()}


def test_bad_options_are_bad_arguments_before_anything_is_called():
    def never(*_):
        raise AssertionError("called")

    for option in (
        {"rtol": -1},
        {"eps": 0},
        {"seed": -1},
        {"profile": "x"},
        {"endpoints": ["jvp"]},
        {"input_paths": 1},
    ):
        with pytest.raises(InvalidInput) as caught:
            fdcheck.verify(never, X, vjp=never, **option)
        assert isinstance(caught.value, ValueError)
        assert str(caught.value).startswith(f"{next(iter(option))}: ")


@pytest.mark.parametrize("option", ["input_paths", "eps_for", "bounds", "output_paths"])
def test_unknown_paths_are_errors_that_name_the_option_and_what_there_is(option):
    values = {"eps_for": {"zz": 1e-3}, "bounds": {"zz": (0, 1)}}
    with pytest.raises(InvalidInput) as caught:
        fdcheck.verify(apply, X, vjp=vjp, **{option: values.get(option, ["zz"])})
    message = str(caught.value)
    assert message.startswith(f"{option}: ")
    assert "'zz'" in message
    assert message.endswith("there are: y" if option == "output_paths" else "there are: a, b")


@pytest.mark.parametrize("option", ["input_paths", "output_paths"])
def test_no_path_at_all_is_inconclusive_or_refused(option):
    try:
        report = fdcheck.verify(apply, X, vjp=vjp, **{option: []})
    except InvalidInput:
        return
    assert report.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("option", [{"eps_for": {"zz": 1e-3}}, {"bounds": {"zz": (0, 1)}}, {"bounds": 3}])
def test_a_bad_option_is_an_error_also_beside_a_broken_endpoint(option):
    with pytest.raises(InvalidInput, match=next(iter(option))):
        fdcheck.verify(apply, X, vjp=lambda x, c: None + 1, **option)


def test_rtol_and_atol_decide():
    assert fdcheck.verify(apply, X, vjp=off).verdict is Verdict.FAIL
    assert fdcheck.verify(apply, X, vjp=off, rtol=0.06).verdict is Verdict.PASS
    assert fdcheck.verify(apply, X, vjp=off, rtol=0.04).verdict is Verdict.FAIL
    assert fdcheck.verify(apply, X, vjp=off, atol=0.06).verdict is Verdict.PASS
    assert fdcheck.verify(apply, X, vjp=off, atol=0.03).verdict is Verdict.FAIL


def test_eps_for_wins_over_eps_and_eps_over_the_choice():
    reached = {}

    def watch(x):
        for name, value in x.items():
            reached[name] = max(reached.get(name, 0.0), abs(float(value[0] - X[name][0])))
        return apply(x)

    def largest(**options):
        reached.clear()
        assert fdcheck.verify(watch, X, vjp=vjp, **options).verdict is Verdict.PASS
        return reached

    near_a, near_b = 2.0**-6, 2.0**-14  # a forced step may be halved and doubled twice
    by_choice = dict(largest())
    assert near_a <= min(largest(eps=near_a).values())
    assert max(largest(eps=near_a).values()) <= 4 * near_a
    found = largest(eps=near_a, eps_for={"b": near_b})
    assert near_a <= found["a"] <= 4 * near_a
    assert near_b <= found["b"] <= 4 * near_b
    found = largest(eps_for={"b": near_b})
    assert near_b <= found["b"] <= 4 * near_b
    assert found["a"] == by_choice["a"]


def test_endpoints_chooses_among_those_given():
    report = fdcheck.verify(apply, X, vjp=vjp, jvp=lambda x, t: t["a"], endpoints=["vjp"])
    assert report.verdict is Verdict.PASS
    assert set(report.endpoint_calls) == {"vjp"}
    assert not fdcheck.verify(apply, X, vjp=vjp, jvp=lambda x, t: t["a"])


def test_seed_is_kept_and_the_same_seed_gives_the_same_points():
    def points(seed):
        seen = []
        report = fdcheck.verify(lambda x: (seen.append(x["a"][0]), apply(x))[1], X, vjp=vjp, seed=seed)
        assert report.seed == seed
        return seen

    assert points(0) == points(0)
    assert points(0) != points(5)


@pytest.mark.parametrize("profile", ["default", "quick", "strict"])
def test_every_profile_passes_what_is_right_and_fails_what_is_wrong(profile):
    assert fdcheck.verify(apply, X, vjp=vjp, profile=profile).verdict is Verdict.PASS
    assert fdcheck.verify(apply, X, vjp=off, profile=profile).verdict is Verdict.FAIL


def test_quick_costs_less_than_the_default():
    assert fdcheck.verify(apply, X, vjp=vjp, profile="quick").applies < fdcheck.verify(apply, X, vjp=vjp).applies


# where options come from


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a function that writes pyproject.toml; the working directory lies two folders below it."""
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    return lambda text: (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")


def test_option_over_environment_over_pyproject_over_profile(project, monkeypatch):
    assert settings_from("noisy").rtol == 0.02
    project("[tool.fdcheck]\nrtol = 0.03\nseed = 4\n")
    assert settings_from("noisy").rtol == 0.03
    monkeypatch.setenv("FDCHECK_RTOL", "0.04")
    assert settings_from("noisy").rtol == 0.04
    assert settings_from("noisy").seed == 4
    assert settings_from("noisy", rtol=0.05).rtol == 0.05


def test_a_profile_may_come_from_either_place(project, monkeypatch):
    project('[tool.fdcheck]\nprofile = "quick"\n')
    assert settings_from().profile == "quick"
    assert settings_from().least_steps == 1
    monkeypatch.setenv("FDCHECK_PROFILE", "strict")
    assert settings_from().full_accuracy
    assert not settings_from("default").full_accuracy


def test_the_nearest_pyproject_counts_even_without_a_table(project, tmp_path):
    project("[tool.fdcheck]\nseed = 3\n")
    assert settings_from().seed == 3
    (tmp_path / "src" / "pyproject.toml").write_text("[project]\nname = 'other'\n", encoding="utf-8")
    assert settings_from().seed == 0


def test_a_changed_pyproject_is_read_again(project, tmp_path):
    project("[tool.fdcheck]\nseed = 3\n")
    assert settings_from().seed == 3
    project("[tool.fdcheck]\nseed = 44\n")
    os.utime(tmp_path / "pyproject.toml", ns=(1, 1))
    assert settings_from().seed == 44


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rtol", "1e-2", 0.01),
        ("atol", "0", 0.0),
        ("eps", "1e-3", 1e-3),
        ("eps_for", '{"a": 1e2, "b": 1e-8}', {"a": 100.0, "b": 1e-8}),
        ("bounds", "[0, 1]", [0, 1]),
        ("input_paths", "a b[0]", ("a", "b[0]")),
        ("endpoints", "jvp vjp", ("jvp", "vjp")),
        ("skip", "nonlinear layout", ("nonlinear", "layout")),
        ("skip", "nonlinear,layout", ("nonlinear", "layout")),
        ("max_evals", "7", 7),
        ("max_applies", "70", 70),
        ("max_output_samples", "9", 9),
        ("max_failures", "0", 0),
        ("seed", "5", 5),
    ],
)
def test_every_shared_option_has_a_variable(monkeypatch, name, text, value):
    monkeypatch.setenv(f"FDCHECK_{name.upper()}", text)
    assert getattr(settings_from(), name) == value


def test_an_empty_variable_sets_nothing(monkeypatch):
    monkeypatch.setenv("FDCHECK_RTOL", "")
    assert settings_from().rtol is None


def test_messages_name_the_variable_or_the_file(project, monkeypatch, tmp_path):
    monkeypatch.setenv("FDCHECK_RTOL", "tight")
    with pytest.raises(InvalidInput, match=r"^environment variable FDCHECK_RTOL: expected a number.*'tight'"):
        settings_from()
    monkeypatch.delenv("FDCHECK_RTOL")
    project("[tool.fdcheck]\nrtoll = 1\n")
    with pytest.raises(InvalidInput, match=r"^\[tool.fdcheck\] of .*pyproject.toml: rtoll: unknown option"):
        settings_from()
    project("[tool.fdcheck\n")
    with pytest.raises(InvalidInput, match=r"pyproject.toml: "):
        settings_from()
    project("[tool]\nfdcheck = 3\n")
    with pytest.raises(InvalidInput, match=r"pyproject.toml: expected tool.fdcheck to be a table, got 3"):
        settings_from()


def test_verify_reads_them_too(project, monkeypatch):
    monkeypatch.setenv("FDCHECK_MAX_EVALS", "3")
    report = fdcheck.verify(np.sin, np.linspace(0, 1, 20), jvp=lambda x, t: t * np.cos(x))
    assert report.coverage.inputs_measured == 3


@pytest.mark.parametrize(("name", "least"), [("max_evals", 1), ("max_applies", 16), ("max_output_samples", 1)])
def test_budgets_have_a_least_value(name, least):
    assert getattr(settings_from(**{name: least}), name) == least
    for value in (least - 1, 2.5, "many", True):
        with pytest.raises(InvalidInput, match=rf"^{name}: expected a whole number, {least} or larger"):
            settings_from(**{name: value})


def test_a_misspelt_variable_or_profile_is_not_passed_over(project, monkeypatch):
    monkeypatch.setenv("FDCHECK_MAX_EVAL", "5")
    with pytest.raises(InvalidInput, match=r"^environment variable FDCHECK_MAX_EVAL: unknown option; .*max_evals"):
        settings_from()
    monkeypatch.delenv("FDCHECK_MAX_EVAL")
    monkeypatch.setenv("FDCHECK_PROFILE", "nope")
    with pytest.raises(InvalidInput, match=r"^environment variable FDCHECK_PROFILE: expected one of default, .*'nope'"):
        settings_from()
    monkeypatch.delenv("FDCHECK_PROFILE")
    monkeypatch.setenv("FDCHECK_EPS_FOR", "{x:")
    with pytest.raises(InvalidInput, match=r"^environment variable FDCHECK_EPS_FOR: not valid JSON: "):
        settings_from()
    monkeypatch.delenv("FDCHECK_EPS_FOR")
    project('[tool.fdcheck]\nprofile = "sloppy"\n')
    with pytest.raises(InvalidInput, match=r"pyproject.toml: profile: expected one of .*'sloppy'"):
        settings_from()
    project("[tool.fdcheck]\nleast_steps = 1\n")
    with pytest.raises(InvalidInput, match=r"pyproject.toml: least_steps: unknown option"):
        settings_from()


def test_variables_of_an_adapter_are_its_own(monkeypatch):
    monkeypatch.setenv("FDCHECK_TESSERACT_TIMEOUT", "5")
    assert settings_from() == Settings()
