r"""
Complex derivatives and their conventions
=========================================

The derivative of a complex function is a real matrix of two by two for each entry, and libraries disagree
about which part of it a vjp returns. A claim in the wrong convention is right wherever the derivative happens
to be real.
"""

import matplotlib.pyplot as plt
import numpy as np

import fdcheck

# %%
# For a holomorphic function fdcheck, like PyTorch, expects the cotangent times the *conjugate* of the
# derivative. JAX multiplies with the derivative itself. Both on the roots of :math:`z^2`, at points around a
# circle:

angles = np.linspace(0, 2 * np.pi, 16, endpoint=False)
z0 = 1.5 * np.exp(1j * angles)


def square(z):
    return z**2


def adjoint(z, ct):
    return np.conj(2 * z) * ct


def transposed(z, ct):
    return 2 * z * ct


print(fdcheck.verify(square, z0, vjp=adjoint).verdict)
report = fdcheck.verify(square, z0, vjp=transposed)
print(report.verdict)
for diagnosis in report.diagnoses:
    print(diagnosis.message)

# %%
# To the vjp of a library of the other kind: conjugate what goes in and what comes out.

print(fdcheck.verify(square, z0, vjp=lambda z, ct: np.conj(transposed(z, np.conj(ct)))).verdict)

# %%
# Where the two differ: the gradient of the real part of each output, as an arrow at its point. On the real
# axis the conventions agree, so a test at real points alone would pass both.

figure, axes = plt.subplots(figsize=(5.5, 5.2), layout="constrained")
conventions = {"conjugate of the derivative": (adjoint, "tab:green"), "the derivative": (transposed, "tab:red")}
for name, (vjp, colour) in conventions.items():
    arrow = vjp(z0, np.ones_like(z0))
    parts = z0.real, z0.imag, arrow.real, arrow.imag
    axes.quiver(*parts, color=colour, angles="xy", scale=25, width=0.006, label=name, alpha=0.8)
grid = np.linspace(-2.4, 2.4, 101)
x, y = np.meshgrid(grid, grid)
axes.contour(x, y, square(x + 1j * y).real, levels=15, colors="grey", linewidths=0.5)
axes.set(xlabel="Re z", ylabel="Im z", title="Re z², and its gradient in two conventions", aspect="equal")
axes.legend(loc="lower right", fontsize=8)
plt.show()

# %%
# Only the green arrows stand across the contour lines and point uphill. A function that is not holomorphic
# has no single complex derivative; its jvp and vjp are checked all the same. More:
# :doc:`/guides/complex_numbers`.

z = np.array([1 + 2j, 0.5 - 1j])
print(fdcheck.verify(lambda z: np.abs(z), z, vjp=lambda z, ct: ct * z / np.abs(z)).verdict)
