"""
Checkers on tricky functions
============================

A checker errs in two ways: it calls a right derivative wrong, or lets a wrong one pass. Here four of them
meet functions on which one step and a fixed tolerance do not do.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize._numdiff import approx_derivative

import fdcheck

# %%
# Each function comes with its point and its derivative. All work on one number.

F32 = np.float32
FUNCTIONS = {
    "sin x": (np.sin, 0.7, np.cos),
    "sin x, float32": (np.sin, F32(0.7), np.cos),
    "x², float32, at 1e4": (np.square, F32(1e4), lambda x: 2 * x),
    "log x at 2e-6": (np.log, 2e-6, lambda x: 1 / x),
    "1e-7 sin x": (lambda x: 1e-7 * np.sin(x), 0.7, lambda x: 1e-7 * np.cos(x)),
    "x² + 1e9": (lambda x: x**2 + 1e9, 0.7, lambda x: 2 * x),
    "exp 40x": (lambda x: np.exp(40 * x), 0.7, lambda x: 40 * np.exp(40 * x)),
    "sin x at 1e9": (np.sin, 1e9, np.cos),
    "|x| beside 0": (np.abs, 1e-7, np.sign),
    "relu at 0": (lambda x: np.maximum(x, 0), 0.0, lambda x: (x > 0) * 1.0),
    "noise of 1e-7": (lambda x: x**2 + 1e-7 * np.sin(1e15 * x), 0.7, lambda x: 2 * x),
    "sqrt x at 1e-9": (np.sqrt, 1e-9, lambda x: 0.5 / np.sqrt(x)),
}

# %%
# Three rules beside fdcheck: a central difference with the step 1e-6, an absolute tolerance of 1e-5 and a
# relative one of 1e-3; the same with the step 1e-4; and SciPy's ``approx_derivative`` with its own choice of
# a step and the same tolerances.


def close(estimate, claim):
    return "pass" if np.allclose(claim, estimate, rtol=1e-3, atol=1e-5) else "fail"


def fixed(step):
    def check(f, x, claim):
        h = np.asarray(step, x.dtype)
        return close((f(x + h) - f(x - h)) / (2 * h), claim)

    return check


def scipy_rule(f, x, claim):
    return close(approx_derivative(f, np.atleast_1d(x), method="3-point").ravel()[0], claim)


def ours(f, x, claim):
    return str(fdcheck.verify(f, x, jacobian=lambda _: np.asarray(claim, x.dtype)).verdict)


CHECKERS = {"step 1e-6": fixed(1e-6), "step 1e-4": fixed(1e-4), "SciPy, 3-point": scipy_rule, "fdcheck": ours}

# %%
# Every checker sees the right derivative and one that is off by a fifth; at the kink of relu, where 0 and 1
# are both right, one of -0.2.


def judged(check, f, x, slope):
    """Return what is said of the right derivative, and of a wrong one."""
    x = np.asarray(x)
    right = np.asarray(slope(x))
    wrong = 1.2 * right if right else -0.2
    with np.errstate(all="ignore"):
        return check(f, x, right), check(f, x, wrong)


table = {name: [judged(check, *case) for case in FUNCTIONS.values()] for name, check in CHECKERS.items()}

figure, axes = plt.subplots(figsize=(8, 5.2), layout="constrained")
words = {
    ("pass", "fail"): ("right", "tab:green"),
    ("fail", "fail"): ("false alarm", "tab:red"),
    ("pass", "pass"): ("miss", "tab:purple"),
}
for column, said in enumerate(table.values()):
    for row, pair in enumerate(said):
        word, colour = words.get(pair, ("undecided" if "inconclusive" in pair else "both", "tab:orange"))
        axes.add_patch(plt.Rectangle((column - 0.47, row - 0.45), 0.94, 0.9, color=colour, alpha=0.35, linewidth=0))
        axes.text(column, row, word, ha="center", va="center", fontsize=9)
axes.set_xticks(range(len(table)), list(table))
axes.set_yticks(range(len(FUNCTIONS)), list(FUNCTIONS))
axes.set(xlim=(-0.5, len(table) - 0.5), ylim=(len(FUNCTIONS) - 0.5, -0.5))
axes.tick_params(length=0)
axes.xaxis.tick_top()
axes.spines[:].set_visible(False)
plt.show()

for name, said in table.items():
    alarms, misses = sum(pair[0] == "fail" for pair in said), sum(pair[1] == "pass" for pair in said)
    print(f"{name:15} {alarms} false alarms, {misses} misses in {len(said)} functions")

# %%
# The real packages on larger functions, and times: :doc:`/comparison`.
