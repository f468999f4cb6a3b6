"""The two errors of a difference quotient, and the steps that a check takes."""

import numpy as np
from matplotlib import pyplot

import fdcheck


def apply(x):
    return np.exp(np.sin(3 * x))


def slope(x):
    return 3 * np.cos(3 * x) * np.exp(np.sin(3 * x))


x0 = np.array([0.8])
entry = fdcheck.verify(apply, x0, vjp=lambda x, ct: ct * slope(x)).evidence[0].typical
truth, steps = slope(x0)[0], 2.0 ** np.arange(-50, -1)
errors = [abs((apply(x0 + h) - apply(x0 - h))[0] / (2 * h) / truth - 1) for h in steps]
third = abs(np.diff(apply(x0 + 1e-3 * np.arange(-3, 4, 2)), 3)[0]) / 2e-3**3

axes = pyplot.subplots(figsize=(7, 4))[1]
axes.loglog(steps, errors, ".", color="grey", label="error of a central difference")
axes.loglog(steps, entry.noise / np.sqrt(2) / steps / abs(truth), "--", color="C0", label="noise / h")
axes.loglog(steps, third * steps**2 / 6 / abs(truth), "--", color="C1", label="h² |f'''| / 6")
for number, step in enumerate(entry.steps):
    axes.axvline(step.eps, color="C2", label="steps of the check" if number == 0 else None)
axes.axhline(1e-3, color="C3", linestyle=":", label="tolerance")
axes.set(xlabel="step h", ylabel="relative error", ylim=(1e-13, 10))
axes.legend(fontsize=8)
