"""gradcheck and gradgradcheck for torch and packages made like it: what is checked, in which order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.adapters.inputs import Framework
from fdcheck.adapters.projections import projected
from fdcheck.adapters.tensors import TensorProblem
from fdcheck.adapters.tolerances import as_theirs, measured_with, rounding_allowance
from fdcheck.api import verify
from fdcheck.checks.products import Linear, amended, batched_findings, contract_findings, linear_map
from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.returned import returned
from fdcheck.problem.wording import described
from fdcheck.results import Finding, InvalidInput, Report, Status
from fdcheck.second_order import merged, renamed, verify_second_order

_FAST_EVALS = 4
"""Elements that ``fast_mode`` moves one by one; the others are moved together along one random direction."""

_DENSE_ENTRIES = 10_000_000
"""Entries of a Jacobian that are held at once: at 60 bytes each 600 MB. Beyond them, and in ``fast_mode`` beyond
a hundredth of them, the outputs are weighted and summed."""

_BFLOAT16_RTOL = 0.1
"""Tolerance of a derivative computed in bfloat16 and measured in float32: a dozen roundings of 2**-8 and a sum."""


@dataclass(frozen=True)
class Options:
    """What the callers of gradcheck and gradgradcheck may set, under their names.

    Parameters
    ----------
    eps, atol, rtol : float or None
        Step and tolerances; None for fdcheck's own rules.
    nondet_tol : float
        By how much two equal calls may differ; 0.0 means exactly equal.
    undefined, dtypes, batched, batched_forward, forward, backward : bool
        The checks ``check_undefined_grad``, ``check_grad_dtypes``, ``check_batched_grad``,
        ``check_batched_forward_grad``, ``check_forward_ad`` or ``check_fwd_over_rev``, and ``check_backward_ad`` or
        ``check_rev_over_rev``.
    fast, masked, strided : bool
        ``fast_mode``, ``masked`` and ``gen_non_contig_grad_outputs``.
    """

    eps: float | None = None
    atol: float | None = None
    rtol: float | None = None
    nondet_tol: float = 0.0
    undefined: bool = True
    dtypes: bool = False
    batched: bool = False
    batched_forward: bool = False
    forward: bool = False
    backward: bool = True
    fast: bool = False
    masked: bool = False
    strided: bool = False


def outcome(framework: Framework, result: Report, raise_exception: bool, report: bool) -> bool | Report:
    """Return what a drop-in returns, or raise what it raises."""
    if report:
        return result
    if raise_exception and not result.passed:
        raise framework.error(result)
    return result.passed


def first_order(framework: Framework, function: Callable[..., Any], inputs: Any, options: Options) -> Report:
    """Return the check of first derivatives."""
    if not (options.forward or options.backward):
        raise InvalidInput("check_forward_ad, check_backward_ad: expected at least one to be True, got neither")
    tensors = TensorProblem(framework, function, inputs, options.masked)
    endpoints: dict[str, Callable[..., Any]] = {"vjp": tensors.vjp} if options.backward else {}
    if options.forward:
        endpoints["jvp"] = tensors.jvp
    given = {name: Function(name, f) for name, f in endpoints.items()}
    problem = _problem(tensors.apply, tensors.x0)
    apply, checked, notes = _reduced(tensors, endpoints, options)
    numbers = _numbers(tensors, problem, given, options)
    result = verify(apply, tensors.x0, vjp=checked.get("vjp"), jvp=checked.get("jvp"), **numbers)
    result = as_theirs(result, options.rtol, numbers["atol"])
    if not result.pairs or problem is None:
        return result
    with np.errstate(all="ignore"):
        found = contract_findings(problem, given, options.nondet_tol, eps=tensors.eps)
        found += _about_gradients(tensors, problem, given, options)
    return amended(_with_calls(result, given), found, notes + _about_outputs(tensors))


def second_order(
    framework: Framework, function: Callable[..., Any], inputs: Any, grad_outputs: Any, options: Options
) -> Report:
    """Return the check of first and second derivatives."""
    if not (options.forward or options.backward):
        raise InvalidInput("check_fwd_over_rev, check_rev_over_rev: expected at least one to be True, got neither")
    given = [grad_outputs] if framework.is_tensor(grad_outputs) else grad_outputs
    omitted = () if given is None else [k for k, tensor in enumerate(given) if tensor is None]
    tensors = TensorProblem(framework, function, inputs, options.masked, omitted, options.strided)
    cotangent = _cotangent(tensors, given)
    gradient, both = tensors.gradient(cotangent)
    moved, values = sum(a.size for a in tensors.arrays(tensors.x0)), sum(int(t.numel()) for t in tensors.like)
    if moved * (moved + values) > _DENSE_ENTRIES:
        if options.forward:
            raise InvalidInput(f"check_fwd_over_rev: {moved} elements of inputs are too many; leave it out")
        reports = [
            first_order(framework, f, x, options)
            for f, x in ((tensors.outputs_given, tensors.inputs), (gradient, both))
        ]
        return merged([reports[0], renamed(reports[1], _SECOND)])
    seconds: dict[str, Any] = {}
    if options.backward:
        seconds["vjp_of_vjp"] = tensors.vjp_of_vjp
    if options.forward:
        seconds["jvp_of_vjp"] = tensors.jvp_of_vjp
    first = {"vjp": Function("vjp", tensors.vjp)}
    problem = _problem(tensors.apply, tensors.x0)
    numbers = _numbers(tensors, problem, first, options)
    result = verify_second_order(tensors.apply, tensors.x0, vjp=tensors.vjp, cotangent=cotangent, **seconds, **numbers)
    result = as_theirs(result, options.rtol, numbers["atol"])
    if problem is None or not any(pair.endpoint in seconds for pair in result.pairs):
        return result
    backward = dataclasses.replace(options, backward=True, batched_forward=False)
    with np.errstate(all="ignore"):
        found = contract_findings(problem, first, options.nondet_tol, eps=tensors.eps)
        found += _about_gradients(tensors, problem, first, backward)
    report = amended(_with_calls(result, first), found, _about_outputs(tensors))
    return amended(report, _about_second(TensorProblem(framework, gradient, both, options.masked), options))


_SECOND = {"apply": "vjp", "vjp": "vjp_of_vjp", "jvp": "jvp_of_vjp"}
"""What a function, its vjp and its jvp are called where the function is a vjp."""


def _about_second(tensors: TensorProblem, options: Options) -> list[Finding]:
    """Return what the derivatives of a vjp owe beside right entries."""
    problem = _problem(tensors.apply, tensors.x0)
    if problem is None or not (options.backward and tensors.has_gradient):
        return []
    given = {"vjp": Function("vjp", tensors.vjp)}
    with np.errstate(all="ignore"):
        found = contract_findings(problem, given, options.nondet_tol, eps=tensors.eps)
        found += _about_gradients(tensors, problem, given, options)
    return [
        dataclasses.replace(f, endpoint=_SECOND[f.endpoint], message=f.message.replace("vjp", "vjp_of_vjp"))
        for f in found
    ]


def _problem(apply: Callable[..., Any], x0: Any) -> Problem | None:
    """Return apply at x0, None where it raises."""
    try:
        with np.errstate(all="ignore"):
            return Problem(Function("apply", apply), x0)
    except Breach:
        return None


def _with_calls(report: Report, given: dict[str, Function]) -> Report:
    """Return a report that counts further calls of the endpoints."""
    calls = {name: count + (given[name].calls if name in given else 0) for name, count in report.endpoint_calls.items()}
    return dataclasses.replace(report, endpoint_calls=calls)


def _reduced(
    tensors: TensorProblem, endpoints: dict[str, Callable[..., Any]], options: Options
) -> tuple[Callable[..., Any], dict[str, Callable[..., Any]], list[str]]:
    """Return apply and endpoints of outputs that are weighted and summed where the Jacobian would be too large."""
    entries = sum(a.size for a in tensors.arrays(tensors.x0)) * sum(int(t.numel()) for t in tensors.like)
    if entries <= (_DENSE_ENTRIES // 100 if options.fast else _DENSE_ENTRIES):
        return tensors.apply, endpoints, []
    shapes = [tuple(t.shape) for t in tensors.like]
    kinds = [np.complex128 if t.is_complex() else np.float64 for t in tensors.like]
    note = f"the Jacobian would have {entries} entries: outputs were weighted at random and summed before comparing"
    apply, checked = projected(tensors.apply, endpoints, shapes, kinds)
    return apply, checked, [note]


def _numbers(
    tensors: TensorProblem, problem: Problem | None, given: dict[str, Function], options: Options
) -> dict[str, Any]:
    """Return options of verify."""
    rtol, atol = measured_with(options.rtol), options.atol
    if rtol is None and tensors.has_bfloat16:
        rtol = _BFLOAT16_RTOL if tensors.wide else 8 * tensors.eps ** (2 / 3)
    if atol is None:
        atol = 0.0 if problem is None else rounding_allowance(problem, given, tensors.eps)
    found = {"rtol": rtol, "atol": atol, "eps": options.eps}
    return {**found, "max_evals": _FAST_EVALS} if options.fast else found


def _about_outputs(tensors: TensorProblem) -> list[str]:
    """Return notes on what was left out and how bfloat16 was measured."""
    notes = []
    if not tensors.has_gradient:
        notes.append("no output requires a gradient: the derivative was taken to be zero")
    if tensors.has_bfloat16:
        how = "float32, with the gradient in bfloat16" if tensors.wide else "bfloat16, whose steps are coarse"
        notes.append(f"bfloat16 inputs were measured in {how}")
    return notes


def _about_gradients(
    tensors: TensorProblem, problem: Problem, given: dict[str, Function], options: Options
) -> list[Finding]:
    """Return what the optional checks find: undefined gradients, dtypes, stacks."""
    found: list[Finding] = []
    if options.backward and tensors.has_gradient:
        product = linear_map(given["vjp"], problem, tensors.eps)
        if options.undefined:
            found += _undefined(tensors, product)
        if options.batched:
            found += batched_findings(product, lambda vectors: _batched_backward(tensors, product, vectors))
    if options.batched_forward:
        along = linear_map(given.get("jvp", Function("jvp", tensors.jvp)), problem, tensors.eps)
        found += batched_findings(along, lambda vectors: _batched_forward(tensors, along, vectors))
    if options.dtypes and tensors.odd_dtypes:
        found.append(
            Finding("vjp", Status.DTYPE, f"gradients of another dtype: {', '.join(sorted(tensors.odd_dtypes))}.")
        )
    return found


def _undefined(tensors: TensorProblem, product: Linear) -> Iterator[Finding]:
    """Yield whether gradients of outputs that are undefined (None) are taken for zeros."""
    count = len(tensors.like)
    cases = [frozenset(range(count)), *([frozenset([k]) for k in range(count)] if count > 1 else [])]
    draw = np.random.default_rng(0x756E64)
    vector = draw.choice([-1.0, 1.0], product.into.size)
    for undefined in cases:
        name = "all outputs" if len(undefined) == count else f"outputs[{min(undefined)}]"
        cotangent = trees.from_coordinates(vector, product.into)
        try:
            got, _ = returned("vjp", tensors.vjp_undefined(tensors.x0, cotangent, undefined), product.out, "x0")
        except Exception as error:
            told = described(error)
            yield Finding("vjp", Status.RAISED, f"with an undefined (None) cotangent of {name} vjp raised {told}.")
            return
        zeroed = vector.copy()
        for k in undefined:
            leaf = product.into.leaves[k]
            zeroed[leaf.start : leaf.stop] = 0.0
        expected = product(zeroed)
        largest = float(np.abs(expected).max(initial=0.0))
        apart = float(np.abs(got - expected).max(initial=0.0))
        if apart > product.tolerance * largest:
            text = (
                f"an undefined (None) cotangent of {name} is not taken for zeros: the gradient is off by {apart:.3g}."
            )
            yield Finding("vjp", Status.NONLINEAR, text)
            return


def _stacked(tensors: Sequence[Sequence[Any]], module: Any) -> list[Any]:
    """Return one stack of each leaf from a list of structures."""
    return [module.stack(list(column)) for column in zip(*tensors, strict=True)]


def _batched_backward(tensors: TensorProblem, product: Linear, vectors: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the products with vectors from one call with a stack of cotangents."""
    leaves, outputs = tensors.graph(tensors.x0)
    rows = [tensors.cotangents(trees.from_coordinates(v, product.into)) for v in vectors]
    stacks = _stacked(rows, tensors.framework.module)
    live = [(o, c) for o, c in zip(outputs, stacks, strict=True) if o.requires_grad]
    found = tensors.framework.batched_grad([o for o, _ in live], leaves, [c for _, c in live])
    answers = [
        returned("vjp", tensors.unpacked([None if g is None else g[k] for g in found]), product.out, "x0")[0]
        for k in range(len(vectors))
    ]
    return np.array(answers)


def _batched_forward(tensors: TensorProblem, product: Linear, vectors: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the products with vectors from one call with a stack of tangents."""
    framework = tensors.framework
    stacks = _stacked([tensors.primals(trees.from_coordinates(v, product.into)) for v in vectors], framework.module)
    primals = tensors.primals(tensors.x0)

    def along(*tangents: Any) -> Any:
        found = framework.jvp(tensors.outputs_of, primals, tangents)
        return tuple(0 * like if t is None else t for t, like in zip(found, tensors.like, strict=True))

    found = framework.vmap(along)(*stacks)
    answers = []
    for k in range(len(vectors)):
        result = {"outputs": [framework.array(t[k]) for t in found]}
        answers.append(returned("jvp", result, product.out, "apply's output")[0])
    return np.array(answers)


def _cotangent(tensors: TensorProblem, given: Sequence[Any] | None) -> Any:
    """Return where the vjp is differentiated: what the user gave, or random numbers."""
    if given is None:
        draw = np.random.default_rng(0x636F74)
        return {"outputs": [_random(draw, tensors.framework.array(like)) for like in tensors.like]}
    chosen = [tensor for tensor in given if tensor is not None]
    if len(chosen) != len(tensors.like):
        raise InvalidInput(f"grad_outputs: expected {len(tensors.like)} tensors or None, got {len(chosen)}")
    return {"outputs": [tensors.framework.array(tensor).copy("K") for tensor in chosen]}


def _random(draw: np.random.Generator, like: NDArray[Any]) -> NDArray[Any]:
    def part() -> Any:
        return draw.integers(8, 25, like.shape) / 16 * draw.choice([-1.0, 1.0], like.shape)

    values: NDArray[Any] = np.asarray(part() + 1j * part() if like.dtype.kind == "c" else part(), like.dtype)
    return values
