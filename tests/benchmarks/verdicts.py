"""How often the verdict of a checker is wrong, on random functions of the kinds that are hard to difference.

``python -m tests.benchmarks.verdicts`` prints false alarms and misses by kind of function; the extras ``bench`` and
``torch`` install the other checkers, and one that is missing is named as missing.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from tests.benchmarks.cases import Array, Case
from tests.benchmarks.peers import PEERS, Peer, is_installed, stamp, verdict

INPUTS = 4
"""Inputs of each function, and as many outputs: enough for three right entries beside a wrong one."""

FACTORS = (0.0, -1.0, 0.5, 0.9, 1.1, 2.0)
"""What the wrong entry is multiplied with: dropped, a sign, a missing half, and ten per cent."""

Drawn = tuple[Callable[[Array], Array], Callable[[Array], Array], Array]
"""A function that works element by element, its slope, and a point."""


def smooth(draw: np.random.Generator) -> Drawn:
    """A sine and a parabola."""
    a, b, w = draw.normal(), draw.normal(), draw.uniform(0.5, 3)
    return lambda x: a * np.sin(w * x) + b * x * x, lambda x: a * w * np.cos(w * x) + 2 * b * x, draw.uniform(0.2, 2, 4)


def sizes(draw: np.random.Generator) -> Drawn:
    """Inputs in units in which they are tiny or huge."""
    size = 10.0 ** draw.uniform(-8, 8)
    return lambda x: np.sin(x / size), lambda x: np.cos(x / size) / size, size * draw.uniform(0.2, 1.2, INPUTS)


def offset(draw: np.random.Generator) -> Drawn:
    """A large constant added."""
    constant = 10.0 ** draw.uniform(4, 9)
    return lambda x: np.exp(x) + constant, np.exp, draw.uniform(-1, 1, INPUTS)


def small(draw: np.random.Generator) -> Drawn:
    """Derivatives that are small numbers."""
    size = 10.0 ** draw.uniform(-10, -6)
    return lambda x: size * np.sin(x), lambda x: size * np.cos(x), draw.uniform(0.2, 1.2, INPUTS)


def edge(draw: np.random.Generator) -> Drawn:
    """Logarithms, roots and reciprocals close to 0."""
    x0 = 10.0 ** draw.uniform(-8, -3, INPUTS)
    known = [(np.log, lambda x: 1 / x), (np.sqrt, lambda x: 0.5 / np.sqrt(x)), (lambda x: 1 / x, lambda x: -1 / x**2)]
    return *known[draw.integers(3)], x0


def fast(draw: np.random.Generator) -> Drawn:
    """A fast oscillation."""
    w = 10.0 ** draw.uniform(2, 5)
    return lambda x: np.sin(w * x), lambda x: w * np.cos(w * x), draw.uniform(0.2, 2, INPUTS)


def beside_kink(draw: np.random.Generator) -> Drawn:
    """A kink close to the point."""
    x0 = draw.uniform(0.5, 2, INPUTS)
    kink = x0 + draw.choice([-1, 1], INPUTS) * 10.0 ** draw.uniform(-9, -6, INPUTS)
    return lambda x: np.abs(x - kink) + 3 * x, lambda x: np.sign(x - kink) + 3.0, x0


def jitter(draw: np.random.Generator) -> Drawn:
    """Values that jitter, as those of a solver do."""
    noise = 10.0 ** draw.uniform(-9, -6)
    return lambda x: x * x + noise * np.sin(1e15 * x), lambda x: 2 * x, draw.uniform(0.5, 2, INPUTS)


def float32_inside(draw: np.random.Generator) -> Drawn:
    """Computed in float32, with a float64 result."""
    w = np.float32(draw.uniform(0.5, 3))
    return (
        lambda x: np.sin(w * x.astype(np.float32)).astype(np.float64),
        lambda x: w * np.cos(w * x),
        draw.uniform(0.2, 2, INPUTS).astype(np.float32).astype(np.float64),
    )


def in_float32(family: Callable[[np.random.Generator], Drawn]) -> Callable[[np.random.Generator], Drawn]:
    """Return a family whose functions work in float32 throughout."""

    def drawn(draw: np.random.Generator) -> Drawn:
        apply, slope, x0 = family(draw)
        return (
            lambda x: apply(x).astype(np.float32),
            lambda x: slope(x.astype(np.float64)).astype(np.float32),
            x0.astype(np.float32),
        )

    return drawn


FAMILIES: dict[str, Callable[[np.random.Generator], Drawn]] = {
    "smooth": smooth,
    "smooth, float32": in_float32(smooth),
    "inputs of 1e-8 to 1e8": sizes,
    "plus 1e4 to 1e9": offset,
    "derivatives of 1e-10 to 1e-6": small,
    "1e-8 to 1e-3 beside a pole": edge,
    "frequencies of 1e2 to 1e5": fast,
    "1e-9 to 1e-6 beside a kink": beside_kink,
    "jitter of 1e-9 to 1e-6": jitter,
    "float32 inside": float32_inside,
}


def drawn_case(name: str, family: Callable[[np.random.Generator], Drawn], draw: np.random.Generator) -> Case:
    """Return one random function of a family, with a right vjp and one with a wrong entry."""
    apply, slope, x0 = family(draw)
    factors = np.ones(INPUTS, x0.dtype)
    factors[draw.integers(INPUTS)] = draw.choice(FACTORS)
    return Case(
        name, apply, x0,
        right=lambda x, cotangent: slope(x) * cotangent,
        wrong=lambda x, cotangent: slope(x) * factors * cotangent,
    )  # fmt: skip


def counted(peer: Peer, cases: Sequence[Case]) -> tuple[int, int, int]:
    """Return false alarms, misses, and verdicts that say neither pass nor fail."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        right = [verdict(peer, case.apply, case.right, case.x0) for case in cases]
        wrong = [verdict(peer, case.apply, case.wrong, case.x0) for case in cases]
    return right.count("fail"), wrong.count("pass"), sum(word not in ("pass", "fail") for word in right + wrong)


def report(draws: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table: a head, one for each kind of function, and one for all of them."""
    present = [peer for peer in PEERS if is_installed(peer)]
    yield "", *(peer.name for peer in present)
    totals = np.zeros((len(present), 3), int)
    for name, family in FAMILIES.items():
        draw = np.random.default_rng([seed, *name.encode()])
        cases = [drawn_case(name, family, draw) for _ in range(draws)]
        counts = np.array([counted(peer, cases) for peer in present])
        totals += counts
        yield name, *(_cell(count, draws) for count in counts)
    yield "all", *(_cell(count, draws * len(FAMILIES)) for count in totals)


def _cell(count: Any, draws: int) -> str:
    alarms, misses, neither = 100 * np.asarray(count) / [draws, draws, 2 * draws]
    return f"{alarms:.3g} / {misses:.3g}" + (f" + {neither:.3g}" if neither else "")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100, help="functions of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    modules = dict.fromkeys(peer.module for peer in PEERS if is_installed(peer))
    names = ", ".join(f"{module} {version(module)}" for module in modules)
    print(
        f"{stamp()}: {names}", *(f"{peer.name} is not installed" for peer in PEERS if not is_installed(peer)), sep="\n"
    )
    print(f"{options.draws} functions of each kind: false alarms / misses (+ neither pass nor fail), in per cent\n")
    for first, *others in report(options.draws, options.seed):
        print(f"{first:30}", *(f"{cell:16}" for cell in others), sep="| ", flush=True)


if __name__ == "__main__":
    main()
