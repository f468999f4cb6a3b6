"""
A solver with noise
===================

Iterations that stop at a tolerance leave the last digits of a result to chance. Small steps drown in that
noise. fdcheck measures it first, and takes steps that are wide enough.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# The function is the temperature of a wire, computed with an uncertain ninth digit. The jitter is always the
# same for the same input, as that of a program is.


def jitter(x):
    return np.random.default_rng(list(np.asarray(x).tobytes())).normal()


def temperature(x):
    return np.exp(-(x[:1] ** 2)) * (1 + 1e-9 * jitter(x))


def vjp(x, ct):
    return -2 * x * np.exp(-(x**2)) * ct


x0 = np.array([0.7])
report = fdcheck.verify(temperature, x0, vjp=vjp)
print(report)

# %%
# The same with a derivative that is one per cent off. The measurement is sharp enough to see it, noise or
# not:

wrong = fdcheck.verify(temperature, x0, vjp=lambda x, ct: 1.01 * vjp(x, ct))
print(wrong)

# %%
# Plain differences over all steps, with the steps of that check. The dashed line is what the noise alone
# costs.

steps = 2.0 ** np.arange(-40, -1)
truth = vjp(x0, 1.0)[0]
quotients = np.array([(temperature(x0 + h) - temperature(x0 - h))[0] / (2 * h) for h in steps])
finding = wrong.findings[0]

figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
axes.loglog(steps, np.abs(quotients / truth - 1), ".-", alpha=0.5, label="plain difference")
axes.loglog(steps, finding.noise / np.sqrt(2) / steps / abs(truth), "--", color="grey", label="noise, as measured")
taken = finding.steps
axes.plot(
    [step.eps for step in taken], [abs(step.slope / truth - 1) for step in taken],
    "o", color="tab:green", markeredgecolor="black", label="steps of the check",
)  # fmt: skip
axes.axhline(1e-2, color="tab:red", linestyle=":", label="error of the claim")
axes.set(xlabel="step", ylabel="relative error", ylim=(1e-10, 1e3))
axes.legend(fontsize=8)
plt.show()

# %%
# Steps of 1e-8 and below, common defaults, would have been all noise here. More on solvers, and on those that
# do not jitter but jump: :doc:`/guides/noisy_solver`.
