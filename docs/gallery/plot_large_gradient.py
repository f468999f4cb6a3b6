"""
A gradient of a million entries
===============================

Moving inputs one by one takes a few calls for each of them. Beyond 1000 inputs fdcheck moves all of them
together, along random directions, and the number of calls stays the same whatever the size is.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# A sum over n inputs with its gradient, right, and wrong in one place of all.


def problem(n):
    """Return a function of n inputs, its gradient as a vjp, and a point."""
    draw = np.random.default_rng(0)
    weights, x0 = draw.uniform(0.5, 1.5, n), draw.normal(size=n)

    def total(x):
        return np.sum(weights * np.sin(x) + x**2)

    def vjp(x, ct):
        return ct * (weights * np.cos(x) + 2 * x)

    return total, vjp, x0


def spoiled(vjp, where):
    """Return a vjp with one entry half too large."""

    def wrong(x, ct):
        gradient = vjp(x, ct)
        gradient[where] *= 1.5
        return gradient

    return wrong


calls = {"one by one": {}, "together, right": {}, "together, one entry wrong": {}}
for n in (10, 100, 1_000, 10_000, 100_000, 1_000_000):
    total, vjp, x0 = problem(n)
    where = n // 3
    if n <= 1_000:
        calls["one by one"][n] = fdcheck.verify(total, x0, vjp=vjp, method="elementwise").applies
    right = fdcheck.verify(total, x0, vjp=vjp, method="probe")
    wrong = fdcheck.verify(total, x0, vjp=spoiled(vjp, where), method="probe")
    calls["together, right"][n], calls["together, one entry wrong"][n] = right.applies, wrong.applies
    named = [finding.input_index[0] for finding in wrong.findings]
    print(f"n = {n:>9,}: right {right.verdict}, wrong {wrong.verdict} and named: {named == [where]}")

# %%
# The calls that it took. The wrong entry is found by two sums with different weights, which tell its place,
# and is then measured alone.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, points), mark in zip(calls.items(), "sov", strict=True):
    axes.loglog(list(points), list(points.values()), mark + "-", label=name)
axes.set(xlabel="inputs", ylabel="calls of apply", ylim=(5, 1e4))
axes.legend()
plt.show()

# %%
# How it works and what it cannot see: :doc:`/guides/large` and :doc:`/how_it_decides`. Seconds are on
# :doc:`/benchmarks`.
