"""Ten differentiable elements on six paths, ten output elements on three; counts the calls that really come."""

from collections import Counter

import numpy as np
from pydantic import BaseModel
from tesseract_core.runtime import Array, Differentiable, Float64

CALLS = Counter()


class Layer(BaseModel):
    w: Differentiable[Array[(None,), Float64]]


class InputSchema(BaseModel):
    gains: dict[str, Differentiable[Float64]]
    layers: list[Layer]
    x: Differentiable[Array[(None,), Float64]]
    bias: Differentiable[Float64]
    offset: Float64 = 0.0
    steps: int = 1
    extra: Differentiable[Array[(None,), Float64]] | None = None


class OutputSchema(BaseModel):
    y: Differentiable[Array[(None, None), Float64]]
    parts: dict[str, Differentiable[Array[(None,), Float64]]]
    energy: Differentiable[Float64]
    count: int


def leaves(inputs):
    """Return the differentiable inputs by path."""
    found = {"gains." + "{" + key.replace("{", "\\{").replace("}", "\\}") + "}": v for key, v in inputs.gains.items()}
    found |= {f"layers.[{k}].w": layer.w for k, layer in enumerate(inputs.layers)}
    return found | {"x": inputs.x, "bias": inputs.bias}


def vector(inputs):
    return np.concatenate([np.ravel(leaf) for leaf in leaves(inputs).values()])


MIX = np.cos(np.arange(20.0).reshape(2, 10))
"""Weights of the last output, and of what is added to the other ones."""


def outputs(v):
    """Return y as six numbers, three parts and the energy, in one vector."""
    return np.concatenate([np.sin(v[:6]) * v[4:10], v[7:10] ** 2 + MIX[0] @ v, [np.exp(0.1 * MIX[1] @ v)]])


def matrix(v):
    """Return the derivative of ``outputs``."""
    rows = np.zeros((10, 10))
    for k in range(6):
        rows[k, k] += np.cos(v[k]) * v[4 + k]
        rows[k, 4 + k] += np.sin(v[k])
    rows[6:9] = MIX[0]
    for k in range(3):
        rows[6 + k, 7 + k] += 2 * v[7 + k]
    rows[9] = 0.1 * MIX[1] * np.exp(0.1 * MIX[1] @ v)
    return rows


OUTPUTS = {"y": (slice(0, 6), (2, 3)), "parts.{p.q}": (slice(6, 9), (3,)), "energy": (slice(9, 10), ())}


def blocks(inputs):
    """Return the columns of each input, with its shape."""
    found, start = {}, 0
    for path, leaf in leaves(inputs).items():
        size = np.size(leaf)
        found[path] = slice(start, start + size), np.shape(leaf)
        start += size
    return found


def apply(inputs: InputSchema) -> OutputSchema:
    CALLS["apply"] += 1
    out = outputs(vector(inputs)) + inputs.offset
    found = {path: out[rows].reshape(shape) for path, (rows, shape) in OUTPUTS.items()}
    return OutputSchema(y=found["y"], parts={"p.q": found["parts.{p.q}"]}, energy=found["energy"], count=inputs.steps)


def jacobian(inputs: InputSchema, jac_inputs: set[str], jac_outputs: set[str]):
    CALLS["jacobian"] += 1
    whole, columns = matrix(vector(inputs)), blocks(inputs)
    return {
        output: {
            source: whole[OUTPUTS[output][0], columns[source][0]].reshape(OUTPUTS[output][1] + columns[source][1])
            for source in jac_inputs
        }
        for output in jac_outputs
    }


def jacobian_vector_product(inputs: InputSchema, jvp_inputs: set[str], jvp_outputs: set[str], tangent_vector):
    CALLS["jacobian_vector_product"] += 1
    whole, columns = matrix(vector(inputs)), blocks(inputs)
    answer = sum(whole[:, columns[path][0]] @ np.ravel(tangent_vector[path]) for path in jvp_inputs)
    return {path: answer[OUTPUTS[path][0]].reshape(OUTPUTS[path][1]) for path in jvp_outputs}


def vector_jacobian_product(inputs: InputSchema, vjp_inputs: set[str], vjp_outputs: set[str], cotangent_vector):
    CALLS["vector_jacobian_product"] += 1
    whole, columns = matrix(vector(inputs)), blocks(inputs)
    answer = sum(np.ravel(cotangent_vector[path]) @ whole[OUTPUTS[path][0]] for path in vjp_outputs)
    return {path: answer[columns[path][0]].reshape(columns[path][1]) for path in vjp_inputs}
