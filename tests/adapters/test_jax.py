"""check_grads, check_jvp and check_vjp on real jax functions."""

import collections
import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import test_util as theirs

import fdcheck
from fdcheck.adapters.jax import check_grads, check_jvp, check_vjp


@pytest.fixture(params=[True, False], ids=["x64", "x32"])
def x64(request):
    with jax.enable_x64(request.param):
        yield request.param


@pytest.fixture
def wide():
    with jax.enable_x64(True):
        yield


def statuses(f, args, order=1, **options):
    return {(f.endpoint, str(f.status)) for f in check_grads(f, args, order, report=True, **options).findings}


def test_names_and_positions_are_theirs():
    for own, other in ((check_grads, theirs.check_grads), (check_jvp, theirs.check_jvp), (check_vjp, theirs.check_vjp)):
        names = list(inspect.signature(other).parameters)
        assert list(inspect.signature(own).parameters)[: len(names)] == names


def test_right_derivatives_pass(x64):
    x = np.linspace(0.2, 1.5, 4)
    for f in (jnp.sin, jax.jit(jnp.tanh), lambda x: jnp.outer(x, x), lambda x: x.sum(), jnp.sort, jax.nn.relu):
        assert check_grads(f, (x,), 1) is True
    assert check_grads(lambda x: jnp.sum(x**3), (x,), 2)
    assert check_grads(jnp.sin, (0.5,), 3)
    assert check_grads(jnp.sin, (0.5,), 1, "rev")
    assert check_grads(jnp.sin, (x,), 1, modes=("fwd",), atol=1e-3, rtol=1e-3)
    assert check_grads(jnp.abs, (jnp.zeros(2),), 1)


def test_pytrees_and_integer_leaves(x64):
    Pair = collections.namedtuple("Pair", "a b")

    def f(tree, n, pair):
        return {"out": tree["w"] * n, "n": n, "more": [pair.a @ pair.b, tree["flag"]]}

    args = ({"w": np.ones(3), "flag": True, "none": None}, 3, Pair(np.ones((2, 2)), np.arange(2.0)))
    assert check_grads(f, args, 2, check_batched=True)
    assert check_grads(lambda i, x: x[i], (np.array([0, 2]), np.arange(3.0)), 1)


def test_paths_name_the_leaves(wide):
    @jax.custom_jvp
    def f(p):
        return p["w"] * p["b"]

    f.defjvp(lambda primals, tangents: (f(*primals), primals[0]["b"] * tangents[0]["w"]))
    report = check_grads(f, ({"w": np.ones(2), "b": 2.0},), 1, report=True)
    assert {f.input for f in report.findings if f.status == "disagrees"} == {"args[0]['b']"}


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    """A node of jax that optree does not know, whose fields are not in the order of the alphabet."""

    w: object
    b: object


def test_paths_are_those_of_jax(wide):
    wrong = wrong_vjp(lambda x, g: 1.1 * g * jnp.cos(x))
    x = np.linspace(0.2, 1.5, 3)
    cases = [
        (lambda p: wrong(p["w"]), {"a": None, "k": 3, "w": x}, "args[0]['w']"),
        (lambda p: wrong(p.w) * p.b, Layer(x, x), "args[0].w"),
        (lambda p: wrong(p[1][0]), [None, (x,)], "args[0][1][0]"),
        (lambda p: wrong(p["b"]), collections.OrderedDict(b=x, a=x), "args[0]['b']"),
    ]
    for f, argument, path in cases:
        report = check_grads(f, (argument,), 1, modes=("rev",), report=True)
        assert {f.input for f in report.findings} == {path}
    report = check_grads(lambda x: Layer(wrong(x), {"s": x}), (x,), 1, modes=("rev",), report=True)
    assert {f.output for f in report.findings} == {"out.w"}


def test_keys_are_carried(wide):
    noise = lambda key, x: x * jax.random.normal(key, (3,))  # noqa: E731
    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        assert check_grads(noise, (key, np.ones(3)), 1)


def test_gradients_that_are_none_count_as_zero(wide):
    x, index = np.array([0.3, 0.4]), np.array([1, 0])
    taken = lambda i, x: (x[i], lambda c: (None, jnp.zeros_like(x).at[i].add(c)))  # noqa: E731
    assert check_vjp(lambda i, x: x[i], taken, (index, x))
    assert check_vjp(lambda a, b: a * 1.0, lambda a, b: (a, lambda c: (c, None)), (x, x))
    assert check_vjp(lambda p: p["a"], lambda p: (p["a"], lambda c: ({"a": c, "b": None},)), ({"a": x, "b": x},))
    lost = lambda a, b: (a + b, lambda c: (c, None))  # noqa: E731
    assert not check_vjp(lambda a, b: a + b, lost, (x, x), report=True)
    bare = check_vjp(jnp.sin, lambda x: (jnp.sin(x), lambda c: c * jnp.cos(x)), (x,), report=True)
    assert "expected a tuple of gradients, one for each of 1 args" in bare.findings[0].message


def test_a_function_that_differs_from_call_to_call(wide):
    draw = np.random.default_rng(0)
    report = check_grads(lambda x: x * draw.uniform(), (np.array([0.3, 0.4]),), 1, report=True)
    assert str(report.verdict) == "inconclusive"  # derivatives of other values contradict nothing
    assert "fix its random seed" in report.findings[0].message


def wrong_rule(factor=1.0, value=lambda x: jnp.sin(x), tangent=lambda x, t: jnp.cos(x) * t):
    @jax.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (value(*primals), factor * tangent(*primals, *tangents)))
    return f


def wrong_vjp(back):
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, g: (back(x, g),))
    return f


def test_wrong_derivatives_fail(x64):
    x = np.linspace(0.2, 1.5, 4)
    with pytest.raises(AssertionError, match="jvp"):
        check_grads(wrong_rule(1.05), (x,), 1)
    assert ("jvp", "disagrees") in statuses(wrong_rule(1.05), (x,))
    assert ("vjp", "disagrees") in statuses(wrong_vjp(lambda x, g: 1.05 * g * jnp.cos(x)), (x,), modes=("rev",))
    assert ("vjp", "nonlinear") in statuses(wrong_vjp(lambda x, g: g * jnp.abs(g) * jnp.cos(x)), (x,), modes=("rev",))


def test_the_primal_value_is_compared(wide):
    x = np.array([0.3, 0.4])
    report = check_grads(wrong_rule(value=lambda x: 1.001 * jnp.sin(x)), (x,), 1, report=True)
    assert str(report.verdict) == "fail"
    assert "a value that is not f's" in report.findings[0].message


def test_second_order_is_named(wide):
    @jax.custom_jvp
    def cos(x):
        return jnp.cos(x)

    cos.defjvp(lambda primals, tangents: (cos(*primals), -1.1 * jnp.sin(primals[0]) * tangents[0]))
    f = wrong_rule(tangent=lambda x, t: cos(x) * t)
    x = np.array([0.3, 0.4])
    assert check_grads(f, (x,), 1)
    report = check_grads(f, (x,), 2, report=True)
    assert str(report.verdict) == "fail"
    assert {f.endpoint for f in report.findings if f.status == "disagrees"} <= {
        "jvp_of_jvp",
        "vjp_of_jvp",
        "jvp_of_vjp",
        "vjp_of_vjp",
    }


def test_complex_numbers(x64):
    z = np.array([1 + 2j, 0.5 - 1j])
    for f in (jnp.exp, lambda z: jnp.abs(z), lambda z: z * jnp.conj(z), lambda z: z.real * 1j):
        assert check_grads(f, (z,), 2 if x64 else 1)
    assert check_grads(lambda x: jnp.exp(1j * x), (np.array([0.3, 1.0]),), 1)
    assert check_grads(lambda z, x: z * x, (z, np.array([0.3, 1.0])), 1)

    @jax.custom_vjp
    def square(z):
        return z * z

    square.defvjp(lambda z: (z * z, z), lambda z, g: (jnp.conj(2 * z) * g,))  # torch's convention
    report = check_grads(square, (z,), 1, modes=("rev",), report=True)
    assert [d.kind for d in report.diagnoses] == ["conjugate"]


def test_check_jvp_and_vjp(wide):
    x = np.array([0.3, 0.4])
    assert check_jvp(jnp.sin, lambda p, t: (jnp.sin(*p), jnp.cos(*p) * t[0]), (x,))
    assert check_vjp(jnp.sin, lambda x: (jnp.sin(x), lambda c: (jnp.cos(x) * c,)), (x,))
    with pytest.raises(fdcheck.DerivativeMismatch, match="the layer") as caught:
        check_vjp(jnp.sin, lambda x: (jnp.sin(x), lambda c: (2 * jnp.cos(x) * c,)), (x,), err_msg="the layer")
    assert "half" in str(caught.value) or "twice" in str(caught.value)
    with pytest.raises(AssertionError):
        check_jvp(jnp.sin, lambda p, t: (jnp.sin(*p), jnp.sin(*p) * t[0]), (x,))
    assert check_vjp(jnp.sin, lambda x: (jnp.sin(x), lambda c: (2 * jnp.cos(x) * c,)), (x,), rtol=1.1)
    assert not check_vjp(jnp.sin, lambda x: (jnp.sin(x), lambda c: (c,)), (x,), report=True)


def test_a_function_that_cannot_be_compiled(wide):
    def steered(x):
        return x**2 if float(jax.lax.stop_gradient(x).sum()) > 0 else x**3

    assert check_grads(steered, (np.array([0.3, 0.4]),), 1, modes=("fwd",))


def test_a_zero_tangent_of_a_thousand_in_float32():
    f = wrong_rule(tangent=lambda x, t: 0 * t)
    total = lambda x: f(x).sum()  # noqa: E731
    x = np.linspace(0.1, 1.0, 1000, dtype=np.float32)
    assert str(check_grads(total, (x,), 1, modes=("rev",), report=True).verdict) == "fail"


def test_batches(wide):
    assert check_grads(lambda x: (x.sum(), x**2), (np.ones((2, 3)),), 1, check_batched=True)

    def host(x):
        kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda a: np.cos(np.asarray(a)), kind, x)

    f = wrong_rule(tangent=lambda x, t: host(x) * t)
    assert check_grads(f, (np.array([0.3, 0.4]),), 1, modes=("fwd",), check_batched=True)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_short_dtypes(dtype):
    x = jnp.asarray([0.5, 1.25, -0.75], dtype)
    weights = jnp.linspace(-1, 1, 9).reshape(3, 3).astype(dtype)
    assert check_grads(jnp.sin, (x,), 1)
    assert check_grads(lambda x: jnp.tanh(x @ weights), (x,), 1, modes=("rev",))
    assert str(check_grads(wrong_rule(1.3), (x,), 1, report=True).verdict) == "fail"


def test_what_cannot_be_checked():
    with pytest.raises(fdcheck.InvalidInput, match="args: expected at least one"):
        check_grads(jnp.sin, (3,), 1)
    with pytest.raises(fdcheck.InvalidInput, match=r"args: expected finite numbers, got nan at args\[0\]\[1\]"):
        check_grads(jnp.sin, (np.array([1.0, np.nan]),), 1)
    with pytest.raises(fdcheck.InvalidInput, match="f: expected a floating or complex leaf in its result, got int32"):
        check_grads(jnp.argmax, (np.ones(2),), 1)
    with pytest.raises(fdcheck.InvalidInput, match="modes"):
        check_grads(jnp.sin, (3.0,), 1, modes=("forward",))
    with pytest.raises(fdcheck.InvalidInput, match="order"):
        check_grads(jnp.sin, (3.0,), 0)

    def broken(x):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        check_grads(broken, (3.0,), 1)
    calls = iter(range(9))
    with pytest.raises(fdcheck.DerivativeMismatch, match="ZeroDivisionError"):
        check_grads(lambda x: x if next(calls) < 1 else 1 / 0, (3.0,), 1)
