"""
float32 beside float64
======================

Derivatives computed in float32 are right to about seven digits. What is hard is to *measure* them in float32:
a difference of two rounded values keeps a few digits at best. Tolerances made for float64 then call right
derivatives wrong.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# A layer of a network, and the same gradient in two precisions. Nothing is set: fdcheck moves a float32 input
# in float32, divides by the distance really moved, and measures the rounding as noise.

draw = np.random.default_rng(0)
weights = draw.normal(size=(12, 12)) / np.sqrt(12)
point = draw.normal(size=12)


def layer(x):
    return np.tanh(weights.astype(x.dtype) @ x)


def vjp(x, ct):
    w = weights.astype(x.dtype)
    return ((1 - np.tanh(w @ x) ** 2) * ct) @ w


def jacobian(x):
    return (1 - np.tanh(weights @ x) ** 2)[:, None] * weights


estimates = {}
for dtype in (np.float64, np.float32):
    x0 = point.astype(dtype)
    report = fdcheck.verify(layer, x0, vjp=vjp)
    off = fdcheck.verify(layer, x0, vjp=lambda x, ct: np.float32(1.01) * vjp(x, ct))
    print(f"{dtype.__name__}: right {report.verdict}, one per cent off {off.verdict}, {report.applies} calls of apply")
    estimates[dtype.__name__] = fdcheck.differentiate(layer, x0)

# %%
# How accurate is a measured entry? Left: three ways to measure the Jacobian in float32, against the exact
# one. A step of 1e-6 keeps one digit, and one of 1e-3 four. Right: fdcheck's error bar of each entry beside
# the error that it really has.

x32 = point.astype(np.float32)
exact = jacobian(x32.astype(np.float64))


def fixed(step):
    """Return the Jacobian by central differences with one step."""
    moves = np.eye(12, dtype=np.float32) * np.float32(step)
    return np.stack([(layer(x32 + move) - layer(x32 - move)) / np.float32(2 * step) for move in moves], axis=1)


measured = {"step 1e-6": fixed(1e-6), "step 1e-3": fixed(1e-3), "fdcheck": estimates["float32"].value}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for number, (name, values) in enumerate(measured.items()):
    errors = np.sort(np.abs(values - exact).ravel())
    left.semilogy(errors, ".", label=name, color=f"C{number}")
left.set(xlabel="entries, sorted", ylabel="absolute error", title="float32")
left.legend(fontsize=8)
for (name, estimate), colour in zip(estimates.items(), ("C4", "C2"), strict=True):
    errors = np.abs(estimate.value - jacobian(point.astype(name).astype(np.float64))).ravel()
    right.loglog(estimate.error.ravel(), np.maximum(errors, 1e-17), ".", color=colour, label=name)
line = np.array([1e-16, 1e-1])
right.loglog(line, line, color="grey", linewidth=1)
right.set(xlabel="error bar", ylabel="true error", title="error bars of fdcheck")
right.legend(fontsize=8)
plt.show()

# %%
# More, also on functions that work in float32 inside and look like float64: :doc:`/guides/float32`.
