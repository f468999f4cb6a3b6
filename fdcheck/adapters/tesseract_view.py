"""A Tesseract at one payload as a plain problem: apply and its derivatives between dicts of arrays."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fdcheck.adapters import tesseract_paths as paths
from fdcheck.adapters.tesseract_client import SHORT, Client, told
from fdcheck.adapters.tesseract_paths import Part
from fdcheck.problem import trees
from fdcheck.problem.callables import Breach
from fdcheck.problem.paths import select
from fdcheck.problem.returned import returned
from fdcheck.problem.trees import Layout
from fdcheck.results import Diagnosis, Finding, InvalidInput, Pair, Report, Status

ENDPOINTS = ("jacobian", "jacobian_vector_product", "vector_jacobian_product")
_LONG = {short: name for name, short in SHORT.items()}

_TOKEN = re.compile(r"tess(?:in|out)_\d{6}_")
"""What fdcheck calls an input or output while it checks: names without the dots, braces and stars of a path, which its
own paths would read otherwise. They are replaced in everything that it says."""


_Part = TypeVar("_Part", Finding, Pair)


class Raised(Exception):
    """What apply raised, in one line."""


@dataclasses.dataclass(frozen=True)
class Side:
    """The differentiable arrays of the inputs or the outputs.

    Parameters
    ----------
    places : dict of str to tuple
        Token of each array, and the parts of its path.
    values : dict of str to ndarray
        The arrays at the payload, by token.
    layout : Layout
        Those that are checked, as real coordinates.
    """

    places: Mapping[str, tuple[Part, ...]]
    values: Mapping[str, NDArray[Any]]
    layout: Layout

    def path(self, token: str) -> str:
        """Return a path as Tesseract writes it."""
        return paths.written(self.places[token])

    @functools.cached_property
    def tokens(self) -> tuple[str, ...]:
        """Tokens of the arrays that are checked."""
        return tuple(leaf.path for leaf in self.layout.leaves)

    def named(self, structure: Mapping[str, Any], tokens: Sequence[str]) -> dict[str, Any]:
        """Return arrays by path instead of by token."""
        return {self.path(token): structure[token] for token in tokens}

    def owned(self, structure: Any) -> dict[str, Any]:
        """Return arrays by token instead of by path, None where one is missing."""
        known = structure if isinstance(structure, Mapping) else {}
        return {token: known.get(self.path(token)) for token in self.places}

    def vector(self, structure: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the real coordinates of arrays by token."""
        leaves, _ = trees.flatten(dict(structure))
        return trees.coordinates(leaves, self.layout).astype(np.float64)


def side(
    kind: str, found: Mapping[tuple[Part, ...], NDArray[Any]], wanted: Sequence[str] | None, argument: str
) -> Side:
    """Return one side of the problem.

    Parameters
    ----------
    kind : str
        ``'in'`` or ``'out'``.
    found : dict of tuple to ndarray
        Differentiable arrays by the parts of their paths.
    wanted : sequence of str or None
        Paths and patterns of those to check; None for all.
    argument : str
        Name of the user's argument, for messages.

    Raises
    ------
    InvalidInput
        If a path names nothing.
    """
    places = {f"tess{kind}_{number:06}_": parts for number, parts in enumerate(found)}
    values = dict(zip(places, found.values(), strict=True))
    layout = trees.structure(values, "x")[1]
    if wanted is not None:
        named = [token for path in wanted for token in tokens_of(places, path, argument)]
        layout = select(layout, named, argument)
    return Side(places, values, layout)


def tokens_of(places: Mapping[str, tuple[Part, ...]], path: str, argument: str) -> list[str]:
    """Return the tokens of the arrays that a path or pattern names.

    Raises
    ------
    InvalidInput
        If there is none.
    """
    pattern = paths.parsed(path, argument)
    hits = [token for token, parts in places.items() if paths.matches(parts, pattern)]
    if not hits:
        known = ", ".join(paths.written(parts) for parts in places.values())
        raise InvalidInput(f"{argument}: no differentiable array at {path!r}; there are: {known}")
    return hits


class View:
    """A Tesseract at one payload.

    Parameters
    ----------
    client : Client
        What to call.
    payload : object
        Its inputs.
    wanted_inputs, wanted_outputs : sequence of str or None
        Paths and patterns of what to check; None for all.

    Raises
    ------
    InvalidInput
        If apply fails at the payload, or there is nothing to differentiate.
    """

    def __init__(
        self,
        client: Client,
        payload: Any,
        wanted_inputs: Sequence[str] | None = None,
        wanted_outputs: Sequence[str] | None = None,
    ) -> None:
        self._client = client
        self._payload = payload
        self.remarks: list[str] = []
        found = self._arrays_in(payload, client.differentiable("Input"))
        first = self._known = self._first_result()
        if not found:
            raise InvalidInput(
                "inputs: expected at least one differentiable array, got none; the Tesseract can be differentiated by: "
                + (", ".join(client.differentiable("Input")) or "nothing")
            )
        self.inputs = side("in", found, wanted_inputs, "input_paths")
        everything = {
            parts: np.asarray(paths.value_at(first, parts))
            for pattern in client.differentiable("Output")
            for parts in paths.expanded(paths.parsed(pattern, "output schema"), first)
        }
        arrays = {parts: array for parts, array in everything.items() if trees.is_differentiable(array)}
        if not arrays:
            raise InvalidInput("target: apply returned no differentiable array of floating numbers for these inputs")
        self.outputs = side("out", arrays, wanted_outputs, "output_paths")
        shape = self.outputs.layout.size, self.inputs.layout.size
        self.claims: dict[str, NDArray[np.float64]] = {}
        self._blank = functools.partial(np.full, shape, np.nan)

    @property
    def is_real(self) -> bool:
        """Whether no array is complex."""
        return all(leaf.parts == 1 for leaf in (*self.inputs.layout.leaves, *self.outputs.layout.leaves))

    def selected_inputs(self, path: str, argument: str) -> list[str]:
        """Return the tokens of the inputs that a path or pattern names: those that are checked, if there are any."""
        hits = tokens_of(self.inputs.places, path, argument)
        return [token for token in hits if token in self.inputs.tokens] or hits

    def apply(self, x: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs at a point; the first time, at the payload, those that are known already."""
        result, self._known = self._known, None
        if result is None:
            try:
                result = self._client.apply(self._at(x))
            except Exception as error:
                raise Raised(told(error)) from None
        found = {}
        for token, parts in self.outputs.places.items():
            try:
                found[token] = np.asarray(paths.value_at(result, parts))
            except (LookupError, TypeError):
                continue  # fdcheck tells that the output has changed its structure
        return found

    def jacobian(self, x: Mapping[str, Any]) -> dict[str, Any]:
        """Return all blocks of the Jacobian, each of exactly its shape."""
        inputs, outputs = self.inputs, self.outputs
        named_inputs = [inputs.path(token) for token in inputs.tokens]
        named_outputs = [outputs.path(token) for token in outputs.tokens]
        result = self._client.call("jacobian", inputs=self._at(x), jac_inputs=named_inputs, jac_outputs=named_outputs)
        claims = self._blank()
        blocks: dict[str, Any] = dict.fromkeys(outputs.places)
        for output in outputs.layout.leaves:
            blocks[output.path] = dict.fromkeys(inputs.places)
            for source in inputs.layout.leaves:
                block = self._block(result, output, source)
                blocks[output.path][source.path] = block
                if self.is_real:
                    claims[output.start : output.stop, source.start : source.stop] = block.reshape(
                        output.size, source.size
                    )
        self.claims["jacobian"] = claims
        return blocks

    def _block(self, result: Any, output: trees.Leaf, source: trees.Leaf) -> NDArray[Any]:
        """Return one block, in the dtype of its values: the schema of a Jacobian allows any dtype."""
        pair = f"{output.path} by {source.path}"
        try:
            block = np.asarray(result[self.outputs.path(output.path)][self.inputs.path(source.path)])
        except (LookupError, TypeError):
            raise Breach("jacobian", Status.STRUCTURE, f"jacobian returned no block for {pair}.") from None
        shape = (*output.shape, *source.shape)
        if block.shape != shape:
            message = (
                f"jacobian returned shape {block.shape} for {pair}; expected {shape}, the output's and the input's."
            )
            raise Breach("jacobian", Status.SHAPE, message)
        dtype = np.result_type(min(output.dtype, source.dtype, key=lambda d: np.empty(0, d).real.itemsize))
        if block.dtype.kind == "f" and block.dtype.itemsize < dtype.itemsize and dtype.kind == "f":
            self.remarks.append(f"jacobian returns {block.dtype} for {pair}, whose values are {dtype}")
            return block.astype(dtype)
        return block

    def jvp(self, x: Mapping[str, Any], direction: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a tangent, which names only the inputs that it moves."""
        moved = [token for token in self.inputs.tokens if np.any(direction[token])] or list(self.inputs.tokens)
        result = self._client.call(
            "jacobian_vector_product",
            inputs=self._at(x),
            jvp_inputs=[self.inputs.path(token) for token in moved],
            jvp_outputs=[self.outputs.path(token) for token in self.outputs.tokens],
            tangent_vector=self.inputs.named(direction, moved),
        )
        answer = self.outputs.owned(result)
        unit = _unit(self.inputs.vector(direction))
        if unit is not None:
            claims = self.claims.setdefault("jvp", self._blank())
            claims[:, unit] = returned("jvp", answer, self.outputs.layout, "apply's output")[0]
        return answer

    def vjp(self, x: Mapping[str, Any], cotangent: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a cotangent, which names only the outputs that it weighs."""
        weighed = [token for token in self.outputs.tokens if np.any(cotangent[token])] or list(self.outputs.tokens)
        result = self._client.call(
            "vector_jacobian_product",
            inputs=self._at(x),
            vjp_inputs=[self.inputs.path(token) for token in self.inputs.tokens],
            vjp_outputs=[self.outputs.path(token) for token in weighed],
            cotangent_vector=self.outputs.named(cotangent, weighed),
        )
        answer = self.inputs.owned(result)
        unit = _unit(self.outputs.vector(cotangent))
        if unit is not None:
            claims = self.claims.setdefault("vjp", self._blank())
            claims[unit] = returned("vjp", answer, self.inputs.layout, "the inputs")[0]
        return answer

    def relabelled(self, text: str) -> str:
        """Return a text of fdcheck with Tesseract's paths and names of endpoints."""
        text = _TOKEN.sub(lambda found: self._path(found[0]), text).replace("apply raised Raised: ", "apply raised ")
        return re.sub(r"(^|the )(jvp|vjp)\b", lambda found: found[1] + _LONG[found[2]], text)

    def _path(self, token: str) -> str:
        own = self.inputs if token.startswith("tessin") else self.outputs
        return own.path(token)

    def report(self, report: Report) -> Report:
        """Return a report of fdcheck with Tesseract's paths and names of endpoints."""
        cover = report.coverage
        return dataclasses.replace(
            report,
            findings=tuple(self._renamed(finding) for finding in report.findings),
            pairs=tuple(self._renamed(pair) for pair in report.pairs),
            coverage=dataclasses.replace(
                cover, elements={self.relabelled(path): counts for path, counts in cover.elements.items()}
            ),
            endpoint_calls={_LONG.get(name, name): calls for name, calls in report.endpoint_calls.items()},
            contract_calls={_LONG.get(name, name): calls for name, calls in report.contract_calls.items()},
            notes=tuple(self.relabelled(note) for note in report.notes),
            diagnoses=tuple(self._told(diagnosis) for diagnosis in report.diagnoses),
            settings={},
            evidence=tuple(
                part.renamed(_LONG.get(part.endpoint, part.endpoint), self.relabelled) for part in report.evidence
            ),
        )

    def _told(self, diagnosis: Diagnosis) -> Diagnosis:
        return dataclasses.replace(
            diagnosis,
            endpoint=_LONG.get(diagnosis.endpoint, diagnosis.endpoint),
            message=self.relabelled(diagnosis.message),
            repair=self.relabelled(diagnosis.repair),
        )

    def _renamed(self, part: _Part) -> _Part:
        changes: dict[str, Any] = {
            "endpoint": _LONG.get(part.endpoint, part.endpoint),
            "input": self.relabelled(part.input),
            "output": self.relabelled(part.output),
        }
        if isinstance(part, Finding):
            changes["message"] = self.relabelled(part.message)
        return dataclasses.replace(part, **changes)

    def _at(self, x: Mapping[str, Any]) -> Any:
        """Return the payload's inputs at a point."""
        return paths.with_values(self._payload, {parts: x[token] for token, parts in self.inputs.places.items()})

    def _arrays_in(self, payload: Any, patterns: Mapping[str, Any]) -> dict[tuple[Part, ...], NDArray[Any]]:
        """Return the differentiable arrays of a payload, by the parts of their paths."""
        found: dict[tuple[Part, ...], NDArray[Any]] = {}
        absent, others = [], []
        for pattern, about in patterns.items():
            present = list(paths.expanded(paths.parsed(pattern, "input schema"), payload))
            absent += [] if present else [pattern]
            for parts in present:
                array = _decoded(paths.value_at(payload, parts), about)
                if array is None or not trees.is_differentiable(array):
                    others.append(paths.written(parts))
                else:
                    found[parts] = array
        if absent:
            self.remarks.append("not in the payload, not checked: " + ", ".join(absent))
        if others:
            self.remarks.append("holds no floating array here, not checked: " + ", ".join(others))
        return found

    def _first_result(self) -> Any:
        """Return what apply gives at the payload."""
        try:
            return self._client.apply(paths.with_values(self._payload, {}))
        except Exception as error:
            from pydantic import ValidationError

            if isinstance(error, ValidationError):
                raise InvalidInput(f"inputs: {self._client.name} does not accept them: {told(error)}") from error
            raise InvalidInput(f"inputs: apply of {self._client.name} raised {told(error)}") from error


def _unit(vector: NDArray[np.float64]) -> int | None:
    """Return which unit vector a vector is, None if it is none."""
    moved = np.flatnonzero(vector)
    return int(moved[0]) if len(moved) == 1 and vector[moved[0]] == 1.0 else None


def _decoded(value: Any, about: Mapping[str, Any]) -> NDArray[Any] | None:
    """Return a value of the payload as the array that Tesseract makes of it, None if it is no array."""
    from pydantic import TypeAdapter, ValidationError
    from tesseract_core.runtime import Array

    shape = about.get("shape")
    kind: Any = Array[... if shape is None else tuple(shape), about.get("dtype")]
    try:
        return np.array(TypeAdapter(kind).validate_python(value, context={"base_dir": "."}))
    except (ValidationError, ValueError, OSError):
        return None  # such as a string where the schema allows both; a mistake is told by apply
