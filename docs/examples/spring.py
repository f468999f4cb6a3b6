"""Energy of equal chains of springs, with its derivative applied forwards."""

import numpy as np


def apply(x):
    stretch = np.diff(x["position"])
    return {"energy": x["chains"] * 0.5 * np.sum(x["stiffness"] * stretch**2)}


def jvp(x, tangent):
    stretch = np.diff(x["position"])
    by_stiffness = 0.5 * stretch**2 @ tangent["stiffness"]
    by_position = (x["stiffness"] * stretch) @ np.diff(tangent["position"])
    return {"energy": x["chains"] * (by_stiffness + by_position)}
