"""
The map of a wrong Jacobian
===========================

A mistake in a derivative is seldom a single number. It is a block that was transposed, a factor, a term that
was left out, and such mistakes have a shape. A map of the errors shows it.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# A network of springs with two groups of inputs and two groups of outputs. In the vjp, somebody forgot to
# transpose the matrix that takes displacements to forces, and to count a factor of the energy.

draw = np.random.default_rng(4)
coupling = draw.normal(size=(16, 16)) + 4 * np.eye(16)


def apply(x):
    return {"force": coupling @ x["u"], "energy": 0.5 * x["k"] ** 2 * np.sin(x["u"][:12])}


def wrong_vjp(x, ct):
    by_u = coupling @ ct["force"]  # coupling.T is right
    by_u[:12] += 0.5 * x["k"] ** 2 * np.cos(x["u"][:12]) * ct["energy"]
    return {"u": by_u, "k": 0.5 * x["k"] * np.sin(x["u"][:12]) * ct["energy"]}  # 0.5 should be 1


point = {"u": draw.normal(size=16), "k": draw.uniform(1, 2, size=12)}
report = fdcheck.verify(apply, point, vjp=wrong_vjp)
print(report.verdict)
for diagnosis in report.diagnoses:
    print(f"{diagnosis.kind}: {diagnosis.message} {diagnosis.repair}")

# %%
# Rows are elements of the outputs and columns those of the inputs, in blocks by path. The two mistakes are
# two shapes: a full block with a clean diagonal, and a diagonal. On the right each entry is a point: what is
# right lies on the line, and what is half as large as it should be on a line of its own.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
report.plot("map", ax=axes[0])
report.plot("claims", ax=axes[1])
plt.show()

# %%
# The same figures are part of every page that ``report.to_html("report.html")`` writes:
# :doc:`/guides/reports`.
