"""
Do the error bars hold?
=======================

An error bar is worth something only if the truth lies within it. Here are 300 random functions with known
derivatives, in two precisions, and how far the measured derivative really is from the truth.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# Sums of a sine, an exponential and a rational term, with random frequencies and at random points of all
# sizes:


def random_function(draw):
    """Return a function, its derivative and a point."""
    a, b, c = map(float, draw.normal(size=3))  # of NumPy's type they would make float64 of float32
    rate, size = float(10 ** draw.uniform(-1, 1)), float(10 ** draw.uniform(-4, 4))

    def f(x):
        t = x / x.dtype.type(size)
        return a * np.sin(rate * t) + b * np.exp(-t) + c / (1 + t * t)

    def slope(x):
        t = x / size
        return (a * rate * np.cos(rate * t) - b * np.exp(-t) - 2 * c * t / (1 + t * t) ** 2) / size

    return f, slope, size * draw.uniform(0.3, 1.7)


figure, axes = plt.subplots(figsize=(6, 4.8), layout="constrained")
for dtype in (np.float64, np.float32):
    draw = np.random.default_rng(7)
    errors, bars = [], []
    for _ in range(150):
        f, slope, point = random_function(draw)
        x0 = dtype(point)
        found = fdcheck.differentiate(f, x0)
        scale = abs(slope(float(x0)))
        errors.append(abs(float(found.value) - slope(float(x0))) / scale)
        bars.append(float(found.error) / scale)
    ratio = np.array(errors) / np.array(bars)
    print(
        f"{dtype.__name__}: {np.mean(ratio <= 1):.0%} of the bars hold, and the worst error is {ratio.max():.2f} bars"
    )
    axes.loglog(bars, np.maximum(errors, 1e-17), ".", alpha=0.6, label=dtype.__name__)
line = np.array([1e-15, 1])
axes.loglog(line, line, color="grey", linewidth=1, label="bar = error")
axes.set(xlabel="error bar, relative", ylabel="true error, relative")
axes.legend(fontsize=8)
plt.show()

# %%
# Dots below the line are bars that hold. A verdict of ``fail`` rests on them: a claim has to be off by more
# than the bar *and* the tolerance. In float32 many dots lie on the line, and a few just above it: there the bar is the
# curvature that the step has left, measured, and that is the error itself.
