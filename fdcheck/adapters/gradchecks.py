"""gradcheck and gradgradcheck for torch and packages made like it: what is checked, in which order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.adapters.inputs import Framework
from fdcheck.adapters.points import problem_at
from fdcheck.adapters.projections import SUMS, projected
from fdcheck.adapters.tensors import TensorProblem
from fdcheck.adapters.tolerances import as_theirs, remedy, tolerances
from fdcheck.api import verify
from fdcheck.checks.contract import contract_findings
from fdcheck.checks.products import Linear, amended, batched_findings, linear_map
from fdcheck.problem import trees
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.returned import returned
from fdcheck.problem.wording import described
from fdcheck.results import Finding, InvalidInput, Report, Status
from fdcheck.second_order import verify_second_order
from fdcheck.settings import SKIPPABLE, Contract
from fdcheck.several import merged, renamed, renamed_finding

_FAST_EVALS = 4
"""Elements that ``fast_mode`` moves one by one; the others are moved together along one random direction."""

_DENSE_ENTRIES = 10_000_000
"""Entries of a Jacobian that are held at once: at 60 bytes each 600 MB. Beyond them, and in ``fast_mode`` beyond
a hundredth of them, the outputs are weighted and summed."""


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
    problem = problem_at(tensors.apply, tensors.x0)
    apply, checked, notes = _reduced(tensors, endpoints, options)
    numbers = _numbers(tensors, problem, given, options)
    owed = {"skip": SKIPPABLE} if notes else {"contract": Contract(nondet_tol=options.nondet_tol, eps=tensors.eps)}
    result = verify(apply, tensors.x0, vjp=checked.get("vjp"), jvp=checked.get("jvp"), **numbers, **owed)
    result = as_theirs(result, options.rtol, numbers["atol"])
    found = _owed(tensors, problem, given, options, bool(notes)) if result.pairs and problem is not None else []
    return _finished(result, given, found, tensors, options, notes)


def second_order(
    framework: Framework, function: Callable[..., Any], inputs: Any, grad_outputs: Any, options: Options
) -> Report:
    """Return the check of first and second derivatives."""
    if not (options.forward or options.backward):
        raise InvalidInput("check_fwd_over_rev, check_rev_over_rev: expected at least one to be True, got neither")
    cotangents = [grad_outputs] if framework.is_tensor(grad_outputs) else grad_outputs
    tensors = TensorProblem(framework, function, inputs, options.masked, cotangents, options.strided)
    cotangent = _cotangent(tensors)
    gradient, both = tensors.gradient(cotangent)
    moved, values = sum(a.size for a in tensors.arrays(tensors.x0)), sum(int(t.numel()) for t in tensors.like)
    is_large = moved * (moved + values) > _DENSE_ENTRIES
    if is_large and options.forward:
        raise InvalidInput(f"check_fwd_over_rev: {moved} elements of inputs are too many; leave it out")
    if is_large or tensors.wide:  # each of the two functions is summed, or measured in float32, by itself
        reverse = dataclasses.replace(options, backward=True, forward=False)
        first = first_order(framework, tensors.outputs_given, tensors.leaves, reverse)
        return merged([first, renamed(first_order(framework, gradient, both, options), _SECOND)])
    seconds: dict[str, Any] = {}
    if options.backward:
        seconds["vjp_of_vjp"] = tensors.vjp_of_vjp
    if options.forward:
        seconds["jvp_of_vjp"] = tensors.jvp_of_vjp
    given = {"vjp": Function("vjp", tensors.vjp)}
    problem = problem_at(tensors.apply, tensors.x0)
    numbers = _numbers(tensors, problem, given, options)
    contract = Contract(nondet_tol=options.nondet_tol, eps=tensors.eps)
    result = verify_second_order(
        tensors.apply, tensors.x0, vjp=tensors.vjp, cotangent=cotangent, contract=contract, **seconds, **numbers
    )
    result = as_theirs(result, options.rtol, numbers["atol"])
    found = []
    if problem is not None and any(pair.endpoint in seconds for pair in result.pairs):
        backward = dataclasses.replace(options, backward=True, batched_forward=False)
        found = _owed(tensors, problem, given, backward)
        found += _about_second(TensorProblem(framework, gradient, both, options.masked), options)
    return _finished(result, given, found, tensors, options)


def _finished(
    result: Report,
    given: dict[str, Function],
    found: Sequence[Finding],
    tensors: TensorProblem,
    options: Options,
    notes: Sequence[str] = (),
) -> Report:
    """Return a report with further findings and notes, and with the calls that those took."""
    calls = {name: count + (given[name].calls if name in given else 0) for name, count in result.endpoint_calls.items()}
    report = amended(dataclasses.replace(result, endpoint_calls=calls), found)
    advice = remedy(report, tensors.measured_dtype, options.eps)
    return dataclasses.replace(report, notes=(*report.notes, *notes, *_about_outputs(tensors), *advice))


_SECOND = {"apply": "vjp", "vjp": "vjp_of_vjp", "jvp": "jvp_of_vjp"}
"""What a function, its vjp and its jvp are called where the function is a vjp."""


def _about_second(tensors: TensorProblem, options: Options) -> list[Finding]:
    """Return what the derivatives of a vjp owe beside right entries."""
    problem = problem_at(tensors.apply, tensors.x0)
    if problem is None or not (options.backward and tensors.has_gradient):
        return []
    found = _owed(tensors, problem, {"vjp": Function("vjp", tensors.vjp)}, options)
    return [renamed_finding(finding, _SECOND) for finding in found]


def _owed(
    tensors: TensorProblem,
    problem: Problem,
    given: dict[str, Function],
    options: Options,
    with_contract: bool = False,
) -> list[Finding]:
    """Return what endpoints owe beside right entries and do not keep; their contract, if no check has asked for it."""
    with np.errstate(all="ignore"):
        found = contract_findings(problem, given, options.nondet_tol, eps=tensors.eps) if with_contract else []
        return found + _about_gradients(tensors, problem, given, options)


def _reduced(
    tensors: TensorProblem, endpoints: dict[str, Callable[..., Any]], options: Options
) -> tuple[Callable[..., Any], dict[str, Callable[..., Any]], list[str]]:
    """Return apply and endpoints of outputs that are weighted and summed where the Jacobian would be too large."""
    values = sum(int(t.numel()) for t in tensors.like)
    entries = sum(a.size for a in tensors.arrays(tensors.x0)) * values
    if values <= SUMS or entries <= (_DENSE_ENTRIES // 100 if options.fast else _DENSE_ENTRIES):
        return tensors.apply, endpoints, []
    note = f"the Jacobian would have {entries} entries: outputs were weighted at random and summed before comparing"
    apply, checked = projected(
        tensors.apply, endpoints, tensors.as_y([tensors.framework.array(t) for t in tensors.like])
    )
    return apply, checked, [note]


def _numbers(
    tensors: TensorProblem, problem: Problem | None, given: dict[str, Function], options: Options
) -> dict[str, Any]:
    """Return options of verify."""
    found = tolerances(problem, given, options.rtol, options.atol, tensors.eps)
    found["eps"] = options.eps
    return {**found, "max_evals": _FAST_EVALS} if options.fast else found


def _about_outputs(tensors: TensorProblem) -> list[str]:
    """Return notes on what was left out and how bfloat16 was measured."""
    notes = []
    if not tensors.has_gradient:
        notes.append(
            "no output requires a gradient (detached, or made under no_grad?): its derivative was taken to be zero"
        )
    if not any(t.numel() for t in tensors.like):
        notes.append("no output has an element: there is nothing to compare")
    if tensors.wide:
        notes.append("bfloat16 was measured in float32, and compared with the gradient in bfloat16")
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


_LEFT_OUT = "check_undefined_grad=False leaves this out"


def _undefined(tensors: TensorProblem, product: Linear) -> Iterator[Finding]:
    """Yield whether gradients of outputs that are undefined (None) are taken for zeros."""
    count = len(tensors.like)
    cases = [frozenset(range(count)), *([frozenset([k]) for k in range(count)] if count > 1 else [])]
    draw = np.random.default_rng(0x756E64)
    vector = draw.choice([-1.0, 1.0], product.into.size)
    for undefined in cases:
        name = "all outputs" if len(undefined) == count else product.into.leaves[min(undefined)].path
        cotangent = trees.from_coordinates(vector, product.into)
        try:
            got, _ = returned("vjp", tensors.vjp_undefined(tensors.x0, cotangent, undefined), product.out, "x0")
        except Exception as error:
            told = described(error)
            text = f"with an undefined (None) cotangent of {name} vjp raised {told}; {_LEFT_OUT}."
            yield Finding("vjp", Status.RAISED, text)
            return
        zeroed = vector.copy()
        for k in undefined:
            leaf = product.into.leaves[k]
            zeroed[leaf.start : leaf.stop] = 0.0
        expected = product(zeroed)
        largest = float(np.abs(expected).max(initial=0.0))
        apart = float(np.abs(got - expected).max(initial=0.0))
        if apart > product.tolerance * largest:
            text = f"an undefined (None) cotangent of {name} is not taken for zeros: the gradient is off by {apart:.3g}"
            text += f"; {_LEFT_OUT}."
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
        result = tensors.as_y([framework.array(t[k]) for t in found])
        answers.append(returned("jvp", result, product.out, "apply's output")[0])
    return np.array(answers)


def _cotangent(tensors: TensorProblem) -> Any:
    """Return where the vjp is differentiated: what the user gave, or random numbers."""
    likes = [tensors.framework.array(like) for like in tensors.like]
    if tensors.given:
        pairs = zip(tensors.given, likes, strict=True)
        return tensors.as_y([tensors.framework.array(tensor).astype(like.dtype) for tensor, like in pairs])
    draw = np.random.default_rng(0x636F74)
    return tensors.as_y([_random(draw, like) for like in likes])


def _random(draw: np.random.Generator, like: NDArray[Any]) -> NDArray[Any]:
    def part() -> Any:
        return draw.integers(8, 25, like.shape) / 16 * draw.choice([-1.0, 1.0], like.shape)

    values: NDArray[Any] = np.asarray(part() + 1j * part() if like.dtype.kind == "c" else part(), like.dtype)
    return values
