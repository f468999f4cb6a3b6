"""
Kinks, and the slopes of their two sides
========================================

At a kink there is no derivative, but two slopes. A claim between them is a subgradient, and that is the best
that one can ask for. fdcheck measures both sides, accepts what lies between them, and rejects what does not.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# A leaky relu, :math:`\max(x, x/5)`, at its kink. Its slopes are 0.2 and 1:


def leaky(x):
    return np.maximum(x, 0.2 * x)


def check(slope_at_zero):
    """Check one choice of the slope at 0."""
    return fdcheck.verify(leaky, np.array([0.0]), vjp=lambda x, ct: np.where(x == 0, slope_at_zero, 1.0) * ct)


choices = np.linspace(-0.2, 1.4, 33)
reports = [check(choice) for choice in choices]
print(check(0.5).findings[0].message)
print(check(1.3).findings[0].message)

# %%
# Left: what the check measured, the slope of each side at its steps. Right: the verdict on all the choices.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
check(0.5).plot("sides", ax=left)
colours = {"pass": "tab:green", "fail": "tab:red", "inconclusive": "tab:orange"}
x = np.linspace(-1, 1, 201)
right.plot(x, leaky(x), color="black", zorder=3)
for choice, report in zip(choices, reports, strict=True):
    right.plot(x, choice * x, color=colours[str(report.verdict)], alpha=0.4, linewidth=1)
for word in ("pass", "fail"):
    right.plot([], [], color=colours[word], label=word)
right.set(xlabel="x", ylabel="f(x), and the claimed tangents", ylim=(-0.6, 1.1))
right.legend()
plt.show()

# %%
# Beside the kink there is one right slope again, however close the kink is. A difference with a fixed step of
# 1e-6 would mix both sides there; fdcheck sees that its one-sided slopes contradict each other, and goes
# closer.

close = np.array([3e-7, -3e-7])
print(fdcheck.verify(leaky, close, vjp=lambda x, ct: np.where(x > 0, 1.0, 0.2) * ct).verdict)
print(fdcheck.verify(leaky, close, vjp=lambda x, ct: 0.6 * ct).verdict)

# %%
# More: :doc:`/guides/kinks`.
