"""Functions of tensors, in torch and packages made like it, as functions of NumPy arrays with their derivatives."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.adapters.inputs import Framework, Slot, slots_of
from fdcheck.adapters.points import require_usable
from fdcheck.problem import trees
from fdcheck.problem.wording import described
from fdcheck.results import InvalidInput

Array = NDArray[Any]

_BFLOAT16_EPS = 2.0**-7


class TensorProblem:
    """A function of tensors as apply, vjp and jvp on arrays.

    Parameters
    ----------
    framework : Framework
        Whose tensors it takes.
    function : callable
        The user's, of all inputs, returning a tensor or a structure of them.
    inputs : sequence
        All inputs.
    masked : bool
        Whether only the specified elements of sparse tensors are looked at.
    given : sequence or None
        Cotangents of the outputs that require a gradient, or of all outputs; an output whose cotangent is None is left
        out.
    strided : bool
        Whether cotangents are made noncontiguous.

    Notes
    -----
    x is ``{"inputs": inputs}`` with arrays in the place of tensors that require a gradient and None elsewhere, y is
    ``{"outputs": outputs}`` with arrays for the outputs that require a gradient; if none does, for all, with a
    derivative of zero. A lone tensor counts as a list of one.

    Raises
    ------
    InvalidInput
        If nothing can be differentiated, or the function takes an input from elsewhere than its arguments.
    """

    def __init__(
        self,
        framework: Framework,
        function: Callable[..., Any],
        inputs: Any,
        masked: bool,
        given: Sequence[Any] | None = None,
        strided: bool = False,
    ) -> None:
        self.framework, self.function, self.masked, self.strided = framework, function, masked, strided
        arguments: Any = [inputs] if framework.is_tensor(inputs) else list(inputs)
        self.leaves: list[Any]
        self.leaves, self.in_spec = optree.tree_flatten(
            arguments,
            is_leaf=lambda node: node is not arguments and not framework.holds_moved(node),  # handed on as it is
            none_is_leaf=True,
        )
        self.slots = slots_of(framework, self.leaves, masked)
        self.x0 = self._as_x([slot.array() for slot in self.slots])
        require_usable("inputs", self.x0)
        self.odd_dtypes: set[str] = set()
        self._graph: tuple[list[bytes], list[Any], list[Any]] | None = None
        leaves = [self._leaf(slot, values) for slot, values in self._zip(self.arrays(self.x0))]
        results, self.out_spec = self._results(self._called(leaves))
        self.has_gradient = any(result is not None and result.requires_grad for result in results)
        self.chosen, self.given = self._selected(results, given)
        self._require_arguments([results[k] for k in self.chosen])
        self.like = [results[k].detach() for k in self.chosen]
        short = [*(slot.tensor.dtype for slot in self.slots), *(like.dtype for like in self.like)]
        self.wide = framework.module.bfloat16 in short
        if self.wide:
            self._require_float32()

    def _selected(self, results: Sequence[Any], given: Sequence[Any] | None) -> tuple[list[int], list[Any]]:
        """Return which outputs are looked at, and the cotangents that were given for them."""
        tensors = [k for k, result in enumerate(results) if result is not None]
        live = [k for k in tensors if results[k].requires_grad] or tensors
        if given is None:
            return live, []
        if len(given) not in (len(live), len(results)):
            raise InvalidInput(
                f"grad_outputs: expected {len(live)}, a tensor or None for each output that requires a gradient, "
                f"got {len(given)}"
            )
        places = live if len(given) == len(live) else range(len(results))
        pairs = [(k, c) for k, c in zip(places, given, strict=True) if c is not None and k in live]
        for k, cotangent in pairs:
            if tuple(cotangent.shape) != tuple(results[k].shape):
                raise InvalidInput(
                    f"grad_outputs: expected shape {tuple(results[k].shape)} for outputs[{k}], "
                    f"got {tuple(cotangent.shape)}"
                )
        if not pairs:
            raise InvalidInput("grad_outputs: expected at least one tensor, got None for all outputs")
        return [k for k, _ in pairs], [cotangent for _, cotangent in pairs]

    def _require_arguments(self, outputs: Sequence[Any]) -> None:
        """Raise where the function takes an input from elsewhere than its arguments: it would stand still there."""
        own = [slot.tensor for slot in self.slots]
        try:
            reached = self.grad(outputs, own, [self.framework.module.ones_like(output) for output in outputs])
        except Exception:  # a backward that raises is looked at later
            return
        paths = trees.structure(self.x0, "x")[1].paths
        for slot, gradient in zip(self.slots, reached, strict=True):
            if gradient is not None:
                raise InvalidInput(
                    f"func: expected to use its arguments, but it reaches {paths[slot.position]} from elsewhere, "
                    "where it cannot be moved; take it from the arguments (for the parameters of a module, "
                    "torch.func.functional_call)"
                )

    def apply(self, x: Any) -> Any:
        """Return the chosen outputs at x."""
        likes = [self._widened(slot.tensor) if self.wide else slot.tensor for slot in self.slots]
        leaves = [self._leaf(slot, v, like) for (slot, v), like in zip(self._zip(self.arrays(x)), likes, strict=True)]
        with self.framework.in_float32() if self.wide else contextlib.nullcontext():
            outputs = self._chosen(self._called(leaves, self.wide))
        return self.as_y([self.framework.array(output) for output in outputs])

    def vjp(self, x: Any, cotangent: Any) -> Any:
        """Return the gradient at x of the outputs weighted with a cotangent, by reverse differentiation."""
        if not self.has_gradient:
            return None
        leaves, outputs = self.graph(x)
        given = self.cotangents(cotangent)
        gradients = self.grad(outputs, leaves, given, retain_graph=True)
        for tensor, array in zip(given, self.values(cotangent), strict=True):
            after = self.framework.array(tensor)
            if not np.array_equal(after, array, equal_nan=True):
                array[...] = after  # where memory is not shared: what was changed in place is to be seen
        return self._as_x(self._parts(gradients))

    def jvp(self, x: Any, tangent: Any) -> Any:
        """Return the change of the outputs at x along a tangent, by forward differentiation."""
        primals = [leaf.requires_grad_(True) for leaf in self.primals(x)]  # for a function that is a gradient itself
        result = self.framework.jvp(self.outputs_of, primals, self.primals(tangent))
        return self.as_y([None if t is None else self.framework.array(t) for t in result])

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
        by_cotangent = self.as_y([None if g is None else self.framework.array(g) for g in second[n:]])
        return self._as_x(self._parts(second[:n])), by_cotangent

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
        count = len(self.leaves)

        def function(*both: Any) -> Any:
            leaves = [both[slot.position] for slot in self.slots]
            outputs = self._chosen(self.function(*self.in_spec.unflatten(both[:count])))
            found = self.grad(outputs, leaves, both[count:], create_graph=True)
            return tuple(0 * leaf if g is None else g for leaf, g in zip(leaves, found, strict=True))

        return function, [*self.leaves, *(tensor.requires_grad_(True) for tensor in self.cotangents(cotangent))]

    def outputs_given(self, *leaves: Any) -> Any:
        """Return the chosen outputs of all leaves of the inputs."""
        return tuple(self._chosen(self.function(*self.in_spec.unflatten(leaves))))

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
        pairs = zip(self.values(cotangent), self.like, strict=True)
        made = [self.framework.tensor(array, like) for array, like in pairs]
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
        everything = [self._widened(value) for value in self.leaves] if wide else list(self.leaves)
        for slot, leaf in self._zip(leaves):
            everything[slot.position] = leaf
        return self.function(*self.in_spec.unflatten(everything))

    def _widened(self, value: Any) -> Any:
        short = self.framework.is_tensor(value) and value.dtype == self.framework.module.bfloat16
        return value.detach().to(self.framework.module.float32) if short else value

    def _require_float32(self) -> None:
        """Raise where a function of bfloat16 cannot be measured in float32: NumPy has no bfloat16 to move it in."""
        try:
            self.apply(self.x0)
        except Exception as error:
            raise InvalidInput(
                "func: expected to run in float32 where inputs or outputs are bfloat16, which is too coarse for "
                f"differences, but it raised {described(error)}; pass what it holds in bfloat16 as inputs too"
            ) from error

    @property
    def measured_dtype(self) -> str:
        """The shortest dtype among inputs and outputs as they are measured, for messages."""
        arrays = [*self.arrays(self.x0), *map(self.framework.array, self.like)]
        return min((array.real.dtype for array in arrays), key=lambda dtype: dtype.itemsize).name

    @property
    def eps(self) -> float:
        """Eps of bfloat16 if gradients are computed in it, else 0: that of the arrays says it all."""
        return _BFLOAT16_EPS if self.wide else 0.0

    def _results(self, result: Any) -> tuple[list[Any], Any]:
        """Return the floating and complex outputs, with strides, None for others, and the structure of all."""
        framework = self.framework
        values, spec = trees.flatten([result] if framework.is_tensor(result) else result)
        found = [framework.dense(v, self.masked) if framework.is_differentiable(v) else None for v in values]
        if all(value is None for value in found):
            raise InvalidInput(
                "func: expected a floating or complex tensor, or a tuple of them, got "
                + (", ".join(framework.described(value) for value in values) or "nothing")
            )
        return found, spec

    def _chosen(self, result: Any) -> list[Any]:
        results, spec = self._results(result)
        if spec != self.out_spec:
            raise ValueError(f"func returned {spec}, where it had returned {self.out_spec}")
        return [results[k] for k in self.chosen]

    def arrays(self, x: Any) -> list[Array]:
        """Return the arrays that x, or a tangent, holds."""
        everything = trees.flatten(x["inputs"])[0]
        return [np.asarray(everything[slot.position]) for slot in self.slots]

    def values(self, y: Any) -> list[Array]:
        """Return the arrays that y, or a cotangent, holds."""
        everything = trees.flatten(y["outputs"])[0]
        return [np.asarray(everything[k]) for k in self.chosen]

    def _zip(self, values: Sequence[Any]) -> Any:
        return zip(self.slots, values, strict=True)

    def _as_x(self, values: Sequence[Any]) -> Any:
        everything: list[Any] = [None] * len(self.leaves)
        for slot, value in self._zip(values):
            everything[slot.position] = value
        return {"inputs": self.in_spec.unflatten(everything)}

    def as_y(self, values: Sequence[Any]) -> Any:
        """Return arrays, one for each chosen output, as y or a cotangent."""
        everything: list[Any] = [None] * self.out_spec.num_leaves
        for k, value in zip(self.chosen, values, strict=True):
            everything[k] = value
        return {"outputs": self.out_spec.unflatten(everything)}
