"""A population that grows and spreads along a shore, in explicit time steps, with its adjoint by hand."""

import numpy as np

STEPS, DT = 40, 0.05


def laplacian(u):
    """Return second differences, with nothing crossing the two ends; a symmetric matrix times u."""
    return np.diff(np.pad(u, 1, mode="edge"), 2)


def step(u, x):
    """Return the population one time step later."""
    return u + u.dtype.type(DT) * (x["spread"] * laplacian(u) + x["growth"] * u * (1 - u))


def step_vjp(u, x, ct):
    """Return the gradients by u and by x of one time step, weighted by ct."""
    dt = u.dtype.type(DT)
    by_u = ct + dt * (x["spread"] * laplacian(ct) + x["growth"] * (1 - 2 * u) * ct)
    return by_u, {"spread": dt * np.sum(ct * laplacian(u)), "growth": dt * ct * u * (1 - u)}


def apply(x):
    """Return the population after all time steps."""
    u = x["start"]
    for _ in range(STEPS):
        u = step(u, x)
    return u


def vjp(x, ct):
    """Return the gradients of sum(ct * apply(x)), going back through the time steps."""
    states = [x["start"]]
    for _ in range(STEPS - 1):
        states.append(step(states[-1], x))
    spread, growth = np.zeros_like(x["spread"]), np.zeros_like(x["growth"])
    for u in reversed(states):
        ct, by_x = step_vjp(u, x, ct)
        spread, growth = spread + by_x["spread"], growth + by_x["growth"]
    return {"start": ct, "spread": spread, "growth": growth}


def shore(cells=12, dtype=np.float64):
    """Return a point: a settlement at one end, and soil that gets better."""
    place = np.linspace(0, 1, cells)
    x = {"start": 0.1 + 0.5 * np.exp(-8 * place), "spread": np.array(0.8), "growth": 1 + place**2}
    return {name: array.astype(dtype) for name, array in x.items()}
