"""verify on every kind of structure, end to end: right derivatives pass, wrong twins fail at the right place."""

import collections
import dataclasses
import pickle
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import fdcheck
from fdcheck import Status, Verdict


class Layer(NamedTuple):
    weight: Any
    bias: Any


@dataclasses.dataclass
class Model:
    layer: Any
    scale: Any
    name: str = "m"


@dataclasses.dataclass(frozen=True)
class Frozen:
    weight: Any
    depth: int = 2


W = np.array([[0.3, -0.7, 1.1], [0.2, 0.5, -0.4]])
B = np.array([0.1, -0.2])
S = 1.5


def core(w, b, s):
    """The function under every structure: y = s tanh(w sum + b), shape (2,)."""
    return s * np.tanh(w.sum(axis=1) + b)


def core_vjp(w, b, s, c):
    t = np.tanh(w.sum(axis=1) + b)
    inner = c * s * (1 - t**2)
    return np.repeat(inner[:, None], 3, axis=1), inner, c @ t


# per structure: how to build it from (w, b, s, other) and how to read (w, b, s) out of it, and the paths of the three


def dict_of(w, b, s, other):
    return {"params": {"w": w, "b": b}, "s": s, "n": other}


def list_of(w, b, s, other):
    return [w, [b, other], s]


STRUCTURES = {
    "dict": (dict_of, lambda x: (x["params"]["w"], x["params"]["b"], x["s"]), ("params['w']", "params['b']", "s")),
    "list": (list_of, lambda x: (x[0], x[1][0], x[2]), ("x[0]", "x[1][0]", "x[2]")),
    "tuple": (lambda w, b, s, o: ((w, b), s, o), lambda x: (*x[0], x[1]), ("x[0][0]", "x[0][1]", "x[1]")),
    "namedtuple": (
        lambda w, b, s, o: Layer(w, Layer((b, o), s)),
        lambda x: (x.weight, x.bias.weight[0], x.bias.bias),
        ("weight", "bias.weight[0]", "bias.bias"),
    ),
    "dataclass": (
        lambda w, b, s, o: Model(Layer(w, b), s, o),
        lambda x: (*x.layer, x.scale),
        ("layer.weight", "layer.bias", "scale"),
    ),
    "dataclasses in a dict": (
        lambda w, b, s, o: {"enc": Frozen(w, o), "dec": [Frozen(b, o), s]},
        lambda x: (x["enc"].weight, x["dec"][0].weight, x["dec"][1]),
        ("enc.weight", "dec[0].weight", "dec[1]"),
    ),
    "ordered dict": (
        lambda w, b, s, o: collections.OrderedDict(z=w, a=b, n=o, m=s),
        lambda x: (x["z"], x["a"], x["m"]),
        ("z", "a", "m"),
    ),
    "default dict and deque": (
        lambda w, b, s, o: collections.defaultdict(list, q=collections.deque([w, b]), s=s, n=o),
        lambda x: (*x["q"], x["s"]),
        ("q[0]", "q[1]", "s"),
    ),
}
OTHERS = [3, True, "name", None, np.arange(2)]


@pytest.mark.parametrize("kind", STRUCTURES)
@pytest.mark.parametrize("other", OTHERS, ids=["int", "bool", "str", "None", "int array"])
def test_right_derivatives_pass_and_each_wrong_twin_fails_where_it_is_wrong(kind, other):
    build, read, paths = STRUCTURES[kind]
    x0 = build(W.copy(), B.copy(), S, other)
    before = pickle.dumps(x0)

    def apply(x):
        return core(*read(x))

    def jvp(x, t):
        w, b, s = read(x)
        dw, db, ds = read(t)
        inner = np.tanh(w.sum(axis=1) + b)
        return ds * inner + s * (1 - inner**2) * (dw.sum(axis=1) + db)

    def vjp(x, c, broken=None):
        parts = list(core_vjp(*read(x), c))
        if broken == 0:
            parts[0] = parts[0] + [[0, 0, 0], [0, 0.01, 0]]
        elif broken == 1:
            parts[1] = parts[1] * [1.02, 1]
        elif broken == 2:
            parts[2] = -parts[2]
        return build(*parts, None)

    right = fdcheck.verify(apply, x0, jvp=jvp, vjp=vjp)
    assert right.verdict is Verdict.PASS
    assert right.findings == ()
    assert {(pair.endpoint, pair.input) for pair in right.pairs} == {(e, p) for e in ("jvp", "vjp") for p in paths}
    assert (right.coverage.inputs, right.coverage.inputs_measured) == (9, 9)
    assert len(right.coverage.carried) == (2 if kind == "dataclasses in a dict" else 1)
    for broken, places in enumerate(({((k,), (1, 1)) for k in (0, 1)}, {((0,), (0,))}, {((k,), ()) for k in (0, 1)})):
        report = fdcheck.verify(apply, x0, jvp=jvp, vjp=lambda x, c, k=broken: vjp(x, c, k))
        assert report.verdict is Verdict.FAIL
        disagreeing = [f for f in report.findings if f.status not in (Status.NONLINEAR, Status.ADJOINT)]
        assert any(f.status is Status.NONLINEAR for f in report.findings) == (broken == 0)  # it adds a constant
        assert {(f.endpoint, f.status, f.input, f.output) for f in disagreeing} == {
            ("vjp", Status.DISAGREES, paths[broken], "y")
        }
        assert {(f.output_index, f.input_index) for f in disagreeing} == places
        assert paths[broken] in str(report)
    assert pickle.dumps(x0) == before


@pytest.mark.parametrize("kind", STRUCTURES)
def test_outputs_of_every_structure(kind):
    build, read, paths = STRUCTURES[kind]
    paths = tuple(path.replace("x[", "y[", 1) if path.startswith("x[") else path for path in paths)
    x0 = np.array([0.4, -1.2])

    def apply(x):
        return build(np.outer(x, [1.0, 2, 3]), np.sin(x), float(x @ x), 5)

    def vjp(x, c, wrong=0.0):
        w, b, s = read(c)
        return w @ [1, 2, 3] + b * np.cos(x) + s * (2 + wrong) * x

    def jvp(x, t, wrong=0.0):
        return build(np.outer(t, [1.0, 2 + wrong, 3]), np.cos(x) * t, 2 * float(x @ t), None)

    assert fdcheck.verify(apply, x0, jvp=jvp, vjp=vjp).verdict is Verdict.PASS
    in_s = fdcheck.verify(apply, x0, vjp=lambda x, c: vjp(x, c, 0.1))
    assert {f.output for f in in_s.findings} == {paths[2]}
    in_w = fdcheck.verify(apply, x0, jvp=lambda x, t: jvp(x, t, 0.1))
    places = {(f.output, f.output_index, f.input_index) for f in in_w.findings}
    assert places == {(paths[0], (0, 1), (0,)), (paths[0], (1, 1), (1,))}
    assert all(f.claimed == pytest.approx(2.1) and f.estimated == pytest.approx(2.0) for f in in_w.findings)


@pytest.mark.parametrize("kind", STRUCTURES)
def test_nested_jacobians(kind):
    build, read, paths = STRUCTURES[kind]
    x0 = build(W, B, S, 3)
    dw, db, ds = zip(*(core_vjp(W, B, S, c) for c in np.eye(2)), strict=True)
    blocks = [np.array(dw), np.array(db), np.array(ds)]

    def jacobian(x, factor=1.0):
        return build(blocks[0], factor * blocks[1], blocks[2], None)

    def apply(x):
        return core(*read(x))

    assert fdcheck.verify(apply, x0, jacobian=jacobian).verdict is Verdict.PASS
    wrong = fdcheck.verify(apply, x0, jacobian=lambda x: jacobian(x, 1.01))
    assert {(f.input, f.output_index, f.input_index) for f in wrong.findings} == {
        (paths[1], (0,), (0,)),
        (paths[1], (1,), (1,)),
    }


TOLERANCE = {np.float16: 0.3, np.float32: 0.03, np.float64: 0.01, np.longdouble: 0.01}


@pytest.mark.parametrize("real", TOLERANCE)
@pytest.mark.parametrize("scalar", [False, True])
def test_every_real_dtype(real, scalar):
    x0 = {"a": real(0.75) if scalar else np.array([0.75, -1.5], real), "k": 2}

    def apply(x):
        return x["a"] * x["a"] * x["a"] + x["a"]

    def vjp(x, c, factor=1.0):
        return {"a": c * (3 * x["a"] * x["a"] + 1) * real(factor), "k": None}

    assert fdcheck.verify(apply, x0, vjp=vjp).verdict is Verdict.PASS
    wrong = fdcheck.verify(apply, x0, vjp=lambda x, c: vjp(x, c, 1 + TOLERANCE[real]))
    assert wrong.verdict is Verdict.FAIL
    assert {(f.input_index, f.output_index) for f in wrong.findings} == (
        {((), ())} if scalar else {((0,), (0,)), ((1,), (1,))}
    )


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128, np.clongdouble])
def test_every_complex_dtype(dtype):
    x0 = [np.array([[1 + 2j, -0.5j]], dtype), 3]
    right = fdcheck.verify(lambda x: x[0] ** 3, x0, vjp=lambda x, c: [c * np.conj(3 * x[0] ** 2), None])
    assert right.verdict is Verdict.PASS
    wrong = fdcheck.verify(lambda x: x[0] ** 3, x0, vjp=lambda x, c: [c * (3 * x[0] ** 2), None])
    # 3 z^2 is real at -0.5j, where the other convention gives the same
    assert {(f.input, f.input_index, f.output_index) for f in wrong.findings} == {("x[0]", (0, 0), (0, 0))}


def test_mixed_precision_is_judged_leaf_by_leaf():
    """The same error of half a per cent is wrong in float64 and within the resolution of float16."""
    x0 = {"half": np.array([1.5], np.float16), "double": np.array([1.5])}

    def apply(x):
        return {"half": x["half"] * x["half"], "double": x["double"] * x["double"]}

    def vjp(x, c):
        return {k: (c[k] * 2 * x[k] * 1.005).astype(x[k].dtype) for k in x}

    report = fdcheck.verify(apply, x0, vjp=vjp)
    assert report.verdict is Verdict.FAIL
    assert {(f.output, f.input) for f in report.findings} == {("double", "double")}


def test_empty_arrays_and_containers_are_carried_through():
    x0 = {"a": np.array([0.5]), "none": np.zeros((0, 3)), "empty": {}, "list": []}

    def apply(x):
        return {"y": x["a"] ** 2, "nothing": np.zeros((2, 0))}

    def vjp(x, c, factor=2.0):
        return {"a": c["y"] * factor * x["a"], "none": np.zeros((0, 3)), "empty": {}, "list": []}

    assert fdcheck.verify(apply, x0, vjp=vjp).verdict is Verdict.PASS
    assert not fdcheck.verify(apply, x0, vjp=lambda x, c: vjp(x, c, 2.1))
    missing = fdcheck.verify(apply, x0, vjp=lambda x, c: vjp(x, c) | {"none": np.zeros((1, 3))})
    assert [f.status for f in missing.findings] == [Status.SHAPE]


def test_a_claim_checked_against_the_complex_step():
    """An independent derivative: the complex step is exact to the last digits."""
    x = np.array([0.3, 1.7, -0.6])

    def apply(x):
        return np.exp(x[0]) * np.sin(x[1] * x[2]) / np.sqrt(1 + x[0] * x[0])

    gradient = np.array([apply(x + 1e-30j * e).imag / 1e-30 for e in np.eye(3)])
    assert fdcheck.verify(apply, x, jacobian=lambda _: gradient, rtol=1e-6).verdict is Verdict.PASS
    for k in range(3):
        off = gradient * np.where(np.arange(3) == k, 1 + 1e-5, 1)
        report = fdcheck.verify(apply, x, jacobian=lambda _, off=off: off, rtol=1e-6)
        assert {f.input_index for f in report.findings if f.status is Status.DISAGREES} == {(k,)}


def test_the_registry_of_the_user_is_left_alone():
    """Dataclasses are nodes for fdcheck only: optree elsewhere still sees a leaf."""
    model = Model(1.0, 2.0)
    assert fdcheck.verify(lambda m: m.layer * m.scale, model, vjp=lambda m, c: Model(c * m.scale, c * m.layer, None))
    assert optree.tree_leaves(model) == [model]


# memory


def right_and_wrong(x0):
    """Return the verdicts of a right and of a wrong vjp of the weighted squares of x0."""
    weight = np.arange(1.0, x0.size + 1).reshape(x0.shape)
    right = fdcheck.verify(lambda x: (weight * x**2).sum(), x0, vjp=lambda x, c: 2 * c * weight * x)
    wrong = fdcheck.verify(
        lambda x: (weight * x**2).sum(), x0, vjp=lambda x, c: 2 * c * weight.ravel()[::-1].reshape(x.shape) * x
    )
    return right.verdict, wrong.verdict


BASE = np.linspace(0.5, 1.5, 12).reshape(3, 4)


@pytest.mark.parametrize(
    "x0",
    [
        BASE.T,
        BASE[::-1, ::2],
        BASE[:, 1],
        np.broadcast_to(np.array([0.5, 0.7]), (3, 2)),
        np.lib.stride_tricks.sliding_window_view(BASE[0], 2),
        np.frombuffer(BASE.tobytes()),
        BASE.astype(">f8"),
    ],
    ids=["transposed", "negative strides", "a column", "broadcast", "overlapping", "read-only", "big-endian"],
)
def test_odd_memory_is_measured_element_by_element(x0):
    before = x0.tobytes()
    assert right_and_wrong(x0) == (Verdict.PASS, Verdict.FAIL)
    assert x0.tobytes() == before


def test_fortran_order_is_kept_in_every_call():
    seen = []

    def watch(x, *v):
        seen.append((x.flags.f_contiguous, x.flags.c_contiguous))
        return x**2 if not v else 2 * x * v[0]

    report = fdcheck.verify(watch, np.asfortranarray(BASE[:2]), vjp=watch, jvp=watch)
    assert report.verdict is Verdict.PASS
    assert set(seen) == {(True, False)}


@pytest.mark.parametrize(
    ("x0", "kind"), [(1.5, float), (1 + 2j, complex), (np.float32(1.5), np.float32), (np.array(1.5), np.ndarray)]
)
def test_scalars_reach_every_callable_as_what_they_were(x0, kind):
    kinds = set()

    def watch(x, *v):
        kinds.update(type(a) for a in (x, *v))
        return 2 * x if not v else 2 * v[0]

    assert fdcheck.verify(watch, x0, jvp=watch, vjp=watch).verdict is Verdict.PASS
    assert kinds <= {kind, np.float64 if kind is np.ndarray else kind}
