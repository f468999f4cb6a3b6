"""The gap of the one-sided slopes over the step, for a smooth function, a kink, a jump and a kink beside the point."""

import numpy as np
from matplotlib import pyplot

FUNCTIONS = {
    "smooth: exponent 1": lambda x: np.exp(x),
    "kink: exponent 0": lambda x: np.exp(x) + 0.5 * np.abs(x),
    "cusp: exponent -1/2": lambda x: np.exp(x) + 0.02 * np.sqrt(np.abs(x)),
    "jump: exponent -1": lambda x: np.exp(x) + 1e-4 * (x >= 0),
    "kink at 1e-3, beside the point": lambda x: np.exp(x) + 0.05 * np.abs(x - 1e-3),
}

steps = 2.0 ** np.arange(-22, -1)
axes = pyplot.subplots(figsize=(7, 4))[1]
for (name, f), mark in zip(FUNCTIONS.items(), "os^vx", strict=True):
    gap = np.abs(f(steps) - 2 * f(0.0) + f(-steps)) / steps
    axes.loglog(steps, gap, mark + "-", markersize=4, label=name)
axes.set(xlabel="step h", ylabel="gap K(h)")
axes.legend(fontsize=8)
