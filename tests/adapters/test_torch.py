"""gradcheck and gradgradcheck on real torch tensors; torch's own checker beside them where it errs."""

import inspect
import resource
import time
import warnings

import pytest
import torch
from torch.autograd import Function
from torch.autograd.gradcheck import GradcheckError as TheirError

import fdcheck
from fdcheck.adapters.torch import GradcheckError, gradcheck, gradgradcheck

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)


def tensor(values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype).requires_grad_(True)


def random(*shape, dtype=torch.float64, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return (torch.rand(*shape, dtype=torch.float64, generator=draw) + 0.5).to(dtype).requires_grad_(True)


def verdict(function, inputs, **options):
    return str(gradcheck(function, inputs, report=True, **options).verdict)


def statuses(function, inputs, check=gradcheck, **options):
    return {str(f.status) for f in check(function, inputs, report=True, **options).findings}


def function_of(forward, backward):
    """Return a function with a backward of its own, from forward(x) and backward(g, x)."""

    class Own(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Own.apply


def square(x):
    return x * x


# the call


def test_names_and_defaults_are_theirs():
    for ours, theirs in ((gradcheck, torch.autograd.gradcheck), (gradgradcheck, torch.autograd.gradgradcheck)):
        own, other = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        assert list(own) == [*other, "report"]
        assert [p.kind for p in other.values()] == [own[name].kind for name in other]
        differing = {name for name in other if own[name].default != other[name].default}
        assert differing == {"eps", "atol", "rtol"}
        assert {own[name].default for name in differing} == {None}


def test_return_values():
    wrong = function_of(torch.sin, lambda g, x: g * x.sin())
    assert gradcheck(torch.sin, tensor([0.1, 0.2])) is True
    assert gradcheck(wrong, (tensor([0.1, 0.2]),), raise_exception=False) is False
    for kind in (AssertionError, TheirError, fdcheck.DerivativeMismatch, GradcheckError):
        with pytest.raises(kind, match=r"claimed 0.0998.*, measured 0.995") as caught:
            gradcheck(wrong, (tensor([0.1, 0.2]),))
    assert str(caught.value) == str(caught.value.report)
    report = gradcheck(wrong, (tensor([0.1, 0.2]),), report=True)
    assert isinstance(report, fdcheck.Report)
    assert {f.input for f in report.findings} == {"inputs[0]"}
    assert gradgradcheck(torch.sin, tensor([0.1, 0.2])) is True


def test_inconclusive_raises_with_the_reason():
    x = tensor([0.1, 1000.0], torch.float32)
    with pytest.raises(GradcheckError, match="step too small for float32"):
        gradcheck(torch.sin, x, eps=1e-6)
    assert gradcheck(torch.sin, x, eps=1e-6, raise_exception=False) is False
    with pytest.raises(GradcheckError, match="scatter by"):
        gradcheck(lambda x: x * torch.rand(()), tensor([1.0]))
    torch.manual_seed(0)
    report = gradcheck(lambda x: torch.nn.functional.dropout(x, 0.5), random(50), report=True)
    assert (str(report.verdict), report.findings[0].endpoint) == ("inconclusive", "apply")
    assert "fix its random seed" in report.findings[0].message


UNRESOLVED = [
    (torch.tanh, [0.5, 5.0, 8.0]),
    (torch.sigmoid, [6.0, 7.0, 9.0]),
    (torch.erf, [2.0, 2.5, 3.0]),
    (lambda x: x * x + 1e5, [0.3, 1.2]),
    (lambda x: torch.nn.functional.group_norm(x.reshape(1, 4), 2), [0.1, 0.9, -1.2, 0.7]),
]


@pytest.mark.parametrize(("function", "x"), UNRESOLVED)
def test_what_float32_cannot_resolve_is_inconclusive_and_the_report_says_what_to_do(function, x):
    report = gradcheck(function, tensor(x, torch.float32), report=True)
    assert str(report.verdict) == "inconclusive"
    (note,) = [note for note in report.notes if "does not resolve" in note]
    assert "check in float64" in note
    assert gradcheck(function, tensor(x, torch.float64))
    atol = float(note.partition("atol=")[2])
    assert gradcheck(function, tensor(x, torch.float32), atol=atol)
    large = function_of(torch.clone, lambda g, x: 1.5 * g)
    assert verdict(lambda x: large(function(x)), tensor(x, torch.float32), atol=atol) == "fail"


def test_what_cannot_be_checked_is_a_value_error():
    with pytest.raises(fdcheck.InvalidInput, match="inputs: expected at least one"):
        gradcheck(torch.sin, torch.ones(2))
    with pytest.raises(fdcheck.InvalidInput, match="func: expected a floating"):
        gradcheck(lambda x: x > 0, tensor([1.0]))
    with pytest.raises(fdcheck.InvalidInput, match="check_forward_ad, check_backward_ad"):
        gradcheck(torch.sin, tensor([1.0]), check_backward_ad=False)
    with pytest.raises(fdcheck.InvalidInput, match="check_fwd_over_rev, check_rev_over_rev"):
        gradgradcheck(torch.sin, tensor([1.0]), check_rev_over_rev=False)
    with pytest.raises(fdcheck.InvalidInput, match="grad_outputs: expected 1"):
        gradgradcheck(torch.sin, tensor([1.0]), (torch.ones(1), torch.ones(1)))
    with pytest.raises(fdcheck.InvalidInput, match=r"grad_outputs: expected shape \(1,\) for outputs\[0\], got \(2,\)"):
        gradgradcheck(torch.sin, tensor([1.0]), torch.ones(2))
    with pytest.raises(fdcheck.InvalidInput, match="grad_outputs: expected at least one tensor"):
        gradgradcheck(torch.sin, tensor([1.0]), (None,))


def test_a_function_that_raises_is_told():
    def broken(x):
        raise RuntimeError("out of cheese")

    with pytest.raises(RuntimeError, match="out of cheese"):
        gradcheck(broken, tensor([1.0]))
    calls = iter(range(9))

    def second(x):
        return x * 2 if next(calls) < 1 else 1 / 0

    with pytest.raises(GradcheckError, match="ZeroDivisionError"):
        gradcheck(second, tensor([1.0]))
    backward = function_of(torch.sin, lambda g, x: 1 / 0)
    with pytest.raises(GradcheckError, match="ZeroDivisionError"):
        gradcheck(backward, tensor([1.0]))


def test_inputs_are_left_as_they_were():
    x, y = random(3), torch.arange(3.0, dtype=torch.float64)
    x.grad = torch.ones(3, dtype=torch.float64)
    before = x.detach().clone()
    seen = []

    def function(a, b, c):
        seen.append(b)
        return (a * b).sum() * c

    assert gradcheck(function, (x, y, 2.5))
    assert all(b is y for b in seen)
    assert torch.equal(x, before)
    assert torch.equal(x.grad, torch.ones(3, dtype=torch.float64))
    assert x.requires_grad


def test_inputs_that_the_function_takes_from_elsewhere_are_refused():
    x, layer = random(3), torch.nn.Linear(3, 2).double()
    wrong = function_of(square, lambda g, x: 5 * g * x)
    for check in (gradcheck, gradgradcheck):
        with pytest.raises(fdcheck.InvalidInput, match=r"func: .* reaches inputs\[0\] from elsewhere"):
            check(lambda *_: wrong(x), x)
        with pytest.raises(fdcheck.InvalidInput, match="functional_call"):
            check(lambda *_: layer(x.detach()), tuple(layer.parameters()))
    named = dict(layer.named_parameters())
    assert gradcheck(lambda named: torch.func.functional_call(layer, named, (x.detach(),)), (named,))
    assert gradcheck(layer, x)  # parameters that are no inputs may come from anywhere
    calls = []
    counted = function_of(torch.sin, lambda g, y: calls.append(1) or g * y.cos())
    assert gradcheck(counted, x, report=True).endpoint_calls["vjp"] == len(calls) - 1  # and one for undefined grads


def test_what_is_within_other_inputs_and_outputs_is_looked_at():
    wrong = function_of(torch.sin, lambda g, x: g)
    x, y = random(3), random(3, seed=1)

    def nested(weights, bias):
        return {"state": (weights["w"] * bias, bias.sum()), "index": bias.argmax()}

    assert gradcheck(nested, ({"w": x, "count": 3}, y), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(lambda pair: (pair[0] ** 2 * pair[1], [pair[1] ** 3]), ((x, y),), check_fwd_over_rev=True)
    assert gradcheck(torch.cat, ([x, y],))
    report = gradcheck(lambda a, b: (a * 2, (b, {"h": wrong(b)})), (x, y), report=True)
    assert {(f.output, f.input) for f in report.findings} == {("outputs[1][1]['h']", "inputs[1]")}
    report = gradcheck(lambda pair: wrong(pair["b"]), ({"a": x, "b": y},), report=True)
    assert {f.input for f in report.findings} == {"inputs[0]['b']"}
    report = gradcheck(lambda a: (a > 0, None, a.detach(), wrong(a)), x, report=True)
    assert {f.output for f in report.findings} == {"outputs[3]"}  # as returned, not as looked at
    assert any("not compared: outputs[0], outputs[1], outputs[2]" in note for note in report.notes)


def test_an_output_that_changes_its_structure_is_told():
    calls = iter(range(99))
    report = gradcheck(lambda x: (x, x) if next(calls) < 2 else (x,), random(3), report=True)
    assert not report.passed
    assert "func returned PyTreeSpec((*,)" in report.findings[0].message


def test_points_at_which_nothing_can_be_measured():
    empty = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
    with pytest.raises(
        fdcheck.InvalidInput, match=r"inputs: expected at least one element .* got inputs\[0\] \(0, 3\)"
    ):
        gradcheck(torch.sin, empty)
    with pytest.raises(fdcheck.InvalidInput, match=r"inputs: expected finite numbers, got nan at inputs\[0\]\[1\]"):
        gradcheck(torch.sin, tensor([1.0, float("nan")]))
    assert gradcheck(lambda a, b: a.sum() + b, (empty, random(3)))
    with pytest.raises(GradcheckError, match="no output has an element"):
        gradcheck(lambda x: x[:0], random(3))
    with torch.no_grad(), pytest.raises(GradcheckError, match="made under no_grad"):
        gradcheck(torch.sin, random(3))


# tolerances


@pytest.mark.parametrize("factor", [1 - 0.49, 1 - 0.2, 1 + 0.2, 1 + 0.49])
def test_rtol_means_theirs_within(factor):
    off = function_of(torch.sin, lambda g, x: factor * g * x.cos())
    x = tensor([0.3, 0.5])
    assert gradcheck(off, x, rtol=0.5)
    assert torch.autograd.gradcheck(off, x, rtol=0.5, atol=0.0)
    assert not gradcheck(off, x, raise_exception=False)


@pytest.mark.parametrize("factor", [1 - 0.51, 1 + 0.51, 10.0, -1.0])
def test_rtol_means_theirs_beyond(factor):
    off = function_of(torch.sin, lambda g, x: factor * g * x.cos())
    x = tensor([0.3, 0.5])
    assert not gradcheck(off, x, rtol=0.5, raise_exception=False)
    assert not torch.autograd.gradcheck(off, x, rtol=0.5, atol=0.0, raise_exception=False)


def test_atol_and_eps():
    off = function_of(torch.sin, lambda g, x: g * (x.cos() + 0.01))
    x = tensor([0.3, 0.5])
    assert gradcheck(off, x, atol=0.011, rtol=0.0)
    assert not gradcheck(off, x, atol=0.009, rtol=0.0, raise_exception=False)
    report = gradcheck(torch.sin, x, eps=1e-4, report=True)
    assert report.passed
    assert {round(pair.eps, 8) for pair in report.pairs} == {1e-4}


# dtypes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_right_gradients_of_every_dtype_pass(dtype):
    x, y = random(2, 3, dtype=dtype), random(3, 2, dtype=dtype, seed=1)
    assert gradcheck(torch.matmul, (x, y))
    assert gradcheck(lambda a, b: (a * b.T, a.exp()), (x, y), check_forward_ad=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_wrong_gradients_of_every_dtype_fail(dtype):
    x = random(4, dtype=dtype)
    assert verdict(function_of(square, lambda g, x: 3 * g * x.conj()), x) == "fail"
    scale = torch.tensor([1, 1, 0.5, 1], dtype=dtype)
    report = gradcheck(function_of(square, lambda g, x: 2 * g * x.conj() * scale), x, report=True)
    assert {f.input_index for f in report.findings} == {(2,)}


def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.nn.functional.linear(x, torch.ones(2, 3) * 1.2345)


HALF = torch.linspace(-1, 1, 9, dtype=torch.bfloat16).reshape(3, 3)

SHORT = [
    (torch.sin, torch.bfloat16),
    (lambda x: torch.dot(x, torch.ones(3, dtype=torch.bfloat16)), torch.bfloat16),  # refuses float32
    (lambda x: torch.tanh(x @ HALF), torch.bfloat16),
    (torch.nn.LayerNorm(3, dtype=torch.bfloat16), torch.bfloat16),
    (lambda x: x.bfloat16() * 1.2345, torch.float32),
    (lambda x: x.to(torch.bfloat16) @ HALF, torch.float32),
    (autocast, torch.float32),
]


@pytest.mark.parametrize(("function", "dtype"), SHORT)
def test_bfloat16_is_measured_in_float32(function, dtype):
    x = tensor([0.3, -0.7, 1.6], dtype)
    report = gradcheck(function, x, report=True)
    assert report.passed, report
    assert any("bfloat16 was measured in float32" in note for note in report.notes)
    wrong = function_of(torch.clone, lambda g, x: 1.3 * g)
    assert verdict(lambda x: wrong(function(x)), x) == "fail"


def test_bfloat16_that_cannot_be_measured_in_float32_is_told():
    def picky(x):
        assert x.dtype == torch.bfloat16
        return x * 2

    with pytest.raises(fdcheck.InvalidInput, match=r"func: expected to run in float32 .* raised AssertionError"):
        gradcheck(picky, random(3, dtype=torch.bfloat16))


def test_check_grad_dtypes(monkeypatch):
    x = random(3, dtype=torch.float32)
    assert gradcheck(torch.sin, x, check_grad_dtypes=True)
    grad = torch.autograd.grad  # torch itself sees to it that dtypes are the same
    monkeypatch.setattr(torch.autograd, "grad", lambda *a, **k: [g if g is None else g.double() for g in grad(*a, **k)])
    assert gradcheck(torch.sin, x)
    report = gradcheck(torch.sin, x, check_grad_dtypes=True, report=True)
    assert [str(f.status) for f in report.findings] == ["dtype"]
    assert "inputs[0] is torch.float32, its gradient torch.float64" in report.findings[0].message


# complex


def complex_point():
    return (random(3, dtype=torch.complex128).detach() * (1 + 0.5j)).requires_grad_(True)


def test_complex_outputs_are_checked_in_every_entry():
    z = complex_point()
    assert gradcheck(lambda z: z.exp(), z)
    assert gradcheck(lambda z: z.abs(), z)
    assert gradcheck(lambda z: (z * z.conj()).real, z)
    assert gradcheck(lambda x: torch.exp(1j * x), random(3))
    assert gradcheck(lambda z, x: z * x, (z, random(3)))
    for k in range(3):
        scale = torch.ones(3, dtype=torch.complex128)
        scale[k] = 1.1
        wrong = function_of(torch.exp, lambda g, z, s=scale: g * z.exp().conj() * s)
        assert {f.input_index for f in gradcheck(wrong, z, report=True).findings} == {(k,)}
    to_complex = function_of(lambda x: torch.exp(1j * x), lambda g, x: (g * -1j * torch.exp(-1j * x)).real * 1.1)
    assert verdict(to_complex, random(3)) == "fail"


def test_a_mismatch_that_vanishes_under_conjugation_is_named():
    report = gradcheck(function_of(square, lambda g, z: g * 2 * z), complex_point(), report=True)
    assert [d.kind for d in report.diagnoses] == ["conjugate"]


# kinks


KINKS = [
    (torch.relu, [0.0, -1.0, 1e-7, 2.0]),
    (torch.abs, [0.0, 1e-7, -3.0]),
    (lambda x: x.max(), [1.0, 1.0, 0.5]),
    (lambda x: x.sort().values, [1.0, 1.0, 0.5]),
    (lambda x: x.clip(-1, 1), [1.0, -1.0, 0.2, 1 + 1e-6]),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("function", "x"), KINKS)
def test_right_slopes_at_and_near_kinks_pass(function, x, dtype):
    assert gradcheck(function, tensor(x, dtype))


def test_slopes_at_a_kink():
    def relu(at_zero):
        return function_of(torch.relu, lambda g, x: g * torch.where(x == 0, at_zero, (x > 0).to(x.dtype)))

    x = tensor([0.0, 1.0])
    for slope in (0.0, 0.5, 1.0):
        report = gradcheck(relu(slope), x, report=True)
        assert report.passed
        assert "subgradient" in report.findings[0].status.meaning
        assert report.findings[0].input_index == (0,)
    for slope in (-0.1, 1.1, 2.0):
        assert verdict(relu(slope), x) == "fail"
    assert verdict(relu(0.5), tensor([1e-7, 1.0])) == "pass"  # off the kink, 0.5 is not used


# what a backward owes


def test_contracts():
    x = random(2, 3)
    assert gradcheck(function_of(square, lambda g, x: 2 * g * x), x)
    cases = {
        "nonlinear": lambda g, x: 2 * g.abs() * x,
        "mutation": lambda g, x: g.mul_(2).mul_(x),
        "layout": lambda g, x: 2 * torch.as_strided(g, g.shape, (3, 1)) * x,
    }
    for status, backward in cases.items():
        assert status in statuses(function_of(square, backward), x), status
        assert verdict(function_of(square, backward), x) == "fail"
    needs_contiguous = function_of(square, lambda g, x: 2 * g.view(-1).view(g.shape) * x)
    assert "layout" in statuses(needs_contiguous, x)


def test_a_backward_that_their_slow_mode_passes():
    x = random(3)
    nonlinear = function_of(square, lambda g, x: 2 * g**2 * x)
    tiny = function_of(lambda x: 1e-6 * x * x, lambda g, x: torch.zeros_like(x))
    for wrong in (nonlinear, tiny):
        assert torch.autograd.gradcheck(wrong, x)
        assert verdict(wrong, x) == "fail"


def test_two_backward_calls_that_differ():
    draw = torch.Generator().manual_seed(0)
    jitter = function_of(
        torch.sin, lambda g, x: g * x.cos() * (1 + 1e-9 * torch.rand((), generator=draw, dtype=g.dtype))
    )
    assert "nondeterministic" in statuses(jitter, random(3))
    assert gradcheck(jitter, random(3), nondet_tol=1e-6)


def undefined_grads(answer):
    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx, a, b):
            return answer(a, b, *ctx.saved_tensors)

    return Two.apply


def test_undefined_gradients():
    def careful(a, b, x):
        parts = [0 if a is None else a * x.cos(), 0 if b is None else -b * x.sin()]
        return None if a is None and b is None else sum(parts)

    careless = undefined_grads(lambda a, b, x: a * x.cos() - b * x.sin())
    as_ones = undefined_grads(lambda a, b, x: (1 if a is None else a) * x.cos() - (0 if b is None else b) * x.sin())
    assert gradcheck(undefined_grads(careful), random(3))
    assert statuses(careless, random(3)) == {"raised"}
    with pytest.raises(GradcheckError, match="check_undefined_grad=False"):
        gradcheck(careless, random(3))
    assert statuses(as_ones, random(3)) == {"nonlinear"}
    assert gradcheck(careless, random(3), check_undefined_grad=False)


def test_batched_gradients():
    assert gradcheck(lambda x: (x.sin(), x.sum()), random(2, 3), check_batched_grad=True)
    forward = {"check_forward_ad": True, "check_batched_forward_grad": True}
    assert gradcheck(torch.sin, random(3), check_batched_grad=True, **forward)
    stubborn = function_of(torch.sin, lambda g, x: torch.from_numpy(g.numpy() * x.cos().numpy()))
    assert gradcheck(stubborn, random(3))
    assert statuses(stubborn, random(3), check_batched_grad=True) == {"batched"}


def test_forward_mode():
    class Forward(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0].cos()

        @staticmethod
        def jvp(ctx, t):
            return 2 * t * ctx.saved_tensors[0].cos()

    x = random(3)
    report = gradcheck(Forward.apply, x, check_forward_ad=True, report=True)
    assert {f.endpoint for f in report.findings if f.status == "disagrees"} == {"jvp"}
    assert "adjoint" in {str(f.status) for f in report.findings}
    assert verdict(Forward.apply, x, check_forward_ad=True, check_backward_ad=False) == "fail"
    assert verdict(Forward.apply, x) == "pass"


# inputs and outputs of several kinds


def test_outputs_without_gradients():
    assert gradcheck(lambda x: (x * 2, x.detach() * 3, x > 0, x.argmax()), random(3))
    assert verdict(lambda x: x.detach() * 2, random(3)) == "fail"
    assert verdict(lambda x: x.round().detach(), random(3)) == "pass"


def test_shapes():
    assert gradcheck(lambda x: x * 2, tensor(3.0))
    assert gradcheck(lambda x: x.sum(0), random(3, 4).detach().T.requires_grad_(True))
    assert gradcheck(lambda x, y: x.expand(3), (random(1), None))


def pattern(layout):
    dense = torch.tensor([[0.0, 1.5, 0.0], [2.0, 0.0, -1.0]], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (dense.to_sparse() if layout == "coo" else dense.to_sparse_csr()).requires_grad_(True)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_inputs(layout, masked):
    x, dense = pattern(layout), random(3, 2)
    assert gradcheck(lambda s: s.to_dense(masked_grad=masked).sin(), x, masked=masked)
    assert gradcheck(lambda s, d: torch.sparse.mm(s, d), (x, dense), masked=True)
    report = gradcheck(lambda s: s.to_dense(masked_grad=masked) ** 2, x, masked=masked, report=True)
    assert report.passed
    assert report.coverage.inputs == (3 if masked else 6)
    wrong = gradcheck(lambda s: square(Tripled.apply(s.to_dense(masked_grad=masked))), x, masked=masked, report=True)
    assert str(wrong.verdict) == "fail"


class Tripled(Function):
    """The identity, with a gradient three times too large."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return 3 * g


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sparse_gradients_off_the_pattern_are_checked_unless_masked():
    class Doubled(Function):
        @staticmethod
        def forward(ctx, s):
            return s.to_dense() * 2

        @staticmethod
        def backward(ctx, g):
            given = pattern("coo").detach().to_dense() != 0
            return (2 * g * given).to_sparse()  # the gradient of three elements only

    options = {"check_undefined_grad": False}
    assert verdict(Doubled.apply, pattern("coo"), masked=True, **options) == "pass"
    assert verdict(Doubled.apply, pattern("coo"), masked=False, **options) == "fail"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sparse_outputs_and_hybrid_inputs():
    x = torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (3, 2)).double()
    assert gradcheck(lambda s: s.to_dense().sin(), x.detach().requires_grad_(True), masked=True)
    assert gradcheck(lambda s: s * 2, pattern("coo"), masked=True)
    dense = pattern("coo").detach().to_dense().requires_grad_(True)
    assert gradcheck(lambda d: (d * 2).to_sparse(), dense)
    assert verdict(lambda d: Tripled.apply(d * 2).to_sparse(), dense) == "fail"
    with pytest.raises(fdcheck.InvalidInput, match="COO or CSR"):
        gradcheck(lambda s: s.to_dense(), pattern("coo").detach().to_sparse_csc().requires_grad_(True))


# fast mode


def spoiled(index):
    """Return a sum of squares, and squares, whose gradient is six times too large in one element."""

    def backward(g, x):
        gradient = 2 * g * x
        gradient[index] *= 6
        return gradient

    return function_of(lambda x: (x * x).sum(), backward), function_of(square, backward)


@pytest.mark.parametrize("index", [0, 1, 500, 998, 999])
def test_fast_mode_finds_one_entry_of_a_thousand(index):
    report = gradcheck(spoiled(index)[0], random(1000), fast_mode=True, report=True)
    assert str(report.verdict) == "fail"
    assert {f.input_index for f in report.findings} == {(index,)}
    assert report.applies < 400


def test_fast_mode_passes_right_gradients_cheaply():
    report = gradcheck(lambda x: (x * x).sum(), random(1000), fast_mode=True, report=True)
    assert report.passed
    assert report.applies < 50


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_fast_mode_finds_a_zero_gradient_of_150_000(dtype):
    zero = function_of(lambda x: (x * x).sum(), lambda g, x: torch.zeros_like(x))
    assert verdict(zero, random(150_000, dtype=dtype), fast_mode=True) == "fail"
    assert (
        verdict(lambda x: zero(x).repeat(4) * torch.arange(1, 5), random(150_000, dtype=dtype), fast_mode=True)
        == "fail"
    )


def test_a_failing_fast_check_at_50_000_is_small_and_quick():
    x = random(50_000)
    begin = time.perf_counter()
    report = gradcheck(spoiled(31_234)[1], x, fast_mode=True, report=True)
    assert time.perf_counter() - begin < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2_000_000  # kB
    assert str(report.verdict) == "fail"
    assert {f.input_index for f in report.findings} == {(31_234,)}
    assert gradcheck(square, x, fast_mode=True)


# second order


def test_second_derivatives():
    x, y = random(3), random(3, seed=1)
    for options in ({}, {"check_fwd_over_rev": True}, {"gen_non_contig_grad_outputs": True}, {"fast_mode": True}):
        assert gradgradcheck(lambda a, b: (a**2 * b).sum(), (x, y), **options)
    ones = torch.ones(3, dtype=torch.float64)
    assert gradgradcheck(lambda a: (a.sin(), a.exp()), x, (ones, None))
    assert gradgradcheck(lambda a: (a.argmax(), a.sin(), a.detach(), a.exp()), x, (None, ones))  # as torch counts
    assert gradgradcheck(lambda a: (a.argmax(), a.sin(), a.exp()), x, (None, None, ones))  # as they are returned
    assert gradgradcheck(lambda a: a * 2, x)
    assert gradgradcheck(torch.abs, x)  # a second derivative that torch holds as a ZeroTensor
    assert gradgradcheck(lambda a: a**3, random(3, dtype=torch.complex128))
    assert gradgradcheck(lambda a: a**3, random(3, dtype=torch.float32), check_batched_grad=True)


class CubeBackward(Function):
    @staticmethod
    def forward(ctx, g, x):
        ctx.save_for_backward(g, x)
        return 3 * g * x**2

    @staticmethod
    def backward(ctx, v):
        g, x = ctx.saved_tensors
        return 3 * v * x**2, 5 * v * g * x


def test_second_derivatives_in_bfloat16():
    x = tensor([0.5, 1.5, -1.3], torch.bfloat16)
    for right in (torch.exp, lambda x: torch.tanh(x @ HALF), lambda x: x.softmax(0)):
        assert gradgradcheck(right, x, check_fwd_over_rev=True)
    cube = function_of(lambda x: x**3, lambda g, x: CubeBackward.apply(g, x))
    report = gradgradcheck(cube, x, report=True)
    assert {f.endpoint for f in report.findings if f.status == "disagrees"} == {"vjp_of_vjp"}


def test_wrong_second_derivatives():
    cube = function_of(lambda x: x**3, lambda g, x: CubeBackward.apply(g, x))
    x = random(3)
    assert gradcheck(cube, x)
    report = gradgradcheck(cube, x, report=True)
    assert {f.endpoint for f in report.findings if f.status == "disagrees"} == {"vjp_of_vjp"}
    with pytest.raises(TheirError, match="first order, the vjp: pass; its"):
        gradgradcheck(cube, x)
    assert not gradgradcheck(cube, x, raise_exception=False)


def test_a_gradient_that_cannot_be_differentiated():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            return 3 * g * ctx.saved_tensors[0] ** 2

    assert gradcheck(Once.apply, random(3))
    report = gradgradcheck(Once.apply, random(3), report=True)
    assert {f.endpoint for f in report.findings} == {"vjp_of_vjp"}
    assert {f.claimed for f in report.findings} == {0.0}  # torch.autograd.grad gives None, without a word


def test_nondeterminism_is_said_to_be_amplified():
    draw = torch.Generator().manual_seed(0)
    jitter = function_of(
        torch.sin, lambda g, x: g * x.cos() * (1 + 1e-6 * torch.rand((), generator=draw, dtype=g.dtype))
    )
    with pytest.raises(GradcheckError, match=r"becomes\s+much\s+in\s+the\s+second"):
        gradgradcheck(jitter, random(3))


def test_second_derivatives_owe_what_first_ones_do():
    def doubled(answer):
        class Backward(Function):
            @staticmethod
            def forward(ctx, g, x):
                ctx.save_for_backward(g, x)
                return 3 * g * x**2

            @staticmethod
            def backward(ctx, v):
                g, x = ctx.saved_tensors
                return 3 * v * x**2, answer(v, g, x)

        return function_of(lambda x: x**3, lambda g, x: Backward.apply(g, x))

    x = random(3)
    assert gradgradcheck(doubled(lambda v, g, x: 6 * v * g * x), x)
    found = gradgradcheck(doubled(lambda v, g, x: 6 * v.abs() * g * x), x, report=True).findings
    assert {(f.endpoint, str(f.status)) for f in found} >= {("vjp_of_vjp", "nonlinear")}
    stubborn = doubled(lambda v, g, x: torch.from_numpy(6 * v.numpy() * g.detach().numpy() * x.detach().numpy()))
    found = gradgradcheck(stubborn, x, report=True, check_batched_grad=True).findings
    assert {(f.endpoint, str(f.status)) for f in found} == {("vjp_of_vjp", "batched")}


def test_second_derivatives_of_many_elements():
    x = random(20_000)
    assert gradgradcheck(lambda x: (x**3).sum(), x, fast_mode=True)
    cube = function_of(lambda x: x**3, lambda g, x: CubeBackward.apply(g, x))
    report = gradgradcheck(cube, x, fast_mode=True, report=True)
    assert {f.endpoint for f in report.findings if f.status == "disagrees"} == {"vjp_of_vjp"}
    with pytest.raises(fdcheck.InvalidInput, match="check_fwd_over_rev"):
        gradgradcheck(cube, x, fast_mode=True, check_fwd_over_rev=True)
