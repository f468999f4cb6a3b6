"""verify for a Tesseract: a tesseract_api.py, a served Tesseract, or an image."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fdcheck.adapters import tesseract_rule
from fdcheck.adapters.tesseract_client import SHORT, TIMEOUT, Client, Lost, opened
from fdcheck.adapters.tesseract_view import ENDPOINTS, View
from fdcheck.api import verify as verify_callables
from fdcheck.checks.findings import by_severity
from fdcheck.checks.linearity import linearity_finding
from fdcheck.execution import Progressive
from fdcheck.problem.callables import Breach
from fdcheck.problem.trees import Layout
from fdcheck.results import Finding, InvalidInput, Report, Verdict
from fdcheck.settings import Settings, from_environment, from_pyproject, settings_from

_LIKE_TESSERACT = {"eps": tesseract_rule.EPS, "rtol": tesseract_rule.RTOL, "atol": tesseract_rule.ATOL}

_CHECKED_LATER = {"endpoints", "input_paths", "output_paths", "timeout", "like_tesseract"}
"""Options that are of this page alone, or that name things of a Tesseract."""

_PREFIX = "FDCHECK_TESSERACT_"

_SHOWN = 3
"""Inputs that a note names before it becomes hard to read."""


def verify(
    target: Any,
    inputs: Mapping[str, Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    eps: float | None = None,
    eps_for: Mapping[str, float] | None = None,
    input_paths: Sequence[str] | None = None,
    output_paths: Sequence[str] | None = None,
    endpoints: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
    max_evals: int | None = None,
    max_applies: int | None = None,
    max_output_samples: int | None = None,
    max_failures: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    like_tesseract: bool | None = None,
    timeout: float | None = None,
    progress: Progressive = None,
) -> Report:
    """Check every derivative endpoint of a Tesseract against finite differences with error bars.

    Parameters
    ----------
    target : str, Path, module or tesseract_core.Tesseract
        Path to a ``tesseract_api.py``, which is loaded into this process; an ``http(s)://`` address of a served
        Tesseract; the name of an image, which is served with Docker; or a Tesseract that is ready to be called.
    inputs : dict
        Inputs of apply at which to check, as a client would send them, or a payload ``{"inputs": {...}}`` of them.
        Never changed.
    rtol, atol, eps, bounds, max_evals, max_applies, max_output_samples, max_failures, seed, profile, progress
        As for :func:`fdcheck.verify`.
    eps_for : dict of str to float, optional
        Steps forced on some inputs, by path or pattern.
    input_paths, output_paths : sequence of str, optional
        Which differentiable arrays to check: paths as Tesseract writes them (``a.b``, ``l.[0].w``, ``d.{key}``),
        patterns (``l.[].w``, ``d.{}``) or containers (``l``).
    endpoints : sequence of str, optional
        Some of ``'jacobian'``, ``'jacobian_vector_product'`` (``'jvp'``) and ``'vector_jacobian_product'``
        (``'vjp'``); by default all that the Tesseract has.
    like_tesseract : bool, optional
        Whether step and tolerances are by default those of ``tesseract-runtime check-gradients``: eps 1e-4, rtol 0.1,
        atol 1e-8.
    timeout : float, optional
        Seconds that each request to a server may take, 300 by default. A ``tesseract_api.py`` runs in this process
        and is waited for; a Tesseract that is given keeps the timeout that it was made with.

    Returns
    -------
    Report
        Paths and endpoints bear Tesseract's names. The notes say whether ``check-gradients`` with its default step
        would have given another verdict, and with which ``--eps-for`` it would not.

    Raises
    ------
    InvalidInput
        If the target cannot be reached, refuses the inputs or has nothing to check, or an argument cannot be used.
    ImportError
        If ``tesseract-core[runtime]`` is not installed.

    Notes
    -----
    Options that are left out are taken from ``FDCHECK_TESSERACT_RTOL`` and its like, then as for
    :func:`fdcheck.verify`.

    A tangent or cotangent that is not zero on one path alone names only that path, as clients do; two dense ones name
    all paths. Cost: as :func:`fdcheck.verify`, and two calls of each jvp and vjp, and four applies for the comparison
    with ``check-gradients``; more where the two differ.
    """
    given = {
        "rtol": rtol, "atol": atol, "eps": eps, "eps_for": eps_for, "input_paths": input_paths,
        "output_paths": output_paths, "endpoints": endpoints, "bounds": bounds, "max_evals": max_evals,
        "max_applies": max_applies, "max_output_samples": max_output_samples, "max_failures": max_failures,
        "seed": seed, "profile": profile, "like_tesseract": like_tesseract, "timeout": timeout,
    }  # fmt: skip
    options = _merged(given)
    patience = _seconds(options.pop("timeout", TIMEOUT))
    names = options.pop("endpoints", None)
    wanted = options.pop("input_paths", None), options.pop("output_paths", None)
    if not isinstance(inputs, Mapping):
        raise InvalidInput(f"inputs: expected a dict of the Tesseract's inputs, got {type(inputs).__name__}")
    try:
        with opened(target, patience) as client, np.errstate(all="ignore"):
            return _checked(client, _unwrapped(client, inputs), _endpoints(client, names), wanted, options, progress)
    except Lost as lost:
        raise InvalidInput(f"target: {lost}") from lost


def _checked(
    client: Client,
    inputs: dict[str, Any],
    endpoints: Sequence[str],
    wanted: tuple[Sequence[str] | None, Sequence[str] | None],
    options: dict[str, Any],
    progress: Progressive,
) -> Report:
    """Return the report of one Tesseract: one-hot claims, dense ones, and what the Tesseract command would say."""
    view = View(client, inputs, *wanted)
    for name in ("eps_for", "bounds"):
        if isinstance(options.get(name), Mapping):
            by_path = options[name]
            options[name] = {token: by_path[path] for path in by_path for token in view.selected_inputs(path, name)}
    settings = _settings(options)
    claims = {"jacobian": view.jacobian, "jvp": view.jvp, "vjp": view.vjp}
    shorts = [SHORT.get(name, name) for name in endpoints]
    try:
        report = verify_callables(
            view.apply,
            view.inputs.values,
            **{name: claims[name] for name in shorts},  # type: ignore[arg-type]
            input_paths=_selected(view.inputs.layout),
            output_paths=_selected(view.outputs.layout),
            endpoints=shorts,
            progress=progress,
            **options,
        )
    except InvalidInput as error:
        raise InvalidInput(view.relabelled(str(error))) from None
    report = _with_dense_answers(view, report, settings)
    report = tesseract_rule.compared(view, report, settings)
    report = dataclasses.replace(report, notes=(*report.notes, *_remarks(view, report)), versions=_versions(report))
    return view.report(report)


def _unwrapped(client: Client, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs, also where a whole payload was given, ``{"inputs": {...}}``."""
    is_payload = set(inputs) == {"inputs"} and isinstance(inputs["inputs"], Mapping)
    return dict(inputs["inputs"] if is_payload and "inputs" not in client.fields else inputs)


def _with_dense_answers(view: View, report: Report, settings: Settings) -> Report:
    """Return a report that also judges answers to dense tangents and cotangents over all paths."""
    findings: list[Finding] = []
    calls = dict(report.endpoint_calls)
    for endpoint in ("jvp", "vjp"):
        if not any(pair.endpoint == endpoint for pair in report.pairs):
            continue
        inputs, outputs = view.inputs.layout, view.outputs.layout
        own, other = (inputs, outputs) if endpoint == "jvp" else (outputs, inputs)
        claims = view.claims[endpoint].T if endpoint == "jvp" else view.claims[endpoint]
        units = np.flatnonzero(~np.isnan(claims).all(axis=1))
        before = view.calls

        def ask(weights: Any, endpoint: str = endpoint, own: Layout = own, units: Any = units) -> Any:
            vector = np.zeros(own.size)
            vector[units] = weights
            return view.along(endpoint, vector)

        groups = [
            (leaf.path, slice(*np.searchsorted(units, (leaf.start, leaf.stop)))) for leaf in own.leaves if leaf.size
        ]
        try:
            rtol = _rtol(view, settings)
            finding = linearity_finding(endpoint, claims[units], ask, groups, other.element, rtol, settings.seed)
        except Breach as breach:
            finding = breach.finding
        findings += [finding] if finding else []
        calls[endpoint] += view.calls - before
    verdict = Verdict.FAIL if findings else report.verdict
    together = tuple(by_severity((*report.findings, *findings)))
    return dataclasses.replace(report, verdict=verdict, findings=together, endpoint_calls=calls)


def _rtol(view: View, settings: Settings) -> float:
    """Return the tolerance of an entry: the user's, or that of the shortest dtype."""
    leaves = (*view.inputs.layout.leaves, *view.outputs.layout.leaves)
    coarsest = max(float(np.finfo(leaf.real_dtype).eps) for leaf in leaves)
    return settings.rtol or max(1e-3, 8 * coarsest ** (2 / 3))


def _remarks(view: View, report: Report) -> list[str]:
    """Return what the payload leaves open."""
    remarks = list(dict.fromkeys(view.remarks))
    signs = {token: _sign(view.inputs.values[token]) for token in view.inputs.tokens}
    one_sided = [f"{token} {sign}" for token, sign in signs.items() if sign]
    if report.verdict is Verdict.PASS and one_sided:
        shown = ", ".join(one_sided[:_SHOWN]) + (" ..." if len(one_sided) > _SHOWN else "")
        remarks.append(
            f"one point was checked ({shown}); a derivative that is wrong elsewhere, such as for the other sign, needs "
            "more points (payloads) to show"
        )
    return remarks


def _sign(values: Any) -> str:
    """Return the sign that all elements of an array have, empty if there are both."""
    if np.iscomplexobj(values) or not values.size:
        return ""
    return ">= 0" if (values >= 0).all() else "<= 0" if (values <= 0).all() else ""


def _selected(layout: Layout) -> list[str] | None:
    """Return the paths to give to fdcheck, None where nothing is left out."""
    return [leaf.path for leaf in layout.leaves] if layout.resting else None


def _endpoints(client: Client, wanted: Sequence[str] | None) -> list[str]:
    """Return the endpoints to check."""
    _ = client.schemas
    there = [name for name in ENDPOINTS if name in client.endpoints]
    if not there:
        raise InvalidInput(
            f"target: {client.name} has no derivative endpoint ({', '.join(ENDPOINTS)}); nothing to check"
        )
    if wanted is None:
        return there
    long = {short: name for name, short in SHORT.items()}
    names = [long.get(name, name) for name in ([wanted] if isinstance(wanted, str) else wanted)]
    for name in names:
        if name not in there:
            raise InvalidInput(f"endpoints: {name!r} was asked for, but {client.name} has {', '.join(there)}")
    return [name for name in there if name in names]


def _merged(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options given, over those of Tesseract's command if wanted, over the environment, over pyproject."""
    explicit = {name: value for name, value in given.items() if value is not None}
    own, _ = from_environment(_PREFIX)
    shared = {**from_pyproject()[0], **from_environment()[0]}
    merged = {**shared, **own, **explicit}
    if merged.pop("like_tesseract", False):
        merged = {**merged, **_LIKE_TESSERACT, **explicit}
    merged.pop("like_tesseract", None)
    for name in own.keys() - explicit.keys() - _CHECKED_LATER:
        _require(name, merged, own)
    return merged


def _require(name: str, merged: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Raise InvalidInput naming the variable that holds a value which cannot be used."""
    if name in merged and merged[name] is own[name]:
        try:
            settings_from(**{name: own[name]})
        except InvalidInput as error:
            raise InvalidInput(f"environment variable {_PREFIX}{name.upper()}: {error}") from None


def _settings(options: Mapping[str, Any]) -> Settings:
    """Return the settings that a check of these options has."""
    return settings_from(**options)


def _seconds(value: Any) -> float:
    """Return a timeout."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise InvalidInput(f"timeout: expected a positive number of seconds, got {value!r:.60}")
    return float(value)


def _versions(report: Report) -> dict[str, str]:
    return {**report.versions, "tesseract-core": _version()}


@functools.cache
def _version() -> str:
    return importlib.metadata.version("tesseract-core")
