from pydantic import BaseModel
from tesseract_core.runtime import Array, Differentiable, Float32


class InputSchema(BaseModel):
    x: Differentiable[Array[(None,), Float32]]


class OutputSchema(BaseModel):
    y: Differentiable[Array[(None,), Float32]]


def apply(inputs: InputSchema) -> OutputSchema:
    return OutputSchema(y=inputs.x**2)


def jacobian_vector_product(inputs, jvp_inputs, jvp_outputs, tangent_vector):
    return {"y": 2 * inputs.x * tangent_vector["x"]}


def vector_jacobian_product(inputs, vjp_inputs, vjp_outputs, cotangent_vector):
    return {"x": 3 * inputs.x * cotangent_vector["y"]}  # it should be 2
