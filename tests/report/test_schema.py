"""The JSON schemas that are published: reports and advice of all kinds fit them, anything else does not."""

import dataclasses
import importlib.resources
import json
import math

import jsonschema
import numpy as np
import pytest

import fdcheck
import fdcheck.advice
import fdcheck.results
from fdcheck import Contract, Coverage, Finding, Report, Status, Verdict
from fdcheck.checks.recommending import ABOVE, BELOW, REASONS, USUAL


def read(name):
    text = importlib.resources.files("fdcheck.report").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    return json.loads(text)


SCHEMAS = {"report": read("report"), "advice": read("advice")}


def errors(kind, document):
    """Return what does not fit, as places in the document."""
    found = jsonschema.Draft202012Validator(SCHEMAS[kind]).iter_errors(json.loads(document))
    return [f"{error.json_path}: {error.message}" for error in found]


X0 = np.array([0.1, 0.2])


def cos_vjp(x, ct):
    return ct * np.cos(x)


def raises(x, ct):
    raise RuntimeError("no derivative today")


def drawn(x, draw=np.random.default_rng(0)):  # noqa: B008 (one stream for all calls)
    return np.sin(x) + draw.normal()


REPORTS = {
    "pass": lambda: fdcheck.verify(np.sin, X0, vjp=cos_vjp, jacobian=lambda x: np.diag(np.cos(x))),
    "fail with a diagnosis": lambda: fdcheck.verify(np.sin, X0, vjp=lambda x, ct: 2 * cos_vjp(x, ct)),
    "inconclusive": lambda: fdcheck.verify(lambda x: np.round(np.sin(x), 3), X0, vjp=cos_vjp),
    "kink": lambda: fdcheck.verify(np.abs, np.array([0.0, 1.0]), vjp=lambda x, ct: ct * np.sign(x)),
    "NaN and infinite claims": lambda: fdcheck.verify(np.sin, X0, vjp=lambda x, ct: ct * np.array([np.nan, np.inf])),
    "nothing measured": lambda: fdcheck.verify(lambda x: x * np.nan, X0, vjp=cos_vjp),
    "raised": lambda: fdcheck.verify(np.sin, X0, vjp=raises),
    "shape": lambda: fdcheck.verify(np.sum, X0, vjp=lambda x, ct: ct),
    "nondeterministic": lambda: fdcheck.verify(drawn, X0, vjp=cos_vjp),
    "contract": lambda: fdcheck.verify(np.sin, X0, vjp=lambda x, ct: abs(ct) * np.cos(x), contract=Contract()),
    "complex": lambda: fdcheck.verify(
        lambda z: z * z, np.array([1 + 2j, 3j]), jacobian=lambda z: 2 * np.diag(z.conj())
    ),
    "scalars": lambda: fdcheck.verify(np.exp, 1.0, jvp=lambda x, t: 3 * t),
    "structure": lambda: fdcheck.verify(
        lambda p: {"y": p["a"] * p["n"]},
        {"a": np.float32([1.0, 2.0]), "n": 3, "name": "three"},
        vjp=lambda p, ct: {"a": 2 * ct["y"], "n": None, "name": None},
    ),
    "sample": lambda: fdcheck.verify(
        lambda x: np.sum(x**2), np.linspace(1, 2, 50), vjp=lambda x, ct: 2 * ct * x, max_evals=5
    ),
    "points": lambda: fdcheck.verify(
        lambda x: np.abs(x["z"]), {"z": np.array([1 + 2j, 3j])}, vjp=lambda x, ct: x, points=2, bounds=(-9.0, np.inf)
    ),
    "second order": lambda: fdcheck.verify_second_order(
        lambda x: np.sum(x**3), X0, vjp=lambda x, ct: 3 * ct * x**2, hvp=lambda x, t: 3 * x * t
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports_of_all_kinds_fit(name):
    assert errors("report", REPORTS[name]().to_json()) == []


@pytest.mark.parametrize("status", Status)
def test_every_status_fits(status):
    finding = Finding("vjp", status, "a message", input="x", input_index=(0, 1), claimed=math.inf, error=math.nan)
    report = Report(
        Verdict.FAIL, (finding,), (), Coverage(1, 0, 1, 0), math.nan, 3, {"vjp": 1}, 0, (), {"fdcheck": "1"}
    )
    assert not [error for error in errors("report", report.to_json()) if "status" in error]


ADVICE = {
    "plain": lambda: fdcheck.recommend_eps(np.exp, 1.0),
    "noise and a kink": lambda: fdcheck.recommend_eps(
        lambda x: {"a": np.abs(x["u"]), "b": drawn(x["v"])}, {"u": np.array([0.0, 1.0]), "v": X0}
    ),
    "bounds": lambda: fdcheck.recommend_eps(np.sqrt, X0, bounds=(0.1, 0.2)),
    "constant": lambda: fdcheck.recommend_eps(lambda x: 0 * x, X0),
    "nonfinite": lambda: fdcheck.recommend_eps(lambda x: np.where(x == 0.1, x, np.nan), X0[:1]),
    "complex": lambda: fdcheck.recommend_eps(lambda z: z * z, np.array([1 + 2j])),
}


@pytest.mark.parametrize("name", ADVICE)
def test_advice_of_all_kinds_fits(name):
    assert errors("advice", ADVICE[name]().to_json()) == []


# what must not fit


def spoilt(change):
    """Return what a change makes wrong with a report."""
    whole = REPORTS["fail with a diagnosis"]().to_json()
    document = json.loads(whole)
    change(document)
    before = errors("report", whole)
    return [error for error in errors("report", json.dumps(document)) if error not in before]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda d: d.update(verdict="passed"), "$.verdict: "),
        (lambda d: d.update(schema="fdcheck-report-2"), "$.schema: "),
        (lambda d: d.pop("findings"), "$: "),
        (lambda d: d.update(extra=1), "$: "),
        (lambda d: d.update(applies="82"), "$.applies: "),
        (lambda d: d.update(applies=-1), "$.applies: "),
        (lambda d: d.update(seed=0.5), "$.seed: "),
        (lambda d: d.update(sensitivity=None), "$.sensitivity: "),
        (lambda d: d.update(notes=[1]), "$.notes[0]: "),
        (lambda d: d["findings"][0].update(status="wrong"), "$.findings[0].status: "),
        (lambda d: d["findings"][0].update(extra=1), "$.findings[0]: "),
        (lambda d: d["findings"][0].update(claimed="NaN"), "$.findings[0].claimed: "),
        (lambda d: d["findings"][0].update(input_index=[0.5]), "$.findings[0].input_index[0]: "),
        (lambda d: d["findings"][0]["steps"][0].pop("slope"), "$.findings[0].steps[0]: "),
        (lambda d: d["findings"][0].update(column_claimed=["a"]), "$.findings[0].column_claimed: "),
        (lambda d: d["pairs"][0]["counts"].update(wrong=1), "$.pairs[0].counts: "),
        (lambda d: d["pairs"][0].update(entries=None), "$.pairs[0].entries: "),
        (lambda d: d["coverage"]["elements"].update(x=[1]), "$.coverage.elements.x: "),
        (lambda d: d["diagnoses"][0].pop("repair"), "$.diagnoses[0]: "),
        (lambda d: d["versions"].pop("fdcheck"), "$.versions: "),
    ],
)
def test_a_spoilt_report_does_not_fit(change, place):
    found = spoilt(change)
    assert len(found) == 1
    assert found[0].startswith(place)


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["eps_for"].update(x="nan"),
        lambda d: d["paths"][0].update(below="kink"),
        lambda d: d["paths"][0]["reasons"].update(bad=1),
        lambda d: d["blocks"][0].pop("noise"),
        lambda d: d["blocks"][0]["usual"].pop("1e-4"),
        lambda d: d["blocks"][0].update(reason="none"),
    ],
)
def test_spoilt_advice_does_not_fit(change):
    document = json.loads(ADVICE["plain"]().to_json())
    change(document)
    assert errors("advice", json.dumps(document))


# the schemas name everything that the package has


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_is_one(kind):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[kind])


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_object_names_its_keys_asks_for_them_all_and_takes_no_other(kind):
    schema = SCHEMAS[kind]
    for name, part in {"document": schema, **schema["$defs"]}.items():
        if "properties" in part:
            assert part["additionalProperties"] is False, name
            assert sorted(part["required"]) == sorted(part["properties"]), name


def in_dict(kind):
    """Return the names of the fields that a dict of a result has."""
    return {field.name for field in dataclasses.fields(kind) if field.metadata.get("in_dict", True)}


MODULES = {"report": fdcheck.results, "advice": fdcheck.advice}
PARTS = [
    ("report", "Report", SCHEMAS["report"], {"schema"}),
    ("advice", "EpsAdvice", SCHEMAS["advice"], {"schema", "eps_for"}),
    *(
        (kind, name, part, set())
        for kind, schema in SCHEMAS.items()
        for name, part in schema["$defs"].items()
        if "properties" in part and name[0].isupper()
    ),
]


@pytest.mark.parametrize(("kind", "name", "part", "more"), PARTS, ids=[name for _, name, *_ in PARTS])
def test_a_new_field_has_to_come_into_the_schema(kind, name, part, more):
    assert set(part["properties"]) == in_dict(getattr(MODULES[kind], name)) | more


def test_words_are_those_of_the_package():
    defs = {**SCHEMAS["report"]["$defs"], **SCHEMAS["advice"]["$defs"]}
    assert defs["Status"]["enum"] == [str(status) for status in Status]
    assert SCHEMAS["report"]["properties"]["verdict"]["enum"] == [str(verdict) for verdict in Verdict]
    assert (defs["below"]["enum"], defs["above"]["enum"], defs["reason"]["enum"]) == (
        list(BELOW),
        list(ABOVE),
        list(REASONS),
    )
    assert list(defs["usual"]["properties"]) == list(USUAL)
