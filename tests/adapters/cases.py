"""Small Tesseracts with what is known about their derivatives, each written as a ``tesseract_api.py`` of its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HEAD = """
from collections import Counter

import numpy as np
from pydantic import BaseModel
from tesseract_core.runtime import Array, Differentiable, Float32, Float64, Int64

CALLS = Counter()
V64, V32 = Array[(None,), Float64], Array[(None,), Float32]
"""

TAIL = '''
def arrays(inputs):
    return {name: getattr(inputs, name) for name in type(inputs).model_fields}


def apply(inputs: InputSchema) -> OutputSchema:
    CALLS["apply"] += 1
    return OutputSchema(**f(**arrays(inputs)))


def claimed(inputs):
    """Return what the endpoints say the blocks of the Jacobian are."""
    return d(**arrays(inputs))


def jacobian(inputs: InputSchema, jac_inputs: set[str], jac_outputs: set[str]):
    CALLS["jacobian"] += 1
    blocks = claimed(inputs)
    return {o: {i: blocks[o, i] for i in jac_inputs} for o in jac_outputs}


def jacobian_vector_product(inputs: InputSchema, jvp_inputs: set[str], jvp_outputs: set[str], tangent_vector):
    CALLS["jacobian_vector_product"] += 1
    blocks = claimed(inputs)
    tangents = tangent_vector.items()
    terms = lambda o: [np.tensordot(blocks[o, i], t, np.ndim(t)) for i, t in tangents if i in jvp_inputs]
    return {o: sum(terms(o)) for o in jvp_outputs}


def vector_jacobian_product(inputs: InputSchema, vjp_inputs: set[str], vjp_outputs: set[str], cotangent_vector):
    CALLS["vector_jacobian_product"] += 1
    blocks = claimed(inputs)
    cotangents = cotangent_vector.items()
    terms = lambda i: [np.tensordot(c, blocks[o, i], np.ndim(c)) for o, c in cotangents if o in vjp_outputs]
    return {i: sum(terms(i)) for i in vjp_inputs}
'''


@dataclass(frozen=True)
class Case:
    """A Tesseract, a payload, and the verdict that is right.

    Parameters
    ----------
    name : str
        What it is.
    body : str
        Source between the head and the generic endpoints: the schemas, ``f`` and the blocks ``d``.
    inputs : dict
        Payload.
    verdict : str
        What a checker should say.
    after : str
        Source after the generic endpoints, which replaces some of them.
    status : str
        Status of fdcheck's worst finding, empty for none.
    """

    name: str
    body: str
    inputs: Mapping[str, Any]
    verdict: str
    after: str = ""
    status: str = ""
    only: tuple[str, ...] = field(default=("jacobian", "jacobian_vector_product", "vector_jacobian_product"))

    def write(self, folder: Path) -> Path:
        """Write ``tesseract_api.py`` and ``inputs.json`` into a folder and return the path of the first."""
        folder.mkdir(parents=True, exist_ok=True)
        dropped = {"jacobian", "jacobian_vector_product", "vector_jacobian_product"} - set(self.only)
        gone = "\n".join(f"del {name}" for name in sorted(dropped))
        path = folder / "tesseract_api.py"
        path.write_text("\n".join([HEAD, self.body, TAIL, self.after, gone]), encoding="utf-8")
        (folder / "inputs.json").write_text(json.dumps({"inputs": self.inputs}), encoding="utf-8")
        return path


@dataclass(frozen=True)
class Ready:
    """A Tesseract that is written already, with its payload beside it; else as a Case."""

    name: str
    place: Path
    verdict: str
    status: str = ""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Payload."""
        inputs: Mapping[str, Any] = json.loads((self.place / "inputs.json").read_text(encoding="utf-8"))["inputs"]
        return inputs

    def write(self, folder: Path) -> Path:
        """Copy it into a folder and return the path of ``tesseract_api.py``."""
        shutil.copytree(self.place, folder, dirs_exist_ok=True)
        return folder / "tesseract_api.py"


def schemas(inputs: str, outputs: str) -> str:
    """Return the two schemas; each argument is lines of ``name: type``."""
    one, other = ("\n".join(f"    {line.strip()}" for line in text.split(";")) for text in (inputs, outputs))
    return f"class InputSchema(BaseModel):\n{one}\n\n\nclass OutputSchema(BaseModel):\n{other}\n"


X64 = schemas("x: Differentiable[V64]", "y: Differentiable[V64]")
X32 = schemas("x: Differentiable[V32]", "y: Differentiable[V32]")
SINE = X64 + "\nf = lambda x: {'y': np.sin(x) * 2.0}\nd = lambda x: {('y', 'x'): np.diag(2.0 * np.cos(x))}\n"
RELU = X64 + "\nf = lambda x: {'y': np.maximum(x, 0.0)}\nd = lambda x: {('y', 'x'): np.diag((x > 0) * 1.0)}\n"
TINY = X64 + "\nf = lambda x: {'y': 1e-9 * x**2}\nd = lambda x: {('y', 'x'): np.diag(3e-9 * x)}\n"
TWO = (
    schemas("a: Differentiable[V64]; b: Differentiable[V64]", "p: Differentiable[V64]; q: Differentiable[V64]")
    + """
f = lambda a, b: {"p": a * b, "q": a + b**2}
d = lambda a, b: {
    ("p", "a"): np.diag(b), ("p", "b"): np.diag(a), ("q", "a"): np.eye(len(a)), ("q", "b"): np.diag(2 * b)
}
"""
)


def scaled(factor: float) -> str:
    """Return source that multiplies every claim."""
    return f"right = claimed\nclaimed = lambda inputs: {{k: {factor} * v for k, v in right(inputs).items()}}\n"


X = {"x": [0.4, -1.2, 0.9]}
AB = {"a": [0.5, 1.5], "b": [-0.8, 0.3]}

CASES = (
    Case("right", SINE, X, "pass"),
    Case("right, two inputs and outputs", TWO, AB, "pass"),
    Ready("right, ten elements on six paths, three outputs", Path(__file__).parent / "examples" / "nested", "pass"),
    Case("x 1.5", SINE, X, "fail", scaled(1.5), "disagrees"),
    Case("x 1.05", SINE, X, "fail", scaled(1.05), "disagrees"),
    Case(
        "float32, x^2 at 1e4",
        X32 + "\nf = lambda x: {'y': x * x}\nd = lambda x: {('y', 'x'): np.diag(2 * x)}\n",
        {"x": [1e4]},
        "pass",
    ),
    Case("relu at its kink", RELU, {"x": [0.0, 1.0]}, "pass", status="kink"),
    Case("relu 5e-5 beside its kink", RELU, {"x": [5e-5, -5e-5]}, "pass"),
    Case(
        "log at 1.5e-4",
        X64 + "\nf = lambda x: {'y': np.log(x)}\nd = lambda x: {('y', 'x'): np.diag(1 / x)}\n",
        {"x": [1.5e-4]},
        "pass",
    ),
    Case(
        "jvp keeps the last input's term",
        TWO,
        AB,
        "fail",
        """
whole_jvp = jacobian_vector_product
def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    last = max(jvp_inputs)
    return whole_jvp(inputs, {last}, jvp_outputs, tangent_vector)
""",
        "nonlinear",
    ),
    Case(
        "vjp keeps the last output's term",
        TWO,
        AB,
        "fail",
        """
whole_vjp = vector_jacobian_product
def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    last = max(vjp_outputs)
    return whole_vjp(inputs, vjp_inputs, {last}, cotangent_vector)
""",
        "nonlinear",
    ),
    Case(
        "jvp = f(sign(tangent))",
        SINE,
        X,
        "fail",
        """
whole_jvp = jacobian_vector_product
def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    return whole_jvp(inputs, jvp_inputs, jvp_outputs, {k: np.sign(v) for k, v in tangent_vector.items()})
""",
        "nonlinear",
    ),
    Case(
        "Jacobian of a shape that broadcasts",
        schemas("x: Differentiable[Array[..., Float64]]", "y: Differentiable[Array[..., Float64]]")
        + "\nf = lambda x: {'y': x * np.ones(3)}\nd = lambda x: {('y', 'x'): np.ones(1)}\n",
        {"x": 0.7},
        "fail",
        status="shape",
        only=("jacobian",),
    ),
    Case(
        "one wrong entry of 1000",
        schemas("x: Differentiable[V64]", "y: Differentiable[Float64]")
        + """
f = lambda x: {"y": np.sum(np.sin(x))}
def d(x):
    row = np.cos(x)
    row[721] *= 3
    return {("y", "x"): row}
""",
        {"x": [round(0.5 + 0.001 * k, 3) for k in range(1000)]},
        "fail",
        status="disagrees",
        only=("vector_jacobian_product",),
    ),
    Case("derivatives of size 1e-9, half too large", TINY, X, "fail", status="disagrees"),
    Case(
        "an endpoint that raises",
        SINE,
        X,
        "fail",
        """
def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    CALLS["vector_jacobian_product"] += 1
    raise NotImplementedError("the adjoint is missing")
""",
        "raised",
    ),
    Case(
        "an optional input left out",
        schemas("x: Differentiable[V64]; extra: Differentiable[V64] | None = None", "y: Differentiable[V64]")
        + "\nf = lambda x, extra: {'y': np.sin(x)}\nd = lambda x, extra: {('y', 'x'): np.diag(np.cos(x))}\n",
        X,
        "pass",
    ),
    Case(
        "right at x0, wrong for the other sign",
        X64 + "\nf = lambda x: {'y': x * np.abs(x)}\nd = lambda x: {('y', 'x'): np.diag(2 * x)}\n",
        {"x": [0.5, 1.5]},
        "pass",
    ),
)

ROSENBROCK = (
    schemas("x: Differentiable[Float32]; y: Differentiable[Float32]; a: Float32 = 1; b: Float32 = 100",
            "result: Differentiable[Float32]")
    + """
f = lambda x, y, a, b: {"result": (a - x) ** 2 + b * (y - x * x) ** 2}
d = lambda x, y, a, b: {
    ("result", "x"): -2 * (a - x) - 4 * b * x * (y - x * x), ("result", "y"): 2 * b * (y - x * x)
}
"""
)  # fmt: skip


def vectoradd(kind: str) -> str:
    """Return a weighted sum of two vectors, itself and divided by its norm."""
    vector, scalar = ("V64", "Float64") if kind == "64" else ("V32", "Float32")
    return (
        schemas(
            f"a: Differentiable[{vector}]; a_scale: Differentiable[{scalar}]; b: Differentiable[{vector}]; "
            f"b_scale: Differentiable[{scalar}]",
            f"result: Differentiable[{vector}]; normed: Differentiable[{vector}]",
        )
        + """
def f(a, a_scale, b, b_scale):
    result = a_scale * a + b_scale * b
    return {"result": result, "normed": result / np.linalg.norm(result)}


def d(a, a_scale, b, b_scale):
    result = a_scale * a + b_scale * b
    size = np.linalg.norm(result)
    unit = result / size
    by_result = (np.eye(len(a), dtype=a.dtype) - np.outer(unit, unit)) / size
    one = np.eye(len(a), dtype=a.dtype)
    parts = {"a": a_scale * one, "a_scale": a, "b": b_scale * one, "b_scale": b}
    return {("result", k): v for k, v in parts.items()} | {("normed", k): by_result @ v for k, v in parts.items()}
"""
    )


MESH = """
class Mesh(BaseModel):
    points: Differentiable[Array[(None, 3), Float64]]
    faces: Array[(None, 3), Int64]


class InputSchema(BaseModel):
    mesh: Mesh


class Stats(BaseModel):
    low: Differentiable[Array[(3,), Float64]]
    high: Differentiable[Array[(3,), Float64]]
    mean: Differentiable[Array[(3,), Float64]]


class OutputSchema(BaseModel):
    stats: Stats
    area: Differentiable[Float64]


def f(mesh):
    p = mesh.points
    corner = p[mesh.faces]
    normals = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
    stats = {"low": p.min(axis=0), "high": p.max(axis=0), "mean": p.mean(axis=0)}
    return {"stats": stats, "area": 0.5 * np.linalg.norm(normals, axis=1).sum()}


def d(mesh):
    p = mesh.points
    corner = p[mesh.faces]
    low, high, mean = np.zeros((3, 3, *p.shape))
    for axis in range(3):
        low[axis, p[:, axis].argmin(), axis] = 1
        high[axis, p[:, axis].argmax(), axis] = 1
        mean[axis, :, axis] = 1 / len(p)
    area = np.zeros_like(p)
    for face, (a, b, c) in zip(mesh.faces, corner):
        normal = np.cross(b - a, c - a)
        normal /= np.linalg.norm(normal)
        for k, edge in enumerate((c - b, a - c, b - a)):
            area[face[k]] += 0.5 * np.cross(normal, edge)
    where = "mesh.points"
    return {("stats.low", where): low, ("stats.high", where): high, ("stats.mean", where): mean, ("area", where): area}
"""

LORENZ = (
    schemas("state: Differentiable[V32]", "trajectory: Differentiable[Array[(None, 3), Float32]]")
    + """
STEPS, DT = 60, np.float32(0.01)


def speed(s):
    x, y, z = s
    return np.array([10 * (y - x), x * (28 - z) - y, x * y - np.float32(8 / 3) * z], s.dtype)


def slope(s):
    x, y, z = s
    return np.array([[-10, 10, 0], [28 - z, -1, -x], [y, x, -8 / 3]], s.dtype)


def f(state):
    rows = []
    for _ in range(STEPS):
        k1 = speed(state)
        k2 = speed(state + DT / 2 * k1)
        k3 = speed(state + DT / 2 * k2)
        state = state + DT / 6 * (k1 + 2 * k2 + 2 * k3 + speed(state + DT * k3))
        rows.append(state)
    return {"trajectory": np.stack(rows)}


def d(state):
    one, rows = np.eye(3, dtype=state.dtype), []
    whole = one
    for _ in range(STEPS):
        k1, j1 = speed(state), slope(state)
        k2, j2 = speed(state + DT / 2 * k1), slope(state + DT / 2 * k1) @ (one + DT / 2 * j1)
        k3, j3 = speed(state + DT / 2 * k2), slope(state + DT / 2 * k2) @ (one + DT / 2 * j2)
        k4, j4 = speed(state + DT * k3), slope(state + DT * k3) @ (one + DT * j3)
        whole = (one + DT / 6 * (j1 + 2 * j2 + 2 * j3 + j4)) @ whole
        state = state + DT / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        rows.append(whole)
    return {("trajectory", "state"): np.stack(rows)}
"""
)

_TETRAHEDRON = {
    "points": [[0.0, 0.1, 0.2], [1.1, 0.0, 0.3], [0.2, 1.2, 0.0], [0.3, 0.4, 0.9]],
    "faces": [[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]],
}
_VECTORS = {"a": [1.0, 2.0, 3.0], "a_scale": 1.5, "b": [4.0, -5.0, 6.0], "b_scale": 0.5}

THIRD_PARTY = (
    Case("vectoradd", vectoradd("64"), _VECTORS, "pass"),
    Case(
        "vectoradd in float32, inputs of 1e5",
        vectoradd("32"),
        _VECTORS | {"a": [1e5, 2e5, 3e5], "b": [4e5, -5e5, 6e5]},
        "pass",
    ),
    Case("mesh statistics", MESH, {"mesh": _TETRAHEDRON}, "pass"),
    Case("Rosenbrock in float32 at (0, 0)", ROSENBROCK, {"x": 0.0, "y": 0.0}, "pass"),
    Case("Rosenbrock in float32 at (100, 100)", ROSENBROCK, {"x": 100.0, "y": 100.0}, "pass"),
    Case("Lorenz trajectory in float32", LORENZ, {"state": [1.5, -1.2, 20.0]}, "pass"),
)

BY_NAME = {case.name: case for case in (*CASES, *THIRD_PARTY)}
