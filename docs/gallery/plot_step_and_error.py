"""
The step, and the error that it costs
=====================================

A difference quotient has two errors. A wide step sees the curvature of the function, a narrow one its
rounding. Between the two there is a best step, and it hangs on the function, on the point and on the
precision.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# The function is :math:`e^{\sin 3x}` at 0.8. Central differences over all steps, in two precisions, beside
# the true slope:


def apply(x):
    return np.exp(np.sin(3 * x))


def slope(x):
    return 3 * np.cos(3 * x) * np.exp(np.sin(3 * x))


def central_errors(dtype):
    """Return steps as they were really taken, and the relative error of the central difference at each."""
    x = np.array(0.8, dtype)
    wanted = (2.0 ** np.arange(-50 if dtype is np.float64 else -22, -1)).astype(dtype)
    above, below = x + wanted, x - wanted
    taken = (above - below).astype(np.float64)
    quotients = (apply(above) - apply(below)).astype(np.float64) / taken
    return taken / 2, np.abs(quotients / slope(float(x)) - 1)


# %%
# fdcheck is not told any of this. :func:`fdcheck.differentiate` measures the noise of the function, chooses a
# few steps, and extrapolates. Its result is drawn at the step that it names, with its true error as the dot
# and its error bar as the end of the line above it.

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
for dtype, colour in ((np.float64, "tab:blue"), (np.float32, "tab:orange")):
    steps, errors = central_errors(dtype)
    axes.loglog(steps, np.maximum(errors, 1e-17), ".-", color=colour, alpha=0.5, label=f"plain, {dtype.__name__}")
    x0 = dtype(0.8)
    found = fdcheck.differentiate(apply, x0)
    truth = slope(float(x0))
    error, bar = abs(float(found.value) / truth - 1), float(found.error) / abs(truth)
    axes.plot(2 * [float(found.eps)], [error, bar], "-", color=colour)
    axes.plot(float(found.eps), error, "o", color=colour, markeredgecolor="black", label=f"fdcheck, {dtype.__name__}")
    print(f"{dtype.__name__}: {float(found.value):.12g} +- {float(found.error):.1g}, off by {error * abs(truth):.1g}")
axes.axhline(1e-3, color="grey", linestyle=":", label="tolerance of a check")
axes.set(xlabel="step (half-width of the difference)", ylabel="relative error", ylim=(1e-17, 10))
axes.legend(fontsize=8)
plt.show()

# %%
# In float64 the dot lies below the valley of its curve, because extrapolation has removed the curvature that
# a wide step sees. In float32 there is less to gain: what is left of the curvature is in the error bar. Both
# bars hold.
#
# A fixed step of 1e-6 is a good one in float64. In float32 it is off by several per cent, and a checker that
# takes it calls right derivatives wrong.
