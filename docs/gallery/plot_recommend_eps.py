"""
Which step for a plain difference?
==================================

Other programs ask for a step: an optimiser, a framework's checker, a finite-difference Jacobian in a solver.
fdcheck says which one to take, from where to where it is safe, and what usual steps would cost.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# A reaction rate by Arrhenius' law. Its inputs differ by seventeen orders of magnitude, so no single step
# suits them.


def rate(x):
    return x["factor"] * np.exp(-x["energy"] / (8.314 * x["temperature"]))


point = {"temperature": 350.0, "energy": 8.0e4, "factor": 1.0e13}
advice = fdcheck.recommend_eps(rate, point)
print(advice)

# %%
# What each step would cost, of two of the inputs. The shaded range is safe for a relative error of 0.001.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
advice.plot("temperature", ax=axes[0])
advice.plot("factor", ax=axes[1])
plt.show()

# %%
# The largest relative error at the steps that others take by default:

names = list(advice.paths[0].usual)
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
width = 0.8 / len(advice.paths)
for number, path in enumerate(advice.paths):
    heights = [path.error, *(path.usual[name] for name in names)]
    axes.bar(np.arange(len(heights)) + number * width, np.clip(heights, 1e-17, 10), width, label=path.input)
axes.set_yscale("log")
axes.axhline(advice.rtol, color="grey", linestyle=":")
axes.set_xticks(np.arange(len(names) + 1) + width, ["recommended", *names])
axes.set(ylabel="relative error", ylim=(1e-17, 10))
axes.legend(fontsize=8)
plt.show()

# %%
# ``advice.eps_for`` has the steps by input, and the printed advice ends with lines to paste. More:
# :doc:`/guides/choose_a_step`.
