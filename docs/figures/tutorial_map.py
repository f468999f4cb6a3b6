"""The map of the tutorial's first check."""

import runpy

from matplotlib import pyplot

import fdcheck

model = runpy.run_path("../examples/population.py")


def first_vjp(x, ct):
    gradient = model["vjp"](x, ct)
    return {**gradient, "growth": gradient["growth"] / model["DT"]}


axes = pyplot.subplots(figsize=(7, 3.6))[1]
fdcheck.verify(model["apply"], model["shore"](), vjp=first_vjp).plot("map", ax=axes)
