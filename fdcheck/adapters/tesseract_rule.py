"""What ``tesseract-runtime check-gradients`` would say at its default step, and with which step it would agree."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.adapters.tesseract_view import Raised, View
from fdcheck.problem.trees import Leaf, from_coordinates
from fdcheck.results import BREACHES, Report, Status, Verdict
from fdcheck.settings import Settings

EPS, RTOL, ATOL = 1e-4, 0.1, 1e-8
"""Defaults of that command: one central difference at an absolute step, and the tolerances of its comparison."""

_SURE = 2.0
"""Times the tolerance by which a failing entry has to be off at fdcheck's measurement before it counts as failing at
that step too without a further look."""

_FEW = 3
"""Elements that are looked at one by one rather than halved further: a direction costs as many applies as one."""

_MOST = 64
"""Elements looked at one by one at most: a note is not worth more applies than a check of a small Tesseract."""

_ROUNDS = 3
"""Times that the elements under suspicion are narrowed down before they are looked at one by one."""

_SHOWN = 3
"""Entries that a note lists, and steps of fdcheck's own that are tried for each input."""

_SHARES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-1)
"""Steps tried, beside fdcheck's own, in parts of the largest element of an input: the usual one of each precision."""


_DECADES = (1e-2, 1e-3, 1e-5, 1e-6)
"""Steps tried as well: what people try by hand."""


@dataclass(frozen=True)
class _Entry:
    """An entry at which the command would find a failure: what it would measure, and the claim."""

    endpoint: str
    output: int
    input: int
    seen: float
    claimed: float


class _Ruler:
    """Central differences as the command forms them, and the claims that it compares them with."""

    def __init__(self, view: View, endpoints: Sequence[str]) -> None:
        self.view = view
        self.names = tuple(endpoints)
        self.claims = np.stack([view.claims[name] for name in self.names])
        self.applies = 0
        seen = np.isfinite(self.claims)
        self.columns = np.flatnonzero(seen.any(axis=1).all(axis=0))
        self.rows = seen[:, :, self.columns].all(axis=2)

    def seen(self, signs: NDArray[np.float64], eps: float) -> NDArray[np.float64]:
        """Return the central difference of all outputs where elements are moved by the step times their sign."""
        sides = []
        for side in (eps, -eps):
            moved = dict(self.view.inputs.values) | {
                token: values + (step * side).astype(values.dtype) for token, values, step in self._steps(signs)
            }
            self.applies += 1
            try:
                sides.append(self.view.outputs.vector(self.view.apply(moved)))
            except (Raised, LookupError, ValueError):
                return np.full(self.claims.shape[1], np.nan)
        result: NDArray[np.float64] = (sides[0] - sides[1]) / (2 * eps)
        return result

    def _steps(self, signs: NDArray[np.float64]) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
        parts = from_coordinates(signs, self.view.inputs.layout)
        return [(token, self.view.inputs.values[token], np.asarray(parts[token])) for token in self.view.inputs.tokens]

    def suspects(self, columns: NDArray[np.int64], signs: NDArray[np.float64], eps: float = EPS) -> NDArray[np.int64]:
        """Return those of some elements that may fail, after a look at all of them along one direction."""
        direction = np.zeros(self.claims.shape[2])
        direction[columns] = signs
        seen = self.seen(direction, eps)
        claims = self.claims[:, :, columns]
        residual = np.where(self.rows, np.abs(seen - claims @ signs), 0.0)
        residual[np.isnan(residual)] = np.inf
        allowed = ATOL + RTOL * np.abs(claims)
        return columns[(allowed < residual[:, :, None]).any(axis=(0, 1))]

    def failures(self, column: int, eps: float = EPS) -> list[_Entry]:
        """Return the entries of one element at which the command would find a failure."""
        unit = np.zeros(self.claims.shape[2])
        unit[column] = 1.0
        seen = self.seen(unit, eps)
        found = []
        for name, claims in zip(self.names, self.claims[:, :, column], strict=True):
            off = ~(np.abs(seen - claims) <= ATOL + RTOL * np.abs(claims)) & ~np.isnan(claims)
            found += [_Entry(name, int(i), column, float(seen[i]), float(claims[i])) for i in np.flatnonzero(off)]
        return found


def compared(view: View, report: Report, settings: Settings) -> Report:
    """Return a report that tells whether the Tesseract command would have given another verdict.

    Along two directions that move all elements by its step at once, the difference says what those of single elements
    add up to; where that is within the tolerance of the smallest entry, no element can fail. Only elements under
    suspicion are moved alone.

    Parameters
    ----------
    view : View
        The Tesseract and the claims.
    report : Report
        fdcheck's, in its own names.
    settings : Settings
        ``max_applies`` and ``seed`` are read.

    Returns
    -------
    Report
        Cost: four applies as a rule, none where a claim is so wrong that the command fails as well.
    """
    compared_ones = list(dict.fromkeys(pair.endpoint for pair in report.pairs))
    room = math.inf if settings.max_applies is None else settings.max_applies - report.applies
    if any(finding.status is Status.SHAPE and finding.endpoint == "jacobian" for finding in report.findings):
        broadcast = "check-gradients does not look at the shape of a Jacobian: it broadcasts, and may pass here"
        report = dataclasses.replace(report, notes=(*report.notes, broadcast))
    if not view.is_real or not compared_ones or room < 2 * view.inputs.layout.size + 4:
        return report
    if _surely_fails(report):
        return report  # both fail
    ruler = _Ruler(view, compared_ones)
    failing = _failing(ruler, settings.seed)
    notes = _notes(ruler, report, failing)
    return dataclasses.replace(report, notes=(*report.notes, *notes), applies=report.applies + ruler.applies)


def _surely_fails(report: Report) -> bool:
    """Return whether the command fails too: an endpoint raises, or a claim is off by more than it allows."""
    return any(
        finding.status is Status.RAISED
        or (
            finding.status is Status.DISAGREES
            and not abs(finding.claimed - finding.estimated) <= _SURE * (ATOL + RTOL * abs(finding.claimed))
        )
        for finding in report.findings
        if finding.endpoint != "apply"
    )


def _failing(ruler: _Ruler, seed: int) -> list[_Entry]:
    """Return entries at which the command would find a failure."""
    draw = np.random.default_rng([seed, 0x74657373])
    columns = ruler.columns
    for number in range(_ROUNDS):
        if len(columns) <= _FEW - 1:
            break
        looks = 2 if number == 0 else 1  # two, since errors of two elements may cancel along one
        found = [ruler.suspects(columns, draw.choice([-1.0, 1.0], len(columns))) for _ in range(looks)]
        suspects = np.unique(np.concatenate(found))
        is_narrower = 2 * len(suspects) <= len(columns)
        columns = suspects
        if not is_narrower or len(columns) <= _FEW:
            break
    found_ones: dict[str, list[_Entry]] = {}
    looks = 0
    for column in columns:
        path = _leaf(ruler, "in", int(column)).path
        if path not in found_ones and looks < _MOST:  # one element of an input is enough to tell
            looks += 1
            failures = ruler.failures(int(column))
            found_ones |= {path: failures} if failures else {}
    return [entry for entries in found_ones.values() for entry in entries]


def _notes(ruler: _Ruler, report: Report, failing: Sequence[_Entry]) -> list[str]:
    """Return what the command would have said, in comparison."""
    rule = f"check-gradients with its default step (eps {EPS:g}, rtol {RTOL:g}, atol {ATOL:g})"
    if failing and report.verdict is Verdict.FAIL:
        return [f"{rule} would fail too"]
    if failing:
        told = f"{rule} would FAIL here, where fdcheck says {report.verdict}: {_listed(ruler, failing)}"
        return [told, _advice(ruler, report, failing)] if report.verdict is Verdict.PASS else [told]
    if report.verdict is Verdict.FAIL:
        return [f"{rule} would PASS here: {_reason(report)}"]
    return [f"{rule} would find no failure here"]


def _listed(ruler: _Ruler, failing: Sequence[_Entry]) -> str:
    """Return the worst entries."""
    worst: dict[int, _Entry] = {}
    for entry in failing:
        worst.setdefault(entry.input, entry)
    output, source = ruler.view.outputs.layout.element, ruler.view.inputs.layout.element
    shown = [
        f"d {output(e.output)} / d {source(e.input)} is {e.claimed:.6g} and it would measure {e.seen:.6g}"
        for e in list(worst.values())[:_SHOWN]
    ]
    more = len(worst) - len(shown)
    return "; ".join(shown) + (f"; and it would fail for {more} more inputs" if more else "")


def _leaf(ruler: _Ruler, kind: str, coordinate: int) -> Leaf:
    return (ruler.view.inputs if kind == "in" else ruler.view.outputs).layout.leaf_at(coordinate)


def _advice(ruler: _Ruler, report: Report, failing: Sequence[_Entry]) -> str:
    """Return the options with which the command would agree, found by trying them."""
    worst: dict[str, _Entry] = {}
    for entry in failing:
        worst.setdefault(_leaf(ruler, "in", entry.input).path, entry)
    options, hopeless = [], []
    for path, entry in worst.items():
        step = next((eps for eps in _steps_to_try(ruler, report, entry) if _agrees(ruler, entry.input, eps)), None)
        if step is None:
            hopeless.append(path)
        else:
            options.append(f"--eps-for '{path}={step:g}'")
    words = ["it would agree with " + " ".join(options)] if options else []
    if hopeless:
        words.append(
            f"no step tried makes it agree on {', '.join(hopeless)}: at a kink, or where one step does not suit all "
            "elements, a single central difference measures no derivative"
        )
    return "; ".join(words)


def _steps_to_try(ruler: _Ruler, report: Report, entry: _Entry) -> list[float]:
    """Return steps for one input, the nearest to the default first: fdcheck's own, parts of its size, and decades."""
    path = _leaf(ruler, "in", entry.input).path
    own = sorted({pair.eps for pair in report.pairs if pair.input == path and 0 < pair.eps < math.inf}, reverse=True)
    values = np.abs(ruler.view.inputs.values[path])
    size = float(values.max(initial=0.0)) or 1.0
    steps = {float(f"{eps:.1g}") for eps in (*own[:_SHOWN], *(size * share for share in _SHARES), *_DECADES)}
    steps = {eps for eps in steps - {0.0, EPS} if _is_resolved(ruler, entry, eps)}
    return sorted(steps, key=lambda eps: abs(math.log(eps / EPS)))


def _is_resolved(ruler: _Ruler, entry: _Entry, eps: float) -> bool:
    """Return whether rounding of the input and of the output leaves the difference at a step within tolerance."""
    source, output = _leaf(ruler, "in", entry.input), _leaf(ruler, "out", entry.output)
    x = source.real_dtype.type(ruler.view.inputs.vector(ruler.view.inputs.values)[entry.input])
    step = source.real_dtype.type(eps)
    spacing = (float(x + step) - float(x - step)) / (2 * eps)
    y = float(ruler.view.outputs.vector(ruler.view.outputs.values)[entry.output])
    rounding = float(np.finfo(output.real_dtype).eps) * abs(y) / eps
    return abs(spacing - 1) <= RTOL / 2 and rounding <= (ATOL + RTOL * abs(entry.claimed)) / 2


def _agrees(ruler: _Ruler, column: int, eps: float) -> bool:
    """Return whether the command would find no failure with another step, at an element and those beside it."""
    if ruler.failures(column, eps):
        return False
    leaf = _leaf(ruler, "in", column)
    beside = ruler.columns[(ruler.columns >= leaf.start) & (ruler.columns < leaf.stop)]
    suspects = ruler.suspects(beside, np.ones(len(beside)), eps) if len(beside) > 1 else beside[:0]
    return not any(ruler.failures(int(other), eps) for other in suspects[:_MOST])


def _reason(report: Report) -> str:
    """Return what the command overlooks."""
    reasons = []
    if any(f.status is Status.DISAGREES for f in report.findings):
        reasons.append("the errors are smaller than its tolerances; rtol can be set (--rtol 1e-3), atol cannot")
    words = {
        Status.NONLINEAR: "it calls a jvp and a vjp with one-hot vectors over one path only",
        Status.SHAPE: "it broadcasts what it compares",
        Status.DTYPE: "it does not look at dtypes",
        Status.MUTATION: "it does not look at arguments",
    }
    for finding in report.findings:
        if finding.status in BREACHES and finding.status in words and words[finding.status] not in reasons:
            reasons.append(words[finding.status])
    return "; ".join(reasons)
