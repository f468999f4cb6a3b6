"""A check from plan to findings: columns alone, inputs together, and what is left open looked at once more."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import numpy as np

from fdcheck.checks.coloured import findings_of_groups, off_pattern_note, pairs_of_groups
from fdcheck.checks.colouring import Colours, colours_of, look_by_colour
from fdcheck.checks.detecting import detected_pattern
from fdcheck.checks.diagnosis import diagnosed
from fdcheck.checks.elementwise import Elementwise, Limits, measure
from fdcheck.checks.evidence import add_evidence
from fdcheck.checks.findings import compared, entry_findings
from fdcheck.checks.pairs import merged_pairs, pairs_of
from fdcheck.checks.plan import Plan, asks_for_columns, expected_applies, sample, whole
from fdcheck.checks.probing import Members, Probe, members_at_bounds, probe
from fdcheck.checks.together import blunt_leaves, factors_of, pairs_together, stands_alone, told
from fdcheck.checks.widening import widened
from fdcheck.evidence import Evidence
from fdcheck.numerics import kernels
from fdcheck.numerics.differences import measured_columns
from fdcheck.numerics.noise import Noise, measure_noise
from fdcheck.numerics.steps import scales
from fdcheck.problem.callables import Problem
from fdcheck.problem.endpoints import Claimed, Claims
from fdcheck.results import Diagnosis, Finding, Pair
from fdcheck.settings import Settings

_AT_ONCE = 2**22
"""Entries of the Jacobian that are held at once, 32 MB an array; columns are measured in as many turns as it takes."""

_DIAGNOSED = 2**20
"""Entries of the Jacobian, measured or not, among which patterns of errors are looked for."""


@dataclass
class Outcome:
    """What a check has found so far.

    Parameters
    ----------
    plan : Plan
        What was looked at.
    pairs, findings, notes, diagnoses : list
        What was found.
    evidence : dict of str to Evidence
        What figures are drawn from, by endpoint.
    measured, together : int
        Real input coordinates moved alone, and together.
    scatter : float
        Largest difference of two calls of apply at x0, relative to the value.
    contract_calls : dict of str to int
        Calls of apply and of each endpoint that were made for their contract.
    """

    plan: Plan
    pairs: list[Pair] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    evidence: dict[str, Evidence] = field(default_factory=dict)
    measured: int = 0
    together: int = 0
    scatter: float = 0.0
    contract_calls: dict[str, int] = field(default_factory=dict)


def check(problem: Problem, claims: Claims, settings: Settings, limits: Limits, outcome: Outcome) -> None:
    """Look at what is planned, and add what is found to an outcome.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claims : Claims
        The endpoints.
    settings : Settings
        Tolerances and thoroughness.
    limits : Limits
        Forced steps and bounds.
    outcome : Outcome
        Holds the plan; it is filled as the check goes on, so that an interrupt leaves what was found.
    """
    plan = outcome.plan
    if claims.wants_pattern:
        _look_for_pattern(problem, claims, settings, limits, outcome)
    colours = _colours(claims, settings)
    if colours is not None:
        _by_colour(problem, claims, settings, limits, colours, outcome)
        return
    problem.budget.expected = expected_applies(plan, settings)
    noise = None if plan.is_whole else _noise_of_all(problem, limits, settings)
    if not len(plan.columns) and claims.hides_entries:
        outcome.plan = plan = sample(problem, plan, settings)
    if len(plan.columns):
        fails = _look_at_columns(problem, claims, settings, limits, plan, noise, outcome)
        if not plan.is_whole or (not plan.has_all_rows and "vjp" in claims.names):
            members = range(plan.size) if plan.is_whole else plan.others
            what = f"the other {len(members)} input coordinates"
            _look_together(problem, claims, settings, limits, noise, members, what, not fails, outcome)
        return
    everything = f"all {plan.size} input coordinates"
    probes = _look_together(problem, claims, settings, limits, noise, range(plan.size), everything, True, outcome)
    if not probes or any(found.alone or found.is_open for found in probes):
        return
    for leaf in blunt_leaves(problem, probes[0]):
        own, what = range(leaf.start, leaf.stop), f"the {leaf.size} of {leaf.path}"
        outcome.pairs = [pair for pair in outcome.pairs if pair.input != leaf.path]
        probes += _look_together(problem, claims, settings, limits, noise, own, what, True, outcome)
    is_enough = all(stands_alone(one) for one in probes) or any(one.alone for one in probes)
    if settings.method == "probe" or is_enough or problem.is_spent:
        return
    outcome.plan, outcome.pairs = sample(problem, plan, settings), []
    problem.budget.expected += expected_applies(outcome.plan, settings)
    _look_at_columns(problem, claims, settings, limits, outcome.plan, noise, outcome)


def _look_for_pattern(problem: Problem, claims: Claims, settings: Settings, limits: Limits, outcome: Outcome) -> None:
    """Guess a sparse pattern, and note what came of it."""
    pattern = detected_pattern(problem, limits.bounds, settings.seed)
    if pattern is None:
        outcome.notes.append("sparsity: neither a band nor blocks along the diagonal were seen in 12 columns")
        return
    claims.take_pattern(pattern)
    outcome.notes.append(
        f"sparsity: a pattern of {pattern.nnz} entries was guessed from 12 columns, and checked in sums"
    )


def _colours(claims: Claims, settings: Settings) -> Colours | None:
    """Return groups of columns where a sparse pattern is known and moving groups costs less than moving columns."""
    if settings.method != "auto" or claims.hides_entries or asks_for_columns(settings):
        return None
    pattern = claims.pattern
    if pattern is None:
        return None
    colours = colours_of(pattern)
    return colours if colours.is_worthwhile else None


def _by_colour(
    problem: Problem, claims: Claims, settings: Settings, limits: Limits, colours: Colours, outcome: Outcome
) -> None:
    """Look at all entries of a sparse pattern, group by group; a vjp is compared in sums of outputs."""
    noise = _noise_of_all(problem, limits, settings)
    outcome.scatter = noise.scatter
    reason = f"colours: {colours.count} groups of inputs that share no output moved together, by the sparse pattern"
    outcome.plan = dataclasses.replace(outcome.plan, columns=np.empty(0, np.int64), elements={}, reason=reason)
    found = look_by_colour(problem, claims, settings, noise, limits, colours)
    if found is not None:
        outcome.together = problem.inputs.size
        outcome.measured = len(found.alone)
        outcome.findings += findings_of_groups(problem, colours, found)
        for part, claimed, alone in found.alone:
            for comparison in compared(claimed, alone):
                add_evidence(outcome.evidence, part, comparison)
        outcome.notes += off_pattern_note(problem, colours, found)
        outcome.pairs += pairs_of_groups(problem, colours, found, settings)
    edge = members_at_bounds(problem, limits.bounds, range(problem.inputs.size))
    if len(edge) and found is not None:
        what = f"{problem.inputs.size} input coordinates"
        rest = claims.only(*(name for name in claims.names if name != "vjp"))
        _look_together(problem, rest, settings, limits, noise, edge, what, True, outcome)
    if "vjp" in claims.names:
        pairs = outcome.pairs
        outcome.pairs = []
        what = f"all {problem.inputs.size} input coordinates"
        everything = range(problem.inputs.size)
        _look_together(problem, claims.only("vjp"), settings, limits, noise, everything, what, True, outcome)
        outcome.pairs = [*pairs, *outcome.pairs]


def _noise_of_all(problem: Problem, limits: Limits, settings: Settings) -> Noise:
    """Return the noise of the outputs when all inputs move."""
    everything = np.ones(problem.inputs.size, np.bool_)
    found = measure_noise(problem, scales(problem), limits.bounds, settings.seed, everything, with_slope=False)
    return found.without_slope().with_scatter(problem.scatter)


def _look_at_columns(
    problem: Problem,
    claims: Claims,
    settings: Settings,
    limits: Limits,
    plan: Plan,
    noise: Noise | None,
    outcome: Outcome,
) -> bool:
    """Measure the columns of a plan alone, so many at once as fit, and return whether an entry disagrees."""
    width = max(1, _AT_ONCE // max(1, problem.outputs.size))
    pairs: list[Pair] = []
    fails, is_one_turn = False, len(plan.columns) <= width
    of_all = noise if is_one_turn else noise or _noise_of_all(problem, limits, settings)
    for first in range(0, len(plan.columns), width):
        columns = plan.columns[first : first + width]
        part = problem.narrowed(columns)
        claimed = claims.columns(part, plan.rows)
        if not claimed.matrix.size:
            break
        own = limits.of_few(columns)
        known = None if is_one_turn or of_all is None else of_all.of_few(columns)
        found = measure(part, claimed, settings, own, whole(part), known, noise)
        outcome.scatter = max(outcome.scatter, found.rules.noise.scatter)
        outcome.measured += len(columns) if plan.is_whole else measured_columns(found.measurement)
        pairs += _compare(part, claimed, found, outcome)
        if problem.outputs.size * problem.inputs.size <= _DIAGNOSED and not outcome.diagnoses:
            outcome.diagnoses += _diagnoses(problem, part, claimed, found)
        fails = fails or bool((found.measurement.code == kernels.DISAGREES).any())
    outcome.pairs += merged_pairs(pairs)
    return fails


def _compare(part: Problem, claimed: Claimed, found: Elementwise, outcome: Outcome) -> list[Pair]:
    """Add findings and evidence of columns to an outcome, and return their pairs."""
    pairs: list[Pair] = []
    for comparison in compared(claimed, found):
        pairs += pairs_of(part, comparison)
        outcome.findings += entry_findings(part, comparison)
        add_evidence(outcome.evidence, part, comparison)
    return pairs


def _diagnoses(problem: Problem, part: Problem, claimed: Claimed, found: Elementwise) -> list[Diagnosis]:
    """Return patterns in which claims are wrong, with the columns in their places among all."""
    if not (found.measurement.code == kernels.DISAGREES).any():
        return []
    in_place = (claimed, found) if part is problem else widened(problem, part.columns, claimed, found)
    return [diagnosis for comparison in compared(*in_place) for diagnosis in diagnosed(problem, comparison)]


def _look_together(
    problem: Problem,
    claims: Claims,
    settings: Settings,
    limits: Limits,
    noise: Noise | None,
    members: Members,
    what: str,
    trace: bool,
    outcome: Outcome,
) -> list[Probe]:
    """Move inputs together, which ``what`` names, and trace what disagrees to columns that are measured alone.

    Those at a bound can move to one side only, and are moved by themselves.
    """
    if claims.hides_entries:
        outcome.notes.append("inputs outside of the sample were not looked at: masked entries hide what they add up to")
    noise = noise or _noise_of_all(problem, limits, settings)
    outcome.scatter = max(outcome.scatter, noise.scatter)
    edge = members_at_bounds(problem, limits.bounds, members)
    inside = np.setdiff1d(members, edge, assume_unique=True) if len(edge) else members
    probes = []
    for own, at_bounds in ((inside, False), (edge, True)):
        if not len(own):
            continue
        found = probe(problem, claims, settings, noise, limits, own, trace, at_bounds)
        if found is None or not found.direction.any():
            continue
        name = f"{len(own)} of {what}" if len(edge) else what
        _add_probe(problem, found, f"{name}, at a bound" if at_bounds else name, outcome)
        probes.append(found)
    together = sum(int(np.count_nonzero(found.direction)) for found in probes)
    outcome.together = max(outcome.together, together)
    return probes


def _add_probe(problem: Problem, found: Probe, what: str, outcome: Outcome) -> None:
    """Add what a probe showed to an outcome."""
    about = told(problem, found, what)
    outcome.notes += about.notes
    outcome.findings += about.findings
    outcome.diagnoses += factors_of(found)
    pairs = [] if len(outcome.plan.columns) else pairs_together(problem, found)
    for alone in found.alone:
        outcome.measured += len(alone.part.columns)
        pairs += _compare(alone.part, alone.claimed, alone.found, outcome)
    outcome.pairs = merged_pairs([*outcome.pairs, *pairs])
