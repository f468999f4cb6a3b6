"""Recommended steps as lines to paste: for fdcheck, and for other programs that take plain differences."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from fdcheck.advice import EpsAdvice, EpsPath

_DEVIATE = 4.0
"""Largest normal deviate to expect: one in 16,000 is larger."""


@dataclass(frozen=True)
class Paste:
    """Lines for one program.

    Parameters
    ----------
    program : str
        Whose.
    lines : tuple of str
        What to paste, and a comment where it needs one.
    """

    program: str
    lines: tuple[str, ...]


def pasted(advice: EpsAdvice) -> tuple[Paste, ...]:
    """Return lines to paste for each program; those that take one step for all inputs only where one is safe for all.

    Parameters
    ----------
    advice : EpsAdvice
        The result of recommend_eps.
    """
    steps = advice.eps_for
    if not steps:
        return ()
    found = [
        Paste("fdcheck", (f"eps_for={steps!r}", _options(steps))),
        Paste(
            "Tesseract",
            (
                "tesseract-runtime check-gradients @payload.json "
                + _options({_tesseract(path): step for path, step in steps.items()}),
            ),
        ),
    ]
    step = one_step(advice)
    if step is not None:
        found += [
            Paste("torch", (f"torch.autograd.gradcheck(apply, inputs, eps={step!r})",)),
            Paste("jax", (f"jax.test_util.check_grads(apply, args, order=1, eps={_jax(advice, step)!r})",)),
        ]
    return (*found, Paste("SciPy", _scipy(advice)), Paste("OpenMDAO", _openmdao(steps)))


def one_step(advice: EpsAdvice) -> float | None:
    """Return a step that is safe for all inputs, None where there is no such step.

    Parameters
    ----------
    advice : EpsAdvice
        The result of recommend_eps.
    """
    usable = [path for path in advice.paths if math.isfinite(path.eps)]
    if len(usable) == 1:
        return usable[0].eps
    low, high = _common(usable)
    if not low <= high:
        return None
    middle = math.exp(sum(math.log(path.eps) for path in usable) / len(usable))
    step = 2.0 ** round(math.log2(min(max(middle, low), high)))
    return step if low <= step <= high else math.sqrt(low * high)


def _common(paths: Sequence[EpsPath]) -> tuple[float, float]:
    """Return the ends of the range that is safe for all paths, NaN where one has none."""
    if not paths or any(math.isnan(path.low) for path in paths):
        return math.nan, math.nan
    return max(path.low for path in paths), min(path.high for path in paths)


def _jax(advice: EpsAdvice, step: float) -> float:
    """Return a step for jax, which moves along normal deviates: the farthest of them is to stay in the safe range."""
    low, high = _common([path for path in advice.paths if math.isfinite(path.eps)])
    return min(step, max(low, high / _DEVIATE)) if low <= high else step


def _options(steps: dict[str, float]) -> str:
    """Return steps as options of a command."""
    return " ".join(f"--eps-for {shlex.quote(f'{path}={step!r}')}" for path, step in steps.items())


def _tesseract(path: str) -> str:
    """Return a path as Tesseract writes it, with keys as those of a dict."""
    return re.sub(r"\[(?:'([^']*)'|\"([^\"]*)\")\]", r".{\1\2}", re.sub(r"\[(\d+)\]", r".[\1]", path))


def _scipy(advice: EpsAdvice) -> tuple[str, ...]:
    """Return steps as SciPy takes them, for x0 as one vector: absolute, and relative to its elements."""
    steps, sizes = [], []
    for path in advice.paths:
        block = next(block for block in advice.blocks if block.input == path.input)
        steps.append(path.eps)
        sizes.append(math.prod(block.eps.shape[block.noise.ndim :]))
    if any(math.isnan(step) for step in steps):
        return ("# not for all inputs: some have no step at all",)
    one = f"abs_step = {steps[0]!r}"
    several = f"abs_step = np.repeat({steps!r}, {sizes!r})"
    order = f"  # of {', '.join(path.input for path in advice.paths)}, one after the other" if len(steps) > 1 else ""
    return (
        f"{one if len(steps) == 1 else several}{order}",
        'approx_derivative(fun, x0, method="3-point", abs_step=abs_step)',
        "rel_step = abs_step / np.abs(x0)  # where no element of x0 is zero",
        'minimize(fun, x0, jac="3-point", options={"finite_diff_rel_step": rel_step})',
        'least_squares(fun, x0, jac="3-point", diff_step=rel_step)',
    )


def _openmdao(steps: dict[str, float]) -> tuple[str, ...]:
    """Return steps as a component of OpenMDAO declares them."""
    return tuple(
        f'self.declare_partials("*", {path!r}, method="fd", form="central", step_calc="abs", step={step!r})'
        for path, step in steps.items()
    )
