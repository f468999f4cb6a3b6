"""Structures, memory layouts and dtypes drawn at random: right derivatives never fail, and every bug is found.

150 draws by default; ``DRAWN_EXAMPLES=2000 pytest tests/test_drawn_structures.py`` makes as many as one likes.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pickle
from typing import Any

import numpy as np
import optree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fdcheck
from fdcheck import Status, Verdict
from fdcheck.problem import trees

EXAMPLES = int(os.environ.get("DRAWN_EXAMPLES", "150"))

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Record:
    left: Any
    right: Any


LAYOUTS = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "every other": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
    "backwards": lambda a: a[..., ::-1].copy()[..., ::-1] if a.ndim else a,
    "transposed": lambda a: a.T.copy().T,
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) if a.size else a,
}
DTYPES = ("float16", "float32", "float64", "longdouble", "complex64", "complex128")


@st.composite
def leaves(draw):
    """Draw a leaf: an array of any layout, a scalar, or something that is carried along."""
    kind = draw(st.sampled_from(["array"] * 6 + ["float", "numpy scalar", "int", "str", "none", "int array"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    if kind == "float":
        return float(rng.uniform(0.3, 1.5))
    if kind == "int":
        return 3
    if kind == "str":
        return "name"
    if kind == "none":
        return None
    if kind == "int array":
        return rng.integers(0, 9, 3)
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = () if kind == "numpy scalar" else draw(st.lists(st.integers(1, 3), max_size=3).map(tuple))
    values = rng.uniform(0.3, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(0.2, 0.8, shape)
    array = np.asarray(values).astype(dtype)
    return array[()] if kind == "numpy scalar" else LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))](array)


def containers(parts):
    few = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        few,
        few.map(tuple),
        few.map(lambda values: dict(zip("bac", values, strict=False))),
        st.tuples(parts, parts).map(lambda two: Pair(*two)),
        st.tuples(parts, parts).map(lambda two: Record(*two)),
    )


STRUCTURES = st.recursive(leaves(), containers, max_leaves=5).filter(
    lambda tree: any(trees.is_differentiable(leaf) for leaf in trees.flatten(tree)[0])
)


def flat(tree):
    return trees.flatten(tree)[0]


def like(tree, parts):
    return optree.tree_unflatten(trees.flatten(tree)[1], parts)


def moving(x):
    return [k for k, leaf in enumerate(flat(x)) if trees.is_differentiable(leaf)]


def kept(value, leaf):
    """Return a value in the dtype of a leaf, as a Python number where the leaf is one."""
    value = np.asarray(value, np.asarray(leaf).dtype)
    return value.item() if type(leaf) is float else value


def factor(x):
    """1 + 0.3 times the sum of the means of all real leaves: what couples the leaves."""
    parts = [flat(x)[k] for k in moving(x)]
    return 1.0 + 0.3 * sum(np.mean(p, dtype=np.longdouble) for p in parts if not np.iscomplexobj(p))


def apply(x):
    """Return sin of every leaf times the factor, and the other leaves as they are."""
    return like(x, [kept(np.sin(v) * factor(x), v) if k in moving(x) else v for k, v in enumerate(flat(x))])


def jvp(x, t):
    tangents, change = flat(t), 0.0
    for k in moving(x):
        if not np.iscomplexobj(flat(x)[k]):
            change += 0.3 * np.mean(tangents[k], dtype=np.longdouble)
    parts = [
        kept(np.cos(v) * factor(x) * tangents[k] + np.sin(v) * change, v) if k in moving(x) else None
        for k, v in enumerate(flat(x))
    ]
    return like(x, parts)


def vjp(x, c):
    cotangents = flat(c)
    pull = 0.3 * sum(
        np.sum(np.real(np.conj(cotangents[k]) * np.sin(flat(x)[k])), dtype=np.longdouble) for k in moving(x)
    )
    parts = []
    for k, v in enumerate(flat(x)):
        if k not in moving(x):
            parts.append(None)
            continue
        own = np.conj(np.cos(v) * factor(x)) * cotangents[k]
        parts.append(kept(own if np.iscomplexobj(v) else own + pull / np.size(v), v))
    return like(x, parts)


ENDPOINTS = {"jvp": jvp, "vjp": vjp}


# What a bug does to an endpoint ``f`` in leaf ``k``; each returns None where it can do no harm.


def changed(f, k, change):
    def wrong(x, v):
        parts = flat(f(x, v))
        parts[k] = change(parts[k], flat(x)[k], flat(v)[k])
        return like(x, parts)

    return wrong


def with_vector(f, k, change):
    def wrong(x, v):
        parts = flat(v)
        parts[k] = change(parts[k])
        return f(x, like(v, parts))

    return wrong


def is_array(x, k, size=1):
    return isinstance(flat(x)[k], np.ndarray) and np.size(flat(x)[k]) >= size


def too_large(f, x, k):
    return changed(f, k, lambda g, leaf, _: kept(1.6 * np.asarray(g), leaf))


def wrong_sign(f, x, k):
    return changed(f, k, lambda g, leaf, _: kept(-np.asarray(g), leaf))


def forgotten(f, x, k):
    return changed(f, k, lambda g, leaf, _: None)


def loses_signs(f, x, k):
    return with_vector(f, k, lambda v: kept(np.abs(v), v))


def heeds_signs_only(f, x, k):
    return with_vector(f, k, lambda v: kept(np.sign(np.real(v)), v))


def adds_a_constant(f, x, k):
    return changed(f, k, lambda g, leaf, _: kept(np.asarray(g) + 0.7, leaf))


def walks_memory(f, x, k):
    if not is_array(x, k) or sum(length > 1 for length in np.shape(flat(x)[k])) < 2:
        return None  # there is one order
    return with_vector(f, k, lambda v: np.asarray(v).ravel("K").reshape(np.shape(v)))


def flattens(f, x, k):
    return changed(f, k, lambda g, *_: np.reshape(g, (1, *np.shape(g)))) if is_array(x, k) else None


def narrows(f, x, k):
    if np.asarray(flat(x)[k]).dtype.itemsize < 8 or np.asarray(flat(x)[k]).dtype == np.complex64:
        return None
    return changed(f, k, lambda g, *_: np.asarray(g).astype(np.complex64 if np.iscomplexobj(g) else np.float32)[...])


def nests(f, x, k):
    return lambda x, v: {"result": f(x, v)}


def writes_into_its_vector(f, x, k):
    def wrong(x, v):
        result = f(x, v)
        flat(v)[k][...] = 9
        return result

    return wrong if is_array(x, k) else None


def writes_into_x(f, x, k):
    def wrong(x, v):
        result = f(x, v)
        flat(x)[k][...] = 9
        return result

    return wrong if is_array(x, k) else None


def draws(f, x, k):
    noise = np.random.default_rng(0)
    return changed(f, k, lambda g, leaf, _: kept(np.asarray(g) * noise.uniform(0.3, 1.7), leaf))


def remembers(f, x, k):
    seen = []

    def wrong(x, v):
        seen.append(x)
        return f(seen[-2] if len(seen) > 1 else x, v)

    return wrong


def raises(f, x, k):
    def wrong(x, v):
        if np.count_nonzero(np.concatenate([np.ravel(flat(v)[j]) for j in moving(x)])) > 1:
            raise FloatingPointError("dense")
        return f(x, v)

    return wrong if sum(np.size(flat(x)[j]) for j in moving(x)) > 1 else None


BUGS = (
    too_large, wrong_sign, forgotten, loses_signs, heeds_signs_only, adds_a_constant, walks_memory, flattens, narrows,
    nests, writes_into_its_vector, writes_into_x, draws, remembers, raises,
)  # fmt: skip
OF_FORM = (flattens, nests, writes_into_its_vector, writes_into_x, raises)


def drawn_check(x0, **endpoints):
    before = pickle.dumps(x0)
    strides = [leaf.strides for leaf in flat(x0) if isinstance(leaf, np.ndarray)]
    report = fdcheck.verify(apply, x0, **endpoints)
    assert pickle.dumps(x0) == before
    assert [leaf.strides for leaf in flat(x0) if isinstance(leaf, np.ndarray)] == strides
    return report


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(STRUCTURES, st.sampled_from(BUGS), st.sampled_from(sorted(ENDPOINTS)), st.integers(0, 10))
def test_right_derivatives_never_fail_and_every_bug_is_found(x0, bug, name, which):
    right = drawn_check(x0, **ENDPOINTS)
    assert right.verdict is not Verdict.FAIL, str(right)
    assert not {f.status for f in right.findings} - {Status.UNDECIDED}, str(right)
    assert all(calls <= 12 for calls in right.contract_calls.values())
    k = moving(x0)[which % len(moving(x0))]
    wrong = bug(ENDPOINTS[name], x0, k)
    is_coarse = any(np.asarray(flat(x0)[j]).dtype == np.float16 for j in moving(x0))
    if wrong is None or (is_coarse and bug not in OF_FORM):  # three digits do not show every wrong number
        return
    report = drawn_check(x0, **{name: wrong})
    assert report.verdict is Verdict.FAIL, f"{bug.__name__} in leaf {k} of {name}\n{report}"
