"""
A sparse Jacobian in colours
============================

Two inputs that share no output can be moved at the same time, and each entry is still seen by itself. Inputs
of one colour are moved together; a grid takes a handful of colours whatever its size.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy import sparse

import fdcheck

# %%
# The residual of a nonlinear diffusion problem on a ring of n cells, and its Jacobian as a SciPy sparse
# array.


def residual(u):
    return np.exp(-u) * (np.roll(u, 1) - 2 * u + np.roll(u, -1)) + u**2


def jacobian(u):
    n, rate = u.size, np.exp(-u)
    bend = np.roll(u, 1) - 2 * u + np.roll(u, -1)
    cells = np.arange(n)
    rows = np.concatenate([cells, cells, cells])
    columns = np.concatenate([cells, (cells - 1) % n, (cells + 1) % n])
    values = np.concatenate([-rate * bend - 2 * rate + 2 * u, rate, rate])
    return sparse.csr_array((values, (rows, columns)), shape=(n, n))


def point(n):
    return 1.5 + np.sin(np.linspace(0, 6, n))


# %%
# Each size is checked twice: entry by entry with the pattern, and a Jacobian in which one entry of the band
# was lost. What a pattern leaves out is found too, since the sums of its row then do not come out.


def lacking(u):
    matrix = jacobian(u).tolil()
    matrix[5, 6] = 0
    return matrix.tocsr()


sizes = [20, 100, 1_000, 5_000]
applies = []
for n in sizes:
    report = fdcheck.verify(residual, point(n), jacobian=jacobian)
    applies.append(report.applies)
    print(f"n = {n:>5}: {report.verdict}, {report.pairs[0].entries} entries, {report.applies} calls of apply")
print(report.coverage.method)
wrong = fdcheck.verify(residual, point(1_000), jacobian=lacking)
print(wrong.verdict, "-", wrong.notes[-1])

# %%
# Left: the pattern of a ring of 20 cells, coloured as its inputs can be moved together. Right: what the check
# costs, beside moving every input alone.

pattern = jacobian(point(20)).toarray() != 0
colours = np.full(20, -1)
for column in range(20):
    sharing = {colours[other] for other in range(column) if np.any(pattern[:, column] & pattern[:, other])}
    colours[column] = next(colour for colour in range(20) if colour not in sharing)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
shown = np.where(pattern, colours, np.nan)
left.imshow(shown, cmap=ListedColormap(plt.cm.tab10.colors[:5]), vmin=-0.5, vmax=4.5)
left.set(xticks=range(0, 20, 5), yticks=range(0, 20, 5), xlabel="input", ylabel="output")
left.set_title(f"{colours.max() + 1} colours")
right.loglog(sizes, applies, "o-", label="in colours")
right.loglog(sizes, [10 + 4 * n for n in sizes], "s:", label="one by one")
right.set(xlabel="inputs", ylabel="calls of apply", ylim=(10, 1e5))
right.legend()
plt.show()
