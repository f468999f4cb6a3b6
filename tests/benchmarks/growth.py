"""How the cost of a check grows with the number of inputs, for each method.

``python -m tests.benchmarks.growth`` prints applies and seconds; ``--figure PATH`` draws them. The extra ``bench``
installs what it takes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.benchmarks.cases import gradient
from tests.benchmarks.peers import stamp

METHODS = {"elementwise": 10**4, "probe": 10**7}
"""Methods, and the most inputs that each is measured with: 10**5 take minutes where every input is moved alone."""

LARGE = 10**3
"""Inputs from which on a growth is fitted: below, what does not grow takes the larger part."""


@dataclass(frozen=True)
class Point:
    """One check: its method, inputs, applies, seconds, and the seconds of those applies alone."""

    method: str
    n: int
    applies: int
    seconds: float
    alone: float


def measured(sizes: Sequence[int], rounds: int) -> Iterator[Point]:
    """Yield what each method costs on a right gradient of each size, the best of some rounds."""
    import fdcheck

    for n in sizes:
        case = gradient(n)

        def jacobian(x: Any, case: Any = case) -> Any:
            return case.right(x, np.ones(1))[None]

        for method, most in METHODS.items():
            if n > most:
                continue
            seconds, one = np.inf, np.inf
            for _ in range(rounds):
                start = time.perf_counter()
                report = fdcheck.verify(case.apply, case.x0, jacobian=jacobian, method=method, max_evals=n)
                middle = time.perf_counter()
                for _ in range(3):
                    case.apply(case.x0)
                end = time.perf_counter()
                seconds, one = min(seconds, middle - start), min(one, (end - middle) / 3)
            assert report.passed, report
            yield Point(method, n, report.applies, seconds, report.applies * one)


def exponent(points: Sequence[Point], name: str) -> float:
    """Return p where a cost grows as n**p, from the larger checks."""
    large = [point for point in points if point.n >= LARGE]
    sizes, costs = (np.log([getattr(point, key) for point in large]) for key in ("n", name))
    return round(float(np.polyfit(sizes, costs, 1)[0]), 2) + 0.0  # no -0.00


def table(points: Sequence[Point]) -> Iterator[str]:
    """Yield lines: every check, then how the costs of each method grow."""
    yield f"{'method':12} {'inputs':>11} {'applies':>8} {'check':>11} {'applies alone':>14} {'ratio':>6}"
    for p in points:
        seconds = f"{p.seconds:>9.4f} s {p.alone:>12.4f} s {p.seconds / p.alone:>6.2f}"
        yield f"{p.method:12} {p.n:>11,} {p.applies:>8,} {seconds}"
    for method in METHODS:
        own = [point for point in points if point.method == method]
        if sum(point.n >= LARGE for point in own) > 1:
            applies, seconds = exponent(own, "applies"), exponent(own, "seconds")
            yield f"{method}: from {LARGE:,} inputs on, applies grow as n^{applies:.2f} and seconds as n^{seconds:.2f}"


def draw(points: Sequence[Point], path: str) -> None:
    """Draw applies and seconds over the number of inputs, both axes logarithmic."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "fdcheck", "svg.fonttype": "none"}  # the same picture from the same numbers
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for method, marker in zip(METHODS, "os", strict=True):
        own = [point for point in points if point.method == method]
        n = [point.n for point in own]
        axes[0].loglog(n, [point.applies for point in own], marker=marker, label=method)
        (line,) = axes[1].loglog(n, [point.seconds for point in own], marker=marker, label=method)
        axes[1].loglog(n, [point.alone for point in own], ":", color=line.get_color(), label=f"{method}: applies alone")
    for axis, title in zip(axes, ("calls of apply", "seconds"), strict=True):
        axis.set(xlabel="inputs n", title=title)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main() -> None:
    """Print the costs, and draw them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**7, help="inputs of the largest check")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each check; the best counts")
    parser.add_argument("--figure", metavar="PATH", help="where to draw a picture, for instance cost_growth.svg")
    options = parser.parse_args()
    sizes = [10**k for k in range(2, 8) if 10**k <= options.largest]
    points = list(measured(sizes, options.rounds))
    print(stamp(), *table(points), sep="\n")
    if options.figure:
        draw(points, options.figure)


if __name__ == "__main__":
    main()
