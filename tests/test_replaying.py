"""Replay: every kind of finding again, alone, also from JSON; what does not fit is named."""

import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Report, Status

X0 = {"p": np.array([1.0, 2.0, 3.0]), "q": 3.0}


def leaky(x):
    return {"a": np.where(x["p"] > 0, x["p"], 0.1 * x["p"]) * x["q"]}


def wrong(x, ct):
    p, q, c = x["p"], x["q"], ct["a"]
    return {"p": c * q * np.where(p > 0, 1.0, 0.2), "q": np.sum(c * np.where(p > 0, 1.1 * p, 0.1 * p))}


def counted(function):
    def call(*arguments):
        call.calls += 1
        return function(*arguments)

    call.calls = 0
    return call


def saved(report):
    return Report.from_json(report.to_json())


@pytest.mark.parametrize("how", [lambda report: report, saved], ids=["report", "json"])
@pytest.mark.parametrize("options", [{}, {"points": 4}, {"rtol": 1e-5, "seed": 3, "points": 2}, {"profile": "strict"}])
def test_each_entry_is_measured_again_alone(how, options):
    report = fdcheck.verify(leaky, X0, vjp=wrong, **options)
    assert len(report.findings) >= 3
    for number, finding in enumerate(report.findings, 1):
        f, g = counted(leaky), counted(wrong)
        again = fdcheck.replay(how(report), number, f, X0, vjp=g)
        (found,) = again.findings
        assert again.notes[0] == f"replayed finding {number}, vjp disagrees: found again"
        same = ("input", "input_index", "output", "output_index", "point", "claimed", "status")
        assert [getattr(found, name) for name in same] == [getattr(finding, name) for name in same]
        assert found.estimated == pytest.approx(finding.estimated, rel=1e-4)
        assert [pair.entries for pair in again.pairs] == [1]
        assert str(again.verdict) == "fail"
        assert again.seed == report.seed
        assert again.settings == how(report).settings
        assert g.calls == again.endpoint_calls["vjp"] == 1
        assert f.calls <= report.applies


def test_a_finding_may_be_given_itself():
    report = fdcheck.verify(leaky, X0, vjp=wrong, points=4)
    for number, finding in enumerate(report.findings, 1):
        assert fdcheck.replay(report, finding, leaky, X0, vjp=wrong).notes[0].startswith(f"replayed finding {number},")
        loaded = saved(report)
        assert fdcheck.replay(loaded, loaded.findings[number - 1], leaky, X0, vjp=wrong).findings


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", ["jacobian", "jvp", "vjp"])
def test_parts_of_complex_entries(dtype, name):
    claims = {
        "jacobian": lambda z: np.diag(np.cos(z) * dtype(1 + 0.1j)),
        "jvp": lambda z, t: t * np.cos(z) * dtype(1 + 0.1j),
        "vjp": lambda z, ct: ct * np.cos(z).conj() * dtype(1 + 0.1j),
    }
    z0 = np.array([0.3 + 1j, 0.7 - 0.2j], dtype)
    report = fdcheck.verify(np.sin, z0, **{name: claims[name]})
    parts = {f.part for f in report.findings}
    assert len(parts) == 4
    for number, finding in enumerate(report.findings, 1):
        (found,) = fdcheck.replay(report, number, np.sin, z0, **{name: claims[name]}).findings
        assert (found.part, found.output_index, found.input_index) == (
            finding.part, finding.output_index, finding.input_index,
        )  # fmt: skip
        assert found.claimed == finding.claimed


def test_kinks_and_undecided_entries():
    kink = fdcheck.verify(np.abs, np.array([0.0, 1.0]), vjp=lambda x, ct: ct * np.sign(x))
    assert [f.status for f in kink.findings] == [Status.KINK]
    again = fdcheck.replay(kink, 1, np.abs, np.array([0.0, 1.0]), vjp=lambda x, ct: ct * np.sign(x))
    assert [f.status for f in again.findings] == [Status.KINK]
    assert again.passed
    tiny = fdcheck.verify(np.sin, np.array([0.5]), vjp=lambda x, ct: ct * np.cos(x), eps=1e-15)
    assert str(tiny.verdict) == "inconclusive"
    again = fdcheck.replay(tiny, 1, np.sin, np.array([0.5]), vjp=lambda x, ct: ct * np.cos(x))
    assert again.findings[0].status is Status.UNDECIDED


def test_what_was_repaired_is_not_found_again():
    report = fdcheck.verify(np.sin, np.array([0.5, 0.7]), vjp=lambda x, ct: -ct * np.cos(x))
    again = fdcheck.replay(report, 1, np.sin, np.array([0.5, 0.7]), vjp=lambda x, ct: ct * np.cos(x))
    assert again.passed
    assert again.notes[0] == "replayed finding 1, vjp disagrees: not found again"


def test_given_points_are_given_again():
    points = [np.array([2.0]), np.array([-2.0])]
    f, g = (lambda x: np.where(x > 0, x, 0.1 * x)), (lambda x, ct: ct * np.where(x > 0, 1.0, 0.2))
    report = fdcheck.verify(f, np.array([1.0]), vjp=g, points=points)
    assert report.findings[0].point == 2
    again = fdcheck.replay(report, 1, f, np.array([1.0]), vjp=g, points=points)
    assert (again.findings[0].point, again.findings[0].claimed) == (2, 0.2)
    with pytest.raises(InvalidInput, match=r"points: the finding was made at points\[1\]; give the points"):
        fdcheck.replay(report, 1, f, np.array([1.0]), vjp=g)


def test_along_directions_and_within_bounds():
    seen = []

    def f(p):
        seen.append(p.copy())
        return np.sum(np.where(p > 0.4, p**2, p**3))

    def g(p, ct):
        return ct * np.where(p > 0.4, 2 * p, 2 * p**2)

    options = {"directions": [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]}
    p0 = np.array([0.45, 0.05, 0.5])
    report = fdcheck.verify(f, p0, vjp=g, points=3, bounds=(0.0, 1.0), **options)
    seen.clear()
    for number, finding in enumerate(report.findings, 1):
        again = fdcheck.replay(saved(report), number, f, p0, vjp=g, **options)
        assert (again.findings[0].input_index, again.findings[0].point) == (finding.input_index, finding.point)
    assert np.allclose([p.sum() for p in seen], 1)
    assert min(p.min() for p in seen) >= 0


@pytest.mark.parametrize(
    ("vjp", "status"),
    [
        (lambda x, ct: np.cos(x)[:1], Status.SHAPE),
        (lambda x, ct: {"x": ct}, Status.STRUCTURE),
        (lambda x, ct: (ct * np.cos(x)).astype(np.float32), Status.DTYPE),
        (lambda x, ct: np.cos(x) / (0 if ct[1] else 1) * ct if ct[1] != 1 else 1 // 0, Status.RAISED),
        (lambda x, ct: np.multiply(ct, np.cos(x), out=ct), Status.MUTATION),
    ],
)
def test_breaches_of_an_endpoint(vjp, status):
    x0 = np.array([0.3, 0.7])
    report = fdcheck.verify(np.sin, x0, vjp=vjp)
    assert report.findings[0].status is status
    again = fdcheck.replay(saved(report), 1, np.sin, x0, vjp=vjp)
    assert again.notes[0].endswith(": found again")
    assert [(f.endpoint, f.status, f.message) for f in again.findings] == [("vjp", status, report.findings[0].message)]
    assert str(again.verdict) == "fail"
    assert again.applies <= 4  # x0, and the far point from which hidden state is looked for


def test_a_breach_of_linearity_draws_the_same_vectors():
    vectors = []

    def absolute(x, ct):
        vectors.append(ct.tobytes())
        return np.cos(x) * np.abs(ct)

    x0, jvp = np.array([0.3, 0.7]), lambda x, t: t * np.cos(x)
    report = fdcheck.verify(np.sin, x0, vjp=absolute, jvp=jvp, contract=fdcheck.Contract(), seed=5)
    number = next(k for k, f in enumerate(report.findings, 1) if f.status is Status.NONLINEAR)
    first, vectors[:] = list(vectors), []
    again = fdcheck.replay(saved(report), number, np.sin, x0, vjp=absolute, jvp=jvp)
    assert [(f.status, f.message) for f in again.findings] == [(Status.NONLINEAR, report.findings[number - 1].message)]
    assert set(vectors) <= set(first)
    assert again.applies <= 4  # x0, and the far point from which hidden state is looked for


def test_remarks_on_apply_replay_the_check_of_that_point():
    draw = np.random.default_rng(0)
    noisy = lambda x: np.sin(x) + 1e-4 * draw.normal(size=2)  # noqa: E731
    x0, vjp = np.array([0.3, 0.7]), lambda x, ct: ct * np.cos(x)
    report = fdcheck.verify(noisy, x0, vjp=vjp)
    number = next(k for k, f in enumerate(report.findings, 1) if f.status is Status.NONDETERMINISTIC)
    again = fdcheck.replay(saved(report), number, noisy, x0, vjp=vjp)
    assert again.notes[0] == f"replayed finding {number}, apply nondeterministic: found again"


def test_apply_that_raises_at_x0_is_replayed_too():
    def f(x):
        raise ValueError("no")

    report = fdcheck.verify(f, 1.0, vjp=lambda x, ct: ct)
    again = fdcheck.replay(saved(report), 1, f, 1.0, vjp=lambda x, ct: ct)
    assert again.notes[0] == "replayed finding 1, apply raised: found again"


def test_other_versions_are_told_of():
    report = fdcheck.verify(np.sin, np.array([0.5]), vjp=lambda x, ct: -ct * np.cos(x))
    text = report.to_json().replace(f'"numpy": "{np.__version__}"', '"numpy": "0.9"')
    again = fdcheck.replay(Report.from_json(text), 1, np.sin, np.array([0.5]), vjp=lambda x, ct: -ct * np.cos(x))
    assert again.notes[1] == f"other versions: numpy 0.9 then, {np.__version__} now"


# what does not fit


@pytest.mark.parametrize("number", [0, 4, -1, True, "1", None, 1.0])
def test_a_number_that_is_none_of_a_finding(number):
    report = fdcheck.verify(np.sin, np.array([0.3, 0.5, 0.7]), vjp=lambda x, ct: -ct * np.cos(x))
    with pytest.raises(InvalidInput, match="finding: expected a Finding, or a number from 1 to 3, got"):
        fdcheck.replay(report, number, np.sin, np.array([0.3, 0.5, 0.7]), vjp=lambda x, ct: -ct * np.cos(x))


def test_another_problem_or_endpoint_is_named():
    report = fdcheck.verify(np.sin, np.array([0.3, 0.5, 0.7]), vjp=lambda x, ct: -ct * np.cos(x))
    with pytest.raises(InvalidInput, match="vjp: expected the callable that finding 3 is about, got none"):
        fdcheck.replay(report, 3, np.sin, np.array([0.3, 0.5, 0.7]), jvp=lambda x, t: t)
    number = next(k for k, f in enumerate(report.findings, 1) if f.input_index == (2,))
    with pytest.raises(InvalidInput, match=r"finding: there is no y\[2\] where it was made; is this the same problem"):
        fdcheck.replay(report, number, np.sin, np.array([0.3, 0.5]), vjp=lambda x, ct: ct)


def test_reports_of_other_front_ends_cannot_be_replayed():
    report = fdcheck.verify_second_order(
        lambda x: np.sum(x**3), np.array([1.0, 2.0]), vjp=lambda x, c: 3 * c * x**2, hvp=lambda x, t: 3 * x * t
    )
    assert "To replay" not in str(report)
    with pytest.raises(InvalidInput, match="report: this one cannot be replayed"):
        fdcheck.replay(report, 1, lambda x: np.sum(x**3), np.array([1.0, 2.0]), vjp=lambda x, c: 3 * c * x**2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": "x"}, "report.settings: seed: expected a whole number"),
        ({"nonsense": 1}, "report.settings: nonsense: unknown option"),
        ({"profile": "mine"}, "report.settings: profile: expected one of"),
        ({"contract": {"what": 1}}, "report.settings: contract: "),
    ],
)
def test_settings_that_cannot_be_used_are_named(change, words):
    report = fdcheck.verify(np.sin, np.array([0.3]), vjp=lambda x, ct: -ct * np.cos(x))
    data = {**report.settings, **change}
    with pytest.raises(InvalidInput) as error:
        fdcheck.replay(
            Report(**{**vars(report), "settings": data}), 1, np.sin, np.array([0.3]), vjp=lambda x, ct: -ct * np.cos(x)
        )
    assert words in str(error.value)
