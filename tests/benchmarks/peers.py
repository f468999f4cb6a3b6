"""fdcheck beside other ways to check a derivative, on the same functions and in the same run.

``python -m tests.benchmarks.peers`` prints a table for each function; the extra ``bench`` installs the other libraries,
and one that is missing is named as missing.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import importlib.util
import os
import platform
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from tests.benchmarks.cases import Array, Case, cases

RTOL, ATOL = 1e-3, 1e-5
"""What torch's gradcheck allows, and what a number that comes without a verdict is compared with here."""

_TURN = 0.02
"""Seconds that a checker runs when it is its turn."""

Check = Callable[[Callable[[Array], Array], Callable[[Array, Array], Array], Array], str]
"""A checker: apply, vjp and x0 to pass, fail or inconclusive."""


def _fdcheck(profile: str, apply: Any, vjp: Any, x0: Array) -> str:
    import fdcheck

    return str(fdcheck.verify(apply, x0, vjp=vjp, profile=profile).verdict)


def _close(estimate: Any, apply: Any, vjp: Any, x0: Array) -> str:
    """Compare an estimate with the rows that a vjp gives."""
    m = apply(x0).size
    claim = np.array([vjp(x0, one) for one in np.eye(m, dtype=x0.dtype)])
    return "pass" if np.allclose(claim, np.reshape(estimate, claim.shape), rtol=RTOL, atol=ATOL) else "fail"


def _scipy(apply: Any, vjp: Any, x0: Array) -> str:
    from scipy.optimize._numdiff import approx_derivative

    return _close(approx_derivative(apply, x0, method="3-point"), apply, vjp, x0)


def _numdifftools(apply: Any, vjp: Any, x0: Array) -> str:
    import numdifftools

    return _close(numdifftools.Jacobian(apply)(x0), apply, vjp, x0)


def _jacobi(apply: Any, vjp: Any, x0: Array) -> str:
    import jacobi

    return _close(jacobi.jacobi(apply, x0)[0], apply, vjp, x0)


def _gradcheck(fast: bool, apply: Any, vjp: Any, x0: Array) -> str:
    import torch

    class Wrapped(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.from_numpy(np.asarray(apply(x.detach().numpy())))

        @staticmethod
        def backward(ctx: Any, cotangent: Any) -> Any:
            (x,) = ctx.saved_tensors
            return torch.from_numpy(vjp(x.detach().numpy(), cotangent.numpy()))

    x = torch.from_numpy(x0.copy()).requires_grad_(True)
    passed = torch.autograd.gradcheck(Wrapped.apply, (x,), raise_exception=False, fast_mode=fast)
    return "pass" if passed else "fail"


@dataclass(frozen=True)
class Peer:
    """A checker, the module that it needs, and the inputs beyond which it takes minutes or all of the memory."""

    name: str
    module: str
    check: Check
    most: int = 10**9


PEERS = (
    Peer("fdcheck, default", "fdcheck", functools.partial(_fdcheck, "default")),
    Peer("fdcheck, quick", "fdcheck", functools.partial(_fdcheck, "quick")),
    Peer("scipy 3-point", "scipy", _scipy),
    Peer("numdifftools", "numdifftools", _numdifftools, 1_000),
    Peer("jacobi", "jacobi", _jacobi, 1_000),
    Peer("gradcheck", "torch", functools.partial(_gradcheck, False)),
    Peer("gradcheck, fast", "torch", functools.partial(_gradcheck, True)),
)


@dataclass(frozen=True)
class Row:
    """What one checker did with one case; the ratio is to the first checker, each run beside the other."""

    name: str
    seconds: float
    ratio: float
    applies: int
    memory: int
    on_right: str
    on_wrong: str


def is_installed(peer: Peer) -> bool:
    """Return whether the module of a checker can be imported."""
    return importlib.util.find_spec(peer.module) is not None


def compared(case: Case, peers: list[Peer], rounds: int) -> list[Row]:
    """Return a row for each checker, in the order given; all run once in every round."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of log beyond its edge, and gradcheck's about float32
        counts = [_watched(peer, case) for peer in peers]
        seconds = np.array([[_seconds(peer, case) for peer in peers] for _ in range(rounds)])
    ratio = np.median(seconds / seconds[:, :1], axis=0)
    return [
        Row(peer.name, float(best), float(times), *count)
        for peer, best, times, count in zip(peers, seconds.min(axis=0), ratio, counts, strict=True)
    ]


def _watched(peer: Peer, case: Case) -> tuple[int, int, str, str]:
    """Return applies and peak memory with the right vjp, and the verdicts on both."""
    calls = 0

    def counted(x: Array) -> Array:
        nonlocal calls
        calls += 1
        return case.apply(x)

    verdict(peer, case.apply, case.right, case.x0)  # imported and compiled
    tracemalloc.start()
    on_right = verdict(peer, counted, case.right, case.x0)
    memory = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return calls, memory, on_right, verdict(peer, case.apply, case.wrong, case.x0)


def _seconds(peer: Peer, case: Case) -> float:
    """Return the shortest of the runs that a turn has time for, at least of one."""
    shortest, begun = np.inf, time.perf_counter()
    while time.perf_counter() < begun + _TURN:
        start = time.perf_counter()
        verdict(peer, case.apply, case.right, case.x0)
        shortest = min(shortest, time.perf_counter() - start)
    return shortest


def verdict(peer: Peer, apply: Any, vjp: Any, x0: Array) -> str:
    """Return what a checker says, or the exception that it raised."""
    try:
        return peer.check(apply, vjp, x0)
    except Exception as error:
        return type(error).__name__


def table(case: Case, rows: list[Row], missing: list[str]) -> Iterator[str]:
    """Yield the lines of one table."""
    yield case.name
    yield f"  {'':18} {'time':>8} {'ratio':>7} {'applies':>8} {'memory':>9}  {'right vjp':13} wrong vjp"
    for row in rows:
        verdicts = f"{_judged(row.on_right, 'pass'):13} {_judged(row.on_wrong, 'fail')}"
        yield (
            f"  {row.name:18} {_time(row.seconds):>8} {row.ratio:>7.2f} {row.applies:>8,} "
            f"{row.memory / 1e6:>6.2f} MB  {verdicts}"
        )
    for name in missing:
        yield f"  {name}"


def _judged(verdict: str, expected: str) -> str:
    return verdict if verdict in (expected, "inconclusive") else f"{verdict} (!)"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


def stamp() -> str:
    """Return when and on what something is measured."""
    return f"{datetime.datetime.now(datetime.UTC):%d %B %Y}, {os.cpu_count()} cores, Python {platform.python_version()}"


def report(largest: int, rounds: int) -> Iterator[str]:
    """Yield the lines of all tables, after a line on what they were measured with."""
    present = [peer for peer in PEERS if is_installed(peer)]
    used = ", ".join(f"{module} {version(module)}" for module in dict.fromkeys(peer.module for peer in present))
    yield stamp()
    yield used
    for case in cases(largest):
        missing = [f"{peer.name:18} is not installed" for peer in PEERS if peer not in present]
        missing += [f"{peer.name:18} left out: too slow here" for peer in present if case.x0.size > peer.most]
        yield ""
        yield from table(case, compared(case, [p for p in present if case.x0.size <= p.most], rounds), missing)


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=10**9, help="leave out functions of more inputs")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each checker")
    options = parser.parse_args()
    for line in report(options.largest, options.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
