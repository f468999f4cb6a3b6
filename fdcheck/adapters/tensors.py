"""Functions of tensors, in torch and packages made like it, as functions of NumPy arrays with their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.adapters.inputs import Framework, Slot, slots_of
from fdcheck.results import InvalidInput

Array = NDArray[Any]


class TensorProblem:
    """A function of tensors as apply, vjp and jvp on arrays.

    Parameters
    ----------
    framework : Framework
        Whose tensors it takes.
    function : callable
        The user's, of all inputs, returning a tensor or a tuple or list of tensors.
    inputs : sequence
        All inputs.
    masked : bool
        Whether only the specified elements of sparse tensors are looked at.
    omitted : sequence of int
        Outputs that are left out.
    strided : bool
        Whether cotangents are made noncontiguous.

    Notes
    -----
    x is ``{"inputs": [array, None, ...]}`` with None in the place of what requires no gradient, y is
    ``{"outputs": [array, ...]}``: all outputs that require a gradient; if none does, all, with a derivative of zero.
    """

    def __init__(
        self,
        framework: Framework,
        function: Callable[..., Any],
        inputs: Any,
        masked: bool,
        omitted: Sequence[int] = (),
        strided: bool = False,
    ) -> None:
        self.framework = framework
        self.inputs = [inputs] if framework.is_tensor(inputs) else list(inputs)
        self.slots = slots_of(framework, self.inputs, masked)
        self.x0 = self._as_x([slot.array() for slot in self.slots])
        self.function = function
        self.strided = strided
        leaves = [self._leaf(slot, values) for slot, values in zip(self.slots, self.arrays(self.x0), strict=True)]
        results = self._all_outputs(self._called(leaves))
        live = [k for k, result in enumerate(results) if result.requires_grad and k not in omitted]
        self.has_gradient = bool(live)
        self.chosen = live or [k for k in range(len(results)) if k not in omitted]
        self.like = [results[k].detach() for k in self.chosen]
        self._graph: tuple[list[bytes], list[Any], list[Any]] | None = None
        self.wide = self._is_wide()
        self.odd_dtypes: set[str] = set()

    def apply(self, x: Any) -> Any:
        """Return the chosen outputs at x."""
        like = self.framework.module.ones(1, dtype=self.framework.module.float32) if self.wide else None
        leaves = [self._leaf(slot, v, like) for slot, v in zip(self.slots, self.arrays(x), strict=True)]
        return {"outputs": [self.framework.array(output) for output in self._chosen(self._called(leaves, self.wide))]}

    def vjp(self, x: Any, cotangent: Any) -> Any:
        """Return the gradient at x of the outputs weighted with a cotangent, by reverse differentiation."""
        if not self.has_gradient:
            return None
        leaves, outputs = self.graph(x)
        given = self.cotangents(cotangent)
        gradients = self.grad(outputs, leaves, given, retain_graph=True)
        for tensor, array in zip(given, cotangent["outputs"], strict=True):
            after = self.framework.array(tensor)
            if not np.array_equal(after, array, equal_nan=True):
                array[...] = after  # where memory is not shared: what was changed in place is to be seen
        return self._as_x(self._parts(gradients))

    def jvp(self, x: Any, tangent: Any) -> Any:
        """Return the change of the outputs at x along a tangent, by forward differentiation."""
        primals, tangents = self.primals(x), self.primals(tangent)
        result = self.framework.jvp(self.outputs_of, primals, tangents)
        return {"outputs": [None if t is None else self.framework.array(t) for t in result]}

    def vjp_undefined(self, x: Any, cotangent: Any, undefined: Collection[int]) -> Any:
        """Return the gradient at x where the cotangents of some outputs are undefined, which is not zero but None."""
        leaves, outputs = self.graph(x, fresh=True)
        lost = [self.framework.undefined(o) if k in undefined and o.requires_grad else o for k, o in enumerate(outputs)]
        return self.unpacked(self.grad(lost, leaves, self.cotangents(cotangent)))

    def vjp_of_vjp(self, x: Any, cotangent: Any, v: Any) -> Any:
        """Return the gradients of the gradient, weighted with v, by x and by the cotangent: reverse over reverse."""
        leaves, outputs = self.graph(x, fresh=True)
        given = [tensor.detach().requires_grad_(True) for tensor in self.cotangents(cotangent)]
        first = self.grad(outputs, leaves, given, create_graph=True)
        weights = [self.framework.tensor(values, slot.tensor) for slot, values in self._zip(self.arrays(v))]
        live = [
            (slot.part(gradient), weight)
            for slot, gradient, weight in zip(self.slots, first, weights, strict=True)
            if gradient is not None and gradient.requires_grad
        ]
        if not live:
            return None, None
        gradients, weights = ([pair[k] for pair in live] for k in (0, 1))
        second = self.grad(gradients, [*leaves, *given], weights)
        n = len(leaves)
        by_cotangent = [None if g is None else self.framework.array(g) for g in second[n:]]
        return self._as_x(self._parts(second[:n])), {"outputs": by_cotangent}

    def jvp_of_vjp(self, x: Any, cotangent: Any, x_tangent: Any, cotangent_tangent: Any) -> Any:
        """Return the change of the gradient along tangents of x and of the cotangent: forward over reverse."""
        n = len(self.slots)

        def gradient(*both: Any) -> list[Any]:
            leaves, given = list(both[:n]), list(both[n:])
            outputs = self._chosen(self._called(leaves))
            found = self.grad(outputs, leaves, given, create_graph=True)
            return [
                0 * leaf if g is None else slot.part(g) for slot, leaf, g in zip(self.slots, leaves, found, strict=True)
            ]

        primals = [leaf.requires_grad_(True) for leaf in (*self.primals(x), *self.cotangents(cotangent))]
        tangents = [*self.primals(x_tangent), *self.cotangents(cotangent_tangent)]
        result = self.framework.jvp(gradient, primals, tangents)
        return self._as_x([None if t is None else self.framework.array(t) for t in result])

    def outputs_of(self, *leaves: Any) -> list[Any]:
        """Return the chosen outputs, as tensors, of other tensors in the place of those that require a gradient."""
        return self._chosen(self._called(leaves))

    def gradient(self, cotangent: Any) -> tuple[Callable[..., Any], list[Any]]:
        """Return the vjp as a function of tensors, all inputs and then the cotangents, and those tensors."""
        count = len(self.inputs)

        def function(*both: Any) -> Any:
            leaves = [both[slot.position] for slot in self.slots]
            outputs = self._chosen(self.function(*both[:count]))
            found = self.grad(outputs, leaves, both[count:], create_graph=True)
            return tuple(0 * leaf if g is None else g for leaf, g in zip(leaves, found, strict=True))

        return function, [*self.inputs, *(tensor.requires_grad_(True) for tensor in self.cotangents(cotangent))]

    def outputs_given(self, *inputs: Any) -> Any:
        """Return the chosen outputs of all inputs."""
        return tuple(self._chosen(self.function(*inputs)))

    def graph(self, x: Any, fresh: bool = False) -> tuple[list[Any], list[Any]]:
        """Return leaves and outputs at x; those of the last x are kept, since a vjp is asked for at the same x."""
        values = self.arrays(x)
        key = [value.tobytes() for value in values]
        if fresh or self._graph is None or self._graph[0] != key:
            leaves = [self._leaf(slot, value.copy("K")) for slot, value in self._zip(values)]
            kept = (key, leaves, self._chosen(self._called(leaves)))
            if fresh:
                return kept[1:]
            self._graph = kept
        return self._graph[1:]

    def grad(self, outputs: Sequence[Any], leaves: Sequence[Any], given: Sequence[Any], **options: bool) -> list[Any]:
        """Return the gradients of the leaves, None where there is none; outputs without a graph count as constant."""
        live = [(output, tensor) for output, tensor in zip(outputs, given, strict=True) if output.requires_grad]
        if not live:
            return [None] * len(leaves)
        found = self.framework.module.autograd.grad(
            [output for output, _ in live], list(leaves), [tensor for _, tensor in live], allow_unused=True, **options
        )
        return list(found)

    def cotangents(self, cotangent: Any) -> list[Any]:
        """Return a cotangent as tensors like the outputs."""
        arrays = cotangent["outputs"]
        made = [self.framework.tensor(array, like) for array, like in zip(arrays, self.like, strict=True)]
        return [self.framework.module.stack([c, c], -1)[..., 0] for c in made] if self.strided else made

    def primals(self, x: Any) -> list[Any]:
        """Return x, or a tangent, as tensors like the inputs that require a gradient, without one."""
        return [slot.leaf(values) for slot, values in self._zip(self.arrays(x))]

    def unpacked(self, gradients: Sequence[Any]) -> Any:
        """Return gradients as a structure like x."""
        return self._as_x(self._parts(gradients))

    def _parts(self, gradients: Sequence[Any]) -> list[Array | None]:
        parts: list[Array | None] = []
        for slot, gradient in self._zip(gradients):
            if gradient is not None and gradient.dtype != slot.tensor.dtype:
                self.odd_dtypes.add(f"inputs[{slot.position}] is {slot.tensor.dtype}, its gradient {gradient.dtype}")
            parts.append(None if gradient is None else self.framework.array(slot.part(gradient)))
        return parts

    def _leaf(self, slot: Slot, values: Any, like: Any = None) -> Any:
        return slot.leaf(values, like).requires_grad_(True)

    def _called(self, leaves: Sequence[Any], wide: bool = False) -> Any:
        """Return what the function gives with other tensors in the place of those that require a gradient."""
        arguments = list(self.inputs)
        if wide:
            arguments = [self._widened(value) for value in arguments]
        for slot, leaf in self._zip(leaves):
            arguments[slot.position] = leaf
        return self.function(*arguments)

    def _widened(self, value: Any) -> Any:
        short = self.framework.is_tensor(value) and value.dtype == self.framework.module.bfloat16
        return value.detach().to(self.framework.module.float32) if short else value

    def _is_wide(self) -> bool:
        """Return whether the function can be measured in float32 where its inputs are bfloat16."""
        if not self.has_bfloat16:
            return False
        try:
            self.wide = True
            self.apply(self.x0)
        except Exception:  # weights of its own in bfloat16, for one
            return False
        return True

    @property
    def eps(self) -> float:
        """Eps of bfloat16 if something is computed in it, else 0: that of the arrays says it all."""
        return 2.0**-7 if self.has_bfloat16 else 0.0

    @property
    def has_bfloat16(self) -> bool:
        """Whether an input that requires a gradient is bfloat16."""
        return any(slot.tensor.dtype == self.framework.module.bfloat16 for slot in self.slots)

    def _all_outputs(self, result: Any) -> list[Any]:
        """Return the floating and complex outputs, with strides."""
        several = result if isinstance(result, tuple | list) else [result]
        found = [self.framework.dense(value) for value in several if self.framework.is_differentiable(value)]
        if not found:
            raise InvalidInput(
                "func: expected a floating or complex tensor, or a tuple of them, got "
                + ", ".join(type(value).__name__ for value in several)
            )
        return found

    def _chosen(self, result: Any) -> list[Any]:
        outputs = self._all_outputs(result)
        return [outputs[k] for k in self.chosen]

    def arrays(self, x: Any) -> list[Array]:
        """Return the arrays that x, or a tangent, holds."""
        return [np.asarray(x["inputs"][slot.position]) for slot in self.slots]

    def _zip(self, values: Sequence[Any]) -> Any:
        return zip(self.slots, values, strict=True)

    def _as_x(self, values: Sequence[Any]) -> Any:
        arrays: list[Any] = [None] * len(self.inputs)
        for slot, value in self._zip(values):
            arrays[slot.position] = value
        return {"inputs": arrays}
