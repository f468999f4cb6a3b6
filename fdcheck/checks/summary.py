"""What the findings of a check come to: notes about apply, the verdict and the report."""

from __future__ import annotations

import functools
import importlib.metadata
import math
import platform
from collections.abc import Collection, Mapping, Sequence

from fdcheck.checks.checking import Outcome
from fdcheck.checks.findings import by_severity
from fdcheck.checks.plan import Plan
from fdcheck.problem.budget import MAX_APPLIES, TIME_LIMIT
from fdcheck.problem.callables import Function, Problem
from fdcheck.results import BREACHES, Coverage, Finding, Pair, Report, Status, Verdict
from fdcheck.settings import Settings, settings_as_data


def findings_about_apply(problem: Problem, scatter: float, known: Sequence[Finding] = ()) -> list[Finding]:
    """Return what was noticed about apply itself: that it is not deterministic, that it changes its argument.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    scatter : float
        Largest difference of two calls at x0, relative to the value.
    known : sequence of Finding
        Findings before these; one that explains why two calls differ is enough.
    """
    findings, skip = [], problem.apply.skip
    explained = any(f.endpoint == "apply" and f.status in _RESTLESS for f in known)
    if scatter > 0 and not explained and Status.NONDETERMINISTIC not in skip:
        text = (
            f"two calls of apply at x0 differ by {scatter:.1g} of the value; fix its random seed, or check the "
            "derivative of a deterministic part."
        )
        findings.append(Finding("apply", Status.NONDETERMINISTIC, text))
    if problem.apply.mutated and Status.MUTATION not in skip:
        findings.append(changes_its_argument())
    if problem.course.broken_off is not None:
        findings.append(problem.course.broken_off.finding)
    return findings


_RESTLESS = (Status.NONDETERMINISTIC, Status.HIDDEN_STATE)


def changes_its_argument() -> Finding:
    """Return the finding that apply writes into its argument."""
    text = "apply changes its argument in place; it was given copies, x0 is as it was."
    return Finding("apply", Status.MUTATION, text)


def steps_left_out(problem: Problem, pairs: Sequence[Pair], findings: list[Finding]) -> list[str]:
    """Return notes on points where apply gave no value; where that left entries open they become findings."""
    breaches = [breach.finding for breach in (problem.course.raised, problem.course.changed) if breach is not None]
    if any(status in pair.counts for pair in pairs for status in (Status.NONFINITE, Status.UNDECIDED)):
        findings += breaches
        return []
    return [f"{finding.message} That point was left out; x0 itself is fine." for finding in breaches]


_COMPARING = (*_RESTLESS, Status.NONLINEAR, Status.LAYOUT, Status.ADJOINT, Status.BATCHED)
"""Breaches that show in the difference of two calls."""


def without_restless(findings: Sequence[Finding], scatter: float) -> list[Finding]:
    """Return findings without those that an apply explains which differs from call to call: its vjp does so too."""
    if not (scatter > 0 or any(f.endpoint == "apply" and f.status in _RESTLESS for f in findings)):
        return list(findings)
    restless = {f.endpoint for f in findings if f.endpoint != "apply" and f.status in _RESTLESS}
    return [f for f in findings if f.endpoint not in restless or f.status not in _COMPARING]


def _verdict(findings: Sequence[Finding], pairs: Sequence[Pair]) -> Verdict:
    """Return the answer of the whole check."""
    statuses = {status for pair in pairs for status in pair.counts}
    broken = any(f.status in BREACHES and f.endpoint != "apply" for f in findings)
    if broken or Status.DISAGREES in statuses:
        return Verdict.FAIL
    open_ = {Status.UNDECIDED, Status.NONFINITE} & statuses
    unclear = {*_RESTLESS, Status.UNDECIDED} & {f.status for f in findings}
    if open_ or unclear or not pairs:
        return Verdict.INCONCLUSIVE
    return Verdict.PASS


def report_of(problem: Problem, outcome: Outcome, given: Mapping[str, Function], settings: Settings) -> Report:
    """Return the report of a check.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    outcome : Outcome
        What was found.
    given : dict of str to Function
        The endpoints.
    settings : Settings
        What the user asked for.
    """
    plan, pairs, findings = outcome.plan, outcome.pairs, outcome.findings
    seen = [pair for pair in pairs if math.isfinite(pair.sensitivity)]
    remarks = list(dict.fromkeys(outcome.notes))
    if problem.inputs.carried:
        remarks.append("carried along, not differentiated: " + ", ".join(problem.inputs.carried))
    resting = [leaf.path for leaf in (*problem.inputs.resting, *problem.outputs.resting)]
    if resting:
        remarks.append("not selected, not checked: " + ", ".join(resting))
    if pairs:
        remarks += about_sample(plan, settings, {pair.endpoint for pair in pairs})
    if problem.budget.spent in (MAX_APPLIES, TIME_LIMIT):
        calls = f"the budget of {settings.max_applies} calls of apply is spent (max_applies)"
        spent = calls if problem.budget.spent == MAX_APPLIES else "the time is up (time_limit)"
        remarks.append(f"{spent}; entries that were still in doubt are undecided")
    if problem.course.stacks:
        remarks.append(
            f"{problem.apply.calls} points were evaluated in {problem.course.stacks + 1} calls of apply (batched)"
        )
    if problem.outputs.carried:
        remarks.append("outputs that are not differentiable, not compared: " + ", ".join(problem.outputs.carried))
    every_row = outcome.together > 0 or any(pair.endpoint != "vjp" for pair in pairs)
    outputs = problem.outputs.size if every_row else len(plan.rows)
    return Report(
        verdict=_verdict(findings, pairs),
        findings=tuple(by_severity(findings)),
        pairs=tuple(pairs),
        coverage=Coverage(
            problem.inputs.whole_size,
            outcome.measured if pairs else 0,
            problem.outputs.whole_size,
            outputs if pairs else 0,
            problem.inputs.carried,
            dict(plan.elements) if pairs else {},
            outcome.together,
            plan.reason,
        ),
        sensitivity=max((pair.sensitivity for pair in seen), default=math.nan),
        typical=_typical(seen),
        applies=problem.apply.calls,
        endpoint_calls={name: endpoint.calls for name, endpoint in given.items()},
        seed=settings.seed,
        notes=tuple(remarks),
        versions=_versions(),
        max_failures=settings.max_failures,
        diagnoses=tuple(outcome.diagnoses),
        settings=settings_as_data(settings),
        evidence=tuple(outcome.evidence.values()),
        contract_calls=outcome.contract_calls,
    )


def _typical(pairs: Sequence[Pair]) -> float:
    """Return what would have been noticed in the pair that holds the middle one of all entries."""
    ranked = sorted(pairs, key=lambda pair: pair.typical)
    half, passed = sum(pair.entries for pair in ranked) / 2, 0
    for pair in ranked:
        passed += pair.entries
        if passed >= half:
            return pair.typical
    return math.nan


def about_sample(plan: Plan, settings: Settings, endpoints: Collection[str]) -> list[str]:
    """Return what was not looked at one by one, and which option would change that.

    Parameters
    ----------
    plan : Plan
        What was to be measured.
    settings : Settings
        What the user asked for.
    endpoints : collection of str
        The endpoints that were compared.
    """
    remarks = []
    if plan.elements and not plan.is_whole:
        parts = [f"{k} of {size} of {path}" for path, (k, size) in plan.elements.items() if k < size]
        limit = "max_evals" if settings.max_applies is None else "max_evals or max_applies"
        remarks.append(f"sample of input elements, seed {settings.seed}: {', '.join(parts)} ({limit})")
    if "vjp" in endpoints and len(plan.columns) and not plan.has_all_rows:
        count = f"{len(plan.rows)} of {plan.outputs}"
        remarks.append(
            f"the vjp was called for {count} output elements one by one, seed {settings.seed} (max_output_samples)"
        )
    return remarks


def unmeasured_report(findings: Sequence[Finding], calls: Mapping[str, int], settings: Settings) -> Report:
    """Return the report of a check that could not even evaluate apply at x0.

    Parameters
    ----------
    findings : sequence of Finding
        Why.
    calls : dict of str to int
        Calls of apply and of each endpoint.
    settings : Settings
        What the user asked for.
    """
    return Report(
        verdict=Verdict.INCONCLUSIVE,
        findings=tuple(findings),
        pairs=(),
        coverage=Coverage(0, 0, 0, 0),
        sensitivity=math.nan,
        applies=calls.get("apply", 0),
        endpoint_calls={name: count for name, count in calls.items() if name != "apply"},
        seed=settings.seed,
        notes=("nothing was measured",),
        versions=_versions(),
        max_failures=settings.max_failures,
        settings=settings_as_data(settings),
    )


@functools.cache  # reading the metadata of a package takes as long as checking a small function
def _versions() -> dict[str, str]:
    """Return the versions of what computed the result."""
    packages = ("fdcheck", "numpy", "numba", "optree")
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
